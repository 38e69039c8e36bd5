"""`joint-milp`: collocated traffic under a load-distance cap and a budget of moves, exact.

Madsen, Zhou, Cao 2016 call this model too expensive and build ALBIC instead; with it ALBIC has an
optimum to be compared with.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance import search as balance_search
from formulations.rebalancing.balance.instance import binding_names
from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.prepare import none_within, not_emptied
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.model import (
    JointAim,
    all_places,
    build_joint,
    collocation_bound,
    columns_of,
)
from formulations.rebalancing.joint.problem import Prepared, prepare
from formulations.rebalancing.joint.solve import Answer, JointSettings, solve_joint
from formulations.rebalancing.joint.start import KERNELS, Effort, find
from optim.errors import SolverError
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Level, Termination
from optim.rules.base import Form
from optim.solvers.backends import refuse_continuous
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from formulations.rebalancing.joint.model import JointGoal
    from formulations.rebalancing.joint.start import Known
    from optim.format.instance import Instance
    from optim.methods.registry import Request

#: A small model more than the search solves: what it wins is no longer to be proven against.
PROVING = (1_000, 14, 1e-3, 1_000)

#: Share of the time left that the search may take; the rest is the solver's.
SEARCH_SHARE = 0.5

#: Key groups and pairs times nodes up to which the model comes before any search, and the share of
#: the time left that it may take. With less than a second a solver may not even be loaded in time.
TINY, TINY_SHARE, TINY_SECONDS = 400, 0.5, 1.0


def run(instance: Instance, request: Request) -> Outcome:
    """Collocate and balance an instance; the method's entry point.

    Raises
    ------
    UnsuitableMethod
        A task that stands on a staying node may be on leaving ones only, or the load distance is
        weighted and the solver takes integers only.
    InvalidInput
        The model would be too large.
    SolverError
        A solver's claim does not survive our own count.
    """
    if request.options["weighted"]:
        refuse_continuous(request.solver, "a weighted load distance is continuous")
    if _is_tiny(instance, request):
        outcome = _by_model(instance, request)
        if outcome is not None:
            return outcome
    request, compiled = request.warmed(balance_search.warm_up, joint_search.warm_up)
    made = prepare(instance, request, "joint-milp")
    if made.impossible:
        return _impossible(made)
    if not any(map(made.problem.is_feasible, made.starts)):
        held = request.start()
        made.starts += [] if held is None else [held.node.astype(np.int64)]
    settings = settings_of(request)
    drained: Answer | None = None
    weighted = request.options["weighted"]
    if made.problem.balance.has_leaving and made.drain == "first":
        drained = _solve(made, settings, request, "left")
        if drained.placement is not None:
            made.starts.insert(0, drained.placement)
            made.problem = made.problem.with_left(-drained.value)
    answer = drained
    if drained is None or (drained.placement is not None and not drained.interrupted):
        answer = _solve(made, settings, request, "weighted" if weighted else "traffic")
    assert answer is not None
    outcome = _outcome(instance, made, answer, drained, request)
    if made.drain != "first" and not weighted and not answer.interrupted:
        _drain_last(made, settings, request, answer, outcome)
    # what is not reported here, the search before the solver too, counts as solving
    outcome.times = {"compile": compiled, "build": outcome.times.get("build", 0.0)}
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the model of the first level over all places."""
    made = prepare(instance, request, METHOD.name, searching=False)
    settings, problem = settings_of(request), made.problem
    goal: JointGoal = "weighted" if request.options["weighted"] else "traffic"
    if made.drain == "first" and problem.balance.has_leaving:
        goal = "left"
    columns = columns_of(problem, all_places(problem.balance))
    model = build_joint(problem, columns, JointAim(goal, settings.weights)).model
    told = {"traffic": "imc_gain", "left": "load_on_leaving_nodes", "weighted": "weighted"}[goal]
    return PosedModel(model, told, -1.0 if goal == "left" else 1.0, binding_names(instance))


def _impossible(made: Prepared) -> Outcome:
    return Outcome(Termination.INFEASIBLE, notes=made.notes, rank=made.rank())


def _is_tiny(instance: Instance, request: Request) -> bool:
    """Whether the model is smaller than the search, and nothing is asked that needs one."""
    options = request.options
    places = (instance.num_tasks + len(instance.pairs.rate)) * instance.num_nodes
    asked = options["max_load_distance"] is not None or options["weighted"]
    timely = request.time_limit is None or request.time_limit >= TINY_SECONDS
    return places <= TINY and timely and not asked


def _by_model(instance: Instance, request: Request) -> Outcome | None:
    """Solve the model alone, by a bounded amount of work; ``None`` where that proves nothing.

    No kernel is loaded or compiled. Where nodes are leaving, emptying them is a level of its own,
    before or after, as the option says.
    """
    made = prepare(instance, request, METHOD.name, searching=False)
    if made.impossible:
        return _impossible(made)
    settings = replace(settings_of(request), time_share=TINY_SHARE)
    leaving, first = made.problem.balance.has_leaving, made.drain == "first"
    drained: Answer | None = None
    if leaving and first:
        drained = solve_joint(
            made.problem, replace(settings, goal="left"), None, made.starts, work=True
        )
        if drained.termination != "optimal":
            return None
        assert drained.placement is not None
        made.starts.insert(0, drained.placement)
        made.problem = made.problem.with_left(-drained.value)
    answer = solve_joint(made.problem, settings, None, made.starts, work=True)
    if answer.termination not in ("optimal", "gap_reached", "infeasible", "interrupted"):
        return None
    # why, and what may be done, follows from the other way
    if answer.placement is None and leaving:
        return None
    outcome = _outcome(instance, made, answer, drained, request)
    if not first and not answer.interrupted:
        _drain_last(made, settings, request, answer, outcome)
    outcome.times = {"build": outcome.times.get("build", 0.0)}
    return outcome


def settings_of(request: Request) -> JointSettings:
    """Read what the request says on how to solve."""
    options, limit = request.options, request.time_limit
    return JointSettings(
        solver=request.solver or METHOD.default_solver or "highs",
        weights=(float(options["w1"]), float(options["w2"])),
        gap=request.gap,
        deadline=None if limit is None else request.started + limit,
        started=request.started,
        seed=request.seed,
        threads=request.threads,
        offer=request.offer,
    )


def _solve(made: Prepared, settings: JointSettings, request: Request, goal: JointGoal) -> Answer:
    """Search first, then branch and bound."""
    left = goal == "left"

    def told(value: float | None, bound: float | None) -> None:
        if request.progress is not None and goal == "traffic":
            request.progress(Progress(request.elapsed(), value, bound, "solve"))

    time_left = request.remaining()
    deadline = None if time_left is None else time.perf_counter() + SEARCH_SHARE * time_left
    effort = Effort(
        kernels=(*KERNELS, PROVING), deadline=deadline, started=request.started,
        seed=request.seed, offer=request.offer,
    )  # fmt: skip
    known: Known = find(made.problem, made.starts, effort, for_left=left, told=told)
    settings = replace(settings, goal=goal, told=told)
    return solve_joint(made.problem, settings, known, made.starts)


def _outcome(
    instance: Instance,
    made: Prepared,
    answer: Answer,
    drained: Answer | None,
    request: Request,
) -> Outcome:
    """Write down plan, bounds and what they are bounds of."""
    problem, notes = made.problem, [*made.notes, *answer.notes]
    everywhere = collocation_bound(made.problem)
    within = min(answer.whole_bound, everywhere)
    weights = None
    if answer.weighted:
        weights = (float(request.options["w1"]), float(request.options["w2"]))
    if answer.placement is None:
        infeasible = answer.termination == "infeasible" and not made.closest
        if answer.termination == "error":
            raise SolverError("; ".join(answer.notes) or "the solver failed")
        if made.drain == "hard" and problem.balance.has_leaving:
            notes.append(not_emptied(problem.balance))
        elif infeasible:
            notes.append(none_within(problem.balance))
        why = Termination(answer.termination)
        if why is Termination.INFEASIBLE and not infeasible:
            why = Termination.ITERATION_LIMIT
        return Outcome(
            why, notes=notes, times=answer.times, solver=answer.solver,
            warm_start_accepted=made.warm, rank=made.rank(weights),
        )  # fmt: skip
    value = problem.collocated(answer.placement)
    conditions = made.conditions()
    # what holds among all plans, whatever is asked of them by options
    whole = max(value, everywhere if conditions else within)
    bound = max(value, min(within, answer.bound if not answer.weighted else within))
    if bound >= whole:
        conditions = []
    levels = _levels(answer, drained, value, whole, bool(conditions))
    return Outcome(
        Termination(answer.termination),
        node=answer.placement,
        claimed=value,
        bound=bound if math.isfinite(bound) else None,
        assumes=tuple(conditions),
        levels=levels,
        notes=notes,
        warm_start_accepted=made.warm,
        trace=answer.trace,
        times=answer.times,
        solver=answer.solver,
        rank=made.rank(weights),
    )


def _levels(
    answer: Answer,
    drained: Answer | None,
    value: float,
    whole: float,
    restricted: bool,
) -> tuple[Level, ...]:
    """List the levels in the order they were solved, the bound of the whole problem last."""
    levels = []
    if drained is not None and drained.placement is not None:
        bound = -drained.bound if math.isfinite(drained.bound) else None
        levels.append(
            Level("load_on_leaving_nodes", "min", -drained.value + 0.0, bound, "resource")
        )
    if answer.weighted:
        bound = answer.bound if math.isfinite(answer.bound) else None
        levels.append(Level("weighted", "max", answer.value, bound))
    if restricted:
        levels.append(Level("imc_gain_unrestricted", "max", value, whole, "rate"))
    return tuple(levels)


def _drain_last(
    made: Prepared,
    settings: JointSettings,
    request: Request,
    answer: Answer,
    outcome: Outcome,
) -> None:
    """Emptying does not come first: least load on leaving nodes of plans that collocate as much."""
    if answer.placement is None or not made.problem.balance.has_leaving:
        return
    floor = answer.value - 1e-9 * max(1.0, answer.value)
    made.starts.insert(0, answer.placement)
    aimed = replace(settings, goal="left", min_traffic=floor)
    last = solve_joint(made.problem, aimed, None, made.starts)
    if last.placement is None or made.problem.collocated(last.placement) < floor:
        return
    if -last.value < made.problem.left(answer.placement) - 1e-9:
        outcome.node = last.placement
        outcome.claimed = made.problem.collocated(last.placement)
    bound = -last.bound if math.isfinite(last.bound) else None
    value = made.problem.left(np.asarray(outcome.node))
    outcome.levels += (Level("load_on_leaving_nodes", "min", value, bound, "resource"),)


METHOD = Method(
    name="joint-milp",
    family="rebalancing",
    kind="exact",
    objective="imc_gain",
    run=run,
    pose=pose,
    summary="Most collocated traffic within a load distance and a budget of migrations, proven",
    source="the model that Madsen, Zhou, Cao 2016, section 4.3.2, call too expensive",
    needs=("tasks", "nodes", "traffic"),
    forms=BALANCE_MILP.forms - {Form.LOCAL_FIRST},
    options=(
        Option(
            "max_load_distance",
            "float",
            None,
            "load distance aimed at, in units of the first resource; the least there is where "
            "the budget does not allow it; the instance's own limit counts too",
            minimum=0.0,
            unit="resource",
        ),
        Option(
            "weighted", "bool", False, "w1·traffic − w2·load distance, not collocated traffic alone"
        ),
        Option(
            "w1", "float", 1.0, "weight of traffic (weighted)", minimum=0.0,
            unit="per_rate",
        ),
        Option(
            "w2", "float", 1.0, "weight of load distance (weighted)", minimum=0.0,
            unit="per_resource",
        ),
        Option(
            "drain",
            "str",
            "first",
            "leaving nodes are emptied first, as far as budget and cap allow, or (soft) after "
            "collocation, or (hard) all that may go elsewhere must be off them",
            choices=("first", "soft", "hard"),
        ),
    ),
    constants={"candidates": "all", "spread": 6},
    solvers=("cbc", "highs", "scip", "cp-sat"),
    default_solver="highs",
    promises_feasibility=True,
    takes_warm_start=True,
    starts=("joint-search",),
)  # fmt: skip
