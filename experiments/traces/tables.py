"""The tables of a trace in Parquet: what they hold, how many rows, and reading some periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.traces.manifest import REMEDY
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_PAIR = {"source": "text", "target": "text", "source_group": "whole", "target_group": "whole"}
COLUMNS = {
    "loads": {
        "period": "whole",
        "operator": "text",
        "group": "whole",
        "events": "whole",
        "cost": "number",
        "load": "number",
    },
    "rates": {"period": "whole", **_PAIR, "amount": "number", "rate": "number"},
    "states": {
        "period": "whole",
        "operator": "text",
        "group": "whole",
        "keys": "whole",
        "state": "number",
    },
}
"""By table: its columns and what they hold."""


def count_rows(path: Path) -> int:
    """Return the number of rows of a table."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(part).num_rows for part in path.glob("*.parquet"))


def check_table(path: Path, name: str, rows: int) -> None:
    """Refuse a table that is not as it was written.

    Raises
    ------
    InvalidInput
        It is missing, cannot be read, or has other columns or fewer or more rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_dir():
        raise _wrong(path, "is missing")
    try:
        found = count_rows(path)
        schemas = [pq.read_schema(part) for part in sorted(path.glob("*.parquet"))]
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None
    if found != rows:
        raise _wrong(path, f"has {found:,} rows, and {rows:,} were written")
    for schema in schemas:
        for column, kind in COLUMNS[name].items():
            if column not in schema.names or not _is(schema.field(column).type, kind):
                raise _wrong(path, f"has no column {column} of {_SHOWN[kind]}")


def read_table(path: Path, first: int | None, last: int | None) -> pa.Table:
    """Return the rows of some periods.

    Raises
    ------
    InvalidInput
        The table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    chosen = None
    if first is not None:
        chosen = pc.field("period") >= first
    if last is not None:
        below = pc.field("period") <= last
        chosen = below if chosen is None else chosen & below
    try:
        parts = sorted(path.glob("*.parquet"))
        return ds.dataset([str(p) for p in parts], format="parquet").to_table(filter=chosen)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


_SHOWN = {"whole": "whole numbers", "number": "numbers", "text": "texts"}


def _is(found: pa.DataType, kind: str) -> bool:
    import pyarrow.types as pt

    if kind == "text":
        return bool(pt.is_string(found) or pt.is_large_string(found))
    return bool(pt.is_integer(found) if kind == "whole" else pt.is_floating(found))


def _unreadable(path: Path, error: Exception) -> InvalidInput:
    told = str(error).strip().splitlines()
    return _wrong(path, f"cannot be read: {told[0] if told else type(error).__name__}")


def _wrong(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(Problem(str(path), None, reason, REMEDY))
