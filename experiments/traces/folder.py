"""The folder of a trace: ``trace.json`` beside Parquet tables; written whole or not at all."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.files import read_bytes, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from experiments.traces.job import Job
    from experiments.traces.periods import Period

MARKER = "trace.json"
FORMAT = "streamplace.trace/1"
TABLES = ("loads", "rates", "states")
_NEW = ".new"


@dataclass(frozen=True)
class PeriodEntry:
    """A period as the manifest has it."""

    number: int
    start: str
    end: str
    seconds: float


@dataclass(frozen=True)
class Manifest:
    """What a trace says about itself.

    Attributes
    ----------
    job
        The description, as in its file.
    periods
        All of them, empty ones too.
    recordings
        What became of the events of each recording.
    seconds
        That tracing took; the start of Spark is not in it.
    """

    job: Mapping[str, Any]
    periods: tuple[PeriodEntry, ...]
    recordings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(
        cls, job: Job, periods: Sequence[Period], recordings: Mapping[str, Mapping[str, Any]]
    ) -> Manifest:
        """Make one."""
        entries = tuple(
            PeriodEntry(p.number, _iso(p.start), _iso(p.end), p.seconds) for p in periods
        )
        told = {
            name: {key: value for key, value in counts.items() if key not in ("first", "last")}
            for name, counts in recordings.items()
        }
        return cls(json.loads(json.dumps(job.document, default=str)), entries, told)


class TraceFolder:
    """A finished trace, or one in the making.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path) -> TraceFolder:
        """Take a folder for a new trace; an older one stays until `finish`.

        Raises
        ------
        InvalidInput
            The folder holds something else.
        """
        folder = cls(path)
        target = folder.path
        if target.exists() and not is_trace(target):
            inside = target.iterdir() if target.is_dir() else [target]
            if any(path.name != _NEW for path in inside):
                reason, remedy = "is not empty and holds no trace", "choose another folder"
                raise InvalidInput(Problem("--output", str(target), reason, remedy))
        try:
            folder.clean()
            (target / _NEW).mkdir(parents=True)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
            raise InvalidInput(Problem("--output", str(target), reason)) from None
        return folder

    @classmethod
    def open(cls, path: str | Path) -> TraceFolder:
        """Take a finished trace.

        Raises
        ------
        InvalidInput
            There is none.
        """
        folder = cls(path)
        if not is_trace(folder.path):
            remedy = "make one with `streamplace trace JOB.toml -o DIR`"
            raise InvalidInput(Problem(str(path), None, f"holds no {MARKER}", remedy))
        assert folder.manifest
        return folder

    # -- writing ---------------------------------------------------------------------------------

    def part_uri(self, name: str) -> str:
        """Return where Spark is to write a table."""
        return (self.path.resolve() / _NEW / f"{name}.parquet").as_uri()

    def finish(self, manifest: Manifest, seconds: float) -> TraceFolder:
        """Put the new tables in the place of older ones and write the manifest last."""
        (self.path / MARKER).unlink(missing_ok=True)
        for name in TABLES:
            target = self.path / f"{name}.parquet"
            shutil.rmtree(target, ignore_errors=True)
            new = self.path / _NEW / f"{name}.parquet"
            if new.exists():
                new.rename(target)
        content = {"format": FORMAT, **asdict(manifest), "seconds": round(seconds, 3)}
        write_atomic(self.path / MARKER, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return TraceFolder.open(self.path)

    def clean(self) -> None:
        """Remove what an unfinished trace left."""
        shutil.rmtree(self.path / _NEW, ignore_errors=True)

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def manifest(self) -> Manifest:
        """What the trace says about itself."""
        try:
            content = json.loads(read_bytes(self.path / MARKER))
            if content["format"] != FORMAT:
                raise ValueError(f"is of format {content['format']!r}")
            periods = tuple(PeriodEntry(**entry) for entry in content["periods"])
            return Manifest(content["job"], periods, content["recordings"], content["seconds"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"is no manifest of a trace: {error}"
            raise InvalidInput(Problem(str(self.path / MARKER), None, reason)) from None

    @cached_property
    def job(self) -> Job:
        """The description the trace was made with."""
        from experiments.traces.job import Job

        return Job.from_dict(dict(self.manifest.job), self.path, str(self.path / MARKER))

    def table(self, name: str, first: int | None = None, last: int | None = None) -> pa.Table:
        """Return a table, or its rows of some periods, in the order of periods.

        Raises
        ------
        InvalidInput
            The table cannot be read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        path = self.path / f"{name}.parquet"
        if not path.exists():
            return pa.table({"period": pa.array([], pa.int32())})
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
            reason = f"cannot be read: {str(error).splitlines()[0]}"
            raise InvalidInput(Problem(str(path), None, reason, "trace again")) from None

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        import pyarrow.parquet as pq

        parts = (self.path / f"{name}.parquet").glob("*.parquet")
        return sum(pq.read_metadata(part).num_rows for part in parts)

    @cached_property
    def totals(self) -> dict[str, dict[str, float]]:
        """For each operator its events, cost, and the share of its largest key group."""
        table = self.table("loads")
        found: dict[str, dict[str, float]] = {}
        if not len(table):
            return found
        sums = table.group_by(["operator", "group"]).aggregate([("events", "sum"), ("cost", "sum")])
        operators = np.array(sums["operator"].to_pylist(), dtype=object)
        for name in sorted(set(operators)):
            mine = operators == name
            cost = sums["cost_sum"].to_numpy()[mine]
            total = float(np.sort(cost).sum())
            found[str(name)] = {
                "events": int(sums["events_sum"].to_numpy()[mine].sum()),
                "cost": total,
                "key_groups": len(cost),
                "largest": float(cost.max()) / total if total > 0 else 0.0,
            }
        return found


def is_trace(path: str | Path) -> bool:
    """Tell whether a folder is a finished trace."""
    return (Path(path) / MARKER).is_file()


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
