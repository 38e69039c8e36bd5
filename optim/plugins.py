"""Plug-ins of every kind: what streamplace and other packages register, found by entry points.

A kind (methods, generators, importers, exporters, policies) is a `Plugins` table over its entry
point group. Listing loads nothing. What streamplace registers itself stays its own: an entry of
another package does not take its name, and one that cannot be loaded or declares what there is not
is reported with its package.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

from optim.errors import InvalidInput, Problem, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OURS = "streamplace"

REFERENCE = re.compile(r"(?P<file>.+\.py)(:(?P<name>\w+))?|(?P<module>[\w.]+):(?P<object>[\w.]+)")
"""An object that no package registers: ``FILE.py``, ``FILE.py:NAME`` or ``module:NAME``."""

T = TypeVar("T")


class Entry(NamedTuple):
    """An entry point, and the package it is of: ours, or the name of another.

    The name is read once, with the listing: out of a zip it cannot be read in a forked process,
    which shares the open file with its siblings.
    """

    point: Any
    package: str


@cache
def entries(group: str) -> dict[str, Entry]:
    """Return a group's entries by name, sorted; of two packages ours keeps the name."""
    all_entries = []
    names: dict[int, str] = {}  # `dist.name` reads the package's description anew each time
    for point in entry_points(group=group):
        dist = getattr(point, "dist", None)
        if dist is not None and id(dist) not in names:
            names[id(dist)] = dist.name
        all_entries.append(Entry(point, OURS if dist is None else names[id(dist)]))
    # the last of equal names stays in the dictionary: ours, else the last package by name
    all_entries.sort(key=lambda entry: (entry.package == OURS, entry.package, entry.point.value))
    by_name = {entry.point.name: entry for entry in all_entries}
    return {name: by_name[name] for name in sorted(by_name)}


def loaded(path: str, where: str, remedy: str = "name a module and a function of it") -> Any:
    """Import ``module:function``; modules of the folder that the command is given in are found.

    Raises `InvalidInput`: there is none; `where` is what is wrong.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module, _, attribute = path.partition(":")
        return getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module of the user's does when imported
        raise InvalidInput(Problem(where, path, f"cannot be loaded: {error}", remedy)) from None


@dataclass(frozen=True)
class Plugins(Generic[T]):
    """The plug-ins of one kind."""

    group: str  # Entry point group.
    #: What one is called, and the path of a wrong name, in errors.
    noun: str
    where: str
    #: The type that an entry points at an object of, as ``module:name``; its ``name`` is the
    #: entry's.
    declared: str
    listing: str = ""  # Where to see all names; they are listed if empty.
    #: Says what an object of another package declares that there is not; ``None`` for nothing.
    fault: Callable[[T], str | None] = lambda _: None

    added: dict[str, T] = field(default_factory=dict, repr=False, compare=False)

    def names(self) -> tuple[str, ...]:
        """Return all registered names, sorted; nothing is loaded."""
        return tuple(entries(self.group))

    def is_ours(self, name: str) -> bool:
        """Whether streamplace itself registers that name."""
        entry = entries(self.group).get(name)
        return entry is not None and entry.package == OURS

    def get(self, name: str) -> T:
        """Load one by its name, or by where it stands (`REFERENCE`): then it has its name, too.

        Raises `InvalidInput`: there is none of that name, or another package's entry is none.
        """
        entry = entries(self.group).get(name)
        if entry is None and name in self.added:
            return self.added[name]
        if entry is None and (reference := REFERENCE.fullmatch(name)):
            return self.add(self._referred(name, reference), name)
        if entry is None:
            raise InvalidInput(Problem(self.where, name, f"is no {self.noun}", self._remedy(name)))
        plugin: T = entry.point.load() if entry.package == OURS else self._foreign(entry)
        return plugin

    def all(self) -> list[T]:
        """Load all, sorted by name; what cannot be taken is warned of."""
        plugins = []
        for name in self.names():
            try:
                plugins.append(self.get(name))
            except InvalidInput as error:
                warnings.warn(str(error), stacklevel=2)
        return plugins

    def add(self, thing: T, where: str | None = None) -> T:
        """Let this process know an object by its name, in place of an earlier one of that name.

        `thing`: what `declared` says.
        `where`: the reference it was loaded by; the object itself stands in errors if left out.
        Raises `InvalidInput`: it is none, or a package registers another one of its name.
        """
        shown, fault = where, self._fault(thing)
        name = getattr(thing, "name", None)
        if shown is None:
            shown = repr(thing if fault else name)
        remedy = "see docs/own-methods.md"
        if fault is None and name in entries(self.group) and self.get(str(name)) != thing:
            fault, remedy = f"has the name {name}, which is registered", "choose another name"
        if fault is not None:
            raise InvalidInput(Problem(self.where, shown, fault, remedy))
        if name not in entries(self.group):
            self.added[str(name)] = thing
        return thing

    def _referred(self, text: str, reference: re.Match[str]) -> Any:
        """Load what a reference names: of a file, the one object of this kind if none is named."""
        file, name = reference["file"], reference["name"]
        try:
            if file is None:
                if (here := str(Path.cwd())) not in sys.path:
                    sys.path.append(here)
                return resolve_name(text)
            module = _module_of(file)
            if name is not None:
                return getattr(module, name)
        except Exception as error:  # whatever the module does when imported
            reason = f"cannot be loaded: {error}"
            raise InvalidInput(Problem(self.where, text, reason, "correct that file")) from error
        wanted = resolve_name(self.declared)
        names = [key for key, thing in vars(module).items() if isinstance(thing, wanted)]
        if len(names) == 1:
            return vars(module)[names[0]]
        kind = self.declared.partition(":")[2]
        reason = f"has {len(names)} objects of the type {kind}"
        remedy = f"say which: {text}:{names[0]}" if names else "see docs/own-methods.md"
        raise InvalidInput(Problem(self.where, text, reason, remedy))

    def _fault(self, thing: Any) -> str | None:
        """Say why an object of somebody else is none of this kind; ``None`` where it is one."""
        module, _, name = self.declared.partition(":")
        if not isinstance(thing, resolve_name(self.declared)):
            return f"is no {name} of {module}"
        return self.fault(thing)

    def _foreign(self, entry: Entry) -> T:
        """Load another package's entry and check what it declares."""
        try:
            thing = entry.point.load()
        except Exception as error:  # whatever the other package's module does when imported
            raise self._refusal(entry, f"cannot be loaded: {error}") from error
        calls_itself = getattr(thing, "name", entry.point.name)
        fault = self._fault(thing)
        if fault is None and calls_itself != entry.point.name:
            fault = f"calls itself {calls_itself}"
        if fault:
            raise self._refusal(entry, fault)
        plugin: T = thing
        return plugin

    def _refusal(self, entry: Entry, reason: str) -> InvalidInput:
        remedy = f"it is {entry.point.value} of the package {entry.package}: correct or remove that"
        return InvalidInput(Problem(self.where, entry.point.name, reason, remedy))

    def _remedy(self, name: str) -> str:
        if name in _in_checkout(self.group):
            return f"pyproject.toml has it, the installation not yet: pip install -e {HOME}"
        hint = meant(name, self.names())
        return hint if hint.startswith("did") else self.listing or hint


def _module_of(file: str) -> Any:
    """Load a Python file as a module; once as long as it is not changed."""
    path = Path(file).resolve()
    return _loaded(path, path.stat().st_mtime_ns)


@cache
def _loaded(path: Path, _: int) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module  # dataclasses look there for their module
    try:
        spec.loader.exec_module(module)
    finally:
        if before is not None:
            sys.modules[path.stem] = before
    return module


HOME = Path(__file__).parents[1]
"""The folder that holds the packages: a checkout, ``site-packages``, or a zip."""


def _in_checkout(group: str) -> dict[str, str]:
    """Return what a checkout's ``pyproject.toml`` registers, installed or not."""
    import tomllib

    try:
        project = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]
    except (OSError, ValueError, KeyError):
        return {}
    points = project.get("entry-points", {}) if project.get("name") == OURS else {}
    registered: dict[str, str] = points.get(group, {})
    return registered


# Options: what a method, generator, importer, exporter or policy accepts, and how it is read.


@dataclass(frozen=True)
class Option:
    """An option: its type, default, meaning, and what values it takes.

    Attributes
    ----------
    name, help
        As ``--option NAME=VALUE`` takes it; what it means, in a line.
    kind, default
        Its type; the value where it is left out.
    choices, minimum, maximum
        What it may be; bounds are included.
    nullable
        Whether ``none`` is a value; it is one, too, where it is the default.
    drops
        A limit: where the option is true the plan is judged without it, as with ``--ignore``.
    unit
        That of a method's option in a file, where it has one: ``resource`` or ``rate``, or weights
        ``per_resource`` and ``per_rate``; the method gets it in the units of the instance that it
        sees.
    """

    name: str
    kind: Literal["int", "float", "str", "bool"]
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    nullable: bool = False
    drops: str | None = None
    unit: str = ""

    def read(self, value: Any) -> Any:
        """Turn a text or a number into the option's type.

        Raises
        ------
        InvalidInput
            Wrong type, or outside choices and bounds.
        """
        if self._is_none(value):
            return None
        try:
            typed = _typed(self.kind, value)
        except (TypeError, ValueError):
            word = _KIND_WORDS[self.kind]
            reason = "is neither true nor false" if self.kind == "bool" else f"is no {word}"
            raise self._wrong(value, reason) from None
        if self.choices and typed not in self.choices:
            raise self._wrong(value, "is not a choice")
        below = self.minimum is not None and typed < self.minimum
        above = self.maximum is not None and typed > self.maximum
        if below or above:
            raise self._wrong(value, "is out of range")
        return typed

    def to_dict(self) -> dict[str, Any]:
        """Return the option as the ``--json`` listings show it."""
        return {**vars(self), "choices": list(self.choices)}

    def _is_none(self, value: Any) -> bool:
        nullable = self.nullable or self.default is None
        return nullable and (value is None or (self.kind != "str" and str(value) == "none"))

    def _wrong(self, value: Any, reason: str) -> InvalidInput:
        if self.choices:
            remedy = meant(str(value), map(str, self.choices))
        else:
            low = "" if self.minimum is None else f" ≥ {self.minimum}"
            high = "" if self.maximum is None else f" ≤ {self.maximum}"
            remedy = f"{_KIND_WORDS[self.kind]}{low}{high}; default {self.default}"
        return InvalidInput(Problem(f"--option {self.name}", value, reason, remedy))


_KIND_WORDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


def _typed(kind: str, value: Any) -> Any:
    if value is None:
        raise TypeError
    if kind == "bool":
        booleans = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if str(value).lower() not in booleans:
            raise ValueError
        return booleans[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError
    if kind == "int":
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        return int(value)
    if kind == "float":
        number = number_of(value)
        if not math.isfinite(number):  # no limit is written as none
            raise ValueError
        return number
    return str(value)


def number_of(value: Any) -> float:
    """Read a number; of a text in percent, its share of 1.

    >>> number_of("5%"), number_of("0.05"), number_of(2)
    (0.05, 0.05, 2.0)

    Raises `ValueError`: it is none.
    """
    percent = isinstance(value, str) and value.endswith("%")
    return float(value[:-1]) / 100 if percent else float(value)


def read_options(
    owner: str,
    options: Iterable[Option],
    given: Mapping[str, Any] | Iterable[tuple[str, Any]],
    *,
    where: str = "--option {}",
    noun: str = "option",
) -> dict[str, Any]:
    """Return options as their types, defaults filled in; all problems are reported together.

    `owner`: whose options they are.
    `given`: values by name, or pairs of them as a command line has them.
    `where`: path of an option in an error, its name for the braces.
    `noun`: what an option is called there.
    Raises `InvalidInput`: an option is unknown, given twice, or has a value that does not do.
    """
    by_name = {option.name: option for option in options}
    typed = {name: option.default for name, option in by_name.items()}
    seen: set[str] = set()
    problems: list[Problem] = []
    for name, value in given.items() if isinstance(given, Mapping) else given:
        path = where.format(name)
        if name not in by_name:
            remedy = meant(name, by_name, f"{noun}s:") if by_name else "it has none"
            problems.append(Problem(path, None, f"is no {noun} of {owner}", remedy))
        elif name in seen:
            problems.append(Problem(path, value, "is given twice", "keep one"))
        else:
            seen.add(name)
            try:
                typed[name] = by_name[name].read(value)
            except InvalidInput as error:
                problems += [replace(problem, path=path) for problem in error.problems]
    if problems:
        raise InvalidInput(problems)
    return typed
