"""Read the rows of a result folder, each run once: the latest row of its key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.sweep.row import arrow_schema
from experiments.sweep.store import ResultFolder, latest_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


def read_rows(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the rows of a result folder with the schema of `experiments.sweep.row`.

    Parameters
    ----------
    folder
        Result folder; also of a sweep that is under way or was interrupted.

    Raises
    ------
    InvalidInput
        The folder is no result folder.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from experiments.sweep.row import spark_schema

    results = ResultFolder(Path(folder))
    results.marker()
    files = results.files()
    if not files:
        return spark.createDataFrame([], spark_schema())
    frame = spark.read.schema(spark_schema()).parquet(*map(_for_spark, files))
    if files == [results.rows]:
        return frame  # compaction left one row a key
    newest = Window.partitionBy("run_key").orderBy(F.col("started_at").desc(), F.col("host"))
    ranked = frame.withColumn("_rank", F.row_number().over(newest))
    return ranked.where(F.col("_rank") == 1).drop("_rank")


def _for_spark(path: Path) -> str:
    """Write a path so that Spark, which takes paths for globs, means this file and no other."""
    return "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.resolve()))


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def parquet_source(files: Sequence[Path], options: str = "") -> str:
    """Return the files as DuckDB reads them: the table of an SQL query."""
    return f"read_parquet([{', '.join(map(_this_file, files))}]{options and ', '}{options})"


def footer(what: str, file: Path) -> str:
    """Return what DuckDB tells of a file's footer, ``schema`` or ``file_metadata``, as a table."""
    return f"parquet_{what}({_this_file(file)})"


def _this_file(path: Path) -> str:
    """Write a path so that DuckDB, which takes paths for patterns, means this file and no other."""
    return literal(re.sub(r"([*?\[])", r"[\1]", str(path)))


def read_rows_pandas(folder: str | Path) -> pd.DataFrame:
    """Return the same rows without Spark, sorted by key; for small results.

    Raises
    ------
    InvalidInput
        The folder is no result folder.
    """
    import pyarrow as pa

    results = ResultFolder(Path(folder))
    results.marker()
    tables = list(latest_rows(results.files()))
    whole = pa.concat_tables(tables) if tables else arrow_schema().empty_table()
    return whole.sort_by("run_key").to_pandas(maps_as_pydicts="strict")


def read_columns(files: Sequence[Path], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of the latest row of every key, as plain dictionaries."""
    rows: list[dict[str, Any]] = []
    for table in latest_rows(files, columns):
        rows += table.to_pylist()
    return rows
