"""What Spark does not tell of files of Parquet: moments in nanoseconds, and columns that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.traces.locating import local_files
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from experiments.traces.recordings import Files

NANOS_AS_WHOLE = "spark.sql.legacy.parquet.nanosAsLong"
"""Setting of Spark, which else refuses such columns."""


def nano_columns(
    session: SparkSession, scanned: Sequence[str], names: Sequence[str]
) -> dict[str, str]:
    """Return which columns are moments in nanoseconds: ``nanos``, or ``nanos_ntz`` without zone.

    Parameters
    ----------
    scanned
        Files that Spark reads.
    names
        Columns that are whole numbers to Spark.
    """
    if not names or not scanned:
        return {}
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(scanned[0]))
    settings = session._jsc.hadoopConfiguration()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, settings)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        fields = list(reader.getFileMetaData().getSchema().getFields())
    finally:
        reader.close()
    kinds = {"TIMESTAMP(NANOS,true)": "nanos", "TIMESTAMP(NANOS,false)": "nanos_ntz"}
    told = {str(f.getName()): str(f.getLogicalTypeAnnotation()) for f in fields}
    return {name: kinds[told[name]] for name in names if told.get(name) in kinds}


def check_alike(files: Files, paths: Sequence[str], names: Sequence[str]) -> None:
    """Refuse local files whose columns are not those of the first: Spark takes these for all.

    Parameters
    ----------
    names
        Columns that are used, or fields inside them.

    Raises
    ------
    InvalidInput
        One lacks a column that another has, or has another type; with its name.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    local = local_files(paths)
    if len(local) < 2:
        return
    found: dict[str, tuple[Any, str]] = {}
    lacking: dict[str, str] = {}
    where = f"{files.where}.path"
    merged = files.options.get("mergeSchema") is True
    remedy = "trace them apart, or write them alike"
    for path in local:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            told = str(error).splitlines()[0]
            raise InvalidInput(
                Problem(where, files.path, f"cannot be read: {told} ({path})")
            ) from None
        for name in dict.fromkeys(n for n in names):
            top = name if name in schema.names else name.split(".")[0].split("[")[0]
            if top not in schema.names:
                lacking.setdefault(top, str(path))
                continue
            kind = schema.field(top).type
            first, owner = found.setdefault(top, (kind, str(path)))
            if kind != first:
                reason = f"holds files that differ: {top} is {kind} in {path}, {first} in {owner}"
                raise InvalidInput(Problem(where, files.path, reason, remedy))
    for top, file in lacking.items():
        if top in found and not merged:
            reason = f"holds files that differ: {file} has no column {top}, {found[top][1]} has"
            merge = "read = {mergeSchema = true} takes null for it"
            raise InvalidInput(Problem(where, files.path, reason, merge))
