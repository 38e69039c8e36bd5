"""Look up the columns of a table for every event."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from experiments.traces.expressions import Typed, as_text
from experiments.traces.reading import BAD, FILE, Rows, bad_rows, check_bad
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.traces.recordings import Join


def joined(rows: Rows, join: Join, table: Rows, zone: str) -> tuple[Rows, int, int]:
    """Look up the columns of a table for every row.

    Rows of the table with the same key become one, the least by its columns in order; rows without
    key are left out.

    Returns
    -------
    tuple
        The rows with the table's columns as ``name.column``; how many rows the table has; how
        many of these were dropped for having the key of another.

    Raises
    ------
    InvalidInput
        The keys cannot be computed or are not of one type, or a value of the table is not of its
        declared type.
    """
    pairs = [(rows.compute(a, zone), table.compute(b, zone)) for a, b in join.on]
    _check_alike(join, [(a.kind, b.kind) for a, b in pairs])
    left = [F.expr(as_text(a)) for a, _ in pairs]
    right = [F.expr(as_text(b)) for _, b in pairs]
    tag = f"j{len(rows.missed)}"
    keys = [f"{tag}_key{i}" for i in range(len(right))]
    safe = {name: f"{tag}_{inner.sql.strip('`')}" for name, inner in table.columns.items()}
    values = F.struct(*(F.expr(table.columns[name].sql).alias(safe[name]) for name in safe))
    keyed = table.frame.select(
        *(column.alias(key) for column, key in zip(right, keys, strict=True)),
        values.alias("values"),
        F.lit(1).alias("one"),
        BAD,
    )
    count = F.count("one").alias("count")
    # kept, so that the table is read once: to be judged, and to be looked up
    grouped = keyed.groupBy(*keys, BAD).agg(F.min("values").alias("values"), count).persist()
    single = grouped.dropna(subset=keys)
    single = single.groupBy(*keys).agg(
        F.min("values").alias("values"), F.sum("count").alias("count")
    )
    judged = grouped.agg(F.sum("count").alias("rows")).first()
    counted = single.agg(F.sum(F.col("count") - 1)).first()
    assert judged is not None
    assert counted is not None
    check_bad(table, grouped.sparkSession, bad_rows(grouped, BAD, "count"))
    found = single.select(*keys, "values")
    frame = rows.frame.withColumns(dict(zip((f"my_{key}" for key in keys), left, strict=True)))
    condition = F.lit(True)
    for key in keys:
        condition = condition & (frame[f"my_{key}"] == found[key])
    frame = frame.join(found.select(*keys, "values.*"), condition, "left")
    own = {
        f"{join.name}.{n}": Typed(f"`{inner}`", table.columns[n].kind) for n, inner in safe.items()
    }
    missed = F.col(keys[0]).isNull().alias(f"{tag}_missed")
    mine = (F.expr(column.sql) for column in rows.columns.values())
    kept = frame.select(*mine, *safe.values(), *rows.missed.values(), missed, BAD, FILE)
    told = {**rows.missed, join.name: f"{tag}_missed"}
    found_rows = replace(
        rows,
        frame=kept,
        columns={**rows.columns, **own},
        known=[*rows.known, *(f"{join.name}.{name}" for name in table.known)],
        missed=told,
        kept=(*rows.kept, grouped),
    )
    return found_rows, judged["rows"] or 0, counted[0] or 0


def _check_alike(join: Join, kinds: Iterable[tuple[str, str]]) -> None:
    """Refuse keys of different types: as texts, which they are compared as, they never match."""
    remedy = "declare both columns alike, or use number(…), text(…) or time(…)"
    problems = [
        Problem(a.where, f"{a.text} = {b.text}", f"compares {one} with {other}", remedy)
        for (a, b), (one, other) in zip(join.on, kinds, strict=True)
        if one != other
    ]
    if problems:
        raise InvalidInput(problems)
