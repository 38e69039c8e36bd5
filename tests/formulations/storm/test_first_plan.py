"""The plan in hand before the proof: a beam of patterns, and two nodes dealt anew at a time."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.generators import generate
from formulations.column_generation.problem import of_nodes
from formulations.column_generation.search import feasible
from formulations.storm.problem import (
    States,
    StormProblem,
    WorkerRows,
    list_states,
    make_problem,
    storm_jobs,
)
from formulations.storm.search import FirstPlan
from optim.format.instance import Instance
from optim.kernels.classes import counts_of
from optim.methods.solve import solve
from tests.formulations.storm.cases import random_cluster


def looking(made: Instance) -> tuple[FirstPlan, StormProblem, States]:
    problem = make_problem(made, storm_jobs(made, "test"))
    states = list_states(problem)
    return FirstPlan(problem, states, WorkerRows(problem, states)), problem, states


def gain(problem: StormProblem, counts: np.ndarray) -> float:
    return float(problem.inner.gain(counts).sum())


@pytest.mark.parametrize("seed", range(40))
def test_what_it_finds_keeps_every_rule_and_what_it_betters_gets_no_worse(seed: int) -> None:
    made = random_cluster(seed)
    plans, problem, states = looking(made)
    found = plans.find([states.gain[fitting] for fitting in states.fitting])
    if found is None:
        return
    for counts in (found, plans.better(found, seed)):
        assert feasible(problem.inner, counts)
        assert plans.rows.hold(of_nodes(problem.inner, counts))
        assert gain(problem, counts) >= gain(problem, found)


@pytest.mark.parametrize("slots", [1, 4])
def test_a_poor_start_becomes_the_optimum(slots: int) -> None:
    given = {"stages": 3, "replication": "3", "grouping": "fields", "slots": slots}
    made = generate("storm_reference", seed=1, **given)
    plans, problem, _ = looking(made)
    poor = solve(made, "storm-even").plan
    best = solve(made, "storm-milp").evaluation
    assert poor is not None
    assert best is not None
    assert best.internode_traffic is not None
    node = poor.node_indices(made)
    start = counts_of(problem.groups, problem.classes, node, made.num_nodes)
    inside = (made.total_traffic - best.internode_traffic) / problem.inner.scale
    assert gain(problem, start) < 0.9 * inside
    assert gain(problem, plans.better(start, 0)) == pytest.approx(inside)


def test_a_large_deal_is_said_to_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formulations.storm.search._MOST_DEALS", 3)
    made = generate("storm_reference", seed=1, stages=3, replication="3", slots=4)
    plans, _, states = looking(made)
    plans.find([states.gain[fitting] for fitting in states.fitting])
    assert plans.skipped
