"""``storm-offline``: executors beside those that feed them, every worker used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.storm.even import most_executors, nodes_to_use
from heuristics.storm.offline import fill_slots, linearised
from optim.errors import InvalidInput, UnsuitableMethod
from optim.format.instance import Instance
from optim.methods.solve import solve
from tests.heuristics.storm.clusters import chain


def slots_of(made: Instance, **options: Any) -> dict[str, tuple[str, int]]:
    plan = solve(made, "storm-offline", **options).plan
    assert plan is not None
    assert plan.slots is not None
    return {t: (plan.assignment[t], plan.slots[t]) for t in made.tasks.ids}


def together(made: Instance, **options: Any) -> list[set[str]]:
    """Return the executors of each slot, slots by their first executor."""
    found: dict[tuple[str, int], set[str]] = {}
    for task, place in slots_of(made, **options).items():
        found.setdefault(place, set()).add(task)
    return list(found.values())


def test_executors_go_to_the_slots_of_their_feeders() -> None:
    # 5 executors, 2 workers, at most 3 a slot; nothing is forced before the end
    found = together(chain([1, 2, 2]), beta=1.0)
    assert found == [{"c0/0", "c1/0", "c1/1"}, {"c2/0", "c2/1"}]


def test_beta_says_when_empty_slots_come_first() -> None:
    # from the second component on: c1/0 opens the other slot, c2 goes least filled first
    found = together(chain([1, 2, 2]), beta=0.5)
    assert found == [{"c0/0", "c1/1", "c2/1"}, {"c1/0", "c2/0"}]


def test_every_worker_is_used_whatever_beta_says() -> None:
    # at most two a slot: c2 opens the second slot and c3 would join it, were the third not empty
    found = together(chain([1, 1, 1, 1], workers=3), beta=1.0, alpha=1.0)
    assert found == [{"c0/0", "c1/0"}, {"c2/0"}, {"c3/0"}]


def test_a_join_goes_to_either_of_its_feeders() -> None:
    made = chain([1, 1, 1], workers=2).replace(
        streams=[{"from": "c0", "to": "c2", "rate": 1}, {"from": "c1", "to": "c2", "rate": 9}]
    )
    # c1 feeds nobody's slot yet and takes the least filled; c2 the first of its feeders' slots
    assert together(made) == [{"c0/0", "c2/0"}, {"c1/0"}]


def test_components_need_not_stand_in_order_in_the_file() -> None:
    assert linearised([0, 1, 2, 3], [(3, 2), (2, 1), (1, 0)]) == [3, 2, 1, 0]


@pytest.mark.parametrize(("spread", "nodes"), [(0.0, {"n0"}), (1.0, {"n0", "n1"})])
def test_node_spread(spread: float, nodes: set[str]) -> None:
    found = slots_of(chain([2, 2], workers=4), node_spread=spread)
    assert {node for node, _ in found.values()} == nodes
    assert len(set(found.values())) == 4


def test_topologies_never_share_a_slot() -> None:
    made = chain([2, 2]).replace(
        topologies=[{"id": "t", "workers": 2}, {"id": "u", "workers": 1}],
        operators=[
            {"id": "c0", "topology": "t", "group": {"tasks": 2}},
            {"id": "c1", "topology": "u", "group": {"tasks": 2}},
        ],
        streams=[],
    )
    result = solve(made, "storm-offline")
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.slots_used == 3


def test_most_tasks_in_a_slot_are_kept() -> None:
    made = chain([1, 2, 3], limits={"max_tasks_per_slot": 3})
    assert max(len(s) for s in together(made, alpha=1.0)) == 3
    tight = chain([1, 2, 3], limits={"max_tasks_per_slot": 2})
    result = solve(tight, "storm-offline", alpha=1.0)
    assert result.plan is None
    assert len(result.unplaced) == 2


def test_cycles_are_refused_by_name() -> None:
    made = chain([1, 1, 1]).replace(
        streams=[{"from": f"c{i}", "to": f"c{(i + 1) % 3}", "rate": 1} for i in range(3)]
    )
    with pytest.raises(UnsuitableMethod, match=r"c1 → c2 → c0 → c1 is one.*storm-online"):
        solve(made, "storm-offline")


def test_cycles_of_single_pairs_are_found_too() -> None:
    made = chain([1, 1]).replace(streams=[], traffic=[["c0/0", "c1/0", 1], ["c1/0", "c0/0", 1]])
    with pytest.raises(UnsuitableMethod, match="cycle"):
        solve(made, "storm-offline")


@pytest.mark.parametrize("method", ["storm-even", "storm-offline", "storm-online", "storm-milp"])
def test_a_component_in_no_topology_is_named(method: str) -> None:
    made = chain([1, 1]).replace(operators=[{"id": "c0", "topology": "t"}, {"id": "c1"}])
    made = made.replace(tasks=[{"id": "c0/0", "operator": "c0"}, {"id": "c1/0", "operator": "c1"}])
    with pytest.raises(UnsuitableMethod) as caught:
        solve(made, method)
    problem = caught.value.problems[0]
    assert problem.path == "operators[1].topology"
    assert "c1" in problem.reason
    assert "one of t" in str(problem.remedy)


@pytest.mark.parametrize("method", ["storm-even", "storm-offline", "storm-online"])
def test_no_free_slots(method: str) -> None:
    made = chain([2, 2]).replace(nodes=[{"id": "n0", "slots": 0}, {"id": "n1", "slots": 0}])
    result = solve(made, method)
    assert result.exit_code == 4
    assert result.unplaced == ("c0/0", "c0/1", "c1/0", "c1/1")
    assert any("t: 0 free slots for 2 workers" in note for note in result.notes)


def test_bounds_on_options() -> None:
    for option in ("alpha", "beta", "node_spread"):
        with pytest.raises(InvalidInput, match="out of range"):
            solve(chain([1]), "storm-offline", **{option: 1.5})


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=5),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_slots_are_all_used_and_never_too_full(
    sizes: list[int], workers: int, alpha: float, beta: float
) -> None:
    count = sum(sizes)
    workers = min(workers, count)
    most = most_executors(count, workers, alpha)
    ends = np.cumsum(sizes)
    components = [np.arange(e - k, e) for e, k in zip(ends, sizes, strict=True)]
    feeders = [[i - 1] if i else [] for i in range(len(sizes))]
    slot = fill_slots(
        components, feeders, np.ones((count, 1)), workers, most, np.full(1, np.inf), beta
    )
    held = np.bincount(slot, minlength=workers)
    assert (held >= 1).all()
    assert held.max() <= most


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 12), st.floats(0, 1))
def test_nodes_chosen_have_the_slots(free: list[int], workers: int, spread: float) -> None:
    slots = np.array(free)
    count = nodes_to_use(slots, workers, spread)
    most_free = np.sort(slots)[::-1][:count]
    assert most_free.sum() >= min(workers, slots.sum())
    assert count <= (slots > 0).sum()
