"""Outputs at any URI that Hadoop can write: made in a local copy, then put there as a whole.

A result is put beside its place under another name, compared with the working copy, and renamed; an
older one stays until then. What was cut off is completed, or undone, by whoever writes there next.
The working copy lies in the user's cache folder until the result is in its place: killed or
interrupted, a command finds there what it had done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.spark.connectors import connector_remedy
from experiments.spark.session import cause_of, spark_session
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from optim.util.store import Lock
from streamplace.java import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
_LOCAL = re.compile(r"file:(//)?(?=/)")
_BASE = "base.json"
_COPY = "copy"
_REMEDY = "look at the address, the rights there, and --spark-config spark.hadoop.fs.…"


def is_remote(text: str | Path) -> bool:
    """Tell whether an output is a URI that is not of a local file."""
    found = _URI.match(str(text))
    return found is not None and found["scheme"].lower() != "file" and isinstance(text, str)


def local_path(text: str | Path) -> Path:
    """Return the path of a local output, ``file:`` before it or not."""
    return Path(_LOCAL.sub("", text) if isinstance(text, str) else text)


@contextlib.contextmanager
def output_at(
    output: str | Path, master: str = "local[1]", *, keep: bool = True, **session: Any
) -> Iterator[Path]:
    """Give the local path at which an output is to be made.

    Of a URI it is a working copy, which holds what is there already, and is put in its place when
    the block ends well. Within the block a session is active.

    Parameters
    ----------
    output
        Path or URI.
    keep
        Leave the working copy to the next call if the block fails.
    master, session
        As `experiments.spark.session.spark_session` takes them.

    Raises
    ------
    InvalidInput
        The file system cannot be reached or written; what was there is still there.
    """
    if not is_remote(output):
        yield local_path(output)
        return
    uri = str(output)
    with _working_copy(uri) as folder, spark_session(master, "streamplace", **session) as spark:
        place = Place(spark, uri)
        place.settle()
        _take_up(place, folder)
        try:
            yield folder / _COPY
        except BaseException:
            if not keep:
                _clear(folder)
            raise
        place.put(folder / _COPY)
        _clear(folder)


def publish(spark: SparkSession, uri: str, copy: Path) -> None:
    """Put a working copy of `output_at` in its place while the work on it goes on.

    Raises
    ------
    InvalidInput
        As of `Place.put`.
    """
    place = Place(spark, uri)
    place.put(copy)
    write_atomic(copy.parent / _BASE, json.dumps(place.state()))


@contextlib.contextmanager
def input_at(text: str | Path, master: str = "local[1]", **session: Any) -> Iterator[Path]:
    """Give the local path of an input; what lies at a URI is fetched for the block.

    Raises
    ------
    InvalidInput
        There is nothing, or it cannot be read.
    """
    if not is_remote(text):
        yield local_path(text)
        return
    with (
        spark_session(master, "streamplace", **session) as spark,
        tempfile.TemporaryDirectory(prefix="streamplace-") as folder,
    ):
        place = Place(spark, str(text))
        if not place.fetch(Path(folder) / place.name):
            raise InvalidInput(Problem(str(text), None, "does not exist"))
        yield Path(folder) / place.name


def place_for_spark(spark: SparkSession, uri: str) -> Place | None:
    """Return where Spark itself may write what goes to a URI.

    Spark moves what its tasks have written from folder to folder. Hadoop's FTP renames only within
    one: what goes there is written into the working copy, which is put there as a whole.

    Returns
    -------
    Place or None
        ``None`` for the working copy.

    Raises
    ------
    InvalidInput
        Workers of a cluster would have to write into a working copy.
    """
    if not uri.lower().startswith("ftp:"):
        return Place(spark, uri)
    if not str(spark.sparkContext.master).startswith("local"):
        reason = "cannot be written by the workers of a cluster: FTP renames within a folder only"
        remedy = "take --master local[*], or write elsewhere and copy it there"
        raise InvalidInput(Problem("--output", uri, reason, remedy))
    return None


class Place:
    """A file or folder that Hadoop's ``FileSystem`` reaches.

    Parameters
    ----------
    spark
        Session; its settings ``spark.hadoop.…`` are those of the file system.
    uri
        As Hadoop takes it: what follows the scheme stands for itself.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri = uri
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        with self._told("cannot be reached"):
            self.target = self._path(uri)
            parent = self.target.getParent()
            if parent is None:
                reason = "is the root of a file system"
                raise InvalidInput(Problem("--output", uri, reason, "name a folder in it"))
            self.name: str = self.target.getName()
            self._fs = self.target.getFileSystem(spark._jsc.hadoopConfiguration())
            self.new = self._path(parent, f".{self.name}.new")
            self._old = self._path(parent, f".{self.name}.old")

    def settle(self) -> None:
        """Complete or undo a change that was cut off.

        Only a result that is whole moves the older one away: where that is away, the new one is
        whole.
        """
        with self._told("cannot be put in order"):
            if self._fs.exists(self._old):
                if not self._fs.exists(self.target):
                    self._rename(self.new if self._fs.exists(self.new) else self._old, self.target)
                self._fs.delete(self._old, True)
            self._fs.delete(self.new, True)

    def fetch(self, local: Path) -> bool:
        """Copy what is there to a local path; False where nothing is."""
        with self._told("cannot be read"):
            if not self._fs.exists(self.target):
                return False
            self._fs.copyToLocalFile(False, self.target, self._local(local), True)
            return True

    def within(self, folder: Any, name: str) -> str:
        """Return what Spark is to read or write in one of the folders here."""
        return str(self._path(folder, name).toString())

    def beside(self, name: str) -> str:
        """Return the URI of a neighbour."""
        return self.within(self.target.getParent(), name)

    def fetch_new(self, name: str, local: Path) -> None:
        """Copy what Spark has written below `new` to a local path."""
        with self._told("cannot be read"):
            self._fs.copyToLocalFile(False, self._path(self.new, name), self._local(local), True)

    def put(self, local: Path) -> None:
        """Put a file or folder in the place of what is there.

        Raises
        ------
        InvalidInput
            It cannot be written, or did not arrive whole; what was there is still there.
        """
        wanted = _local_sizes(local)
        if not wanted:
            raise InvalidInput(Problem("--output", self.uri, "has nothing to be written"))
        with self._told("cannot be written"):
            self._fs.delete(self.new, True)
            self._fs.copyFromLocalFile(False, True, self._local(local), self.new)
            if self._sizes(self.new) != wanted:
                self._fs.delete(self.new, True)
                reason = "did not take everything that was written"
                raise InvalidInput(Problem("--output", self.uri, reason, _REMEDY))
            if self._fs.exists(self.target):
                self._rename(self.target, self._old)
            try:
                self._rename(self.new, self.target)
            except BaseException:
                self._undo()
                raise
            # the new one stands: an old one that stays goes with the next change
            with contextlib.suppress(Exception):
                self._fs.delete(self._old, True)

    def state(self) -> dict[str, Any]:
        """Return sizes and times of what is there, to tell later whether it was changed."""
        with self._told("cannot be read"):
            exists = self._fs.exists(self.target)
            return self._each(self.target, _size_and_time) if exists else {}

    def _undo(self) -> None:
        with contextlib.suppress(Exception):
            if self._fs.exists(self._old):
                self._fs.rename(self._old, self.target)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._fs.rename(source, target):
            reason = f"cannot be written: {source.getName()} cannot be renamed"
            raise InvalidInput(Problem("--output", self.uri, reason, _REMEDY))

    def _sizes(self, path: Any) -> dict[str, Any]:
        return self._each(path, lambda status: status.getLen())

    def _each(self, path: Any, value: Callable[[Any], Any]) -> dict[str, Any]:
        above = len(path.toUri().getPath())
        found, waiting = {}, [path]
        while waiting:
            for status in self._fs.listStatus(waiting.pop()):
                inside = status.getPath()
                if status.isDirectory():
                    waiting.append(inside)
                else:
                    found[inside.toUri().getPath()[above:].lstrip("/")] = value(status)
        return found

    def _local(self, path: Path) -> Any:
        return self._path(f"file://{path.resolve()}")

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        from py4j.protocol import Py4JError

        try:
            yield
        except Py4JError as error:
            java = getattr(error, "java_exception", None)
            text = cause_of(error) if java is None else str(java.toString()).splitlines()[0][:300]
            remedy = connector_remedy(text, self.uri) or _REMEDY
            raise InvalidInput(Problem("--output", self.uri, f"{what}: {text}", remedy)) from None


def _size_and_time(status: Any) -> list[int]:
    return [status.getLen(), status.getModificationTime()]


def _local_sizes(local: Path) -> dict[str, int]:
    if local.is_file():
        return {"": local.stat().st_size}
    return {
        path.relative_to(local).as_posix(): path.stat().st_size
        for path in local.rglob("*")
        if path.is_file() and not _is_checksum(path)
    }


def _is_checksum(path: Path) -> bool:
    """Tell whether a file is what Hadoop puts beside each that it writes here; it stays here."""
    name = path.name.removeprefix(".").removesuffix(".crc")
    return path.name == f".{name}.crc" and path.with_name(name).is_file()


@contextlib.contextmanager
def _working_copy(uri: str) -> Iterator[Path]:
    """Give the folder of the working copy of a URI to one process at a time."""
    digest = hashlib.sha256(uri.encode()).hexdigest()[:24]
    folder = cache_folder() / "outputs" / digest
    lock = Lock(folder, folder=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = lock.acquire()
    except OSError as error:
        reason = f"cannot be written: {error.strerror}"
        remedy = "let XDG_CACHE_HOME name a folder that can be"
        raise InvalidInput(Problem("cache folder", str(folder), reason, remedy)) from None
    if not free:
        reason = "is being written by another process"
        raise InvalidInput(Problem("--output", uri, reason, "wait for it"))
    try:
        yield folder
    finally:
        lock.release()


def _take_up(place: Place, folder: Path) -> None:
    """Have the working copy hold what is there; one that was left is taken up if it still fits."""
    copy, base = folder / _COPY, folder / _BASE
    now = place.state()
    if copy.exists():
        if base.is_file() and json.loads(base.read_text()) == now:
            logger.info("%s: going on with %s", place.uri, copy)
            return
        aside = Path(tempfile.mkdtemp(prefix="aside-", dir=folder))
        copy.rename(aside / _COPY)
        logger.warning("%s was changed since; what was made here lies in %s", place.uri, aside)
    place.fetch(copy)
    write_atomic(base, json.dumps(now))


def _clear(folder: Path) -> None:
    (folder / _BASE).unlink(missing_ok=True)
    copy = folder / _COPY
    if copy.is_file():
        copy.unlink()
    shutil.rmtree(copy, ignore_errors=True)
