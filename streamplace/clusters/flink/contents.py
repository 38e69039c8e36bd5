"""What the tasks of units hold now: which subtasks, on which task manager, busy for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamplace.clusters.exchange.readings import completed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.tables import Floats
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.flink.pages import Vertex
    from streamplace.clusters.flink.slots import Placed
    from streamplace.clusters.flink.units import Unit

_SKEWED = 2.0
"""Highest load of a subtask, by the mean of its vertex, from which on a warning is due."""


class Contents:
    """The subtasks in each task of each unit.

    A task is where the subtask of its unit's widest vertex is, or, once that has ended, where any
    of its other subtasks runs. No page says which subtasks share a slot: on each task manager those
    of the other vertices are dealt to the tasks there, index by index where that can be.

    Parameters
    ----------
    units, placed
        All units, and where the subtasks of their vertices are.
    measured
        Whether each subtask keeps its own CPU; else those of a vertex have its mean.
    ledger
        Takes readings and warnings.
    """

    def __init__(self, units: list[Unit], placed: Placed, measured: bool, ledger: Ledger) -> None:
        self._ledger = ledger
        self._task: dict[tuple[str, str], list[int]] = {}
        self._running: dict[tuple[str, str], list[bool]] = {}
        self._cpu: dict[tuple[str, str], list[float]] = {}
        self._full: dict[tuple[str, str], list[float]] = {}
        self._width: dict[tuple[str, str], int] = {}
        self._where: dict[str, list[str | None]] = {}
        for unit in units:
            head = placed[unit.job.id, unit.widest.id]
            where = [None if subtask.ended else node for subtask, node in head]
            vacant = {i for i, (subtask, _) in enumerate(head) if subtask.ended}
            apart = 0
            for vertex in sorted(unit.vertices, key=lambda v: (v is not unit.widest, -v.running)):
                key = unit.job.id, vertex.id
                self._width[key] = unit.width
                ended = [subtask.ended for subtask, _ in placed[key]]
                self._running[key] = [not gone for gone in ended]
                nodes = [node for _, node in placed[key]]
                self._task[key], astray = _deal(nodes, self._running[key], where, vacant)
                self._cpu[key] = self._loads(vertex, self._running[key], measured)
                # the busiest is full first wherever it runs, whichever index it has then
                busy = [one or 0.0 for one in vertex.rates("busy")]
                most = max([*self._cpu[key], *busy], default=0.0)
                self._full[key] = self._cpu[key] if measured else [most] * len(ended)
                apart += astray
            for i in vacant:
                where[i] = head[i][1]
            self._where[unit.name] = where
            if apart and unit.job.running:
                ledger.warn(
                    f"{unit.name}: {apart} subtasks run on a task manager where none of its tasks "
                    "is: figures of the current placement count them elsewhere"
                )

    def _loads(self, vertex: Vertex, running: list[bool], measured: bool) -> list[float]:
        """Return the CPU of each subtask; where it is not told, that of its equals."""
        busy = vertex.rates("busy")
        told = completed(busy) or [0.0] * len(busy)
        if not measured and told:
            self._ledger.reading(
                "subtasks of a vertex get its mean load: Flink decides which index goes where"
            )
            _warn_of_skew(vertex, [one for one in busy if one is not None], self._ledger)
            told = [sum(told) / len(told)] * len(told)
        left = iter(told)
        return [next(left) if runs else 0.0 for runs in running]

    def where(self, unit: Unit) -> list[str | None]:
        """Return the task manager of each task of a unit; ``None`` where unknown."""
        return self._where[unit.name]

    def is_whole(self, job: str, vertex: str) -> bool:
        """Whether each task of its unit holds one running subtask of a vertex."""
        return bool((self.per_task(job, vertex) == 1).all())

    def per_task(self, job: str, vertex: str) -> Floats:
        """(width,) number of running subtasks of a vertex in each task of its unit."""
        key = job, vertex
        running = np.asarray(self._running[key], dtype=np.float64)
        return np.asarray(
            np.bincount(self._task[key], running, minlength=self._width[key]), dtype=np.float64
        )

    def cpu(self, unit: Unit) -> Floats:
        """(width,) CPU of each task of a unit, in cores."""
        found = np.zeros(unit.width)
        for vertex in unit.vertices:
            key = unit.job.id, vertex.id
            np.add.at(found, self._task[key], self._cpu[key])
        return found

    def fullest(self, unit: Unit) -> Floats:
        """(width,) share of its time for which the busiest thread of each task works."""
        found = np.zeros(unit.width)
        for vertex in unit.vertices:
            key = unit.job.id, vertex.id
            full = np.where(self._running[key], self._full[key], 0.0)
            np.maximum.at(found, self._task[key], full)
        return found

    def slots(self, unit: Unit, share: Mapping[tuple[str, str], float], whole: bool) -> Floats:
        """(width,) what part of a slot each task takes.

        Parameters
        ----------
        share
            Job and vertex to the part that one of its subtasks takes.
        whole
            Whether a task is a slot: then it is taken as long as anything in it runs.
        """
        found = np.zeros(unit.width)
        for vertex in unit.vertices:
            found += share[unit.job.id, vertex.id] * self.per_task(unit.job.id, vertex.id)
        return (found > 0).astype(np.float64) if whole else found


def _deal(
    nodes: list[str | None], running: list[bool], where: list[str | None], vacant: set[int]
) -> tuple[list[int], int]:
    """Give each subtask a task on its node: its own index first, then one that has none yet.

    Parameters
    ----------
    nodes, running
        Of the subtasks of one vertex; those that have ended, or of unknown place, keep their index.
    where
        Nodes of the tasks.
    vacant
        Tasks that are nowhere yet: the first subtask that needs one takes it to its own node.

    Returns
    -------
    list of int, int
        Task of each subtask, and how many subtasks are on a node where no task is.
    """
    found, held = list(range(len(nodes))), [0] * len(where)
    left = []
    for i, node in enumerate(nodes):
        if running[i] and node is not None and where[i] != node:
            if i not in vacant:
                left.append(i)
                continue
            vacant.discard(i)
            where[i] = node
        held[i] += running[i]
    on: dict[str | None, list[int]] = {}
    for task, place in enumerate(where):
        on.setdefault(place, []).append(task)
    apart = 0
    for i in left:
        here = on.setdefault(nodes[i], [])
        best = min(here, key=lambda t: (held[t], t), default=None)
        if vacant and (best is None or held[best]):
            best = min(vacant)
            vacant.discard(best)
            where[best] = nodes[i]
            here.append(best)
        elif best is None:
            apart += 1
            best = min(range(len(where)), key=lambda t: (held[t], t))
        found[i] = best
        held[best] += 1
    return found, apart


def _warn_of_skew(vertex: Vertex, busy: list[float], ledger: Ledger) -> None:
    mean = sum(busy) / len(busy) if busy else 0.0
    if mean > 0.05 and max(busy) > _SKEWED * mean:
        ledger.warn(
            f"subtasks of {vertex.name or vertex.id} are busy {min(busy):.2f} to {max(busy):.2f}; "
            "a plan cannot say where the busy ones go (--option loads=measured keeps each as it is)"
        )
