"""The annealing: what it counts while it moves, and what it returns."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.generators import generate
from formulations.rebalancing.balance import search as balance_search
from formulations.rebalancing.balance.search import changing_part
from formulations.rebalancing.joint import kernel as joint_kernel
from formulations.rebalancing.joint import search as joint_search
from formulations.rebalancing.joint.kernel import EXCESS, GAIN, LEFT
from formulations.rebalancing.joint.problem import JointProblem
from formulations.rebalancing.joint.search import (
    fixed_part,
    make_arcs,
    partner_arcs,
    search_joint,
)
from optim import Instance, solve
from optim.referee import Termination
from tests.formulations.rebalancing.joint.cases import placements, varied_joint
from tests.formulations.rebalancing.make import make_problem


def allowed_start(problem: JointProblem) -> np.ndarray[Any, Any]:
    """Return a placement within the allowed sets, whatever else it breaks."""
    mask = problem.balance.may_be_rows(np.arange(problem.balance.num_tasks))
    home = problem.balance.home
    return np.where(mask[np.arange(len(home)), home], home, mask.argmax(axis=1)).astype(np.int64)


def counted(problem: JointProblem, placement: np.ndarray[Any, Any]) -> float:
    """Return by how much a placement exceeds cap and resources, counted plainly."""
    balance, fixed = problem.balance, fixed_part(problem)
    deviation = balance.node_load(placement) - balance.share
    breach = np.where(balance.leaving, deviation, np.abs(deviation))
    excess = float(np.maximum(0.0, breach - problem.cap).sum())
    used = balance.node_usage(placement)
    short = np.maximum(0.0, used - balance.headroom)
    floor = np.where(balance.leaving[:, None], 0.0, balance.floor)
    short += np.where(floor > 0, np.maximum(0.0, floor - used), 0.0)
    return excess + float((short * fixed.unit).sum())


@pytest.mark.parametrize("seed", range(25))
def test_totals_after_many_moves_are_those_counted_from_scratch(seed: int) -> None:
    problem = varied_joint(seed, 8, 4)
    balance = problem.balance
    start = allowed_start(problem)
    fixed, changing = fixed_part(problem), changing_part(problem.balance, start)
    if changing.budget.min(initial=0) < 0 or not balance._on_allowed_nodes(start):
        pytest.skip("the start is above the budget, or a key group may be nowhere")
    best = np.zeros(balance.num_tasks, np.int64)
    place, value, _, total = joint_kernel.anneal(
        fixed, changing, partner_arcs(problem), 5, best, -math.inf, 400,
        joint_kernel.Cooling(1.0, 0.1, 0.0, 1.0), 1.0, False,
    )  # fmt: skip
    assert (balance.spent(place) <= balance.budget).all()
    assert balance._on_allowed_nodes(place)
    assert total[GAIN] == pytest.approx(problem.collocated(place), abs=1e-9)
    assert total[EXCESS] == pytest.approx(counted(problem, place), abs=1e-6)
    assert total[LEFT] == pytest.approx(problem.left(place), abs=1e-9)
    if value > -math.inf:
        assert problem.is_feasible(best)
        assert value == pytest.approx(problem.collocated(best), abs=1e-9)


@pytest.mark.parametrize("seed", range(25))
def test_found_is_feasible_and_repeats(seed: int) -> None:
    problem = varied_joint(seed)
    every = list(placements(problem))
    starts = (allowed_start(problem), *every[:1])
    if changing_part(problem.balance, starts[0]).budget.min(initial=0) < 0:
        starts = starts[1:]
    found = search_joint(problem, starts, seed, rounds=2, first=2_000)
    if not every:
        assert found.placement is None
        return
    assert found.placement is not None
    assert problem.is_feasible(found.placement)
    assert found.value == problem.collocated(found.placement)
    again = search_joint(problem, starts, seed, rounds=2, first=2_000)
    assert np.array_equal(found.placement, again.placement)  # type: ignore[arg-type]


def test_a_plan_is_found_from_starts_that_keep_no_cap() -> None:
    done = 0
    for seed in range(40):
        problem = varied_joint(seed)
        start = allowed_start(problem)
        within = changing_part(problem.balance, start).budget.min(initial=0) >= 0
        if not within or problem.is_feasible(start) or next(placements(problem), None) is None:
            continue
        done += 1
        found = search_joint(problem, (start,), seed, rounds=2, first=2_000)
        assert found.placement is not None
        assert problem.is_feasible(found.placement)
    assert done >= 2


def test_what_ends_outside_the_cap_is_levelled(monkeypatch: pytest.MonkeyPatch) -> None:
    balance = make_problem([2.0, 2.0, 2.0, 2.0], [0, 0, 0, 1], 2, max_distance=0.5)
    ends = np.array([0, 1], np.int64), np.array([2, 3], np.int64)
    problem = JointProblem(balance, *ends, np.array([5.0, 1.0]))
    steps = []

    def stays(*given: Any) -> Any:
        steps.append(given[-4])
        return balance.home, given[-5], given[-2], np.zeros(5)

    monkeypatch.setattr(joint_kernel, "anneal", stays)
    found = search_joint(problem, (balance.home,), rounds=1, first=9)
    assert found.placement is not None
    assert problem.is_feasible(found.placement)
    assert steps == [9] + 2 * [3]


@pytest.mark.slow
def test_mostly_finds_the_optimum_of_small_problems() -> None:
    reached, cases = 0, 0
    for seed in range(40):
        problem = varied_joint(seed)
        every = list(placements(problem))
        if not every:
            continue
        cases += 1
        found = search_joint(problem, (every[0],), seed, rounds=2, first=4_000)
        reached += found.value >= max(problem.collocated(p) for p in every) - 1e-9
    assert cases > 20
    assert reached >= 0.9 * cases


def test_a_clock_that_is_over_leaves_the_search_some_work() -> None:
    reached, cases = 0, 0
    for seed in range(40):
        problem = varied_joint(seed)
        every = list(placements(problem))
        if not every:
            continue
        cases += 1
        worst = min(every, key=problem.collocated)
        found = search_joint(problem, (worst,), seed, deadline=0.0)
        reached += found.value >= max(problem.collocated(p) for p in every) - 1e-9
    assert cases > 20
    assert reached >= 0.8 * cases


def test_emptying_leaving_nodes() -> None:
    done = 0
    for seed in range(60):
        problem = varied_joint(seed)
        every = list(placements(problem))
        if not problem.balance.has_leaving or not every:
            continue
        done += 1
        found = search_joint(problem, (every[0],), seed, rounds=2, first=3_000, for_left=True)
        assert found.placement is not None
        assert found.value == -problem.left(found.placement)
        assert found.value >= -problem.left(every[0])
    assert done > 10


def test_arcs_are_best_first_by_home_and_over_all() -> None:
    problem = varied_joint(3)
    home = problem.balance.home
    task = np.array([0, 1, 0, 2, 0])
    node = (home[task] + np.array([1, 1, 2, 1, 1])) % 4
    arcs = make_arcs(problem, task, node, np.array([1.0, 5.0, 2.0, 4.0, 3.0]))
    assert len(arcs.task) == 4  # one of the two equal moves is kept: the worthier
    assert arcs.task[arcs.best].tolist() == [1, 2, 0, 0]
    for place in range(problem.balance.num_nodes):
        here = arcs.task[arcs.start[place] : arcs.start[place + 1]]
        assert (home[here] == place).all()


def test_interruption_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = varied_joint(2)
    start = next(placements(problem))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(joint_kernel, "anneal", stop)
    found = search_joint(problem, (start,))
    assert found.interrupted
    assert np.array_equal(found.placement, start)  # type: ignore[arg-type]


def test_deadline_and_target_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = varied_joint(2)
    start = next(placements(problem))
    assert search_joint(problem, (start,), deadline=0.0).steps == joint_search.SURE
    assert search_joint(problem, (start,), target=problem.collocated(start)).steps == 0
    assert joint_search.SLICE <= 100_000  # the clock is looked at several times a second


@pytest.mark.parametrize("name", ["hand-8-tasks", "flink-drain"])
def test_a_search_of_few_tasks_ends_by_itself(name: str, repository: Path) -> None:
    """Its bound is not met: the time limit would be all that ends it."""
    instance = Instance.load(repository / "examples" / f"{name}.json")
    result = solve(instance, "joint-search", time_limit=60)
    assert result.gap is not None and result.gap > 0.1
    assert result.termination is Termination.ITERATION_LIMIT


@pytest.mark.parametrize("method", ["joint-search", "joint-milp"])
def test_an_interrupt_while_loads_are_balanced_ends_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = generate("joint", seed=1, nodes=5, key_groups=40)
    within: Any = {"time_limit": 20, "options": {"max_load_distance": 1.0}}

    plain = balance_search.run_portfolio

    def stop(portfolio: balance_search.Portfolio, *more: Any) -> None:
        if portfolio.problem.num_tasks == instance.num_tasks:  # and not in a warm-up
            raise KeyboardInterrupt
        plain(portfolio, *more)

    monkeypatch.setattr(balance_search, "run_portfolio", stop)
    with contextlib.suppress(KeyboardInterrupt):  # where there was no plan yet
        assert solve(instance, method, **within).termination is Termination.INTERRUPTED
