"""The whole method on counts, through each of its ways to a proof."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from formulations.column_generation import client, driver, integer
from formulations.column_generation.client import Client, Incumbent
from formulations.column_generation.integer import Backend
from formulations.column_generation.pricing import TreePricer
from formulations.column_generation.problem import Clock, PatternProblem, make_problem
from formulations.column_generation.search import feasible, improved
from optim.solvers import LIMITED_WORK, solve_linear
from tests.formulations.column_generation.make import (
    best_gain,
    gapped_problem,
    random_problem,
    seeds,
)

WAYS = ("table", "columns", "filters", "stages", "memory")


def client_of(incumbent: Incumbent, budget: int = 10**7) -> Client:
    pricer = TreePricer(incumbent.problem, incumbent.clock, budget)
    return Client(incumbent.problem, pricer, incumbent.clock)


def solved(
    problem: PatternProblem, *, clock: Clock | None = None, budget: int = 10**7
) -> Incumbent:
    incumbent = Incumbent(problem, clock or Clock(), gap=1e-7)
    driver.solve(client_of(incumbent, budget), incumbent, Backend())
    return incumbent


def take_way(patch: pytest.MonkeyPatch, way: str) -> None:
    """Close the shorter ways, so that the longer ones are gone."""
    if way != "table":
        patch.setattr(integer, "MOST_CELLS", 0)
    if way in ("filters", "stages"):
        patch.setattr(driver, "SHORT_PATTERNS", 0)
        patch.setattr(Client, "stages", (3, 6, 12, 24))
        patch.setattr(driver, "FEW", 3)
        patch.setattr(client, "improved", lambda *_: None)
    if way == "stages":
        patch.setattr(driver, "filter_passes", lambda survivors, price: ())
    if way == "memory":
        patch.setattr(driver, "MOST_COUNTS", 60)


@pytest.mark.parametrize("way", WAYS)
@given(seed=seeds)
def test_optimum(way: str, seed: int) -> None:
    problem = random_problem(seed)
    best = best_gain(problem)
    with pytest.MonkeyPatch.context() as patch:
        take_way(patch, way)
        incumbent = solved(problem)
    assert incumbent.bound >= best - 1e-6
    if way != "memory":
        assert incumbent.closed
    if incumbent.closed:
        assert incumbent.value == pytest.approx(best, rel=1e-6, abs=1e-6)
    if incumbent.counts is not None:
        assert feasible(problem, incumbent.counts)
        assert problem.gain(incumbent.counts).sum() == pytest.approx(incumbent.value)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "wanted"), [("filters", "filtered"), ("stages", "integer")])
def test_the_long_ways_are_taken_and_right(way: str, wanted: str) -> None:
    """Guards the patches of `test_optimum`: something must be left for each stage to do."""
    taken = 0
    for seed in range(25):
        problem = gapped_problem(seed)
        with pytest.MonkeyPatch.context() as patch:
            take_way(patch, way)
            incumbent = solved(problem)
        taken += any(wanted in stage for stage in incumbent.stages)
        assert incumbent.closed
        assert incumbent.value == pytest.approx(best_gain(problem), rel=1e-6)
    assert taken >= 10


@given(seeds)
def test_the_start_is_feasible_and_only_gets_better(seed: int) -> None:
    problem = random_problem(seed)
    counts = improved(problem, [], 0, rounds=0)
    if counts is None:
        return
    assert feasible(problem, counts)
    better = improved(problem, [counts], seed % 1000)
    assert better is not None
    assert feasible(problem, better)
    assert problem.gain(better).sum() >= problem.gain(counts).sum() - 1e-9


def test_a_feasible_start_is_never_lost() -> None:
    problem = four_groups(8, 1.1)
    counts = improved(problem, [], 0, rounds=0)
    assert counts is not None
    incumbent = Incumbent(problem, Clock(deadline=time.perf_counter()), gap=1e-7)
    driver.solve(client_of(incumbent), incumbent, Backend(), [counts])
    assert incumbent.value >= problem.gain(counts).sum()
    assert incumbent.bound >= incumbent.value


def four_groups(num_nodes: int, slack: float) -> PatternProblem:
    """Four groups of 100 tasks in a row, group cost 200, rates 15/14/16."""
    rate = np.zeros((4, 4))
    for g, whole in enumerate((15.0, 14.0, 16.0)):
        rate[g, g + 1] = rate[g + 1, g] = whole / 100**2
    return make_problem(
        [100] * 4, [[2.0]] * 4, rate, [num_nodes], [[800 * slack / num_nodes + 1e-6]]
    )


@pytest.mark.parametrize(
    ("num_nodes", "slack", "value"),
    [(20, 1.0, 3.1), (20, 1.1, 3.3804), (100, 1.5, 0.9252), (8, 1.1, 8.1517)],
)
def test_four_groups_of_a_hundred_are_proved(num_nodes: int, slack: float, value: float) -> None:
    problem = four_groups(num_nodes, slack)
    incumbent = solved(problem)
    assert incumbent.value * problem.scale == pytest.approx(value, rel=1e-9)
    assert incumbent.bound - incumbent.value <= 1e-6 * incumbent.bound


def test_a_bound_is_in_hand_whenever_it_is_stopped() -> None:
    problem = four_groups(8, 1.1)
    best = 8.1517 / problem.scale
    for budget in (1, 100, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "MOST_COUNTS", 400)
            incumbent = solved(problem, budget=budget)
        assert best - 1e-6 <= incumbent.bound < np.inf


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_every_back_end_takes_the_integer_program(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integer, "MOST_CELLS", 0)
    monkeypatch.setattr(integer, "IN_PROCESS", 0)
    problem = random_problem(11)
    pool = TreePricer(problem, Clock(), 10**6).enumerate(
        np.zeros(problem.num_classes),
        np.zeros(0),
        np.full(problem.num_node_classes, -np.inf),
        10**6,
    )
    assert pool is not None
    asked = []

    def handed(*args: Any, **more: Any) -> Any:
        asked.append((more["time_limit"], more["options"]))
        return solve_linear(*args, **more)

    monkeypatch.setattr(integer, "solve_linear", handed)
    answer = integer.choose(problem, pool, Clock(), Backend(solver))
    integer.choose(problem, pool, Clock(), Backend(solver), time_limit=10.0)
    # a clock without an end: work is counted, so that a busy machine changes no plan
    assert asked == [(None, {}), (None, LIMITED_WORK[solver])]
    best = best_gain(problem)
    assert answer.counts is not None
    assert problem.gain(answer.counts).sum() == pytest.approx(best, rel=1e-6)
    assert answer.bound == pytest.approx(best, rel=1e-5)
