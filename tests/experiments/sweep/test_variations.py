"""Variations change what they name and nothing else."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.sweep.spec import Spec, Variation, apply_all, load_spec, scale_capacity, set_limit
from optim import Instance, solve
from optim.errors import InvalidInput
from tests.experiments.sweep.conftest import INSTANCE


def share_of(document: dict[str, Any], resource: str) -> float:
    """Load over capacity, both counted here from the document itself."""
    load = sum(o["group"]["load"].get(resource, 0) for o in document["operators"])
    load += sum(
        node.get("background", {}).get(resource, 0)
        for node in document["nodes"]
        if not node.get("leaving")
    )
    capacity = sum(n["capacity"][resource] for n in document["nodes"] if not n.get("leaving"))
    return float(load / capacity)


@given(st.floats(0.01, 5), st.sampled_from(["cpu", "memory"]))
def test_load_takes_the_share_and_proportions_stay(share: float, resource: str) -> None:
    before = copy.deepcopy(INSTANCE)
    varied = Variation("load_share", "load_share", resource).apply(INSTANCE, share)
    assert before == INSTANCE
    assert share_of(varied, resource) == pytest.approx(share)
    old, new = ([n["capacity"][resource] for n in d["nodes"]] for d in (INSTANCE, varied))
    assert new[1] / new[0] == pytest.approx(old[1] / old[0])
    other = {"cpu": "memory", "memory": "cpu"}[resource]
    assert share_of(varied, other) == share_of(INSTANCE, other)
    assert varied["operators"] == INSTANCE["operators"]


def test_background_and_leaving_nodes_count(tiny: dict[str, Any]) -> None:
    tiny["nodes"][0]["background"] = {"cpu": 10}
    tiny["nodes"].append({"id": "n3", "leaving": True, "background": {"cpu": 5}})
    varied = Variation("load_share", "load_share", "cpu").apply(tiny, 0.5)
    assert share_of(varied, "cpu") == pytest.approx(0.5)
    assert "capacity" not in varied["nodes"][2]


def test_the_first_resource_is_the_default_and_slots_scale_along(tiny: dict[str, Any]) -> None:
    tiny["nodes"][0] |= {"slots": 2, "slot_capacity": {"cpu": 50, "memory": 5}}
    varied = Variation("scale_capacity", "scale_capacity").apply(tiny, 2.0)
    assert varied["nodes"][0]["capacity"] == {"cpu": 200, "memory": 10}
    assert varied["nodes"][0]["slot_capacity"] == {"cpu": 100, "memory": 5}
    assert Instance.from_dict(varied).nodes.capacity[1].tolist() == [600, 10]


def test_a_table_scales_several_resources(tiny: dict[str, Any]) -> None:
    varied = Variation("s", "scale_capacity").apply(tiny, {"cpu": 0.5, "memory": 3.0})
    assert varied["nodes"][1]["capacity"] == {"cpu": 150, "memory": 30}


def test_a_limit_is_set_beside_the_others(tiny: dict[str, Any]) -> None:
    tiny["limits"] = {"max_load_distance": 5.0}
    varied = set_limit(tiny, "max_migrations", 3.0)
    assert varied["limits"] == {"max_load_distance": 5.0, "max_migrations": 3}
    assert isinstance(varied["limits"]["max_migrations"], int)
    assert tiny["limits"] == {"max_load_distance": 5.0}


def test_variations_follow_each_other(tiny: dict[str, Any]) -> None:
    chain = [
        (Variation("a", "load_share", "cpu"), 0.5),
        (Variation("b", "limit", None, "max_migrations"), 1.0),
    ]
    varied = apply_all(tiny, chain)
    assert share_of(varied, "cpu") == pytest.approx(0.5)
    assert varied["limits"] == {"max_migrations": 1}


def test_what_cannot_be_varied_is_refused_with_its_name(tiny: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"tiny has no resource disk .*cpu, memory"):
        scale_capacity(tiny, {"disk": 2.0})
    del tiny["nodes"][1]["capacity"]
    with pytest.raises(InvalidInput, match="no capacity of cpu on node n2"):
        Variation("load_share", "load_share", "cpu").apply(tiny, 0.5)
    tiny["operators"] = [{"id": "a", "group": {"tasks": 1}}]
    tiny["nodes"] = tiny["nodes"][:1]
    tiny["streams"] = []
    with pytest.raises(InvalidInput, match="no load or no capacity of cpu"):
        Variation("load_share", "load_share", "cpu").apply(tiny, 0.5)


def test_what_if_is_what_the_options_of_solve_make(repository: Path) -> None:
    given = Instance.load(repository / "examples" / "flink-drain.json").to_dict()
    spec = load_spec(repository / "examples" / "what-if.toml")
    assert {kind.kind for kind in spec.variations.values()} == {"what_if", "limit"}
    case = "fail-node tm1, scale-rate 2, add-node like=tm4 count=2"
    varied = Instance.from_dict(Variation("case", "what_if").apply(given, case))
    assert varied.nodes.ids == ("tm2", "tm3", "tm4", "tm5", "tm4-new1", "tm4-new2")
    assert varied.total_traffic == 2 * Instance.from_dict(given).total_traffic
    assert Variation("case", "what_if").apply(given, "as it is") == given


def test_the_example_loses_machines_raises_the_rate_and_buys_moves(repository: Path) -> None:
    given = Instance.load(repository / "examples" / "flink-drain.json").to_dict()
    spec = load_spec(repository / "examples" / "what-if.toml")
    ended = []
    for case in (("as it is", 1, "as it is"), ("as it is", 0, "scale-rate 2"), (2, 0, 2)):
        values = dict(zip(("nodes", "failure", "rate"), case, strict=True)) | {"budget": 8}
        told = [
            (spec.variations[name], spec.factors[name][v] if v in (0, 1, 2) else v)
            for name, v in values.items()
        ]
        instance = Instance.from_dict(apply_all(given, told))
        assert instance.limits.max_migrations == 8
        ended.append(solve(instance, "imc-search").feasible)
    assert ended == [True, False, True]  # a machine lost; twice the rate; with three more


@pytest.mark.parametrize(
    "case", ["", "fail-node", "lose-node tm1", "scale-rate fast", "add-node tm1", "budget 1.5"]
)
def test_a_case_that_says_no_change_is_told_by_its_path(case: str) -> None:
    matrix = {"method": ["m"], "lost": [case]}
    top = {"vary": {"lost": {"kind": "what_if"}}, "name": "t", "instances": {"files": ["a"]}}
    with pytest.raises(InvalidInput, match=r"matrix\.lost\[0\]"):
        Spec.from_dict({"matrix": matrix, **top})
