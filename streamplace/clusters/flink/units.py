"""What is placed: a subtask, a chain of subtasks that share a slot, or a whole slot.

Two ways to carry a plan out, and so two models (``--option place``):

subtasks
    Every vertex gets a sharing group and a resource of its own (``streamplace export flink``), so
    that any counts of its subtasks on task managers can be had. Which index goes where is Flink's
    choice; a FORWARD edge between equal parallelisms keeps index by index only if both ends share
    a slot. Such ends are one unit, and its tasks are placed as one.
slots
    The job's sharing groups stay. Flink makes as many slots for a group as its widest vertex has
    subtasks, and fills them with one subtask of each vertex: what is placed is the slot.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamplace.clusters.exchange.pages import UniqueNames, completed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.tables import Floats
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.flink.pages import Job, TaskManager, Vertex


POINTWISE = {"FORWARD", "RESCALE"}
_SKEWED = 2.0
"""Highest load of a subtask, by the mean of its vertex, from which on a warning is due."""


@dataclass(frozen=True)
class Unit:
    """An operator of the instance: `width` tasks, each holding a subtask of every vertex."""

    name: str
    job: Job
    vertices: tuple[Vertex, ...]

    @property
    def width(self) -> int:
        """Number of its tasks: subtasks of its widest vertex."""
        return max(vertex.parallelism for vertex in self.vertices)

    @property
    def widest(self) -> Vertex:
        """The first vertex that has a subtask in each of its tasks."""
        return next(v for v in self.vertices if v.parallelism == self.width)


def topology_of(job: Job, jobs: list[Job]) -> str:
    """Return the job's name, with part of its id where another job has that name too."""
    alike = [other for other in jobs if other.name == job.name]
    return job.name if len(alike) == 1 else f"{job.name} ({job.id[:8]})"


def units_of(jobs: list[Job], place: str, sharing: bool) -> list[Unit]:
    """Part the vertices of jobs into units, in their order.

    With `sharing` the vertices of a sharing group share slots; else each has its own.
    """
    unique = UniqueNames()
    units = []
    for job in jobs:
        head = f"{topology_of(job, jobs)}: " if len(jobs) > 1 else ""
        parts = list(groups_of(job, sharing).values()) if place == "slots" else _chains(job)
        for number, vertices in enumerate(parts, 1):
            name = " + ".join(vertex.title for vertex in vertices)
            if place == "slots" and len(vertices) > 1:
                name = "slots" if len(parts) == 1 else f"slots of group {number}"
            unit = unique.take(head + name, vertices[0].id[:8])
            units.append(Unit(unit, job, tuple(vertices)))
    return units


def groups_of(job: Job, sharing: bool) -> dict[str, list[Vertex]]:
    """Return the vertices by sharing group; those that report none are in Flink's default."""
    groups: dict[str, list[Vertex]] = {}
    for vertex in job.vertices.values():
        groups.setdefault((vertex.sharing or "") if sharing else vertex.id, []).append(vertex)
    return groups


def _chains(job: Job) -> list[list[Vertex]]:
    """Join each vertex to the first producer that forwards to it at the same parallelism."""
    # with one such producer each, subtask i always finds its producer's slot free of its own vertex
    # and goes into it. A second producer may sit in other slots: that edge stays between units
    chain = {identity: [vertex] for identity, vertex in job.vertices.items()}
    for vertex in job.vertices.values():
        for sender, strategy in vertex.inputs:
            producer = job.vertices[sender]
            alike = producer.parallelism == vertex.parallelism
            if strategy != "FORWARD" or not alike:
                continue
            if chain[sender] is not chain[vertex.id]:
                joined = chain[sender] + chain[vertex.id]
                for member in joined:
                    chain[member.id] = joined
            break
    return list({id(members): members for members in chain.values()}.values())


class SlotCounts(NamedTuple):
    """Slots that jobs hold: by task manager, how many in all, and whether all are placed."""

    by_node: Counter[str]
    total: int
    placed: bool


def is_sharing(managers: list[TaskManager], jobs: list[Job], slots: str, ledger: Ledger) -> bool:
    """Return whether a slot takes a subtask of every vertex, inferred from all jobs that run."""
    if slots in ("sharing", "single"):
        return slots == "sharing"
    nodes = [subtask.node for job in jobs for subtask in job.everyone() if not subtask.ended]
    running = Counter(node for node in nodes if node is not None)
    busy = _busy(managers)
    used, total = sum(busy.values()), len(nodes)
    basis = f"inferred from {used} slots in use and {total} subtasks"
    if len(busy) < len(managers) or used > total or not total:
        is_partial = len(busy) < len(managers)
        why = "freeSlots is missing" if is_partial else f"{used} slots in use, {total} subtasks"
        ledger.reading(f"slots are taken as shared by the vertices, Flink's default: {why}")
        return True
    # as many slots as subtasks: none is shared, wherever they are
    if used == total and all(running[m.id] <= m.slots for m in managers):
        ledger.reading(f"one subtask a slot, {basis}")
        return False
    ledger.reading(f"slots are shared by the vertices, {basis}")
    return True


def _busy(managers: list[TaskManager]) -> dict[str, int]:
    """Return the slots in use, of each task manager that reports its free ones."""
    return {m.id: max(0, m.slots - m.free) for m in managers if m.free is not None}


def slots_held(jobs: list[Job], sharing: bool) -> SlotCounts:
    """Count the slots of jobs: of a sharing group, those of its widest vertex."""
    by_node: Counter[str] = Counter()
    total, placed = 0, True
    for job in jobs:
        for vertices in groups_of(job, sharing).values():
            most: Counter[str] = Counter()
            for vertex in vertices:
                where = [subtask.node for subtask in vertex.everyone() if not subtask.ended]
                # slots of a group on a node: the most subtasks of any one of its vertices there
                most |= Counter(node for node in where if node is not None)
                placed = placed and None not in where
            by_node += most
            total += max(vertex.running for vertex in vertices)
    return SlotCounts(by_node, total, placed)


def slots_taken(
    managers: list[TaskManager], chosen: SlotCounts, others: SlotCounts, ledger: Ledger
) -> Counter[str]:
    """Return the slots of each task manager that the imported jobs cannot have.

    Those in use but for their own; where it is not known which are their own, or which are in use,
    those that the other jobs are seen to hold.
    """
    busy = _busy(managers)
    beyond = {node: max(0, used - chosen.by_node[node]) for node, used in busy.items()}
    unavailable = Counter({**others.by_node, **beyond} if chosen.placed else others.by_node)
    if any(unavailable.values()):
        ledger.reading("slots that hold none of the imported subtasks are subtracted")
    # slots in use that are not of the imported jobs, by task manager or in all
    foreign = sum(beyond.values()) if chosen.placed else sum(busy.values()) - chosen.total
    rest = foreign - others.total
    if rest > 0:
        done = (
            "subtracted" if chosen.placed else "not subtracted, as it is not known where they are"
        )
        ledger.warn(
            f"{rest} slots are in use that no subtask explains: {done}; save the pages of all "
            "running jobs, or say --option slots=single if a slot takes one subtask"
        )
    return unavailable


def slot_shares(jobs: list[Job], sharing: bool) -> dict[tuple[str, str], float]:
    """Return what part of a slot a running subtask of each vertex takes.

    A slot holds one subtask of each vertex of its group, so that a subtask takes one part in so
    many of it; vertices of which all subtasks have ended take none. So a task manager gets no more
    than its slots hold when Flink fills them, and than the memory that it was set up with.
    """
    return {
        (job.id, vertex.id): 1.0 / max(1, sum(1 for member in members if member.running))
        for job in jobs
        for members in groups_of(job, sharing).values()
        for vertex in members
    }


class _Members(NamedTuple):
    """Of the subtasks of a vertex: task, CPU, share of time busy; and how many run in each task."""

    task: list[int]
    cpu: list[float]
    full: list[float]
    number: Floats


class Contents:
    """The subtasks in each task of each unit.

    A task is where the subtask of its unit's widest vertex is, or, once that has ended, where any
    of its other subtasks runs. No page says which subtasks share a slot: on each task manager those
    of the other vertices are dealt to the tasks there, index by index where that can be. If
    `measured`, each subtask keeps its own CPU; else those of a vertex have its mean.
    """

    def __init__(self, units: list[Unit], measured: bool, ledger: Ledger) -> None:
        self._ledger = ledger
        self._members: dict[tuple[str, str], _Members] = {}
        #: The task manager of each task, by the name of its unit; ``None`` where unknown.
        self.where: dict[str, list[str | None]] = {}
        for unit in units:
            head = unit.widest.everyone()
            where = [None if subtask.ended else subtask.node for subtask in head]
            vacant = {i for i, subtask in enumerate(head) if subtask.ended}
            apart = 0
            # the widest defines the tasks; then fuller vertices, which leave less choice
            for vertex in sorted(unit.vertices, key=lambda v: (v is not unit.widest, -v.running)):
                key = unit.job.id, vertex.id
                subtasks = vertex.everyone()
                running = [not subtask.ended for subtask in subtasks]
                task, astray = _assign([s.node for s in subtasks], running, where, vacant)
                cpu = self._loads(vertex, running, measured)
                # the busiest is the bottleneck wherever it runs, whichever index it has then
                most = max([*cpu, *(one or 0.0 for one in vertex.rates("busy"))], default=0.0)
                full = cpu if measured else [most if runs else 0.0 for runs in running]
                number = np.bincount(task, running, minlength=unit.width).astype(np.float64)
                self._members[key] = _Members(task, cpu, full, number)
                apart += astray
            for i in vacant:
                where[i] = head[i].node
            self.where[unit.name] = where
            if apart and unit.job.running:
                ledger.warn(
                    f"{unit.name}: {apart} subtasks run on a task manager where none of its tasks "
                    "is: figures of the current placement count them elsewhere"
                )

    def _loads(self, vertex: Vertex, running: list[bool], measured: bool) -> list[float]:
        """Return the CPU of each subtask; where it is not reported, that of its equals."""
        busy = vertex.rates("busy")
        loads = completed(busy) or [0.0] * len(busy)
        if not measured and loads:
            self._ledger.reading(
                "subtasks of a vertex get its mean load: Flink decides which index goes where"
            )
            rates = [one for one in busy if one is not None]
            mean = sum(rates) / len(rates) if rates else 0.0
            if mean > 0.05 and max(rates) > _SKEWED * mean:
                self._ledger.warn(
                    f"subtasks of {vertex.title} are busy {min(rates):.2f} to {max(rates):.2f}; a "
                    "plan cannot say where the busy ones go (--option loads=measured keeps each as "
                    "it is)"
                )
            loads = [sum(loads) / len(loads)] * len(loads)
        remaining = iter(loads)
        return [next(remaining) if runs else 0.0 for runs in running]

    def per_task(self, job: str, vertex: str) -> Floats:
        """(width,) number of running subtasks of a vertex in each task of its unit."""
        return self._members[job, vertex].number

    def cpu(self, unit: Unit) -> tuple[Floats, Floats]:
        """Return (width,) CPU of each task, in cores, and how long its busiest thread works."""
        whole, fullest = np.zeros(unit.width), np.zeros(unit.width)
        for vertex in unit.vertices:
            members = self._members[unit.job.id, vertex.id]
            np.add.at(whole, members.task, members.cpu)
            np.maximum.at(fullest, members.task, members.full)
        return whole, fullest

    def slots(self, unit: Unit, share: Mapping[tuple[str, str], float], whole: bool) -> Floats:
        """(width,) what part of a slot each task takes, of the `share` of one of its subtasks.

        If `whole`, a task is a slot, and is taken as long as anything in it runs.
        """
        slots = np.zeros(unit.width)
        for vertex in unit.vertices:
            slots += share[unit.job.id, vertex.id] * self.per_task(unit.job.id, vertex.id)
        return (slots > 0).astype(np.float64) if whole else slots


def _assign(
    nodes: list[str | None], running: list[bool], where: list[str | None], vacant: set[int]
) -> tuple[list[int], int]:
    """Give each subtask a task on its node: its own index first, then one that has none yet."""
    # subtasks of one vertex that have ended, or of unknown place, keep their index. Tasks are on
    # the nodes `where`, or nowhere yet (`vacant`): the first subtask that needs one takes it to its
    # node. The task of each subtask is returned, and how many are on a node where no task is
    task_of, counts = list(range(len(nodes))), [0] * len(where)
    misplaced = []
    for i, node in enumerate(nodes):
        if running[i] and node is not None and where[i] != node:
            misplaced.append(i)
        else:
            counts[i] += running[i]
    on: dict[str | None, list[int]] = {}
    for task, place in enumerate(where):
        on.setdefault(place, []).append(task)
    apart = 0
    for i in misplaced:
        here = on.setdefault(nodes[i], [])
        # the emptiest task of the node; the first of equal ones
        best = min(here, key=lambda t: (counts[t], t), default=None)
        if vacant and (best is None or counts[best]):
            best = i if i in vacant else min(vacant)
            vacant.discard(best)
            where[best] = nodes[i]
            here.append(best)
        elif best is None:
            apart += 1
            best = min(range(len(where)), key=lambda t: (counts[t], t))
        task_of[i] = best
        counts[best] += 1
    return task_of, apart
