"""Recordings of events, the tables looked up for them, and the expressions over their columns."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, Strict

from experiments.documents import TABLE, Derived, Flag, Many, OneOrMany, Text
from experiments.traces.functions import TYPES, check_functions
from experiments.traces.grammar import ExpressionFault, Node, parse
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
    """An expression and where it stands in the file."""

    where: str
    text: str
    node: Node


def _parsed(value: Any) -> Expression:
    """Parse an expression, a text or a number; where it stands is added when that is known."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(value)
    if not isinstance(value, str):
        raise Fault("must be an expression", "a text or a number")
    try:
        node = parse(value)
        check_functions(node)
    except ExpressionFault as fault:
        raise Fault(problems=[fault.problem("", value)]) from None
    return Expression("", value, node)


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
    if not isinstance(value, list):
        return value
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
"""Options of Spark's readers that are passed through."""

_OF_CSV = {"multiline": False, "decimal": ".", "quote": '"', "escape": '"', "header": True}
"""What other formats have no use for, and its usual value."""

_OURS = {
    "header": "header", "sep": "delimiter", "delimiter": "delimiter", "quote": "quote",
    "escape": "escape", "encoding": "encoding", "charset": "encoding", "nullValue": "null",
    "decimal": "decimal", "multiLine": "multiline",
}  # fmt: skip
"""Entries of ours that say the same as an option of Spark's readers, by its name."""


def _delimiter(value: str) -> str:
    if len(value) != 1 or value in '"\n\r\\':
        raise Fault("must be one character")
    return value


def _pair(sides: tuple[Expression, ...]) -> tuple[Expression, Expression]:
    if len(sides) > 2:
        raise Fault("must be one expression, or a pair")
    return sides[0], sides[-1]


ONE = _parsed(1)

Parsed = Annotated[Expression, PlainValidator(_parsed)]
Identifier = Annotated[str, AfterValidator(_identifier)]
OptionValue = Annotated[bool, Strict()] | Annotated[int, Strict()] | Annotated[str, Strict()]
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
        Further options of Spark's reader, by its names.
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
    read: dict[str, OptionValue] = field(default_factory=dict)
    zone: Annotated[Zone, Field(alias="timezone")] = ""
    multiline: Flag = False
    encoding: Annotated[str, Strict(), AfterValidator(_encoding)] = UTF_8

    def __post_init__(self) -> None:
        if not self.format:
            packed = "csv" if self.path.lower().endswith(".zip") else ""
            object.__setattr__(self, "format", format_of(self.path) or packed)
        if not self.format:
            told = "is missing, and the path does not tell it"
            raise Fault(problems=[Problem("format", None, told, f"one of {', '.join(_FORMATS)}")])
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
        self._check_read()
        if self.encoding != UTF_8 and self.format == "parquet":
            told = "is of use for CSV and JSON only"
            raise Fault(problems=[Problem("encoding", self.encoding, told, "remove it")])

    def _check_read(self) -> None:
        """Refuse options that Spark's reader of the format does not have, or that have a name."""
        problems = []
        known = OPTIONS[self.format]
        for name, value in self.read.items():
            if name in known:
                continue
            same = _OURS.get(name) if self.format != "parquet" else None
            reason = "is no option of this reader that is passed through"
            remedy = f"options: {', '.join(known)}"
            if same is not None:
                reason, remedy = f"is called {same} here", f"write {same} = … beside path"
            problems.append(Problem(f"read.{name}", value, reason, remedy))
        if problems:
            raise Fault(problems=problems)

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
    for packed in (".zip", ".gz"):
        name = name.removesuffix(packed)
    return next((kind for end, kind in _ENDINGS.items() if name.rstrip("/").endswith(end)), "")
