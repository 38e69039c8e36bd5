"""What saturates: the rate-driven resources of nodes, and the links of nodes or of several nodes.

A *place* is a node, or the nodes of a link that are neither one node nor all but one. What leaves
and what enters a place is all that its links and its crossing costs are reckoned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import CountRows, problem_of
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import Placement
from optim.figures.rate import saturating_room
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.place_rules import place_rules
from optim.kernels.room import move_budgets
from optim.rules import COUNTING, moving_at_most, without_limits
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from formulations.column_generation.problem import Counts, PatternProblem
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.classes import NodeClasses, TaskGroups


OUT, INTO, BOTH = 0, 1, 2
NEVER = 1e30
"""Utilisation of what carries nothing: a need without room."""


@dataclass(frozen=True, eq=False)
class Places:
    """P places: the N nodes first, then what links of several nodes enclose.

    Attributes
    ----------
    room
        (N, R) load that a rate-driven resource takes beside its background; ``inf`` for any, and
        for resources that the rate does not drive.
    barred
        (N,) nodes whose background is too much already: in use, they carry nothing.
    link
        (P, 3) traffic that may leave a place, enter it, and both together; ``inf`` for any.
    inside
        (P - N, N) nodes of the places that are several.
    """

    room: Floats
    barred: Bools
    link: Floats
    inside: Bools

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.room)

    @property
    def single(self) -> bool:
        """Whether nodes are all that saturates: no place is several of them."""
        return not len(self.inside)


def places_of(instance: Instance) -> Places:
    """Read off an instance what saturates."""
    room, excess = saturating_room(instance)
    links, count = instance.links, instance.num_nodes
    left = np.maximum(links.capacity * instance.limits.max_link_utilisation - links.background, 0.0)
    found: dict[bytes, Floats] = {
        _mask(count, [n]).tobytes(): np.full(3, np.inf) for n in range(count)
    }
    for i in np.flatnonzero(np.isfinite(left)).tolist():
        inside = _mask(count, links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]])
        side = (BOTH, OUT, INTO)[links.direction[i]]
        if inside.all():
            continue  # nothing crosses it
        if inside.sum() == count - 1 > 1:  # what leaves all but one enters that one
            inside, side = ~inside, (INTO, OUT, BOTH)[side]
        own = found.setdefault(inside.tobytes(), np.full(3, np.inf))
        own[side] = min(own[side], left[i])
    masks = np.frombuffer(b"".join(found), dtype=np.bool_).reshape(-1, count)
    return Places(room, excess, np.array(list(found.values())), masks[count:])


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


@helper
def share_of(need, room):  # type: ignore[no-untyped-def]
    """Return a need over the room for it."""
    if need <= 0.0 or room == np.inf:
        return 0.0
    return need / room if room > 0.0 else NEVER


@kernel(steps=lambda most, budget: 2.5 * min(budget, np.prod(most + 1.0)))
def list_patterns(  # type: ignore[no-untyped-def]
    sizes, load, rate, cost, most, hard, floor, room, link, barred, limit, budget, rows, values
):
    """Walk the contents of a node of one class, and keep those within the limit.

    What a node sends and receives follows from its own contents x alone, where every pair of tasks
    of two groups has the same traffic:

        out(x) = Σ_g x_g Σ_h rate[g, h] (size_h − x_h),
        in(x) = Σ_h x_h Σ_g rate[g, h] (size_g − x_g)

    Parameters
    ----------
    sizes, load, rate
        (G,) tasks of each group, (G, R) load of one, (G, G) traffic from one task to one other.
    cost
        (2, R) what a unit of traffic costs its sender and its receiver.
    most, hard, floor
        (G,) most tasks of a group, (R,) largest and smallest load.
    room, link, barred
        (R,) and (3,) what saturates (`places.Places`); whether a task there carries nothing.
    limit, budget
        Highest utilisation of interest; contents looked at before giving up.
    rows, values
        Output: (M, G) contents and (M,) highest utilisations.

    Returns
    -------
    int
        How many there are: -1 where they are more than M, or than the budget lets find.
    """
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
    depth, found, seen = 0, 0, 0
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
        empty = True
        for g in range(groups):
            empty = empty and count[g] == 0
        # the highest utilisation of the node, over its resources and the three kinds of its link
        value = NEVER if barred and not empty else 0.0
        for r in range(resources):
            need = used[groups, r]
            if cost[0, r] > 0.0 or cost[1, r] > 0.0:
                need += cost[0, r] * max(0.0, leaves) + cost[1, r] * max(0.0, enters)
            if need > hard[r] or need < floor[r]:
                fits = False
            value = max(value, share_of(need, room[r]))
        # sums that cancel leave a little behind: that is no traffic
        noise = 1e-12 * (out[groups] + into[groups])
        if leaves > noise:
            value = max(value, share_of(leaves, link[0]))
        if enters > noise:
            value = max(value, share_of(enters, link[1]))
        if leaves + enters > noise:
            value = max(value, share_of(leaves + enters, link[2]))
        if fits and value <= limit:
            if found == len(values):
                return -1
            rows[found] = count
            values[found] = value
            found += 1
    return found


_SAME = 1e-9
_FEW_TASKS = 12
"""Tasks up to which each may be a group of its own."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """An instance in counts.

    Attributes
    ----------
    groups, classes
        Interchangeable tasks, and identical nodes, under all rules that bind.
    problem
        Counts and loads; its gain is the traffic inside.
    rate
        (G, G) traffic from a task of one group to one of another.
    first
        (K,) a node of each class.
    free, price
        (G, K) tasks of a group that migrate nowhere when they are on a node of a class: all, or as
        many as are at home there; (G, B) what each further one takes of each budget of moves.
    most_in
        (K,) most tasks that may migrate onto a node.
    budget
        (B,) what there is of each budget.
    node_counts
        Rows of the bounds on numbers of nodes.
    """

    instance: Instance
    groups: TaskGroups
    classes: NodeClasses
    problem: PatternProblem
    places: Places
    rate: Floats
    first: Ints
    free: Counts
    price: Floats
    most_in: Counts
    budget: Floats
    node_counts: CountRows

    def patterns(self, limit: float, most: int, budget: int) -> Listed | None:
        """List what nodes may hold within a highest utilisation; ``None`` where it is too much.

        None of them counts for less than the fullest task: all placements have that.
        """
        counts, kinds, values = [], [], []
        for k in range(self.classes.num_classes):
            made = self._of_class(k, limit, most, budget)
            if made is None:
                return None
            counts.append(made[0])
            values.append(made[1])
            kinds.append(np.full(len(made[1]), k))
        value = np.maximum(np.concatenate(values), thread_load(self.instance))
        order = np.argsort(value, kind="stable")
        return Listed(np.concatenate(counts)[order], np.concatenate(kinds)[order], value[order])

    def _of_class(
        self, k: int, limit: float, most: int, budget: int
    ) -> tuple[Counts, Floats] | None:
        n, places, problem = self.first[k], self.places, self.problem
        instance = self.instance
        may = np.where(self.classes.target[self.groups.kind, k], self.groups.sizes, 0)
        # the table grows until all patterns fit, or there are too many
        size = 4096
        while True:
            rows = np.zeros((size, problem.num_classes), dtype=np.int64)
            values = np.zeros(size)
            found = list_patterns(
                self.groups.sizes.astype(np.float64), self.groups.load, self.rate,
                instance.crossing_cost, may, self.classes.room[k], self.classes.floor[k],
                places.room[n], places.link[n], bool(places.barred[n]), limit, budget, rows, values,
            )  # fmt: skip
            if found >= 0:
                break
            if size >= most:
                return None
            size = min(most, 8 * size)
        rows, values = rows[:found], values[:found]
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


def grouped(binding: Instance, instance: Instance, method: str, *, moves: bool = False) -> Grouped:
    """Write an instance in counts.

    Parameters
    ----------
    binding
        The instance without the limits that the rate measures.
    moves
        Whether moves are counted though no limit bounds them.

    Raises
    ------
    UnsuitableMethod
        A link encloses several nodes, or tasks are too unlike in whom they send to.
    """
    places = places_of(instance)
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
    kept = [places.room, places.link, places.barred]
    if homes:
        kept += [at_home, rules.most_in]
    classes = node_classes(_unmoved(binding) if homes else binding, np.column_stack(kept))
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
    return without_limits(instance, [rule.name for rule in COUNTING])


def _alike(instance: Instance, told: Any, method: str) -> tuple[TaskGroups, Floats]:
    """Group tasks that send and receive alike; each for itself where that fails and few do."""
    source, target, rate = instance.flows.directed()
    count = instance.num_tasks
    totals = np.column_stack([np.bincount(end, rate, count) for end in (source, target)])
    scale = max(float(totals.max(initial=0.0)), 1e-300)
    for also in (np.round(totals / scale, 12), np.arange(count)):
        groups = task_groups(instance, also if told is None else np.column_stack([also, told]))
        found = _directed(groups, source, target, rate, _SAME * scale)
        if found is not None:
            return groups, found
        if count > _FEW_TASKS:
            break
    reason = "needs groups of tasks that send to, and receive from, the same tasks alike"
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
