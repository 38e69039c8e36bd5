"""Annealing: what it says it gained is what the referee finds; limits hold at any temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.figures.measures import imc_gain_of
from optim.moves.anneal import anneal
from optim.moves.board import board_of
from optim.moves.descent import descend
from tests.optim.make import instance as small
from tests.optim.make import nodes
from tests.optim.moves.cases import placements, problems
from tests.optim.moves.test_board import check
from tests.optim.moves.test_descent import rules


@given(st.data())
def test_gain_is_the_referees_after_every_proposal(data: st.DataObject) -> None:
    instance = data.draw(problems(groups=data.draw(st.booleans())))
    board = board_of(instance, data.draw(placements(instance)))
    hot = data.draw(st.sampled_from([0.1, 5.0, 1e6]))
    for seed in range(20):
        before, broken = imc_gain_of(instance, board.node), rules(instance, board.node)
        gained = anneal(board, 1, hot, hot / 2, seed)
        assert imc_gain_of(instance, board.node) - before == pytest.approx(gained, abs=1e-9)
        assert rules(instance, board.node) <= broken
        check(instance, board)


def test_leaves_a_local_optimum_that_descent_cannot() -> None:
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
    board = board_of(made, start)
    descend(board, np.arange(120), 50, 1e-9)
    stuck = imc_gain_of(made, board.node)
    anneal(board, 200_000, 0.6, 0.1, 0)
    descend(board, np.arange(120), 50, 1e-9)
    assert imc_gain_of(made, board.node) > 1.05 * stuck
    again = board_of(made, start)
    descend(again, np.arange(120), 50, 1e-9)
    anneal(again, 200_000, 0.6, 0.1, 0)
    descend(again, np.arange(120), 50, 1e-9)
    assert np.array_equal(again.node, board.node)
