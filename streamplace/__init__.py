"""Placing the work of distributed stream-processing jobs on nodes.

>>> from streamplace import Instance, solve, evaluate

Everything is loaded on first use, so that importing the package costs next to nothing; the names
stand in ``__init__.pyi``.
"""

from typing import Any

from streamplace.packages import LIBRARY, claim

claim(LIBRARY)

from optim.lazy import lazy  # noqa: E402  (only now is it sure that this `optim` is ours)

_get, __dir__ = lazy(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("streamplace")
    return _get(name)
