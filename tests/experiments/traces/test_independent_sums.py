"""A trace of random events against sums that are made without Spark, key groups included."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from experiments.traces.job import Job
from experiments.traces.trace import run_trace
from tests.experiments.traces.cases import job, rows
from tests.slowly import slowly

ZONE = ZoneInfo("America/New_York")
GROUPS = {"user": 7, "page": 5}
_P = (
    11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
    2870177450012600261,
)  # fmt: skip
_ALL = (1 << 64) - 1


def _turned(value: int, by: int) -> int:
    value &= _ALL
    return (value << by | value >> (64 - by)) & _ALL


def group(key: str, groups: int) -> int:
    """Return the key group by xxHash64 (seed 42), from its specification; of short texts."""
    data = key.encode()
    assert len(data) < 32
    found = 42 + _P[4] + len(data)
    while len(data) >= 8:
        found ^= _turned(int.from_bytes(data[:8], "little") * _P[1], 31) * _P[0] & _ALL
        found, data = _turned(found, 27) * _P[0] + _P[3] & _ALL, data[8:]
    if len(data) >= 4:
        found ^= int.from_bytes(data[:4], "little") * _P[0] & _ALL
        found, data = _turned(found, 23) * _P[1] + _P[2] & _ALL, data[4:]
    for byte in data:
        found = _turned(found ^ byte * _P[4], 11) * _P[0] & _ALL
    found &= _ALL
    found = (found ^ found >> 33) * _P[1] & _ALL
    found = (found ^ found >> 29) * _P[2] & _ALL
    found ^= found >> 32
    return (found - (1 << 64) if found >> 63 else found) % groups


def events(seed: int, count: int = 400) -> list[dict[str, Any]]:
    """Return events of eleven days around a change of clocks, some without user or size."""
    rng = np.random.default_rng(seed)
    start = datetime(2013, 3, 6, tzinfo=UTC)
    found = []
    for _ in range(count):
        moment = start + timedelta(seconds=int(rng.integers(0, 11 * 86400)))
        found.append(
            {
                "at": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
                "user": str(rng.choice(["ann", "bob", "Zoë, the third of her name", "x" * 9, ""])),
                "page": f"p{rng.integers(0, 40)}",
                "size": None if rng.random() < 0.1 else float(rng.integers(0, 4000)) / 8,
            }
        )
    return found


def write(folder: Path, kind: str, found: list[dict[str, Any]]) -> None:
    """Write events in two files; an empty user is null."""
    (folder / "in").mkdir()
    for number, part in enumerate((found[::3], found[1::3] + found[2::3])):
        path = folder / "in" / f"{number}.{kind}"
        plain = [{**e, "user": e["user"] or None} for e in part]
        if kind == "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, list(part[0]))
                writer.writeheader()
                writer.writerows(plain)
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(event) + "\n" for event in plain))
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(plain), path)
    with (folder / "pages.csv").open("w") as file:
        file.write("page;weight\n" + "".join(f"p{i};{i / 4}\n" for i in range(30)))


def cost_of(event: dict[str, Any]) -> float:
    """CASE WHEN size >= 250 THEN size / 2 WHEN size IS NOT NULL THEN size + hour ELSE 1 END."""
    hour = datetime.fromisoformat(event["at"]).astimezone(ZONE).hour
    if event["size"] is None:
        return 1.0
    return event["size"] / 2 if event["size"] >= 250 else event["size"] + hour


@pytest.mark.usefixtures("spark")
@pytest.mark.seeds(1)
@pytest.mark.parametrize(("kind", "seed"), [("csv", 0), *slowly(("jsonl", 1), ("parquet", 2))])
def test_a_trace_is_what_python_sums_up(kind: str, seed: int, tmp_path: Path) -> None:
    found = events(seed)
    write(tmp_path, kind, found)
    pages = {"path": "pages.csv", "on": ["page"], "columns": {"weight": "number"}}
    pages["read"] = {"options": {"sep": ";"}}
    cost = "CASE WHEN size >= 250 THEN size / 2 WHEN size IS NOT NULL THEN size + hour(time(at)) "
    document = job(
        period__length="1 day",
        period__timezone="America/New_York",
        events__clicks={
            "path": "in", "time": "to_timestamp(at)", "join": {"info": pages},
            "read": {"format": kind}, "columns": {"size": "number"},
        },
        operator__0={"id": "user", "key": "user", "key_groups": 7, "cost": cost + "ELSE 1 END",
                     "state": "length(page)"},
        operator__1={"id": "page", "key": "'/' || page", "key_groups": 5, "null_key": "group",
                     "cost": "coalesce(info.weight, 0)"},
        edge__0__rate="IF(page IN ('p1', 'p2'), 3, 1)",
    )  # fmt: skip
    trace = run_trace(Job.from_dict(document, tmp_path), tmp_path / "out")

    days = [datetime.fromisoformat(e["at"]).astimezone(ZONE).date() for e in found]
    loads: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])
    rates: dict[Any, float] = defaultdict(float)
    longest: dict[str, dict[int, int]] = defaultdict(dict)
    for day, event in zip(days, found, strict=True):
        period = (day - min(days)).days
        number = int(event["page"][1:])
        target = group(f"/{event['page']}", 5)
        entry = loads[period, "page", target]
        entry[0] += 1
        entry[1] += number / 4 if number < 30 else 0
        if event["user"]:
            source = group(event["user"], 7)
            entry = loads[period, "user", source]
            entry[0] += 1
            entry[1] += cost_of(event)
            rates[period, source, target] += 3 if number in (1, 2) else 1
            seen = longest[event["user"]]
            seen[period] = max(seen.get(period, 0), len(event["page"]))

    mine = {(r["period"], r["operator"], r["group"]): r for r in rows(trace, "loads")}
    assert mine.keys() == loads.keys()
    lengths = [p.seconds for p in trace.manifest.periods]
    assert lengths[(datetime(2013, 3, 10).date() - min(days)).days] == 23 * 3600
    for key, (count, total) in loads.items():
        assert (mine[key]["events"], mine[key]["cost"]) == (count, pytest.approx(total, abs=1e-6))
        assert mine[key]["load"] == pytest.approx(total / lengths[key[0]])
    amounts = {(r["period"], r["source_group"], r["target_group"]): r for r in rows(trace, "rates")}
    assert {key: row["amount"] for key, row in amounts.items()} == dict(rates)
    states: dict[tuple[int, int], float] = {}
    for period in range(len(lengths)):
        for user, seen in longest.items():
            known = [size for p, size in seen.items() if p <= period]
            where = (period, group(user, 7))
            states[where] = states.get(where, 0) + max(known, default=0)
    for row in rows(trace, "states"):
        assert row["state"] == states[row["period"], row["group"]]
    told = trace.manifest.recordings["clicks"]
    assert told["lookups"]["info"]["unmatched"] == sum(int(e["page"][1:]) >= 30 for e in found)
    assert told["without_key"] == {"user": sum(not e["user"] for e in found), "page": 0}
    assert sum(f.events or 0 for f in trace.manifest.files["clicks"]) == len(found)
