"""Every registered method, on every back end it names, through the same demands.

A method that does not suit an instance must say so; one that does must return a result the referee
agrees with, the same one twice, whatever the ids are called, and within its own bound.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from optim import Instance, Plan, UnsuitableMethod, all_methods, evaluate, get_method, solve
from optim.figures.catalogue import OBJECTIVES
from optim.methods.registry import NEEDS, Method
from optim.referee import Result
from optim.rules import RULE_NAMES
from tests.optim.make import nodes
from tests.slowly import slowly

METHODS = tuple(all_methods())
RUNS = tuple((m.name, s) for m in METHODS for s in (m.solvers or (None,)))
IDS = [f"{name}-{solver}" if solver else name for name, solver in RUNS]
FIRST = tuple(get_method(name).default_solver == solver for name, solver in RUNS)
MOSTLY = [run if first else slowly(run)[0] for run, first in zip(RUNS, FIRST, strict=True)]
"""The same, all but each method's own back end slow: what is asked of them hardly depends on it."""

PROVING = [
    run if first or get_method(run[0]).kind == "exact" else slowly(run)[0]
    for run, first in zip(RUNS, FIRST, strict=True)
]
"""The same, but exact methods on all back ends, since each must prove it."""


def seconds(name: str) -> float | None:
    """Time for a method; a search, which would use all of it, ends by its own amount of work.

    Proofs take parts of a second, but on a machine that does much else many times that.
    """
    return None if get_method(name).kind == "search" else 300.0


def _groups() -> dict[str, Any]:
    """Three groups of equal tasks on three equal nodes; no current placement."""
    return {
        "nodes": nodes(3, capacity={"cpu": 10}, slots=3),
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 6}}},
            {"id": "b", "group": {"tasks": 3, "load": {"cpu": 9}}},
            {"id": "c", "group": {"tasks": 2, "load": {"cpu": 4}}},
        ],
        "streams": [
            {"from": "a", "to": "b", "rate": 12},
            {"from": "b", "to": "c", "rate": 5, "pattern": "rescale"},
        ],
    }


def _current() -> dict[str, Any]:
    """The same with a lopsided current placement and a second resource."""
    base = _groups()
    tasks = [f"{o['id']}/{i}" for o in base["operators"] for i in range(o["group"]["tasks"])]
    where = ["n1", "n1", "n1", "n2", "n2", "n3", "n3"]
    base["resources"] = ["cpu", "slot"]
    base["nodes"] = nodes(3, capacity={"cpu": 10, "slot": 4}, slots=4)
    for operator in base["operators"]:
        operator["group"]["load"]["slot"] = operator["group"]["tasks"]
    base["tasks"] = [{"id": t, "node": n} for t, n in zip(tasks, where, strict=True)]
    return base


def _uneven() -> dict[str, Any]:
    """Listed tasks of unequal load on unequal nodes, with task pairs and a current placement."""
    loads = [5, 3, 3, 2, 2, 1]
    return {
        "nodes": [
            {"id": "n1", "capacity": {"cpu": 12}, "weight": 2},
            {"id": "n2", "capacity": {"cpu": 6}},
            {"id": "n3", "capacity": {"cpu": 6}},
        ],
        "operators": [{"id": "o"}],
        "tasks": [
            {"id": f"t{i}", "operator": "o", "load": {"cpu": v}, "node": f"n{1 + i % 2}"}
            for i, v in enumerate(loads)
        ],
        "traffic": [["t0", "t3", 4], ["t1", "t2", 3], ["t4", "t5", 2], ["t2", "t4", 1]],
    }


def _infeasible() -> dict[str, Any]:
    """Two tasks of 6 and three of 4 on two nodes of 12: 24 of 24, but 6+6 | 4+4+4 fits; 5+5+5 no.

    Here: three tasks of 5 on two nodes of 8. The total fits (15 ≤ 16), no two tasks do.
    """
    return {
        "nodes": nodes(2, capacity={"cpu": 8}, slots=2),
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 10}}},
            {"id": "b", "group": {"tasks": 1, "load": {"cpu": 5}}},
        ],
        "streams": [{"from": "a", "to": "b", "rate": 4}],
        "tasks": [
            {"id": "a/0", "node": "n1"},
            {"id": "a/1", "node": "n2"},
            {"id": "b/0", "node": "n2"},
        ],
    }


def _threads() -> dict[str, Any]:
    """Two measured tasks whose threads and machines are the plan's."""
    points = [(1, 4, 30, 20), (4, 9, 60, 45), (8, 12, 70, 55)]
    names = ("threads", "rate", "cpu", "memory")
    return {
        "nodes": [],
        "resources": ["cpu", "memory"],
        "operators": [{"id": "a", "model": "m"}, {"id": "b", "model": "m"}],
        "streams": [{"from": "a", "to": "b", "selectivity": 0.5}],
        "models": {"m": [dict(zip(names, p, strict=True)) for p in points]},
        "input_rate": 29,
        "vm_types": [{"id": "vm", "slots": 2, "price": 0.1}],
    }


CASES = {f.__name__[1:]: f for f in (_groups, _current, _uneven, _infeasible, _threads)}


@cache
def case(name: str, prefix: str = "", order: str = "") -> Instance:
    """Build a case; `prefix` renames every id, `order` reverses the nodes."""
    value = {"format": "streamplace.instance/1", "name": name, **CASES[name]()}
    if order == "reversed":
        value["nodes"] = value["nodes"][::-1]
    text = json.dumps(value)
    if prefix:
        for entry in itertools.chain(value["nodes"], value["operators"], value.get("tasks", [])):
            text = text.replace(f'"{entry["id"]}"', f'"{prefix}{entry["id"]}"')
            text = text.replace(f'"{entry["id"]}/', f'"{prefix}{entry["id"]}/')
    return Instance.from_json(text)


def run(method: str, solver: str | None, made: Instance, **kw: Any) -> Result:
    try:
        return solve(made, method, solver=solver, time_limit=seconds(method), **kw)
    except UnsuitableMethod as error:
        assert error.problems[0].remedy, "an unsuitable method names a remedy"
        pytest.skip(str(error))


@cache
def solved(
    method: str, solver: str | None, name: str, start_broken: str
) -> Result | UnsuitableMethod:
    """Solve a case once for all tests that ask what becomes of it; it may not be written to."""
    made = case(name)
    before = made.to_json()
    try:
        result = solve(
            made, method, solver=solver, time_limit=seconds(method), start_broken=start_broken
        )
    except UnsuitableMethod as error:
        assert error.problems[0].remedy, "an unsuitable method names a remedy"
        return error
    finally:
        assert made.to_json() == before
    return result


def suited(method: str, solver: str | None, name: str, start_broken: str = "mend") -> Result:
    """Return what becomes of a case; skip where the method does not suit it."""
    found = solved(method, solver, name, start_broken)
    if isinstance(found, UnsuitableMethod):
        pytest.skip(str(found))
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_declaration(method: Method) -> None:
    assert set(method.objectives) <= set(OBJECTIVES)
    assert method.objectives[0] == method.objective
    assert set(method.needs) <= set(NEEDS)
    assert method.honours <= set(RULE_NAMES)
    assert method.default_solver in (method.solvers or (None,))
    assert method.summary
    assert method.summary[0].isupper() or method.summary[0].isdigit()
    for option in method.options:
        assert option.default is None or option.read(option.default) == option.default
        assert option.help
    json.dumps(method.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["groups", "current", "uneven", "threads"])
@pytest.mark.parametrize(("method", "solver"), PROVING, ids=IDS)
def test_result_holds_together(method: str, solver: str | None, name: str) -> None:
    made, declared = case(name), get_method(method)
    result = suited(method, solver, name)
    json.loads(result.to_json())
    if result.plan is None:
        assert declared.kind == "heuristic"
        assert result.unplaced
        return
    judged = evaluate(made, Plan.from_json(result.plan.to_json()))
    assert result.evaluation is not None
    assert judged.to_dict() == result.evaluation.to_dict()
    assert judged.feasible or not declared.promises_feasibility
    assert result.objective is not None
    assert result.objective.value == judged.objective(result.objective.name)
    objective = OBJECTIVES[result.objective.name]
    if result.bound is not None and judged.feasible and result.bound_of == "problem":
        assert result.objective.value is not None
        reference = objective.reference_of(judged)
        assert not objective.beats_bound(result.objective.value, result.bound, reference)
    if declared.kind == "exact":
        # a proof for given threads or bundles is one of a restricted problem
        proved = "gap_reached" if result.bound_of == "restricted" else "optimal"
        assert result.termination == proved, (result.termination, result.gap, result.notes)
        assert result.gap is not None
        assert result.gap <= objective.optimal_gap
        agree(result, suited(method, declared.default_solver, name))
    assert (result.termination == "heuristic") == (declared.kind == "heuristic")


@pytest.mark.parametrize(("method", "solver"), MOSTLY, ids=IDS)
def test_same_plan_twice(method: str, solver: str | None) -> None:
    made = case("current")
    try:
        first, second = (solve(made, method, solver=solver, seed=3) for _ in range(2))
    except UnsuitableMethod as error:
        pytest.skip(str(error))
    if first.plan is None:
        assert first.unplaced == second.unplaced
        return
    assert second.plan is not None
    assert first.plan.to_json() == second.plan.to_json()


@pytest.mark.parametrize("change", ["renamed", "reversed"])
@pytest.mark.parametrize(("method", "solver"), MOSTLY, ids=IDS)
def test_names_and_order_change_no_proven_value(
    method: str, solver: str | None, change: str
) -> None:
    if get_method(method).kind != "exact" and change == "reversed":
        pytest.skip("a heuristic may break ties by order, but never by name")
    prefix, order = ("zz-", "") if change == "renamed" else ("", "reversed")
    first = suited(method, solver, "current")
    second = run(method, solver, case("current", prefix, order))
    if first.plan is None:
        assert second.plan is None
        return
    assert first.objective is not None
    assert second.objective is not None
    figure = OBJECTIVES[first.objective.name]
    value = first.objective.value
    tolerance = figure.tolerance(value, value, figure.reference_of(first.evaluation))
    assert second.objective.value == pytest.approx(value, rel=1e-6, abs=tolerance)


@pytest.mark.parametrize(("method", "solver"), PROVING, ids=IDS)
def test_what_cannot_be_placed(method: str, solver: str | None) -> None:
    declared = get_method(method)
    result = suited(method, solver, "infeasible", "refuse")
    assert not result.feasible
    if OBJECTIVES[declared.objective].hard is not None:  # it measures what nothing keeps
        assert result.plan is not None
        assert result.exit_code == 4
        assert result.termination == ("optimal" if declared.kind == "exact" else "iteration_limit")
        return
    if declared.kind == "exact":
        assert result.termination == "infeasible"
        assert result.exit_code == 3
    else:
        assert result.exit_code in (3, 4)
        assert result.plan is None or not declared.promises_feasibility


def agree(one: Result, other: Result) -> None:
    """Two proofs are of the same value."""
    assert one.objective is not None and other.objective is not None
    figure, best = OBJECTIVES[one.objective.name], other.objective.value
    tolerance = 2 * figure.tolerance(best, best, figure.reference_of(one.evaluation))
    assert one.objective.value == pytest.approx(best, rel=1e-6, abs=tolerance)


@pytest.mark.parametrize("name", ["groups", "current", "uneven"])
def test_exact_methods_of_one_objective_agree(name: str) -> None:
    """By the solver that each takes by default; its others are compared with that one above."""
    first: dict[str, Result] = {}
    for method in METHODS:
        if method.kind == "exact":
            result = solved(method.name, method.default_solver, name, "mend")
            if not isinstance(result, UnsuitableMethod):
                assert result.objective is not None
                agree(result, first.setdefault(result.objective.name, result))


@pytest.mark.parametrize(
    ("method", "solver"),
    [kept for kept, run in zip(MOSTLY, RUNS, strict=True) if get_method(run[0]).takes_warm_start],
)
def test_never_worse_than_the_warm_start(method: str, solver: str | None) -> None:
    made = case("current")
    start = Plan.from_indices(made, made.tasks.node)
    try:
        result = solve(made, method, solver=solver, warm_start=start, time_limit=seconds(method))
    except UnsuitableMethod as error:
        pytest.skip(str(error))
    assert result.warm_start is not None
    assert result.objective is not None
    assert result.objective.value is not None
    objective = OBJECTIVES[result.objective.name]
    assert result.warm_start.objective is not None
    assert not objective.better(result.warm_start.objective, result.objective.value)


@pytest.mark.parametrize(("method", "solver"), MOSTLY, ids=IDS)
def test_leaving_nodes_receive_nothing(method: str, solver: str | None) -> None:
    value = _current()
    value["nodes"][2]["leaving"] = True
    made = Instance.from_dict({"format": "streamplace.instance/1", "name": "l", **value})
    result = run(method, solver, made)
    if result.plan is None or "leaving" not in get_method(method).honours:
        return
    into = [m for m in result.moves if m.target == "n3"]
    assert into == []


@pytest.mark.parametrize(("method", "solver"), MOSTLY, ids=IDS)
def test_allowed_nodes_are_kept(method: str, solver: str | None) -> None:
    value = _groups()
    value["tasks"] = [{"id": "b/1", "allowed": ["n2"], "node": "n2"}]
    made = Instance.from_dict({"format": "streamplace.instance/1", "name": "p", **value})
    result = run(method, solver, made)
    if result.plan is not None and result.feasible:
        assert result.plan.assignment["b/1"] == "n2"


def test_more_capacity_never_hurts_exact_methods() -> None:
    large = case("groups").replace(nodes=nodes(3, capacity={"cpu": 12}))
    for (method, solver), first in zip(RUNS, FIRST, strict=True):
        declared = get_method(method)
        if declared.kind != "exact" or not first:
            continue
        less = solved(method, solver, "groups", "mend")
        if isinstance(less, UnsuitableMethod):
            continue
        try:
            more = solve(large, method, solver=solver, time_limit=seconds(method))
        except UnsuitableMethod:
            continue
        assert less.objective is not None
        assert more.objective is not None
        assert less.objective.value is not None
        assert more.objective.value is not None
        gained = more.objective.value - less.objective.value
        assert gained * (1 if declared.sense == "max" else -1) >= -1e-6, method


def test_empty_request_is_refused_by_every_method() -> None:
    empty = Instance.from_dict({"format": "streamplace.instance/1", "name": "empty"})
    for method in METHODS:
        with pytest.raises(UnsuitableMethod):
            solve(empty, method.name)


def test_methods_see_read_only_arrays() -> None:
    assert replace(case("current")).tasks.node.flags.writeable is False
