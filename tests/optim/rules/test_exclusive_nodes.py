"""Nodes for one topology alone: what breaks the rule, in words, and what proves it cannot be."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from formulations.conflicts.excess import least_excess
from optim import InvalidInput, solve
from optim.format.instance import Instance
from optim.rules import (
    broken,
    excess_of,
    hopeless,
    limits_set,
    loosened,
    node_counts,
    without_limits,
    worsened,
)
from optim.rules.placement import Placement
from tests.optim.make import document, instance

NODES = [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(1, 4)]


def made(most: int = 1, **parts: Any) -> Instance:
    """Tasks a/0 and a/1 (2 each) of topology t; b/0 and b/1 (4 each) of none."""
    a, b = document()["operators"]
    operators = [{**a, "topology": "t"}, b]
    topologies = [{"id": "t", "exclusive_nodes": most}]
    told = {"nodes": NODES, "operators": operators, "topologies": topologies}
    return instance(**{**told, **parts})


def told(case: Instance, *node: int) -> list[str]:
    return [str(v) for v in broken(Placement(case, np.array(node, dtype=np.int32)))]


def test_what_is_broken_is_named_with_its_nodes() -> None:
    case = made()
    assert told(case, 0, 0, 1, 2) == []
    assert told(case, 0, 1, 2, 2) == ["exclusive_nodes at t: nodes (on n1, n2): needs 2, has 1 (1 off)"]  # fmt: skip  # noqa: E501
    shared = "exclusive_nodes at t: nodes shared with other tasks (on n1): needs 1, has 0 (1 off)"
    assert told(case, 0, 0, 0, 1) == [shared]
    assert told(made(2), 0, 1, 2, 2) == []
    assert told(without_limits(case, "exclusive_nodes"), 0, 1, 0, 1) == []


def test_the_words_the_file_and_the_form() -> None:
    case = made(2)
    assert limits_set(case)["exclusive_nodes"] == "topologies[].exclusive_nodes (of t)"
    assert Instance.from_dict(case.to_dict()).to_json() == case.to_json()
    assert [(c.name, c.limit, len(c.groups)) for c in node_counts(case)] == [
        ("t: nodes", 2, 1),
        ("t: nodes shared with other tasks", 0, 2),
    ]


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_bad_numbers_are_refused(value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        made(value)
    [problem] = error.value.problems
    assert problem.path == "topologies[0].exclusive_nodes"


def test_quick_proofs() -> None:
    small = [{"id": f"n{i}", "capacity": {"cpu": 3}} for i in range(5)]
    reason = hopeless(made(nodes=small))[-1]
    assert str(reason) == "exclusive_nodes at t: 1 nodes.cpu: needs 4, has 3 (1 off)"
    reason = hopeless(made(nodes=NODES[:1]))[-1]
    assert str(reason) == "exclusive_nodes at nodes: needs 2, has 1 (1 off)"


def test_a_placement_that_breaks_it_may_stay_as_it_is_and_no_worse() -> None:
    tasks = [{"id": t, "node": n} for t, n in
             {"a/0": "n1", "a/1": "n2", "b/0": "n1", "b/1": "n2"}.items()]  # fmt: skip
    case = made(tasks=tasks)
    now = np.array([0, 1, 0, 1], dtype=np.int32)
    loose = loosened(case, now)
    assert [c.limit for c in node_counts(loose)] == [2, 2]
    better = np.array([0, 1, 0, 2], dtype=np.int32)
    of = [broken(Placement(case, node)) for node in (now, better)]
    assert not worsened(*of)
    assert worsened(*of[::-1])


@pytest.mark.parametrize("method", ["imc-brute", "imc-milp", "imc-search", None])
def test_a_broken_start_is_mended_as_far_as_the_budget_goes(method: str | None) -> None:
    tasks = [{"id": t, "node": n} for t, n in
             {"a/0": "n1", "a/1": "n2", "b/0": "n1", "b/1": "n2"}.items()]  # fmt: skip
    result = solve(made(tasks=tasks, limits={"max_migrations": 1}), method, time_limit=20)
    assert result.mending is not None and result.plan is not None
    assert result.mending.excess < result.mending.excess_now
    whole = solve(made(tasks=tasks, limits={"max_migrations": 3}), method, time_limit=20)
    assert whole.feasible


@pytest.mark.parametrize("limits", [{}, {"max_nodes_used": 1}])
@pytest.mark.parametrize("capacity", [5, 10])
def test_the_bound_counts_nodes_as_the_referee_does(
    limits: dict[str, int], capacity: float
) -> None:
    """One move mends the capacity, and one of the counts of nodes."""
    at = {"a/0": "n1", "a/1": "n2", "b/0": "n1", "b/1": "n2"}
    nodes = [{**NODES[0], "capacity": {"cpu": capacity}}, *NODES[1:]]
    tasks = [{"id": t, "node": n} for t, n in at.items()]
    case = made(nodes=nodes, tasks=tasks, limits={"max_migrations": 1, **limits})
    now, weight = case.tasks.node, np.array([1.0 / float(case.tasks.load.sum())])
    before = broken(Placement(case, now))

    def judged(node: Any) -> tuple[float, float]:
        found = broken(Placement(case, node))
        excess = np.inf if worsened(before, found) else excess_of(case, found)
        return excess, excess

    _, bound = least_excess(case, loosened(case, now), weight, None, judged)
    every = (np.array(node, dtype=np.int32) for node in itertools.product(range(3), repeat=4))
    least, _ = min(map(judged, every))
    assert 0 < bound <= least + 1e-9
    assert bound == pytest.approx(least)
