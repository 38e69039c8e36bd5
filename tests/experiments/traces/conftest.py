"""One Spark session for all tests of traces, and jobs small enough to be summed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.small_spark import SMALL


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A quick session; `run_trace` finds it active."""
    from experiments.spark.session import spark_session

    with spark_session("local[2]", config=SMALL) as session:
        yield session
