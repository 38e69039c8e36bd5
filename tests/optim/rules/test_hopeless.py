"""Quick proofs of infeasibility never contradict the referee, however large the figures are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim.format.instance import Instance
from optim.referee import evaluate_indices
from optim.rules import hopeless
from tests.optim.make import instance


def made(nodes: list[dict[str, Any]], *loads: float) -> Instance:
    tasks = [{"id": f"t{i}", "load": {"cpu": load}} for i, load in enumerate(loads)]
    return instance(nodes=nodes, tasks=tasks, operators=[], streams=[])


def node(name: str, capacity: float, **more: float) -> dict[str, Any]:
    return {"id": name, "capacity": {"cpu": capacity}} | {k: {"cpu": v} for k, v in more.items()}


BACKGROUND = [node("a", 0.1e12 + 0.2e12, background=0.30000000000000004e12), node("b", 1e12)]
LITTLE_LEFT = [node("a", 1e9, background=999_999_000.0)]
LEAST = [node("a", 2e9, background=1e9, min_load=1_000_000_000.6)]


@pytest.mark.parametrize(
    ("nodes", "load", "place"),
    [(BACKGROUND, 1e11, 1), (LITTLE_LEFT, 1000.3, 0), (LEAST, 0.1, 0)],
    ids=["background", "little left", "least load"],
)
def test_the_tolerance_is_that_of_the_whole_bound(
    nodes: list[dict[str, Any]], load: float, place: int
) -> None:
    case = made(nodes, load)
    assert evaluate_indices(case, np.array([place], dtype=np.int32)).feasible
    assert hopeless(case) == []


@pytest.mark.parametrize(
    ("nodes", "load", "rule"),
    [
        ([node("a", 3e11, background=3e11 + 400), node("b", 1e12)], 1.0, "capacity"),
        ([node("a", 1e9, background=999_999_000.0)], 1001.5, "capacity"),
        ([node("a", 2e9, background=1e9, min_load=1_000_000_003.0)], 0.1, "min_load"),
    ],
    ids=["background", "little left", "least load"],
)
def test_what_is_beyond_the_tolerance_is_proven(
    nodes: list[dict[str, Any]], load: float, rule: str
) -> None:
    assert {reason.rule for reason in hopeless(made(nodes, load))} == {rule}


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_never_said_of_what_the_referee_accepts(count: int, sizes: list[int], seed: int) -> None:
    """Capacities and least loads sit at the very edge of what a hidden placement needs."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 11)
    loads = np.array(sizes) / 10 * scale
    hidden = rng.integers(0, count, len(loads)).astype(np.int32)
    background = rng.integers(0, 3, count) * scale * 1000 / 3
    sums = background + np.bincount(hidden, loads, count)
    off = rng.uniform(0, 1, count) * (1e-9 * sums + 1e-6)
    nodes = [
        node(f"n{i}", max(0.0, most - slack), background=filled)
        if rng.random() < 0.5
        else node(f"n{i}", 2 * most + 1, background=filled, min_load=most + slack)
        for i, (most, slack, filled) in enumerate(
            zip(sums.tolist(), off.tolist(), background.tolist(), strict=True)
        )
    ]
    case = made(nodes, *loads.tolist())
    if evaluate_indices(case, hidden).feasible:
        assert hopeless(case) == []
