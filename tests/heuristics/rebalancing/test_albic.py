"""ALBIC step by step on hand instances, and its promises on random ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.rebalancing.problem import balance_problem
from heuristics.rebalancing.albic import METHOD, UnitSolver, node_capacity, plan_rounds, run
from heuristics.rebalancing.albic_sets import (
    DirectedPairs,
    PartLimits,
    Pins,
    Units,
    balanced_parts,
    beneficial_pairs,
    choose_pins,
    merge_pairs,
    num_downstream,
    split_sets,
)
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.referee import evaluate_indices
from tests.heuristics.rebalancing.cases import case, random_case


def pairs_of(*pairs: tuple[int, int, float]) -> DirectedPairs:
    source, target, rate = zip(*pairs, strict=True) if pairs else ((), (), ())
    return DirectedPairs(
        np.array(source, np.int64), np.array(target, np.int64), np.array(rate, np.float64)
    )


def options(**given: Any) -> dict[str, Any]:
    return METHOD.read_options(given)


def planned(instance: Instance, seed: int = 0, **given: Any) -> Any:
    return run(instance, Request(solver="highs", seed=seed, options=options(**given)))


# -- step 1 ------------------------------------------------------------------------------------


def test_a_pair_counts_above_score_factor_times_the_average() -> None:
    # k0 sends 6 + 3 to the four key groups of b: the average is 9/4, 1.5 times it 3.375
    made = case("000000", [(0, 2, 6.0), (0, 3, 3.0), (1, 4, 5.0)], operators="aabbbb")
    found = beneficial_pairs(made, 1.5)
    assert list(zip(found.source.tolist(), found.target.tolist(), strict=True)) == [(0, 2), (1, 4)]
    assert len(beneficial_pairs(made, 1.0).source) == 3
    assert len(beneficial_pairs(made, 2.7).source) == 1  # only all of k1's traffic is 4 averages
    assert len(beneficial_pairs(made, 4.0).source) == 0


def test_downstream_are_all_key_groups_of_the_receiving_operators() -> None:
    made = case("000000", [(0, 2, 1.0), (0, 5, 1.0), (3, 4, 1.0)], operators="aabbcc")
    # a sends to b and c, b to c, c to nobody
    assert num_downstream(made).tolist() == [4, 4, 2, 2, 0, 0]


def test_within_one_operator_a_key_group_is_not_its_own_receiver() -> None:
    made = case("000", [(0, 1, 1.0)])
    assert num_downstream(made).tolist() == [2, 2, 2]


def test_even_spread_never_counts_one_to_one_always() -> None:
    base: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": "streams",
        "nodes": [{"id": "n"}],
        "operators": [{"id": o, "group": {"tasks": 30, "load": {"cpu": 3}}} for o in "abc"],
    }
    streams = [
        {"from": "a", "to": "b", "rate": 7.0},
        {"from": "b", "to": "c", "rate": 7.0, "pattern": "one_to_one"},
    ]
    made = Instance.from_dict({**base, "streams": streams})
    assert made.flows.blocks, "the even stream is kept as a block"
    found = beneficial_pairs(made, 1.0)
    assert (made.tasks.operator[found.source] == 1).all()
    assert len(found.source) == 30
    # below 1 the even spread passes too, expanded from its block
    assert len(beneficial_pairs(made, 0.5).source) == 930


# -- step 2 ------------------------------------------------------------------------------------


def test_pairs_that_share_a_key_group_are_one_set() -> None:
    sets = merge_pairs(pairs_of((4, 5, 1), (0, 1, 1), (2, 3, 1), (1, 2, 1), (7, 4, 1)), 9)
    assert [group.tolist() for group in sets] == [[0, 1, 2, 3], [4, 5, 7]]
    assert merge_pairs(pairs_of(), 3) == []


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(0, 14)), max_size=20))
def test_sets_are_the_connected_components(edges: list[tuple[int, int]]) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = [(a, b) for a, b in edges if a != b]
    sets = merge_pairs(pairs_of(*((a, b, 1.0) for a, b in edges)), 15)
    ends = tuple(np.array(list(zip(*edges, strict=True)) or [[], []], dtype=np.int64))
    graph = coo_array((np.ones(len(edges)), ends), shape=(15, 15))
    label = connected_components(graph, directed=False)[1]
    touched = sorted({end for edge in edges for end in edge})
    expected = {tuple(t for t in touched if label[t] == label[k]) for k in touched}
    assert {tuple(group.tolist()) for group in sets} == expected


def chain(count: int, **given: Any) -> tuple[Instance, Any]:
    """Key groups in a row on one node; the middle pair talks least."""
    rates = [10.0] * (count - 1)
    rates[count // 2 - 1] = 1.0
    made = case("0" * count, [(i, i + 1, r) for i, r in enumerate(rates)], nodes=2, **given)
    return made, balance_problem(made)


def test_a_set_too_heavy_is_cut_where_least_flows() -> None:
    made, problem = chain(6)
    limits = PartLimits.of(problem, 4.0)
    parts = split_sets(made, [np.arange(6)], limits, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]


def test_a_part_must_stay_below_its_limits_not_at_them() -> None:
    made, problem = chain(4)
    rng = np.random.default_rng(0)
    assert len(split_sets(made, [np.arange(4)], PartLimits.of(problem, 4.0), rng)) == 2
    assert len(split_sets(made, [np.arange(4)], PartLimits.of(problem, 4.1), rng)) == 1
    made, problem = chain(4, max_migrations=4)
    assert len(split_sets(made, [np.arange(4)], PartLimits.of(problem, 99.0), rng)) == 2
    made, problem = chain(4, max_migrations=5)
    assert len(split_sets(made, [np.arange(4)], PartLimits.of(problem, 99.0), rng)) == 1


def test_the_tighter_limit_gives_the_weights() -> None:
    # by cost k0 alone outweighs the rest, by load all are equal
    made, problem = chain(4, state=[9.0, 3.0, 3.0, 3.0], max_migration_cost=10.0)
    rng = np.random.default_rng(0)
    share, weight = PartLimits.of(problem, 3.5).tightest(np.arange(4), rng)
    assert share == pytest.approx(1.8)
    assert weight.tolist() == [9.0, 3.0, 3.0, 3.0]
    share, weight = PartLimits.of(problem, 1.0).tightest(np.arange(4), rng)
    assert share == pytest.approx(4.0)
    assert weight.tolist() == [1.0] * 4
    parts = split_sets(made, [np.arange(4)], PartLimits.of(problem, 3.5), rng)
    assert [part.tolist() for part in parts] == [[0], [1, 2, 3]]


def test_no_budget_leaves_single_key_groups() -> None:
    made, problem = chain(5, max_migrations=0)
    parts = split_sets(made, [np.arange(5)], PartLimits.of(problem, 99.0), np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0], [1], [2], [3], [4]]


@given(st.integers(0, 10_000))
def test_parts_divide_the_set_and_keep_the_limits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 14))
    made = case(
        "0" * count,
        [
            (i, j, float(rng.integers(1, 9)))
            for i in range(count)
            for j in range(i)
            if rng.random() < 0.4
        ],
        [float(v) for v in rng.integers(1, 9, count)],
        max_migrations=int(rng.integers(1, count + 2)),
    )
    limits = PartLimits.of(balance_problem(made), float(rng.integers(2, 30)))
    parts = split_sets(made, [np.arange(count)], limits, rng)
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))
    for part in parts:
        assert len(part) == 1 or limits.tightest(part, rng)[0] < 1.0


def test_metis_that_leaves_parts_empty_is_made_good() -> None:
    made = case("00000", [(0, i, 100.0) for i in range(1, 5)], loads=[100, 1, 1, 1, 1])
    load = made.tasks.load[:, 0]
    for parts in (2, 3, 4, 5):
        found = balanced_parts(made.adjacency, np.arange(5), load, parts, 0)
        assert len(found) == parts
        assert all(len(part) for part in found)


# -- units ---------------------------------------------------------------------------------------


def test_units_add_up_and_a_budget_of_moves_counts_key_groups() -> None:
    made = case("0011", [(0, 1, 1.0)], [1, 2, 3, 4], allowed={1: [0, 1]}, nodes=3, max_migrations=2)
    units = Units.of(balance_problem(made), [np.array([0, 1])])
    merged = units.merged({1: 0})
    assert merged.load.tolist() == [3.0, 3.0, 4.0]
    assert merged.home.tolist() == [0, 1, 1]
    assert [(b.limit, b.weight.tolist()) for b in merged.budgets] == [(2, [2, 1, 1])]
    assert merged.may_be_rows(np.arange(3)).tolist() == [
        [True, True, False],
        [True, False, False],
        [True, True, True],
    ]
    assert units.spread(np.array([1, 0, 1])).tolist() == [1, 1, 0, 1]


@given(st.integers(0, 10_000))
def test_what_is_feasible_for_units_is_feasible_for_their_key_groups(seed: int) -> None:
    made = random_case(seed)
    problem = balance_problem(made)
    rng = np.random.default_rng(seed)
    free = np.flatnonzero(~problem.must_move)
    parts = []
    for node in range(made.num_nodes):
        here = free[problem.home[free] == node]
        if len(here) > 1:
            parts.append(here[: int(rng.integers(2, len(here) + 1))])
    units = Units.of(problem, parts)
    merged = units.merged()
    for _ in range(30):
        placement = rng.integers(0, made.num_nodes, units.num_units)
        stay = rng.random(units.num_units) < 0.6
        placement[stay] = merged.home[stay]
        single = problem.is_feasible(units.spread(placement))
        assert single == merged.is_feasible(placement)


# -- step 3 ------------------------------------------------------------------------------------


def pinned(
    made: Instance, parts: list[list[int]], candidates: DirectedPairs, rounds: int = 1
) -> Pins:
    units = Units.of(balance_problem(made), [np.array(part) for part in parts])
    return choose_pins(units, candidates, rounds, np.random.default_rng(0))


def test_two_single_key_groups_meet_on_the_less_loaded_node() -> None:
    made = case("0012", loads=[3, 3, 2, 1], max_migrations=4)
    pins = pinned(made, [], pairs_of((0, 2, 1.0), (2, 3, 9.0)))
    assert pins.pairs == [(2, 3)]
    assert pins.node_of == {2: 2, 3: 2}
    assert pins.spent.tolist() == [1]


def test_one_in_a_set_takes_the_other_to_its_node() -> None:
    made = case("0012", loads=[3, 3, 2, 1], max_migrations=4)
    pins = pinned(made, [[0, 1]], pairs_of((2, 0, 5.0)))
    assert pins.node_of == {0: 0, 1: 0}  # unit 0 is k0 and k1, unit 1 is k2
    assert pins.spent.tolist() == [1]


def test_two_sets_meet_on_the_less_loaded_node() -> None:
    made = case("00112", loads=[1, 1, 3, 3, 9], max_migrations=4)
    pins = pinned(made, [[0, 1], [2, 3]], pairs_of((3, 0, 5.0)))
    assert pins.node_of == {0: 0, 1: 0}
    assert pins.spent.tolist() == [2]


def test_a_pair_that_cannot_be_is_passed_over() -> None:
    candidates = pairs_of((0, 1, 9.0), (2, 3, 5.0))
    assert pinned(case("0123", max_migrations=0), [], candidates).pairs == []
    # neither node of the first pair may hold it: one leaves, the other is not allowed for k0
    made = case("0123", nodes=4, leaving=(0,), allowed={0: [0, 3]})
    assert pinned(made, [], candidates).pairs == [(2, 3)]
    # the less loaded node leaves: the other one is taken
    made = case("0123", loads=[1, 2, 3, 3], leaving=(0,))
    assert pinned(made, [], candidates).node_of == {0: 1, 1: 1}


def test_several_pairs_a_round_share_the_budget_and_agree() -> None:
    candidates = pairs_of((0, 1, 9.0), (1, 2, 8.0), (3, 4, 7.0), (0, 2, 6.0))
    made = case("01234", loads=[1, 2, 3, 4, 5], max_migrations=9)
    pins = pinned(made, [], candidates, 9)
    assert pins.pairs == [(0, 1), (1, 2), (3, 4)]  # k0 and k2 are then together anyway
    assert pins.node_of == {0: 0, 1: 0, 2: 0, 3: 3, 4: 3}
    made = case("01234", loads=[1, 2, 3, 4, 5], max_migrations=2)
    assert pinned(made, [], candidates, 9).pairs == [(0, 1), (1, 2)]


def test_ties_are_broken_by_seed() -> None:
    made = case("012345")
    candidates = pairs_of((0, 1, 1.0), (2, 3, 1.0), (4, 5, 1.0))
    units = Units.of(balance_problem(made), [])
    seen = set()
    for seed in range(20):
        first, again = (
            choose_pins(units, candidates, 1, np.random.default_rng(seed)).pairs for _ in range(2)
        )
        assert first == again
        seen.add(first[0])
    assert len(seen) == 3


# -- step 4 and the whole ----------------------------------------------------------------------


def test_max_part_load_is_lowered_until_the_load_distance_holds() -> None:
    # one set of 4 on a node of 4, the other empty: only split in halves does it balance
    made = case("0000", [(0, 1, 9.0), (1, 2, 1.0), (2, 3, 9.0)], nodes=2)
    problem = balance_problem(made)
    given = options(max_load_distance=0.5, max_part_load=8.0)
    rounds = plan_rounds(
        made, problem, UnitSolver(Request(solver="highs", options=given)), given, 0
    )
    # nodes without a capacity hold 100. At most 8: nothing moves, distance 2; at most 3: two halves
    assert [(r.part_load, r.num_units, r.distance) for r in rounds] == [
        (8.0, 1, 2.0),
        (3.0, 2, 0.0),
    ]
    node = rounds[-1].placement
    assert node is not None
    assert node[0] == node[1] != node[2] == node[3]


def test_at_zero_it_is_the_pure_milp() -> None:
    made = case("0000", [(0, 1, 9.0), (2, 3, 9.0)], [1, 2, 3, 4.0], nodes=2)
    given = options(max_load_distance=0.1, max_part_load=0.0)
    problem = balance_problem(made)
    rounds = plan_rounds(
        made, problem, UnitSolver(Request(solver="highs", options=given)), given, 0
    )
    assert [(r.part_load, r.num_units, r.pairs, r.distance) for r in rounds] == [(0.0, 0, (), 0.0)]


def test_at_most_five_repetitions_by_default() -> None:
    made = case("0001", [(0, 3, 1.0)], [5, 5, 5, 1.0], max_migrations=1)
    problem = balance_problem(made)
    given = options(max_load_distance=0.1)
    rounds = plan_rounds(
        made, problem, UnitSolver(Request(solver="highs", options=given)), given, 0
    )
    assert [r.part_load for r in rounds] == [25.0, 20.0, 15.0, 10.0, 5.0, 0.0]


def test_a_round_brings_the_heaviest_pair_together_and_keeps_what_is() -> None:
    made = case(
        "010122",
        [(0, 1, 9.0), (2, 3, 8.0), (4, 5, 7.0)],
        operators="abcdef",
        max_migrations=3,
    ).replace(operators=[{"id": "a"}, {"id": "b"}], tasks=_retyped("010122"))
    outcome = planned(made, max_part_load=4.0)
    assert outcome.node[0] == outcome.node[1]
    assert outcome.node[4] == outcome.node[5]
    assert outcome.notes[0].startswith("maxPL 4 % of a node's capacity: 1 units")
    assert "k0 with k1 pinned" in outcome.notes[0]


def _retyped(where: str) -> list[dict[str, Any]]:
    return [
        {"id": f"k{i}", "load": {"cpu": 1}, "node": f"n{n}", "operator": "ab"[i % 2]}
        for i, n in enumerate(where)
    ]


def test_rounds_climb_to_full_collocation() -> None:
    made = case("0123", [(0, 1, 9.0), (2, 3, 8.0)], operators="abab", max_migrations=3)
    node, reached = made.tasks.node, []
    for seed in range(3):
        made = made.replace(
            tasks=[
                {"id": f"k{i}", "load": {"cpu": 1}, "node": f"n{n}", "operator": "abab"[i]}
                for i, n in enumerate(node)
            ]
        )
        node = planned(made, seed, max_part_load=3.0).node
        reached.append(evaluate_indices(made, node).collocation_factor)
    assert reached == [pytest.approx(9 / 17), 1.0, 1.0]


def test_the_instances_own_limit_on_the_load_distance_holds() -> None:
    made = case("0011", [(0, 2, 5.0)], operators="abab", max_load_distance=0.5, max_migrations=2)
    outcome = planned(made)
    assert evaluate_indices(made, outcome.node).feasible


@settings(max_examples=12)
@given(st.integers(0, 10_000))
def test_plans_are_feasible_and_sets_move_together(seed: int) -> None:
    made = random_case(seed)
    outcome = planned(made, seed % 3, pairs_per_round=1 + seed % 2)
    if outcome.node is None:
        return
    assert evaluate_indices(made, outcome.node).feasible
    assert outcome.bound is None
    again = planned(made, seed % 3, pairs_per_round=1 + seed % 2)
    np.testing.assert_array_equal(outcome.node, again.node)


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_units_of_the_last_round_are_not_torn(seed: int) -> None:
    made = random_case(seed)
    problem = balance_problem(made)
    given = options(max_part_load=50.0)
    pairs = beneficial_pairs(made, 1.5)
    together = problem.home[pairs.source] == problem.home[pairs.target]
    stuck = problem.must_move[pairs.source] | problem.must_move[pairs.target]
    sets = merge_pairs(pairs.where(together & ~stuck), made.num_tasks)
    solver = UnitSolver(Request(solver="highs", options=given))
    last = plan_rounds(made, problem, solver, given, 0)[-1]
    if last.placement is None or last.part_load != 50.0:
        return
    limits = PartLimits.of(problem, 0.5 * node_capacity(made))
    for part in split_sets(made, sets, limits, np.random.default_rng(0)):
        assert len(set(last.placement[part].tolist())) == 1
    for source, target in last.pairs:
        assert last.placement[source] == last.placement[target]
