"""Generators: instances of a stated class, from a kind, its parameters and a seed.

The same kind, parameters and seed give the same instance, byte for byte, under the same numpy.
Others register kinds of theirs in the entry point group ``streamplace.generators``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.plugins import Plugins

if TYPE_CHECKING:
    from experiments.generators.kinds import Kind
    from optim.format.instance import Instance

__all__ = ["KINDS", "generate"]

KINDS: Plugins[Kind] = Plugins(
    group="streamplace.generators",
    noun="kind of generated instance",
    where="kind",
    declared="experiments.generators.kinds:Kind",
    listing="see `streamplace generate`",
)


def generate(kind: str, /, seed: int = 0, **parameters: Any) -> Instance:
    """Make an instance.

    Parameters
    ----------
    kind
        Name of one of `KINDS`.
    seed
        Of everything random; 0 where the kind draws nothing.
    **parameters
        Those of the kind; texts are read as the parameter's type.

    Raises
    ------
    InvalidInput
        An unknown kind or parameter, or a value that does not do.
    """
    return KINDS.get(kind).make(seed, parameters)
