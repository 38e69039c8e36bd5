"""The joint problem on plain arrays: collocation under a cap on the load distance.

`joint-milp` and `joint-search` read it: maximise the traffic between key groups on one node, within
the budgets, capacities and allowed sets of a `BalanceProblem`, with the load distance at most a
cap. Where nodes are leaving, the load left on them may be capped too.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.balance.search import LARGE, search_balance
from formulations.rebalancing.bound import cannot_be_emptied, forced_moves_bound, impossible
from formulations.rebalancing.problem import Watch, balance_problem, emptied, not_emptied
from optim.kernels.room import placing_slack

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Bools, Floats, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.referee.result import Evaluation

#: Pairs with less than this share of the typical rate are no part of the backbone.
WEAK = 0.1


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Key groups on nodes and the traffic between them.

    Attributes
    ----------
    balance
        Loads, costs, homes, budgets, capacities. Its `max_distance` is the cap on the load
        distance, ``None`` for none.
    source, target, rate
        (P,) pairs of key groups and their traffic, both directions together.
    max_left
        Most load that may be left on leaving nodes; ``inf`` for any.
    """

    balance: BalanceProblem
    source: Ints
    target: Ints
    rate: Floats
    max_left: float = math.inf

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(self.rate)

    @cached_property
    def total(self) -> float:
        """All traffic."""
        return float(self.rate.sum())

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
        return float(self.rate[together].sum())

    def left(self, placement: Ints) -> float:
        """Return the load left on leaving nodes."""
        return self.balance.levels(placement).left

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
    """A joint problem with what is known before any model is built.

    Attributes
    ----------
    problem
        With the cap that holds.
    starts
        Placements to begin from, the best balanced one first; their loads may exceed limits.
    impossible
        Whether no placement can exist; false says nothing.
    closest
        Whether the load distance asked for by option seems out of reach: the cap is then the least
        distance found, and bounds are of that restriction.
    warm
        Whether the warm start is within every limit; ``None`` where there was none.
    tighter
        Whether an option's cap is below the instance's own: bounds are of that restriction.
    notes
        For the result.
    drain
        ``first``, ``soft`` or ``hard``, as the option says.
    unit
        What a unit of load is in the file's.
    """

    problem: JointProblem
    starts: list[Ints] = field(default_factory=list)
    impossible: bool = False
    closest: bool = False
    warm: bool | None = None
    tighter: bool = False
    notes: list[str] = field(default_factory=list)
    drain: str = "soft"
    unit: float = 1.0

    def rank(
        self, weights: tuple[float, float] | None = None
    ) -> Callable[[Any, Evaluation], tuple[float, ...] | None]:
        """Return how plans are ranked: within the cap first, emptied where that comes first.

        Parameters
        ----------
        weights
            Of traffic and load distance, where these are weighted.
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
        if self.closest or self.tighter:
            conditions.append(f"with load distance ≤ {self.problem.cap * self.unit:.6g}")
        if math.isfinite(self.problem.max_left):
            conditions.append(
                f"that leave at most {self.problem.max_left * self.unit:.6g} on leaving nodes"
            )
        return conditions


def joint_problem(instance: Instance, method: str = "joint-milp") -> JointProblem:
    """Return the joint problem of an instance, the load distance capped by its own limit.

    Raises
    ------
    UnsuitableMethod
        A task that stands on a staying node may be on leaving ones only.
    """
    pairs = instance.pairs
    some = pairs.rate > 0
    return JointProblem(
        balance_problem(instance, method),
        pairs.u[some].astype(np.int64),
        pairs.v[some].astype(np.int64),
        pairs.rate[some].astype(np.float64),
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
    own, asked = balance.max_distance, request.options["max_load_distance"]
    made = Prepared(
        problem,
        impossible=impossible(instance, balance),
        drain=request.options["drain"],
        unit=request.scale.of("resource"),
    )
    if made.drain == "hard" and balance.has_leaving:
        made.impossible |= cannot_be_emptied(balance)
        balance = emptied(balance)
        made.problem = problem = replace(problem, balance=balance)
        made.notes += [not_emptied(balance)] if made.impossible else []
    if made.impossible:
        return made
    free = replace(balance, max_distance=None)
    least = forced_moves_bound(free)
    if own is not None and least > balance.within(own):
        made.impossible = True
        return made
    caps = [cap for cap in (own, asked) if cap is not None]
    cap = min(caps) if caps else None
    made.problem = problem.with_cap(cap)
    made.tighter = cap != own
    if cap is None:
        made.notes.append("no load distance is asked for: only capacities and budget bind")
    given = () if request.warm_start is None else (request.warm_start.astype(np.int64),)
    for start in given:
        made.warm = made.problem.is_feasible(start)
        made.starts += [start] if made.warm else []
        if not made.warm:
            made.notes.append("the warm start breaks a limit and was not used")
    if searching and (balance.must_move.any() or not made.problem.is_feasible(balance.home)):
        _balance_first(made, free, given, cap, own, least, request)
    made.starts.append(balance.home)
    return made


def _balance_first(
    made: Prepared,
    free: BalanceProblem,
    given: tuple[Ints, ...],
    cap: float | None,
    own: float | None,
    least: float,
    request: Request,
) -> None:
    """Add a balanced start; where it misses the distance asked for, take what it reaches."""
    aim = max(least, cap if cap is not None else 0.0)
    left, small = request.remaining(), free.num_tasks * free.num_nodes <= QUICK
    deadline = None if left is None or small else time.perf_counter() + BALANCE_SHARE * left
    seed, watch = request.seed, Watch(deadline, offer=request.offer)
    found = search_balance(free, given, seed, aim, watch=watch)
    if found is None:
        return
    reached = free.levels(found).distance
    # the cap is an aim: where the search misses it, what it reaches takes its place
    wanted = math.inf if cap is None else free.within(cap)
    for more in range(RETRIES if free.num_tasks <= LARGE else 0):
        if reached <= wanted or watch.interrupted or watch.over():
            break
        # aimed at less, the level falls by other steps
        again = search_balance(free, (found,), seed + more, least, watch=watch)
        found = found if again is None else again
        reached = free.levels(found).distance
    made.starts.append(found)
    if cap is None or reached <= wanted or cap == own:
        return
    within = own is None or reached <= free.within(own)
    closest = reached if within or own is None else own
    made.closest = True
    made.problem = made.problem.with_cap(closest)
    proof = "cannot be reached" if least > free.within(cap) else "was not reached"
    made.notes.append(
        f"max_load_distance {cap * made.unit:g} {proof} within the budget: "
        f"{closest * made.unit:.6g} takes its place"
    )
