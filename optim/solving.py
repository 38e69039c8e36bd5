"""`solve`: one function for the command line, Spark and Python.

Order: the method is chosen and checked against the instance; quick proofs of infeasibility; the
warm start; the method; repair where asked for; then the referee, whose figures are the only ones.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.choosing import choose_method
from optim.claims import restrict_to_emptied
from optim.errors import InvalidInput, Problem, RefereeRefused
from optim.infeasible import quick_proofs
from optim.judging import judge
from optim.registry import Method, Outcome, Request, get_method
from optim.repairing import finish
from optim.results import Result, Termination
from optim.starting import Start, resolve_start
from optim.suitability import check_suitable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from optim.instance import Instance
    from optim.plan import Plan
    from optim.progress import Progress


def solve(
    instance: Instance,
    method: str | None = None,
    *,
    solver: str | None = None,
    time_limit: float | None = None,
    gap: float | None = None,
    seed: int = 0,
    threads: int = 1,
    warm_start: str | Path | Plan | None = None,
    repair: bool = False,
    ignore: Iterable[str] = (),
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """Place the tasks of an instance and have the plan checked.

    Parameters
    ----------
    instance
        What to place.
    method
        A registered name; by default chosen by what the instance holds, and told in the notes.
    solver
        Back end of an exact method.
    time_limit
        Seconds for building, handing over and solving.
    gap
        Stop at this gap to the bound: relative, or points for load distance.
    seed, threads
        Of everything random; of the solver.
    warm_start
        A method's name, a plan, or a plan's file.
    repair
        Let repair finish a plan that is incomplete or breaks a limit; marked in the result.
    ignore
        Limits to drop (`optim.instance.LIMIT_NAMES`); marked in the result.
    progress
        Called now and then with incumbent and bound.
    **options
        Options of the method.

    Returns
    -------
    Result
        With the referee's evaluation; ``plan`` is ``None`` where there is none.

    Raises
    ------
    InvalidInput
        A wrong argument or option, or a method that does not suit the instance.
    SolverError
        A solver failed, or its claim does not survive the check.
    RefereeRefused
        A method that promises feasible plans broke a rule.
    """
    started = time.perf_counter()
    dropped = (ignore,) if isinstance(ignore, str) else tuple(dict.fromkeys(ignore))
    relaxed = instance.without_limits(dropped)
    notes: list[str] = []
    if method is None:
        method, why = choose_method(relaxed, time_limit)
        notes.append(f"method {method}: {why}")
        repair = True
    chosen = get_method(method)
    request = _request(chosen, solver, time_limit, gap, seed, threads, options, progress)
    threads = chosen.family == "model-driven"  # their plans hold no tasks to mend
    _check_leaving(chosen, dropped)
    dropped = tuple(dict.fromkeys([*dropped, *_dropped_by(chosen, request)]))
    relaxed = instance.without_limits(dropped)
    check_suitable(chosen, relaxed, repair=repair and not threads)
    start = resolve_start(relaxed, chosen, warm_start, request)
    outcome = _run(chosen, relaxed, request, start)
    repaired = False
    if repair and outcome.termination is not Termination.INFEASIBLE and not threads:
        repaired = finish(relaxed, outcome)
    outcome.notes[:0] = notes
    if start is not None and start.seconds > 0:
        outcome.times["warm_start"] = start.seconds
    outcome.times.setdefault("total", time.perf_counter() - started)
    return judge(
        instance, relaxed, chosen, request, outcome, start, repaired=repaired, ignored=dropped
    )


def _dropped_by(method: Method, request: Request) -> list[str]:
    """Return the limits that options drop."""
    return [o.drops for o in method.options if o.drops and request.options[o.name]]


def _check_leaving(method: Method, dropped: Iterable[str]) -> None:
    """Refuse to drop ``leaving`` for a method that looks for no plan on leaving nodes anyway.

    Its bounds and proofs would be of the problem with that limit.
    """
    if "leaving" in dropped and not any(o.drops == "leaving" for o in method.options):
        reason = f"makes no difference to {method.name}, which brings nothing onto leaving nodes"
        remedy = "use balance-milp or balance-search, or take the mark off the nodes"
        raise InvalidInput(Problem("--ignore", "leaving", reason, remedy))


def _request(
    method: Method,
    solver: str | None,
    time_limit: float | None,
    gap: float | None,
    seed: int,
    threads: int,
    options: Mapping[str, Any],
    progress: Callable[[Progress], None] | None,
) -> Request:
    problems = []
    if solver is not None and solver not in method.solvers:
        known = ", ".join(method.solvers)
        remedy = f"one of {known}" if known else f"leave it out: {method.name} uses none"
        problems.append(Problem("--solver", solver, f"cannot run {method.name}", remedy))
    if time_limit is not None and not 0 < time_limit < 1e9:
        problems.append(Problem("--time-limit", time_limit, "must be a number of seconds above 0"))
    if gap is not None and not 0 <= gap < 1e15:
        problems.append(Problem("--gap", gap, "must be at least 0"))
    if not isinstance(seed, int) or not 0 <= seed < 2**31:
        problems.append(Problem("--seed", seed, "must be a whole number from 0 to 2147483647"))
    if not isinstance(threads, int) or not 1 <= threads <= 1024:
        problems.append(Problem("--threads", threads, "must be a whole number from 1 to 1024"))
    typed: dict[str, Any] = {}
    try:
        typed = method.read_options(options)
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return Request(
        solver=solver or method.default_solver,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        threads=threads,
        options=typed,
        progress=progress,
    )


def _run(method: Method, instance: Instance, request: Request, start: Start | None) -> Outcome:
    """Run the method, after the quick proofs; an interruption keeps what there is."""
    reasons = quick_proofs(instance)
    if reasons:
        return Outcome(Termination.INFEASIBLE, reasons=tuple(reasons))
    request = request.restarted()
    if start is not None:
        request = start.into(request)
    began = time.perf_counter()
    try:
        outcome = method.run(instance, request)
    except KeyboardInterrupt:
        outcome = Outcome(Termination.INTERRUPTED)
    _check_indices(method, instance, outcome)
    restrict_to_emptied(method, instance, outcome)
    spent = time.perf_counter() - began - outcome.times.get("compile", 0.0)
    known = outcome.times.get("build", 0.0)
    outcome.times.setdefault("solve", max(0.0, spent - known))
    return outcome


def _check_indices(method: Method, instance: Instance, outcome: Outcome) -> None:
    """Refuse a placement that is none: methods of other packages may return anything."""
    if not isinstance(outcome, Outcome):
        kind = type(outcome).__name__
        raise RefereeRefused(f"{method.name} returned {kind}, and no Outcome of optim.registry")
    for name, indices in (("node", outcome.node), ("slot", outcome.slot)):
        if indices is None:
            continue
        whole = isinstance(indices, np.ndarray) and indices.dtype.kind in "iu"
        most = instance.num_nodes - 1 if name == "node" else np.inf
        if (
            not whole
            or indices.shape != (instance.num_tasks,)
            or indices.max(initial=-1) > most
            or indices.min(initial=0) < -1
        ):
            wanted = f"no (T,) {name} indices, whole numbers in a numpy array, -1 for none"
            raise RefereeRefused(f"{method.name} returned {wanted}")
