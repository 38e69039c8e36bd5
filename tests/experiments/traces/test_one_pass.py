"""A recording is read once, whatever is told of it; what looks wrong in it is looked at again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.traces.job import Job
from experiments.traces.rows import _HEAD
from experiments.traces.trace import run_trace
from optim.errors import InvalidInput
from tests.experiments.traces.cases import COLUMNS, EVENTS, by_operator, job, write_csv, write_jsonl
from tests.slowly import slowly

MANY = [event for event in EVENTS for _ in range(400)]
_A_FEW = 3
"""Lines that Spark reads of a header before a recording."""
_OF_OTHERS = 300
"""Rows of the table that is looked up, and of sums, which are read more than once."""


def executions(spark: Any) -> list[int]:
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(i).executionId() for i in range(found.size())]


def rows_read(spark: Any, path: str, since: int) -> int:
    """Return how many rows Spark has read from files of a name, by its own count."""
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    read: dict[int, int] = {}
    for number in executions(spark):
        if number <= since:
            continue
        counted = store.executionMetrics(number)
        nodes = store.planGraph(number).allNodes()
        for node in (nodes.apply(i) for i in range(nodes.size())):
            metrics = node.metrics()
            for metric in (metrics.apply(i) for i in range(metrics.size())):
                id_ = metric.accumulatorId()
                rows = metric.name() == "number of output rows" and counted.contains(id_)
                if rows and node.name().startswith("Scan ") and path in node.desc():
                    read[id_] = int(counted.apply(id_).replace(",", ""))
    return sum(read.values())


def records_read(spark: Any, since: int) -> int:
    """Return how many records the tasks of later stages have read from files, of any kind."""
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    stages = spark._jsc.sc().statusStore()
    return sum(stages.lastStageAttempt(s).inputRecords() for s in range(since, next_stage(spark)))


def next_stage(spark: Any) -> int:
    """Return the number that the next stage will have."""
    return int(spark._jsc.sc().dagScheduler().nextStageId())


@pytest.mark.parametrize("kind", ["csv", "jsonl", *slowly("parquet", "multiline")])
def test_a_recording_is_read_once(kind: str, tmp_path: Path, spark: Any) -> None:
    """Beside its first lines, which tell what its columns are; by the rows that Spark counts."""
    ending = "csv" if kind == "multiline" else kind
    write_csv(tmp_path / "events.csv", MANY)
    write_jsonl(tmp_path / "events.jsonl", MANY)
    if kind == "parquet":
        frame = spark.createDataFrame(MANY, list(COLUMNS))
        frame = frame.withColumn("size", frame["size"].cast("double"))
        frame.write.parquet((tmp_path / "events.parquet").as_uri())
    write_csv(tmp_path / "info.csv", [(f"p{i}", "3") for i in range(50)], ("page", "weight"))
    joined = {"info": {"path": "info.csv", "on": ["page"]}}
    changes: dict[str, Any] = {"events__clicks__path": f"events.{ending}"}
    changes["events__clicks__multiline"] = kind == "multiline"
    document = job(**changes, events__clicks__join=joined, operator__1__key="info.weight")
    before, stage = max(executions(spark), default=-1), next_stage(spark)
    run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")
    head = _HEAD if kind == "jsonl" else 0
    assert len(MANY) <= records_read(spark, stage) <= len(MANY) + head + _OF_OTHERS
    if kind != "jsonl":  # where Spark does not count by files
        assert len(MANY) <= rows_read(spark, f"events.{ending}", before) <= len(MANY) + _A_FEW
    assert rows_read(spark, "info.csv", before) <= 50 + _A_FEW


@pytest.mark.slow
def test_a_replacement_character_is_a_key_like_others(tmp_path: Path, spark: Any) -> None:
    """Spark puts it for bytes that are no text, but it may stand in a file, too."""
    events = [*EVENTS, ("2024-01-01T00:40:00Z", "\ufffd", "a", "1")]
    write_csv(tmp_path / "events.csv", events)
    path = "events.csv"
    description = Job.from_dict(job(), tmp_path)
    assert by_operator(run_trace(description, tmp_path / "out"))[(0, "user")] == (4, 8.5)
    whole = (tmp_path / path).read_bytes()
    (tmp_path / path).write_bytes(whole.replace("\ufffd".encode(), b"\xfc"))
    with pytest.raises(InvalidInput, match=r"clicks\.path: .*holds bytes that are no utf-8"):
        run_trace(description, tmp_path / "out")


@pytest.mark.slow
def test_every_file_has_a_header_and_what_repeats_it_is_an_event(
    tmp_path: Path, spark: Any
) -> None:
    days = tmp_path / "days"
    days.mkdir()
    for name in ("a.csv", "b.csv"):
        write_csv(days / name, EVENTS)
    (days / "c.csv").write_text("\n" + (days / "a.csv").read_text() * 2)
    (days / "empty.csv").write_text("")
    document = job(events__clicks__path="days", events__clicks__format="csv")
    document["events"]["clicks"].pop("columns")
    document["operator"][0]["cost"] = "number(size)"
    counts = run_trace(Job.from_dict(document, tmp_path), tmp_path / "out").manifest.recordings
    assert (counts["clicks"]["events"], counts["clicks"]["no_time"]) == (21, 1)
