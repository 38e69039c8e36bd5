"""What a figure is: name, words, unit, sense, and how far a value of it is from a bound."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from optim.errors import InvalidInput, Problem, meant, raise_any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from optim.figures.measures import Placement
    from optim.format.instance import Instance


def relative_gap(value: float | None, bound: float | None, zero: float = 0.0) -> float | None:
    """Return ``|v - b| / max(|v|, |b|)``; ``None`` where one is unknown.

    Differences up to `zero` are none.

    Examples
    --------
    >>> relative_gap(10.0, 9.0)
    0.1
    >>> relative_gap(0.0, 0.0)
    0.0
    >>> relative_gap(3.0, None) is None
    True
    """
    if value is None or bound is None:
        return None
    distance = abs(value - bound)
    return distance / max(abs(value), abs(bound)) if distance > zero else 0.0


@dataclass(frozen=True)
class ObjectiveValue:
    """A value of an objective, as the referee computed it, or a bound on one.

    Values are compared with values of the same objective alone.

    `name`, `sense`: of the objective: a key of `optim.figures.catalogue.OBJECTIVES`; ``max`` or
        ``min``.

    Examples
    --------
    >>> gain, rate = (ObjectiveValue(n, v, "max") for n, v in (("imc_gain", 2.0), ("rate", 3.0)))
    >>> gain.better_than(gain.with_value(1.0)), gain.within(0.05).value
    (True, 1.9)
    >>> gain.better_than(rate)
    Traceback (most recent call last):
    ...
    TypeError: a value of imc_gain is compared with one of rate
    """

    name: str
    value: float | None  # In the objective's unit; ``None`` where it is unknown.
    sense: str | None

    def with_value(self, value: float | None) -> ObjectiveValue:
        """Return another value of the same objective."""
        return replace(self, value=value)

    def gain_over(self, other: ObjectiveValue) -> float | None:
        """Return by how much it is better than another, below 0 where it is worse.

        ``None`` where one of the two is unknown.
        """
        self._check(other)
        if self.value is None or other.value is None:
            return None
        gain = self.value - other.value
        return gain if self.sense == "max" else other.value - self.value

    def better_than(self, other: ObjectiveValue) -> bool:
        """Whether it is strictly better; an unknown value is better than none."""
        gain = self.gain_over(other)
        return gain is not None and gain > 0

    def as_good_as(self, other: ObjectiveValue) -> bool:
        """Whether it is no worse; an unknown value is as good as none."""
        gain = self.gain_over(other)
        return gain is not None and gain >= 0

    def within(self, share: float) -> ObjectiveValue:
        """Return the worst value that is still within a share of this one."""
        if self.value is None:
            return self
        room = share * abs(self.value)
        return self.with_value(self.value - room if self.sense == "max" else self.value + room)

    def _check(self, other: ObjectiveValue) -> None:
        if (self.name, self.sense) != (other.name, other.sense):
            raise TypeError(f"a value of {self.name} is compared with one of {other.name}")


Sense = Literal["max", "min"]
Unit = Literal[
    "rate",
    "multiple",
    "resource",
    "share",
    "count",
    "state",
    "price",
    "number",
    "flag",
    "text",
    "table",
]

RELATIVE_GAP = 1e-6
"""Relative gap that still counts as optimal, and distance that still counts as rounding."""
PERCENT_GAP = 1e-3  # The same of a gap that is a difference in percent of the reference.
SHARE_NOISE = 1e-9
"""Rounding of shares, which have no unit: deviations of even placements are tiny."""


@dataclass(frozen=True)
class Figure:
    """A figure of a plan; everything that names, shows, stores or compares it asks this object."""

    #: Attribute of `optim.figures.catalogue.Figures`, key in JSON, column of a sweep's rows.
    name: str
    label: str  # Its words in tables: ``load distance``.
    words: str  # What it is, in a sentence.
    #: ``rate``, ``multiple`` (of the current input rate), ``resource`` (the first one's), ``share``
    #: (1 is 100 %), ``count``, ``state`` (of a migration's cost), ``price``, ``number`` (of several
    #: units, in a sum), ``flag``, ``text``, or ``table``: no single value, but one for each node,
    #: link or the like.
    unit: Unit
    #: What it is of a placement; ``None`` for those that only another kind of plan has.
    value: Callable[[Placement], Any] | None = None
    #: Whether more or less is better; ``None`` where it is nothing to optimise.
    sense: Sense | None = None
    #: The figure against whose size its differences are seen: `mean_load`, `total_traffic`.
    reference: str | None = None
    #: Whether its gap is the difference in percent of the reference, instead of relative.
    percent: bool = False
    #: Whether tables leave it out where it is not the objective: JSON and rows hold it.
    quiet: bool = False
    #: Heading under which reports measure every plan by it, whatever its method optimises; empty
    #: where they do not.
    question: str = ""
    shown_as: str | None = None  # The figure by which reports then show it.
    same_as: str | None = None  # The figure which is best where this one is.
    weighs_leaving: bool = False  # Whether what is left on leaving nodes counts in it.
    #: Whether it distinguishes staying and leaving nodes: another figure where none is marked.
    of_staying: bool = False
    #: The instance without the limits that the figure measures: to methods which optimise it, they
    #: are none, and their best plan is returned although it violates them. ``None`` where it
    #: measures no limit.
    hard: Callable[[Instance], Instance] | None = None
    #: The instance, given a value, in which those plans are feasible that are at least as good;
    #: ``None`` where no limit says that.
    holding: Callable[[Instance, float], Instance] | None = None
    #: Whether it is of a placement of all tasks alone, and unknown while one has no node; others
    #: say what is on each place.
    whole: bool = True
    #: Whether it takes long, and is only reckoned of plans where it is asked for.
    costly: bool = False
    #: Whether every engine that optimises it counts `local_first` streams in it, or no traffic is
    #: in it; where such streams are, methods refuse what does not say so.
    local_first: bool = False
    former: str | None = None  # What options and files of earlier versions call it.
    #: Why all plans of an instance have the same value; ``None`` where plans may differ.
    constant: Callable[[Instance], str | None] | None = None
    #: Weights and figures of which it is the sum; empty for any other.
    parts: tuple[tuple[float, Figure], ...] = ()
    #: The first of several levels, of which this figure has value and sense, and those that decide
    #: among plans which are equal by it; ``None`` and empty for any other.
    first: Figure | None = None
    further: tuple[Figure, ...] = ()

    @property
    def levels(self) -> tuple[Figure, ...]:
        """The levels by which plans are compared, each where they are equal by those before."""
        return (self,) if self.first is None else (self.first, *self.further)

    @property
    def singles(self) -> tuple[Figure, ...]:
        """The figures that it is made of: itself, unless it is a sum or has levels."""
        if self.first is not None:
            return tuple(dict.fromkeys(one for level in self.levels for one in level.singles))
        return tuple(figure for _, figure in self.parts) or (self,)

    def read(self, figures: Any) -> float | None:
        """Return its value from the figures of a plan; ``None`` where one of them is unknown."""
        if self.first is not None:
            return self.first.read(figures)
        if not self.parts:
            single: float | None = getattr(figures, self.name)
            return single
        values = [(weight, figure.read(figures)) for weight, figure in self.parts]
        if any(value is None for _, value in values):
            return None
        return sum(weight * value for weight, value in values if value is not None)

    def ranks(self, figures: Any) -> tuple[float, ...] | None:
        """Return the levels of a plan, each smaller for the better one and without its rounding."""
        values = [(level.sense, level.read(figures)) for level in self.levels]
        if any(value is None for _, value in values):
            return None
        signed = [-v if sense == "max" else v for sense, v in values if v is not None]
        return tuple(float(f"{value:.9e}") for value in signed)

    def fixed(
        self, instance: Instance, value: float | None = None, bound: float | None = None
    ) -> str | None:
        """Say why every plan has the same value, so that none is better; ``None`` if unknown.

        `value`, `bound`: of a plan, and proven: a figure of which 0 is the most is 0 for every
            plan.
        """
        reason = None if self.constant is None else self.constant(instance)
        none = self.sense == "max" and value == 0 and bound == 0
        return reason or ("no plan has more" if none else None)

    @property
    def single(self) -> bool:
        """Whether it is one value, and no table."""
        return self.unit != "table"

    def binding(self, instance: Instance) -> Instance:
        """Return the instance with only the limits that bind methods which optimise the figure."""
        return instance if self.hard is None else self.hard(instance)

    def of(self, value: float | None) -> ObjectiveValue:
        """Return a value with the figure's name, to be compared with others of it."""
        return ObjectiveValue(self.name, value, self.sense)

    def measured(self, placement: Placement) -> ObjectiveValue:
        """Return its value of a placement."""
        value = None if self.value is None else self.value(placement)
        return self.of(None if value is None else float(value))

    @property
    def optimal_gap(self) -> float:
        """Largest gap that still counts as optimal."""
        return PERCENT_GAP if self.percent else RELATIVE_GAP

    def reference_of(self, figures: Any) -> float | None:
        """Return the size against which differences are seen, from an evaluation."""
        if self.reference is None or figures is None:
            return None
        value: float | None = getattr(figures, self.reference)
        return value

    def gap(
        self, value: float | None, bound: float | None, reference: float | None
    ) -> float | None:
        """Return the distance of a value from a bound, or from a better value.

        `value`, `bound`: in the figure's unit; a value beyond its bound is at no distance.
        `reference`: what percents are of (`reference_of`); of no use to a relative gap. Where it is
            unknown, as in rows of earlier versions, a gap in percent is reported as the plain
            difference, as these reported it.
        Returns ``None`` when value or bound is unknown; infinite in percent of nothing.
        """
        if value is None or bound is None:
            return None
        # how far the value is on the worse side of the bound
        distance = value - bound if self.sense == "min" else bound - value
        if distance <= 0:
            return 0.0
        if not self.percent:
            return relative_gap(value, bound)
        if reference is None:
            return distance
        return 100 * distance / reference if reference > 0 else math.inf

    def gap_to_difference(self, gap: float, reference: float | None) -> float:
        """Return a gap in percent as a difference in the figure's unit; a relative one as it is."""
        if not self.percent or reference is None:
            return gap
        return gap * reference / 100

    def tolerance(self, left: float, right: float, reference: float | None) -> float:
        """How far two values may lie apart and still count as the same.

        A part of the reference; where the gap is relative, of the larger value if that is more.
        Nothing is absolute in the file's units.
        """
        if self.percent:
            return self.gap_to_difference(self.optimal_gap, reference)
        noise = SHARE_NOISE if self.unit == "share" else 0.0
        return max(noise, self.optimal_gap * max(abs(left), abs(right), reference or 0.0))

    def better(self, left: float, right: float) -> bool:
        """Whether `left` is strictly better than `right`."""
        return left > right if self.sense == "max" else left < right

    def beats_bound(self, value: float, bound: float, reference: float | None) -> bool:
        """Whether a value lies beyond a bound by more than rounding: one of the two is wrong."""
        beyond = bound - value if self.sense == "min" else value - bound
        return beyond > self.tolerance(value, bound, reference)


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


def read_objective(text: str, figures: Mapping[str, Figure]) -> Figure:
    """Return the figure that an expression means.

    `figures`: figures that can be optimised, by their present and former names.
    Raises `InvalidInput`: it is no such expression; everything that is wrong is reported.
    """
    problems: list[Problem] = []
    levels = [_read_level(part, text, figures, problems) for part in text.split(",")]
    raise_any(problems)
    names = [level.name for level in levels]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            reason = f"has the level {name} twice: the second decides nothing"
            raise InvalidInput(Problem(PATH, text, reason, "leave one of them out"))
    return levels[0] if len(levels) == 1 else in_levels(tuple(levels))


def _read_level(
    part: str, text: str, figures: Mapping[str, Figure], problems: list[Problem]
) -> Figure:
    """Read a figure or a sum; what is wrong is added to the problems."""
    count, terms = len(problems), list(_read_terms(part, text, figures, problems))
    if len(problems) > count:
        return next(iter(figures.values()))
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
        # a sum is maximised: what is to be small needs a minus
        elif (weight > 0) != (figure.sense == "max"):
            small = figure.sense == "min"
            seeks, sign = ("much", "a minus") if small else ("little", "no minus")
            reason = f"seeks {seeks} {figure.name}, as a sum is maximised"
            remedy = f"{figure.name} is better {'small' if small else 'large'}: give it {sign}"
            problems.append(Problem(PATH, text, reason, remedy))
    return sum_of(tuple((term.weight, term.figure) for term in terms))


def _read_terms(
    part: str, text: str, figures: Mapping[str, Figure], problems: list[Problem]
) -> Iterator[_Term]:
    """Yield the terms of a level; stops where there is something else."""
    at = 0
    if not part.strip():
        problems.append(Problem(PATH, text, "has an empty level", _FORM))
        return
    while at < len(part):
        term = _TERM.match(part, at)
        if term is None or (at > 0 and not term["sign"]):
            rest = part[at:].strip()
            value = text if rest == text.strip() else rest
            within = "" if value is text else f" of {text}"
            problems.append(Problem(PATH, value, f"is no figure and no sum{within}", _FORM))
            return
        at, name = term.end(), term["name"]
        if name not in figures:
            reason = "is no figure to optimise"
            problems.append(
                Problem(
                    PATH, name, reason, meant(name, [n for n, f in figures.items() if n == f.name])
                )
            )
            continue
        numbers = [float(x) for x in (term["before"], term["after"]) if x]
        if len(numbers) > 1:
            problems.append(Problem(PATH, text, f"weighs {name} twice", _FORM))
            continue
        weight = numbers[0] if numbers else 1.0
        signed = -weight if term["sign"] == "-" else weight
        yield _Term(signed, figures[name], not numbers and not term["sign"])


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
    reasons = [figure.fixed(instance) for figure in figures]
    return " and ".join(dict.fromkeys(filter(None, reasons))) if all(reasons) else None


def in_units(objective: Figure, unit: Callable[[str], float]) -> Figure:
    """Return an objective whose sums weigh figures of an instance in other units as before.

    `unit`: what the other unit of a kind (`Figure.unit`) is in the one that the weights are for.
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
