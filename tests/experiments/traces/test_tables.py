"""State never knows of later periods; sums of large amounts stay exact."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.traces.folder import TraceFolder
from experiments.traces.instances import InstanceMaker
from tests.experiments.traces.cases import rows, trace

pytestmark = pytest.mark.usefixtures("spark")


def at(hour: int, user: str, size: str, minute: int = 0) -> tuple[str, str, str, str]:
    return (f"2024-01-01T{hour:02d}:{minute:02d}:00Z", user, "a", size)


def states(found: TraceFolder) -> list[tuple[int, int, float]]:
    return [(r["period"], r["keys"], r["state"]) for r in rows(found, "states")]


def of_size(folder: Path, events: Any, **changes: Any) -> TraceFolder:
    return trace(folder, events, operator__0__state="size", operator__0__key_groups=1, **changes)


@pytest.mark.slow
def test_state_grows_when_it_does_and_not_before(tmp_path: Path) -> None:
    found = of_size(tmp_path, [at(0, "ann", "5"), at(5, "ann", "500")])
    assert states(found) == [(0, 1, 5.0), (5, 1, 500.0)]
    maker = InstanceMaker(found)
    sizes = [maker.instance(p, np.zeros(4)).tasks.state[0] for p in range(6)]
    assert sizes == [5.0] * 5 + [500.0]


@pytest.mark.slow
def test_state_stands_only_where_it_grows(tmp_path: Path) -> None:
    events = [
        at(0, "ann", "5"),
        at(0, "ann", "7", minute=1),
        at(1, "ann", "7"),  # as large as before
        at(2, "ann", "3"),  # smaller: the largest so far holds
        at(3, "bob", "0"),  # a further key without state
        at(4, "ann", "6.5"),
        at(5, "ann", "8"),
        at(5, "bob", "1"),
    ]
    expected = [(0, 1, 7.0), (3, 2, 7.0), (5, 2, 9.0)]
    assert states(of_size(tmp_path, events)) == expected
    assert states(of_size(tmp_path, events[::-1], output="turned")) == expected


@pytest.mark.slow
def test_the_whole_recording_says_what_its_beginning_says(tmp_path: Path) -> None:
    """A trace cut off after a period has the same rows up to there."""
    random = np.random.default_rng(0)
    events = [
        at(int(hour), f"u{random.integers(12)}", str(random.integers(100)), int(minute))
        for hour, minute in zip(random.integers(0, 9, 80), random.integers(0, 60, 80), strict=True)
    ]
    events.append(at(0, "u0", "1"))
    whole = states(of_size(tmp_path, events))
    early = [event for event in events if event[0] < "2024-01-01T04"]
    assert states(of_size(tmp_path, early, output="early")) == [r for r in whole if r[0] < 4]


def test_large_amounts_do_not_overflow(tmp_path: Path) -> None:
    """Bytes: twelve keys of a terabyte, in millionths beyond 64 bits."""
    events = [at(0, f"u{number}", "1000000000000.5") for number in range(12)]
    found = of_size(tmp_path, events, edge__0__rate="size", operator__1__key_groups=1)
    assert states(found) == [(0, 12, 12_000_000_000_006.0)]
    (user,) = [r for r in rows(found, "loads") if r["operator"] == "user"]
    assert user["cost"] == 12_000_000_000_006.0
    assert [r["amount"] for r in rows(found, "rates")] == [12_000_000_000_006.0]


def test_amounts_are_millionths_with_halves_away_from_zero(spark: Any) -> None:
    from pyspark.sql import functions as F

    from experiments.traces.sums import micros

    given = [0.0, 5e-7, 1.5e-6, 2.5e-6, -5e-7, -1.4e-6, 0.49e-6, 1 / 3, 1e-300, 9e12, -9e12]
    given += [4503599627.370497, 9007199254.740993, 9.3e12, 1e300, float("nan"), float("inf")]
    found = spark.createDataFrame([(x,) for x in given], "x double").select(micros(F.col("x")))
    expected: list[int | None] = []
    for amount in given:
        exact = amount * 1_000_000
        whole = None
        if abs(exact) < 2**63:
            whole = int(Decimal(repr(exact)).quantize(Decimal(1), ROUND_HALF_UP))
        expected.append(whole)
    assert [row[0] for row in found.collect()] == expected


def test_sums_beside_a_task_go_to_disk_where_memory_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a task that has 40 MB for 300,000 keys, as beside one that has room for all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from experiments.traces.sums import _partial, _query

    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    count = 300_000
    events = pa.table(
        {
            "fate": pa.array(np.zeros(count), pa.int32()),
            "bucket": pa.array(np.zeros(count), pa.int64()),
            "g0": pa.array(np.arange(count) % 7, pa.int32()),
            "k1": pa.array([f"a key of some length, {number}" for number in range(count)]),
            "v2": pa.array(np.arange(count), pa.int64()),
        }
    )
    query = _query(events.column_names, [("counted", "bucket", "g0", "k1"), ("fate",)])
    found = []
    for memory in (40, 1000):
        files = _partial(query, events.schema, memory)(iter(events.to_batches(10_000)))
        tables = [pq.read_table(pa.BufferReader(f.column(0)[0].as_py())) for f in files]
        found.append(pa.concat_tables(tables).sort_by([("part", "ascending"), ("k1", "ascending")]))
    assert found[0].equals(found[1])
    assert found[0].num_rows == count + 1
    assert found[0]["total_v2"][-1].as_py() == count * (count - 1) // 2
    assert list(tmp_path.iterdir()) == []
