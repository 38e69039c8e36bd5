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
    from formulations.rebalancing.joint.search import SearchResult
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
    prepared = prepare(instance, request, "joint-search")
    if prepared.impossible:
        return Outcome(Termination.INFEASIBLE, notes=prepared.notes, rank=prepared.rank())
    drains = prepared.problem.balance.has_leaving and prepared.drain == "first"
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
        drained = find(
            prepared.problem, prepared.starts, replace(effort, deadline=share), for_left=True
        )
        interrupted = drained.interrupted
        if drained.placement is not None:
            prepared.starts.insert(0, drained.placement)
            prepared.problem = prepared.problem.with_left(-drained.value)
            levels.append(left_level(drained.value, drained.bound))
        elif drained.infeasible and not prepared.restricted:
            return Outcome(Termination.INFEASIBLE, notes=prepared.notes, rank=prepared.rank())

    def report(value: float | None, bound: float | None) -> None:
        if request.progress is not None:
            request.progress(Progress(request.elapsed(), value, bound, "search"))

    if interrupted:
        effort = replace(effort, rounds=0, kernels=())
    walks = bool(prepared.problem.local) and not interrupted
    if walks and limit is not None:
        share = SHARE * (request.remaining() or 0.0)
        effort = replace(effort, deadline=time.perf_counter() + share)
    result = find(
        prepared.problem,
        prepared.starts,
        effort,
        go_on=limit is not None and not interrupted,
        report=report,
    )
    if walks and not (result.interrupted or result.infeasible or result.closed):
        effort = replace(effort, deadline=request.deadline)
        _walk(instance, prepared, result, request)
    interrupted |= result.interrupted
    times = {"compile": compiled, "solve": request.elapsed()}
    # small searches end before their time
    termination = Termination.TIME_LIMIT if effort.over else Termination.ITERATION_LIMIT
    termination = Termination.INTERRUPTED if interrupted else termination
    if result.placement is None:
        if result.infeasible and not prepared.restricted:
            return Outcome(
                Termination.INFEASIBLE, notes=prepared.notes, times=times, rank=prepared.rank()
            )
        note = "the search found no placement that keeps every limit"
        if prepared.drain == "hard" and prepared.problem.balance.has_leaving:
            note = note_not_drained(prepared.problem.balance)
        return Outcome(
            termination, notes=[*prepared.notes, note], times=times,
            warm_start_accepted=prepared.warm, rank=prepared.rank(),
        )  # fmt: skip
    # a bound under conditions is reported as such, unless it holds for all plans anyway
    conditions = prepared.conditions()
    whole = max(result.value, collocation_bound(prepared.problem))
    if result.bound >= whole:
        conditions = []
    if conditions:
        levels.append(Level("imc_gain_unrestricted", "max", result.value, whole, "rate"))
    return Outcome(
        termination,
        node=result.placement,
        claimed=result.value,
        bound=result.bound,
        assumes=tuple(conditions),
        levels=tuple(levels),
        notes=prepared.notes,
        warm_start_accepted=prepared.warm,
        trace=result.trace,
        times=times,
        rank=prepared.rank(),
    )


def _walk(instance: Instance, prepared: Prepared, result: SearchResult, request: Request) -> None:
    """Go on by the walk that follows who has a receiver near, of which annealing sees pairs."""
    from heuristics.annealing import Annealing, warm_up_walk

    request, _ = request.warmed(warm_up_walk)
    cap = prepared.problem.balance.max_distance
    capped = instance.with_values("limits", max_load_distance=cap)
    starts = prepared.starts if result.placement is None else [result.placement, *prepared.starts]
    walk = Annealing(capped, find_objective(METHOD.objective), request)
    try:
        some = [start.astype(np.int32) for start in starts]
        for start in some:
            walk.take(start)
        steps = min(MOST_STEPS, FIRST_STEPS + EACH_STEP * instance.num_tasks)
        walk.search(some, steps, CYCLES, PATIENCE)
    except KeyboardInterrupt:
        result.interrupted = True
    if walk.best is None:
        return
    node = walk.best.astype(np.int64)
    value = prepared.problem.collocated(node)
    if prepared.problem.is_feasible(node) and (result.placement is None or value > result.value):
        result.placement, result.value = node, value
        result.bound = max(result.bound, value)
        result.trace.append((request.elapsed(), value, result.bound))


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
