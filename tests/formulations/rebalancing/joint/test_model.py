"""The joint model, its relaxation, its kernels and the bound by counting, against brute force."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.generators import generate
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.problem import (
    JointAim,
    JointProblem,
    all_places,
    build_joint,
    collocation_bound,
    columns_of,
    joint_problem,
    pruned_places,
)
from formulations.rebalancing.joint.search import (
    AnnealingResult,
    Effort,
    Neighbourhoods,
    find,
    relax,
    rounded,
    solve_kernel,
)
from optim.errors import InvalidInput
from optim.solvers.inprocess import solve_small_milp
from tests.formulations.rebalancing.balance.cases import budgeted
from tests.formulations.rebalancing.joint.cases import most, placements, varied_joint
from tests.formulations.rebalancing.make import budgets_of

SEEDS = range(60)


def whole(problem: JointProblem, aim: JointAim | None = None):  # type: ignore[no-untyped-def]
    return build_joint(problem, columns_of(problem, all_places(problem.balance)), aim)


@pytest.mark.parametrize("seed", SEEDS)
def test_optimum_is_brute_force(seed: int) -> None:
    problem = varied_joint(seed)
    best = most(problem)
    answer = solve_small_milp(whole(problem).model)
    if best is None:
        assert str(answer.termination) == "infeasible"
        return
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.x is not None
    placement = whole(problem).read(answer.x)
    assert problem.is_feasible(placement)
    assert problem.collocated(placement) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_weighted_optimum_is_brute_force(seed: int) -> None:
    problem, weights = varied_joint(seed), (1.0, 0.7)
    values = [
        weights[0] * problem.collocated(p) - weights[1] * problem.balance.levels(p).distance
        for p in placements(problem)
    ]
    answer = solve_small_milp(whole(problem, JointAim("weighted", weights)).model)
    if values:
        assert answer.objective == pytest.approx(max(values), abs=1e-6)
    else:
        assert str(answer.termination) == "infeasible"


@pytest.mark.parametrize("seed", [s for s in range(40) if varied_joint(s).balance.has_leaving][:10])
def test_least_left_is_brute_force(seed: int) -> None:
    problem = varied_joint(seed)
    values = [-problem.left(p) for p in placements(problem)]
    answer = solve_small_milp(whole(problem, JointAim("left")).model)
    if not values:
        assert str(answer.termination) == "infeasible"
        return
    assert answer.objective == pytest.approx(max(values), abs=1e-6)
    capped = problem.with_left(-max(values))
    best = most(capped)
    answer = solve_small_milp(whole(capped).model)
    assert answer.objective == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_every_placement_is_a_solution_with_its_own_value(seed: int) -> None:
    problem = varied_joint(seed)
    built = whole(problem)
    for number, placement in enumerate(placements(problem)):
        if number % 7:
            continue
        x = built.write(placement)
        assert x is not None
        assert built.model.violation(x) <= 1e-6
        assert built.model.objective_of(x) == pytest.approx(problem.collocated(placement))
        assert np.array_equal(built.read(x), placement)


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_for_the_best_placement(seed: int) -> None:
    problem = varied_joint(seed)
    best = most(problem)
    relaxed = relax(whole(problem))
    assert relaxed is not None
    if best is not None:
        assert relaxed.bound >= best - 1e-9
        assert collocation_bound(problem) >= best - 1e-9


def test_counting_bound_by_hand() -> None:
    problem = varied_joint(0)
    balance = replace(
        problem.balance,
        home=np.array([0, 1, 2, 3, 3]), cost=np.array([5.0, 2, 1, 1, 9]),
        budgets=budgets_of(np.ones(5), 1, None),
    )  # fmt: skip
    ends = np.array([0, 2, 3]), np.array([1, 3, 4])
    made = JointProblem(balance, *ends, np.array([4.0, 3.0, 2.0]))
    # pair (3, 4) is together: 2; the best item is pair (0, 1) with 4, as 2 and 3 share 3 with 4
    assert collocation_bound(made) == pytest.approx(6.0)
    by_cost = replace(made, balance=budgeted(balance, cost=2.0))
    # 3 for a cost of 1 (key group 2), again 3 for 1 (key group 3): counted twice, capped by all
    assert collocation_bound(by_cost) == pytest.approx(8.0, abs=1e-5)
    cheap = replace(made, balance=budgeted(balance, cost=0.5))
    # nobody can pay for a move: 2 is what is together
    assert collocation_bound(cheap) == pytest.approx(2.0, abs=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_kernels_and_pruned_places_give_feasible_placements(seed: int) -> None:
    problem = varied_joint(seed)
    best = most(problem)
    places = pruned_places(problem, 2, (problem.balance.home,))
    assert not (places & ~all_places(problem.balance)).any()
    built = whole(problem)
    relaxed = relax(built)
    assert relaxed is not None
    found, _ = solve_kernel(built, relaxed.order, len(relaxed.order), gap=0.0, nodes=10_000)
    if best is None:
        assert found is None
        return
    assert found is not None
    assert problem.is_feasible(found)
    assert problem.collocated(found) == pytest.approx(best, abs=1e-6)


def test_a_relaxation_of_many_places_has_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    # 88,800 columns: it took 2.4 s instead of 0.13
    columns, solve_lp = [], joint_search.solve_lp

    def counting(cost: Any, *rest: Any) -> Any:
        columns.append(len(cost))
        return solve_lp(cost, *rest)

    monkeypatch.setattr(joint_search, "solve_lp", counting)
    problem = large(60, 20, 50)
    find(problem, [problem.balance.home], Effort(first=1, kernels=()))
    assert sum(columns) <= 6_000


def test_beyond_400000_places_a_relaxation_bounds_too() -> None:
    problem = large(100, 40, 100)
    result = find(problem, [problem.balance.home], Effort(first=1, kernels=()))
    assert result.bound < 0.5 * collocation_bound(problem)


def large(nodes: int, key_groups: int, max_migrations: int) -> JointProblem:
    return joint_problem(
        generate(
            "cluster", seed=1, nodes=nodes, key_groups=key_groups, varies=40, one_to_one=50,
            max_migrations=max_migrations, max_load_distance=1.0,
        )
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_models_of_a_few_nodes_keep_every_limit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_search, "KNOWN", 10**6)
    problem = varied_joint(seed)
    best, built = most(problem), whole(problem)
    relaxed = relax(built)
    feasible = [one for one in placements(problem) if problem.is_feasible(one)]
    if best is None or relaxed is None:
        assert not feasible
        return
    start = min(feasible, key=problem.collocated)
    x = built.write(start)
    assert x is not None
    around, rng = Neighbourhoods(built, relaxed, x), np.random.default_rng(seed)
    for size in (1, 5, 20, len(x)):
        free = around.free(x, rng, size)
        answer = around.solve(x, free, None)
        assert answer.x is not None
        changed = x.copy()
        changed[free] = answer.x
        found = built.read(changed)
        assert problem.is_feasible(found)
        assert problem.collocated(found) >= problem.collocated(start) - 1e-9
        assert (found != start).sum() <= len(free)
    assert problem.collocated(found) == pytest.approx(best, abs=2e-3 * max(1.0, best))


@pytest.mark.parametrize("seed", range(20))
def test_a_rounded_relaxation_keeps_budgets_and_allowed_nodes(seed: int) -> None:
    problem = varied_joint(seed)
    free = replace(budgeted(problem.balance, 2), max_distance=None)
    built = whole(replace(problem, balance=free))
    relaxed = relax(built)
    assert relaxed is not None
    t = np.arange(free.num_tasks)
    for draw in range(5):
        found = rounded(built, relaxed, np.random.default_rng(draw))
        moved = found != free.home
        assert moved.sum() <= 2
        assert (all_places(free)[t, found] | ~moved).all()


def test_a_whole_relaxation_is_rounded_to_itself() -> None:
    problem = varied_joint(0)
    built = whole(problem)
    best = relax(built)
    found, _ = solve_kernel(built, np.arange(len(built.columns)), 10_000, gap=0.0, nodes=10_000)
    assert best is not None
    assert found is not None
    x = built.write(found)
    assert x is not None
    at = replace(best, scores=np.where(x > 0.5, 1.0 + x, 0.0))
    assert np.array_equal(rounded(built, at, np.random.default_rng(1)), found)


@pytest.mark.parametrize("seed", range(20))
def test_search_from_roundings_is_feasible_and_bounded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formulations.rebalancing.joint.search.POOR", 2.0)
    problem = varied_joint(seed)
    best = most(problem)
    found = find(problem, [problem.balance.home], Effort(first=500))
    if best is None:
        assert found.placement is None
        return
    assert found.value <= best + 1e-9
    assert found.bound >= best - 1e-9
    assert found.placement is None or problem.is_feasible(found.placement)


@pytest.mark.parametrize("relaxing", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_start_is_feasible_bounded_and_never_below_its_starts(seed: int, relaxing: bool) -> None:
    problem = varied_joint(seed)
    every = list(placements(problem))
    starts = [problem.balance.home, *every[:1]]
    effort = Effort(first=300, seed=seed, relaxing=relaxing)
    known = find(problem, starts, effort)
    if not every:
        assert known.placement is None
        return
    assert known.placement is not None
    assert problem.is_feasible(known.placement)
    assert known.value == pytest.approx(problem.collocated(known.placement))
    assert known.value >= problem.collocated(every[0])
    best = max(problem.collocated(p) for p in every)
    assert known.value <= best + 1e-9
    assert known.bound >= best - 1e-9
    again = find(problem, starts, effort)
    assert np.array_equal(again.placement, known.placement)  # type: ignore[arg-type]


def no_model(*_: object, **__: object) -> None:
    raise AssertionError("a model was solved")


def test_a_small_problem_is_closed_long_before_its_time_is_up() -> None:
    """Where a model over all places is small, its bound ends the search."""
    some = [p for p in map(varied_joint, SEEDS) if not p.is_dense and most(p) is not None][:8]
    for problem in some:
        effort = Effort(first=300, deadline=time.perf_counter() + 60.0)
        known = find(problem, [next(placements(problem))], effort, go_on=True)
        assert known.closed
        assert known.value == pytest.approx(most(problem))


def test_dense_traffic_gets_a_bound_from_the_relaxation_and_no_small_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = next(p for p in map(varied_joint, SEEDS) if p.is_dense and most(p) is not None)
    starts = [next(placements(problem))]
    monkeypatch.setattr("formulations.rebalancing.joint.search.solve_kernel", no_model)
    monkeypatch.setattr("formulations.rebalancing.joint.search.collocation_bound", lambda _: np.inf)
    known = find(problem, starts, Effort(first=300))
    assert known.value == pytest.approx(most(problem))
    assert known.relaxed is not None
    assert known.value <= known.bound < np.inf
    monkeypatch.setattr("formulations.rebalancing.joint.search.relax", no_model)
    counted = find(problem, starts, Effort(first=300, relaxing=False))
    assert counted.value == pytest.approx(known.value)
    assert counted.bound == np.inf


def test_dense_is_when_most_pairs_have_a_key_group_with_several_partners() -> None:
    balance = varied_joint(0, num_tasks=7).balance
    one_to_one = np.array([0, 2, 4]), np.array([1, 3, 5])
    assert not JointProblem(balance, *one_to_one, np.ones(3)).is_dense
    half = np.array([0, 0, 3, 5]), np.array([1, 2, 4, 6])
    assert not JointProblem(balance, *half, np.ones(4)).is_dense
    star = np.array([0, 0, 3]), np.array([1, 2, 4])
    assert JointProblem(balance, *star, np.ones(3)).is_dense


def test_too_large_a_model_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formulations.rebalancing.joint.problem.MAX_PLACES", 3)
    with pytest.raises(InvalidInput, match="use joint-search"):
        all_places(varied_joint(0).balance)
    monkeypatch.setattr("formulations.rebalancing.joint.problem.MAX_PLACES", 1000)
    monkeypatch.setattr("formulations.rebalancing.joint.problem.MAX_COLUMNS", 3)
    with pytest.raises(InvalidInput, match="columns"):
        whole(varied_joint(0))


def test_a_model_of_better_plans_alone_bounds_and_closes_small_problems() -> None:
    done = 0
    for problem in map(varied_joint, SEEDS):
        every = list(placements(problem))
        if problem.is_dense or len(every) < 2:
            continue
        for start in (min(every, key=problem.collocated), max(every, key=problem.collocated)):
            effort = Effort(deadline=time.perf_counter() + 600.0)
            finding = joint_search._Finding(problem, [start], effort, False, None)
            finding.take(start)
            finding.prove()
            result = finding.result
            assert result.closed
            assert result.value == pytest.approx(most(problem))
            assert result.bound >= result.value
            assert result.trace[-1][1:] == (result.value, result.bound)
        done += 1
        if done == 6:
            return


def test_an_interrupt_while_better_plans_are_sought_keeps_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = next(p for p in map(varied_joint, SEEDS) if not p.is_dense and most(p))
    start = next(placements(problem))

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(joint_search, "solve_linear", stop)
    monkeypatch.setattr(joint_search, "solve_kernel", lambda *_, **__: (None, np.inf))
    monkeypatch.setattr(joint_search, "search_joint", lambda *_, **__: AnnealingResult())
    monkeypatch.setattr(joint_search, "relax", lambda *_: None)
    effort = Effort(deadline=time.perf_counter() + 600.0)
    found = find(problem, [start], effort, go_on=True)
    assert found.interrupted
    assert np.array_equal(found.placement, start)  # type: ignore[arg-type]
