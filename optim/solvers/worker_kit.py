"""Parts of a solver's child process: reading the model, sending frames, stopping.

Only small modules of the standard library are imported: a child is to start in 20 ms.
A frame is one byte of kind, eight bytes of length, and the payload: ``J`` a marshalled dictionary,
``X`` an incumbent as float64 (objective, then the vector), ``L`` a piece of the solver's log.
Both ends run the same interpreter, so `marshal` is safe and needs no import of json.
"""

from __future__ import annotations

import ctypes
import marshal
import mmap
import os
import select
import struct
import sys
import threading
from typing import Any

HEADER = struct.Struct("<cQ")
_SIZES = {"d": 8, "i": 4, "q": 8, "b": 1}
_KINDS: dict[str, Any] = {
    "d": ctypes.c_double,
    "i": ctypes.c_int32,
    "q": ctypes.c_int64,
    "b": ctypes.c_int8,
}
_PR_SET_PDEATHSIG = 1
_SIGKILL = 9


class Channel:
    """Frames to the parent over what was stdout; the solver's own prints go to stderr."""

    def __init__(self) -> None:
        self._fd = os.dup(1)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, kind: bytes, payload: bytes) -> None:
        """Write one frame whole."""
        data = memoryview(HEADER.pack(kind, len(payload)) + payload)
        with self._lock:
            while data:
                data = data[os.write(self._fd, data) :]

    def tell(self, **fields: Any) -> None:
        """Send a dictionary."""
        self.send(b"J", marshal.dumps(fields))

    def send_log(self, text: str) -> None:
        """Send a piece of the log."""
        self.send(b"L", text.encode(errors="replace"))


class Packed:
    """A file of named arrays after a header (written by `optim.solvers.process.pack`)."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY)
        self._map = mmap.mmap(fd, 0, access=mmap.ACCESS_COPY)
        os.close(fd)
        (length,) = struct.unpack_from("<Q", self._map, 0)
        self.header: dict[str, Any] = marshal.loads(self._map[8 : 8 + length])

    def ctypes_array(self, name: str) -> Any:
        """Return the array as a ctypes array over the mapped file."""
        code, offset, count = self.header["arrays"][name]
        if not count:
            return (_KINDS[code] * 1)()
        return (_KINDS[code] * count).from_buffer(self._map, offset)

    def view(self, name: str) -> memoryview:
        """Return the array as a typed memory view."""
        code, offset, count = self.header["arrays"][name]
        return memoryview(self._map)[offset : offset + count * _SIZES[code]].cast(code)

    def __contains__(self, name: str) -> bool:
        return name in self.header["arrays"]


class StopFlag:
    """Set when the parent writes to our stdin; the process ends when the parent is gone."""

    def __init__(self, on_stop: Any = None) -> None:
        self.is_set = False
        self._on_stop = on_stop
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        if os.read(0, 1):
            self.is_set = True
            if self._on_stop is not None:
                self._on_stop()
        else:  # end of file: the parent died
            os._exit(1)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends (Linux; elsewhere a no-op)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        stdin = select.poll()
        stdin.register(0, 0)
        if stdin.poll(0):  # hung up: the parent ended before it could be noticed
            os._exit(1)


def become(*argv: str) -> None:
    """Run a program in place of this process; it dies with the parent."""
    die_with_parent()
    os.execv(argv[0], argv)


def leave() -> None:
    """End the process without tearing down a hundred megabytes of libraries."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def write_file(path: str, content: bytes) -> None:
    """Write a file and give it its name only when it is whole."""
    part = f"{path}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)
    os.rename(part, path)  # noqa: PTH104 - pathlib would double the start-up time
