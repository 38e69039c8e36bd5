"""Options: what a method, generator, importer, exporter or policy accepts, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from optim.errors import InvalidInput, Problem, meant

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        words = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
        if str(value).lower() not in words:
            raise ValueError
        return words[str(value).lower()]
    if isinstance(value, bool):
        raise ValueError
    if kind == "int":
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        return int(value)
    if kind == "float":
        number = number_of(value)
        if number != number:
            raise ValueError
        return number
    return str(value)


def number_of(value: Any) -> float:
    """Read a number; of a text in percent, its share of 1.

    >>> number_of("5%"), number_of("0.05"), number_of(2)
    (0.05, 0.05, 2.0)

    Raises
    ------
    ValueError
        It is none.
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
    constants: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return options as their types, defaults filled in; all problems are reported together.

    Parameters
    ----------
    owner
        Whose options they are.
    options
        Those there are.
    given
        Values by name, or pairs of them as a command line has them.
    where
        Path of an option in an error, its name for the braces.
    noun
        What an option is called there.
    constants
        Options of earlier versions, and the value that they always have now.

    Raises
    ------
    InvalidInput
        An option is unknown, given twice, or has a value that does not do.
    """
    known = {option.name: option for option in options}
    typed = {name: option.default for name, option in known.items()}
    seen: set[str] = set()
    problems: list[Problem] = []
    for name, value in given.items() if isinstance(given, Mapping) else given:
        path = where.format(name)
        if name in constants:
            reason = f"is no longer an {noun} of {owner}: it is always {constants[name]}"
            problems.append(Problem(path, value, reason, "leave it out"))
        elif name not in known:
            remedy = meant(name, known, f"{noun}s:") if known else "it has none"
            problems.append(Problem(path, None, f"is no {noun} of {owner}", remedy))
        elif name in seen:
            problems.append(Problem(path, value, "is given twice", "keep one"))
        else:
            seen.add(name)
            try:
                typed[name] = known[name].read(value)
            except InvalidInput as error:
                problems += [replace(problem, path=path) for problem in error.problems]
    if problems:
        raise InvalidInput(problems)
    return typed
