"""A full disk is told as one, with where it is, and not as a fault of the recording."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from experiments.traces import files as failures
from experiments.traces import trace as tracing
from experiments.traces.files import full_disk, is_full, unpack
from experiments.traces.folder import TablesLost
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import EVENTS, write_csv
from tests.experiments.traces.test_append import described

FULL = "java.io.IOException: No space left on device"


def test_what_is_full() -> None:
    assert is_full(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert is_full(f"Job aborted\nCaused by: {FULL}")
    assert not is_full(OSError(errno.ENOENT, "No such file"))


def test_the_disk_with_the_least_room_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"/out": 2_000_000, "/tmp": 500_000}
    real = shutil.disk_usage
    monkeypatch.setattr(failures, "_free_bytes", lambda path: free[str(path)])
    error = full_disk({"--output": Path("/out"), "TMPDIR": Path("/tmp")})
    assert str(error) == (
        "TMPDIR: '/tmp' is on a disk that is full, or was just now: 0.5 MB are free (make room "
        "there, or let TMPDIR name a folder on another disk)"
    )
    assert error.exit_code == 2
    monkeypatch.undo()
    assert failures._free_bytes(tmp_path) <= real(tmp_path).total
    assert failures._free_bytes(tmp_path / "none") == 1 << 62


@pytest.mark.parametrize("where", ["reading", "writing"])
def test_a_disk_that_fills_while_a_recording_is_traced(
    where: str, tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException

    def fails(*_: Any) -> None:
        if where == "reading":
            raise PySparkException(f"Job aborted.\nCaused by: {FULL}")
        raise TablesLost(f"loads cannot be summed up: {FULL}")

    monkeypatch.setattr(tracing, "sum_up" if where == "reading" else "_write", fails)
    write_csv(tmp_path / "events.csv", EVENTS)
    with pytest.raises(InvalidInput, match=r"(--output|TMPDIR): .* MB are free \(make room"):
        run_trace(described(tmp_path, "events.csv"), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_fills_while_an_archive_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("a.csv", "x\n")

    def fails(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("experiments.traces.files._unpack_member", fails)
    with pytest.raises(InvalidInput, match=r"--scratch: .* is on a disk that is full"):
        unpack(tmp_path / "a.zip", tmp_path / "there", ".csv")
    assert list((tmp_path / "there").iterdir()) == []
