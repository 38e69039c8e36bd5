"""Scaling decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.policies.parallelism import (
    NoScaling,
    ScalingChoice,
    ScalingDecision,
    ScalingView,
    UtilisationThreshold,
)
from streamplace.policies.registry import read_policy


def view(load: list[float], leaving: tuple[int, ...] = (), **given: Any) -> ScalingView:
    count = len(load)
    flags = np.array([i in leaving for i in range(count)])
    fields: dict[str, Any] = {
        "period": 9,
        "since_change": 99,
        "load": np.array(load),
        "capacity": np.full(count, 100.0),
        "leaving": flags,
        "may_leave": np.ones(count, dtype=bool),
        "load_distance": 1.0,
        "template_capacity": 100.0,
    }
    return ScalingView(**{**fields, **given})


RULE = UtilisationThreshold(upper=0.8, lower=0.5, target=0.65)


def test_between_the_thresholds_nothing_changes() -> None:
    assert not RULE(view([50, 80]))
    assert not RULE(view([80, 80]))
    assert not NoScaling()(view([500, 500]))


def test_above_the_upper_one_nodes_are_added_to_reach_the_target() -> None:
    # 270 of 300 is 0.9; 270 / 0.65 = 415.4 needs two more nodes
    assert RULE(view([90, 90, 90])) == ScalingDecision(add=2)
    assert UtilisationThreshold(max_nodes=4)(view([90, 90, 90])) == ScalingDecision(add=1)


def test_marked_nodes_are_recalled_before_others_are_added() -> None:
    # their load counts, their capacity does not
    assert RULE(view([90, 90, 90, 10], leaving=(3,))) == ScalingDecision(add=1, recall=(3,))


def test_below_the_lower_one_the_least_loaded_are_marked() -> None:
    # 120 of 400: two nodes at 0.6 are within the target, one is not
    assert RULE(view([40, 20, 25, 35])) == ScalingDecision(mark=(1, 2))
    assert UtilisationThreshold(min_nodes=3)(view([40, 20, 25, 35])) == ScalingDecision(mark=(1,))


def test_what_keeps_nodes_from_being_marked() -> None:
    low = [40.0, 20, 25, 35]
    bound = np.array([True, False, True, True])
    assert RULE(view(low, may_leave=bound)) == ScalingDecision(mark=(2, 3))
    assert not RULE(view(low, since_change=2))
    assert RULE(view(low, since_change=3))
    careful = UtilisationThreshold(max_load_distance=5.0)
    assert careful(view(low))
    assert not careful(view(low, load_distance=5.1))
    assert not RULE(view([10.0]))


def test_capacity_is_needed_or_given() -> None:
    boundless = view([90, 90], capacity=np.full(2, math.inf), template_capacity=math.inf)
    with pytest.raises(InvalidInput, match=r"nodes\[\]\.capacity"):
        RULE(boundless)
    assert UtilisationThreshold(full_load=100.0)(boundless).add == 1


def test_rules_by_name() -> None:
    assert ScalingChoice().make() == NoScaling()
    made = ScalingChoice("utilisation", {"upper": "0.9", "min_nodes": "3"}).make()
    assert made == UtilisationThreshold(upper=0.9, min_nodes=3)
    own = ScalingChoice("streamplace.policies.parallelism:UtilisationThreshold", {"upper": 0.7})
    assert own.make() == UtilisationThreshold(upper=0.7)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("none", {"upper": "1"}, "is no parameter of none"),
        ("utilisation", {"uper": "1"}, "is no parameter of utilisation.*did you mean upper"),
        ("utilisation", {"upper": "x"}, "is no number"),
        (
            "utilisation",
            {"target": "0.4"},
            r"must lie above lower .* \(give a target from 0.5 to 0.8",
        ),
        ("magic", {}, "magic. cannot be loaded.*none, utilisation, or module:factory"),
        ("streamplace.policies.parallelism:Nothing", {}, "cannot be loaded: .* has no attribute"),
        ("streamplace.policies.parallelism:NoScaling", {"a": "1"}, "unexpected keyword"),
    ],
)
def test_wrong_rules_are_refused(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ScalingChoice(name, parameters).make()


@pytest.mark.parametrize(
    ("memory", "node", "marked"),
    [
        (40.0, {}, 0),  # each node holds two
        (20.0, {}, 1),  # five of six on a node, all on two
        (1.0, {}, 2),
        (1.0, {"max_tasks": 2}, 0),
        (1.0, {"max_tasks": 3}, 1),
    ],
)
@pytest.mark.parametrize("limits", [{}, {"max_migrations": 1}])
def test_nodes_are_marked_only_if_the_others_can_hold_all_tasks(
    memory: float, node: dict[str, Any], marked: int, limits: dict[str, Any]
) -> None:
    """The utilisation of the first resource is 10 %: by that alone two of three nodes leave."""
    made = Instance.from_dict({
        "format": "streamplace.instance/1", "name": "memory", "resources": ["cpu", "memory"],
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 100, "memory": 100}, **node}
                  for i in range(3)],
        "tasks": [{"id": f"t{i}", "load": {"cpu": 5, "memory": memory}, "node": f"n{i % 3}"}
                  for i in range(6)],
        "limits": limits,
    })  # fmt: skip
    found = read_policy("algorithm-1:method=balance-search").decide({}, made, 0.0)
    assert len(found.mark) == marked


def test_nodes_without_capacity_are_no_template() -> None:
    with pytest.raises(InvalidInput, match="of which none can be added"):
        RULE(view([90, 90], template_capacity=0.0))
