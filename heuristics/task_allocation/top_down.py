"""``top-down``: the group-aware allocator of the CIKM 2014 paper, Algorithms 3 to 5, as published.

Group pairs are taken by priority. A pair of which nothing stands yet is fused on one node, or
balanced splits of it are laid on one node after the other; a group whose partner stands is laid
beside it; two groups that stand whole on two nodes are fused by emptying one. What is left goes one
by one to the node with most room. Nothing is ever taken back, so that tight jobs may end with tasks
unplaced.

Source: Chatzistergiou and Viglas, "Fast heuristics for near-optimal task allocation in data stream
processing over clusters", CIKM 2014, sections 3.2 and 4, doi:10.1145/2661829.2661882.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heuristics.task_allocation.groups import RELAXATIONS, run_on_groups
from heuristics.task_allocation.state import (
    COUNT,
    GROUP,
    NEXT_OF_GROUP,
    NODE,
    NONE,
    allocate_single_tasks,
    copies,
    empty_into,
    new_state,
    place,
    top_node,
)
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome, Request
from optim.rules.base import LOADS, Form
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from heuristics.task_allocation.groups import GroupedJob
    from optim.format.instance import Instance
    from optim.format.tables import Ints

K_RULES = ("shrink", "give_up")


def place_groups(job: GroupedJob, priority: str = "significance", k_rule: str = "shrink") -> Ints:
    """Run topDown on a grouped job.

    `job`: groups, traffic between them, room of the nodes.
    `priority`: ``significance`` (Eq. 2) or ``imc``.
    `k_rule`: when not one balanced split fits the best node: ``shrink`` the ratio until one does,
        or ``give_up`` and leave the rest of the pair to the single tasks.
    Returns (T,) node of each task, -1 where it found none.
    """
    state = top_down(*job.arrays, job.priority(priority), K_RULES.index(k_rule))
    splits = state.splits[: state.filled[0]].astype(np.int64)
    return job.spread(splits[:, GROUP], splits[:, NODE], splits[:, COUNT])


def run(instance: Instance, request: Request) -> Outcome:
    """Place an instance's tasks; see the module's page for the readings behind the options."""
    options = request.options

    def place(job: GroupedJob, _: Instance | None) -> Ints:
        return place_groups(job, options["priority"], options["k_rule"])

    return run_on_groups(instance, request, place)


METHOD = Method(
    name="top-down",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="Fuses group pairs by significance, splits groups only where it must; linear time",
    source="Chatzistergiou and Viglas, CIKM 2014, Algorithms 3-5",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS | {Form.LOCAL_FIRST},
    options=(
        Option(
            "priority",
            "str",
            "significance",
            "order of the group pairs: traffic per processing cost (Eq. 2), or traffic",
            choices=("significance", "imc"),
        ),
        Option(
            "k_rule",
            "str",
            "shrink",
            "when no balanced split fits the best node: shrink the ratio until one fits, "
            "or give up and leave the pair to the single tasks",
            choices=K_RULES,
        ),
        *RELAXATIONS,
    ),
)


# Algorithms 4 and 5 of the CIKM 2014 paper, compiled, on plain arrays.

SHRINK, GIVE_UP = 0, 1


@kernel
def top_down(size, load, room, allowed, edge_u, edge_v, order, k_rule):
    """Run topDown (Algorithm 4).

    `edge_u`, `edge_v`: (E,) the group pairs.
    `order`: (E,) indices of the pairs, most urgent first.
    `k_rule`: what happens when not one balanced split fits the best node: SHRINK or GIVE_UP.
    Returns the placement; ``left`` is what fits nowhere.
    """
    state = new_state(size, load, room, allowed)
    start = room - state.used
    weight = np.zeros(room.shape[0], np.int64)
    for edge in order:
        u, v = edge_u[edge], edge_v[edge]
        if state.left[u] > 0 and state.left[v] > 0:
            _allocate_pair(state, u, v, k_rule)
        elif state.left[v] > 0:
            _allocate_second(state, u, v, weight)
        elif state.left[u] > 0:
            _allocate_second(state, v, u, weight)
        else:
            _fuse(state, u, v, start)
    allocate_single_tasks(state)
    return state


@helper
def _allocate_pair(state, u, v, k_rule):
    """Algorithm 5 in mode "both": fuse what is unplaced of the pair, or slice balanced splits."""
    while state.left[u] > 0 and state.left[v] > 0:
        node = top_node(
            state.load, state.allowed, state.room, state.close, u, state.left[u], v, state.left[v]
        )
        if node != NONE:
            place(state, u, node, state.left[u])
            place(state, v, node, state.left[v])
            return
        small, large = (u, v) if state.left[u] <= state.left[v] else (v, u)
        ratio = state.left[large] // state.left[small]
        node = top_node(state.load, state.allowed, state.room, state.close, small, 1, large, ratio)
        if node == NONE and k_rule == SHRINK:
            ratio, node = _shrunk(state, small, large, ratio)
        if node == NONE:
            return
        number = copies(state.load, state.room, small, large, ratio, node, state.left[small])
        place(state, small, node, number)
        place(state, large, node, number * ratio)


@helper
def _shrunk(state, small, large, ratio):
    """Return the largest smaller ratio whose split fits a node, and the node; -1 for none."""
    # loads are sums, so what fits with some ratio fits with every smaller one: bisection
    low, high = 0, ratio
    best = NONE
    while high - low > 1:
        middle = (low + high) // 2
        node = top_node(state.load, state.allowed, state.room, state.close, small, 1, large, middle)
        if node == NONE:
            high = middle
        else:
            low, best = middle, node
    return low, best


@helper
def _allocate_second(state, placed, other, weight):
    """Algorithm 5 in mode "second": put `other` beside `placed`, host by host by expected gain."""
    hosts = 0
    split = state.first_of_group[placed]
    while split != NONE:
        node = state.splits[split, NODE]
        if weight[node] == 0:
            hosts += 1
        weight[node] += state.splits[split, COUNT]
        split = state.splits[split, NEXT_OF_GROUP]
    for _ in range(hosts):
        best = _heaviest_host(state, placed, weight)
        weight[best] = -weight[best]
        if state.left[other] > 0 and (state.allowed.shape[0] == 0 or state.allowed[other, best]):
            number = copies(state.load, state.room, other, other, 0, best, state.left[other])
            if number > 0:
                place(state, other, best, number)
        if state.left[other] == 0:
            break
    split = state.first_of_group[placed]
    while split != NONE:
        weight[state.splits[split, NODE]] = 0
        split = state.splits[split, NEXT_OF_GROUP]


@helper
def _heaviest_host(state, placed, weight):
    """Return the host of `placed` not yet tried that holds most of it; ties by index."""
    # every task of the partner gains traffic in proportion to what stands there (line 14)
    best = NONE
    split = state.first_of_group[placed]
    while split != NONE:
        node = state.splits[split, NODE]
        if weight[node] > 0 and (
            best == NONE
            or weight[node] > weight[best]
            or (weight[node] == weight[best] and node < best)
        ):
            best = node
        split = state.splits[split, NEXT_OF_GROUP]
    return best


@helper
def _fuse(state, u, v, start):
    """Lines 19-24: both groups stand whole on a node each; empty the smaller into the other."""
    first, second = _only_host(state, u), _only_host(state, v)
    if min(first, second) == NONE or first == second:
        return
    if start[second, 0] >= start[first, 0]:
        first, second = second, first
    empty_into(state, second, first)


@helper
def _only_host(state, group):
    """Return the node that holds the whole group, or -1 when several do."""
    split = state.first_of_group[group]
    node = NONE
    while split != NONE:
        if node != NONE and state.splits[split, NODE] != node:
            return NONE
        node = state.splits[split, NODE]
        split = state.splits[split, NEXT_OF_GROUP]
    return node
