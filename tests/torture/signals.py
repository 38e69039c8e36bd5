"""Signals at random moments into `solve` by every method, and SIGKILL into what it started.

An undisturbed run of each method is measured first, in seconds of computing, so that a busy machine
gets as far as an idle one; moments are drawn within it, until as many as wanted met it at work.
"""

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
_LIMIT = 4.0
"""Seconds that methods are given."""
_WITHIN = (0.05, 0.95)
"""Of the length of an undisturbed run, where signals come."""
_TRIES = 3
"""At most so many for each signal that is to meet a process at work."""
MET = "in all met it at work"
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
    from optim.methods.choose import is_suitable
    from optim.methods.registry import get_method, method_names

    made = list(cases())
    # of sizes suitability does not know
    wanted = {"throughput-exact": "graph", "throughput-milp": "graph", "imc-brute": "small"}
    found = []
    for name in method_names():
        method = get_method(name)
        for case, instance in made:
            if case == wanted.get(name, case) and is_suitable(method, instance):
                found.append((case, instance, name))
                break
    return found


def run(seed: int, count: int, seconds: float) -> Tally:
    """Send signals to the methods in a random order, again and again.

    Parameters
    ----------
    count
        Of signals that are to meet a process at work.
    seconds
        After which no more are sent.
    """
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
        begun = [_Run(Path(base), f"{case}-{method}", case, method) for case, _, method in chosen]
        lengths = list(pool.map(_Run.length, begun))
        number = 0
        while number < _TRIES * count and time.monotonic() < ends:
            drawn = []
            for _ in range(_AT_ONCE):
                which = number % len(chosen)
                case, _, method = chosen[which]
                at = rng.uniform(*_WITHIN) * lengths[which]
                one = _Run(Path(base), str(number), case, method)
                drawn.append((one, rng.choice(KINDS), at, lengths[which]))
                number += 1
            for done in [pool.submit(_once, tally, *each) for each in drawn]:
                done.result()
            if tally.told.get(MET, 0) >= count:
                return tally
    tally.fault(f"{tally.told.get(MET, 0)} signals met a process at work; {count} were to")
    return tally


class _Run:
    """A run of `solve`, with a folder of its own for temporary files."""

    def __init__(self, folder: Path, name: str, case: str, method: str) -> None:
        self.told = f"{method} on {case}"
        self.temporary = folder / f"tmp-{name}"
        self._command = [sys.executable, "-m", "streamplace.cli.main", "solve"]
        self._command += [str(folder / f"{case}.json"), "--method", method, "--json"]
        self._command += ["--time-limit", str(_LIMIT)]

    def start(self) -> subprocess.Popen[bytes]:
        """Begin, with output into files."""
        self.temporary.mkdir()
        with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
            return subprocess.Popen(
                self._command, stdout=out, stderr=err, start_new_session=True, preexec_fn=_heard,
                env={**os.environ, "TMPDIR": str(self.temporary)},
            )  # fmt: skip

    def said(self) -> tuple[str, str]:
        """Return the output, and what else was said."""
        return self._file("out").read_text(), self._file("err").read_text()

    def length(self) -> float:
        """Return how many seconds a run computes that nothing disturbs."""
        child = self.start()
        took = _wait(child, float("inf"))
        child.kill()
        child.wait()
        return took

    def _file(self, ending: str) -> Path:
        return self.temporary.with_suffix(f".{ending}")


def _once(tally: Tally, run: _Run, one: signal.Signals, at: float, length: float) -> None:
    child = run.start()
    _wait(child, at)
    if one == signal.SIGKILL:
        _wait(child, _WITHIN[1] * length, for_one_below=True)
        one = _kill_one_below(child)
    elif child.poll() is None:
        child.send_signal(one)
    tally.tried += 1
    where = f"{run.told}, {one.name} after {at:.2f} s"
    try:
        child.wait(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return tally.fault(f"{where}: not ended after {_PATIENCE:g} s")
    if _judge(tally, where, child.returncode, *run.said(), one):
        tally.tell(MET)
    if left := [path.name for path in run.temporary.iterdir()]:
        tally.fault(f"{where}: left behind {left}")
    if alive := [p.pid for p in psutil.process_iter() if _session(p.pid) == child.pid]:
        tally.fault(f"{where}: {len(alive)} processes go on")
    return None


def _wait(child: subprocess.Popen[bytes], seconds: float, *, for_one_below: bool = False) -> float:
    """Wait until a process and those that it started have computed for so long, or it has ended.

    Parameters
    ----------
    for_one_below
        Until it has started a process, if that is earlier.

    Returns
    -------
    float
        How long it has computed.
    """
    ends, computed = time.monotonic() + _LONGEST, 0.0
    while child.poll() is None and time.monotonic() < ends:
        try:
            process = psutil.Process(child.pid)
            family = [process, *process.children(recursive=True)]
            if for_one_below and len(family) > 1:
                break
            # a process that has ended is counted by the one that started it
            computed = max(computed, sum(sum(one.cpu_times()[:4]) for one in family))
            if computed >= seconds:
                break
        except psutil.NoSuchProcess:
            continue
        time.sleep(0.02)
    return computed


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
) -> bool:
    """Tell what became of a run, and return whether the signal met it at work."""
    # of an interrupt while it loads `site` the interpreter itself tells, and our program never runs
    if code == -number or "<frozen site>" in said:
        tally.tell("before the program ran")
        return False
    if TRACEBACK.search(said):
        tally.fault(f"{where}: {said[-300:]!r}")
    elif number == signal.SIGKILL:
        _judge_killed(tally, where, code, answer, said)
    elif code not in (0, 3, 4, 128 + number):
        tally.fault(f"{where}: ends with {code}: {said[-200:]!r}")
    elif not answer and code == 128 + number:
        tally.tell("before the method ran")
    elif not answer:
        tally.tell("refused before")
        return False
    else:
        result = json.loads(answer)
        feasible = bool(result["evaluation"]) and result["evaluation"]["feasible"]
        if code != 128 + number:
            tally.tell("done before")
            return False
        if result["termination"] == "interrupted" or feasible:
            tally.tell("with a plan" if feasible else "without a plan")
        else:
            tally.fault(f"{where}: {result['termination']} with {code}")
    return True


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
