"""From an instance to a joint problem, and what its load distance may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.balance_instance import balance_problem
from formulations.balance_reasons import impossible
from optim.bounds.touch import touch_bound
from optim.evaluation import Violation
from optim.local_search.balance_problem import tolerated
from optim.local_search.balance_search import LARGE, search_balance
from optim.local_search.joint_problem import JointProblem

if TYPE_CHECKING:
    from optim.instance import Instance
    from optim.local_search.balance_problem import BalanceProblem, Ints
    from optim.registry import Request

#: Further balanced starts that are tried where the first one misses the distance asked for.
RETRIES = 3


@dataclass
class Prepared:
    """A joint problem with what is known before any model is built.

    Attributes
    ----------
    problem
        With the cap that holds.
    starts
        Placements to begin from, the best balanced one first; their loads may exceed limits.
    reasons
        Why no placement can exist; empty says nothing.
    closest
        Whether the load distance asked for by option seems out of reach: the cap is then the least
        distance found, and bounds are of that restriction.
    warm
        Whether the warm start is within every limit; ``None`` where there was none.
    tighter
        Whether an option's cap is below the instance's own: bounds are of that restriction.
    notes
        For the result.
    """

    problem: JointProblem
    starts: list[Ints] = field(default_factory=list)
    reasons: list[Violation] = field(default_factory=list)
    closest: bool = False
    warm: bool | None = None
    tighter: bool = False
    notes: list[str] = field(default_factory=list)

    def conditions(self, drained: bool) -> list[str]:
        """Say in words which plans bounds are restricted to; nothing where they are of all."""
        conditions = []
        if self.closest or self.tighter:
            conditions.append(f"with load distance ≤ {self.problem.cap:.6g}")
        if drained and math.isfinite(self.problem.max_left):
            conditions.append(f"that leave at most {self.problem.max_left:.6g} on leaving nodes")
        return conditions


def joint_problem(instance: Instance, method: str = "joint-milp") -> JointProblem:
    """Return the joint problem of an instance, the load distance capped by its own limit.

    Raises
    ------
    UnsuitableMethod
        A task has no current node.
    """
    pairs = instance.pairs
    some = pairs.rate > 0
    return JointProblem(
        balance_problem(instance, method),
        pairs.u[some].astype(np.int64),
        pairs.v[some].astype(np.int64),
        pairs.rate[some].astype(np.float64),
    )


def prepare(instance: Instance, request: Request, method: str) -> Prepared:
    """Settle the cap and find a balanced start.

    The option ``max_load_distance`` is an aim: where the budget does not allow it, the least
    distance found takes its place. The instance's own limit is a limit.
    """
    problem = joint_problem(instance, method)
    balance = problem.balance
    own, asked = balance.max_distance, request.options["max_load_distance"]
    made = Prepared(problem, reasons=impossible(instance, balance))
    if made.reasons:
        return made
    free = replace(balance, max_distance=None)
    least = touch_bound(free)
    if own is not None and least > own + float(tolerated(own)):
        short = least - own
        where = "no placement within the budget is as balanced"
        made.reasons.append(Violation("max_load_distance", where, short, least, own))
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
    if balance.must_move.any() or not made.problem.is_feasible(balance.home):
        _balance_first(made, free, given, cap, own, least, request.seed)
    made.starts.append(balance.home)
    return made


def _balance_first(
    made: Prepared,
    free: BalanceProblem,
    given: tuple[Ints, ...],
    cap: float | None,
    own: float | None,
    least: float,
    seed: int,
) -> None:
    """Add a balanced start; where it misses the distance asked for, take what it reaches."""
    aim = max(least, cap if cap is not None else 0.0)
    found = search_balance(free, given, seed, aim)
    if found is None:
        return
    reached = free.levels(found).distance
    wanted = math.inf if cap is None else cap + float(tolerated(cap))
    for more in range(RETRIES if free.num_tasks <= LARGE else 0):
        if reached <= wanted:
            break
        # aimed at less, the level falls by other steps
        again = search_balance(free, (found,), seed + more, least)
        found = found if again is None else again
        reached = free.levels(found).distance
    made.starts.append(found)
    if cap is None or reached <= wanted or cap == own:
        return
    within = own is None or reached <= own + float(tolerated(own))
    closest = reached if within or own is None else own
    made.closest = True
    made.problem = made.problem.with_cap(closest)
    proof = "cannot be reached" if least > cap + float(tolerated(cap)) else "was not reached"
    made.notes.append(
        f"max_load_distance {cap:g} {proof} within the budget: {closest:.6g} takes its place"
    )
