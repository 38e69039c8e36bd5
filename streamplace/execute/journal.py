"""How far a run of batches is: a file that is whole after a crash at any moment."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

JOURNAL = "journal.json"


class Journal:
    """Batches done, and the one that is under way, in a folder.

    Parameters
    ----------
    folder
        Made where it is missing; it belongs to one file of steps.
    sha256
        Of that file.

    Attributes
    ----------
    done
        Number of batches that are made.
    running
        Whether the next one was begun.

    Raises
    ------
    InvalidInput
        The folder is of other steps, or its journal cannot be read.
    """

    def __init__(self, folder: Path, sha256: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.sha256 = folder, sha256
        self._path = folder / JOURNAL
        self.read()

    def read(self) -> None:
        """Take up what the file says."""
        self.done, self.running = 0, False
        if not self._path.exists():
            return
        try:
            held = json.loads(self._path.read_text())
            self.done, self.running = int(held["done"]), bool(held["running"])
            of = held["steps_sha256"]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(Problem(str(self._path), None, f"is no journal: {error}")) from None
        if of != self.sha256:
            reason = "is of other steps"
            raise InvalidInput(Problem(str(self._path), of, reason, "name another --folder"))

    def begin(self) -> None:
        """Say that the next batch is begun, before it is."""
        self.running = True
        self._write()

    def end(self) -> None:
        """Say that the batch under way is made."""
        self.done, self.running = self.done + 1, False
        self._write()

    def _write(self) -> None:
        held = {"steps_sha256": self.sha256, "done": self.done, "running": self.running}
        beside = self._path.with_suffix(".new")
        with beside.open("w") as file:
            file.write(json.dumps(held) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the folder alone; yield the lock's descriptor, which a batch's command inherits.

        So the lock outlives a run that is killed for as long as its command runs, and that batch is
        not begun a second time beside itself.
        """
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock.fileno()
