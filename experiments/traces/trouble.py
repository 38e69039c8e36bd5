"""What Spark says about files that it cannot read, told as an error of ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from experiments.spark.connectors import connector_remedy
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from experiments.traces.recordings import Files

_UNKNOWN_ZONE = re.compile(r"INVALID_TIMEZONE\W+The timezone: (\S+)")

_IN_FILE = re.compile(
    r"(?:while reading file|converted in file|CSV file:|Could not read footer for file:?)\s+"
    r"(\w+:/.+?)(?=\.?\s*(?:$|\.\s|Column:|SQLSTATE|Caused by))",
    re.MULTILINE,
)
"""Where Spark names the file that an error is about."""

_JAVA_NAMES = {
    "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE", "utf-32-le": "UTF-32LE",
    "utf-32-be": "UTF-32BE", "mac-roman": "x-MacRoman", "cp932": "windows-31j",
    "cp949": "x-windows-949", "cp950": "x-windows-950", "big5hkscs": "Big5-HKSCS",
    "johab": "x-Johab", "mac-cyrillic": "x-MacCyrillic", "mac-greek": "x-MacGreek",
}  # fmt: skip
"""Of encodings by their names in Python, where Java does not know these."""


def charset(session: SparkSession, files: Files) -> str:
    """Return Java's name of the encoding of some files.

    Raises
    ------
    InvalidInput
        It has none.
    """
    name = files.encoding
    known: Any = session._jvm.java.nio.charset.Charset  # type: ignore[union-attr]
    for found in (_JAVA_NAMES.get(name, name), name.replace("_", "-"), name.replace("-", "")):
        if known.isSupported(found):
            return str(found)
    remedy = f"convert the files: iconv -f {name} -t utf-8"
    where = f"{files.where}.encoding"
    raise InvalidInput(Problem(where, name, "is not known to this Java", remedy))


_HEADERS = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (?P<header>.*)$"
    r"|Number of column in CSV header is not equal .*:\s+(?P<lengths>Header length: .*)$",
    re.MULTILINE,
)


def different_headers(files: Files, header: str, file: str) -> InvalidInput:
    """Return the error for a file whose header is not that of the first one."""
    reason = f"cannot be read: its files have different headers: {header} in {file}"
    remedy = "trace them apart, or header = false where no line names columns"
    return InvalidInput(Problem(f"{files.where}.path", files.path, reason, remedy))


def spark_trouble(error: PySparkException | Py4JJavaError, files: Files) -> InvalidInput:
    """Return what Spark says about files it cannot read, in one line."""
    text = str(error).strip()
    if unknown := _UNKNOWN_ZONE.search(text):
        remedy = "take another name of the same time, or a newer Java"
        return InvalidInput(Problem("timezone", unknown[1], "is not known to this Java", remedy))
    file = ""
    if (inside := _IN_FILE.search(text)) is not None:
        file = " (" + unquote(re.sub("^file:/+", "/", inside[1])) + ")"
    if (header := _HEADERS.search(text)) is not None and file:
        shown = (header["header"] or header["lengths"])[:300]
        return different_headers(files, shown, file.strip(" ()"))
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    told = (causes[-1].removeprefix("Caused by: ") if causes else text.splitlines()[0])[:300]
    remedy = connector_remedy(text, files.path) or ""
    return InvalidInput(
        Problem(f"{files.where}.path", files.path, f"cannot be read: {told}{file}", remedy)
    )
