"""CSV by lines, read once: each line beside its values, so that what is wrong with it can be told.

Spark's reader of CSV, with a delimiter that no text holds, gives whole lines, and sees to headers,
endings and encodings; ``from_csv`` makes values of them. Faults stand in a column `FAULT` of the
frame, beside the values.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import re
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from experiments.traces.locating import local_files
from experiments.traces.recordings import UTF_8
from experiments.traces.trouble import spark_trouble
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

    from experiments.traces.recordings import Files

FAULT = "\x1ffault"
"""Column that tells what is wrong with a line; null where nothing is."""

SEPARATOR = "\x1f"
"""Between the name of a column, or of a fault of lines, and the value that is told."""

SUSPECT = "\uffffsuspect"
"""The fault of a text with U+FFFD, which Spark also puts for bytes that are not of the encoding."""

REPLACED = "\ufffd"
_TORN, _LENGTH = "\x1e1", "\x1e2"
"""In the order in which they are told: what is torn makes lines of other lengths."""
_NEVER = "\uffff\ufffe\uffff"
"""Of code points that are no characters."""
_SHOWN = 200


def read_lines(reader: DataFrameReader, files: Files, paths: Sequence[str]) -> DataFrame:
    """Return the values of CSV, and `FAULT`.

    Raises
    ------
    InvalidInput
        There is no header, or one that names columns twice.
    """
    reader = reader.option("header", files.header).option("enforceSchema", False)
    reader = reader.option("sep", _NEVER).option("quote", _NEVER[0])
    reader = reader.options(**{k: v for k, v in files.read.items() if k in ("comment", "lineSep")})
    whole = reader.csv(list(paths))
    if not whole.columns:
        raise no_line(files)
    header, *folders = whole.columns
    names = _names(header, files) if files.header else list(files.columns)
    options = {**csv_options(files), "columnNameOfCorruptRecord": "wrong"}
    fields = [*(f"c{i}" for i in range(len(names))), "wrong"]
    schema = ", ".join(f"{field} string" for field in fields)
    line = F.col(f"`{header.replace('`', '``')}`")
    others = [F.col(f"`{name.replace('`', '``')}`") for name in folders]
    parsed = F.from_csv(line, schema, options).alias("values")
    frame = whole.select(line.alias("line"), parsed, *others)
    named = [F.col(f"values.c{i}").alias(name) for i, name in enumerate(names)]
    return frame.select(*named, *others, _fault(files).alias(FAULT))


def no_line(files: Files) -> InvalidInput:
    """Return the error for files without any line."""
    told = "has no header line" if files.header else "has no line"
    return InvalidInput(Problem(f"{files.where}.path", files.path, told))


def csv_options(files: Files) -> dict[str, Any]:
    """Return the options by which Spark makes values of a line, or of a file."""
    options = {"sep": files.delimiter, "quote": files.quote, "escape": files.escape, **files.read}
    if files.null is not None:
        options["nullValue"] = files.null
    return options


def _names(header: str, files: Files) -> list[str]:
    """Return the names of a header; one that is empty, or null, is called by its place."""
    where = f"{files.where}.path"
    try:
        quoting: dict[str, Any] = {"delimiter": files.delimiter, "quotechar": files.quote}
        if files.escape != files.quote:
            quoting |= {"escapechar": files.escape, "doublequote": False}
        names = next(csv.reader([header], **quoting))
        next(csv.reader([header], strict=True, **quoting))
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise InvalidInput(Problem(where, header[:_SHOWN], *_TOLD[_TORN])) from None
        if "field larger" in str(error):
            told = f"has a header that cannot be read: {error}"
            raise InvalidInput(Problem(where, files.path, told)) from None
    if files.read.get("ignoreLeadingWhiteSpace"):
        names = [name.lstrip() for name in names]
    if files.read.get("ignoreTrailingWhiteSpace"):
        names = [name.rstrip() for name in names]
    unnamed = ("", files.null)
    counts = Counter(name.lower() for name in names if name not in unnamed)
    problems = [
        Problem(where, name, "stands more than once in the header", "rename it")
        for name in names
        if counts[name.lower()] > 1
    ]
    if problems:
        raise InvalidInput(problems)
    return [f"_c{i}" if name in unnamed else name for i, name in enumerate(names)]


def _fault(files: Files) -> Column:
    line = F.col("line")
    torn = F.when(_torn(line, files), _told(_TORN, line))
    return F.coalesce(torn, _told(_LENGTH, F.col("values.wrong")), suspect([line], files))


def _told(fault: str, text: Column) -> Column:
    return F.concat(F.lit(fault + SEPARATOR), F.substring(text, 1, _SHOWN))


def suspect(texts: Sequence[Column], files: Files) -> Column:
    """Return the fault `SUSPECT` where a text may hold bytes that are no UTF-8."""
    found = F.lit(None).cast("string")
    if files.encoding == UTF_8:
        for text in texts:
            found = F.coalesce(found, F.when(text.contains(REPLACED), F.lit(SUSPECT)))
    return found


def _torn(line: Column, files: Files) -> Column:
    """Return whether a line ends inside quotes: its other half would be taken for a record."""
    quote, escape = files.quote, files.escape
    single = line
    for pair in {escape + escape: None, escape + quote: None}:
        single = F.replace(single, F.lit(pair), F.lit(""))
    quotes = F.length(single) - F.length(F.replace(single, F.lit(quote), F.lit("")))
    opened = single.rlike(rf"(^|\Q{files.delimiter}\E)\Q{quote}\E[^\Q{quote}\E]*$")
    return line.contains(quote) & (quotes % 2 == 1) & opened


_TOLD: Mapping[str, tuple[str, str]] = {
    _TORN: (
        "is a line with a quote that it does not close",
        'multiline = true takes line breaks inside quotes, escape = "\\\\" quotes after \\',
    )
}


def wrong_line(files: Files, first: str, count: int, paths: Sequence[str]) -> InvalidInput | None:
    """Return the error for a value of `FAULT`; ``None`` where the fault is one of a column."""
    fault, _, line = first.partition(SEPARATOR)
    where = f"{files.where}.path"
    place = place_of(line, files, paths)
    if fault == _TORN:
        reason, remedy = _TOLD[_TORN]
        return InvalidInput(Problem(where, line, reason + (place and f" ({place})"), remedy))
    if fault != _LENGTH:
        return None
    more = f" ({count} lines are wrong)" if count > 1 else ""
    told = "the header" if files.header else "columns names"
    reason = f"cannot be read: MALFORMED, not as many values as {told}: {place}{place and ': '}"
    remedy = "delimiter, quote and escape say how values are told apart"
    if '\\"' in line and files.escape == '"':
        remedy = 'escape = "\\\\" takes quotes after \\'
    return InvalidInput(Problem(where, files.path, f"{reason}{line}{more}", remedy))


def place_of(line: str, files: Files, paths: Sequence[str]) -> str:
    """Return the file and the number of the first such line; nothing where that is unknown.

    A line as it is told may be the beginning of a long one.

    Parameters
    ----------
    paths
        That Spark read; only local ones are looked through.
    """
    line = line.strip()
    for path in local_files(paths):
        for number, text in enumerate(_texts(path, files), 1):
            if text == line or (len(line) >= _SHOWN and text.startswith(line)):
                return f"{path}, line {number}"
    return ""


def _texts(path: Path, files: Files) -> Iterator[str]:
    """Give the lines of a local file, as far as it can be read."""
    opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with contextlib.suppress(OSError, EOFError, zlib.error):
        told = {"encoding": files.encoding, "errors": "replace", "newline": "\n"}
        with opened(path, "rt", **told) as file:
            yield from (text.strip().removeprefix("\ufeff") for text in file)


def check_headers(files: Files, paths: Sequence[str]) -> None:
    """Refuse local files whose header is not that of the first; Spark names one of them only.

    Raises
    ------
    InvalidInput
        There is one.
    """
    mark = files.read.get("comment")
    first: tuple[str, Path] | None = None
    for path in local_files(paths) if files.header else ():
        lines = (t for t in _texts(path, files) if t and not (mark and t.startswith(str(mark))))
        header = next(lines, None)
        if header is None:
            continue
        if first is None:
            first = header, path
        if header != first[0]:
            shown = f"{header[:_SHOWN]} in {path}, {first[0][:_SHOWN]} in {first[1]}"
            reason = f"cannot be read: its files have different headers: {shown}"
            remedy = "trace them apart, or header = false where no line names columns"
            raise InvalidInput(Problem(f"{files.where}.path", files.path, reason, remedy))


def check_text(session: SparkSession, files: Files, paths: Sequence[str]) -> None:
    """Refuse bytes that are no UTF-8: read once more, since U+FFFD itself may stand in a file.

    Raises
    ------
    InvalidInput
        There are some.
    """
    if files.encoding != UTF_8:
        return
    lines = session.read.text(list(paths)).where(~F.is_valid_utf8("value"))
    try:
        wrong = lines.select(
            F.make_valid_utf8("value").alias("value"), F.col("_metadata.file_path").alias("file")
        ).first()
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None
    if wrong is not None:
        raise garbled(files, wrong["value"][:_SHOWN], unquote(wrong["file"]))


def garbled(files: Files, text: str, file: str = "") -> InvalidInput:
    """Return the error for bytes that are not of the encoding."""
    reason = f"holds bytes that are no {files.encoding}"
    if file:
        reason += f" ({re.sub('^file:/+', '/', file)})"
    remedy = 'name the encoding, such as encoding = "latin-1"'
    return InvalidInput(Problem(f"{files.where}.path", text, reason, remedy))
