"""Objectives made of figures: weighted sums, and levels that decide where those before do not.

::

    objective = level {"," level}
    level     = FIGURE | term {("+" | "-") term}
    term      = [NUMBER "*"] FIGURE | FIGURE "*" NUMBER

A sum is maximised: what is to be small has a minus. Its figures are in the units in which
`evaluate` reports them, shares as parts of 1.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from optim.errors import InvalidInput, Problem, meant, raise_any
from optim.figures.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from optim.figures.placement import Placement
    from optim.format.instance import Instance

PATH = "--objective"
_FORM = "write FIGURE, or a sum such as 0.7*FIGURE-0.3*FIGURE, or several of these with commas"
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"[A-Za-z_]\w*"
_TERM = re.compile(
    rf"\s*(?P<sign>[+-]?)\s*(?:(?P<before>{_NUMBER})\s*\*\s*)?(?P<name>{_NAME})"
    rf"(?:\s*\*\s*(?P<after>{_NUMBER}))?\s*(?=[+-]|$)"
)


class _Term(NamedTuple):
    """A signed weight and a figure; whether neither sign nor weight was written."""

    weight: float
    figure: Figure
    plain: bool


def read_objective(text: str, known: Mapping[str, Figure]) -> Figure:
    """Return the figure that an expression means.

    Parameters
    ----------
    text
        As on the command line.
    known
        Figures that can be optimised, by their present and former names.

    Raises
    ------
    InvalidInput
        It is no such expression; everything that is wrong is reported.
    """
    problems: list[Problem] = []
    levels = [_read_level(part, text, known, problems) for part in text.split(",")]
    raise_any(problems)
    names = [level.name for level in levels]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            reason = f"has the level {name} twice: the second decides nothing"
            raise InvalidInput(Problem(PATH, text, reason, "leave one of them out"))
    return levels[0] if len(levels) == 1 else in_levels(tuple(levels))


def _read_level(
    part: str, text: str, known: Mapping[str, Figure], problems: list[Problem]
) -> Figure:
    """Read a figure or a sum; what is wrong is added to the problems."""
    count, terms = len(problems), list(_read_terms(part, text, known, problems))
    if len(problems) > count:
        return next(iter(known.values()))
    if len(terms) == 1 and terms[0].plain:
        return terms[0].figure
    names = [term.figure.name for term in terms]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            reason = f"has {name} twice in one sum"
            problems.append(Problem(PATH, text, reason, "write it once, with one weight"))
    for weight, figure, _ in terms:
        if not 0 < abs(weight) < math.inf:
            reason = f"weighs {figure.name} by {abs(weight):g}"
            remedy = "give each figure a finite weight that is not 0, or leave it out"
            problems.append(Problem(PATH, text, reason, remedy))
        elif (weight > 0) != (figure.sense == "max"):
            small = figure.sense == "min"
            seeks, sign = ("much", "a minus") if small else ("little", "no minus")
            reason = f"seeks {seeks} {figure.name}, as a sum is maximised"
            remedy = f"{figure.name} is better {'small' if small else 'large'}: give it {sign}"
            problems.append(Problem(PATH, text, reason, remedy))
    return sum_of(tuple((term.weight, term.figure) for term in terms))


def _read_terms(
    part: str, text: str, known: Mapping[str, Figure], problems: list[Problem]
) -> Iterator[_Term]:
    """Yield the terms of a level; stops where there is something else."""
    at = 0
    if not part.strip():
        problems.append(Problem(PATH, text, "has an empty level", _FORM))
        return
    while at < len(part):
        found = _TERM.match(part, at)
        if found is None or (at > 0 and not found["sign"]):
            rest = part[at:].strip()
            value = text if rest == text.strip() else rest
            within = "" if value is text else f" of {text}"
            problems.append(Problem(PATH, value, f"is no figure and no sum{within}", _FORM))
            return
        at, name = found.end(), found["name"]
        if name not in known:
            reason = "is no figure to optimise"
            problems.append(
                Problem(
                    PATH, name, reason, meant(name, [n for n, f in known.items() if n == f.name])
                )
            )
            continue
        numbers = [float(x) for x in (found["before"], found["after"]) if x]
        if len(numbers) > 1:
            problems.append(Problem(PATH, text, f"weighs {name} twice", _FORM))
            continue
        weight = numbers[0] if numbers else 1.0
        signed = -weight if found["sign"] == "-" else weight
        yield _Term(signed, known[name], not numbers and not found["sign"])


def sum_of(parts: tuple[tuple[float, Figure], ...]) -> Figure:
    """Return the figure of a weighted sum, which is maximised."""
    figures = [figure for _, figure in parts]
    name = "".join(map(_term, *zip(*parts, strict=True))).removeprefix("+")
    return Figure(
        name=name,
        label=name,
        words="a weighted sum of figures, each in the unit in which it is reported",
        unit="number",
        value=partial(_added, parts) if all(figure.value for figure in figures) else None,
        sense="max",
        of_staying=any(figure.of_staying for figure in figures),
        weighs_leaving=all(figure.weighs_leaving for figure in figures),
        whole=any(figure.whole for figure in figures),
        costly=any(figure.costly for figure in figures),
        constant=partial(_constant, figures),
        parts=parts,
    )


def _term(weight: float, figure: Figure) -> str:
    """Write a term with its sign, its weight as short as is exact."""
    sign, size = "-" if weight < 0 else "+", repr(abs(weight)).removesuffix(".0")
    return f"{sign}{figure.name}" if size == "1" else f"{sign}{size}*{figure.name}"


def _added(parts: tuple[tuple[float, Figure], ...], placement: Placement) -> float | None:
    total = 0.0
    for weight, figure in parts:
        assert figure.value is not None
        value = figure.value(placement)
        if value is None:
            return None
        total += weight * value
    return total


def _constant(figures: list[Figure], instance: Instance) -> str | None:
    """Say why all plans have the same sum: none of its figures varies."""
    found = [figure.fixed(instance) for figure in figures]
    return " and ".join(dict.fromkeys(filter(None, found))) if all(found) else None


def in_units(objective: Figure, unit: Callable[[str], float]) -> Figure:
    """Return an objective whose sums weigh figures of an instance in other units as before.

    Parameters
    ----------
    unit
        What the other unit of a kind (`Figure.unit`) is in the one that the weights are for.
    """
    if objective.first is not None:
        return in_levels(tuple(in_units(level, unit) for level in objective.levels))
    if not objective.parts:
        return objective
    parts = tuple((weight * unit(figure.unit), figure) for weight, figure in objective.parts)
    return replace(sum_of(parts), name=objective.name, label=objective.label)


def in_levels(levels: tuple[Figure, ...]) -> Figure:
    """Return the first of several levels, with those that decide among plans which are equal by it.

    Its value, sense and limits are those of the first level.
    """
    return replace(
        levels[0],
        name=",".join(level.name for level in levels),
        label=", then ".join(level.label for level in levels),
        words=", then ".join(level.words for level in levels),
        value=levels[0].value if all(level.value for level in levels) else None,
        of_staying=any(level.of_staying for level in levels),
        costly=any(level.costly for level in levels),
        constant=partial(_constant, list(levels)),
        further=levels[1:],
        first=levels[0],
        question="",
        shown_as=None,
        same_as=None,
        former=None,
    )
