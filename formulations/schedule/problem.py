"""What a placement between the present one and a plan must keep: the definition, by the referee.

Budgets of moves are the plan's, so nothing in between is held against them, and tasks that are to
be together are parted while the first of them has moved and the last has not. All other rules bind
at every moment. Where the present placement, or the plan, breaks one of these at some place by some
amount, it may be broken there by as much on the way, and never by more. What a state may be does
thus not depend on how it was reached: an order of moves is feasible backwards, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.format.tables import TOGETHER
from optim.rules import COUNTING, Form, broken, rules_of, without_limits
from optim.rules.placement import Placement
from optim.util.tolerance import TOLERANCE

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.rules.violation import Violation


FINAL_ONLY = (*(rule.name for rule in COUNTING), *rules_of({Form.NODE_COUNT, Form.RESTARTS}))
"""Rules that only the plan must keep, beside sets that are to be ``together``.

Tasks on their way stand on more nodes, and beside others.
"""


class Between:
    """Judges placements on the way from one to another.

    Parameters
    ----------
    instance
        Its rules and its tasks.
    start, goal
        (T,) node indices; -1 for tasks that are nowhere yet.

    Attributes
    ----------
    instance
        Without the rules that only the plan must keep.
    start, goal
        As given.
    """

    def __init__(self, instance: Instance, start: Ints, goal: Ints) -> None:
        self.instance = _without_together(without_limits(instance, FINAL_ONLY))
        self.start, self.goal = start, goal
        self._nowhere = (start < 0) | (goal < 0)
        self._allowed: dict[tuple[str, str], float] = {}
        for node in (start, goal):
            for v in broken(Placement(self.instance, node), elsewhere=self._nowhere):
                self._allowed[v.key] = max(v.amount, self._allowed.get(v.key, 0.0))

    def worse(self, node: Ints) -> list[Violation]:
        """Return what a placement breaks and neither end does, or breaks more than both."""
        found = broken(Placement(self.instance, node), elsewhere=self._nowhere)
        return [v for v in found if self._exceeds(v)]

    def _exceeds(self, v: Violation) -> bool:
        allowed = self._allowed.get(v.key)
        return allowed is None or v.amount > allowed + TOLERANCE * max(v.needed, v.available)


def _without_together(instance: Instance) -> Instance:
    nodes, slots = (
        table.only(np.flatnonzero(table.rule != TOGETHER))
        for table in (instance.sets, instance.slot_sets)
    )
    return replace(instance, sets=nodes, slot_sets=slots)


# One move of a task, and why one cannot be made yet.


class Move(NamedTuple):
    """A task from one node to another, by index; a source of -1 is nowhere."""

    task: int
    source: int
    target: int

    def back(self) -> Move:
        """Return the move that takes this one back."""
        return Move(self.task, self.target, self.source)

    def to_dict(self, instance: Instance) -> dict[str, Any]:
        """Return it with names; what is nowhere is ``None``."""
        ids = instance.nodes.ids
        source, target = (ids[n] if n >= 0 else None for n in (self.source, self.target))
        return {"task": instance.tasks.ids[self.task], "from": source, "to": target}


Step = tuple[Move, ...]
"""Moves that are made as one; most steps are one move."""


def taken_back(step: Step) -> Step:
    """Return the step that takes this one back."""
    return tuple(move.back() for move in reversed(step))


@dataclass(frozen=True)
class Blocked:
    """A move that cannot be made, and what it waits for.

    Attributes
    ----------
    move
        Which.
    rule, where, needed, available
        What it would break, as a violation reports it.
    waits_for
        Moves that would have to be made before; some of them, where there are many.
    """

    move: Move
    rule: str
    where: str
    needed: float
    available: float
    waits_for: tuple[Move, ...] = ()

    def to_dict(self, instance: Instance) -> dict[str, Any]:
        """Return it as plain data."""
        waits = [move.to_dict(instance) for move in self.waits_for]
        return {
            **self.move.to_dict(instance),
            "rule": self.rule,
            "where": self.where,
            "needed": self.needed,
            "available": self.available,
            "waits_for": waits,
        }
