"""The array model: blocks, triplets, freezing, its own check of a solution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim.errors import InvalidInput
from optim.solvers.linear_model import TOLERANCE, LinearModel


def small() -> LinearModel:
    model = LinearModel("small", "max")
    x = model.add_variables(
        "x", (2, 3), upper=1.0, integer=True, objective=np.arange(6.0).reshape(2, 3)
    )
    y = model.add_variables("y", 2, lower=[-1.0, 0.0], upper=[1.0, np.inf])
    model.add_rows("each", 1.0, 1.0, [0, 0, 0, 1, 1, 1], x.indices.ravel(), 1.0)
    model.add_rows("link", -np.inf, [2.0, 3.0], [0, 1, 1], [y.start, y.start, y.start + 1], 2.0)
    model.set_objective(y.indices, [10.0, 20.0], offset=5.0)
    return model


def test_blocks_number_columns_and_rows_in_order() -> None:
    model = small()
    x, y = model.variable_blocks
    assert (x.start, x.stop, y.start, y.stop) == (0, 6, 6, 8)
    assert x.indices.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x.values(np.arange(8.0)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [(b.start, b.size) for b in model.row_blocks] == [(0, 2), (2, 2)]


def test_frozen_arrays_hold_what_was_declared() -> None:
    arrays = small().freeze()
    assert arrays.sense == "max"
    assert arrays.cost.tolist() == [0, 1, 2, 3, 4, 5, 10, 20]
    assert arrays.lower.tolist() == [0] * 6 + [-1, 0]
    assert arrays.upper.tolist() == [1] * 6 + [1, np.inf]
    assert arrays.integrality.tolist() == [True] * 6 + [False] * 2
    assert arrays.row_lower.tolist() == [1, 1, -np.inf, -np.inf]
    assert arrays.row_upper.tolist() == [1, 1, 2, 3]
    assert arrays.matrix.toarray()[3].tolist() == [0] * 6 + [2, 2]


def test_objective_of_includes_the_offset() -> None:
    x = np.array([0.0, 1, 0, 0, 0, 1, 0.5, 2])
    assert small().objective_of(x) == 1 + 5 + 5 + 40 + 5


def test_names_name_block_and_index() -> None:
    model = small()
    assert model.variable_name(5) == "x[1,2]"
    assert model.variable_name(7) == "y[1]"
    assert model.row_name(3) == "link[1]"


def test_names_skip_empty_blocks() -> None:
    model = LinearModel("empty blocks")
    model.add_variables("none", 0)
    model.add_variables("some", 1)
    model.add_rows("nothing", 0.0, 0.0, [], [], [])
    model.add_rows("one", 0.0, 1.0, [0], [0], [1.0])
    assert model.variable_name(0) == "some[0]"
    assert model.row_name(0) == "one[0]"


def test_duplicate_triplets_are_summed() -> None:
    model = LinearModel("sum")
    model.add_variables("x", 2)
    model.add_rows("r", 0.0, 1.0, [0, 0, 0], [1, 0, 1], [1.5, 7.0, 2.0])
    matrix = model.freeze().matrix
    assert matrix.nnz == 2
    assert matrix.toarray().tolist() == [[7.0, 3.5]]


def test_terms_of_a_sum_are_broadcast_and_added() -> None:
    model = LinearModel("sum")
    x, y = (model.add_variables(name, 2).indices for name in "xy")
    model.add_sum("at_most", -np.inf, [0.0, 1.0], 2, (np.arange(2), x, [1.0, 3.0]), (1, y, -2.0))
    assert model.freeze().matrix.toarray().tolist() == [[1, 0, 0, 0], [0, 3, -2, -2]]


def test_matrix_rows_may_span_the_first_columns_only() -> None:
    model = LinearModel("matrix")
    model.add_variables("x", 3)
    model.add_matrix_rows("a", np.array([[1.0, 2.0]]), 0.0, 5.0)
    assert model.freeze().matrix.toarray().tolist() == [[1.0, 2.0, 0.0]]


def test_freeze_is_cached_until_something_is_added() -> None:
    model = small()
    first = model.freeze()
    assert model.freeze() is first
    model.add_variables("z", 1)
    assert model.freeze().num_variables == 9


def test_arrays_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        small().freeze().cost[0] = 1.0


def test_bounds_of_integers_become_whole() -> None:
    model = LinearModel("whole")
    model.add_variables("x", 3, lower=[0.2, -1.5, 2.9999999999], upper=[3.7, -0.5, 3], integer=True)
    arrays = model.freeze()
    assert arrays.lower.tolist() == [1, -1, 3]
    assert arrays.upper.tolist() == [3, -1, 3]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 0.0),
        ({0: 0.5, 1: 0.5}, 0.5),  # not whole
        ({1: 0.0}, 1.0),  # nothing chosen in the first row
        ({6: 1.25}, 1.5),  # above its bound by 0.25, a row by 1.5
        ({7: -3.0}, 3.0),
        ({7: np.nan}, np.inf),
        ({7: np.inf}, np.inf),
    ],
)
def test_violation_measures_bounds_rows_and_integrality(
    change: dict[int, float], expected: float
) -> None:
    x = np.array([0.0, 1, 0, 0, 0, 1, 0.5, 1.0])
    for j, value in change.items():
        x[j] = value
    assert small().violation(x) == pytest.approx(expected)


def test_violation_of_large_bounds_is_relative_to_a_billionth() -> None:
    model = LinearModel("large")
    model.add_variables("x", 1)
    model.add_rows("cap", -np.inf, 1e6, [0], [0], [1.0])
    assert model.violation(np.array([1e6 + 0.9e-3])) <= TOLERANCE
    assert model.violation(np.array([1e6 + 1.1e-3])) > TOLERANCE


def test_worst_violation_names_the_culprit() -> None:
    x = np.array([0.0, 1, 0, 0, 0, 1, 0.5, 9.0])
    amount, where = small().worst_violation(x)
    assert where == "link[1]"
    assert amount == pytest.approx(16.0)
    assert small().worst_violation(np.zeros(3))[0] == np.inf


@pytest.mark.parametrize(
    ("rows", "cols", "values"),
    [
        ([0], [8], [1.0]),
        ([0], [-1], [1.0]),
        ([-1], [0], [1.0]),
        ([1], [0], [1.0]),
        ([0.5], [0], [1.0]),
    ],
)
def test_bad_indices_are_refused(rows: list[int], cols: list[int], values: list[float]) -> None:
    with pytest.raises(InvalidInput, match=r"number|integer"):
        small().add_rows("bad", 0.0, 1.0, rows, cols, values, num_rows=1)


def test_numbers_that_are_not_finite_are_refused() -> None:
    for bad in (np.nan, np.inf):
        model = LinearModel("bad")
        model.add_variables("x", 1, objective=bad)
        with pytest.raises(InvalidInput, match="finite"):
            model.freeze()
    model = LinearModel("bad")
    model.add_variables("x", 1, lower=np.nan)
    with pytest.raises(InvalidInput, match="finite"):
        model.freeze()


def test_unknown_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="minimise"):
        LinearModel("x", "minimise")  # type: ignore[arg-type]


@given(seed=st.integers(0, 10_000), blocks=st.integers(0, 4))
def test_any_split_into_blocks_gives_the_same_matrix(seed: int, blocks: int) -> None:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((6, 4)) < 0.5, rng.normal(size=(6, 4)), 0.0)
    cuts = np.sort(rng.integers(0, 7, blocks))
    model = LinearModel("split")
    model.add_variables("x", 4)
    for k, part in enumerate(np.split(dense, cuts)):
        rows, cols = np.nonzero(part)
        order = rng.permutation(len(rows))
        model.add_rows(
            f"b{k}", -1.0, 1.0, rows[order], cols[order], part[rows, cols][order], len(part)
        )
    assert np.array_equal(model.freeze().matrix.toarray(), dense)


def test_violation_of_a_row_is_relative_to_its_largest_term() -> None:
    # the bound is 0, but sums of 1e9 have roundings of their own
    model = LinearModel("open")
    model.add_variables("x", 3, upper=1.0)
    model.add_rows("cap", -np.inf, 0.0, [0, 0, 0], [0, 1, 2], [1e9 + 0.9, -1e9, 1e12])
    assert model.violation(np.array([1.0, 1.0, 0.0])) <= TOLERANCE
    assert model.violation(np.array([1.0, 0.9, 0.0])) > TOLERANCE
    small = LinearModel("small")
    small.add_variables("x", 2, upper=1.0)
    small.add_rows("cap", -np.inf, 0.0, [0, 0], [0, 1], [5.0 + 0.9e-6, -5.0])
    assert small.violation(np.array([1.0, 1.0])) == pytest.approx(0.9e-6)
    assert small.violation(np.array([np.nan, 1.0])) == np.inf
