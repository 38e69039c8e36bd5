"""One move of a task, and why one cannot be made yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from optim.format.instance import Instance


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
        What it would break, as a violation tells it.
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
