"""The joint problem on plain arrays and its linear model: collocation, load distance capped.

`joint-milp` and `joint-search` read it: maximise the traffic between key groups on one node,
within the budgets, capacities and allowed sets of a `BalanceProblem`, with the load distance at
most a cap. Where nodes are leaving, the load left on them may be capped too.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from formulations.model_rows import (
    Placing,
    add_at_most,
    add_budgets,
    add_capacity,
    add_load_distance,
    add_rule_rows,
    add_staying,
)
from formulations.rebalancing.balance.model import (
    add_forced_moves_rows,
    add_left,
    add_resource_rows,
)
from formulations.rebalancing.balance.search import LARGE, search_balance
from formulations.rebalancing.bound import (
    cannot_be_emptied,
    forced_moves_bound,
    fractional_knapsack,
    impossible,
)
from formulations.rebalancing.problem import (
    ROUNDING,
    Watch,
    balance_problem,
    emptied,
    note_not_drained,
)
from optim.errors import InvalidInput, Problem
from optim.format.traffic import MAX_PAIRS
from optim.kernels.place_rules import placing_slack
from optim.referee import Level
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.model_rows import RuleRows, Staying
    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from optim.format.instance import Instance
    from optim.format.traffic import LocalBlock
    from optim.methods.registry import Request
    from optim.referee import Evaluation

JointGoal = Literal["traffic", "left", "weighted"]


WEAK = 0.1  # Pairs with less than this share of the typical rate are no part of the backbone.


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Key groups on nodes and the traffic between them."""

    #: Loads, costs, homes, budgets, capacities. Its `max_distance` is the cap on the load distance,
    #: ``None`` for none.
    balance: BalanceProblem
    #: (P,) pairs of key groups and their traffic, both directions together.
    source: Ints
    target: Ints
    rate: Floats
    max_left: float = math.inf  # Most load that may be left on leaving nodes; ``inf`` for any.
    local: tuple[LocalBlock, ...] = ()  # `local_first` streams, of which nothing is in the pairs.

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(self.rate)

    @cached_property
    def num_products(self) -> int:
        """Pairs, and senders of `local_first` streams: models have columns a node of each."""
        return self.num_pairs + sum(len(near.sources) for near in self.local)

    @cached_property
    def total(self) -> float:
        """All traffic."""
        return float(self.rate.sum()) + sum(near.rate * len(near.sources) for near in self.local)

    @cached_property
    def by_pairs(self) -> JointProblem:
        """The problem whose `local_first` streams are pairs, for moves that look at pairs only.

        A sender wants one receiver on its node: if each node has its share of them, a pair is
        worth what all that it sends is.

        Raises
        ------
        InvalidInput
            These would be too many.
        """
        if not self.local:
            return self
        if (count := sum(len(near.sources) * len(near.targets) for near in self.local)) > MAX_PAIRS:
            raise _too_large(count, "pairs of senders and receivers", "use plan-search")
        source, target, rate = [self.source], [self.target], [self.rate]
        for near in self.local:
            source.append(np.repeat(near.sources, len(near.targets)))
            target.append(np.tile(near.targets, len(near.sources)))
            share = min(1.0, self.balance.num_nodes / len(near.targets))
            rate.append(np.full(len(source[-1]), near.rate * share))
        ends = np.concatenate(source).astype(np.int64), np.concatenate(target).astype(np.int64)
        low, high, tasks = np.minimum(*ends), np.maximum(*ends), self.balance.num_tasks
        # both directions of a pair have one key
        key, where = np.unique(low * tasks + high, return_inverse=True)
        both = np.bincount(where.reshape(-1), np.concatenate(rate), len(key)).astype(np.float64)
        low, high = np.divmod(key, max(1, tasks))
        apart = low < high
        return replace(self, source=low[apart], target=high[apart], rate=both[apart], local=())

    @cached_property
    def cap(self) -> float:
        """Load distance allowed, ``inf`` for any."""
        limit = self.balance.max_distance
        return math.inf if limit is None else float(limit)

    @cached_property
    def most_left(self) -> float:
        """Load that may be left on leaving nodes, differences of rounding included."""
        return self.max_left + float(placing_slack(self.balance.load.sum()))

    @cached_property
    def apart(self) -> Bools:
        """(P,) pairs whose key groups are on two nodes now."""
        home = self.balance.home
        return home[self.source] != home[self.target]

    @cached_property
    def degree(self) -> Ints:
        """(T,) pairs of each key group."""
        ends = np.concatenate([self.source, self.target])
        return np.bincount(ends, minlength=self.balance.num_tasks).astype(np.int64)

    @cached_property
    def is_dense(self) -> bool:
        """Whether most pairs have a key group with several partners."""
        several = self.degree > 1
        return 2 * int((several[self.source] | several[self.target]).sum()) > self.num_pairs

    @cached_property
    def backbone(self) -> Bools:
        """(P,) pairs with at least a tenth of the typical rate.

        Typical is the mean over traffic, not over pairs. Where a few pairs carry much and very many
        carry a little each (one-to-one beside full partitioning), these few are the backbone.
        """
        if self.num_pairs == 0:
            return np.zeros(0, dtype=np.bool_)
        share = self.rate / self.rate.max()
        strong: Bools = share * share.sum() >= WEAK * float((share * share).sum())
        return strong

    def part(self, pairs: Bools) -> JointProblem:
        """Return the problem with some of its pairs only."""
        source, target, rate = self.source[pairs], self.target[pairs], self.rate[pairs]
        return replace(self, source=source, target=target, rate=rate)

    @cached_property
    def adjacency(self) -> tuple[Ints, Ints, Floats]:
        """Partners of each key group as compressed rows: (T + 1,) starts, partners, rates."""
        ends = np.concatenate([self.source, self.target])
        others = np.concatenate([self.target, self.source])
        order = np.lexsort((others, ends))
        starts = np.concatenate([[0], np.cumsum(self.degree)]).astype(np.int64)
        return starts, others[order], np.concatenate([self.rate, self.rate])[order]

    def collocated(self, placement: Ints) -> float:
        """Return the traffic between key groups on one node."""
        together = placement[self.source] == placement[self.target]
        near = sum(near.rate * self.has_receiver(near, placement).sum() for near in self.local)
        return float(self.rate[together].sum() + near)

    def has_receiver(self, near: LocalBlock, placement: Ints) -> Bools:
        """Return which senders of a `local_first` stream have a receiver on their node."""
        there = np.zeros(self.balance.num_nodes, dtype=np.bool_)
        there[placement[near.targets]] = True
        at_sender: Bools = there[placement[near.sources]]
        return at_sender

    def left(self, placement: Ints) -> float:
        """Return the load left on leaving nodes."""
        return self.balance.levels(placement).left

    def value(self, placement: Ints, for_left: bool) -> float:
        """Return what is maximised: minus the load left on leaving nodes, or the traffic."""
        return -self.left(placement) if for_left else self.collocated(placement)

    def is_feasible(self, placement: Ints) -> bool:
        """Whether a placement keeps every limit, the cap on what is left included."""
        if not self.balance.is_feasible(placement):
            return False
        return not math.isfinite(self.max_left) or self.left(placement) <= self.most_left

    def with_cap(self, max_distance: float | None) -> JointProblem:
        """Return the problem under another cap on the load distance."""
        return replace(self, balance=replace(self.balance, max_distance=max_distance))

    def with_left(self, max_left: float) -> JointProblem:
        """Return the problem with the load left on leaving nodes capped."""
        return replace(self, max_left=max_left)


#: Further balanced starts that are tried where the first one misses the distance asked for.
RETRIES = 3

#: Share of the time left that the search for these may take, and key groups times nodes up to which
#: it ends in a moment by itself.
BALANCE_SHARE, QUICK = 0.25, 3_000


@dataclass
class Prepared:
    """A joint problem with what is known before any model is built."""

    problem: JointProblem  # With the cap that holds.
    #: Placements to begin from, the best balanced one first; their loads may exceed limits.
    starts: list[Ints] = field(default_factory=list)
    impossible: bool = False  # Whether no placement can exist; false says nothing.
    #: Whether the load distance asked for by option seems out of reach: the cap is then the least
    #: distance found, and bounds are of that restriction.
    closest: bool = False
    #: Whether the warm start is within every limit; ``None`` where there was none.
    warm: bool | None = None
    #: Whether an option's cap is below the instance's own: bounds are of that restriction.
    tighter: bool = False
    notes: list[str] = field(default_factory=list)  # For the result.
    drain: str = "soft"  # ``first``, ``soft`` or ``hard``, as the option says.
    unit: float = 1.0  # What a unit of load is in the file's.

    @property
    def restricted(self) -> bool:
        """Whether an option caps the load distance: what is infeasible then proves nothing."""
        return self.closest or self.tighter

    def rank(
        self, weights: tuple[float, float] | None = None
    ) -> Callable[[Any, Evaluation], tuple[float, ...] | None]:
        """Return how plans are ranked: within the cap first, emptied where that comes first.

        `weights`: of traffic and load distance, where these are weighted.
        """

        def rank(node: Any, evaluation: Evaluation) -> tuple[float, ...] | None:
            placement, balance = node.astype(np.int64), self.problem.balance
            if self.drain == "hard" and balance.must_move[placement == balance.home].any():
                return None
            levels, traffic = balance.levels(placement), self.problem.collocated(placement)
            beyond = max(0.0, levels.distance - balance.most_distance)
            value = traffic
            if weights is not None:
                value = weights[0] * traffic - weights[1] * levels.distance
            keys = [beyond, -value, levels.left]
            if self.drain == "first":
                keys = [beyond, levels.left, -value]
            return tuple(float(f"{key:.9e}") for key in keys)

        return rank

    def conditions(self) -> list[str]:
        """Say in words which plans bounds are restricted to; nothing where they are of all."""
        conditions = []
        if self.drain == "hard" and self.problem.balance.has_leaving:
            conditions.append("that empty leaving nodes of all that may go elsewhere")
        if self.restricted:
            conditions.append(f"with load distance ≤ {self.problem.cap * self.unit:.6g}")
        if math.isfinite(self.problem.max_left):
            conditions.append(
                f"that leave at most {self.problem.max_left * self.unit:.6g} on leaving nodes"
            )
        return conditions


def left_level(value: float, bound: float) -> Level:
    """Return the level of what is left on leaving nodes; both numbers are minus that load."""
    most = -bound if math.isfinite(bound) else None
    return Level("load_on_leaving_nodes", "min", -value + 0.0, most, "resource")


def joint_problem(instance: Instance, method: str = "joint-milp") -> JointProblem:
    """Return the joint problem of an instance, the load distance capped by its own limit.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    """
    pairs = instance.pairs
    some = pairs.rate > 0
    return JointProblem(
        balance_problem(instance, method),
        pairs.u[some].astype(np.int64),
        pairs.v[some].astype(np.int64),
        pairs.rate[some].astype(np.float64),
        local=instance.flows.local,
    )


def prepare(
    instance: Instance, request: Request, method: str, *, searching: bool = True
) -> Prepared:
    """Settle the cap and, if `searching`, find a balanced start.

    The option ``max_load_distance`` is an aim: where the budget does not allow it, the least
    distance found takes its place. The instance's own limit is a limit.
    """
    problem = joint_problem(instance, method)
    balance = problem.balance
    own_limit, distance_asked = balance.max_distance, request.options["max_load_distance"]
    prepared = Prepared(
        problem,
        impossible=impossible(instance, balance),
        drain=request.options["drain"],
        unit=request.scale.of("resource"),
    )
    if prepared.drain == "hard" and balance.has_leaving:
        prepared.impossible |= cannot_be_emptied(balance)
        balance = emptied(balance)
        prepared.problem = problem = replace(problem, balance=balance)
        prepared.notes += [note_not_drained(balance)] if prepared.impossible else []
    if prepared.impossible:
        return prepared
    free = replace(balance, max_distance=None)
    least = forced_moves_bound(free)
    if own_limit is not None and least > balance.within(own_limit):
        prepared.impossible = True
        return prepared
    caps = [cap for cap in (own_limit, distance_asked) if cap is not None]
    cap = min(caps) if caps else None
    prepared.problem = problem.with_cap(cap)
    prepared.tighter = cap != own_limit
    if cap is None:
        prepared.notes.append(
            "no max_load_distance is set: only capacities and the budget limit the plan"
        )
    warm_starts = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    for start in warm_starts:
        prepared.warm = prepared.problem.is_feasible(start)
        prepared.starts += [start] if prepared.warm else []
        if not prepared.warm:
            prepared.notes.append("the warm start violates a limit and was not used")
    if searching and (balance.must_move.any() or not prepared.problem.is_feasible(balance.home)):
        _balance_first(prepared, free, warm_starts, cap, own_limit, least, request)
    prepared.starts.append(balance.home)
    return prepared


def _balance_first(
    prepared: Prepared,
    free: BalanceProblem,
    warm_starts: tuple[Ints, ...],
    cap: float | None,
    own_limit: float | None,
    least: float,
    request: Request,
) -> None:
    """Add a balanced start; where it misses the distance asked for, take what it reaches."""
    aim = max(least, cap if cap is not None else 0.0)
    left, small = request.remaining(), free.num_tasks * free.num_nodes <= QUICK
    deadline = None if left is None or small else time.perf_counter() + BALANCE_SHARE * left
    watch = Watch(deadline, offer=request.offer)

    def balance(starts: tuple[Ints, ...], seed: int, aim: float) -> Ints | None:
        found = search_balance(free, starts, seed, aim, watch=watch)
        if watch.interrupted:  # what it found was offered
            raise KeyboardInterrupt
        return found

    balanced = balance(warm_starts, request.seed, aim)
    if balanced is None:
        return
    reached = free.levels(balanced).distance
    # the cap is an aim: where the search misses it, what it reaches takes its place
    wanted = math.inf if cap is None else free.within(cap)
    for more in range(RETRIES if free.num_tasks <= LARGE else 0):
        if reached <= wanted or watch.over():
            break
        # aimed at less, the level falls by other steps
        again = balance((balanced,), request.seed + more, least)
        balanced = balanced if again is None else again
        reached = free.levels(balanced).distance
    prepared.starts.append(balanced)
    if cap is None or reached <= wanted or cap == own_limit:
        return
    within = own_limit is None or reached <= free.within(own_limit)
    closest = reached if within or own_limit is None else own_limit
    prepared.closest = True
    prepared.problem = prepared.problem.with_cap(closest)
    proof = "cannot be reached" if least > free.within(cap) else "was not reached"
    prepared.notes.append(
        f"max_load_distance {cap * prepared.unit:g} {proof} within the budget: "
        f"{closest * prepared.unit:.6g} is used instead"
    )


# The joint model: collocated traffic as a linear objective beside the rows of ALBIC's MILP.
#
# A key group with at most one partner needs no product: it moves alone (one column a node) or is
# somewhere together with its partner (one column a node for the pair, which moves both), and at
# most one of these is chosen. So the usual case, one-to-one pairs, has one row a key group
# instead of two a pair and node. A key group with several partners has a column a node, and each
# of its pairs is on a node only if it is.
#
# Where a few pairs carry much and very many a little each, as one-to-one beside full
# partitioning, a model of all pairs is too large and its relaxation too loose to say which moves
# are worth trying. The backbone has the strong pairs only. What the others win by a move goes
# into the objective of that move: at most what the key group has with those at home on that node,
# and half of its largest rates with as many others as the budget lets move besides (the other
# half goes with them). So the relaxation over all places still bounds the whole problem.
#
# How much traffic a budget of moves can collocate at most, without a solver or loads: a pair that
# is apart comes together only if one of its key groups moves. So the traffic collocated in the
# end is at most what is collocated now and the pairs apart that the moved key groups have. Each
# pair whose key groups have no other partner is one item (it costs at least one move). Every
# other key group is one item, worth at most all its pairs apart, and at most what it has with the
# key groups at home on one other node (those that stay there) and half of its largest pairs with
# as many others as the budget lets move besides (the other half is counted with them). The best
# items the budget can pay are then an upper bound: by count the largest ones, by cost a
# fractional knapsack.


@dataclass(frozen=True)
class JointAim:
    """What one solve maximises."""

    #: ``traffic``; ``left`` (minus the load on leaving nodes); ``weighted`` (w1·traffic − w2·d).
    goal: JointGoal = "traffic"
    weights: tuple[float, float] = (1.0, 0.0)  # (w1, w2), read for ``weighted`` only.
    min_traffic: float = -np.inf  # What an earlier level reached.


@dataclass(frozen=True)
class JointModel:
    """A built model."""

    #: What is modelled, and how.
    problem: JointProblem
    columns: Columns
    model: LinearModel
    #: Columns that put a key group on another node than its home; a pair's may be there twice.
    placing: Placing
    distance: int  # Column of d, -1 where there is none.
    rules: RuleRows  # Rows and columns of the rules that count key groups on places.
    staying: Staying | None  # Columns of `local_first` streams.

    def read(self, x: Floats) -> Ints:
        """Return the placement a solution vector stands for."""
        return self.placing.read(x)

    def write(self, placement: Ints) -> Floats | None:
        """Return the solution vector of a placement; ``None`` when a place of it is no column."""
        problem, columns = self.problem, self.columns
        x = np.zeros(self.model.num_variables)
        u, v = problem.source[columns.pair], problem.target[columns.pair]
        together = (placement[u] == columns.pair_node) & (placement[v] == columns.pair_node)
        x[len(columns.task) :][: len(columns.pair)][together] = 1.0
        single = problem.degree <= 1
        covered = np.zeros(problem.balance.num_tasks, dtype=np.bool_)
        covered[u[together]] = covered[v[together]] = True
        covered &= single
        alone = (placement[columns.task] == columns.node) & ~covered[columns.task]
        x[: len(columns.task)][alone] = 1.0
        if self.distance >= 0:
            x[self.distance] = problem.balance.levels(placement).distance
        self.rules.complete(x, placement)
        if self.staying is not None:
            self.staying.complete(x, placement.astype(np.int32))
        return x if np.array_equal(self.read(x), placement) else None


def build_joint(problem: JointProblem, columns: Columns, aim: JointAim | None = None) -> JointModel:
    """Build the model over some columns; of the whole problem where these are all there are."""
    aim = aim or JointAim()
    balance = problem.balance
    each = {"traffic": 1.0, "weighted": aim.weights[0], "left": 0.0}[aim.goal]
    gain = each * problem.rate[columns.pair]
    model = LinearModel("joint", sense="max")
    of = {"task": columns.task, "node": columns.node}
    y = model.add_variables("move", len(columns.task), upper=1.0, integer=True, of=of)
    w = model.add_variables(
        "together", len(columns.pair), upper=1.0, integer=True, objective=gain,
        of=_of_pairs(problem, columns, np.arange(len(columns.pair))),
    )  # fmt: skip
    placing = _placing(problem, columns, y.indices, w.indices)
    _add_once(model, problem, columns, y.indices, w.indices)
    _add_products(model, problem, columns, y.indices, w.indices)
    add_budgets(model, placing, balance.rules, balance.budgets)
    distance = _add_load_rows(model, problem, placing, aim)
    add_resource_rows(model, balance, placing)
    add_forced_moves_rows(model, balance, placing, problem.cap)
    add_left(model, balance, placing, problem.most_left, -1.0 if aim.goal == "left" else 0.0)
    inside, staying = [(0, w.indices, problem.rate[columns.pair])], None
    if problem.local:
        staying = add_staying(model, problem.local, placing)
        model.set_objective(staying.stays, each * staying.rate)
        inside.append((0, staying.stays, staying.rate))
    if np.isfinite(aim.min_traffic):
        model.add_sum("traffic", aim.min_traffic, np.inf, 1, *inside)
    rules = add_rule_rows(model, balance.rules, placing.where)
    return JointModel(problem, columns, model, placing, distance, rules, staying)


def _of_pairs(problem: JointProblem, columns: Columns, some: Ints) -> dict[str, Ints]:
    """Say of which key groups and node some columns of pairs are."""
    pair = columns.pair[some]
    ends = {"task": problem.source[pair], "other": problem.target[pair]}
    return {**ends, "node": columns.pair_node[some]}


def _placing(problem: JointProblem, columns: Columns, y: Ints, w: Ints) -> Placing:
    """Return who goes where by which column."""
    home, single = problem.balance.home, problem.degree <= 1
    column, task, node = [y], [columns.task], [columns.node]
    for end in (problem.source[columns.pair], problem.target[columns.pair]):
        moves = single[end] & (home[end] != columns.pair_node)
        column.append(w[moves])
        task.append(end[moves])
        node.append(columns.pair_node[moves])
    return Placing(
        np.concatenate(column), np.concatenate(task), np.concatenate(node), home,
        problem.balance.num_nodes,
    )  # fmt: skip


def _add_once(
    model: LinearModel, problem: JointProblem, columns: Columns, y: Ints, w: Ints
) -> None:
    """Every key group moves at most once, alone or with its partner; exactly once where it must."""
    terms: list[Any] = [(columns.task, y, 1.0)]
    for end in (problem.source[columns.pair], problem.target[columns.pair]):
        alone = problem.degree[end] <= 1
        terms.append((end[alone], w[alone], 1.0))
    least, tasks = np.where(problem.balance.must_move, 1.0, -np.inf), problem.balance.num_tasks
    model.add_sum("once", least, 1.0, tasks, *terms, of={"task": np.arange(tasks)})


def _add_products(
    model: LinearModel, problem: JointProblem, columns: Columns, y: Ints, w: Ints
) -> None:
    """A pair is on a node only if its key groups with several partners are there."""
    balance = problem.balance
    key = columns.task * balance.num_nodes + columns.node
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], np.arange(balance.num_tasks) * balance.num_nodes)
    first = np.append(first, len(key))
    ends = (problem.source[columns.pair], problem.target[columns.pair])
    for name, end in zip(("source", "target"), ends, strict=True):
        many = problem.degree[end] > 1
        # w_p,i ≤ x_k,i for each end k with several partners: x is a column where k has to come,
        # and 1 − Σ of its columns where it is at home
        at_home = many & (balance.home[end] == columns.pair_node)
        away = np.flatnonzero(many & ~at_home)
        wanted = end[away] * balance.num_nodes + columns.pair_node[away]
        column = y[order[np.searchsorted(key[order], wanted)]] if len(away) else away
        of = _of_pairs(problem, columns, away)
        add_at_most(model, f"{name}_there", w[away], column, of)
        stay = np.flatnonzero(at_home)
        counts = first[end[stay] + 1] - first[end[stay]]
        rows = np.repeat(np.arange(len(stay)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        cols = y[order[np.repeat(first[end[stay]], counts) + within]]
        model.add_sum(
            f"{name}_stays", -np.inf, 1.0, len(stay), (np.arange(len(stay)), w[stay], 1.0),
            (rows, cols, 1.0), of=_of_pairs(problem, columns, stay),
        )  # fmt: skip


def _add_load_rows(
    model: LinearModel, problem: JointProblem, placing: Placing, aim: JointAim
) -> int:
    """Every node within its share ± the cap, or ± d ≤ cap where d is weighted; return d's column.

    Leaving nodes are bounded above only.
    """
    balance = problem.balance
    cap, share = balance.most_distance, balance.share - balance.background
    if aim.goal != "weighted":
        if np.isfinite(cap):
            lower = np.where(balance.leaving, -np.inf, share - cap)[:, None]
            upper = (share + cap)[:, None]
            add_capacity(model, placing, balance.load[:, None], lower, upper, "load")
        return -1
    ceiling = float(balance.load.sum() + balance.base_load.max() + balance.share.max())
    d = model.add_variables(
        "load_distance", 1, upper=min(cap, ceiling), objective=-aim.weights[1]
    ).start
    add_load_distance(model, placing, balance.load, share, balance.leaving, (d,))
    return d


@dataclass(frozen=True)
class Backbone:
    """Strong and weak pairs of a problem, apart."""

    problem: JointProblem  # With the strong pairs only.
    #: With the weak ones only; ``None`` where every pair counts as strong.
    rest: JointProblem | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every pair is in it."""
        return self.rest is None

    def moving(self, task: Ints, node: Ints) -> Floats:
        """Return the most that weak pairs win when each of these key groups moves to its node."""
        places, at_home, along = self._gains
        wanted = task * self.problem.balance.num_nodes + node
        at = np.searchsorted(places[:-1], wanted)
        won: Floats = np.where(places[at] == wanted, at_home[at], 0.0) + along[task]
        return won

    @cached_property
    def _gains(self) -> tuple[Ints, Floats, Floats]:
        """Return task × N + node with weak pairs at home there, their rates; of those that come."""
        assert self.rest is not None
        rest, apart = self.rest, self.rest.apart
        tasks, nodes = rest.balance.num_tasks, rest.balance.num_nodes
        ends = rest.source[apart], rest.target[apart]
        task, partner = np.concatenate(ends), np.concatenate(ends[::-1])
        rate = np.concatenate([rest.rate[apart], rest.rate[apart]])
        keys, of = np.unique(task * nodes + rest.balance.home[partner], return_inverse=True)
        at_home = np.bincount(of.reshape(-1), rate, len(keys) + 1).astype(np.float64)
        # half of the rates to those that move along: the other half counts for them
        along = 0.5 * largest_rates(task, rate, most_moves(rest) - 1, tasks)
        return np.append(keys, -1), at_home, along

    def build(self, columns: Columns, aim: JointAim) -> JointModel:
        """Build the model over some columns; over all of them its relaxation bounds the whole."""
        built = build_joint(self.problem, columns, aim)
        if self.rest is not None and aim.goal == "traffic":
            placing = built.placing
            moving_gain = self.moving(placing.task, placing.node)
            now = float(self.rest.rate[~self.rest.apart].sum())
            built.model.set_objective(placing.column, moving_gain, offset=now)
        return built


def backbone_of(problem: JointProblem) -> Backbone:
    """Return the backbone; the problem itself where that is not dense, or its backbone is too."""
    if not problem.local and problem.is_dense and not problem.backbone.all():
        strong = problem.part(problem.backbone)
        if not strong.is_dense:
            return Backbone(strong, problem.part(~problem.backbone))
    return Backbone(problem)


#: Masks and models beyond these sizes are refused: they would need tens of gigabytes.
MAX_PLACES, MAX_COLUMNS = 200_000_000, 6_000_000


@dataclass(frozen=True)
class Columns:
    """Binaries of the model."""

    #: (M,) a key group moves to a node. For a key group with at most one partner: without it.
    task: Ints
    node: Ints
    #: (W,) both key groups of a pair are on a node.
    pair: Ints
    pair_node: Ints

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self.task) + len(self.pair)


def all_places(balance: BalanceProblem) -> Bools:
    """Return (T, N) where each key group may be.

    Raises `InvalidInput`: too many.
    """
    if balance.num_tasks * balance.num_nodes > MAX_PLACES:
        raise _too_large(balance.num_tasks * balance.num_nodes, "key groups × nodes")
    return balance.may_be_rows(np.arange(balance.num_tasks))


def pruned_places(problem: JointProblem, spread: int, also: tuple[Ints, ...] = ()) -> Bools:
    """Return (T, N) places worth trying: home, partners' homes, and from full to empty nodes.

    `spread`: key groups of the `spread` most loaded nodes, of leaving nodes and those that must
        move may go to the `spread` least loaded nodes; those of nodes above the cap always, to all
        below it among these.
    `also`: placements whose places are stored too.
    """
    balance = problem.balance
    t, home = np.arange(balance.num_tasks), balance.home
    mask = np.zeros((balance.num_tasks, balance.num_nodes), dtype=np.bool_)
    mask[t, home] = True
    mask[problem.source, home[problem.target]] = True
    mask[problem.target, home[problem.source]] = True
    deviation = balance.base_load - balance.share
    order = np.argsort(deviation, kind="stable")
    full = np.zeros(balance.num_nodes, dtype=np.bool_)
    full[order[::-1][:spread]] = True
    # nodes that give: the fullest, leaving ones, and those above the cap
    full |= balance.leaving | (deviation > problem.cap)
    staying = order[~balance.leaving[order]]
    empty = np.unique(
        np.concatenate([staying[:spread], staying[deviation[staying] < -problem.cap]])
    )
    from_full = np.flatnonzero(full[home] | balance.must_move)
    mask[np.ix_(from_full, empty)] = True
    for placement in also:
        mask[t, placement] = True
    return mask & all_places(balance)


def columns_of(problem: JointProblem, places: Bools) -> Columns:
    """Return the columns for key groups that may be at `places`.

    Raises `InvalidInput`: too many columns.
    """
    moves = places.copy()
    moves[np.arange(len(moves)), problem.balance.home] = False
    count = int(moves.sum())
    if count + problem.num_pairs * places.shape[1] > MAX_COLUMNS:
        count += _count_pairs(problem, places)
        if count > MAX_COLUMNS:
            raise _too_large(count, "columns")
    task, node = np.nonzero(moves)
    pair, pair_node = np.nonzero(places[problem.source] & places[problem.target])
    return Columns(task, node, pair, pair_node)


def _count_pairs(problem: JointProblem, places: Bools) -> int:
    total, step = 0, 100_000
    for begin in range(0, problem.num_pairs, step):
        part = slice(begin, begin + step)
        total += int((places[problem.source[part]] & places[problem.target[part]]).sum())
    return total


def _too_large(number: int, what: str, remedy: str = "use joint-search") -> InvalidInput:
    return InvalidInput(
        Problem("joint-milp", f"{number:,} {what}", "is too large for the model", remedy)
    )


def collocation_bound(problem: JointProblem) -> float:
    """Return traffic that no placement within the budgets of `problem` can exceed.

    Capacities, allowed sets and the load distance are not read, which only weakens the bound.
    """
    # what is together now stays so at best; the rest is a knapsack of items
    now = problem.collocated(problem.balance.home)
    best = _best_within_budgets(problem.balance, *_items(problem, most_moves(problem)))
    if problem.local:
        best += _best_within_budgets(problem.balance, *_local_items(problem))
    return min(now + best, problem.total) * (1.0 + ROUNDING)


def _best_within_budgets(balance: BalanceProblem, gains: Floats, price: Floats) -> float:
    """Return what the best items are worth that the budgets pay."""
    best = float(gains.sum())
    if balance.most_moved is not None:
        best = min(best, float(np.sort(gains)[::-1][: balance.most_moved].sum()))
    for taken, most in zip(price.T, balance.budget.tolist(), strict=True):
        best = min(best, float(fractional_knapsack(gains, taken, np.array([most]))[0]))
    return best


def _local_items(problem: JointProblem) -> tuple[Floats, Floats]:
    """Return (T,) what of `local_first` streams comes to stay by a move, and its price.

    That is what the key group sends and stays nowhere now; and, as it receives, at most what those
    send that are at home on one node and have no receiver there.
    """
    balance, home = problem.balance, problem.balance.home
    gains = np.zeros(balance.num_tasks)
    received: dict[bytes, tuple[Any, Any]] = {}
    for near in problem.local:
        alone = near.sources[~problem.has_receiver(near, home)]
        gains[alone] += near.rate
        at = near.rate * np.bincount(home[alone], minlength=balance.num_nodes)
        some = near.targets.tobytes()
        received[some] = (near.targets, at + received[some][1] if some in received else at)
    for targets, at in received.values():
        gains[targets] += at.max(initial=0.0)
    return gains, balance.least(balance.price)


def most_moves(problem: JointProblem) -> int:
    """Return how many key groups the budgets let move at most."""
    most = problem.balance.most_moved
    return problem.balance.num_tasks if most is None else most


def _items(problem: JointProblem, most: int) -> tuple[Floats, Floats]:
    """Return worth of each item, and least price by budget, when `most` key groups may move."""
    apart, balance = problem.apart, problem.balance
    u, v, rate = problem.source[apart], problem.target[apart], problem.rate[apart]
    alone = (problem.degree[u] == 1) & (problem.degree[v] == 1)
    price = balance.least(balance.price)
    task = np.concatenate([u[~alone], v[~alone]])
    home = balance.home[np.concatenate([v[~alone], u[~alone]])]
    rates = np.concatenate([rate[~alone], rate[~alone]])
    many = np.bincount(task, rates, balance.num_tasks)
    joined = _best_home(task, home, rates, balance.num_tasks)
    joined += 0.5 * largest_rates(task, rates, most - 1, balance.num_tasks)
    some = np.flatnonzero(many > 0)
    gains = np.concatenate([rate[alone], np.minimum(many, joined)[some]])
    return gains, np.concatenate([np.minimum(price[u], price[v])[alone], price[some]])


def _best_home(task: Ints, home: Ints, rate: Floats, num_tasks: int) -> Floats:
    """Return (T,) the most rate that each key group has with those at home on one node."""
    best = np.zeros(num_tasks)
    if len(task) == 0:
        return best
    order = np.lexsort((home, task))
    task, home, rate = task[order], home[order], rate[order]
    begins = np.flatnonzero(np.append(True, (task[1:] != task[:-1]) | (home[1:] != home[:-1])))
    np.maximum.at(best, task[begins], np.add.reduceat(rate, begins))
    return best


def largest_rates(task: Ints, rate: Floats, number: int, num_tasks: int) -> Floats:
    """Return (T,) the sum of the `number` largest rates of each key group."""
    order = np.lexsort((-rate, task))
    task, rate = task[order], rate[order]
    counts = np.bincount(task, minlength=num_tasks)
    rank = np.arange(len(task)) - np.repeat(np.cumsum(counts) - counts, counts)
    among_largest = rank < number
    total: Floats = np.bincount(task[among_largest], rate[among_largest], num_tasks).astype(
        np.float64
    )
    return total
