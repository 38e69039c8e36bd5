"""What the writer aims at where a certificate is of what is better than a bound."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from optim.certificates import check, tree, write


def pipeline(crossing: float = 0.0) -> dict[str, Any]:
    """Three tasks that two nodes carry at 10/7 of the rate."""
    loads = (("a", 3), ("b", 4), ("c", 5))
    return {
        "format": "streamplace.instance/1", "name": "rate",
        "tasks": [{"id": t, "load": {"cpu": load}} for t, load in loads],
        "traffic": [["a", "b", 1], ["b", "c", 1]],
        "nodes": [{"id": n, "capacity": {"cpu": 10}} for n in "nm"],
        "crossing_cost": {"cpu": {"sender": crossing, "receiver": crossing}},
    }  # fmt: skip


def test_a_claim_is_tried_where_the_value_cannot_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    text, plan = json.dumps(pipeline()).encode(), {"a": "n", "b": "n", "c": "n"}
    tried: list[Fraction] = []
    run = tree.Tree.run

    def running(self: tree.Tree) -> list[dict[str, Any]]:
        tried.append(self.model.bound)
        return run(self)

    monkeypatch.setattr(tree.Tree, "run", running)
    written = write.certify(text, "sustainable_rate", plan, claimed=1.5)
    assert float(written.bound) == pytest.approx(1.5, rel=1e-8) and written.bound >= Fraction(3, 2)
    assert check.check(*check.parse(text), written.document)
    assert tried[:2] == [Fraction(10, 12), written.bound]  # nothing between is asked for


@pytest.mark.parametrize(
    ("objective", "value", "claimed", "first"),
    [
        ("sustainable_rate", 2, 2.5, 2.5), ("sustainable_rate", 2, None, 2.000002),
        ("sustainable_rate", 2, float("inf"), 2.000002), ("load_distance", 2, 1.5, 1.5),
        ("load_distance", 2, 0.0, 0.0), ("load_distance", 2, 3.0, 1.999998),
    ],
)  # fmt: skip
def test_what_is_better_than_the_claim_is_not_tried(
    objective: str, value: int, claimed: float | None, first: float
) -> None:
    found = write._aims(objective, Fraction(value), claimed)
    assert found[0] == value
    assert [float(x) for x in found[1:2]] == pytest.approx([first], rel=1e-8)
    most = check.SENSES[objective] == "max"
    assert sorted(found, reverse=not most) == found and len(set(found)) == len(found)
    aside = float(found[1]) - first  # a claim is rounded to where it says less
    assert aside >= 0 if most else aside <= 0


def test_a_rate_under_crossing_costs_is_bounded_without_them() -> None:
    """The checker cannot tell such a rate: its value is the referee's word, the bound is not."""
    text, plan = json.dumps(pipeline(0.5)).encode(), {"a": "n", "b": "n", "c": "m"}
    with pytest.raises(check.Refused, match="can determine"):
        write.certify(text, "sustainable_rate", plan)
    written = write.certify(text, "sustainable_rate", plan, value=1.25)
    assert written.bound >= Fraction(10, 7)
    told = check.check(*check.parse(text), written.document, {"assignment": plan})
    assert told.startswith("sustainable_rate is at most") and "crossing costs" in told


def test_roots_of_many_columns_are_estimated_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no tree is run to its end, the estimate is what the linear programme proves."""
    names = [f"t{i}" for i in range(6)]
    plan = {t: "nm"[i % 2] for i, t in enumerate(names)}
    text = json.dumps({
        "format": "streamplace.instance/1", "name": "chain",
        "tasks": [{"id": t, "load": {"cpu": 3 + i}, "node": plan[t]} for i, t in enumerate(names)],
        "traffic": [[a, b, 7 + i] for i, (a, b) in enumerate(pairwise(names))],
        "nodes": [{"id": n, "capacity": {"cpu": 24}} for n in "nm"],
        "limits": {"max_migrations": 2},
    }).encode()  # fmt: skip

    def none(*_: Any) -> Any:
        raise tree.GaveUp

    whole = write.certify(text, "imc_gain", plan, nodes=0, patterns=False).bound
    monkeypatch.setattr(tree.Tree, "_root", none)
    nothing = write.certify(text, "imc_gain", plan, nodes=0, patterns=False).bound
    assert nothing == 45  # all traffic
    monkeypatch.setattr(write, "_LARGE", 0)
    about = write.certify(text, "imc_gain", plan, nodes=0, patterns=False)
    assert whole <= about.bound < whole + Fraction(1, 10**4)
    assert check.check(*check.parse(text), about.document)
