"""HiGHS inside this process may fail at any call: no plan is lost by it, and nothing proved."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from experiments.generators import generate
from formulations.rebalancing.balance.model import prune_moves
from formulations.rebalancing.joint.problem import all_places, build_joint, columns_of
from formulations.rebalancing.joint.search import relax, solve_kernel
from optim import solve
from tests.formulations.rebalancing.balance.cases import varied_problem
from tests.formulations.rebalancing.joint.cases import varied_joint
from tests.slowly import slowly

REPOSITORY = Path(__file__).resolve().parents[2]

CASES = (
    ("balance-search", "joint", {"nodes": 10}),
    ("balance-milp", "joint", {"nodes": 10}),
    ("scale-in-first", "joint", {"nodes": 10}),
    ("imc-search", "pipeline", {"seed": 0, "tasks": 40, "nodes": 5}),
    ("imc-exact", "community", {"tasks": 100, "nodes": 6}),
)


def _let_highs_fail(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of scipy's functions that were called, and failed."""
    calls: list[str] = []
    for name in ("milp", "linprog"):

        def failing(*_: Any, name: str = name, **__: Any) -> Any:
            calls.append(name)
            raise ValueError("vector::reserve")

        monkeypatch.setattr(scipy.optimize, name, failing)
    return calls


@pytest.mark.parametrize(
    ("method", "kind", "options"), [CASES[1], *CASES[3:], *slowly(CASES[0], CASES[2])]
)
def test_no_plan_is_lost_and_nothing_proved_by_a_failure(
    method: str, kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = generate(kind, **{"seed": 1, **options})
    seconds = 60.0 if method == "imc-search" else 1.0  # it ends by itself, after some patterns
    plain = solve(instance, method, time_limit=seconds).objective
    assert plain is not None
    assert plain.value is not None
    calls = _let_highs_fail(monkeypatch)
    result = solve(instance, method, time_limit=seconds)
    assert calls
    assert result.feasible
    if result.bound is not None and result.bound_of == "problem":
        sign = 1.0 if plain.sense == "min" else -1.0
        assert sign * (result.bound - plain.value) <= 1e-3 * max(1.0, abs(plain.value))


def test_patterns_prove_nothing_without_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generate("community", seed=1, tasks=60, nodes=6)
    assert _let_highs_fail(monkeypatch) == []
    result = solve(instance, "imc-exact", time_limit=1.0)
    assert result.feasible
    assert result.termination != "optimal"


def test_steps_that_need_highs_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = varied_joint(0)
    built = build_joint(joint, columns_of(joint, all_places(joint.balance)))
    balance = varied_problem(3, num_tasks=5, num_nodes=4)
    target = 0.5 * balance.levels(balance.home).distance
    assert relax(built) is not None
    assert prune_moves(balance, target, balance.home) is not None
    _let_highs_fail(monkeypatch)
    assert relax(built) is None
    assert solve_kernel(built, np.arange(5), 5, gap=0.0, nodes=10) == (None, math.inf)
    assert prune_moves(balance, target, balance.home) is None


def test_highs_is_called_in_one_place() -> None:
    found = []
    for folder in ("optim", "formulations", "heuristics", "experiments"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            text = path.read_text()
            if "scipy" in text and _calls_highs(ast.parse(text)):
                found.append(path.relative_to(REPOSITORY).as_posix())
    assert found == ["optim/solvers/inprocess.py"]


def _calls_highs(tree: ast.Module) -> bool:
    names = {"milp", "linprog"}
    for node in ast.walk(tree):
        imported = isinstance(node, ast.ImportFrom) and node.module == "scipy.optimize"
        if imported and names & {alias.name for alias in node.names}:  # type: ignore[attr-defined]
            return True
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
    return False
