"""The committed instance that can be solved by hand, by everything that proves."""

from __future__ import annotations

from pathlib import Path

import pytest

from optim import Instance, solve

RUNS = [("imc-brute", None)] + [
    (method, solver)
    for method in ("imc-exact", "imc-milp")
    for solver in ("highs", "scip", "cbc", "cp-sat")
]


@pytest.mark.parametrize(("method", "solver"), RUNS)
def test_fourteen_of_twenty_four(method: str, solver: str | None, examples: Path) -> None:
    made = Instance.load(examples / "hand-8-tasks.json")
    result = solve(made, method, solver=solver)
    assert result.termination == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(14.0)
    assert result.bound == pytest.approx(14.0, rel=1e-6)
    assert result.evaluation is not None
    assert result.evaluation.total_traffic == pytest.approx(24.0)
    assert result.plan is not None
    where = result.plan.assignment
    assert [where[f"read/{i}"] for i in range(2)] == ["n1", "n1"]
    assert [where[f"sink/{i}"] for i in range(2)] == ["n2", "n2"]
    assert sorted(where[f"parse/{i}"] for i in range(4)) == ["n1", "n1", "n1", "n2"]
