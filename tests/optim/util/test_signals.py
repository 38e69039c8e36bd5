"""Ctrl-C and SIGTERM: the best vector is kept, no folder and no process stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from optim.methods.registry import Request
from optim.solvers import SOLVERS, process, solve_linear
from optim.solvers.inprocess import Overdue, interruptible, solve_small_milp
from optim.solvers.process import scratch_folder
from optim.util.process import Held, Repeated, sigterm_as_interrupt
from tests.optim.solvers.models import hard, knapsacks, solving

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_signal_returns_the_incumbent_and_leaves_nothing(
    solver: str, number: int, tmp_path: Path
) -> None:
    with solving(solver, tmp_path) as child:
        below = psutil.Process(child.pid).children(recursive=True)
        if number == signal.SIGINT:
            os.killpg(child.pid, number)  # as a terminal does: to the whole group
        else:
            child.send_signal(number)
        rest = child.stdout.read()
        assert child.wait(600) == 0
    end = rest.strip().splitlines()[-1].split()
    assert end[:2] == ["END", "interrupted"]
    assert 100.0 < float(end[2]) < float(end[3])
    assert list(tmp_path.iterdir()) == []
    _, alive = psutil.wait_procs(below, timeout=300)
    assert not alive


def _as_first_act(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let every solver be a Python program instead."""
    command = [sys.executable, "-I", "-S", "-c", program]
    for module in ("process", "scip"):
        monkeypatch.setattr(f"optim.solvers.{module}.python_child", lambda *_: command)
    monkeypatch.setattr("optim.solvers.cbc.guarded_command", lambda *_: command)


@pytest.mark.parametrize("solver", SOLVERS)
def test_child_that_is_stopped_before_it_said_anything_is_no_crash(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "KILL_AFTER", 60.0)
    # dies of the interrupt, or of the byte on its stdin
    _as_first_act(monkeypatch, "import os; os.read(0, 1); os._exit(3)")
    solution = solve_linear(knapsacks(12, 3), solver, time_limit=0.2, warm_start=np.zeros(12))
    assert solution.termination == "time_limit"
    assert solution.objective == 100.0
    assert solution.bound is None
    assert not solution.killed


@pytest.mark.parametrize("number", BOTH)
@pytest.mark.parametrize("solver", SOLVERS)
def test_deaf_child_is_killed_after_an_interrupt(
    solver: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    deaf += f"os.kill({os.getpid()}, {int(number)}); time.sleep(600)"
    _as_first_act(monkeypatch, deaf)
    monkeypatch.setattr(process, "INTERRUPT_GRACE", 0.1)
    solution = solve_linear(knapsacks(12, 3), solver, time_limit=60.0, warm_start=np.zeros(12))
    assert solution.termination == "interrupted"
    assert solution.killed
    assert solution.objective == 100.0


@pytest.mark.parametrize("number", BOTH)
def test_signal_while_the_folder_is_made_leaves_none(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tempfile.mkdtemp

    def made(**keywords: Any) -> str:
        folder = real(dir=tmp_path, **keywords)
        signal.raise_signal(number)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    with sigterm_as_interrupt(), pytest.raises(KeyboardInterrupt), scratch_folder():
        pytest.fail("the signal was lost")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", BOTH)
def test_signal_while_the_child_is_started_ends_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr("optim.solvers.process.subprocess.Popen", Interrupted)
    solution = solve_linear(hard(), "highs", time_limit=60.0, warm_start=np.zeros(300))
    assert solution.termination == "interrupted"
    assert solution.objective is not None
    assert started[0].returncode is not None


def test_handlers_are_put_back_and_run_after_what_was_held() -> None:
    got: list[int] = []
    before = {number: signal.getsignal(number) for number in BOTH}
    try:
        signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
        own = signal.getsignal(signal.SIGTERM)
        with sigterm_as_interrupt(), Held() as held:  # a program's own handler stays its own
            signal.raise_signal(signal.SIGTERM)
            assert got == []
            held.deliver()
            assert got == [signal.SIGTERM]
            signal.raise_signal(signal.SIGTERM)
        assert got == [signal.SIGTERM] * 2
        assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGINT) is before[signal.SIGINT]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_interrupt_ends_highs_in_this_process() -> None:
    model = hard()
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        solve_small_milp(model, time_limit=600.0)
    assert time.perf_counter() - began < 300.0  # HiGHS itself would go on for 600
    assert solve_small_milp(knapsacks(6, 2)).termination == "optimal"


def test_calls_that_overrun_are_given_up() -> None:
    with pytest.raises(Overdue):
        interruptible(lambda: time.sleep(5.0), 0.05)
    assert interruptible(lambda: threading.current_thread().name) == "solver calls"
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 / 0)


def test_other_threads_call_directly_and_forks_start_afresh() -> None:
    names: list[str] = []
    thread = threading.Thread(
        target=lambda: names.append(interruptible(lambda: threading.current_thread().name)),
        name="another",
    )
    thread.start()
    thread.join()
    assert names == ["another"]
    interruptible(lambda: None)  # the thread that waits now does not exist in the fork
    pid = os.fork()
    if pid == 0:
        os._exit(interruptible(lambda: 7, 20.0))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_what_a_block_swallows_is_raised_at_its_end() -> None:
    begun = []
    with pytest.raises(KeyboardInterrupt), Repeated():
        for _ in range(2):
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            begun.append(True)
    assert len(begun) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_block_passes_on_is_raised_once() -> None:
    with contextlib.suppress(KeyboardInterrupt), Repeated():
        signal.raise_signal(signal.SIGINT)
    with Repeated():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_a_warm_up_swallows_is_raised_after_it() -> None:
    def swallows() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    request: Any = None  # of which nothing is read before
    with pytest.raises(KeyboardInterrupt):
        Request.warmed(request, swallows)
