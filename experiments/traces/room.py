"""A disk that is full, told as that: where it is, and how much room is left there.

Spark tells it in the cause of an error about whatever it was doing, such as reading a recording.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_WORDS = ("No space left on device", "Disk quota exceeded")
"""Of EDQUOT and ENOSPC, which Java passes on as the system says them."""

_REMEDIES = {
    "--output": "make room there, or choose another folder",
    "--scratch": "make room there, or name another folder by --scratch",
    "TMPDIR": "make room there, or let TMPDIR name a folder on another disk",
    "SPARK_LOCAL_DIRS": "make room there, or let SPARK_LOCAL_DIRS name a folder on another disk",
}


def is_full(error: object) -> bool:
    """Tell whether an error is, or was caused by, a disk that is full."""
    return any(words in str(error) for words in _WORDS)


def places(session: SparkSession, output: Path) -> dict[str, Path]:
    """Return the folders that Spark writes to for a trace, by what names them."""
    given = os.environ.get("SPARK_LOCAL_DIRS")
    local = given or session.sparkContext.getConf().get("spark.local.dir") or "/tmp"
    own = "SPARK_LOCAL_DIRS" if given else "TMPDIR"
    return {"--output": output, own: Path(local.split(",")[0])}


def full_disk(where: Mapping[str, Path]) -> InvalidInput:
    """Return the error for that of some folders whose disk has the least room left.

    Spark may have removed by then what it was writing, so that there is room again.
    """
    room = {name: _room(path) for name, path in where.items()}
    name = min(room, key=lambda name: room[name])
    reason = f"is on a disk that is full, or was just now: {room[name] / 1e6:,.1f} MB are free"
    return InvalidInput(Problem(name, str(where[name]), reason, _REMEDIES[name]))


def _room(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62
