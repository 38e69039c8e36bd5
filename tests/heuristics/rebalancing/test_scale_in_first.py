"""Scale-in on its own, then balance: the order, the budget, the promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.problem import balance_problem
from heuristics.rebalancing.scale_in_first import METHOD, run, spread_evenly
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.referee import Termination, evaluate_indices
from tests.heuristics.rebalancing.cases import case, random_case


def planned(made: Instance) -> Any:
    return run(made, Request(solver="highs", options=METHOD.read_options({})))


def test_key_groups_are_dealt_out_whatever_the_nodes_carry() -> None:
    # n0 leaves with 4, 3, 2, 1; n1 is full, n2 nearly empty: each receives 5 all the same
    made = case("000012", loads=[4, 3, 2, 1, 50, 1], leaving=(0,))
    placement = spread_evenly(balance_problem(made))
    assert placement.tolist() == [1, 2, 2, 1, 1, 2]


def test_what_was_received_in_earlier_rounds_counts() -> None:
    made = case("0012", loads=[3, 2, 1, 1], leaving=(0,))
    assert spread_evenly(balance_problem(made)).tolist() == [1, 2, 1, 2]
    given = METHOD.read_options({"received": "n1=4"})
    outcome = run(made.replace(limits={"max_migrations": 1}), Request(options=given))
    assert outcome.node.tolist() == [2, 0, 1, 2]
    for wrong in ("n9=4", "n1=nan", "n1=inf", "n1=-1"):
        with pytest.raises(InvalidInput, match="no node with a load"):
            run(made, Request(options=METHOD.read_options({"received": wrong})))


def test_the_budget_goes_to_the_scale_in_first() -> None:
    made = case("00111112", loads=[1, 2] + [5] * 5 + [1], leaving=(0,), max_migrations=2)
    outcome = planned(made)
    moved = np.flatnonzero(outcome.node != made.tasks.node)
    assert moved.tolist() == [0, 1]
    assert outcome.notes[0] == "2 key groups taken off leaving nodes first, 0 still there"
    # with one move more the balance gets it
    more = planned(made.replace(limits={"max_migrations": 3}))
    assert (more.node[2:7] == 2).sum() == 1


def test_a_scale_in_larger_than_the_budget_stops_there() -> None:
    made = case("00012", loads=[3, 2, 1, 1, 1], leaving=(0,), max_migrations=2)
    assert spread_evenly(balance_problem(made)).tolist() == [1, 2, 0, 1, 2]


def test_a_budget_by_cost_and_one_that_is_too_small() -> None:
    state = [5.0, 2.0, 1.0, 1.0]
    made = case("0012", loads=[4, 3, 1, 1], state=state, leaving=(0,), max_migration_cost=3.0)
    placement = spread_evenly(balance_problem(made))
    assert placement.tolist() == [0, 1, 1, 2]  # the heavier one is too dear, the lighter is not
    none = made.replace(limits={"max_migration_cost": 0.0})
    assert spread_evenly(balance_problem(none)).tolist() == [0, 0, 1, 2]


def test_capacity_and_allowed_nodes_are_kept() -> None:
    made = case("0012", loads=[4, 3, 3, 1], leaving=(0,), capacity=7.0, allowed={1: [0, 1]})
    assert spread_evenly(balance_problem(made)).tolist() == [1, 0, 1, 2]


def test_without_leaving_nodes_it_is_the_milp() -> None:
    made = case("00012", loads=[3, 2, 2, 1, 1], max_migrations=2)
    assert evaluate_indices(made, planned(made).node).load_distance == 0.0


def test_what_no_one_can_place_is_proven_by_the_quick_count_only() -> None:
    made = case("01", allowed={0: [1], 1: [0]}, max_migrations=1)
    assert planned(made).termination is Termination.INFEASIBLE


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_plans_are_feasible_and_repeat(seed: int) -> None:
    made = random_case(seed)
    outcome = planned(made)
    if outcome.node is None:
        return
    assert evaluate_indices(made, outcome.node).feasible
    assert outcome.bound is None
    np.testing.assert_array_equal(outcome.node, planned(made).node)
