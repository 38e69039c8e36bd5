"""Classes of interchangeable tasks and of identical nodes.

Two tasks are interchangeable when exchanging them changes nothing: same load, same allowed nodes,
same traffic with every third task, and equal under every rule that is set (`optim.rules.Rule`).
That is an equivalence, and within a class every pair of tasks
has the same traffic. Rows of the traffic matrix are compared by a hash that is linear over
the partners, so that a full stream costs O(a + b) and not O(a·b).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optim.kernels.place_rules import placing_floor, placing_masks, placing_room
from optim.rules import node_keys, task_keys

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

    Counts = NDArray[np.int64]
    Order = NDArray[np.int64]

_SEED = 0x5F3759DF
_DIGITS = 12
_LOCAL = np.array([0x2545F4914F6CDD1D, 0x1D8E4E27C47D124F], dtype=np.uint64)
_Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """G classes of interchangeable tasks, numbered by their first member."""

    group: Ints  # (T,) class of each task.
    #: Tasks of each class, ascending, in CSR form.
    indptr: Ints
    members: Ints
    load: Floats  # (G, R) load of one task.
    #: (G,) kind of restriction, as `optim.kernels.place_rules.restriction_kinds` numbers them.
    kind: Ints

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Ints:
        """(G,) tasks of each class."""
        return np.diff(self.indptr)

    def tasks_of(self, group: int) -> Ints:
        """Tasks of one class, ascending."""
        return self.members[self.indptr[group] : self.indptr[group + 1]]

    def counts(self, node: Ints, num_nodes: int) -> NDArray[np.int64]:
        """(N, G) tasks of each class on each node under (T,) node indices."""
        flat = node.astype(np.int64) * self.num_groups + self.group
        placed = node >= 0
        table = np.bincount(flat[placed], minlength=num_nodes * self.num_groups)
        return table.reshape(num_nodes, self.num_groups)

    def rates(self, instance: Instance) -> Floats:
        """(G, G) symmetric: traffic of one pair of tasks, the diagonal for pairs within a class."""
        count = self.num_groups
        flows = instance.flows
        flat = self.group[flows.source].astype(np.int64) * count + self.group[flows.target]
        # what tasks of g send to those of h, then both directions; over the number of pairs of the
        # two classes it is the rate of one pair, as all of them are alike
        summed = np.bincount(flat, flows.rate, count * count).astype(np.float64)
        total = summed.reshape(count, count)
        for block in flows.blocks:
            senders = np.bincount(self.group[block.sources], minlength=count)
            receivers = np.bincount(self.group[block.targets], minlength=count)
            total += block.pair_rate * np.outer(senders, receivers)
        total = total + total.T
        # n·m pairs of two classes, n·(n-1) ordered pairs within one
        size = self.sizes.astype(np.float64)
        pairs = np.outer(size, size) - np.diag(size)
        rates = np.divide(total, pairs, out=np.zeros_like(total), where=pairs > 0)
        return np.asarray(rates)


@dataclass(frozen=True, eq=False)
class NodeClasses:
    """K classes of identical nodes, numbered by their first member; unusable nodes have none."""

    node_class: Ints  # (N,) class of each node, -1 for a node that may take no task at all.
    #: Nodes of each class, ascending, in CSR form.
    indptr: Ints
    members: Ints
    #: (K, R) load that may and that must be placed on a node (`inf` and `-inf` for none), the
    #: tolerance of `optim.kernels.place_rules` included.
    room: Floats
    floor: Floats
    target: Bools  # (kinds, K) whether tasks of a kind of restriction may be placed there.

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Ints:
        """(K,) nodes of each class."""
        return np.diff(self.indptr)

    def nodes_of(self, node_class: int) -> Ints:
        """Nodes of one class, ascending."""
        return self.members[self.indptr[node_class] : self.indptr[node_class + 1]]


def task_groups(instance: Instance, also: Any = None) -> TaskGroups:
    """Find the classes of interchangeable tasks.

    `also`: (T,) or (T, k) numbers in which such tasks must be alike, too.

    Notes
    -----
    Sound and, where streams and pairs do not overlap, complete: a pair of tasks whose traffic is
    given partly by a full stream and partly by single pairs is compared part by part.
    """
    load = _rounded(instance.tasks.load)
    kind = _merged_kinds(instance)
    keys_of_rules = [_words(also, len(kind)), _words(task_keys(instance), len(kind))]
    keys = np.column_stack([load.view(np.uint64), kind.astype(np.uint64), *keys_of_rules])
    rows = _row_hashes(instance)
    alike = _numbered(np.column_stack([keys, rows]))
    alike = _joined_neighbours(instance, keys, rows, alike)
    group = _by_first_member(alike)
    indptr, order = listed(group)
    first = order[indptr[:-1]]
    return TaskGroups(group, indptr, order, instance.tasks.load[first], kind[first])


def node_classes(instance: Instance, also: Any = None) -> NodeClasses:
    """Find the classes of nodes that differ in nothing a placement can feel.

    `also`: (N,) or (N, k) numbers in which they must be alike, too.
    """
    kind, _, target = placing_masks(instance)
    used = np.zeros(len(target), dtype=np.bool_)
    used[kind] = True
    room, floor = placing_room(instance), placing_floor(instance)
    # a node is like another if each kind of task may be on both or on neither
    bits = np.packbits(target, axis=0).T
    # + 0.0 makes -0 into 0, whose bits are compared
    numbers = np.column_stack([room, floor]) + 0.0
    keys_of_rules = [_words(also, len(numbers)), _words(node_keys(instance), len(numbers))]
    keys = np.column_stack([numbers.view(np.uint64), bits.astype(np.uint64), *keys_of_rules])
    alike = alike_rows(keys)
    needed = target[used].any(axis=0) | instance.open_nodes
    node_class = np.where(needed, alike, -1)
    node_class[needed] = _by_first_member(node_class[needed])
    indptr, order = listed(node_class)
    first = order[indptr[:-1]]
    return NodeClasses(
        node_class.astype(np.int32), indptr, order, room[first], floor[first], target[:, first]
    )


def _words(numbers: Any, rows: int) -> _Words:
    """(rows, k) numbers as words to compare; k is 0 where there are none."""
    if numbers is None or not rows:
        return np.zeros((rows, 0), dtype=np.uint64)
    table = np.asarray(numbers, dtype=np.float64)
    table = (table[:, None] if table.ndim == 1 else table) + 0.0
    return np.ascontiguousarray(table).view(np.uint64)


def _merged_kinds(instance: Instance) -> Ints:
    """(T,) kind of restriction; kinds that leave the same nodes to a task are one."""
    kind, _, target = placing_masks(instance)
    _, first, where = np.unique(target, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[where.reshape(-1)][kind], dtype=np.int32)


def _rounded(values: Floats) -> Floats:
    """Round to twelve significant digits, so that 0.1 + 0.2 and 0.3 are the same."""
    values = np.asarray(values, dtype=np.float64)
    positive = values > 0
    exponent = np.zeros_like(values)
    np.log10(values, out=exponent, where=positive)
    unit = 10.0 ** (np.floor(exponent) - _DIGITS + 1)
    # below 1e-308 the unit of the twelfth digit is 0
    rounded = positive & (unit > 0)  # numbers that have no such digits stay as they are
    unit = np.where(rounded, unit, 1.0)
    return np.where(rounded, np.round(values / unit) * unit, np.maximum(values, 0.0)) + 0.0


def _mixed(words: _Words) -> _Words:
    """Scramble 64-bit words (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _weights(rate: Floats) -> _Words:
    """Return two odd words for each rate; rates that differ by rounding only give the same."""
    bits = _rounded(np.asarray(rate, dtype=np.float64)).view(np.uint64)
    salts = np.array([0x9E3779B97F4A7C15, 0xD1B54A32D192ED03], dtype=np.uint64)
    # odd words are invertible modulo 2^64: no rate erases a mark
    return _mixed(bits[..., None] ^ salts) | np.uint64(1)


def _marks(count: int) -> _Words:
    """Two random words for each task."""
    # a fixed seed: the same classes, and plans, in every run; 128 bits, so that none collide
    rng = np.random.default_rng(_SEED)
    return rng.integers(0, 2**64, size=(count, 2), dtype=np.uint64)


def _row_hashes(instance: Instance) -> _Words:
    """(T, 2) hash of each task's traffic with all others: Σ weight(rate) × mark(partner)."""
    marks = _marks(instance.num_tasks)
    u, v, rate = instance.flows.single_pairs()
    hashes = np.zeros((instance.num_tasks, 2), dtype=np.uint64)
    weight = _weights(rate)
    for here, there in ((u, v), (v, u)):
        order = np.argsort(here, kind="stable")
        terms = weight[order] * marks[there[order]]
        # sums modulo 2^64 of the entries of a row: the order of adding does not matter
        starts = np.flatnonzero(np.diff(here[order], prepend=-1))
        if len(starts):
            hashes[here[order][starts]] += np.add.reduceat(terms, starts, axis=0)
    for block in instance.flows.blocks:
        weight = _weights(np.array(block.pair_rate))
        for here, there in ((block.sources, block.targets), (block.targets, block.sources)):
            hashes[here] += weight * marks[there].sum(axis=0, dtype=np.uint64)
    for number, near in enumerate(instance.flows.local):  # by block: no pair says who is alike
        end_marks = _mixed(
            np.array([[2 * number, 0], [2 * number + 1, 0]], dtype=np.uint64) + _LOCAL
        )
        hashes[near.sources] += end_marks[0]
        hashes[near.targets] += end_marks[1]
    return hashes


def _joined_neighbours(instance: Instance, keys: Any, rows: _Words, alike: Any) -> Any:
    """Join tasks that talk to each other and agree on all others.

    With a loop of the pair's own rate added to both, the rows of such tasks are equal.
    """
    u, v, rate = instance.flows.single_pairs()
    marks, weight = _marks(instance.num_tasks), _weights(rate)
    # u and v are alike where N(u) + w(uv)·mark(u) = N(v) + w(uv)·mark(v), N the hash of a row
    twins = (keys[u] == keys[v]).all(axis=1)
    twins &= (rows[u] + weight * marks[u] == rows[v] + weight * marks[v]).all(axis=1)
    if not twins.any():
        return alike
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = alike[u[twins]], alike[v[twins]]
    count = int(alike.max()) + 1
    # being alike is transitive: components of the graph of such pairs are one class
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(count, count))
    return connected_components(graph, directed=False)[1][alike]


def alike_rows(table: Any) -> Ints:
    """Number equal rows of a table alike, in order of their first appearance."""
    return _by_first_member(_numbered(table))


def listed(labels: Any) -> tuple[Ints, Ints]:
    """List the members of classes 0, 1, … in CSR form, ascending; labels below 0 are left out."""
    usable = np.flatnonzero(np.asarray(labels) >= 0)
    order = usable[np.argsort(labels[usable], kind="stable")].astype(np.int32)
    sizes = np.bincount(labels[usable]) if len(usable) else np.zeros(0, dtype=np.int64)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), order


def _numbered(keys: Any) -> Any:
    """Number equal rows alike."""
    if len(keys) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _by_first_member(labels: Any) -> Ints:
    """Renumber labels 0, 1, … in order of their first appearance."""
    if len(labels) == 0:
        return np.zeros(0, dtype=np.int32)
    _, first, where = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[where.reshape(-1)]


_MATCHED = 1000  # Identical nodes that are matched at most.
_FEW = 6
"""Identical nodes whose orders are all looked at: scipy's solver takes half a second to load."""
_SMALL = 50_000_000  # Tasks × nodes² up to which classes of tasks are counted.


def counts_of(groups: TaskGroups, classes: NodeClasses, node: Ints, num_nodes: int) -> Counts:
    """(N', G) counts of a placement, usable nodes listed class by class."""
    return groups.counts(node, num_nodes)[classes.members]


def deal(groups: TaskGroups, classes: NodeClasses, counts: Counts, reference: Ints | None) -> Ints:
    """Return (T,) node indices that have these counts.

    `counts`: (N', G), usable nodes listed class by class.
    `reference`: (T,) placement to stay close to, -1 where a task has no node; may be ``None``.
    """
    num_tasks = len(groups.group)
    near = np.full(num_tasks, -1, dtype=np.int32) if reference is None else reference
    num_nodes = len(classes.node_class)
    contents = np.zeros((num_nodes, groups.num_groups), dtype=np.int64)
    contents[classes.members] = counts[staying_order(groups, classes, counts, near)]
    node = np.full(num_tasks, -1, dtype=np.int32)
    for g in range(groups.num_groups):
        tasks = groups.tasks_of(g)
        node[tasks] = _deal_class(contents[:, g], near[tasks])
    return node


def staying_order(groups: TaskGroups, classes: NodeClasses, counts: Counts, near: Ints) -> Order:
    """Return which of the (N', G) contents each node takes, among identical ones, so most stay."""
    before = counts_of(groups, classes, near, len(classes.node_class))
    return np.concatenate(
        [
            classes.indptr[k] + matched(counts[of_class], before[of_class])
            for k in range(classes.num_classes)
            for of_class in [slice(classes.indptr[k], classes.indptr[k + 1])]
        ]
    )


def matched(counts: Counts, before: Counts) -> Order:
    """Return which of the contents each place takes, so that most of what it had stays."""
    order = np.arange(len(counts))
    if len(counts) < 2 or len(counts) > _MATCHED or not before.any():
        return order
    # min(wanted, there) tasks of each class may stay: an assignment of contents to places
    order[_assigned(np.minimum(counts[:, None, :], before[None, :, :]).sum(axis=2))] = order.copy()
    return order


def _assigned(stay: NDArray[np.int64]) -> Order:
    """Return the place of each content; as they are where no others let more stay."""
    if len(stay) <= _FEW:
        orders = np.array(list(permutations(range(len(stay)))))
        return np.asarray(orders[stay[np.arange(len(stay)), orders].sum(axis=1).argmax()])
    from scipy.optimize import linear_sum_assignment

    content, place = linear_sum_assignment(stay, maximize=True)
    better = stay[content, place].sum() > np.trace(stay)
    return np.asarray(place) if better else np.arange(len(stay))


def _deal_class(wanted: Counts, near: Ints) -> Ints:
    """Place the tasks of one class: who may stay does, the others fill up in order."""
    left = wanted.copy()
    node = np.full(len(near), -1, dtype=np.int32)
    for i in np.flatnonzero(near >= 0):
        if left[near[i]] > 0:
            left[near[i]] -= 1
            node[i] = near[i]
    node[node < 0] = np.repeat(np.arange(len(left), dtype=np.int32), left)
    return node


def brought_home(instance: Instance, node: Ints) -> Ints:
    """Return the placement that identical nodes and tasks make of this one, nearest to the current.

    Where the classes are many, only nodes change places.
    """
    home, size = instance.tasks.node, instance.num_nodes
    classes = node_classes(instance)
    if not (home != node).any() or (classes.node_class[node] < 0).any():
        return node
    # equal tasks change places as well where the table of both is small
    if instance.num_tasks * size * size <= _SMALL:
        groups = task_groups(instance)
        return deal(groups, classes, counts_of(groups, classes, node, size), home)
    return nodes_brought_home(instance, node, classes)


def nodes_brought_home(instance: Instance, node: Ints, classes: NodeClasses) -> Ints:
    """Return the placement that identical nodes make of this one, nearest to the current."""
    home, size = instance.tasks.node, instance.num_nodes
    new = np.arange(size, dtype=np.int32)
    for k in range(classes.num_classes):
        nodes = classes.nodes_of(k)
        at = np.full(size + 1, -1, dtype=np.int32)  # the last one for no node
        at[nodes] = np.arange(len(nodes))
        both = (at[node] >= 0) & (at[home] >= 0)
        stay = np.zeros((len(nodes), len(nodes)), dtype=np.int64)
        if len(nodes) > _MATCHED or not both.any():
            continue
        np.add.at(stay, (at[node[both]], at[home[both]]), 1)
        new[nodes] = nodes[_assigned(stay)]
    return new[node]
