"""``gma``: the Greedy Matching Algorithm of the Elastic Allocator.

Nodes are classed by the larger of their CPU and bandwidth use: light below 40 %, moderate below
80 %, heavy from there (the paper's three; other numbers share what is below 80 % evenly). Each
operator, in topological order, goes to the node that holds it and serves the objective best; equals
go to the lighter class. Passes over all operators repeat until nothing changes. Operators without a
node go evenly onto the light nodes, by best effort.

Source: "Elastic Allocator: An Adaptive Task Scheduler for Streaming Query in the Cloud", SOSE 2014,
Algorithm 1, doi:10.1109/SOSE.2014.40.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.elastic.problem import fixed_nodes
from optim.figures.measures import link_loads, node_loads
from optim.format.traffic import topological_order
from optim.kernels.place_rules import link_room, placing_masks, placing_room
from optim.kernels.repair import two_tasks
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import LOADS, Form
from optim.util.compiled import helper, inlined, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.methods.registry import Request


def task_order(instance: Instance) -> NDArray[np.int64]:
    """(T,) tasks in topological order of their operators, then by member.

    Operators on or behind a cycle follow in the file's order, tasks without an operator last.
    """
    count = instance.num_operators
    edges = {(s.source, s.target) for s in instance.streams}
    operator, member = instance.tasks.operator, instance.tasks.member
    pairs = zip(operator[instance.traffic.source], operator[instance.traffic.target], strict=True)
    edges |= {(int(a), int(b)) for a, b in pairs if a >= 0 and b >= 0 and a != b}
    sorted_first = topological_order(count, sorted(edges))
    # the last rank is that of tasks without an operator, whose index is −1
    rank = np.full(count + 1, 2 * count + 1)
    rank[:count] = count + np.arange(count)
    rank[sorted_first] = np.arange(len(sorted_first))
    return np.lexsort((np.arange(instance.num_tasks), member, rank[operator])).astype(np.int64)


def links_of_nodes(instance: Instance) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the links of each node, in CSR form."""
    links = instance.links
    link = np.repeat(np.arange(len(links.ids)), np.diff(links.node_indptr))
    order = np.argsort(links.node_indices, kind="stable")
    counts = np.bincount(links.node_indices, minlength=instance.num_nodes)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return indptr, link[order].astype(np.int64)


_NAMED = 20


class Allocation:
    """An allocation in the making: where operators stand, and what nodes and links carry."""

    def __init__(self, instance: Instance, objective: int, num_classes: int = 3) -> None:
        self.instance, self.objective, self.num_classes = instance, objective, num_classes
        kind, _, target = placing_masks(instance)
        fixed = fixed_nodes(kind, target)
        placed = fixed.astype(np.int32)
        self.state = State(
            fixed.copy(),
            node_loads(instance, placed),
            np.bincount(placed[placed >= 0], minlength=instance.num_nodes),
            link_loads(instance, placed),
            np.zeros(len(instance.links.ids), dtype=np.bool_),
        )
        starts, partner, rate = instance.partners
        self.fixed = Fixed(
            task_order(instance), fixed, kind, target, instance.tasks.load,
            starts.astype(np.int64), partner.astype(np.int64), rate,
            instance.nodes.capacity[:, 0].copy(),
            placing_room(instance) + instance.nodes.background, instance.open_nodes,
            *links_of_nodes(instance), instance.links.capacity, link_room(instance),
        )  # fmt: skip

    def run_pass(self) -> int:
        """Take every operator once; return how many were placed or moved."""
        return int(one_pass(self.fixed, self.state, self.objective, self.num_classes))

    def classes(self) -> NDArray[np.int64]:
        """(N,) class of each node, from 0 for light."""
        return np.asarray(classes(self.fixed, self.state, self.num_classes))

    def place_tail(self) -> list[int]:
        """Put what has no node evenly on the lightest class it may go to; return those tasks.

        A task that may go nowhere stays without a node.
        """
        fixed = self.fixed
        tail = [int(t) for t in fixed.order if self.state.node[t] < 0]
        if not tail:
            return tail
        weight, taken = self.classes(), np.zeros(self.instance.num_nodes, dtype=np.int64)
        for t in tail:
            may = np.flatnonzero(fixed.target[fixed.kind[t]])
            if not len(may):
                continue
            light = may[weight[may] == weight[may].min()]
            chosen = light[np.argmin(taken[light])]
            self.state.node[t] = chosen
            taken[chosen] += 1
        return tail


def run(instance: Instance, request: Request) -> Outcome:
    """Allocate; a time limit stands for the paper's t_max and is looked at between passes."""
    request, compiling = request.warmed(warm_up)
    began = time.perf_counter()
    objective = _CODES[request.objective or METHOD.objective]
    allocation = Allocation(instance, objective, request.options["classes"])
    built = time.perf_counter() - began
    passes, left = 0, True
    while left and passes < request.options["max_passes"]:
        if passes and request.remaining() == 0:
            break
        left = allocation.run_pass() > 0
        passes += 1
    tail = allocation.place_tail()
    return Outcome(
        Termination.HEURISTIC,
        node=allocation.state.node.astype(np.int32),
        notes=[f"{passes} passes", *_notes(instance, tail)],
        times={"compile": compiling, "build": built},
    )


def _notes(instance: Instance, tail: list[int]) -> list[str]:
    """Name the best-effort tail, and operators that receive more than they can serve."""
    notes = []
    if tail:
        names = ", ".join(instance.tasks.ids[t] for t in tail[:_NAMED])
        more = f" and {len(tail) - _NAMED} more" if len(tail) > _NAMED else ""
        notes.append(f"best effort: no node held {len(tail)} of the tasks: {names}{more}")
    return [*notes, *overloaded(instance)]


def overloaded(instance: Instance) -> list[str]:
    """Name the operators whose tuple rate is above their service rate, r_j / s_j > 1."""
    table = instance.operators
    has_rates = np.isfinite(table.tuple_rate) & np.isfinite(table.service_rate)
    operators = np.flatnonzero(has_rates & (table.tuple_rate > table.service_rate * (1 + 1e-9)))
    return [
        f"operator {table.ids[o]} is overloaded: it receives {table.tuple_rate[o]:.6g} tuples/s "
        f"and serves {table.service_rate[o]:.6g}"
        for o in operators[:_NAMED]
    ]


def warm_up() -> None:
    """Compile the kernels, or load them from the cache, on two tasks."""
    tiny = two_tasks()
    for code in _CODES.values():
        allocation = Allocation(tiny, code)
        allocation.run_pass()
        allocation.classes()


_CODES = {"used_capacity": 0, "cpu_deviation": 1, "resource_deviation": 2}
"""What is optimised to the kernel's number of it: fill few nodes, then least traffic; R_dev of the
CPU; or R_dev of CPU and links together."""

METHOD = Method(
    name="gma",
    family="elastic allocator",
    kind="heuristic",
    objective="used_capacity",
    objectives=tuple(_CODES),
    run=shuffled_evenly(run),
    summary="Greedy matching: each operator to the node that serves the objective best, in passes",
    source="Elastic Allocator, SOSE 2014, Algorithm 1",
    needs=("tasks", "nodes", "capacity"),
    forms=LOADS | {Form.LINK_CAPACITY, Form.LOCAL_FIRST},
    options=(
        Option(
            "max_passes",
            "int",
            20,
            "passes over all operators at most; 0 leaves all to the best effort",
            minimum=0,
        ),
        Option("classes", "int", 3, "classes of nodes by their use", minimum=2, maximum=100),
    ),
    promises_feasibility=False,
)


# Compiled kernel of the Greedy Matching Algorithm: one pass over all operators.
#
# A candidate node is judged in O(resources + its links); traffic is counted only between
# operators that have a node.

UTILISATION, DEVIATION, BOTH = 0, 1, 2  # Objectives, as the kernel knows them.
ROUNDING = 1e-9  # Differences below this part of the figures compared are rounding.

#: Nodes at or above this use are in the heaviest class; the others share what is below evenly.
HEAVY = 0.8


class Fixed(NamedTuple):
    """What does not change."""

    #: Operators as they are taken; (T,) node of those that run, -1 for the others.
    order: NDArray[np.int64]
    fixed: NDArray[np.int64]
    #: (T,) kind of restriction; (kinds, N) where operators of it may be.
    kind: NDArray[np.int32]
    target: NDArray[np.bool_]
    task_load: NDArray[np.float64]  # (T, R) loads.
    #: Partners of each operator as compressed rows.
    indptr: NDArray[np.int64]
    partner: NDArray[np.int64]
    rate: NDArray[np.float64]
    #: (N,) CPU; (N, R) most load of a node, background included; (N,) whether the node's share of
    #: CPU counts in the deviation.
    capacity: NDArray[np.float64]
    limit: NDArray[np.float64]
    counted: NDArray[np.bool_]
    #: Links of each node as compressed rows; (L,) what they have, and most that they may carry.
    link_indptr: NDArray[np.int64]
    link_of: NDArray[np.int64]
    link_capacity: NDArray[np.float64]
    link_limit: NDArray[np.float64]


class State(NamedTuple):
    """What changes: (T,) node; (N, R) load of each node, (N,) tasks held; (L,) load of links.

    `inside` marks links while one node is looked at, and is else all false.
    """

    node: NDArray[np.int64]
    load: NDArray[np.float64]
    num_tasks: NDArray[np.int64]
    link_load: NDArray[np.float64]
    inside: NDArray[np.bool_]


@inlined
def class_of(use, number):
    """Return 0 for the lightest class; of three: light below 40 %, moderate below 80 %, heavy."""
    if use >= HEAVY:
        return number - 1
    return int(use / (HEAVY / (number - 1)))


@helper
def node_use(fixed, state, n):
    """Return the larger of a node's CPU use and its links' bandwidth use."""
    use = np.inf
    if fixed.capacity[n] > 0.0:
        use = state.load[n, 0] / fixed.capacity[n]
    elif state.load[n, 0] <= 0.0:
        use = 0.0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        if fixed.link_capacity[p] > 0.0:
            use = max(use, state.link_load[p] / fixed.link_capacity[p])
        elif state.link_load[p] > 0.0:
            use = np.inf
    return use


@helper
def shift(fixed, state, t, n, sign):
    """Add (sign 1) or take away (sign −1) a task on a node: loads, counts, traffic on links."""
    for r in range(fixed.task_load.shape[1]):
        state.load[n, r] += sign * fixed.task_load[t, r]
    state.num_tasks[n] += int(sign)
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = True
    for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
        m = state.node[fixed.partner[e]]
        if m < 0 or m == n:
            continue
        for k in range(fixed.link_indptr[m], fixed.link_indptr[m + 1]):
            p = fixed.link_of[k]
            if state.inside[p]:
                # both ends lie behind this link: taken off what the loop below adds
                state.link_load[p] -= sign * fixed.rate[e]
            else:
                state.link_load[p] += sign * fixed.rate[e]
        for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
            state.link_load[fixed.link_of[k]] += sign * fixed.rate[e]
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = False


class Traffic(NamedTuple):
    """Traffic of one operator with those that have a node."""

    total: float
    beside: NDArray[np.float64]  # (N,) of it with operators on each node.
    behind: NDArray[np.float64]  # (L,) of it with operators behind each link.
    links: NDArray[np.int64]  # Links behind which some of it ends.
    full: int  # How many of these cannot carry it from outside.


class Shares(NamedTuple):
    """Sums over the shares of CPU and of links in use, as far as the objective takes them."""

    squares: float  # Σ u² of both.
    cpu: float
    nodes: int  # How many nodes count.
    of_links: float
    links: int


@inlined
def holds(fixed, state, t, n, traffic):
    """Whether CPU and bandwidth hold a task on a node; full links need it on their own side."""
    fits = True
    for r in range(fixed.task_load.shape[1]):
        more = fixed.task_load[t, r]
        if more > 0.0 and state.load[n, r] + more > fixed.limit[n, r]:
            fits = False
    within = 0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        grows = traffic.total - traffic.behind[p]
        if grows > ROUNDING * traffic.total and state.link_load[p] + grows > fixed.link_limit[p]:
            fits = False
        if traffic.behind[p] > 0.0 and state.link_load[p] + traffic.behind[p] > fixed.link_limit[p]:
            within += 1
    return fits and within == traffic.full


@helper
def link_change(fixed, state, n, traffic, shares):
    """By how much Σ (b − b̄)² of the links' shares in use grows with a task on a node.

    Its traffic comes to the node's own links from outside and leaves the others behind which some
    of it ends.
    """
    squares, more = 0.0, 0.0
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        p = fixed.link_of[k]
        state.inside[p] = True
        if 0.0 < fixed.link_capacity[p] < np.inf:
            a = (traffic.total - traffic.behind[p]) / fixed.link_capacity[p]
            squares += (2.0 * state.link_load[p] / fixed.link_capacity[p] + a) * a
            more += a
    for p in traffic.links:
        if not state.inside[p] and 0.0 < fixed.link_capacity[p] < np.inf:
            a = traffic.behind[p] / fixed.link_capacity[p]
            squares += (2.0 * state.link_load[p] / fixed.link_capacity[p] + a) * a
            more += a
    for k in range(fixed.link_indptr[n], fixed.link_indptr[n + 1]):
        state.inside[fixed.link_of[k]] = False
    # Σ (b − b̄)² = Σ b² − (Σ b)² / L
    return squares - (2.0 * shares.of_links + more) * more / max(shares.links, 1)


@inlined
def traffic_of(fixed, state, t, beside, behind, links):
    """Add up the traffic of a task with placed ones; `beside` and `behind` hold zeros before."""
    total, num_links = 0.0, 0
    for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
        m = state.node[fixed.partner[e]]
        if m < 0:
            continue
        total += fixed.rate[e]
        beside[m] += fixed.rate[e]
        for k in range(fixed.link_indptr[m], fixed.link_indptr[m + 1]):
            p = fixed.link_of[k]
            if behind[p] == 0.0:
                links[num_links] = p
                num_links += 1
            behind[p] += fixed.rate[e]
    full = 0
    for i in range(num_links):
        p = links[i]
        full += int(state.link_load[p] + behind[p] > fixed.link_limit[p])
    return Traffic(total, beside, behind, links[:num_links], full)


@inlined
def clear(fixed, state, t, traffic):
    """Put back the zeros of `traffic_of`."""
    for e in range(fixed.indptr[t], fixed.indptr[t + 1]):
        m = state.node[fixed.partner[e]]
        if m >= 0:
            traffic.beside[m] = 0.0
    for p in traffic.links:
        traffic.behind[p] = 0.0


@inlined
def shares_in_use(fixed, state, objective):
    """Sum up the shares in use that the objective takes the deviation of."""
    squares, cpu, nodes, of_links, links = 0.0, 0.0, 0, 0.0, 0
    if objective != UTILISATION:
        for n in range(len(state.load)):
            if fixed.counted[n]:
                u = state.load[n, 0] / fixed.capacity[n] if fixed.capacity[n] > 0.0 else 0.0
                squares += u * u
                cpu += u
                nodes += 1
    if objective == BOTH:
        for p in range(len(fixed.link_limit)):
            if 0.0 < fixed.link_capacity[p] < np.inf:
                u = state.link_load[p] / fixed.link_capacity[p]
                squares += u * u
                of_links += u
                links += 1
    return Shares(squares, cpu, nodes, of_links, links)


@inlined
def square_growth(u, a, total, number):
    """By how much Σ (u − ū)² = Σ u² − (Σ u)² / N grows when one share grows from u to u + a."""
    return (2.0 * u + a - (2.0 * total + a) / number) * a


@inlined
def rounding(objective, shares, more):
    """Up to what difference two growths of the objective are equal."""
    return 0.0 if objective == UTILISATION else ROUNDING * (shares.squares + abs(more))


@inlined
def compared(value, other, margin):
    """Return -1 where a value is below another by more than a margin, 1 above, 0 between."""
    if value > other + margin:
        return 1
    return 0 if value >= other - margin else -1


@helper
def best_node(fixed, state, t, old, objective, num_classes, traffic):
    """Return the node that holds a task and serves the objective best; -1 where none holds it.

    Equals go where less of its traffic crosses nodes, then to the lighter class; the node that it
    was on, `old`, is left for a better one only.
    """
    shares = shares_in_use(fixed, state, objective)
    even = ROUNDING * traffic.total
    best, best_growth, best_crossing = -1, 0.0, 0.0
    best_class = -1  # not looked at so far
    old_growth, old_crossing = np.inf, np.inf
    for n in range(len(state.load)):
        if not fixed.target[fixed.kind[t], n]:
            continue
        if not holds(fixed, state, t, n, traffic):
            continue
        if objective == UTILISATION:
            more = fixed.capacity[n] if state.num_tasks[n] == 0 else 0.0
        else:
            more = 0.0
            if fixed.counted[n] and fixed.capacity[n] > 0.0:
                u = state.load[n, 0] / fixed.capacity[n]
                a = fixed.task_load[t, 0] / fixed.capacity[n]
                more = square_growth(u, a, shares.cpu, shares.nodes)
            if objective == BOTH:
                more += link_change(fixed, state, n, traffic, shares)
        crossing = traffic.total - traffic.beside[n]
        if n == old:
            old_growth, old_crossing = more, crossing
        order = -1
        if best >= 0:
            order = compared(more, best_growth, rounding(objective, shares, more))
            if order == 0:
                order = compared(crossing, best_crossing, even)
        if order > 0:
            continue
        node_class = -1
        if order == 0:
            node_class = class_of(node_use(fixed, state, n), num_classes)
            if best_class < 0:
                best_class = class_of(node_use(fixed, state, best), num_classes)
            if node_class >= best_class:
                continue
        best, best_growth, best_crossing, best_class = n, more, crossing, node_class
    if best < 0:
        return old
    margin = rounding(objective, shares, old_growth)
    if old >= 0 and best_growth >= old_growth - margin and best_crossing >= old_crossing - even:
        return old
    return best


@kernel
def one_pass(fixed, state, objective, num_classes):
    """Take every operator once, in order, to the best node that holds it.

    `fixed`, `state`: what stays, and what changes in place.
    `objective`, `num_classes`: one of the codes above; classes of nodes by their use.
    Returns operators that were placed or changed their node.
    """
    num_nodes, num_links = len(state.load), len(fixed.link_limit)
    beside, behind = np.zeros(num_nodes), np.zeros(num_links)
    links = np.zeros(num_links, dtype=np.int64)
    changed = 0
    for t in fixed.order:
        if fixed.fixed[t] >= 0:
            continue
        old = state.node[t]
        if old >= 0:
            shift(fixed, state, t, old, -1.0)
            state.node[t] = -1
        traffic = traffic_of(fixed, state, t, beside, behind, links)
        best = best_node(fixed, state, t, old, objective, num_classes, traffic)
        if best >= 0:
            shift(fixed, state, t, best, 1.0)
            state.node[t] = best
        changed += int(best != old)
        clear(fixed, state, t, traffic)
    return changed


@kernel
def classes(fixed, state, num_classes):
    """(N,) class of each node, from 0 for light (phase 1)."""
    class_of_node = np.zeros(len(state.load), dtype=np.int64)
    for n in range(len(state.load)):
        class_of_node[n] = class_of(node_use(fixed, state, n), num_classes)
    return class_of_node
