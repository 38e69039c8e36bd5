"""SIGKILL in the midst of traces and reports: the older result stands, the next run ends well."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.tally import TRACEBACK, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TRACE_MOMENTS = ("starting Spark", "reading", "summing up loads", "summing up keys", "up states")
"""What a trace says of its steps; it is killed within a second after that."""

REPORT_MOMENTS = ("reading the rows", "comparing the methods", "drawing")

_JOB = """\
format = "streamplace.job/1"
name = "clicks"
[period]
length = "1 h"
[events.clicks]
path = "events.csv"
time = "time(at)"
[[operator]]
id = "user"
key = "user"
key_groups = 8
state = {state}
[[operator]]
id = "page"
key = "page"
key_groups = 4
[[edge]]
from = "user"
to = "page"
"""


def run(seed: int) -> Tally:
    """Kill traces and reports at every moment."""
    tally = Tally("SIGKILL in the midst of a trace and of a report, an older one in its place")
    rng = random.Random(seed)
    for part, moments in ((kill_traces, TRACE_MOMENTS), (kill_reports, REPORT_MOMENTS)):
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            part(tally, Path(folder), moments, rng)
    return tally


def kill_traces(tally: Tally, base: Path, moments: Sequence[str], rng: random.Random) -> None:
    """Replace a trace by another one, again and again cut off."""
    job, out = base / "job.toml", base / "out"
    lines = [f"2024-01-01T{i % 5:02d}:{i % 60:02d}:00Z,u{i % 97},p{i % 11}" for i in range(2000)]
    (base / "events.csv").write_text("\n".join(["at,user,page", *lines]) + "\n")
    command = ["trace", str(job), "-o", str(out), "--master", "local[1]"]
    states = []
    for state in (5, 7):
        job.write_text(_JOB.format(state=state))
        states.append(lambda state=state: _states(out) == 97.0 * state)
        if state == 5:
            _finish(tally, base, command)
    _again_and_again(tally, base, command, moments, rng, states)
    if left := sorted({path.name for path in out.iterdir()} - _WHOLE):
        tally.fault(f"trace: {left} stay in the folder")


_WHOLE = {"trace.json", *(f"{name}.parquet" for name in ("loads", "rates", "keys", "states"))}


def _states(out: Path) -> float:
    """Return the state of all keys at the end of a trace, all of which is checked."""
    from experiments.traces.folder import TraceFolder

    rows = TraceFolder.open(out).table("states").to_pylist()
    return float(sum({(row["operator"], row["group"]): row["state"] for row in rows}.values()))


def kill_reports(tally: Tally, base: Path, moments: Sequence[str], rng: random.Random) -> None:
    """Write a report over an older one, again and again cut off."""
    from tests.experiments.report.synthetic import plan, proof, write

    folder, page = base / "sweep", base / "report.html"
    write([proof("Q1", "exact", 50.0), plan("Q1", "greedy", 40.0)], folder)
    command = ["report", str(folder), "-o", str(page)]
    _finish(tally, base, command)
    whole = [lambda: page.read_text().rstrip().endswith("</html>")]
    _again_and_again(tally, base, command, moments, rng, whole)
    if left := [path.name for path in base.iterdir() if path.name.startswith(".")]:
        tally.fault(f"report: {left} stay beside the page")


def _again_and_again(
    tally: Tally,
    base: Path,
    command: Sequence[str],
    moments: Sequence[str],
    rng: random.Random,
    good: Sequence[Callable[[], bool]],
) -> None:
    for moment in moments:
        killed = _cut_off(base, command, moment, rng.random())
        tally.tried += 1
        where = f"{command[0]} killed after {moment!r}"
        try:
            if any(check() for check in good):
                tally.tell("killed, a whole result in place" if killed else "ended before")
            else:
                tally.fault(f"{where}: the result is neither the older nor the new")
        except Exception as error:
            tally.fault(f"{where}: {type(error).__name__}: {error}")
    _finish(tally, base, command)
    if not good[-1]():
        tally.fault(f"{command[0]}: the run after the kills has another result")
    if left := [path.name for path in _temporary(base).iterdir()]:
        tally.fault(f"{command[0]}: {left} stay in the folder for temporary files")


def _temporary(base: Path) -> Path:
    folder = base / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


def _start(base: Path, command: Sequence[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(_temporary(base))}
    program = [sys.executable, "-m", "streamplace.cli.main", *command]
    return subprocess.Popen(
        program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip


def _finish(tally: Tally, base: Path, command: Sequence[str]) -> None:
    child = _start(base, command)
    _, said = child.communicate()
    if child.returncode or TRACEBACK.search(said):
        tally.fault(f"{command[0]} ends with {child.returncode}: {said[-300:]!r}")


def _cut_off(base: Path, command: Sequence[str], moment: str, seconds: float) -> bool:
    """Kill a command and all that it started; tell whether it was still running."""
    child = _start(base, command)
    assert child.stderr is not None
    for line in child.stderr:
        if moment in line:
            break
    time.sleep(seconds)
    running = child.poll() is None
    if running:
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    return running
