"""Slots of task managers: whether vertices share them, and which are left for the imported jobs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from streamplace.clusters.flink.units import groups_of

if TYPE_CHECKING:
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.flink.pages import Job, Subtask, TaskManager

    Placed: TypeAlias = dict[tuple[str, str], list[tuple[Subtask, str | None]]]


class Held(NamedTuple):
    """Slots that jobs hold: by task manager, how many in all, and whether all are placed."""

    by_node: Counter[str]
    total: int
    known: bool


def is_sharing(
    managers: list[TaskManager], jobs: list[Job], placed: Placed, slots: str, ledger: Ledger
) -> bool:
    """Return whether a slot takes a subtask of every vertex, told by all jobs that run."""
    if slots in ("sharing", "single"):
        return slots == "sharing"
    pairs = [
        pair
        for job in jobs
        for v in job.vertices
        for pair in placed[job.id, v]
        if not pair[0].ended
    ]
    running = Counter(node for _, node in pairs if node is not None)
    busy = _busy(managers)
    used, total = sum(busy.values()), len(pairs)
    told = f"told by {used} slots in use and {total} subtasks"
    if len(busy) < len(managers) or used > total or not total:
        untold = len(busy) < len(managers)
        why = "freeSlots is missing" if untold else f"{used} slots in use, {total} subtasks"
        ledger.reading(f"slots are taken as shared by the vertices, Flink's default: {why}")
        return True
    if used == total and all(running[m.id] <= m.slots for m in managers):
        ledger.reading(f"one subtask a slot, {told}")
        return False
    ledger.reading(f"slots are shared by the vertices, {told}")
    return True


def _busy(managers: list[TaskManager]) -> dict[str, int]:
    """Return the slots in use, of each task manager that tells its free ones."""
    return {m.id: max(0, m.slots - m.free) for m in managers if m.free is not None}


def slots_held(jobs: list[Job], placed: Placed, sharing: bool) -> Held:
    """Count the slots of jobs: of a sharing group, those of its widest vertex."""
    by_node: Counter[str] = Counter()
    total, known = 0, True
    for job in jobs:
        for vertices in groups_of(job, sharing).values():
            most: Counter[str] = Counter()
            for vertex in vertices:
                pairs = placed[job.id, vertex.id]
                where = [node for subtask, node in pairs if not subtask.ended]
                most |= Counter(node for node in where if node is not None)
                known = known and None not in where
            by_node += most
            total += max(vertex.running for vertex in vertices)
    return Held(by_node, total, known)


def slots_taken(
    managers: list[TaskManager], own: Held, others: Held, ledger: Ledger
) -> Counter[str]:
    """Return the slots of each task manager that the imported jobs cannot have.

    Those in use but for their own; where it is not known which are their own, or which are in use,
    those that the other jobs are seen to hold.
    """
    busy = _busy(managers)
    beyond = {node: max(0, used - own.by_node[node]) for node, used in busy.items()}
    taken = Counter({**others.by_node, **beyond} if own.known else others.by_node)
    if any(taken.values()):
        ledger.reading("slots that hold none of the imported subtasks are taken off")
    foreign = sum(beyond.values()) if own.known else sum(busy.values()) - own.total
    rest = foreign - others.total
    if rest > 0:
        done = "taken off" if own.known else "not taken off, as it is not known where they are"
        ledger.warn(
            f"{rest} slots are in use that no subtask explains: {done}; save the pages of all "
            "running jobs, or say --option slots=single if a slot takes one subtask"
        )
    return taken


def slot_shares(jobs: list[Job], sharing: bool) -> dict[tuple[str, str], float]:
    """Return what part of a slot a running subtask of each vertex takes.

    A slot holds one subtask of each vertex of its group, so that a subtask takes one part in so
    many of it; vertices of which all subtasks have ended take none. A task manager then gets no
    more than its slots hold when Flink fills them, which keeps what the plan gives it within the
    memory that it was set up with.
    """
    return {
        (job.id, vertex.id): 1.0 / max(1, sum(1 for member in members if member.running))
        for job in jobs
        for members in groups_of(job, sharing).values()
        for vertex in members
    }
