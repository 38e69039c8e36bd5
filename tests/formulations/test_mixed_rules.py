"""`storm-milp` and `eoa-milp` under every mix of rules, held against all placements there are."""

from __future__ import annotations

from typing import Any

import pytest

from formulations.task_allocation.common import HONOURS, LINEAR_ONLY
from optim import Instance, get_method, solve
from optim.methods.choose import check_suitable
from tests.fuzz import newer
from tests.fuzz.cases import Question
from tests.fuzz.generate import generate
from tests.fuzz.product import Setting, known_fields
from tests.fuzz.reading import Document
from tests.fuzz.tally import for_eoa
from tests.test_methods_by_rules import made

METHODS = ("storm-milp", "eoa-milp")
HONOURED = (HONOURS | LINEAR_ONLY) | {"max_tasks", "max_load_distance", "max_utilisation"}
SEEDS = range(40, 50)


@pytest.mark.parametrize("method", METHODS)
def test_the_rules_are_honoured(method: str) -> None:
    for rule in HONOURED:
        check_suitable(get_method(method), made(rule))


def mixed(seed: int, monkeypatch: pytest.MonkeyPatch) -> Document:
    """Return a random instance that uses the newer fields more often than not."""
    monkeypatch.setattr(newer, "SHARE", 0.5)
    monkeypatch.setattr("tests.fuzz.generate.PLACEMENTS", 2000)
    return generate(seed, known_fields() - {"crossing_cost"}, modelled=0.0)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("method", "keywords"),
    [("storm-milp", {}), ("eoa-milp", {}), ("eoa-milp", {"form": "products"})],
    ids=["storm", "eoa", "eoa-products"],
)
def test_mixed_rules(
    method: str, keywords: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = mixed(seed, monkeypatch)
    setting = Setting(for_eoa(document) if method == "eoa-milp" else document)
    assert list(Question("result", method, keywords).put(setting)) == []


@pytest.mark.parametrize("method", METHODS)
def test_the_rule_that_leaves_no_plan_is_told(method: str) -> None:
    """Two tasks of 3 fit no node of 5 together, and what they send no link carries."""
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "link",
            "resources": ["cpu"],
            "nodes": [{"id": n, "capacity": {"cpu": 5.0}} for n in "ab"],
            "tasks": [{"id": t, "load": {"cpu": 3.0}} for t in "uv"],
            "traffic": [["u", "v", 4.0]],
            "links": [{"id": "l", "nodes": ["a"], "capacity": 3.0}],
        }
    )
    result = solve(instance, method, explain=60.0)
    assert result.termination == "infeasible"
    told = [(r.rule, r.needed, r.available) for r in result.reasons]
    assert told == [("capacity", 11.0, 10.0), ("links", 4.0, 3.0)]
