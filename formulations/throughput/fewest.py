"""What is asked of a rate that is given: the fewest moves, or the fewest nodes, that carry it.

Capacities and links are limits then (`optim.figures.rate.carrying` writes the rate into them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.throughput.common import MOVES, NODES, counted, good_starts
from formulations.throughput.cover import Cover
from formulations.throughput.groups import grouped
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import imc_gain_of
from optim.kernels.deal import deal
from optim.methods.registry import Outcome
from optim.referee.result import Termination
from optim.rules.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.patterns.clock import Clock
    from formulations.patterns.integer import Backend
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request
    from optim.referee.evaluation import Evaluation

_SAME = 1e-9
FULL = 1.0 + 0.5e-9
"""Utilisation up to which a node is not too full: a part of the referee's tolerance."""


def check_moves(instance: Instance, objective: str, method: str) -> None:
    """Refuse to count moves where no task has a node.

    Raises
    ------
    UnsuitableMethod
        That is so.
    """
    if objective == MOVES and not (instance.tasks.node >= 0).any():
        reason = "needs tasks[].node (the current placement) to count moves"
        remedy = "give each task its node, or ask for the fewest nodes: --objective nodes_used"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


def _keeping(
    least: float, objective: str
) -> Callable[[Ints, Evaluation], tuple[float, ...] | None]:
    """Rank plans by moves, or nodes; none that keeps less traffic inside nodes."""

    def rank(_node: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
        gain, value = evaluation.imc_gain, evaluation.objective(objective)
        if gain is None or value is None or gain < least * (1 - _SAME):
            return None
        return (value,)

    return rank


def nothing_carries() -> tuple[Violation, ...]:
    """Say that it is nodes and links together that no placement keeps."""
    return (Violation("capacity", "nodes and links together, in every placement", 1.0, 1.0, 0.0),)


def fewest(
    instance: Instance, request: Request, clock: Clock, backend: Backend, most: int
) -> Outcome:
    """Choose the patterns that keep all limits with the fewest moves, or nodes in use.

    Raises
    ------
    UnsuitableMethod
        As of `grouped`; or nodes have more patterns than an integer program takes.
    """
    objective, method = str(request.objective), "throughput-exact"
    check_moves(instance, objective, method)
    problem = grouped(instance, instance, method, moves=objective == MOVES)
    listed = problem.patterns(FULL, most, 10 * most)
    if listed is None:
        reason = f"would list more than {most:,} patterns of nodes"
        raise UnsuitableMethod(Problem(method, None, reason, "use throughput-search"))
    usable, least = problem.classes.node_class >= 0, request.options["min_imc_gain"]
    for node in good_starts(instance, request, searched=False):
        if least is None or imc_gain_of(instance, node) >= least * (1 - _SAME):
            request.offer(node)
    if objective == NODES:
        gain, most_gain = (listed.counts.sum(axis=1) == 0).astype(np.float64), int(usable.sum())
    else:
        paying = problem.paying(listed.counts, listed.node_class).sum(axis=1)
        gain, most_gain = listed.counts.sum(axis=1) - paying.astype(np.float64), instance.num_tasks
    at = np.arange(len(listed), dtype=np.int64)
    outcome = Outcome(Termination.OPTIMAL, objective=objective, times={"build": request.elapsed()})
    try:
        answer = Cover(problem, listed, clock, backend, least).whole(at, gain)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
        return outcome
    if answer.stopped:
        over = clock.over()
        outcome.termination = Termination.TIME_LIMIT if over else Termination.ITERATION_LIMIT
    elif answer.bound == -np.inf:
        outcome.termination = Termination.INFEASIBLE
        outcome.reasons = nothing_carries() if least is None else ()
        return outcome
    if np.isfinite(answer.bound):
        outcome.bound = float(max(0.0, np.ceil(most_gain - answer.bound - 1e-6)))
    if answer.counts is not None:
        outcome.node = deal(problem.groups, problem.classes, answer.counts, instance.tasks.node)
        outcome.claimed = counted(instance, outcome.node, objective)
    outcome.notes.append(f"{len(listed):,} patterns of {problem.groups.num_groups} groups of tasks")
    if least is not None:
        outcome.assumes = ("that keep as much traffic inside nodes as option min_imc_gain says",)
        outcome.rank = _keeping(least * request.scale.rate, objective)
    return outcome
