"""Refuting load distances by classes: never a placement that exists, and nearly all that do not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generators.rebalancing import CLUSTER
from formulations.rebalancing.balance import classes
from formulations.rebalancing.balance.classes import (
    Classes,
    ClassModel,
    Refuting,
    add_exchanges,
    build_class_model,
    load_classes,
)
from formulations.rebalancing.bound import finite_budgets, forced_moves_bound
from formulations.rebalancing.exchanges import Exchanges
from formulations.rebalancing.problem import BalanceProblem, balance_problem
from optim.format.instance import Instance
from optim.solvers.inprocess import solve_lp, solve_small_milp
from tests.formulations.rebalancing.balance.cases import brute_force, varied_problem
from tests.formulations.rebalancing.make import make_problem

if TYPE_CHECKING:
    from collections.abc import Sequence


def refutes(problem: BalanceProblem, distance: float, classes: int, cells: int = 300) -> bool:
    built = build_class_model(problem, load_classes(problem.load, classes), distance)
    for taken, budget in finite_budgets(problem):
        add_exchanges(built, Exchanges(problem, taken, budget, cells), distance)
    return solve_small_milp(built.model).termination == "infeasible"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.sampled_from([2, 4, 50]), st.sampled_from([9, 300]))
def test_never_refutes_the_optimum(seed: int, classes: int, cells: int) -> None:
    problem = varied_problem(seed, num_tasks=5, num_nodes=4)
    best = brute_force(problem)
    if best is not None:
        assert not refutes(problem, best[0].distance, classes, cells)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000))
def test_a_class_for_each_load_refutes_all_below_the_optimum(seed: int) -> None:
    """One class for each load, no allowed sets or further resources: nothing is relaxed."""
    rng = np.random.default_rng(seed)
    problem = make_problem(
        rng.integers(1, 20, 6) / 2, rng.integers(0, 3, 6), 3, max_moves=int(rng.integers(0, 6)),
        weight=rng.choice([0.5, 1.0, 2.0], 3), cost=rng.integers(1, 5, 6).astype(float),
        max_cost=float(rng.integers(1, 12)), leaving=[False, False, bool(seed % 2)],
    )  # fmt: skip
    best = brute_force(problem)
    assert best is not None
    least = best[0].distance
    if least > 0.01:
        assert refutes(problem, least - 0.01, 500)
    assert not refutes(problem, least, 500)


def test_parts_of_key_groups_do_not_mend_a_node() -> None:
    """Nodes are 0.5 above and below; even the relaxation without whole numbers moves one each."""
    problem = make_problem([0.5, 5.0, 5.0, 5.0, 0.5, 4.5], [0, 0, 1, 1, 2, 2], 3, max_moves=2)
    distance = 0.4 * float(np.abs(problem.base_load - problem.share).max())
    built = build_class_model(problem, load_classes(problem.load, 60), distance)
    arrays = built.model.freeze()
    cost = np.zeros(arrays.num_variables)
    cost[built.leaves.indices] = 1.0
    answer = solve_lp(
        cost, arrays.matrix, arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper
    )
    assert answer.objective is None or answer.objective >= 1.0 - 1e-6


def test_exchanges_make_the_relaxation_as_strong_as_their_bound() -> None:
    problem = balance_problem(
        CLUSTER.make(1, {"nodes": 20, "key_groups": 20, "max_migrations": 16})
    )
    distance = 1.02 * forced_moves_bound(problem)
    ((taken, budget),) = finite_budgets(problem)
    exchanges = Exchanges(problem, taken, budget, 2_000)
    most = max(float(spent.sum()) for _, spent in exchanges.priced(distance))
    least = []
    for with_rows in (False, True):
        built = build_class_model(problem, load_classes(problem.load, 60), distance)
        if with_rows:
            add_exchanges(built, exchanges, distance)
        arrays = built.model.freeze()
        cost = np.zeros(arrays.num_variables)
        cost[built.leaves.indices] = 1.0
        answer = solve_lp(
            cost, arrays.matrix, arrays.row_lower, arrays.row_upper, arrays.lower, arrays.upper
        )
        assert answer.objective is not None
        least.append(answer.objective)
    assert least[1] >= most - 1e-3
    assert least[1] > least[0] + 0.5


def goals_asked(
    monkeypatch: pytest.MonkeyPatch, bound: float, found: Sequence[float]
) -> tuple[list[float], Refuting]:
    """Run attempts without an answer, each followed by a search that finds the next value."""
    problem = make_problem([14.0, 13.0, 8.0, 11.0, 6.0, 7.0, 12.0, 9.0], range(8), 8, max_moves=2)
    asked: list[float] = []

    def build(problem: BalanceProblem, classes: Classes, distance: float) -> ClassModel:
        asked.append(distance)
        return build_class_model(problem, classes, distance)

    answer = SimpleNamespace(termination="time_limit", x=None)
    monkeypatch.setattr(classes, "solve_linear", lambda *_, **__: answer)
    monkeypatch.setattr(classes, "build_class_model", build)
    values = iter(found)
    refuting = Refuting(
        problem, bound, 4.0, 0.01, lambda: 9.0, lambda _: 4.0, lambda _: next(values),
        lambda _: None,
    )  # fmt: skip
    refuting._approach(60, 0.1)
    return asked, refuting


def test_far_from_the_bound_goals_begin_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts in vain are made again from other seeds; a better plan brings goals nearer."""
    asked, refuting = goals_asked(monkeypatch, 2.0, [4.0, 3.0, 3.0, 3.0, 3.0])
    assert asked == pytest.approx([2.3, 2.3, 2.15, 2.15])
    assert refuting.value == 3.0
    asked, _ = goals_asked(monkeypatch, 3.8, [4.0, 4.0, 4.0])
    assert asked == pytest.approx([3.88, 3.88, 3.88])  # not nearer than the gap to reach


def test_near_the_bound_goals_begin_at_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, _ = goals_asked(monkeypatch, 3.96, [4.0, 4.0, 4.0])
    assert asked == pytest.approx([3.992, 3.98, 3.97])


def test_a_refuted_goal_bounds_by_itself_less_what_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = make_problem([4.0, 4.0], [0, 0], 2, max_moves=1)
    answer = SimpleNamespace(termination="infeasible", x=None)
    monkeypatch.setattr(classes, "solve_linear", lambda *_, **__: answer)
    looks, told = iter([9.0, 9.0, 9.0]), list[float]()
    refuting = Refuting(
        problem, 2.0, 4.0, 0.01, lambda: next(looks, 0.0), lambda _: 4.0, lambda _: 4.0, told.append
    )
    refuting._approach(60, 0.1)
    assert told[0] == pytest.approx(2.3, abs=1e-5)
    assert told[0] < 2.3


def test_classes_hold_their_loads() -> None:
    load = np.array([1.0, 1.0, 2.0, 9.0, 2.5, 1.0])
    classes = load_classes(load, 4)
    assert (classes.least[classes.of] <= load).all()
    assert (classes.most[classes.of] >= load).all()
    assert len(set(classes.of[load == 1.0].tolist())) == 1
    assert load_classes(load, 100).count == 4


def test_counts_are_read_as_a_placement() -> None:
    """4 + 4 on node 0 and nothing on node 1: one of them moves, whichever."""
    problem = make_problem([4.0, 4.0], [0, 0], 2, max_moves=1)
    built = build_class_model(problem, load_classes(problem.load, 5), 0.0)
    answer = solve_small_milp(built.model)
    assert answer.x is not None
    placement = built.read(answer.x)
    assert problem.moves(placement) == 1
    assert problem.levels(placement).distance == 0.0


@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [("cluster_20x400_v40_s0_m10", 0.54516, 0.5441), ("scalein_20x400_v20_s0_m20", 3.1773, 2.95)],
)
def test_published_clusters(shared_data: Path, name: str, value: float, bound: float) -> None:
    """With the best value known, the first refutations close nearly all of the gap."""
    problem = balance_problem(Instance.load(shared_data / "albic" / f"{name}.json.gz"))
    told: list[float] = []
    looks = iter(range(20))
    refuting = Refuting(
        problem, 0.5, value, 1e-3, lambda: 30.0 if next(looks, 99) < 18 else 0.0,
        lambda _: value, lambda _: value, told.append,
    )  # fmt: skip
    refuting.run()
    assert bound <= refuting.bound <= value
    assert told == sorted(told)
