"""Exact rebalancing where many key groups are equal: by what nodes hold of each class.

Equal key groups are interchangeable, so a placement is described by its counts, and the migrations
it takes are those by which a node holds fewer than now. A dynamic programme takes one node after
the other and keeps, for the counts still to be placed, the least load left on leaving nodes for
each number of migrations. With bisection on the load distance over the values that nodes can have,
all levels of `balance-milp` are solved exactly, without a solver.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.balance.model import BalanceAnswer, LevelAnswer
from formulations.rebalancing.bound import SHARES, finite_budgets, least_exchanged
from formulations.rebalancing.exchanges import CLASSES, GRIDS, Exchanges, most_cells
from formulations.rebalancing.loads import movable_key_groups
from optim.solvers import solve_linear
from optim.solvers.linear_model import LinearModel
from optim.util.compiled import SMALL, kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.rebalancing.balance.model import Settings
    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.solvers.linear_model import VariableBlock


#: Vectors of counts, and of these times migrations, up to which the programme is used.
MAX_VECTORS, MAX_STATES = 50_000, 2_000_000

MAX_PATTERNS, MAX_NODES = 400_000, 64  # Patterns over all nodes, and nodes, up to which it is.


@dataclass(frozen=True)
class Window:
    """What is asked of a placement: the greatest load above and below a share, and what is left."""

    over: float
    under: float
    left: float = np.inf


def few_classes(problem: BalanceProblem) -> bool:
    """Whether `solve_by_classes` takes a problem: few classes, budgets of equal prices."""
    if problem.num_tasks == 0 or problem.num_nodes > MAX_NODES or problem.counted is not None:
        return False
    if problem.uneven.any():  # it counts moves
        return False
    counts = count_classes(problem)
    vectors = counts.num_vectors
    return (
        vectors <= MAX_VECTORS
        and vectors * problem.num_nodes <= MAX_PATTERNS
        and vectors * (1 + (problem.most_moved or 0)) <= MAX_STATES
    )


def solve_by_classes(
    problem: BalanceProblem, settings: Settings, starts: Sequence[Ints] = ()
) -> BalanceAnswer | None:
    """Solve all levels exactly; ``None`` where the form does not suit (`few_classes`).

    `settings`: `deadline` and `offer` are read. The weighted objective and emptying first are not
        solved in this form.
    `starts`: placements to begin from; the better they are, the less there is to look at.
    """
    unsuitable = settings.objective != "lexicographic" or settings.drain_first
    if unsuitable or not few_classes(problem):
        return None
    return _Solving(problem, settings, starts).answer()


class _Solving:
    """One solve: the counts, the best placement so far, and the levels."""

    def __init__(self, problem: BalanceProblem, settings: Settings, starts: Sequence[Ints]) -> None:
        self.problem, self.settings = problem, settings
        self.counts: Counts = count_classes(problem)
        self.budget = problem.most_moved
        self.best: Ints | None = None
        self.late = False
        for start in starts:
            if problem.is_feasible(start):
                self._take(start)

    def answer(self) -> BalanceAnswer:
        """Solve one level after the other."""
        answer = BalanceAnswer(solver="counts of classes")
        try:
            self._solve(answer)
        except KeyboardInterrupt:
            if answer.levels:
                answer.levels[-1].termination = "interrupted"
            else:
                answer.levels.append(LevelAnswer("distance", None, None, "interrupted"))
        answer.placement = self.best
        answer.recount(self.problem)
        return answer

    def _solve(self, answer: BalanceAnswer) -> None:
        problem = self.problem
        roof = problem.most_distance
        if self.best is None and not self._reach(Window(roof, roof)):
            answer.levels.append(
                LevelAnswer("distance", None, None, "time_limit" if self.late else "infeasible")
            )
            return
        distance, proven = self._least_distance()
        answer.levels.append(LevelAnswer("distance", distance, proven, self._why()))
        if problem.has_leaving and not self.late:
            assert self.best is not None
            # the programme keeps the least left of all within the distance
            self._reach(Window(distance, distance))
            left = problem.levels(self.best).left
            proven_left = None if self.late else left
            answer.levels.append(LevelAnswer("left", left, proven_left, self._why()))
        if self.settings.sides and not self.late:
            sides = self._least_sides(distance)
            answer.levels.append(
                LevelAnswer("sides", sides, None if self.late else sides, self._why())
            )

    def _why(self) -> str:
        return "time_limit" if self.late else "optimal"

    def _least_distance(self) -> tuple[float, float]:
        """Bisect on the breaches that nodes can have; return the best and what is proven."""
        assert self.best is not None
        values = self._breaches()
        best = self.problem.levels(self.best).distance
        low, high = 0, int(np.searchsorted(values, best - self.problem.same))
        # all below `low` are refuted; `high` is beyond the last that would be better
        while low < high and not self.late:
            middle = (low + high) // 2
            if self._reach(Window(float(values[middle]), float(values[middle]))):
                best = self.problem.levels(self.best).distance
                high = min(middle, int(np.searchsorted(values, best - self.problem.same)))
            elif not self.late:
                low = middle + 1
        proven = best if low >= high else float(values[low])
        return best, min(best, proven)

    def _breaches(self) -> Floats:
        """Return the breaches that nodes can have, ascending."""
        problem = self.problem
        breaches = [
            np.maximum(p.deviation, 0.0) if problem.leaving[i] else np.abs(p.deviation)
            for i, p in enumerate(self.counts.patterns)
        ]
        return np.unique(np.concatenate(breaches))

    def _least_sides(self, distance: float) -> float:
        """Least sum of both sides: one is the load distance, the other as small as can be."""
        assert self.best is not None
        problem, values = self.problem, self._breaches()
        left = problem.levels(self.best).left if problem.has_leaving else np.inf
        # one side is the load distance: first the upper one, then the lower one is held there
        for upper in (True, False):
            low, high = 0, int(np.searchsorted(values, distance + problem.same, side="right"))
            while low < high and not self.late:
                middle = (low + high) // 2
                side = float(values[middle])
                window = Window(distance, side, left) if upper else Window(side, distance, left)
                if self._reach(window):
                    high = middle
                else:
                    low = middle + 1
        reached = problem.levels(self.best)
        return reached.over + reached.under

    def _take(self, placement: Ints) -> None:
        problem = self.problem
        levels = problem.levels(placement)
        if self.best is None or problem.is_better(levels, problem.levels(self.best)):
            self.best = placement
            if self.settings.offer is not None:
                self.settings.offer(placement)

    def _reach(self, window: Window) -> bool:
        """Look for a placement within a window, the least left on leaving nodes; take it."""
        counts, budget = self.counts, -1 if self.budget is None else self.budget
        chosen = self._within(window)
        if chosen is None:
            return False
        # everything is left to place, nothing has moved
        states = np.array([counts.num_vectors - 1])
        moves, left = np.zeros(1, np.int64), np.zeros(1)
        history = []
        for number, pattern_moves, pattern_left in chosen:
            if self._out_of_time():
                return False
            best = np.full((counts.num_vectors, 1 + max(0, budget)), np.inf)
            states, moves, left, origin, taken = advance(
                states, moves, left, counts.digits, number, pattern_moves, pattern_left, best,
                budget,
            )  # fmt: skip
            history.append((origin, taken))
            if not len(states):
                return False
        done = np.flatnonzero(states == 0)
        if not len(done):
            return False
        at = int(done[np.argmin(left[done])])
        if left[at] > window.left + self.problem.same:
            return False
        # backwards through the history: which pattern each node has taken
        numbers = np.empty(self.problem.num_nodes, dtype=np.int64)
        for node in range(self.problem.num_nodes - 1, -1, -1):
            origin, taken = history[node]
            numbers[node] = taken[at]
            at = int(origin[at])
        self._take(counts.placement(numbers))
        return True

    def _within(self, window: Window) -> list[tuple[Ints, Ints, Floats]] | None:
        """Return the patterns of each node within a window; ``None`` if a node has none."""
        same, parts = self.problem.same, []
        for node, patterns in enumerate(self.counts.patterns):
            inside = patterns.deviation <= window.over + same
            if not self.problem.leaving[node]:
                inside &= patterns.deviation >= -window.under - same
            if not inside.any():
                return None
            part = patterns.number[inside], patterns.moves[inside], patterns.left[inside]
            parts.append(part)
        return parts

    def _out_of_time(self) -> bool:
        remaining = self.settings.remaining()
        self.late = self.late or (remaining is not None and remaining <= 0.0)
        return self.late


class Patterns(NamedTuple):
    """What one node may hold: vectors of counts by number, and what each of them means."""

    #: (P,) the vector, key groups that leave the node, load it keeps of a leaving node, and its
    #: deviation from the node's share.
    number: Ints
    moves: Ints
    left: Floats
    deviation: Floats


@dataclass(frozen=True)
class Counts:
    """A problem's key groups as counts of classes."""

    problem: BalanceProblem
    #: (T,) class: equal load, usage, allowed nodes, and, where it matters, the same kind of home.
    class_of: Ints
    example: Ints  # (C,) a key group of each class.

    @cached_property
    def total(self) -> Ints:
        """(C,) key groups of each class."""
        return np.bincount(self.class_of, minlength=len(self.example))

    @cached_property
    def at_home(self) -> Ints:
        """(N, C) key groups of each class at home on each node."""
        counts = np.zeros((self.problem.num_nodes, len(self.example)), dtype=np.int64)
        np.add.at(counts, (self.problem.home, self.class_of), 1)
        return counts

    @cached_property
    def radix(self) -> Ints:
        """(C,) value of each digit of a vector's number."""
        return np.concatenate([[1], np.cumprod(self.total + 1)[:-1]]).astype(np.int64)

    @property
    def num_vectors(self) -> int:
        """Vectors of counts that there are."""
        product = 1
        for count in self.total.tolist():
            product *= count + 1
        return product

    @cached_property
    def digits(self) -> Ints:
        """(S, C) the counts of each number."""
        return np.arange(self.num_vectors)[:, None] // self.radix % (self.total + 1)

    @cached_property
    def patterns(self) -> list[Patterns]:
        """What each node may hold within its capacities, least loads and allowed sets."""
        return [self._patterns_of(node) for node in range(self.problem.num_nodes)]

    def _patterns_of(self, node: int) -> Patterns:
        problem, digits = self.problem, self.digits
        fits = np.ones(len(digits), dtype=np.bool_)
        usage = digits @ problem.usage[self.example]
        fits &= (usage <= problem.headroom[node]).all(axis=1)
        if not problem.leaving[node]:
            fits &= (usage >= problem.floor[node]).all(axis=1)
        # whether a key group may stay where it is follows from its allowed set, not by its class
        barred = ~np.array([self._may_hold(int(task), node) for task in self.example])
        fits &= (digits[:, barred] == 0).all(axis=1)
        number = np.flatnonzero(fits)
        load = digits[number] @ problem.load[self.example]
        moves = np.maximum(0, self.at_home[node] - digits[number]).sum(axis=1)
        left = load if problem.leaving[node] else np.zeros(len(number))
        deviation = load + problem.background[node] - problem.share[node]
        return Patterns(number, moves, left, deviation)

    def _may_hold(self, task: int, node: int) -> bool:
        problem = self.problem
        closed = problem.leaving[node] and not problem.into_leaving
        if closed and not problem.leaving[problem.home[task]]:
            return False
        return task not in problem.allowed or node in problem.allowed[task]

    def placement(self, numbers: Ints) -> Ints:
        """Return a placement in which node i holds the counts numbered `numbers[i]`.

        Key groups stay at home where the counts let them.
        """
        problem = self.problem
        placement = problem.home.copy()
        counts = self.digits[numbers]
        for c in range(len(self.example)):
            tasks = np.flatnonzero(self.class_of == c)
            order = tasks[np.argsort(problem.home[tasks], kind="stable")]
            home = problem.home[order]
            # the first ones of each node stay, as many as it holds afterwards
            rank = np.arange(len(order)) - np.searchsorted(home, home)
            moved = order[rank >= counts[home, c]]
            wanted = np.maximum(0, counts[:, c] - self.at_home[:, c])
            placement[moved] = np.repeat(np.arange(problem.num_nodes), wanted)
        return placement


def count_classes(problem: BalanceProblem) -> Counts:
    """Group the key groups that are interchangeable."""
    rows = [tuple(sorted(nodes.tolist())) for nodes in problem.allowed.values()]
    names = {row: number for number, row in enumerate(sorted(set(rows)))}
    allowed = np.full(problem.num_tasks, -1)
    allowed[problem.restricted] = [names[row] for row in rows]
    drained = np.zeros(problem.num_tasks)
    if problem.has_leaving and not problem.into_leaving:
        drained = problem.leaving[problem.home].astype(np.float64)
    features = np.column_stack([problem.load, problem.usage, allowed, drained])
    _, example, class_of = np.unique(features, axis=0, return_index=True, return_inverse=True)
    return Counts(problem, class_of.ravel().astype(np.int64), example.astype(np.int64))


@kernel(steps=lambda states, patterns: 10 * len(states) * len(patterns))
def advance(
    states: Any,
    moves: Any,
    left: Any,
    digits: Any,
    patterns: Any,
    pattern_moves: Any,
    pattern_left: Any,
    best: Any,
    max_moves: Any,
) -> Any:
    """Take every pattern of one node out of every state; keep what is not dominated.

    `states`, `moves`, `left`: (A,) number of the counts that are left to place, migrations so far,
        and load left on leaving nodes so far.
    `digits`: (S, C) counts of each numbered state.
    `patterns`, `pattern_moves`, `pattern_left`: (P,) what the node may hold, as a number, with the
        migrations away from the node and the load it leaves on a leaving one.
    `best`: (S, M + 1) least load left with so many migrations, inf everywhere; overwritten. M = 0
        where migrations do not count.
    `max_moves`: budget; negative where migrations do not count.
    Returns the same three arrays after the node, and for each entry the entry and the pattern it
        came from.
    """
    count = 0
    origin = np.full(best.shape, -1, np.int64)
    taken = np.full(best.shape, -1, np.int64)
    for a in range(len(states)):
        for p in range(len(patterns)):
            at = patterns[p]
            # the pattern may hold no more of any class than is left to place
            fits = True
            for c in range(digits.shape[1]):
                if digits[at, c] > digits[states[a], c]:
                    fits = False
                    break
            if not fits:
                continue
            spent = 0 if max_moves < 0 else moves[a] + pattern_moves[p]
            if max_moves >= 0 and spent > max_moves:
                continue
            rest = states[a] - at
            value = left[a] + pattern_left[p]
            if value < best[rest, spent]:
                if origin[rest, spent] < 0:
                    count += 1
                best[rest, spent] = value
                origin[rest, spent] = a
                taken[rest, spent] = at
    new_states, new_moves = np.empty(count, np.int64), np.empty(count, np.int64)
    new_left, come_from = np.empty(count), np.empty(count, np.int64)
    by = np.empty(count, np.int64)
    at = 0
    for rest in range(best.shape[0]):
        least = np.inf
        for spent in range(best.shape[1]):
            # more migrations that leave no less behind are dominated
            if best[rest, spent] < least:
                least = best[rest, spent]
                new_states[at], new_moves[at], new_left[at] = rest, spent, least
                come_from[at], by[at] = origin[rest, spent], taken[rest, spent]
                at += 1
    return new_states[:at], new_moves[:at], new_left[:at], come_from[:at], by[:at]


# A strong bound when time is given: load distances refuted one after the other by small MILPs.
#
# For a fixed distance the relaxation by classes (above) is refuted within fractions of a second
# where branch and bound on the distance itself gets nowhere: fixed windows make whole counts bind.
# What cannot be refuted yields counts, and they a placement to go on from.
#
# Key groups of nearly the same load form a class. Which key groups leave is decided one by one; how
# many of each class arrive at a node is a whole number, and each of them is credited with the least
# load of its class where load must stay below, with the greatest where it must stay above. Every
# placement within the limits and the distance gives a solution, so where there is none there is no
# such placement (``docs/proofs/forced-moves-bound.md``, step 10).


#: Rounds: classes, and the share of the time left that one attempt may take.
ROUNDS = ((60, 0.3), (120, 0.4), (240, 0.4), (960, 0.5))

#: The least part of the way from the bound to the best plan at which a goal lies, and the gap, as a
#: part of the plan's load distance, up to which a proof is looked for before a plan.
NEAREST, NEAR = 0.15, 0.02

#: Attempts without an answer on so many classes, and the part of the time of each that a search
#: from other starts has after it.
ATTEMPTS, SEARCHING = 3, 0.25

MOST_SPENT = 1e9  # Right sides of rows of exchanges: what is infinite must not reach the solver.

MAX_INTEGERS = 60_000  # Models beyond this many integers are not tried.

#: The least seconds left that are worth an attempt, and the shortest one where there is time.
LEAST, SHORTEST = 0.1, 1.5


@dataclass
class Refuting:
    """What is proven while distances are refuted."""

    problem: BalanceProblem  # What is bounded.
    bound: float  # Proven: no placement has a load distance below it.
    value: float  # Load distance of the best known placement.
    gap: float  # Stop when the two are this near, in points.
    remaining: Callable[[], float]  # Seconds left.
    #: Called with a placement read from counts that could not be refuted; returns the load distance
    #: of the best placement known after that.
    on_counts: Callable[[Ints], float]
    #: Called with the seconds of an attempt that refuted nothing; returns the same.
    on_open: Callable[[float], float]
    on_bound: Callable[[float], None]  # Called with each better bound.
    #: For the MILPs.
    solver: str = "highs"
    seed: int = 0
    threads: int = 1
    #: Whether the solver was stopped by Ctrl-C.
    interrupted: bool = field(default=False, init=False)
    _attempts: int = field(default=0, init=False)

    @cached_property
    def _exchanges(self) -> list[Exchanges]:
        """For each budget, what the exchanges of nodes cost; none where models are tiny."""
        if self.problem.num_tasks * self.problem.num_nodes <= SMALL:
            return []
        return [
            Exchanges(self.problem, taken, budget, most_cells(self.problem, GRIDS[-1]))
            for taken, budget in finite_budgets(self.problem)
        ]

    def run(self) -> None:
        """Refute distances until the gap is closed, time is up, or classes are fine enough."""
        for most, share in ROUNDS:
            if self._worthwhile(most):
                self._approach(most, share)

    def _worthwhile(self, most: int) -> bool:
        problem = self.problem
        integers = problem.num_tasks + problem.num_nodes * min(most, problem.num_tasks)
        open_gap = self.value - self.bound > self.gap and not self.interrupted
        return open_gap and integers <= MAX_INTEGERS and self.remaining() > LEAST

    def _approach(self, most: int, share: float) -> None:
        """Refute distances above the bound, and look for plans within those that are not refuted.

        Far from the bound a plan is what is missing, and goals lie near the bound, where rows of
        exchanges leave least to choose from. An attempt without an answer is followed by another
        one with another seed: how long it takes to find counts is chance. Near the bound a proof is
        what is missing, and goals begin at the best plan; the next one is half as far away, which
        is easier to refute. Counts that lead to no better plan ask for finer classes.
        """
        classes, part = load_classes(self.problem.load, most), self._first_part()
        tried = 0
        while part >= NEAREST and tried < ATTEMPTS and self._worthwhile(most):
            # what the model grants is a tenth of the narrowest gap, and comes off the bound
            top = self.value - 0.8 * self.gap
            away = part * (self.value - self.bound)
            if not self._is_near():  # nearer than what is near enough, plans are hard to find
                away = max(away, NEAR * self.value)
            goal = min(top, self.bound + away)
            if goal <= self.bound:
                return
            built = self._model(classes, goal)
            left = self.remaining()
            if left <= 0.0:
                return
            limit = None if math.isinf(left) else max(min(SHORTEST, 0.5 * left), share * left)
            began = time.perf_counter()
            answer = solve_linear(
                built.model, self.solver, time_limit=limit, seed=self.seed + self._attempts,
                threads=self.threads,
            )  # fmt: skip
            seconds = time.perf_counter() - began
            self._attempts += 1
            if answer.termination == "infeasible":
                # the model grants a little, so a placement just beyond the goal is refuted as well
                proven = goal - GRANTED * max(1.0, self.problem.mean)
                if proven <= self.bound:
                    return
                self.bound = proven
                self.on_bound(proven)
                part = min(2.0 * part, 1.0 if self._is_near() else 0.5)
                continue
            self.interrupted = answer.termination == "interrupted"
            known = self.value
            if answer.x is not None:
                self.value = min(self.value, self.on_counts(built.read(answer.x)))
                if self.value == known:
                    return
            if not self.interrupted and self.value > goal:
                self.value = min(self.value, self.on_open(SEARCHING * seconds))
            if self.value < known:
                part = self._first_part()
                continue
            tried += 1
            if self._is_near():
                part *= 0.5

    def _is_near(self) -> bool:
        return self.value - self.bound <= NEAR * self.value

    def _first_part(self) -> float:
        return 1.0 if self._is_near() else NEAREST

    def _model(self, classes: Classes, goal: float) -> ClassModel:
        built = build_class_model(self.problem, classes, goal)
        for exchanges in self._exchanges:
            add_exchanges(built, exchanges, goal)
        return built


#: Granted to every load row: what solvers take for feasible must not refute a placement.
GRANTED = 1e-6


@dataclass(frozen=True)
class Classes:
    """Key groups by load."""

    of: Ints  # (T,) class of each key group.
    #: (C,) range of the loads in a class.
    least: Floats
    most: Floats

    @property
    def count(self) -> int:
        """C."""
        return len(self.least)


def load_classes(load: Floats, most: int) -> Classes:
    """Cut the loads into about `most` classes; equal loads stay together.

    Half of the cuts are quantiles, where the loads are many; half are even steps, so that the few
    large key groups, on which most depends, are distinguished too. Steps are cuts of the classes
    that have a price (`exchanges`) as well.
    """
    # half of the cuts by number of key groups, half by load
    half = max(1, most // 2)
    steps = CLASSES * max(1, half // CLASSES)
    cuts = np.concatenate(
        [
            np.quantile(load, np.linspace(0.0, 1.0, most - half + 1)),
            np.linspace(0.0, load.max(), steps + 1)[1:],
        ]
    )
    edges = np.unique(cuts)[1:]
    values, of = np.unique(np.searchsorted(edges, load, side="right"), return_inverse=True)
    least, greatest = np.full(len(values), np.inf), np.full(len(values), -np.inf)
    np.minimum.at(least, of, load)
    np.maximum.at(greatest, of, load)
    return Classes(of.astype(np.int64), least, greatest)


@dataclass(frozen=True)
class ClassModel:
    """The relaxation for one load distance."""

    #: What is relaxed, the classes, and the linear model.
    problem: BalanceProblem
    classes: Classes
    model: LinearModel
    leaves: VariableBlock  # (T,) binaries: the key group leaves its home.
    arrives: VariableBlock  # (N, C) whole numbers: key groups of a class that arrive at a node.

    def read(self, x: Floats) -> Ints:
        """Return a placement with the counts of a solution; its load distance may be greater.

        The key groups of a class go to the nodes that await them, the largest to the node that
        lies lowest without them; those that may not be where they would go stay at home.
        """
        problem, classes = self.problem, self.classes
        placement = problem.home.copy()
        leaving = np.flatnonzero(x[self.leaves.indices] > 0.5)
        counts = np.round(x[self.arrives.indices]).astype(np.int64)
        # deviations once those have left, with a mean load for each that arrives
        load = problem.base_load - problem.share
        np.subtract.at(load, problem.home[leaving], problem.load[leaving])
        load += counts @ (0.5 * (classes.least + classes.most))
        for number in range(classes.count):
            tasks = leaving[classes.of[leaving] == number]
            tasks = tasks[np.argsort(-problem.load[tasks], kind="stable")]
            nodes = np.repeat(np.arange(problem.num_nodes), counts[:, number])
            nodes = nodes[np.argsort(load[nodes], kind="stable")]
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=False):
                if problem.may_be(task, node):
                    placement[task] = node
        return placement


def build_class_model(problem: BalanceProblem, classes: Classes, distance: float) -> ClassModel:
    """Build the relaxation of "is a load distance of at most `distance` possible?".

    `problem`: every limit is read; capacities and allowed sets are relaxed to what classes can
        determine.
    `distance`: load distance to stay within.
    """
    t, n, c = problem.num_tasks, problem.num_nodes, classes.count
    model = LinearModel("class_counts")
    may_move = movable_key_groups(problem)
    leaves = model.add_variables(
        "leaves", t, lower=problem.must_move.astype(np.float64),
        upper=np.maximum(may_move, problem.must_move).astype(np.float64), integer=True,
        objective=1.0,
    )  # fmt: skip
    # a_ic: how many key groups of class c arrive at node i
    arrives = model.add_variables("arrives", (n, c), upper=_most(problem, classes), integer=True)
    node, number = np.repeat(np.arange(n), c), np.tile(np.arange(c), n)
    columns = arrives.indices.ravel()
    # Σ_i a_ic = Σ_(k in c) l_k: of each class as many arrive as leave
    come, go = (number, columns, 1.0), (classes.of, leaves.indices, -1.0)
    model.add_sum("as_many", 0.0, 0.0, c, come, go)
    _add_budgets(model, problem, leaves)
    built = ClassModel(problem, classes, model, leaves, arrives)
    if problem.has_leaving and not problem.into_leaving:
        _add_leaving(built, node, number)
    deviation = problem.base_load - problem.share
    # share_i − d ≤ load_i ≤ share_i + d, arrivals credited with the least (above) or the greatest
    # (below) load of their class, departures exactly
    room = distance + GRANTED * max(1.0, problem.mean)
    _add_sums(built, "above", problem.load, classes.least, -np.inf, room - deviation)
    floor = np.where(problem.leaving, -np.inf, -room - deviation)
    _add_sums(built, "below", problem.load, classes.most, floor, np.inf)
    for share, least in zip(SHARES, least_exchanged(problem, distance), strict=True):
        # whole key groups leave and arrive, where the load rows ask for parts of them; a node
        # that cannot be within the distance asks for more than there are
        touched = np.where(least > 0.0, np.minimum(least, t + 1.0), -np.inf)
        leave, arrive = np.full(t, share), np.full(c, 1.0 - share)
        _add_sums(built, f"exchanged_{share}", -leave, arrive, touched, np.inf)
    for e in range(problem.num_resources):
        least = np.full(c, np.inf)
        np.minimum.at(least, classes.of, problem.usage[:, e])
        ceiling = problem.headroom[:, e] + GRANTED - problem.base_usage[:, e]
        _add_sums(built, f"resource_{e}", problem.usage[:, e], least, -np.inf, ceiling)
    return built


def add_exchanges(built: ClassModel, exchanges: Exchanges, distance: float) -> None:
    """Let what leaves and enters each node cost what its cheapest exchange does, at some prices."""
    classes = built.classes
    for round_, (price, spent) in enumerate(exchanges.priced(distance)):
        paid = price[exchanges.kinds]
        # whoever of a class arrives pays at most the greatest price in it
        most = np.zeros(classes.count)
        np.maximum.at(most, classes.of, paid)
        least = np.where(spent > 0.0, np.minimum(spent, MOST_SPENT) * (1.0 - GRANTED), -np.inf)
        _add_sums(built, f"exchange_{round_}", paid - exchanges.taken, most, least, np.inf)


def _most(problem: BalanceProblem, classes: Classes) -> Floats:
    """(N, C) key groups of each class that may arrive at each node at all."""
    n, c = problem.num_nodes, classes.count
    most = np.tile(np.bincount(classes.of, minlength=c).astype(np.float64), (n, 1))
    np.subtract.at(most, (problem.home, classes.of), 1.0)
    rows = problem.restricted
    if len(rows):
        barred = ~problem.may_be_rows(rows)
        barred[np.arange(len(rows)), problem.home[rows]] = False  # these are taken off already
        node = np.nonzero(barred)
        np.subtract.at(most, (node[1], classes.of[rows][node[0]]), 1.0)
    return most


def _add_budgets(model: LinearModel, problem: BalanceProblem, leaves: VariableBlock) -> None:
    if problem.most_moved is not None:
        ceiling = float(problem.most_moved)
        model.add_rows("moves", -np.inf, ceiling, 0, leaves.indices, 1.0, num_rows=1)
    for budget, price, most in zip(
        problem.budgets, problem.least(problem.price).T, problem.budget, strict=True
    ):
        ceiling = float(most) + GRANTED
        model.add_rows(budget.name, -np.inf, ceiling, 0, leaves.indices, price, num_rows=1)


def _add_leaving(built: ClassModel, node: Ints, number: Ints) -> None:
    """Of each class no more arrive on leaving nodes than leave leaving nodes."""
    problem, classes = built.problem, built.classes
    onto = problem.leaving[node]
    off = problem.leaving[problem.home]
    come = number[onto], built.arrives.indices.ravel()[onto], 1.0
    go = classes.of[off], built.leaves.indices[off], -1.0
    built.model.add_sum("onto_leaving", -np.inf, 0.0, classes.count, come, go)


def _add_sums(
    built: ClassModel, name: str, taken: Floats, credited: Floats,
    lower: float | Floats, upper: float | Floats,
) -> None:  # fmt: skip
    """Bound what arrives at each node (credited by class) less what leaves it (exactly)."""
    problem, n, c = built.problem, built.problem.num_nodes, built.classes.count
    low, high = np.broadcast_to(lower, n), np.broadcast_to(upper, n)
    bound = np.isfinite(low) | np.isfinite(high)
    place = np.where(bound, np.cumsum(bound) - 1, -1)
    rows = np.concatenate([place[problem.home], np.repeat(place, c)])
    cols = np.concatenate([built.leaves.indices, built.arrives.indices.ravel()])
    values = np.concatenate([-taken, np.tile(credited, n)])
    in_row = (rows >= 0) & (values != 0.0)
    built.model.add_rows(
        name, low[bound], high[bound], rows[in_row], cols[in_row], values[in_row],
        num_rows=int(bound.sum()),
    )  # fmt: skip
