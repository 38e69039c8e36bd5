"""Reading JSON from the REST interface of a running system, within a budget."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem
from optim.format.read import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from http.client import HTTPMessage

MAX_RESPONSE = 64 << 20
"""Largest response that is read: 64 MiB."""
MAX_TOTAL = 512 << 20
"""Largest sum of responses of one import: 512 MiB."""
MAX_REQUESTS = 20_000
DEFAULT_TIMEOUT = 10.0
_CHUNK = 1 << 16
_LONGEST_PAUSE = 5.0


class _Answer(NamedTuple):
    """A document and what came with it, or the reason why there is none."""

    document: Any = None
    reason: str = ""
    status: int = 200
    headers: Mapping[str, str] = {}


def is_url(text: str) -> bool:
    """Whether a source is an address and not a file."""
    return text.lower().startswith(("http://", "https://"))


def site_of(address: str, prefix: str = "") -> str:
    """Return where a system's interface begins, of any address that a browser shows of it.

    What is left out: ``#/…``, a page such as ``index.html`` with its query, slashes at the end.

    Parameters
    ----------
    prefix
        With which the paths of its documents begin, such as ``/api/v1``: it ends the address, and
        what stands behind it there is left out.
    """
    parts = urllib.parse.urlsplit(address.strip())
    path, query = parts.path.rstrip("/"), parts.query
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
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise InvalidInput(
                Problem(req.full_url, newurl, "leads to another host", "name that address instead")
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Watching:
    """Notes the sockets of connections, so that a slow answer can be cut off."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def do_open(self, http_class: Callable[..., Any], req: Any, **settings: Any) -> Any:
        """Open a connection whose socket is noted before the first byte, that of TLS too."""

        def made(host: str, **more: Any) -> Any:
            connection = http_class(host, **more)
            create = connection._create_connection

            def noted(*args: Any, **options: Any) -> socket.socket:
                found: socket.socket = create(*args, **options)
                self._sockets.append(found.dup())
                return found

            connection._create_connection = noted
            return connection

        return super().do_open(made, req, **settings)  # type: ignore[misc]


class _Http(_Watching, urllib.request.HTTPHandler):
    pass


class _Https(_Watching, urllib.request.HTTPSHandler):
    pass


class WebClient:
    """Gets JSON documents below a base address.

    Parameters
    ----------
    base
        ``http://host:port/prefix``, with a query where each request needs it, or the address of a
        page there (`site_of`); user names and passwords are refused.
    timeout
        Seconds a response may take from the first byte asked for to the last one read.

    Raises
    ------
    InvalidInput
        The address cannot be used.
    """

    def __init__(self, base: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        try:
            parts = urllib.parse.urlsplit(site_of(base))
            usable = bool(parts.hostname) and parts.scheme in ("http", "https")
            _ = parts.port
        except ValueError as error:
            raise InvalidInput(Problem("SOURCE", base, f"is no address: {error}")) from None
        if not usable:
            raise InvalidInput(Problem("SOURCE", base, "is no address", "http://host:port"))
        if parts.username or parts.password:
            remedy = "save the documents with a client that can log in, and import the files"
            raise InvalidInput(
                Problem("SOURCE", None, "holds a password, which is not sent", remedy)
            )
        self.base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
        self._query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
        self._timeout = timeout
        self._sockets: list[socket.socket] = []
        self._requests = self._bytes = 0
        handlers: list[urllib.request.BaseHandler] = [
            _SameHost(),
            _Http(self._sockets),
            _Https(self._sockets),
        ]
        if _loopback(parts.hostname or ""):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, path: str, **query: str) -> Any:
        """Return a document.

        Raises
        ------
        InvalidInput
            The host does not answer in time, answers with an error, too much, or no JSON.
        """
        return self._good(path, self._try(path, query)).document

    def get_computed(self, path: str, wait: float, task_header: str, **query: str) -> Any:
        """Return a document that the host computes first, and answers 202 meanwhile.

        Parameters
        ----------
        path, query
            As for `get`.
        wait
            Seconds after which the last answer is returned, whatever it says.
        task_header
            Header that names the computation; sent back, so that asking again starts none anew.

        Raises
        ------
        InvalidInput
            As from `get`.
        """
        ends = time.monotonic() + wait
        pause = 0.25
        headers: dict[str, str] = {}
        while True:
            answer = self._good(path, self._try(path, query, headers))
            remaining = ends - time.monotonic()
            if answer.status != HTTPStatus.ACCEPTED or remaining <= 0:
                return answer.document
            if task := answer.headers.get(task_header):
                headers = {task_header: task}
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def maybe(self, path: str, **query: str) -> Any:
        """Return a document, or ``None`` where the host says that it has none (404)."""
        answer = self._try(path, query)
        return None if answer.status == HTTPStatus.NOT_FOUND else self._good(path, answer).document

    def address(self, path: str) -> str:
        """Return the whole address of a path."""
        return f"{self.base}/{path.lstrip('/')}"

    def _good(self, path: str, answer: _Answer) -> _Answer:
        if answer.reason:
            remedy = "check the address, or save the JSON files"
            raise InvalidInput(Problem(self.address(path), None, answer.reason, remedy))
        return answer

    def _try(
        self, path: str, query: dict[str, str], headers: Mapping[str, str] | None = None
    ) -> _Answer:
        address = self.address(path)
        asked = address
        if pairs := [*self._query, *query.items()]:
            asked += "?" + urllib.parse.urlencode(pairs)
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            reason = f"would be request {self._requests}; at most {MAX_REQUESTS} are made"
            return _Answer(reason=reason)
        sent = {"Accept": "application/json"} | dict(headers or {})
        request = urllib.request.Request(asked, headers=sent)
        try:
            with self._cut_off(), self._opener.open(request, timeout=self._timeout) as answer:
                data = self._read(answer)
                status, received = answer.status, answer.headers
        except urllib.error.HTTPError as error:
            error.close()
            return _Answer(reason=f"answers {error.code} {error.reason}", status=error.code)
        except TimeoutError:
            return _Answer(reason=f"does not answer within {self._timeout:g} s")
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                return _Answer(reason=f"does not answer within {self._timeout:g} s")
            return _Answer(reason=f"cannot be reached: {error.reason}")
        except (OSError, HTTPException, ValueError) as error:
            return _Answer(reason=f"cannot be read: {error}")
        try:
            return _Answer(parse_json(data), status=status, headers=received)
        except InvalidInput as error:
            raise error.within(address) from None

    @contextlib.contextmanager
    def _cut_off(self) -> Iterator[None]:
        """End connections when the time is up: their own limit begins again with each byte.

        Raises
        ------
        TimeoutError
            That was so.
        """
        late = threading.Event()

        def cut() -> None:
            late.set()
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._timeout, cut)
        timer.daemon = True
        timer.start()
        try:
            yield
            if late.is_set():  # an answer without a length looks whole
                raise TimeoutError
        except (OSError, HTTPException, ValueError) as error:
            if late.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()
            timer.join()
            for one in self._sockets:
                one.close()
            self._sockets.clear()

    def _read(self, answer: Any) -> bytes:
        """Read a response in parts, so that neither size nor slowness is unbounded."""
        ends = time.monotonic() + self._timeout
        parts: list[bytes] = []
        size = 0
        while chunk := answer.read1(_CHUNK):
            size += len(chunk)
            self._bytes += len(chunk)
            if size > MAX_RESPONSE or self._bytes > MAX_TOTAL:
                raise ValueError(f"more than {MAX_RESPONSE} bytes, or {MAX_TOTAL} in all")
            if time.monotonic() > ends:
                raise TimeoutError
            parts.append(chunk)
        if answer.length:
            raise ValueError(f"it ends {answer.length} bytes early")
        return b"".join(parts)


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
