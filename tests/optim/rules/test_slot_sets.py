"""Sets over slots: what breaks them, in words; where they say no more than a count on nodes."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from optim import InvalidInput, UnsuitableMethod, solve
from optim.format.instance import Instance
from optim.methods.choose import check_suitable
from optim.methods.reduce import lowered
from optim.methods.registry import get_method
from optim.rules import SLOT_SETS, broken, hopeless, limits_set, without_limits
from optim.rules.placement import Placement
from tests.optim.make import document, instance

NODES = [{"id": n, "slots": 2, "capacity": {"cpu": 10}} for n in ("n1", "n2")]


def made(*sets: dict[str, Any], **parts: Any) -> Instance:
    """Tasks a/0, a/1, b/0, b/1 and sets over slots."""
    told = [{"id": f"s{i}", "over": "slot", **one} for i, one in enumerate(sets)]
    return instance(**{"nodes": NODES, "sets": told, **parts})


def told(case: Instance, node: list[int], slot: list[int] | None = None) -> list[str]:
    at = [np.array(x, dtype=np.int32) if x is not None else None for x in (node, slot)]
    return [str(v) for v in broken(Placement(case, *at))]


@pytest.mark.parametrize(
    ("one", "node", "slot", "words"),
    [
        (
            {"operator": "a", "rule": "apart"},
            [0, 0, 1, 1],
            [1, 1, 0, 0],
            "slot_sets at s0 apart: n1#1: needs 2, has 1 (1 off)",
        ),
        (
            {"operator": "a", "rule": "together"},
            [0, 0, 1, 1],
            [0, 1, 0, 0],
            "slot_sets at s0 together: slots: needs 2, has 1 (1 off)",
        ),
        (
            {"operator": "a", "rule": "together"},
            [0, 1, 1, 1],
            None,
            "slot_sets at s0 together: nodes: needs 2, has 1 (1 off)",
        ),
        (
            {"operator": "b", "rule": "spread", "at_least": 2},
            [0, 0, 1, 1],
            [0, 0, 1, 1],
            "slot_sets at s0 spread: slots: needs 2, has 1 (1 off)",
        ),
        (
            {"tasks": ["a/0", "a/1", "b/0"], "rule": "apart"},
            [0, 0, 0, 1],
            None,
            "slot_sets at s0 apart: slots of n1: needs 3, has 2 (1 off)",
        ),
        (
            {"tasks": ["a/0", "a/1", "b/0"], "rule": "spread", "at_least": 3},
            [0, 0, 0, 1],
            None,
            "slot_sets at s0 spread: slots: needs 3, has 2 (1 off)",
        ),
    ],
)
def test_what_is_broken_is_named(
    one: dict[str, Any], node: list[int], slot: list[int] | None, words: str
) -> None:
    case = made(one)
    assert told(case, node, slot) == [words]
    assert told(without_limits(case, "slot_sets"), node, slot) == []


def test_a_dealing_that_sets_alone_make_impossible_is_theirs() -> None:
    """Two pairs apart in two slots leave the third task, too big to go with any, no slot."""
    nodes = [{"id": "n1", "slots": 2, "slot_capacity": {"cpu": 6}}]
    sets = ({"tasks": ["a/0", "a/1"], "rule": "together"},)
    case = made(*sets, nodes=nodes)
    assert told(without_limits(case, "slot_sets"), [0] * 4) == []
    found = told(made({"tasks": ["a/0", "a/1", "b/0"], "rule": "together"}, nodes=nodes), [0] * 4)
    assert found == ["slot_sets at a/0 on n1.cpu (slot_capacity, as sets over slots part its tasks): needs 8, has 6 (2 off)"]  # fmt: skip  # noqa: E501


def test_tasks_of_two_topologies_are_never_together() -> None:
    parts = document()
    operators = [{**o, "topology": t} for o, t in zip(parts["operators"], "pq", strict=True)]
    case = made(
        {"tasks": ["a/0", "b/0"], "rule": "together"},
        operators=operators,
        topologies=[{"id": "p"}, {"id": "q"}],
    )
    [reason] = hopeless(case)
    assert str(reason) == "slot_sets at s0 together: topologies: needs 2, has 1 (1 off)"
    assert told(case, [0] * 4)[-1] == str(reason)


def test_the_words_and_the_file() -> None:
    case = made({"operator": "a", "rule": "apart"})
    assert limits_set(case)["slot_sets"] == 'sets over "slot" (of s0)'
    assert "sets" not in limits_set(case)
    assert Instance.from_dict(case.to_dict()).to_json() == case.to_json()
    both = [{"id": "x", "operator": "a", "rule": "apart"}, {"id": "y", "operator": "b", "rule": "apart", "over": "slot"}]  # fmt: skip  # noqa: E501
    mixed = instance(sets=both[::-1])
    assert [one["id"] for one in mixed.to_dict()["sets"]] == ["y", "x"]


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        ({"rule": "apart", "over": "slots"}, "sets[0].over"),
        ({"rule": "apart", "at_most": 0}, "sets[0].at_most"),
        ({"rule": "spread"}, "sets[0].at_least"),
        ({"rule": "together", "at_most": 2}, "sets[0].at_most"),
    ],
)
def test_bad_sets_are_refused(one: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as error:
        made({"operator": "a", **one})
    assert [p.path for p in error.value.problems] == [problem]


def test_ids_are_unique_over_all_places() -> None:
    one = {"id": "x", "operator": "a", "rule": "apart"}
    with pytest.raises(InvalidInput, match="is also the id of"):
        instance(sets=[one, {**one, "over": "slot"}])


def test_a_method_that_knows_no_slots_refuses_with_the_remedy() -> None:
    case = made({"tasks": ["a/0", "b/0"], "rule": "apart"}, {"operator": "a", "rule": "apart"})
    with pytest.raises(UnsuitableMethod, match="--ignore slot_sets"):
        check_suitable(get_method("imc-exact"), case)


@pytest.mark.parametrize("seed", range(40))
def test_sets_that_only_count_are_written_as_capacities(seed: int) -> None:
    """Where sets become capacities and sets on nodes, these say the same of every placement."""
    rng = random.Random(seed)
    bounded = rng.random() < 0.6
    nodes = [
        {"id": f"n{i}", **({"slots": rng.randint(0, 3)} if bounded and rng.random() < 0.8 else {})}
        for i in range(3)
    ]
    tasks = [f"t{i}" for i in range(5)]
    sets, free = [], rng.sample(tasks, 5)
    while free and rng.random() < 0.8:
        members, free = sorted(free[: (k := rng.randint(1, 4))]), free[k:]
        rule = rng.choice(["apart", "apart", "together", "spread"])
        more = {"apart": {"at_most": rng.randint(1, 2)}, "spread": {"at_least": 1}}.get(rule, {})
        one = {"id": f"s{len(sets)}", "tasks": members, "rule": rule, "over": "slot", **more}
        sets.append(one)
    limits = {"max_tasks_per_slot": rng.randint(1, 3)} if rng.random() < 0.3 else {}
    case = instance(nodes=nodes, operators=[], streams=[], sets=sets, limits=limits,
                    tasks=[{"id": t, "load": {"cpu": 1}} for t in tasks])  # fmt: skip
    made = lowered(case, frozenset({"capacity", "sets"}))
    if SLOT_SETS.present(made) is not None or "slots" in limits_set(made):
        assert any(one["rule"] == "together" for one in sets) and limits
        return
    for node in itertools.product(range(3), repeat=5):
        at = np.array(node, dtype=np.int32)
        assert (not broken(Placement(case, at))) == (not broken(Placement(made, at)))


def test_storm_milp_keeps_a_start_that_sets_allow() -> None:
    case = made({"tasks": ["a/0", "b/1"], "rule": "together"}, {"operator": "b", "rule": "apart"})
    result = solve(case, "storm-milp")
    assert result.termination == "optimal"
    assert result.plan is not None and result.plan.slots is not None
    slots, nodes = result.plan.slots, result.plan.assignment
    assert (nodes["a/0"], slots["a/0"]) == (nodes["b/1"], slots["b/1"])
    assert result.evaluation is not None and result.evaluation.feasible
    assert result.objective is not None
    assert result.objective.value == solve(case, "imc-brute").evaluation.internode_traffic  # type: ignore[union-attr]
