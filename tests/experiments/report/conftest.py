"""One Spark session for the tests of the report; every sweep that is read gets its own views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from experiments.report.build import make_report, read_sweep
from experiments.report.findings import gather
from experiments.report.grading import grade
from experiments.report.views import define_views, report_session
from tests.experiments.report.synthetic import demo_rows, write
from tests.small_spark import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from experiments.report.document import Report
    from experiments.report.labels import Labels


class Sweep(NamedTuple):
    """A sweep whose views are defined."""

    spark: SparkSession
    labels: Labels
    folder: Path


@pytest.fixture(scope="session")
def spark_root() -> Iterator[SparkSession]:
    """Start a small local session once."""
    from experiments.spark.session import spark_session

    with spark_session("local[2]", config=SMALL) as session:
        yield session


@pytest.fixture(scope="session")
def read(
    spark_root: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Sweep]:
    """Return a function that stores rows as a sweep would, reads them and defines the views."""

    def read_rows(rows: list[dict[str, Any]], parts: int = 2) -> Sweep:
        folder = write(rows, tmp_path_factory.mktemp("sweep"), parts)
        session = report_session(spark_root)
        return Sweep(session, define_views(session, read_sweep(session, folder)), folder)

    return read_rows


@pytest.fixture(scope="session")
def demo(read: Callable[..., Sweep]) -> Report:
    """Return the report of the demonstration sweep."""
    sweep = read(demo_rows())
    grade(sweep.spark)
    return make_report(gather(sweep.spark, sweep.labels))
