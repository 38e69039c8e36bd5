"""Slots of task managers: whether vertices share them, and which are left for the imported jobs.

A slot takes one subtask of every vertex of a sharing group, so that on a task manager of s slots
each vertex may have s subtasks: one resource a vertex, load 1 a subtask, says exactly that for one
sharing group. Without sharing a slot takes one subtask: one resource ``slot``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from experiments.interchange.importers.flink_reading import Job, Subtask, TaskManager
    from experiments.interchange.ledger import Ledger

    Placed: TypeAlias = dict[tuple[str, str], list[tuple[Subtask, str | None]]]

MOST_SHARED = 60
"""Vertices for which slot sharing is written as one resource each."""


class Held(NamedTuple):
    """Slots that jobs hold: by task manager, how many in all, and whether all are placed."""

    by_node: Counter[str]
    total: int
    known: bool


def is_sharing(
    managers: list[TaskManager], jobs: list[Job], placed: Placed, slots: str, ledger: Ledger
) -> bool:
    """Return whether a slot takes a subtask of every vertex, told by all jobs that run."""
    if slots != "auto":
        return slots == "sharing"
    pairs = [pair for job in jobs for v in job.vertices for pair in placed[job.id, v]]
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
        groups: dict[str | None, list[list[str | None]]] = {}
        for vertex in job.vertices.values():
            where = [node for _, node in placed[job.id, vertex.id]]
            groups.setdefault(vertex.sharing if sharing else vertex.id, []).append(where)
        for vertices in groups.values():
            most: Counter[str] = Counter()
            for where in vertices:
                most |= Counter(node for node in where if node is not None)
                known = known and None not in where
            by_node += most
            total += max(len(where) for where in vertices)
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


def slot_resources(
    names: dict[tuple[str, str], str], jobs: list[Job], sharing: bool, ledger: Ledger
) -> tuple[list[str], dict[str, str]]:
    """Return the resources, and of each operator the one its subtasks take a slot in."""
    if not sharing:
        return ["cpu", "slot"], dict.fromkeys(names.values(), "slot")
    if len(names) > MOST_SHARED:
        ledger.reading(
            f"more than {MOST_SHARED} vertices: of shared slots only the widest are kept apart"
        )
    groups = {v.sharing for job in jobs for v in job.vertices.values()}
    if len(groups) > 1 or len(jobs) > 1:
        ledger.warn(
            "several slot sharing groups or jobs: a slot of one is counted as free for the others"
        )
    widest = sorted(
        (
            (-job.vertices[v].parallelism, names[j, v])
            for j, v in names
            for job in jobs
            if job.id == j
        )
    )
    kept = {name for _, name in widest[:MOST_SHARED]}
    slot_of = {name: f"slot {name}" if name in kept else "slot others" for name in names.values()}
    return ["cpu", *dict.fromkeys(slot_of.values())], slot_of
