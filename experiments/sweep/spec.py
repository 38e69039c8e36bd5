"""The sweep file: TOML in, a checked `Spec` out.

::

    name = "capsys"                     # required; names the result folder's content
    description = "…"
    time_limit = 60                     # s; these are the defaults of every run:
    seed = 0                            # seed, solver, gap, threads, warm_start, repair, ignore,
    memory_limit = "4GB"                # run_timeout, memory_limit

    [instances]
    files = ["../examples/*.json"]      # relative to this file; ** goes into folders
    [[instances.generate]]              # and/or made by a generator
    kind = "random-graph"
    seeds = {from = 0, to = 99}         # a list, or a range with both ends
    groups = [2, 3]                     # parameters; lists multiply

    [matrix]                            # lists multiply; instances are one more factor
    method = ["imc-exact", {method = "top-down", label = "TD", options = {priority = "imc"}}]
    solver = ["highs", "scip"]          # only for methods that use one
    seed = [0, 1, 2]
    option.priority = ["imc", "significance"]   # only for methods that have it
    load_share = [0.5, 0.75, 0.9]       # a variation of the instances

    [vary]                              # what a variation's values mean
    load_share = {resource = "cpu"}

    [[matrix.exclude]]                  # goes where all of it matches
    method = "imc-exact"
    load_share = 0.9
    [[matrix.include]]                  # added where it overwrites nothing, else a run of its own
    method = "imc-exact"
    time_limit = 300

docs/sweeps.md explains each.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.checking import Checker
from optim.errors import InvalidInput, Problem
from optim.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.sweep.variations import Variation

MAX_SPEC_BYTES = 4 << 20
OPTION_PREFIX = "option."
"""What the names of factors that are options of methods start with."""


@dataclass(frozen=True)
class Settings:
    """What a run is given besides method and instance; each can be a default or a factor."""

    solver: str | None = None
    seed: int = 0
    time_limit: float | None = None
    gap: float | None = None
    threads: int = 1
    warm_start: str | None = None
    repair: bool = False
    ignore: tuple[str, ...] = ()
    run_timeout: float | None = None
    memory_limit: int | None = None


SETTINGS = tuple(f.name for f in fields(Settings))


@dataclass(frozen=True)
class Generate:
    """One ``[[instances.generate]]``: a kind, seeds, and values of each parameter."""

    kind: str
    seeds: tuple[int, ...]
    parameters: Mapping[str, tuple[Any, ...]]
    path: str


@dataclass(frozen=True)
class Spec:
    """A checked sweep.

    Attributes
    ----------
    name, description
        What it calls itself.
    files, generators
        Where its instances come from; globs are relative to `base`.
    defaults
        Settings of a run that no factor sets.
    factors
        Values of each factor of the matrix, in order; those of ``method`` are `MethodEntry`.
    variations
        Of the factors that vary the instances.
    exclude, include
        As in the file, values checked.
    source
        Name of the file, for messages.
    document
        The file's content, kept with the results.
    """

    name: str
    factors: Mapping[str, tuple[Any, ...]]
    files: tuple[str, ...] = ()
    generators: tuple[Generate, ...] = ()
    defaults: Settings = field(default_factory=Settings)
    variations: Mapping[str, Variation] = field(default_factory=dict)
    exclude: tuple[Mapping[str, Any], ...] = ()
    include: tuple[Mapping[str, Any], ...] = ()
    description: str = ""
    base: Path = field(default_factory=Path)
    source: str = "sweep"
    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, document: Any, base: str | Path = ".", source: str = "sweep") -> Spec:
        """Check the content of a sweep file.

        Parameters
        ----------
        document
            As TOML gives it.
        base
            Folder that file globs are relative to.

        Raises
        ------
        InvalidInput
            With everything that is wrong with it.
        """
        from experiments.sweep.spec_reading import SpecReader

        checker = Checker()
        spec = SpecReader(checker).read(document, Path(base), source)
        checker.finish(source)
        return spec


def load_spec(path: str | Path) -> Spec:
    """Read a sweep file.

    Raises
    ------
    InvalidInput
        It cannot be read, is not TOML, or is wrong; with everything that is.
    """
    path = Path(path)
    try:
        document = tomllib.loads(read_bytes(path, MAX_SPEC_BYTES).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(Problem(str(path), None, f"is not TOML: {error}")) from None
    except RecursionError:
        raise InvalidInput(Problem(str(path), None, "is nested too deeply")) from None
    return Spec.from_dict(document, path.parent, str(path))
