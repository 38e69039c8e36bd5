"""What a trace says about itself: ``trace.json``, read with a check of everything that is used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from experiments.traces.job import Job
    from experiments.traces.periods import Period

FORMAT = "streamplace.trace/1"
TABLES = ("loads", "rates", "states")
REMEDY = "trace again"

_COUNTS = ("events", "no_time", "outside", "late_dropped", "late_moved", "late_kept")
_BY_NAME = ("without_key", "without_cost", "lookups")
_MOST = 1e15
"""Seconds, beyond which times are not dates any more."""


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
    rows
        Of each table that was written.
    """

    job: Mapping[str, Any]
    periods: tuple[PeriodEntry, ...]
    recordings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    rows: Mapping[str, int] = field(default_factory=dict)

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

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """Read and check a file.

        Raises
        ------
        InvalidInput
            It is missing, of something else, or damaged.
        """
        content = _content(path)
        if content is None:
            remedy = f"{REMEDY}, into another folder"
            raise InvalidInput(Problem(str(path), None, "is no manifest of a trace", remedy))
        try:
            return _checked(content)
        except _Fault as fault:
            raise InvalidInput(Problem(fault.path, None, fault.reason, REMEDY), str(path)) from None

    def to_json(self) -> str:
        """Return the text of the file."""
        content = {"format": FORMAT, **asdict(self), "seconds": round(self.seconds, 3)}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def is_ours(path: Path) -> bool:
    """Tell whether a file is a manifest of a trace, whole or not."""
    return path.is_file() and _content(path) is not None


class _Fault(ValueError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def _content(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        return None
    mine = isinstance(content, dict) and content.get("format") == FORMAT
    return content if mine else None


def _checked(content: Mapping[str, Any]) -> Manifest:
    if "rows" not in content:
        raise _Fault("rows", "is missing: an older version made the trace")
    rows = _table(content, "rows")
    for name, count in rows.items():
        if name not in TABLES or not _is_count(count):
            raise _Fault(f"rows.{name}", "is no number of rows of a table")
    if not _is_amount(content.get("seconds")):
        raise _Fault("seconds", "is no duration")
    seconds = float(content["seconds"])
    periods = content.get("periods")
    if not isinstance(periods, list) or not periods:
        raise _Fault("periods", "must be a list of at least one period")
    entries = tuple(_period(entry, number) for number, entry in enumerate(periods))
    recordings = _table(content, "recordings")
    _check_counts(recordings)
    return Manifest(_table(content, "job"), entries, recordings, seconds, rows)


def _table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(content.get(name), dict):
        raise _Fault(name, "must be an object")
    return dict(content[name])


def _period(entry: Any, number: int) -> PeriodEntry:
    path = f"periods[{number}]"
    if not isinstance(entry, dict) or entry.keys() != {"number", "start", "end", "seconds"}:
        raise _Fault(path, "must be an object with number, start, end and seconds")
    if entry["number"] != number:
        raise _Fault(f"{path}.number", f"must be {number}")
    if not isinstance(entry["start"], str) or not isinstance(entry["end"], str):
        raise _Fault(path, "must have texts as start and end")
    if not _is_amount(entry["seconds"]) or not entry["seconds"]:
        raise _Fault(f"{path}.seconds", "is no duration")
    return PeriodEntry(**entry)


def _check_counts(recordings: Mapping[str, Any]) -> None:
    for name, counts in recordings.items():
        path = f"recordings.{name}"
        if not isinstance(counts, dict):
            raise _Fault(path, "must be an object")
        for key in (*_COUNTS, *_BY_NAME):
            if key not in counts:
                raise _Fault(f"{path}.{key}", "is missing")
        for key, value in counts.items():
            _check_count(value, f"{path}.{key}", 0 if key in _COUNTS else 2)
        for key in _BY_NAME:
            if not isinstance(counts[key], dict):
                raise _Fault(f"{path}.{key}", "must be an object")
        for table, told in counts["lookups"].items():
            if not isinstance(told, dict) or "doubled" not in told:
                raise _Fault(f"{path}.lookups.{table}", "must be an object with doubled")


def _check_count(value: Any, path: str, depth: int) -> None:
    """Refuse what is no count; where `depth` allows, an object of counts is fine."""
    if depth and isinstance(value, dict):
        for name, inner in value.items():
            _check_count(inner, f"{path}.{name}", depth - 1)
    elif not _is_count(value):
        raise _Fault(path, "is no count")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_amount(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= _MOST


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
