"""The result folder: rows that survive whatever happens, and the marker that says what it is.

::

    DIR/sweep.json            what was asked for: spec, versions, keys of the planned runs
    DIR/rows.parquet          compacted rows
    DIR/parts/rows-….parquet  rows since then, a batch a file
    DIR/instances.parquet     the instances, for reports (`keep_instances`)
    DIR/damaged/              files that could not be read, set aside

A batch is written under another name and renamed when it is whole, so a reader sees all of it or
nothing. The same run may stand in several files (a worker that outlived its driver, a task
tried twice, a failed run repeated): readers keep the latest of each key.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import tempfile
import uuid
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from experiments.sweep.row import COLUMNS, NEWER_COLUMNS, SQL_TYPES, arrow_schema
from optim.errors import InvalidInput, Problem, first_line
from optim.format.instance import Instance
from optim.util.files import whole_file
from optim.util.store import Store

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from experiments.sweep.instances import Prepared

logger = logging.getLogger(__name__)

FORMAT = "streamplace.sweep/1"
MARKER = "sweep.json"
ROWS = "rows.parquet"
PARTS = "parts"

DAMAGED = "damaged"
_PART = re.compile(r"rows-(?P<name>[0-9a-f]{32})-(?P<rows>\d+)-(?P<failed>\d+)\.parquet")
_GROUP_BYTES = 32 << 20


@dataclass(frozen=True)
class PartName:
    """What the name of a part says about it, so that progress need not open any."""

    path: Path
    rows: int
    failed: int


def write_part(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a batch of complete rows as one more part; whole or not at all."""
    failed = sum(row["outcome"] != "ok" for row in rows)
    path = folder / f"rows-{uuid.uuid4().hex}-{len(rows)}-{failed}.parquet"
    write_table(path, table_of(rows))
    return path


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return complete rows as a table.

    They go through JSON: for arrays of Python objects pyarrow imports pandas, 0.4 s in each worker.
    """
    import pyarrow as pa
    from pyarrow.json import ParseOptions, ReadOptions, read_json

    schema = arrow_schema()
    # the JSON reader knows no maps and no time zones
    entries = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    plain = {pa.map_(pa.string(), pa.string()): entries,
             pa.timestamp("us", tz="UTC"): pa.timestamp("us")}  # fmt: skip
    read_as = pa.schema([field.with_type(plain.get(field.type, field.type)) for field in schema])
    lines = []
    for row in rows:
        factors = [{"key": key, "value": value} for key, value in row["factors"].items()]
        started = row["started_at"].astimezone(UTC).replace(tzinfo=None).isoformat(" ")
        lines.append(json.dumps({**row, "factors": factors, "started_at": started}))
    data = "\n".join(lines).encode()
    whole = ReadOptions(use_threads=False, block_size=len(data) + 1)
    table = read_json(io.BytesIO(data), whole, ParseOptions(explicit_schema=read_as))
    pairs = table["factors"].combine_chunks()
    maps = pa.MapArray.from_arrays(pairs.offsets, *pairs.flatten().flatten())
    place = schema.get_field_index("factors")
    return table.set_column(place, schema.field("factors"), maps).cast(schema)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table to a file that is there whole or not at all."""
    import pyarrow.parquet as pq

    with whole_file(path) as file:
        pq.write_table(table, file, compression="zstd")


@dataclass(frozen=True)
class ResultFolder:
    """A result folder, opened for writing by one sweep at a time."""

    path: Path

    @property
    def parts(self) -> Path:
        """Where workers put their batches."""
        return self.path / PARTS

    @property
    def rows(self) -> Path:
        """The compacted file."""
        return self.path / ROWS

    @property
    def _store(self) -> Store:
        return Store(self.path, "sweep", MARKER, FORMAT, "output folder", parts=(PARTS,))

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[ResultFolder]:
        """Create the folder if need be, and keep other sweeps out while the block runs.

        Raises `InvalidInput`: it is something else, holds another sweep, is being written, or
            cannot be.
        """
        with self._store.writing({"name": name}):
            self._set_damaged_aside()
            yield self

    def marker(self) -> dict[str, Any]:
        """Return what ``sweep.json`` holds.

        Raises `InvalidInput`: the folder is no result folder.
        """
        remedy = "name one that `sweep -o` made"
        return Store(self.path, "sweep", MARKER, FORMAT, "result folder", remedy).read()

    def write_marker(self, content: Mapping[str, Any]) -> None:
        """Say what this folder is, atomically."""
        self._store.write(content)

    def _set_damaged_aside(self) -> None:
        """Move files whose rows cannot be read out of the way: their runs are planned again."""
        for path in self.files():
            try:
                check_file(path)
            except InvalidInput as error:
                aside = self.path / DAMAGED
                aside.mkdir(exist_ok=True)
                path.replace(aside / f"{uuid.uuid4().hex}-{path.name}")
                logger.warning("%s; it is set aside in %s, and its runs repeated", error, aside)

    def files(self) -> list[Path]:
        """List every file with rows: the compacted one first, then the parts."""
        compacted = [self.rows] if self.rows.is_file() else []
        return compacted + [part.path for part in list_parts(self.parts)]

    def compact(self) -> None:
        """Put all rows into one file, the latest of each key; small batches share a row group.

        Atomic: the new file replaces the old by rename, and only then do the parts go. A stop
        in between leaves rows twice, which readers allow for.
        """
        files = self.files()
        if files in ([], [self.rows]):
            return
        with whole_file(self.rows) as file:
            _write_tables(file, latest_rows(files))
        for path in files:
            if path != self.rows:
                path.unlink(missing_ok=True)


def list_parts(folder: Path) -> list[PartName]:
    """List the finished parts in a folder, sorted by name; anything else in it is passed over."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    named = ((path, _PART.fullmatch(path.name)) for path in files)
    return [PartName(path, int(name["rows"]), int(name["failed"])) for path, name in named if name]


def failed_rows(part: PartName) -> list[dict[str, Any]]:
    """Return what names the failed runs of a part, and their errors."""
    import pyarrow.parquet as pq

    names = ["method_label", "instance", "factors", "outcome", "error"]
    return pq.read_table(part.path, columns=names, filters=[("outcome", "!=", "ok")]).to_pylist()


def check_file(path: Path) -> None:
    """Refuse a file with rows of which some cannot be read.

    Raises `InvalidInput`: it is truncated, overwritten, or no table of rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    needed = [name for name in COLUMNS if name not in NEWER_COLUMNS]
    try:
        with pq.ParquetFile(path) as file:
            if missing := [name for name in needed if name not in file.schema_arrow.names]:
                raise pa.ArrowInvalid(f"no column {missing[0]}")
            for group in range(file.num_row_groups):
                file.read_row_group(group)
    except (pa.ArrowException, OSError) as error:
        remedy = "run the sweep again: it sets the file aside and makes its rows anew"
        reason = f"is damaged: {first_line(error)}"
        raise InvalidInput(Problem(str(path), None, reason, remedy)) from None


# -- reading ------------------------------------------------------------------------------------

MEMORY = "800MB"  # What a database may hold; beyond it uses a temporary folder.


def connect() -> DuckDBPyConnection:
    """Return an empty database of this process; large ones spill to the temporary folder."""
    import duckdb

    con = duckdb.connect(config={"memory_limit": MEMORY, "threads": 2})
    con.execute("SET temp_directory = ?", [tempfile.gettempdir()])
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    con.execute("SET enable_progress_bar = false")
    return con


_PLACES = "union_by_name = true, filename = true, file_row_number = true"
_LATEST = (
    "row_number() OVER (PARTITION BY run_key "
    "ORDER BY started_at DESC, host, filename, file_row_number) = 1"
)


def latest_query(
    con: DuckDBPyConnection,
    files: Sequence[Path],
    columns: Iterable[str],
    further: Sequence[str] = (),
) -> str:
    """Return SQL for the rows that count, of each key the one that started last.

    `files`: with rows; what they lack of `NEWER_COLUMNS` is unknown.
    `further`: SQL of further columns, from those stored.
    """
    table = parquet_source(files, _PLACES)
    stored = {row[0] for row in con.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()}
    chosen = [
        f"CAST({name if name in stored else 'NULL'} AS {SQL_TYPES[COLUMNS[name].rstrip('!')]}) "
        f"AS {name}"
        for name in columns
    ]
    # narrow columns decide which rows count; wide ones are read of those only
    return (
        f"WITH latest AS (SELECT filename, file_row_number FROM {table} QUALIFY {_LATEST}) "
        f"SELECT {', '.join([*further, *chosen])} FROM {table} "
        "SEMI JOIN latest USING (filename, file_row_number)"
    )


def read_rows(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the rows of a result folder with the schema of `experiments.sweep.row`.

    Parameters
    ----------
    folder
        Result folder; also of a sweep that is under way or was interrupted.

    Raises
    ------
    InvalidInput
        The folder is no result folder.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from experiments.spark.session import escaped
    from experiments.sweep.row import spark_schema

    results = ResultFolder(Path(folder))
    results.marker()
    files = results.files()
    if not files:
        return spark.createDataFrame([], spark_schema())
    frame = spark.read.schema(spark_schema()).parquet(
        *(escaped(f"file://{file.resolve()}") for file in files)
    )
    if files == [results.rows]:
        return frame  # compaction left one row a key
    newest = Window.partitionBy("run_key").orderBy(F.col("started_at").desc(), F.col("host"))
    ranked = frame.withColumn("_rank", F.row_number().over(newest))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def parquet_source(files: Sequence[Path], options: str = "") -> str:
    """Return the files as DuckDB reads them: the table of an SQL query."""
    return f"read_parquet([{', '.join(map(_this_file, files))}]{options and ', '}{options})"


def footer(what: str, file: Path) -> str:
    """Return what DuckDB reports of a file's footer, ``schema`` or ``file_metadata``, as a
    table.
    """
    return f"parquet_{what}({_this_file(file)})"


def _this_file(path: Path) -> str:
    """Write a path so that DuckDB, which takes paths for patterns, means this file and no other."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def latest_rows(files: Sequence[Path]) -> Iterator[pa.Table]:
    """Give the rows that count, one table a row group, so that no more is held of wide columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        return
    with connect() as con:
        row_places = con.execute(
            f"SELECT filename, list(file_row_number ORDER BY file_row_number) FROM (SELECT * FROM "
            f"{parquet_source(files, _PLACES)} QUALIFY {_LATEST}) GROUP BY filename"
        ).fetchall()
    row_numbers, schema = dict(row_places), arrow_schema()
    assert row_numbers.keys() <= set(map(str, files))  # else rows would be lost
    for path in files:
        with pq.ParquetFile(path) as file:
            stored, first = file.schema_arrow.names, 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                here = [row - first for row in row_numbers.get(str(path), ())
                        if first <= row < first + table.num_rows]  # fmt: skip
                first += table.num_rows
                if len(here) < table.num_rows:
                    table = table.take(pa.array(here, pa.int64()))
                if here:  # with every column; those that it was written without are unknown
                    for name in NEWER_COLUMNS.difference(stored):
                        blank = pa.nulls(table.num_rows, schema.field(name).type)
                        table = table.append_column(name, blank)
                    yield table.select(schema.names).cast(schema)


def _write_tables(file: IO[bytes], tables: Iterator[pa.Table]) -> None:
    """Write tables one after another; small ones share a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, arrow_schema(), compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for table in tables:
            waiting.append(table)
            if sum(one.nbytes for one in waiting) >= _GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def read_rows_pandas(folder: str | Path) -> pd.DataFrame:
    """Return the same rows without Spark, sorted by key; for small results.

    Raises
    ------
    InvalidInput
        The folder is no result folder.
    """
    import pyarrow as pa

    results = ResultFolder(Path(folder))
    results.marker()
    tables = [arrow_schema().empty_table(), *latest_rows(results.files())]
    return pa.concat_tables(tables).sort_by("run_key").to_pandas(maps_as_pydicts="strict")


def read_columns(files: Sequence[Path], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of the latest row of every key."""
    if not files:
        return []
    with connect() as con:
        rows = con.execute(latest_query(con, files, columns)).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in rows]


INSTANCES = "instances.parquet"

MOST_BYTES = 64 << 20  # Compressed, in all; what comes after is dropped.


def keep_instances(folder: Path, prepared: Iterable[Prepared]) -> None:
    """Write the instances of a sweep, with those that an earlier call stored.

    Nothing is written where all are stored already. Atomic: the new file replaces the old.
    """
    import pyarrow as pa

    path = folder / INSTANCES
    packed = _packed(path, None)
    before, size = len(packed), sum(map(len, packed.values()))
    for one in prepared:
        if one.sha256 not in packed and size + len(one.packed) <= MOST_BYTES:
            packed[one.sha256] = one.packed
            size += len(one.packed)
    if len(packed) == before:
        return
    columns = {
        "sha256": _array([sha256.encode() for sha256 in packed], pa.string()),
        "packed": _array(list(packed.values()), pa.binary()),
    }
    write_table(path, pa.table(columns))


def _array(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Return an array of texts or bytes, as Arrow stores it: where each ends, then all of them."""
    import pyarrow as pa

    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def kept_instances(folder: Path, wanted: Collection[str]) -> dict[str, Instance]:
    """Return those instances, by sha256, that the folder keeps; the others are left out."""
    from optim.format.instance import Instance

    packed = _packed(folder / INSTANCES, wanted)
    return {sha256: Instance.from_json(zlib.decompress(data)) for sha256, data in packed.items()}


def _packed(path: Path, wanted: Collection[str] | None) -> dict[str, bytes]:
    """Return what a file holds; nothing where it cannot be read, as it is made anew then."""
    import duckdb

    chosen = "" if wanted is None else " WHERE sha256 IN (SELECT unnest($1))"
    try:
        with duckdb.connect() as con:
            text = f"SELECT sha256, packed FROM {parquet_source([path])}{chosen}"
            return dict(con.execute(text, None if wanted is None else [sorted(wanted)]).fetchall())
    except duckdb.Error:
        return {}
