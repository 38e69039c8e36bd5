"""Branch and bound over the joint model, started from what the search found."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from formulations.rebalancing.covers import add_cuts, cuts_of
from formulations.rebalancing.joint.model import (
    JointAim,
    JointGoal,
    all_places,
    build_joint,
    columns_of,
)
from optim.errors import SolverError
from optim.solvers import LIMITED_WORK, solve_kept, solve_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formulations.rebalancing.covers import Cut
    from formulations.rebalancing.joint.model import JointModel
    from formulations.rebalancing.joint.problem import JointProblem
    from formulations.rebalancing.joint.start import Known
    from formulations.rebalancing.problem import Floats, Ints
    from optim.solvers import LinearSolution
    from optim.util.progress import Progress

#: A solver and our own count may differ by this much (relative above 1) before it is an error.
AGREE = 1e-5

#: From this size on HiGHS first works on the root without a start: given one it turns to
#: heuristics around it early, and its bound was measured to stay three times as far away.
ROOT_PLACES = 30_000

#: Share of the time for that, and the work it is granted.
ROOT_SHARE, ROOT_OPTIONS = 0.8, {"mip_max_nodes": 200}

#: There, plans this much (relative) below the known one are cut off.
FLOOR = 1e-7


@dataclass(frozen=True)
class JointSettings:
    """How to solve.

    Attributes
    ----------
    solver, seed, threads
        Back end and its options.
    goal, weights, min_traffic
        As in `JointAim`.
    gap
        Relative gap at which to stop; ``None`` for proven optimal.
    deadline, started
        ``time.perf_counter()`` values.
    time_share
        Share of the time left for one solve.
    told
        Called with value and bound.
    offer
        Given each better placement.
    """

    solver: str = "highs"
    goal: JointGoal = "traffic"
    weights: tuple[float, float] = (1.0, 1.0)
    min_traffic: float = -math.inf
    gap: float | None = None
    deadline: float | None = None
    started: float = 0.0
    seed: int = 0
    threads: int = 1
    time_share: float = 1.0
    told: Callable[[float | None, float | None], None] | None = None
    offer: Callable[[Any], None] | None = None

    @property
    def weighted(self) -> bool:
        """Whether load distance counts in the objective."""
        return self.goal == "weighted"


@dataclass
class Answer:
    """What is known in the end.

    Attributes
    ----------
    placement, value, bound
        Best placement, its value for the goal, and a bound on that.
    whole_bound
        Bound on the traffic of the whole problem.
    termination, interrupted, weighted
        Why it stopped; whether by Ctrl-C; whether the goal was the weighted one.
    cuts
        What plans broke that a solver took for feasible.
    notes, trace, times, solver
        For the result.
    """

    placement: Ints | None = None
    value: float = -math.inf
    bound: float = math.inf
    whole_bound: float = math.inf
    termination: str = "time_limit"
    interrupted: bool = False
    weighted: bool = False
    cuts: list[Cut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)
    solver: str | None = None


def solve_joint(
    problem: JointProblem,
    settings: JointSettings,
    known: Known | None,
    starts: list[Ints],
    *,
    work: bool = False,
) -> Answer:
    """Solve the model, beginning from the best placement known.

    Parameters
    ----------
    problem, settings
        What to solve and how.
    known
        What the search found on it for the same goal; for the weighted goal, on the traffic.
    starts
        Further placements to begin from.
    work
        Whether the solver has a bounded amount of work.

    Raises
    ------
    SolverError
        The solver's claim does not survive our own count.
    """
    answer = Answer(weighted=settings.weighted)
    if known is not None:
        answer.trace = list(known.trace)
        if settings.goal != "left":
            answer.whole_bound = known.bound
        if not settings.weighted:
            answer.bound = known.bound
        if known.placement is not None:
            starts = [known.placement, *starts]
    for start in starts:
        _take(problem, settings, answer, start)
    if known is not None and _settled(settings, known, answer):
        return answer
    if _root_first(problem, settings, answer):
        floor = answer.value - FLOOR * max(1.0, abs(answer.value))
        bounded = replace(settings, min_traffic=floor, time_share=ROOT_SHARE)
        built, solution = _run_kept(problem, bounded, answer, ROOT_OPTIONS)
        if solution.termination in ("infeasible", "interrupted") or solution.x is not None:
            _read(problem, settings, built, solution, answer)
        elif solution.bound is not None:
            answer.bound = max(answer.value, min(answer.bound, solution.bound))
        if answer.interrupted or _near(settings, answer):
            return _closed(settings, answer)
    options = LIMITED_WORK[settings.solver] if work else None
    built, solution = _run_kept(problem, settings, answer, options)
    _read(problem, settings, built, solution, answer)
    return _closed(settings, answer)


def _root_first(problem: JointProblem, settings: JointSettings, answer: Answer) -> bool:
    """Whether to bound from the root first, without passing over a plan."""
    size = (problem.balance.num_tasks + problem.num_pairs) * problem.balance.num_nodes
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


def _settled(settings: JointSettings, known: Known, answer: Answer) -> bool:
    """Whether nothing is left to do: proven by the search, interrupted, or shown infeasible."""
    if known.interrupted:
        answer.termination, answer.interrupted = "interrupted", True
        return True
    if known.infeasible and answer.placement is None:
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
    if settings.goal == "left":
        return -problem.left(placement)
    traffic = problem.collocated(placement)
    if not settings.weighted:
        return traffic
    w1, w2 = settings.weights
    return w1 * traffic - w2 * problem.balance.levels(placement).distance


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


def _run_kept(
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

    def over() -> bool:
        return settings.deadline is not None and time.perf_counter() >= settings.deadline

    solution, _ = solve_kept(solve, cut_off, over)
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
        if settings.told is not None:
            bound = answer.bound if now.bound is None else min(now.bound, answer.bound)
            settings.told(now.incumbent, bound)

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
            known = answer.bound if math.isfinite(answer.bound) else None
            tighter = bound if known is None or (bound is not None and bound < known) else known
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
            told = f"{solution.solver} calls a problem infeasible that has a plan: not believed"
            answer.notes.append(told)
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
