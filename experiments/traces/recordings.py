"""Recordings of events, the tables looked up for them, and the expressions over their columns."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, Strict

from experiments.documents import TABLE, Derived, Flag, Many, OneOrMany, Text
from experiments.traces.expressions import TYPES, ExpressionFault, column_names, parse
from experiments.traces.periods import Zone  # noqa: TC001 (pydantic reads it)
from optim.errors import Problem
from optim.format.read import Fault

_ENDINGS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ENDINGS |= {".json": "jsonl"}
_FORMATS = ("csv", "parquet", "jsonl")
UTF_8 = "utf-8"
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Expression:
    """An expression and where it stands in the file.

    Attributes
    ----------
    tree
        As `experiments.traces.expressions.parse` gives it.
    names
        Columns that it reads.
    """

    where: str
    text: str
    tree: Any
    names: tuple[str, ...]


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
        raise Fault("is no format", f"one of {', '.join(_FORMATS)}")
    return name


def _encoding(name: str) -> str:
    try:
        found = codecs.lookup(name)
        if not found._is_text_encoding or "\0" in name:
            raise LookupError
    except (LookupError, ValueError):
        raise Fault("is no encoding", "such as utf-8, latin-1, cp1252 or utf-16") from None
    return UTF_8 if found.name == "utf-8-sig" else found.name  # Spark passes over the mark


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


OPTIONS = {
    "csv": (
        "comment", "emptyValue", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "lineSep",
        "maxCharsPerColumn", "maxColumns", "nanValue", "unescapedQuoteHandling",
    ),
    "jsonl": (
        "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
        "allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars",
        "allowUnquotedFieldNames", "lineSep", "multiLine",
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
}  # fmt: skip
"""Options of Spark's readers that are passed through as they are."""

_FIELDS = {
    "csv": {
        "header": "header", "sep": "delimiter", "delimiter": "delimiter", "quote": "quote",
        "escape": "escape", "encoding": "encoding", "charset": "encoding", "nullvalue": "null",
        "decimal": "decimal", "multiline": "multiline",
    },
    "jsonl": {"encoding": "encoding", "charset": "encoding"},
    "parquet": {},
}  # fmt: skip
"""Options of Spark's readers, in small letters, that are entries of their own, too."""

_NOT_PASSED = {
    "mode": "wrong rows are always refused, with their file and text",
    "inferschema": "columns declares types",
    "schema": "columns declares types",
    "enforceschema": "all files have the same header",
    "pathglobfilter": "path takes patterns",
    "recursivefilelookup": "path takes patterns, such as logs/*/*.csv",
    "dateformat": "time(text) reads moments",
    "timestampformat": "time(text) reads moments",
}
_ENDINGS_OF = {
    "none": ("",), "uncompressed": ("",), "gzip": (".gz",), "bzip2": (".bz2",), "zip": (".zip",),
    "zstd": (".zst",), "lz4": (".lz4",), "snappy": (".snappy",), "deflate": (".deflate",),
}  # fmt: skip
"""By the name of a compression: the ending from which Spark takes it."""
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
        known: dict[Any, bool] = {True: True, False: False, "true": True, "false": False}
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value not in known:
            raise Fault("must be true or false")
        return known[value]
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
    """Rows to be read.

    Attributes
    ----------
    where
        Where the description has them, for messages.
    path
        Local, ``package:name/file``, or anything Spark reads.
    format
        ``csv``, ``parquet`` or ``jsonl``; where it is not given, the path tells it.
    columns
        Declared types; of CSV without a header line all columns, in their order.
    null
        Text that stands for null in CSV.
    delimiter, quote, escape
        Of CSV; a quote within quotes is written with `escape` before it.
    header
        Whether files of CSV begin with the names of their columns.
    decimal
        What stands before the fraction of a number: ``.`` or ``,``.
    read
        ``format``, ``names`` (of columns, where no line names them) and ``options`` of Spark's
        reader, by its names; options may stand beside these, too.
    options
        Of these, what Spark's reader gets as it stands.
    zone
        Time zone of moments without offset; where it is not given, that of the periods.
    multiline
        Whether quoted values of CSV may hold line breaks.
    encoding
        Of CSV and JSON, by Python's name of it.
    """

    __pydantic_config__ = TABLE
    where: Derived[str] = ""
    path: Text
    format: Annotated[str, AfterValidator(_format)] = ""
    columns: Annotated[
        dict[str, Literal[TYPES]],  # type: ignore[valid-type]
        BeforeValidator(_columns),
    ] = field(default_factory=dict)
    null: Annotated[str, Strict()] | None = None
    delimiter: Annotated[str, Strict(), AfterValidator(_delimiter)] = ","
    quote: Annotated[str, Strict(), AfterValidator(_quote)] = '"'
    escape: Annotated[str, Strict(), AfterValidator(_quote)] = '"'
    header: Flag = True
    decimal: Literal[".", ","] = "."
    read: dict[str, Any] = field(default_factory=dict)
    options: Derived[dict[str, Any]] = field(default_factory=dict)
    zone: Annotated[Zone, Field(alias="timezone")] = ""
    multiline: Flag = False
    encoding: Annotated[str, Strict(), AfterValidator(_encoding)] = UTF_8

    def __post_init__(self) -> None:
        self._take("format", self.read.get("format"), _format)
        if not self.format:
            packed = "csv" if self.path.lower().endswith(".zip") else ""
            object.__setattr__(self, "format", format_of(self.path) or packed)
        if not self.format:
            told = "is missing, and the path does not tell it"
            raise Fault(problems=[Problem("format", None, told, f"one of {', '.join(_FORMATS)}")])
        self._take("columns", self.read.get("names"), _names, "read.names")
        self._take_options()
        for name, value in _OF_CSV.items():
            given = getattr(self, name)
            if given != value and self.format != "csv":
                told = "is of use for CSV only"
                raise Fault(problems=[Problem(name, given, told, "remove it")])
        if not self.header and not self.columns:
            told = "says that no line names the columns, and columns does not name them"
            remedy = 'name all in their order: columns = ["at", "user"], or a table with types'
            raise Fault(problems=[Problem("header", False, told, remedy)])
        if self.quote == self.delimiter or self.escape == self.delimiter:
            raise Fault(problems=[Problem("delimiter", self.delimiter, "is the quote or escape")])
        if self.encoding != UTF_8 and self.format == "parquet":
            told = "is of use for CSV and JSON only"
            raise Fault(problems=[Problem("encoding", self.encoding, told, "remove it")])

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
                told = f"lack {unknown[0]}, which columns declares"
                raise Fault(problems=[Problem("read.names", list(value), told, "name all")])
            value = {n: before.get(n, kind) for n, kind in value.items()}
            object.__setattr__(self, "header", False)
        elif name == "header" and value and self.read.get("names"):
            told = "stands beside names, which are for files without such a line"
            raise Fault(problems=[Problem(where, value, told, "remove one")])
        elif before not in (value, usual.default):
            told = f"is {before!r} beside path, and another value here"
            raise Fault(problems=[Problem(where, value, told, "remove one")])
        object.__setattr__(self, name, value)

    def _take_options(self) -> None:
        """Sort the options of Spark's reader: entries of their own, passed through, refused."""
        inner = self.read.get("options", {})
        if not isinstance(inner, dict):
            told = "must be a table"
            raise Fault(problems=[Problem("read.options", inner, told, "such as {sep = ';'}")])
        given = {f"read.{n}": v for n, v in self.read.items() if n not in _OWN}
        given |= {f"read.options.{n}": v for n, v in inner.items()}
        passed: dict[str, Any] = {}
        fields, known = _FIELDS[self.format], {n.lower(): n for n in OPTIONS[self.format]}
        problems = []
        for where, value in given.items():
            name = where.rpartition(".")[2]
            small = name.lower()
            if small in fields:
                entry = fields[small]
                self._take(entry, value, lambda v, entry=entry: _checked_option(entry, v), where)
            elif small == "compression":
                self._check_compression(where, value)
            elif small not in known:
                reason = "is no option of this reader that is passed through"
                options = [*known.values(), *fields]
                remedy = _NOT_PASSED.get(small) or f"options: {', '.join(options)}"
                problems.append(Problem(where, value, reason, remedy))
            elif not isinstance(value, bool | int | str):
                problems.append(Problem(where, value, "must be a text, a whole number or a flag"))
            else:
                passed[known[small]] = value
        if problems:
            raise Fault(problems=problems)
        object.__setattr__(self, "options", passed)

    def _check_compression(self, where: str, value: Any) -> None:
        """Refuse a compression other than that of the ending, which is all that Spark looks at."""
        endings = _ENDINGS_OF.get(str(value).lower())
        reason, remedy = "is no compression", f"one of {', '.join(_ENDINGS_OF)}"
        if endings is not None:
            path = self.path.lower()
            packed = next((end for end in _PACKED if path.endswith(end)), "")
            whole = not PurePosixPath(path).suffix  # a folder: its files have endings of their own
            if self.format == "parquet" or whole or packed in endings:
                return
            reason = "is not what the ending of the path says, and Spark goes by that"
            remedy = f"rename the file to …{endings[0] or '.' + self.format}"
        raise Fault(problems=[Problem(where, value, reason, remedy)])

    @property
    def wide(self) -> bool:
        """Whether a line break is more than one byte, so that lines cannot be told by bytes."""
        return "\n".encode(self.encoding) != b"\n"


@dataclass(frozen=True, kw_only=True)
class Join(Files):
    """A table whose columns are looked up for every event: a left join.

    Attributes
    ----------
    name
        Columns are ``name.column`` in expressions.
    on
        Pairs: expression over the events, expression over the table.
    """

    __pydantic_config__ = TABLE
    name: Derived[str] = ""
    on: Many[Pair]


@dataclass(frozen=True, kw_only=True)
class Events(Files):
    """A recording of events.

    Attributes
    ----------
    name
        What they are called.
    time
        When an event happened.
    arrival
        When it reached the system; ``None``: at once.
    join
        Tables looked up, by name.
    """

    __pydantic_config__ = TABLE
    name: Derived[str] = ""
    time: Parsed
    arrival: Parsed | None = None
    join: dict[Identifier, Join] = field(default_factory=dict)

    @property
    def joins(self) -> tuple[Join, ...]:
        """Tables looked up."""
        return tuple(self.join.values())


def format_of(path: str) -> str:
    """Return the format that a path's ending tells; empty if it tells none."""
    name = path.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return next((kind for end, kind in _ENDINGS.items() if name.rstrip("/").endswith(end)), "")
