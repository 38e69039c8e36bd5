"""Unpack zipped recordings: no member decides where it lands, and none may grow without bound."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from optim.errors import InvalidInput, Problem

MAX_UNPACKED = 32 << 30
"""Bytes that one archive may unpack to: 32 GiB."""

MAX_RATIO = 500
"""Unpacked over packed size of a member, beyond `SMALL`; real text packs to a tenth or so."""

SMALL = 16 << 20
MAX_MEMBERS = 100_000
_CHUNK = 1 << 20
_ENCRYPTED = 0x1

#: What `zipfile` and its decompressors raise on content; a version, a compression or a flag that
#: they do not know is a kind of RuntimeError.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, UnicodeError
)  # fmt: skip


def unpack(
    archive: Path, folder: Path, ending: str, *, max_unpacked: int = MAX_UNPACKED
) -> list[Path]:
    """Unpack the files of an archive under names of our own.

    Parameters
    ----------
    archive
        The zip.
    folder
        Where to; made if it is not there.
    ending
        Of the names given, such as ``.csv``.
    max_unpacked
        Bytes in all.

    Returns
    -------
    list
        The files, in the order of their names in the archive.

    Raises
    ------
    InvalidInput
        The archive is missing, damaged, empty, encrypted, names a path outside itself, or unpacks
        to too much; nothing is left behind.
    """
    written: list[Path] = []
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _members(packed, archive)
            folder.mkdir(parents=True, exist_ok=True)
            left = max_unpacked
            for number, member in enumerate(members):
                target = folder / f"part-{number:05d}{ending}"
                written.append(target)
                left -= _copy(packed, member, target, archive, left)
    except _DAMAGED as error:
        _remove(written)
        raise _wrong(archive, f"is no whole zip file: {error}", "pack it again") from None
    except OSError as error:
        _remove(written)
        raise _wrong(archive, f"cannot be unpacked: {error.strerror or error}") from None
    except InvalidInput:
        _remove(written)
        raise
    return written


def _members(packed: zipfile.ZipFile, archive: Path) -> list[zipfile.ZipInfo]:
    entries = packed.infolist()
    if len(entries) > MAX_MEMBERS:
        raise _wrong(archive, f"holds {len(entries)} members; at most {MAX_MEMBERS} are taken")
    found = []
    for entry in entries:
        name = PurePosixPath(entry.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or (name.parts and ":" in name.parts[0]):
            reason = "is a path outside the archive"
            raise InvalidInput(Problem(str(archive), entry.filename, reason, "pack it again"))
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise InvalidInput(Problem(str(archive), entry.filename, "is a link, not a file"))
        if entry.flag_bits & _ENCRYPTED:
            remedy = "pack it without a password"
            raise InvalidInput(Problem(str(archive), entry.filename, "is encrypted", remedy))
        hidden = name.parts and (name.parts[0] == "__MACOSX" or name.name.startswith("."))
        if not entry.is_dir() and not hidden:
            found.append(entry)
    if not found:
        raise _wrong(archive, "holds no file")
    return sorted(found, key=lambda entry: entry.filename)


def _copy(
    packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, archive: Path, left: int
) -> int:
    """Write a member, counting what really comes out; sizes that it states are not believed."""
    size = 0
    allowed = max(SMALL, member.compress_size * MAX_RATIO)
    with packed.open(member) as source, target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > left:
                raise _wrong(archive, "unpacks to too much", "unpack it yourself and name the file")
            if size > allowed:
                reason = f"unpacks to more than {MAX_RATIO} times its size"
                remedy = "if that is right, unpack it yourself and name the file"
                raise InvalidInput(Problem(str(archive), member.filename, reason, remedy))
            file.write(chunk)
    return size


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _wrong(archive: Path, reason: str, remedy: str = "") -> InvalidInput:
    return InvalidInput(Problem(str(archive), None, reason, remedy))
