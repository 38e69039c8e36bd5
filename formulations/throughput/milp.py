"""`throughput-milp`: the highest utilisation as a linear model, for any instance of small size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.task_allocation.common import relabelled, why_nothing_fits
from formulations.throughput.common import (
    HONOURS,
    MOVES,
    NODES,
    STARTS,
    counted,
    finished,
    fullest_last,
    good_starts,
    rate_at,
)
from formulations.throughput.counting import least_load
from formulations.throughput.draining import emptied_first
from formulations.throughput.fewest import FULL, check_moves, nothing_carries
from formulations.throughput.model import RateModel, build
from formulations.throughput.places import NEVER, load_of, places_of
from optim.errors import Problem, UnsuitableMethod
from optim.figures.rate import without_measured
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Termination
from optim.rules import broken
from optim.rules.placement import Placement
from optim.solvers import solve_kept, solve_linear
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

_SAME = 1e-9
_NEAR = 2e-6
"""By how much a solver's tolerances may keep its bound from the value of an optimal placement."""


def run(instance: Instance, request: Request) -> Outcome:
    """Place the tasks of an instance; the method's entry point.

    Raises
    ------
    UnsuitableMethod
        The model would be too large.
    """
    _check_size(instance, request.options["most_products"])
    if request.objective in (MOVES, NODES):
        return _fewest(instance, request)
    binding, low = without_measured(instance), least_load(instance)
    starts = good_starts(binding, request, searched=True)
    start = fullest_last(instance, starts)
    if start is not None:
        request.offer(start)
        if load_of(instance, start) <= low * (1 + _SAME):  # no model could say more
            outcome = Outcome(Termination.OPTIMAL, start, times={"build": request.elapsed()})
            return finished(instance, outcome, low)
    answer, node = _solved(binding, instance, request, start, low, measured=True)
    if str(answer.termination) == "infeasible":
        # nothing carries any input; whether there is a placement at all is another question
        answer, node = _solved(binding, instance, request, start, low, measured=False)
        low = NEVER
    return _outcome(binding, instance, answer, node, low)


def _solved(
    binding: Instance,
    instance: Instance,
    request: Request,
    start: Ints | None,
    low: float,
    *,
    measured: bool,
) -> tuple[LinearSolution, Ints | None]:
    """Solve until the placement keeps exactly what binds."""
    solver = request.solver or "highs"
    high = NEVER if start is None else load_of(instance, start)
    bounded = measured and high < NEVER
    low = min(low, high) if bounded else 0.0
    made = build(
        binding, instance, measured=measured, whole=solver == "cp-sat",
        low=low * (1 - _NEAR), high=high * (1 + _NEAR) if bounded else _top(instance),
    )  # fmt: skip
    return _placed(
        binding, request, made, _start_vector(instance, made, start) if bounded else None
    )


def _placed(
    binding: Instance, request: Request, made: RateModel, vector: Floats | None
) -> tuple[LinearSolution, Ints | None]:
    """Solve a model until its placement keeps exactly what binds."""

    def solve() -> LinearSolution:
        return solve_linear(
            made.model, request.solver or "highs", time_limit=request.remaining(),
            gap=request.gap or 0.0,
            seed=request.seed, threads=request.threads, warm_start=vector,
            progress=_told(request),
        )  # fmt: skip

    def cut_off(x: Floats) -> bool:
        node = made.place(x, binding.num_tasks)
        if not broken(Placement(binding, node)):
            return False
        made.forbid(node)
        return True

    answer, _ = solve_kept(solve, cut_off, lambda: request.remaining() == 0)
    if answer.x is None:
        return answer, None
    node = made.place(answer.x, binding.num_tasks)
    request.offer(node)
    return answer, node


def _fewest(instance: Instance, request: Request) -> Outcome:
    """Count moves or nodes instead: nothing is fuller than it may be."""
    objective = str(request.objective)
    check_moves(instance, objective, METHOD.name)
    if objective == MOVES and instance.limits.max_migrations is None:
        # so that tasks and nodes are told apart by where tasks are
        limits = replace(instance.limits, max_migrations=instance.num_tasks)
        instance = replace(instance, limits=limits)
    made = build(
        instance, instance, measured=True, whole=request.solver == "cp-sat", low=0.0, high=FULL,
        counting=objective,
    )  # fmt: skip
    answer, node = _placed(instance, request, made, None)
    outcome = Outcome(
        Termination(str(answer.termination)), node, objective=objective, solver=answer.solver,
        times={"build": answer.build_seconds}, notes=[answer.message] if answer.message else [],
    )  # fmt: skip
    if outcome.termination is Termination.INFEASIBLE:
        outcome.reasons = nothing_carries()
        return outcome
    if answer.bound is not None:
        outcome.bound = max(0.0, float(np.ceil(answer.bound - 1e-4)))
    if node is not None:
        outcome.claimed = counted(instance, node, objective)
    return outcome


def _top(instance: Instance) -> float:
    """Return a utilisation that no placement exceeds where there is room for what it needs."""
    places = places_of(instance)
    cost = instance.crossing_cost.sum(axis=0) * instance.total_traffic
    need = instance.total_load + cost
    top = 1.0
    for r in range(instance.num_resources):
        room = places.room[:, r]
        some = room[np.isfinite(room) & (room > 0)]
        top = max(top, float(need[r] / some.min()) if len(some) else 0.0)
    room = places.link[np.isfinite(places.link) & (places.link > 0)]
    return max(top, float(instance.total_traffic / room.min()) if len(room) else 0.0)


def _start_vector(instance: Instance, made: RateModel, start: Ints | None) -> Floats | None:
    if start is None or (made.classes.node_class[start] < 0).any():
        return None
    return made.vector(instance, relabelled(start, made.classes))


def _told(request: Request) -> Callable[[Progress], None] | None:
    tell = request.progress
    if tell is None:
        return None

    def told(now: Progress) -> None:
        value = None if now.incumbent is None else rate_at(now.incumbent)
        bound = None if not now.bound or now.bound <= 0 else rate_at(now.bound)
        tell(Progress(now.seconds, value, bound, now.phase))

    return told


def _outcome(
    binding: Instance, instance: Instance, answer: LinearSolution, node: Ints | None, low: float
) -> Outcome:
    outcome = Outcome(
        Termination(str(answer.termination)), node, times={"build": answer.build_seconds},
        solver=answer.solver, warm_start_accepted=answer.warm_start_accepted,
        notes=[answer.message] if answer.message else [],
    )  # fmt: skip
    if outcome.termination is Termination.INFEASIBLE:
        outcome.reasons = why_nothing_fits(binding)
        return outcome
    if low < NEVER and answer.bound is not None:
        low = max(low, answer.bound)
    if node is not None:
        high = load_of(instance, node)
        # what a tolerance lets a bound say beyond the value, or leaves between the two
        low = high if abs(high - low) <= _NEAR * high else min(low, high)
    return finished(instance, outcome, low)


def _check_size(instance: Instance, most: int) -> None:
    products = instance.pairs.num_pairs * instance.num_nodes
    if products > most:
        reason = (
            f"would need {products:,} products ({instance.pairs.num_pairs:,} communicating pairs × "
            f"{instance.num_nodes:,} nodes), more than the {most:,} of option most_products"
        )
        remedy = "use throughput-exact or throughput-search"
        raise UnsuitableMethod(Problem(METHOD.name, None, reason, remedy))


METHOD = Method(
    name="throughput-milp",
    family="throughput",
    kind="exact",
    objective="sustainable_rate",
    objectives=(MOVES, NODES),
    run=emptied_first(run),
    summary="A binary a task and node, products of pairs, the highest utilisation minimised",
    source="ours; the objective of Karimov et al., ICDE 2018",
    needs=("bounded_rate",),
    honours=HONOURS | {"sets"},
    options=(
        Option("most_products", "int", 500_000, "refuse when pairs × nodes exceed this", minimum=1),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
    cold=True,
)
