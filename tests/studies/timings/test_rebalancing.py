"""The rebalancing benchmark's own arithmetic: moments of a trace, budgets, the peer."""

from __future__ import annotations

import math
import sys

import pytest

from experiments.studies.bench.rebalancer_process import find_peer
from experiments.studies.timings.methods import cluster
from experiments.studies.timings.registry import distance_at, proved_at
from formulations.rebalancing.problem import balance_problem
from optim import solve
from tests.heuristics.rebalancing.cases import case


def test_moments_of_a_trace() -> None:
    result = solve(case("000112", loads=[3.0, 2.0, 2.0, 1.0, 1.0, 1.0], nodes=3), "balance-search")
    end = result.trace[-1][0]
    assert math.isnan(distance_at(result, -1.0))
    assert result.objective is not None
    assert distance_at(result, end + 1.0) == result.objective.value
    assert proved_at(result, math.inf) <= end
    assert proved_at(result, -1.0) == math.inf


def test_the_recipe_makes_the_budget_that_was_handed_down() -> None:
    """200 × 10,000: one and a half times what 0.5 points take; the study's own instance has 303."""
    made = cluster(0, "cluster_200x10000_v40_s0_m303", 200, 50, 40.0)
    assert made is not None
    problem = balance_problem(made)
    assert problem.num_nodes == 200
    assert problem.num_tasks == 10_000
    assert problem.most_moved is not None
    assert 280 <= problem.most_moved <= 320


def test_the_peer_is_left_out_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMPLACE_REBALANCER", raising=False)
    assert find_peer() is None
    monkeypatch.setenv("STREAMPLACE_REBALANCER", "/nowhere/python")
    assert find_peer() is None
    monkeypatch.setenv("STREAMPLACE_REBALANCER", sys.executable)  # has no such package
    assert find_peer() is None
