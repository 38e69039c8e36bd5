"""What became of the events of a recording, and the values that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from experiments.traces.gathering import FATE
from experiments.traces.preparing import COUNTED, FATES
from experiments.traces.reading import MARK, bad_rows, check_bad, path_of
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row

    from experiments.traces.gathering import Gathered
    from experiments.traces.job import Job
    from experiments.traces.recordings import Expression

_SUMMED = ("events", "known", "known_state")


def judge(job: Job, gathered: Gathered) -> dict[str, Any]:
    """Count what became of the events, and refuse values that cannot be.

    Returns
    -------
    dict
        ``events``, one count for each of `FATES`, ``first`` and ``last`` bucket (or None), the
        ``latest`` moment in microseconds, where it is kept, the events of all ``files``, and for
        every operator the events without key, cost and state, for every edge those without rate;
        for every joined table its rows, those dropped, and the events without a match.

    Raises
    ------
    InvalidInput
        A value is not of its declared type, or a cost, rate or state is negative.
    """
    fates, files = _fates(gathered)
    told = _Told(gathered)
    _check_amounts(job, gathered, told)
    counted = [row for fate, row in fates.items() if fate in COUNTED]
    moments = [row["most"] for row in counted if row["most"] is not None]
    operators = {job.operators[o].id: kind for o, kind in gathered.operators.items()}
    stateful = {kind for kind, _, of_state in _amounts(job, gathered) if of_state}
    edges = {_arrow(job, e): kind for e, kind in gathered.edges.items()}
    lookups = zip(gathered.prepared.lookups.items(), gathered.lookups.values(), strict=True)
    return {
        "events": sum(row["events"] for row in fates.values()),
        **{name: fates[i]["events"] if i in fates else 0 for i, name in enumerate(FATES)},
        "first": min((row["first"] for row in counted), default=None),
        "last": max((row["last"] for row in counted), default=None),
        "latest": max(moments, default=None),
        "without_key": {n: told.count(k, "events", reached=False) for n, k in operators.items()},
        "without_cost": {n: told.unknown(k, "known") for n, k in operators.items()},
        "without_state": {
            n: told.unknown(k, "known_state") for n, k in operators.items() if k in stateful
        },
        "without_rate": {n: told.unknown(k, "known") for n, k in edges.items()},
        "lookups": {
            name: {**rows, "unmatched": told.count(k, "events")} for (name, rows), k in lookups
        },
        "files": files,
    }


def _fates(gathered: Gathered) -> tuple[dict[int, Row], dict[str, int]]:
    """Return what the events of each fate come to, and the events of each file.

    Raises
    ------
    InvalidInput
        A row is wrong, or a value is not of its declared type.
    """
    rows = gathered.sums.where(F.col("kind") == FATE)
    check_bad(gathered.prepared.rows, rows.sparkSession, bad_rows(rows, "key", "events"))
    fates = rows.groupBy("a").agg(
        F.sum("events").alias("events"),
        F.min("bucket").alias("first"),
        F.max("bucket").alias("last"),
        F.max("most").alias("most"),
    )
    file = F.element_at(F.split("key", MARK), -1)
    by_file = rows.groupBy(file.alias("file")).agg(F.sum("events").alias("events")).collect()
    files = {path_of(row["file"]): row["events"] for row in by_file if row["file"]}
    return {row["a"]: row for row in fates.collect()}, files


class _Told:
    """What the rows of each kind come to: those with key groups, and those without."""

    def __init__(self, gathered: Gathered) -> None:
        rows = gathered.sums.where(F.col("kind") != FATE).groupBy("kind", "reached")
        sums = (F.sum(name).alias(name) for name in _SUMMED)
        least = (F.min(name).alias(name) for name in ("least", "least_state"))
        self._rows = {(r["kind"], r["reached"]): r for r in rows.agg(*sums, *least).collect()}

    def count(self, kind: int, name: str, *, reached: bool = True) -> int:
        row = self._rows.get((kind, reached))
        return 0 if row is None else row[name]

    def unknown(self, kind: int, known: str) -> int:
        """Return how many events reach their key groups with no amount or state."""
        return self.count(kind, "events") - self.count(kind, known)

    def least(self, kind: int, name: str) -> int | None:
        found = [row[name] for (k, _), row in self._rows.items() if k == kind]
        return min((value for value in found if value is not None), default=None)


def _amounts(job: Job, gathered: Gathered) -> Iterator[tuple[int, Expression, bool]]:
    """Give the expressions whose values must not be negative: kind, expression, of state or not."""
    for o, kind in gathered.operators.items():
        entry = job.operators[o].input_of(gathered.prepared.events.name)
        assert entry is not None
        yield kind, entry.cost, False
        if entry.state is not None:
            yield kind, entry.state, True
    for e, kind in gathered.edges.items():
        yield kind, job.edges[e].rate, False


def _check_amounts(job: Job, gathered: Gathered, told: _Told) -> None:
    problems = []
    for kind, amount, of_state in _amounts(job, gathered):
        least = told.least(kind, "least_state" if of_state else "least")
        if least is not None and least < 0:
            reason = f"is negative for some events (down to {least / 1e6:g})"
            problems.append(Problem(amount.where, amount.text, reason))
    if problems:
        raise InvalidInput(problems)


def _arrow(job: Job, edge: int) -> str:
    return f"{job.edges[edge].source} → {job.edges[edge].target}"
