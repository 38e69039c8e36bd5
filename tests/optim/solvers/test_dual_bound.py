"""The bound that duals prove: below every point, and at the optimum for the LP's own duals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from optim.solvers.dual_bound import dual_bound
from optim.solvers.inprocess import solve_lp

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
