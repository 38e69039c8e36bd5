"""Time limits hold, incumbents survive, warm starts are kept; no assertion is close."""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from optim.solvers import SOLVERS, process, solve_linear
from optim.solvers.linear_model import TOLERANCE
from tests.optim.solvers.models import balance, hard, knapsacks, solving

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.solvers import LinearSolution
    from optim.solvers.linear_model import LinearModel
    from optim.util.progress import Progress

SLACK = 300.0  # seconds that a slow machine may take: a run away would take hours


def within(
    model: LinearModel, solver: str, told: Callable[[LinearSolution], bool], **keywords: Any
) -> LinearSolution:
    """Solve in two seconds, or more where the solver of a busy machine tells too little."""
    for seconds in (2.0, 10.0, 50.0):
        began = time.perf_counter()
        solution = solve_linear(model, solver, time_limit=seconds, **keywords)
        assert time.perf_counter() - began < seconds + SLACK
        if told(solution):
            break
    return solution


def has_both(solution: LinearSolution) -> bool:
    return solution.objective is not None and solution.bound is not None


def better_than_nothing(solution: LinearSolution) -> bool:
    return has_both(solution) and (solution.objective or 0.0) > 100.0


@cache
def found() -> LinearSolution:
    """Return what HiGHS finds of the hard model in some seconds."""
    return within(hard(), "highs", has_both)


@pytest.mark.parametrize("solver", SOLVERS)
def test_time_limit_holds_with_a_start_and_is_told_from_optimality(solver: str) -> None:
    model = hard()
    seen: list[Progress] = []
    start = np.zeros(model.num_variables)
    solution = within(model, solver, has_both, warm_start=start, progress=seen.append)
    assert solution.warm_start_accepted is True
    # the trap: a solver that was stopped may call its incumbent optimal
    assert solution.termination == "time_limit"
    assert solution.bound is not None
    assert seen
    assert solution.trace
    assert solution.x is not None
    assert model.violation(solution.x) <= TOLERANCE
    assert solution.objective is not None
    assert 100.0 <= solution.objective < solution.bound
    assert solution.trace[-1][1:] == (solution.objective, solution.bound)


def test_highs_stops_once_a_bound_suffices() -> None:
    model = hard()
    known = found()
    assert known.bound is not None
    assert known.objective is not None
    wanted = known.bound + 0.05 * abs(known.bound)
    solution = solve_linear(model, "highs", time_limit=60.0, stop_bound=wanted)
    assert solution.termination == "iteration_limit"
    assert solution.native_status == "Bound suffices"
    assert solution.bound is not None
    assert known.objective - 1e-6 <= solution.bound <= wanted
    # a bound that nobody can reach changes nothing
    beyond = solve_linear(model, "highs", time_limit=1.0, stop_bound=known.objective - 50.0)
    assert beyond.termination == "time_limit"


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_time_at_all_gives_the_warm_start(solver: str) -> None:
    model = knapsacks(12, 3)
    solution = solve_linear(model, solver, time_limit=0.0, warm_start=np.zeros(12))
    assert solution.termination == "time_limit"
    assert solution.objective == 100.0
    assert solution.bound is None


@pytest.mark.parametrize("solver", ["highs", "cbc", "scip"])
def test_warm_start_of_a_mixed_model_is_accepted(solver: str) -> None:
    model = balance(4, 40)
    x = np.zeros((40, 4))
    x[:, 0] = 1.0
    d = model.freeze()
    load = d.matrix.toarray()[40, : 4 * 40 : 4]
    start = np.append(x.ravel(), load.sum() * 0.75)
    assert model.violation(start) <= TOLERANCE
    solution = within(
        model, solver, lambda one: one.warm_start_accepted is not None, warm_start=start
    )
    assert solution.warm_start_accepted is True
    assert solution.objective is not None
    assert solution.objective <= start[-1]


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_warm_start_is_told_and_harmless(solver: str) -> None:
    model = knapsacks(30, 5)
    with_hint = solve_linear(model, solver, time_limit=60, warm_start=np.ones(30))
    without = solve_linear(model, solver, time_limit=60)
    assert with_hint.warm_start_accepted is False
    assert without.warm_start_accepted is None
    assert with_hint.objective == without.objective


@pytest.mark.parametrize("solver", SOLVERS)
def test_answer_is_never_worse_than_the_warm_start(solver: str) -> None:
    best = found()
    assert best.x is not None
    solution = solve_linear(hard(), solver, time_limit=0.7, warm_start=best.x)
    assert solution.objective is not None
    assert best.objective is not None
    assert solution.objective >= best.objective


@pytest.mark.parametrize("solver", SOLVERS)
def test_process_that_hangs_is_killed(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    command = [sys.executable, "-c", deaf]
    module = {"highs": "process", "cp-sat": "process"}.get(solver, solver)
    starter = "guarded_command" if solver == "cbc" else "python_child"
    monkeypatch.setattr(f"optim.solvers.{module}.{starter}", lambda *_: command)
    began = time.perf_counter()
    start = np.zeros(12)
    solution = solve_linear(knapsacks(12, 3), solver, time_limit=0.5, warm_start=start)
    assert time.perf_counter() - began < 0.5 + SLACK
    assert solution.killed
    assert solution.termination == "time_limit"
    assert solution.objective == 100.0
    assert solution.bound is None


@pytest.mark.parametrize(
    ("solver", "endless"),
    [
        ("highs", {"time_limit": 1e9}),
        ("scip", {"limits/time": 1e9}),
        ("cbc", {"seconds": 1e9}),
        ("cp-sat", {"max_time_in_seconds": 1e9}),
    ],
)
def test_being_asked_to_stop_is_a_time_limit_and_keeps_the_incumbent(
    solver: str, endless: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_AFTER", 60.0)
    solution = within(hard(), solver, has_both, options=endless)
    assert solution.termination == "time_limit"
    assert not solution.killed
    assert solution.objective is not None
    assert solution.bound is not None
    assert solution.bound > solution.objective


def test_kill_keeps_what_was_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    # the solver is not asked to stop and has a later limit of its own, so only the kill ends it
    monkeypatch.setattr(process, "ASK_AFTER", 1e9)
    solution = within(hard(), "highs", better_than_nothing, options={"time_limit": 1e9})
    assert solution.killed
    assert solution.objective is not None
    assert solution.objective > 100.0
    assert solution.bound is not None


@pytest.mark.parametrize("solver", SOLVERS)
def test_interrupt_in_a_callback_returns_the_incumbent(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "INTERRUPT_GRACE", 60.0)

    def interrupt(progress: Progress) -> None:
        if progress.incumbent is not None:
            raise KeyboardInterrupt

    solution = solve_linear(hard(), solver, time_limit=600, progress=interrupt)
    assert solution.termination == "interrupted"
    assert solution.objective is not None
    assert solution.seconds < SLACK


@pytest.mark.parametrize("solver", SOLVERS)
def test_solver_dies_with_its_parent(solver: str, tmp_path: Path) -> None:
    with solving(solver, tmp_path) as child:  # killed, it leaves its scratch folder behind
        below = psutil.Process(child.pid).children(recursive=True)
        assert below
    _, alive = psutil.wait_procs(below, timeout=300)
    assert not alive
