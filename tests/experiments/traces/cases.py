"""A job of two operators, and its trace."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from experiments.traces.folder import TraceFolder
from experiments.traces.job import Job
from experiments.traces.trace import run_trace

COLUMNS = ("at", "user", "page", "size")
EVENTS: list[tuple[str | None, str | None, str | None, str | None]] = [
    ("2024-01-01T00:10:00Z", "ann", "a", "1"),
    ("2024-01-01T00:20:00Z", "bob", "a", "2.5"),
    ("2024-01-01T00:30:00Z", "ann", "b", "4"),
    ("2024-01-01T02:00:00Z", "cat", "a", "8"),
    ("2024-01-01T02:59:59.999999Z", None, "b", "16"),
]
"""Two hours with events, one without between them; the last event has no user."""


def job(**changes: Any) -> dict[str, Any]:
    """Return a description: user → page, one period an hour; ``a__b`` changes ``a.b``."""
    document: dict[str, Any] = {
        "format": "streamplace.job/1",
        "name": "clicks",
        "period": {"length": "1 h"},
        "events": {
            "clicks": {
                "path": "events.csv",
                "time": "time(at)",
                "columns": {"size": "number"},
            }
        },
        "operator": [
            {"id": "user", "key": "user", "key_groups": 4, "cost": "size", "state": 10},
            {"id": "page", "key": "page", "key_groups": 3},
        ],
        "edge": [{"from": "user", "to": "page", "rate": 2}],
        "cluster": {"nodes": 2, "capacity": 100},
    }
    for path, value in changes.items():
        table: Any = document
        *parents, last = path.split("__")
        for parent in parents:
            table = table[int(parent)] if parent.isdigit() else table.setdefault(parent, {})
        table[int(last) if last.isdigit() else last] = value
    return document


def write_csv(path: Path, events: Any, columns: Any = COLUMNS, null: str = "") -> None:
    """Write events with a header."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[null if value is None else value for value in row] for row in events])
    path.write_text(buffer.getvalue())


def write_jsonl(path: Path, events: Any, columns: Any = COLUMNS) -> None:
    """Write one object a line; sizes as numbers, missing values left out."""
    lines = []
    for row in events:
        entry = {k: v for k, v in zip(columns, row, strict=True) if v is not None}
        if "size" in entry:
            entry["size"] = float(entry["size"])
        lines.append(json.dumps(entry))
    path.write_text("\n".join(lines) + "\n")


def trace(folder: Path, events: Any = EVENTS, output: str = "out", **changes: Any) -> TraceFolder:
    """Write events as CSV and trace them."""
    write_csv(folder / "events.csv", events)
    return run_trace(Job.from_dict(job(**changes), folder), folder / output)


def rows(found: TraceFolder, name: str) -> list[dict[str, Any]]:
    """Return a table's rows."""
    return found.table(name).to_pylist()  # type: ignore[no-any-return]


def by_operator(found: TraceFolder) -> dict[tuple[int, str], tuple[int, float]]:
    """Return events and cost by period and operator, key groups summed up."""
    sums: dict[tuple[int, str], tuple[int, float]] = {}
    for row in rows(found, "loads"):
        where = (row["period"], row["operator"])
        events, cost = sums.get(where, (0, 0.0))
        sums[where] = (events + row["events"], cost + row["cost"])
    return sums
