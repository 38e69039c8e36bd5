"""Several methods in the time given: the best checked plan, the best bound, and who gave them.

An exact first choice has the larger part of the time, so that what is small is proven at once and
no clock decides between plans. Where it ends without a proof, searches and heuristics of the same
objective follow; they end by themselves. The rest is the exact methods', from the best plan so far.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, SolverError, UnsuitableMethod
from optim.figures.catalogue import find_objective
from optim.methods.choose import Choice, choices
from optim.methods.registry import get_method
from optim.referee.result import Result, Termination

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.methods.registry import Settings
    from optim.util.progress import Progress

PORTFOLIO = "portfolio"
"""Asked for as a method is; no method of that name is registered."""
SECONDS = 10.0
"""Of a portfolio that is given no time limit."""
_FIRST = 0.6
"""Share of the time that an exact first choice has before others are tried."""
_SEARCH = 0.35
"""Share of the time that each search has at most."""
_DONE = (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE)


class _Run(NamedTuple):
    """A method that was tried, its seconds, and what came out."""

    name: str
    seconds: float
    result: Result


def run_portfolio(
    relaxed: Instance, solve_one: Callable[..., Result], asked: Settings
) -> Result | None:
    """Try the suited methods, and return the best plan with the best bound.

    Parameters
    ----------
    relaxed
        The instance without the limits that are ignored.
    solve_one
        Solves by one method: takes a `Choice`, `time_limit`, `warm_start` and `progress`.
    asked
        Only methods that can optimise its objective, by default that of the first choice; its time
        limit, or `SECONDS`, is for all methods together.

    Returns
    -------
    Result or None
        ``None`` where there is nothing to choose from: one method, or none without repair.

    Raises
    ------
    SolverError
        A plan of one method beats the proven bound of another.
    """
    limit = SECONDS if asked.time_limit is None else asked.time_limit
    objective = None if asked.objective is None else find_objective(asked.objective).name
    suited = _suited(relaxed, limit, objective, asked.prefer)
    if len(suited) < 2:
        return None
    began = time.perf_counter()
    runs: list[_Run] = []
    figure = find_objective(get_method(suited[0].name).aimed_at(objective or "").objective)
    stopped = False
    for choice, share, again in _order(suited):
        spent = time.perf_counter() - began - sum(r.result.times.get("compile", 0) for r in runs)
        # judging a plan takes its time after the method has ended: as long as it took the others
        left = limit - spent - max((r.result.times.get("check", 0) for r in runs), default=0)
        stopped = stopped or any(r.result.termination is Termination.INTERRUPTED for r in runs)
        done = any(r.result.termination in _DONE or _fixed(figure, relaxed, r) for r in runs)
        if left <= 0 or stopped or done:
            break
        if again and _idle(runs, choice):
            continue
        best = _best(figure, relaxed, runs)
        start = None if best is None else best.result.plan
        started = time.perf_counter()
        try:
            result = solve_one(
                choice,
                time_limit=min(left, share * limit),
                warm_start=start if get_method(choice.name).takes_warm_start else None,
                progress=_shifted(asked.progress, choice.name, spent),
            )
        except (UnsuitableMethod, InvalidInput):  # some find out only while they run
            continue
        except KeyboardInterrupt:
            if best is None:
                raise
            stopped = True
            continue
        runs.append(_Run(choice.name, time.perf_counter() - started, result))
    return _told(figure, relaxed, runs, time.perf_counter() - began, stopped=stopped)


def _suited(
    relaxed: Instance, limit: float, objective: str | None, prefer: str | None
) -> list[Choice]:
    """Methods that need no repair and have the objective of the first."""
    found = [choice for choice in choices(relaxed, limit, objective, prefer) if not choice.repair]
    if not found or get_method(found[0].name).decides == "threads":
        return []
    aim = get_method(found[0].name).aimed_at(objective or "").objective
    return [c for c in found if get_method(c.name).aimed_at(objective or "").objective == aim]


def _order(suited: list[Choice]) -> list[tuple[Choice, float, bool]]:
    """Return whom to run, for which share of the time, and whether it ran before."""
    exact = [c for c in suited if get_method(c.name).kind == "exact"]
    others = [c for c in suited if c not in exact]
    if not others or suited[0] not in exact:
        return [(c, _SEARCH if exact else 1.0, False) for c in others] + [
            (c, 1.0, False) for c in exact
        ]
    return [
        (suited[0], _FIRST, False),
        *((c, _SEARCH, False) for c in others),
        *((c, 1.0, c is suited[0]) for c in exact),
    ]


def _idle(runs: list[_Run], choice: Choice) -> bool:
    """Whether a method ended before its time was over, so that more of it changes nothing."""
    ended = (r.result.termination for r in runs if r.name == choice.name)
    return any(termination is not Termination.TIME_LIMIT for termination in ended)


def _shifted(
    progress: Callable[[Progress], None] | None, name: str, spent: float
) -> Callable[[Progress], None] | None:
    if progress is None:
        return None
    return lambda now: progress(
        replace(now, seconds=now.seconds + spent, phase=f"{name}: {now.phase}")
    )


def _best(figure: Figure, instance: Instance, runs: list[_Run]) -> _Run | None:
    """Return the run with the best feasible plan; of equal ones that with fewest moves."""
    ranked = [
        (_rank(figure, instance, run), i) for i, run in enumerate(runs) if run.result.feasible
    ]
    return runs[min(ranked)[1]] if ranked else None


def _rank(figure: Figure, instance: Instance, run: _Run) -> tuple[float, ...]:
    """Return what is smaller for the better plan, by all levels; differences of rounding are none.

    Unless the figure weighs what is left on leaving nodes, that comes first, as the judge has it.
    """
    left, evaluation = 0, run.result.evaluation
    if not figure.weighs_leaving and run.result.plan is not None:
        node = run.result.plan.node_indices(instance)
        left = int((instance.nodes.leaving[node] & instance.has_open_node).sum())
    values = None if evaluation is None else figure.ranks(evaluation)
    values = (float("inf"),) * len(figure.levels) if values is None else values
    return left, *values, len(run.result.moves)


def _fixed(figure: Figure, instance: Instance, run: _Run) -> bool:
    """Whether a run has a plan and no other can be better."""
    value = _value(run)
    return value is not None and figure.fixed(instance, value, run.result.whole_bound) is not None


def _value(run: _Run) -> float | None:
    told = run.result.objective
    return told.value if run.result.feasible and told is not None else None


def _told(
    figure: Figure, instance: Instance, runs: list[_Run], seconds: float, *, stopped: bool
) -> Result | None:
    """Return the best plan with the best proven bound of all, and what was tried."""
    best = _best(figure, instance, runs)
    for run in runs:
        if run.result.termination is Termination.INFEASIBLE:
            if best is not None:
                told = f"{run.name} calls the instance infeasible, but {best.name} has a plan"
                raise SolverError(told)
            return run.result
    if best is None:
        return runs[-1].result if stopped and runs else None
    result = best.result
    changes: dict[str, Any] = {}
    proof = _bound(figure, best, runs)
    if proof is not None:
        changes = {"bound": proof[0], "bound_of": "problem", "assumes": (), "gap": proof[2]}
    last = runs[-1].result.termination
    if any(_fixed(figure, instance, run) for run in runs):
        changes["termination"] = Termination.HEURISTIC
    elif proof is not None and proof[2] is not None and proof[2] <= figure.optimal_gap:
        changes["termination"] = Termination.OPTIMAL
    elif stopped or last is Termination.INTERRUPTED:
        changes["termination"] = Termination.INTERRUPTED
    elif last is Termination.TIME_LIMIT:
        changes["termination"] = last
    notes = result.notes
    if len(runs) > 1:
        by = f"; the bound is that of {proof[1]}" if proof is not None else ""
        notes = (*notes, _tried(figure, runs), f"best plan: {best.name}{by}")
    return replace(result, notes=notes, times={**result.times, "total": seconds}, **changes)


def _bound(figure: Figure, best: _Run, runs: list[_Run]) -> tuple[float, str, float | None] | None:
    """Return the best bound of the problem, whose it is, and the gap of the best plan to it."""
    bounds = [(r.result.bound, r.name) for r in runs if r.result.bound_of == "problem"]
    known = [(bound, name) for bound, name in bounds if bound is not None]
    value, reference = _value(best), figure.reference_of(best.result.evaluation)
    if not known or value is None:
        return None
    bound, name = min(known) if figure.sense == "max" else max(known)
    if figure.beats_bound(value, bound, reference):
        raise SolverError(
            f"the plan of {best.name} ({figure.name} {value:g}) beats the proven bound of {name} "
            f"({bound:g}): one of the two is wrong"
        )
    return bound, name, figure.gap(value, bound, reference)


def _tried(figure: Figure, runs: list[_Run]) -> str:
    words = []
    for run in runs:
        value = _value(run)
        found = "no plan" if value is None else f"{figure.name} {value:.6g}"
        words.append(f"{run.name} {run.seconds:.1f} s ({found})")
    return "tried: " + ", ".join(words)
