"""JSON by lines: the names in it, found in the pass that looks at its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from experiments.traces.lines import place_of
from experiments.traces.recordings import UTF_8
from experiments.traces.trouble import charset
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from experiments.traces.recordings import Files

_SHOWN = 200
_GARBLED = "bytes that are no UTF-8"


def found_schema(session: SparkSession, files: Files, paths: Sequence[str]) -> StructType | None:
    """Return the columns of files that are all UTF-8.

    Spark finds the same in the files themselves, but takes bytes that are no text without a word.

    Returns
    -------
    StructType or None
        Without those that folders such as ``day=1`` stand for. ``None`` where anything is wrong, or
        the encoding is another one: the files are then to be judged one thing after the other.
    """
    if files.encoding != UTF_8 or files.read:
        return None
    reader = session.read.option("mode", "FAILFAST").option("primitivesAsString", True)
    try:
        return reader.json(judged_lines(session.read.text(list(paths)))).schema or None
    except (PySparkException, Py4JJavaError):
        return None


def decoded_lines(session: SparkSession, files: Files, paths: Sequence[str]) -> DataFrame:
    """Return the lines of files in which a line break is more than one byte."""
    content = F.decode("content", charset(session, files))
    whole = session.read.format("binaryFile").load(list(paths)).select(content.alias("text"))
    lines = whole.select(F.explode(F.split("text", "\r?\n")).alias("value"))
    return lines.where(F.trim("value") != "")


def damaged_json(session: SparkSession, files: Files, paths: Sequence[str]) -> InvalidInput | None:
    """Return the error for the first line that is no JSON, with its place; ``None`` for none."""
    if files.format != "jsonl" or files.read.get("multiLine"):
        return None
    try:
        lines = session.read.text(list(paths))
        if files.wide:
            lines = decoded_lines(session, files, paths)
        reader = session.read.options(**files.read).option("mode", "PERMISSIVE")
        reader = reader.option("columnNameOfCorruptRecord", "wrong").schema("wrong string")
        wrong = reader.json(lines.select("value")).where("wrong is not null").first()
    except (PySparkException, Py4JJavaError):
        return None
    if wrong is None:
        return None
    line = wrong["wrong"].strip()[:_SHOWN]
    place = place_of(line, files, paths)
    reason = f"cannot be read: MALFORMED, a line that is no JSON: {place}{place and ': '}{line}"
    remedy = "mend or remove the line"
    return InvalidInput(Problem(f"{files.where}.path", files.path, reason, remedy))


def judged_lines(lines: DataFrame) -> DataFrame:
    """Return lines of which Spark stops at one that is no UTF-8."""
    value = F.col("value")
    judged = F.when(F.is_valid_utf8(value), value).otherwise(F.raise_error(F.lit(_GARBLED)))
    return lines.select(judged.alias("value"))
