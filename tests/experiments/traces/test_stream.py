"""A trace that follows: an instance for every period that is over, whatever happens between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.traces.folder import TraceFolder
from experiments.traces.trace import _State, follow, run_trace
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.cli.main import main
from tests.experiments.spark.webhdfs import serving
from tests.experiments.traces.cases import write_csv
from tests.experiments.traces.test_append import (
    described,
    equal,
    random_events,
)

HOUR = "2024-01-01T{:02d}:30:00Z"


def arrive(folder: Path, name: str, hours: Any) -> None:
    """Put a file with an event in each of the hours into a folder, all at once."""
    events = [(HOUR.format(hour), f"u{hour}", "p", "1.5") for hour in hours]
    write_csv(folder.parent / name, events)
    (folder.parent / name).rename(folder / name)


def instances(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "instances").iterdir())}


def test_periods_that_are_over_become_instances(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    days, out = tmp_path / "days", tmp_path / "out"
    days.mkdir()
    path = f"file://{days}"
    job = described(tmp_path, path, period__length="1 h", period__lateness="15 min")
    arrive(days, "a.csv", [0, 1, 1, 3])
    (days / ".b.csv").write_text("at,us")  # is still being written
    with monkeypatch.context() as patch:  # cut off after the tables, before the instances
        patch.setattr(_State, "write_instances", lambda _: None)
        follow(job, out, once=True)
    assert not (out / "instances").exists()
    arrive(days, "b.csv", [3, 5])
    with monkeypatch.context() as patch:  # cut off before the tables are in their place
        patch.setattr(TraceFolder, "finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            follow(job, out, once=True)
    first = instances(out)
    assert list(first) == [f"clicks-p{number:06d}.json" for number in range(3)]
    assert [Instance.load(out / "instances" / name).total_load.any() for name in first] == [
        True,
        True,
        False,
    ]
    found = follow(job, out, once=True)
    (days / ".b.csv").unlink()
    equal(found, run_trace(job, tmp_path / "whole"))
    assert len(instances(out)) == 5 == found.manifest.num_over
    arrive(days, "c.csv", [2, 5])  # an event of a period that is over
    found = follow(job, out, once=True)
    counts = found.manifest.recordings["clicks"]
    assert (counts["counted"], counts["late_dropped"]) == (7, 1)
    assert instances(out).items() >= first.items()
    results = tmp_path / "replay"
    assert main(["replay", str(out / "instances"), "-o", str(results), "--policy", "static"]) == 0
    assert "p000004" in (results / "rows.csv").read_text()


def test_what_only_a_whole_recording_tells_is_refused(tmp_path: Path) -> None:
    worst = described(tmp_path, "days", cluster__placement="worst")
    with pytest.raises(InvalidInput, match="placement: 'worst' is that of the whole recording"):
        follow(worst, tmp_path / "out")
    assert main(["trace", "job.toml", "--follow", "--append"]) == 2
    assert main(["trace", "job.toml", "--once"]) == 2


@pytest.mark.slow
def test_from_uris_to_a_uri(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Recordings and the trace lie on a server; a call of it that fails costs nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(tmp_path / "there") as server:
        days = server.root / "in a"
        days.mkdir()
        there, out = server.root / "out ü", f"{server.uri}/out ü"
        (tmp_path / "job.toml").write_text(JOB)
        events = f"clicks={server.uri}/in a"
        command = ["trace", str(tmp_path / "job.toml"), "-o", out, "--events", events]
        command += ["--follow", "--once", "--spark-config", "x.y=z"]
        assert main(command) == 2
        assert "hold no event so far" in capsys.readouterr().err
        arrive(days, "a.csv", [0, 1, 1, 3])
        assert main(command) == 0
        assert len(instances(there)) == 3
        names = {path.name for path in there.iterdir()}
        arrive(days, "b.csv", [3, 5])
        server.changes, server.fail_at = 0, 2
        assert main(command) == 2
        assert TraceFolder.open(there).manifest.num_over == 3
        server.fail_at = -1
        shutil.rmtree(tmp_path / "cache")  # as on another machine
        assert main(command) == 0
        assert {path.name for path in there.iterdir()} == names
        assert [path.name for path in server.root.iterdir() if path.name[0] == "."] == []
        found = TraceFolder.open(there)
        assert len(instances(there)) == found.manifest.num_over == 5
        assert found.manifest.recordings["clicks"]["counted"] == 6
        assert [e.path for e in found.manifest.files["clicks"]] == [
            f"{server.uri}/in a/{name}.csv" for name in "ab"
        ]


JOB = """
format = "streamplace.job/1"
name = "clicks"
period = {length = "1 h", lateness = "15 min"}
cluster = {nodes = 2, capacity = 100}
events.clicks = {path = "events.csv", format = "csv", time = "time(at)"}
operator = [
    {id = "user", key = "user", key_groups = 4, state = 1},
    {id = "page", key = "page", key_groups = 3},
]
edge = [{from = "user", to = "page", rate = 2}]
"""


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path, spark: Any) -> None:
    """Killed by SIGKILL at any moment, nothing is lost and nothing counts twice."""
    days, out = tmp_path / "days", tmp_path / "out"
    days.mkdir()
    script = (
        "import sys, pathlib\n"
        "from tests.experiments.traces.test_stream import described, follow\n"
        "base = pathlib.Path(sys.argv[1])\n"
        "follow(described(base, 'days'), base / 'out', every=0.2)\n"
    )
    for number in range(8):
        write_csv(tmp_path / "x.csv", random_events(number, 30, 3))
        (tmp_path / "x.csv").rename(days / f"{number}.csv")
        process = subprocess.Popen([sys.executable, "-c", script, tmp_path], start_new_session=True)
        time.sleep(6 + 1.7 * number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = follow(described(tmp_path, "days"), out, once=True)
    assert len(found.manifest.files["clicks"]) == 8
    counts = found.manifest.recordings["clicks"]
    assert counts["events"] == 240
    assert len(instances(out)) == found.manifest.num_over
