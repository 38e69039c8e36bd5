"""The result folder: rows that survive whatever happens, and the marker that says what it is.

::

    DIR/sweep.json            what was asked for: spec, versions, keys of the planned runs
    DIR/rows.parquet          compacted rows
    DIR/parts/rows-….parquet  rows since then, a batch a file
    DIR/instances.parquet     the instances, for reports (`kept`)
    DIR/damaged/              files that could not be read, set aside

A batch is written under another name and renamed when it is whole, so a reader sees all of it or
nothing. The same run may stand in several files (a worker that outlived its driver, a task
tried twice, a failed run repeated): readers keep the latest of each key.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import re
import uuid
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from experiments.sweep.row import COLUMNS, NEWER_COLUMNS, arrow_schema
from optim.errors import InvalidInput, Problem
from optim.util.files import read_bytes, write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

logger = logging.getLogger(__name__)

FORMAT = "streamplace.sweep/1"
MARKER = "sweep.json"
ROWS = "rows.parquet"
PARTS = "parts"

_LOCK = ".lock"
UNFINISHED = ".unfinished-"
_TORN = (UNFINISHED, f".{MARKER}.")
"""Beginnings of what is left where a sweep was killed while it wrote."""
DAMAGED = "damaged"
_PART = re.compile(r"rows-(?P<name>[0-9a-f]{32})-(?P<rows>\d+)-(?P<failed>\d+)\.parquet")
_GROUP_BYTES = 32 << 20
_MAX_MARKER_BYTES = 256 << 20


@dataclass(frozen=True)
class PartName:
    """What the name of a part says about it, so that progress need not open any."""

    path: Path
    rows: int
    failed: int


def write_part(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a batch of complete rows as one more part; whole or not at all."""
    import pyarrow as pa

    name = uuid.uuid4().hex
    failed = sum(row["outcome"] != "ok" for row in rows)
    final = folder / f"rows-{name}-{len(rows)}-{failed}.parquet"
    temporary = folder / f"{UNFINISHED}{name}"
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema())
    write_whole(table, temporary, final)
    return final


def write_whole(table: pa.Table, temporary: Path, final: Path) -> None:
    """Write a table to a file that is there whole or not at all."""
    import pyarrow.parquet as pq

    try:
        with temporary.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(final)
    except BaseException:  # an interrupt, too, leaves no part behind
        temporary.unlink(missing_ok=True)
        raise


@dataclass
class ResultFolder:
    """A result folder, opened for writing by one sweep at a time.

    Attributes
    ----------
    path
        The folder.
    """

    path: Path
    _lock: IO[str] | None = field(default=None, repr=False)

    @property
    def parts(self) -> Path:
        """Where workers put their batches."""
        return self.path / PARTS

    @property
    def rows(self) -> Path:
        """The compacted file."""
        return self.path / ROWS

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[ResultFolder]:
        """Create the folder if need be, and keep other sweeps out while the block runs.

        Raises
        ------
        InvalidInput
            It is something else, holds another sweep, is being written, or cannot be.
        """
        self._check_usable(name)
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            lock = (self.path / _LOCK).open("w")
        except OSError as error:
            raise self._refused(f"cannot be written: {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                remedy = "wait for it, or choose another folder"
                raise self._refused("is being written by another sweep", remedy) from None
            self._remove_torn()
            self._set_damaged_aside()
            yield self

    def _check_usable(self, name: str) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise self._refused("is a file, not a folder")
        names = {entry.name for entry in self.path.iterdir()} - {_LOCK, PARTS}
        if all(name.startswith(_TORN) for name in names):
            return  # empty, or left by a sweep that ended before its first word
        held = self.marker()["name"]
        if held != name:
            reason = f"holds the results of the sweep {held!r}, not of {name!r}"
            raise self._refused(reason, "choose another folder, or the name that it holds")

    def _refused(self, reason: str, remedy: str = "choose another folder") -> InvalidInput:
        return InvalidInput(Problem("output folder", str(self.path), reason, remedy))

    def marker(self) -> dict[str, Any]:
        """Return what ``sweep.json`` holds.

        Raises
        ------
        InvalidInput
            The folder is no result folder.
        """
        path = self.path / MARKER
        if not self.path.is_dir() or not path.is_file():
            reason = f"is no result folder of a sweep (it holds no {MARKER})"
            raise InvalidInput(
                Problem("result folder", str(self.path), reason, "name one that `sweep -o` made")
            )
        try:
            marker = json.loads(read_bytes(path, _MAX_MARKER_BYTES))
        except (ValueError, RecursionError):
            marker = None
        if not isinstance(marker, dict) or marker.get("format") != FORMAT or "name" not in marker:
            reason = f"is no result folder of a sweep ({MARKER} is not of the format {FORMAT})"
            raise InvalidInput(
                Problem("result folder", str(self.path), reason, "name one that `sweep -o` made")
            )
        return marker

    def write_marker(self, content: Mapping[str, Any]) -> None:
        """Say what this folder is, atomically."""
        text = json.dumps({"format": FORMAT, **content}, indent=1, ensure_ascii=False)
        write_atomic(self.path / MARKER, text + "\n")

    def _remove_torn(self) -> None:
        """Remove what an earlier sweep left when it was killed: half-written files, stop files."""
        left = [path for path in self.path.iterdir() if path.name.startswith(_TORN)]
        for torn in (*self.parts.glob(".*"), *left):
            torn.unlink(missing_ok=True)

    def _set_damaged_aside(self) -> None:
        """Move files whose rows cannot be read out of the way: their runs are planned again."""
        for path in self.files():
            try:
                check_file(path)
            except InvalidInput as error:
                aside = self.path / DAMAGED
                aside.mkdir(exist_ok=True)
                path.replace(aside / f"{uuid.uuid4().hex}-{path.name}")
                logger.warning("%s; it is set aside in %s, and its runs made again", error, aside)

    def part_names(self) -> list[PartName]:
        """List the finished parts, sorted by name."""
        return list_parts(self.parts)

    def files(self) -> list[Path]:
        """List every file with rows: the compacted one first, then the parts."""
        compacted = [self.rows] if self.rows.is_file() else []
        return compacted + [part.path for part in self.part_names()]

    def compact(self) -> None:
        """Put all rows into one file, the latest of each key, in order of the keys' first rows.

        Atomic: the new file replaces the old by rename, and only then do the parts go. A stop
        in between leaves rows twice, which readers allow for.
        """
        files = self.files()
        if files in ([], [self.rows]):
            return
        temporary = self.path / f"{UNFINISHED}{uuid.uuid4().hex}"
        try:
            _write_tables(temporary, latest_rows(files))
            temporary.replace(self.rows)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        for path in files:
            if path != self.rows:
                path.unlink(missing_ok=True)


def list_parts(folder: Path) -> list[PartName]:
    """List the finished parts in a folder, sorted by name; anything else in it is passed over."""
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(folder.iterdir()):
        match = _PART.fullmatch(path.name)
        if match is not None:
            found.append(PartName(path, int(match["rows"]), int(match["failed"])))
    return found


def failed_rows(part: PartName) -> list[dict[str, Any]]:
    """Return what names the failed runs of a part, and their errors."""
    import pyarrow.parquet as pq

    names = ["method_label", "instance", "factors", "outcome", "error"]
    return pq.read_table(part.path, columns=names, filters=[("outcome", "!=", "ok")]).to_pylist()


def check_file(path: Path) -> None:
    """Refuse a file with rows of which some cannot be read.

    Raises
    ------
    InvalidInput
        It is truncated, overwritten, or no table of rows.
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
        told = (str(error).splitlines() or [type(error).__name__])[0]
        remedy = "run the sweep again: it sets the file aside and makes its rows anew"
        raise InvalidInput(Problem(str(path), None, f"is damaged: {told}", remedy)) from None


def _write_tables(path: Path, tables: Iterator[pa.Table]) -> None:
    """Write tables one after another; small ones share a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("wb") as file:
        with pq.ParquetWriter(file, arrow_schema(), compression="zstd") as writer:
            waiting: list[pa.Table] = []
            size = 0
            for table in tables:
                waiting.append(table)
                size += table.nbytes
                if size >= _GROUP_BYTES:
                    writer.write_table(pa.concat_tables(waiting))
                    waiting, size = [], 0
            if waiting:
                writer.write_table(pa.concat_tables(waiting))
        file.flush()
        os.fsync(file.fileno())


def latest_rows(
    files: Sequence[Path], columns: Sequence[str] = tuple(COLUMNS)
) -> Iterator[pa.Table]:
    """Give the rows that count, one table a file: of each key the one that started last.

    Two passes, so that no more than one row group is held with its wide columns: the first finds
    where each key's last row is, the second reads those rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([arrow_schema().field(name) for name in columns])
    for path, kept in zip(files, _kept_rows(files), strict=True):
        with pq.ParquetFile(path) as file:
            first = 0
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=list(columns))
                here = [row - first for row in kept if first <= row < first + table.num_rows]
                first += table.num_rows
                if len(here) < table.num_rows:
                    table = table.take(pa.array(here, pa.int64()))
                if here:
                    yield _completed(table, schema)


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with every column; those that it was written without are unknown."""
    import pyarrow as pa

    for name in schema.names:
        if name in NEWER_COLUMNS and name not in table.column_names:
            kind = schema.field(name).type
            table = table.append_column(name, pa.nulls(table.num_rows, kind))
    return table.select(schema.names).cast(schema)


def _kept_rows(files: Sequence[Path]) -> list[list[int]]:
    """Return, per file, the numbers of its rows that no later row of the same key replaces."""
    import pyarrow.parquet as pq

    last: dict[str, tuple[Any, int, int]] = {}
    for number, path in enumerate(files):
        table = pq.read_table(path, columns=["run_key", "started_at"])
        starts = table["started_at"].cast("int64").to_pylist()
        for row, (key, start) in enumerate(zip(table["run_key"].to_pylist(), starts, strict=True)):
            if key not in last or start > last[key][0]:
                last[key] = (start, number, row)
    kept: list[list[int]] = [[] for _ in files]
    for _, number, row in last.values():
        kept[number].append(row)
    return [sorted(rows) for rows in kept]
