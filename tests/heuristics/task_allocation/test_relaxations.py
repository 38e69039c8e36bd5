"""The paper's section 5: granularity, capacity normalisation, even groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heuristics.task_allocation.groups import (
    common_granularity,
    even_kinds,
    grouped_job,
    normalised_room,
    recut,
)
from heuristics.task_allocation.top_down import place_groups
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.methods.solve import solve
from optim.referee import evaluate_indices
from tests.heuristics.task_allocation.test_top_down import job


def test_granularity_makes_tight_jobs_fit() -> None:
    made = job([(2, 90), (2, 60)], [(1, 2, 5)], [50, 50, 50])
    assert solve(made, "top-down").plan is None
    assert common_granularity(made) == 10
    fine = recut(made)
    assert fine.operators.num_tasks.tolist() == [9, 6]
    assert fine.total_load.tolist() == [150]
    assert fine.total_traffic == pytest.approx(5)
    result = solve(fine, "top-down")
    assert result.feasible
    assert result.evaluation is not None
    assert result.evaluation.max_utilisation == pytest.approx(1)


def test_granularity_of_fractions() -> None:
    assert common_granularity(job([(2, 0.9), (1, 0.6)], [(1, 2, 5)], [1.5])) == pytest.approx(0.3)


def test_what_cannot_be_recut_is_told() -> None:
    listed = job([(2, 4), (2, 2)], [(1, 2, 6)], [9], tasks=[{"id": "v1/1", "load": {"cpu": 5}}])
    with pytest.raises(InvalidInput, match="one by one"):
        recut(listed)
    with pytest.raises(InvalidInput, match="more than 3"):
        recut(job([(1, 4), (1, 2)], [(1, 2, 6)], [3]), most_tasks=3)


def test_normalised_room() -> None:
    room = np.array([[100.0, np.inf], [250.0, 8.0], [400.0, 4.0], [0.0, 9.0]])
    assert normalised_room(room).tolist() == [[100, np.inf], [200, 8], [400, 4], [0, 8]]


def test_normalise_is_an_option() -> None:
    made = job([(5, 5), (5, 5)], [(1, 2, 5)], [4, 7.5])
    plain = place_groups(grouped_job(made))
    normal = place_groups(grouped_job(made, normalise=True))
    assert np.bincount(plain[plain >= 0]).tolist() == [4, 6]
    assert np.bincount(normal[normal >= 0]).tolist() == [4, 4]
    assert len(solve(made, "top-down", normalise=True).unplaced) == 2


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=12), st.sampled_from([0.0, 0.1, 1.0]))
def test_even_kinds_stay_within_the_margin(values: list[float], margin: float) -> None:
    load = np.array(values)[:, None]
    kind, largest = even_kinds(load, margin)
    for k in range(len(largest)):
        mine = load[kind == k, 0]
        assert np.abs(mine - mine[0]).max() <= margin * mine[0] + 1e-9
        assert largest[k, 0] == mine.max()
    assert kind[0] == 0


def test_margin_joins_nearly_equal_tasks_and_stays_safe() -> None:
    loads = [10, 10.4, 9.8, 20, 20.5, 1]
    made = job(
        [(6, 6), (2, 2)],
        [(1, 2, 5)],
        [42, 42],
        tasks=[{"id": f"v1/{i}", "load": {"cpu": v}} for i, v in enumerate(loads)],
    )
    assert grouped_job(made).num_groups == 7
    even = grouped_job(made, margin=0.05)
    assert even.size.tolist() == [3, 2, 1, 2]
    assert even.load[:, 0].tolist() == [10.4, 20.5, 1, 1]
    result = solve(made, "top-down", margin=0.05)
    assert result.plan is not None
    assert evaluate_indices(made, result.plan.node_indices(made)).feasible


def test_costs_below_a_millionth_are_refused() -> None:
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "tiny",
            "nodes": [{"id": "n"}],
            "operators": [{"id": "o", "group": {"tasks": 2, "load": {"cpu": 3e-7}}}],
        }
    )
    with pytest.raises(InvalidInput, match="smaller unit"):
        recut(made)
