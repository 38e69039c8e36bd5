"""``storm_reference`` and ``storm_cluster``: shapes, shares, slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.generators import generate
from optim.errors import InvalidInput


def test_reference_is_a_chain() -> None:
    made = generate("storm_reference", stages=3, replication="2,3,4,1", topologies=2, workers=2)
    assert made.operators.num_tasks.tolist() == [2, 3, 4, 1] * 2
    assert len(made.streams) == 6
    assert made.total_traffic == pytest.approx(6000.0, rel=1e-6)
    assert made.topologies.workers.tolist() == [2, 2]


def test_shuffle_is_even_and_fields_is_not() -> None:
    even = generate("storm_reference", grouping="shuffle")
    assert np.ptp(even.pairs.rate) < 1e-6
    assert np.ptp(even.tasks.load[:, 0]) < 1e-6
    keys = generate("storm_reference", grouping="fields")
    bolt = keys.tasks_of(keys.operators.index["t0-bolt1"])
    share = np.sort(keys.tasks.load[bolt, 0] / keys.tasks.load[bolt, 0].sum())[::-1]
    zipf = np.arange(1, 5) ** -0.8
    assert share == pytest.approx(zipf / zipf.sum(), rel=1e-5)


def test_load_follows_rate_and_capacity_follows_load() -> None:
    made = generate("storm_reference", cost=2.0, selectivity=0.5, stages=2, utilisation=50)
    total = 2.0 * (1000 + 1000 + 500)
    assert made.total_load[0] == pytest.approx(total, rel=1e-6)
    assert made.nodes.capacity.sum() == pytest.approx(2 * total, rel=1e-6)


def test_cluster_has_what_all_families_need() -> None:
    made = generate("storm_cluster", 2, topologies=3, executors=10, components=4, workers=2)
    assert made.num_tasks == 30
    assert made.has_traffic
    assert (made.nodes.slots > 0).all()
    assert np.isfinite(made.nodes.capacity).all()
    largest = made.tasks.load[:, 0].max()
    assert made.nodes.capacity.min() >= largest - 1e-6


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"workers": 30}, "slots"),
        ({"replication": "1,2"}, "replication"),
        ({"grouping": "none"}, "grouping"),
        ({"utilisation": 0}, "utilisation"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        generate("storm_reference", **{"replication": "9", **given})
