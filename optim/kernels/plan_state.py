"""One placement under a search for any objective: its arrays, from an instance and figures.

All whole numbers are in one array and all others in a second, for a call that is not inlined counts
references to each array it is given, which in a search takes longer than all else. The first
entries of `ints` say how many there are and where each part of either array begins.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.figures.load import heaviest_first, saturating_room, spare_room
from optim.kernels.place_rules import (
    LISTED,
    RULE,
    SIZE,
    TOGETHER,
    counted_floor,
    counted_loads,
    distance_room,
    link_room,
    make_guard,
    move_budgets,
    place_rules,
    placing_masks,
)
from optim.kernels.place_rules import STARTS as SET_STARTS
from optim.util.compiled import draw, helper, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.traffic import FullBlock, LocalBlock
    from optim.kernels.place_rules import Guard, PlaceRules

    Whole = NDArray[np.int64]
    Real = NDArray[np.float64]


def pairs_of(instance: Instance) -> tuple[Any, Any, Any]:
    """CSR of the single task pairs, each in both directions: (E, 2) sent and received."""
    flows, count = instance.flows, instance.num_tasks
    low = np.minimum(flows.source, flows.target).astype(np.int64)
    high = np.maximum(flows.source, flows.target)
    key, where = np.unique(low * count + high, return_inverse=True)
    # one entry a pair: what the lower task sends (up), and what it receives (down)
    upwards = flows.source == low
    up = np.bincount(where.reshape(-1), np.where(upwards, flows.rate, 0.0), len(key))
    down = np.bincount(where.reshape(-1), np.where(upwards, 0.0, flows.rate), len(key))
    u, v = np.divmod(key, max(1, count))
    here, there = np.concatenate([u, v]), np.concatenate([v, u])
    sent, received = np.concatenate([up, down]), np.concatenate([down, up])
    order = np.argsort(here, kind="stable")
    return csr_starts(here, count), there[order], np.stack([sent, received], axis=1)[order]


def sides_of(instance: Instance) -> tuple[Any, Any, Any]:
    """CSR of the sides of blocks that tasks are on: 2·block where they send, one more where they
    receive; and the rate of each. Full blocks come first, of which it is that of a pair; then
    `local_first` streams, of which it is that of a sender."""
    blocks: tuple[FullBlock | LocalBlock, ...] = (*instance.flows.blocks, *instance.flows.local)
    tasks, sides = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for b, block in enumerate(blocks):
        for side, some in ((2 * b, block.sources), (2 * b + 1, block.targets)):
            tasks.append(some.astype(np.int64))
            sides.append(np.full(len(some), side))
    owner = np.concatenate(tasks)
    order = np.argsort(owner, kind="stable")
    rates = [block.pair_rate for block in instance.flows.blocks]
    rates += [near.rate for near in instance.flows.local]
    return (
        csr_starts(owner, instance.num_tasks),
        np.concatenate(sides)[order],
        np.array(rates, dtype=np.float64),
    )


def totals_of(instance: Instance) -> Any:
    """(T, 2) all that a task sends, and receives; `local_first` streams are left out."""
    flows, count = instance.flows, instance.num_tasks
    total = np.zeros((count, 2))
    for column, end in enumerate((flows.source, flows.target)):
        total[:, column] = np.bincount(end, flows.rate, count)
    for block in flows.blocks:
        total[block.sources, 0] += block.pair_rate * len(block.targets)
        total[block.targets, 1] += block.pair_rate * len(block.sources)
    return total


def csr_starts(owner: Any, count: int) -> Any:
    """(count + 1,) where the entries of each of some owners begin, once they are sorted."""
    counted = np.bincount(np.asarray(owner, dtype=np.int64), minlength=count)
    return np.concatenate([[0], np.cumsum(counted)]).astype(np.int64)


#: Counts: tasks, nodes, resources, places, links, figures, levels; what of traffic is followed;
#: whether the mean load depends on the placement; values that a figure has of nodes and links;
#: budgets of moves; sides before those of `local_first` streams.
(TASKS, NODES, RESOURCES, PLACES, LINKS, FIGURES, LEVELS, TRAFFIC, MEAN_MOVES, WIDTH,
 BUDGETS, PAIRED) = range(12)  # fmt: skip
#: Where parts of `ints` begin.
(NODE, HELD, FIRST, AFTER, BEFORE, KIND, MAY, LEAVES, HOME, STARTS, OTHER, SIDE_STARTS, SIDES,
 SIDE_TASKS_STARTS, SIDE_TASKS, MEMBERS, AROUND_STARTS, AROUND, INSIDE_OF, LINK_STARTS, LINKS_AT,
 DIRECTION, STAYS, FIGURE_KINDS, ORDER, GROWS, MOST_HELD) = range(12, 39)  # fmt: skip
#: Where parts of `reals` begin, after the sums.
(AGGREGATES, VALUES, LOAD, ROOM, FLOOR, SCALE, COST, RATE, SIDE_RATE, TOTAL, PRICE, TOLL, TAKEN,
 MOST, USED, CROSSING, BROKEN_AT, LINK_BROKEN_AT, LINK_BACKGROUND, LINK_CAPACITY, LINK_ROOM,
 LINK_LEFT, BACKGROUND, CAPACITY, RATE_ROOM, SPARE, WEIGHT, HEAT, PARAMETERS,
 WEIGHTS) = range(39, 69)  # fmt: skip
HEADER = 69

#: Sums at the beginning of `reals`: traffic inside nodes, moves, their cost, amounts by which rules
#: are broken, how many rows are, tasks left where they may not stay, members of sets in the wrong
#: place, the mean load.
INSIDE, MOVES, SPENT, AMOUNT, ROWS, LEFT, MISPLACED, MEAN = range(8)
SUMS = 8
#: Of each figure in `AGGREGATES`: the sum of powers, and a further sum.
POWERS, FURTHER = 0, 1
#: Of each figure in `PARAMETERS`; how many numbers a figure has there, and in `AGGREGATES`.
FIRST_OF, SECOND_OF, REFERENCE, THREADS, EACH = 0, 1, 2, 3, 4
#: At the end of `PARAMETERS`: the most load distance, all weight, all traffic.
MOST_DISTANCE, ALL_WEIGHT, ALL_TRAFFIC = range(3)

NOTHING, ONLY_INSIDE, ALL_CROSSING = 0, 1, 2  # What of traffic is followed.

#: Kinds of figures.
(K_INSIDE, K_MOVES, K_COST, K_USED, K_USED_CAPACITY, K_USED_SHARE, K_DISTANCE, K_SHARE, K_LINK,
 K_RATE, K_LOSS, K_DEVIATION, K_MEAN_DEVIATION, K_RESOURCE_DEVIATION) = range(14)  # fmt: skip
#: Sets of them, so that the order of kinds means nothing: of what saturates first; of the greatest
#: value of a node or link; of the nodes in use; of differences from a mean; of sums over nodes.
RATE_KINDS = (K_RATE, K_LOSS)
GREATEST_KINDS = (K_DISTANCE, K_SHARE, K_LINK, K_RATE, K_LOSS)
IN_USE_KINDS = (K_USED, K_USED_CAPACITY, K_USED_SHARE)
DEVIATION_KINDS = (K_DEVIATION, K_MEAN_DEVIATION, K_RESOURCE_DEVIATION)
NODE_SUM_KINDS = (*IN_USE_KINDS, *DEVIATION_KINDS)

_KINDS = {
    "imc_gain": K_INSIDE,
    "internode_traffic": K_INSIDE,
    "collocation_factor": K_INSIDE,
    "migrations": K_MOVES,
    "migration_cost": K_COST,
    "nodes_used": K_USED,
    "used_capacity": K_USED_CAPACITY,
    "used_utilisation": K_USED_SHARE,
    "load_distance": K_DISTANCE,
    "max_utilisation": K_SHARE,
    "max_link_utilisation": K_LINK,
    "sustainable_rate": K_RATE,
    "rate_after_loss": K_LOSS,
    "cpu_deviation": K_DEVIATION,
    "mean_absolute_deviation": K_MEAN_DEVIATION,
    "resource_deviation": K_RESOURCE_DEVIATION,
}
SEARCHED = tuple(_KINDS)
"""Figures whose changes the search follows."""

_UNLIMITED = 1e300
_ROUNDING = 1e-13
"""Of all that moves may take, what adding and subtracting is off by."""


class PlanState(NamedTuple):
    """A placement and all that its moves need; see the module."""

    ints: Whole
    reals: Real
    guard: Guard


def _laid_out(begin: int, parts: list[Any]) -> tuple[list[int], Any]:
    """Return where each part of an array begins, and the parts one after the other."""
    flat = [np.asarray(part).ravel() for part in parts]
    ends = np.cumsum([begin, *map(len, flat)]).tolist()
    return ends[:-1], np.concatenate(flat)


def weights_of(objective: Figure) -> tuple[tuple[str, ...], Real]:
    """Return the figures of an objective, and (levels, figures) their weights: less is better."""
    names = tuple(figure.name for figure in objective.singles)
    weights = np.zeros((len(objective.levels), len(names)))
    for row, level in zip(weights, objective.levels, strict=True):
        for weight, figure in level.parts or ((1.0, level),):
            row[names.index(figure.name)] += -weight if level.sense == "max" else weight
    return names, weights


def state_of(instance: Instance, binding: Instance, objective: Figure, node: Any) -> PlanState:
    """Return the state of a placement of all tasks; `plan_walk` adds it up.

    `instance`, `binding`: what is measured; what limits hold: without those that the objective
        measures, maybe with further resources at the end.
    `objective`: of figures in `SEARCHED`.
    `node`: (T,) nodes.
    """
    names, weights = weights_of(objective)
    rules = place_rules(binding)
    kinds = [_KINDS[name] for name in names]
    crossed = bool(instance.crossing_cost.any() or np.isfinite(binding.links.capacity).any())
    crossed = crossed or any(kind in (K_LINK, K_RESOURCE_DEVIATION) for kind in kinds)
    rated = any(kind in RATE_KINDS for kind in kinds)
    crossed = crossed or (rated and bool(np.isfinite(instance.links.capacity).any()))
    follows = ONLY_INSIDE if K_INSIDE in kinds else NOTHING
    follows = ALL_CROSSING if crossed and instance.has_traffic else follows
    inside, place_of_link = _places(instance, follows == ALL_CROSSING)
    load, room = counted_loads(binding)
    shape = (len(kinds), len(weights), follows)
    int_begins, ints = _ints(
        instance, binding, rules, node, kinds, inside, place_of_link, shape, load.shape[1]
    )
    width = instance.num_nodes + len(instance.links.ids)
    real_begins, reals = _reals(
        instance, binding, names, kinds, weights, load, room, len(inside), width
    )
    head = np.zeros(HEADER, dtype=np.int64)
    # the mean load of a plan depends on the plan only where what leaves a node costs load
    head[: PAIRED + 1] = (
        instance.num_tasks, instance.num_nodes, load.shape[1], instance.num_nodes + len(inside),
        len(place_of_link), len(kinds), len(weights), follows,
        follows == ALL_CROSSING and bool(instance.crossing_cost[:, 0].any()) and (
            K_DISTANCE in kinds or binding.limits.max_load_distance is not None
        ),
        width, len(move_budgets(binding)[1]), 2 * len(instance.flows.blocks),
    )  # fmt: skip
    head[NODE:AGGREGATES] = int_begins
    head[AGGREGATES:HEADER] = real_begins
    guard = make_guard(rules, np.asarray(node, dtype=np.int64))
    whole = np.concatenate([head, ints]).astype(np.int64)
    real = np.concatenate([np.zeros(SUMS), reals]).astype(np.float64)
    return PlanState(whole, real, guard)


def _ints(
    instance: Instance,
    binding: Instance,
    rules: PlaceRules,
    node: Any,
    kinds: list[int],
    inside: Any,
    place_of_link: Any,
    shape: tuple[int, int, int],
    width: int,
) -> tuple[list[int], Any]:
    tasks, nodes = instance.num_tasks, instance.num_nodes
    places, follows = nodes + len(inside), shape[2]
    kind, allowed, target = placing_masks(binding)
    starts, other, _ = pairs_of(instance) if follows else (np.zeros(tasks + 1), [], [])
    side_starts, sides, _ = sides_of(instance) if follows else (np.zeros(tasks + 1), [], [])
    flows = instance.flows
    members = [side for block in flows.blocks for side in (block.sources, block.targets)]
    members += [side for near in flows.local for side in (near.sources, near.targets)]
    members = members if follows else []
    around_node, around_place = np.nonzero(inside.T)
    order = np.argsort(place_of_link, kind="stable")
    most = instance.nodes.max_tasks
    return _laid_out(
        HEADER,
        [
            node,
            np.zeros(nodes),
            np.full(nodes, -1),
            np.full(tasks, -1),
            np.full(tasks, -1),
            kind,
            # bit 0: may be put there; bit 1: may be there at all, as tasks of leaving nodes
            target + 2 * allowed,
            _may_stay(binding),
            rules.home,
            starts,
            other,
            side_starts,
            sides,
            np.concatenate([[0], np.cumsum([len(side) for side in members])]),
            np.concatenate([np.zeros(0), *members]),
            np.zeros((len(members), places)),
            csr_starts(around_node, nodes),
            # places 0 … N-1 are the nodes, those of links of several nodes follow
            around_place + nodes,
            inside,
            csr_starts(place_of_link, places),
            order,
            instance.links.direction[: len(place_of_link)],
            instance.open_nodes,
            kinds,
            heaviest_first(instance),
            np.isin(np.arange(width), instance.rate_driven),
            np.where(most < 0, tasks, most),
        ],
    )


def _may_stay(instance: Instance) -> Any:
    """(T,) tasks that may be on leaving nodes, though they are to be taken off them."""
    home, leaving = instance.tasks.node, instance.nodes.leaving
    if instance.limits.into_leaving:
        return np.ones(instance.num_tasks, dtype=np.bool_)
    return (home >= 0) & leaving[home]


def _reals(
    instance: Instance,
    binding: Instance,
    names: tuple[str, ...],
    kinds: list[int],
    weights: Real,
    load: Any,
    room: Any,
    several: int,
    width: int,
) -> tuple[list[int], Any]:
    nodes, links, limits = instance.nodes, instance.links, binding.limits
    count, resources = load.shape[1], instance.num_resources
    more = count - resources
    mean = load.sum(axis=0) / max(1, len(load))
    floor = counted_floor(binding, count)
    _, _, rate = pairs_of(instance)
    _, _, side_rate = sides_of(instance)
    places = instance.num_nodes + several
    toll, most_taken = move_budgets(binding)
    far = limits.max_load_distance
    most = np.inf if far is None else distance_room(far, instance.due)
    stay = float(nodes.weight[instance.open_nodes].sum())
    parameters = [
        _parameters(instance, name, kind) for name, kind in zip(names, kinds, strict=True)
    ]
    return _laid_out(
        SUMS,
        [
            np.zeros((len(kinds), EACH)),
            np.zeros((len(kinds), 2 * width)),
            load,
            np.minimum(room, _UNLIMITED),
            np.maximum(floor, -_UNLIMITED),
            # excesses in average tasks: all resources weigh alike, in any unit
            np.where(mean > 0, 1.0 / np.where(mean > 0, mean, 1.0), 1.0),
            np.hstack([instance.crossing_cost, np.zeros((2, more))]),
            rate,
            side_rate,
            totals_of(instance),
            instance.tasks.migration_cost,
            toll,
            np.zeros(len(most_taken)),
            # counted up and down move by move, so sums may be off by rounding
            most_taken + _ROUNDING * toll.sum(axis=0),
            np.zeros((instance.num_nodes, count)),
            np.zeros((places, 2)),
            np.zeros(instance.num_nodes),
            np.zeros(len(links.ids)),
            links.background,
            np.where(links.capacity > 0, links.capacity, np.inf),
            link_room(binding),
            np.maximum(links.capacity * instance.limits.max_link_utilisation - links.background, 0),
            np.hstack([nodes.background, np.zeros((instance.num_nodes, more))]),
            np.hstack([nodes.capacity, np.full((instance.num_nodes, more), np.inf)]),
            np.hstack([_rate_room(instance), np.full((instance.num_nodes, more), np.inf)]),
            np.hstack([spare_room(instance), np.full((instance.num_nodes, more), np.inf)]),
            nodes.weight,
            np.zeros(instance.num_nodes),
            np.array([*np.ravel(parameters), most, stay, instance.total_traffic]),
            weights,
        ],
    )


def _parameters(instance: Instance, name: str, kind: int) -> tuple[float, float, float, float]:
    """Two numbers of a figure, the size of its powers, and what threads make of it."""
    total = instance.total_traffic
    if kind == K_INSIDE:
        # figure = a + b · traffic inside nodes
        sign = {"imc_gain": (0.0, 1.0), "internode_traffic": (total, -1.0)}
        linear = sign.get(name, (0.0, 1.0 / total if total > 0 else 0.0))
        return (*linear, 1.0, 0.0)
    if kind == K_USED_CAPACITY:
        whole = float(instance.nodes.capacity[:, 0].sum())
        return (whole, 0.0, 1.0, 0.0)
    if kind == K_USED:
        usual = instance.num_tasks / max(1, instance.num_nodes)
        return (2.0 * usual, 0.0, 1.0, 0.0)
    if kind in (K_DEVIATION, K_RESOURCE_DEVIATION):
        has_capacity = np.isfinite(instance.nodes.capacity) & (instance.nodes.capacity > 0)
        # the first resource that some staying node has a capacity of, as the figure takes
        first = int(np.argmax((has_capacity & instance.open_nodes[:, None]).any(axis=0)))
        room = instance.nodes.capacity[has_capacity[:, first] & instance.open_nodes, first].sum()
        usual = float(instance.totals[first]) / float(room) if room > 0 else 0.0
        return (float(first), usual, 1.0, 0.0)
    if kind in RATE_KINDS:
        least = float(instance.thread_rates.min(initial=np.inf))
        return (0.0, 0.0, 1.0, 1.0 / least if least > 0 else np.inf)
    return (0.0, 0.0, 1.0, 0.0)


def _rate_room(instance: Instance) -> Any:
    """(N, R) load that saturates: ``inf`` where none does, -1 where all is too much."""
    room, excess = saturating_room(instance)
    room[excess] = -1.0
    return room


def _places(instance: Instance, crossed: bool) -> tuple[Any, Any]:
    """(Q, N) nodes that links of several nodes enclose, and (L,) the place of each link, if any."""
    links, count = instance.links, instance.num_nodes
    place_of: dict[bytes, int] = {}
    masks, place = [np.zeros((0, count), dtype=np.bool_)], []
    for i in range(len(links.ids) if crossed else 0):
        listed = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]]
        mask = np.zeros(count, dtype=np.bool_)
        mask[listed] = True
        if mask.sum() == 1:
            place.append(int(listed[0]))
            continue
        if mask.tobytes() not in place_of:
            place_of[mask.tobytes()] = count + len(place_of)
            masks.append(mask[None])
        place.append(place_of[mask.tobytes()])
    return np.concatenate(masks), np.array(place, dtype=np.int64)


MOST_TASKS = 64  # Tasks that one move takes along at most.
_TRIES = 3


@helper
def _task_on_hottest_node(i, x, random):
    """Return, of some random tasks, the one on the hottest node."""
    best = draw(random, i[TASKS])
    for _ in range(_TRIES):
        other = draw(random, i[TASKS])
        if x[i[HEAT] + i[i[NODE] + other]] > x[i[HEAT] + i[i[NODE] + best]]:
            best = other
    return best


@helper
def _partner(i, task, random):
    """Return a random task that this one talks to; -1 for none."""
    begin, end = i[i[STARTS] + task], i[i[STARTS] + task + 1]
    first, last = i[i[SIDE_STARTS] + task], i[i[SIDE_STARTS] + task + 1]
    if end > begin and (last == first or uniform(random) < 0.5):
        return i[i[OTHER] + begin + draw(random, end - begin)]
    if last > first:
        side = i[i[SIDES] + first + draw(random, last - first)]
        side = side + 1 if side % 2 == 0 else side - 1
        low, high = i[i[SIDE_TASKS_STARTS] + side], i[i[SIDE_TASKS_STARTS] + side + 1]
        return i[i[SIDE_TASKS] + low + draw(random, high - low)]
    return -1


@helper
def _target(i, x, task, random):
    """Return a node to try: a partner's, the task's home, the coldest of a few, or any."""
    u = uniform(random)
    if i[TRAFFIC] != NOTHING and u < 0.45:
        partner = _partner(i, task, random)
        if partner >= 0:
            return i[i[NODE] + partner]
    home = i[i[HOME] + task]
    if u < 0.6 and home >= 0 and home != i[i[NODE] + task]:
        return home
    best = draw(random, i[NODES])
    if u < 0.85:
        for _ in range(_TRIES):
            other = draw(random, i[NODES])
            if x[i[HEAT] + other] < x[i[HEAT] + best]:
                best = other
    return best


@helper
def _one_of(i, node, random):
    """Return one of the first tasks of a node's list; -1 where it holds none."""
    num_tasks = i[i[HELD] + node]
    if num_tasks == 0:
        return -1
    task = i[i[FIRST] + node]
    # a walk along the list costs its length: the first dozen are as random as any, moves reorder it
    for _ in range(draw(random, min(num_tasks, 12))):
        task = i[i[AFTER] + task]
    return task


@helper
def propose(i, x, guard, random, tasks, targets):
    """Write tasks and where they go to; return how many, 0 for none."""
    task = _task_on_hottest_node(i, x, random) if uniform(random) < 0.6 else draw(random, i[TASKS])
    source = i[i[NODE] + task]
    # shares of the kinds of moves are chosen, not derived
    u = uniform(random)
    if u < 0.25:  # exchange with any task
        other = draw(random, i[TASKS])
        tasks[0], targets[0] = task, i[i[NODE] + other]
        tasks[1], targets[1] = other, source
        return 2
    target = _target(i, x, task, random)
    tasks[0], targets[0] = task, target
    if u < 0.6:
        return 1
    if u < 0.85:  # exchange, or chain, with a task of the node to go to
        other = _one_of(i, target, random)
        if other < 0:
            return 1
        tasks[1], targets[1] = other, source
        if u < 0.78:
            return 2
        targets[1] = _target(i, x, other, random)
        return 2
    if guard.active and u < 0.93:  # all that are to be together with it
        count = _set_of(guard.ints, task, random, tasks)
        if count > 1:
            for t in range(count):
                targets[t] = target
            return count
    if u < 0.96:  # together with one of the same node
        other = _partner(i, task, random) if i[TRAFFIC] != NOTHING else _one_of(i, source, random)
        if other >= 0 and other != task and i[i[NODE] + other] == source:
            tasks[1], targets[1] = other, target
            return 2
        return 1
    if u < 0.98 and i[i[HELD] + source] <= MOST_TASKS // 2:  # empty a node
        count, other = 0, i[i[FIRST] + source]
        scatter = uniform(random) < 0.5
        while other >= 0:
            tasks[count] = other
            targets[count] = _target(i, x, other, random) if scatter else target
            count += 1
            other = i[i[AFTER] + other]
        return count
    if i[i[HELD] + source] + i[i[HELD] + target] <= MOST_TASKS:  # exchange all of two nodes
        count = 0
        for step in range(2):
            here, there = (source, target) if step == 0 else (target, source)
            other = i[i[FIRST] + here]
            while other >= 0:
                tasks[count], targets[count] = other, there
                count += 1
                other = i[i[AFTER] + other]
        return count
    return 1


@helper
def _set_of(g, task, random, tasks):
    """Write the tasks that are to be together with one, by a random set; return how many."""
    begin, end = g[g[SET_STARTS] + task], g[g[SET_STARTS] + task + 1]
    if end == begin:
        return 0
    s = g[g[LISTED] + begin + draw(random, end - begin)]
    if g[g[RULE] + s] != TOGETHER or g[g[SIZE] + s] > MOST_TASKS:
        return 0
    count = 0
    for other in range(g[LISTED] - g[SET_STARTS] - 1):
        for at in range(g[g[SET_STARTS] + other], g[g[SET_STARTS] + other + 1]):
            if g[g[LISTED] + at] == s:
                tasks[count] = other
                count += 1
    return count
