"""A finished trace made without Spark, of three hours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.traces.folder import Manifest, TraceFolder
from experiments.traces.job import Job
from tests.experiments.traces.cases import job


def made(folder: Path, tables: dict[str, list[dict[str, Any]]], **changes: Any) -> TraceFolder:
    """Write a trace: three hours, 4 groups of user, 3 of page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from experiments.traces.instances import Calendar, Length

    description = Job.from_dict(job(**changes), folder)
    calendar = Calendar(Length.parse("1 h"))
    trace = TraceFolder.create(folder / "trace")
    for name, rows in tables.items():
        target = folder / "trace" / ".new" / f"{name}.parquet"
        target.mkdir()
        pq.write_table(pa.Table.from_pylist(rows), target / "part-0.parquet")
    told = {"clicks": {"events": 0, "lookups": {}, "without_key": {}, "without_cost": {}}}
    fates = ("no_time", "outside", "late_dropped", "late_moved", "late_kept")
    told["clicks"].update(dict.fromkeys(fates, 0))  # type: ignore[arg-type]
    periods = [calendar.period(number, number) for number in range(3)]
    found = trace.finish(Manifest.of(description, periods, told), 0.0)
    trace.clean()
    return found


def load(period: int, operator: str, group: int, cost: float) -> dict[str, Any]:
    return {
        "period": period,
        "operator": operator,
        "group": group,
        "events": 1,
        "cost": cost,
        "load": cost / 3600,
    }


def rate(period: int, source: int, target: int, amount: float) -> dict[str, Any]:
    return {
        "period": period,
        "source": "user",
        "target": "page",
        "source_group": source,
        "target_group": target,
        "amount": amount,
        "rate": amount / 3600,
    }


TABLES = {
    "loads": [load(0, "user", 3, 36.0), load(0, "page", 1, 72.0), load(2, "user", 0, 36.0)],
    "rates": [rate(0, 3, 1, 36.0), rate(2, 0, 1, 72.0), rate(2, 3, 1, 36.0)],
    "states": [
        {"period": 0, "operator": "user", "group": 3, "keys": 1, "state": 10.0},
        {"period": 1, "operator": "user", "group": 0, "keys": 1, "state": 5.0},
        {"period": 2, "operator": "user", "group": 3, "keys": 2, "state": 20.0},
    ],
}
