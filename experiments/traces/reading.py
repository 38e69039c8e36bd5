"""Read rows with Spark: every column by its declared type, every mismatch by its name."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from experiments.traces.columns import Translator, as_text, dated, typed
from experiments.traces.functions import type_of
from experiments.traces.grammar import ExpressionFault, column_names
from experiments.traces.recordings import UTF_8
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from experiments.traces.locating import Paths
    from experiments.traces.recordings import Expression, Files, Join

BAD = "bad"
"""Column that tells the first value of a row that is not of its declared type."""

_KINDS = {
    "string": "text",
    "boolean": "text",
    "tinyint": "whole",
    "smallint": "whole",
    "int": "whole",
    "bigint": "whole",
    "float": "number",
    "double": "number",
    "timestamp": "time",
    "timestamp_ntz": "time",
    "date": "time",
}
_REPLACED = "\ufffd"
"""What Spark puts for bytes that are not of an encoding."""
_SEPARATOR = "\x1f"
_UNKNOWN_ZONE = re.compile(r"INVALID_TIMEZONE\W+The timezone: (\S+)")
_HEADER = 100_000
"""Characters of a header that are looked at; `csv` takes no longer values."""


@dataclass(frozen=True)
class Rows:
    """A frame whose columns stand under safe names.

    Attributes
    ----------
    frame
        With a column `BAD` besides.
    columns
        Name in the frame by name in expressions.
    types
        By name in expressions.
    files
        Where they come from.
    missed
        By joined table: the column that tells whether a row found nothing in it.
    """

    frame: DataFrame
    columns: Mapping[str, str]
    types: Mapping[str, str]
    files: Files
    missed: Mapping[str, str] = field(default_factory=dict)

    def translator(self, zone: str) -> Translator:
        """Return what turns expressions over these rows into columns."""
        columns = {name: F.col(inner) for name, inner in self.columns.items()}
        return Translator(columns, self.types, zone, self.files.zone)

    def kind(self, expression: Expression) -> str:
        """Return the type of an expression over these rows.

        Raises
        ------
        InvalidInput
            It names no column of theirs, or mixes types.
        """
        try:
            return type_of(expression.node, self.types)
        except ExpressionFault as fault:
            raise InvalidInput(fault.problem(expression.where, expression.text)) from None


def read_rows(
    session: SparkSession,
    files: Files,
    paths: Paths,
    expressions: Iterable[Expression],
    prefix: str = "e",
) -> Rows:
    """Read the columns that expressions need.

    Parameters
    ----------
    session
        With UTC as its time zone.
    files, paths
        From the job description, and as located.
    expressions
        What is to be computed; columns of joined tables are left out.
    prefix
        Of the safe names.

    Raises
    ------
    InvalidInput
        Spark cannot read the files, or a column is missing, of another type than declared, or of a
        type that cannot be used.
    """
    raw = _open(session, files, paths)
    leaves = _leaves(raw.schema)
    names = {name: leaf.type for name, leaf in leaves.items()}
    if files.format != "parquet":
        _check_lines(raw, files, paths.paths)
    _check_declared(files, names)
    wanted = dict.fromkeys(n for e in expressions for n in column_names(e.node))
    used = [name for name in (*wanted, *files.columns) if name in names]
    columns, types, values, faults = {}, {}, [], []
    for number, name in enumerate(dict.fromkeys(used)):
        kind = _kind(files, name, names[name])
        given = F.col(leaves[name].path)
        value, fault = _value(given, names[name], kind, files)
        columns[name], types[name] = f"{prefix}{number}", kind
        values.append(value.alias(columns[name]))
        if fault is not None:
            told = F.concat(F.lit(name + _SEPARATOR), given.cast("string"))
            faults.append(F.when(fault, told))
    bad = F.coalesce(*faults) if faults else F.lit(None).cast("string")
    everything = {name: types.get(name, "text") for name in names}
    frame = raw.select(*values, bad.alias(BAD))
    return Rows(frame, columns, everything, files)


def bad_value(files: Files, first: str, count: int) -> InvalidInput:
    """Return the error for values that are not of their declared type."""
    name, _, value = first.partition(_SEPARATOR)
    if _REPLACED in value and files.encoding != UTF_8:
        return InvalidInput(Problem(f"{files.where}.path", value, *_garbled(files)))
    where = f"{files.where}.columns.{name}"
    more = f" ({count} rows hold such values)" if count > 1 else ""
    remedy = "declare another type, or the text that stands for null"
    return InvalidInput(Problem(where, value, f"is no {files.columns[name]}{more}", remedy))


def joined(rows: Rows, join: Join, table: Rows, zone: str) -> tuple[Rows, int, int]:
    """Look up the columns of a table for every row.

    Rows of the table with the same key become one, the least by its columns in order; rows without
    key are left out.

    Returns
    -------
    tuple
        The rows with the table's columns as ``name.column``; how many rows the table has; how
        many of these were dropped for having the key of another.

    Raises
    ------
    InvalidInput
        The keys cannot be computed or are not of one type, or a value of the table is not of its
        declared type.
    """
    mine, theirs = rows.translator(zone), table.translator(zone)
    _check_alike(join, [(rows.kind(a), table.kind(b)) for a, b in join.on])
    left = [as_text(mine(a.node), rows.kind(a)) for a, _ in join.on]
    right = [as_text(theirs(b.node), table.kind(b)) for _, b in join.on]
    tag = f"j{len(rows.missed)}"
    keys = [f"{tag}_key{i}" for i in range(len(right))]
    safe = {name: f"{tag}_{inner}" for name, inner in table.columns.items()}
    values = F.struct(*(F.col(table.columns[name]).alias(safe[name]) for name in safe))
    keyed = table.frame.select(
        *(column.alias(key) for column, key in zip(right, keys, strict=True)),
        values.alias("values"),
        F.lit(1).alias("one"),
        BAD,
    )
    single = keyed.dropna(subset=keys).groupBy(*keys)
    found = single.agg(F.min("values").alias("values"), F.count("one").alias("count"))
    # the table is small beside the events: one pass to judge it
    judged = keyed.agg(F.count("one"), F.count(BAD), F.min(BAD)).first()
    counted = found.agg(F.sum(F.col("count") - 1)).first()
    assert judged is not None
    assert counted is not None
    if judged[1]:
        raise bad_value(table.files, judged[2], judged[1])
    frame = rows.frame.withColumns(dict(zip((f"my_{key}" for key in keys), left, strict=True)))
    condition = F.lit(True)
    for key in keys:
        condition = condition & (frame[f"my_{key}"] == found[key])
    frame = frame.join(found.select(*keys, "values.*"), condition, "left")
    columns = {**rows.columns, **{f"{join.name}.{name}": inner for name, inner in safe.items()}}
    types = {f"{join.name}.{name}": kind for name, kind in table.types.items()}
    missed = F.col(keys[0]).isNull().alias(f"{tag}_missed")
    kept = frame.select(*columns.values(), *rows.missed.values(), missed, BAD)
    told = {**rows.missed, join.name: f"{tag}_missed"}
    found_rows = Rows(kept, columns, {**rows.types, **types}, rows.files, told)
    return found_rows, judged[0], counted[0] or 0


def _check_alike(join: Join, kinds: Iterable[tuple[str, str]]) -> None:
    """Refuse keys of different types: as texts, which they are compared as, they never match."""
    remedy = "declare both columns alike, or use number(…), text(…) or time(…)"
    problems = [
        Problem(a.where, f"{a.text} = {b.text}", f"compares {one} with {other}", remedy)
        for (a, b), (one, other) in zip(join.on, kinds, strict=True)
        if one != other
    ]
    if problems:
        raise InvalidInput(problems)


def _open(session: SparkSession, files: Files, located: Paths) -> DataFrame:
    paths = located.paths
    reader = session.read.option("mode", "FAILFAST")
    if files.encoding != UTF_8:
        reader = reader.option("encoding", files.encoding)
    if located.root:
        reader = reader.option("basePath", located.root)
    try:
        if files.format == "parquet":
            return reader.parquet(*paths)
        if files.format == "jsonl":
            return reader.option("primitivesAsString", True).json(paths)
        reader = reader.option("header", True).option("enforceSchema", False)
        # where it leaves out columns that are not used, Spark takes lines of any length
        reader = reader.option("columnPruning", False).option("multiLine", files.multiline)
        reader = reader.option("sep", files.delimiter).option("escape", '"')
        if files.null is not None:
            reader = reader.option("nullValue", files.null)
        frame = reader.csv(paths)
    except PySparkException as error:
        raise spark_trouble(error, files) from None
    if not frame.columns:
        raise InvalidInput(Problem(f"{files.where}.path", files.path, "has no header line"))
    return frame


def spark_trouble(error: PySparkException | Py4JJavaError, files: Files) -> InvalidInput:
    """Return what Spark says about files it cannot read, in one line."""
    text = str(error).strip()
    if unknown := _UNKNOWN_ZONE.search(text):
        remedy = "take another name of the same time, or a newer Java"
        return InvalidInput(Problem("timezone", unknown[1], "is not known to this Java", remedy))
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    told = (causes[-1].removeprefix("Caused by: ") if causes else text.splitlines()[0])[:300]
    return InvalidInput(Problem(f"{files.where}.path", files.path, f"cannot be read: {told}"))


class _Leaf(NamedTuple):
    """A column, or a field inside one: its path in Spark's terms, and its type there."""

    path: str
    type: str


def _leaves(schema: StructType, names: str = "", path: str = "") -> dict[str, _Leaf]:
    """Return what expressions can name; a column ``a.b`` goes before the field b of a column a."""
    found: dict[str, _Leaf] = {}
    inner: dict[str, _Leaf] = {}
    for part in schema.fields:
        name, here = names + part.name, path + _quoted(part.name)
        if isinstance(part.dataType, StructType):
            inner |= _leaves(part.dataType, f"{name}.", f"{here}.")
        else:
            found[name] = _Leaf(here, part.dataType.simpleString())
    return inner | found


def _check_lines(raw: DataFrame, files: Files, paths: Sequence[str]) -> None:
    """Refuse what Spark would not tell: bytes that are no text, torn records, doubled names."""
    lines = raw.sparkSession.read.text(list(paths)).select("value")
    torn = F.lit(False)
    if files.format == "csv" and not files.multiline:
        torn = _torn(F.col("value"), files)
    garbled = F.lit(False)
    if files.encoding == UTF_8:
        garbled = ~F.is_valid_utf8("value")
    try:
        # Spark adds its position to a name that stands twice, and then finds it nowhere
        if any(name.endswith(str(i)) for i, name in enumerate(raw.columns)):
            first = lines.first() if files.format == "csv" else None
            _check_header(raw.columns, files, first[0][:_HEADER] if first else "")
        valid = F.make_valid_utf8("value").alias("value")
        wrong = lines.where(garbled | torn).select(valid, garbled.alias("garbled")).first()
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None
    if wrong is not None:
        where, line = f"{files.where}.path", wrong["value"][:200]
        if wrong["garbled"]:
            raise InvalidInput(Problem(where, line, *_garbled(files)))
        reason = "is a line with a quote that it does not close"
        remedy = "multiline = true takes line breaks inside quotes"
        raise InvalidInput(Problem(where, line, reason, remedy))


def _garbled(files: Files) -> tuple[str, str]:
    reason = f"holds bytes that are no {files.encoding}"
    return reason, 'name the encoding, such as encoding = "latin-1"'


def _torn(line: Column, files: Files) -> Column:
    """Return whether a line ends inside quotes: its other half would be taken for a record."""
    single = F.replace(line, F.lit('""'), F.lit(""))
    quotes = F.length(single) - F.length(F.replace(single, F.lit('"'), F.lit("")))
    opened = single.rlike(rf'(^|\Q{files.delimiter}\E)"[^"]*$')
    return line.contains('"') & (quotes % 2 == 1) & opened


def _check_header(columns: Sequence[str], files: Files, line: str) -> None:
    header = next(csv.reader([line], delimiter=files.delimiter), [])
    counts = Counter(name.lower() for name in header)
    problems = [
        Problem(f"{files.where}.path", name, "stands more than once in the header", "rename it")
        for i, (name, inner) in enumerate(zip(header, columns, strict=False))
        if counts[name.lower()] > 1 and inner == f"{name}{i}"
    ]
    if problems:
        raise InvalidInput(problems)


def _check_declared(files: Files, names: Mapping[str, str]) -> None:
    problems = []
    for name in files.columns:
        if name not in names:
            close = get_close_matches(name, names, 1)
            remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)[:300]}"
            where = f"{files.where}.columns.{name}"
            problems.append(Problem(where, None, "is no column of the file", remedy))
    if problems:
        raise InvalidInput(problems)


def _kind(files: Files, name: str, spark: str) -> str:
    """Return the type of a column; where the file knows types itself, both must agree."""
    known = "number" if spark.startswith("decimal") else _KINDS.get(spark)
    where = f"{files.where}.columns.{name}"
    if known is None:
        raise InvalidInput(Problem(where, spark, "is a type that cannot be used"))
    declared = files.columns.get(name)
    if declared is None or files.format != "parquet" or declared == known:
        return declared or known
    if (declared, known) == ("number", "whole"):
        return declared
    raise InvalidInput(Problem(where, declared, f"is declared, and the file holds {known}"))


def _value(raw: Column, spark: str, kind: str, files: Files) -> tuple[Column, Column | None]:
    """Return a column as its type, and where that fails (``None``: nowhere)."""
    if files.format != "parquet":
        raw = raw.cast("string")  # a folder such as day=1 is a number to Spark
        text = F.when(raw != "", raw) if files.format == "csv" else raw
        value = typed(text, kind, files.zone)
        fault = None if kind == "text" else text.isNotNull() & value.isNull()
        if files.encoding != UTF_8:
            garbled = F.coalesce(text.contains(_REPLACED), F.lit(False))
            fault = garbled if fault is None else fault | garbled
        return value, fault
    if spark in ("timestamp_ntz", "date"):
        local = F.when(F.year(raw).between(1, 9999), raw).cast("timestamp")
        return F.to_utc_timestamp(local, files.zone), None
    if kind == "time":
        return dated(raw), None
    to = {"text": "string", "whole": "bigint", "number": "double"}
    return raw.cast(to[kind]), None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
