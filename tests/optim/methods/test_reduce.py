"""Rules as capacities; outliers of load and cost, of which engines see none and lose no digit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim import Instance, solve
from optim.methods.choose import _limits_not_honoured
from optim.methods.reduce import (
    in_solver_units,
    kept_lowered,
    lowered,
    scale_of,
    scaled,
    with_bounded_costs,
    without_misfits,
)
from optim.methods.registry import all_methods
from optim.solvers.linear_model import TOLERANCE, LinearModel
from optim.solvers.row_scaling import conditioned
from tests.optim.make import instance


def made(tasks: list[dict[str, Any]], nodes: list[dict[str, Any]], **more: Any) -> Any:
    return instance(nodes=nodes, tasks=tasks, operators=[], streams=[], **more)


def test_costs_beyond_the_budget_are_no_outliers() -> None:
    tasks = [{"id": f"t{c}", "node": "a", "migration_cost": c} for c in (1e12, 3000.0, 5.0)]
    tasks.append({"id": "new", "migration_cost": 1e14})
    case = made(tasks, [{"id": "a"}, {"id": "b"}], limits={"max_migration_cost": 10})
    assert with_bounded_costs(case).tasks.migration_cost.tolist() == [20, 3000, 5, 3000]
    free = made(tasks, [{"id": "a"}, {"id": "b"}])
    assert with_bounded_costs(free).tasks.migration_cost.tolist() == [1e12, 3000, 5, 1e12]
    none = made(tasks[:3], [{"id": "a"}, {"id": "b"}], limits={"max_migration_cost": 0})
    assert with_bounded_costs(none).tasks.migration_cost.tolist() == [1, 1, 1]
    assert with_bounded_costs(none).limits.max_migration_cost == 0


def test_a_task_far_too_large_for_a_node_is_not_allowed_there() -> None:
    tasks = [{"id": t, "load": {"cpu": load}} for t, load in (("t", 9e11), ("u", 500), ("v", 700))]
    case = made(tasks, [{"id": "a"}, {"id": "b", "capacity": {"cpu": 500}}])
    seen = without_misfits(case, case)
    assert [seen.allowed_mask(t).tolist() for t in range(3)] == [
        [True, False],
        [True, True],
        [True, True],  # no outlier: engines see that by themselves
    ]
    narrow = made(tasks, [{"id": "b", "capacity": {"cpu": 500}}])
    assert without_misfits(narrow, narrow) is narrow  # nowhere to go: the rules say why


def test_the_scale_leaves_outliers_out() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 3.25 + i}} for i in range(9)]
    nodes = [{"id": "a", "capacity": {"cpu": 20}}, {"id": "b", "background": {"cpu": 3e14}}]
    case = made(tasks, nodes)
    assert scaled(case, scale_of(case)).tasks.load[:, 0].tolist() == [3.25 + i for i in range(9)]
    tasks[0]["load"]["cpu"] = 1e15
    case = made(tasks, nodes)
    assert scaled(case, scale_of(case)).tasks.load[1:, 0].tolist() == [4.25 + i for i in range(8)]


@pytest.mark.parametrize("little", [1e-300, 1e-200, 1e-60])
def test_no_number_is_infinite_or_nothing_in_the_unit_of_the_others(little: float) -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": (1 + i) * little}, "node": "a"} for i in range(3)]
    tasks.append({"id": "t3", "load": {"cpu": 1e15}, "node": "a"})
    traffic = [["t0", "t1", 2 * little], ["t1", "t2", 3 * little], ["t2", "t3", 1e15]]
    for task in tasks:
        task["migration_cost"] = task["load"]["cpu"]
    room = {"a": 1e15, "b": 3 * little}
    nodes = [{"id": n, "capacity": {"cpu": most}} for n, most in room.items()]
    case = made(tasks, nodes, traffic=traffic)
    seen = scaled(case, scale_of(case))
    for numbers in (seen.tasks.load, seen.tasks.migration_cost, seen.traffic.rate):
        assert (numbers > 0).all() and (numbers < 1e150).all()
    assert 0 < seen.nodes.capacity[1, 0] < np.inf
    best = solve(case, "imc-exact")
    assert (best.termination, best.objective.value) == ("optimal", 1e15)
    for method in ("balance-milp", "throughput-exact", "balance-search", "joint-milp"):
        assert solve(case, method).evaluation.feasible


@pytest.mark.parametrize("method", ["balance-milp", "balance-search"])
def test_a_budget_far_beyond_all_costs_is_no_limit(method: str) -> None:
    tasks = [
        {"id": f"t{i}", "load": {"cpu": 1 + i}, "node": "a", "migration_cost": 1e-300}
        for i in range(3)
    ]
    case = made(tasks, [{"id": "a"}, {"id": "b"}], limits={"max_migration_cost": 1e15})
    result = solve(case, method, objective="load_distance")
    assert (result.termination, result.objective.value) == ("optimal", 0.0)


def test_rows_of_small_numbers_count() -> None:
    model = LinearModel("small", sense="max")
    x = model.add_variables("take", 2, upper=1.0, integer=True, objective=1.0)
    model.add_rows("room", -np.inf, 5e-11, np.zeros(2, int), x.indices, [5e-11, 5e-11])
    both = np.ones(2)
    assert model.violation(both) > TOLERANCE
    assert conditioned(model.freeze()).matrix.data.min() >= 1
    assert np.array_equal(
        conditioned(model.freeze()).matrix.data / model.freeze().matrix.data,
        np.full(2, 2.0**35),
    )


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_solvers_keep_a_node_of_half_a_billionth(solver: Any) -> None:
    """Beside a node of 100 with loads of 10, one that holds one of two tasks of 5e-10."""
    tasks = [{"id": f"t{i}", "load": {"cpu": 10}} for i in range(4)]
    tasks += [{"id": f"s{i}", "load": {"cpu": 5e-10}, "allowed": ["b"]} for i in range(2)]
    rooms = {"a": 100, "b": 5e-10, "c": 100}
    nodes = [{"id": name, "capacity": {"cpu": most}} for name, most in rooms.items()]
    traffic = [["s0", "s1", 1], ["t0", "t1", 1]]
    result = solve(made(tasks, nodes, traffic=traffic), "imc-milp", solver=solver)
    assert str(result.termination) == "infeasible"
    tasks[5]["allowed"] = ["a", "b"]
    result = solve(made(tasks, nodes, traffic=traffic), "imc-milp", solver=solver)
    assert result.plan is not None
    assert (result.plan.assignment["s0"], result.plan.assignment["s1"]) == ("b", "a")
    assert str(result.termination) == "optimal"


LIMITS: dict[str, dict[str, Any]] = {
    "max_tasks": {"nodes": {"max_tasks": 2}},
    "sets": {"sets": [{"id": "s", "rule": "apart", "tasks": ["t0", "t1"]}]},
    "slots": {"nodes": {"slots": 3}},
    "max_tasks_per_slot": {"nodes": {"slots": 3}, "limits": {"max_tasks_per_slot": 2}},
    "max_load_distance": {"limits": {"max_load_distance": 5.0}},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_method_keeps_as_capacities_what_it_says(limit: str) -> None:
    more = LIMITS[limit]
    document = {
        "format": "streamplace.instance/1",
        "name": "lowered",
        "nodes": [{"id": f"n{n}", **more.get("nodes", {})} for n in range(3)],
        "tasks": [{"id": f"t{t}", "load": {"cpu": 1}} for t in range(4)],
        **{key: value for key, value in more.items() if key != "nodes"},
    }
    instance = Instance.from_dict(document)
    told = 0
    for method in all_methods():
        if "capacity" not in method.honours or limit in method.honours:
            continue
        seen = lowered(instance, method.honours)
        refused = [problem.reason for problem in _limits_not_honoured(method, seen, repair=False)]
        assert bool(refused) == (limit not in kept_lowered(method.honours)), method.name
        told += not refused
    assert told


@pytest.mark.parametrize("method", ["imc-exact", "imc-milp", "storm-milp"])
def test_a_node_may_be_empty_where_the_distance_is_just_its_share(method: str) -> None:
    """Three tasks of 0.1 are 0.10000000000000002 for each of three nodes; one has no room."""
    document = {
        "format": "streamplace.instance/1",
        "name": "edge",
        "nodes": [{"id": "n0"}, {"id": "n1"}, {"id": "n2", "capacity": {"cpu": 0.0}}],
        "tasks": [{"id": f"t{t}", "load": {"cpu": 0.1}} for t in range(3)],
        "traffic": [["t0", "t1", 1.0]],
        "limits": {"max_load_distance": 0.1},
    }
    result = solve(Instance.from_dict(document), method)
    assert result.evaluation is not None and result.evaluation.feasible


def test_an_instance_is_put_in_its_own_units_once() -> None:
    tasks = [{"id": f"t{i}", "load": {"cpu": 3e6}} for i in range(2)]
    large = made(tasks, [{"id": "a"}, {"id": "b"}])
    seen, scale = in_solver_units(large)
    assert seen is not large
    assert in_solver_units(large)[0] is seen
    assert (seen.tasks.load * scale.load == large.tasks.load).all()
    again, unit = in_solver_units(seen)  # it is in them already, and keeps no copy of itself
    assert again is seen
    assert unit.load.tolist() == [1.0]


@pytest.mark.parametrize("of_link", [False, True], ids=["node", "link"])
@pytest.mark.parametrize("unit", [1.0, 1e-3, 70.0])
@pytest.mark.parametrize("method", ["throughput-milp", "throughput-exact", "imc-brute"])
def test_a_little_beside_much_background_is_not_rounded(
    method: str, unit: float, of_link: bool
) -> None:
    much, room = 1e13 * unit, 11.1 * unit
    full: dict[str, Any] = {"capacity": much + room, "background": much}
    of_node = {"capacity": 1e3 * unit} if of_link else full
    on_nodes = {name: {"cpu": amount} for name, amount in of_node.items()}
    case = made(
        [{"id": f"t{i}", "load": {"cpu": 5.55 * unit}, "allowed": [f"n{i % 2}"]} for i in range(4)],
        [{"id": f"n{i}", **on_nodes} for i in range(2)],
        traffic=[["t0", "t1", 11.1 * unit]],
        links=[{"id": "l", "nodes": ["n0"], **full}] if of_link else [],
    )
    result = solve(case, method, objective="sustainable_rate")
    assert result.termination == "optimal"
    left = full["capacity"] - much  # what doubles leave of the room
    assert result.bound == pytest.approx(left / (11.1 * unit), rel=1e-9)
