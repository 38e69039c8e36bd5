"""The frame of the three published allocators: compile, group, place, report the times."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from optim.methods.registry import Option, Outcome, Request
from optim.referee.result import Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from heuristics.task_allocation.groups import GroupedJob
    from optim.format.instance import Instance
    from optim.format.tables import Ints

RELAXATIONS = (
    Option(
        "margin",
        "float",
        0.0,
        "even groups: loads within a group may differ by this share, the greatest counts for all",
        minimum=0.0,
        maximum=10.0,
    ),
    Option(
        "normalise",
        "bool",
        False,
        "capacity normalisation: nodes as whole multiples of the weakest",
    ),
    Option(
        "alpha",
        "float",
        None,
        "balance mode: a node holds at most this many times the mean load",
        minimum=1.0,
    ),
)
"""Options of the published algorithms: sections 5 and 2.2 of the paper."""


def run_on_groups(
    instance: Instance, request: Request, place: Callable[[GroupedJob, Instance | None], Ints]
) -> Outcome:
    """Place an instance's tasks with an allocator of grouped jobs.

    Parameters
    ----------
    instance, request
        As a method gets them; the options ``margin``, ``normalise`` and ``alpha`` are read here.
    place
        Returns the (T,) node of each task, -1 where it found none; called first with a tiny job of
        no instance, which compiles it.
    """
    from heuristics.task_allocation.groups import balanced, grouped_job, tiny_job

    began = time.perf_counter()
    place(tiny_job(), None)  # compiles the kernel, or loads it
    compiled = time.perf_counter()
    options = request.options
    job = grouped_job(instance, margin=options["margin"], normalise=options["normalise"])
    if options["alpha"] is not None:
        job = balanced(job, options["alpha"])
    times = {"compile": compiled - began, "build": time.perf_counter() - compiled}
    return Outcome(Termination.HEURISTIC, place(job, instance), times=times)
