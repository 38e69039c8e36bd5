"""Read rows with Spark: every column by its declared type, every mismatch by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from experiments.traces.columns import Translator, dated, typed
from experiments.traces.functions import type_of
from experiments.traces.grammar import ExpressionFault, column_names
from experiments.traces.json_lines import damaged_json, decoded_lines, found_schema
from experiments.traces.json_once import read_once
from experiments.traces.lines import (
    FAULT,
    REPLACED,
    SEPARATOR,
    SUSPECT,
    check_headers,
    check_text,
    csv_options,
    garbled,
    no_line,
    read_lines,
    suspect,
    wrong_line,
)
from experiments.traces.parquet import check_alike, nano_columns
from experiments.traces.recordings import UTF_8, Events
from experiments.traces.trouble import charset, spark_trouble
from optim.errors import InvalidInput, Problem, meant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

    from experiments.traces.locating import Paths
    from experiments.traces.recordings import Expression, Files

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
    "nanos": "time",
    "nanos_ntz": "time",
}


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
    files, paths
        Where they come from.
    missed
        By joined table: the column that tells whether a row found nothing in it.
    kept
        Joined tables that Spark keeps.
    guessed
        Whether Spark stops at what may be right, as `experiments.traces.json_once` tells.
    """

    frame: DataFrame
    columns: Mapping[str, str]
    types: Mapping[str, str]
    files: Files
    paths: Sequence[str]
    missed: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[DataFrame, ...] = ()
    guessed: bool = False

    def translator(self, zone: str) -> Translator:
        """Return what turns expressions over these rows into columns."""
        columns = {name: F.col(inner) for name, inner in self.columns.items()}
        return Translator(columns, self.types, zone, self.files.zone, self.files.decimal)

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
    *,
    guess: bool = False,
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
    guess
        Take the columns of a recording of JSON from its first lines, if these tell them.

    Raises
    ------
    InvalidInput
        Spark cannot read the files, or a column is missing, of another type than declared, or of a
        type that cannot be used.
    """
    wanted_by = list(expressions)
    once = _once(session, files, paths, wanted_by) if guess else None
    raw, judged = _open(session, files, paths) if once is None else (once, True)
    leaves = _leaves(raw.schema)
    leaves.pop(FAULT, None)
    names = {name: leaf.type for name, leaf in leaves.items()}
    if not judged or any(REPLACED in name for name in names):
        check_text(session, files, paths.paths)
    _check_declared(files, names)
    wanted = dict.fromkeys(n for e in wanted_by for n in column_names(e.node))
    for name in wanted:
        if name not in names and (leaf := _entry(raw.schema, name)) is not None:
            leaves[name], names[name] = leaf, leaf.type
    if files.format == "parquet":
        nanos = nano_columns(session, raw, [n for n in wanted if names.get(n) == "bigint"])
        for name, kind in nanos.items():
            if files.columns.get(name) != "whole":
                leaves[name], names[name] = leaves[name]._replace(type=kind), kind
        check_alike(files, paths.paths, [*wanted, *files.columns])
    used = [name for name in (*wanted, *files.columns) if name in names]
    columns, types, values, faults = {}, {}, [], []
    for number, name in enumerate(dict.fromkeys(used)):
        kind = _kind(files, name, names[name])
        given = leaves[name].column
        value, fault = _value(given, names[name], kind, files)
        columns[name], types[name] = f"{prefix}{number}", kind
        values.append(value.alias(columns[name]))
        if fault is not None:
            told = F.concat(F.lit(name + SEPARATOR), given.cast("string"))
            faults.append(F.when(fault, told))
    bad = F.coalesce(F.lit(None).cast("string"), *_line_faults(raw, faults))
    everything = {name: types.get(name, "text") for name in names}
    frame = raw.select(*values, bad.alias(BAD))
    return Rows(frame, columns, everything, files, paths.paths, guessed=once is not None)


def _once(
    session: SparkSession, files: Files, located: Paths, expressions: Sequence[Expression]
) -> DataFrame | None:
    if files.format != "jsonl" or not isinstance(files, Events):
        return None
    reader = session.read.option("mode", "FAILFAST")
    if located.root:
        reader = reader.option("basePath", located.root)
    return read_once(reader, files, located.paths, expressions)


def _line_faults(raw: DataFrame, faults: Sequence[Column]) -> list[Column]:
    """Return what may be wrong with a row: of its line first, of its values, of its bytes."""
    if FAULT in raw.columns:
        line = F.col(FAULT)
        clear = F.when(line != SUSPECT, line)
        return [clear, *faults, line]
    return list(faults)


def check_bad(rows: Rows, session: SparkSession, told: Row) -> None:
    """Refuse values that are not of their declared type, and bytes that are no text.

    Parameters
    ----------
    told
        As `bad_counts` asks for it.

    Raises
    ------
    InvalidInput
        There are some.
    """
    first, count = told["first_bad"], told["bad"] or 0
    if told["suspects"] or REPLACED in (first or ""):
        check_text(session, rows.files, rows.paths)
    if count:
        raise bad_value(rows.files, first, count, rows.paths)


def bad_counts(bad: Column, weight: Column) -> list[Column]:
    """Return what to ask of bad values, so that `check_bad` can judge them."""
    suspects = bad == SUSPECT
    clear = F.when(~suspects, bad)
    return [
        F.sum(F.when(suspects, weight)).alias("suspects"),
        F.sum(F.when(clear.isNotNull(), weight)).alias("bad"),
        F.min(clear).alias("first_bad"),
    ]


_WITH_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+([eE][-+]?\d+)?\s*")


def bad_value(files: Files, first: str, count: int, paths: Sequence[str]) -> InvalidInput:
    """Return the error for lines that are none, or values that are not of their declared type."""
    if (error := wrong_line(files, first, count, paths)) is not None:
        return error
    name, _, value = first.partition(SEPARATOR)
    if REPLACED in value and files.encoding != UTF_8:
        return garbled(files, value)
    where = f"{files.where}.columns.{name}"
    more = f" ({count} rows hold such values)" if count > 1 else ""
    remedy = "declare another type, or the text that stands for null"
    if files.decimal == "." and _WITH_COMMA.fullmatch(value):
        remedy = 'decimal = "," takes a comma before the fraction'
    return InvalidInput(Problem(where, value, f"is no {files.columns[name]}{more}", remedy))


def _open(session: SparkSession, files: Files, located: Paths) -> tuple[DataFrame, bool]:
    """Return the rows, and whether their bytes were judged, or will be as they are read."""
    paths = located.paths
    reader = session.read.option("mode", "FAILFAST")
    if files.encoding != UTF_8 and not (files.wide and files.format == "jsonl"):
        reader = reader.option("encoding", charset(session, files))
        if files.format == "jsonl":
            reader = reader.option("lineSep", "\n")
    if located.root:
        reader = reader.option("basePath", located.root)
    try:
        if files.format == "parquet":
            return reader.options(**files.read).parquet(*paths), True
        if files.format == "jsonl":
            reader = reader.options(**files.read).option("primitivesAsString", True)
            if files.wide:
                return reader.json(decoded_lines(session, files, paths)), True
            schema = found_schema(session, files, paths)
            return (reader.schema(schema) if schema else reader).json(paths), schema is not None
        # where it leaves out columns that are not used, Spark takes lines of any length
        reader = reader.option("columnPruning", False)
        check_headers(files, paths)
        if not files.multiline and not files.wide:
            return read_lines(reader, files, paths), True
        reader = reader.options(multiLine=True, **csv_options(files))
        if files.header:
            reader = reader.option("header", True).option("enforceSchema", False)
        else:
            fields = [StructField(name, StringType()) for name in files.columns]
            reader = reader.schema(StructType(fields))
        frame = reader.csv(paths)
    except PySparkException as error:
        raise damaged_json(session, files, paths) or spark_trouble(error, files) from None
    if not frame.columns:
        raise no_line(files)
    # values hold all of the text, so that these tell whether bytes have to be looked at
    texts = [F.col(_quoted(name)).cast("string") for name in frame.columns]
    told = frame.select("*", suspect(texts, files).alias(FAULT))
    return told, REPLACED not in (files.null or "")


class _Leaf(NamedTuple):
    """A column, a field inside one, or an entry of a list: what it is to Spark, and its type."""

    column: Column
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
            found[name] = _Leaf(F.col(here), part.dataType.simpleString())
    return inner | found


_STEP = re.compile(r"\[(\d+)\]")


def _entry(schema: StructType, name: str) -> _Leaf | None:
    """Return what a name with indices into lists means (``tags[0].id``); ``None`` for nothing.

    Lists count from 0; an entry beyond the end is null.
    """
    if not _STEP.search(name):
        return None
    column: Column | None = None
    kind: DataType = schema
    rest = name
    while rest:
        if step := _STEP.match(rest):
            if not isinstance(kind, ArrayType) or column is None:
                return None
            column, kind = F.get(column, F.lit(int(step[1]))), kind.elementType
            rest = rest[step.end() :].removeprefix(".")
            continue
        if not isinstance(kind, StructType):
            return None
        # of names that contain dots the longest that there is
        fits = [f for f in kind.fields if re.match(rf"{re.escape(f.name)}($|[.\[])", rest)]
        if not fits:
            return None
        chosen = max(fits, key=lambda f: len(f.name))
        here = F.col(_quoted(chosen.name)) if column is None else column.getField(chosen.name)
        column, kind = here, chosen.dataType
        rest = rest[len(chosen.name) :].removeprefix(".")
    return None if column is None else _Leaf(column, kind.simpleString())


def _check_declared(files: Files, names: Mapping[str, str]) -> None:
    problems = []
    for name in files.columns:
        if name not in names:
            remedy = meant(name, names, "there are")
            where = f"{files.where}.columns.{name}"
            problems.append(Problem(where, None, "is no column of the file", remedy))
    if problems:
        raise InvalidInput(problems)


def _kind(files: Files, name: str, spark: str) -> str:
    """Return the type of a column; where the file knows types itself, both must agree."""
    known = "number" if spark.startswith("decimal") else _KINDS.get(spark)
    where = f"{files.where}.columns.{name}"
    if known is None:
        remedy = f"name an entry, such as {name}[0]" if spark.startswith("array<") else ""
        raise InvalidInput(Problem(where, spark, "is a type that cannot be used", remedy))
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
        value = typed(text, kind, files.zone, files.decimal)
        fault = None if kind == "text" else text.isNotNull() & value.isNull()
        if files.encoding != UTF_8:
            garbled = F.coalesce(text.contains(REPLACED), F.lit(False))
            fault = garbled if fault is None else fault | garbled
        return value, fault
    if spark in ("nanos", "nanos_ntz"):
        thousandth = F.call_function("div", raw - F.pmod(raw, F.lit(1000)), F.lit(1000))
        whole = dated(F.timestamp_micros(thousandth))
        return (F.to_utc_timestamp(whole, files.zone) if spark == "nanos_ntz" else whole), None
    if spark in ("timestamp_ntz", "date"):
        local = F.when(F.year(raw).between(1, 9999), raw).cast("timestamp")
        return F.to_utc_timestamp(local, files.zone), None
    if kind == "time":
        return dated(raw), None
    to = {"text": "string", "whole": "bigint", "number": "double"}
    return raw.cast(to[kind]), None


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
