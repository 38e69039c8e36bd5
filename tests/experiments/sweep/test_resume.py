"""A sweep whose driver is killed goes on where it was: no run lost, none stored done again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from experiments.sweep import read_rows_pandas
from experiments.sweep.store import ResultFolder, list_parts
from tests.experiments.sweep import fakes

RUNS = 400
PAUSE = 0.03
WAIT = 180

SCRIPT = """
import sys
from experiments.sweep import run_sweep
summary = run_sweep(sys.argv[1], sys.argv[2], "local[2]", progress=False, runner=sys.argv[3])
print(summary.total, summary.done, summary.skipped)
"""


def start(base: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, base / "sweep.toml", base / "out", fakes.NAME]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(condition: object, what: str) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"waited {WAIT} s for {what}"
        time.sleep(0.02)


def stored(base: Path) -> set[int]:
    """Return the seeds of the runs that have a row."""
    return set(read_rows_pandas(base / "out")["seed"])


def executions(base: Path) -> Counter[int]:
    """Return how often each run was started."""
    return Counter(int(line) for line in (base / "log").read_text().split())


@pytest.mark.slow
def test_killed_twice_and_taken_up_again(base: Path) -> None:
    (base / "sweep.toml").write_text(
        f"""
        name = "t"
        [instances]
        files = ["tiny.json"]
        [matrix]
        method = [{{method = "marked-{PAUSE}", options = {{log = "{base}/log"}}}}]
        seed = {{from = 0, to = {RUNS - 1}}}
        """
    )
    parts = base / "out" / "parts"
    safe: set[int] = set()
    counted: Counter[int] = Counter()
    for _ in range(2):
        process = start(base)
        before = {part.path for part in list_parts(parts)}

        def new_part(known: set[Path] = before) -> bool:
            return bool({part.path for part in list_parts(parts)} - known)

        wait_for(new_part, "a part")
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 5  # JVM, daemon, workers, guardians, runners
        process.send_signal(signal.SIGKILL)
        process.wait()
        alive = psutil.wait_procs(below, timeout=WAIT)[1]
        assert not alive
        (parts / ".unfinished-torn").write_bytes(b"PAR1")
        now = stored(base)
        assert safe < now < set(range(RUNS))
        safe = now
        counted = executions(base)
    done = start(base)
    out, _ = done.communicate(timeout=WAIT)
    total, finished, skipped = map(int, out.split())
    assert (total, skipped) == (RUNS, len(safe))
    assert finished == RUNS - len(safe)
    rows = read_rows_pandas(base / "out")
    assert len(rows) == rows["run_key"].nunique() == RUNS
    assert set(rows["outcome"]) == {"ok"}
    assert ResultFolder(base / "out").files() == [base / "out" / "rows.parquet"]
    assert not list(parts.iterdir())
    times = executions(base)
    assert set(times) == set(range(RUNS))
    # what was stored at the last kill was not done again, everything else exactly once
    assert all(times[seed] == counted[seed] + (seed not in safe) for seed in range(RUNS))
