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

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamplace.clusters.exchange.naming import UniqueNames

if TYPE_CHECKING:
    from streamplace.clusters.flink.pages import Job, Vertex

POINTWISE = {"FORWARD", "RESCALE"}


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

    Parameters
    ----------
    place
        ``subtasks`` or ``slots``.
    sharing
        Whether the vertices of a sharing group share slots; else each has its own.
    """
    unique = UniqueNames()
    found = []
    for job in jobs:
        head = f"{topology_of(job, jobs)}: " if len(jobs) > 1 else ""
        parts = _groups(job, sharing) if place == "slots" else _chains(job)
        for number, vertices in enumerate(parts, 1):
            name = " + ".join(vertex.name or vertex.id for vertex in vertices)
            if place == "slots" and len(vertices) > 1:
                name = "slots" if len(parts) == 1 else f"slots of group {number}"
            unit = unique.take(head + name, vertices[0].id[:8])
            found.append(Unit(unit, job, tuple(vertices)))
    return found


def groups_of(job: Job, sharing: bool) -> dict[str, list[Vertex]]:
    """Return the vertices by sharing group; where no group is told, all are in Flink's default."""
    found: dict[str, list[Vertex]] = {}
    for vertex in job.vertices.values():
        found.setdefault((vertex.sharing or "") if sharing else vertex.id, []).append(vertex)
    return found


def _groups(job: Job, sharing: bool) -> list[list[Vertex]]:
    return list(groups_of(job, sharing).values())


def _chains(job: Job) -> list[list[Vertex]]:
    """Join each vertex to the first producer that forwards to it at the same parallelism.

    With one such producer each, subtask i always finds its producer's slot free of its own vertex
    and goes into it. A second producer may sit in other slots: that edge stays between units.
    """
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
