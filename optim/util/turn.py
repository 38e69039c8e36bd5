"""One process after the other, where all of them would do the same work."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows: everybody works
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from pathlib import Path

_STEP = 0.05
_LONGEST = 120.0
"""Seconds between two looks, and until a process works by itself: another may be stopped."""


class Turn:
    """A lock on a file, which the system lets go with the process that holds it.

    Parameters
    ----------
    path
        The file; it is made, and stays, since others may wait for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._owner = 0

    def wait(self) -> bool:
        """Take the turn; True after waiting, when others may have done the work.

        Where there can be no lock (folders that may not be written), nobody waits.
        """
        if fcntl is None or (self._file is not None and self._owner == os.getpid()):
            return False
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError:
            return False
        latest, waited = time.monotonic() + _LONGEST, False
        try:
            while not _taken(file) and time.monotonic() < latest:
                waited = True
                time.sleep(_STEP)
        except BaseException:  # interrupted
            os.close(file)
            raise
        self._file, self._owner = file, os.getpid()
        return waited

    def end(self) -> None:
        """Let the next one go on."""
        if self._file is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):  # forked processes hold the file, too
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
        self._file = None


def _taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
