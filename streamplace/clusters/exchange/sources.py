"""What the user names as sources: addresses, read as JSON within a budget; files and folders."""

from __future__ import annotations

import csv
import io
import ipaddress
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from queue import Empty, Queue
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem, problems_in, raise_any
from optim.format.document import parse_json
from optim.format.instance import Instance
from optim.format.parallelism import spoken_of
from optim.format.plan import PLAN_FORMAT, Plan
from optim.plugins import number_of, read_options
from optim.rules import NUMBER_RULES
from optim.util.files import read_bytes, write_atomic
from optim.util.process import collection_paused
from streamplace.clusters.exchange.declarations import (
    EXPORTERS,
    IMPORTERS,
    Exporter,
    Ledger,
    Places,
    Request,
    add_network,
    moves_to,
    places_of_plan,
    with_places,
)
from streamplace.clusters.exchange.pages import is_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# -- addresses -------------------------------------------------------------------------------------

MAX_RESPONSE = 64 << 20
"""Largest response that is read: 64 MiB."""
MAX_TOTAL = 512 << 20
"""Largest sum of responses of one import: 512 MiB."""
MAX_REQUESTS = 20_000
DEFAULT_TIMEOUT = 10.0
_CHUNK = 1 << 16
_LONGEST_PAUSE = 5.0
_LONGEST_ANSWER = 1e9
"""Seconds that an answer may take at most, 31 years: locks of Python take no more than 9.2e9."""
_SAVE = "check the address, or save the JSON files"


class _Answer(NamedTuple):
    """A document and what came with it."""

    document: Any
    status: int = HTTPStatus.OK
    headers: Any = None


def is_url(text: str) -> bool:
    """Whether a source is an address and not a file."""
    return text.lower().startswith(("http://", "https://"))


def site_of(address: str, prefix: str = "") -> str:
    """Return where a system's interface begins, of any address that a browser shows of it.

    What is left out: ``#/…``, a page such as ``index.html`` with its query, ``;jsessionid=…``,
    slashes at the end.

    `prefix`: with which the paths of its documents begin, such as ``/api/v1``: it ends the address,
        and what stands behind it there is left out.
    """
    parts = urllib.parse.urlsplit(address.strip())
    path, query = parts.path.partition(";")[0].rstrip("/"), parts.query
    head, _, last = path.rpartition("/")
    if last.lower().endswith((".html", ".htm")):
        path, query = head.rstrip("/"), ""
    if prefix:
        path = path.partition(prefix)[0] + prefix
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, query, ""))


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects only within the host that the user named."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        old, new = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        # else a page could have any host of the user's network asked
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            reason, remedy = "leads to another host", "name that address instead"
            raise InvalidInput(Problem(req.full_url, newurl, reason, remedy))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class WebClient:
    """Gets JSON documents below a base address.

    `base`: ``http://host:port/prefix``, with a query where each request needs it, or the address of
        a page there (`site_of`); user names and passwords are refused.
    `timeout`: seconds a response may take from the first byte asked for to the last one read.
    Raises `InvalidInput`: the address cannot be used.
    """

    def __init__(self, base: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        try:
            parts = urllib.parse.urlsplit(site_of(base))
            usable = bool(parts.hostname) and parts.scheme in ("http", "https")
            # raises ValueError where the port is no number
            _ = parts.port
        except ValueError as error:
            raise InvalidInput(Problem("SOURCE", base, f"is no address: {error}")) from None
        if not usable:
            raise InvalidInput(Problem("SOURCE", base, "is no address", "http://host:port"))
        if parts.username or parts.password:
            reason = "holds a password, which is not sent"
            remedy = "save the documents with a client that can log in, and import the files"
            raise InvalidInput(Problem("SOURCE", None, reason, remedy))
        self.base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        self._query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        self._timeout = min(timeout, _LONGEST_ANSWER)
        self._requests = self._bytes = 0
        # no proxy of the environment for this machine's own addresses
        proxies = [urllib.request.ProxyHandler({})] if _loopback(parts.hostname or "") else []
        self._opener = urllib.request.build_opener(_SameHost(), *proxies)

    def get(self, path: str, **query: str) -> Any:
        """Return a document.

        Raises `InvalidInput`: the host does not answer in time, answers with an error, too much, or
            no JSON.
        """
        return self._ask(path, query).document

    def get_computed(self, path: str, wait: float, task_header: str, **query: str) -> Any:
        """Return a document that the host computes first, and answers 202 meanwhile; else as `get`.

        `wait`: seconds after which the last answer is returned, whatever it says.
        `task_header`: header that names the computation; sent back, so that asking again starts
            none anew.
        """
        ends = time.monotonic() + wait
        pause = 0.25
        headers: dict[str, str] = {}
        while True:
            answer = self._ask(path, query, headers)
            remaining = ends - time.monotonic()
            if answer.status != HTTPStatus.ACCEPTED or remaining <= 0:
                return answer.document
            if task := answer.headers.get(task_header):
                headers = {task_header: task}
            time.sleep(min(pause, remaining))
            # 0.25, 0.5, 1, … 5 s: short answers at once, long ones without load
            pause = min(2 * pause, _LONGEST_PAUSE)

    def maybe(self, path: str, **query: str) -> Any:
        """Return a document, or ``None`` where the host says that it has none (404)."""
        return self._ask(path, query, may_lack=True).document

    def address(self, path: str) -> str:
        """Return the whole address of a path."""
        return f"{self.base}/{path.lstrip('/')}"

    def _ask(
        self,
        path: str,
        query: dict[str, str],
        headers: Mapping[str, str] | None = None,
        *,
        may_lack: bool = False,
    ) -> _Answer:
        address = self.address(path)
        url = address
        if pairs := [*self._query, *query.items()]:
            url += "?" + urllib.parse.urlencode(pairs)
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            reason = f"would be request {self._requests}; at most {MAX_REQUESTS} are made"
            raise InvalidInput(Problem(address, None, reason, _SAVE))
        all_headers = {"Accept": "application/json"} | dict(headers or {})
        try:
            data, answer = self._fetch(urllib.request.Request(url, headers=all_headers))
        except urllib.error.HTTPError as error:
            error.close()
            if may_lack and error.code == HTTPStatus.NOT_FOUND:
                return _Answer(None)
            reason = f"answers {error.code} {error.reason}"
        except (OSError, HTTPException, ValueError) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            reason = f"cannot be {'read' if cause is error else 'reached'}: {cause}"
            if isinstance(cause, TimeoutError):
                reason = f"does not answer within {self._timeout:g} s"
        else:
            with problems_in(address):
                return _Answer(parse_json(data), *answer)
        raise InvalidInput(Problem(address, None, reason, _SAVE))

    def _fetch(self, request: urllib.request.Request) -> tuple[bytes, tuple[int, HTTPMessage]]:
        """Return what is answered, with status and headers.

        A thread asks, and is left alone when the time is up: the limit of a socket begins again
        with each byte.

        Raises `TimeoutError`: the time is up.
        """
        answers: Queue[Any] = Queue()

        def ask() -> None:
            try:
                with self._opener.open(request, timeout=self._timeout) as answer:
                    answers.put((self._read(answer), (answer.status, answer.headers)))
            except Exception as error:
                answers.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            outcome = answers.get(timeout=self._timeout)
        except Empty:
            raise TimeoutError from None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _read(self, answer: Any) -> bytes:
        """Read a response in parts, so that neither size nor slowness is unbounded."""
        ends = time.monotonic() + self._timeout
        data = bytearray()
        while chunk := answer.read1(_CHUNK):
            data += chunk
            self._bytes += len(chunk)
            # of the sum, too: many small answers fill memory as one large one does
            if len(data) > MAX_RESPONSE or self._bytes > MAX_TOTAL:
                raise ValueError(f"more than {MAX_RESPONSE} bytes, or {MAX_TOTAL} in all")
            if time.monotonic() > ends:
                raise TimeoutError
        # http.client ends a short body silently: what is left of Content-Length shows it
        if answer.length:
            raise ValueError(f"it ends {answer.length} bytes early")
        return bytes(data)


def quoted(segment: str) -> str:
    """Return an id as one segment of a path."""
    return urllib.parse.quote(segment, safe="")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# -- files -----------------------------------------------------------------------------------------

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

    Raises `InvalidInput`: a source is not there, a folder holds no such file, or there are too
        many.
    """
    paths: list[Path] = []
    problems = []
    for name in sources:
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(endings))
            if not inside:
                reason = f"holds no file that ends in {' or '.join(endings) or 'any way'}"
                problems.append(Problem(name, None, reason, "save the system's pages there"))
            paths += inside
        elif path.is_file():
            paths.append(path)
        else:
            problems.append(Problem(name, None, "does not exist", "check the path or address"))
    if len(paths) > MAX_FILES:
        problems.append(Problem("SOURCE", len(paths), f"files are more than {MAX_FILES}"))
    raise_any(problems)
    return paths


def address_in(sources: Sequence[str], is_address: Callable[[str], bool] = is_url) -> str | None:
    """Return the only source where it is an address; ``None`` where all are files.

    Raises `InvalidInput`: there is more beside an address.
    """
    if not any(map(is_address, sources)):
        return None
    if len(sources) != 1:
        reason, remedy = "are more than one address", "one address, or files: one cluster a run"
        raise InvalidInput(Problem("SOURCE", list(sources), reason, remedy))
    return sources[0]


def saved_documents(sources: Sequence[str]) -> list[Document]:
    """Return the JSON documents of files and folders.

    Raises `InvalidInput`: as `files_of`, or a file cannot be read or is not JSON.
    """
    documents = []
    for path in files_of(sources, JSON_ENDINGS):
        data = read_bytes(path, MAX_SOURCE)
        with problems_in(str(path)):
            documents.append(Document(path.as_posix(), parse_json(data)))
    return documents


def read_text(path: Path, *, pipe: bool = False) -> str:
    """Read a text file, also packed, also with a byte order mark; a pipe where `pipe` is set.

    Raises `InvalidInput`: it cannot be read, or is no UTF-8 text.
    """
    try:
        return read_bytes(path, MAX_SOURCE, pipe=pipe).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(Problem(str(path), None, "is no UTF-8 text")) from None


def csv_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV text that are not empty, each with the number of its last line.

    Raises `InvalidInput`: it is no table, by line.
    """
    reader = csv.reader(io.StringIO(text))
    try:
        yield from ((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        remedy = "a quote may have been left open"
        raise InvalidInput(Problem(f"line {reader.line_num}", None, str(error), remedy)) from None


def one_file(sources: Sequence[str], format_name: str) -> Path:
    """Return the only source of a format that reads one file.

    Raises `InvalidInput`: there are several, or it is no file.
    """
    if len(sources) != 1 or Path(sources[0]).is_dir():
        reason, remedy = f"{format_name} reads one file", "one instance a run"
        raise InvalidInput(Problem("SOURCE", list(sources), reason, remedy))
    return files_of(sources, ())[0]


def stem_of(path: Path) -> str:
    """Return a file's name without its endings: ``job.graph.gz`` is ``job``."""
    name = path.name.removesuffix(".gz")
    return name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name


# -- import and export: from a system's state to an instance, from a plan to a system's files ------


_MAX_ORIGIN = 20_000
SHARES = "max_utilisation."


@dataclass(frozen=True)
class Imported:
    """An instance and the ledger of its making."""

    instance: Instance
    ledger: Ledger


def import_instance(
    format_name: str,
    sources: Sequence[str],
    options: Sequence[tuple[str, str]] = (),
    *,
    placement: str | None = None,
    name: str | None = None,
    limits: Sequence[tuple[str, str]] = (),
    timeout: float = DEFAULT_TIMEOUT,
    ledger: Ledger | None = None,
) -> Imported:
    """Make an instance.

    `format_name`, `options`: one of `IMPORTERS`, and its options as texts.
    `sources`: files, folders or an address, as the format takes them.
    `placement`: a file that says where tasks are, in place of what the sources say.
    `name`: of the instance, in place of one made from the source.
    `limits`: what a plan must keep, as texts, such as ``max_migrations`` and ``10``.
    `timeout`: seconds that an answer over the net may take.
    `ledger`: takes what is noticed, so that it is known where the import fails, too.
    Raises `InvalidInput`: anything that cannot be taken, by path.
    """
    importer = IMPORTERS.get(format_name)
    typed = read_options(importer.name, importer.options, options)
    bounds = _read_limits(limits)
    ledger = Ledger() if ledger is None else ledger
    with collection_paused():
        document = importer.read(Request(tuple(sources), typed, timeout), ledger)
    ledger.check()
    add_network(document, typed)
    if placement is not None:
        ledger.reading("where tasks are is read from a file of its own")
    origin = [f"imported by streamplace from {importer.name}", *ledger.readings]
    # what was inferred stays with the file, also where nobody reads the messages
    document["origin"] = "; ".join(origin)[:_MAX_ORIGIN]
    if name is not None:
        document["name"] = name
    if bounds:
        document["limits"] = document.get("limits", {}) | bounds
    instance = _instance(document, importer.name)
    if placement is not None:
        places = read_placement(placement, instance)
        if importer.follow is not None:
            importer.follow(document, moves_to(instance, places), typed, ledger)
            with problems_in(placement):
                ledger.check()
            instance = _instance(document, importer.name)
        # after `follow`, which has changed what hangs on the old places
        instance = with_places(instance, places)
    return Imported(instance, ledger)


def _instance(document: dict[str, Any], source: str) -> Instance:
    with problems_in(f"the instance made from {source}"):
        return Instance.from_dict(document)


def _read_limits(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return ``limits`` as an instance file has them, of names and values as texts."""
    # `max_utilisation.RESOURCE` is a share of a capacity. Whether a number does the instance says
    limits: dict[str, Any] = {}
    shares: dict[str, float] = {}
    problems: list[Problem] = []
    for name, text in given:
        path = f"--limit {name}"
        resource = name.removeprefix(SHARES)
        into, key = (shares, resource) if name.startswith(SHARES) else (limits, name)
        if into is limits and name not in NUMBER_RULES:
            remedy = f"one of {', '.join(NUMBER_RULES)}, {SHARES}RESOURCE"
            problems.append(Problem(path, None, "is no limit", remedy))
        elif key in into:
            problems.append(Problem(path, text, "is given twice", "keep one"))
        else:
            try:
                number = number_of(text) if into is shares else float(text)
            except ValueError:
                problems.append(Problem(path, text, "is no number", "such as 10 or 0.8"))
                continue
            into[key] = int(number) if number.is_integer() else number
    raise_any(problems)
    return limits | ({"max_utilisation": shares} if shares else {})


def read_placement(name: str, instance: Instance) -> Places:
    """Read a placement: a plan, or what an exporter wrote.

    Raises `InvalidInput`: the file is none of these, or does not fit the instance.
    """
    text = read_text(Path(name))
    with problems_in(name):
        value = parse_json(text.encode()) if text.lstrip().startswith("{") else None
        if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
            return places_of_plan(instance, Plan.from_dict(value))
        # each of these formats can be read back
        reader = EXPORTERS.get(_kind_of(text, value)).read_back
        assert reader is not None
        return reader(text, instance)


def _kind_of(text: str, value: Any) -> str:
    """Return the format of a placement, by its JSON, or else by how its first line begins."""
    if value is not None:
        return "kafka" if isinstance(value, dict) and "partitions" in value else "storm"
    head = text.lstrip().partition("\n")[0].strip()
    if head.startswith("task,"):
        return "moves" if head.startswith("task,from,to") else "csv"
    if is_whole(head):
        return "metis"
    remedy = "a plan, or a file of export kafka, storm, metis, csv or moves"
    raise InvalidInput(Problem("$", head[:40] or None, "is no placement", remedy))


@dataclass(frozen=True)
class Exported:
    """The texts by the ending their file gets, and the ledger of their making."""

    texts: dict[str, str]
    ledger: Ledger

    def save(self, path: str | Path) -> list[Path]:
        """Write all files; those with an ending of their own stand beside the first."""
        targets = {beside(Path(path), ending): text for ending, text in self.texts.items()}
        for target, text in targets.items():
            write_atomic(target, text)
        return list(targets)


def beside(path: Path, ending: str) -> Path:
    """Return the file of an export that gets an ending of its own; without one, the file itself."""
    return path.with_name(path.name.removesuffix(".json") + ending) if ending else path


def export_plan(
    format_name: str,
    instance: Instance,
    plan: Plan | None,
    options: Sequence[tuple[str, str]] = (),
    *,
    ledger: Ledger | None = None,
) -> Exported:
    """Make a foreign system's files of a plan.

    `format_name`, `options`: one of `EXPORTERS`, and its options as texts.
    `plan`: for this instance; ``None`` only where the format needs none.
    `ledger`: takes what is noticed, so that it is known where the export fails, too.
    Raises `InvalidInput`: the plan does not fit the instance or the format, by name.
    """
    exporter = EXPORTERS.get(format_name)
    typed = read_options(exporter.name, exporter.options, options)
    if exporter.needs_plan and plan is None:
        raise InvalidInput(Problem("PLAN", None, "is missing", f"{exporter.name} writes a plan"))
    if plan is not None and plan.parallelism is not None:
        return _rescaled(exporter, instance, plan, Ledger() if ledger is None else ledger)
    places = Places(instance.tasks.node) if plan is None else places_of_plan(instance, plan)
    ledger = Ledger() if ledger is None else ledger
    texts = exporter.write(instance, places, typed, ledger)
    ledger.check()
    return Exported(texts, ledger)


def _rescaled(exporter: Exporter, instance: Instance, plan: Plan, ledger: Ledger) -> Exported:
    """Make the files that bring a system to the parallelism of a plan; placing comes after it.

    Raises `InvalidInput`: the format knows no parallelism, or the plan is another instance's.
    """
    if exporter.rescale is None:
        reason = f"is nothing that {exporter.name} can change"
        able = [one.name for one in EXPORTERS.all() if one.rescale is not None]
        raise InvalidInput(Problem("parallelism", None, reason, f"export {' or '.join(able)}"))
    scaled, _ = spoken_of(instance, plan)
    names, before = instance.operators.ids, instance.operators.num_tasks.tolist()
    after = scaled.operators.num_tasks.tolist()
    both = zip(names, before, after, strict=True)
    changed = {name: n for name, current, n in both if n != current}
    texts = exporter.rescale(instance, changed, ledger)
    ledger.reading("a plan of another parallelism takes a restart or a rescale")
    if plan.added_nodes:
        ledger.reading(f"start {len(plan.added_nodes)} nodes before: {', '.join(plan.added_nodes)}")
    ledger.next_step = "rescale by {0}, import the system again, and solve for places"
    ledger.check()
    return Exported(texts, ledger)
