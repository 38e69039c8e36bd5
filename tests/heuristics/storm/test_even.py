"""``storm-even``: executors round robin over workers, workers evenly over nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heuristics.storm.even import take_slots
from optim.format.instance import Instance
from optim.methods.solve import solve


def cluster(slots: list[int | None], **parts: Any) -> Instance:
    nodes = [{"id": f"n{i}", **({} if k is None else {"slots": k})} for i, k in enumerate(slots)]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "cluster",
            "nodes": nodes,
            "operators": [
                {"id": "a", "group": {"tasks": 2}},
                {"id": "b", "group": {"tasks": 3}},
            ],
            **parts,
        }
    )


def topologies(*workers: int | None, **tasks: int) -> dict[str, Any]:
    """Topologies t0, t1, …; one operator each, named by keyword in that order."""
    return {
        "topologies": [
            {"id": f"t{i}", **({} if w is None else {"workers": w})} for i, w in enumerate(workers)
        ],
        "operators": [
            {"id": name, "topology": f"t{i}", "group": {"tasks": k}}
            for i, (name, k) in enumerate(tasks.items())
        ],
    }


def places(instance: Instance) -> list[tuple[str, int]]:
    """(node, slot) of each task in task order."""
    plan = solve(instance, "storm-even").plan
    assert plan is not None
    assert plan.slots is not None
    return [(plan.assignment[t], plan.slots[t]) for t in instance.tasks.ids]


def test_without_topologies_or_slots_one_worker_a_node() -> None:
    made = cluster([None, None, None])
    assert places(made) == [("n0", 0), ("n1", 0), ("n2", 0), ("n0", 0), ("n1", 0)]


def test_executors_go_by_component() -> None:
    listed = [("b", 0), ("a", 0), ("", 0), ("b", 1), ("a", 1)]
    made = cluster(
        [None, None],
        operators=[{"id": "a"}, {"id": "b"}],
        tasks=[{"id": f"{o}{i}", **({"operator": o} if o else {})} for o, i in listed],
    )
    by_id = dict(zip(made.tasks.ids, places(made), strict=True))
    turn = [by_id[t][0] for t in ("a0", "a1", "b0", "b1", "0")]
    assert turn == ["n0", "n1", "n0", "n1", "n0"]


def test_workers_spread_over_nodes_by_free_slots() -> None:
    made = cluster([1, 3, 2], **topologies(4, a=4))
    assert places(made) == [("n1", 0), ("n2", 0), ("n0", 0), ("n1", 1)]


def test_no_more_workers_than_executors() -> None:
    made = cluster([4, 4], **topologies(9, a=3))
    assert places(made) == [("n0", 0), ("n1", 0), ("n0", 1)]


def test_topologies_never_share_a_slot() -> None:
    made = cluster([2, 2], **topologies(2, 2, a=3, b=2))
    assert places(made) == [("n0", 0), ("n1", 0), ("n0", 0), ("n0", 1), ("n1", 1)]
    result = solve(made, "storm-even")
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.slots_used == 4


def test_too_few_slots_leave_a_topology_out() -> None:
    made = cluster([1], **topologies(1, 1, a=2, b=2))
    result = solve(made, "storm-even")
    assert result.plan is None
    assert result.unplaced == ("b/0", "b/1")
    assert any("t1: 0 free slots for 1 workers" in note for note in result.notes)


def test_leaving_nodes_get_nothing() -> None:
    made = cluster([2, 2], **topologies(2, a=2)).replace(
        nodes=[{"id": "n0", "slots": 2, "leaving": True}, {"id": "n1", "slots": 2}]
    )
    assert places(made) == [("n1", 0), ("n1", 1)]


def test_overload_is_kept_and_told() -> None:
    made = cluster([1, 1]).replace(
        nodes=[{"id": "n0", "capacity": {"cpu": 1}}, {"id": "n1"}],
        operators=[{"id": "a", "group": {"tasks": 4, "load": {"cpu": 4}}}],
    )
    result = solve(made, "storm-even")
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == 4


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 12))
def test_slots_are_taken_evenly(free: list[int], wanted: int) -> None:
    left, used = np.array(free), np.zeros(len(free), dtype=np.int64)
    nodes, numbers = take_slots(left, used, wanted, np.arange(len(left)))
    assert len(nodes) == min(wanted, sum(free))
    assert len(set(zip(nodes.tolist(), numbers.tolist(), strict=True))) == len(nodes)
    taken = np.bincount(nodes, minlength=len(free))
    assert (left == np.array(free) - taken).all()
    for a in range(len(free)):  # nobody with a free slot left lags two behind
        assert taken[a] == free[a] or taken[a] >= taken.max() - 1
