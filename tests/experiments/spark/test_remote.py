"""Results at a file system that is not this machine's: whole, or as they were before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.spark.remote import (
    Place,
    connector_remedy,
    hadoop_version,
    input_at,
    is_remote,
    local_path,
    output_at,
)
from experiments.spark.session import spark_session
from experiments.traces.files import remote_entries
from experiments.traces.job import ONE, Events
from optim.errors import InvalidInput
from streamplace.cli.main import main
from tests.experiments.spark.webhdfs import Server, serving
from tests.experiments.traces.cases import EVENTS, write_csv


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session("local[2]", config={"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving(tmp_path / "there") as found:
        yield found


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


ODD = "a b ü%20#&+'[1]{x}"


def write(folder: Path, text: str) -> None:
    (folder / "inner").mkdir(parents=True, exist_ok=True)
    (folder / "inner" / ODD).write_text(text)
    (folder / "marker").write_text(text)


def test_a_result_is_whole_or_as_it_was(tmp_path: Path, spark: Any, server: Server) -> None:
    """With a fault at each call that changes something: nothing is lost, the next call mends."""
    uri = f"{server.uri}/base/{ODD}"
    with output_at(uri) as path:
        write(path, "old")
    there = server.root / "base" / ODD
    old = {f"inner/{ODD}": "old", "marker": "old"}
    new = dict.fromkeys(old, "new")
    assert content(there) == old
    finished = False
    for at in range(40):
        server.changes, server.fail_at = 0, at
        try:
            with output_at(uri) as path:
                write(path, "new")
            finished = server.changes <= at
        except InvalidInput as error:
            assert "told to fail" in str(error)
        server.fail_at = -1
        Place(spark, uri).settle()
        assert content(there) in (old, new)
        assert [entry.name for entry in there.parent.iterdir()] == [ODD]
        if finished:
            break
        Place(spark, uri).put(_made(tmp_path / f"old{at}"))
    assert finished
    assert at > 4
    assert content(there) == new
    with input_at(uri) as path:
        assert content(path) == new
    with pytest.raises(InvalidInput, match="has nothing to be written"), output_at(uri) as path:
        (path / "marker").unlink()
        (path / "inner" / ODD).unlink()
    assert content(there) == new


def _made(folder: Path) -> Path:
    write(folder, "old")
    return folder


def test_a_working_copy_is_taken_up(spark: Any, server: Server, tmp_path: Path) -> None:
    uri = f"{server.uri}/x"
    for text in ("one", "two"):
        with pytest.raises(KeyboardInterrupt), output_at(uri) as path:
            path.mkdir(exist_ok=True)
            (path / text).write_text(text)
            raise KeyboardInterrupt
    with output_at(uri) as path:
        assert content(path) == {"one": "one", "two": "two"}
    assert content(server.root) == {"x/one": "one", "x/two": "two"}
    assert not list((tmp_path / "cache" / "streamplace" / "outputs").glob("*/copy"))


def test_what_is_remote() -> None:
    assert [is_remote(text) for text in ("s3a://b/x", "hdfs:/x", "file:///x", "a:b", "x")] == [
        True, True, False, False, False
    ]  # fmt: skip
    assert local_path("file:///a b%20") == Path("/a b%20")
    assert local_path("-x") == Path("-x")


def test_a_connector_that_is_missing_is_named(spark: Any) -> None:
    from pyspark import __file__ as inside

    version = hadoop_version()
    assert (Path(inside).parent / "jars" / f"hadoop-client-api-{version}.jar").is_file()
    for uri, package in (
        ("s3a://bucket/x", f"org.apache.hadoop:hadoop-aws:{version}"),
        ("abfss://c@a.dfs.core.windows.net/x", f"org.apache.hadoop:hadoop-azure:{version}"),
        ("gs://bucket/x", "com.google.cloud.bigdataoss:gcs-connector:VERSION"),
    ):
        with pytest.raises(InvalidInput) as found:
            Place(spark, uri)
        assert f"add its connector: spark.jars.packages={package}" in str(found.value)
    with pytest.raises(InvalidInput, match="add the connector for nosuch: by spark"):
        Place(spark, "nosuch://bucket/x")
    assert connector_remedy("Connection refused", "s3a://bucket/x") is None
    files = Events(path="s3a://bucket/x.csv", time=ONE, format="csv")
    with pytest.raises(InvalidInput, match=f"cannot be read: .*hadoop-aws:{version}"):
        remote_entries(spark, files, [files.path])


@pytest.mark.slow
def test_trace_and_replay_anywhere(tmp_path: Path, spark: Any, server: Server, capsys: Any) -> None:
    write_csv(tmp_path / "events.csv", EVENTS)
    (tmp_path / "job.toml").write_text(JOB)
    uri = f"{server.uri}/traces/ü b"
    assert main(["trace", str(tmp_path / "job.toml"), "-o", uri, "--instances", "all"]) == 0
    assert uri in capsys.readouterr().out
    there = server.root / "traces" / "ü b"
    names = {path.name for path in there.iterdir()}
    assert names == {
        "trace.json", "instances", "loads.parquet", "rates.parquet", "keys.parquet",
        "states.parquet",
    }  # fmt: skip
    target = f"{server.uri}/replays/x"
    periods = str(there / "instances")
    assert main(["replay", periods, "-o", target, "--policy", "static"]) == 0
    assert (server.root / "replays" / "x" / "rows.csv").stat().st_size > 0
    server.fail_at = server.changes
    assert main(["replay", periods, "-o", target, "--policy", "static"]) == 2


JOB = """
format = "streamplace.job/1"
name = "clicks"
period.length = "1 h"
events.clicks = {path = "events.csv", time = "time(at)"}
operator = [
    {id = "user", key = "user", key_groups = 4, state = 1},
    {id = "page", key = "page", key_groups = 3},
]
edge = [{from = "user", to = "page"}]
cluster = {nodes = 2}
"""


SWEEP = """
name = "t"
time_limit = 30
[instances]
files = ["*.json"]
[matrix]
method = ["top-down", "storm-even"]
seed = {from = 0, to = 1}
"""


@pytest.mark.slow
def test_sweep_and_report_anywhere(
    tmp_path: Path, spark: Any, server: Server, examples: Path
) -> None:
    """A second call finds all rows where the first has put them."""
    (tmp_path / "capsys-q1.json").write_bytes((examples / "capsys-q1.json").read_bytes())
    (tmp_path / "sweep.toml").write_text(SWEEP)
    uri = f"{server.uri}/results/t 1"
    command = ["sweep", str(tmp_path / "sweep.toml"), "-o", uri]
    assert main(command) == 0
    there = server.root / "results" / "t 1"
    first = (there / "rows.parquet").read_bytes()
    assert main(command) == 0
    assert (there / "rows.parquet").read_bytes() == first
    assert main(["report", uri, "--figures", f"{server.uri}/figures"]) == 0
    assert "<html" in (there / "report.html").read_text()
    assert any((there / "report-tables").iterdir())
    assert any((server.root / "figures").glob("*.svg"))
