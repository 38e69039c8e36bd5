"""`joint-search`: fast search for collocated traffic under a load-distance cap, with a bound.

Annealing along promising moves (compiled), and small models over the best columns of the linear
relaxation, whose value is the bound.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance import search as balance_search
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.milp import METHOD as JOINT_MILP
from formulations.rebalancing.joint.problem import collocation_bound, left_level, prepare
from formulations.rebalancing.joint.search import Effort, find
from formulations.rebalancing.problem import note_not_drained
from optim.figures.catalogue import find_objective
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.util.progress import Progress

if TYPE_CHECKING:
    from formulations.rebalancing.joint.problem import Prepared
    from formulations.rebalancing.joint.search import Known
    from optim.format.instance import Instance
    from optim.methods.registry import Request

_OPTIONS = {option.name: option for option in JOINT_MILP.options}

#: Of `local_first` streams: the share of the time that the search of pairs has; steps of a round of
#: the walk, for any instance, for each task, and at most; times that the rounds are walked at most,
#: and without any gain before it ends.
SHARE, FIRST_STEPS, EACH_STEP, MOST_STEPS, CYCLES, PATIENCE = 0.5, 10_000, 300, 400_000, 12, 3


def run(instance: Instance, request: Request) -> Outcome:
    """Collocate and balance an instance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    """
    request, compiled = request.warmed(balance_search.warm_up, joint_search.warm_up)
    made = prepare(instance, request, "joint-search")
    if made.impossible:
        return Outcome(Termination.INFEASIBLE, notes=made.notes, rank=made.rank())
    drains = made.problem.balance.has_leaving and made.drain == "first"
    limit = request.time_limit
    effort = Effort.of(
        request,
        first=int(request.options["steps"]),
        relaxing=request.options["bound"] == "relaxation",
    )
    levels: list[Level] = []
    interrupted = False
    # emptying is a problem of its own, for a third of the time; its result is a limit afterwards
    if drains:
        share = None if limit is None else request.started + 0.3 * limit
        drained = find(made.problem, made.starts, replace(effort, deadline=share), for_left=True)
        interrupted = drained.interrupted
        if drained.placement is not None:
            made.starts.insert(0, drained.placement)
            made.problem = made.problem.with_left(-drained.value)
            levels.append(left_level(drained.value, drained.bound))
        elif drained.infeasible and not made.restricted:
            return Outcome(Termination.INFEASIBLE, notes=made.notes, rank=made.rank())

    def told(value: float | None, bound: float | None) -> None:
        if request.progress is not None:
            request.progress(Progress(request.elapsed(), value, bound, "search"))

    if interrupted:
        effort = replace(effort, rounds=0, kernels=())
    walks = bool(made.problem.local) and not interrupted
    if walks and limit is not None:
        share = SHARE * (request.remaining() or 0.0)
        effort = replace(effort, deadline=time.perf_counter() + share)
    known = find(
        made.problem, made.starts, effort, go_on=limit is not None and not interrupted, report=told
    )
    if walks and not (known.interrupted or known.infeasible or known.closed):
        effort = replace(effort, deadline=request.deadline)
        _walk(instance, made, known, request)
    interrupted |= known.interrupted
    times = {"compile": compiled, "solve": request.elapsed()}
    # small searches end before their time
    why = Termination.TIME_LIMIT if effort.over else Termination.ITERATION_LIMIT
    why = Termination.INTERRUPTED if interrupted else why
    if known.placement is None:
        if known.infeasible and not made.restricted:
            return Outcome(Termination.INFEASIBLE, notes=made.notes, times=times, rank=made.rank())
        note = "the search found no placement that keeps every limit"
        if made.drain == "hard" and made.problem.balance.has_leaving:
            note = note_not_drained(made.problem.balance)
        return Outcome(
            why, notes=[*made.notes, note], times=times, warm_start_accepted=made.warm,
            rank=made.rank(),
        )  # fmt: skip
    # a bound under conditions is reported as such, unless it holds for all plans anyway
    conditions = made.conditions()
    whole = max(known.value, collocation_bound(made.problem))
    if known.bound >= whole:
        conditions = []
    if conditions:
        levels.append(Level("imc_gain_unrestricted", "max", known.value, whole, "rate"))
    return Outcome(
        why,
        node=known.placement,
        claimed=known.value,
        bound=known.bound,
        assumes=tuple(conditions),
        levels=tuple(levels),
        notes=made.notes,
        warm_start_accepted=made.warm,
        trace=known.trace,
        times=times,
        rank=made.rank(),
    )


def _walk(instance: Instance, made: Prepared, known: Known, request: Request) -> None:
    """Go on by the walk that follows who has a receiver near, of which annealing sees pairs."""
    from heuristics.annealing import Annealing, warm_up_walk

    request, _ = request.warmed(warm_up_walk)
    cap = made.problem.balance.max_distance
    capped = instance.with_values("limits", max_load_distance=cap)
    starts = made.starts if known.placement is None else [known.placement, *made.starts]
    walk = Annealing(capped, find_objective(METHOD.objective), request)
    try:
        some = [start.astype(np.int32) for start in starts]
        for start in some:
            walk.take(start)
        steps = min(MOST_STEPS, FIRST_STEPS + EACH_STEP * instance.num_tasks)
        walk.search(some, steps, CYCLES, PATIENCE)
    except KeyboardInterrupt:
        known.interrupted = True
    if walk.best is None:
        return
    node = walk.best.astype(np.int64)
    value = made.problem.collocated(node)
    if made.problem.is_feasible(node) and (known.placement is None or value > known.value):
        known.placement, known.value = node, value
        known.bound = max(known.bound, value)
        known.trace.append((request.elapsed(), value, known.bound))


METHOD = Method(
    name="joint-search",
    family="rebalancing",
    kind="search",
    objective="imc_gain",
    run=run,
    summary="Fast search for collocated traffic within a load distance and a budget of migrations",
    source="ours",
    needs=JOINT_MILP.needs,
    forms=JOINT_MILP.forms,
    options=(
        _OPTIONS["max_load_distance"],
        Option(
            "steps",
            "int",
            30_000,
            "steps of each annealing; fewer where there are few tasks",
            minimum=1,
            maximum=1_000_000_000,
        ),
        Option(
            "bound",
            "str",
            "relaxation",
            "the linear relaxation bounds, and says which moves are worth trying; or (counting) "
            "no model is solved at all: quicker, with a looser bound",
            choices=("relaxation", "counting"),
        ),
        Option(
            "drain",
            "str",
            "first",
            "leaving nodes are emptied first, as far as budget and cap allow, or (soft) only "
            "where it collocates, or (hard) all that may go elsewhere must be off them",
            choices=("first", "soft", "hard"),
        ),
    ),
    promises_feasibility=True,
    takes_warm_start=True,
)
