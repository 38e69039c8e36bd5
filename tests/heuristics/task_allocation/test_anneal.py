"""Annealing: what it says it gained is what the referee finds; limits hold at any temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.task_allocation.anneal import anneal, matrix_of
from optim.figures.measures import imc_gain_of
from optim.moves.board import board_of
from optim.moves.descent import descend
from tests.optim.make import instance as small
from tests.optim.make import nodes
from tests.optim.moves.cases import placements, problems
from tests.optim.moves.test_board import check
from tests.optim.moves.test_descent import rules

ROWS = np.zeros((0, 0))


@given(st.data())
def test_gain_is_the_referees_after_every_proposal(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    board = board_of(instance, data.draw(placements(instance)))
    hot = data.draw(st.sampled_from([0.1, 5.0, 1e6]))
    matrix = matrix_of(instance) if data.draw(st.booleans()) else ROWS
    everyone = np.arange(instance.num_tasks)
    if not len(everyone):
        return
    for seed in range(20):
        before, broken = imc_gain_of(instance, board.node), rules(instance, board.node)
        gained = anneal(board, matrix, everyone, 1, hot, hot / 2, seed)
        assert imc_gain_of(instance, board.node) - before == pytest.approx(gained, abs=1e-9)
        assert rules(instance, board.node) <= broken
        fresh = board_of(instance, board.node)  # annealing leaves the chains as they were
        check(instance, board._replace(first=fresh.first, after=fresh.after, before=fresh.before))


@pytest.mark.parametrize("by_table", [False, True])
def test_leaves_a_local_optimum_that_descent_cannot(by_table: bool) -> None:
    rng = np.random.default_rng(5)
    made = small(
        nodes=nodes(6, capacity={"cpu": 20}),
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": 1}} for i in range(120)],
        traffic=[
            [f"t{i}", f"t{j}", 1]
            for i in range(120)
            for j in range(i)
            if rng.random() < (0.4 if i // 20 == j // 20 else 0.1)
        ],
    )
    start = (np.arange(120) % 6).astype(np.int32)
    matrix = matrix_of(made) if by_table else ROWS
    board = board_of(made, start)
    descend(board, np.arange(120), 50, 1e-9)
    stuck = imc_gain_of(made, board.node)
    anneal(board, matrix, np.arange(120), 200_000, 0.6, 0.1, 0)
    board = board_of(made, board.node)
    descend(board, np.arange(120), 50, 1e-9)
    assert imc_gain_of(made, board.node) > 1.05 * stuck
    again = board_of(made, start)
    descend(again, np.arange(120), 50, 1e-9)
    anneal(again, matrix, np.arange(120), 200_000, 0.6, 0.1, 0)
    again = board_of(made, again.node)
    descend(again, np.arange(120), 50, 1e-9)
    assert np.array_equal(again.node, board.node)
