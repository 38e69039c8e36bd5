"""Keep what a C library prints off this process's standard output, which carries the answer."""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_STDOUT = 1


@contextlib.contextmanager
def c_stdout_silenced() -> Iterator[None]:
    """Send file descriptor 1 nowhere for a while; what C had buffered before still arrives.

    scipy's HiGHS writes a line of its debugging there now and then, whatever its options say, and
    METIS its complaints.
    """
    try:
        kept = os.dup(_STDOUT)
    except OSError:  # there is no standard output
        yield
        return
    _flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)
    try:
        yield
    finally:
        _flush()
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _flush() -> None:
    """Write out what C's own streams hold."""
    _libc().fflush(None)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
