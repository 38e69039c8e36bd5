"""What a job description says: events, operators with their keys, edges, periods, cluster."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Required

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, Strict, TypeAdapter

from experiments.documents import (
    TABLE,
    Derived,
    Flag,
    Many,
    OneOrMany,
    Positive,
    Text,
    Whole,
    check_toml,
    read_toml,
    table_type,
)
from experiments.traces.expressions import TYPES, ExpressionFault, column_names, parse
from experiments.traces.instances import Calendar, PeriodTable, Zone
from optim.errors import InvalidInput, Problem, meant, raise_any
from optim.format.document import Fault

_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ENDINGS |= {".json": "jsonl"}
_FORMATS = ("csv", "parquet", "jsonl")
UTF_8 = "utf-8"
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Expression:
    """An expression and where it stands in the file."""

    where: str
    text: str
    tree: Any  # As `experiments.traces.expressions.parse` gives it.
    names: tuple[str, ...]  # Columns that it reads.


def _parsed(value: Any) -> Expression:
    """Parse an expression, a text or a number; where it stands is added when that is known."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    if not isinstance(value, str):
        raise Fault("must be an expression", "a text or a number")
    try:
        tree = parse(value)
    except ExpressionFault as fault:
        raise Fault(problems=[fault.problem("", value)]) from None
    return Expression("", value, tree, column_names(tree))


def _identifier(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Fault("is no name", "letters, digits and _")
    return name


def _format(name: str) -> str:
    if name not in _FORMATS:
        raise Fault("is no format", meant(name, _FORMATS))
    return name


def _encoding(name: str) -> str:
    try:
        codec = codecs.lookup(name)
        if not codec._is_text_encoding or "\0" in name:
            raise LookupError
    except (LookupError, ValueError):
        raise Fault("is no encoding", "such as utf-8, latin-1, cp1252 or utf-16") from None
    return UTF_8 if codec.name == "utf-8-sig" else codec.name  # Spark passes over the mark


def _quote(value: str) -> str:
    if len(value) != 1 or value in "\n\r\0":
        raise Fault("must be one character")
    return value


def _columns(value: Any) -> Any:
    """Take a list of names for columns of text."""
    return _names(value) if isinstance(value, list) else value


def _names(value: Any) -> dict[str, str]:
    """Return columns of text by their names."""
    if not isinstance(value, list | tuple):
        raise Fault("must be a list of names", 'such as ["at", "user"]')
    if not value or not all(isinstance(name, str) and name for name in value):
        raise Fault("must be types by column, or a list of names", 'such as ["at", "user"]')
    twice = [name for i, name in enumerate(value) if name in value[:i]]
    if twice:
        raise Fault(f"names {twice[0]} twice", "rename one")
    return dict.fromkeys(value, "text")


READERS = tomllib.loads(Path(__file__).with_name("readers.toml").read_text(encoding="utf-8"))
"""Options of Spark's readers: ``passed`` through, ``entries`` of their own, what is ``instead``."""

_PACKED = (".zip", ".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")

_OF_CSV = {"multiline": False, "decimal": ".", "quote": '"', "escape": '"', "header": True}
"""What other formats have no use for, and its usual value."""


def _delimiter(value: str) -> str:
    if len(value) != 1:
        raise Fault("must be one character", "read.options.sep takes more")
    return _separator(value)


def _separator(value: str) -> str:
    value = {"\\t": "\t"}.get(value, value)
    if not value or any(mark in value for mark in '"\n\r\\'):
        raise Fault("must be one character or more, no quote and no line break", "such as ; or |")
    return value


def _checked_option(name: str, value: Any) -> Any:
    """Return an option that is an entry of its own, as that entry takes it."""
    if name in ("header", "multiline"):
        flags: dict[Any, bool] = {True: True, False: False, "true": True, "false": False}
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value not in flags:
            raise Fault("must be true or false")
        return flags[value]
    if not isinstance(value, str):
        raise Fault("must be a text")
    if name == "decimal" and value not in (".", ","):
        raise Fault("must be '.' or ','")
    if name == "quote" and not value:
        return value  # no sign is a quote
    checks = {"delimiter": _separator, "quote": _quote, "escape": _quote, "encoding": _encoding}
    return checks[name](value) if name in checks else value


def _pair(sides: tuple[Expression, ...]) -> tuple[Expression, Expression]:
    if len(sides) > 2:
        raise Fault("must be one expression, or a pair")
    return sides[0], sides[-1]


ONE = _parsed(1)

Parsed = Annotated[Expression, PlainValidator(_parsed)]
Identifier = Annotated[str, AfterValidator(_identifier)]
_OWN = ("format", "names", "options")
Pair = Annotated[OneOrMany[Parsed], AfterValidator(_pair)]


@dataclass(frozen=True, kw_only=True)
class Files:
    """Rows to be read."""

    __pydantic_config__ = TABLE
    where: Derived[str] = ""  # Where the description has them, for messages.
    path: Text  # Local, ``package:name/file``, or anything Spark reads.
    #: ``csv``, ``parquet`` or ``jsonl``; where it is not given, it follows from the path's ending.
    format: Annotated[str, AfterValidator(_format)] = ""
    #: Declared types; of CSV without a header line all columns, in their order.
    columns: Annotated[
        dict[str, Literal[TYPES]],  # type: ignore[valid-type]
        BeforeValidator(_columns),
    ] = field(default_factory=dict)
    null: Annotated[str, Strict()] | None = None  # Text that stands for null in CSV.
    #: Of CSV; a quote within quotes is written with `escape` before it.
    delimiter: Annotated[str, Strict(), AfterValidator(_delimiter)] = ","
    quote: Annotated[str, Strict(), AfterValidator(_quote)] = '"'
    escape: Annotated[str, Strict(), AfterValidator(_quote)] = '"'
    header: Flag = True  # Whether files of CSV begin with the names of their columns.
    decimal: Literal[".", ","] = "."  # What stands before the fraction of a number: ``.`` or ``,``.
    #: ``format``, ``names`` (of columns, where no line names them) and ``options`` of Spark's
    #: reader, by its names; options may stand beside these, too.
    read: dict[str, Any] = field(default_factory=dict)
    #: Of these, what Spark's reader gets as it stands.
    options: Derived[dict[str, Any]] = field(default_factory=dict)
    #: Time zone of moments without offset; where it is not given, that of the periods.
    zone: Annotated[Zone, Field(alias="timezone")] = ""
    multiline: Flag = False  # Whether quoted values of CSV may hold line breaks.
    #: Of CSV and JSON, by Python's name of it.
    encoding: Annotated[str, Strict(), AfterValidator(_encoding)] = UTF_8

    def __post_init__(self) -> None:
        self._take("format", self.read.get("format"), _format)
        if not self.format:
            packed = "csv" if self.path.lower().endswith(".zip") else ""
            object.__setattr__(self, "format", format_of(self.path) or packed)
        if not self.format:
            reason = "is missing, and does not follow from the path's ending"
            raise Fault(problems=[Problem("format", None, reason, f"one of {', '.join(_FORMATS)}")])
        self._take("columns", self.read.get("names"), _names, "read.names")
        self._take_options()
        for name, value in _OF_CSV.items():
            chosen = getattr(self, name)
            if chosen != value and self.format != "csv":
                reason = "is of use for CSV only"
                raise Fault(problems=[Problem(name, chosen, reason, "remove it")])
        if not self.header and not self.columns:
            reason = "says that no line names the columns, and columns does not name them"
            remedy = 'name all in their order: columns = ["at", "user"], or a table with types'
            raise Fault(problems=[Problem("header", False, reason, remedy)])
        if self.quote == self.delimiter or self.escape == self.delimiter:
            raise Fault(problems=[Problem("delimiter", self.delimiter, "is the quote or escape")])
        if self.encoding != UTF_8 and self.format == "parquet":
            reason = "is of use for CSV and JSON only"
            raise Fault(problems=[Problem("encoding", self.encoding, reason, "remove it")])

    def _take(self, name: str, value: Any, checked: Any, where: str = "") -> None:
        """Take an entry from ``read``, unless another value stands beside ``path``."""
        if value is None:
            return
        where = where or f"read.{name}"
        try:
            value = checked(value)
        except Fault as fault:
            raise Fault(problems=[Problem(where, value, fault.reason, fault.remedy)]) from None
        usual = type(self).__dataclass_fields__[name]
        before = getattr(self, name)
        if name == "columns":
            # names give the order, columns the types
            unknown = [n for n in before if n not in value]
            if unknown:
                reason = f"lack {unknown[0]}, which columns declares"
                raise Fault(problems=[Problem("read.names", list(value), reason, "name all")])
            value = {n: before.get(n, kind) for n, kind in value.items()}
            object.__setattr__(self, "header", False)
        elif name == "header" and value and self.read.get("names"):
            reason = "stands beside names, which are for files without such a line"
            raise Fault(problems=[Problem(where, value, reason, "remove one")])
        elif before not in (value, usual.default):
            reason = f"is {before!r} beside path, and another value here"
            raise Fault(problems=[Problem(where, value, reason, "remove one")])
        object.__setattr__(self, name, value)

    def _take_options(self) -> None:
        """Sort the options of Spark's reader: entries of their own, passed through, refused."""
        inner = self.read.get("options", {})
        if not isinstance(inner, dict):
            refusal = "must be a table"
            raise Fault(problems=[Problem("read.options", inner, refusal, "such as {sep = ';'}")])
        entries = {f"read.{n}": v for n, v in self.read.items() if n not in _OWN}
        entries |= {f"read.options.{n}": v for n, v in inner.items()}
        passed: dict[str, Any] = {}
        fields, allowed = (
            READERS["entries"][self.format],
            {n.lower(): n for n in READERS["passed"][self.format]},
        )
        problems = []
        for where, value in entries.items():
            name = where.rpartition(".")[2]
            small = name.lower()
            if small in fields:
                entry = fields[small]
                self._take(entry, value, lambda v, entry=entry: _checked_option(entry, v), where)
            elif small == "compression":
                self._check_compression(where, value)
            elif small not in allowed:
                reason = "is no option of this reader that is passed through"
                options = [*allowed.values(), *fields]
                remedy = READERS["instead"].get(small) or f"options: {', '.join(options)}"
                problems.append(Problem(where, value, reason, remedy))
            elif not isinstance(value, bool | int | str):
                problems.append(Problem(where, value, "must be a text, a whole number or a flag"))
            else:
                passed[allowed[small]] = value
        if problems:
            raise Fault(problems=problems)
        object.__setattr__(self, "options", passed)

    def _check_compression(self, where: str, value: Any) -> None:
        """Refuse a compression other than that of the ending, which is all that Spark looks at."""
        endings = READERS["endings"]
        ending = endings.get(str(value).lower())
        reason, remedy = "is no compression", meant(str(value), endings)
        if ending is not None:
            path = self.path.lower()
            packed = next((end for end in _PACKED if path.endswith(end)), "")
            whole = not PurePosixPath(path).suffix  # a folder: its files have endings of their own
            if self.format == "parquet" or whole or packed == ending:
                return
            reason = "is not what the ending of the path says, and Spark goes by that"
            remedy = f"rename the file to …{ending or '.' + self.format}"
        raise Fault(problems=[Problem(where, value, reason, remedy)])

    def refused(self, reason: str, remedy: str = "", value: str | None = None) -> InvalidInput:
        """Return the error about its path, or about a value there."""
        shown = self.path if value is None else value
        return InvalidInput(Problem(f"{self.where}.path", shown, reason, remedy))

    @property
    def wide(self) -> bool:
        """Whether a line break is more than one byte, so that lines cannot be found by bytes."""
        return "\n".encode(self.encoding) != b"\n"


@dataclass(frozen=True, kw_only=True)
class Join(Files):
    """A table whose columns are looked up for every event: a left join."""

    __pydantic_config__ = TABLE
    name: Derived[str] = ""  # Columns are ``name.column`` in expressions.
    on: Many[Pair]  # Pairs: expression over the events, expression over the table.


@dataclass(frozen=True, kw_only=True)
class Events(Files):
    """A recording of events."""

    __pydantic_config__ = TABLE
    name: Derived[str] = ""  # What they are called.
    time: Parsed  # When an event happened.
    arrival: Parsed | None = None  # When it reached the system; ``None``: at once.
    join: dict[Identifier, Join] = field(default_factory=dict)  # Tables looked up, by name.

    @property
    def joins(self) -> tuple[Join, ...]:
        """Tables looked up."""
        return tuple(self.join.values())


def format_of(path: str) -> str:
    """Return the format that a path's ending names; empty if it names none."""
    name = path.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return next((kind for end, kind in _ENDINGS.items() if name.rstrip("/").endswith(end)), "")


# -- where key groups are placed: [cluster] and [limits] -------------------------------------------

MAX_NODES = 100_000


def _equal_nodes(value: Any) -> Any:
    """Take a number for so many equal nodes."""
    if isinstance(value, list) and value:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault("must be a number, or a list of tables")
    if not 1 <= value <= MAX_NODES:
        raise Fault(f"must be from 1 to {MAX_NODES}")
    width = len(str(value - 1))
    return [{"id": f"n{i:0{width}d}"} for i in range(value)]


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Where key groups are placed."""

    __pydantic_config__ = TABLE
    #: Entries of the instance format; a number stands for so many equal ones.
    nodes: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_equal_nodes)]
    capacity: Positive | None = None  # Of nodes that have none of their own.
    resource: Text = "cpu"  # What loads are measured in.
    load_scale: Positive | None = None  # Load per unit of cost and second.
    #: Instead: percent of all capacity that the mean load of the recording is to be.
    utilisation: Positive | None = None
    placement: Text = "round-robin"  # Where key groups are at first.
    #: Of the instance format.
    links: tuple[dict[str, Any], ...] = ()
    crossing_cost: dict[str, Any] = field(default_factory=dict)
    limits: Derived[dict[str, Any]] = field(default_factory=dict)  # Of the instance format.

    def __post_init__(self) -> None:
        common = {} if self.capacity is None else {"capacity": {self.resource: self.capacity}}
        object.__setattr__(self, "nodes", tuple({**common, **entry} for entry in self.nodes))
        if self.utilisation is not None and self.load_scale is not None:
            self._refuse_utilisation("stands beside load_scale", "give one")
        capacities = [node.get("capacity") for node in self.nodes]
        bounded = all(isinstance(c, dict) and self.resource in c for c in capacities)
        if self.utilisation is not None and not bounded:
            self._refuse_utilisation("needs a capacity", "add capacity = 100")

    def _refuse_utilisation(self, reason: str, remedy: str) -> None:
        raise Fault(problems=[Problem("utilisation", self.utilisation, reason, remedy)])

    def document(self) -> dict[str, Any]:
        """Return its part of the document of an instance."""
        return {
            "resources": [self.resource],
            "nodes": [dict(node) for node in self.nodes],
            "links": [dict(link) for link in self.links],
            "crossing_cost": dict(self.crossing_cost),
            "limits": dict(self.limits),
        }

    def problems(self) -> Iterator[Problem]:
        """Let the instance format judge nodes and limits, so that both mean the same there."""
        from optim.format.instance import Instance

        document = {
            "format": "streamplace.instance/1",
            "name": "cluster",
            **self.document(),
            "tasks": [{"id": "t"}],
        }
        try:
            Instance.from_dict(document)
        except InvalidInput as error:
            for problem in error.problems:
                prefix = "" if problem.path.startswith("limits") else "cluster."
                path = f"{prefix}{problem.path}"
                yield Problem(path, problem.value, problem.reason, problem.remedy)


# -- operators, edges, the whole job ---------------------------------------------------------------

FORMAT = "streamplace.job/1"
MAX_JOB_BYTES = 1 << 20
MAX_KEY_GROUPS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Input:
    """What an operator does with the events of one recording."""

    __pydantic_config__ = TABLE
    events: Text = ""  # Name of the recording; the only one, where it is not given.
    key: Parsed  # Its values are hashed to key groups.
    cost: Parsed = field(default_factory=lambda: ONE)  # Of one event, any unit.
    state: Parsed | None = None  # Of one key; ``None``: the operator keeps none here.


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """An operator."""

    __pydantic_config__ = TABLE
    #: Its name and number of key groups.
    id: Text
    key_groups: Annotated[Whole, Field(ge=1, le=MAX_KEY_GROUPS)]
    #: ``drop``: events without key do not reach it; ``group``: null is a key like others.
    null_key: Literal["drop", "group"] = "drop"
    input: Many[Input] | None = None  # One for each recording that reaches it.
    #: Instead: its only input.
    events: Text = ""
    key: Parsed | None = None
    cost: Parsed | None = None
    state: Parsed | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.input is not None:
            besides = [f.name for f in fields(Input) if getattr(self, f.name)]
            problems = [Problem(n, None, "stands beside input", "put it into one") for n in besides]
        elif self.key is None:
            problems = [Problem("key", None, "is missing", "add an expression")]
        if problems:
            raise Fault(problems=problems)

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
    """Traffic between two operators."""

    __pydantic_config__ = TABLE
    #: Operators.
    source: Annotated[Text, Field(alias="from")]
    target: Annotated[Text, Field(alias="to")]
    #: Recordings whose events travel on it; those that reach both, where it is not given.
    events: OneOrMany[Text] = ()
    rate: Parsed = field(default_factory=lambda: ONE)  # Amount that one event sends, any unit.


@dataclass(frozen=True)
class Job:
    """A job description, checked."""

    name: str
    calendar: Calendar  # Statistics periods.
    #: As above.
    events: tuple[Events, ...]
    operators: tuple[OperatorSpec, ...]
    edges: tuple[Edge, ...]
    cluster: ClusterSpec | None = None  # ``None``: no instances can be made.
    description: str = ""
    units: Mapping[str, str] = field(default_factory=dict)  # Of instances.
    base: Path = field(default_factory=Path)  # Folder that paths are relative to.
    document: Mapping[str, Any] = field(default_factory=dict)  # As in the file.
    source: str = "job"  # Name of the file.

    @classmethod
    def from_dict(cls, document: Any, base: str | Path = ".", source: str = "job") -> Job:
        """Check the content of a description.

        Raises `InvalidInput`: with everything that is wrong with it.
        """
        problems: list[Problem] = []
        table = check_toml(_JOB, document, problems)
        raise_any(problems, source)
        assert table is not None
        zone = table["period"].timezone
        events: dict[str, Events] = _with_places(table["events"], "events", zone)
        operators = [
            operator.reading(*events) if len(events) == 1 else operator
            for operator in _with_places(table["operator"], "operator", zone)
        ]
        edges = [
            replace(edge, events=edge.events or _common_recordings(edge, operators))
            for edge in _with_places(table.get("edge", []), "edge", zone)
        ]
        cluster = table.get("cluster")
        if cluster is not None:
            cluster = replace(cluster, limits=table.get("limits", {}))
            problems += cluster.problems()
        elif "limits" in table:
            reason = "is of no use without [cluster]"
            problems.append(Problem("limits", None, reason, "remove it"))
        raise_any(
            [*_operator_problems(operators, events), *_edge_problems(edges, operators), *problems],
            source,
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
        """Return the job with other files for its recordings; their endings give their formats.

        Raises `InvalidInput`: the description has options that the format of such a file has no use
            for.
        """
        changed = []
        for events in self.events:
            path = paths.get(events.name, events.path)
            kind = format_of(path) if events.name in paths else ""
            read = {key: value for key, value in events.read.items() if key != "format"}
            try:
                moved = replace(events, path=path, format=kind or events.format, read=read)
            except Fault as fault:  # entries that another format has no use for
                problems = [replace(p, path=f"{events.where}.{p.path}") for p in fault.problems]
                raise InvalidInput(problems, self.source) from None
            changed.append(moved)
        return replace(self, events=tuple(changed))


def load_job(path: str | Path) -> Job:
    """Read a job description. Raises `InvalidInput`: it cannot be read, or is wrong."""
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


def _with_places(value: Any, where: str, zone: str, name: str = "") -> Any:
    """Return a part of the file with its place, its name, and the time zone that it falls to."""
    if isinstance(value, Mapping):
        return {key: _with_places(v, f"{where}.{key}", zone, key) for key, v in value.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], Expression):
        return tuple(_with_places(side, where, zone) for side in value)  # a pair has one place
    if isinstance(value, list | tuple):
        return tuple(_with_places(item, f"{where}[{i}]", zone) for i, item in enumerate(value))
    if isinstance(value, Expression):
        return replace(value, where=where)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    place = {"where": where, "name": name, "zone": getattr(value, "zone", "") or zone}
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    parts = {key: _with_places(part, f"{where}.{key}", zone) for key, part in parts.items()}
    return replace(value, **parts | {key: place[key] for key in place if key in parts})


def _common_recordings(edge: Edge, operators: Sequence[OperatorSpec]) -> tuple[str, ...]:
    """Return the recordings that reach both ends of an edge."""
    reached = {o.id: [i.events for i in o.inputs] for o in operators}
    both = set(reached.get(edge.source, ())) & set(reached.get(edge.target, ()))
    return tuple(name for name in reached.get(edge.source, ()) if name in both)


def _operator_problems(
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
                yield Problem(where, entry.events or None, reason, meant(entry.events, events))
            elif entry.events in names:
                yield Problem(where, entry.events, "stands twice")
            names.append(entry.events)


def _edge_problems(edges: Sequence[Edge], operators: Sequence[OperatorSpec]) -> Iterator[Problem]:
    """Find what edges say against each other and the operators."""
    ids = [operator.id for operator in operators]
    for i, edge in enumerate(edges):
        ends = (edge.source, edge.target)
        common = _common_recordings(edge, operators)
        for key, name in zip(("from", "to"), ends, strict=True):
            if name not in ids:
                yield Problem(f"edge[{i}].{key}", name, "is no operator", meant(name, ids))
        if ends in [(other.source, other.target) for other in edges[:i]]:
            yield Problem(f"edge[{i}]", " → ".join(ends), "stands twice")
        if edge.source == edge.target:
            yield Problem(f"edge[{i}]", edge.source, "leads from an operator to itself")
        elif set(ends) <= set(ids) and not (common and set(edge.events) <= set(common)):
            remedy = (
                f"these do: {', '.join(common)}" if common else "give both an input of the same"
            )
            shown = ", ".join(edge.events) or None
            yield Problem(f"edge[{i}].events", shown, "must reach both operators", remedy)
