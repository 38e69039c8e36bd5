"""Where key groups are when a recording begins: in turn, as badly as can be, or by a method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.methods.registry import method_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from experiments.traces.instances import InstanceMaker
    from optim.format.instance import Instance

    Integers = NDArray[np.int64]

OWN = ("round-robin", "worst")
MAX_WORST = 4_000
"""Key groups of one operator up to which the worst placement is found: an assignment problem."""


def check_placement(name: str, where: str = "--placement") -> None:
    """Refuse a name that is no placement.

    Raises
    ------
    InvalidInput
        It is neither one of ours nor a method.
    """
    if name not in OWN and name not in method_names():
        remedy = f"{', '.join(OWN)} or a method: see `streamplace methods`"
        raise InvalidInput(Problem(where, name, "is no placement", remedy))


def check_method(name: str, where: str = "--carry") -> None:
    """Refuse a name that is no method.

    Raises
    ------
    InvalidInput
        It is none.
    """
    if name not in method_names():
        raise InvalidInput(Problem(where, name, "is no method", "see `streamplace methods`"))


def place(maker: InstanceMaker, name: str, period: int, seed: int = 0) -> Integers:
    """Return (T,) node indices.

    Parameters
    ----------
    maker
        Of the trace.
    name
        ``round-robin``: key group i of every operator on node i modulo the staying nodes.
        ``worst``: the same number of key groups of every operator on every node, with as little
        traffic within nodes as an operator can have towards those before it, over the whole
        recording. Otherwise a method, which solves `period`.
    period
        That a method solves.
    seed
        Of the method.

    Raises
    ------
    InvalidInput
        There is no such placement, the method cannot take the instance, or it finds no plan.
    """
    check_placement(name)
    stays = np.flatnonzero(~maker.nodes().nodes.leaving)
    if name == "round-robin":
        return np.concatenate(
            [stays[np.arange(spec.key_groups) % len(stays)] for spec in maker.job.operators]
        )
    if name == "worst":
        return _worst(maker, stays)
    node, why = planned(maker.instance(period), name, seed)
    if node is None:
        reason = f"finds no plan for period {period}" + (f": {why}" if why else "")
        raise InvalidInput(Problem("--placement", name, reason, "try another one, or round-robin"))
    return node


def planned(instance: Instance, method: str, seed: int) -> tuple[Integers | None, str]:
    """Return the plan of a method, limits that it does not honour left out; or why there is none.

    A method that cannot take the instance, such as one that needs traffic where there is none, has
    no plan for it.
    """
    from optim.methods.registry import get_method
    from optim.methods.solve import solve
    from optim.rules import limits_set

    honours = get_method(method).honours
    ignore = tuple(n for n in limits_set(instance) if n not in honours and n != "capacity")
    try:
        result = solve(instance, method, seed=seed, ignore=ignore)
    except StreamplaceError as error:
        return None, str(error)
    if str(result.termination) == "interrupted":
        raise KeyboardInterrupt
    if result.plan is None:
        why = "; ".join(map(str, result.reasons)) or "; ".join(result.notes)
        return None, why or str(result.termination)
    return result.plan.node_indices(instance).astype(np.int64), ""


def instances(
    maker: InstanceMaker,
    periods: Sequence[int],
    placement: str,
    carry: str | None = None,
    seed: int = 0,
    unplanned: dict[int, str] | None = None,
) -> Iterator[Instance]:
    """Give the instances of consecutive periods with the placement each begins with.

    Parameters
    ----------
    maker
        Of the trace; where `carry` is given, from its first period on.
    periods
        Which, in order.
    placement
        At the beginning of the first of them; with `carry`, of the first one of the trace.
    carry
        A method that plans every period; its plan is what the next one begins with. An empty
        period, or one without plan, changes nothing. ``None``: nothing is ever moved.
    seed
        Period p plans with seed + p.
    unplanned
        Takes the periods that `carry` had no plan for, and why; empty ones are not among them.
    """
    wanted = set(periods)
    first = 0 if carry else min(wanted)
    if carry:
        check_method(carry)
    node = place(maker, placement, first, seed)
    for period in range(first, max(wanted) + 1):
        instance = maker.instance(period, node)
        if period in wanted:
            yield instance
        empty = instance.total_traffic == 0 and not instance.total_load.any()
        if carry and period < max(wanted) and not empty:
            following, why = planned(instance, carry, seed + period)
            if following is not None:
                node = following
            elif unplanned is not None:
                unplanned[period] = why


def _worst(maker: InstanceMaker, stays: Any) -> Integers:
    """Place operator after operator, each against those before it: an assignment problem each."""
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import coo_array

    source, target, amount = maker.total_traffic()
    count, width = maker.num_tasks, len(stays)
    one_way = coo_array((amount, (source, target)), shape=(count, count)).tocsr()
    traffic = (one_way + one_way.T).tocsr()
    node = np.full(count, -1, dtype=np.int64)
    for spec in maker.job.operators:
        if spec.key_groups > MAX_WORST:
            reason = f"takes at most {MAX_WORST} key groups an operator; {spec.id} has more"
            raise InvalidInput(Problem("--placement", "worst", reason, "take round-robin"))
        start = maker.start[spec.id]
        mine = np.arange(start, start + spec.key_groups)
        placed = np.flatnonzero(node >= 0)
        within = np.zeros((spec.key_groups, width))
        if len(placed):
            by_node = coo_array(
                (np.ones(len(placed)), (placed, node[placed])), shape=(count, width)
            ).tocsr()
            within = (traffic[mine] @ by_node).toarray()
        # every node has room for its even share, the first ones for one more
        room = np.arange(spec.key_groups) % width
        rows, columns = linear_sum_assignment(within[:, room])
        node[mine[rows]] = room[columns]
    return np.asarray(stays)[node]
