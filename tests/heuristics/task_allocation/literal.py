"""The paper's algorithms word by word, on single tasks in plain Python: what kernels must equal.

Task by task and with lists, slow and plain, for one resource: Algorithms 3, 4 and 5 with the
settled readings (all hosts by expected gain; ratio shrunk until a split fits).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optim.format.instance import Instance


@dataclass
class Node:
    """A node of the paper: initial and remaining capacity."""

    index: int
    initial: float
    mu: float = field(init=False)

    def __post_init__(self) -> None:
        self.mu = self.initial


@dataclass
class Task:
    """A task of the paper: its group, its cost, its node."""

    index: int
    group: int
    cost: float
    node: Node | None = None


def top(nodes: list[Node]) -> Node:
    """Return the node with most capacity left; ties by index, equal up to rounding."""
    best = nodes[0]
    for node in nodes[1:]:
        if node.mu > best.mu + 1e-9:
            best = node
    return best


def put(tasks: list[Task], node: Node) -> None:
    """Allocate tasks to a node."""
    for task in tasks:
        task.node = node
        node.mu -= task.cost


def cost(tasks: list[Task]) -> float:
    """Return the processing cost of some tasks."""
    return sum(task.cost for task in tasks)


def top_down(instance: Instance, rates: dict[tuple[int, int], float]) -> list[int]:
    """Run Algorithm 4; `rates` maps pairs of operators to their traffic."""
    nodes = [Node(n, float(instance.headroom[n, 0])) for n in range(instance.num_nodes)]
    tasks = [
        Task(t, int(instance.tasks.operator[t]), float(instance.tasks.load[t, 0]))
        for t in range(instance.num_tasks)
    ]
    groups = [[t for t in tasks if t.group == g] for g in range(instance.num_operators)]
    weight = {e: c / (cost(groups[e[0]]) + cost(groups[e[1]])) for e, c in rates.items()}
    for i, j in sorted(rates, key=lambda e: (-weight[e], e)):
        left_i = [t for t in groups[i] if t.node is None]
        left_j = [t for t in groups[j] if t.node is None]
        if left_i and left_j:
            both(left_i, left_j, nodes)
        elif left_j:
            second(groups[i], left_j)
        elif left_i:
            second(groups[j], left_i)
        else:
            fuse(groups[i], groups[j], tasks)
    allocate_single_tasks([t for t in tasks if t.node is None], nodes)
    return [-1 if t.node is None else t.node.index for t in tasks]


def both(first: list[Task], other: list[Task], nodes: list[Node]) -> None:
    """Algorithm 5, mode both."""
    node = top(nodes)
    if cost(first) + cost(other) <= node.mu + 1e-6:
        put(first + other, node)
        return
    if len(first) > len(other):
        first, other = other, first
    ratio = len(other) // len(first)
    k = 0
    while ratio >= 1:
        k = int((node.mu + 1e-6) // (first[0].cost + other[0].cost * ratio))
        if k > 0:
            break
        ratio -= 1
    if k == 0:
        return
    k = min(k, len(first))
    put(first[:k] + other[: k * ratio], node)
    if first[k:] and other[k * ratio :]:
        both(first[k:], other[k * ratio :], nodes)


def second(placed: list[Task], waiting: list[Task]) -> None:
    """Algorithm 5, mode second: all hosts of the placed group by expected gain."""
    hosts = {t.node.index: t.node for t in placed if t.node}
    held = {n: sum(t.node is hosts[n] for t in placed) for n in hosts}
    for n in sorted(hosts, key=lambda n: (-held[n], n)):
        k = min(len(waiting), max(0, int((hosts[n].mu + 1e-6) // waiting[0].cost)))
        put(waiting[:k], hosts[n])
        waiting = waiting[k:]
        if not waiting:
            return


def fuse(first: list[Task], other: list[Task], tasks: list[Task]) -> None:
    """Algorithm 4, lines 18 to 23."""
    n_i, n_j = first[0].node, other[0].node
    assert n_i is not None
    assert n_j is not None
    if any(t.node is not n_i for t in first) or any(t.node is not n_j for t in other):
        return
    if n_i is n_j:
        return
    if n_j.initial >= n_i.initial:
        n_i, n_j = n_j, n_i
    if n_j.initial - n_j.mu <= n_i.mu + 1e-6:
        moving = [t for t in tasks if t.node is n_j]
        n_j.mu = n_j.initial
        put(moving, n_i)


def task_level(instance: Instance, rates: dict[tuple[int, int], float]) -> list[int]:
    """Run Algorithm 1 with priority by task IMC, row by row within a group pair.

    `rates` maps pairs of tasks to their traffic, the task of the lower operator first.
    """
    nodes = [Node(n, float(instance.headroom[n, 0])) for n in range(instance.num_nodes)]
    tasks = [
        Task(t, int(instance.tasks.operator[t]), float(instance.tasks.load[t, 0]))
        for t in range(instance.num_tasks)
    ]

    def urgency(pair: tuple[int, int]) -> tuple[float, int, int, int, int]:
        m, n = pair
        return (-round(rates[pair], 9), tasks[m].group, tasks[n].group, m, n)

    pairs = [(tasks[m], tasks[n]) for m, n in sorted(rates, key=urgency)]
    last_groups, n_i = None, None
    for t_m, t_n in pairs:
        if t_m.node is not None and t_n.node is not None:
            fuse_nodes(t_m.node, t_n.node, tasks)
            continue
        n_i = pick_node(t_m, t_n, last_groups, n_i, nodes)
        last_groups = (t_m.group, t_n.group)
        waiting = [t for t in (t_m, t_n) if t.node is None]
        if cost(waiting) <= n_i.mu + 1e-6:
            put(waiting, n_i)
    allocate_single_tasks([t for t in tasks if t.node is None], nodes)
    return [-1 if t.node is None else t.node.index for t in tasks]


def pick_node(
    t_m: Task, t_n: Task, last_groups: tuple[int, int] | None, n_i: Node | None, nodes: list[Node]
) -> Node:
    """Algorithm 2."""
    if t_m.node is not None:
        return t_m.node
    if t_n.node is not None:
        return t_n.node
    switched = last_groups != (t_m.group, t_n.group)
    if switched or n_i is None or t_m.cost + t_n.cost > n_i.mu + 1e-6:
        return top(nodes)
    return n_i


def fuse_nodes(n_m: Node, n_n: Node, tasks: list[Task]) -> None:
    """Algorithm 1, lines 17 to 23."""
    if n_m is n_n:
        return
    if n_m.initial >= n_n.initial:
        n_m, n_n = n_n, n_m
    if n_m.initial - n_m.mu <= n_n.mu + 1e-6:
        moving = [t for t in tasks if t.node is n_m]
        n_m.mu = n_m.initial
        put(moving, n_n)


def allocate_single_tasks(rest: list[Task], nodes: list[Node]) -> None:
    """Algorithm 3."""
    for task in sorted(rest, key=lambda t: (-t.cost, t.group, t.index)):
        node = top(nodes)
        if task.cost > node.mu + 1e-6:
            return
        put([task], node)


def operator_rates(instance: Instance) -> dict[tuple[int, int], float]:
    """Return the traffic between operators, lower index first."""
    rates: dict[tuple[int, int], float] = {}
    for stream in instance.streams:
        key = min(stream.source, stream.target), max(stream.source, stream.target)
        rates[key] = rates.get(key, 0.0) + stream.rate
    return rates


def task_rates(instance: Instance) -> dict[tuple[int, int], float]:
    """Return the traffic between tasks of different operators, the lower operator's first."""
    operator = instance.tasks.operator.tolist()
    rates: dict[tuple[int, int], float] = {}

    def add(a: int, b: int, rate: float) -> None:
        key = (a, b) if operator[a] <= operator[b] else (b, a)
        if operator[a] != operator[b] and rate > 0:
            rates[key] = rates.get(key, 0.0) + rate

    flows = instance.flows
    for a, b, rate in zip(flows.source, flows.target, flows.rate, strict=True):
        add(int(a), int(b), float(rate))
    for block in flows.blocks:
        for a in block.sources.tolist():
            for b in block.targets.tolist():
                add(a, b, block.pair_rate)
    return rates


def counts(instance: Instance, node: np.ndarray | list[int]) -> list[list[int]]:  # type: ignore[type-arg]
    """(operators, nodes) table of how many tasks stand where."""
    where = np.asarray(node)
    return [
        [
            int(((instance.tasks.operator == o) & (where == n)).sum())
            for n in range(instance.num_nodes)
        ]
        for o in range(instance.num_operators)
    ]
