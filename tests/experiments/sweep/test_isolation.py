"""Whatever a call does to its process, the caller gets an answer, and nothing is left running."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from experiments.sweep import isolation
from experiments.sweep.isolation import IsolatedCaller, Outcome, Stopped
from optim.util import progress

GIB = 1 << 30
state: dict[str, int] = {"calls": 0}


def work(payload: Any) -> Any:
    """Call what is handed over, and count."""
    state["calls"] += 1
    function, *arguments = payload
    return function(*arguments)


def count() -> int:
    return state["calls"]


def fail() -> None:
    raise ValueError("boom")


def segfault() -> None:
    ctypes.string_at(0)


def kill_myself(number: int) -> None:
    os.kill(os.getpid(), number)


def fill() -> None:
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))


def start_and_wait(pidfile: str) -> None:
    """Start a process in a session of its own, and one below that, and wait for ever."""
    script = "sleep 3600 & echo $! $$ > " + pidfile + ".new; mv " + pidfile + ".new " + pidfile
    subprocess.run(["sh", "-c", script + "; wait"], start_new_session=True, check=False)


def start_and_leave(pidfile: str) -> None:
    process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    Path(pidfile).write_text(str(process.pid))
    os._exit(4)


def talk_and_die() -> None:
    sys.stderr.write("cannot go on\n")
    os.abort()


def die_of_bad_alloc() -> None:
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


@pytest.fixture
def caller() -> Iterator[IsolatedCaller]:
    with_child = IsolatedCaller(work)
    yield with_child
    with_child.close()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_values_come_back_and_the_child_stays_warm(caller: IsolatedCaller) -> None:
    assert [caller.call((count,), 60).value for _ in range(3)] == [1, 2, 3]
    assert caller.generation == 1
    assert state["calls"] == 0
    large = b"x" * (20 << 20)
    assert caller.call((bytes.upper, large), 60).value == large.upper()


def test_an_exception_is_an_error_with_its_text(caller: IsolatedCaller) -> None:
    answer = caller.call((fail,), 60)
    assert answer.outcome is Outcome.ERROR
    assert answer.error is not None
    assert answer.error.startswith("ValueError: boom\n")
    assert "in fail" in answer.error
    assert caller.call((count,), 60).value == 2
    assert caller.generation == 1


def test_an_order_to_exit_and_an_answer_that_does_not_pickle_are_errors(
    caller: IsolatedCaller,
) -> None:
    assert "SystemExit: 3" in str(caller.call((sys.exit, 3), 60).error)
    assert caller.call((lambda_factory,), 60).outcome is Outcome.ERROR
    assert caller.generation == 1


def lambda_factory() -> Any:
    return lambda: None


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ((os._exit, 1), 1, "exit code 1"),
        ((os._exit, 0), 0, "exit code 0"),
        ((segfault,), -signal.SIGSEGV, "SIGSEGV"),
        ((kill_myself, signal.SIGKILL), -signal.SIGKILL, "SIGKILL"),
        ((kill_myself, 40), -40, "signal 40"),
        ((talk_and_die,), -signal.SIGABRT, "cannot go on"),
    ],
)
def test_a_process_that_ends_is_a_crash(
    caller: IsolatedCaller, call: tuple[Any, ...], code: int, words: str
) -> None:
    answer = caller.call(call, 60)
    assert (answer.outcome, answer.exit_code) == (Outcome.CRASH, code)
    assert words in str(answer.error)
    assert caller.call((count,), 60).value == 1
    assert caller.generation == 2


def test_a_segfault_tells_where(caller: IsolatedCaller) -> None:
    assert "in segfault" in str(caller.call((segfault,), 60).error)


def test_what_an_earlier_call_wrote_is_not_blamed_on_this_one(caller: IsolatedCaller) -> None:
    caller.call((print, "innocent"), 60)
    assert "innocent" not in str(caller.call((os._exit, 1), 60).error)


def test_the_deadline_ends_a_sleeper(caller: IsolatedCaller) -> None:
    answer = caller.call((time.sleep, 3600), 0.3)
    assert (answer.outcome, answer.error) == (Outcome.TIMEOUT, "ran longer than 0.3 s")


def test_the_deadline_takes_every_descendant_along(caller: IsolatedCaller, tmp_path: Path) -> None:
    pidfile = tmp_path / "pids"
    answer = caller.call((start_and_wait, str(pidfile)), 5)
    assert answer.outcome is Outcome.TIMEOUT
    pids = [int(pid) for pid in pidfile.read_text().split()]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


def test_a_crash_leaves_no_orphan(caller: IsolatedCaller, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    assert caller.call((start_and_leave, str(pidfile)), 60).exit_code == 4
    caller.close()
    assert not alive(int(pidfile.read_text()))


def test_one_huge_request_is_refused(caller: IsolatedCaller) -> None:
    answer = caller.call((bytearray, 8 * GIB), 60, GIB)
    assert answer.outcome is Outcome.MEMORY
    assert "MemoryError" in str(answer.error)


def test_memory_filled_bit_by_bit_is_noticed(caller: IsolatedCaller) -> None:
    answer = caller.call((fill,), 60, GIB // 4)
    assert answer.outcome is Outcome.MEMORY
    assert "more than 256 MiB" in str(answer.error)


def test_a_solver_that_dies_of_bad_alloc_is_out_of_memory(caller: IsolatedCaller) -> None:
    assert caller.call((die_of_bad_alloc,), 60, GIB).outcome is Outcome.MEMORY
    assert caller.call((die_of_bad_alloc,), 60).outcome is Outcome.CRASH


def test_the_cap_is_one_run_s_and_not_the_next_one_s(caller: IsolatedCaller) -> None:
    assert caller.call((bytearray, 8 * GIB), 60, GIB).outcome is Outcome.MEMORY
    assert caller.call((len, bytearray(3)), 60).value == 3
    assert caller.call((bytearray, 1000), 60, GIB).outcome is Outcome.OK


def test_a_call_is_given_up_on_order() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    caller = IsolatedCaller(work, lambda: True)
    with pytest.raises(Stopped):
        caller.call((time.sleep, 3600), 3600)
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def test_a_killed_caller_leaves_nothing_behind(tmp_path: Path) -> None:
    pidfile = tmp_path / "pids"
    script = (
        "from experiments.sweep.isolation import IsolatedCaller\n"
        "from tests.experiments.sweep.test_isolation import start_and_wait, work\n"
        f"IsolatedCaller(work).call((start_and_wait, {str(pidfile)!r}), 3600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        assert wait_for(pidfile.exists)
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 4  # guardian, runner, sh, sleep
    finally:
        process.kill()
        process.wait()
    assert wait_for(lambda: not any(alive(p.pid) for p in below))


def test_the_child_holds_no_descriptor_of_its_caller(caller: IsolatedCaller) -> None:
    """A socket that lives on in the child would never be seen to close by its peer."""
    import socket

    mine, peer = socket.socketpair()
    with mine, peer:
        caller.prepare()
        mine.close()
        peer.settimeout(10)
        assert peer.recv(1) == b""


def test_the_child_s_input_is_empty_and_its_output_is_kept_apart(
    caller: IsolatedCaller, capfd: pytest.CaptureFixture[str]
) -> None:
    assert caller.call((sys.stdin.read,), 60).outcome in (Outcome.OK, Outcome.ERROR)
    assert caller.call((read_input,), 60).value == b""
    caller.call((print, "chatter"), 60)
    caller.close()
    assert capfd.readouterr() == ("", "")


def read_input() -> bytes:
    return os.read(0, 10)


def test_a_zip_that_the_caller_has_open_can_be_read(
    caller: IsolatedCaller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding metadata in a zip keeps the zip open, and that descriptor is not handed down."""
    import importlib.metadata
    import zipfile

    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        for name, version in (("zipped", "1.5"), ("other", "2.0")):
            text = f"Name: {name}\nVersion: {version}\n"
            archive.writestr(f"{name}-{version}.dist-info/METADATA", text)
            archive.writestr(f"{name}.bin", os.urandom(1 << 20))  # more than any buffer holds
    monkeypatch.syspath_prepend(str(tmp_path / "p.zip"))
    assert importlib.metadata.version("other") == "2.0"
    answer = caller.call((importlib.metadata.version, "zipped"), 60)
    assert (answer.error, answer.value) == (None, "1.5")


def compile_for(seconds: float, *then: float) -> str:
    """Compile, as kernels do; kernels are compiled within others, and one waits for another."""
    for pause in (seconds, *then):
        progress.begin()
        progress.begin()
        with progress.waiting():
            time.sleep(pause)
        progress.end()
        progress.end()
        with progress.waiting():
            time.sleep(pause)
    return "done"


def compile_and_sleep(seconds: float) -> None:
    compile_for(seconds)
    time.sleep(3600)


def test_the_deadline_stands_still_while_kernels_are_compiled(caller: IsolatedCaller) -> None:
    answer = caller.call((compile_for, 1.2, 1.2), 2.0)
    assert (answer.outcome, answer.value, answer.error) == (Outcome.OK, "done", None)
    assert caller.generation == 1
    answer = caller.call((compile_and_sleep, 0.1), 0.5)
    assert (answer.outcome, answer.error) == (Outcome.TIMEOUT, "ran longer than 0.5 s")


def test_compiling_for_ever_ends_too(
    caller: IsolatedCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "MOST_COMPILING", 0.5)
    answer = caller.call((compile_for, 0.4, 3600.0), 60.0)
    assert (answer.outcome, answer.error) == (Outcome.TIMEOUT, "compiled longer than 0.5 s")
