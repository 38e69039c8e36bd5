"""The least change: no plan that is as good has fewer moves, or as many of less cost."""

from __future__ import annotations

import random
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.figures.catalogue import OBJECTIVES, find_objective
from optim.figures.figure import Figure
from optim.kernels.less_moved import least_change
from optim.kernels.undo import Kept
from optim.rules import is_feasible
from optim.rules.placement import Placement
from tests.optim.make import instance, nodes

METHODS = [
    "balance-milp", "balance-search", "eoa-milp", "imc-exact", "imc-search", "joint-milp",
    "joint-search", "storm-milp", "throughput-exact", "throughput-milp", "throughput-search",
]  # fmt: skip


def small(seed: int, *, copies: bool = False) -> Instance:
    """Return five tasks on three nodes; unlike costs, traffic and, some of them, capacities."""
    draw = random.Random(seed)
    tasks: list[dict[str, Any]] = []
    for k in range(5):
        task = {"id": f"t{k}", "load": {"cpu": draw.choice([2, 2, 3, 4])},
                "migration_cost": draw.choice([1, 2, 5, 9])}  # fmt: skip
        if k or seed % 3:
            task["node"] = draw.choice(["n1", "n1", "n2", "n3"])
        if copies and draw.random() < 0.3:
            task["copies"] = [draw.choice(["n1", "n2", "n3"])]
        tasks.append(task)
    pairs = [[f"t{a}", f"t{b}", draw.choice([1, 1, 2])] for a in range(5) for b in range(a)
             if draw.random() < 0.5] or [["t0", "t1", 1]]  # fmt: skip
    capacity = [{"cpu": draw.choice([7, 8, 9, 12])} for _ in range(3)]
    three = [{**node, "capacity": c} for node, c in zip(nodes(3), capacity, strict=True)]
    return instance(nodes=three, operators=[], streams=[], tasks=tasks, traffic=pairs)


def change(case: Instance, node: np.ndarray) -> tuple[float, float]:
    """Return moves and their cost; with copies the cost and the tasks that are elsewhere."""
    placement = Placement(case, node)
    cost = float(case.tasks.migration_cost[placement.migrated].sum())
    if case.copy_nodes:
        return cost, len(placement.moved)
    return len(placement.migrated), cost


def least(case: Instance, node: np.ndarray, figures: list[Figure]) -> tuple[float, float]:
    """Return the least change of all placements that are as good, one by one."""
    rules = figures[0].binding(case)
    changes = [change(case, node)]
    for every in product(range(3), repeat=case.num_tasks):
        other = np.array(every, np.int32)
        less = change(case, other) < min(changes) and is_feasible(Placement(rules, other))
        if less and Kept(case, node, figures).takes(other):
            changes.append(change(case, other))
    return min(changes)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(6))
def test_no_plan_of_equal_objective_changes_less(method: str, seed: int) -> None:
    case = small(seed)
    result = solve(case, method, explain=0.0)
    if result.plan is None:
        assert result.termination == "infeasible"
        return
    assert result.objective is not None
    names = [level.name for level in result.objective_levels if level.name in OBJECTIVES]
    exact = method.endswith(("exact", "milp")) or method == "throughput-search"
    names = [result.objective.name, *names] if exact else [result.objective.name]
    figures = [find_objective(name) for name in names if not name.startswith("migration")]
    if method == "balance-milp":  # it has the sides of the load distance as a level
        figures.append(SIDES)
    node = result.plan.node_indices(case)
    assert change(case, node) == least(case, node, figures)


def _sides(placement: Any) -> float:
    off = placement.loads[:, 0] - placement.loads[:, 0].mean()
    return float(off.max() - off.min())


SIDES = Figure("sides", "", "", "resource", _sides, "min")


@pytest.mark.parametrize("seed", range(8))
def test_copies_count_by_cost_first(seed: int) -> None:
    case = small(seed, copies=True)
    plans = (np.array(node, np.int32) for node in product(range(2, -1, -1), repeat=5))
    node = next(node for node in plans if is_feasible(Placement(case, node)))
    figures = [OBJECTIVES["imc_gain"]]
    assert change(case, least_change(case, node, figures)) == least(case, node, figures)


def test_a_dear_task_changes_place_with_a_light_one_where_placements_are_many() -> None:
    at = ["n1", "n1", *["n1"] * 3, *["n3"] * 3, *["n2"] * 6, *["n4"] * 6]
    tasks = [{"id": f"t{k}", "load": {"cpu": 3 if k < 2 else 1}, "node": node,
              "migration_cost": 900 if k == 0 else 1} for k, node in enumerate(at)]  # fmt: skip
    case = instance(nodes=nodes(4), operators=[], streams=[], tasks=tasks)
    node = case.tasks.node.copy()
    node[0] = 2
    other = least_change(case, node, [OBJECTIVES["load_distance"]])
    assert np.flatnonzero(other != case.tasks.node).tolist() == [1]
    assert least_change(case, other, [OBJECTIVES["load_distance"]]) is other


@pytest.mark.parametrize("solver", ["cbc", "highs", "scip"])
def test_the_drain_of_the_example_moves_one_window(solver: str) -> None:
    # 1,816 MB are as balanced, and as few moves
    result = solve(Instance.load("examples/flink-drain.json"), "balance-milp", solver=solver)
    levels = {level.name: (level.value, level.bound) for level in result.objective_levels}
    assert levels["migrations"] == (6, 6)
    assert levels["migration_cost"] == (917, 917)


def test_a_large_plan_is_left_without_an_array_of_tasks_by_nodes() -> None:
    count, size = 4_000, 400
    tasks = [{"id": f"t{k}", "load": {"cpu": 1}, "node": f"n{k % size + 1}"} for k in range(count)]
    many = instance(nodes=nodes(size), operators=[], streams=[], tasks=tasks)
    node = np.roll(many.tasks.node, 1)
    figures = [find_objective("load_distance")]
    least_change(many, node, figures)
    tracemalloc.start()
    try:
        assert least_change(many, node, figures) is node
        assert tracemalloc.get_traced_memory()[1] < count * size
    finally:
        tracemalloc.stop()
