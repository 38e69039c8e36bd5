"""Rows of a replay as files: one row a policy and period."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.figures.catalogue import BY_NAME
from optim.util.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Column(NamedTuple):
    """A column: name, type in Parquet, and meaning."""

    name: str
    type: str
    meaning: str


def _figure(name: str, meaning: str = "") -> Column:
    """Column of one of the referee's figures."""
    figure = BY_NAME[name]
    kind = "int64" if figure.unit == "count" else "float64"
    return Column(name, kind, meaning or figure.words)


COLUMNS = (
    Column("policy", "string", "as given"),
    Column("period", "int64", "number, from 0"),
    Column("name", "string", "of the period's instance"),
    Column("load_distance_before", "float64", "of what ran, on this period"),
    _figure("load_distance", "now: of what was deployed, on this period"),
    Column("load_distance_next", "float64", "of what was deployed, on the next period"),
    _figure("collocation_factor"),
    Column("collocation_factor_next", "float64", "of what was deployed, on the next period"),
    Column("load_index", "float64", "mean load now over mean load right after start-up"),
    Column("mean_load", "float64", "of a node"),
    Column("total_load", "float64", "of all nodes, serialisation and merging included"),
    _figure("migrations", "key groups that moved"),
    _figure("migration_cost"),
    Column("over_budget", "bool", "whether they cost more than the budget"),
    Column("nodes", "int64", "nodes there are, leaving ones included"),
    Column("leaving", "int64", "marked for removal"),
    Column("added", "int64", "nodes added by the scaling decision"),
    Column("marked", "int64", "nodes marked by it"),
    Column("recalled", "int64", "marked nodes taken back by it"),
    Column("dropped", "int64", "marked and emptied nodes removed at the beginning"),
    Column("planned", "bool", "whether there was a plan; else what ran went on"),
    Column("termination", "string", "of the plan"),
    Column("feasible", "bool", "whether it keeps every limit but those in the note"),
    Column("note", "string", "limits ignored, or why there was no plan"),
)


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write ``rows.csv`` and ``rows.parquet``, the same bytes for the same rows."""
    buffer = io.StringIO()
    names = [column.name for column in COLUMNS]
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row.get(name)) for name in names} for row in rows)
    write_atomic(path / "rows.csv", buffer.getvalue())
    _write_parquet(path / "rows.parquet", rows)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def _write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
    }
    schema = pa.schema([(column.name, types[column.type]) for column in COLUMNS])
    table = pa.Table.from_pylist(list(rows), schema=schema)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_atomic(path, buffer.getvalue())
