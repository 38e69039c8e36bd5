"""A value that carries the name of its objective, so that two of different ones never meet.

The relative gap between a value and a bound: the one formula that everything uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


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

    Attributes
    ----------
    name, sense
        Of the objective: a key of `optim.figures.catalogue.OBJECTIVES`; ``max`` or ``min``.
    value
        In the objective's unit; ``None`` where it is unknown.

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
    value: float | None
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

    def gap_to(self, other: ObjectiveValue) -> float | None:
        """Return the relative distance from another value; ``None`` where one is unknown."""
        self._check(other)
        return relative_gap(self.value, other.value)

    def within(self, share: float) -> ObjectiveValue:
        """Return the worst value that is still within a share of this one."""
        if self.value is None:
            return self
        room = share * abs(self.value)
        return self.with_value(self.value - room if self.sense == "max" else self.value + room)

    def _check(self, other: ObjectiveValue) -> None:
        if (self.name, self.sense) != (other.name, other.sense):
            raise TypeError(f"a value of {self.name} is compared with one of {other.name}")
