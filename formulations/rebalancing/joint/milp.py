"""`joint-milp`: collocated traffic under a load-distance cap and a budget of moves, exact.

Madsen, Zhou, Cao 2016 call this model too expensive and build ALBIC instead; with it ALBIC has an
optimum to be compared with.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.balance import search as balance_search
from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.model import add_cuts, cuts_of
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.problem import (
    JointAim,
    JointGoal,
    Prepared,
    all_places,
    build_joint,
    collocation_bound,
    columns_of,
    left_level,
    prepare,
)
from formulations.rebalancing.joint.search import KERNELS, Effort, find
from formulations.rebalancing.problem import (
    Solving,
    binding_names,
    note_infeasible,
    note_not_drained,
)
from optim.errors import SolverError
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.solvers import LIMITED_WORK, solve_kept, solve_linear
from optim.solvers.interface import refuse_continuous
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formulations.rebalancing.balance.model import Cut
    from formulations.rebalancing.joint.problem import JointModel, JointProblem
    from formulations.rebalancing.joint.search import SearchResult
    from formulations.rebalancing.problem import Floats, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


#: A small model more than the search solves: what it wins is no longer to be proven against.
PROVING = (1_000, 14, 1e-3, 1_000)

SEARCH_SHARE = 0.5  # Share of the time left that the search may take; the rest is the solver's.

#: Key groups and pairs times nodes up to which the model comes before any search, and the share of
#: the time left that it may take. With less than a second a solver may not even be loaded in time.
TINY, TINY_SHARE, TINY_SECONDS = 400, 0.5, 1.0


def run(instance: Instance, request: Request) -> Outcome:
    """Collocate and balance an instance; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only, or
        the load distance is weighted and the solver takes integers only.
    Raises `InvalidInput`: the model would be too large.
    Raises `SolverError`: a solver's claim does not survive our own count.
    """
    if request.options["weighted"]:
        refuse_continuous(request.solver, "a weighted load distance is continuous")
    if _is_tiny(instance, request):
        outcome = _by_model(instance, request)
        if outcome is not None:
            return outcome
    request, compiled = request.warmed(balance_search.warm_up, joint_search.warm_up)
    prepared = prepare(instance, request, "joint-milp")
    if prepared.impossible:
        return _impossible(prepared)
    if not any(map(prepared.problem.is_feasible, prepared.starts)):
        family_start = request.start()
        prepared.starts += [] if family_start is None else [family_start.node.astype(np.int64)]
    settings = settings_of(request)
    drained: Answer | None = None
    weighted = request.options["weighted"]
    if prepared.problem.balance.has_leaving and prepared.drain == "first":
        drained = _solve(prepared, settings, request, "left")
        if drained.placement is not None:
            prepared.starts.insert(0, drained.placement)
            prepared.problem = prepared.problem.with_left(-drained.value)
    answer = drained
    if drained is None or (drained.placement is not None and not drained.interrupted):
        answer = _solve(prepared, settings, request, "weighted" if weighted else "traffic")
    assert answer is not None
    outcome = _outcome(prepared, answer, drained, request)
    if prepared.drain != "first" and not weighted and not answer.interrupted:
        _drain_last(prepared, settings, answer, outcome)
    # what is not reported here, the search before the solver too, counts as solving
    outcome.times = {"compile": compiled, "build": outcome.times.get("build", 0.0)}
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the model of the first level over all places."""
    prepared = prepare(instance, request, METHOD.name, searching=False)
    settings, problem = settings_of(request), prepared.problem
    goal: JointGoal = "weighted" if request.options["weighted"] else "traffic"
    if prepared.drain == "first" and problem.balance.has_leaving:
        goal = "left"
    columns = columns_of(problem, all_places(problem.balance))
    model = build_joint(problem, columns, JointAim(goal, settings.weights)).model
    figure = {"traffic": "imc_gain", "left": "load_on_leaving_nodes", "weighted": "weighted"}[goal]
    return PosedModel(model, figure, -1.0 if goal == "left" else 1.0, binding_names(instance))


def _impossible(prepared: Prepared) -> Outcome:
    return Outcome(Termination.INFEASIBLE, notes=prepared.notes, rank=prepared.rank())


def _is_tiny(instance: Instance, request: Request) -> bool:
    """Whether the model is smaller than the search, and nothing is asked that needs one."""
    options = request.options
    senders = sum(len(near.sources) for near in instance.flows.local)
    places = (instance.num_tasks + len(instance.pairs.rate) + senders) * instance.num_nodes
    distance_matters = options["max_load_distance"] is not None or options["weighted"]
    timely = request.time_limit is None or request.time_limit >= TINY_SECONDS
    return places <= TINY and timely and not distance_matters


def _by_model(instance: Instance, request: Request) -> Outcome | None:
    """Solve the model alone, by a bounded amount of work; ``None`` where that proves nothing."""
    # no kernel is loaded or compiled. Where nodes are leaving, emptying them is a level of its own,
    # before or after, as the option says
    prepared = prepare(instance, request, METHOD.name, searching=False)
    if prepared.impossible:
        return _impossible(prepared)
    settings = replace(settings_of(request), time_share=TINY_SHARE)
    leaving, first = prepared.problem.balance.has_leaving, prepared.drain == "first"
    drained: Answer | None = None
    if leaving and first:
        drained = solve_joint(
            prepared.problem, replace(settings, goal="left"), None, prepared.starts, work=True
        )
        if drained.termination != "optimal":
            return None
        assert drained.placement is not None
        prepared.starts.insert(0, drained.placement)
        prepared.problem = prepared.problem.with_left(-drained.value)
    answer = solve_joint(prepared.problem, settings, None, prepared.starts, work=True)
    if answer.termination not in ("optimal", "gap_reached", "infeasible", "interrupted"):
        return None
    # why, and what may be done, follows from the other way
    if answer.placement is None and leaving:
        return None
    outcome = _outcome(prepared, answer, drained, request)
    if not first and not answer.interrupted:
        _drain_last(prepared, settings, answer, outcome)
    outcome.times = {"build": outcome.times.get("build", 0.0)}
    return outcome


def settings_of(request: Request) -> JointSettings:
    """Read what the request says on how to solve."""
    options = request.options
    return JointSettings.of(request, weights=(float(options["w1"]), float(options["w2"])))


def _solve(
    prepared: Prepared, settings: JointSettings, request: Request, goal: JointGoal
) -> Answer:
    """Search first, then branch and bound."""
    left = goal == "left"

    def report(value: float | None, bound: float | None) -> None:
        if request.progress is not None and goal == "traffic":
            request.progress(Progress(request.elapsed(), value, bound, "solve"))

    time_left = request.remaining()
    deadline = None if time_left is None else time.perf_counter() + SEARCH_SHARE * time_left
    effort = Effort.of(request, kernels=(*KERNELS, PROVING), deadline=deadline)
    searched: SearchResult = find(
        prepared.problem, prepared.starts, effort, for_left=left, report=report
    )
    settings = replace(settings, goal=goal, report=report)
    return solve_joint(prepared.problem, settings, searched, prepared.starts)


def _outcome(
    prepared: Prepared, answer: Answer, drained: Answer | None, request: Request
) -> Outcome:
    """Write down plan, bounds and what they are bounds of."""
    problem, notes = prepared.problem, [*prepared.notes, *answer.notes]
    everywhere = collocation_bound(prepared.problem)
    within = min(answer.whole_bound, everywhere)
    weights = None
    if answer.weighted:
        weights = (float(request.options["w1"]), float(request.options["w2"]))
    if answer.placement is None:
        infeasible = answer.termination == "infeasible" and not prepared.restricted
        if answer.termination == "error":
            raise SolverError("; ".join(answer.notes) or "the solver failed")
        if prepared.drain == "hard" and problem.balance.has_leaving:
            notes.append(note_not_drained(problem.balance))
        elif infeasible:
            notes.append(note_infeasible(problem.balance))
        termination = Termination(answer.termination)
        if termination is Termination.INFEASIBLE and not infeasible:
            termination = Termination.ITERATION_LIMIT
        return Outcome(
            termination, notes=notes, times=answer.times, solver=answer.solver,
            warm_start_accepted=prepared.warm, rank=prepared.rank(weights),
        )  # fmt: skip
    value = problem.collocated(answer.placement)
    conditions = prepared.conditions()
    # what holds among all plans, whatever is asked of them by options
    whole = max(value, everywhere if conditions else within)
    bound = max(value, min(within, answer.bound if not answer.weighted else within))
    if bound >= whole:
        conditions = []
    levels = _reported_levels(answer, drained, value, whole, bool(conditions))
    return Outcome(
        Termination(answer.termination),
        node=answer.placement,
        claimed=value,
        bound=bound if math.isfinite(bound) else None,
        assumes=tuple(conditions),
        levels=levels,
        notes=notes,
        warm_start_accepted=prepared.warm,
        trace=answer.trace,
        times=answer.times,
        solver=answer.solver,
        rank=prepared.rank(weights),
    )


def _reported_levels(
    answer: Answer, drained: Answer | None, value: float, whole: float, restricted: bool
) -> tuple[Level, ...]:
    """List the levels in the order they were solved, the bound of the whole problem last."""
    levels = []
    if drained is not None and drained.placement is not None:
        levels.append(left_level(drained.value, drained.bound))
    if answer.weighted:
        bound = answer.bound if math.isfinite(answer.bound) else None
        levels.append(Level("weighted", "max", answer.value, bound))
    if restricted:
        levels.append(Level("imc_gain_unrestricted", "max", value, whole, "rate"))
    return tuple(levels)


def _drain_last(
    prepared: Prepared, settings: JointSettings, answer: Answer, outcome: Outcome
) -> None:
    """Emptying does not come first: least load on leaving nodes of plans that collocate as much."""
    if answer.placement is None or not prepared.problem.balance.has_leaving:
        return
    floor = answer.value - 1e-9 * max(1.0, answer.value)
    prepared.starts.insert(0, answer.placement)
    aimed = replace(settings, goal="left", min_traffic=floor)
    last = solve_joint(prepared.problem, aimed, None, prepared.starts)
    if last.placement is None or prepared.problem.collocated(last.placement) < floor:
        return
    if -last.value < prepared.problem.left(answer.placement) - 1e-9:
        outcome.node = last.placement
        outcome.claimed = prepared.problem.collocated(last.placement)
    outcome.levels += (left_level(-prepared.problem.left(np.asarray(outcome.node)), last.bound),)


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
    forms=BALANCE_MILP.forms,
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
    solvers=("cbc", "highs", "scip", "cp-sat"),
    default_solver="highs",
    promises_feasibility=True,
    takes_warm_start=True,
    starts=("joint-search",),
)  # fmt: skip


#: A solver and our own count may differ by this much (relative above 1) before it is an error.
AGREE = 1e-5

#: From this size on HiGHS first works on the root without a start: given one it turns to
#: heuristics around it early, and its bound was measured to stay three times as far away.
ROOT_PLACES = 30_000

#: Share of the time for that, and the work it is granted.
ROOT_SHARE, ROOT_OPTIONS = 0.8, {"mip_max_nodes": 200}

FLOOR = 1e-7  # There, plans this much (relative) below the known one are cut off.


@dataclass(frozen=True)
class JointSettings(Solving):
    """How to solve; `gap` is relative."""

    #: As in `JointAim`.
    goal: JointGoal = "traffic"
    weights: tuple[float, float] = (1.0, 1.0)
    min_traffic: float = -math.inf
    time_share: float = 1.0  # Share of the time left for one solve.
    report: Callable[[float | None, float | None], None] | None = None  # Of value and bound.

    @property
    def weighted(self) -> bool:
        """Whether load distance counts in the objective."""
        return self.goal == "weighted"


@dataclass
class Answer:
    """What is known in the end."""

    #: Best placement, its value for the goal, and a bound on that.
    placement: Ints | None = None
    value: float = -math.inf
    bound: float = math.inf
    whole_bound: float = math.inf  # Bound on the traffic of the whole problem.
    #: Why it stopped; whether by Ctrl-C; whether the goal was the weighted one.
    termination: str = "time_limit"
    interrupted: bool = False
    weighted: bool = False
    #: What plans broke that a solver took for feasible.
    cuts: list[Cut] = field(default_factory=list)
    #: For the result.
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    solver: str | None = None


def solve_joint(
    problem: JointProblem,
    settings: JointSettings,
    searched: SearchResult | None,
    starts: list[Ints],
    *,
    work: bool = False,
) -> Answer:
    """Solve the model, beginning from the best placement known.

    `searched`: what the search found on it for the same goal; for the weighted goal, on traffic.
    `starts`: further placements to begin from.
    `work`: whether the solver has a bounded amount of work.
    Raises `SolverError`: the solver's claim does not survive our own count.
    """
    answer = Answer(weighted=settings.weighted)
    if searched is not None:
        answer.trace = list(searched.trace)
        if settings.goal != "left":
            answer.whole_bound = searched.bound
        if not settings.weighted:
            answer.bound = searched.bound
        if searched.placement is not None:
            starts = [searched.placement, *starts]
    for start in starts:
        _take(problem, settings, answer, start)
    if searched is not None and _settled(settings, searched, answer):
        return answer
    if _root_first(problem, settings, answer):
        floor = answer.value - FLOOR * max(1.0, abs(answer.value))
        bounded = replace(settings, min_traffic=floor, time_share=ROOT_SHARE)
        built, solution = _run_until_kept(problem, bounded, answer, ROOT_OPTIONS)
        if solution.termination in ("infeasible", "interrupted") or solution.x is not None:
            _read(problem, settings, built, solution, answer)
        elif solution.bound is not None:
            answer.bound = max(answer.value, min(answer.bound, solution.bound))
        if answer.interrupted or _near(settings, answer):
            return _closed(settings, answer)
    options = LIMITED_WORK[settings.solver] if work else None
    built, solution = _run_until_kept(problem, settings, answer, options)
    _read(problem, settings, built, solution, answer)
    return _closed(settings, answer)


def _root_first(problem: JointProblem, settings: JointSettings, answer: Answer) -> bool:
    """Whether to bound from the root first, without passing over a plan."""
    size = (problem.balance.num_tasks + problem.num_products) * problem.balance.num_nodes
    return (
        settings.goal == "traffic"
        and settings.solver == "highs"
        and answer.placement is not None
        and size >= ROOT_PLACES
    )


def _enough(settings: JointSettings, answer: Answer) -> float | None:
    """Return the bound at which the known plan is as near as asked for."""
    if not settings.gap or answer.placement is None or not 0 < settings.gap < 1:
        return None
    return answer.value / (1.0 - settings.gap) if answer.value > 0 else None


def _near(settings: JointSettings, answer: Answer) -> bool:
    if not math.isfinite(answer.bound):  # nothing is near: ∞ is within any share of ∞
        return False
    slack = max(1e-9, 0.0 if settings.gap is None else settings.gap)
    scale = max(abs(answer.bound), abs(answer.value))
    return answer.bound - answer.value <= slack * scale + 1e-12


def _closed(settings: JointSettings, answer: Answer) -> Answer:
    """Settle termination and the bound of the whole problem."""
    if settings.goal == "traffic":
        answer.whole_bound = min(answer.whole_bound, answer.bound)
    if answer.placement is not None and not answer.interrupted and _near(settings, answer):
        answer.termination = "gap_reached" if settings.gap else "optimal"
    return answer


def _settled(settings: JointSettings, searched: SearchResult, answer: Answer) -> bool:
    """Whether nothing is left to do: proven by the search, interrupted, or shown infeasible."""
    if searched.interrupted:
        answer.termination, answer.interrupted = "interrupted", True
        return True
    if searched.infeasible and answer.placement is None:
        answer.termination = "infeasible"
        return True
    if settings.weighted or answer.placement is None:
        return False
    if not _near(settings, answer):
        return False
    _closed(settings, answer)
    return True


def value_of(problem: JointProblem, settings: JointSettings, placement: Ints) -> float:
    """Return what the goal maximises, counted from a placement."""
    if not settings.weighted:
        return problem.value(placement, settings.goal == "left")
    w1, w2 = settings.weights
    return w1 * problem.collocated(placement) - w2 * problem.balance.levels(placement).distance


def _take(problem: JointProblem, settings: JointSettings, answer: Answer, placement: Ints) -> None:
    if not problem.is_feasible(placement):
        return
    if problem.collocated(placement) < settings.min_traffic:
        return
    value = value_of(problem, settings, placement)
    if answer.placement is None or value > answer.value:
        answer.placement, answer.value = placement, value
        if settings.offer is not None:
            settings.offer(placement)
        answer.bound = max(answer.bound, value)


def _run_until_kept(
    problem: JointProblem,
    settings: JointSettings,
    answer: Answer,
    root: Mapping[str, Any] | None = None,
) -> tuple[JointModel, LinearSolution]:
    """Build and solve, anew while the plan breaks a limit by the solver's rounding."""
    built: list[JointModel] = []

    def solve() -> LinearSolution:
        built[:] = [_build(problem, settings, answer)]
        return _run(settings, built[0], answer, root)

    def cut_off(x: Floats) -> bool:
        placement = built[0].read(x)
        if problem.is_feasible(placement):
            return False
        answer.cuts += cuts_of(problem.balance, placement)
        return True

    solution, _ = solve_kept(solve, cut_off, lambda: settings.over)
    return built[0], solution


def _build(problem: JointProblem, settings: JointSettings, answer: Answer) -> JointModel:
    begun = time.perf_counter()
    aim = JointAim(settings.goal, settings.weights, settings.min_traffic)
    built = build_joint(problem, columns_of(problem, all_places(problem.balance)), aim)
    add_cuts(built.model, answer.cuts, built.placing)
    built.model.freeze()
    answer.times["build"] = answer.times.get("build", 0.0) + time.perf_counter() - begun
    return built


def _run(
    settings: JointSettings,
    built: JointModel,
    answer: Answer,
    root: Mapping[str, Any] | None = None,
) -> LinearSolution:
    """Solve; with `root` options without a start, which keeps HiGHS at its cuts."""
    begun = time.perf_counter()
    left = None
    if settings.deadline is not None:
        left = max(1e-3, (settings.deadline - begun) * settings.time_share)
    start = None if answer.placement is None or root else built.write(answer.placement)

    def progress(now: Progress) -> None:
        if settings.report is not None:
            bound = answer.bound if now.bound is None else min(now.bound, answer.bound)
            settings.report(now.incumbent, bound)

    solution = solve_linear(
        built.model,
        settings.solver,
        time_limit=left,
        gap=settings.gap,
        seed=settings.seed,
        threads=settings.threads,
        warm_start=start,
        options=root,
        stop_bound=_enough(settings, answer) if root else None,
        progress=progress,
    )
    offset = begun - settings.started
    answer.times["build"] += solution.build_seconds
    spent = time.perf_counter() - begun - solution.build_seconds
    answer.times["solve"] = answer.times.get("solve", 0.0) + spent
    answer.solver = solution.solver
    if settings.goal == "traffic":
        for seconds, value, bound in solution.trace:
            proven = answer.bound if math.isfinite(answer.bound) else None
            tighter = bound if proven is None or (bound is not None and bound < proven) else proven
            best = answer.value if answer.placement is not None else None
            value = best if value is None or (best is not None and best > value) else value
            answer.trace.append((seconds + offset, value, tighter))
    if solution.message:
        answer.notes.append(solution.message)
    return solution


def _read(
    problem: JointProblem,
    settings: JointSettings,
    built: JointModel,
    solution: LinearSolution,
    answer: Answer,
) -> None:
    """Take in the solver's plan and bound, and check both against our own count."""
    answer.termination = str(solution.termination)
    answer.interrupted = answer.termination == "interrupted"
    if solution.termination == "infeasible" and answer.placement is not None:
        start = built.write(answer.placement)
        if start is not None and built.model.violation(start) <= 1e-9:
            note = f"{solution.solver} calls a problem infeasible that has a plan: not believed"
            answer.notes.append(note)
            answer.termination = "iteration_limit"
            return
        answer.termination = "optimal"  # the plan uses the referee's tolerance, models do not
        answer.bound = answer.value
        return
    if solution.x is not None:
        placement = built.read(solution.x)
        counted = value_of(problem, settings, placement)
        claimed = float(solution.objective if solution.objective is not None else counted)
        if claimed - counted > AGREE * max(1.0, abs(counted)):
            raise SolverError(f"{solution.solver} claims {claimed:.9g}, but we count {counted:.9g}")
        _take(problem, settings, answer, placement)
    bound = solution.bound
    if bound is not None:
        answer.bound = min(answer.bound, bound)
    if answer.placement is not None:
        answer.bound = max(answer.bound, answer.value)
