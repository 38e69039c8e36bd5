"""``task-level``: the task-pair allocator of the CIKM 2014 paper, Algorithms 1 to 3, as published.

Task pairs are taken by the priority of their group pair. A pair of which nothing stands goes on the
last node used, or on the node with most room when the group pair changed or it does not fit there;
a task whose partner stands joins it; where both stand, the smaller of their nodes is emptied into
the other if everything fits. What is left goes one by one to the node with most room.

Source: Chatzistergiou and Viglas, CIKM 2014, section 3.2, doi:10.1145/2661829.2661882.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heuristics.task_allocation.groups import RELAXATIONS, run_on_groups
from heuristics.task_allocation.state import (
    COUNT,
    GROUP,
    NODE,
    NONE,
    allocate_single_tasks,
    empty_into,
    fits,
    new_state,
    place,
    top_node,
)
from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs, uneven_pairs
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome, Request
from optim.rules.base import LOADS, Form
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from heuristics.task_allocation.groups import GroupedJob
    from heuristics.task_allocation.task_pairs import UnevenPairs
    from optim.format.instance import Instance
    from optim.format.tables import Ints


def place_pairs(
    job: GroupedJob,
    priority: str = "group_imc",
    pair_order: str = "shuffled",
    seed: int = 0,
    uneven: UnevenPairs | None = None,
) -> Ints:
    """Run taskLevel on a grouped job.

    `job`: groups, traffic between them, room of the nodes.
    `priority`: ``task_imc``, ``group_imc`` or ``significance``: traffic of a task pair, of its
        group pair, or the latter per unit of processing cost (Eq. 2).
    `pair_order`: order of the task pairs of a group pair that carry the same traffic: ``row`` by
        row, ``column`` by column, ``diagonal`` (every task once before any comes twice), or
        ``shuffled``.
    `uneven`: task pairs of those group pairs whose task pairs differ in traffic.
    Returns (T,) node of each task, -1 where it found none.
    """
    rule = "imc" if priority == "group_imc" else priority
    runs = pair_runs(job, uneven, rule, pair_order, seed)
    return job.to_tasks(task_level(*job.arrays, runs, PAIR_ORDERS.index(pair_order), seed))


def run(instance: Instance, request: Request) -> Outcome:
    """Place an instance's tasks."""
    options = request.options

    def place(job: GroupedJob, uneven_instance: Instance | None) -> Ints:
        uneven = None if uneven_instance is None else uneven_pairs(uneven_instance, job)
        return place_pairs(job, options["priority"], options["pair_order"], request.seed, uneven)

    return run_on_groups(instance, request, place)


METHOD = Method(
    name="task-level",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="Collocates task pairs by priority, one after the other; quadratic time",
    source="Chatzistergiou and Viglas, CIKM 2014, Algorithms 1-3",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS | {Form.LOCAL_FIRST},
    options=(
        Option(
            "priority",
            "str",
            "group_imc",
            "traffic of the task pair, of its group pair, or the latter per processing cost",
            choices=("task_imc", "group_imc", "significance"),
        ),
        Option(
            "pair_order",
            "str",
            "shuffled",
            "order of the task pairs within a group pair",
            choices=PAIR_ORDERS,
        ),
        *RELAXATIONS,
    ),
)


# Algorithms 1 to 3 and the naive algorithm of section 3.1, compiled, task pair by task pair.

ROW, COLUMN, DIAGONAL, SHUFFLED = 0, 1, 2, 3

MOST_SHUFFLED = 5_000_000
STRIDE, NEXT_STRIDE = 1_000_003, 1_000_033


@kernel
def task_level(size, load, room, allowed, edge_u, edge_v, runs, pair_order, seed):
    """Run taskLevel (Algorithm 1).

    `edge_u`, `edge_v`: (E,) group pairs.
    `runs`: runs of task pairs by priority (`heuristics.task_allocation.task_pairs.Runs`).
    `pair_order`: order of the task pairs of a run that lists none: ROW, COLUMN, DIAGONAL or
        SHUFFLED.
    Returns node of each task, the tasks in group order; -1 where a task fits nowhere.
    """
    np.random.seed(seed)  # noqa: NPY002  the generator that compiled code has
    state = new_state(size, load, room, allowed)
    start = np.zeros(len(size) + 1, np.int64)
    start[1:] = np.cumsum(size)
    node_of = np.full(start[-1], NONE, np.int64)
    # the state's arrays by name: passing the state itself costs more than what is done with it
    free, used, close = state.room, state.used, state.close
    last = before = NONE
    for run in range(len(runs.edge)):
        edge = runs.edge[run]
        u, v = edge_u[edge], edge_v[edge]
        # a new group pair goes to the top node (Algorithm 2, line 3)
        switched = edge != before
        before = edge
        begin, count = runs.indptr[run], runs.indptr[run + 1] - runs.indptr[run]
        listed = count > 0
        if not listed:
            count = size[u] * size[v]
        turn = _turns(0 if listed else count, pair_order)
        for k in range(count):
            if listed:
                i, j = runs.first[begin + k], runs.second[begin + k]
            else:
                i, j = _pair(k, size[u], size[v], pair_order, turn)
            first, second = start[u] + i, start[v] + j
            node_u, node_v = node_of[first], node_of[second]
            if node_u != NONE and node_v != NONE:
                if room[node_u, 0] >= room[node_v, 0]:
                    node_u, node_v = node_v, node_u
                if node_u != node_v and used[node_u, 0] <= free[node_v, 0]:
                    _fuse(state, node_of, node_u, node_v)
                continue
            if node_u != NONE or node_v != NONE:
                last = max(node_u, node_v)
            elif switched or last == NONE or not fits(load, allowed, free, u, 1, v, 1, last):
                last = top_node(load, allowed, free, close, u, 1, v, 1)
            switched = False
            num_u, num_v = int(node_u == NONE), int(node_v == NONE)
            group, other, more = (u, v, num_v) if num_u else (v, u, 0)
            if last != NONE and fits(load, allowed, free, group, 1, other, more, last):
                _put_unplaced(state, u, v, first, second, node_of, last)
            # else it is broken up: what is unplaced joins the single tasks
    return _with_single_tasks(state, start, node_of)


@helper
def _turns(count, pair_order):
    if pair_order == SHUFFLED and count <= MOST_SHUFFLED:
        return np.random.permutation(count)  # noqa: NPY002
    return np.empty(0, np.int64)


@helper
def _pair(k, rows, columns, pair_order, turn):
    """Return the k-th task pair (row, column) of a group pair."""
    if pair_order == COLUMN:
        return k % rows, k // rows
    if pair_order == DIAGONAL:  # as many different tasks as possible before any comes twice
        width = max(rows, columns)
        step, shift = k % width, k // width
        if rows <= columns:
            return (step + shift) % rows, step
        return step, (step + shift) % columns
    if pair_order == SHUFFLED:
        # too many to be listed are walked in strides of a prime
        count = rows * columns
        stride = STRIDE if count % STRIDE else NEXT_STRIDE
        at = turn[k] if len(turn) else k * stride % count
        return at // columns, at % columns
    return k // columns, k % columns


@helper
def _put_unplaced(state, u, v, first, second, node_of, node):
    """Put what is unplaced of a task pair on a node (Algorithm 1, lines 12 and 13)."""
    if node_of[first] == NONE:
        place(state, u, node, 1)
        node_of[first] = node
    if node_of[second] == NONE:
        place(state, v, node, 1)
        node_of[second] = node


@helper
def _fuse(state, node_of, smaller, larger):
    """Empty a node into the other if all fits there (Algorithm 1, lines 20 to 23)."""
    if empty_into(state, smaller, larger):
        for task in range(len(node_of)):
            if node_of[task] == smaller:
                node_of[task] = larger


@helper
def _with_single_tasks(state, start, node_of):
    """Allocate the single tasks (Algorithm 3) and return where every task stands."""
    before = state.filled[0]
    allocate_single_tasks(state)
    following = start[:-1].copy()
    for split in range(before, state.filled[0]):
        group = state.splits[split, GROUP]
        for _ in range(state.splits[split, COUNT]):
            while node_of[following[group]] != NONE:
                following[group] += 1
            node_of[following[group]] = state.splits[split, NODE]
    return node_of


@kernel
def naive(size, load, room, allowed, edge_u, edge_v, runs):
    """Run the naive algorithm of section 3.1; arguments and result as for `task_level`.

    Nodes stand by capacity. Pairs go on the current node; where one does not fit, the next node
    that hosts it becomes the current one. The second task of a half-placed pair joins the first
    where it fits. What is left goes on the first node with room.
    """
    state = new_state(size, load, room, allowed)
    start = np.zeros(len(size) + 1, np.int64)
    start[1:] = np.cumsum(size)
    node_of = np.full(start[-1], NONE, np.int64)
    nodes = np.argsort(-room[:, 0], kind="mergesort")
    current = 0
    for run in range(len(runs.edge)):
        u, v = edge_u[runs.edge[run]], edge_v[runs.edge[run]]
        begin, listed = runs.indptr[run], runs.indptr[run + 1] - runs.indptr[run]
        for k in range(listed if listed else size[u] * size[v]):
            i, j = k // size[v], k % size[v]
            if listed:
                i, j = runs.first[begin + k], runs.second[begin + k]
            first, second = start[u] + i, start[v] + j
            if node_of[first] != NONE and node_of[second] != NONE:
                continue
            node = max(node_of[first], node_of[second])
            if node == NONE:
                position = _first_fit(state, nodes, current, u, 1, v, 1)
                if position == len(nodes):
                    continue  # broken up: its tasks are allocated last
                current = position
                node = nodes[position]
            num_u, num_v = int(node_of[first] == NONE), int(node_of[second] == NONE)
            group, other, more = (u, v, num_v) if num_u else (v, u, 0)
            if fits(load, allowed, state.room, group, 1, other, more, node):
                _put_unplaced(state, u, v, first, second, node_of, node)
    for group in range(len(size)):
        for task in range(start[group], start[group + 1]):
            if node_of[task] == NONE:
                position = _first_fit(state, nodes, 0, group, 1, group, 0)
                if position < len(nodes):
                    node_of[task] = nodes[position]
                    place(state, group, nodes[position], 1)
    return node_of


@helper
def _first_fit(state, nodes, position, first, num_first, second, num_second):
    """Return the first position from `position` on whose node fits the demand; the end for none."""
    while position < len(nodes) and not fits(
        state.load, state.allowed, state.room, first, num_first, second, num_second, nodes[position]
    ):
        position += 1
    return position
