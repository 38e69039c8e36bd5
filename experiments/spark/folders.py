"""Where a local Spark keeps what it moves: a folder that goes with us, or with whoever comes next.

Spark itself puts such folders beside each other below ``/tmp`` and forgets them when it is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from optim.util.store import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX = "streamplace-spark-"
_SETTING = "spark.local.dir"
_OPTIONS = "spark.driver.defaultJavaOptions"
_TEMPORARY = "-Djava.io.tmpdir"


def local_folders() -> dict[str, str]:
    """Return the settings that name a folder of this process; those of processes that are gone go.

    None where ``SPARK_LOCAL_DIRS`` names folders, or where Spark would not understand the path: a
    comma ends it.
    """
    base = Path(tempfile.gettempdir()).absolute()
    if "SPARK_LOCAL_DIRS" in os.environ or "," in str(base):
        return {}
    remove_left(base)
    try:
        return {_SETTING: _own(base, os.getpid())}
    except OSError:
        return {}  # Spark finds out by itself, and reports


def with_temporary_folder(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by which the driver's JVM unpacks its libraries into our folder.

    A JVM that is killed leaves them (``liblz4-java-…so``, ``snappy-…so``), and whatever else it
    has in ``java.io.tmpdir``; there the next process removes them. These options stand before
    ``spark.driver.extraJavaOptions``, so that a folder that is named there is taken.
    """
    given = settings.get(_OPTIONS, "")
    base = Path(tempfile.gettempdir()).absolute()
    remove_left(base)
    try:
        folder = _own(base, os.getpid())
    except OSError:
        return dict(settings)
    # Spark splits the options as a shell does
    quoted = folder.replace("\\", r"\\").replace('"', r"\"")
    return {**settings, _OPTIONS: f'"{_TEMPORARY}={quoted}" {given}'.strip()}


@contextlib.contextmanager
def temporary_files_in(folders: Mapping[str, str]) -> Iterator[None]:
    """Have what pyspark puts into a temporary folder, while the JVM starts, lie in ours."""
    before = tempfile.tempdir
    tempfile.tempdir = folders.get(_SETTING, before)
    try:
        yield
    finally:
        tempfile.tempdir = before


@functools.cache
def _own(base: Path, pid: int) -> str:
    """Make the folder of this process, locked for as long as it lives."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    Lock(folder, folder=True).acquire()
    atexit.register(_remove_own, folder, pid)
    return str(folder)


def _remove_own(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not in children, which inherit what is to be done at the end
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(base: Path) -> None:
    """Remove folders that nobody holds locked: their processes were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_uid == os.getuid():
                lock = Lock(folder, folder=True)
                if lock.acquire():
                    shutil.rmtree(folder, ignore_errors=True)
                    lock.release()
