"""Every sweep that is read gets a database of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from experiments.report.build import make_report
from experiments.report.database import define_views, read_sweep
from experiments.report.findings import gather, grade
from experiments.sweep.store import connect
from tests.experiments.report.synthetic import demo_rows, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from experiments.report.database import Labels
    from experiments.report.tables import Report


class Sweep(NamedTuple):
    """A sweep whose views are defined."""

    con: DuckDBPyConnection
    labels: Labels
    folder: Path


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Sweep]:
    """Return a function that stores rows as a sweep would, reads them and defines the views."""

    def read_rows(rows: list[dict[str, Any]], parts: int = 2) -> Sweep:
        folder = write(rows, tmp_path_factory.mktemp("sweep"), parts)
        con = connect()
        read_sweep(con, folder)
        return Sweep(con, define_views(con), folder)

    return read_rows


@pytest.fixture(scope="session")
def demo(read: Callable[..., Sweep]) -> Report:
    """Return the report of the demonstration sweep."""
    sweep = read(demo_rows())
    grade(sweep.con)
    return make_report(gather(sweep.con, sweep.labels))
