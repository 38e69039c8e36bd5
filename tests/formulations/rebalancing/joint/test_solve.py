"""Branch and bound that begins at the root without a start, as large models do; brute force."""

from __future__ import annotations

import pytest

from formulations.rebalancing.joint.milp import JointSettings, solve_joint
from tests.formulations.rebalancing.joint.cases import most, varied_joint


@pytest.mark.parametrize("gap", [None, 0.02, 0.3])
@pytest.mark.parametrize("seed", range(12))
def test_bounding_from_the_root_first(
    seed: int, gap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formulations.rebalancing.joint.milp.ROOT_PLACES", 0)
    problem = varied_joint(seed)
    best = most(problem)
    answer = solve_joint(problem, JointSettings(gap=gap), None, [problem.balance.home])
    if best is None:
        assert answer.placement is None
        return
    assert answer.placement is not None
    assert problem.is_feasible(answer.placement)
    assert answer.value == pytest.approx(problem.collocated(answer.placement))
    assert answer.value <= best + 1e-9
    assert answer.bound >= best - 1e-5
    assert answer.whole_bound >= best - 1e-5
    if gap is None:
        assert answer.value == pytest.approx(best, abs=1e-6)
    assert answer.bound - answer.value <= (gap or 1e-6) * max(answer.bound, 1e-6) + 1e-6
