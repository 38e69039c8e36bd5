"""From the rows of a sweep to the whole report: graded, asked, laid out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.report.chance import chance_section
from experiments.report.comparison import gap_section, outcome_section
from experiments.report.curves import figure_section
from experiments.report.document import Report, Section
from experiments.report.findings import Findings, gather
from experiments.report.formats import listed
from experiments.report.grading import grade
from experiments.report.opening import metric_section
from experiments.report.summary import summarise
from experiments.report.views import define_views, laid_out
from experiments.report.why import why_section
from experiments.sweep.row import COLUMNS, NEWER_COLUMNS, REQUIRED
from experiments.sweep.store import ResultFolder
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_MANY = 5


def make_findings(
    spark: SparkSession, rows: DataFrame, tell: Callable[[str], None] = lambda _: None
) -> Findings:
    """Grade the rows of a sweep and ask them everything.

    Parameters
    ----------
    spark
        A session from `experiments.report.views.report_session`; `rows` must be of it.
    rows
        At least one, from `experiments.report.build.read_sweep`.
    tell
        Is told what is being done.

    Raises
    ------
    experiments.report.grading.ContradictoryRuns
        Runs contradict one another; nothing is reported from them.
    """
    tell("grading the runs against each other")
    labels = define_views(spark, rows)
    grade(spark)
    tell("comparing the methods")
    return gather(spark, labels)


def make_report(findings: Findings, folder: Path | None = None) -> Report:
    """Lay out the report.

    Parameters
    ----------
    findings
        What the rows say.
    folder
        Result folder: what it keeps of instances is explained, case by case.
    """
    sections: list[Section] = [metric_section(findings, item) for item in findings.metrics]
    if findings.own_gaps:
        sections.append(gap_section(findings))
    if chance := chance_section(findings):
        sections.append(chance)
    figures = figure_section(findings)
    if figures.figures:
        sections.append(figures)
    if folder is not None and (why := why_section(findings, folder)):
        sections.append(why)
    sections.append(outcome_section(findings))
    sweeps = listed(findings.sweep["sweeps"])
    return Report(f"Sweep {sweeps}", summarise(findings), tuple(sections), facts(findings))


def facts(findings: Findings) -> tuple[tuple[str, str], ...]:
    """Return what the report was made from: sweep, rows, times, hosts, versions."""
    sweep = findings.sweep
    hosts = sweep["hosts"]
    told_hosts = listed(hosts[:_MANY]) + (
        f" and {len(hosts) - _MANY} more" if len(hosts) > _MANY else ""
    )
    found = [
        ("Sweep", listed(sweep["sweeps"])),
        ("Rows", str(sweep["num_runs"])),
        ("Started", f"{sweep['first_start']} to {sweep['last_start']} UTC"),
        ("Hosts" if len(hosts) > 1 else "Host", told_hosts),
    ]
    found += [(f"Version: {name}", listed(values)) for name, values in _versions(findings)]
    return tuple(found)


def _versions(findings: Findings) -> list[tuple[str, list[str]]]:
    """Return every component's versions; more than one means that the runs are of two minds."""
    found: dict[str, set[str]] = {}
    for text in findings.sweep["versions"]:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        for name, version in content.items() if isinstance(content, dict) else ():
            found.setdefault(str(name), set()).add(str(version))
    return [(name, sorted(found[name])) for name in sorted(found)]


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
    missing = [name for name in COLUMNS if name not in names and name not in NEWER_COLUMNS]
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
        found = spark.sql(f"SELECT count(*) AS num_rows, {counts} FROM rows_read").collect()[0]
    except (PySparkException, Py4JError) as error:
        reason = f"cannot be read: {_first_line(error)}"
        raise _refused(folder, reason, _REMEDY) from None
    broken = [name for name in REQUIRED if found[name]]
    if broken:
        raise _refused(folder, f"has rows without {', '.join(broken)}", _REMEDY)
    return laid_out(spark, rows, found["num_rows"])


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
