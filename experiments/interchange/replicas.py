"""Replica lists of Kafka's partitions: read, changed by a move, and where a leader may go.

Only the leader's replica moves, so that a list changes in one place: the broker that is left gives
way to the one that is gone to, and no other replica may be there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.interchange.foreign import as_whole, is_whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.interchange.ledger import Ledger

REPLICAS = "replicas"
"""Task label: the brokers of all replicas, in Kafka's order."""


def broker_number(value: Any) -> int | None:
    """Return a broker's number out of JSON; ``None`` for what is no whole number from 0."""
    number = as_whole(value)
    return number if number is not None and number < 2**31 else None


def listed_brokers(value: Any) -> list[int] | None:
    """Return the brokers of a list out of JSON; ``None`` if it is none."""
    numbers = [broker_number(item) for item in value] if isinstance(value, list) else []
    found = [number for number in numbers if number is not None]
    return found if found and len(found) == len(numbers) else None


def labelled_brokers(label: str) -> list[int] | None:
    """Return the brokers of the label `REPLICAS`; ``None`` if it is no list of them."""
    words = [word.strip() for word in label.split(",")]
    return [int(word) for word in words] if all(map(is_whole, words)) else None


def replaced(name: str, replicas: list[int], source: int, target: int, ledger: Ledger) -> list[int]:
    """Return the list after the leader's replica went from `source` to `target`.

    A broker that does not hold the leader, or one that already holds a replica, is a problem.
    """
    if source not in replicas:
        reason = f"is not among its replicas {replicas}"
        ledger.problem(name, source, reason, "import the current state again")
    elif target in replicas and target != source:
        reason = f"already holds another replica of it ({replicas})"
        ledger.problem(name, target, reason, "leave that broker out of the task's `allowed`")
    return [target if broker == source else broker for broker in replicas]


class Sites(NamedTuple):
    """The brokers: rack of each (``None`` where not told), and those that do not leave."""

    racks: dict[int, str | None]
    staying: list[int]
    rack_aware: bool

    @classmethod
    def of(cls, nodes: Iterable[dict[str, Any]], rack_aware: bool) -> Sites:
        """Take the brokers from the nodes of a document."""
        entries = list(nodes)
        return cls(
            {int(entry["id"]): entry.get("rack") for entry in entries},
            [int(entry["id"]) for entry in entries if not entry.get("leaving")],
            rack_aware,
        )

    def allowed(self, replicas: list[int], leader: int) -> list[str] | None:
        """Return where a leader may go, its own broker among them; ``None`` is anywhere.

        No broker that holds another replica takes it; with `rack_aware` none in their racks.
        """
        others = {broker for broker in replicas if broker != leader}
        if not others and len(self.staying) == len(self.racks):
            return None
        racks = {self.racks[b] for b in others if self.rack_aware} - {None}
        free = [b for b in self.staying if b not in others and self.racks[b] not in racks]
        return [str(b) for b in (free if leader in free else [*free, leader])]
