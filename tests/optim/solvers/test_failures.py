"""A solver that fails, or had no time, never makes a false bound, and never takes a plan along."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import scipy.optimize

from optim.solvers import inprocess, solve_linear
from optim.solvers.inprocess import solve_lp, solve_small_milp
from tests.optim.solvers.models import balance, knapsacks

INF = np.inf


def test_cp_sat_without_time_proves_nothing() -> None:
    model = knapsacks(30, 5)
    optimum = solve_linear(model, "highs").objective
    assert optimum is not None
    assert optimum > 100.0
    solution = solve_linear(model, "cp-sat", options={"max_time_in_seconds": 0.0})
    # it reports a bound of 0 where it did not begin: the offset of 100
    assert solution.bound is None or solution.bound >= optimum
    assert solution.termination not in ("optimal", "gap_reached")


def test_scip_may_reach_its_limit_without_a_solution() -> None:
    solution = solve_linear(balance(20, 400), "scip", options={"limits/time": 0.0})
    assert solution.x is None
    assert solution.native_status == "time limit reached"
    assert solution.termination == "time_limit"


def _failing(monkeypatch: pytest.MonkeyPatch, error: BaseException, times: int = 10**9) -> list:
    """Let scipy's HiGHS raise the first so many times; returns the options of all calls."""
    calls: list[dict[str, Any]] = []
    for name in ("milp", "linprog"):
        real = getattr(scipy.optimize, name)

        def failing(*arguments: Any, real: Any = real, **keywords: Any) -> Any:
            calls.append(keywords["options"])
            if len(calls) <= times:
                raise error
            return real(*arguments, **keywords)

        monkeypatch.setattr(scipy.optimize, name, failing)
    return calls


def _lp() -> inprocess.LpSolution:
    one = np.ones(1)
    return solve_lp(one, np.ones((1, 1)), one, one + 1, np.zeros(1), np.full(1, INF))


@pytest.mark.parametrize("error", [ValueError("vector::reserve"), MemoryError(), RuntimeError("x")])
def test_failures_of_highs_are_answers(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, error)
    lp, milp = _lp(), solve_small_milp(knapsacks(6, 2))
    for answer in (lp, milp):
        assert answer.termination == "error"
        assert answer.reason == f"{type(error).__name__}: {error}"
        assert answer.x is None
        assert answer.objective is None
    assert milp.bound is None
    assert lp.row_duals is None


def test_highs_is_asked_again_without_presolve(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _failing(monkeypatch, ValueError("vector::reserve"), times=1)
    answer = _lp()
    assert answer.objective == 1.0
    assert answer.reason == ""
    assert [call.get("presolve", True) for call in calls] == [True, False]


def test_interrupts_are_no_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        _lp()


def test_highs_that_does_not_look_at_the_clock_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scipy.optimize, "milp", lambda *_, **__: time.sleep(30.0))
    answer = solve_small_milp(knapsacks(6, 2), time_limit=0.1)
    assert answer.termination == "time_limit"
    assert answer.x is None
