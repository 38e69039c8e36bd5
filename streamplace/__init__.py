"""Placing the work of distributed stream-processing jobs on nodes.

>>> from streamplace import Instance, evaluate, solve
>>> instance = Instance.load("examples/hand-8-tasks.json")
>>> result = solve(instance)
>>> result.feasible, evaluate(instance, result.plan).imc_gain
(True, 14.0)

`Instance` or `InstanceBuilder` make a problem, `solve` a checked `Plan` for it, `evaluate` judges
any plan, `steps` orders its moves. `Method`, `Option`, `Request` and `Outcome` are for methods of
your own.

Everything is loaded on first use, so that importing the package costs next to nothing; the names
stand in ``__init__.pyi``.
"""

from typing import Any

from streamplace.packages import LIBRARY, claim

claim(LIBRARY)

from optim import lazy  # noqa: E402  (only now is it sure that this `optim` is ours)

_get, __dir__ = lazy(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("streamplace")
    return _get(name)
