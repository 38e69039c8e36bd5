"""What the user names as sources: files, folders of files, addresses."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem, problems_in, raise_any
from optim.format.read import parse_json
from optim.util.files import read_bytes
from streamplace.clusters.exchange.web import is_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SOURCE = 256 << 20
"""Largest source file, unpacked: 256 MiB."""
MAX_FILES = 20_000
JSON_ENDINGS = (".json", ".json.gz")


class Document(NamedTuple):
    """A parsed JSON document and the name it is named by."""

    name: str
    value: Any


def files_of(sources: Sequence[str], endings: tuple[str, ...]) -> list[Path]:
    """Return the files named, and those in folders named that end in one of `endings`.

    Raises
    ------
    InvalidInput
        A source is not there, a folder holds no such file, or there are too many.
    """
    found: list[Path] = []
    problems = []
    for name in sources:
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(endings))
            if not inside:
                problems.append(Problem(name, None, f"holds no file that ends in {endings}"))
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            problems.append(Problem(name, None, "does not exist"))
    if len(found) > MAX_FILES:
        problems.append(Problem("SOURCE", len(found), f"files are more than {MAX_FILES}"))
    raise_any(problems)
    return found


def address_in(sources: Sequence[str]) -> str | None:
    """Return the only source where it is an address; ``None`` where all are files.

    Raises
    ------
    InvalidInput
        There is more beside an address.
    """
    if not any(is_url(source) for source in sources):
        return None
    if len(sources) != 1:
        reason, remedy = "one address, or files", "one cluster a run"
        raise InvalidInput(Problem("SOURCE", list(sources), reason, remedy))
    return sources[0]


def saved_documents(sources: Sequence[str]) -> list[Document]:
    """Return the JSON documents of files and folders.

    Raises
    ------
    InvalidInput
        As `files_of`, or a file cannot be read or is not JSON.
    """
    documents = []
    for path in files_of(sources, JSON_ENDINGS):
        data = read_bytes(path, MAX_SOURCE)
        with problems_in(str(path)):
            documents.append(Document(path.as_posix(), parse_json(data)))
    return documents


def read_text(path: Path, *, pipe: bool = False) -> str:
    """Read a text file, also packed, also with a byte order mark; a pipe where `pipe` is set.

    Raises
    ------
    InvalidInput
        It cannot be read, or is no UTF-8 text.
    """
    try:
        return read_bytes(path, MAX_SOURCE, pipe=pipe).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(Problem(str(path), None, "is no UTF-8 text")) from None


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV text that are not empty, each with the number of its last line.

    Raises
    ------
    InvalidInput
        It is no table, by line.
    """
    reader = csv.reader(io.StringIO(text))
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        remedy = "a quote may have been left open"
        raise InvalidInput(Problem(f"line {reader.line_num}", None, str(error), remedy)) from None


def one_file(sources: Sequence[str], format_name: str) -> Path:
    """Return the only source of a format that reads one file.

    Raises
    ------
    InvalidInput
        There are several, or it is no file.
    """
    if len(sources) != 1 or Path(sources[0]).is_dir():
        reason, remedy = f"{format_name} reads one file", "one instance a run"
        raise InvalidInput(Problem("SOURCE", list(sources), reason, remedy))
    return files_of(sources, ())[0]


def stem_of(path: Path) -> str:
    """Return a file's name without its endings: ``job.graph.gz`` is ``job``."""
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name
