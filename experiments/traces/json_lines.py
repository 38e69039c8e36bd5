"""JSON by lines: the names in it, found in the pass that looks at its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from experiments.traces.recordings import UTF_8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from experiments.traces.recordings import Files

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
    if files.encoding != UTF_8:
        return None
    reader = session.read.option("mode", "FAILFAST").option("primitivesAsString", True)
    try:
        return reader.json(judged_lines(session.read.text(list(paths)))).schema or None
    except (PySparkException, Py4JJavaError):
        return None


def judged_lines(lines: DataFrame) -> DataFrame:
    """Return lines of which Spark stops at one that is no UTF-8."""
    value = F.col("value")
    judged = F.when(F.is_valid_utf8(value), value).otherwise(F.raise_error(F.lit(_GARBLED)))
    return lines.select(judged.alias("value"))
