"""`solve`: one function for the command line, Spark and Python.

Order: the method is chosen and checked against the instance; quick proofs of infeasibility; the
warm start; the method; repair where asked for; then the referee, whose figures are the only ones.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, UnsuitableMethod, expect, meant, raise_any
from optim.figures.catalogue import find_objective
from optim.format.instance import Instance
from optim.format.plan import Plan
from optim.methods.audit import judge, moves_of
from optim.methods.choose import Choice, aim, asked_of, check_suitable, choices, takes_long
from optim.methods.portfolio import PORTFOLIO, SECONDS, run_portfolio, run_seeds
from optim.methods.reduce import may_be_rewritten, without_leaving
from optim.methods.registry import (
    NONE,
    OWN,
    Method,
    Request,
    Settings,
    Start,
    all_methods,
    get_method,
    load_model,
    method_names,
    name_of,
)
from optim.methods.run import finish, run_method, starting
from optim.methods.violated_start import (
    MEND,
    START_BROKEN,
    SecondLevel,
    broken_now,
    broken_start,
    first_level,
    no_more_than,
)
from optim.referee import Result, Termination, check_belongs, evaluate_indices
from optim.rules import MAX_LOAD, without_limits
from optim.solvers import SOLVERS, capabilities
from optim.util.compiled import by_size
from optim.util.process import may_fork

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optim.figures.figure import Figure
    from optim.format.tables import Ints
    from optim.kernels.least_excess import LeastExcess
    from optim.methods.violated_start import BrokenStart
    from optim.rules.base import Violation

_ENDS = (Termination.INFEASIBLE, Termination.INTERRUPTED)  # After these no other method is tried.
#: Share of the time for a plan that keeps every limit where it is open whether there is one; the
#: rest is for the plan that violates least.
_UNDECIDED = 0.8


def solve(
    instance: Instance,
    method: str | Method | None = None,
    settings: Settings | None = None,
    **keywords: Any,
) -> Result:
    """Place the tasks of an instance and have the plan checked.

    Parameters
    ----------
    instance
        What to place.
    method
        A registered name, a `Method`, or where one stands: ``FILE.py``, ``FILE.py:NAME`` or
        ``module:NAME``. By default a ``portfolio``, as on the command line: those that suit the
        instance, in the time limit or 10 s (`optim.methods.portfolio`); the notes name them.
    settings
        Objective, limits of time and gap, seed and the rest; see `Settings`.
    **keywords
        Fields of `Settings` (``time_limit=10``), which win over it, and options of the method, as
        ``streamplace methods METHOD`` lists them.

    Returns
    -------
    Result
        With the referee's evaluation; ``plan`` is ``None`` where there is none. That no plan
        exists, or that no plan was found in time, is a result too, and no error: see its
        `termination`.

    Raises
    ------
    InvalidInput
        A wrong argument or option; `UnsuitableMethod`, a kind of it, where the method lacks a part
        of the instance that it needs, or does not keep a limit that is set.
    SolverError
        A solver failed, or its claim does not survive the check.
    RefereeRefused
        A method that promises feasible plans broke a rule.

    Examples
    --------
    >>> from streamplace import InstanceBuilder, solve
    >>> builder = InstanceBuilder("two").node("n1", capacity=100).node("n2", capacity=100)
    >>> builder = builder.task("map", load=60, node="n1").task("sink", load=30, node="n2")
    >>> instance = builder.traffic("map", "sink", 12.5).build()
    >>> result = solve(instance, "imc-exact")
    >>> str(result.termination), result.objective.value, result.bound
    ('optimal', 12.5, 12.5)
    >>> [move.task for move in result.moves]
    ['map']
    """
    expect("instance", instance, Instance, "read a file by Instance.load(FILE)")
    method = PORTFOLIO if method is None else name_of(method)
    merged = Settings.of(settings, keywords)
    merged = replace(merged, objective=goal_of(instance, merged.objective, merged.target_rate))
    if merged.start_broken not in START_BROKEN:
        hint = meant(str(merged.start_broken), START_BROKEN)
        raise InvalidInput(Problem("--start-broken", merged.start_broken, "is no mode", hint))
    if merged.write_model is not None:
        _check_written(merged.write_model, method)
    result = None
    if merged.start_broken == MEND and merged.target_rate is None:
        result = _solve_by_mending(instance, method, merged)
    if result is None:
        result = _solve(instance, method, merged)
    return _explained(instance, merged, result)


def _explained(instance: Instance, settings: Settings, result: Result) -> Result:
    """Report the rules that clash where it is proved that there is no plan, and nothing says
    why.
    """
    if result.termination is not Termination.INFEASIBLE or result.reasons or not settings.explain:
        return result
    find, solved = load_model("conflicts"), without_plan(instance, result, settings)
    if find is None or solved is None:
        return result
    with by_size(solved.num_tasks * solved.num_nodes):
        reasons = find(solved, settings.explain)
    if reasons:
        return replace(result, reasons=reasons)
    note = (
        f"which rules clash was not found within {settings.explain:g} s: "
        "`streamplace explain` takes longer and finds more"
    )
    return replace(result, notes=(*result.notes, note))


def without_plan(instance: Instance, result: Result, settings: Settings) -> Instance | None:
    """Return the instance of which a result says that it has no plan; ``None`` where that is none.

    It has the limits that were not ignored and bind under the objective. Plans of threads are of no
    instance whose rules could be dropped one by one.
    """
    if get_method(result.method).decides == "threads":
        return None
    solved = asked_of(instance, result.ignored, settings.target_rate)
    if result.objective is not None:
        solved = find_objective(result.objective.name).binding(solved)
    if settings.options.get("drain") == "hard":
        return without_leaving(solved, may_stay=False) if may_be_rewritten(solved) else None
    return solved


def _solve(instance: Instance, method: str, settings: Settings) -> Result:
    """Solve as asked; where nothing loads the resource that is balanced, by another resource."""
    first = _solve_by_name_or_choice(instance, method, settings)
    other = _other_resource(instance, settings, first, named=method != PORTFOLIO)
    if other is None:
        return first
    limits = replace(instance.limits, max_load_distance=None)  # of the resource without load
    # a load that is derived would be of the resource that stands first; here all of these are 0
    operators = instance.to_dict().get("operators", [])
    operator_entries = [
        {k: v for k, v in each.items() if k != "cpu_per_tuple"} for each in operators
    ]
    turned = replace(instance, limits=limits).replace(resources=other, operators=operator_entries)
    left = replace(settings, objective="load_distance", warm_start=None)
    second = _solve_by_name_or_choice(turned, method, left)
    if not second.feasible or second.plan is None or second.objective is None:
        return first
    assert first.objective is not None
    node, name = second.plan.node_indices(turned), first.objective.name
    plan = Plan.from_indices(instance, node, None, second.method, second.plan.versions)
    evaluation = evaluate_indices(instance, node, None, name)
    if not evaluation.feasible:
        return first
    note = (
        f"no task has a load of {instance.resources[0]}, the resource that is balanced: "
        f"{other[0]} in its place, to a load distance of {second.objective.value:g} "
        f"({second.termination})"
    )
    return replace(
        second, instance_sha256=instance.sha256, plan=plan, evaluation=evaluation, bound=None,
        objective=replace(first.objective, value=evaluation.objective(name)), bound_of=None,
        gap=None, bound_by=None, assumes=(), objective_levels=(), certified_bound=None,
        termination=Termination.INTERRUPTED if _stopped(second) else Termination.HEURISTIC,
        moves=moves_of(instance, node), notes=(note, *second.notes),
    )  # fmt: skip


def _stopped(result: Result) -> bool:
    return result.termination is Termination.INTERRUPTED


def _other_resource(
    instance: Instance, settings: Settings, result: Result, *, named: bool
) -> list[str] | None:
    """Return the resources with the first one that is loaded first, where that is to be balanced.

    Nothing loads the resource that stands first, and so every plan is as good as another.
    """
    objective = result.objective
    if (
        settings.objective not in (None, "load_distance")
        or not result.feasible
        or objective is None
    ):
        return None
    figure, chosen = find_objective(objective.name), find_objective("load_distance")
    loaded = np.flatnonzero(instance.total_load > 0)
    if not len(loaded) or chosen.fixed(instance) is None or _stopped(result):
        return None
    if (named and figure is not chosen) or figure.fixed(
        instance, objective.value, result.whole_bound
    ) is None:
        return None
    names = list(instance.resources)
    return [names.pop(int(loaded[0])), *names]


def _solve_by_name_or_choice(instance: Instance, method: str, settings: Settings) -> Result:
    """Solve by the method that is named, or by those that suit."""
    if method != PORTFOLIO:
        return _solve_by_name(instance, get_method(method), settings)
    began = time.perf_counter()
    first = _solve_by_several(instance, settings)
    other = _other_objective(instance, settings, first)
    if other is None:
        return first
    left = _with_remaining_time(replace(settings, objective=other), time.perf_counter() - began)
    second = _solve_by_several(instance, left)
    if not second.feasible or first.objective is None:
        return first
    note = f"{first.objective.name} is {first.objective.value:g} for every plan: {other} instead"
    return replace(second, notes=(note, *second.notes))


def _solve_by_name(instance: Instance, method: Method, settings: Settings) -> Result:
    """Solve by one method; a search with several threads from several seeds side by side."""
    seeds = method.kind == "search" and isinstance(settings.threads, int) and settings.threads > 1
    if not seeds or not may_fork() or _wrong_numbers(settings):
        return _solve_by(instance, method, settings)

    def solve_one(_: Choice, **changes: Any) -> Result:
        return _solve_by(instance, method, replace(settings, **changes))

    relaxed = asked_of(instance, settings.ignore, settings.target_rate)
    figure = find_objective(_aimed(method, settings)[0].objective)
    choice = Choice(method.name, "", repair=settings.repair)
    best = run_seeds(relaxed, solve_one, settings, choice, figure)
    return best or _solve_by(instance, method, settings)  # which says why there is none


def _solve_by_several(instance: Instance, settings: Settings) -> Result:
    """Solve by the methods that suit: the best of all, else the first that has a plan."""
    raise_any(_wrong_numbers(settings))
    began = time.perf_counter()
    best = _solve_by_portfolio(instance, settings) if _is_plain(settings) else None
    if best is not None:
        return best
    return _solve_by_choice(instance, _with_remaining_time(settings, time.perf_counter() - began))


def _is_plain(settings: Settings) -> bool:
    """Whether nothing is asked for that only some of several methods could do."""
    unasked = settings.warm_start is None and settings.starts == OWN and not settings.options
    return unasked and settings.solver is None and not settings.repair


def _other_objective(instance: Instance, settings: Settings, result: Result) -> str | None:
    """Return what to optimise where none was asked for and the one chosen is equal for all plans.

    Then every plan is as good as another by it, and the balance of the nodes is not.
    """
    if settings.objective is not None or not result.feasible or result.objective is None:
        return None
    reached, figure = result.objective, find_objective(result.objective.name)
    chosen = find_objective("load_distance")
    relaxed = asked_of(instance, settings.ignore, settings.target_rate)
    if figure.fixed(relaxed, reached.value, result.whole_bound) is None or chosen.fixed(relaxed):
        return None
    return None if figure is chosen else chosen.name


def _solve_by_mending(instance: Instance, method: str, settings: Settings) -> Result | None:
    """Solve where the current placement breaks limits; ``None`` where that makes no difference."""
    if not broken_now(without_limits(instance, settings.ignore)):  # nor does it with fewer limits
        return None
    chosen, dropped = _chosen(instance, method, settings)
    if chosen is None or chosen.decides == "threads":
        return None
    start = broken_start(without_limits(instance, dropped), find_objective(chosen.objective))
    if start is None:
        return None
    repair = settings.repair
    if method != PORTFOLIO:
        check_suitable(chosen, start.instance, repair=repair)
    began = time.perf_counter()
    least = first_level(start, settings.time_limit)
    if least.node is None and least.bound == np.inf:
        return None
    warm = _warm_start_for_mending(settings, chosen, start, least)
    if warm is not None:  # one plan in all runs, wherever it comes from
        least = no_more_than(warm.node, start, least)
        plan = Plan.from_indices(start.instance, warm.node, None, warm.method, {})
        settings = replace(settings, warm_start=plan)
    whole = None
    if least.excess == 0 or least.bound <= 0:  # there may be plans that keep every limit
        limit = settings.time_limit
        # where a plan of no excess is known that run is the answer; else it finds one, as a rule
        share = limit and (limit if least.excess == 0 else _UNDECIDED * limit)
        whole = _solve(instance, method, replace(settings, time_limit=share))
        stopped = whole.termination is Termination.INTERRUPTED
        by_repair = repair and whole.repaired  # no need of it where the first level's plan will do
        if (whole.feasible and not by_repair) or stopped or _carries_less(whole):
            return _with_start_time(whole, warm)
    repaired = whole if whole is not None and whole.feasible else None
    if settings.time_limit is not None:
        left = settings.time_limit - (time.perf_counter() - began)
        settings = replace(settings, time_limit=max(left, settings.time_limit / 10))

    def run(loose: Instance, node: Ints | None, seconds: float | None, cold: bool) -> Result:
        plan = settings.warm_start if node is least.node else None
        if plan is None and node is not None and method != PORTFOLIO and chosen.takes_warm_start:
            plan = Plan.from_indices(loose, node, None, "least excess", {})
        now = replace(
            settings, objective=chosen.objective, ignore=(), time_limit=seconds, warm_start=plan,
            repair=repair and repaired is None,
            starts=NONE if cold and chosen.cold and method != PORTFOLIO else settings.starts,
        )  # fmt: skip
        return _solve(loose, method, now)

    drain = settings.options.get("drain") == "hard"
    second = SecondLevel(start, least, run, settings.time_limit, drain=drain)
    try:
        second.solve(exact=chosen.kind == "exact")
    except UnsuitableMethod:
        if repaired is None:
            raise
        return repaired
    if warm is not None:
        second.not_below(warm)
    promises = chosen.promises_feasibility or repair
    if second.best is None and not promises:
        whole = _solve(instance, method, settings) if whole is None else whole
        if whole.termination is not Termination.INFEASIBLE:
            return whole  # its own plan, as bad as it is
    result = second.result(instance, began, promises=promises)
    if result is None or (repaired is not None and not result.feasible):
        return whole
    if repair and not chosen.promises_feasibility and second.best is not None:
        result = replace(result, repaired=result.repaired or second.best.node is least.node)
    warm_start = None if warm is None else result.warm_start
    return _with_start_time(replace(result, ignored=dropped, warm_start=warm_start), warm)


def _with_start_time(result: Result, start: Start | None) -> Result:
    """Report the seconds that the warm start took."""
    if start is None or start.seconds <= 0:
        return result
    return replace(result, times={**result.times, "warm_start": start.seconds})


def _warm_start_for_mending(
    settings: Settings, chosen: Method, start: BrokenStart, least: LeastExcess
) -> Start | None:
    """Return the warm start: of a method, the best of its plans with and without mending."""
    if settings.warm_start is None:
        return None
    # of the time limit a quarter for each instance that the start may be of
    limit = None if settings.time_limit is None else settings.time_limit / 4
    request = _request(
        chosen, replace(settings, solver=None, gap=None, time_limit=limit, options={})
    )
    starts: list[tuple[float, int, Start]] = []
    refused: InvalidInput | None = None
    loosened = [] if least.node is None else [start.loose(least.node, narrow=True)]
    for instance in (start.instance, *loosened, start.loose(start.instance.tasks.node)):
        try:
            with by_size(instance.num_tasks * instance.num_nodes):
                resolved = resolve_start(instance, chosen, settings.warm_start, request)
        except InvalidInput as error:
            refused = error
            continue
        assert resolved is not None
        starts.append((start.judged(resolved.node)[0], len(starts), resolved))
        if starts[-1][0] <= least.excess or str(settings.warm_start) not in method_names():
            break
    if not starts:
        assert refused is not None
        raise refused
    return min(starts)[2]


def _chosen(
    instance: Instance, method: str, settings: Settings
) -> tuple[Method | None, tuple[str, ...]]:
    """Return the method, aimed, and all limits that are dropped; ``None`` where none suits."""
    if method == PORTFOLIO:
        relaxed = without_limits(instance, settings.ignore)
        choice = next(
            choices(relaxed, settings.time_limit, settings.objective, settings.prefer), None
        )
        if choice is None:
            return None, settings.ignore
        return aim(get_method(choice.name), settings.objective, {})[0], settings.ignore
    chosen, settings = _aimed(get_method(method), settings)
    return chosen, _dropped(chosen, _request(chosen, settings), settings)


def _aimed(method: Method, settings: Settings) -> tuple[Method, Settings]:
    """Return the method with what it is to optimise for its objective, and its options."""
    chosen, options = aim(method, settings.objective, settings.options)
    return chosen, replace(settings, options=options)


def goal_of(instance: Instance, objective: str | None, target_rate: float | None) -> str | None:
    """Return what is optimised: what is asked for, or what a rate to be carried is to take least.

    Raises `InvalidInput`: the rate is not between 0 and 1e9.
    """
    if target_rate is None:
        return objective
    if not 0 < target_rate < 1e9:
        raise InvalidInput(Problem("--target-rate", target_rate, "must be above 0 and below 1e9"))
    return objective or ("migrations" if instance.has_current else "nodes_used")


def reason_for(choice: Choice, target_rate: float | None) -> str:
    """Say why a method was chosen, for an instance that is to carry a rate."""
    at = "" if target_rate is None else f", with {target_rate:g} × current input to carry"
    return choice.why + at


def _solve_by_portfolio(instance: Instance, settings: Settings) -> Result | None:
    """Solve by several methods; ``None`` where there is no plan or nothing to choose from."""

    def solve_one(choice: Choice, **changes: Any) -> Result:
        reason = reason_for(choice, settings.target_rate)
        return _solve_by(instance, get_method(choice.name), replace(settings, **changes), reason)

    relaxed = asked_of(instance, settings.ignore, settings.target_rate)
    return run_portfolio(relaxed, solve_one, settings)


def _with_remaining_time(settings: Settings, spent: float) -> Settings:
    """Take the time that several methods spent without a plan off that of repair; a tenth stays."""
    limit = SECONDS if settings.time_limit is None else settings.time_limit
    chose = settings.time_limit is not None or spent >= limit / 2
    if not chose or not limit > 0:  # nothing to choose from, or a limit that is refused later
        return settings
    return replace(settings, time_limit=max(limit - spent, limit / 10))


def _solve_by_choice(instance: Instance, settings: Settings) -> Result:
    """Solve by the first method that suits; where it ends without a plan, by the next."""
    relaxed = asked_of(instance, settings.ignore, settings.target_rate)
    first: Result | None = None
    refusal: UnsuitableMethod | None = None
    without: list[str] = []
    left = settings.time_limit
    for choice in choices(relaxed, settings.time_limit, settings.objective, settings.prefer):
        if first is not None and takes_long(choice.name, relaxed, settings.time_limit):
            continue
        reason = reason_for(choice, settings.target_rate)
        notes = [f"{', '.join(without)} ended without a plan that keeps every limit"]
        now = replace(settings, time_limit=left, repair=settings.repair or choice.repair)
        try:
            method = get_method(choice.name)
            result = _solve_by(instance, method, now, reason, notes if without else ())
        except UnsuitableMethod as error:  # some find out only while they run
            refusal = error
            continue
        except InvalidInput:  # an option that only the first has
            if first is None:
                raise
            continue
        if _is_last(result, first):
            return result
        first = first or result
        without.append(choice.name)
        if left is not None:
            left -= result.times["total"] - result.times.get("compile", 0.0)
            if left <= 0:
                break
    if first is None:
        assert refusal is not None
        raise refusal
    if without[1:]:
        note = f"{', '.join(without[1:])} ended without one, too"
        return replace(first, notes=(*first.notes, note))
    return first


def _is_last(result: Result, first: Result | None) -> bool:
    """Whether no other method need be asked, given what the first had.

    Of plans for the rate, the best that carries less than the input is returned: it says how far it
    goes, and that none carries the input is no reason to be without.
    """
    if result.feasible:
        return True
    if _carries_less(result):
        return result.termination in (Termination.OPTIMAL, Termination.INTERRUPTED)
    if first is not None and _carries_less(first):
        return result.termination is Termination.INTERRUPTED
    return result.termination in _ENDS


def _carries_less(result: Result) -> bool:
    """Whether there is a plan, for an objective that measures what it does not keep."""
    objective = result.objective
    if result.plan is None or objective is None:
        return False
    return find_objective(objective.name).hard is not None


def _solve_by(
    instance: Instance,
    method: Method,
    settings: Settings,
    reason: str | None = None,
    notes: Iterable[str] = (),
) -> Result:
    """Solve by one method: named, or chosen for a `reason`."""
    started = time.perf_counter()
    chosen, settings = _aimed(method, settings)
    request = _request(chosen, settings)
    threads = chosen.decides == "threads"  # their plans hold no tasks to mend
    request = replace(request, cold=_is_cold(chosen, settings.starts), model=settings.write_model)
    _check_leaving(chosen, settings.ignore)
    dropped = _dropped(chosen, request, settings)
    relaxed = asked_of(instance, dropped, settings.target_rate)
    check_suitable(chosen, relaxed, repair=settings.repair and not threads)
    if settings.chosen is not None:
        settings.chosen(chosen, request.solver, "as asked" if reason is None else reason)
    with by_size(relaxed.num_tasks * relaxed.num_nodes):
        start = resolve_start(relaxed, chosen, settings.warm_start, request)
        outcome = run_method(chosen, relaxed, request, start)
        repaired = False
        if settings.repair and outcome.termination is not Termination.INFEASIBLE and not threads:
            objective = find_objective(chosen.objective)
            repaired = finish(objective.binding(relaxed), outcome, objective)
    outcome.notes[:0] = [*([] if reason is None else [f"method {method.name}: {reason}"]), *notes]
    if start is not None and start.seconds > 0:
        outcome.times["warm_start"] = start.seconds
    outcome.times.setdefault("total", time.perf_counter() - started)
    result = judge(
        instance, relaxed, chosen, request, outcome, start, repaired=repaired, ignored=dropped
    )
    if settings.target_rate is None:
        return result
    return _at_target(result, without_limits(instance, dropped), settings.target_rate)


def _at_target(result: Result, instance: Instance, rate: float) -> Result:
    """Report the figures of the plan at the current input, and the rate that it had to carry."""
    note = f"plans that carry {rate:g} times the current input"
    result = replace(result, reasons=tuple(_at_rate(reason, rate) for reason in result.reasons))
    if result.plan is None or result.plan.threads is not None:
        return replace(result, notes=(*result.notes, note))
    nodes, slots = result.plan.node_indices(instance), result.plan.slot_indices(instance)
    objective = "" if result.objective is None else result.objective.name
    evaluation = evaluate_indices(instance, nodes, slots, objective)
    return replace(result, evaluation=evaluation, notes=(*result.notes, note))


def _at_rate(reason: Violation, rate: float) -> Violation:
    """Report what a task needs at the rate, where it was put as what it can use over the rate."""
    if reason.rule != MAX_LOAD.name:
        return reason
    needed, available = reason.needed * rate, reason.available * rate
    return replace(reason, amount=needed - available, needed=needed, available=available)


def _check_written(path: str | Path, method: str) -> None:
    """Refuse to write a model of no method, or of one that solves none; or under such a name."""
    from optim.solvers.mps import check_path

    check_path(path)
    chosen = None if method == PORTFOLIO else get_method(method)
    if chosen is not None and chosen.pose is not None:
        return
    reason = "is for the linear model of one method, and none is named"
    if chosen is not None:
        reason = f"is for a linear model, and {chosen.name} has none of the whole problem"
    able = [other for other in all_methods() if other.pose is not None]
    if chosen is not None:
        able = [other for other in able if chosen.objective in other.objectives] or able
    remedy = f"use --method {' or '.join(other.name for other in able)}"
    raise InvalidInput(Problem("--write-model", str(path), reason, remedy))


def _dropped(method: Method, request: Request, settings: Settings) -> tuple[str, ...]:
    """Return the limits that are dropped: those that are ignored, and by options."""
    by_options = [o.drops for o in method.options if o.drops and request.options[o.name]]
    return tuple(dict.fromkeys([*settings.ignore, *by_options]))


def _check_leaving(method: Method, dropped: Iterable[str]) -> None:
    """Refuse to drop ``leaving`` for a method that looks for no plan on leaving nodes anyway.

    Its bounds and proofs would be of the problem with that limit.
    """
    if "leaving" in dropped and not any(o.drops == "leaving" for o in method.options):
        reason = f"has no effect: {method.name} moves nothing onto leaving nodes"
        remedy = "use balance-milp or balance-search, or remove leaving from the nodes"
        raise InvalidInput(Problem("--ignore", "leaving", reason, remedy))


def _is_cold(method: Method, starts: str) -> bool:
    """Return whether the method is to begin with nothing, or refuse."""
    if starts not in (OWN, NONE):
        raise InvalidInput(Problem("--starts", starts, "is neither own nor none"))
    if starts == NONE and not method.cold:
        reason = f"is not supported by {method.name}, which uses starts of its own"
        can = ", ".join(other.name for other in all_methods() if other.cold)
        raise InvalidInput(Problem("--starts", starts, reason, f"methods that can: {can}"))
    return starts == NONE


def _wrong_numbers(settings: Settings) -> list[Problem]:
    """Return what is wrong with the numbers that mean the same for every method."""
    limit, seed, threads = settings.time_limit, settings.seed, settings.threads
    problems = []
    if limit is not None and not (isinstance(limit, Real) and 0 < limit < 1e9):
        problems.append(Problem("--time-limit", limit, "must be a number of seconds above 0"))
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        problems.append(Problem("--seed", seed, "must be a whole number from 0 to 2147483647"))
    if threads is not None and (not isinstance(threads, int) or not 1 <= threads <= 1024):
        problems.append(Problem("--threads", threads, "must be a whole number from 1 to 1024"))
    return problems


def _request(method: Method, settings: Settings) -> Request:
    """Return the method's request; options typed, all problems reported together."""
    solver, time_limit, seed = settings.solver, settings.time_limit, settings.seed
    problems = []
    if solver is not None and solver not in method.solvers:
        remedy = f"leave it out: {method.name} uses none"
        if method.solvers:
            remedy = meant(str(solver), method.solvers)
        reason = f"cannot run {method.name}"
        if method.solvers and solver in SOLVERS and capabilities(solver).integer_only:
            reason += ": it takes integers only, and that model has continuous variables"
        problems.append(Problem("--solver", solver, reason, remedy))
    problems += _wrong_numbers(settings)
    try:
        gap = _gap(settings.gap, find_objective(method.objective))
    except InvalidInput as error:
        problems += error.problems
    typed: dict[str, Any] = {}
    try:
        typed = method.read_options(settings.options)
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return Request(
        solver=solver or method.default_solver,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        threads=1 if settings.threads is None else settings.threads,
        options=typed,
        progress=settings.progress,
    )


def _gap(gap: float | str | None, figure: Figure) -> float | None:
    """Return the gap at which to stop, relative or in percent as the figure's own gaps are.

    A text such as ``1%`` is in percent for every figure.
    """
    if gap is None:
        return None
    value: Any = gap
    if isinstance(gap, str):
        try:
            value = float(gap.removesuffix("%")) if gap.endswith("%") else math.nan
        except ValueError:
            value = math.nan
    if not isinstance(value, Real) or not 0 <= float(value) < 1e15:
        reason = "must be a number of at least 0, or percent"
        raise InvalidInput(Problem("--gap", gap, reason, "such as 0.01 or 1%"))
    if isinstance(gap, str):
        value = value if figure.percent else value / 100
    # a bare number is a share, so that 5 is surely meant in percent
    if value > 1 and not figure.percent:
        reason = f"is more than 100 % of {figure.name}"
        remedy = "" if isinstance(gap, str) else f"{gap:g} percent is written {gap:g}%"
        raise InvalidInput(Problem("--gap", gap, reason, remedy))
    return float(value)


def resolve_start(
    instance: Instance, method: Method, source: str | Path | Plan | None, request: Request
) -> Start | None:
    """Turn what the user gave into a start.

    Raises `InvalidInput`: the method takes no start, or the start is no method, no file, or
        incomplete.
    """
    if source is None:
        return None
    if not method.takes_warm_start:
        raise InvalidInput(
            Problem("--warm-start", str(source), f"has no effect: {method.name} takes no start")
        )
    if isinstance(source, Plan):
        return _from_plan(instance, source, source.method or "plan")
    if str(source) in method_names():
        return _from_method(instance, str(source), request)
    if not _may_exist(Path(source)):
        near = meant(str(source), method_names())
        remedy = near if near.startswith("did") else "`streamplace methods` lists the methods"
        reason = "is neither a method nor a plan's file"
        raise InvalidInput(Problem("--warm-start", str(source), reason, remedy))
    return _from_plan(instance, Plan.load(source), str(source))


def _may_exist(path: Path) -> bool:
    """Whether there is such a file; where asking fails, reading it will say why."""
    try:
        return path.exists()
    except OSError:
        return True


def _from_plan(instance: Instance, plan: Plan, name: str) -> Start:
    if plan._instance is None:
        # a relaxed copy of the instance has another hash; names are what matters here
        plan = replace(plan, claimed_instance_sha256=None)
        check_belongs(instance, plan)
    node = plan.node_indices(instance)
    if len(node) and node.min() < 0:
        task = instance.tasks.ids[int(node.argmin())]
        raise InvalidInput(Problem("--warm-start", name, f"places no task {task}", "complete it"))
    return Start(name, node, evaluate_indices(instance, node))


def _from_method(instance: Instance, name: str, request: Request) -> Start:
    starter = get_method(name)
    check_suitable(starter, instance, repair=True)
    start_request = starting(starter, request)
    outcome = run_method(starter, instance, start_request)
    finish(instance, outcome, find_objective(starter.objective))
    if outcome.node is None or outcome.node.min(initial=0) < 0:
        raise InvalidInput(
            Problem("--warm-start", name, "found no complete plan to start from", "use another")
        )
    node = outcome.node.astype("int32")
    return Start(name, node, evaluate_indices(instance, node), start_request.elapsed())
