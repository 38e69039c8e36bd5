"""Audit: claims of a method or solver compared with the referee's figures, and the result."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import RefereeRefused, SolverError
from optim.figures.catalogue import find_objective, is_objective
from optim.figures.measures import migrated_tasks, moved_tasks, workers_restarted
from optim.format.plan import Plan
from optim.kernels.less_moved import least_change
from optim.kernels.place_rules import at_the_edge
from optim.kernels.undo import (
    enough_for,
    exchanged_back,
    fewer_moves,
    nearer_home,
    restarting_less,
    staying_if_as_good,
    without_needless,
)
from optim.methods.reduce import needed
from optim.methods.registry import BEFORE, Incumbent, versions_of
from optim.referee import (
    Level,
    Move,
    Result,
    Termination,
    WarmStart,
    evaluate_indices,
    plan_kind,
)
from optim.rules import broken, kept_by
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Method, Outcome, Request, Start
    from optim.referee import Evaluation
    from optim.rules.base import Violation

_CLAIM_RELATIVE = 1e-6
#: What tolerances of solvers may add to any claim: of all traffic, of all load, or of 1.
_CLAIM_NOISE = 1e-7
_SHOWN = 5
#: Of all there is: what sums of some thousand terms, added in another order, differ by. More than
#: that is no rounding of ours, and a solver's tolerance is not distinguished from a pair of little
#: traffic.
_ROUNDING = 1e-12

FOR_EVERY_PLAN = "for every plan"  # In the note that an objective is the same whatever the plan.


def check_claim(
    method: Method, outcome: Outcome, objective: Figure, evaluation: Evaluation
) -> None:
    """Compare the claimed value with the referee's.

    Raises `SolverError`: they differ by more than rounding.
    """
    value = evaluation.objective(objective.name)
    if outcome.claimed is None or value is None:
        return
    # of the value, and of all there is: a small difference of large sums has their rounding
    allowed = _CLAIM_RELATIVE * max(abs(value), abs(outcome.claimed))
    allowed += _claim_noise(objective, evaluation)
    if not abs(value - outcome.claimed) <= allowed:  # a claimed NaN is none of them
        raise SolverError(
            f"{method.name} ({outcome.solver or 'no solver'}) claims {objective.name} = "
            f"{outcome.claimed:.9g}, but the referee finds {value:.9g}"
        )


def _claim_noise(objective: Figure, evaluation: Evaluation) -> float:
    """What a solver's tolerances may add to any claim: a share of all there is of the unit."""
    if objective.unit == "rate" and evaluation.total_traffic is not None:
        return _CLAIM_NOISE * evaluation.total_traffic
    if objective.unit == "resource" and evaluation.node_loads:
        loads = (next(iter(loads.values())) for loads in evaluation.node_loads.values())
        return _CLAIM_NOISE * sum(loads)
    return _CLAIM_NOISE


def check_bound(
    method: Method,
    outcome: Outcome,
    objective: Figure,
    value: float | None,
    evaluation: Evaluation | None,
    *,
    stands: bool,
) -> None:
    """Hold a bound against the plan known, where that `stands`: breaks no limit that binds.

    A plan outside of the restricted problem (a repaired one, say) may beat a bound of that: it
    then says nothing of the plan, and is dropped with a note. So is what a solver claims.

    Raises `SolverError`: a feasible plan beats a bound of the whole problem that no solver is
        behind.
    """
    if outcome.bound is None:
        return
    if not np.isfinite(outcome.bound):
        outcome.bound = None
        return
    if value is None or evaluation is None or not stands:
        return
    if not objective.beats_bound(value, outcome.bound, objective.reference_of(evaluation)):
        return
    if outcome.assumes:
        outcome.notes.append(
            f"the bound {outcome.bound:.9g} on {objective.name} among plans "
            f"{' and '.join(outcome.assumes)} is dropped, since the plan has {value:.9g}"
        )
        outcome.bound, outcome.assumes = None, ()
        return
    false = (
        f"{method.name} ({outcome.solver or 'no solver'}) claims {outcome.bound:.9g} as a "
        f"proven bound on {objective.name}, but a checked plan has {value:.9g}"
    )
    if outcome.solver is None:
        raise SolverError(false)
    outcome.notes.append(f"{false}: not believed")
    outcome.bound = None
    if outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        outcome.termination = Termination.ITERATION_LIMIT


def settle_assumptions(method: Method, instance: Instance, outcome: Outcome) -> None:
    """Say of what a proof is, where the method assumed more than the file says.

    "Infeasible" is then no proof: a plan outside of what was assumed may keep all rules.
    """
    outcome.assumes = needed(instance, outcome.assumes)
    if not outcome.assumes:
        return
    among = " and ".join(outcome.assumes)
    if outcome.termination is Termination.INFEASIBLE:
        outcome.termination, outcome.reasons = Termination.ITERATION_LIMIT, ()
        outcome.notes.append(
            f"there is no plan among those {among}; {method.name} considers no others"
        )
    elif outcome.bound is not None:
        outcome.notes.append(f"the bound holds among plans {among}")


def broken_by(
    objective: Figure, instance: Instance, node: Ints, slot: Ints | None, evaluation: Evaluation
) -> Sequence[Violation]:
    """Return what a plan breaks beside the limits that the objective measures."""
    if objective.hard is None or evaluation.feasible:
        return evaluation.violations
    return broken(Placement(objective.binding(instance), node, slot))


def check_promise(method: Method, broken: Sequence[Violation]) -> None:
    """Refuse, by `RefereeRefused`, a plan that breaks rules which its method promises to keep."""
    if broken and method.promises_feasibility:
        problems = "; ".join(str(v) for v in broken[:_SHOWN])
        raise RefereeRefused(f"{method.name} returned a plan that violates rules: {problems}")


def termination_of(
    outcome: Outcome, objective: Figure, gap: float | None, wanted: float | None
) -> Termination:
    """``optimal`` is a matter of the gap, not of what a solver calls it."""
    stopped = outcome.termination
    if stopped in (Termination.INFEASIBLE, Termination.INTERRUPTED, Termination.ERROR):
        return stopped
    if gap is not None and gap <= objective.optimal_gap and not outcome.assumes:
        return Termination.OPTIMAL
    if stopped in (Termination.OPTIMAL, Termination.GAP_REACHED):
        if wanted is not None and gap is not None and gap <= wanted:
            return Termination.GAP_REACHED
        reached = gap is not None and bool(outcome.assumes)
        return Termination.GAP_REACHED if reached else Termination.ITERATION_LIMIT
    return stopped


def write_result(
    instance: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    objective: Figure,
    plan: Plan | None,
    evaluation: Evaluation | None,
    *,
    began: float,
    stands: bool | None = None,
    **more: Any,
) -> Result:
    """Write the result of a checked outcome.

    `plan`, `evaluation`: what the referee judged; ``None`` without a plan.
    `began`: ``time.perf_counter()`` at the start of the check.
    `stands`: whether the plan keeps what binds under the objective; by default whether it is
        feasible.
    Raises `SolverError`: the plan beats the bound.
    """
    value = None if evaluation is None else evaluation.objective(objective.name)
    _settle_rounding(outcome, objective, value, objective.reference_of(evaluation))
    if stands is None:
        stands = evaluation is not None and evaluation.feasible
    check_bound(method, outcome, objective, value, evaluation, stands=stands)
    # the value of a plan that breaks a limit is no distance from what feasible plans can reach
    comparable = value if stands else None
    gap = objective.gap(comparable, outcome.bound, objective.reference_of(evaluation))
    stopped = termination_of(outcome, objective, gap, request.gap)
    whole = None if outcome.assumes else outcome.bound
    fixed = objective.fixed(instance, comparable, whole)
    if fixed is not None and comparable is not None:
        outcome.notes.append(f"{objective.name} is {comparable:g} {FOR_EVERY_PLAN}: {fixed}")
        proofs = (Termination.OPTIMAL, Termination.GAP_REACHED)
        # nothing was optimised where all plans are equal
        stopped = Termination.HEURISTIC if stopped in proofs else stopped
    times = {"build": 0.0, "solve": 0.0, **outcome.times}
    times["check"] = time.perf_counter() - began
    fields: dict[str, Any] = {"objective_levels": outcome.levels, **more}
    if outcome.bound is not None:
        fields |= {"bound_of": "restricted" if outcome.assumes else "problem",
                   "bound_by": "one solver", "assumes": outcome.assumes}  # fmt: skip
    return Result(
        instance_name=instance.name,
        instance_sha256=instance.sha256,
        method=method.name,
        solver=outcome.solver or request.solver,
        seed=request.seed,
        termination=stopped,
        plan=plan,
        objective=objective.of(value),
        bound=outcome.bound,
        gap=gap,
        evaluation=evaluation,
        reasons=outcome.reasons,
        notes=tuple(outcome.notes),
        times=times,
        trace=tuple(outcome.trace),
        **fields,
    )


def _settle_rounding(
    outcome: Outcome, objective: Figure, value: float | None, total: float | None
) -> None:
    """Take a bound that differs from the value by rounding, of all there is, for the value.

    A bound that leaves room for better is left as it is, unless there is nothing: of a little that
    stands beside much, rounding of the much would be all.
    """
    if value is None or outcome.bound is None or not total:
        return
    beyond = objective.better(value, outcome.bound)
    if (beyond or not value) and abs(outcome.bound - value) <= _ROUNDING * total:
        outcome.bound = value


MOST = 0.95  # Share of the gain that counts as most of it.
_FEW_MOVES, _FEWER_MOVES = 200, 40
"""Moves up to which it is found out how many bring most of the gain."""


def judge(
    instance: Instance,
    relaxed: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    start: Start | None,
    *,
    repaired: bool,
    ignored: tuple[str, ...],
) -> Result:
    """Check everything an outcome says and write the result.

    `instance`, `relaxed`: the instance as given, and without the ignored limits; the latter is what
        is judged.
    Raises `SolverError`: a claim differs from the referee's figure, a plan beats a proven bound, or
        a feasible plan is known for what was called infeasible, other than within the tolerance.
    Raises `RefereeRefused`: the method promises feasible plans and this one is not.
    """
    if method.decides == "threads":
        return judge_threads(instance, relaxed, method, request, outcome, ignored=ignored)
    began = time.perf_counter()
    objective = find_objective(outcome.objective or method.objective)
    node, evaluation = _best_plan(relaxed, method, request, outcome, start, objective, repaired)
    stands = _stands(objective, relaxed, node, outcome.slot, evaluation)
    if stands and not repaired and node is not None and method.kind != "heuristic":
        node, evaluation = _without_idle_moves(
            relaxed, method, outcome, objective, node, evaluation
        )
    outcome.levels = _levels_of(objective, outcome, evaluation)
    unplaced: tuple[str, ...] = ()
    if node is None and outcome.node is not None:
        unplaced = tuple(relaxed.tasks.ids[t] for t in np.flatnonzero(outcome.node < 0))
        if unplaced:
            outcome.notes.append(f"{len(unplaced)} tasks found no node")
    versions = versions_of(method, request.solver)
    plan = None
    if node is not None:
        plan = Plan.from_indices(instance, node, outcome.slot, method.name, versions)
    return write_result(
        instance,
        method,
        request,
        outcome,
        objective,
        plan,
        evaluation,
        began=began,
        stands=stands,
        moves=moves_of(instance, node),
        most_of_gain=_most_of_gain(relaxed, objective, node),
        warm_start=_warm_start(start, objective, outcome),
        repaired=repaired,
        ignored=ignored,
        unplaced=unplaced,
        versions=versions,
    )


def _levels_of(
    objective: Figure, outcome: Outcome, evaluation: Evaluation | None
) -> tuple[Level, ...]:
    """Return the further levels, with those of the objective as the referee has them."""
    by_name = {level.name: level for level in outcome.levels}
    for figure in objective.further:
        level = by_name.get(figure.name, Level(figure.name, str(figure.sense), None))
        by_name[figure.name] = _measured(level, evaluation)
    return tuple(by_name.values())


def _best_plan(
    instance: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    start: Start | None,
    objective: Figure,
    repaired: bool,
) -> tuple[Ints | None, Evaluation | None]:
    """Return the placement to report and its evaluation.

    The best of what the method returned, its incumbents before, and, of an exact method or a
    search, the start, the heuristics of its family and staying; where it is not the method's own
    answer, that is said.
    """
    node, evaluation = None, None
    if outcome.node is not None and (len(outcome.node) == 0 or outcome.node.min() >= 0):
        node = outcome.node.astype(np.int32)
        evaluation = evaluate_indices(instance, node, outcome.slot, objective.name)
        check_claim(method, outcome, objective, evaluation)
        if not repaired:
            honoured = kept_by(method.honours)
            wrong = broken_by(objective, instance, node, outcome.slot, evaluation)
            check_promise(method, [v for v in wrong if v.rule in honoured])
    rank = outcome.rank or _by(objective, instance)
    plan_stands = answered = _stands(objective, instance, node, outcome.slot, evaluation)
    bound = objective.binding(instance)
    for name, other, slot in _alternatives(instance, method, request, start):
        if answered and name == BEFORE:
            continue  # it ended with what it takes for better
        other_evaluation = evaluate_indices(instance, other, slot, objective.name)
        good = _stands(objective, instance, other, slot, other_evaluation)
        other_rank = rank(other, other_evaluation) if good else None
        if other_rank is None:
            continue
        if outcome.termination is Termination.INFEASIBLE:
            # methods leave part of the tolerance free: a plan that uses it refutes no claim
            edge = at_the_edge(bound, other)
            false = f"{method.name} calls the instance infeasible, but {name} is a feasible plan"
            if not edge and outcome.solver is None:
                raise SolverError(false)
            _withdraw_claim(outcome, method, name, "" if edge else f"{outcome.solver}: {false}")
        if _beats(objective, other_evaluation, outcome) and at_the_edge(bound, other):
            _withdraw_claim(outcome, method, name)
        # smaller is better: the first found wins ties, and so the method's own plan
        rank_now = None if node is None or evaluation is None else rank(node, evaluation)
        if not plan_stands or rank_now is None or other_rank < rank_now:
            if node is not None:
                outcome.notes.append(
                    f"{name} is better than the plan of {method.name} and replaces it"
                )
            outcome.slot, outcome.claimed = slot, None
            outcome.levels = tuple(
                # of another plan: nothing is proved
                _measured(replace(level, bound=None), other_evaluation)
                for level in outcome.levels
                if _is_known_figure(level)
            )
            node, evaluation, plan_stands = other.astype(np.int32), other_evaluation, True
    return node, evaluation


def _without_idle_moves(
    instance: Instance,
    method: Method,
    outcome: Outcome,
    objective: Figure,
    node: Ints,
    evaluation: Evaluation | None,
) -> tuple[Ints, Evaluation | None]:
    """Undo the moves that bring nothing.

    Of a search that ranks plans by the objective alone, whatever they do for its later levels.

    Of an exact method whose levels are no figures only exchanges that leave all loads as they are.
    """
    exact = method.kind == "exact"
    all_levels_known = not exact or all(map(_is_known_figure, outcome.levels))
    ordered = exact or outcome.rank is not None
    later = [find_objective(x.name) for x in outcome.levels if ordered and _is_known_figure(x)]
    ranked = list(dict.fromkeys([*objective.levels, *later]))
    if outcome.slot is not None:
        at, slot = restarting_less(instance, node, outcome.slot, ranked if all_levels_known else ())
        if all_levels_known and workers_restarted(instance, node, slot) is None:
            at = least_change(instance, at, ranked, slot)
        new_evaluation = evaluate_indices(instance, at, slot, objective.name)
        outcome.slot = slot
        return at, new_evaluation
    # from the coarsest to the finest: all moves, identical nodes and tasks, pairs, single moves
    fewer = staying_if_as_good(instance, node, ranked) if all_levels_known else node
    fewer = nearer_home(instance, fewer, ranked) if all_levels_known else fewer
    fewer = exchanged_back(instance, fewer, ranked, same_loads=not all_levels_known)
    if all_levels_known:
        fewer = least_change(instance, without_needless(instance, fewer, ranked), ranked)
    if fewer is node:
        return node, evaluation
    new_evaluation = evaluate_indices(instance, fewer, None, objective.name)
    rank = outcome.rank or _by(objective, instance)
    before = None if evaluation is None else rank(node, evaluation)
    after = rank(fewer, new_evaluation)
    if before is None or after is None or after > before:
        return node, evaluation  # by the method's own order it is no better
    outcome.claimed = None
    outcome.levels = tuple(_levels_after(outcome.levels, new_evaluation))
    return fewer, new_evaluation


def _levels_after(levels: Iterable[Level], evaluation: Evaluation | None) -> Iterator[Level]:
    """Yield the levels of a plan that has changed, without what nobody can measure or bounds.

    The bounds of later levels go with it, as they hold for plans that are no worse by it. The load
    on leaving nodes stays: moves that are undone put nothing there (`optim.kernels.undo`).
    """
    bounded = True
    for level in levels:
        if _is_known_figure(level):
            yield _measured(level if bounded else replace(level, bound=None), evaluation)
        elif level.bound is not None or level.name == "load_on_leaving_nodes":
            yield level
        else:
            bounded = False


def _most_of_gain(
    instance: Instance, objective: Figure, node: Ints | None
) -> tuple[int, int] | None:
    """Return how many of the moves bring most of the gain, and of how many."""
    if node is None or objective.value is None:
        return None
    count = len(migrated_tasks(instance, node))
    fast = objective.name in ("load_distance", "imc_gain")
    if not 0 < count <= (_FEW_MOVES if fast else _FEWER_MOVES):
        return None
    enough = enough_for(fewer_moves(instance, node, objective), MOST)
    return None if enough is None else (enough, count)


def _stands(
    objective: Figure,
    instance: Instance,
    node: Ints | None,
    slot: Ints | None,
    evaluation: Evaluation | None,
) -> bool:
    """Whether there is a plan, and it breaks no limit that binds under the objective."""
    if node is None or evaluation is None:
        return False
    return not broken_by(objective, instance, node, slot, evaluation)


def _by(
    objective: Figure, instance: Instance
) -> Callable[[Ints, Evaluation], tuple[float, ...] | None]:
    """Rank plans by an objective; differences of rounding are none.

    Unless the figure weighs what is left on leaving nodes, a plan that leaves more tasks there is
    the worse one first.
    """
    weighed = objective.weighs_leaving or not instance.nodes.leaving.any()

    def rank(node: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
        ranks = objective.ranks(evaluation)
        if ranks is None:
            return None
        left = 0 if weighed else int((instance.nodes.leaving[node] & instance.has_open_node).sum())
        return left, *ranks

    return rank


def _beats(objective: Figure, evaluation: Evaluation, outcome: Outcome) -> bool:
    value = evaluation.objective(objective.name)
    if value is None or outcome.bound is None:
        return False
    return objective.beats_bound(value, outcome.bound, objective.reference_of(evaluation))


def _withdraw_claim(outcome: Outcome, method: Method, name: str, false: str = "") -> None:
    """Withdraw what a plan refutes: a solver's `false` claim, or at the edge of the tolerance.

    Methods do not look for plans there.
    """
    if outcome.termination in (
        Termination.INFEASIBLE,
        Termination.OPTIMAL,
        Termination.GAP_REACHED,
    ):
        outcome.termination = Termination.ITERATION_LIMIT
    outcome.reasons, outcome.bound, outcome.levels = (), None, ()
    outcome.assumes = ()
    edge = (
        f"{name} keeps the limits only by the last of the tolerance, where {method.name} does not "
        "look for plans; nothing is proven"
    )
    outcome.notes.append(f"{false}: not believed" if false else edge)


def _alternatives(
    instance: Instance, method: Method, request: Request, start: Start | None
) -> Iterator[Incumbent]:
    """What is known beside the method's answer; of a heuristic only what it passed itself."""
    yield from reversed(request.incumbents.plans)
    if method.kind == "heuristic":
        return
    if start is not None:
        yield Incumbent(f"the warm start ({start.method})", np.asarray(start.node))
    if instance.has_current and not request.cold:
        yield Incumbent("staying", np.asarray(instance.tasks.node))


def moves_of(instance: Instance, node: Ints | None) -> tuple[Move, ...]:
    """List the tasks that leave their current node, and what each costs."""
    if node is None:
        return ()
    tasks, nodes = instance.tasks, instance.nodes
    paid = set(migrated_tasks(instance, node).tolist())
    return tuple(
        Move(
            tasks.ids[t],
            nodes.ids[tasks.node[t]],
            nodes.ids[node[t]],
            float(tasks.migration_cost[t]) if t in paid else 0.0,
        )
        for t in moved_tasks(instance, node)
    )


def _warm_start(start: Start | None, objective: Figure, outcome: Outcome) -> WarmStart | None:
    if start is None:
        return None
    value = start.evaluation.objective(objective.name)
    return WarmStart(start.method, value, outcome.warm_start_accepted)


def judge_threads(
    instance: Instance,
    relaxed: Instance,
    method: Method,
    request: Request,
    outcome: Outcome,
    *,
    ignored: tuple[str, ...],
) -> Result:
    """Check everything an outcome of threads says and write the result, as `judge` does."""
    began = time.perf_counter()
    objective = find_objective(outcome.objective or request.objective or method.objective)
    versions = versions_of(method, request.solver)
    plan, evaluation = None, None
    if outcome.threads is not None:
        plan = outcome.threads.to_plan(instance, method.name, versions)
        kind = plan_kind("threads")
        evaluation = kind.evaluate(relaxed, plan)
        check_claim(method, outcome, objective, evaluation)
        check_promise(method, evaluation.violations)
        outcome.notes += kind.remarks(instance, plan, evaluation)
    return write_result(
        instance,
        method,
        request,
        outcome,
        objective,
        plan,
        evaluation,
        began=began,
        objective_levels=tuple(_measured(level, evaluation) for level in outcome.levels),
        ignored=ignored,
        versions=versions,
    )


def _is_known_figure(level: Level) -> bool:
    return is_objective(level.name)


def _measured(level: Level, evaluation: Evaluation | None) -> Level:
    """Report a level by the referee's figure; its bound holds on."""
    value = None if evaluation is None else evaluation.objective(level.name)
    return replace(level, value=value)
