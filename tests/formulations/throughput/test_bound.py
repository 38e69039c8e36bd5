"""The bound by counting: no placement is below, and what has to cross raises it."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.throughput.problem import least_load, load_of
from optim import Instance
from tests.formulations.throughput.small import best_of, small


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_no_placement_is_below(seed: int) -> None:
    instance = small(seed)
    least = least_load(instance)
    rng = np.random.default_rng(seed)
    for _ in range(60):
        node = rng.integers(0, instance.num_nodes, instance.num_tasks).astype(np.int32)
        assert load_of(instance, node) >= least * (1 - 1e-6)


def stream(**more: object) -> Instance:
    """Two operators of four tasks, load 8 each, on four nodes of 8; 16 flow between them."""
    links = [{"id": f"l{i}", "nodes": [f"n{i}"], "capacity": 2, "direction": "out"}
             for i in range(4)]  # fmt: skip
    return Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "stream",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 8}} for i in range(4)],
        "operators": [{"id": o, "group": {"tasks": 4, "load": {"cpu": 8}}} for o in "ab"],
        "streams": [{"from": "a", "to": "b", "rate": 16}],
        "links": links,
        **more,
    })  # fmt: skip


def test_what_has_to_cross() -> None:
    """By hand: 16 (1 − 8 θ / 16) ≤ 8 θ, so θ ≥ 1; the load alone says 1/2."""
    instance = stream()
    assert least_load(instance) == pytest.approx(1.0)
    costs = stream(links=[], crossing_cost={"cpu": {"out": 0.5, "in": 0.5}})
    assert least_load(costs) == pytest.approx(0.8)  # 16 + 16 (1 − θ / 2) ≤ 32 θ
    assert least_load(stream(), lost=0) > least_load(stream())


@pytest.mark.parametrize("seed", [6, 20, 34])
def test_against_all_placements(seed: int) -> None:
    best = best_of(small(seed))
    assert best is None or best[0] * least_load(small(seed)) <= 1 + 1e-6
