"""Bounds of an LP that its multipliers prove, exact or near; a first-order method's multipliers."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from optim.solvers.inprocess import approximate_duals, dual_bound, solve_lp

INF = np.inf


Program = tuple[Any, Any, Any, Any, Any, Any]


def _program(rng: np.random.Generator) -> tuple[Program, Any]:
    """Return a bounded LP that a known point solves feasibly."""
    rows, columns = rng.integers(1, 5), rng.integers(1, 7)
    matrix = rng.integers(-3, 4, (rows, columns)).astype(float)
    point = rng.random(columns)
    at = matrix @ point
    lower = np.where(rng.random(rows) < 0.3, -INF, at - rng.random(rows))
    upper = np.where(rng.random(rows) < 0.3, INF, at + rng.random(rows))
    lower = np.where(rng.random(rows) < 0.2, upper, lower)  # equalities, or no upper bound at all
    lower = np.where(np.isfinite(lower), np.minimum(lower, at), -INF)
    return (
        rng.normal(size=columns), matrix, lower, upper, np.zeros(columns), np.ones(columns)
    ), point  # fmt: skip


def _sparse(program: Program) -> Program:
    cost, matrix, *bounds = program
    return (cost, csr_array(matrix), *bounds)


@pytest.mark.parametrize("seed", range(40))
def test_any_weights_prove_and_the_duals_prove_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, point = _program(rng)
    solved = solve_lp(*_sparse(program))
    assert solved.objective is not None
    assert solved.objective <= program[0] @ point + 1e-9
    for _ in range(5):
        weights = rng.normal(size=len(program[2])) * (rng.random(len(program[2])) < 0.7)
        assert dual_bound(*_sparse(program), weights) <= solved.objective + 1e-9
    assert dual_bound(*_sparse(program), solved.row_duals) == pytest.approx(
        solved.objective, abs=1e-9
    )


def test_it_stays_below_what_the_sums_round_to() -> None:
    """The bound of 0.1 + 0.2 is below the decimal 0.3, and by no more than roundings."""
    one = np.ones(1)
    program = (np.array([0.1, 0.2]), np.ones((1, 2)), -INF * one, INF * one, np.ones(2), np.ones(2))
    found = dual_bound(*_sparse(program), np.zeros(1))
    assert 0.3 - 1e-14 < found < 0.3


def test_a_variable_without_a_bound_may_leave_nothing_proven() -> None:
    one = np.ones(1)
    program: Program = (one, np.zeros((1, 1)), -one, one, -INF * one, INF * one)
    assert dual_bound(*_sparse(program), np.zeros(1)) == -INF


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
    from optim.solvers import inprocess as duals

    monkeypatch.setattr(duals, "_FIRST", 1)
    draw = np.random.default_rng(1)
    matrix, cost = draw.random((8, 20)), draw.random(20) + 0.1
    right = matrix @ draw.random(20)
    found = list(approximate_duals(cost, matrix, right, right, time.process_time() + 20))
    assert len(found) > 2
    values = [float(duals @ right) for duals in found]
    assert abs(values[-1] - values[-2]) < abs(values[-1] - values[0])
