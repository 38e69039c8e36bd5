"""What a trace says about itself: ``trace.json``, read with a check of everything that is used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required

from pydantic import AfterValidator, ConfigDict, Strict, TypeAdapter
from typing_extensions import TypedDict

from experiments.documents import TABLE, Amount, Count, Many, Positive
from optim.errors import InvalidInput, Problem
from optim.format.read import Fault, check
from optim.util.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from experiments.traces.job import Job
    from experiments.traces.periods import Period

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
    """A file that was read: where it is, its bytes, and when it was changed last.

    Attributes
    ----------
    path
        Of a local file; of others the URI.
    bytes
        Its size.
    modified
        Milliseconds since 1970.
    events
        Rows that were read from it; ``None`` for zips, where Spark does not tell it, and of tables
        that were looked up.
    """

    __pydantic_config__ = TABLE
    path: Annotated[str, Strict()]
    bytes: Count
    modified: int
    events: Count | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Following:
    """How far a trace is that follows its recordings.

    Attributes
    ----------
    checkpoint
        Name of the folder in which Spark notes the files that it has seen.
    closed
        Periods, from the first, that take no more events.
    written
        Of these, those whose instances are known to be written.
    latest
        By recording: the latest event so far, in microseconds since 1970.
    """

    __pydantic_config__ = TABLE
    checkpoint: Annotated[str, Strict()]
    closed: Count = 0
    written: Count = 0
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
    files
        By recording (``clicks``) and looked-up table (``clicks.users``): the files that were read.
    following
        How far it is, if it follows its recordings.
    """

    __pydantic_config__ = ConfigDict(extra="ignore")
    job: dict[str, Any]
    periods: Annotated[Many[PeriodEntry], AfterValidator(_numbered)]
    recordings: dict[str, RecordingCounts] = field(default_factory=dict)
    seconds: Amount = 0.0
    rows: dict[Literal[TABLES], Count] = field(default_factory=dict)  # type: ignore[valid-type]
    files: dict[str, tuple[FileEntry, ...]] = field(default_factory=dict)
    following: Following | None = None

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
        told: dict[str, Any] = {
            name: {
                key: value
                for key, value in counts.items()
                if key not in ("first", "last", "latest")
            }
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
        remedy = "make one with `streamplace trace JOB.toml -o DIR`"
        content = store_of(path.parent, argument="trace", remedy=remedy).read()
        problems: list[Problem] = []
        found = check(_MANIFEST, content, problems)
        for name in ("recordings", "seconds", "rows"):
            if name not in content:
                older = ": an older version made the trace" if name == "rows" else ""
                problems.append(Problem(name, None, f"is missing{older}"))
        if problems or found is None:
            raise InvalidInput([replace(p, remedy=REMEDY) for p in problems], str(path))
        return found

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
