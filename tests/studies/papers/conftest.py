"""One Spark session for all figures that are made of sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.small_spark import SMALL


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start a local session, or borrow the one that runs."""
    from experiments.spark.session import spark_session

    with spark_session("local[2]", config=SMALL) as session:
        yield session
