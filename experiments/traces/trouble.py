"""What Spark says about files that it cannot read, told as an error of ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from experiments.spark.connectors import connector_remedy
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from experiments.traces.recordings import Files

_UNKNOWN_ZONE = re.compile(r"INVALID_TIMEZONE\W+The timezone: (\S+)")


def spark_trouble(error: PySparkException | Py4JJavaError, files: Files) -> InvalidInput:
    """Return what Spark says about files it cannot read, in one line."""
    text = str(error).strip()
    if unknown := _UNKNOWN_ZONE.search(text):
        remedy = "take another name of the same time, or a newer Java"
        return InvalidInput(Problem("timezone", unknown[1], "is not known to this Java", remedy))
    causes = [line for line in text.splitlines() if line.startswith("Caused by:")]
    told = (causes[-1].removeprefix("Caused by: ") if causes else text.splitlines()[0])[:300]
    remedy = connector_remedy(text, files.path) or ""
    return InvalidInput(
        Problem(f"{files.where}.path", files.path, f"cannot be read: {told}", remedy)
    )
