"""Reading JSON from the REST interface of a running system, within a budget."""

from __future__ import annotations

import ipaddress
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
    from collections.abc import Mapping
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


class WebClient:
    """Gets JSON documents below a base address.

    Parameters
    ----------
    base
        ``http://host:port/prefix``; user names and passwords in it are refused.
    timeout
        Seconds a response may take from the first byte asked for to the last one read.

    Raises
    ------
    InvalidInput
        The address cannot be used.
    """

    def __init__(self, base: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        try:
            parts = urllib.parse.urlsplit(base)
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
        self.base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, "", "", "")) + (
            parts.path.rstrip("/")
        )
        self._timeout = timeout
        self._requests = self._bytes = 0
        handlers: list[urllib.request.BaseHandler] = [_SameHost()]
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
        if query:
            address += "?" + urllib.parse.urlencode(query)
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            reason = f"would be request {self._requests}; at most {MAX_REQUESTS} are made"
            return _Answer(reason=reason)
        sent = {"Accept": "application/json"} | dict(headers or {})
        request = urllib.request.Request(address, headers=sent)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
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
