"""`plan-search` has the figures of the referee, breaks no rule, finds what brute force does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from heuristics import annealing
from heuristics.annealing import levels_of
from heuristics.task_allocation import plan_search
from optim import Instance, InvalidInput, solve
from optim.figures.catalogue import find_objective
from optim.kernels.place_rules import placing_masks
from optim.kernels.plan_state import (
    LEFT,
    MEAN,
    MOST_TASKS,
    NODE,
    SEARCHED,
    PlanState,
    propose,
    state_of,
)
from optim.kernels.plan_walk import NUM_PARAMETERS, _allowed, _move_all, measure, walk
from optim.methods.choose import is_suitable
from optim.methods.registry import get_method
from optim.referee import evaluate_indices
from optim.rules import limits_set, without_limits
from optim.rules.placement import Placement
from optim.util.compiled import seeded
from tests.fuzz.generate import generate
from tests.fuzz.newer import PROBES

FIELDS = frozenset(PROBES)
UNSEEN = {
    "max_load",
    "slots",
    "slot_capacity",
    "workers",
    "max_tasks_per_slot",
    "one_topology_a_slot",
}
"""Rules that no move changes, or that only the referee knows."""


def drawn(seed: int, placements: int = 2_000) -> Instance:
    """Return a random instance with rules of all sorts that the method keeps."""
    made = Instance.from_dict(generate(seed, FIELDS, 0.0, placements))
    return without_limits(made, set(limits_set(made)) - get_method("plan-search").honours)


def placed() -> Instance:
    """Return five tasks on three nodes, with traffic and a current placement."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 9.0}} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0 + i}, "node": f"n{i % 3}"} for i in range(5)]
    traffic = [["t0", "t4", 3.0], ["t1", "t3", 2.0], ["t2", "t3", 4.0]]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "placed", "nodes": nodes, "tasks": tasks,
            "traffic": traffic,
        }
    )  # fmt: skip


def measured(instance: Instance, name: str, node: Any) -> float | None:
    """Return the referee's value of a figure, less is better."""
    figure = find_objective(name)
    assert figure.value is not None
    value = figure.value(Placement(instance, np.asarray(node, dtype=np.int32)))
    return None if value is None else -value if figure.sense == "max" else value


def followed(state: PlanState) -> float:
    """Return what the state has of its only figure, as it was followed."""
    levels = np.zeros(1)
    measure(*state, levels, 0.0, 0)
    return float(levels[0])


@pytest.mark.parametrize("seed", range(24))
def test_what_is_followed_is_what_the_referee_finds(seed: int) -> None:
    made, rng = drawn(seed), np.random.default_rng(seed)
    if not made.num_tasks:
        pytest.skip("no tasks")
    kind, _, target = placing_masks(made)
    node = (target[kind] * rng.random((made.num_tasks, made.num_nodes))).argmax(axis=1)
    for name in SEARCHED:
        before = measured(made, name, node)
        if before is None:
            continue
        objective = find_objective(name)
        state = state_of(made, objective.binding(made), objective, node)
        levels_of(state)
        assert followed(state) == pytest.approx(before, rel=1e-9, abs=1e-9)
        parameters = np.array([1.0, 0.1, 60, 0, 1.0, 1.0, 0.5, 0.0, 0.0])
        assert len(parameters) == NUM_PARAMETERS
        best, record, one = np.array(node), np.full(2, 1e300), np.ones(1)
        known = record, one * 0, np.ones((2, 1))
        walk.plain(*state, seeded(seed), parameters, best, *known, np.zeros(6))
        at = state.ints[state.ints[NODE] : state.ints[NODE] + made.num_tasks]
        after = measured(made, name, at)
        assert after is not None
        assert followed(state) == pytest.approx(after, rel=1e-7, abs=1e-9)
        sums = state.reals[:MEAN].copy()
        levels_of(state)
        assert sums == pytest.approx(state.reals[:MEAN], rel=1e-7, abs=1e-7)
        if record[1] < 1e300:
            broken = evaluate_indices(objective.binding(made), best.astype(np.int32)).violations
            assert {v.rule for v in broken} <= UNSEEN


@pytest.mark.parametrize("seed", range(12))
def test_what_is_refused_is_put_back(seed: int) -> None:
    made = drawn(seed)
    if not made.num_tasks:
        pytest.skip("no tasks")
    objective = find_objective("nodes_used,imc_gain")
    state = state_of(made, made, objective, np.zeros(made.num_tasks, dtype=np.int64))
    levels_of(state)
    at = state.ints[state.ints[NODE] : state.ints[NODE] + made.num_tasks]
    tasks, targets, sources = np.zeros((3, MOST_TASKS), np.int64)
    random, touched = seeded(seed), np.zeros(2 * MOST_TASKS, np.int64)
    for k in range(300):
        with np.errstate(over="ignore"):
            count, before = propose(*state, random, tasks, targets), at.copy()
        if _allowed(state.ints, tasks, targets, count):
            _move_all(*state, tasks, targets, sources, touched, count)
            if k % 2:
                _move_all(*state, tasks, sources, targets, touched, count)
                assert (at == before).all(), f"{tasks[:count]}: no move may name a task twice"


def asked(made: Instance, rng: random.Random) -> str:
    """Return a random objective whose figures plans for the instance have."""
    node, method = np.zeros(made.num_tasks, dtype=np.int32), get_method("plan-search")
    known = [name for name in SEARCHED if measured(made, name, node) is not None]
    known = [name for name in known if is_suitable(method.aimed_at(name), made, repair=True)]
    levels = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        names = rng.sample(known, min(len(known), rng.choice((1, 1, 2, 3))))
        if len(names) == 1:
            levels.append(names[0])
            continue
        signs = ["+" if find_objective(name).sense == "max" else "-" for name in names]
        weights = [rng.choice((0.01, 0.3, 1, 2, 10)) for _ in names]
        levels.append("".join(f"{s}{w}*{n}" for s, w, n in zip(signs, weights, names, strict=True)))
    return ",".join(dict.fromkeys(levels))


@pytest.mark.parametrize("seed", range(16))
def test_small_instances_as_by_brute_force(seed: int) -> None:
    made = drawn(seed)
    if made.nodes.leaving.any() or not made.num_tasks:
        pytest.skip("the judge looks only among plans that empty leaving nodes")
    objective = asked(made, random.Random(seed))
    best = solve(made, "imc-brute", objective=objective, start_broken="refuse")
    found = solve(made, "plan-search", objective=objective, start_broken="refuse")
    assert (found.plan is None) == (best.plan is None), limits_set(made)
    if best.plan is None or found.plan is None:
        return
    figure = find_objective(objective)
    assert found.evaluation is not None and best.evaluation is not None
    for level in figure.levels:
        value, known = level.read(found.evaluation), level.read(best.evaluation)
        assert value == pytest.approx(known, rel=1e-7, abs=1e-9), (objective, limits_set(made))


def test_levels_and_value_are_told_and_no_bound_is() -> None:
    result = solve(placed(), "plan-search", objective="load_distance, migrations")
    assert result.objective is not None and result.evaluation is not None
    assert result.objective.name == "load_distance,migrations"
    assert result.objective.value == result.evaluation.load_distance
    (level,) = result.objective_levels
    assert (level.name, level.value, level.bound) == (
        "migrations", result.evaluation.migrations, None,
    )  # fmt: skip
    assert result.bound is None


def test_the_judge_proves_each_level() -> None:
    result = solve(placed(), "imc-brute", objective="load_distance, migrations")
    assert result.objective is not None
    assert result.bound == result.objective.value
    assert [level.bound for level in result.objective_levels] == [
        level.value for level in result.objective_levels
    ]


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e6])
def test_weights_are_for_figures_of_the_file_in_any_unit(scale: float) -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 9.0 * scale}} for i in range(3)]
    tasks = [{"id": f"t{i}", "load": {"cpu": (1.0 + i) * scale}} for i in range(5)]
    traffic = [["t0", "t4", 3.0], ["t1", "t3", 2.0], ["t2", "t3", 4.0]]
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "units", "nodes": nodes, "tasks": tasks,
            "traffic": traffic,
        }
    )  # fmt: skip
    for method in ("imc-brute", "plan-search"):
        result = solve(made, method, objective=f"imc_gain-{1.5 / scale!r}*load_distance")
        assert result.objective is not None
        assert result.objective.value == pytest.approx(2.5), method


def test_never_below_the_current_placement_nor_a_warm_start() -> None:
    made = placed()
    objective = find_objective("imc_gain-0.01*migrations")
    for start in (None, "storm-even"):
        result = solve(made, "plan-search", objective=objective.name, warm_start=start, effort=0.01)
        assert result.objective is not None and result.objective.value is not None
        assert objective.value is not None
        now = objective.value(Placement(made, made.tasks.node))
        assert now is not None
        assert result.objective.value >= now


def test_the_same_seed_gives_the_same_plan() -> None:
    made = drawn(5)
    runs = [solve(made, "plan-search", objective="imc_gain,load_distance", seed=3) for _ in "ab"]
    plans = [run.plan for run in runs if run.plan is not None]
    assert len(plans) == 2
    assert plans[0].assignment == plans[1].assignment


def test_unasked_the_search_takes_what_no_other_method_does() -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 20.0}} for i in range(14)]
    tasks = [{"id": f"t{i}", "load": {"cpu": 1.0 + i % 5}} for i in range(30)]
    document = {"format": "streamplace.instance/1", "name": "more", "nodes": nodes, "tasks": tasks}
    result = solve(
        Instance.from_dict(document), objective="load_distance,nodes_used", time_limit=0.2
    )
    assert result.method == "plan-search"
    assert result.feasible


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("migrations", "migrations.* has no value for plans of bare"),
        ("interslot_traffic,load_distance", "takes no interslot_traffic .*weighted sums of these"),
        (
            "rate_after_loss,migrations",
            "needs a load, and nodes.*capacity on every node",
        ),
        ("price", "is not supported by plan-search"),
    ],
)
def test_figures_that_plans_do_not_have_are_refused(objective: str, words: str) -> None:
    nodes = [{"id": "n0"}, {"id": "n1"}]
    tasks = [{"id": "a", "load": {"cpu": 1.0}}, {"id": "b", "load": {"cpu": 2.0}}]
    document = {"format": "streamplace.instance/1", "name": "bare", "nodes": nodes, "tasks": tasks}
    with pytest.raises(InvalidInput, match=words):
        solve(Instance.from_dict(document), "plan-search", objective=objective)


def test_tasks_left_on_leaving_nodes_count_first() -> None:
    nodes = [
        {"id": "old", "capacity": {"cpu": 9.0}, "leaving": True},
        {"id": "new", "capacity": {"cpu": 5.0}},
    ]
    tasks = [{"id": f"t{i}", "load": {"cpu": 2.0 + i}, "node": "old"} for i in range(3)]
    document = {"format": "streamplace.instance/1", "name": "drain", "nodes": nodes, "tasks": tasks}
    made = Instance.from_dict(document)
    objective = find_objective("max_utilisation")
    state = state_of(made, made, objective, made.tasks.node)
    levels_of(state)
    assert state.reals[LEFT] == 3
    result = solve(made, "plan-search", objective="max_utilisation")
    assert result.plan is not None
    assert sorted(result.plan.assignment.values()) == ["new", "new", "old"]


def test_the_referee_judges_no_placement_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where slots bind only it knows whether a placement is feasible, and walks come back."""
    judged: list[bytes] = []

    def counted(instance: Instance, node: Any) -> Any:
        judged.append(np.asarray(node).tobytes())
        return evaluate_indices(instance, node)

    document = {
        "format": "streamplace.instance/1",
        "name": "slots",
        "nodes": [
            {"id": f"n{i}", "slots": 2, "slot_capacity": {"cpu": 5}, "capacity": {"cpu": 10}}
            for i in range(3)
        ],
        "tasks": [{"id": f"t{i}", "load": {"cpu": 3}} for i in range(6)],
        "traffic": [[f"t{i}", f"t{(i + 1) % 6}", 1 + i] for i in range(6)],
    }
    made = Instance.from_dict(document)
    monkeypatch.setattr(annealing, "evaluate_indices", counted)
    monkeypatch.setattr(plan_search, "_starts", lambda _: iter([np.zeros(6, np.int32)]))
    plan = solve(made, "plan-search").plan
    assert plan is not None
    assert len(judged) > 10
    assert len(judged) == len(set(judged))


@pytest.mark.seeds(20)
@pytest.mark.parametrize("seed", range(240))
def test_it_is_never_below_staying_by_tasks_left_and_then_its_objective(seed: int) -> None:
    rng, document = random.Random(seed), generate(seed, frozenset(PROBES), 0.0, 600)
    nodes = document["nodes"]
    document.get("limits", {}).pop("max_workers_restarted", None)  # wants the slots of today
    rng.choice(nodes)["leaving"] = True
    listed = {task["id"]: task for task in document.get("tasks", [])}
    for name in Instance.from_dict(document).tasks.ids:
        task = listed.setdefault(name, {"id": name})
        task.pop("slot", None)
        task["node"] = rng.choice(task.get("allowed") or [node["id"] for node in nodes])
    document["tasks"] = list(listed.values())
    made = Instance.from_dict(document)
    made = without_limits(made, set(limits_set(made)) - get_method("plan-search").honours)
    home = made.tasks.node
    if not made.has_traffic or not made.num_tasks or not evaluate_indices(made, home).feasible:
        return
    result = solve(made, "plan-search", objective="imc_gain", effort=0.1)
    assert result.plan is not None
    assert result.objective is not None

    def left(node: Any) -> int:
        return int((made.nodes.leaving[node] & made.has_open_node).sum())

    stays = evaluate_indices(made, home).objective("imc_gain")
    found = left(result.plan.node_indices(made)), -float(result.objective.value or 0.0)
    assert found <= (left(home), -float(stays or 0.0) + 1e-9)
