"""`imc-milp` on every back end against the judge; its model row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from formulations.task_allocation.common import relabelled
from formulations.task_allocation.milp import build
from optim import Instance, solve
from optim.errors import UnsuitableMethod
from optim.kernels.classes import node_classes
from optim.referee import evaluate_indices
from tests.formulations.task_allocation.cases import places, random_instance, seeds
from tests.optim.make import instance, nodes

SOLVERS = ("highs", "scip", "cbc", "cp-sat")


def agree(made: Instance, solver: str, **options: object) -> None:
    judge = solve(made, "imc-brute", start_broken="refuse")
    result = solve(made, "imc-milp", solver=solver, start_broken="refuse", **options)
    assert result.termination == judge.termination, (result.termination, result.notes)
    if judge.plan is None:
        return
    assert result.feasible
    assert result.objective is not None
    assert judge.objective is not None
    assert result.objective.value == pytest.approx(judge.objective.value, rel=1e-6, abs=1e-9)


@settings(max_examples=8)
@pytest.mark.parametrize("solver", SOLVERS)
@given(seed=seeds)
def test_equals_brute_force(solver: str, seed: int) -> None:
    agree(random_instance(seed, most_tasks=6, most_nodes=3), solver)


@settings(max_examples=8)
@given(seeds)
def test_symmetry_breaking_loses_nothing(seed: int) -> None:
    made = random_instance(seed, most_tasks=6, most_nodes=3)
    agree(made, "highs", break_symmetry=True)
    agree(made, "highs", break_symmetry=False)


@pytest.mark.slow
@given(seeds)
def test_every_feasible_placement_satisfies_the_model(seed: int) -> None:
    made = random_instance(seed, most_tasks=6, most_nodes=3)
    plain, ordered = build(made, break_symmetry=False), build(made)
    classes = node_classes(made)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        node = rng.integers(0, made.num_nodes, made.num_tasks).astype(np.int32)
        legal = evaluate_indices(made, node).feasible
        legal &= all(places(made, t)[n] for t, n in enumerate(node))
        vector = plain.vector(node)
        complete = np.array_equal(plain.place(vector), node)
        assert (complete and plain.model.violation(vector) <= 1e-6) == legal
        if legal:
            same = relabelled(node, classes)
            assert evaluate_indices(made, same).feasible
            assert ordered.model.violation(ordered.vector(same)) <= 1e-6
            gain = evaluate_indices(made, node).imc_gain
            z, rate = plain.traffic()
            assert vector[z] @ rate == pytest.approx(gain)


def test_the_model_of_two_tasks_on_two_nodes() -> None:
    made = instance(
        operators=[],
        streams=[],
        tasks=[{"id": "u", "load": {"cpu": 4}}, {"id": "v", "load": {"cpu": 5}}],
        traffic=[["u", "v", 3]],
    )
    model = build(made, break_symmetry=False).model
    blocks = {block.name: block.stop - block.start for block in model.row_blocks}
    assert blocks == {"assign": 2, "capacity": 2, "with_first": 2, "with_second": 2}
    assert model.num_variables == 4 + 2


def test_relabelling_opens_identical_nodes_in_order() -> None:
    classes = node_classes(instance(nodes=nodes(4, capacity={"cpu": 10})))
    assert relabelled(np.array([3, 1, 3, 0]), classes).tolist() == [0, 1, 0, 2]


def test_start_is_kept(examples: object) -> None:
    made = instance()
    start = solve(made, "imc-brute")
    result = solve(made, "imc-milp", warm_start=start.plan, time_limit=20)
    assert result.warm_start is not None
    assert result.objective is not None
    assert start.objective is not None
    assert result.objective.value == start.objective.value


def test_stopped_at_once_it_bounds_and_keeps_the_start() -> None:
    made = instance(nodes=nodes(6, capacity={"cpu": 8}))
    start = solve(made, "imc-exact")
    result = solve(made, "imc-milp", warm_start=start.plan, time_limit=1e-3)
    assert result.plan is not None
    assert start.objective is not None
    assert result.objective is not None
    assert result.objective.value == start.objective.value
    assert result.bound is None or result.bound >= start.objective.value


def test_too_large_a_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formulations.task_allocation.model.MOST_PRODUCTS", 7)
    with pytest.raises(UnsuitableMethod, match=r"8 products.*imc-exact"):
        solve(instance(), "imc-milp")


def test_what_does_not_fit_beside_a_task_is_never_inside() -> None:
    """Beside a (10 of 10) nothing fits, beside b (4) only c: its row holds 5 of the 6 left."""
    made = instance(
        nodes=nodes(1, capacity={"cpu": 10}),
        operators=[],
        streams=[],
        tasks=[
            {"id": t, "load": {"cpu": cpu}} for t, cpu in zip("abcd", (10, 4, 5, 5), strict=True)
        ],
        traffic=[["a", "b", 1], ["b", "c", 1], ["b", "d", 1]],
    )
    arrays = build(made, star_rows=True).model
    frozen = arrays.freeze()
    matrix = frozen.matrix.toarray()
    [star] = [matrix[b.start : b.stop] for b in arrays.row_blocks if b.name == "star"]
    assert frozen.upper.tolist() == [1, 1, 1, 1, 0, 1, 1]
    assert star == pytest.approx(np.array([[0, -6, 0, 0, 0, 5, 5]]))
