"""Rows of numbers too far apart: the answers of solvers are those of enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from optim.solvers import solve_linear
from optim.solvers.linear_model import TOLERANCE, LinearModel
from optim.solvers.row_scaling import apart

SOLVERS = ("highs", "cbc", "scip")


def mixed(seed: int) -> tuple[LinearModel, list[tuple[int, int]]]:
    """Return a model of a few 0-1 variables and products, with rows of numbers up to 1e13."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    model = LinearModel("far apart", sense="max")
    gains = rng.integers(1, 10, n).astype(float)
    x = model.add_variables("x", n, upper=1.0, integer=True, objective=gains).indices
    for i in range(int(rng.integers(1, 4))):
        huge = 10.0 ** rng.integers(4, 14)
        value = np.round(rng.uniform(1, 9, n), 2) * np.where(rng.random(n) < 0.4, huge, 1.0)
        value *= rng.choice([-1, 1], n) if rng.random() < 0.3 else rng.choice([-1, 1])
        value[rng.random(n) < 0.3] = 0
        upper = float(value @ rng.integers(0, 2, n)) + float(rng.choice([0, rng.uniform(-2, 2)]))
        upper = float(np.round(rng.uniform(-8, 20), 2)) if rng.random() < 0.3 else upper
        some = np.flatnonzero(value)
        if len(some):
            room, row = upper + 1e-9 * abs(upper), np.zeros(len(some), int)
            model.add_rows(f"row {i}", -np.inf, room, row, x[some], value[some], num_rows=1)
    pairs = [(int(u), int(v)) for u, v in rng.integers(0, n, (5, 2)) if u != v]
    if not pairs or rng.random() < 0.5:
        return model, []
    k = len(pairs)
    w = model.add_variables("both", k, upper=1.0).indices
    ends, row = np.array(pairs).T, np.arange(k)
    for end in ends:
        columns, values = np.concatenate([w, x[end]]), np.repeat([1.0, -1.0], k)
        model.add_rows("with", -np.inf, 0.0, np.tile(row, 2), columns, values, num_rows=k)
    rate = np.round(rng.uniform(1, 9, k), 2)
    rate *= np.where(rng.random(k) < 0.5, 10.0 ** rng.integers(4, 14), 1.0)
    model.add_rows(
        "link", -np.inf, float(np.round(rng.uniform(0, 20), 2)), np.zeros(2 * k, int),
        np.concatenate([x[ends[0]], w]), np.concatenate([rate, -rate]), num_rows=1,
    )  # fmt: skip
    return model, pairs


def enumerated(model: LinearModel, pairs: list[tuple[int, int]]) -> tuple[float, float]:
    """Return the best value of what keeps the rows, and of what keeps them within tolerance."""
    arrays, best, wide = model.freeze(), -np.inf, -np.inf
    rows = arrays.matrix.toarray()
    for bits in product((0.0, 1.0), repeat=model.num_variables - len(pairs)):
        x = np.array([*bits, *(bits[u] * bits[v] for u, v in pairs)])
        value = arrays.objective_of(x)
        kept = all(
            sum(map(Fraction, row[x > 0].tolist()), Fraction(0)) <= u
            for row, u in zip(rows, arrays.row_upper, strict=True)
        )
        best = max(best, value) if kept else best
        wide = max(wide, value) if kept or model.violation(x) <= TOLERANCE else wide
    return best, wide


CASES = [
    *(("highs", seed) for seed in (*range(20), 1042, 1201)),
    *(("scip", seed) for seed in (31, 126, 128, 1111, 1171, 1481)),
    *(("cbc", seed) for seed in (31, 126, 128, 1009, 1010, 1019, 1201, 1208, 1242)),
]


@pytest.mark.parametrize(("solver", "seed"), CASES)
def test_answers_are_those_of_enumeration(solver: str, seed: int) -> None:
    model, pairs = mixed(seed)
    best, wide = enumerated(model, pairs)
    answer = solve_linear(model, solver)
    if answer.termination == "infeasible":
        assert best == -np.inf
    elif answer.termination == "optimal":
        assert best - 1e-6 <= answer.objective <= wide + 1e-6  # type: ignore[operator]
    if answer.bound is not None:
        assert answer.bound >= best - 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_small_numbers_beside_a_difference_of_huge_ones_count(solver: str) -> None:
    model = LinearModel("beside", "max")
    x = model.add_variables("x", 4, upper=1.0, integer=True, objective=[1, -1, 2, 3]).indices
    model.add_rows("row", -np.inf, 5.0, np.zeros(4, int), x, [1e12, -1e12, 3.0, 4.0], num_rows=1)
    model.add_rows("as many", 0.0, 0.0, np.zeros(2, int), x[:2], [1.0, -1.0], num_rows=1)
    answer = solve_linear(model, solver)
    assert (answer.termination, answer.objective, answer.bound) == ("optimal", 3.0, 3.0)


def test_infeasible_by_less_than_a_solver_tells_is_not_proven() -> None:
    model = LinearModel("less", "max")
    y = model.add_variables("y", 1, upper=1.0).indices
    x = model.add_variables("x", 2, upper=1.0, integer=True).indices
    model.add_rows(
        "row", 1.0, 1.0, np.zeros(3, int), np.append(x, y), [1e12, -1e12, 0.5], num_rows=1
    )
    answer = solve_linear(model, "highs")
    assert (answer.termination, answer.bound) == ("iteration_limit", None)
    assert "nothing is proven" in answer.message


def test_what_follows_from_a_row_keeps_what_the_row_keeps() -> None:
    for seed in range(200):
        model, pairs = mixed(seed)
        kept = apart(model.freeze())
        if kept is None:
            continue
        arrays = kept.arrays
        for bits in product((0.0, 1.0), repeat=model.num_variables - len(pairs)):
            x = np.array([*bits, *(bits[u] * bits[v] for u, v in pairs)])
            if all(each.cover(x) is None for each in kept.kept):
                rows = arrays.num_rows - sum(len(list(each.rows())) for each in kept.kept)
                assert (arrays.matrix[rows:] @ x <= arrays.row_upper[rows:] + 1e-9).all(), seed
