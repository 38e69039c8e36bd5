"""The least excess exactly: the model of all rules, those broken today with a raise that is paid.

    min Σ_a weight_a · raise_a,    raise_a ≤ what the current placement has above the limit

over the rule instances a that the current placement breaks (`formulations.conflicts.relax`); the
others hold. Its optimum bounds the excess of every plan that is nowhere worse than today. What it
undersells (slots, sets that are to be together) the referee tells: the placement is cut off and the
model solved again, until the bound of those that are left is no less than the best one's excess.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from formulations.conflicts.atoms import atoms_of
from formulations.conflicts.model import build
from formulations.conflicts.relax import WHOLE, with_raises
from optim.rules.excess import total_of
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_arrays import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats

_CELLS = 20_000
"""Tasks × nodes up to which the model is asked."""
_MOST, _SHARED = 2_000, 400_000
"""Branch-and-bound nodes of a model; fewer where nodes take longer: tasks × nodes × these."""
_ROUNDS, _STALLED = 200, 20
"""Placements that are cut off; of these, one after the other without any progress."""
_SAME = 1e-9
SOLVED = LinearTermination.OPTIMAL
_RULES = frozenset(
    {"capacity", "min_load", "max_tasks", "links", "max_load_distance", "sets", "slots"}
    | {"slot_capacity"}
)


def least_excess(
    instance: Instance,
    loose: Instance,
    weight: Floats,
    seconds: float | None,
    judged: Callable[[NDArray[np.int32]], float],
) -> tuple[NDArray[np.int32] | None, float]:
    """Return nodes of a placement of least excess, and a bound that none falls below.

    Parameters
    ----------
    instance, loose
        With the limits as they are, and loosened to what is exceeded today.
    weight
        (R,) what a unit of a resource's excess counts.
    seconds
        Time for it; ``None`` for a number of branch-and-bound nodes alone.
    judged
        Returns the excess of a placement; infinite where it is worse than today anywhere.
    """
    ends = None if seconds is None else time.perf_counter() + seconds
    cells = instance.num_tasks * instance.num_nodes
    if cells > _CELLS:
        return None, 0.0
    nodes = min(_MOST, _SHARED // cells)
    atoms = atoms_of(instance)
    paid: dict[int, float] = {}
    most: dict[int, float] = {}
    total = max(1, instance.num_tasks)
    for atom in range(len(atoms)):
        rule, resource = atoms.kinds[atoms.kind[atom]]
        if rule not in _RULES:
            continue
        raised = _raise(instance, loose, rule, resource, int(atoms.index[atom]))
        if raised > 0:
            paid[atom], most[atom] = _price(instance, weight, rule, resource, total), raised
    if not paid:
        return None, 0.0
    made = build(atoms, np.arange(len(atoms)))
    size = max(paid.values()) or 1.0
    paid = {atom: price / size for atom, price in paid.items()}
    whole = {atom for atom in paid if atoms.rule_of(atom) in WHOLE}
    arrays, _ = with_raises(made, paid, whole, most)
    best, least, known, stalled = None, np.inf, 0.0, 0
    columns = np.arange(instance.num_tasks) * instance.num_nodes
    for _ in range(_ROUNDS):
        limit = None if ends is None else max(ends - time.perf_counter(), 0.1)
        answer = solve_small_milp(arrays, time_limit=limit, gap=1e-9, node_limit=nodes)
        before = known, least
        if answer.termination is LinearTermination.INFEASIBLE:  # none is left
            known = np.inf
        elif answer.bound is not None:
            known = max(known, size * answer.bound * (1 - 1e-9))
        if answer.x is None:
            break
        node = made.place(answer.x)
        excess = judged(node)
        if best is None or excess < least:
            best, least = node, excess
        stalled = stalled + 1 if (known, least) == before else 0
        late = stalled == _STALLED or (ends is not None and time.perf_counter() >= ends)
        # a model that was not solved to its end has no better bound without one placement
        if known >= least * (1 - _SAME) or late or answer.termination is not SOLVED:
            break
        row = Row(tuple((columns + node).tolist()), (1.0,) * len(node), len(node) - 1.0)
        arrays = arrays.with_rows([row])
    return (best if least < np.inf else None), min(known, least)


def _raise(instance: Instance, loose: Instance, rule: str, resource: int, i: int) -> float:
    """Return by how much a limit may be exceeded: as much as it is today."""
    own, other = instance.nodes, loose.nodes
    if rule == "capacity":
        share = instance.limits.max_utilisation[resource]
        return float((other.capacity[i, resource] - own.capacity[i, resource]) * share)
    if rule == "slot_capacity":
        return float(other.slot_capacity[i, resource] - own.slot_capacity[i, resource])
    if rule == "min_load":
        return float(own.min_load[i, resource] - other.min_load[i, resource])
    if rule in ("max_tasks", "slots"):
        return float(getattr(other, rule)[i] - getattr(own, rule)[i])
    if rule == "links":
        share = instance.limits.max_link_utilisation
        return float((loose.links.capacity[i] - instance.links.capacity[i]) * share)
    if rule == "max_load_distance":
        return float(loose.limits.max_load_distance or 0) - float(
            instance.limits.max_load_distance or 0
        )
    if rule == "sets":
        name = instance.sets.ids[i]
        if name not in loose.sets.ids:
            return float(instance.num_tasks)
        k = loose.sets.ids.index(name)
        return float(abs(int(loose.sets.limit[k]) - int(instance.sets.limit[i])))
    return 0.0


def _price(instance: Instance, weight: Floats, rule: str, resource: int, total: int) -> float:
    if rule in ("capacity", "min_load"):
        return float(weight[resource])
    if rule == "max_load_distance":
        return float(weight[0])
    if rule == "links":
        return 1.0 / total_of(instance, "links")
    if rule in ("slots", "slot_capacity"):
        return 0.0  # what is short there is told in other units: no bound is taken from it
    return 1.0 / total
