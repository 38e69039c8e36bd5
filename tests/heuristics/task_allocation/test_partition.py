"""``partition``: engines behind one interface, capacities kept, the same plan twice."""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heuristics.task_allocation.partition import (
    metis_parts,
    part_nodes,
    scalar_loads,
    weighted_graph,
)
from optim.errors import UnsuitableMethod
from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.kernels.first_fit import packings
from optim.methods.solve import solve
from optim.referee import evaluate_indices
from tests.optim.kernels.cases import best_by_brute_force, problems
from tests.optim.make import instance as small
from tests.optim.make import nodes

ENGINES = ["metis", "mtkahypar"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "mtkahypar":
        pytest.importorskip("mtkahypar")
    return str(request.param)


def cliques(count: int, size: int, capacities: list[float], **parts: Any) -> Instance:
    """Cliques of tasks of load 1, chained by thin pairs."""
    ids = [f"t{i}" for i in range(count * size)]
    traffic = [
        [f"t{c * size + i}", f"t{c * size + j}", 10]
        for c in range(count)
        for i in range(size)
        for j in range(i + 1, size)
    ]
    traffic += [[f"t{a * size}", f"t{b * size}", 1] for a, b in pairwise(range(count))]
    return small(
        nodes=[{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)],
        operators=[],
        streams=[],
        tasks=[{"id": t, "load": {"cpu": 1}} for t in ids],
        traffic=traffic,
        **parts,
    )


def test_finds_the_cliques(engine: str) -> None:
    made = cliques(6, 8, [8.0] * 6)
    result = solve(made, "partition", engine=engine)
    assert result.feasible
    assert result.objective is not None
    assert result.objective.value == 6 * 28 * 10


def test_spare_nodes_stay_empty(engine: str) -> None:
    made = cliques(4, 8, [16.5] * 10)
    result = solve(made, "partition", engine=engine)
    assert result.evaluation is not None
    assert result.evaluation.nodes_used == 2
    assert result.evaluation.internode_traffic == 1


def test_everything_on_one_node_where_it_fits(engine: str) -> None:
    result = solve(cliques(4, 8, [10.0, 40.0]), "partition", engine=engine)
    assert result.evaluation is not None
    assert result.evaluation.collocation_factor == 1.0


def test_unequal_nodes(engine: str) -> None:
    result = solve(cliques(4, 8, [8.0, 16.0, 8.0]), "partition", engine=engine)
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic <= 3


def test_allowed_nodes_are_kept(engine: str) -> None:
    made = cliques(3, 4, [4.0] * 3)
    tasks = made.to_dict()["tasks"]
    tasks[0]["allowed"] = ["n2"]
    tasks[11]["allowed"] = ["n0"]
    result = solve(made.replace(tasks=tasks), "partition", engine=engine)
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic == 2


def test_same_plan_twice_and_seeds_differ_in_nothing_but_the_cut(engine: str) -> None:
    rng = np.random.default_rng(3)
    made = small(
        nodes=nodes(5, capacity={"cpu": 25}),
        operators=[],
        streams=[],
        tasks=[{"id": f"t{i}", "load": {"cpu": int(rng.integers(1, 4))}} for i in range(50)],
        traffic=[
            [f"t{i}", f"t{j}", int(rng.integers(1, 9))]
            for i in range(50)
            for j in range(i + 1, 50)
            if rng.random() < 0.1
        ],
    )
    first, second = (solve(made, "partition", engine=engine, seed=7) for _ in range(2))
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.to_json() == second.plan.to_json()
    assert solve(made, "partition", engine=engine, seed=8).feasible


def test_more_tries_never_hurt() -> None:
    made = cliques(9, 5, [12.0] * 6)
    values = [solve(made, "partition", tries=k).objective.value for k in (1, 2, 4)]  # type: ignore[union-attr]
    assert values == sorted(values)  # type: ignore[type-var]


@given(problems(most_tasks=7, most_nodes=3))
@settings(max_examples=80)
def test_places_what_first_fit_places(instance: Instance) -> None:
    if not instance.has_traffic or instance.limits.max_migrations is not None:
        return
    result = solve(instance, "partition")
    fits = any(evaluate_indices(instance, packed).feasible for packed in packings(instance))
    assert result.feasible or not fits
    best = best_by_brute_force(instance)
    if result.feasible:
        assert best is not None
        assert result.objective is not None
        assert result.objective.value is not None
        assert result.objective.value <= best[0] + 1e-9


def test_absent_package_is_told_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    with pytest.raises(UnsuitableMethod, match=r"pip install mtkahypar.*engine=metis"):
        solve(cliques(3, 3, [4.0] * 3), "partition", engine="mtkahypar")


def test_scalar_loads_weigh_resources_by_tightness() -> None:
    made = small(
        resources=["cpu", "memory"],
        nodes=nodes(2, capacity={"cpu": 10, "memory": 10}),
        operators=[],
        streams=[],
        tasks=[{"id": "a", "load": {"cpu": 10}}, {"id": "b", "load": {"memory": 5}}],
    )
    load, room = scalar_loads(made)
    assert load.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert load.sum() == pytest.approx(1)
    assert room.sum() >= 1


def test_parts_for_103_percent_of_the_load() -> None:
    graph = weighted_graph(cliques(10, 10, [10.1] * 20))
    assert len(part_nodes(cliques(10, 10, [10.1] * 20), graph)) == 11
    assert len(part_nodes(cliques(10, 10, [10.4] * 20), graph)) >= 10


@given(st.integers(0, 5))
@settings(max_examples=5)
def test_shuffled_vertices_come_back_in_order(seed: int) -> None:
    made = cliques(4, 6, [6.0] * 4)
    graph = weighted_graph(made)
    parts = metis_parts(graph, np.arange(4), seed, shuffle=True)
    assert len(parts) == 24
    assert imc_gain_of(made, parts.astype(np.int32)) >= 3 * 150


@pytest.mark.parametrize("method", ["partition", "imc-search"])
@pytest.mark.parametrize(
    "node",
    [{"capacity": {"cpu": 9}, "leaving": True}, {"capacity": {"cpu": 2}, "background": {"cpu": 2}}],
)
def test_without_a_node_to_cut_for(method: str, node: dict[str, Any]) -> None:
    # all nodes leave, or are full and the tasks need nothing: METIS gets no parts to make
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "no parts",
            "nodes": [{"id": f"n{i}", **node} for i in range(2)],
            "tasks": [{"id": t, "node": f"n{i % 2}"} for i, t in enumerate("abcd")],
            "traffic": [["a", "b", 3], ["c", "d", 1]],
        }
    )
    result = solve(made, method, **({"by": "tasks"} if method == "imc-search" else {}))
    assert result.evaluation is not None
    assert result.evaluation.feasible
    heavy = {"id": "x", "load": {"cpu": 5}}
    full = made.replace(tasks=[*made.to_dict()["tasks"], heavy], traffic=[["a", "x", 3]])
    assert solve(full, method).exit_code in (0, 3, 4)


@pytest.mark.parametrize("method", ["partition", "imc-search"])
def test_where_every_node_leaves_all_of_them_count(method: str) -> None:
    result = solve(small(nodes=nodes(3, leaving=True)), method)
    assert result.feasible
    assert result.objective is not None
    assert result.objective.value == 12


@pytest.mark.parametrize("leaving", [False, True])
def test_no_room_on_any_staying_node_is_no_error(leaving: bool) -> None:
    made = small(
        nodes=[
            {"id": "n1", "leaving": True, "capacity": {"cpu": 1e10} if not leaving else {"cpu": 0}},
            {"id": "n2", "leaving": leaving, "capacity": {"cpu": 1 / 3}},
        ],
        operators=[{"id": "a", "group": {"tasks": 2, "load": {"cpu": 2e9}}}],
        tasks=[{"id": f"a/{i}", "node": "n1"} for i in range(2)],
        streams=[],
        traffic=[["a/0", "a/1", 1]],
    )
    assert part_nodes(made, weighted_graph(made)).tolist() == [0 if leaving else 1]
    assert solve(made, "partition", repair=True).exit_code in (3, 4)
