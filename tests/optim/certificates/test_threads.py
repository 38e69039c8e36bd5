"""Bounds by what one task can use: proved without a step, and part of a plan's rate."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from optim.certificates import check, write


def job(limit: float = 1.0, **more: Any) -> bytes:
    """Two tasks of 0.9 on nodes of 8, each at most `limit`; alone, the nodes carry 8 / 1.8."""
    agg = {"id": "Agg", "group": {"tasks": 2, "load": {"cpu": 1.8}}, "max_load": {"cpu": limit}}
    return json.dumps({
        "format": "streamplace.instance/1", "name": "threads",
        "nodes": [{"id": n, "capacity": {"cpu": 8}} for n in "nm"], "operators": [agg], **more,
    }).encode()  # fmt: skip


PLAN = {"Agg/0": "n", "Agg/1": "m"}


def certificate(text: bytes, objective: str, bound: Any, kind: str = "threads") -> str:
    document, sha256 = check.parse(text)
    told = {
        "format": check.FORMAT, "instance_sha256": sha256, "objective": objective, "sense": "max",
        "bound": bound, "assumes": [], "proof": {"kind": kind},
    }  # fmt: skip
    plan = {"assignment": PLAN} if objective != "feasible" else None
    return check.check(document, sha256, told, plan)


def test_a_bound_by_one_task_is_exact_and_needs_no_steps() -> None:
    written = write.certify(job(), "sustainable_rate", PLAN, value=1.1111)
    assert written.document["proof"] == {"kind": "threads"}
    assert written.bound == Fraction(10, 9)
    told = check.check(*check.parse(job()), written.document, {"assignment": PLAN})
    assert "a gap of 0" in told


@pytest.mark.parametrize(("bound", "holds"), [("10/9", True), ("2", True), ("11/10", False)])
def test_below_the_ceiling_nothing_is_proved(bound: str, holds: bool) -> None:
    if holds:
        assert certificate(job(), "sustainable_rate", bound)
    else:
        with pytest.raises(check.Refused, match="no task is full"):
            certificate(job(), "sustainable_rate", bound)


def test_infeasible_is_proved_by_a_task_above_its_ceiling() -> None:
    assert certificate(job(0.5), "feasible", 0)
    for limit in (0.9, 0.9 * (1 - 0.5e-9), 1):
        with pytest.raises(check.Refused):
            certificate(job(limit), "feasible", 0)
    assert write.certify(job(0.5), "feasible", None).document["proof"] == {"kind": "threads"}


def test_what_no_rate_drives_or_no_load_has_is_no_bound() -> None:
    more = {"resources": ["net", "cpu"]}
    with pytest.raises(check.Refused):
        certificate(job(**more), "sustainable_rate", "10/9")
    idle = [{"id": "Agg/0", "load": {"cpu": 0}, "max_load": {"cpu": 0}}]
    assert certificate(job(tasks=idle), "sustainable_rate", "10/9")
    own = [{"id": name, "max_load": {"cpu": 8}} for name in PLAN]
    with pytest.raises(check.Refused):
        certificate(job(tasks=own), "sustainable_rate", "10/9")


def test_dropped_it_proves_nothing() -> None:
    document, sha256 = check.parse(job())
    told = {
        "format": check.FORMAT, "instance_sha256": sha256, "objective": "sustainable_rate",
        "sense": "max", "bound": "10/9", "assumes": ["without max_load"],
        "proof": {"kind": "threads"},
    }  # fmt: skip
    with pytest.raises(check.Refused):
        check.check(document, sha256, told)
    free = write.certify(job(), "sustainable_rate", PLAN, ignored=["max_load"])
    assert free.bound >= Fraction(80, 9)


def test_the_rate_of_a_plan_counts_it() -> None:
    read = check.Instance(check.parse(job())[0])
    assert check.value_of(read, {"assignment": PLAN}, "sustainable_rate") == Fraction(10, 9)


@pytest.mark.parametrize(("node", "value"), [("n", 0), ("m", 4)])
def test_a_used_node_that_its_background_exceeds_carries_nothing(node: str, value: int) -> None:
    document = json.loads(job())
    document["nodes"] = [
        {"id": "n", "capacity": {"cpu": 1}, "background": {"cpu": 2}},
        {"id": "m", "capacity": {"cpu": 4}},
    ]
    document["operators"] = []
    document["tasks"] = [{"id": "idle"}, {"id": "busy", "load": {"cpu": 1}}]
    read = check.Instance(check.parse(json.dumps(document).encode())[0])
    plan = {"assignment": {"idle": node, "busy": "m"}}
    assert check.value_of(read, plan, "sustainable_rate") == value
