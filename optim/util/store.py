"""Results in a folder that stay whole when a process is killed, and that the next call resumes.

* `Store`: a folder with a marker that states which question its files answer, written by one
  process at a time.
* `Records`: a file of JSON lines, appended to; `remembered`: the answer to one question, in a file.
* `Lock`: what keeps two processes from the same work.

Files are replaced as a whole, by `optim.util.files.write_atomic` and `whole_file`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.util.files import UNFINISHED, read_bytes, write_atomic

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

_LOCK = ".lock"
_STEP = 0.05
"""Seconds between two attempts to take a lock."""
_MAX_MARKER_BYTES = 256 << 20
_SHOWN = 60
_MOST = 3
"""Characters of a value, and differences, in a message."""


class Lock:
    """An exclusive lock, which the system releases when its process ends.

    Not the package `filelock`: it locks no folders, does not say which descriptor a child process
    has to inherit, and takes 0.1 s to import.

    `path`: a file, which is made and stays, since others may wait for it.
    `folder`: it is a folder.
    `inherited`: child processes hold the lock, too, if `fileno` is passed to them: it is released
        when the last of them ends.
    """

    def __init__(self, path: Path, *, folder: bool = False, inherited: bool = False) -> None:
        self._path = path
        self._folder = folder
        self._inherited = inherited
        self._handle: int | None = None
        self._owner = 0

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._handle is not None and self._owner == os.getpid()

    def fileno(self) -> int:
        """Return the descriptor that holds the lock."""
        assert self._handle is not None
        return self._handle

    def acquire(self, seconds: float = 0.0) -> bool:
        """Take the lock; False where another process holds it, after waiting for so long.

        Raises `OSError`: the file or folder cannot be opened.
        """
        if self.held or fcntl is None:
            return True
        if self._folder:
            handle = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        else:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        latest = time.monotonic() + seconds
        try:
            while (taken := _try(handle)) is False:
                if time.monotonic() >= latest:
                    break
                time.sleep(_STEP)
            if taken is None and self._folder:  # NFS locks only what is open for writing
                inside = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
                os.close(handle)
                handle = inside
                taken = _try(handle)
            if taken is None:
                logger.warning(
                    "%s: the file system has no locks: do not start a run twice", self._path
                )
        except BaseException:
            os.close(handle)
            raise
        if taken is False:
            os.close(handle)
            return False
        self._handle, self._owner = handle, os.getpid()
        return True

    @contextlib.contextmanager
    def alone(self, taken: Problem) -> Iterator[None]:
        """Hold the lock while the block runs.

        Raises `InvalidInput`: with `taken` where another process holds it; the file cannot be
            opened.
        """
        try:
            if not self.acquire():
                raise InvalidInput(taken)
        except OSError as error:
            reason = f"cannot be opened: {error.strerror}"
            raise InvalidInput(Problem(taken.path, taken.value, reason)) from None
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Let the next process take it."""
        if self._handle is not None and self._owner == os.getpid():
            if not self._inherited:  # forked processes have the descriptor as well
                with contextlib.suppress(OSError):
                    fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
        self._handle = None


def _try(handle: int) -> bool | None:
    """Take a lock: whether it was free, ``None`` where the file system has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@dataclass(frozen=True)
class Store:
    """A folder of results of one kind."""

    path: Path  # The folder.
    noun: str  # What it holds: ``sweep``, ``replay``.
    marker: str  # Name of the JSON file that states the question.
    format: str | None  # Its entry ``format``; ``None`` for markers without one.
    argument: str = "--output"  # What errors call the folder.
    remedy: str = "choose another folder"  # What to do where it cannot be used.
    parts: tuple[str, ...] = ()  # Names of folders in it, where files are added one by one.
    #: The marker holds nothing but the question: further entries are of another one.
    only_question: bool = False

    @contextlib.contextmanager
    def writing(self, question: Mapping[str, Any]) -> Iterator[None]:
        """Keep other processes out of the folder for the block, as `take` does."""
        lock = self.take(question)
        try:
            yield
        finally:
            lock.release()

    def take(self, question: Mapping[str, Any]) -> Lock:
        """Make the folder, and keep other processes out until the lock is released.

        What killed processes left half-written is removed. The marker is not written.

        `question`: what the results depend on; a folder whose marker has other values is refused.
        Raises `InvalidInput`: it is a file, holds something else, is being written, or cannot be.
        """
        lock = Lock(self.path, folder=True)
        try:
            self.check(question)
            self.path.mkdir(parents=True, exist_ok=True)
            free = lock.acquire()
        except OSError as error:
            raise self._unwritable(error) from None
        if not free:
            reason = f"is being written by another {self.noun}"
            raise self.refused(reason, f"wait for it, or {self.remedy}")
        try:
            self.check(question)  # the process that had the lock may have written it
            self._clean()
        except OSError as error:
            lock.release()
            raise self._unwritable(error) from None
        except BaseException:
            lock.release()
            raise
        return lock

    def _clean(self) -> None:
        """Remove what a process that was killed left half-written."""
        left = list(self.path.glob(f".*{UNFINISHED}"))
        for name in self.parts:
            (self.path / name).mkdir(exist_ok=True)
            left += (self.path / name).glob(".*")
        for path in left:
            with contextlib.suppress(OSError):  # what stays does not count
                path.unlink()

    def _unwritable(self, error: OSError) -> InvalidInput:
        return self.refused(f"cannot be written: {error.strerror}")

    def check(self, question: Mapping[str, Any]) -> None:
        """Refuse a folder that holds something else, or answers another question.

        Raises `InvalidInput`: with what differs.
        """
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise self.refused("is a file, not a folder")
        names = {entry.name for entry in self.path.iterdir()} - {*self.parts}
        if self.marker not in names:
            if all(name.startswith(".") for name in names):
                return  # empty, or left by a process that was killed before it wrote the marker
            raise self.refused(f"is not empty and holds no {self.marker}")
        stored = self.read()
        wanted = json.loads(json.dumps(question))
        if self.only_question:
            wanted |= {key: None for key in stored if key not in wanted and key != "format"}
        differences = [
            text for key in wanted for text in _differences(key, stored.get(key), wanted[key])
        ]
        if differences:
            more = f"; and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
            raise self.refused(f"holds another {self.noun}: {'; '.join(differences[:_MOST])}{more}")

    def read(self) -> dict[str, Any]:
        """Return the content of the marker.

        Raises `InvalidInput`: there is none, or it is something else.
        """
        path = self.path / self.marker
        if not path.is_file():
            raise self._no_result(f"it holds no {self.marker}")
        try:
            content = json.loads(read_bytes(path, _MAX_MARKER_BYTES))
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise self._no_result(f"{self.marker} is damaged")
        if self.format is not None and content.get("format") != self.format:
            shown_format = _shown(content.get("format"))
            raise self._no_result(f"{self.marker} has the format {shown_format}, not {self.format}")
        return content

    def write(self, content: Mapping[str, Any]) -> None:
        """Replace the marker."""
        whole = content if self.format is None else {"format": self.format, **content}
        text = json.dumps(whole, indent=1, ensure_ascii=False)
        write_atomic(self.path / self.marker, text + "\n")

    def refused(self, reason: str, remedy: str | None = None) -> InvalidInput:
        """Return the error that refuses the folder."""
        problem = Problem(self.argument, str(self.path), reason, remedy or self.remedy)
        return InvalidInput(problem)

    def _no_result(self, reason: str) -> InvalidInput:
        return self.refused(f"is no result folder of a {self.noun} ({reason})")


def _differences(path: str, stored: Any, wanted: Any) -> Iterator[str]:
    """Give the places where two JSON values differ, down to what is no list or object."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in {**stored, **wanted}:
            yield from _differences(f"{path}.{key}", stored.get(key), wanted.get(key))
    elif isinstance(stored, list) and isinstance(wanted, list):
        if len(stored) != len(wanted):
            yield f"{path} has {len(stored)} entries, not {len(wanted)}"
        else:
            for i, (a, b) in enumerate(zip(stored, wanted, strict=True)):
                yield from _differences(f"{path}[{i}]", a, b)
    elif stored != wanted:
        yield f"{path} is {_shown(stored)}, not {_shown(wanted)}"


def _shown(value: Any) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def remembered(path: Path, question: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """Return the answer to a question: that of the file, or a new one, which the file then holds.

    `path`: the file; its folder is made. One that answers another question is replaced.
    `make`: gives the answer, as JSON can hold it.
    """
    key = json.dumps(question, sort_keys=True, default=str)
    with contextlib.suppress(OSError, ValueError, KeyError, RecursionError, InvalidInput):
        stored = json.loads(read_bytes(path)) if path.is_file() else None
        if isinstance(stored, dict) and stored.get("question") == key:
            return stored["answer"]
    answer = json.loads(json.dumps(make()))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps({"question": key, "answer": answer}))
    return answer


def fingerprint(question: Any) -> str:
    """Return hexadecimal digits that differ where questions do."""
    text = json.dumps(question, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Records:
    """A file of JSON values, one a line; a line that a killed process left torn does not count.

    `path`: the file; it and its folder are made by the first `add`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Any]:
        """Return the values.

        Raises `InvalidInput`: a line that is whole is no JSON.
        """
        if not self.path.exists():
            return []
        values = []
        lines = read_bytes(self.path).split(b"\n")
        for number, line in enumerate(lines[:-1], 1):  # after the last line break: nothing, or torn
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError):
                remedy = "remove the line, or begin another file"
                problem = Problem(f"{self.path}, line {number}", None, "is no JSON", remedy)
                raise InvalidInput(problem) from None
        return values

    def add(self, value: Any) -> None:
        """Append a value; it is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # torn
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
            file.write(json.dumps(value).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
