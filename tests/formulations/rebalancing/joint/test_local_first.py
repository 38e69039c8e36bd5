"""The joint problem with `local_first` streams, against all placements."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.rebalancing.joint.problem import (
    JointAim,
    JointModel,
    JointProblem,
    all_places,
    build_joint,
    collocation_bound,
    columns_of,
)
from formulations.rebalancing.joint.search import Effort, find, relax
from optim.solvers.inprocess import solve_small_milp
from tests.formulations.rebalancing.joint.cases import local_joint, most, placements
from tests.slowly import slowly


def whole(problem: JointProblem, aim: JointAim | None = None) -> JointModel:
    return build_joint(problem, columns_of(problem, all_places(problem.balance)), aim)


def sent(problem: JointProblem, placement: np.ndarray) -> float:  # type: ignore[type-arg]
    """What stays, sender by sender."""
    pairs = zip(problem.source, problem.target, problem.rate, strict=True)
    inside = sum(rate for u, v, rate in pairs if placement[u] == placement[v])
    for near in problem.local:
        for i in near.sources:
            inside += near.rate * any(placement[i] == placement[j] for j in near.targets)
    return float(inside)


@pytest.mark.seeds(40)
@pytest.mark.parametrize("seed", [*range(60), *slowly(*range(60, 400))])
def test_model_and_bounds_are_brute_force(seed: int) -> None:
    problem = local_joint(seed)
    built, best = whole(problem), most(problem)
    answer = solve_small_milp(built.model)
    if best is None:
        assert str(answer.termination) == "infeasible"
        return
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.x is not None
    assert problem.collocated(built.read(answer.x)) == pytest.approx(best, abs=1e-6)
    relaxed = relax(whole(problem))
    assert relaxed is not None and relaxed.bound >= best - 1e-9
    assert collocation_bound(problem) >= best - 1e-9
    aim = JointAim("left", min_traffic=best)
    least = solve_small_milp(whole(problem, aim).model)
    lefts = [problem.left(p) for p in placements(problem) if problem.collocated(p) >= best - 1e-9]
    assert least.objective == pytest.approx(-min(lefts), abs=1e-6)


@pytest.mark.seeds(10)
@pytest.mark.parametrize("seed", range(25))
def test_every_placement_is_a_solution_with_its_own_value(seed: int) -> None:
    problem = local_joint(seed)
    built = whole(problem)
    for placement in list(placements(problem))[::7]:
        assert problem.collocated(placement) == pytest.approx(sent(problem, placement))
        x = built.write(placement)
        assert x is not None and built.model.violation(x) <= 1e-6
        assert built.model.objective_of(x) == pytest.approx(sent(problem, placement))


@pytest.mark.parametrize("seed", [*range(12), *slowly(*range(12, 60))])
def test_the_search_finds_nothing_above_its_bound(seed: int) -> None:
    problem = local_joint(seed)
    best = most(problem)
    known = find(problem, [problem.balance.home], Effort(seed=seed, first=2_000))
    if best is None:
        assert known.placement is None
        return
    assert known.bound >= best - 1e-9
    if known.placement is not None:
        assert known.value == pytest.approx(sent(problem, known.placement))
