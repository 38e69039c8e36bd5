"""Counts become placements that have them, close to where the tasks are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from scipy.optimize import linear_sum_assignment

from optim.kernels.classes import _FEW, counts_of, deal, matched, node_classes, task_groups
from tests.formulations.task_allocation.cases import random_instance, seeds
from tests.optim.make import instance, nodes


@given(seeds)
def test_dealing_gives_the_counts_back(seed: int) -> None:
    made = random_instance(seed)
    groups, classes = task_groups(made), node_classes(made)
    rng = np.random.default_rng(seed)
    node = classes.members[rng.integers(0, len(classes.members), made.num_tasks)]
    counts = counts_of(groups, classes, node, made.num_nodes)
    for reference in (None, made.tasks.node, node):
        dealt = deal(groups, classes, counts, reference)
        again = counts_of(groups, classes, dealt, made.num_nodes)
        for k in range(classes.num_classes):
            mine = classes.node_class[classes.members] == k
            assert sorted(again[mine].tolist()) == sorted(counts[mine].tolist())
    assert (deal(groups, classes, counts, node) == node).all()


def test_identical_nodes_and_tasks_change_places_so_that_few_move() -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 10}))
    groups, classes = task_groups(made), node_classes(made)
    here = np.array([2, 1, 1, 0], dtype=np.int32)
    counts = np.array([[1, 0], [1, 1], [0, 1]])
    dealt = deal(groups, classes, counts, here)
    assert dealt.tolist() == here.tolist()


@given(seeds)
def test_few_places_are_matched_as_well_as_by_the_solver_for_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places, groups = int(rng.integers(2, _FEW + 1)), int(rng.integers(1, 4))
    counts, before = (rng.integers(0, 4, (places, groups)) for _ in range(2))
    stay = np.minimum(counts[:, None, :], before[None, :, :]).sum(axis=2)
    content, place = linear_sum_assignment(stay, maximize=True)
    order = matched(counts, before)
    assert sorted(order) == list(range(places))
    assert np.minimum(counts[order], before).sum() == stay[content, place].sum()


def test_places_stay_as_they_are_where_no_order_keeps_more() -> None:
    alike = np.full((4, 2), 3)
    assert matched(alike, alike).tolist() == [0, 1, 2, 3]
