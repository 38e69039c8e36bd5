"""Generators: instances of a stated class, from a kind, its parameters and a seed.

The same kind, parameters and seed give the same instance, byte for byte, under the same numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.generators.kinds import Kind
    from optim.instance import Instance

__all__ = ["generate", "get_kind", "kind_names"]

_MODULES = {
    "random_graphs": "random_graphs",
    "pipeline": "pipelines",
    "figure2": "pipelines",
    "twitter": "jobs",
    "bargain": "jobs",
    "sparse_random": "task_graphs",
    "community": "task_graphs",
    "geometric": "task_graphs",
    "cluster": "rebalancing",
    "scale_in": "rebalancing",
    "joint": "rebalancing",
    "micro_dag": "model_driven",
    "application_dag": "model_driven",
    "model_dag": "model_driven",
    "eoa_random": "allocation",
    "eoa_testbed": "allocation",
    "storm_reference": "storm",
    "storm_cluster": "storm",
}


def kind_names() -> tuple[str, ...]:
    """Names of all kinds."""
    return tuple(_MODULES)


def get_kind(name: str) -> Kind:
    """Return a kind by name.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    from difflib import get_close_matches
    from importlib import import_module

    from optim.errors import InvalidInput, Problem

    if name not in _MODULES:
        close = get_close_matches(name, _MODULES, 1)
        known = f"did you mean {close[0]}?" if close else f"one of {', '.join(_MODULES)}"
        raise InvalidInput(Problem("kind", name, "is no kind of generated instance", known))
    module = import_module(f"experiments.generators.{_MODULES[name]}")
    kinds: dict[str, Kind] = module.KINDS
    return kinds[name]


def generate(kind: str, seed: int = 0, **parameters: Any) -> Instance:
    """Make an instance.

    Parameters
    ----------
    kind
        One of `kind_names`.
    seed
        Of everything random.
    **parameters
        Those of the kind; texts are read as the parameter's type.

    Raises
    ------
    InvalidInput
        An unknown kind or parameter, or a value that does not do.
    """
    return get_kind(kind).make(seed, parameters)
