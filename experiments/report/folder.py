"""Open a result folder: what is wrong with it is said before Spark is started for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, REQUIRED
from experiments.sweep.store import ResultFolder
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN = 8


def check_folder(folder: str | Path) -> Path:
    """Return the folder if it holds rows that can be read.

    Raises
    ------
    InvalidInput
        It does not exist, is no result folder, holds no rows, or a file of it is not Parquet or
        lacks columns.
    """
    path = Path(folder)
    if not path.exists():
        raise _refused(path, "does not exist")
    results = ResultFolder(path)
    results.marker()
    try:
        files = results.files()
        num_rows = sum(_check_file(file) for file in files)
    except PermissionError as error:
        raise _refused(
            Path(error.filename or path), "may not be read", "check its permissions"
        ) from None
    if not num_rows:
        raise _refused(path, "holds no rows", "run the sweep first, or resume it")
    return path


def _check_file(path: Path) -> int:
    """Return the number of rows of a file, from its footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names, num_rows = set(file.schema_arrow.names), file.metadata.num_rows
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = f"cannot be read as Parquet: {_first_line(error)}"
        raise _refused(path, reason, _REMEDY) from None
    missing = [name for name in COLUMNS if name not in names and name not in FIGURE_COLUMNS]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        reason = f"lacks columns of a sweep's rows: {', '.join(missing[:_SHOWN])}{more}"
        raise _refused(path, reason, _REMEDY)
    return int(num_rows)


_REMEDY = "remove the file and run the sweep again; it resumes what is missing"


def read_sweep(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the rows of a result folder, each run once, with ``ignored`` in place of ``result``.

    Results hold whole plans; all that the report needs of them is which limits were ignored.

    Raises
    ------
    InvalidInput
        Spark cannot read them, or what a row must have is null.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from experiments.sweep.reading import read_rows

    try:
        rows = (
            read_rows(spark, folder)
            .selectExpr("* EXCEPT (result)", "get_json_object(result, '$.ignored') AS ignored")
            .localCheckpoint()
        )
        rows.createOrReplaceTempView("rows_read")
        counts = ", ".join(f"count_if({name} IS NULL) AS {name}" for name in REQUIRED)
        nulls = spark.sql(f"SELECT {counts} FROM rows_read").collect()[0]
    except (PySparkException, Py4JError) as error:
        reason = f"cannot be read: {_first_line(error)}"
        raise _refused(folder, reason, _REMEDY) from None
    broken = [name for name in REQUIRED if nulls[name]]
    if broken:
        raise _refused(folder, f"has rows without {', '.join(broken)}", _REMEDY)
    return rows


def _first_line(error: Exception) -> str:
    """Return the first line of the cause that lies deepest, where Spark says what it met."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    lines = str(java.getMessage() if java is not None else error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _refused(
    path: Path, reason: str, remedy: str = "name one that `sweep -o` made"
) -> InvalidInput:
    return InvalidInput(Problem("result folder", str(path), reason, remedy))
