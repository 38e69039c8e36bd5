"""Expressions in Spark SQL: parsed by `sqlglot`, checked against an allow-list, written as SQL.

The text of a job description never reaches Spark. It is parsed, every part must be in the
allow-list (`FUNCTIONS`, `CASTS`, `_OPERATORS` and the few forms of `_Compiler`), and the SQL that
Spark gets is written from the parts, with column names of our own and every text escaped.

Types are ``text``, ``whole`` (64 bits), ``number`` (a double), ``time`` (a moment) and ``boolean``.
They are checked before anything is read. What cannot be computed is null (division by 0, overflow,
a text that is no number); null in gives null out, but for `coalesce`, ``CASE``, ``IS NULL`` and the
logic of ``AND`` and ``OR``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from optim.errors import Problem, first_line, meant

TYPES = ("text", "whole", "number", "time")  # What `columns` may declare.

MAX_LENGTH = 4000
MAX_DEPTH = 60
MAX_PARTS = 400
MAX_SQL = 200_000  # Characters of SQL: some functions name an argument more than once.

_NUMERIC = ("whole", "number")
_PLAIN = ("text", "whole", "number", "boolean")
_ANY = (*TYPES, "boolean")
_TYPES = {"numeric": _NUMERIC, "plain": _PLAIN, "any": _ANY}
_NAME = re.compile(r"[^\W\d]\w*")
_WORDS = ("null", "true", "false")


class ExpressionFault(ValueError):
    """An expression that is refused.

    `part`: text of what is wrong.
    """

    def __init__(self, reason: str, remedy: str = "", part: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.part = reason, remedy, part

    def problem(self, where: str, text: str) -> Problem:
        """Return the fault as a problem at a place of a file."""
        at = text.find(self.part) if self.part else -1
        reason = self.reason if at < 0 else f"at character {at + 1}: {self.reason}"
        return Problem(where, text, reason, self.remedy)


class Typed(NamedTuple):
    """SQL of a value, and its type."""

    sql: str
    kind: str


@dataclass(frozen=True)
class Scope:
    """What names mean."""

    columns: Mapping[str, Typed]  # SQL and type by the name in expressions.
    suggestions: Sequence[str]  # Names that a message may suggest.
    zone: str  # Time zone of the parts of a moment.
    source_zone: str  # Time zone of moments without offset.
    decimal: str = "."  # What stands before the fraction of a number in a text.
    hint: str = ""  # What may be wrong where a column is not there; empty if nothing is known.


# -- the allow-list --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A function that expressions may call."""

    takes: tuple[tuple[str, ...], ...]  # Types of each argument; the last repeats where `repeats`.
    gives: str  # Type of the result; ``same``: the common type of the arguments.
    sql: str  # With ``{0}``, … for arguments; see ``expressions.toml``.
    least: int | None = None  # Fewest arguments; as many as `takes` if not given.
    repeats: bool = False  # Whether more arguments may follow.
    all_present: bool = False  # Whether it is null where an argument is.


def _make_timestamp(source_zone: str, *parts: str) -> str:
    year, *rest = (f"TRY_CAST({part} AS INT)" for part in (*parts, *("0L",) * (6 - len(parts))))
    year = f"IF({year} BETWEEN 1 AND 9999, {year}, NULL)"
    local = f"try_make_timestamp({', '.join((year, *rest))}, 'UTC')"
    return f"to_utc_timestamp({local}, {source_zone})"


_DATED = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds from 1970 to where the year 1 begins and the year 9999 ends."""


def dated(moment: str) -> str:
    """Return SQL of a moment, null outside the years 1 to 9999, where sums of time overflow.

    The sums overflow, and are null, where the moment is too late or too early: the moment stands
    in the SQL once, and Spark computes it once.
    """
    micros = f"unix_micros({moment})"
    for limit in (2**63 - 1 - _DATED[1], -(2**63) - _DATED[0]):
        micros = f"try_subtract(try_add({micros}, {limit}L), {limit}L)"
    return f"timestamp_micros({micros})"


def _read_functions(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Function]]:
    """Yield the functions of ``expressions.toml`` by name."""
    for entry in entries:
        takes = tuple(_TYPES.get(one, tuple(one.split("|"))) for one in entry["takes"])
        for name in entry["names"]:
            sql = entry["sql"].replace("{name}", name)
            sql = dated(sql) if entry.get("dated") else sql
            more = {key: entry[key] for key in ("least", "repeats", "all_present") if key in entry}
            yield name, Function(takes, entry["gives"], sql, **more)


_ALLOWED = tomllib.loads(Path(__file__).with_name("expressions.toml").read_text(encoding="utf-8"))
FUNCTIONS: Mapping[str, Function] = dict(_read_functions(_ALLOWED["function"]))
OTHER_NAMES: Mapping[str, str] = _ALLOWED["other_names"]
INSTEAD: Mapping[str, str] = _ALLOWED["instead"]

CASTS = {
    "TEXT": ("text", "STRING"), "VARCHAR": ("text", "STRING"), "STRING": ("text", "STRING"),
    "BIGINT": ("whole", "BIGINT"), "INT": ("whole", "INT"), "DOUBLE": ("number", "DOUBLE"),
    "BOOLEAN": ("boolean", "BOOLEAN"), "TIMESTAMP": ("time", ""), "TIMESTAMPTZ": ("time", ""),
}  # fmt: skip
"""Types that ``CAST`` may name, by sqlglot's name of them."""

_ALLOWED_CASTS = "STRING, BIGINT, INT, DOUBLE, BOOLEAN or TIMESTAMP"

_OPERATORS = {"Add": ("+", "try_add"), "Sub": ("-", "try_subtract"), "Mul": ("*", "try_multiply")}
_COMPARED = {
    "EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "<=>",
}  # fmt: skip
_FORMS = "columns, numbers, 'texts', + - * / || = < > AND OR NOT IN LIKE CASE CAST and functions"


# -- parsing ---------------------------------------------------------------------------------------


def parse(text: str) -> Any:
    """Return the tree of an expression, each part of which is in the allow-list.

    Raises `ExpressionFault`: it is no expression of Spark SQL, or a part is not allowed.

    Examples
    --------
    >>> column_names(parse("cost * 2 + `so`.size"))
    ('cost', 'so.size')
    """
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError
    from sqlglot.tokens import TokenType

    if len(text) > MAX_LENGTH:
        raise ExpressionFault(f"is longer than {MAX_LENGTH} characters")
    if not text.strip():
        raise ExpressionFault("is empty", _FORMS)
    if _NAME.fullmatch(text.strip()) and text.strip().lower() not in _WORDS:
        return exp.column(exp.to_identifier(text.strip(), quoted=True))  # also `to`, `from` …
    try:
        tokens = _dialect().tokenize(text)
        if any(token.token_type is TokenType.SEMICOLON for token in tokens):
            raise ExpressionFault("is more than one expression", _FORMS, ";")
        trees = _dialect().parser().parse(tokens, text)
    except ParseError as error:
        raise _unparsed(text, error) from None
    except TokenError as error:
        reason = f"is no expression of Spark SQL: {first_line(error)}"
        raise ExpressionFault(reason, _FORMS) from None
    except RecursionError:
        raise ExpressionFault("is nested too deeply") from None
    if len(trees) != 1 or trees[0] is None:
        raise ExpressionFault("is empty", _FORMS)
    for count, part in enumerate(trees[0].walk(bfs=False)):
        if count > MAX_PARTS:
            raise ExpressionFault(f"has more than {MAX_PARTS} parts")
        if part.depth > MAX_DEPTH:
            raise ExpressionFault("is nested too deeply")
    _Compiler(None).value(trees[0])
    return trees[0]


def _unparsed(text: str, error: Any) -> ExpressionFault:
    """Return the fault of a text that does not parse, with the character where that shows."""
    details = error.errors[0] if error.errors else {}
    word = details.get("highlight") or ""
    lines = text.splitlines(keepends=True)[: (details.get("line") or 1) - 1]
    at = sum(map(len, lines)) + (details.get("col") or 1) - max(len(word) - 1, 0)
    description = (details.get("description") or "cannot be parsed").removeprefix(
        "Invalid expression / "
    )
    description = "something is missing" if "<" in description else description
    remedy = _FORMS
    if word.upper() in _dialect().tokenizer_class.KEYWORDS and _NAME.match(word):
        remedy = f"a column that is called {word} is written `{word}`"
    reason = f"at character {max(at, 1)}: {description} ({word!r}), not an expression of Spark SQL"
    return ExpressionFault(reason, remedy)


@cache
def _dialect() -> Any:
    """Return Spark's dialect in which a call stays one: its name, and all its arguments."""
    from sqlglot.dialects.spark import Spark

    class Expressions(Spark):  # sqlglot takes tokenizer and parser from the classes inside
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES: ClassVar = ["\\", "'"]  # Spark 4: a doubled quote is one

        class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
            FUNCTIONS: ClassVar[dict[str, Any]] = {}
            NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
            FUNCTION_PARSERS: ClassVar = {
                name: parser
                for name, parser in Spark.Parser.FUNCTION_PARSERS.items()
                if name in ("CAST", "TRY_CAST", "EXTRACT")
            }

    return Expressions()


def column_names(tree: Any) -> tuple[str, ...]:
    """Return the columns that an expression reads, in order, each once."""
    names: dict[str, None] = {}

    def look(part: Any) -> None:
        name = _column(part)
        if name is not None:
            names[name] = None
            return
        for inner in part.iter_expressions():
            look(inner)

    look(tree)
    return tuple(names)


def _column(part: Any) -> str | None:
    """Return the name of a column, ``column.field``, ``column[0]`` or ``table.column``."""
    from sqlglot import exp

    if isinstance(part, exp.Column) and all(isinstance(p, exp.Identifier) for p in part.parts):
        return ".".join(p.name for p in part.parts)
    if isinstance(part, exp.Dot) and isinstance(part.expression, exp.Identifier):
        inner = _column(part.this)
        return None if inner is None else f"{inner}.{part.expression.name}"
    if isinstance(part, exp.Bracket) and len(part.expressions) == 1:
        index, inner = part.expressions[0], _column(part.this)
        if inner is not None and isinstance(index, exp.Literal) and index.name.isdigit():
            return f"{inner}[{index.name}]"
    return None


# -- types and SQL ---------------------------------------------------------------------------------


def compiled(tree: Any, scope: Scope) -> Typed:
    """Return the SQL of an expression that `parse` gave, and its type.

    Raises `ExpressionFault`: there is no such column, or a type does not fit.
    """
    return _Compiler(scope).value(tree)


_UNKNOWN = "unknown"  # The type of everything where no columns are known yet.


class _Compiler:
    """Writes a tree as SQL; without a scope it only holds it to the allow-list."""

    def __init__(self, scope: Scope | None) -> None:
        self.scope = scope

    def value(self, part: Any) -> Typed:
        """Return a part of an expression."""
        expression = self._value(part)
        if len(expression.sql) > MAX_SQL:
            raise ExpressionFault("is nested too deeply")
        return expression

    def _value(self, part: Any) -> Typed:
        name = _column(part)
        if name is not None:
            return self._column_value(name)
        kind = type(part).__name__
        if kind in _OPERATORS:
            return self._arithmetic(part, *_OPERATORS[kind])
        if kind in _COMPARED:
            return self._comparison_sql(part, _COMPARED[kind])
        compile_kind = getattr(self, f"_{kind.lower()}", None)
        if compile_kind is None:
            shown = part.sql(dialect="spark")[:60]
            remedy = _ALLOWED["instead_of_form"].get(kind, _FORMS)
            raise ExpressionFault(f"{shown!r} is not allowed in expressions", remedy, shown)
        return compile_kind(part)

    def _column_value(self, name: str) -> Typed:
        if self.scope is None:
            return Typed("", _UNKNOWN)
        column = self.scope.columns.get(name)
        if column is None:
            remedy = self.scope.hint or meant(name, self.scope.suggestions, "there are")
            raise ExpressionFault(f"there is no column {name!r}", remedy)
        return column

    # -- forms, by the names of their classes in sqlglot

    def _paren(self, part: Any) -> Typed:
        inner = self.value(part.this)
        return Typed(f"({inner.sql})", inner.kind)

    def _literal(self, part: Any) -> Typed:
        if part.is_string:
            return Typed(quoted(part.this), "text")
        if part.this.isdigit():
            if int(part.this) >= 2**63:
                raise ExpressionFault(f"{part.this[:30]} is too large a number")
            return Typed(f"{int(part.this)}L", "whole")
        number = float(part.this)
        if number > 1e300:
            raise ExpressionFault(f"{part.this[:30]} is too large a number")
        return Typed(f"CAST('{number!r}' AS DOUBLE)", "number")

    def _null(self, _: Any) -> Typed:
        return Typed("NULL", "null")

    def _boolean(self, part: Any) -> Typed:
        return Typed("true" if part.this else "false", "boolean")

    def _neg(self, part: Any) -> Typed:
        inner = self._typed_operand(part.this, _NUMERIC, "-")
        return Typed(f"try_subtract(0, {inner.sql})", inner.kind)

    def _div(self, part: Any) -> Typed:
        left, right = (
            self._typed_operand(side, _NUMERIC, "/") for side in (part.this, part.expression)
        )
        return Typed(
            f"try_divide(CAST({left.sql} AS DOUBLE), CAST({right.sql} AS DOUBLE))", "number"
        )

    def _dpipe(self, part: Any) -> Typed:
        return self._call("concat", [part.this, part.expression])

    def _and(self, part: Any, word: str = "AND") -> Typed:
        sides = [
            self._typed_operand(side, ("boolean",), word) for side in (part.this, part.expression)
        ]
        return Typed(f"({sides[0].sql} {word} {sides[1].sql})", "boolean")

    def _or(self, part: Any) -> Typed:
        return self._and(part, "OR")

    def _not(self, part: Any) -> Typed:
        return Typed(f"(NOT {self._typed_operand(part.this, ('boolean',), 'NOT').sql})", "boolean")

    def _is(self, part: Any) -> Typed:
        word = part.expression.sql().upper()
        if word not in ("NULL", "TRUE", "FALSE"):
            raise ExpressionFault(f"IS {word[:30]} is not allowed in expressions", "IS NULL")
        inner = self._typed_operand(part.this, _ANY if word == "NULL" else ("boolean",), "IS")
        return Typed(f"(({inner.sql}) IS {word})", "boolean")

    def _in(self, part: Any) -> Typed:
        if not part.expressions or part.args.get("query"):
            raise ExpressionFault("IN takes values", "a IN ('x', 'y')")
        sides, _ = self._of_one_type([part.this, *part.expressions], "IN")
        return Typed(f"(({sides[0]}) IN ({', '.join(sides[1:])}))", "boolean")

    def _between(self, part: Any) -> Typed:
        if part.args.get("symmetric"):
            raise ExpressionFault("SYMMETRIC is not allowed in expressions", "a BETWEEN b AND c")
        sides, _ = self._of_one_type([part.this, part.args["low"], part.args["high"]], "BETWEEN")
        return Typed(f"(({sides[0]}) BETWEEN {sides[1]} AND {sides[2]})", "boolean")

    def _like(self, part: Any) -> Typed:
        pattern = part.expression
        if type(pattern).__name__ != "Literal" or re.search(r"\\(?![%_\\])", pattern.name):
            remedy = "a text with % and _, which stand for themselves after \\\\"
            raise ExpressionFault("LIKE takes a pattern", remedy)
        inner = self._typed_operand(part.this, ("text",), "LIKE")
        return Typed(f"(({inner.sql}) LIKE {quoted(pattern.name)})", "boolean")

    def _case(self, part: Any) -> Typed:
        pairs = part.args["ifs"]
        if part.this is not None:
            tests, _ = self._of_one_type([part.this, *(p.this for p in pairs)], "CASE")
            tests = [f"({tests[0]}) = ({test})" for test in tests[1:]]
        else:
            tests = [self._typed_operand(p.this, ("boolean",), "WHEN").sql for p in pairs]
        results = [p.args["true"] for p in pairs]
        default = part.args.get("default")
        values, kind = self._of_one_type(results + ([] if default is None else [default]), "CASE")
        whens = (f"WHEN {t} THEN {v}" for t, v in zip(tests, values, strict=False))
        rest = "" if default is None else f" ELSE {values[-1]}"
        return Typed(f"CASE {' '.join(whens)}{rest} END", kind)

    def _if(self, part: Any) -> Typed:
        other = part.args.get("false")
        arguments = [part.this, part.args["true"], *([] if other is None else [other])]
        return self._call("if", arguments)

    def _cast(self, part: Any) -> Typed:
        to = part.to
        kind, spark = CASTS.get(getattr(to.this, "name", ""), ("", ""))
        if not kind or to.expressions or part.args.get("format"):
            shown = to.sql(dialect="spark")
            raise ExpressionFault(f"CAST to {shown} is not allowed", f"to {_ALLOWED_CASTS}")
        inner = self.value(part.this)
        return self._changed(inner, kind, spark)

    _trycast = _cast

    def _anonymous(self, part: Any) -> Typed:
        return self._call(str(part.this), part.expressions)

    # -- what these are made of

    def _changed(self, inner: Typed, kind: str, spark: str) -> Typed:
        """Return a value as one of another type."""
        if self.scope is None or (kind == inner.kind and spark != "INT"):
            return Typed(inner.sql, kind)
        if "time" in (inner.kind, kind) and "text" not in (inner.kind, kind):
            remedy = "unix_micros(t), timestamp_seconds(n)"
            raise ExpressionFault(f"CAST of {inner.kind} to {kind} is not allowed", remedy)
        if kind == "time":
            return Typed(moment(inner.sql, self.scope.source_zone), kind)
        if kind == "text":
            return Typed(as_text(inner), kind)
        if inner.kind == "text":
            inner = Typed(pointed(inner.sql, self.scope.decimal if kind == "number" else "."), kind)
        sql = f"TRY_CAST({inner.sql} AS {spark})"
        return Typed(f"CAST({sql} AS BIGINT)" if spark == "INT" else sql, kind)

    def _call(self, written: str, parts: Sequence[Any]) -> Typed:
        name = OTHER_NAMES.get(written.lower(), written.lower())
        if written.lower() == "timestamp" and len(parts) == 1:
            name = "to_timestamp"
        function = FUNCTIONS.get(name)
        if function is None:
            near = meant(name, [*FUNCTIONS, *OTHER_NAMES])
            near = near if near.startswith("did you mean") else "docs/traces.md lists all"
            reason = f"there is no function {written!r} in the allow-list"
            raise ExpressionFault(reason, INSTEAD.get(name, near), written)
        most = len(function.takes)
        least = most if function.least is None else function.least
        if len(parts) < least or (len(parts) > most and not function.repeats):
            expected = f"{least} to {most}" if least < most else str(most)
            expected = f"at least {least}" if function.repeats else expected
            raise ExpressionFault(f"{name} takes {expected} arguments, not {len(parts)}")
        arguments = [
            self._typed_operand(part, function.takes[min(number, most - 1)], name)
            for number, part in enumerate(parts)
        ]
        if self.scope is None:
            return Typed("", _UNKNOWN)
        kind = function.gives
        if kind == "same":
            start = 1 if name == "if" else 0
            alike, kind = _common_type(arguments[start:], name)
            arguments = [*arguments[:start], *(Typed(sql, kind) for sql in alike)]
        return Typed(self._function_sql(name, function, arguments), kind)

    def _function_sql(self, name: str, function: Function, arguments: list[Typed]) -> str:
        assert self.scope is not None
        zone, source = quoted(self.scope.zone), quoted(self.scope.source_zone)
        sql = [part.sql for part in arguments]
        if name == "make_timestamp":
            return _make_timestamp(source, *sql)
        if name in ("text", "number"):
            return self._changed(
                arguments[0], name, {"text": "STRING", "number": "DOUBLE"}[name]
            ).sql
        if name == "to_timestamp" and arguments[0].kind == "text":
            return moment(sql[0], self.scope.source_zone)
        if name == "concat":
            sql = [as_text(part) for part in arguments]
        text = function.sql.format(*sql, all=", ".join(sql), zone=zone)
        if function.all_present and len(sql) > 1:
            all_present = " AND ".join(f"({one}) IS NOT NULL" for one in sql)
            return f"IF({all_present}, {text}, NULL)"
        return sql[0] if function.all_present else text

    def _arithmetic(self, part: Any, sign: str, function: str) -> Typed:
        for side in (part.this, part.expression):
            self._typed_operand(side, _NUMERIC, sign)
        sides, kind = self._of_one_type([part.this, part.expression], sign)
        return Typed(f"{function}({sides[0]}, {sides[1]})", kind)

    def _comparison_sql(self, part: Any, sign: str) -> Typed:
        sides, _ = self._of_one_type([part.this, part.expression], sign)
        return Typed(f"(({sides[0]}) {sign} ({sides[1]}))", "boolean")

    def _typed_operand(self, part: Any, allowed: tuple[str, ...], by: str) -> Typed:
        """Return a value that must be of one of some types."""
        operand = self.value(part)
        if operand.kind in (*allowed, "null", _UNKNOWN):
            return operand
        name = _column(part)
        what = f"column {name!r}" if name else "a value"
        remedy = ""
        if operand.kind == "text":
            if name and allowed[0] in TYPES:
                remedy = f'declare its type in columns: {name} = "{allowed[0]}"'
            elif allowed == ("boolean",):
                remedy = f"{name or 'a'} = 'true'"
        raise ExpressionFault(
            f"{by} takes {' or '.join(allowed)}, and {what} is {operand.kind}", remedy
        )

    def _of_one_type(self, parts: Sequence[Any], by: str) -> tuple[list[str], str]:
        """Return values of one type, and this."""
        return _common_type([self.value(part) for part in parts], by)


def _common_type(values: Sequence[Typed], by: str) -> tuple[list[str], str]:
    kinds = {value.kind for value in values} - {"null"}
    if _UNKNOWN in kinds:
        return [""] * len(values), _UNKNOWN
    if kinds == set(_NUMERIC):
        wider = (f"CAST({v.sql} AS DOUBLE)" if v.kind == "whole" else v.sql for v in values)
        return list(wider), "number"
    if len(kinds) > 1:
        remedy = "CAST(a AS STRING), CAST(a AS DOUBLE), to_timestamp(text)"
        raise ExpressionFault(f"{by} mixes {' and '.join(sorted(kinds))}", remedy)
    return [value.sql for value in values], next(iter(kinds), "null")


# -- values as SQL ---------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a text as a literal of Spark SQL; nothing in it is left to be taken for SQL."""

    def escape(match: re.Match[str]) -> str:
        number = ord(match[0])
        return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

    return "'" + re.sub(r"[^A-Za-z0-9 \-_/:.,%]", escape, text) + "'"


def as_text(value: Typed) -> str:
    """Return a value as a text; a moment as its microseconds since 1970."""
    if value.kind == "text":
        return value.sql
    inner = f"unix_micros({value.sql})" if value.kind == "time" else value.sql
    return f"CAST({inner} AS STRING)"


_FROM_YEAR = r"^\s*\d{4}(-|\s*$)"
"""Spark would take a time without a date, or ``today``, and put in today's date; and ``201301`` for
a year."""

_LOCAL = r"^\s*\d{4}(-\d{1,2}){0,2}([T ][\d:.]*)?\s*$"
"""A moment that names no offset: nothing but digits after the date. Whatever else Spark can read
(``EST``, ``UTC+01:00``, ``Etc/GMT+5`` …) names one."""

_TO_THE_MINUTE = r"(?i)([T ]\d{1,2}:\d{2})(\s*(?:[a-z]|[+-]\d).*)$"
"""Spark takes minutes without seconds, but not before an offset."""


def moment(text: str, zone: str) -> str:
    """Return SQL of a text as a moment; null where it is none, `zone` where it names no offset."""
    full = f"regexp_replace(trim({text}), {quoted(_TO_THE_MINUTE)}, '$1:00$2')"
    parsed = f"TRY_CAST(IF(({text}) RLIKE {quoted(_FROM_YEAR)}, {full}, NULL) AS TIMESTAMP)"
    if zone != "UTC":
        local = f"IF(({text}) RLIKE {quoted(_LOCAL)}, {quoted(zone)}, 'UTC')"
        parsed = f"to_utc_timestamp({parsed}, {local})"
    return dated(parsed)


def pointed(text: str, decimal: str) -> str:
    """Return SQL of a text of a number with a point; null where a point is in it already."""
    if decimal == ".":
        return text
    return f"IF(contains({text}, '.'), NULL, replace({text}, {quoted(decimal)}, '.'))"


def typed(text: str, kind: str, zone: str, decimal: str = ".") -> str:
    """Return SQL of a text as a value of a declared type; null where it is none."""
    if kind == "text":
        return text
    if kind == "time":
        return moment(text, zone)
    number = pointed(text, decimal) if kind == "number" else text
    return f"TRY_CAST(trim({number}) AS {'BIGINT' if kind == 'whole' else 'DOUBLE'})"
