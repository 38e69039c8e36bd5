"""What a figure is: name, words, unit, sense, and how far a value of it is from a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optim.figures.value import ObjectiveValue, relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.placement import Placement
    from optim.format.instance import Instance

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
PERCENT_GAP = 1e-3
"""The same of a gap that is a difference in percent of the reference."""
SHARE_NOISE = 1e-9
"""Rounding of shares, which have no unit: deviations of even placements are tiny."""


@dataclass(frozen=True)
class Figure:
    """A figure of a plan; everything that names, shows, stores or compares it asks this object.

    Attributes
    ----------
    name
        Attribute of `optim.figures.catalogue.Figures`, key in JSON, column of a sweep's rows.
    label
        Its words in tables: ``load distance``.
    words
        What it is, in a sentence.
    unit
        ``rate``, ``multiple`` (of the current input rate), ``resource`` (the first one's),
        ``share`` (1 is 100 %), ``count``, ``state`` (of a migration's cost), ``price``, ``number``
        (of several units, in a sum), ``flag``, ``text``, or ``table``: no single value, but one for
        each node, link or the like.
    value
        What it is of a placement; ``None`` for those that only another kind of plan has.
    sense
        Whether more or less is better; ``None`` where it is nothing to optimise.
    reference
        The figure against whose size its differences are seen: `mean_load`, `total_traffic`.
    percent
        Whether its gap is the difference in percent of the reference, instead of relative.
    quiet
        Whether tables leave it out where it is not the objective: JSON and rows hold it.
    question
        Heading under which reports measure every plan by it, whatever its method optimises; empty
        where they do not.
    shown_as
        The figure by which reports then show it.
    same_as
        The figure which is best where this one is.
    weighs_leaving
        Whether what is left on leaving nodes counts in it.
    of_staying
        Whether it distinguishes staying and leaving nodes: another figure where none is marked.
    hard
        The instance without the limits that the figure measures: to methods which optimise it, they
        are none, and their best plan is returned although it violates them. ``None`` where it
        measures no limit.
    holding
        The instance, given a value, in which those plans are feasible that are at least as good;
        ``None`` where no limit says that.
    whole
        Whether it is of a placement of all tasks alone, and unknown while one has no node; others
        say what is on each place.
    costly
        Whether it takes long, and is only reckoned of plans where it is asked for.
    former
        What options and files of earlier versions call it.
    constant
        Why all plans of an instance have the same value; ``None`` where plans may differ.
    parts
        Weights and figures of which it is the sum; empty for any other.
    first, further
        The first of several levels, of which this figure has value and sense, and those that decide
        among plans which are equal by it; ``None`` and empty for any other.
    """

    name: str
    label: str
    words: str
    unit: Unit
    value: Callable[[Placement], Any] | None = None
    sense: Sense | None = None
    reference: str | None = None
    percent: bool = False
    quiet: bool = False
    question: str = ""
    shown_as: str | None = None
    same_as: str | None = None
    weighs_leaving: bool = False
    of_staying: bool = False
    hard: Callable[[Instance], Instance] | None = None
    holding: Callable[[Instance, float], Instance] | None = None
    whole: bool = True
    costly: bool = False
    former: str | None = None
    constant: Callable[[Instance], str | None] | None = None
    parts: tuple[tuple[float, Figure], ...] = ()
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
            found: float | None = getattr(figures, self.name)
            return found
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

        Parameters
        ----------
        instance
            What the plans are of.
        value, bound
            Of a plan, and proven: a figure of which 0 is the most is 0 for every plan.
        """
        why = None if self.constant is None else self.constant(instance)
        none = self.sense == "max" and value == 0 and bound == 0
        return why or ("no plan has more" if none else None)

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
        found: float | None = getattr(figures, self.reference)
        return found

    def gap(
        self, value: float | None, bound: float | None, reference: float | None
    ) -> float | None:
        """Return the distance of a value from a bound, or from a better value.

        Parameters
        ----------
        value, bound
            In the figure's unit; a value beyond its bound is at no distance.
        reference
            What percents are of (`reference_of`); of no use to a relative gap. Where it is unknown,
            as in rows of earlier versions, a gap in percent is reported as the plain difference, as
            these reported it.

        Returns
        -------
        float or None
            ``None`` when value or bound is unknown; infinite in percent of nothing.
        """
        if value is None or bound is None:
            return None
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
