"""What a job description says: events, operators with their keys, edges, periods, cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required

from pydantic import Field, Strict, TypeAdapter

from experiments.documents import (
    TABLE,
    Many,
    OneOrMany,
    Text,
    Whole,
    check_toml,
    read_toml,
    table_type,
)
from experiments.traces.cluster import ClusterSpec
from experiments.traces.periods import PeriodTable
from experiments.traces.recordings import ONE, Events, Expression, Identifier, Parsed, format_of
from optim.errors import InvalidInput, Problem, raise_any
from optim.format.read import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from experiments.traces.periods import Calendar

FORMAT = "streamplace.job/1"
MAX_JOB_BYTES = 1 << 20
MAX_KEY_GROUPS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Input:
    """What an operator does with the events of one recording.

    Attributes
    ----------
    events
        Name of the recording; the only one, where it is not given.
    key
        Its values are hashed to key groups.
    cost
        Of one event, any unit.
    state
        Of one key; ``None``: the operator keeps none here.
    """

    __pydantic_config__ = TABLE
    events: Text = ""
    key: Parsed
    cost: Parsed = field(default_factory=lambda: ONE)
    state: Parsed | None = None


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """An operator.

    Attributes
    ----------
    id, key_groups
        Its name and number of key groups.
    null_key
        ``drop``: events without key do not reach it; ``group``: null is a key like others.
    input
        One for each recording that reaches it.
    events, key, cost, state
        Instead: its only input.
    """

    __pydantic_config__ = TABLE
    id: Text
    key_groups: Annotated[Whole, Field(ge=1, le=MAX_KEY_GROUPS)]
    null_key: Literal["drop", "group"] = "drop"
    input: Many[Input] | None = None
    events: Text = ""
    key: Parsed | None = None
    cost: Parsed | None = None
    state: Parsed | None = None

    def __post_init__(self) -> None:
        told = []
        if self.input is not None:
            given = [f.name for f in fields(Input) if getattr(self, f.name)]
            told = [Problem(n, None, "stands beside input", "put it into one") for n in given]
        elif self.key is None:
            told = [Problem("key", None, "is missing", "add an expression")]
        if told:
            raise Fault(problems=told)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it does with the events of each recording that reaches it."""
        if self.key is None:
            return self.input or ()
        cost = self.cost or ONE
        return (Input(events=self.events, key=self.key, cost=cost, state=self.state),)

    def reading(self, events: str) -> OperatorSpec:
        """Return it with a recording for the inputs that name none."""
        if self.input is None:
            return replace(self, events=self.events or events)
        return replace(self, input=tuple(replace(i, events=i.events or events) for i in self.input))

    def input_of(self, events: str) -> Input | None:
        """Return what it does with a recording."""
        return next((i for i in self.inputs if i.events == events), None)


@dataclass(frozen=True, kw_only=True)
class Edge:
    """Traffic between two operators.

    Attributes
    ----------
    source, target
        Operators.
    events
        Recordings whose events travel on it; those that reach both, where it is not given.
    rate
        Amount that one event sends, any unit.
    """

    __pydantic_config__ = TABLE
    source: Annotated[Text, Field(alias="from")]
    target: Annotated[Text, Field(alias="to")]
    events: OneOrMany[Text] = ()
    rate: Parsed = field(default_factory=lambda: ONE)


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
        problems: list[Problem] = []
        table = check_toml(_JOB, document, problems)
        raise_any(problems, source)
        assert table is not None
        zone = table["period"].timezone
        events: dict[str, Events] = _placed(table["events"], "events", zone)
        operators = [
            operator.reading(*events) if len(events) == 1 else operator
            for operator in _placed(table["operator"], "operator", zone)
        ]
        edges = [_between(edge, operators) for edge in _placed(table.get("edge", []), "edge", zone)]
        cluster = table.get("cluster")
        if cluster is not None:
            cluster = replace(cluster, limits=table.get("limits", {}))
            problems += cluster.problems()
        elif "limits" in table:
            told = "is of no use without [cluster]"
            problems.append(Problem("limits", None, told, "remove it"))
        raise_any(
            [*_of_operators(operators, events), *_of_edges(edges, operators), *problems], source
        )
        return cls(
            name=table["name"],
            calendar=table["period"].calendar(),
            events=tuple(events.values()),
            operators=tuple(operators),
            edges=tuple(edges),
            cluster=cluster,
            description=table.get("description", ""),
            units=table.get("units", {}),
            base=Path(base),
            document=document,
            source=source,
        )

    def with_paths(self, paths: Mapping[str, str]) -> Job:
        """Return the job with other files for its recordings; their endings tell their formats.

        Raises
        ------
        InvalidInput
            The description has options that the format of such a file has no use for.
        """
        changed = []
        for events in self.events:
            path = paths.get(events.name, events.path)
            kind = format_of(path) if events.name in paths else ""
            read = {key: value for key, value in events.read.items() if key != "format"}
            try:
                told = replace(events, path=path, format=kind or events.format, read=read)
            except Fault as fault:  # entries that another format has no use for
                problems = [replace(p, path=f"{events.where}.{p.path}") for p in fault.problems]
                raise InvalidInput(problems, self.source) from None
            changed.append(told)
        return replace(self, events=tuple(changed))


def load_job(path: str | Path) -> Job:
    """Read a job description.

    Raises
    ------
    InvalidInput
        It cannot be read, is not TOML, or is wrong.
    """
    path = Path(path)
    return Job.from_dict(read_toml(path, MAX_JOB_BYTES), path.parent, str(path))


# -- the whole file --------------------------------------------------------------------------------

_JOB: TypeAdapter[dict[str, Any]] = TypeAdapter(
    table_type(
        "Job",
        format=Required[Literal[FORMAT]],
        name=Required[Text],
        description=Annotated[str, Strict()],
        period=Required[PeriodTable],
        events=Required[Annotated[dict[Identifier, Events], Field(min_length=1)]],
        operator=Required[Many[OperatorSpec]],
        edge=list[Edge],
        cluster=ClusterSpec,
        limits=dict[str, Any],
        units=dict[str, Text],
    )
)


def _placed(value: Any, where: str, zone: str, name: str = "") -> Any:
    """Return a part of the file with its place, its name, and the time zone that it falls to."""
    if isinstance(value, Mapping):
        return {key: _placed(v, f"{where}.{key}", zone, key) for key, v in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], Expression):
        return tuple(_placed(side, where, zone) for side in value)  # a pair has one place
    if isinstance(value, list | tuple):
        return tuple(_placed(item, f"{where}[{i}]", zone) for i, item in enumerate(value))
    if isinstance(value, Expression):
        return replace(value, where=where)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    told = {"where": where, "name": name, "zone": getattr(value, "zone", "") or zone}
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    parts = {key: _placed(part, f"{where}.{key}", zone) for key, part in parts.items()}
    return replace(value, **parts | {key: told[key] for key in told if key in parts})


def _between(edge: Edge, operators: Sequence[OperatorSpec]) -> Edge:
    """Return an edge with the events that reach both ends, where it names none."""
    return replace(edge, events=edge.events or _common(edge, operators))


def _common(edge: Edge, operators: Sequence[OperatorSpec]) -> tuple[str, ...]:
    """Return the recordings that reach both ends of an edge."""
    reached = {o.id: [i.events for i in o.inputs] for o in operators}
    both = set(reached.get(edge.source, ())) & set(reached.get(edge.target, ()))
    return tuple(name for name in reached.get(edge.source, ()) if name in both)


def _of_operators(
    operators: Sequence[OperatorSpec], events: Mapping[str, Events]
) -> Iterator[Problem]:
    """Find what operators say against each other and the recordings."""
    for i, operator in enumerate(operators):
        if operator.id in [other.id for other in operators[:i]]:
            yield Problem(f"operator[{i}].id", operator.id, "stands twice")
        names: list[str] = []
        for entry in operator.inputs:
            where = f"{entry.key.where.removesuffix('.key')}.events"
            if entry.events not in events:
                reason = "is no recording" if entry.events else "is missing"
                yield Problem(where, entry.events or None, reason, f"one of {', '.join(events)}")
            elif entry.events in names:
                yield Problem(where, entry.events, "stands twice")
            names.append(entry.events)


def _of_edges(edges: Sequence[Edge], operators: Sequence[OperatorSpec]) -> Iterator[Problem]:
    """Find what edges say against each other and the operators."""
    known = [operator.id for operator in operators]
    for i, edge in enumerate(edges):
        ends = (edge.source, edge.target)
        common = _common(edge, operators)
        for key, name in zip(("from", "to"), ends, strict=True):
            if name not in known:
                yield Problem(
                    f"edge[{i}].{key}", name, "is no operator", f"one of {', '.join(known)}"
                )
        if ends in [(other.source, other.target) for other in edges[:i]]:
            yield Problem(f"edge[{i}]", " → ".join(ends), "stands twice")
        if edge.source == edge.target:
            yield Problem(f"edge[{i}]", edge.source, "leads from an operator to itself")
        elif set(ends) <= set(known) and not (common and set(edge.events) <= set(common)):
            remedy = (
                f"these do: {', '.join(common)}" if common else "give both an input of the same"
            )
            shown = ", ".join(edge.events) or None
            yield Problem(f"edge[{i}].events", shown, "must reach both operators", remedy)
