"""Where a report reads and writes: paths, and URIs of any file system that Arrow or fsspec knows.

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
    from pyarrow import fs

    if not is_remote(text):
        yield local_path(text)
        return
    if (there := _file_system(text)) is None:
        from experiments.spark.remote import input_at

        with input_at(text, master) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="streamplace-") as made, _told(text, "cannot be read"):
        system, path = there
        if system.get_file_info(path).type == fs.FileType.NotFound:
            raise InvalidInput(Problem("result folder", text, "does not exist", _REMEDY))
        local = Path(made) / Path(path).name
        local.mkdir()
        fs.copy_files(path, str(local), source_filesystem=system)
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
        from pyarrow import fs

        system, target = there
        with _told(text, "cannot be written"):
            for path in paths:
                to = str(Path(target).parent / path.name)
                system.create_dir(to if path.is_dir() else str(Path(to).parent), recursive=True)
                fs.copy_files(str(path), to, destination_filesystem=system)


def _file_system(uri: str) -> tuple[Any, str] | None:
    """Return Arrow's or fsspec's file system of a URI, and the path in it; None without one."""
    from pyarrow import ArrowException, fs

    if uri.split(":", 1)[0].lower() in _OF_HADOOP:
        return None
    with contextlib.suppress(ArrowException, OSError):
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
        return found
    try:
        import fsspec

        with _told(uri, "cannot be reached"):
            system, path = fsspec.core.url_to_fs(uri)
    except (ImportError, ValueError):  # no such protocol, or the package that speaks it is absent
        return None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


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
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, EOFError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InvalidInput(Problem("URI", uri, f"{what}: {lines[0]}", _REMEDY)) from None
