"""From an instance to a joint problem, and what its load distance may be."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.rebalancing.balance.instance import balance_problem
from formulations.rebalancing.balance.prepare import (
    cannot_be_emptied,
    emptied,
    impossible,
    not_emptied,
)
from formulations.rebalancing.balance.search import LARGE, search_balance
from formulations.rebalancing.bounds.forced_moves import forced_moves_bound
from formulations.rebalancing.joint.problem import JointProblem
from formulations.rebalancing.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem, Ints
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.referee.evaluation import Evaluation

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
