"""Running a method: on its own view of the instance, its incumbents stored whatever happens."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from optim.errors import (
    InvalidInput,
    RefereeRefused,
    SolverUnavailable,
    StreamplaceError,
    UnsuitableMethod,
)
from optim.figures.catalogue import find_objective
from optim.kernels.place_rules import on_chosen_nodes
from optim.kernels.repair import repair
from optim.kernels.undo import within_restarts
from optim.methods.audit import broken_by, settle_assumptions
from optim.methods.choose import is_suitable
from optim.methods.reduce import (
    Scale,
    in_solver_units,
    lowered,
    with_bounded_costs,
    without_misfits,
)
from optim.methods.registry import Method, Outcome, Request, get_method
from optim.referee import Termination, evaluate_indices
from optim.rules import hopeless, most_restarts, node_counts, reassigned_rules
from optim.rules.placement import Placement
from optim.util import progress
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.methods.registry import Incumbent, Start

    Tell = Callable[[Progress], None]


@dataclass(frozen=True, eq=False)
class View:
    """What a method sees of an instance."""

    #: In units of `scale`, with rules that the method does not know written as capacities.
    instance: Instance
    scale: Scale  # What one of its units is in the file's.

    def request(self, method: Method, request: Request, objective: Figure) -> Request:
        """Turn a request in the file's units into one that the method understands."""
        options = dict(request.options)
        for option in method.options:
            if option.unit and options[option.name] is not None:
                options[option.name] /= self.scale.of(option.unit)
        tell = request.progress
        return replace(
            request,
            options=options,
            gap=None
            if request.gap is None  # methods stop at load distances by a difference in their unit
            else objective.gap_to_difference(request.gap, self.instance.mean_load),
            scale=self.scale,
            progress=None if tell is None else self._rescaled(tell, objective),
        )

    def outcome(self, outcome: Outcome, objective: Figure) -> None:
        """Write an outcome's figures in the file's units, in place."""
        factor = self.scale.of(objective.unit)
        outcome.claimed = _times(outcome.claimed, factor)
        outcome.bound = _times(outcome.bound, factor)
        outcome.trace = [(s, _times(x, factor), _times(b, factor)) for s, x, b in outcome.trace]
        outcome.levels = tuple(
            replace(
                level,
                value=_times(level.value, self.scale.of(level.unit)),
                bound=_times(level.bound, self.scale.of(level.unit)),
            )
            for level in outcome.levels
        )

    def _rescaled(self, tell: Tell, objective: Figure) -> Tell:
        factor = self.scale.of(objective.unit)

        def report(now: Progress) -> None:
            value, bound = _times(now.incumbent, factor), _times(now.bound, factor)
            tell(Progress(now.seconds, value, bound, now.phase))

        return report


def view_of(method: Method, instance: Instance, *, scaling: bool = True) -> View:
    """Return what a method sees; model-driven plans are made from measured points as they stand.

    Without `scaling` in the file's units.
    """
    if method.decides == "threads":
        return View(instance, Scale())
    seen = with_bounded_costs(lowered(instance, method.honours))
    seen = on_chosen_nodes(seen) if method.confined else seen
    scale = Scale(load=np.ones(instance.num_resources))
    if scaling:
        seen, scale = in_solver_units(seen)
    if "allowed" in method.honours:
        seen = without_misfits(seen, find_objective(method.objective).binding(seen))
    return View(seen, scale)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_SHARE, _STARTS = 0.25, 0.5
"""Of the time that is left, what each heuristic of the family may take; of all time, what they may
together: the rest is the method's own."""
_SEARCHED, _A_PLACE = 1.0, 5e-4
"""Seconds for a search, which takes all that it is given: for any, and for a task on a node."""
_LEAST = 0.1  # Seconds that it may take in any case: no exact method returns less than its family.


def run_method(
    method: Method, instance: Instance, request: Request, start: Start | None = None
) -> Outcome:
    """Run a method after the quick proofs and return what it says, in the file's units.

    An interruption or a failure ends in the incumbents; a failure without any, in those of the
    family's heuristics.
    """
    objective = find_objective(method.objective)
    if request.model is not None:
        request = _written(method, instance, request)
    reasons = hopeless(objective.binding(instance))
    if reasons:
        return Outcome(Termination.INFEASIBLE, reasons=tuple(reasons))
    began, compiled = time.perf_counter(), progress.seconds()
    view = view_of(method, instance)
    view_request = view.request(method, request, objective)
    starter = _starter(method, instance, request)
    view_request = replace(view_request, objective=method.objective, starter=starter)
    if start is not None:
        view_request = replace(view_request, warm_start=start.node)
    try:
        outcome = _run(method, view.instance, view_request)
    except KeyboardInterrupt:
        outcome = Outcome(Termination.INTERRUPTED)
    except (UnsuitableMethod, SolverUnavailable, RefereeRefused):
        raise
    except Exception as error:  # whatever it is: an incumbent must not die with it
        if _interrupted(error):
            outcome = Outcome(Termination.INTERRUPTED)
        elif (
            request.incumbents.plans
            or request.incumbents.threads is not None
            # a start of its family
            or (not isinstance(error, InvalidInput) and view_request.start() is not None)
        ):
            outcome = _failed(method, error)
        else:
            raise
    if method.confined and node_counts(instance):  # nothing is proved of other nodes
        proved = outcome.termination is Termination.INFEASIBLE
        outcome.termination = Termination.HEURISTIC if proved else outcome.termination
        outcome.bound = None
    if method.reassigned and reassigned_rules(instance):
        _assign_slots_anew(instance, outcome, objective)
    if outcome.threads is None:
        outcome.threads = request.incumbents.threads if outcome.node is None else None
    view.outcome(outcome, find_objective(outcome.objective or method.objective))
    settle_assumptions(method, instance, outcome)
    _take_starts(view_request, outcome)
    compiled = progress.seconds() - compiled  # what no warm-up foresaw, too
    if compiled > outcome.times.get("compile", 0.0):
        outcome.times["compile"] = compiled
    spent = time.perf_counter() - began - outcome.times.get("compile", 0.0)
    build_seconds = outcome.times.get("build", 0.0)
    outcome.times.setdefault("solve", max(0.0, spent - build_seconds))
    return outcome


def _assign_slots_anew(instance: Instance, outcome: Outcome, objective: Figure) -> None:
    """Assign the tasks of each node to its slots anew, where a plan breaks rules of this.

    Where no assignment restarts few enough workers, the current placement takes over part of the
    plan.
    """
    node, slot = outcome.node, outcome.slot
    if node is None or slot is None or node.min(initial=0) < 0:
        return
    node = node.astype(np.int32)
    rules = reassigned_rules(instance)
    if not any(True for rule in rules for _ in rule.violations(Placement(instance, node, slot))):
        return
    reassigned = Placement(instance, node).slot_assignment.slot
    if reassigned is not None:
        outcome.slot = reassigned
        outcome.notes.append("tasks were assigned anew to the slots of their nodes, for the sets")
        return
    part = within_restarts(instance, node, slot, objective)
    if part is None:
        outcome.notes.append("no assignment of its nodes' tasks to slots satisfies all sets")
        return
    outcome.node, outcome.slot = part
    outcome.claimed = None
    outcome.notes.append("max_workers_restarted allows part of its plan only")


def _written(method: Method, instance: Instance, request: Request) -> Request:
    """Write the method's model to the file asked for; return the request for its run.

    In the units of the instance: solvers are given the same model on a scale of its own.
    """
    from optim.solvers.mps import write_model

    objective, path = find_objective(method.objective), request.model
    view = view_of(method, instance, scaling=False)
    view_request = replace(
        view.request(method, request, objective), objective=method.objective, progress=None
    )

    def write(change: Callable[[Instance], Instance]) -> None:
        assert path is not None
        assert method.pose is not None
        seen = change(view.instance)
        write_model(path, method.pose(seen, view_request), seen, method.name)

    write(lambda seen: seen)
    return replace(request, model=None, write=write)


def _run(method: Method, instance: Instance, request: Request) -> Outcome:
    """Run a method, and once more where kernels that no warm-up foresaw took its time to compile.

    Small instances begin without them, and need them after all where their time gets long.
    """
    began, before = time.perf_counter(), progress.seconds()
    outcome = method.run(instance, request)
    _check_indices(method, instance, outcome)
    foreseen = outcome.times.get("compile", 0.0)
    spent = time.perf_counter() - began - foreseen
    compiled = progress.seconds() - before - foreseen
    limit = request.time_limit
    ended = outcome.termination in (Termination.INFEASIBLE, Termination.INTERRUPTED)
    if (
        limit is None
        or ended
        or method.kind == "heuristic"
        # it would have ended in time, had nothing been compiled
        or not spent - compiled < limit <= spent
    ):
        return outcome
    try:
        again = method.run(instance, replace(request, started=time.perf_counter()))
        _check_indices(method, instance, again)
    finally:  # whichever is the better of the two
        if outcome.node is not None:
            request.incumbents.offer("the first run", outcome.node, outcome.slot)
    again.notes.append("run a second time: kernels were compiled in the time of the first")
    return again


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C lies below: within compiled code it comes up wrapped, maybe several times."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _failed(method: Method, error: Exception) -> Outcome:
    """Say that a method failed, and how; its incumbents are judged as if it had stopped."""
    message = str(error)
    if not isinstance(error, StreamplaceError):
        message = ": ".join(filter(None, (type(error).__name__, message)))
    return Outcome(
        Termination.ERROR,
        notes=[f"{method.name} failed ({message}); the best plan found before is returned"],
    )


def _take_starts(request: Request, outcome: Outcome) -> None:
    """An exact method that has not proved its plan never falls below its family's heuristics."""
    proved = outcome.termination in (Termination.OPTIMAL, Termination.INFEASIBLE)
    if proved or outcome.termination is Termination.INTERRUPTED:
        return
    try:
        request.start()
    except KeyboardInterrupt:  # the method's own answer stands
        outcome.termination = Termination.INTERRUPTED
    except Exception as error:  # so it does where a heuristic fails
        if _interrupted(error):
            outcome.termination = Termination.INTERRUPTED
        outcome.notes.append(f"no start of the family: {type(error).__name__}: {error}")


def _starter(
    method: Method, instance: Instance, request: Request
) -> Callable[[], Incumbent | None] | None:
    """Return what runs the heuristics of a method's family, once."""
    if not method.starts or request.cold:
        return None

    @cache
    def run() -> Incumbent | None:
        objective = find_objective(method.objective)
        best, best_start = None, None
        try:
            for name in method.starts:
                starter = get_method(name).aimed_at(method.objective)
                if not is_suitable(starter, instance, repair=True):
                    continue
                candidate = one_start(starter, instance, request)
                if candidate is None:
                    continue
                evaluation = evaluate_indices(
                    instance, candidate.node, candidate.slot, objective.name
                )
                value = evaluation.objective(objective.name)
                if value is None or broken_by(
                    objective, instance, candidate.node, candidate.slot, evaluation
                ):
                    continue
                if best is None or objective.better(value, best):
                    best, best_start = value, candidate
        finally:  # also where Ctrl-C ends the loop
            if best_start is not None:
                request.incumbents.offer(*best_start)
        return best_start

    return run


def starting(starter: Method, request: Request) -> Request:
    """Return a request for a plan to start from, with a clock and incumbents of its own."""
    return replace(
        request,
        solver=starter.default_solver,
        options=starter.read_options({}),
        warm_start=None,
        gap=None,
        cold=False,
        progress=None,
        write=None,
    ).apart()


def one_start(
    starter: Method, instance: Instance, request: Request, share: float | None = None
) -> Incumbent | None:
    """Return a method's plan to start from, repaired; ``None`` where it has none of all tasks.

    It may take a share of the time that is left; by default what starts of a family may.
    """
    limit, left = _limit(starter, instance, request), request.remaining()
    if share is not None and left is not None:
        limit = max(1e-3, share * left)
    start_request = replace(starting(starter, request), time_limit=limit)
    try:
        outcome = run_method(starter, instance, start_request)
    except KeyboardInterrupt:
        outcome = Outcome(Termination.INTERRUPTED)
    except Exception as error:  # a start is a help: whatever fails in it must cost no plan
        if not _interrupted(error):
            return None
        outcome = Outcome(Termination.INTERRUPTED)
    if outcome.termination is Termination.INTERRUPTED:  # it is the whole solve that ends
        for incumbent in start_request.incumbents.plans:
            request.incumbents.offer(*incumbent)
        raise KeyboardInterrupt
    until = None if limit is None else start_request.started + limit
    objective = find_objective(starter.objective)
    finish(objective.binding(instance), outcome, objective, until)
    if outcome.node is None or outcome.node.min(initial=0) < 0:
        return None
    start_request.incumbents.offer(starter.name, outcome.node, outcome.slot)
    return start_request.incumbents.plans[-1]


def _limit(starter: Method, instance: Instance, request: Request) -> float | None:
    """Return the seconds for a start; ``None`` where there is no limit."""
    left = request.remaining()
    if left is None or request.time_limit is None:
        return None
    # at most a quarter of what is left, and never into the half that is the method's own
    share = min(_SHARE * left, left - (1.0 - _STARTS) * request.time_limit)
    if starter.kind == "search":
        share = min(share, _SEARCHED + _A_PLACE * instance.num_tasks * instance.num_nodes)
    return max(_LEAST, share)


def _check_indices(method: Method, instance: Instance, outcome: Outcome) -> None:
    """Refuse a placement that is none: methods of other packages may return anything."""
    if not isinstance(outcome, Outcome):
        kind = type(outcome).__name__
        raise RefereeRefused(f"{method.name} returned {kind}, and no streamplace.Outcome")
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


def finish(
    instance: Instance, outcome: Outcome, objective: Figure, until: float | None = None
) -> bool:
    """Complete and mend the outcome's placement in place; return whether anything changed.

    A plan that keeps every rule is never touched. `until` is as in `optim.kernels.repair.repair`;
    where only so many workers may restart, the current placement takes over part of the plan, by
    an objective.
    """
    if outcome.node is None:
        if outcome.termination is Termination.INTERRUPTED:
            return False
        outcome.node = np.full(instance.num_tasks, -1, dtype=np.int32)
    elif evaluate_indices(instance, outcome.node, outcome.slot).feasible:
        return False
    repaired = repair(instance, outcome.node, until)
    if most_restarts(instance) is not None:
        part = within_restarts(instance, repaired.node, None, objective)
        if part is not None:
            outcome.node, outcome.slot, outcome.claimed = *part, None
            outcome.notes.append("max_workers_restarted allows part of the plan only")
            return True
    if np.array_equal(repaired.node, outcome.node):
        return False
    outcome.node, outcome.slot, outcome.claimed = repaired.node, None, None
    outcome.notes += repaired.notes
    return True
