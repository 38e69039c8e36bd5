"""`plan-milp` proves what brute force finds, for any linear objective under every rule."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formulations.task_allocation.milp import _settled
from formulations.task_allocation.model import (
    CONTINUOUS_FIGURES,
    LINEAR_FIGURES,
    WHY_NOT_LINEAR,
    Expression,
)
from optim import Instance, InvalidInput, solve
from optim.figures.catalogue import OBJECTIVES, find_objective
from optim.format.builder import InstanceBuilder
from optim.methods.registry import get_method
from optim.referee import Termination
from optim.rules import limits_set, without_limits
from optim.rules.placement import Placement
from tests.formulations.elastic.cases import LEAST_BESIDE_LARGE_TASKS, beside_large_tasks
from tests.fuzz.generate import generate
from tests.fuzz.newer import PROBES
from tests.optim.make import instance

FIELDS = frozenset(PROBES)


def placed(**more: object) -> Instance:
    """Return six tasks on three unequal nodes, with traffic and a current placement."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 12.0 + i}, "weight": 1 + i} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0 + i}, "node": f"n{i % 3}"} for i in range(6)]
    traffic = [["t0", "t4", 3.0], ["t1", "t3", 2.0], ["t2", "t3", 4.0], ["t5", "t0", 1.0]]
    document = {
        "format": "streamplace.instance/1", "name": "placed", "nodes": nodes, "tasks": tasks,
        "traffic": traffic,
    }  # fmt: skip
    return Instance.from_dict({**document, **more})


def objective_for(
    made: Instance, rng: random.Random, names: tuple[str, ...] = LINEAR_FIGURES
) -> str:
    """Return a random linear objective whose figures plans for the instance have."""
    placement = Placement(made, np.zeros(made.num_tasks, dtype=np.int32))
    known = [n for n in names if find_objective(n).measured(placement).value is not None]
    levels = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        some = rng.sample(known, min(len(known), rng.choice((1, 1, 2, 3))))
        if len(some) == 1:
            levels.append(some[0])
            continue
        signs = ["+" if find_objective(name).sense == "max" else "-" for name in some]
        weights = [rng.choice((0.01, 0.3, 1, 2, 10)) for _ in some]
        levels.append("".join(f"{s}{w}*{n}" for s, w, n in zip(signs, weights, some, strict=True)))
    return ",".join(dict.fromkeys(levels))


def agree(made: Instance, objective: str, start_broken: str = "refuse", **more: object) -> None:
    """Compare with brute force, level by level; what is called proven is no better than that."""
    asked = {"objective": objective, "start_broken": start_broken, "explain": 0.0}
    best = solve(made, "imc-brute", **asked)
    found = solve(made, "plan-milp", **asked, **more)
    told = objective, found.termination, found.notes, list(limits_set(made))
    assert (found.plan is None) == (best.plan is None), told
    if found.plan is None or found.evaluation is None or best.evaluation is None:
        return
    figure = find_objective(objective)
    for level in figure.levels:
        value, known = level.read(found.evaluation), level.read(best.evaluation)
        assert value == pytest.approx(known, rel=1e-7, abs=1e-9), told
    if found.bound_of == "problem":
        assert found.objective is not None
        assert found.bound == pytest.approx(found.objective.value, rel=1e-6, abs=1e-9), told
    for proven in found.objective_levels:
        level = find_objective("nodes_used" if proven.name == "excess" else proven.name)
        if proven.bound is not None and proven.value is not None:
            beyond = level.better(proven.value, proven.bound)
            assert not beyond or proven.value == pytest.approx(proven.bound, rel=1e-6, abs=1e-9)


def modelled(document: dict[str, Any]) -> Instance:
    """Return the instance without what the model does not know."""
    made = Instance.from_dict(document)
    return without_limits(made, set(limits_set(made)) - get_method("plan-milp").honours)


@pytest.mark.parametrize("seed", range(12))
def test_as_by_brute_force_with_rules_of_all_sorts(seed: int) -> None:
    made = modelled(generate(seed, FIELDS, 0.0, 1_000))
    if made.num_tasks:
        agree(made, objective_for(made, random.Random(seed)), starts="none")


@pytest.mark.parametrize("seed", range(12, 16))
def test_as_by_brute_force_from_broken_placements(seed: int) -> None:
    made = modelled(generate(seed, FIELDS, 0.0, 500))
    if made.num_tasks:
        agree(made, objective_for(made, random.Random(seed)), "mend", starts="none")


@pytest.mark.seeds(6)
@pytest.mark.parametrize("seed", range(60, 120))
def test_as_by_brute_force_where_what_crosses_loads_nodes(seed: int) -> None:
    rng, document = random.Random(seed), generate(seed, FIELDS, 0.0, 600)
    document["crossing_cost"] = {
        r: {"out": rng.choice((0.0, 0.05, 0.2, 0.5)), "in": rng.choice((0.05, 0.3))}
        for r in document["resources"][: rng.choice((1, 1, 2))]
    }
    if rng.random() < 0.25:
        document.setdefault("limits", {})["max_load_distance"] = rng.choice((5.0, 20.0, 60.0))
    made = modelled(document)
    if made.num_tasks and made.has_traffic:
        agree(made, objective_for(made, rng), starts="none")


@pytest.mark.parametrize("figure", LINEAR_FIGURES)
def test_each_figure_where_what_crosses_loads_nodes(figure: str) -> None:
    links = [{"id": f"up{i}", "nodes": [f"n{i}"], "capacity": 20.0} for i in range(3)]
    costs = {"cpu": {"out": 0.3, "in": 0.1}}
    agree(placed(links=links, crossing_cost=costs), figure)
    agree(placed(links=links, crossing_cost=costs, limits={"max_load_distance": 4.0}), figure)
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 13.0}, "min_load": {"cpu": 7.3}} for i in range(3)]
    agree(placed(links=links, crossing_cost=costs, nodes=nodes), figure)


def test_nodes_with_copies_are_unlike_others_where_moves_are_counted() -> None:
    """Only n2 has a copy of t0, which has to leave n0; n1 is the same node but for that."""
    nodes = [{"id": "n0", "capacity": {"cpu": 1.0}}, {"id": "n1"}, {"id": "n2"}]
    tasks = [
        {"id": "t0", "load": {"cpu": 1.0}, "node": "n0", "copies": ["n2"]},
        {"id": "t1", "load": {"cpu": 1.0}, "node": "n0", "allowed": ["n0"]},
    ]
    made = placed(nodes=nodes, tasks=tasks, traffic=[])
    for objective in ("migrations", "migration_cost"):
        agree(made, objective, starts="none")


def test_all_plans_are_considered_under_a_bound_on_the_load_distance_of_staying_nodes() -> None:
    """The load of 21 does not fit without n2, and n1 holds too much now."""
    room = [8.0, 6.5, 9.0]
    nodes = [{"id": f"n{i}", "capacity": {"cpu": room[i]}, "leaving": i == 2} for i in range(3)]
    made = placed(nodes=nodes, limits={"max_load_distance": 6.0})
    objective = "imc_gain-2*used_capacity"
    agree(made, objective, starts="none")
    asked = {"objective": objective, "starts": "none", "start_broken": "refuse"}
    assert solve(made, "plan-milp", **asked).plan is not None


@pytest.mark.parametrize("solver", ["cbc", "scip", "cp-sat"])
def test_every_solver_proves_it(solver: str) -> None:
    whole = "imc_gain-0.5*nodes_used,migrations"
    agree(placed(), whole, solver=solver)
    if solver != "cp-sat":
        agree(placed(), "load_distance,internode_traffic", solver=solver)


@pytest.mark.parametrize("figure", LINEAR_FIGURES)
def test_each_figure_alone_and_after_another(figure: str) -> None:
    links = [{"id": f"up{i}", "nodes": [f"n{i}"], "capacity": 20.0} for i in range(3)]
    agree(placed(links=links), figure)
    agree(placed(links=links), f"nodes_used,{figure}" if figure != "nodes_used" else figure)


def test_levels_are_proven_one_after_the_other() -> None:
    result = solve(placed(), "plan-milp", objective="max_utilisation,imc_gain,migrations")
    assert result.termination is Termination.OPTIMAL
    assert result.bound == pytest.approx(result.objective.value)  # type: ignore[union-attr]
    assert [level.name for level in result.objective_levels] == ["imc_gain", "migrations"]
    for level in result.objective_levels:
        assert level.bound == pytest.approx(level.value)


@pytest.mark.parametrize("scale", [1e-3, 1e6])
def test_bound_and_value_are_in_the_units_of_the_file(scale: float) -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 9.0 * scale}} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": (1.0 + i) * scale}} for i in range(5)]
    traffic = [["t0", "t4", 3.0], ["t1", "t3", 2.0], ["t2", "t3", 4.0]]
    made = placed(nodes=nodes, tasks=tasks, traffic=traffic)
    result = solve(made, "plan-milp", objective=f"imc_gain-{1.5 / scale!r}*load_distance")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(2.5)
    assert result.bound == pytest.approx(2.5)


@pytest.mark.parametrize("name", sorted(WHY_NOT_LINEAR))
def test_other_figures_are_refused_with_the_reason_and_what_takes_them(name: str) -> None:
    sign = "-" if find_objective(name).sense == "min" else "+"
    with pytest.raises(InvalidInput) as refused:
        solve(placed(), "plan-milp", objective=f"imc_gain{sign}2*{name}")
    (problem,) = refused.value.problems
    assert problem.path == "--objective"
    assert f"takes no {name} ({WHY_NOT_LINEAR[name]})" in problem.reason
    assert "its objectives: imc_gain" in str(problem.remedy)
    takes = get_method("plan-search").optimises(name)
    assert ("plan-search; its objectives" in str(problem.remedy)) == takes


def test_a_reason_is_known_for_every_figure_of_placements() -> None:
    of_places = {name for name, figure in OBJECTIVES.items() if figure.value is not None}
    missing = of_places ^ (set(LINEAR_FIGURES) | set(WHY_NOT_LINEAR))
    assert not missing, "give each its rows, or say why there are none: task_allocation/model.py"


@pytest.mark.parametrize("figure", CONTINUOUS_FIGURES)
def test_a_solver_of_integers_refuses_continuous_figures(figure: str) -> None:
    links = [{"id": "up", "nodes": ["n0"], "capacity": 20.0}]
    with pytest.raises(InvalidInput, match=f"takes integers only.*{figure}.*use one of"):
        solve(placed(links=links), "plan-milp", objective=figure, solver="cp-sat")


def test_a_figure_that_plans_do_not_have_is_refused() -> None:
    tasks = [{"id": "a", "load": {"cpu": 1.0}}, {"id": "b", "load": {"cpu": 2.0}}]
    with pytest.raises(InvalidInput, match=r"migrations.* has no value for plans of placed"):
        solve(placed(tasks=tasks, traffic=[]), "plan-milp", objective="migrations")


def test_never_below_a_warm_start_and_it_is_told() -> None:
    made, objective = placed(), "imc_gain-0.01*load_distance"
    start = solve(made, "plan-search", objective=objective)
    result = solve(made, "plan-milp", objective=objective, warm_start=start.plan, time_limit=20)
    assert result.warm_start is not None
    assert result.objective is not None and start.objective is not None
    assert result.objective.value >= start.objective.value - 1e-9  # type: ignore[operator]


def test_without_a_method_small_ones_are_proven() -> None:
    result = solve(instance(), objective="imc_gain-0.1*load_distance")
    assert result.method == "plan-milp"
    assert result.termination is Termination.OPTIMAL


def test_slots_are_kept_by_cutting_off_what_cannot_be_dealt() -> None:
    nodes = [
        {"id": f"n{i}", "slots": 2, "slot_capacity": {"cpu": 5}, "capacity": {"cpu": 10}}
        for i in range(3)
    ]
    tasks = [{"id": f"t{i}", "load": {"cpu": 3}} for i in range(6)]
    traffic = [[f"t{i}", f"t{(i + 1) % 6}", 1.0 + i] for i in range(6)]
    made = placed(nodes=nodes, tasks=tasks, traffic=traffic)
    result = solve(made, "plan-milp", starts="none")
    assert result.termination is Termination.OPTIMAL
    assert result.feasible
    agree(made, "imc_gain,max_utilisation", starts="none")


def test_a_model_that_says_not_all_of_the_slots_is_not_written(tmp_path: Path) -> None:
    nodes = [{"id": "n0", "slots": 2, "slot_capacity": {"cpu": 5}}]
    made = placed(nodes=nodes, tasks=[{"id": "a", "load": {"cpu": 3}}], traffic=[])
    with pytest.raises(InvalidInput, match=r"--write-model.*lack the rows of slots.*storm-milp"):
        solve(made, "plan-milp", objective="nodes_used", write_model=tmp_path / "model.mps")
    assert not (tmp_path / "model.mps").exists()


def test_a_later_level_is_of_the_staying_nodes_where_not_all_can_be_emptied() -> None:
    """Without the mark of leaving nodes the mean absolute deviation would be another figure."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 10.0}, "leaving": i == 1} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 4.0 + i}, "node": "n1"} for i in range(2)]
    tasks.append({"id": "t2", "load": {"cpu": 9.0}, "node": "n2", "allowed": ["n2"]})
    tasks.append({"id": "t3", "load": {"cpu": 8.0}, "node": "n0", "allowed": ["n0"]})
    made = placed(nodes=nodes, tasks=tasks, traffic=[["t0", "t1", 1.0]])
    objective = "max_utilisation,mean_absolute_deviation"
    for method in ("plan-milp", "imc-brute"):
        result = solve(made, method, objective=objective)
        assert result.evaluation is not None
        (level,) = result.objective_levels
        assert level.value == pytest.approx(0.05)
        assert level.bound is None or level.bound == pytest.approx(0.05)


def test_leaving_nodes_differ_in_who_may_stay_on_them() -> None:
    """Only h on n1 and v on n0 is feasible: neither may be on n2, and v never on n1."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": float(i < 2)}, "leaving": i < 2} for i in range(3)]
    tasks = [
        {"id": "h", "load": {"cpu": 1}, "allowed": ["n0", "n1"]},
        {"id": "v", "load": {"cpu": 1}, "allowed": ["n0", "n2"], "node": "n0"},
    ]
    made = instance(nodes=nodes, tasks=tasks, operators=[], streams=[])
    result = solve(made, "plan-milp", objective="load_distance")
    assert result.termination is Termination.OPTIMAL
    assert result.plan is not None
    assert result.plan.assignment == {"h": "n1", "v": "n0"}


def test_counts_of_tasks_are_no_resource_of_the_highest_utilisation() -> None:
    """Brute force had them as one, and called a worse plan optimal."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 20.0}, "max_tasks": 3 + i} for i in range(2)]
    made = placed(nodes=nodes, tasks=_even(6))
    for method in ("plan-milp", "imc-brute", "plan-search"):
        result = solve(made, method, objective="max_utilisation")
        assert result.objective is not None
        assert result.objective.value == pytest.approx(0.3), method
    assert solve(made, "imc-brute").feasible


def _even(count: int) -> list[dict[str, object]]:
    return [{"id": f"t{i}", "load": {"cpu": 2.0}} for i in range(count)]


def test_the_model_of_an_expression_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    result = solve(
        placed(), "plan-milp", objective="imc_gain-0.5*load_distance-2*nodes_used",
        write_model=path, starts="none",
    )  # fmt: skip
    assert result.termination is Termination.OPTIMAL
    text = path.read_text()
    assert "imc_gain-0.5*load_distance-2*nodes_used: largest" in text.splitlines()[1]


@pytest.mark.parametrize(
    ("bound", "settled"),
    [
        (3e-8, 0.0),  # less than half of the smallest term, and than what a solver distinguishes
        (0.3, 0.3),
        (1e-5, 1e-5),
    ],
)
def test_a_bound_of_next_to_nothing_is_nothing(bound: float, settled: float) -> None:
    terms = Expression(np.arange(2), np.array([1.0, 7.0]), 0.0, 1.0, 8.0)
    assert _settled(find_objective("imc_gain"), terms, 0.0, bound) == settled
    tiny = terms._replace(value=np.array([4e-8, 7.0]))
    assert _settled(find_objective("imc_gain"), tiny, 0.0, 3e-8) == 3e-8


def test_what_a_large_cost_hides_is_not_proved() -> None:
    """Moving t0 alone costs 1, moving two others 2: the same beside a cost of 5e11."""
    builder = InstanceBuilder("costs").node("n0", capacity=2.4, leaving=True)
    builder = builder.node("n1", capacity=2.5)
    for i, load in enumerate((1.0, 0.9, 0.6, 0.7)):
        builder = builder.task(f"t{i}", load=load, node="n0", state=5e11 if i == 1 else 1)
    found = solve(builder.build(), "plan-milp", objective="migration_cost", explain=0.0)
    assert found.objective is not None and found.bound is not None and found.bound <= 1
    assert found.objective.value == 1 or found.termination != Termination.OPTIMAL


def test_what_large_terms_of_a_sum_hide_is_not_proved() -> None:
    """Traffic of 1e12 within a node, and loads that are to be even: the solver sees the former."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate((3047.0, 2077.0))]
    loads = (500, 700, 500, 1000, 0, 700, 700)
    document = {
        "format": "streamplace.instance/1", "name": "hidden", "nodes": nodes,
        "tasks": [{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(loads)],
        "traffic": [["t3", "t2", 3e11], ["t5", "t4", 3e11], ["t6", "t2", 1e12]],
    }  # fmt: skip
    made = Instance.from_dict(document)
    objective = "0.3*collocation_factor-0.3*mean_absolute_deviation-0.01*internode_traffic"
    best = solve(made, "imc-brute", objective=objective)
    found = solve(made, "plan-milp", objective=objective, starts="none")
    assert best.objective is not None and found.objective is not None
    assert best.objective.value is not None and found.bound is not None
    assert found.bound >= best.objective.value - 1e-9
    assert found.termination != Termination.OPTIMAL or found.objective.value == pytest.approx(
        best.objective.value, rel=1e-6
    )


@pytest.mark.slow
def test_tasks_that_fit_no_staying_node_set_no_scale_of_the_deviation() -> None:
    """Two tasks of 5e12 on a leaving node: they set no scale for the deviation of the others."""
    objective = "mean_absolute_deviation"
    found = solve(beside_large_tasks(), "plan-milp", objective=objective, explain=0.0)
    assert found.termination == Termination.OPTIMAL
    assert found.objective is not None and found.objective.value is not None
    assert found.objective.value == pytest.approx(LEAST_BESIDE_LARGE_TASKS)
    assert found.bound == pytest.approx(LEAST_BESIDE_LARGE_TASKS)
