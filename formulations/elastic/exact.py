"""One level of elastic allocation on the driver of column generation.

1. The relaxation over all columns gives duals and with them a proven bound.
2. The model over the columns of least reduced cost gives a placement. Least capacity has so many
   equal columns that its reduced costs choose badly: there, those of least network use at the
   bound just proven are taken, whose placement is also a start for the next level.
3. Columns that no better placement can use are dropped; the model over the rest closes the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csc_array, csr_array, vstack

from formulations.column_generation import driver
from formulations.column_generation.client import Client, Incumbent
from formulations.column_generation.integer import Backend, Chosen, pattern_model
from formulations.column_generation.pricing import ListPricer, TableListing, TreePricer
from formulations.column_generation.problem import Clock, Pool, TableRows, make_problem
from formulations.elastic.problem import (
    SAME,
    TIMES,
    LevelAnswer,
    counted_nodes,
    directed_degrees,
    rounding_of,
    scale_of,
    surely,
)
from optim.format.tables import APART, SPREAD, TOGETHER
from optim.kernels.classes import (
    NodeClasses,
    TaskGroups,
    alike_rows,
    counts_of,
    deal,
    listed,
    node_classes,
    task_groups,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.master import Root
    from formulations.column_generation.problem import PatternProblem
    from formulations.elastic.problem import EoaProblem, Goal, Settings, SharedLink
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.budget import NodeCount


SMALL = 1500  # Columns of the first model; with fewer in all there is only one.
FEW = 2 * SMALL  # Columns up to which a model is solved in this process.
LARGE = 20_000  # Columns above which a heuristic's plan is there long before the model's.

FIRST, JOINING = 2000, 1500
"""Columns that the relaxation begins with, and those that join in a round."""

_CLOSE = 1e-5
"""Distance of bound and relaxation, in units of a model of about 1,000, that counts as none."""


class PatternForm:
    """The pattern form of one problem, solved level by level."""

    def __init__(self, problem: EoaProblem, columns: Columns, settings: Settings) -> None:
        self.problem, self.columns, self.settings = problem, columns, settings
        self.large = columns.num > LARGE

    def solve(
        self, goal: Goal, caps: Sequence[tuple[Goal, float]], starts: Sequence[Ints]
    ) -> LevelAnswer:
        """Minimise a goal; `caps` are goals of earlier levels with the most they may reach."""
        level, incumbent = _level(self, goal, caps)
        for start in starts:
            incumbent.offer_place(start)
        settings = self.settings
        interrupted = False
        try:
            driver.solve(level, incumbent, Backend(settings.solver))
            if not incumbent.closed and incumbent.answer.bound is None and not settings.over():
                level.solve_whole(incumbent)  # the relaxation found nothing out
        except KeyboardInterrupt:
            interrupted = True
        incumbent.answer.termination = incumbent.termination_of_level(interrupted=interrupted)
        return incumbent.answer


def _level(
    form: PatternForm, goal: Goal, caps: Sequence[tuple[Goal, float]]
) -> tuple[Level, LevelIncumbent]:
    """Set up a level and what is known of it: nothing."""
    level = Level(form, goal, caps, Clock(form.settings.request.deadline))
    incumbent = LevelIncumbent(form.columns.problem, level.clock, gap=form.settings.gap)
    incumbent.answer, incumbent.level = LevelAnswer(goal), level
    return level, incumbent


def unit_of(cost: Floats) -> float:
    """Return the unit of a model over columns of these costs.

    Solvers' tolerances are absolute: costs of about 1,000 sit well in them, and columns that may be
    better than a very even placement all cost very little.
    """
    largest = float(np.abs(cost).max(initial=0.0))
    return largest / 1000.0 if largest > 0 else 1.0


@dataclass(eq=False)
class LevelIncumbent(Incumbent):
    """The best placement of the free tasks, and the bound; in units of the goal in `answer`."""

    answer: LevelAnswer = field(init=False)
    level: Level = field(init=False)
    uses: NDArray[np.int64] | None = None  # (P,) how often the best placement uses each column.
    #: Whether a model over every better placement was solved to its end, in the solver's tolerance:
    #: what is very even has values below that.
    complete: bool = False

    @property
    def rounding(self) -> float:
        """Gains that differ by less are the same: deviations of even placements are tiny, too."""
        value = self.answer.value
        return 0.0 if value is None else self._rounding(value) / self.level.unit

    def _rounding(self, value: float) -> float:
        return rounding_of(self.level.eoa, self.answer.goal, value)

    def offer(self, counts: NDArray[np.int64] | None) -> bool:
        """Take counts if they are columns and better."""
        level = self.level
        return counts is not None and self.offer_place(level.columns.place(counts, level.eoa.home))

    def offer_place(self, place: Ints) -> bool:
        """Take a placement of the free tasks if it is better."""
        level, answer = self.level, self.answer
        uses = level.columns.of_placement(place)
        if uses is None or not answer.offer(level.eoa, place):
            return False
        self.uses, self.counts = uses, np.repeat(level.columns.counts, uses, axis=0)
        assert answer.value is not None
        self.value = level.gain_of(answer.value)
        level.settings.request.offer(level.eoa.placement(place))
        return True

    def take_bound(self, bound: float) -> None:
        """Take a bound on the gain if it is better: one on the goal, rounding taken off."""
        answer, level = self.answer, self.level
        if bound == np.inf:
            return
        if bound <= self.value:  # nothing is better than the placement
            if answer.value is None:
                self.bound = -np.inf
                return
            proven = surely(level.eoa, answer.goal, answer.value)
        else:
            proven = level.raised(surely(level.eoa, answer.goal, level.cost_of(bound)))
            if answer.value is not None:
                proven = min(proven, answer.value)
        if answer.bound is None or proven > answer.bound:
            answer.bound = proven
        self.bound = max(level.gain_of(answer.bound), self.value)

    @property
    def closed(self) -> bool:
        """Whether the bound meets the value, up to rounding or the gap; or there is nothing."""
        if self.bound == -np.inf:
            return True
        value, bound = self.answer.value, self.answer.bound
        if value is None or bound is None:
            return False
        if self.complete:
            return True
        room = 4 * self._rounding(value) + self.gap * max(abs(value), abs(bound))
        return value - bound <= room

    def termination_of_level(self, *, interrupted: bool) -> str:
        """Say why the level is over."""
        if interrupted or self.stopped == "interrupted":
            return "interrupted"
        if self.closed:
            return "infeasible" if self.answer.place is None else "optimal"
        return self.stopped or "time_limit"


class Level(Client):
    """The columns of a level, and its rows; gains are what costs are below 0, in a common unit."""

    ties = True  # columns of least capacity are alike

    def __init__(
        self, form: PatternForm, goal: Goal, caps: Sequence[tuple[Goal, float]], clock: Clock
    ) -> None:
        self.form, self.eoa, self.columns, self.settings = (
            form, form.problem, form.columns, form.settings,
        )  # fmt: skip
        self.goal, columns = goal, form.columns
        self.cost, self.offset = costs(self.eoa, columns, goal)
        self.unit = unit_of(self.cost)
        self.pool = pool_of(columns, self.cost / self.unit)
        rows = LevelRows(self.eoa, columns, [self._cap(*cap) for cap in caps])
        listing = TableListing(self.pool, len(columns.size), rows)
        share = max(1, len(columns.size))
        pricer = ListPricer(listing, per_round=-(-JOINING // share), begin=-(-FIRST // share))
        super().__init__(columns.problem, pricer, clock, rows)
        self.stages = (SMALL,)
        self.most = max(1, columns.num)
        self.close = _CLOSE

    def _cap(self, goal: Goal, most: float) -> tuple[Floats, float]:
        """Row of an earlier level: ``Σ_p cost_p λ_p ≤ most − offset``, up to rounding."""
        values, offset = costs(self.eoa, self.columns, goal)
        return values, most - offset + 1e-7 * scale_of(self.eoa, goal)

    def gain_of(self, cost: float) -> float:
        """Return the gain of a value of the goal."""
        return (self.offset - cost) / self.unit

    def cost_of(self, gain: float) -> float:
        """Return the value of the goal of a gain."""
        return self.offset - gain * self.unit

    def raised(self, bound: float) -> float:
        """Raise a bound to the next value there is: whole nodes, where all have equal capacity."""
        if self.goal != "capacity":
            return bound
        share = np.unique(self.eoa.capacity_share)
        if len(share) > 1 or share[0] <= 0:
            return bound
        whole = np.ceil(bound / share[0] - 1e-6) * share[0]
        return float(max(bound, surely(self.eoa, "capacity", whole)))

    def most_gain(self) -> float:
        """Nothing is known before the relaxation."""
        return np.inf

    def incumbent_pool(self, incumbent: Incumbent) -> Pool | None:
        """Return the columns of the placement."""
        assert isinstance(incumbent, LevelIncumbent)
        return None if incumbent.uses is None else self.pool.only(np.flatnonzero(incumbent.uses))

    def relax(self, incumbent: Incumbent) -> Root:
        """Relax to the end: bounds of very even placements differ by less than the master
        resolves.
        """
        return self.master.run(self.incumbent_pool(incumbent))

    def begin(self, incumbent: Incumbent, backend: Backend) -> None:
        """Solve over all columns at once where they are few."""
        if self.columns.num <= SMALL:
            self.solve_whole(incumbent)

    def solve_whole(self, incumbent: Incumbent) -> None:
        """Solve over all columns."""
        answer = self.integer(self.pool, incumbent)
        incumbent.offer(answer.counts)
        incumbent.take_bound(answer.bound)
        incumbent.record(answer)
        if not answer.stopped:
            self.complete(incumbent)

    def complete(self, incumbent: Incumbent) -> None:
        """Take note that a model over every better placement was solved to its end."""
        assert isinstance(incumbent, LevelIncumbent)
        incumbent.complete = True

    def improve(self, incumbent: Incumbent, backend: Backend) -> None:
        """Look for a placement at the bound just proven, by the relaxation of the next level."""
        assert isinstance(incumbent, LevelIncumbent)
        if self.goal != "capacity" or incumbent.answer.bound is None:
            return
        cap = incumbent.answer.bound * (1 + 2 * SAME)
        level, level_incumbent = _level(self.form, "network", [("capacity", cap)])
        root = level.master.run()
        if not np.isfinite(root.bound):
            return  # the bound cannot be reached, or nothing was found out
        least = np.argsort(root.loss(level.pool, level.rows), kind="stable")[:SMALL]
        answer = level.integer(level.pool.only(np.sort(least)), level_incumbent)
        incumbent.record(answer)
        incumbent.offer(answer.counts)

    def within(self, gap: float, most: int) -> Pool | None:
        """List the columns of every placement within a gap below the bound of the relaxation.

        Where values are whole nodes, ``⌈z⌉ + cost above z ≥ value`` refutes a column as well: its
        placements cost more than ``value − 1`` nodes, hence as many.
        """
        raise_by = max(0.0, self.bound - self.gain_of(self.raised(self.cost_of(self.bound))))
        return super().within(gap - raise_by, most)

    def integer(
        self,
        part: Pool,
        incumbent: Incumbent,
        backend: Backend | None = None,
        node_limit: int | None = None,
    ) -> Chosen:
        """Solve over some columns and those of the placement, in a unit of their own."""
        assert isinstance(incumbent, LevelIncumbent)
        columns, settings, uses = self.columns, self.settings, incumbent.uses
        keep = np.asarray(part.at)
        if uses is not None:
            keep = np.union1d(keep, np.flatnonzero(uses))
        unit = unit_of(self.cost[keep])
        pool = pool_of(columns, self.cost / unit).only(keep)
        model = pattern_model(
            columns.group_size, columns.size, pool, self.rows, whole=settings.whole
        )
        model.set_objective([], [], -self.offset / unit)
        start = None
        if uses is not None and incumbent.answer.place is not None:
            beside = columns.beside(self.eoa, incumbent.answer.place)
            start = np.concatenate([uses[keep], beside]).astype(np.float64)
        few = len(keep) <= FEW
        solution = (settings.solve_small if few else settings.solve)(model, start)
        answer, ended = incumbent.answer, str(solution.termination)
        answer.solver = solution.solver or answer.solver
        answer.build += solution.build_seconds
        if start is not None and answer.accepted is None:
            answer.accepted = solution.warm_start_accepted
        if solution.message:
            answer.notes.append(solution.message)
        counts = None
        if solution.x is not None:
            times = np.round(solution.x[: len(keep)]).astype(np.int64)
            counts = np.repeat(pool.counts, times, axis=0)
        bound = np.inf
        if ended == "infeasible":
            bound = -np.inf
        elif solution.bound is not None:
            bound = self.gain_of(-solution.bound * unit)
        if ended == "interrupted":  # what was found before counts
            incumbent.offer(counts)
            raise KeyboardInterrupt
        stopped = "" if ended in ("optimal", "gap_reached", "infeasible") else ended
        return Chosen(counts, bound, stopped)


# The columns of the pattern form: classes of equal nodes, the sets each can hold, their costs.
#
# min  Σ_p cost_p λ_p
# s.t. Σ_p tasks_gp λ_p = n_g             every free task of a group in one set
#      Σ_(p of class k) λ_p = n_k         every node holds one set, maybe the empty one
#      rows of the level                  `rows.LevelRows`


MOST_GROUPS = 64  # Groups of free tasks above which sets are not listed.

_STEPS_A_PATTERN = 50


@dataclass(frozen=True, eq=False)
class Columns:
    """Every set of tasks that a node of a class can hold; P of them, K classes."""

    problem: PatternProblem  # In counts, by what nodes hold; costs are those of a level.
    #: Which free tasks are alike, so that only their number on a node matters; and which nodes.
    groups: TaskGroups
    classes: NodeClasses
    of: NDArray[np.int64]  # (P,) class of a column, ascending.
    counts: NDArray[np.int64]  # (P, G) tasks of each group that it holds.
    #: (P,) load of the first resource that it adds; (P,) traffic inside the node and (3, P) of all
    #: its tasks in a direction, running ones included.
    load: Floats
    inside: Floats
    incident: Floats

    @property
    def num(self) -> int:
        """P."""
        return len(self.of)

    @property
    def size(self) -> NDArray[np.int64]:
        """(K,) nodes of a class."""
        return self.classes.sizes.astype(np.int64)

    @property
    def first(self) -> Ints:
        """(K,) first node of a class."""
        return self.classes.members[self.classes.indptr[:-1]]

    @property
    def group_size(self) -> NDArray[np.int64]:
        """(G,) tasks of each group."""
        return self.groups.sizes.astype(np.int64)

    def of_counts(self, counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """(P,) how often (N, G) counts use each column; ``None`` if one is no column.

        Nodes are listed class by class.
        """
        uses = np.zeros(self.num, dtype=np.int64)
        for k, row in zip(np.repeat(np.arange(len(self.size)), self.size), counts, strict=True):
            at = np.flatnonzero(self.of == k)
            at = at[(self.counts[at] == row).all(axis=1)]
            if not len(at):
                return None
            uses[at[0]] += 1
        return uses

    def of_placement(self, place: Ints) -> NDArray[np.int64] | None:
        """(P,) how often a placement of the free tasks uses each column; ``None`` if it cannot."""
        groups, classes = self.groups, self.classes
        return self.of_counts(counts_of(groups, classes, place, len(classes.node_class)))

    def beside(self, problem: EoaProblem, place: Ints) -> NDArray[np.bool_]:
        """Values of the products of shared links under a placement of the free tasks."""
        behind = [np.isin(place, link.nodes) for link in problem.shared]
        products = [here[problem.u] & here[problem.v] for here in behind]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *products])

    def place(self, counts: NDArray[np.int64], near: Ints) -> Ints:
        """(F,) nodes of the free tasks, those that can at the (F,) nodes they are near to."""
        return deal(self.groups, self.classes, counts, near)


def columns_of(problem: EoaProblem, most: int) -> Columns | None:
    """List all columns; ``None`` when there are more than `most`, or too many groups."""
    groups, classes = alike(problem), node_classes(problem.instance, problem.node_keys)
    if groups.num_groups > MOST_GROUPS:
        return None
    one = groups.members[groups.indptr[:-1]]
    first = classes.members[classes.indptr[:-1]]
    inner = make_problem(
        groups.sizes,
        problem.load[one],
        _rates(problem, groups),
        classes.sizes,
        problem.room[first],
        problem.floor[first],
        problem.may[np.ix_(one, first)].T,
    )
    pool = _listed(inner, most)
    if pool is None:
        return None
    of, counts = pool.node_class, pool.counts
    beside = problem.beside[np.ix_(one, first)].T
    inside = pool.gain * inner.scale + (counts * beside[of]).sum(axis=1) + problem.inside[first][of]
    incident = problem.degree[:, one] @ counts.T + problem.incident[:, first][:, of]
    crossing = incident - TIMES[:, None] * inside
    keep = (crossing <= problem.uplink[:, first][:, of]).all(axis=0)
    keep &= kept_alone(problem, one, first[of], counts)
    load = counts @ problem.load[one, 0]
    return Columns(
        inner, groups, classes, of[keep], counts[keep], load[keep], inside[keep], incident[:, keep]
    )


def _listed(inner: PatternProblem, most: int) -> Pool | None:
    """Return all patterns, what a node's room and floor take; ``None`` when more than `most`."""
    kinds, groups = inner.num_node_classes, inner.num_classes
    if groups:
        pricer = TreePricer(inner, Clock(), _STEPS_A_PATTERN * most)
        everything = np.full(kinds, -np.inf)
        pool = pricer.enumerate(np.zeros(groups), np.zeros(0), everything, most)
    else:
        pool = Pool(np.zeros((kinds, 0), dtype=np.int64), np.arange(kinds), np.zeros(kinds))
    if pool is None:
        return None
    fits = [inner.fits(k, pool.counts[pool.node_class == k]) for k in range(kinds)]
    return pool.only(np.concatenate(fits))


def _rates(problem: EoaProblem, groups: TaskGroups) -> Floats:
    """(G, G) traffic of one pair of free tasks, the diagonal for pairs within a group."""
    one = groups.members[groups.indptr[:-1]]
    last = groups.members[groups.indptr[1:] - 1]  # another one, where there are two
    return problem.traffic[np.ix_(one, last)]


def alike(problem: EoaProblem) -> TaskGroups:
    """Group the free tasks that can be exchanged and nothing changes.

    Products of shared links are of single tasks: then every task is a group of its own.
    """
    kinds: Any = np.arange(problem.num_free)
    if not problem.shared:
        directed = np.isfinite(problem.uplink[1:]).any()
        sent = directed_degrees(problem.instance)[1] if directed else None
        kinds = task_groups(problem.instance, sent).group[problem.free]
    group = alike_rows(kinds[:, None])
    indptr, members = listed(group)
    one = members[indptr[:-1]]
    return TaskGroups(group, indptr, members, problem.load[one], np.zeros(len(one), np.int32))


def pool_of(columns: Columns, cost: Floats) -> Pool:
    """Return all columns as patterns; costs are gains below 0."""
    return Pool(columns.counts, columns.of, -cost, np.arange(columns.num))


def costs(problem: EoaProblem, columns: Columns, goal: Goal) -> tuple[Floats, float]:
    """(P,) cost of each column, and what to add to their sum; deviations need a fixed mean."""
    first = columns.first[columns.of]
    if goal == "network":
        return -columns.inside, problem.instance.total_traffic
    if goal == "capacity":
        used = problem.occupied[first] | columns.counts.any(axis=1)
        return np.where(used, problem.capacity_share[first], 0.0), 0.0
    capacity = problem.instance.nodes.capacity[first, 0]
    share = (problem.base[first] + columns.load) / np.where(capacity > 0, capacity, 1.0)
    assert problem.even_mean is not None
    off = np.where(problem.instance.open_nodes[first], share - problem.even_mean, 0.0)
    if goal == "squares":
        return off**2, 0.0
    return np.abs(off) / len(counted_nodes(problem)), 0.0


def unknown_set(problem: EoaProblem) -> str | None:
    """Return the id of a set that only racks can break, and columns do not know."""
    for i, name in enumerate(problem.instance.sets.ids):
        if problem.instance.sets.by_rack[i] and problem.rules.rule[i] != APART:
            return name
    return None


def paying(problem: EoaProblem, one: Ints, node: Ints) -> Bools:
    """(M, G) whether free tasks migrate when they are on nodes."""
    tasks = problem.free[one]
    pays = problem.rules.pays(np.tile(tasks, len(node)), np.repeat(node, len(tasks)))
    return pays.reshape(len(node), len(tasks))


def kept_alone(problem: EoaProblem, one: Ints, node: Ints, counts: NDArray[Any]) -> Bools:
    """(P,) whether sets on nodes keep the rules that concern one node.

    `one`, `node`, `counts`: (G,) a free task of each group; (P,) nodes and (P, G) counts of the
        sets.
    """
    rules, n = problem.rules, problem.num_nodes
    good = np.ones(len(node), dtype=np.bool_)
    if rules.bounds_inflow:
        every = paying(problem, one, np.arange(n, dtype=np.int32))
        forced = np.bincount(problem.fixed[problem.running_moves], minlength=n)
        good &= (counts * every[node]).sum(axis=1) + forced[node] <= rules.most_in[node]
    for i in range(rules.num_sets):
        if problem.instance.sets.by_rack[i]:
            continue
        members_there, size = _members(problem, i, one, node, counts), len(rules.tasks_of(i))
        if rules.rule[i] == APART:
            good &= members_there <= rules.limit[i]
        elif rules.rule[i] == TOGETHER:
            good &= (members_there == 0) | (members_there == size)
    for count in rules.counts:
        if count.limit <= 0:
            good &= ~_counting(problem, count, one, node, counts)
    return good


def set_rows(problem: EoaProblem, columns: Columns) -> Iterator[tuple[Floats, float]]:
    """Yield (P,) coefficients and upper bound of the rows that sets need over several nodes."""
    rules, node = problem.rules, columns.first[columns.of]
    one = columns.groups.members[columns.groups.indptr[:-1]]
    for i in range(rules.num_sets):
        members_there = _members(problem, i, one, node, columns.counts)
        if rules.rule[i] == SPREAD:
            yield -(members_there > 0).astype(np.float64), -float(rules.limit[i])
        elif problem.instance.sets.by_rack[i]:
            for place in np.unique(rules.place[i]).tolist():
                there = rules.place[i, node] == place
                yield np.where(there, members_there, 0).astype(np.float64), float(rules.limit[i])
    for count in rules.counts:
        if count.limit > 0:
            counting = _counting(problem, count, one, node, columns.counts)
            yield counting.astype(np.float64), float(count.limit)


def _counting(
    problem: EoaProblem, count: NodeCount, one: Ints, node: Ints, counts: NDArray[Any]
) -> Bools:
    """(P,) whether a node counts with what it holds, what runs there included."""
    good = np.ones(len(node), dtype=np.bool_)
    for tasks in count.groups:
        good &= _tasks_there(problem, np.flatnonzero(tasks), one, node, counts) > 0
    return good


def _members(
    problem: EoaProblem, i: int, one: Ints, node: Ints, counts: NDArray[Any]
) -> NDArray[np.int64]:
    """(P,) members of a set of tasks that are on each node, running ones included."""
    return _tasks_there(problem, problem.rules.tasks_of(i), one, node, counts)


def _tasks_there(
    problem: EoaProblem, tasks: NDArray[Any], one: Ints, node: Ints, counts: NDArray[Any]
) -> NDArray[np.int64]:
    """(P,) how many of some tasks are on each node, running ones included."""
    runs = problem.fixed[tasks]
    fixed = np.bincount(runs[runs >= 0], minlength=problem.num_nodes)
    return np.asarray(counts @ np.isin(problem.free[one], tasks) + fixed[node])


class LevelRows(TableRows):
    """What the columns of a level share beside tasks and nodes; all rows have an upper bound.

        Σ_p capacity_p λ_p ≤ what was reached        earlier level
        Σ_p moves_p λ_p ≤ budget                     migrations
        w_uv ≤ Σ_(p ∋ u, behind link) λ_p            both ends behind a shared link …
        Σ_p crossing_p λ_p − 2 Σ r_uv w_uv ≤ room    … whose traffic it carries
        Σ_p members_p λ_p ≤ limit                    tasks to be apart, on each rack
        Σ_p [members_p > 0] λ_p ≥ limit              tasks to be spread over nodes
        Σ_p [p counts] λ_p ≤ limit                   nodes that hold tasks of some groups

    Capacities, load bounds, the nodes' own uplinks and what else one node can break are in the sets
    themselves.
    """

    def __init__(
        self, problem: EoaProblem, columns: Columns, caps: Sequence[tuple[Floats, float]]
    ) -> None:
        """Write the rows; `caps` are costs of earlier levels and the most they may add up to."""
        moves = ((_moves(problem, columns, price), most) for most, price in problem.budgets)
        single = [*caps, *moves, *set_rows(problem, columns)]
        table: list[Any] = [csr_array(values[None, :]) for values, _ in single]
        upper = [np.array([most]) for _, most in single]
        pairs, links = len(problem.u), len(problem.shared)
        beside = [np.zeros((len(single), pairs * links))]
        for i, link in enumerate(problem.shared):
            block, sides, coefficients = _behind(problem, columns, link)
            table.append(block)
            upper.append(sides)
            wide = np.zeros((len(sides), pairs * links))
            wide[:, i * pairs : (i + 1) * pairs] = coefficients
            beside.append(wide)
        sides = np.concatenate([np.zeros(0), *upper])
        products = np.concatenate(beside) if links else None
        blocks = [csr_array((0, columns.num)), *table]
        super().__init__(
            np.full(len(sides), -np.inf), sides, products, np.ones(pairs * links),
            csc_array(vstack(blocks)),
        )  # fmt: skip


def _moves(problem: EoaProblem, columns: Columns, price: Floats) -> Floats:
    """(P,) cost of the moves that a column makes; homes are node classes of their own."""
    one = columns.groups.members[columns.groups.indptr[:-1]]  # a group has one home and one price
    pays = paying(problem, one, columns.first)[columns.of]
    return np.asarray((columns.counts * pays * price[one]).sum(axis=1))


def _behind(
    problem: EoaProblem, columns: Columns, link: SharedLink
) -> tuple[Any, Floats, NDArray[np.float64]]:
    """Rows of a link of several nodes: of its columns, their upper bounds, and of its products."""
    # crossing = all traffic of the tasks behind it − 2 × the traffic between two of them
    pairs = len(problem.u)
    inside = np.isin(columns.first, link.nodes)[columns.of]
    holds = csr_array((columns.counts > 0) * inside[:, None] * 1.0)  # groups are single tasks here
    ends = holds.tocsc()[:, np.concatenate([problem.u, problem.v])].T
    running, times = problem.beside[:, link.nodes].sum(axis=1), TIMES[link.direction]
    crossing = columns.incident[link.direction] * inside - times * (holds @ running)
    one = np.eye(pairs)
    return (
        vstack([-ends, csr_array(crossing[None, :])]),
        np.append(np.zeros(2 * pairs), link.room + times * link.inside),
        np.vstack([one, one, -times * problem.rate[None, :]]),
    )
