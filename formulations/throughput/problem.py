"""The throughput problem on arrays: needs and room of nodes and links, groups of tasks, starts.

A *place* is a node, or the nodes of a link that are neither one node nor all but one. What leaves
and what enters a place is all that its links and its crossing costs are reckoned from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.column_generation.problem import CountRows, problem_of
from optim.errors import Problem, UnsuitableMethod
from optim.figures.load import saturating_room
from optim.figures.measures import Placement, imc_gain_of, internode_of, migrated_tasks, over
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.first_fit import packings
from optim.kernels.place_rules import (
    link_room,
    move_budgets,
    place_rules,
    placing_masks,
    placing_room,
)
from optim.kernels.plan_walk import NEVER, share_of
from optim.methods.reduce import emptied, may_be_rewritten, without_leaving
from optim.referee import Level, Termination, evaluate_indices
from optim.rules import MOVE_RULES, moving_at_most, without_limits
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from formulations.column_generation.problem import Counts, PatternProblem
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.classes import NodeClasses, TaskGroups
    from optim.methods.registry import Outcome, Request
    from optim.referee import Evaluation

    Run = Callable[[Instance, Request], Outcome]

OUT, INTO, BOTH = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Places:
    """P places: the N nodes first, then what links of several nodes enclose."""

    #: (N, R) load that a rate-driven resource takes beside its background; ``inf`` for any, and for
    #: resources that the rate does not drive.
    room: Floats
    barred: Bools  # (N,) nodes whose background is too much already: in use, they carry nothing.
    #: (P, 3) traffic that may leave a place, enter it, and both together; ``inf`` for any.
    link: Floats
    inside: Bools  # (P - N, N) nodes of the places that are several.

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.room)

    @property
    def single(self) -> bool:
        """Whether nodes are all that saturates: no place is several of them."""
        return not len(self.inside)


def places_of(instance: Instance, *, limits: bool = False) -> Places:
    """Read off an instance what saturates.

    `limits`: whether the rooms are limits, with the tolerance of their rows: a part of the
        capacity, which may be much more than the room beside a background.
    """
    room, excess = saturating_room(instance)
    links, count = instance.links, instance.num_nodes
    most = links.capacity * instance.limits.max_link_utilisation
    if limits:
        room = np.where(np.isfinite(room), np.maximum(placing_room(instance), 0.0), room)
        most = link_room(instance)
    left = np.maximum(most - links.background, 0.0)
    rooms: dict[bytes, Floats] = {
        _mask(count, [n]).tobytes(): np.full(3, np.inf) for n in range(count)
    }
    for i in np.flatnonzero(np.isfinite(left)).tolist():
        inside = _mask(count, links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]])
        side = (BOTH, OUT, INTO)[links.direction[i]]
        if inside.all():
            continue  # nothing crosses it
        if inside.sum() == count - 1 > 1:  # what leaves all but one enters that one
            inside, side = ~inside, (INTO, OUT, BOTH)[side]
        link_room_of = rooms.setdefault(inside.tobytes(), np.full(3, np.inf))
        link_room_of[side] = min(link_room_of[side], left[i])
    masks = np.frombuffer(b"".join(rooms), dtype=np.bool_).reshape(-1, count)
    return Places(room, excess, np.array(list(rooms.values())), masks[count:])


def _mask(count: int, nodes: Any) -> Bools:
    mask = np.zeros(count, dtype=np.bool_)
    mask[nodes] = True
    return mask


def load_of(instance: Instance, node: Ints) -> float:
    """Return the highest utilisation under a placement: 1 over its sustainable rate."""
    least = Placement(instance, np.asarray(node, dtype=np.int32)).rate
    return min(NEVER, 1.0 / least) if least > 0 else NEVER


def thread_load(instance: Instance) -> float:
    """Return the utilisation that the fullest task has in every placement; 0 without any limit."""
    least = float(instance.thread_rates.min(initial=np.inf))
    return min(NEVER, 1.0 / least) if least > 0 else NEVER


class Demand(NamedTuple):
    """What G groups of tasks need, where every pair of tasks of two groups has equal traffic."""

    sizes: Floats  # (G,) tasks of each group.
    load: Floats  # (G, R) load of one task.
    rate: Floats  # (G, G) traffic from one task to one other.
    cost: Floats  # (2, R) what a unit of traffic costs its sender and its receiver.


class Room(NamedTuple):
    """What a node of one class may hold."""

    most: Ints  # (G,) most tasks of a group.
    #: (R,) largest and smallest load.
    hard: Floats
    floor: Floats
    #: (R,) and (3,) what saturates, and whether a task there carries nothing (`Places`).
    room: Floats
    link: Floats
    barred: bool


@kernel(steps=lambda node, budget: 2.5 * min(budget, np.prod(node.most + 1.0)))
def list_patterns(demand, node, limit, budget, rows, values):  # type: ignore[no-untyped-def]
    """Walk the contents of a node of one class, and keep those within the limit.

    What a node sends and receives follows from its own contents x alone:

        out(x) = Σ_g x_g Σ_h rate[g, h] (size_h − x_h),
        in(x) = Σ_h x_h Σ_g rate[g, h] (size_g − x_g)

    `limit`, `budget`: highest utilisation of interest; contents looked at before giving up.
    `rows`, `values`: output: (M, G) contents and (M,) highest utilisations.
    Returns how many there are: -1 where they are more than M, or than the budget lets find.
    """
    sizes, load, rate, cost = demand
    most, hard, floor, room, link, barred = node
    groups, resources = load.shape
    last = groups - 1
    sends, takes = np.zeros(groups), np.zeros(groups)
    for g in range(groups):
        for h in range(groups):
            sends[g] += rate[g, h] * sizes[h]
            takes[g] += rate[h, g] * sizes[h]
    used = np.zeros((groups + 1, resources))
    out, into, inside = np.zeros(groups + 1), np.zeros(groups + 1), np.zeros(groups + 1)
    among = np.zeros((groups + 1, groups))
    count = np.zeros(groups, dtype=np.int64)
    count[0] = -1
    depth, num_found, seen = 0, 0, 0
    while depth >= 0:
        count[depth] += 1
        c = count[depth]
        fits = c <= most[depth]
        if fits:
            for r in range(resources):
                amount = used[depth, r] + c * load[depth, r]
                used[depth + 1, r] = amount
                if amount > hard[r] or share_of(amount, room[r]) > limit:
                    fits = False  # nor do more of them
                    break
        if not fits:
            depth -= 1
            continue
        seen += 1
        if seen > budget:
            return -1
        out[depth + 1] = out[depth] + c * sends[depth]
        into[depth + 1] = into[depth] + c * takes[depth]
        # traffic among the tasks chosen so far: with the groups before, and within the group
        pairs = c * among[depth, depth] + c * c * rate[depth, depth]
        inside[depth + 1] = inside[depth] + pairs
        if depth < last:
            for h in range(depth + 1, groups):
                both = rate[depth, h] + rate[h, depth]
                among[depth + 1, h] = among[depth, h] + c * both
            depth += 1
            count[depth] = -1
            continue
        leaves, enters = out[groups] - inside[groups], into[groups] - inside[groups]
        if leaves < 1e-3 * out[groups] or enters < 1e-3 * into[groups]:
            leaves, enters = _crossing(count, sizes, rate)
        value = NEVER if barred and count.any() else 0.0
        value = _utilisation(value, used[groups], cost, leaves, enters, hard, floor, room, link)
        if value <= limit:
            if num_found == len(values):
                return -1
            rows[num_found] = count
            values[num_found] = value
            num_found += 1
    return num_found


@helper
def _crossing(count, sizes, rate):  # type: ignore[no-untyped-def]
    """Add up what a node sends and receives without differences of large sums, that round."""
    leaves, enters = 0.0, 0.0
    for g in range(len(count)):
        for h in range(len(count)):
            leaves += count[g] * rate[g, h] * (sizes[h] - count[h])
            enters += count[g] * rate[h, g] * (sizes[h] - count[h])
    return leaves, enters


@inlined
def _utilisation(  # type: ignore[no-untyped-def]
    least, used, cost, leaves, enters, hard, floor, room, link
):
    """Return the highest utilisation over resources and the three kinds of a node's link.

    `least` where all of them are below it; infinite where a load is above its limit or below its
    floor.
    """
    value = least
    for r in range(len(used)):
        need = used[r]
        if cost[0, r] > 0.0 or cost[1, r] > 0.0:
            need += cost[0, r] * leaves + cost[1, r] * enters
        if need > hard[r] or need < floor[r]:
            value = np.inf
        value = max(value, share_of(need, room[r]))
    value = max(value, share_of(leaves, link[0]), share_of(enters, link[1]))
    return max(value, share_of(leaves + enters, link[2]))


_SAME = 1e-9
_FEW_TASKS = 12
"""Tasks up to which each may be a group of its own."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """An instance in counts."""

    instance: Instance
    #: Interchangeable tasks, and identical nodes, under all rules that bind.
    groups: TaskGroups
    classes: NodeClasses
    problem: PatternProblem  # Counts and loads; its gain is the traffic inside.
    places: Places
    rate: Floats  # (G, G) traffic from a task of one group to one of another.
    first: Ints  # (K,) a node of each class.
    #: (G, K) tasks of a group that migrate nowhere when they are on a node of a class: all, or as
    #: many as are at home there; (G, B) what each further one takes of each budget of moves.
    free: Counts
    price: Floats
    most_in: Counts  # (K,) most tasks that may migrate onto a node.
    budget: Floats  # (B,) what there is of each budget.
    node_counts: CountRows  # Rows of the bounds on numbers of nodes.

    def patterns(self, limit: float, most: int, budget: int) -> Listed | None:
        """List what nodes may hold within a highest utilisation; ``None`` where it is too much.

        None of them counts for less than the fullest task: all placements have that.
        """
        counts, kinds, values = [], [], []
        for k in range(self.classes.num_classes):
            listed = self._of_class(k, limit, most, budget)
            if listed is None:
                return None
            counts.append(listed[0])
            values.append(listed[1])
            kinds.append(np.full(len(listed[1]), k))
        value = np.maximum(np.concatenate(values), thread_load(self.instance))
        order = np.argsort(value, kind="stable")
        return Listed(np.concatenate(counts)[order], np.concatenate(kinds)[order], value[order])

    def _of_class(
        self, k: int, limit: float, most: int, budget: int
    ) -> tuple[Counts, Floats] | None:
        n, places, problem = self.first[k], self.places, self.problem
        instance = self.instance
        may = np.where(self.classes.target[self.groups.kind, k], self.groups.sizes, 0)
        demand = Demand(
            self.groups.sizes.astype(np.float64), self.groups.load, self.rate,
            instance.crossing_cost,
        )  # fmt: skip
        node = Room(
            may, self.classes.room[k], self.classes.floor[k], places.room[n], places.link[n],
            bool(places.barred[n]),
        )  # fmt: skip
        # the table grows until all patterns fit, or there are too many
        size = 4096
        while True:
            rows = np.zeros((size, problem.num_classes), dtype=np.int64)
            values = np.zeros(size)
            num_patterns = list_patterns(demand, node, limit, budget, rows, values)
            if num_patterns >= 0:
                break
            if size >= most:
                return None
            size = min(most, 8 * size)
        rows, values = rows[:num_patterns], values[:num_patterns]
        # more than the inflow of such a node would have to migrate onto it
        keep = self.paying(rows, np.array([k])).sum(axis=1) <= self.most_in[k]
        return rows[keep], values[keep]

    def paying(self, counts: Counts, node_class: Counts) -> Counts:
        """(P, G) tasks that have to migrate onto nodes of these classes with these contents."""
        return np.maximum(counts - self.free[:, node_class].T, 0)


@dataclass(frozen=True, eq=False)
class Listed:
    """P patterns by their highest utilisation: (P, G) counts, (P,) node class, (P,) value."""

    counts: Counts
    node_class: Counts
    value: Floats

    def __len__(self) -> int:
        return len(self.value)


def grouped(
    binding: Instance, instance: Instance, method: str, *, moves: bool = False, limits: bool = False
) -> Grouped:
    """Write an instance in counts.

    `binding`: the instance without the limits that the rate measures.
    `moves`: whether moves are counted though no limit bounds them.
    `limits`: whether what saturates is a limit (`places_of`).
    Raises `UnsuitableMethod`: a link encloses several nodes, or tasks are too unlike in whom they
        send to.
    """
    places = places_of(instance, limits=limits)
    if not places.single:
        where = ", ".join(np.array(instance.nodes.ids)[places.inside[0]][:5])
        reason = f"needs links of one node each, or of all but one; one is of {where}"
        remedy = "use throughput-milp or throughput-search"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))
    if moves:
        binding = moving_at_most(binding, binding.num_tasks)
    rules, (price, budget) = place_rules(binding), move_budgets(binding)
    counted = rules.bounds_inflow or len(budget) > 0
    homes = counted and not rules.has_copies
    home = binding.tasks.node
    alike = np.column_stack([home >= 0, price]) if homes else None
    groups, rate = _alike(_unmoved(binding) if homes else binding, alike, method)
    task = groups.members[groups.indptr[:-1]].astype(np.int64)
    at_home = groups.counts(home, binding.num_nodes) if homes else np.zeros((len(home), 0))
    node_keys = [places.room, places.link, places.barred]
    if homes:
        node_keys += [at_home, rules.most_in]
    classes = node_classes(_unmoved(binding) if homes else binding, np.column_stack(node_keys))
    first = classes.members[classes.indptr[:-1]]
    free = np.repeat(groups.sizes[:, None], classes.num_classes, axis=1).astype(np.int64)
    if homes:
        free[home[task] >= 0] = at_home[first].T[home[task] >= 0]
    elif counted:
        for k, n in enumerate(first.tolist()):
            free[rules.pays(task, np.full(len(task), n)), k] = 0
    return Grouped(
        instance, groups, classes, problem_of(binding, groups, classes), places, rate,
        first, free, price[task], rules.most_in[first], budget,
        CountRows(counts=rules.counts, one=task),
    )  # fmt: skip


def _unmoved(instance: Instance) -> Instance:
    """Return the instance without bounds on moves: tasks are equal that differ in their home."""
    return without_limits(instance, [rule.name for rule in MOVE_RULES])


def _alike(instance: Instance, keys: Any, method: str) -> tuple[TaskGroups, Floats]:
    """Group tasks that send and receive alike; each for itself where that fails and few do."""
    source, target, rate = instance.flows.directed()
    count = instance.num_tasks
    totals = np.column_stack([np.bincount(end, rate, count) for end in (source, target)])
    scale = max(float(totals.max(initial=0.0)), 1e-300)
    for also in (np.round(totals / scale, 12), np.arange(count)):
        groups = task_groups(instance, also if keys is None else np.column_stack([also, keys]))
        group_rate = _directed(groups, source, target, rate, _SAME * scale)
        if group_rate is not None:
            return groups, group_rate
        if count > _FEW_TASKS:
            break
    reason = "needs groups of tasks with equal traffic to and from the same tasks"
    raise UnsuitableMethod(
        Problem(method, None, reason, "use throughput-milp or throughput-search")
    )


def _directed(
    groups: TaskGroups, source: Ints, target: Ints, rate: Floats, noise: float
) -> Floats | None:
    """(G, G) traffic of one directed pair; ``None`` where pairs of two groups are not alike."""
    count, total = groups.num_groups, len(groups.group)
    key, where = np.unique(source.astype(np.int64) * total + target, return_inverse=True)
    each = np.bincount(where.reshape(-1), rate, len(key)).astype(np.float64)
    u, v = np.divmod(key, max(1, total))
    flat = groups.group[u].astype(np.int64) * count + groups.group[v]
    pairs = np.outer(groups.sizes, groups.sizes) - np.diag(groups.sizes)
    seen = np.bincount(flat, minlength=count * count).reshape(count, count)
    summed = np.bincount(flat, each, count * count).astype(np.float64).reshape(count, count)
    mean = np.divide(summed, pairs, out=np.zeros_like(summed), where=pairs > 0)
    if ((seen > 0) & (seen < pairs) & (mean > noise)).any():
        return None
    if (np.abs(each - mean.ravel()[flat]) > noise).any():
        return None
    return mean


# What the methods that maximise the sustainable rate share: starts, ranks, and how they end.

KNOWN_FORMS = (
    LOADS | OF_MOVES | {Form.NODE_FLOOR, Form.LINK_CAPACITY, Form.CROSSING, Form.LOCAL_FIRST}
)
"""Forms of limits that all of them keep; those that the rate measures are no limits to them.
Without links and crossing costs no traffic is in the rate, `local_first` or not.
"""

LOSS, MOVES, NODES = "rate_after_loss", "migrations", "nodes_used"
"""What is asked instead: the rate after a loss; and, where the rate is given so that capacities and
links bind, how much it takes."""

FULL = 1.0 + 0.5e-9
"""Utilisation up to which a node is not too full: a part of the referee's tolerance."""

STARTS = ("throughput-search",)
"""Searches that exact methods never fall below where they do not prove their plan."""


def check_moves(instance: Instance, objective: str, method: str) -> None:
    """Refuse to count moves where no task has a node.

    Raises `UnsuitableMethod`: that is so.
    """
    if objective == MOVES and not (instance.tasks.node >= 0).any():
        reason = "needs tasks[].node (the current placement) to count moves"
        remedy = "give each task its node, or ask for the fewest nodes: --objective nodes_used"
        raise UnsuitableMethod(Problem(method, None, reason, remedy))


def good_starts(binding: Instance, request: Request, *, searched: bool) -> list[Ints]:
    """Return what is known and keeps all that binds: warm start, current placement, packings.

    Nothing on leaving nodes that may go elsewhere: models do not know such placements.

    `binding`: the instance without the limits that the rate measures.
    `searched`: whether the searches of the family are asked, too.
    """
    candidates = [] if request.warm_start is None else [np.asarray(request.warm_start)]
    if binding.has_current and not request.cold:
        candidates.append(binding.tasks.node)
    start = request.start() if searched else None
    candidates += [] if start is None else [start.node]
    feasible = _feasible(binding, candidates)
    return feasible if feasible or request.cold else _feasible(binding, packings(binding))[:1]


def fullest_last(instance: Instance, starts: Iterable[Ints]) -> Ints | None:
    """Return the start whose fullest place is least full, of such the one of least traffic."""

    def key(node: Ints) -> tuple[float, float]:
        return float(f"{load_of(instance, node):.9e}"), -imc_gain_of(instance, node)

    return min(starts, key=key, default=None)


def counted(instance: Instance, node: Ints, objective: str) -> float:
    """Return the moves, or the nodes in use, of a placement of all tasks."""
    if objective == NODES:
        return float(len(np.unique(node)))
    return float(len(migrated_tasks(instance, node)))


def _feasible(binding: Instance, candidates: Iterable[Ints]) -> list[Ints]:
    kind, _, target = placing_masks(binding)
    return [
        node
        for node in candidates
        if (node >= 0).all()
        and target[kind, node].all()
        and evaluate_indices(binding, node.astype(np.int32)).feasible
    ]


def rank_of(
    instance: Instance, *, rate_first: bool = False
) -> Callable[[Ints, Evaluation], tuple[float, ...] | None]:
    """Rank plans: what is left on leaving nodes, the rate, traffic between nodes, moves."""

    def rank(node: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
        rate, traffic = evaluation.sustainable_rate, evaluation.internode_traffic
        if rate is None or traffic is None:
            return None
        left = int((instance.nodes.leaving[node] & instance.has_open_node).sum())
        whole = max(instance.total_traffic, 1e-300)
        moves = float(evaluation.migrations or 0)
        first = (left, float(f"{-rate:.9e}"))
        return *(first[::-1] if rate_first else first), round(traffic / whole, 9), moves

    return rank


def finished(instance: Instance, outcome: Outcome, low: float) -> Outcome:
    """Write the bound, the levels below the rate and notes into an outcome.

    `low`: highest utilisation that every placement has at least.
    """
    outcome.bound = rate_at(low) if low > 0 else None
    outcome.rank = rank_of(instance)
    if outcome.node is None:
        return outcome
    outcome.claimed = rate_at(load_of(instance, outcome.node))
    if not outcome.levels:
        outcome.levels = (traffic_level(instance, outcome.node),)
    if (instance.tasks.node >= 0).any():
        moves = float(len(migrated_tasks(instance, outcome.node)))
        outcome.levels += (Level("migrations", "min", moves, None, "count"),)
    outcome.notes += short_words(outcome.claimed, outcome.bound)
    return outcome


def traffic_level(instance: Instance, node: Ints, bound: float | None = None) -> Level:
    """Return the second level: traffic between nodes."""
    crossing = internode_of(instance, node)
    return Level("internode_traffic", "min", crossing, bound, "rate")


def rate_at(load: float) -> float:
    """Return the rate at which a highest utilisation is 1."""
    return 1.0 / load if 0 < load < 1e29 else 0.0


def short_words(rate: float, bound: float | None) -> list[str]:
    """Say by how much the current input is missed, and whether that is proven."""
    if not over(1.0, rate):
        return []
    note = f"the plan carries {rate:.4g} of the current input, {1 - rate:.1%} too little"
    if bound is not None and bound < 1:
        note += f"; no placement carries more than {bound:.4g}"
    return [note]


# Leaving nodes: emptied where a plan that empties them carries the input, else not all of them.
#
# A plan that leaves nothing on leaving nodes is looked for first, and is the answer where it
# carries the current input. Where none does, tasks may stay, as the file allows: the same problem
# is solved again with leaving nodes open to the tasks of such nodes, and what is proved then is of
# all plans.

_EQUAL_LOADS = 1e-9


def emptied_first(run: Run) -> Run:
    """Make of a method one that empties leaving nodes, and gives way where nothing else carries.

    `run`: solves an instance without leaving nodes, and keeps lists of allowed nodes.
    """

    @wraps(run)
    def both(instance: Instance, request: Request) -> Outcome:
        assumed = emptied(instance)
        if not assumed or not may_be_rewritten(instance):
            outcome = run(instance, request)
            outcome.assumes += assumed
            return outcome
        outcome = run(without_leaving(instance, may_stay=False), request)
        whole = None
        if not _done(instance, request, outcome):
            change = partial(without_leaving, may_stay=True)
            request.rewritten(change)
            whole = run(change(instance), request)
        if whole is None or (
            whole.node is None and whole.termination is not Termination.INFEASIBLE
        ):
            outcome.assumes += assumed
            if outcome.rank is None or request.objective not in (MOVES, NODES):
                # emptying gives way where it does not carry the input, whatever the clock says
                short = _is_short(instance, request, outcome)
                outcome.rank = rank_of(instance, rate_first=short)
            outcome.termination = outcome.termination if whole is None else whole.termination
            return outcome
        if outcome.node is not None and whole.node is not None:
            loads = load_of(instance, outcome.node), load_of(instance, whole.node)
            if loads[0] <= loads[1] * (1 + _EQUAL_LOADS):
                whole.node, whole.claimed = outcome.node, outcome.claimed
                whole.levels = tuple(replace(level, bound=None) for level in outcome.levels)
        whole.rank = rank_of(instance, rate_first=True)
        whole.notes.append("found no plan that empties the leaving nodes and carries the input")
        return whole

    return both


def _done(instance: Instance, request: Request, outcome: Outcome) -> bool:
    """Whether the plan carries the input, or all that its tasks can, or is asked to carry less."""
    # and where no time is left
    if outcome.termination is Termination.INTERRUPTED or request.remaining() == 0:
        return True
    return outcome.node is not None and not _is_short(instance, request, outcome)


def _is_short(instance: Instance, request: Request, outcome: Outcome) -> bool:
    """Whether there is a plan for the rate, and it does not carry the input."""
    if outcome.node is None or request.objective in (LOSS, MOVES, NODES):
        return False
    most = max(FULL, thread_load(instance) * (1 + _EQUAL_LOADS))
    return load_of(instance, outcome.node) > most


# Utilisations that no placement stays below, by counting alone.
#
# What one task can use; all load of a resource over all room for it, the heaviest task on the best
# node; and, since no node holds much of two operators, how much of the full stream between them
# crosses at least, which the links and the crossing costs have to take
# (docs/proofs/forced-crossing.md).


_ROUNDING = 1e-9
_HALVINGS = 60
_TOP = 1e12


def least_load(instance: Instance, lost: int | None = None) -> float:
    """Return a utilisation that every placement has at least somewhere.

    `lost`: a node that takes no part.
    """
    left = np.arange(instance.num_nodes) != lost
    places = places_of(instance)
    room, link = places.room[left], places.link[: instance.num_nodes][left]
    least = thread_load(instance)
    for r in instance.rate_driven:
        whole, best = float(room[:, r].sum()), float(room[:, r].max(initial=0.0))
        if np.isfinite(whole) and instance.total_load[r] > 0:
            heaviest = float(instance.tasks.load[:, r].max())
            for need, most in ((float(instance.total_load[r]), whole), (heaviest, best)):
                least = max(least, min(NEVER, need / most) if most > 0 else NEVER)
    streams = _streams(instance, room, left)
    return least if least >= NEVER else _raised(instance, streams, room, link, least)


class _Streams(NamedTuple):
    """S full streams between two operators each."""

    rate: Floats  # (S,) rates.
    #: (S, 2, R) least load of all tasks of its two operators, and of one of them.
    load: Floats
    each: Floats
    most: Floats  # (R,) the largest room of a node; of rate-driven resources at a utilisation of 1.
    driven: Bools  # (R,) which these are.

    def crossing(self, full: float) -> float:
        """Return traffic that crosses at least where nothing is fuller than that."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(self.driven & np.isfinite(self.most), self.most * full, self.most)
            both = np.where(self.load.sum(axis=1) > 0, room / self.load.sum(axis=1), np.inf)
            count = np.floor(room / self.each + _ROUNDING)
            one = np.where(self.each > 0, count * self.each / self.load, np.inf)
        inside = np.minimum(both.min(axis=1), one.min(axis=(1, 2)))
        return float(self.rate @ (1.0 - np.clip(inside * (1 + _ROUNDING), 0.0, 1.0)))


def _streams(instance: Instance, room: Floats, left: Bools) -> _Streams:
    driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
    hard = np.maximum(placing_room(instance)[left], 0.0)
    most = np.where(driven, room.max(axis=0, initial=0.0), hard.max(axis=0, initial=0.0))
    rates: list[float] = []
    loads: list[Any] = []
    each: list[Any] = []
    for stream in instance.streams:
        ends = [instance.tasks_of(o) for o in (stream.source, stream.target)]
        spread = stream.pattern == "full" and not stream.replaced and stream.rate > 0
        if spread and stream.source != stream.target and all(map(len, ends)):
            least = np.array([instance.tasks.load[end].min(axis=0) for end in ends])
            rates.append(stream.rate)
            each.append(least)
            loads.append(least * np.array([[len(end)] for end in ends]))
    shape = (len(rates), 2, instance.num_resources)
    return _Streams(
        np.array(rates), np.array(loads).reshape(shape), np.array(each).reshape(shape), most, driven
    )


def _raised(
    instance: Instance, streams: _Streams, room: Floats, link: Floats, least: float
) -> float:
    """Raise a bound to where links and nodes take what has to cross."""
    if not len(streams.rate):
        return least
    ways = [
        (1.0, float(np.minimum(link[:, OUT], link[:, BOTH]).sum())),
        (1.0, float(np.minimum(link[:, INTO], link[:, BOTH]).sum())),
        (2.0, float(np.minimum(link[:, BOTH], link[:, OUT] + link[:, INTO]).sum())),
    ]
    rooms = [(r, float(room[:, r].sum())) for r in instance.rate_driven]
    price = instance.crossing_cost.sum(axis=0)

    def taken(full: float) -> bool:
        crossing, most = streams.crossing(full), full * (1 + _ROUNDING)
        if any(times * crossing > most * cap for times, cap in ways if np.isfinite(cap)):
            return False
        needs = ((instance.total_load[r] + price[r] * crossing, cap) for r, cap in rooms)
        return not any(need > most * cap for need, cap in needs if np.isfinite(cap))

    low, high = least, max(1.0, 2 * least)
    if taken(low):
        return least
    while not taken(high):
        low, high = high, 4 * high
        if low > _TOP:
            return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if taken(middle) else (middle, high)
    return low
