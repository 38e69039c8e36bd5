"""`local_first` streams under other rules: proofs and searches against all placements."""

from __future__ import annotations

import itertools
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.task_allocation.milp import IMC_MILP
from formulations.task_allocation.model import build
from heuristics.annealing import levels_of
from optim import Instance, InvalidInput, UnsuitableMethod, solve
from optim.figures.catalogue import find_objective
from optim.kernels.plan_state import INSIDE, NODE, TASKS, state_of
from optim.kernels.plan_walk import NUM_PARAMETERS, walk
from optim.methods.choose import choices
from optim.methods.reduce import AS_FULL, lowered
from optim.methods.registry import get_method
from optim.referee import Termination
from optim.rules import is_feasible, limits_set, without_limits
from optim.rules.placement import Placement
from optim.util.compiled import seeded
from tests.formulations.storm.cases import random_cluster
from tests.slowly import slowly

OF_PAIRS = (
    "partition", "storm-online", "albic", "cola", "gma", "naive", "task-level", "top-down",
)  # fmt: skip
EXACT = ("imc-milp", "imc-exact", "plan-milp", "imc-brute", "joint-milp")
SENSES = {"internode_traffic": min, "imc_gain": max, "sustainable_rate": max}


def drawn(seed: int, *, slots: bool = False) -> Instance:
    """A random instance of at most 729 placements: streams of all patterns, and a rule or two."""
    rng = random.Random(seed)
    count = rng.choice((2, 3))
    sizes = {"a": rng.randint(1, 2), "b": rng.randint(1, 2), "c": rng.randint(0, 1)}
    sizes["b"] += count == 2 and rng.random() < 0.7
    names = [name for name, size in sizes.items() if size]
    streams: list[dict[str, Any]] = []
    for one, other in itertools.permutations(names, 2):
        if rng.random() < 0.6:
            stream: dict[str, Any] = {"from": one, "to": other, "rate": rng.choice((1, 2.5, 6))}
            if rng.random() < 0.75:
                stream["pattern"] = "local_first"
                weights = [rng.choice((0, 1, 1, 4)) for _ in range(sizes[one])]
                if rng.random() < 0.5 and any(weights):
                    stream["sender_weights"] = weights
            streams.append(stream)
    loads = {name: rng.choice((1.0, 2.0, 3.0)) * sizes[name] for name in names}
    whole = sum(loads.values())
    room = whole / count * rng.choice((1.2, 1.6, 3.0))
    nodes: list[dict[str, Any]] = [
        {"id": f"n{n}", "capacity": {"cpu": room}, "rack": f"r{n % 2}"} for n in range(count)
    ]
    tasks: list[dict[str, Any]] = []
    limits: dict[str, Any] = {}
    ids = [f"{name}/{i}" for name in names for i in range(sizes[name])]
    if rng.random() < 0.5:
        tasks = [{"id": task, "node": f"n{rng.randrange(count)}"} for task in ids]
        limits = {"max_migrations": rng.randint(1, 4)}
    if rng.random() < 0.3:
        limits["max_nodes_used"] = rng.randint(1, count)
    sets = []
    if rng.random() < 0.4 and len(ids) > 1:
        rule = rng.choice(("apart", "together"))
        sets = [{"id": "s", "tasks": rng.sample(ids, 2), "rule": rule}]
    if rng.random() < 0.2:
        nodes[0]["max_tasks"] = rng.randint(1, len(ids))
    topologies = []
    if slots:
        nodes = [{**node, "slots": rng.randint(1, 2)} for node in nodes]
        limits["max_tasks_per_slot"] = rng.randint(2, 3)
        topologies = [{"id": "t"}]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": f"near-{seed}", "resources": ["cpu"],
            "nodes": nodes, "tasks": tasks, "streams": streams, "limits": limits, "sets": sets,
            "topologies": topologies,
            "operators": [
                {"id": name, "group": {"tasks": sizes[name], "load": {"cpu": loads[name]}}}
                | ({"topology": "t"} if slots else {})
                for name in names
            ],
        }
    )  # fmt: skip


@cache
def best(seed: int, slots: bool, objective: str) -> float | None:
    """The best value over all placements that the referee lets pass."""
    instance, figure = drawn(seed, slots=slots), find_objective(objective)
    assert figure.value is not None
    found = []
    for nodes in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        placement = Placement(instance, np.array(nodes, np.int32))
        if is_feasible(placement):
            value = figure.value(placement)
            assert value is not None
            found.append(value)
    return SENSES[objective](found) if found else None


def holds(seed: int, method: str, objective: str, slots: bool = False) -> bool:
    """Whether the instance has a plan; that a method finds the best one, or that there is none."""
    instance, known = drawn(seed, slots=slots), best(seed, slots, objective)
    honours = get_method(method).honours
    if not limits_set(instance).keys() <= honours | {"capacity"}:
        return False
    if method == "joint-milp" and not instance.has_traffic:
        with pytest.raises(UnsuitableMethod, match="needs streams or traffic"):
            solve(instance, method, objective=objective)
        return False
    result = solve(instance, method, objective=objective, start_broken="refuse")
    if known is None:
        assert not result.feasible
        return False
    assert result.feasible and result.objective is not None
    assert result.objective.value == pytest.approx(known, rel=1e-6, abs=1e-6), (seed, method)
    if get_method(method).kind == "exact":
        # where every plan has the same value there is nothing to prove
        assert result.bound == pytest.approx(known, rel=1e-6, abs=1e-6)
    return True


@pytest.mark.parametrize("block", [*range(20), *slowly(*range(20, 60))])
def test_the_model_has_the_best_of_all_placements(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):  # 1,200 instances, within this process
        known = best(seed, slots=False, objective="imc_gain")
        made = build(lowered(drawn(seed), IMC_MILP.honours))
        columns, rates = made.traffic()
        made.model.set_objective(columns, rates / made.scale)
        arrays = made.model.freeze()
        found = milp(
            -arrays.cost,
            constraints=LinearConstraint(arrays.matrix, arrays.row_lower, arrays.row_upper),
            bounds=Bounds(arrays.lower, arrays.upper),
            integrality=arrays.integrality.astype(int),
        )
        assert (found.x is None) == (known is None), seed
        if known is not None:
            assert -found.fun * made.scale == pytest.approx(known, abs=1e-6), seed
            vector = made.vector(made.place(found.x))
            assert made.model.violation(vector) < 1e-6
            assert made.model.objective_of(vector) * made.scale == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", EXACT)
def test_traffic_as_by_brute_force(method: str, seed: int) -> None:
    for k in range(4):
        holds(20 * seed + k, method, "imc_gain")


@pytest.mark.seeds(2)
@pytest.mark.parametrize("seed", [*range(6), *slowly(*range(6, 20))])
def test_levels_and_slots_as_by_brute_force(seed: int) -> None:
    for k in range(4):
        holds(100 + 20 * seed + k, "plan-milp", "internode_traffic", slots=True)


@pytest.mark.seeds(4)
@pytest.mark.parametrize("seed", [17, 43, 44, 47, *slowly(*range(17), *range(18, 43))])
def test_least_capacity_then_least_traffic_as_by_brute_force(seed: int) -> None:
    for made in map(drawn, range(1_000 + 3 * seed, 1_003 + 3 * seed)):
        figures = [find_objective(name) for name in ("used_capacity", "internode_traffic")]
        found = []
        for nodes in itertools.product(range(made.num_nodes), repeat=made.num_tasks):
            placement = Placement(made, np.array(nodes, np.int32))
            if is_feasible(placement):
                found.append([figure.measured(placement).value for figure in figures])
        result = solve(made, "eoa-milp", start_broken="refuse")
        assert bool(found) == result.feasible
        if found:
            assert result.termination == Termination.OPTIMAL
            told = [level.value for level in result.objective_levels]
            assert told == pytest.approx(min(found), rel=1e-6, abs=1e-6), made.name
            bounds = [level.bound for level in result.objective_levels]
            assert bounds == pytest.approx(min(found), rel=1e-5, abs=1e-5), made.name


@pytest.mark.seeds(2)
@pytest.mark.parametrize("method", ["plan-search", "imc-search", "joint-search"])
@pytest.mark.parametrize("seed", [*range(4), *slowly(*range(4, 12))])
def test_the_search_finds_the_best(seed: int, method: str) -> None:
    for k in range(3):
        holds(500 + 20 * seed + k, method, "imc_gain")


@pytest.mark.parametrize("method", ["throughput-exact", "throughput-milp", "throughput-search"])
def test_the_rate_without_links_is_that_of_loads(method: str) -> None:
    assert sum(holds(seed, method, "sustainable_rate") for seed in range(12)) > 2


def test_heuristics_of_pairs_take_the_streams_for_full_ones_and_say_so() -> None:
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "even",
            "nodes": [{"id": n, "capacity": {"cpu": 4}, "slots": 2} for n in ("n1", "n2")],
            "topologies": [{"id": "t", "workers": 2}],
            "operators": [
                {"id": name, "topology": "t", "group": {"tasks": 2, "load": {"cpu": 4}}}
                for name in "ab"
            ],
            "streams": [{"from": "a", "to": "b", "rate": 4, "pattern": "local_first"}],
        }
    )  # fmt: skip
    full = without_limits(instance, ["local_first"])
    for method in OF_PAIRS:
        result, even = solve(instance, method, repair=True), solve(full, method, repair=True)
        assert result.plan is not None and even.plan is not None
        assert result.plan.assignment == even.plan.assignment
        assert AS_FULL in result.notes and AS_FULL not in even.notes
        # the referee measures the streams as they are: each sender has a receiver beside it
        assert result.evaluation is not None and even.evaluation is not None
        assert result.evaluation.imc_gain == 2 * even.evaluation.imc_gain, method
        assert even.evaluation.imc_gain == (0.0 if method == "gma" else 2.0), method
    offline, even = solve(instance, "storm-offline"), solve(full, "storm-offline")
    assert offline.plan is not None and even.plan is not None
    assert offline.plan.assignment == even.plan.assignment
    assert not offline.notes


def test_counts_and_least_gains_of_pairs_are_refused() -> None:
    instance = next(made for made in map(drawn, range(50)) if made.flows.local)
    with pytest.raises(UnsuitableMethod, match="by=tasks"):
        solve(instance, "imc-search", by="groups")
    with pytest.raises(UnsuitableMethod, match="form=products"):
        solve(instance, "eoa-milp", form="patterns")
    with pytest.raises(InvalidInput, match="min_imc_gain adds up pairs"):
        solve(instance, "throughput-exact", objective="nodes_used", min_imc_gain=1.0)


@pytest.mark.parametrize("seed", [*range(20), *slowly(*range(20, 60))])
def test_what_a_walk_follows_is_what_the_referee_finds(seed: int) -> None:
    made = drawn(seed)
    name = ("imc_gain", "resource_deviation")[seed % 2]  # only inside, all that crosses
    objective = find_objective(name)
    rng = np.random.default_rng(seed)
    begin = rng.integers(made.num_nodes, size=made.num_tasks).astype(np.int32)
    state = state_of(made, objective.binding(made), objective, begin)
    parameters = np.array([1.0, 0.5, 200, 0, 1.0, 0.0, 0.5, 0.0, 0.0])
    assert len(parameters) == NUM_PARAMETERS
    known = np.full(2, -1e300), np.ones(1), np.ones((2, 1))
    walk.plain(*state, seeded(seed), parameters, begin.astype(np.int64), *known, np.zeros(6))
    at = state.ints[state.ints[NODE] :][: state.ints[TASKS]].astype(np.int32)
    inside = Placement(made, at).gain
    if made.has_traffic:
        assert state.reals[INSIDE] == pytest.approx(inside, abs=1e-9)
        levels_of(state)
        assert state.reals[INSIDE] == pytest.approx(inside, abs=1e-9)


def test_without_a_method_named_it_is_proved() -> None:
    instance = next(
        made
        for made in map(drawn, range(50))
        if made.flows.local and made.limits.max_migrations is None
    )
    result = solve(instance)
    assert result.termination == Termination.OPTIMAL
    assert result.plan is not None and result.plan.method in ("plan-milp", "plan-search")


def test_executors_in_slots_are_proved_by_storm_milp_in_the_time_given() -> None:
    instance = random_cluster(117, near=True)
    assert instance.flows.local
    first = [next(choices(instance, limit, "internode_traffic")).name for limit in (30.0, None)]
    assert first == ["storm-milp", "plan-milp"]


@pytest.mark.parametrize("method", ["eoa-milp", "gma", "joint-milp", "joint-search", "imc-milp"])
def test_over_links_who_does_not_know_what_crosses_refuses_with_a_remedy(method: str) -> None:
    instance = next(made for made in map(drawn, range(50)) if made.flows.local)
    document = instance.to_dict() | {"links": [{"id": "up", "nodes": ["n0"], "capacity": 9}]}
    with pytest.raises(UnsuitableMethod) as error:
        solve(Instance.from_dict(document), method, repair=True)
    assert "--ignore local_first_links drops" in str(error.value)
