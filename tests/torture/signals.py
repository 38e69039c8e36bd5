"""Signals at random moments into `solve` by every method, and SIGKILL into what it started."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from experiments.generators import generate
from tests.torture.tally import TRACEBACK, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KINDS = (*SIGNALS, signal.SIGKILL)
_LATEST = 4.0
"""Seconds of computing, not of waiting, so that a busy machine gets as far as an idle one."""
_LONGEST = 40.0
_PATIENCE = 180.0
_AT_ONCE = 2


def cases() -> Iterator[tuple[str, Instance]]:
    """Give instances of every family, large enough that exact methods take a while."""
    yield "cluster", generate("cluster", seed=1, nodes=20, varies=60.0, shifted=60.0)
    yield "joint", generate("joint", seed=1, nodes=10)
    yield "graph", generate("random_graphs", seed=3)
    yield "community", generate("community", seed=1, tasks=100, nodes=6)
    yield "eoa", generate("eoa_random", seed=1, nodes=6, operators=10)
    yield "small", generate("eoa_random", seed=1, nodes=4, operators=6)
    yield "storm", generate("storm_reference", seed=1)


def pairs() -> list[tuple[str, Instance, str]]:
    """Return every method with an instance that suits it, the first where several do."""
    from optim.methods.registry import get_method, method_names
    from optim.methods.suitable import is_suitable

    made = list(cases())
    # of capacities of every node, and of sizes, suitability does not know
    wanted = {
        "throughput-exact": "graph",
        "throughput-milp": "graph",
        "throughput-search": "graph",
        "imc-brute": "small",
    }
    found = []
    for name in method_names():
        method = get_method(name)
        for case, instance in made:
            if case == wanted.get(name, case) and is_suitable(method, instance):
                found.append((case, instance, name))
                break
    return found


def run(seed: int, count: int, seconds: float) -> Tally:
    """Send signals to the methods in a random order, again and again, until the time is up."""
    tally = Tally(
        "a signal (INT, TERM, HUP), or KILL for a process that it started, at a random moment of "
        "`solve`, all methods in turn"
    )
    rng, ends = random.Random(seed), time.monotonic() + seconds
    chosen = pairs()
    rng.shuffle(chosen)
    with (
        tempfile.TemporaryDirectory(prefix="torture-") as base,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        for case, instance, _ in chosen:
            instance.save(Path(base) / f"{case}.json")

        def once(number: int, case: str, method: str, one: signal.Signals, at: float) -> None:
            if time.monotonic() < ends:
                _once(tally, Path(base), number, case, method, one, at)

        tries = [
            pool.submit(once, i, case, name, rng.choice(KINDS), rng.uniform(0.0, _LATEST))
            for i, (case, _, name) in enumerate(islice(cycle(chosen), count))
        ]
        for done in tries:
            done.result()
    return tally


def _once(
    tally: Tally,
    folder: Path,
    number: int,
    case: str,
    method: str,
    one: signal.Signals,
    at: float,
) -> None:
    temporary = folder / f"tmp{number}"
    temporary.mkdir()
    command = [sys.executable, "-m", "experiments.cli.main", "solve", str(folder / f"{case}.json")]
    command += ["--method", method, "--json", "--time-limit", "60"]
    with (
        (temporary.with_suffix(".out")).open("w+") as out,
        (temporary.with_suffix(".err")).open("w+") as err,
    ):
        child = subprocess.Popen(
            command, stdout=out, stderr=err,
            env={**os.environ, "TMPDIR": str(temporary)}, start_new_session=True, preexec_fn=_heard,
        )  # fmt: skip
        _wait(child, at)
        if one == signal.SIGKILL:
            _wait(child, at + 3 * _LATEST, for_one_below=True)
            one = _kill_one_below(child)
        elif child.poll() is None:
            child.send_signal(one)
        tally.tried += 1
        where = f"{method} on {case}, {one.name} after {at:.2f} s"
        try:
            child.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return tally.fault(f"{where}: not ended after {_PATIENCE:g} s")
        out.seek(0)
        err.seek(0)
        _judge(tally, where, child.returncode, out.read(), err.read(), one)
    if left := [path.name for path in temporary.iterdir()]:
        tally.fault(f"{where}: left behind {left}")
    if alive := [p.pid for p in psutil.process_iter() if _session(p.pid) == child.pid]:
        tally.fault(f"{where}: {len(alive)} processes go on")
    return None


def _wait(child: subprocess.Popen[bytes], seconds: float, *, for_one_below: bool = False) -> None:
    """Wait until a process and those that it started have computed for so long, or it has ended.

    Parameters
    ----------
    for_one_below
        Until it has started a process, if that is earlier.
    """
    ends = time.monotonic() + _LONGEST
    while child.poll() is None and time.monotonic() < ends:
        try:
            process = psutil.Process(child.pid)
            family = [process, *process.children(recursive=True)]
            if for_one_below and len(family) > 1:
                return
            if sum(sum(one.cpu_times()[:2]) for one in family) >= seconds:
                return
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.02)


def _kill_one_below(child: subprocess.Popen[bytes]) -> signal.Signals:
    """Kill one of the processes that a process has started; SIGTERM for itself if there is none."""
    try:
        below = psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    for process in below:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
        return signal.SIGKILL
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    return signal.SIGTERM


def _judge(
    tally: Tally, where: str, code: int, answer: str, said: str, number: signal.Signals
) -> None:
    # of an interrupt while it loads `site` the interpreter itself tells, and our program never runs
    if code == -number or "<frozen site>" in said:
        return tally.tell("before the program ran")
    if TRACEBACK.search(said):
        return tally.fault(f"{where}: {said[-300:]!r}")
    if number == signal.SIGKILL:
        return _judge_killed(tally, where, code, answer, said)
    if code not in (0, 3, 4, 128 + number):
        return tally.fault(f"{where}: ends with {code}: {said[-200:]!r}")
    if not answer:
        return tally.tell("before the method ran")
    result = json.loads(answer)
    feasible = bool(result["evaluation"]) and result["evaluation"]["feasible"]
    if code != 128 + number:
        return tally.tell("done before")
    if result["termination"] == "interrupted" or feasible:
        return tally.tell("with a plan" if feasible else "without a plan")
    return tally.fault(f"{where}: {result['termination']} with {code}")


def _judge_killed(tally: Tally, where: str, code: int, answer: str, said: str) -> None:
    """A process below was killed: a checked plan, or an error that tells of it."""
    if code in (0, 3, 4) and answer:
        json.loads(answer)
        return tally.tell("a process below killed, ended well")
    if code in (0, 2, 3) or not said.strip():
        return tally.fault(f"{where}: ends with {code}: {said[-200:]!r}")
    return tally.tell("a process below killed, told so")


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _heard() -> None:
    """Under nohup, or in the background of a plain shell, children would ignore some signals."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_DFL if one != signal.SIGINT else signal.default_int_handler)
