"""What goes before the solver keeps to its deadline, and to what is at hand on Ctrl-C."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.balance import search as balance_search
from formulations.rebalancing.balance.model import Settings
from formulations.rebalancing.balance.search import best_start, prepare_balance
from optim import solve
from optim.referee import Termination
from tests.formulations.rebalancing.balance.cases import brute_force, random_problem
from tests.heuristics.rebalancing.cases import case


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_bound_and_starts() -> None:
    problem = random_problem(3)
    prepared = prepare_balance(problem, Settings(), [problem.home])
    best = brute_force(problem)
    assert best is not None
    assert prepared.bound <= best[0].distance + 1e-9
    assert len(prepared.starts) == 2
    found = best_start(problem, prepared.starts)
    assert found is not None
    assert problem.levels(found).distance == pytest.approx(best[0].distance)


def test_a_deadline_that_is_past_leaves_what_was_given() -> None:
    problem = random_problem(3, 400, 20)
    late = Settings(deadline=time.perf_counter() - 1.0)
    prepared = prepare_balance(problem, late, [problem.home])
    assert 0.0 <= prepared.bound <= problem.levels(problem.home).distance
    assert best_start(problem, prepared.starts) is not None
    assert not prepared.interrupted


@pytest.mark.parametrize("what", ["forced_moves_bound", "search_balance"])
def test_ctrl_c_keeps_the_best_start(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "search_balance":  # Ctrl-C in the search is the search's to catch
        monkeypatch.setattr("formulations.rebalancing.balance.search.run_portfolio", interrupt)
    else:
        monkeypatch.setattr(balance_search, what, interrupt)
    problem = random_problem(3)
    prepared = prepare_balance(problem, Settings(), [problem.home])
    assert prepared.interrupted
    assert np.array_equal(best_start(problem, prepared.starts), problem.home)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["balance-milp", "albic", "scale-in-first"])
def test_methods_return_a_plan_on_ctrl_c(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = case("000111", [(0, 3, 1.0)], [3.0] * 3 + [1.0] * 3, "aaabbb", nodes=3)
    solve(instance, method)  # compiled
    monkeypatch.setattr(balance_search, "forced_moves_bound", interrupt)
    result = solve(instance, method)
    assert result.termination is Termination.INTERRUPTED
    assert result.plan is not None
