"""A start that breaks limits is mended round by round, by every policy that plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from experiments.replay.run import ReplayOptions, run_replay
from optim import InvalidInput
from streamplace import InstanceBuilder
from streamplace.policies.parallelism import ScalingChoice
from streamplace.policies.registry import read_policy

if TYPE_CHECKING:
    from pathlib import Path

    from optim import Instance

FLUX = (92.67, 44.67, 3.33, 3.33, 3.33)


def periods(capacity: float = 100) -> list[Instance]:
    """Five equal periods: nine key groups of 24 on one node of three, two moves a period."""
    builder = InstanceBuilder("crowded")
    for node in ("n0", "n1", "n2"):
        builder = builder.node(node, capacity=capacity)
    for i in range(9):
        builder = builder.task(f"k{i}", load=24, node="n0").traffic(f"k{i}", "a", 1.0)
    builder = builder.task("a", load=5, node="n1").task("b", load=5, node="n2")
    made = builder.limits(max_migrations=2).build()
    return [replace(made, name=f"p{i}") for i in range(5)]


def replayed(folder: Path, policy: str, **more: Any) -> list[dict[str, Any]]:
    made = more.pop("made", None) or periods()
    options = ReplayOptions(policies=(policy,), **more)
    return list(run_replay(made, folder, options).rows)


@pytest.mark.parametrize(
    "policy",
    [
        "balance-milp",
        "balance-search",
        "albic",
        "scale-in-first",
        "joint-search:max_load_distance=10",
        "joint-milp:max_load_distance=10",
    ],
)
def test_as_good_as_flux(tmp_path: Path, policy: str) -> None:
    rows = replayed(tmp_path, policy)
    for row, flux in zip(rows, FLUX, strict=True):
        assert row["load_distance"] <= flux + 0.01
    assert "still broken: capacity of n0.cpu by 68 (was 116)" in rows[0]["note"]
    assert [row["migrations"] for row in rows[:3]] == [2, 2, 2]


def test_refused_keeps_what_runs(tmp_path: Path) -> None:
    rows = replayed(tmp_path, "balance-milp:start_broken=refuse")
    assert [row["migrations"] for row in rows] == [0] * 5


def test_added_nodes_are_used(tmp_path: Path) -> None:
    choice = ScalingChoice("utilisation", {"lower": 0.2, "upper": 0.6, "target": 0.5})
    rows = replayed(tmp_path, "balance-milp", scaling=choice)
    assert rows[0]["nodes"] > 3
    assert [row["migrations"] for row in rows[:4]] == [2, 2, 2, 2]
    assert rows[2]["feasible"]


def test_partial_relief_counts_for_the_rate(tmp_path: Path) -> None:
    rows = replayed(tmp_path, "rate-trigger:pause=0")
    assert rows[0]["note"].startswith("carries 0.463 times the rate, the plan 0.5952")
    assert [row["migrations"] for row in rows[:3]] == [2, 2, 2]
    assert rows[2]["feasible"]


def test_how_must_be_one_of_two() -> None:
    with pytest.raises(InvalidInput, match="start_broken"):
        read_policy("balance-milp:start_broken=maybe", 0)
