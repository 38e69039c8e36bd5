"""What a job description says: events, operators with their keys, edges, periods, cluster."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.checking import Checker
from optim.errors import InvalidInput, Problem
from optim.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.traces.grammar import Node
    from experiments.traces.periods import Calendar

FORMAT = "streamplace.job/1"
MAX_JOB_BYTES = 1 << 20
_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ENDINGS |= {".json": "jsonl"}


@dataclass(frozen=True)
class Expression:
    """An expression and where it stands in the file."""

    where: str
    text: str
    node: Node


@dataclass(frozen=True)
class Files:
    """Rows to be read.

    Attributes
    ----------
    where
        Where the description has them, for messages.
    path
        Local, ``package:name/file``, or anything Spark reads.
    format
        ``csv``, ``parquet`` or ``jsonl``.
    columns
        Declared types.
    null
        Text that stands for null in CSV.
    delimiter
        Of CSV.
    zone
        Time zone of moments without offset.
    multiline
        Whether quoted values of CSV may hold line breaks.
    """

    where: str
    path: str
    format: str
    columns: Mapping[str, str] = field(default_factory=dict)
    null: str | None = None
    delimiter: str = ","
    zone: str = "UTC"
    multiline: bool = False


@dataclass(frozen=True)
class Join:
    """A table whose columns are looked up for every event: a left join.

    Attributes
    ----------
    name
        Columns are ``name.column`` in expressions.
    files
        The table.
    on
        Pairs: expression over the events, expression over the table.
    """

    name: str
    files: Files
    on: tuple[tuple[Expression, Expression], ...]


@dataclass(frozen=True)
class Events:
    """A recording of events.

    Attributes
    ----------
    name, files
        What they are called, and where they lie.
    time
        When an event happened.
    arrival
        When it reached the system; ``None``: at once.
    joins
        Tables looked up.
    """

    name: str
    files: Files
    time: Expression
    arrival: Expression | None = None
    joins: tuple[Join, ...] = ()


@dataclass(frozen=True)
class Input:
    """What an operator does with the events of one recording.

    Attributes
    ----------
    events
        Name of the recording.
    key
        Its values are hashed to key groups.
    cost
        Of one event, any unit.
    state
        Of one key; ``None``: the operator keeps none here.
    """

    events: str
    key: Expression
    cost: Expression
    state: Expression | None = None


@dataclass(frozen=True)
class OperatorSpec:
    """An operator.

    Attributes
    ----------
    id, key_groups
        Its name and number of key groups.
    inputs
        One for each recording that reaches it.
    null_key
        ``drop``: events without key do not reach it; ``group``: null is a key like others.
    """

    id: str
    key_groups: int
    inputs: tuple[Input, ...]
    null_key: str = "drop"

    def input_of(self, events: str) -> Input | None:
        """Return what it does with a recording."""
        return next((i for i in self.inputs if i.events == events), None)


@dataclass(frozen=True)
class Edge:
    """Traffic between two operators.

    Attributes
    ----------
    source, target
        Operators.
    events
        Recordings whose events travel on it.
    rate
        Amount that one event sends, any unit.
    """

    where: str
    source: str
    target: str
    events: tuple[str, ...]
    rate: Expression


@dataclass(frozen=True)
class ClusterSpec:
    """Where key groups are placed.

    Attributes
    ----------
    nodes
        Entries of the instance format.
    resource
        What loads are measured in.
    load_scale
        Load per unit of cost and second.
    utilisation
        Instead: percent of all capacity that the mean load of the recording is to be.
    placement
        Where key groups are at first.
    limits
        Of the instance format.
    """

    nodes: tuple[Mapping[str, Any], ...]
    resource: str = "cpu"
    load_scale: float | None = None
    utilisation: float | None = None
    placement: str = "round-robin"
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A job description, checked.

    Attributes
    ----------
    name, description
        About it.
    calendar
        Statistics periods.
    events, operators, edges
        As above.
    cluster
        ``None``: no instances can be made.
    units
        Of instances.
    base
        Folder that paths are relative to.
    document
        As in the file.
    source
        Name of the file.
    """

    name: str
    calendar: Calendar
    events: tuple[Events, ...]
    operators: tuple[OperatorSpec, ...]
    edges: tuple[Edge, ...]
    cluster: ClusterSpec | None = None
    description: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    base: Path = field(default_factory=Path)
    document: Mapping[str, Any] = field(default_factory=dict)
    source: str = "job"

    @classmethod
    def from_dict(cls, document: Any, base: str | Path = ".", source: str = "job") -> Job:
        """Check the content of a description.

        Raises
        ------
        InvalidInput
            With everything that is wrong with it.
        """
        from experiments.traces.job_reading import JobReader

        checker = Checker()
        job = JobReader(checker).read(document, Path(base), source)
        checker.finish(source)
        assert job is not None
        return job

    def with_paths(self, paths: Mapping[str, str]) -> Job:
        """Return the job with other files for its recordings; their endings tell their formats."""
        changed = []
        for events in self.events:
            path = paths.get(events.name, events.files.path)
            kind = events.files.format
            if events.name in paths:
                kind = format_of(path) or kind
            changed.append(replace(events, files=replace(events.files, path=path, format=kind)))
        return replace(self, events=tuple(changed))


def format_of(path: str) -> str:
    """Return the format that a path's ending tells; empty if it tells none."""
    name = path.lower()
    for packed in (".zip", ".gz"):
        name = name.removesuffix(packed)
    return next((kind for end, kind in _ENDINGS.items() if name.rstrip("/").endswith(end)), "")


def load_job(path: str | Path) -> Job:
    """Read a job description.

    Raises
    ------
    InvalidInput
        It cannot be read, is not TOML, or is wrong.
    """
    path = Path(path)
    try:
        document = tomllib.loads(read_bytes(path, MAX_JOB_BYTES).decode())
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InvalidInput(Problem(str(path), None, f"is not TOML: {error}")) from None
    except RecursionError:
        raise InvalidInput(Problem(str(path), None, "is nested too deeply")) from None
    return Job.from_dict(document, path.parent, str(path))
