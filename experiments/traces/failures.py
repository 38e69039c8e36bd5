"""Failures of Spark, Java and disks as errors of ours: files that cannot be read, full disks."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from experiments.spark.connectors import connector_remedy
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

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


# -- full disks ------------------------------------------------------------------------------------

_FULL = ("No space left on device", "Disk quota exceeded")
"""Of EDQUOT and ENOSPC, which Java passes on as the system says them."""

_MORE_ROOM = {
    "--output": "make room there, or choose another folder",
    "--scratch": "make room there, or name another folder by --scratch",
    "TMPDIR": "make room there, or let TMPDIR name a folder on another disk",
    "SPARK_LOCAL_DIRS": "make room there, or let SPARK_LOCAL_DIRS name a folder on another disk",
}


def is_full(error: object) -> bool:
    """Tell whether an error is, or was caused by, a disk that is full."""
    return any(words in str(error) for words in _FULL)


def places(session: SparkSession, output: Path) -> dict[str, Path]:
    """Return the folders that Spark writes to for a trace, by what names them."""
    given = os.environ.get("SPARK_LOCAL_DIRS")
    local = given or session.sparkContext.getConf().get("spark.local.dir") or "/tmp"
    own = "SPARK_LOCAL_DIRS" if given else "TMPDIR"
    return {"--output": output, own: Path(local.split(",")[0])}


def full_disk(where: Mapping[str, Path]) -> InvalidInput:
    """Return the error for that of some folders whose disk has the least room left.

    Spark may have removed by then what it was writing, so that there is room again.
    """
    room = {name: _room(path) for name, path in where.items()}
    name = min(room, key=lambda name: room[name])
    reason = f"is on a disk that is full, or was just now: {room[name] / 1e6:,.1f} MB are free"
    return InvalidInput(Problem(name, str(where[name]), reason, _MORE_ROOM[name]))


def _room(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62
