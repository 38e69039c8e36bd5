"""The folder of a trace: `trace.json` beside Parquet tables; written whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required

import numpy as np
from pydantic import AfterValidator, ConfigDict, Strict, TypeAdapter
from typing_extensions import TypedDict

from experiments.documents import TABLE, Amount, Count, Many, Positive
from optim.errors import InvalidInput, Problem, StreamplaceError, first_line
from optim.format.document import Fault, check
from optim.util.store import Lock, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from experiments.spark.remote import Place
    from experiments.traces.instances import Period
    from experiments.traces.job import Job

MARKER = "trace.json"
FORMAT = "streamplace.trace/1"
_SPAN = ("first", "last", "latest")
TABLES = ("loads", "rates", "keys", "states")
REMEDY = "trace again"


@dataclass(frozen=True)
class PeriodEntry:
    """A period as the manifest has it."""

    __pydantic_config__ = TABLE
    number: Count
    start: Annotated[str, Strict()]
    end: Annotated[str, Strict()]
    seconds: Positive


@dataclass(frozen=True)
class FileEntry:
    """A file that was read: where it is, its bytes, and when it was changed last."""

    __pydantic_config__ = TABLE
    path: Annotated[str, Strict()]  # Of a local file; of others the URI.
    bytes: Count  # Its size.
    modified: int  # Milliseconds since 1970.
    #: Rows that were read from it; ``None`` for zips, where Spark does not report it, and of tables
    #: that were looked up.
    events: Count | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Following:
    """How far a trace is that follows its recordings."""

    __pydantic_config__ = TABLE
    #: Name of the folder in which Spark notes the files that it has seen.
    checkpoint: Annotated[str, Strict()]
    closed: Count = 0  # Periods, from the first, that take no more events.
    written: Count = 0  # Of these, those whose instances are known to be written.
    #: By recording: the latest event so far, in microseconds since 1970.
    latest: dict[str, int] = field(default_factory=dict)


class LookupCounts(TypedDict, total=False):
    """What became of the rows of a table that was looked up."""

    __pydantic_config__ = TABLE  # type: ignore[misc]
    rows: Count
    doubled: Required[Count]
    unmatched: Count


class RecordingCounts(TypedDict, total=False):
    """What became of the events of a recording; by operator, edge or table where it says so."""

    __pydantic_config__ = TABLE  # type: ignore[misc]
    events: Required[Count]
    counted: Count
    no_time: Required[Count]
    outside: Required[Count]
    late_dropped: Required[Count]
    late_moved: Required[Count]
    late_kept: Required[Count]
    without_key: Required[dict[str, Count]]
    without_cost: Required[dict[str, Count]]
    without_state: dict[str, Count]
    without_rate: dict[str, Count]
    lookups: Required[dict[str, LookupCounts]]


def _numbered(periods: tuple[PeriodEntry, ...]) -> tuple[PeriodEntry, ...]:
    wrong = [
        Problem(f"[{i}].number", period.number, f"must be {i}")
        for i, period in enumerate(periods)
        if period.number != i
    ]
    if wrong:
        raise Fault(problems=wrong)
    return periods


@dataclass(frozen=True)
class Manifest:
    """What a trace says about itself."""

    __pydantic_config__ = ConfigDict(extra="ignore")
    job: dict[str, Any]  # The description, as in its file.
    periods: Annotated[Many[PeriodEntry], AfterValidator(_numbered)]  # All of them, empty ones too.
    #: What became of the events of each recording.
    recordings: dict[str, RecordingCounts] = field(default_factory=dict)
    seconds: Amount = 0.0  # That tracing took; the start of Spark is not in it.
    #: Of each table that was written.
    rows: dict[Literal[TABLES], Count] = field(default_factory=dict)  # type: ignore[valid-type]
    #: By recording (``clicks``) and looked-up table (``clicks.users``): the files that were read.
    files: dict[str, tuple[FileEntry, ...]] = field(default_factory=dict)
    following: Following | None = None  # How far it is, if it follows its recordings.

    @property
    def num_over(self) -> int:
        """Number of periods that take no more events: all, unless the trace follows."""
        return len(self.periods) if self.following is None else self.following.closed

    @classmethod
    def of(
        cls, job: Job, periods: Sequence[Period], recordings: Mapping[str, Mapping[str, Any]]
    ) -> Manifest:
        """Make one."""
        entries = tuple(
            PeriodEntry(p.number, _iso(p.start), _iso(p.end), p.seconds) for p in periods
        )
        recorded: dict[str, Any] = {
            name: {key: value for key, value in counts.items() if key not in _SPAN}
            for name, counts in recordings.items()
        }
        return cls(json.loads(json.dumps(job.document, default=str)), entries, recorded)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read and check a file.

        Raises `InvalidInput`: it is missing, of something else, or damaged.
        """
        remedy = "make one with `streamplace trace JOB.toml -o DIR`"
        content = store_of(path.parent, argument="trace", remedy=remedy).read()
        problems: list[Problem] = []
        manifest = check(_MANIFEST, content, problems)
        for name in ("recordings", "seconds", "rows"):
            if name not in content:
                older = ": an older version made the trace" if name == "rows" else ""
                problems.append(Problem(name, None, f"is missing{older}"))
        if problems or manifest is None:
            raise InvalidInput([replace(p, remedy=REMEDY) for p in problems], str(path))
        return manifest

    def write(self, folder: Path) -> None:
        """Write ``trace.json``."""
        store_of(folder).write({**asdict(self), "seconds": round(self.seconds, 3)})


def store_of(
    folder: Path, argument: str = "--output", remedy: str = "choose another folder"
) -> Store:
    """Return a folder as that of a trace."""
    return Store(folder, "trace", MARKER, FORMAT, argument, remedy)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


_MANIFEST = TypeAdapter(Manifest)


# -- the folder ------------------------------------------------------------------------------------

INSTANCES = "instances"
CHECKPOINT = ".checkpoint-"
"""Beginning of the name of a folder where Spark notes files that it has seen."""
_NEW = ".new"
_INSTANCE = re.compile(r".*-p\d+\.json")  # Names that `experiments.traces.instances` gives.


class TablesLost(StreamplaceError):
    """Tables of a trace could not be written, or are not there although nothing complained."""


class TraceFolder:
    """A finished trace, or one in the making.

    `place`: where the trace goes in the end, if this is its working copy: Spark writes sums there,
        since its workers may see no other.
    """

    def __init__(self, path: str | Path, place: Place | None = None) -> None:
        self.path = Path(path)
        self.place = place
        self._lock: Lock | None = None

    @classmethod
    def create(cls, path: str | Path) -> TraceFolder:
        """Take a folder for a new trace; an older one stays until `finish`.

        Raises `InvalidInput`: the folder holds something else, is being written, or cannot be.
        """
        folder = cls(path)
        store = store_of(folder.path)
        folder._lock = store.take({})
        try:
            folder.renew()
        except OSError as error:
            folder._lock.release()
            raise store.refused(f"cannot be written: {error.strerror}") from None
        return folder

    @classmethod
    def open(cls, path: str | Path) -> TraceFolder:
        """Take a finished trace.

        Raises `InvalidInput`: there is none, or it is not as it was written.
        """
        folder = cls(path)
        folder._settle()
        for name, rows in folder.manifest.rows.items():
            check_table(folder.table_path(name), name, rows)
        return folder

    # -- writing ---------------------------------------------------------------------------------

    def part_uri(self, name: str) -> str:
        """Return where Spark is to write a table.

        Hadoop takes what follows the scheme as it stands: percent signs and blanks are not decoded.
        """
        if self.place is not None:
            return f"{self.place.new}/{name}.parquet"
        return f"file://{self.path.resolve() / _NEW / name}.parquet"

    def fetched(self, name: str) -> Path:
        """Return where a table is that Spark has written, fetched from where its workers see it."""
        path = self.scratch / f"{name}.parquet"
        if self.place is not None:
            self.place.fetch_new(path.name, path)
        return path

    @property
    def scratch(self) -> Path:
        """Where archives may be unpacked; it goes with an unfinished trace."""
        return self.path.resolve() / _NEW

    def finish(
        self, manifest: Manifest, seconds: float, wanted: Collection[str] = ()
    ) -> TraceFolder:
        """Put the new tables in the place of older ones, and the manifest last.

        Instances of an older trace are removed. Until the new trace is whole, and says so, the
        older one stands; after that an interrupted change is completed by whoever looks next.

        `wanted`: tables that were to be written.
        Raises `TablesLost`: one of them is not there.
        """
        new = self.path / _NEW
        files = {name: new / f"{name}.parquet" for name in TABLES}
        rows = {n: count_rows(path) for n, path in files.items() if any(path.glob("*.parquet"))}
        if lost := sorted(set(wanted) - set(rows)):
            raise TablesLost(f"{self.path}: nothing was written of {', '.join(lost)}")
        whole = replace(manifest, seconds=seconds, rows=rows)
        whole.write(new)
        self._settle()
        return TraceFolder.open(self.path)

    def _settle(self) -> None:
        """Complete the change to a new trace that is whole; again and again to the same end."""
        new = self.path / _NEW
        if not (new / MARKER).is_file():
            return
        whole = Manifest.read(new / MARKER)
        if whole.following is None:
            self.remove_instances()
        for name in TABLES:
            target = self.table_path(name)
            if (new / target.name).exists():
                shutil.rmtree(target, ignore_errors=True)
                (new / target.name).rename(target)
            elif name not in whole.rows:
                shutil.rmtree(target, ignore_errors=True)
        (new / MARKER).replace(self.path / MARKER)

    def renew(self) -> None:
        """Make room for tables; what an unfinished trace left goes."""
        self.empty()
        (self.path / _NEW).mkdir()

    def empty(self) -> None:
        """Remove what an unfinished trace left."""
        self._settle()
        shutil.rmtree(self.path / _NEW, ignore_errors=True)

    def clean(self) -> None:
        """Remove what an unfinished trace left, and let others write."""
        self.empty()
        if self._lock is not None:
            self._lock.release()

    def remove_instances(self) -> None:
        """Remove written instances; files of others stay."""
        folder = self.path / INSTANCES
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            if path.is_file() and _INSTANCE.fullmatch(path.name):
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def manifest(self) -> Manifest:
        """What the trace says about itself."""
        return Manifest.read(self.path / MARKER)

    @cached_property
    def job(self) -> Job:
        """The description the trace was made with."""
        from experiments.traces.job import Job

        return Job.from_dict(dict(self.manifest.job), self.path, str(self.path / MARKER))

    def table(self, name: str, first: int | None = None, last: int | None = None) -> pa.Table:
        """Return a table, or its rows of some periods, sorted.

        Raises `InvalidInput`: the table cannot be read.
        """
        if name in self.manifest.rows:
            return read_table(self.table_path(name), first, last)
        import pyarrow as pa

        return pa.table({"period": pa.array([], pa.int32())})

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self.manifest.rows.get(name, 0)

    def table_path(self, name: str) -> Path:
        """Return where a table lies."""
        return self.path / f"{name}.parquet"

    @cached_property
    def totals(self) -> dict[str, dict[str, float]]:
        """For each operator its events, cost, and the share of its largest key group."""
        table = self.table("loads")
        by_operator: dict[str, dict[str, float]] = {}
        if not len(table):
            return by_operator
        sums = table.group_by(["operator", "group"]).aggregate([("events", "sum"), ("cost", "sum")])
        operators = np.array(sums["operator"].to_pylist(), dtype=object)
        for name in sorted(set(operators)):
            of_operator = operators == name
            cost = sums["cost_sum"].to_numpy()[of_operator]
            total = float(np.sort(cost).sum())
            by_operator[str(name)] = {
                "events": int(sums["events_sum"].to_numpy()[of_operator].sum()),
                "cost": total,
                "key_groups": len(cost),
                "largest": float(cost.max()) / total if total > 0 else 0.0,
            }
        return by_operator


def is_trace(path: str | Path) -> bool:
    """Return whether a folder is a finished trace."""
    return (Path(path) / MARKER).is_file() or (Path(path) / _NEW / MARKER).is_file()


_GROUP = {"operator": "text", "group": "whole"}
_PAIR = {"source": "text", "target": "text", "source_group": "whole", "target_group": "whole"}
COLUMNS = {
    "loads": {"period": "whole", **_GROUP, "events": "whole", "cost": "number", "load": "number"},
    "rates": {"period": "whole", **_PAIR, "amount": "number", "rate": "number"},
    "keys": {"period": "whole", **_GROUP, "key": "text"},
    "states": {"period": "whole", **_GROUP, "keys": "whole", "state": "number"},
}
"""By table: its columns and what they hold."""

_ORDER = ("period", *_GROUP, *_PAIR, "key")


def count_rows(path: Path) -> int:
    """Return the number of rows of a table."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(part).num_rows for part in path.glob("*.parquet"))


def check_table(path: Path, name: str, rows: int) -> None:
    """Refuse a table that is not as it was written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_dir():
        raise _table_error(path, "is missing")
    try:
        count = count_rows(path)
        schemas = [pq.read_schema(part) for part in sorted(path.glob("*.parquet"))]
    except (pa.ArrowException, OSError) as error:
        raise _table_error(path, f"cannot be read: {first_line(error)}") from None
    if count != rows:
        raise _table_error(path, f"has {count:,} rows, and {rows:,} were written")
    for schema in schemas:
        for column, kind in COLUMNS[name].items():
            if column not in schema.names or not _has_type(schema.field(column).type, kind):
                raise _table_error(path, f"has no column {column} of {_SHOWN[kind]}")


def read_table(path: Path, first: int | None, last: int | None) -> pa.Table:
    """Return the rows of some periods, sorted.

    Raises `InvalidInput`: the table cannot be read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    chosen = pc.scalar(True)
    if first is not None:
        chosen &= pc.field("period") >= first
    if last is not None:
        chosen &= pc.field("period") <= last
    try:
        parts = sorted(path.glob("*.parquet"))
        table = ds.dataset([str(p) for p in parts], format="parquet").to_table(filter=chosen)
        # each part is sorted, and Spark puts a row into whichever it likes
        return table.sort_by([(n, "ascending") for n in _ORDER if n in table.column_names])
    except (pa.ArrowException, OSError) as error:
        raise _table_error(path, f"cannot be read: {first_line(error)}") from None


_SHOWN = {"whole": "whole numbers", "number": "numbers", "text": "texts"}


def _has_type(actual: pa.DataType, kind: str) -> bool:
    import pyarrow.types as pt

    if kind == "text":
        return bool(pt.is_string(actual) or pt.is_large_string(actual))
    return bool(pt.is_integer(actual) if kind == "whole" else pt.is_floating(actual))


def _table_error(path: Path, reason: str) -> InvalidInput:
    return InvalidInput(Problem(str(path), None, reason, REMEDY))
