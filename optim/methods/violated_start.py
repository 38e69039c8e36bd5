"""Plans from a current placement that violates limits: least excess first, then the objective.

Where the tasks of today break limits, and no plan within the budgets keeps them all, every row (the
capacity of a resource on a node, a link, a number of tasks, a set, …) may stay as far over its
limit as it is now, and no further. Two levels are minimised then, one after the other:

1. the excess (`optim.rules`), by descent, and exactly by a model where that is not too big;
2. what was asked, by the method that was asked, on the instance with loosened limits. First with
   those of today: this bounds the objective, and where the plan has no more than the least excess
   it is the answer. Else with the limits that a plan of least excess needs; an exact method then
   goes on with the rows in which a plan of less worth may have its share of the excess.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import over
from optim.format.plan import Plan
from optim.format.tables import APART
from optim.kernels.least_excess import LeastExcess, descend, excess_bound, is_small
from optim.kernels.place_rules import placing_masks
from optim.methods.audit import FOR_EVERY_PLAN, moves_of
from optim.methods.reduce import in_solver_units, scaled, with_columns, with_set_columns
from optim.methods.registry import load_model
from optim.referee import Level, Mending, Termination, evaluate_indices
from optim.rules import (
    ROWS,
    RULE_OF,
    broken,
    counts_moves,
    excess_of,
    hopeless,
    loosened,
    rounding_of,
    total_of,
    undecided,
    worsened,
)
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.methods.registry import Start
    from optim.referee import Result
    from optim.rules.base import Violation

MEND, REFUSE = "mend", "refuse"
START_BROKEN = (MEND, REFUSE)
"""What is done where the current placement breaks a limit."""
_FORCED = frozenset({"allowed", "leaving", "workers"})
"""Rules that hold in any plan, whatever is today: tasks that may not stay have to move."""
_EVERY = 4_000  # Placements that are all judged, at less than a second, where nothing else proves.
_FEW = 1_000  # Of these, where an exact method does not prove the second level.
_LEVEL_SECONDS = 10.0
_SHARE = 0.25
"""Of the time limit, for the first level."""
_OPEN = (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.ITERATION_LIMIT)
"""Ends of one run that are none of both levels."""
_BOXES = 60  # Runs of an exact method on other shares of the excess.
_SAME = 1e-7


@dataclass(frozen=True, eq=False)
class BrokenStart:
    """An instance whose current placement breaks limits, as the two levels see it."""

    instance: Instance  # As it is judged.
    figure: Figure  # What is optimised.
    binding: Instance  # With only the limits that are none for the objective.
    #: The same as `instance`, with limits that have no form in rows of their own written as
    #: capacities.
    rows: Instance
    weight: Floats  # (R,) of the resources of `rows`, what a unit of excess counts.
    now: tuple[Violation, ...]  # What the current placement breaks of `binding`.
    #: Whether the objective is the same figure in `rows`, whatever limits are loosened there.
    alike: bool

    @property
    def excess(self) -> float:
        """Excess of the current placement."""
        return excess_of(self.binding, self.now)

    def judged(self, node: Ints, slot: Ints | None = None) -> tuple[float, tuple[Violation, ...]]:
        """Return the excess of a placement, infinite where it may not be, even to mend."""
        violations = tuple(broken(Placement(self.binding, node, slot)))
        if self._may_not_be(violations):
            return np.inf, violations
        return excess_of(self.binding, violations), violations

    def _may_not_be(self, violations: tuple[Violation, ...]) -> bool:
        """Whether violations are worse than today's, or of rules that hold in any plan."""
        forced = any(v.rule in _FORCED for v in violations)
        return forced or bool(worsened(self.now, violations))

    def judged_surely(self, node: Ints) -> tuple[float, float]:
        """Return the excess of a placement, and what it has if all that may fits the slots."""
        placement = Placement(self.binding, node)
        violations = tuple(broken(placement))
        sure = tuple(v for v in violations if not undecided(placement, v))
        excess, least = (
            np.inf if self._may_not_be(some) else excess_of(self.binding, some)
            for some in (violations, sure)
        )
        return excess, least

    def loose(self, node: Ints, *, narrow: bool = False) -> Instance:
        """Return `rows` with limits loosened to what a placement has."""
        return loosened(self.rows, node, self.figure.binding(self.rows), narrow=narrow)


def broken_now(instance: Instance) -> tuple[Violation, ...]:
    """Return what the current placement breaks; nothing where that is not to be mended."""
    node = instance.tasks.node
    if not (node >= 0).any():
        return ()
    now = tuple(v for v in broken(Placement(instance, node)) if v.rule != "placed")
    return now if any(violation.rule not in _FORCED for violation in now) else ()


def broken_start(instance: Instance, figure: Figure) -> BrokenStart | None:
    """Return what there is to mend; ``None`` where the current placement breaks nothing such.

    Tasks without a current node are to be placed, and break nothing now.

    `figure`: what is optimised; limits that it measures are none.
    """
    node, binding = instance.tasks.node, figure.binding(instance)
    now = broken_now(binding)
    if not now:
        return None
    rows, weight, alike = _in_rows(instance, figure, node)
    return BrokenStart(instance, figure, binding, rows, weight, now, alike)


def _in_rows(instance: Instance, figure: Figure, node: Ints) -> tuple[Instance, Floats, bool]:
    """Write limits as capacities that have no row of their own, or that the objective is of.

    Figures that are shares of capacities are of those of the first resource, with two exceptions.
    """
    alike = figure.name not in ("max_utilisation", "max_link_utilisation", "resource_deviation")
    weight = [1.0 / total_of(instance, "capacity", r) for r in range(instance.num_resources)]
    rows = instance
    if alike:
        table, loose = instance.sets, loosened(instance, node).sets
        raised = np.zeros(len(table.ids), dtype=np.bool_)
        if len(loose.ids) == len(table.ids):
            raised = (loose.limit != table.limit) & (table.rule == APART) & ~table.by_rack
        rows = with_set_columns(instance, raised)
        weight += [1.0 / total_of(instance, "sets")] * (rows.num_resources - len(weight))
        if figure.unit == "share" and _exceeds(rows, node):
            alike = bool((rows.nodes.capacity[:, 0] > 0).all())
            alike = alike and not rows.crossing_cost[:, 0].any()
            rows, weight = (
                (_capacity_apart(rows), [*weight, weight[0]]) if alike else (rows, weight)
            )
    return rows, np.array(weight), alike


def _exceeds(instance: Instance, node: Ints) -> bool:
    """Whether a placement exceeds capacities of the first resource."""
    bound = instance.nodes.capacity[:, 0] * instance.limits.max_utilisation[0]
    return bool((Placement(instance, node).loads[:, 0] > bound).any())


def _capacity_apart(instance: Instance) -> Instance:
    """Bound the first resource by one beside it: what is a share of its capacity stays so."""
    nodes, limits = instance.nodes, instance.limits
    capacity = nodes.capacity[:, 0]
    bound = capacity * limits.max_utilisation[0]
    share = np.array(limits.max_utilisation)
    # so wide that all load fits any node: the resource beside it is what binds
    share[0] = max(1.0, float((instance.totals[0] / capacity).max()))
    changed = replace(instance, limits=replace(limits, max_utilisation=share))
    name, load = f"{instance.resources[0]} limit", instance.tasks.load[:, [0]]
    return with_columns(changed, (name,), load, bound[:, None], nodes.background[:, [0]])


def first_level(start: BrokenStart, time_limit: float | None) -> LeastExcess:
    """Find the least excess of a plan that is nowhere worse than today."""
    # without a limit in seconds what ends it is an amount of work, so that plans repeat
    seconds = None if time_limit is None else min(_LEVEL_SECONDS, _SHARE * time_limit)
    ends = np.inf if seconds is None else time.perf_counter() + seconds
    least = _least_within(start, seconds)
    return replace(least, late=time.perf_counter() >= ends)


def _least_within(start: BrokenStart, seconds: float | None) -> LeastExcess:
    began = time.perf_counter()
    binding = start.figure.binding(start.rows)
    seen, scale = in_solver_units(binding)
    loose = scaled(start.figure.binding(start.loose(start.instance.tasks.node)), scale)
    weight = start.weight * scale.load
    # what a task has above what it can use is the same in every plan
    fixed = excess_of(start.binding, [v for v in start.now if v.rule == "max_load"])
    bound = excess_bound(seen, weight) + fixed
    node, _ = descend(seen, loose, weight, seconds)
    best = _judged(start, node, bound)
    model = load_model("least_excess")
    left = None if seconds is None else seconds - (time.perf_counter() - began)
    late = left is not None and left <= 0 and not is_small(seen)
    if best.proven or model is None or late:
        return best

    def judged(node: Ints) -> tuple[float, float]:
        excess, if_slots_fit = start.judged_surely(node)
        return excess - fixed, if_slots_fit - fixed

    node, proved = model(seen, loose, weight, left, judged, best.excess - fixed)
    other = _judged(start, node, max(bound, proved + fixed))
    less = other.excess < best.excess - best.rounding
    best = other if less else replace(best, bound=other.bound)
    return best if best.proven else _of_all(start, best)


def _of_all(start: BrokenStart, best: LeastExcess) -> LeastExcess:
    """Judge all placements, where they are few: the model does not know every rule."""
    every = _all_placements(start, _EVERY)
    if every is None:
        return best
    excess, surely = np.array([start.judged_surely(node) for node in every]).T
    # `surely` counts what is undecided within the work limit as kept, so it bounds from below
    least, bound = float(excess.min()), float(surely.min())
    if least >= best.excess - best.rounding:
        return replace(best, bound=min(bound, best.excess))
    first = int(np.argmax(excess <= least + best.rounding))  # whatever the unit
    return replace(best, node=every[first], excess=float(excess[first]), bound=bound)


def _all_placements(start: BrokenStart, most: int) -> Ints | None:
    """(M, T) every placement on allowed nodes; ``None`` for more than `most`."""
    kinds, allowed, _ = placing_masks(start.binding)
    number = np.maximum(allowed.sum(axis=1)[kinds], 1)
    # logarithms: the product of a thousand numbers is beyond doubles
    if np.log(number).sum() > np.log(most):
        return None
    places = [np.flatnonzero(allowed[kind]) for kind in kinds]
    return np.array(list(itertools.product(*places)), dtype=np.int32)


def no_more_than(node: Ints, start: BrokenStart, least: LeastExcess) -> LeastExcess:
    """Take a placement that is given for the least excess known, where it has less."""
    other = _judged(start, node, least.bound)
    return other if other.excess < least.excess - least.rounding else least


def _judged(start: BrokenStart, node: Ints | None, bound: float) -> LeastExcess:
    excess = np.inf if node is None else start.judged(node)[0]
    rounding = rounding_of(start.binding, start.now)
    return LeastExcess(node if np.isfinite(excess) else None, excess, bound, rounding)


@dataclass(frozen=True, eq=False)
class _Found:
    """A plan of the second level: its excess, what it breaks, and the result it is of."""

    excess: float
    still: tuple[Violation, ...]
    result: Result
    node: Ints
    slot: Ints | None


class SecondLevel:
    """The asked objective among the plans of least excess.

    `start`, `least`: what is broken today, and the first level.
    `run`: solves an instance with other limits: of instance, plan to start from, seconds, and
        whether heuristics before an exact method may be left out.
    `drain`: whether only plans are asked for that take off leaving nodes all that may go
        elsewhere.
    """

    def __init__(
        self,
        start: BrokenStart,
        least: LeastExcess,
        run: Callable[[Instance, Ints | None, float | None, bool], Result],
        time_limit: float | None,
        *,
        drain: bool = False,
    ) -> None:
        self.start, self.least, self.run, self.drain = start, least, run, drain
        self.ends = None if time_limit is None else time.perf_counter() + time_limit
        self.best: _Found | None = None
        self.bound: float | None = None
        self.bound_of: str | None = None
        self.assumes: tuple[str, ...] = ()
        self.first: Result | None = None
        self.stopped: set[Termination] = set()  # Why runs of the method ended.

    def left(self, share: float = 1.0) -> float | None:
        """Seconds left, or a share of them."""
        if self.ends is None:
            return None
        return max(1e-3, share * (self.ends - time.perf_counter()))

    def over(self) -> bool:
        """Whether the time is over."""
        return self.ends is not None and time.perf_counter() >= self.ends

    def solve(self, *, exact: bool) -> None:
        """Run the method until the plan is as good as is known to be possible."""
        start = self.start
        home = start.instance.tasks.node
        first = self._run(start.loose(home), self.least.node, self.left(0.5))
        self.first = first
        if start.alike:
            self.bound, self.bound_of, self.assumes = first.bound, first.bound_of, first.assumes
        if first.termination in (Termination.INTERRUPTED, Termination.INFEASIBLE) or self._done():
            return
        if (
            exact
            and start.alike
            and first.termination is Termination.OPTIMAL
            and self._boxes(first)
        ):
            return
        if exact and not self._done() and self._judge_all(first):
            return
        if self.least.node is not None and not self._done():
            narrow = start.loose(self.least.node, narrow=True)
            self._run(narrow, self.least.node, self.left())

    def _done(self) -> bool:
        """Whether a plan of the least excess known is found that the method took for its best."""
        return self.best is not None and self.best.result is self.first and self._is_least()

    def _is_least(self) -> bool:
        return self.best is not None and self.best.excess <= self._most()

    def _most(self) -> float:
        """Return the excess that a plan may have: the least known, and rounding."""
        return self.least.excess * (1 + _SAME) + self.least.rounding

    def _run(
        self, instance: Instance, node: Ints | None, seconds: float | None, *, cold: bool = False
    ) -> Result:
        result = self.run(instance, node, seconds, cold)
        self.stopped.add(result.termination)
        if result.plan is not None:
            self._take(result)
        return result

    def _take(self, result: Result) -> None:
        assert result.plan is not None
        instance = self.start.instance
        node, slot = result.plan.node_indices(instance), result.plan.slot_indices(instance)
        if len(node) and node.min() < 0:
            return
        excess, still = self.start.judged(node, slot)
        if not np.isfinite(excess):
            return
        candidate = _Found(excess, still, result, node, slot)
        if self.best is None or self._rank(candidate) < self._rank(self.best):
            self.best = candidate
        if excess < self.least.excess and slot is None:
            self.least = replace(self.least, node=node, excess=excess)

    def _rank(self, candidate: _Found) -> tuple[float, float]:
        figure = self.start.figure
        value = evaluate_indices(
            self.start.instance, candidate.node, candidate.slot, figure.name
        ).objective(figure.name)
        signed = np.inf if value is None else value if figure.sense == "min" else -value
        excess = 0.0 if candidate.excess <= self._most() else candidate.excess
        return float(f"{excess:.7e}"), float(f"{signed:.9e}")

    def _boxes(self, first: Result) -> bool:
        """Search shares of the excess among rows, best bound first; whether that was to the end.

        A plan p of more than the least excess E exceeds limits by e_i(p) in rows i. In every plan
        of no more than E one of these rows is exceeded by e_i(p) · E / Σ e(p) at most: as many
        cases, each the same problem with one limit less loosened.
        """
        start, figure = self.start, self.start.figure
        base = start.figure.binding(start.rows)
        rows = [k for k, each in enumerate(ROWS) if _is_plain(each, base)]
        limits = {k: np.asarray(ROWS[k].limit(base), dtype=np.float64) for k in rows}
        sizes = {k: _sizes(start, base, k) for k in rows}
        sign = 1.0 if figure.sense == "min" else -1.0
        unit = in_solver_units(base)[1].of(figure.unit)
        queue: list[tuple[float, int, Result, dict[int, Floats]]] = []
        home = Placement(base, start.instance.tasks.node)
        # at first no row is tighter than the larger of its limit and what it has today
        caps = {k: np.maximum(limits[k], np.asarray(ROWS[k].value(home), float)) for k in rows}
        count = 0

        def push(result: Result, caps: dict[int, Floats]) -> None:
            assert result.bound is not None
            heapq.heappush(queue, (sign * result.bound, count, result, caps))

        push(first, caps)
        while queue:
            bound, _, result, caps = heapq.heappop(queue)
            self.bound = sign * bound
            if self._is_least() and self._value() <= bound + _SAME * max(unit, abs(bound)):
                return True
            assert result.plan is not None
            node = result.plan.node_indices(start.instance)
            if start.judged(node, result.plan.slot_indices(start.instance))[0] <= self._most():
                return True
            placement = Placement(base, node)
            # rounding exceeds nothing (as for the referee): its share would change no limit
            excess = {
                k: np.where(over(value, limits[k]), value - limits[k], 0.0) / sizes[k]
                for k in rows
                for value in [np.asarray(ROWS[k].value(placement), float)]
            }
            total = sum(float(each.sum()) for each in excess.values())
            if total <= self._most():
                return False  # more than these rows is exceeded
            part = self._most() / total
            for k in rows:
                for i in np.argwhere(excess[k] > 0).tolist():
                    at = tuple(i)
                    count += 1
                    if count > _BOXES or self.over():
                        return False
                    changed = {**caps, k: np.array(caps[k])}
                    changed[k][at] = limits[k][at] + part * excess[k][at] * sizes[k][at]
                    if ROWS[k].whole:
                        changed[k][at] = np.floor(changed[k][at] + _SAME)
                    part_of = _with_caps(start, changed, limits)
                    child = self._run(part_of, None, self.left(), cold=True)
                    if child.termination is Termination.INFEASIBLE:
                        continue
                    if child.termination is not Termination.OPTIMAL or child.plan is None:
                        return False
                    push(child, changed)
        return self._is_least()

    def _judge_all(self, first: Result) -> bool:
        """Judge all placements, where they are few; return whether that proves the best of them."""
        start, figure = self.start, self.start.figure
        every = _all_placements(start, _FEW)
        if every is None or first.termination is not Termination.OPTIMAL or not self.least.proven:
            return False
        best: tuple[tuple[float, ...], Ints] | None = None
        bound, stays = np.inf, False
        for node in every:
            if self.over():
                return False
            excess, surely = start.judged_surely(node)
            if surely < self.least.excess - self.least.rounding:
                return False  # slots that fit nothing hide what else is exceeded there
            if surely > self._most():
                continue
            if (start.instance.nodes.leaving[node] & start.instance.has_open_node).any():
                stays = True
                continue
            placement = Placement(start.instance, node)
            values = tuple(
                np.nan if value is None else value if level.sense == "min" else -value
                for level in figure.levels
                for value in [level.measured(placement).value]
            )
            if np.isnan(values).any():
                return False
            # where it is not known whether tasks fit the slots, a placement bounds and is no plan
            bound = min(bound, values[0])
            values = tuple(float(f"{value:.9e}") for value in values)
            if excess <= self._most() and (best is None or values < best[0]):
                best = values, node
        if best is None or (stays and not first.assumes):
            return False
        candidate = self._of(best[1], f"of all {len(every):,} placements the best")
        if self.best is None or self._rank(candidate) < self._rank(self.best):
            self.best = candidate
        self.bound = bound if figure.levels[0].sense == "min" else -bound
        self.bound_of = first.bound_of if stays else "problem"
        self.assumes = first.assumes if stays else ()
        return True

    def result(self, instance_given: Instance, began: float, *, promises: bool) -> Result | None:
        """Write the result of both levels; ``None`` where there is no plan.

        `instance_given`: the instance with all limits, which the plan is of.
        `began`: ``time.perf_counter()`` at the start.
        `promises`: whether the method promises to keep limits; else its plan is reported as it is.
        """
        start, figure, best = self.start, self.start.figure, self.best
        unwanted = self.first is not None and self.first.termination is Termination.INFEASIBLE
        least = self.least.node
        if least is not None and not self._drains_if_needed(least):
            least = None
        if best is None and (least is None or unwanted):  # by an option, as drain=hard
            return None
        if least is not None and (best is None or (promises and not self._is_least())):
            best = self.best = self._of_first_level()
        assert best is not None
        instance, result = start.instance, best.result
        evaluation = evaluate_indices(instance, best.node, best.slot, figure.name)
        value, reference = evaluation.objective(figure.name), figure.reference_of(evaluation)
        notes = self._why()
        claim = np.nan if self.bound is None else self.bound
        if value is not None and figure.beats_bound(value, claim, reference):
            notes.append(f"bound {claim:.9g}, but a checked plan has {value:.9g}: not believed")
            self.bound, self.assumes = None, ()
        gap = figure.gap(value, self.bound, reference)
        assert result.plan is not None
        plan = Plan.from_indices(
            instance_given, best.node, best.slot, result.method, result.plan.versions
        )
        levels = result.objective_levels
        if result is not self.first:
            levels = tuple(replace(level, bound=None) for level in levels)
        # the run knew plans of least excess alone
        notes[:0] = (note for note in result.notes if FOR_EVERY_PLAN not in note)
        return replace(
            result,
            instance_sha256=instance_given.sha256,
            termination=self._termination(result, gap),
            plan=plan,
            objective=replace(result.objective, value=value),  # type: ignore[type-var]
            bound=self.bound,
            bound_of=None if self.bound is None else self.bound_of,
            assumes=() if self.bound is None else self.assumes,
            bound_by=None if self.bound is None else "one solver",
            gap=None if best.still else gap,
            objective_levels=(Level("excess", "min", best.excess, self._proved(best)), *levels),
            evaluation=evaluation,
            moves=moves_of(instance_given, best.node),
            notes=tuple(notes),
            most_of_gain=None,
            reasons=(),
            mending=self._mending(best),
            times={**result.times, "total": time.perf_counter() - began},
        )

    def _proved(self, best: _Found) -> float:
        """Return the bound of the first level; where that is closed, its value."""
        return best.excess if self.least.proven and self._is_least() else self.least.bound

    def _termination(self, result: Result, gap: float | None) -> Termination:
        ends = {result.termination, self.first.termination if self.first else result.termination}
        if Termination.INTERRUPTED in ends:
            return Termination.INTERRUPTED
        closed = gap is not None and gap <= self.start.figure.optimal_gap
        if closed and self.least.proven and self._is_least() and not self._constant(result):
            return Termination.GAP_REACHED if self.assumes else Termination.OPTIMAL
        if result.termination not in _OPEN:
            return result.termination
        late = self.over() or (self.least.late and not self.least.proven)
        late = late or Termination.TIME_LIMIT in self.stopped
        return Termination.TIME_LIMIT if late else Termination.ITERATION_LIMIT

    def _constant(self, result: Result) -> bool:
        """Whether the objective is the same for every plan: then none is called optimal by it."""
        value = None if result.objective is None else result.objective.value
        bound = None if self.assumes else self.bound
        return self.start.figure.fixed(self.start.instance, value, bound) is not None

    def _mending(self, best: _Found) -> Mending:
        was = {v.key: v.amount for v in self.start.now}
        return Mending(
            excess_now=self.start.excess,
            excess=best.excess,
            still=tuple((v, was.get(v.key, 0.0)) for v in best.still),
            budget=counts_moves(self.start.instance),
            least=self.least.proven and self._is_least(),
        )

    def _why(self) -> list[str]:
        """Say what shows at once that no plan keeps every limit."""
        reasons = hopeless(self.start.binding)
        return [f"no plan keeps every limit: {reason}" for reason in reasons[:1]]

    def not_below(self, warm: Start) -> None:
        """Take the warm start where the method ended with a plan that is worse."""
        first = self.first
        assert first is not None
        if first.termination is Termination.INFEASIBLE or not self._drains_if_needed(warm.node):
            return
        name = f"the warm start ({warm.method})"
        note = f"{name} is better than the plan of {first.method} and replaces it"
        candidate = self._of(warm.node, note, first.termination)
        if np.isfinite(candidate.excess) and (
            self.best is None or self._rank(candidate) < self._rank(self.best)
        ):
            self.best = candidate

    def _drains_if_needed(self, node: Ints) -> bool:
        """Whether a plan that is not of the method itself leaves nothing on leaving nodes."""
        instance = self.start.instance
        stays = instance.nodes.leaving[node] & (node >= 0) & instance.has_open_node
        return not (self.drain and stays.any())

    def _of_first_level(self) -> _Found:
        """Take the plan of the first level where the method has none."""
        assert self.first is not None
        assert self.least.node is not None
        name = self.first.method
        reason = (
            f"{name} found no plan"
            if self.best is None
            else f"the plan of {name} violates limits by more"
        )
        note = f"{reason}: the plan of least excess replaces it"
        return self._of(self.least.node, note)

    def _of(
        self, node: Ints, note: str, termination: Termination = Termination.HEURISTIC
    ) -> _Found:
        """Write a result of a plan that no run of the method returned."""
        first = self.first
        assert first is not None
        instance, figure = self.start.instance, self.start.figure
        plan = Plan.from_indices(instance, node, None, first.method, first.versions)
        value = evaluate_indices(instance, node, None, figure.name).objective(figure.name)
        result = replace(
            first,
            plan=plan,
            objective=replace(first.objective, value=value),  # type: ignore[type-var]
            termination=termination,
            objective_levels=(),
            unplaced=(),
            notes=(note,),  # the method's are of another plan
        )
        excess, still = self.start.judged(node)
        return _Found(excess, still, result, node, None)

    def _value(self) -> float:
        assert self.best is not None
        return self._rank(self.best)[1]


def _is_plain(rows: Any, instance: Instance) -> bool:
    """Whether rows are finite limits that can be set to any value."""
    limit = np.asarray(rows.limit(instance))
    return bool(rows.any_limit and np.isfinite(limit).any())


def _sizes(start: BrokenStart, instance: Instance, k: int) -> Floats:
    """Return what an amount of each row is a share of."""
    rule = RULE_OF[k]
    shape = np.shape(ROWS[k].limit(instance))
    if rule in ("capacity", "min_load"):
        return np.broadcast_to(1.0 / start.weight, shape)
    return np.full(shape, total_of(start.instance, rule))


def _with_caps(start: BrokenStart, caps: dict[int, Floats], limits: dict[int, Floats]) -> Instance:
    """Return the instance with the limits of some rows at given values."""
    capped = start.loose(start.instance.tasks.node)
    for k, values in caps.items():
        raised = values > limits[k]
        changed = raised | (np.asarray(ROWS[k].limit(capped), float) > limits[k])
        changed &= np.isfinite(limits[k])
        if changed.any():
            capped = ROWS[k].loosened(capped, changed, np.where(raised, values, limits[k]), None)
    return capped
