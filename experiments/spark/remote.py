"""Inputs and outputs at any URI: read into a local copy, made in one, put there as a whole.

One `Place` for what Hadoop, by Spark, reaches and for what fsspec or Arrow do without a JVM.

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
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.spark.session import cause_of, jars, java_line, spark_session
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from optim.util.store import Lock
from streamplace.java import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HADOOP = {
    "s3a": "hadoop-aws", "abfs": "hadoop-azure", "abfss": "hadoop-azure", "wasb": "hadoop-azure",
    "wasbs": "hadoop-azure", "oss": "hadoop-aliyun", "cosn": "hadoop-cos",
}  # fmt: skip
"""Connectors that are released together with Hadoop, by scheme."""

_OTHERS = {"gs": "com.google.cloud.bigdataoss:gcs-connector:VERSION"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_MISSING = re.compile(
    r"No FileSystem for scheme|Class org\.apache\.hadoop\.fs\.\S+ not found"
    r"|Class com\.google\.cloud\.hadoop\.fs\.\S+ not found"
)


def connector_remedy(message: str, uri: str) -> str | None:
    """Return what to do where an error says that there is no connector for a URI, else None.

    `message`: what Spark or Hadoop said.
    `uri`: what was to be read or written.
    """
    scheme = _SCHEME.match(uri)
    if scheme is None or not _MISSING.search(message):
        return None
    name = scheme[1].lower()
    package = _OTHERS.get(name)
    if name in _HADOOP:
        package = f"org.apache.hadoop:{_HADOOP[name]}:{hadoop_version()}"
    if package is None:
        return f"add the connector for {name}: by spark.jars.packages or spark.jars"
    return f"add its connector: spark.jars.packages={package}"


def hadoop_version() -> str:
    """Return the version of the Hadoop that pyspark brings: its connectors must be of the same."""
    prefix = "hadoop-client-api-"
    clients = sorted(jars().glob(f"{prefix}*.jar"))
    return clients[0].stem.removeprefix(prefix) if clients else "VERSION"


logger = logging.getLogger(__name__)

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
_LOCAL = re.compile(r"file:(//)?(?=/)")
_ROOT = re.compile(r"([A-Za-z][\w+.-]*:(//[^/]*)?)?/*")
_BASE = "base.json"
_COPY = "copy"
_OF_HADOOP = ("hdfs", "viewfs", "s3a", "s3n", "wasb", "wasbs", "oss", "cosn", "har", "swebhdfs")
_REMEDY = (
    "look at the address and the rights there; Hadoop takes --spark-config spark.hadoop.fs.…, "
    "fsspec its package (s3fs, adlfs, …)"
)


def is_remote(text: str | Path) -> bool:
    """Return whether an output is a URI that is not of a local file."""
    match = _URI.match(str(text))
    return match is not None and match["scheme"].lower() != "file" and isinstance(text, str)


def local_path(text: str | Path) -> Path:
    """Return the path of a local output, ``file:`` before it or not."""
    return Path(_LOCAL.sub("", text) if isinstance(text, str) else text)


@contextlib.contextmanager
def output_at(output: str | Path, master: str = "local[1]", **session: Any) -> Iterator[Path]:
    """Give the local path at which an output is to be made.

    Of a URI it is a working copy, which holds what is there already, and is put in its place when
    the block ends well. Within the block a session is active.

    `master`, `session`: as `experiments.spark.session.spark_session` takes them.
    Raises `InvalidInput`: the file system cannot be reached or written; what was there is still
        there.
    """
    if not is_remote(output):
        yield local_path(output)
        return
    uri = str(output)
    with _working_copy(uri) as folder, spark_session(master, "streamplace", **session) as spark:
        place = Place(spark, uri)
        place.settle()
        _take_up(place, folder)
        # what an earlier command left half renamed is put in order before its state is compared
        yield folder / _COPY  # where the block fails, the next call goes on with the copy
        place.put(folder / _COPY)
        _clear(folder)


def publish(spark: SparkSession, uri: str, copy: Path) -> None:
    """Put a working copy of `output_at` in its place while the work on it goes on.

    Raises `InvalidInput`: as of `Place.put`.
    """
    place = Place(spark, uri)
    place.put(copy)
    write_atomic(copy.parent / _BASE, json.dumps(place.state()))


@contextlib.contextmanager
def place_at(uri: str, master: str = "local[1]") -> Iterator[Place]:
    """Give what lies at a URI, by fsspec or Arrow where they know it, else by Spark's Hadoop."""
    if (system := _file_system(uri)) is not None:
        yield Place(system, uri)
        return
    with spark_session(master, "streamplace") as spark:
        yield Place(spark, uri)


@contextlib.contextmanager
def input_at(text: str | Path, master: str = "local[1]") -> Iterator[Path]:
    """Give the local path of an input; what lies at a URI is fetched for the block.

    Raises `InvalidInput`: there is nothing, or it cannot be read.
    """
    if not is_remote(text):
        yield local_path(text)
        return
    with tempfile.TemporaryDirectory(prefix="streamplace-") as folder:
        with place_at(str(text), master) as place:
            local = Path(folder) / place.name
            if not place.fetch(local):
                raise InvalidInput(Problem("URI", str(text), "does not exist", _REMEDY))
        yield local


@contextlib.contextmanager
def files_at(text: str | Path, master: str = "local[1]") -> Iterator[Path]:
    """Give the local path of an output; all that lies beside it at the end is put at its URI.

    The output itself comes last, so that what it names is there before it. Unlike those of
    `output_at`, these are made anew each time. Raises `InvalidInput`: it cannot be written.
    """
    if not is_remote(text):
        yield local_path(text)
        return
    with tempfile.TemporaryDirectory(prefix="streamplace-") as scratch:
        local = Path(scratch) / str(text).rstrip("/").rpartition("/")[2]
        yield local
        with place_at(str(text), master) as place:
            # the output last: whoever finds it finds what it names
            for path in sorted(Path(scratch).iterdir(), key=lambda path: (path == local, path)):
                beside = place.beside(path.name)
                beside.settle()
                beside.put(path)


def place_for_spark(spark: SparkSession, uri: str) -> Place | None:
    """Return where Spark itself may write what goes to a URI.

    Spark moves what its tasks have written from folder to folder. Hadoop's FTP renames only within
    one: what goes there is written into the working copy, which is put there as a whole.

    Returns ``None`` for the working copy.
    Raises `InvalidInput`: workers of a cluster would have to write into a working copy.
    """
    if not uri.lower().startswith("ftp:"):
        return Place(spark, uri)
    if not str(spark.sparkContext.master).startswith("local"):
        reason = "cannot be written by the workers of a cluster: FTP renames within a folder only"
        remedy = "take --master local[*], or write elsewhere and copy it there"
        raise InvalidInput(Problem("--output", uri, reason, remedy))
    return None


class Place:
    """A file or folder that Hadoop, fsspec or Arrow reaches.

    `by`: session, whose settings ``spark.hadoop.…`` are those of the file system; or a file system
        as fsspec has them.
    `uri`: as Hadoop takes it: what follows the scheme stands for itself.
    """

    def __init__(self, by: Any, uri: str) -> None:
        self.uri, self._by = uri, by
        self._renames = hasattr(by, "sparkContext")
        with self._as_invalid_input("cannot be reached"):
            self._fs: Any = _Hadoop(by, uri) if self._renames else by
            path: str = self._fs._strip_protocol(uri).rstrip("/")
        parent, _, self.name = path.rpartition("/")
        if _ROOT.fullmatch(path):
            reason = "is the root of a file system"
            raise InvalidInput(Problem("--output", uri, reason, "name a folder in it"))
        self.target = path
        self.new, self._old = f"{parent}/.{self.name}.new", f"{parent}/.{self.name}.old"

    def settle(self) -> None:
        """Complete or undo a change that was cut off.

        Only a result that is whole moves the older one away: where that is away, the new one is
        whole.
        """
        if not self._renames:
            return
        with self._as_invalid_input("cannot be put in order"):
            if self._fs.exists(self._old):
                # cut off between the two renames: the new one, if it is there, is whole
                if not self._fs.exists(self.target):
                    whole = self.new if self._fs.exists(self.new) else self._old
                    self._fs.mv(whole, self.target)
                self._fs.rm(self._old)
            self._fs.rm(self.new)

    def fetch(self, local: Path) -> bool:
        """Copy what is there to a local path; False where nothing is."""
        with self._as_invalid_input("cannot be read"):
            return self._fs.exists(self.target) and self._get(self.target, local)

    def beside(self, name: str) -> Place:
        """Return a neighbour."""
        return Place(self._by, f"{self.uri.rstrip('/').rpartition('/')[0]}/{name}")

    def fetch_new(self, name: str, local: Path) -> None:
        """Copy what Spark has written below `new` to a local path."""
        with self._as_invalid_input("cannot be read"):
            self._get(f"{self.new}/{name}", local)

    def put(self, local: Path) -> None:
        """Put a file or folder in the place of what is there.

        Where files can be renamed at once, as in Hadoop's file systems, beside it first.

        Raises `InvalidInput`: it cannot be written, or did not arrive whole; what was there is
            still there.
        """
        sizes = _local_sizes(local)
        if not sizes:
            raise InvalidInput(Problem("--output", self.uri, "has nothing to be written"))
        with self._as_invalid_input("cannot be written"):
            target = self.new if self._renames else self.target
            if self._renames:
                self._fs.rm(self.new)
            for name in sizes:
                path = f"{target}/{name}".rstrip("/")
                self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._fs.put_file(str(local / name), path)
            if not self._renames:
                return
            # sizes as listed there: an upload may end early without an error
            if {name: size for name, (size, _) in self._files(self.new).items()} != sizes:
                self._fs.rm(self.new)
                reason = "did not take everything that was written"
                raise InvalidInput(Problem("--output", self.uri, reason, _REMEDY))
            if self._fs.exists(self.target):
                self._fs.mv(self.target, self._old)
            try:
                self._fs.mv(self.new, self.target)
            except BaseException:
                self._undo()
                raise
            # the new one stands: an old one that stays goes with the next change
            with contextlib.suppress(Exception):
                self._fs.rm(self._old)

    def state(self) -> dict[str, Any]:
        """Return sizes and times of what is there, to find out later whether it was changed."""
        with self._as_invalid_input("cannot be read"):
            return self._files(self.target) if self._fs.exists(self.target) else {}

    def _undo(self) -> None:
        with contextlib.suppress(Exception):
            if self._fs.exists(self._old):
                self._fs.mv(self._old, self.target)

    def _files(self, path: str) -> dict[str, list[Any]]:
        """Return size and time of each file, by its path below one; the file itself is empty."""
        infos = self._fs.find(path, detail=True)
        # names are told with the path that was asked for, as the file system writes it
        start = len(self._fs._strip_protocol(path))
        return {
            name[start:].lstrip("/"): [info["size"], info.get("mtime")]
            for name, info in infos.items()
        }

    def _get(self, path: str, local: Path) -> bool:
        for name in self._files(path):
            target = local / name
            target.parent.mkdir(parents=True, exist_ok=True)
            self._fs.get_file(f"{path}/{name}".rstrip("/"), str(target))
        return True

    @contextlib.contextmanager
    def _as_invalid_input(self, what: str) -> Iterator[None]:
        caught: tuple[type[Exception], ...] = (OSError, EOFError)
        if self._renames:
            from py4j.protocol import Py4JError

            caught = (*caught, Py4JError)
        try:
            yield
        except caught as error:
            text = java_line(error)[:300] if hasattr(error, "java_exception") else cause_of(error)
            remedy = connector_remedy(text, self.uri) or _REMEDY
            raise InvalidInput(Problem("--output", self.uri, f"{what}: {text}", remedy)) from None


class _Hadoop:
    """What `Place` needs of Hadoop's ``FileSystem``, by fsspec's names."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._fs = self._path(uri).getFileSystem(spark._jsc.hadoopConfiguration())

    def _strip_protocol(self, path: str) -> str:
        """Return a path as Hadoop writes it, with its scheme."""
        return str(self._path(path).toString())

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def rm(self, path: str) -> None:
        self._fs.delete(self._path(path), True)

    def mv(self, source: str, target: str) -> None:
        if not self._fs.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed")

    def makedirs(self, path: str, exist_ok: bool) -> None:
        """Do nothing: a file is made with the folders above it."""

    def put_file(self, local: str, path: str) -> None:
        self._fs.copyFromLocalFile(False, True, self._path(f"file://{local}"), self._path(path))

    def get_file(self, path: str, local: str) -> None:
        self._fs.copyToLocalFile(False, self._path(path), self._path(f"file://{local}"), True)

    def find(self, path: str, detail: bool) -> dict[str, dict[str, Any]]:
        files, waiting = {}, [self._path(path)]
        while waiting:
            for status in self._fs.listStatus(waiting.pop()):
                inside = status.getPath()
                if status.isDirectory():
                    waiting.append(inside)
                else:
                    file_info = {"size": status.getLen(), "mtime": status.getModificationTime()}
                    files[str(inside.toString())] = file_info
        return files


def _file_system(uri: str) -> Any:
    """Return the file system of a URI as fsspec sees it; None where only Hadoop knows it."""
    if uri.split(":", 1)[0].lower() in _OF_HADOOP:
        return None
    import fsspec

    try:
        return fsspec.core.url_to_fs(uri)[0]
    except (OSError, EOFError) as error:
        raise InvalidInput(
            Problem("URI", uri, f"cannot be reached: {cause_of(error)}", _REMEDY)
        ) from None
    except (ImportError, ValueError):
        pass  # the package that speaks it is absent, or there is none: Arrow may bring it
    with contextlib.suppress(ImportError, OSError, ValueError):  # of which Arrow's errors are
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow import fs

        return ArrowFSWrapper(fs.FileSystem.from_uri(uri)[0])
    return None


def _local_sizes(local: Path) -> dict[str, int]:
    if local.is_file():
        return {"": local.stat().st_size}
    return {
        path.relative_to(local).as_posix(): path.stat().st_size
        for path in local.rglob("*")
        if path.is_file() and not _is_checksum(path)
    }


def _is_checksum(path: Path) -> bool:
    """Return whether a file is what Hadoop puts beside each that it writes here; it stays here."""
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
        # the copy was made from what is there now: its new rows belong to it
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
