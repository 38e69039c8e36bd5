"""Replica lists of Kafka's partitions: out of labels, under a placement, and back.

Tasks of a partition carry its present list, its leader, and their role: *leader* and *follower* are
a replica each, *leadership* moves among the brokers of the list. A task without a role stands for
the replica on the broker where it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.kafka.cluster import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streamplace.clusters.exchange.declarations import Ledger

REPLICAS, LEADER, ROLE, FACTOR = "replicas", "leader", "role", "factor"
"""Task labels: brokers of all replicas in Kafka's order, the present leader, the task's role, and
how many replicas the partition is to have."""
LEADS, LEADERSHIP = "leader", "leadership"
"""Roles that say who leads."""
CLUSTER = "cluster"
"""Instance label: the id of the cluster that was asked."""
DEAD = "dead"
"""Node label: not empty for a broker that does not live."""


def labelled_brokers(label: str) -> list[int] | None:
    """Return the brokers of the label `REPLICAS`; ``None`` if it is no list of them."""
    words = [word.strip() for word in label.split(",")]
    return [int(word) for word in words] if all(map(is_whole, words)) else None


class Lists(NamedTuple):
    """Replicas in Kafka's order, and who is to lead; ``None`` where no task says it."""

    replicas: list[int]
    leader: int | None


@dataclass
class Labelled:
    """A partition as labels have it.

    Attributes
    ----------
    key
        Which it is.
    now
        Its present replicas and leader.
    factor
        How many replicas it is to have.
    tasks, roles
        Its tasks by index, and the role of each; empty for none.
    """

    key: Key
    now: Lists
    factor: int | None = None
    tasks: list[int] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)

    def under(self, home: Sequence[int], broker: Sequence[int]) -> Lists:
        """Return the lists when tasks that were on the brokers `home` are on `broker`.

        Both are by index of a task, -1 for a replica that is still to be made. The leader is the
        first, because Kafka elects the first sooner or later; else the current order is preserved
        as far as it goes.
        """
        there = [broker[t] for t in self.tasks if broker[t] >= 0]
        by_role = {role: broker[t] for t, role in zip(self.tasks, self.roles, strict=True)}
        if LEADERSHIP in by_role:
            leader = by_role[LEADERSHIP]
            return Lists([leader, *(b for b in self.now.replicas if b != leader)], leader)
        if "" in by_role:
            to = {home[t]: broker[t] for t in self.tasks}
            return Lists([to.get(b, b) for b in self.now.replicas], None)
        leader_now = by_role.get(LEADS)
        return Lists(_ordered(self.now.replicas, there, leader_now), leader_now)

    def home_of(self, home: Sequence[int], after: Sequence[int]) -> dict[int, int] | None:
        """Return the broker of each task under a new list; ``None`` where no tasks make that."""
        if list(after) == self.now.replicas:
            return {t: home[t] for t in self.tasks}
        if LEADERSHIP in self.roles:
            same = sorted(after) == sorted(self.now.replicas)
            return {self.tasks[0]: after[0]} if same else None
        if "" in self.roles:
            to = dict(zip(self.now.replicas, after, strict=False))
            found = {t: to.get(home[t], home[t]) for t in self.tasks}
            placed = [found.get(t, -1) for t in range(max(found) + 1)]
            return found if self.under(home, placed).replicas == list(after) else None
        if len(after) != len(self.tasks) or len(set(after)) < len(after):
            return None
        found = {t: after[0] for t, r in zip(self.tasks, self.roles, strict=True) if r == LEADS}
        rest = [b for b in after if b not in found.values()]
        waiting = [t for t in self.tasks if t not in found]
        for t in [t for t in waiting if home[t] in rest]:
            found[t] = home[t]
            rest.remove(home[t])
        return found | dict(zip((t for t in waiting if t not in found), rest, strict=False))


def _ordered(now: Sequence[int], there: Sequence[int], leader: int | None) -> list[int]:
    """The leader first, the others where they are, new ones in the places of those that go."""
    new = [b for b in there if b not in now]
    filled: list[int] = []
    for b in now:
        filled += [b] if b in there else [new.pop(0)] if new else []
    filled += new
    filled += [b for b in dict.fromkeys(there) for _ in range(there.count(b) - filled.count(b))]
    return sorted(filled, key=lambda b: b != leader)


def listed_partitions(
    labels: Iterable[Mapping[str, str]], names: Sequence[str], ledger: Ledger
) -> dict[Key, Labelled]:
    """Group tasks by partition, by their labels; what is missing is a problem by path."""
    found: dict[Key, Labelled] = {}
    for t, told in enumerate(labels):
        path, missing = f"tasks[{t}].labels", False
        for label in ("topic", "partition", REPLICAS):
            if not told.get(label):
                missing = True
                reason = f"is missing ({names[t]}): Kafka takes whole replica lists only"
                remedy = "import with `streamplace import kafka`, or add the label"
                ledger.problem(f"{path}.{label}", None, reason, remedy)
        if missing:
            continue
        replicas = labelled_brokers(told[REPLICAS])
        if replicas is None:
            reason = f"is no list of brokers ({names[t]})"
            ledger.problem(f"{path}.{REPLICAS}", told[REPLICAS], reason, "numbers with commas: 1,2")
        if not is_whole(told["partition"]):
            ledger.problem(f"{path}.partition", told["partition"], f"is no number ({names[t]})")
        elif replicas is not None:
            key = Key(told["topic"], int(told["partition"]))
            numbers = [int(w) if is_whole(w := told.get(k, "")) else None for k in (LEADER, FACTOR)]
            made = Labelled(key, Lists(replicas, numbers[0]), numbers[1])
            entry = found.setdefault(key, made)
            entry.tasks.append(t)
            entry.roles.append(told.get(ROLE, ""))
    return found
