"""The arrays of the compiled search, from an instance and a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.problem import NEVER, Places, places_of
from heuristics.throughput.kernel import Fixed, State
from optim.figures.measures import migrated_tasks
from optim.kernels.flow_arrays import csr_starts, pairs_of, sides_of, totals_of
from optim.kernels.room import move_budgets, placing_floor, placing_masks, placing_room

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def fixed_of(binding: Instance, instance: Instance) -> Fixed:
    """Return what a search never changes; `binding` is without the limits that are measured."""
    places = places_of(instance)
    kind, _, target = placing_masks(binding)
    pair_starts, partners, pair_rates = pairs_of(instance)
    block_starts, sides, rates = sides_of(instance)
    around_starts, around = _around(places)
    return Fixed(
        instance.tasks.load.astype(np.float64), np.array(instance.crossing_cost),
        placing_room(binding), placing_floor(binding), places.room, places.link,
        places.barred, around_starts, around, places.inside,
        pair_starts, partners, pair_rates, block_starts, sides, rates, totals_of(instance),
        kind.astype(np.int64), target, *move_budgets(binding),
    )  # fmt: skip


def _around(places: Places) -> tuple[Any, Any]:
    node, place = np.nonzero(places.inside.T)
    return csr_starts(node, places.num_nodes), place + places.num_nodes


def state_of(fixed: Fixed, binding: Instance, instance: Instance, node: Ints) -> State:
    """Return the counts, loads and traffic of a placement of all tasks."""
    num_nodes, num_places = len(fixed.room), len(fixed.link)
    at = np.array(node, dtype=np.int64)
    held = np.bincount(at, minlength=num_nodes)
    used: Any = np.stack(
        [np.bincount(at, fixed.load[:, r], num_nodes) for r in range(fixed.load.shape[1])], axis=1
    )
    crossing = np.zeros((num_places, 2))
    members = np.zeros((2 * len(fixed.block_rate), num_places), dtype=np.int64)
    flows = instance.flows
    crossing[:num_nodes] = np.stack(flows.crossing(node, num_nodes), axis=1)
    for i, inside in enumerate(fixed.inside):
        place = np.where(inside, 0, 1)[at].astype(np.int32)
        out, into = flows.crossing(place, 2)
        crossing[num_nodes + i] = out[0], into[0]
    for b, block in enumerate(flows.blocks):
        for side, some in ((2 * b, block.sources), (2 * b + 1, block.targets)):
            here = np.bincount(at[some], minlength=num_nodes)
            members[side, :num_nodes] = here
            members[side, num_nodes:] = [here[mask].sum() for mask in fixed.inside]
    moved = migrated_tasks(binding, np.asarray(node, dtype=np.int32))
    left = fixed.budget - fixed.price[moved].sum(axis=0)
    return State(at, held, used, crossing, members, _fullness(fixed, held, used, crossing), left)


def _fullness(fixed: Fixed, held: Any, used: Any, crossing: Any) -> Any:
    """(P,) how full places are."""
    count = len(fixed.room)

    def shares(need: Any, room: Any) -> Any:
        found = np.where(need > 0, NEVER, 0.0)
        np.divide(need, room, out=found, where=(room > 0) & (need > 0))
        return found

    traffic = np.column_stack([crossing, crossing.sum(axis=1)])
    full = shares(traffic, fixed.link).max(axis=1)
    need = used + crossing[:count] @ fixed.cost
    own = np.where(held[:, None] > 0, shares(need, fixed.room), 0.0).max(axis=1)
    full[:count] = np.maximum(full[:count], own)
    full[:count][fixed.barred & (held > 0)] = NEVER
    return full
