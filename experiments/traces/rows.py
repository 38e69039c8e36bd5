"""Rows as Spark's readers give them: columns by declared type, looked-up tables, wrong rows."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from experiments.spark.session import escaped
from experiments.traces.expressions import (
    ExpressionFault,
    Scope,
    Typed,
    as_text,
    compiled,
    dated,
    quoted,
    typed,
)
from experiments.traces.files import (
    Paths,
    charset,
    check_alike,
    different_headers,
    local_files,
    nano_columns,
    spark_trouble,
)
from experiments.traces.job import UTF_8, Events, Expression, Files, Join
from optim.errors import InvalidInput, Problem, meant, raise_any

BAD = "bad"  # Column that says what is wrong with a row: `MARK`, the fault, the text and the file.
FILE = "file"  # Column with the file of a row, as Spark reports it; empty where it does not.
MARK = "\x1f"  # Before each part of a fault; no name of a file begins so.
_WRONG = "\x1fwrong"  # Column in which Spark puts the text of a row that is not as it should be.

_MALFORMED = ""
"""The fault of such a row. The others are named by their column; in the order of these texts the
first is reported."""

_SUSPECT = "\uffff"
"""The fault of a row of CSV that may hold bytes that are no UTF-8, or half a record."""

_OPEN = "\uffff\uffff"  # The fault of a row of CSV that may begin with a quote that nothing closes.

_REPLACED = "\ufffd"
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_SHOWN = 200
_HEAD = 1000  # Lines of JSON that contain the columns, if they contain all that are asked for.

_MOST_FILES = 5

_KINDS = {
    "string": "text", "boolean": "text", "tinyint": "whole", "smallint": "whole", "int": "whole",
    "bigint": "whole", "float": "number", "double": "number", "timestamp": "time",
    "timestamp_ntz": "time", "date": "time", "nanos": "time", "nanos_ntz": "time",
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """A frame whose columns stand under safe names."""

    frame: DataFrame  # With the columns `BAD` and `FILE` besides.
    columns: Mapping[str, Typed]  # SQL and type by name in expressions.
    available: Sequence[str]  # Names that there are.
    #: Where they come from.
    files: Files
    paths: Sequence[str]
    #: By joined table: the column that says whether a row found nothing in it.
    missed: Mapping[str, str] = field(default_factory=dict)
    persisted: tuple[DataFrame, ...] = ()  # Joined tables that Spark keeps.
    #: Files by the number that stands for each in sums, where all have their own.
    numbers: Mapping[int, str] = field(default_factory=dict)

    def compute(self, expression: Expression, zone: str) -> Typed:
        """Return the SQL of an expression over these rows, and its type.

        Raises `InvalidInput`: it names no column of theirs, or mixes types.
        """
        scope = Scope(
            self.columns, self.available, zone, self.files.zone, self.files.decimal,
            hint=_header_hint(self.files, self.available),
        )  # fmt: skip
        try:
            return compiled(expression.tree, scope)
        except ExpressionFault as fault:
            raise InvalidInput(fault.problem(expression.where, expression.text)) from None


_GZIP = "\x1f"  # The first character of a packed file.

_DATA = re.compile(r"[-+]?\d+([-.:/T ]\d+)*Z?")
"""A number or a moment: what is found in rows, and hardly as the name of a column."""


def _header_hint(files: Files, names: Sequence[str]) -> str:
    """Return what the names of CSV columns show to be wrong with how the file is read."""
    if files.format != "csv" or not files.header or not names:
        return ""
    if names[0].startswith(_GZIP):
        return "the file is packed: give it a name that ends in .gz"
    other = next((sep for sep in (";", "\t", "|", ",") if sep in names[0]), None)
    if len(names) == 1 and other is not None:
        return f"the only column is {names[0]!r}: options = {{sep = {json.dumps(other)}}}"
    if any(_DATA.fullmatch(name) for name in names):
        shown = ", ".join(names)
        return (
            f"the first line is {shown!r}: without a header, options = {{header = false}} and names"
        )
    return ""


def read_rows(
    session: SparkSession, files: Files, paths: Paths, needed: Iterable[str], prefix: str = "e"
) -> Rows:
    """Read the columns that expressions need.

    `session`: with UTC as its time zone.
    `files`, `paths`: from the job description, and as located.
    `needed`: names in expressions; those of joined tables are left out.
    `prefix`: of the safe names.
    Raises `InvalidInput`: spark cannot read the files, or a column is missing, of another type than
        declared, or of a type that cannot be used.
    """
    names = list(dict.fromkeys([*needed, *files.columns]))
    raw = _open(session, files, paths, names)
    schema = StructType([f for f in raw.frame.schema.fields if f.name not in (_WRONG, FILE)])
    leaves = {name: leaf for name in names if (leaf := find(schema, name)) is not None}
    available = list(_leaves(schema))
    _check_declared(files, leaves, available)
    if files.format == "parquet":
        whole = [name for name, leaf in leaves.items() if leaf.type == "bigint"]
        for name, kind in nano_columns(session, raw.scanned, whole).items():
            if files.columns.get(name) != "whole":
                leaves[name] = leaves[name]._replace(type=kind)
        check_alike(files, paths.paths, names)
    columns, values, faults = {}, [], []
    for number, (name, leaf) in enumerate(leaves.items()):
        safe, kind = f"{prefix}{number}", _kind(files, name, leaf.type)
        value, fault = _value(leaf, kind, files)
        columns[name] = Typed(f"`{safe}`", kind)
        values.append(F.expr(value).alias(safe))
        if fault:
            faults.append((name, fault, leaf.sql))
    bad = F.expr(_fault_sql(raw, faults, files)).alias(BAD)
    frame = raw.frame.select(*values, bad, FILE)
    uris = (re.sub("^file:/+", "file:/", file) for file in raw.scanned)  # as rows have it
    # 32 bits a row instead of a path; where two files have the same sum, paths stay
    numbers = {zlib.crc32(file.encode()): file for file in uris}
    numbers = numbers if len(numbers) == len(raw.scanned) else {}
    return Rows(frame, columns, available, files, paths.paths, numbers=numbers)


def _fault_sql(raw: _Raw, faults: Sequence[tuple[str, str, str]], files: Files) -> str:
    """Return SQL of what is wrong with a row: as a whole, with a value, or perhaps."""

    def described(fault: str, text: str) -> str:
        parts = f"{quoted(MARK + fault + MARK)}, substring({text}, 1, {_SHOWN})"
        return f"concat({parts}, {quoted(MARK)}, {FILE})"

    cases = []
    if _WRONG in raw.frame.columns:
        wrong = _quoted(_WRONG)
        cases.append(f"WHEN {wrong} IS NOT NULL THEN {described(_MALFORMED, wrong)}")
    for name, fault, text in faults:
        cases.append(f"WHEN {fault} THEN {described(name, f'CAST({text} AS STRING)')}")
    names = (
        [n for n in raw.frame.columns if n not in (_WRONG, FILE)] if files.format == "csv" else []
    )
    texts = [f"CAST({_quoted(name)} AS STRING)" for name in names]
    if texts and files.quote and (files.multiline or files.wide):
        # a quote that nothing closes takes what follows into its value, line breaks and quotes
        broken = [f"contains({text}, {quoted(chr(10))})" for text in texts]
        both = zip(broken, texts, strict=True)
        quotes = [f"({b} AND contains({text}, {quoted(files.quote)}))" for b, text in both]
        cases.append(
            f"WHEN {' OR '.join([broken[-1], *quotes])} THEN {described(_OPEN, quoted(''))}"
        )
    if texts and files.encoding == UTF_8:
        marks = [_REPLACED] if files.multiline or not files.quote else [_REPLACED, files.quote]
        suspect = (f"contains({text}, {quoted(mark)})" for text in texts for mark in marks)
        cases.append(f"WHEN {' OR '.join(suspect)} THEN {described(_SUSPECT, quoted(''))}")
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"


# -- what is wrong with rows -----------------------------------------------------------------------


def bad_rows(rows: DataFrame, bad: str, weight: str) -> list[tuple[str, int]]:
    """Return the first fault of each kind and file, with the number of such rows."""
    parts = F.split(bad, MARK)
    faults = rows.where(F.col(bad).startswith(MARK)).groupBy(parts[1], parts[3])
    first = faults.agg(F.min(bad).alias("first"), F.sum(weight).alias("count")).collect()
    return sorted((row["first"], row["count"]) for row in first)


def check_bad(rows: Rows, session: SparkSession, faults: Sequence[tuple[str, int]]) -> None:
    """Refuse wrong rows, values that are not of their declared type, bytes that are no text.

    `faults`: as `bad_rows` gives them.
    """
    files = rows.files
    bads = [_Bad.of(first, count) for first, count in faults]
    clear = [bad for bad in bads if bad.fault not in (_SUSPECT, _OPEN)]
    suspects = [bad.file for bad in bads if bad.fault in (_SUSPECT, _OPEN)]
    suspects += [bad.file for bad in clear if _REPLACED in bad.text or bad.fault == _MALFORMED]
    if suspects and files.encoding == UTF_8:
        check_suspects(session, files, list(map(_uri, filter(None, suspects))) or rows.paths)
    several = files.format == "csv" and (files.multiline or files.wide)
    broken = (bad for bad in bads if bad.fault == _OPEN or (several and "\n" in bad.text.strip()))
    for file in dict.fromkeys(bad.file for bad in broken):
        check_closed(session, files, file)
    if not clear:
        return
    first = clear[0]
    alike = [bad for bad in clear if bad.fault == first.fault]
    if first.fault == _MALFORMED:
        raise _malformed_error(files, first, alike)
    if _REPLACED in first.text and files.encoding != UTF_8:
        raise _encoding_error(files, first.text, first.file)
    where = f"{files.where}.columns.{first.fault}"
    remedy = "declare another type, or the text that stands for null"
    if files.decimal == "." and _WITH_COMMA.fullmatch(first.text):
        remedy = 'decimal = "," takes a comma before the fraction'
    place = _place_of(first.text, files, first.file, whole=False)
    reason = f"is no {files.columns[first.fault]} ({place}{_count_text(alike)})"
    raise InvalidInput(Problem(where, first.text, reason, remedy))


_WITH_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+([eE][-+]?\d+)?\s*")


class _Bad(NamedTuple):
    """A fault, the text of the first such row or value of a file, the file, how many there are."""

    fault: str
    text: str
    file: str
    rows: int

    @classmethod
    def of(cls, first: str, rows: int) -> _Bad:
        _, fault, *text, file = first.split(MARK)
        return cls(fault, MARK.join(text), path_of(file), rows)


def path_of(file: str) -> str:
    """Return a file as Spark reports it as a path, or as the URI that it is."""
    return re.sub("^file:/+", "/", unquote(file))


def _count_text(alike: Sequence[_Bad]) -> str:
    """Return how many rows are so, by file."""
    total = sum(bad.rows for bad in alike)
    if total == 1:
        return ""
    by_file = [f"{bad.rows:,} in {bad.file}" for bad in alike[:_MOST_FILES]]
    more = f", and {len(alike) - _MOST_FILES} more files" if len(alike) > _MOST_FILES else ""
    shown = f": {', '.join(by_file)}{more}" if len(alike) > 1 else ""
    return f"; {total:,} rows are so{shown}"


def _malformed_error(files: Files, first: _Bad, alike: Sequence[_Bad]) -> InvalidInput:
    """Return the error for rows that are no record."""
    line = first.text.strip()
    place = _place_of(line, files, first.file)
    if files.format == "jsonl":
        detail, remedy = "a line that is no JSON", "mend or remove the line"
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(json.loads(line), dict):
                detail = "a line with other kinds of fields than the first ones"
    else:
        detail = f"not as many values as {'the header' if files.header else 'columns names'}"
        remedy = "sep, quote and escape say how values are distinguished"
        if '\\"' in line and files.escape == '"':
            remedy = 'escape = "\\\\" takes quotes after \\'
    reason = f"cannot be read: MALFORMED, {detail}: {place}: {line}{_count_text(alike)}"
    return files.refused(reason, remedy)


def _encoding_error(files: Files, text: str, file: str) -> InvalidInput:
    """Return the error for bytes that are not of the encoding."""
    reason = f"holds bytes that are no {files.encoding} ({file})"
    remedy = 'name the encoding, such as encoding = "latin-1"'
    return files.refused(reason, remedy, text)


def check_suspects(session: SparkSession, files: Files, paths: Sequence[str]) -> None:
    """Refuse bytes that are no UTF-8, and lines that end inside quotes: read as lines once more.

    U+FFFD, which Spark puts for bytes that are no text, may stand in a file itself, and so may
    quotes inside a value.
    """
    # the text reader keeps bytes as they are, the other readers put U+FFFD for them
    lines = session.read.text(list(paths))
    torn = files.format == "csv" and not files.multiline and bool(files.quote)
    broken = _torn_line_sql(files) if torn else "false"
    value, file = F.make_valid_utf8("value").alias("text"), F.col("_metadata.file_path")
    faults = lines.select(
        value,
        file.alias("file"),
        F.is_valid_utf8("value").alias("valid"),
        F.expr(broken).alias("torn"),
    )
    try:
        wrong = faults.where("NOT valid OR torn").first()
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None
    if wrong is None:
        return
    text, path = wrong["text"][:_SHOWN], path_of(wrong["file"])
    if not wrong["valid"]:
        raise _encoding_error(files, text, path)
    place = _place_of(text.strip(), files, path)
    reason = f"is a line with a quote that it does not close ({place})"
    remedy = 'multiline = true takes line breaks inside quotes, escape = "\\\\" quotes after \\'
    raise files.refused(reason, remedy, text)


def _uri(file: str) -> str:
    return escaped(f"file://{file}" if file.startswith("/") else file)


def check_closed(session: SparkSession, files: Files, file: str) -> None:
    """Refuse a quote that nothing closes, in a file of which values hold line breaks.

    Spark takes all that follows into one value, up to a quote that a delimiter follows. The lines
    go once through Python's reader, which stops there.
    """
    if files.wide:
        _, lines = _decoded(session, files, [_uri(file)])
    else:
        broken = {"lineSep": files.options["lineSep"]} if "lineSep" in files.options else {}
        lines = session.read.options(**broken).text(_uri(file))
    comment = str(files.options.get("comment", MARK))
    ended, fault = 0, ""

    def texts() -> Iterator[str]:
        for (text,) in lines.toLocalIterator():
            between = reader.line_num == ended
            skipped = between and text.startswith(comment)
            # a delimiter of several characters, which Python does not take, becomes one
            yield "\n" if skipped else text.replace(files.delimiter, MARK) + "\n"

    doubled = files.escape == files.quote
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(
        texts(),
        delimiter=MARK,
        quotechar=files.quote,
        doublequote=doubled,
        escapechar=None if doubled else files.escape,
        skipinitialspace=str(files.options.get("ignoreLeadingWhiteSpace")).lower() == "true",
        strict=True,
    )
    while True:
        try:
            next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = str(error)
        if fault and (reader.line_num > ended + 1 or "end of data" in fault):
            break
        ended, fault = reader.line_num, ""
    reason = f"has a record with a quote that nothing closes ({file}, line {ended + 1})"
    remedy = "close it, or name other signs: read.options.quote, read.options.escape"
    raise files.refused(reason, remedy)


def _torn_line_sql(files: Files) -> str:
    """Return SQL of whether a line ends inside quotes: its rest would be taken for a record."""
    quote, escape = files.quote, files.escape
    single = "value"
    for pair in dict.fromkeys((escape + escape, escape + quote)):
        single = f"replace({single}, {quoted(pair)}, '')"
    quotes = f"length({single}) - length(replace({single}, {quoted(quote)}, ''))"
    opened = rf"(^|\Q{files.delimiter}\E)\Q{quote}\E[^\Q{quote}\E]*$"
    return f"({quotes}) % 2 = 1 AND {single} RLIKE {quoted(opened)}"


def _place_of(text: str, files: Files, file: str, *, whole: bool = True) -> str:
    """Return a file, with the number of the first line of a text that is a line (`whole`)."""
    if whole and not files.wide:
        for path in local_files([f"file://{file}"] if file.startswith("/") else []):
            for number, line in enumerate(_lines(path, files), 1):
                if line == text or (len(text) >= _SHOWN - 1 and line.startswith(text)):
                    return f"{path}, line {number}"
    return file


def _lines(path: Path, files: Files) -> Iterator[str]:
    """Give the lines of a local file, as far as it can be read."""
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with contextlib.suppress(OSError, EOFError, zlib.error):
        options = {"encoding": files.encoding, "errors": "replace", "newline": "\n"}
        with opened(path, "rt", **options) as file:
            yield from (text.strip().removeprefix("\ufeff") for text in file)


# -- Spark's readers -------------------------------------------------------------------------------


class _Raw(NamedTuple):
    """Rows as Spark reads them, with `FILE`, and `_WRONG` where it may put something; the files."""

    frame: DataFrame
    scanned: Sequence[str]


def _open(session: SparkSession, files: Files, located: Paths, names: Sequence[str]) -> _Raw:
    reader = session.read.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _WRONG)
    reader = reader.options(**files.options)
    if located.root:
        reader = reader.option("basePath", located.root)
    # a folder such as zip=01 is the text 01, and no number; beside Parquet it has Spark's type
    session.conf.set(_INFERENCE, files.format == "parquet")
    try:
        if files.format == "parquet":
            frame = reader.parquet(*located.paths)
        elif files.format == "csv":
            frame = _csv(session, reader, files, located.paths)
        elif files.wide and not files.options.get("multiLine"):
            whole, lines = _decoded(session, files, located.paths)
            frame = reader.schema(_all_fields(files, reader, lines, names)).json(lines)
            return _Raw(frame.withColumn(FILE, F.lit("")), whole.inputFiles())
        else:
            frame = _json(session, reader, files, located.paths, names)
        return _Raw(frame.select("*", F.col("_metadata.file_path").alias(FILE)), frame.inputFiles())
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None


def _csv(
    session: SparkSession, reader: DataFrameReader, files: Files, paths: Sequence[str]
) -> DataFrame:
    """Read CSV: all columns are texts, and Spark holds every header to the first."""
    reader = reader.options(sep=files.delimiter, quote=files.quote, escape=files.escape)
    if files.null is not None:
        reader = reader.option("nullValue", files.null)
    if files.encoding != UTF_8:
        reader = reader.option("encoding", charset(session, files))
    # where a line break is more than a byte, lines cannot be found by bytes
    reader = reader.option("multiLine", files.multiline or files.wide)
    names, enforce = list(files.columns), True
    if files.header:
        headers = _headers(reader, paths)
        first = next(headers, None)
        if first is None:
            raise files.refused("has no header line")
        names = _column_names(first[1], files)
        enforce = None in first[1]  # Spark's check of headers stops at a column without a name
        for path, header in headers if enforce else ():
            if header != first[1]:
                shown = ",".join(name or "" for name in header)
                raise different_headers(files, shown, path_of(path))
    fields = [StructField(name, StringType()) for name in (*names, _WRONG)]
    # where it leaves out columns that are not used, Spark takes lines of any length
    reader = reader.options(header=files.header, enforceSchema=enforce, columnPruning=False)
    return reader.schema(StructType(fields)).csv(list(paths))


def _headers(
    reader: DataFrameReader, paths: Sequence[str]
) -> Iterator[tuple[str, list[str | None]]]:
    """Give the files that are not empty, with the values of the first line of each."""
    for path in sorted(reader.csv(list(paths)).inputFiles()):
        frame = reader.options(header=False).csv([escaped(unquote(path))])
        width = sum(re.fullmatch(r"_c\d+", name) is not None for name in frame.columns)
        if width and (first := frame.first()) is not None:
            yield path, list(first)[:width]


def _column_names(first: Sequence[str | None], files: Files) -> list[str]:
    """Return the names of a header; one that is empty is called by its place."""
    counts = Counter(name.lower() for name in first if name is not None)
    raise_any([
        Problem(f"{files.where}.path", name, "stands more than once in the header", "rename it")
        for name in first
        if name is not None and counts[name.lower()] > 1
    ])  # fmt: skip
    return [f"_c{i}" if name is None else name for i, name in enumerate(first)]


def _json(
    session: SparkSession,
    reader: DataFrameReader,
    files: Files,
    paths: Sequence[str],
    names: Sequence[str],
) -> DataFrame:
    """Read JSON; values are the texts that stand in the file."""
    by_lines = not files.options.get("multiLine")
    if files.encoding != UTF_8:
        reader = reader.option("encoding", charset(session, files))
        reader = reader.option("lineSep", "\n") if by_lines else reader
    if not names:
        return _without_fields(reader, paths)
    if by_lines and files.encoding == UTF_8 and "lineSep" not in files.options:
        # the first lines give the columns, unless there is one that they do not have
        head = session.read.text(list(paths)).select("value").limit(_HEAD)
        schema = _json_schema(reader, head)
        if (needed := _needed_fields(files, schema, names)) is not None:
            return reader.schema(needed).json(list(paths))
    fields = _all_fields(files, reader, list(paths), names)
    if all(find(fields, name) is None for name in names):
        _check_lines(session, reader, files, paths)
    return reader.schema(fields).json(list(paths))


def _all_fields(
    files: Files, reader: DataFrameReader, source: Any, names: Sequence[str]
) -> StructType:
    """Return the fields that names are about; all where one is not found, to say what there is."""
    schema = _json_schema(reader, source)
    return _needed_fields(files, schema, names) or schema.add(_WRONG, StringType())


def _without_fields(reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Read no field of JSON: Spark wants one to be named beside the text of wrong rows."""
    none = "\x1fnone"
    fields = StructType([StructField(name, StringType()) for name in (none, _WRONG)])
    return reader.schema(fields).json(list(paths)).where(F.col(none).isNull())


def _check_lines(
    session: SparkSession, reader: DataFrameReader, files: Files, paths: Sequence[str]
) -> None:
    """Refuse files in which no line has a field, if that is since the lines are no JSON."""
    file = F.col("_metadata.file_path").alias(FILE)
    raw = _Raw(_without_fields(reader, paths).select("*", file), ())
    rows = raw.frame.select(F.expr(_fault_sql(raw, [], files)).alias(BAD), F.lit(1).alias("count"))
    check_bad(Rows(rows, {}, (), files, paths), session, bad_rows(rows, BAD, "count"))


def _json_schema(reader: DataFrameReader, source: Any) -> StructType:
    """Return the fields of JSON as Spark finds them, all values being texts."""
    schema = reader.option("primitivesAsString", True).json(source).schema
    return StructType([f for f in schema.fields if f.name != _WRONG])


def _needed_fields(files: Files, schema: StructType, names: Sequence[str]) -> StructType | None:
    """Return the fields that names are about; ``None`` where one is not found."""
    joined = tuple(f"{join.name}." for join in files.joins) if isinstance(files, Events) else ()
    leaves = {name: find(schema, name) for name in names}
    if any(leaf is None and not name.startswith(joined) for name, leaf in leaves.items()):
        return None
    paths = [leaf.path for leaf in leaves.values() if leaf is not None]
    narrow = _narrowed_type(schema, paths) if paths else None
    return narrow.add(_WRONG, StringType()) if isinstance(narrow, StructType) else None


def _narrowed_type(kind: DataType, paths: Sequence[tuple[str, ...]]) -> DataType:
    """Return a type with those of its fields that some paths lead to."""
    if () in paths:
        return kind
    if isinstance(kind, ArrayType):
        return ArrayType(_narrowed_type(kind.elementType, paths))
    assert isinstance(kind, StructType)
    inner = {f.name: [p[1:] for p in paths if p[0] == f.name] for f in kind.fields}
    return StructType(
        [
            StructField(f.name, _narrowed_type(f.dataType, inner[f.name]))
            for f in kind
            if inner[f.name]
        ]
    )


def _decoded(
    session: SparkSession, files: Files, paths: Sequence[str]
) -> tuple[DataFrame, DataFrame]:
    """Return files in which a line break is more than one byte, and their lines."""
    content = F.decode("content", charset(session, files))
    whole = session.read.format("binaryFile").load(list(paths))
    lines = whole.select(F.explode(F.split(content, "\r?\n")).alias("value"))
    return whole, lines.where(F.trim("value") != "")


# -- columns ---------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """A column, a field inside one, or an entry of a list: SQL, Spark's type, names on the way."""

    sql: str
    type: str
    path: tuple[str, ...]


_STEP = re.compile(r"\[(\d+)\]")


def find(schema: StructType, name: str) -> Leaf | None:
    """Return what a name means, such as ``a``, ``a.b`` or ``a[0].b``; ``None`` for nothing.

    A column ``a.b`` goes before the field b of a column a. Lists count from 0; an entry beyond the
    end is null.
    """
    sql, path = "", []
    kind: DataType = schema
    rest = name
    while rest:
        if step := _STEP.match(rest):
            if not isinstance(kind, ArrayType):
                return None
            sql, kind = f"get({sql}, {step[1]})", kind.elementType
            rest = rest[step.end() :].removeprefix(".")
            continue
        if not isinstance(kind, StructType):
            return None
        fits = [f for f in kind.fields if re.match(rf"{re.escape(f.name)}($|[.\[])", rest)]
        if not fits:
            return None
        # longest first: a column named with a dot goes before the field of a shorter one
        chosen = max(fits, key=lambda f: len(f.name))
        sql = f"{sql}.{_quoted(chosen.name)}" if sql else _quoted(chosen.name)
        path.append(chosen.name)
        kind = chosen.dataType
        rest = rest[len(chosen.name) :].removeprefix(".")
    if isinstance(kind, StructType):
        return None
    return Leaf(sql, kind.simpleString(), tuple(path))


def _leaves(schema: StructType, before: str = "") -> Iterator[str]:
    """Give the names of all columns and fields."""
    for part in schema.fields:
        if isinstance(part.dataType, StructType):
            yield from _leaves(part.dataType, f"{before}{part.name}.")
        else:
            yield before + part.name


def _check_declared(files: Files, leaves: Mapping[str, Leaf], available: Sequence[str]) -> None:
    raise_any([
        Problem(f"{files.where}.columns.{name}", None, "is no column of the file",
                _header_hint(files, available) or meant(name, available, "there are"))
        for name in files.columns
        if name not in leaves
    ])  # fmt: skip


def _kind(files: Files, name: str, spark: str) -> str:
    """Return the type of a column; where the file knows types itself, both must agree."""
    actual = "number" if spark.startswith("decimal") else _KINDS.get(spark)
    where = f"{files.where}.columns.{name}"
    if actual is None:
        remedy = f"name an entry, such as {name}[0]" if spark.startswith("array<") else ""
        raise InvalidInput(Problem(where, spark, "is a type that cannot be used", remedy))
    declared = files.columns.get(name)
    if declared is None or files.format != "parquet" or declared == actual:
        return declared or actual
    if (declared, actual) == ("number", "whole"):
        return declared
    raise InvalidInput(Problem(where, declared, f"is declared, and the file holds {actual}"))


def _value(leaf: Leaf, kind: str, files: Files) -> tuple[str, str]:
    """Return SQL of a column as its type, and of where that fails (empty: nowhere)."""
    raw, zone = leaf.sql, quoted(files.zone)
    if files.format != "parquet":
        text = f"CAST({raw} AS STRING)"
        if files.format == "csv":
            text = f"nullif({text}, '')"
        value = typed(text, kind, files.zone, files.decimal)
        faults = [] if kind == "text" else [f"({text} IS NOT NULL AND {value} IS NULL)"]
        if files.encoding != UTF_8:
            faults.append(f"coalesce(contains({text}, {quoted(_REPLACED)}), false)")
        return value, " OR ".join(faults)
    if leaf.type in ("nanos", "nanos_ntz"):
        # div cuts towards 0: without the remainder moments before 1970 would be rounded up
        moment = dated(f"timestamp_micros(({raw} - pmod({raw}, 1000)) div 1000)")
        return (f"to_utc_timestamp({moment}, {zone})" if leaf.type == "nanos_ntz" else moment), ""
    if leaf.type in ("timestamp_ntz", "date"):
        local = f"CAST(IF(year({raw}) BETWEEN 1 AND 9999, {raw}, NULL) AS TIMESTAMP)"
        return f"to_utc_timestamp({local}, {zone})", ""
    if kind == "time":
        return dated(raw), ""
    return f"CAST({raw} AS {({'text': 'STRING', 'whole': 'BIGINT', 'number': 'DOUBLE'})[kind]})", ""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- tables that are looked up ---------------------------------------------------------------------


def joined(rows: Rows, join: Join, table: Rows, zone: str) -> tuple[Rows, int, int]:
    """Look up the columns of a table for every row.

    Rows of the table with the same key become one, the least by its columns in order; rows without
    key are left out.

    Returns the rows with the table's columns as ``name.column``; how many rows the table has; how
        many of these were dropped for having the key of another.
    Raises `InvalidInput`: the keys cannot be computed or are not of one type, or a value of the
        table is not of its declared type.
    """
    pairs = [(rows.compute(a, zone), table.compute(b, zone)) for a, b in join.on]
    _check_alike(join, [(a.kind, b.kind) for a, b in pairs])
    left = [F.expr(as_text(a)) for a, _ in pairs]
    right = [F.expr(as_text(b)) for _, b in pairs]
    tag = f"j{len(rows.missed)}"
    keys = [f"{tag}_key{i}" for i in range(len(right))]
    safe = {name: f"{tag}_{inner.sql.strip('`')}" for name, inner in table.columns.items()}
    values = F.struct(*(F.expr(table.columns[name].sql).alias(safe[name]) for name in safe))
    keyed = table.frame.select(
        *(column.alias(key) for column, key in zip(right, keys, strict=True)),
        values.alias("values"),
        F.lit(1).alias("one"),
        BAD,
    )
    count = F.count("one").alias("count")
    # kept, so that the table is read once: to be judged, and to be looked up
    grouped = keyed.groupBy(*keys, BAD).agg(F.min("values").alias("values"), count).persist()
    single = grouped.dropna(subset=keys)
    single = single.groupBy(*keys).agg(
        F.min("values").alias("values"), F.sum("count").alias("count")
    )
    judged = grouped.agg(F.sum("count").alias("rows")).first()
    counted = single.agg(F.sum(F.col("count") - 1)).first()
    assert judged is not None
    assert counted is not None
    check_bad(table, grouped.sparkSession, bad_rows(grouped, BAD, "count"))
    lookup = single.select(*keys, "values")
    frame = rows.frame.withColumns(dict(zip((f"my_{key}" for key in keys), left, strict=True)))
    condition = F.lit(True)
    for key in keys:
        condition = condition & (frame[f"my_{key}"] == lookup[key])
    frame = frame.join(lookup.select(*keys, "values.*"), condition, "left")
    added = {
        f"{join.name}.{n}": Typed(f"`{inner}`", table.columns[n].kind) for n, inner in safe.items()
    }
    missed = F.col(keys[0]).isNull().alias(f"{tag}_missed")
    row_columns = (F.expr(column.sql) for column in rows.columns.values())
    selected = frame.select(*row_columns, *safe.values(), *rows.missed.values(), missed, BAD, FILE)
    all_missed = {**rows.missed, join.name: f"{tag}_missed"}
    with_table = replace(
        rows,
        frame=selected,
        columns={**rows.columns, **added},
        available=[*rows.available, *(f"{join.name}.{name}" for name in table.available)],
        missed=all_missed,
        persisted=(*rows.persisted, grouped),
    )
    return with_table, judged["rows"] or 0, counted[0] or 0


def _check_alike(join: Join, kinds: Iterable[tuple[str, str]]) -> None:
    """Refuse keys of different types: as texts, which they are compared as, they never match."""
    remedy = "declare both columns alike, or use number(…), text(…) or time(…)"
    raise_any([
        Problem(a.where, f"{a.text} = {b.text}", f"compares {one} with {other}", remedy)
        for (a, b), (one, other) in zip(join.on, kinds, strict=True)
        if one != other
    ])  # fmt: skip
