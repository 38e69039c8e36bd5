"""Reading with a size cap and writing that leaves nothing half-written."""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import re
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

UNFINISHED = ".unfinished"  # End of the name of a file that is being written.
_PREFIX = 50  # Characters of a file's name that its temporary file shows: names have an end.
_LONGEST = 200
"""Bytes of a file's name that comes from a document: file systems take 255, less when encrypted."""
MAX_BYTES = 1 << 30  # Largest file, and largest unpacked ``.gz``, that is read: 1 GiB.


def read_bytes(path: str | Path, max_bytes: int = MAX_BYTES, *, pipe: bool = False) -> bytes:
    """Read a file whole; ``.gz`` is unpacked, and neither form may exceed `max_bytes`.

    A pipe is read to its end only where `pipe` is set.

    Raises `InvalidInput`: the file is missing, a directory, not readable, not gzip although named
        so, or too large.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise InvalidInput(Problem(str(path), None, "is a directory, not a file"))
        if is_special(path) and not (
            pipe and path.is_fifo()
        ):  # a pipe could be waited for for ever, a device has no end
            remedy = "write it to a file, and name that"
            raise InvalidInput(Problem(str(path), None, "is a pipe or a device, no file", remedy))
        size = path.stat().st_size
        if size > max_bytes:
            raise _too_large(path, f"{size} bytes", max_bytes)
        with path.open("rb") as file:
            if path.suffix != ".gz":
                data = file.read(max_bytes + 1)
            else:
                with gzip.open(file) as unpacked:
                    data = unpacked.read(max_bytes + 1)
    except FileNotFoundError:
        raise InvalidInput(Problem(str(path), None, "does not exist", "check the path")) from None
    except PermissionError:
        raise InvalidInput(
            Problem(str(path), None, "may not be read", "check the file's permissions")
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidInput(
            Problem(
                str(path), None, f"is no whole gzip file: {error}", "unpack it, or pack it again"
            )
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = f"cannot be read: {_words(error)}"
        raise InvalidInput(Problem(str(path), None, reason)) from None
    if len(data) > max_bytes:
        raise _too_large(path, f"more than {max_bytes} bytes unpacked", max_bytes)
    return data


def _too_large(path: Path, size: str, max_bytes: int) -> InvalidInput:
    reason = f"is too large ({size}; at most {max_bytes} are read)"
    return InvalidInput(
        Problem(str(path), None, reason, "use the group form, or split the instance")
    )


STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
"""Names of open streams: opened anew they would be written from the start, or at another place."""


def write_atomic(path: str | Path, data: str | bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part.

    A name that ends in ``.gz`` is packed (without a time stamp, so that the bytes repeat). A link
    stays one, and what it leads to is replaced. Into what is no file, such as ``/dev/null`` or a
    pipe, the bytes are written: by a rename it would be gone for everybody.

    Raises `InvalidInput`: the folder does not exist or may not be written.
    """
    path = Path(path)
    payload = data.encode() if isinstance(data, str) else data
    if path.suffix == ".gz":
        payload = gzip.compress(payload, 6, mtime=0)
    try:
        if is_special(path):
            number = STREAMS.get(str(path))
            with path.open("ab") if number is None else os.fdopen(os.dup(number), "wb") as stream:
                stream.write(payload)
        else:
            with whole_file(behind_links(path)) as file:
                file.write(payload)
    except (OSError, ValueError) as error:
        reason = f"cannot be written: {_words(error)}"
        raise InvalidInput(Problem(str(path), None, reason, "choose another place")) from None


@contextlib.contextmanager
def whole_file(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a new file that takes the place of `path` when the block ends well, on the disk, too.

    Where the block fails, what was there stays and nothing else; a process that is killed leaves
    the new file, whose name begins with a dot and ends with `UNFINISHED`. Of its `mode` the bits of
    the umask are taken.
    """
    handle, name = tempfile.mkstemp(
        prefix=f".{path.name[:_PREFIX]}.", suffix=UNFINISHED, dir=path.parent
    )
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            # on the disk before the rename: else a crash may leave the new name with no content
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode & ~_umask())
        Path(name).replace(path)
        _sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(path: Path) -> None:
    """Have a rename reach the disk, too, where folders can be synchronised."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _words(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def file_name(name: str, ending: str) -> str:
    """Return a name that a document gave as that of a file: in the folder meant, short enough.

    Slashes, control characters and a leading dot become ``_``; of a long name the end stays.
    """
    plain = re.sub(r"[/\\\x00-\x1f\x7f]", "_", name)
    plain = plain.encode(errors="replace")[-_LONGEST + len(ending) :].decode(errors="ignore")
    return re.sub(r"^\.", "_", plain) + ending


def behind_links(path: Path) -> Path:
    """Return what a link leads to, whether it is there or not; any other path as it is."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def is_special(path: Path) -> bool:
    """Return whether a path is there and no file or folder: a device, a pipe, a terminal.

    ``/dev/stdout`` is one even where it leads to a file, which the caller's shell holds open.
    """
    if str(path) in STREAMS:
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def finite(value: Any) -> Any:
    """Return a document with every nan and infinity in it replaced by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
