"""The tables of a trace, put together by DuckDB from the sums that Spark's tasks wrote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from experiments.traces.folder import TablesLost
from experiments.traces.rows import MARK, check_bad, path_of
from experiments.traces.sums import COUNTED, FATES, MICRO
from optim.errors import InvalidInput, Problem, first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from experiments.traces.job import Job
    from experiments.traces.periods import Period
    from experiments.traces.sums import Kind, Sums

_MEMORY = "1GB"
"""Of DuckDB; what does not fit goes to the folder of the unfinished trace."""

_WIDE = "DECIMAL(38,0)"
_STORED = "DECIMAL(30,0)"
_PAIR = ("source", "target", "source_group", "target_group")
_GROUP = ("operator", '"group"')
_KEY = (*_GROUP, "key")


class Tables:
    """Answers questions about the sums of recordings, and writes the tables of a trace.

    Parameters
    ----------
    job
        The description.
    scratch
        Folder for what does not fit into memory.
    """

    def __init__(self, job: Job, scratch: Path) -> None:
        import duckdb

        self.job = job
        self.recordings: list[Sums] = []
        self._older: list[str] = []
        self._first = self._shift = 0
        self._con = duckdb.connect(config={"memory_limit": _MEMORY})
        self._con.execute("SET temp_directory = ?", [str(scratch)])
        self._con.execute("SET enable_progress_bar = false")

    def close(self) -> None:
        """Give up the database."""
        self._con.close()

    def add(self, sums: Sums, path: Path) -> None:
        """Take the sums of a recording."""
        self._open(f"sums{len(self.recordings)}", sums.unpacked(path))
        self.recordings.append(sums)

    def extend(self, name: str, path: Path) -> None:
        """Have a table of an older trace be part of the new one."""
        self._open(f"older_{name}", sorted(path.glob("*.parquet")))
        self._older.append(name)

    def set_periods(self, periods: Sequence[Period], first: int, shift: int) -> None:
        """Set all periods, the bucket of the first, and what those of the older trace lie later."""
        import pyarrow as pa

        self._first, self._shift = first, shift
        numbers = pa.array([period.number for period in periods], pa.int32())
        lengths = pa.array([period.seconds for period in periods], pa.float64())
        self._con.register("periods", pa.table({"period": numbers, "seconds": lengths}))

    def _open(self, name: str, files: Iterable[Path]) -> None:
        import pyarrow.dataset as ds

        # not by DuckDB, which takes signs in names for a pattern
        self._con.register(name, ds.dataset([str(file) for file in files], format="parquet"))

    def _ask(self, what: str, query: str) -> list[dict[str, Any]]:
        """Return the rows of an answer."""
        import duckdb

        try:
            found = self._con.execute(query)
            names = [column[0] for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        except (duckdb.Error, OSError) as error:
            reason = f"{self.job.name}: {what} cannot be summed up: {first_line(error)}"
            raise TablesLost(f"{reason} (look at free memory and disks)") from error

    # -- tables ----------------------------------------------------------------------------------

    def write(self, name: str, path: Path) -> bool:
        """Write one of `experiments.traces.folder.TABLES`; False where the job has none.

        Raises
        ------
        TablesLost
            Memory or disks do not hold it.
        """
        query = getattr(self, f"_{name}")()
        if query is not None:
            path.mkdir()
            target = _text(str(path / "part-0.parquet"))
            self._ask(name, f"COPY ({query}) TO {target} (FORMAT parquet)")
        return query is not None

    def _loads(self) -> str:
        """One row a period and key group with events."""
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS operator, {kind.groups[0]} AS "
            f'"group", n AS events, {kind.amount.total}::{_WIDE} AS micros FROM {where}'
            for kind, where in self._each("operator")
            if kind.amount is not None
        ]
        parts += self._from_older("loads", (*_GROUP, "events"), "micros")
        return _over_time(parts, _GROUP, "cost", "load", "sum(events)::BIGINT AS events, ")

    def _rates(self) -> str | None:
        """One row a period and pair of key groups with traffic."""
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS source, {_text(kind.names[1])} AS "
            f"target, {kind.groups[0]} AS source_group, {kind.groups[1]} AS target_group, "
            f"{kind.amount.total}::{_WIDE} AS micros FROM {where}"
            for kind, where in self._each("edge")
            if kind.amount is not None
        ]
        parts += self._from_older("rates", _PAIR, "micros")
        return _over_time(parts, _PAIR, "amount", "rate", where="micros > 0") if parts else None

    def _keys(self) -> str | None:
        """One row where a key is seen first, or with a larger state than ever; in millionths.

        All of `states` follows from these.
        """
        parts = [
            f"SELECT {self._period}, {_text(kind.names[0])} AS operator, {kind.groups[0]} AS "
            f'"group", {kind.key}::VARCHAR AS key, coalesce({kind.state.most}, 0) AS millionths '
            f"FROM {where}"
            for kind, where in self._each("operator")
            if kind.state is not None
        ]
        parts += self._from_older("keys", _KEY, "millionths")
        if not parts:
            return None
        key = ", ".join(_KEY)
        return (
            f"SELECT period, {key}, millionths::BIGINT AS millionths FROM "
            f"(SELECT *, max(millionths) OVER ({_earlier()}) AS known FROM "
            f"(SELECT period, {key}, max(millionths) AS millionths FROM ({_union(parts)}) "
            f"GROUP BY ALL)) WHERE known IS NULL OR millionths > known ORDER BY period, {key}"
        )

    def _states(self) -> str | None:
        """One row where the state of a key group grows: from that period on it has this size.

        State is that of all keys seen so far; a key counts with the largest state it had so far,
        so that no period knows of a later one.
        """
        keys = self._keys()
        if keys is None:
            return None
        group = 'PARTITION BY operator, "group" ORDER BY period'
        return (
            f'SELECT period, operator, "group", (sum(new) OVER ({group}))::BIGINT AS keys, '
            f"(sum(more) OVER ({group}))::DOUBLE / {MICRO} AS state FROM "
            '(SELECT period, operator, "group", count(*) FILTER (before IS NULL) AS new, '
            f"sum((millionths - coalesce(before, 0))::{_WIDE}) AS more FROM "
            f"(SELECT *, max(millionths) OVER ({_earlier()}) AS before FROM ({keys})) "
            'GROUP BY ALL) ORDER BY period, operator, "group"'
        )

    @property
    def _period(self) -> str:
        return f"(bucket - {self._first})::INT AS period"

    def _each(self, what: str) -> Iterable[tuple[Kind, str]]:
        """Give the kinds of all recordings, and where their sums are: ``FROM`` and ``WHERE``."""
        for number, sums in enumerate(self.recordings):
            for kind in sums.kinds:
                if kind.what == what:
                    yield kind, f"sums{number} WHERE {sums.where(kind)} AND {kind.reached}"

    def _from_older(self, name: str, columns: Sequence[str], amount: str) -> Iterable[str]:
        if name in self._older:
            yield (
                f"SELECT (period + {self._shift})::INT AS period, {', '.join(columns)}, "
                f"millionths AS {amount} FROM older_{name}"
            )

    # -- what became of the events, and values that cannot be ------------------------------------

    def judge(self, session: SparkSession) -> dict[str, Any]:
        """Count what became of the events of the last recording; refuse values that cannot be.

        Returns
        -------
        dict
            ``events``, one count for each of `FATES`, ``first`` and ``last`` bucket (or None), the
            ``latest`` moment in microseconds, where it is stored, the events of all ``files``, and
            for every operator the events without key, cost and state, for every edge those without
            rate; for every joined table its rows, those dropped, and the events without a match.

        Raises
        ------
        InvalidInput
            A value is not of its declared type, or a cost, rate or state is negative.
        """
        sums, table = self.recordings[-1], f"sums{len(self.recordings) - 1}"
        rows = self._ask(
            "events",
            f"SELECT fate, file, string_split(bad, {_text(MARK)})[2] AS fault, min(bad) AS bad, "
            "sum(n)::BIGINT AS events, min(bucket) AS first, max(bucket) AS last, "
            f"max({sums.latest}) AS latest FROM {table} WHERE part = 0 GROUP BY ALL",
        )
        check_bad(sums.rows, session, _bads(rows))
        told = [(kind, self._told(table, sums, kind)) for kind in sums.kinds]
        _check_amounts(told)
        counted = [row for row in rows if row["fate"] in COUNTED]
        fates = [sum(row["events"] for row in rows if row["fate"] == i) for i in range(len(FATES))]
        operators, edges, lookups = (
            {" → ".join(kind.names): row for kind, row in told if kind.what == what}
            for what in ("operator", "edge", "lookup")
        )
        files: Counter[str] = Counter()
        for row in rows:
            file = row["file"]
            if file := sums.rows.numbers.get(file, "") if isinstance(file, int) else file:
                files[path_of(file)] += row["events"]
        return {
            "events": sum(fates),
            **dict(zip(FATES, fates, strict=True)),
            "first": min((row["first"] for row in counted), default=None),
            "last": max((row["last"] for row in counted), default=None),
            "latest": max((r["latest"] for r in counted if r["latest"] is not None), default=None),
            "without_key": {name: row["beyond"] for name, row in operators.items()},
            "without_cost": {name: row["without_amount"] for name, row in operators.items()},
            "without_state": {
                name: row["without_state"]
                for name, row in operators.items()
                if row["without_state"] is not None
            },
            "without_rate": {name: row["without_amount"] for name, row in edges.items()},
            "lookups": {
                name: {**counts, "unmatched": lookups[name]["reached"]}
                for name, counts in sums.lookups.items()
            },
            "files": dict(files),
        }

    def _told(self, table: str, sums: Sums, kind: Kind) -> dict[str, Any]:
        """Return how many events reach their key groups, how many lack an amount, and the least."""
        reached = kind.reached
        asked = [f"coalesce(sum(n) FILTER ({reached}), 0)::BIGINT AS reached"]
        asked += [f"coalesce(sum(n) FILTER (NOT ({reached})), 0)::BIGINT AS beyond"]
        for name, amount in (("amount", kind.amount), ("state", kind.state)):
            without, least = "NULL", "NULL"
            if amount is not None:
                without = f"coalesce(sum(n - {amount.known}) FILTER ({reached}), 0)::BIGINT"
                least = f"min({amount.least})"
            asked += [f"{without} AS without_{name}", f"{least} AS least_{name}"]
        query = f"SELECT {', '.join(asked)} FROM {table} WHERE {sums.where(kind)}"
        return self._ask("events", query)[0]


def _bads(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the first fault of each kind and file, with the number of such rows."""
    found: dict[tuple[str, Any], tuple[str, int]] = {}
    for row in (row for row in rows if row["fault"] is not None):
        which = row["fault"], row["file"]
        first, count = found.get(which, (row["bad"], 0))
        found[which] = min(first, row["bad"]), count + row["events"]
    return sorted(found.values())


def _check_amounts(told: Iterable[tuple[Kind, Mapping[str, Any]]]) -> None:
    problems = []
    for kind, row in told:
        for amount, least in ((kind.amount, row["least_amount"]), (kind.state, row["least_state"])):
            if amount is not None and least is not None and least < 0:
                reason = f"is negative for some events (down to {least / 1e6:g})"
                problems.append(Problem(amount.expression.where, amount.expression.text, reason))
    if problems:
        raise InvalidInput(problems)


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _union(parts: Iterable[str]) -> str:
    return " UNION ALL ".join(parts)


def _earlier() -> str:
    """Return the rows of a key in earlier periods."""
    keys = ", ".join(_KEY)
    return f"PARTITION BY {keys} ORDER BY period ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def _over_time(
    parts: Iterable[str],
    keys: Sequence[str],
    total: str,
    per_second: str,
    more: str = "",
    where: str = "true",
) -> str:
    """Return the sums of several queries, as amounts and per second."""
    by = ", ".join(("period", *keys))
    amount = f"(millionths::DOUBLE / {MICRO})"
    shown = f"{'events, ' if more else ''}{amount} AS {total}, {amount} / seconds AS {per_second}"
    micros = f"coalesce(sum(micros), 0)::{_WIDE} AS micros"
    summed = f"SELECT {by}, {more}{micros} FROM ({_union(parts)}) GROUP BY {by}"
    return (
        f"SELECT {by}, {shown}, millionths FROM (SELECT *, micros::{_STORED} AS millionths FROM "
        f"({summed}) WHERE {where}) JOIN periods USING (period) ORDER BY {by}"
    )
