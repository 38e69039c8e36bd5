"""A run that a signal ends tells the best plan so far, with the exit code of that signal."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.generators import generate
from streamplace.present.streams import interrupts_heard, stopped_by_signals
from tests.command import with_a_plan
from tests.slowly import slowly

if TYPE_CHECKING:
    from pathlib import Path


def _heard() -> None:
    """Under nohup, or in the background of a plain shell, children would ignore some signals."""
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), *slowly(("SIGHUP", 129))]
)
def test_a_signal_ends_with_the_best_plan(name: str, code: int, tmp_path: Path) -> None:
    made = generate("cluster", seed=1, nodes=20, varies=60.0, shifted=60.0)
    made.save(tmp_path / "made.json")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "streamplace.cli.main", "solve", str(tmp_path / "made.json")]
    command += ["--method", "balance-milp", "--json", "--option", "form=full"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        preexec_fn=_heard,
    )
    with_a_plan(process)
    process.send_signal(getattr(signal, name))
    answer, said = process.communicate(timeout=600)
    assert process.returncode == code, said
    result = json.loads(answer)
    assert result["termination"] == "interrupted"
    assert result["evaluation"]["feasible"]
    assert not list((tmp_path / "tmp").iterdir())


def test_an_interrupt_that_passed_through_exec_changes_no_exit_code(tmp_path: Path) -> None:
    module = (
        "from streamplace.present.streams import leave\ntry:\n    exec('raise KeyboardInterrupt')\n"
    )
    module += "except KeyboardInterrupt:\n    print('told')\nleave(143)\n"
    (tmp_path / "through_exec.py").write_text(module)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "through_exec"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (143, "told\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_an_import_would_swallow_is_heard_after_it(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"swallows_{number.name.lower()}"
    (tmp_path / f"{name}.py").write_text(
        f"import signal\ntry:\n    signal.raise_signal({int(number)})\nexcept BaseException:\n"
        "    pass\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plain: Any = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}[number]
    before = signal.signal(number, plain)
    module = None
    try:
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupts_heard(),
            stopped_by_signals() as received,
        ):
            module = importlib.import_module(name)
            time.sleep(20.0)
            pytest.fail("the signal was lost")
        assert signal.getsignal(number) is plain
    finally:
        signal.signal(number, before)
    assert module is not None
    assert module.whole
    assert received.signal == (None if number == signal.SIGINT else number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_callback_from_c_would_forget_is_heard_after_it(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    called = []

    @ctypes.CFUNCTYPE(None)
    def callback() -> None:
        called.append(number)
        signal.raise_signal(number)

    plain: Any = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}[number]
    before, hook = signal.signal(number, plain), sys.unraisablehook
    try:
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupts_heard(),
            stopped_by_signals() as received,
        ):
            callback()
            time.sleep(20.0)
            pytest.fail("the signal was lost")
    finally:
        signal.signal(number, before)
    assert called == [number]
    assert received.signal == (None if number == signal.SIGINT else number)
    assert sys.unraisablehook is hook
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("module", "owner", "name"),
    [
        ("executionengine", "ExecutionEngine", "_raw_object_cache_notify"),
        ("ffi", "ObjectRef", "close"),
        ("ffi", "ObjectRef", "detach"),
    ],
)
def test_a_signal_while_compiled_code_is_handed_over_or_freed_waits_until_it_is(
    module: str, owner: str, name: str
) -> None:
    binding = importlib.import_module(f"llvmlite.binding.{module}")
    source = f"def {name}():\n    raise_signal()\n    done.append(True)\n"
    assert hasattr(getattr(binding, owner), name)
    done: list[bool] = []
    given: Any = {"done": done, "raise_signal": lambda: signal.raise_signal(signal.SIGINT)}
    exec(compile(source, binding.__file__ or "", "exec"), given)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt), interrupts_heard():
            given[name]()
            time.sleep(20.0)
            pytest.fail("the signal was lost")
    finally:
        signal.signal(signal.SIGINT, before)
    assert done


def test_a_signal_while_numpy_compares_rows_waits_until_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numpy._core import _internal

    plain = _internal._promote_fields  # numpy keeps it: another code, not another function
    copy = FunctionType(plain.__code__, plain.__globals__)
    source = "def _promote_fields(one, two):\n    from signal import SIGINT, raise_signal\n"
    source += "    raise_signal(SIGINT)\n    return plainly(one, two)\n"
    made: dict[str, Any] = {}
    exec(compile(source, _internal.__file__, "exec"), made)
    monkeypatch.setattr(_internal, "plainly", copy, raising=False)
    monkeypatch.setattr(plain, "__code__", made["_promote_fields"].__code__)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    found = None
    try:
        with contextlib.suppress(KeyboardInterrupt), interrupts_heard():
            found = np.unique(np.array([[1.0, 2.0], [1.0, 2.0]]), axis=0)
            time.sleep(20.0)
            pytest.fail("the signal was lost")
    finally:
        signal.signal(signal.SIGINT, before)
    assert found is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_at_any_moment_of_the_start_is_heard(name: str, tmp_path: Path) -> None:
    made = generate("cluster", seed=1, nodes=20, varies=60.0, shifted=60.0)
    made.save(tmp_path / "made.json")
    number = getattr(signal, name)
    command = [sys.executable, "-m", "streamplace.cli.main", "solve", str(tmp_path / "made.json")]
    command += ["--method", "balance-milp", "--json", "-q", "--option", "form=full"]
    for step in range(30):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heard
        )
        time.sleep(step * 0.05)
        process.send_signal(number)
        answer, said = process.communicate(timeout=600)
        # before the program runs, the system ends it
        assert process.returncode in (-number, 128 + number), (step, said)
        assert not answer or json.loads(answer)["termination"] == "interrupted"
