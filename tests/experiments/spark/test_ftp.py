"""Results at an FTP server, which Hadoop renames within a folder only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.spark.remote import input_at, output_at, place_for_spark
from experiments.spark.session import spark_session
from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.spark.ftp import Server, serving
from tests.experiments.traces.cases import EVENTS, job, write_csv
from tests.small_spark import SMALL


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(tmp_path / "there") as found:
        yield found


@contextlib.contextmanager
def told(server: Server) -> Iterator[None]:
    """A session that knows the server, also where one is there from other tests."""
    with spark_session("local[1]", config=SMALL) as spark:
        hadoop = spark.sparkContext._jsc.hadoopConfiguration()
        for name, value in server.settings.items():
            hadoop.set(name.removeprefix("spark.hadoop."), value)
        try:
            yield
        finally:
            for name in server.settings:
                hadoop.unset(name.removeprefix("spark.hadoop."))


def test_a_result_replaces_an_older_one(server: Server) -> None:
    uri = f"{server.uri}/base/a b"
    with told(server):
        for text in ("old", "newer"):
            with output_at(uri) as path:
                (path / "in").mkdir(parents=True, exist_ok=True)
                (path / "in" / "c d").write_text(text)
            assert (server.root / "base" / "a b" / "in" / "c d").read_text() == text
        assert [path.name for path in (server.root / "base").iterdir()] == ["a b"]
        with input_at(uri) as path:
            assert (path / "in" / "c d").read_text() == "newer"


@pytest.mark.slow
def test_a_trace_is_made_here_and_put_there(server: Server, tmp_path: Path) -> None:
    write_csv(tmp_path / "events.csv", EVENTS)
    described = Job.from_dict(job(), tmp_path)
    uri = f"{server.uri}/trace"
    with told(server), output_at(uri) as path:
        run_trace(described, path, "local[1]", uri=uri)
    mine = run_trace(described, tmp_path / "here", "local[1]")
    there = TraceFolder.open(server.root / "trace")
    for name in ("loads", "rates", "keys", "states"):
        assert there.table(name).to_pylist() == mine.table(name).to_pylist()


def test_workers_of_a_cluster_are_refused(server: Server) -> None:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://here:7077"))
    with pytest.raises(InvalidInput, match=r"renames within a folder only .*--master local"):
        place_for_spark(spark, f"{server.uri}/trace")
