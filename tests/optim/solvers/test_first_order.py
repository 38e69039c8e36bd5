"""Duals that are about right, against the exact ones."""

from __future__ import annotations

import time

import numpy as np
import pytest

from optim.solvers.first_order import approximate_duals
from optim.solvers.inprocess import solve_lp


@pytest.mark.parametrize("seed", range(5))
def test_they_come_near_the_exact_ones(seed: int) -> None:
    """By what they prove: the dual's value, which no two programs need to share multipliers for."""
    draw = np.random.default_rng(seed)
    rows, many = 6, 15
    matrix, point = draw.random((rows, many)), draw.random(many)
    cost = draw.random(many) + 0.1  # x >= 0 and costs above 0: bounded
    equal = np.arange(rows) < 2
    right = matrix @ point
    lower = np.where(equal, right, right * 0.9)
    upper = np.where(equal, right, np.inf)
    answer = solve_lp(cost, matrix, lower, upper, np.zeros(many), np.full(many, np.inf))
    assert answer.objective is not None
    *_, last = approximate_duals(cost, matrix, lower, upper, time.process_time() + 20)
    assert last @ lower == pytest.approx(answer.objective, rel=1e-5)
    assert (cost - matrix.T @ last).min() > -1e-5


def test_no_round_is_begun_after_the_deadline() -> None:
    one = np.ones(1)
    assert not list(approximate_duals(one, np.ones((1, 1)), one, one, time.process_time()))


def test_rounds_go_on_from_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from optim.solvers import first_order

    monkeypatch.setattr(first_order, "_FIRST", 1)
    draw = np.random.default_rng(1)
    matrix, cost = draw.random((8, 20)), draw.random(20) + 0.1
    right = matrix @ draw.random(20)
    found = list(approximate_duals(cost, matrix, right, right, time.process_time() + 20))
    assert len(found) > 2
    values = [float(duals @ right) for duals in found]
    assert abs(values[-1] - values[-2]) < abs(values[-1] - values[0])
