"""`throughput-exact` against all placements, and the published profiles' proven optima."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from formulations.column_generation.driver import Bottleneck
from optim import Instance, InvalidInput, UnsuitableMethod, solve
from streamplace import InstanceBuilder
from tests.formulations.throughput.small import THREADS, best_of, small

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KNOWN = json.loads((Path(__file__).parents[2] / "data" / "capsys-rates.json").read_text())


@pytest.mark.parametrize("query", KNOWN["rates"])
def test_the_profiled_queries_are_closed(query: str) -> None:
    instance = Instance.load(EXAMPLES / f"capsys-rate-{query.lower()}.json")
    result = solve(instance, "throughput-exact")
    assert result.termination == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(KNOWN["rates"][query], abs=1e-6)
    assert result.bound == pytest.approx(result.objective.value, rel=1e-6)
    assert result.exit_code == 4  # none of them carries the current input
    assert "no placement carries more than" in " ".join(result.notes)


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_equal_to_all_placements(first: int) -> None:
    tried = 0
    for seed in range(first, first + 10):
        instance = small(seed)
        try:
            result = solve(instance, "throughput-exact", start_broken="refuse")
        except UnsuitableMethod as error:
            assert error.problems[0].remedy
            continue
        tried += 1
        check(instance, result)
    assert tried > 2


@pytest.mark.parametrize("seed", [*range(THREADS, THREADS + 30), 5284, 5501, 5649, 5796])
def test_equal_to_all_placements_where_tasks_are_threads(seed: int) -> None:
    instance = small(seed)
    try:
        result = solve(instance, "throughput-exact", start_broken="refuse")
    except UnsuitableMethod as error:
        assert error.problems[0].remedy
        return
    check(instance, result)


def test_patterns_are_not_missed_where_a_start_carries_all_that_tasks_can() -> None:
    """Too many patterns are listed below the ceiling: the start is proved by the tasks alone."""
    names = [f"o{i}" for i in range(9)]
    document = {
        "format": "streamplace.instance/1",
        "name": "wide",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 1000}} for i in range(3)],
        "operators": [
            {"id": o, "group": {"tasks": 8, "load": {"cpu": 8 + k / 8}}, "max_load": {"cpu": 1.5}}
            for k, o in enumerate(names)
        ],
        "streams": [{"from": a, "to": b, "rate": 4} for a, b in itertools.pairwise(names)],
    }
    result = solve(Instance.from_dict(document), "throughput-exact", most_patterns=5000)
    assert result.termination == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.5 / (1 + 1 / 8))
    assert result.objective_levels[0].value == 0.0  # 72 tasks of little load fit one node


def test_a_start_that_leaves_tasks_does_not_stand_for_the_best_that_leaves_none() -> None:
    instance = small(1053)
    check(instance, solve(instance, "throughput-exact", start_broken="refuse"))


@pytest.mark.parametrize("seed", range(8))
def test_a_relaxation_that_fails_refutes_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bottleneck, "covers", lambda *_: None)
    instance = small(seed)
    try:
        result = solve(instance, "throughput-exact", start_broken="refuse")
    except UnsuitableMethod:
        pytest.skip("not of patterns")
    check(instance, result)


def check(instance: Instance, result: object) -> None:
    best = best_of(instance)
    told = (instance.name, getattr(result, "termination", None), best)
    leaves = instance.nodes.leaving.any()  # what is proven may be of plans that empty these nodes
    if best is None:
        assert result.termination == "infeasible", told  # type: ignore[attr-defined]
        return
    proven = ("optimal", "gap_reached") if leaves else ("optimal",)
    proven += () if best[0] > 0 else ("heuristic",)  # 0 for every plan is nothing to be best at
    assert result.termination in proven, told  # type: ignore[attr-defined]
    value = result.objective.value  # type: ignore[attr-defined]
    assert value == pytest.approx(best[0], rel=1e-6, abs=1e-9), told
    level = result.objective_levels[0]  # type: ignore[attr-defined]
    assert level.value >= best[1] - 1e-6 * max(1.0, best[1]), told
    if level.bound is not None:
        assert level.bound <= best[1] + 1e-6 * max(1.0, best[1]), told
        assert level.value == pytest.approx(best[1], rel=1e-6, abs=1e-6), told


def test_leaving_nodes_are_emptied_only_by_plans_that_carry_the_input() -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "drain",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 4}, "leaving": i == 2} for i in range(3)],
        "operators": [{"id": "a", "group": {"tasks": 4, "load": {"cpu": 10}}}],
        "tasks": [{"id": f"a/{i}", "node": f"n{i % 3}"} for i in range(4)],
    }
    result = solve(Instance.from_dict(document), "throughput-exact")
    assert (result.termination, result.bound_of, result.exit_code) == ("optimal", "problem", 4)
    assert result.objective is not None
    assert result.objective.value == pytest.approx(0.8)  # 0.8 on the two that stay, too: emptied
    assert result.evaluation is not None
    assert result.evaluation.drained
    document["operators"][0]["group"]["load"]["cpu"] = 9.2  # type: ignore[index]
    document["nodes"][0]["capacity"] = {"cpu": 4.7}  # type: ignore[index]
    for method in ("throughput-exact", "throughput-milp", "throughput-search"):
        result = solve(Instance.from_dict(document), method)
        assert result.feasible
        assert result.evaluation is not None
        assert result.evaluation.drained is False


def test_refuses_links_of_several_nodes() -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 4}} for i in range(4)]
    document = {
        "format": "streamplace.instance/1",
        "name": "rack",
        "nodes": nodes,
        "operators": [{"id": "a", "group": {"tasks": 4, "load": {"cpu": 4}}}],
        "links": [{"id": "rack", "nodes": ["n0", "n1"], "capacity": 3}],
    }
    with pytest.raises(InvalidInput, match="throughput-search"):
        solve(Instance.from_dict(document), "throughput-exact")


@pytest.mark.parametrize("method", ["throughput-exact", "throughput-milp", "throughput-search"])
@pytest.mark.filterwarnings("error")
def test_loads_that_are_nothing_beside_others_are_solved(method: str) -> None:
    builder = InstanceBuilder("far apart").node("n0", capacity=1e15).node("n1", capacity=1e15)
    for k, load in enumerate((3e-301, 1e-300, 1e15, 5.0)):
        builder = builder.task(f"t{k}", load=load, node=f"n{k % 2}")
    result = solve(builder.traffic("t0", "t1", 1.0).build(), method)
    assert str(result.termination) == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.0, rel=1e-9)
    assert not [note for note in result.notes if "too little" in note]


@pytest.mark.parametrize("method", ["throughput-exact", "throughput-milp"])
def test_the_tolerance_of_a_row_is_of_its_capacity_and_not_of_the_room_beside_a_background(
    method: str,
) -> None:
    """Half a unit more than the room, within 1e-9 of the capacity."""
    full = InstanceBuilder("node").node("n0", capacity=1e10 + 5, background=1e10)
    full = full.task("t0", load=5.5)
    crossed = InstanceBuilder("link").node("n0", capacity=1).node("n1", capacity=1)
    crossed = crossed.task("t0", load=1).task("t1", load=1).traffic("t0", "t1", 5.5)
    crossed = crossed.link("up", ["n0"], capacity=1e10 + 5, background=1e10)
    for builder, used in ((full, 1), (crossed, 2)):
        result = solve(builder.build(), method, objective="nodes_used")
        assert result.feasible
        assert (result.termination, result.bound) == ("optimal", used)


def test_large_traffic_inside_a_node_hides_no_crossing_cost() -> None:
    """Sums of 5.6e12 less what stays are wrong by 1e-3: the nodes have room for what crosses."""
    builder = InstanceBuilder("inside", crossing_cost={"cpu": {"out": 0.1, "in": 0.2}})
    builder = builder.node("n0", capacity=13.90007).node("n1", capacity=4.80014)
    for name, load in (("a", 8), ("b", 5), ("c", 3)):
        builder = builder.task(name, load=load)
    builder = builder.traffic("a", "b", 5642417227101.307).traffic("a", "c", 9.0007)
    result = solve(builder.build(), "throughput-exact", objective="nodes_used")
    assert (result.termination, result.bound) == ("optimal", 2)
