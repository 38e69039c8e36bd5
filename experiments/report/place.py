"""Where a report reads and writes: paths, and URIs of any file system that fsspec or Arrow knows.

What only Hadoop knows (``hdfs:``, ``s3a:``, …) goes by way of Spark, which has to be installed.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.spark.remote import is_remote, local_path
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_HADOOP = ("hdfs", "viewfs", "s3a", "s3n", "wasb", "wasbs", "oss", "cosn", "har", "swebhdfs")
_REMEDY = "look at the address and the rights there; its package may be needed (s3fs, adlfs, …)"


@contextlib.contextmanager
def input_folder(text: str, master: str) -> Iterator[Path]:
    """Give the local path of a folder; what lies at a URI is fetched for the block.

    Raises
    ------
    InvalidInput
        There is nothing, or it cannot be read.
    """
    if not is_remote(text):
        yield local_path(text)
        return
    if (there := _file_system(text)) is None:
        from experiments.spark.remote import input_at

        with input_at(text, master) as folder:
            yield folder
        return
    system, path = there
    with tempfile.TemporaryDirectory(prefix="streamplace-") as made:
        local = Path(made) / Path(path).name
        with _told(text, "cannot be read"):
            if not system.exists(path):
                raise InvalidInput(Problem("result folder", text, "does not exist", _REMEDY))
            system.get(path, str(local), recursive=True)
        yield local


@contextlib.contextmanager
def output_path(text: str, master: str) -> Iterator[Path]:
    """Give the local path of an output; all that lies beside it at the end is put at its URI.

    The output itself comes last, so that what it names is there before it.

    Raises
    ------
    InvalidInput
        It cannot be written.
    """
    if not is_remote(text):
        yield local_path(text)
        return
    there = _file_system(text)
    with tempfile.TemporaryDirectory(prefix="streamplace-") as made:
        local = Path(made) / Path(text.rstrip("/")).name
        yield local
        paths = sorted(Path(made).iterdir(), key=lambda path: (path == local, path))
        if there is None:
            _put_by_hadoop(text, paths, master)
            return
        system, target = there
        parent = target.rstrip("/").rpartition("/")[0]
        with _told(text, "cannot be written"):
            for path in paths:
                for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                    if file.is_file():
                        to = f"{parent}/{file.relative_to(made).as_posix()}"
                        system.makedirs(to.rpartition("/")[0], exist_ok=True)
                        system.put_file(str(file), to)


def _file_system(uri: str) -> tuple[Any, str] | None:
    """Return the file system of a URI as fsspec sees it, and the path in it; None without one."""
    if uri.split(":", 1)[0].lower() in _OF_HADOOP:
        return None
    import fsspec

    try:
        with _told(uri, "cannot be reached"):
            found: tuple[Any, str] = fsspec.core.url_to_fs(uri)
            return found
    except (ImportError, ValueError):
        pass  # the package that speaks it is absent, or there is none: Arrow may bring it
    with contextlib.suppress(ImportError, OSError, ValueError):  # of which Arrow's errors are
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow import fs

        system, path = fs.FileSystem.from_uri(uri)
        return ArrowFSWrapper(system), path
    return None


def _put_by_hadoop(uri: str, paths: list[Path], master: str) -> None:
    from experiments.spark.remote import Place
    from experiments.spark.session import spark_session

    with spark_session(master, app_name="streamplace report") as spark:
        for path in paths:
            place = Place(spark, Place(spark, uri).beside(path.name))
            place.settle()
            place.put(path)


@contextlib.contextmanager
def _told(uri: str, what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidInput(Problem("URI", uri, f"{what}: {lines[0]}", _REMEDY)) from None
