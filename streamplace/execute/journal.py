"""How far a run of batches is: a file that is whole after a crash at any moment."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.util.store import Lock, Store

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
        self._store = Store(folder, "run", JOURNAL, None, "--folder", "name another --folder")
        self._question = {"steps_sha256": sha256}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._store.refused(f"cannot be made: {error.strerror}") from None
        self.read()

    def read(self) -> None:
        """Take up what the file says."""
        self.done, self.running = 0, False
        if not (self._store.path / JOURNAL).exists():
            return
        self._store.check(self._question)
        held = self._store.read()
        done, running = held.get("done"), held.get("running")
        if type(done) is not int or done < 0 or type(running) is not bool:
            reason = "is no journal: done must be a count, and running true or false"
            remedy = self._store.remedy
            raise InvalidInput(Problem(str(self._store.path / JOURNAL), None, reason, remedy))
        self.done, self.running = done, running

    def begin(self) -> None:
        """Say that the next batch is begun, before it is."""
        self.running = True
        self._write()

    def end(self) -> None:
        """Say that the batch under way is made."""
        self.done, self.running = self.done + 1, False
        self._write()

    def _write(self) -> None:
        self._store.write({**self._question, "done": self.done, "running": self.running})

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the folder alone; yield the lock's descriptor, which a batch's command inherits.

        So the lock outlives a run that is killed for as long as its command runs, and that batch is
        not begun a second time beside itself.
        """
        lock = Lock(self._store.path, folder=True, inherited=True)
        if not lock.acquire():
            waiting()
            lock.acquire(math.inf)
        try:
            yield lock.fileno()
        finally:
            lock.release()
