"""A strong bound when time is given: load distances refuted one after the other by small MILPs.

For a fixed distance the relaxation by classes (`formulations.rebalancing.class_bound`) is
refuted within fractions of a second where branch and bound on the distance itself gets nowhere:
fixed windows make whole counts bind. What cannot be refuted yields counts, and they a placement to
go on from.

Key groups of nearly the same load form a class. Which key groups leave is decided one by one; how
many of each class arrive at a node is a whole number, and each of them is credited with the least
load of its class where load must stay below, with the greatest where it must stay above. Every
placement within the limits and the distance gives a solution, so where there is none there is no
such placement (``docs/proofs/forced-moves-bound.md``, step 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.bound import movable_key_groups
from optim.solvers import solve_linear
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.solvers.linear_model import VariableBlock

#: Rounds of bisection: classes, and the share of the time left that one attempt may take.
ROUNDS = ((60, 0.08), (60, 0.25), (240, 0.3), (960, 0.5))

#: Models beyond this many integers are not tried.
MAX_INTEGERS = 60_000

#: The least seconds left that are worth an attempt, and the shortest one where there is time.
LEAST, SHORTEST = 0.1, 1.5


@dataclass
class Refuting:
    """What is proven while distances are refuted.

    Attributes
    ----------
    problem
        What is bounded.
    bound
        Proven: no placement has a load distance below it.
    value
        Load distance of the best known placement.
    gap
        Stop when the two are this near, in points.
    remaining
        Seconds left.
    solver, seed, threads
        For the MILPs.
    on_counts
        Called with a placement read from counts that could not be refuted; returns the load
        distance of the best placement known after that.
    on_bound
        Called with each better bound.
    interrupted
        Whether the solver was stopped by Ctrl-C.
    """

    problem: BalanceProblem
    bound: float
    value: float
    gap: float
    remaining: Callable[[], float]
    on_counts: Callable[[Ints], float]
    on_bound: Callable[[float], None]
    solver: str = "highs"
    seed: int = 0
    threads: int = 1
    interrupted: bool = field(default=False, init=False)

    def run(self) -> None:
        """Refute distances until the gap is closed, time is up, or classes are fine enough."""
        for most, share in ROUNDS:
            if self._worthwhile(most):
                self._bisect(most, share)

    def _worthwhile(self, most: int) -> bool:
        problem = self.problem
        integers = problem.num_tasks + problem.num_nodes * min(most, problem.num_tasks)
        open_gap = self.value - self.bound > self.gap and not self.interrupted
        return open_gap and integers <= MAX_INTEGERS and self.remaining() > LEAST

    def _bisect(self, most: int, share: float) -> None:
        """Bisect between the bound and what these classes do not refute."""
        classes = load_classes(self.problem.load, most)
        ceiling = math.inf  # not refuted by these classes, or not in time
        near = max(0.5 * self.gap, 1e-9)
        while self._worthwhile(most):
            # what the model grants is a tenth of the narrowest gap, and comes off the bound
            top = self.value - 0.8 * self.gap
            goal = top if math.isinf(ceiling) else 0.5 * (self.bound + min(ceiling, top))
            if goal <= self.bound or min(ceiling, self.value) - self.bound <= near:
                return
            built = build_class_model(self.problem, classes, goal)
            left = self.remaining()
            limit = None if math.isinf(left) else max(min(SHORTEST, 0.5 * left), share * left)
            answer = solve_linear(
                built.model, self.solver, time_limit=limit, seed=self.seed, threads=self.threads
            )
            if answer.termination == "infeasible":
                # the model grants a little, so a placement just beyond the goal is refuted as well
                self.bound = max(self.bound, goal - GRANTED * max(1.0, self.problem.mean))
                self.on_bound(self.bound)
                continue
            ceiling = min(ceiling, goal)
            if answer.termination == "interrupted":
                self.interrupted = True
            if answer.x is not None:
                self.value = min(self.value, self.on_counts(built.read(answer.x)))


#: Granted to every load row: what solvers take for feasible must not refute a placement.
GRANTED = 1e-6


@dataclass(frozen=True)
class Classes:
    """Key groups by load.

    Attributes
    ----------
    of
        (T,) class of each key group.
    least, most
        (C,) range of the loads in a class.
    """

    of: Ints
    least: Floats
    most: Floats

    @property
    def count(self) -> int:
        """C."""
        return len(self.least)


def load_classes(load: Floats, most: int) -> Classes:
    """Cut the loads into about `most` classes; equal loads stay together.

    Half of the cuts are quantiles, where the loads are many; half are even steps, so that the few
    large key groups, on which most depends, are distinguished too.
    """
    # half of the cuts by number of key groups, half by load
    half = max(1, most // 2)
    cuts = np.concatenate(
        [
            np.quantile(load, np.linspace(0.0, 1.0, most - half + 1)),
            np.linspace(load.min(), load.max(), half + 1),
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
    """The relaxation for one load distance.

    Attributes
    ----------
    problem, classes, model
        What is relaxed, the classes, and the linear model.
    leaves
        (T,) binaries: the key group leaves its home.
    arrives
        (N, C) whole numbers: key groups of a class that arrive at a node.
    """

    problem: BalanceProblem
    classes: Classes
    model: LinearModel
    leaves: VariableBlock
    arrives: VariableBlock

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

    Parameters
    ----------
    problem
        Every limit is read; capacities and allowed sets are relaxed to what classes can determine.
    classes
        Of all key groups.
    distance
        Load distance to stay within.
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
    model.add_rows(
        "as_many", 0.0, 0.0, np.concatenate([number, classes.of]),
        np.concatenate([columns, leaves.indices]),
        np.concatenate([np.ones(n * c), -np.ones(t)]), num_rows=c,
    )  # fmt: skip
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
    for e in range(problem.num_resources):
        least = np.full(c, np.inf)
        np.minimum.at(least, classes.of, problem.usage[:, e])
        roof = problem.headroom[:, e] + GRANTED - problem.base_usage[:, e]
        _add_sums(built, f"resource_{e}", problem.usage[:, e], least, -np.inf, roof)
    return built


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
    zeros = np.zeros(problem.num_tasks, dtype=np.int64)
    if problem.most_moved is not None:
        roof = float(problem.most_moved)
        model.add_rows("moves", -np.inf, roof, zeros, leaves.indices, 1.0, num_rows=1)
    for budget, price, most in zip(
        problem.budgets, problem.least(problem.price).T, problem.budget, strict=True
    ):
        roof = float(most) + GRANTED
        model.add_rows(budget.name, -np.inf, roof, zeros, leaves.indices, price, num_rows=1)


def _add_leaving(built: ClassModel, node: Ints, number: Ints) -> None:
    """Of each class no more arrive on leaving nodes than leave leaving nodes."""
    problem, classes = built.problem, built.classes
    onto = problem.leaving[node]
    off = problem.leaving[problem.home]
    built.model.add_rows(
        "onto_leaving", -np.inf, 0.0, np.concatenate([number[onto], classes.of[off]]),
        np.concatenate([built.arrives.indices.ravel()[onto], built.leaves.indices[off]]),
        np.concatenate([np.ones(int(onto.sum())), -np.ones(int(off.sum()))]),
        num_rows=classes.count,
    )  # fmt: skip


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
    kept = (rows >= 0) & (values != 0.0)
    built.model.add_rows(
        name, low[bound], high[bound], rows[kept], cols[kept], values[kept],
        num_rows=int(bound.sum()),
    )  # fmt: skip
