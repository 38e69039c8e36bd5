"""Signals at random moments into `solve` by every method."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from experiments.generators import generate
from tests.torture.tally import TRACEBACK, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LATEST = 6.0
_PATIENCE = 180.0


def cases() -> Iterator[tuple[str, Instance]]:
    """Give instances of every family, large enough that exact methods take a while."""
    yield "cluster", generate("cluster", seed=1, nodes=20, varies=60.0, shifted=60.0)
    yield "joint", generate("joint", seed=1, nodes=10)
    yield "graph", generate("random_graphs", seed=3)
    yield "community", generate("community", seed=1, tasks=100, nodes=6)
    yield "eoa", generate("eoa_random", seed=1, nodes=6, operators=10)
    yield "storm", generate("storm_reference", seed=1)


def pairs() -> list[tuple[str, Instance, str]]:
    """Return every method with an instance that suits it, the first where several do."""
    from optim.methods.registry import get_method, method_names
    from optim.methods.suitable import is_suitable

    made = list(cases())
    found = []
    for name in method_names():
        method = get_method(name)
        for case, instance in made:
            if is_suitable(method, instance):
                found.append((case, instance, name))
                break
    return found


def run(seed: int, seconds: float) -> Tally:
    """Send signals until the time is up, to the methods in a random order again and again."""
    tally = Tally("a signal (INT, TERM, HUP) at a random moment of `solve`, all methods in turn")
    rng, ends = random.Random(seed), time.monotonic() + seconds
    chosen = pairs()
    rng.shuffle(chosen)
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        for case, instance, _ in chosen:
            instance.save(Path(folder) / f"{case}.json")
        while time.monotonic() < ends:
            for case, _, method in chosen:
                if time.monotonic() > ends:
                    break
                _once(tally, Path(folder), case, method, rng)
    return tally


def _once(tally: Tally, folder: Path, case: str, method: str, rng: random.Random) -> None:
    number, moment = rng.choice(SIGNALS), rng.uniform(0.0, _LATEST)
    temporary = folder / f"tmp{tally.tried}"
    temporary.mkdir()
    command = [sys.executable, "-m", "experiments.cli.main", "solve", str(folder / f"{case}.json")]
    command += ["--method", method, "--json", "--time-limit", "60"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)}, start_new_session=True, preexec_fn=_heard,
    )  # fmt: skip
    tally.tried += 1
    where = f"{method} on {case}, {number.name} after {moment:.2f} s"
    try:
        child.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        child.send_signal(number)
    try:
        answer, said = child.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return tally.fault(f"{where}: not ended after {_PATIENCE:g} s")
    _judge(tally, where, child.returncode, answer, said, number)
    if left := [path.name for path in temporary.iterdir()]:
        tally.fault(f"{where}: left behind {left}")
    if alive := [p.pid for p in psutil.process_iter() if _session(p.pid) == child.pid]:
        tally.fault(f"{where}: {len(alive)} processes go on")
    return None


def _judge(
    tally: Tally, where: str, code: int, answer: str, said: str, number: signal.Signals
) -> None:
    if code == -number:
        return tally.tell("before the program ran")
    if TRACEBACK.search(said):
        return tally.fault(f"{where}: {said[-300:]!r}")
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


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _heard() -> None:
    """Under nohup, or in the background of a plain shell, children would ignore some signals."""
    for one in SIGNALS:
        signal.signal(one, signal.SIG_DFL if one != signal.SIGINT else signal.default_int_handler)
