"""`imc-brute` against assignments tried one by one in plain Python, and its refusals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from formulations.task_allocation import brute
from formulations.task_allocation.brute import least_assignments, next_better
from optim import Instance, solve
from optim.errors import UnsuitableMethod
from optim.kernels.classes import node_classes, task_groups
from optim.referee import evaluate_indices
from optim.util.compiled import Kernel
from tests.formulations.task_allocation.cases import random_instance, seeds
from tests.optim.make import instance, nodes


def plain_optimum(made: Instance) -> float | None:
    """Ask the referee about every assignment to staying nodes."""
    best = None
    places = np.flatnonzero(made.open_nodes)
    for choice in product(places, repeat=made.num_tasks):
        judged = evaluate_indices(made, np.array(choice, dtype=np.int32))
        if judged.feasible and (best is None or judged.imc_gain > best):
            best = judged.imc_gain
    return best


def needs_a_leaving_node(made: Instance) -> bool:
    masks = [made.allowed_mask(int(t)) for t in made.tasks.restricted]
    return any(not (mask & made.open_nodes).any() for mask in masks)


@given(seeds)
def test_equals_trying_everything_with_the_referee(seed: int) -> None:
    made = random_instance(seed, most_tasks=5, most_nodes=3)
    if needs_a_leaving_node(made):
        return
    result = solve(made, "imc-brute", start_broken="refuse")
    expected = plain_optimum(made)
    if expected is None:
        assert result.termination == "infeasible"
    else:
        # 0 for every plan is nothing to be best at
        assert result.termination == ("optimal" if expected > 0 else "heuristic")
        assert result.gap == pytest.approx(0, abs=1e-12)
        assert result.objective is not None
        assert result.objective.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert result.bound == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_symmetry_is_counted_once() -> None:
    """Four equal tasks on four equal nodes that hold two."""
    made = instance(
        nodes=nodes(4, capacity={"cpu": 2}),
        operators=[{"id": "a", "group": {"tasks": 4, "load": {"cpu": 4}}}],
        streams=[],
        traffic=[[f"a/{i}", f"a/{j}", 1] for i in range(4) for j in range(i)],
    )
    merged = solve(made, "imc-brute").notes[-1]
    # by hand: 1 | 11 12 | 112 122 123 | 1122 1123 1223 1233 1234
    assert merged == "11 partial assignments"


@pytest.mark.parametrize("most", [1000, 10])
def test_too_many_assignments_are_refused(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brute, "MOST_ASSIGNMENTS", most)
    made = instance(
        nodes=nodes(6, capacity={"cpu": 12}),
        operators=[
            {"id": "a", "group": {"tasks": 6, "load": {"cpu": 12}}},
            {"id": "b", "group": {"tasks": 6, "load": {"cpu": 24}}},
        ],
        streams=[{"from": "a", "to": "b", "rate": 1, "pattern": "one_to_one"}],
    )
    with pytest.raises(UnsuitableMethod, match=r"assignments.*imc-exact"):
        solve(made, "imc-brute")


def test_the_estimate_is_a_lower_bound() -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 100}))
    groups, classes = task_groups(made), node_classes(made)
    seen = int(solve(made, "imc-brute").notes[-1].split()[0])
    assert 10 ** least_assignments(groups, classes) <= seen


def test_the_walk_goes_on_where_python_leaves_it_to_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 100}))
    whole = solve(made, "imc-brute")
    assert int(whole.notes[-1].split()[0]) > 3
    monkeypatch.setattr("formulations.task_allocation.brute._FEW", 3)
    fresh, begun = Kernel(next_better.function, next_better.rule), list[float]()

    def plain(*args: Any) -> Any:
        begun.append(args[-1])
        return fresh.function(*args)

    monkeypatch.setattr(fresh, "plain", plain)
    monkeypatch.setattr("formulations.task_allocation.brute.next_better", fresh)
    parted = solve(made, "imc-brute")
    assert begun == [3]
    assert "compiled" in vars(fresh)
    assert parted.notes[-1] == whole.notes[-1]
    assert parted.objective == whole.objective


@pytest.mark.parametrize("direction", ["in", "out"])
def test_sender_and_receiver_are_not_equal_behind_links_of_one_way(direction: str) -> None:
    """Only t on n2 and u on n1 is feasible: what t sends leaves n2 and enters n1."""
    made = instance(
        nodes=nodes(2, capacity={"cpu": 1}),
        operators=[],
        streams=[],
        tasks=[{"id": name, "load": {"cpu": 1}} for name in "tu"],
        traffic=[["t", "u", 3]],
        links=[
            {"id": "l", "nodes": ["n2" if direction == "in" else "n1"], "capacity": 1}
            | {"direction": direction}
        ],
    )
    result = solve(made, "imc-brute")
    assert result.plan is not None
    assert result.plan.assignment == {"t": "n2", "u": "n1"}


@pytest.mark.parametrize("bound", ["capacity", "min_load"])
def test_sender_and_receiver_are_not_equal_where_they_pay_for_crossing(bound: str) -> None:
    made = instance(
        nodes=[{"id": "n1", bound: {"cpu": 1}}, {"id": "n2", bound: {"cpu": 2}}],
        operators=[],
        streams=[],
        tasks=[{"id": name, "load": {"cpu": 1}} for name in "tu"],
        traffic=[["t", "u", 1]],
        crossing_cost={"cpu": {"out": 1}},
    )
    assert task_groups(made).sizes.tolist() == [1, 1]


def test_slots_that_begin_are_of_one_topology_each() -> None:
    """Tasks u and w share a slot on n2, and v begins one on n1: with u or w there it were three."""
    jobs = {"a": "A", "b": "B"}
    tasks: list[dict[str, object]] = [
        {"id": task, "operator": "b" if task == "v" else "a", "load": {"cpu": 1}} for task in "puvw"
    ]
    tasks[0] |= {"node": "n1", "slot": 0}
    made = instance(
        nodes=nodes(2, capacity={"cpu": 2}),
        topologies=[{"id": name} for name in jobs.values()],
        operators=[{"id": o, "topology": name} for o, name in jobs.items()],
        streams=[],
        tasks=tasks,
        limits={"max_workers_restarted": 2},
    )
    result = solve(made, "imc-brute")
    assert result.plan is not None
    assert result.plan.assignment == {"p": "n1", "u": "n2", "v": "n1", "w": "n2"}
