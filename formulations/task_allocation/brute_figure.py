"""`imc-brute` for any figure but traffic inside nodes: every assignment judged by itself."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from formulations.task_allocation.common import why_nothing_fits
from optim.errors import Problem, UnsuitableMethod
from optim.figures.catalogue import OBJECTIVES
from optim.methods.registry import Outcome
from optim.referee.result import Termination
from optim.rules import keeps_all
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.methods.registry import Request

MOST = 500_000
"""Assignments, each judged in some 50 µs."""

JUDGED = tuple(name for name, figure in OBJECTIVES.items() if figure.value is not None)
"""Objectives that every placement has a value of, or says that it has none."""


def best_by_figure(instance: Instance, request: Request, objective: str) -> Outcome:
    """Try all assignments to allowed nodes, of those that stay where a task has one.

    Raises
    ------
    UnsuitableMethod
        There are more than `MOST`, or the figure is unknown of plans for this instance.
    """
    figure = OBJECTIVES[objective]
    places = [_places(instance, task) for task in range(instance.num_tasks)]
    count = math.prod(map(len, places))
    if count > MOST:
        reason = f"would judge {count:.3g} assignments by {objective}, more than {MOST:,}"
        raise UnsuitableMethod(Problem("imc-brute", None, reason, "only small instances can be"))
    binding = figure.binding(instance)
    outcome = Outcome(Termination.OPTIMAL, notes=[f"{count:,} assignments"])
    for nodes in itertools.product(*places):
        placement = Placement(instance, np.array(nodes, dtype=np.int32))
        if request.remaining() == 0.0:
            outcome.termination = Termination.TIME_LIMIT
            return outcome
        value = None if figure.value is None else figure.value(placement)
        # a figure is cheap beside the rules
        best = outcome.claimed
        if best is not None and value is not None and not figure.better(value, best):
            continue
        if not keeps_all(placement if figure.hard is None else Placement(binding, placement.node)):
            continue
        if value is None:
            reason = "is unknown of this instance's plans, or of plans without slots"
            raise UnsuitableMethod(Problem("--objective", objective, reason, "choose another"))
        outcome.node, outcome.claimed = placement.node, float(value)
        request.offer(placement.node)
    outcome.bound = outcome.claimed
    if outcome.node is None:
        outcome.termination = Termination.INFEASIBLE
        outcome.reasons = why_nothing_fits(instance)
    return outcome


def _places(instance: Instance, task: int) -> list[int]:
    allowed = instance.allowed_mask(task)
    staying = allowed & instance.open_nodes
    return [int(node) for node in np.flatnonzero(staying if staying.any() else allowed)]
