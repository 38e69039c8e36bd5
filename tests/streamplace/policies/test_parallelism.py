"""``scale`` and ``ds2``: policies that choose numbers of tasks."""

from __future__ import annotations

from typing import Any

import pytest

from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.referee import evaluate
from streamplace.policies.guard import Guarded
from streamplace.policies.policy import Decision, decide
from streamplace.policies.registry import read_policy


def job(load: float, where: str, **task: Any) -> Instance:
    """Return one operator; a digit of `where` is the node of a task, `load` that of all."""
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "job",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(2)],
        "operators": [{"id": "a", "group": {"tasks": len(where), "load": {"cpu": load}, **task}}],
        "tasks": [{"id": f"a/{i}", "node": f"n{n}"} for i, n in enumerate(where)],
    })  # fmt: skip


def asked(text: str, instance: Instance, state: dict[str, Any] | None = None) -> Decision:
    return decide(read_policy(text), state or {}, instance, 0.0)


def test_scale_spreads_tasks_where_the_rate_is_not_carried() -> None:
    # 12 do not fit a node of 10: as many tasks on both nodes do
    made = job(12.0, "00")
    found = asked("scale:headroom=1.5", made)
    assert found.kind(made) == "move" and found.plan is not None
    assert not found.add and not found.mark
    assert found.plan.parallelism == {"a": 2}
    checked = evaluate(made, found.plan)
    assert checked.feasible and checked.sustainable_rate == pytest.approx(10 / 6)


def test_scale_empties_what_is_not_needed_and_then_releases_it() -> None:
    found = asked("scale", job(2.0, "01"))
    assert found.parallelism == {"a": 1} and found.mark == ("n1",)
    assert found.state["marked"] == ["n1"]
    after = asked("scale:most=9", job(2.0, "0"), found.state)
    assert after.release == ("n1",) and after.plan is None and after.state["marked"] == []
    waiting = asked("scale:most=9", job(2.0, "01"), found.state)
    assert not waiting.release and waiting.state["marked"] == ["n1"]


@pytest.mark.parametrize("load", [10.0, 7.0, 5.0])
def test_scale_leaves_alone_what_is_between(load: float) -> None:
    found = asked("scale", job(load, "0"))
    assert found.plan is None and not found.scales
    assert found.reason == f"carries {10 / load:.4g} × the input"


def test_scale_adds_nodes() -> None:
    found = asked("scale:headroom=1.2", job(24.0, "0011"))
    assert len(found.add) == 1 and found.add[0].like in ("n0", "n1")
    assert found.plan is not None and len({*found.plan.assignment.values()}) == 3


def test_ds2_counts_what_threads_need() -> None:
    # 12 of load at 1.5 × the input, 5 a thread
    found = asked("ds2:headroom=1.5", job(8.0, "01", max_load={"cpu": 5.0}))
    assert found.parallelism == {"a": 3} and found.reason == "a 2 → 3"
    assert not found.add and not found.mark
    same = asked("ds2:headroom=1.2", job(8.0, "01", max_load={"cpu": 5.0}))
    assert same.plan is None and not same.scales


def test_ds2_refuses_what_does_not_say_how_much_a_task_can_use() -> None:
    reason = r"operators\[\].max_load is not given for a: .* \(give it, such as {'cpu': 1}"
    with pytest.raises(InvalidInput, match=reason):
        read_policy("ds2").check(job(8.0, "01"))  # it gave every operator one task
    read_policy("ds2").check(job(0.0, "01"))
    read_policy("ds2").check(job(8.0, "01", max_load={"cpu": 5.0}))


def test_ds2_keeps_what_has_no_load() -> None:
    found = asked("ds2", job(0.0, "01", max_load={"cpu": 5.0}))
    assert found.reason == "nothing grows with the input"


def test_what_is_not_carried_out_is_decided_again() -> None:
    policy, made = Guarded(read_policy("scale"), confirm=2), job(2.0, "01")
    first = decide(policy, {}, made, 0.0)
    assert first.plan is None and "1 of 2 looks" in first.reason
    second = decide(policy, first.state, made, 1.0)
    assert second.parallelism == {"a": 1}


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("scale:headroom=3", {}, "is not between least and most"),
        ("scale:headroom=0", {}, "headroom"),
        ("scale:haedroom=1", {}, "haedroom"),
        ("scale", {"marked": "n1"}, "is no list of nodes"),
    ],
)
def test_what_is_wrong_is_named(text: str, state: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        asked(text, job(2.0, "01"), state)
