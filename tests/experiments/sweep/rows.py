"""Complete rows for tests of the storage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from experiments.sweep.row import complete_row

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_row(key: str = "k", seconds: float = 0.0, **columns: Any) -> dict[str, Any]:
    """Return a complete row; `seconds` is when it started."""
    return complete_row(
        {
            "run_key": key,
            "sweep": "t",
            "factors": {"method": "m"},
            "instance": "tiny",
            "instance_sha256": "0" * 64,
            "num_tasks": 4,
            "num_nodes": 2,
            "method": "m",
            "method_label": "m",
            "family": "storm",
            "kind": "heuristic",
            "seed": 0,
            "threads": 1,
            "host": "here",
            "versions": "{}",
            "started_at": START + timedelta(seconds=seconds),
            "outcome": "ok",
            **columns,
        }
    )
