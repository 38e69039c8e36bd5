"""A small WebHDFS server over a local folder, which can be told to fail: a remote file system."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.experiments.spark.processes import running

PREFIX = "/webhdfs/v1"
CHANGING = ("MKDIRS", "CREATE", "RENAME", "DELETE")


class Server(ThreadingHTTPServer):
    """Serves a folder; `fail_at` counts the changing calls, and the one that it names fails."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.fail_at = -1
        self.changes = 0
        self.seen: list[str] = []

    @property
    def uri(self) -> str:
        return f"webhdfs://127.0.0.1:{self.server_port}"


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Server]:
    root.mkdir()
    with Server(root) as server, running(server):
        yield server


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # which waits 40 ms between head and body

    def do_GET(self) -> None:
        self._serve()

    do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self) -> None:
        self.path = quote(self.path.encode("latin-1"), safe="/%?&=+:,@'")  # bytes come as they are
        parts = urlsplit(self.path)
        self.name = unquote(parts.path.removeprefix(PREFIX)).strip("/")
        self.query = {k.lower(): v[0] for k, v in parse_qs(parts.query).items()}
        body = self._body()
        op = self.query["op"].upper()
        self.server.seen.append(f"{op} /{self.name}")
        if op in CHANGING and not ("step" not in self.query and op == "CREATE"):
            self.server.changes += 1
            if self.server.changes - 1 == self.server.fail_at:
                self._error(403, "AccessControlException", "told to fail")
                return
        path = self.server.root / self.name
        try:
            getattr(self, f"_{op.lower()}", self._unknown)(path, body)
        except FileNotFoundError as error:
            self._error(404, "FileNotFoundException", str(error))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, content: Any, code: int = 200, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        # without Content-Type: Hadoop 3.5's client lacks the class that would read it
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _error(self, code: int, kind: str, message: str) -> None:
        java = f"java.io.{kind}" if code == 404 else f"org.apache.hadoop.security.{kind}"
        told = {"exception": kind, "javaClassName": java, "message": message}
        self._answer({"RemoteException": told}, code)

    def _status(self, path: Path, suffix: str) -> dict[str, Any]:
        told = path.stat()
        folder = path.is_dir()
        return {
            "pathSuffix": suffix,
            "type": "DIRECTORY" if folder else "FILE",
            "length": 0 if folder else told.st_size,
            "modificationTime": int(told.st_mtime * 1000),
            "accessTime": 0,
            "blockSize": 0 if folder else 1 << 27,
            "replication": 0 if folder else 1,
            "owner": "me",
            "group": "us",
            "permission": "755" if folder else "644",
            "fileId": 1,
            "childrenNum": 0,
            "storagePolicy": 0,
        }

    def _redirect(self) -> None:
        where = f"http://127.0.0.1:{self.server.server_port}{self.path}&step=2"
        if self.query.get("noredirect") == "true":
            where = where.replace("noredirect=true", "noredirect=false")
            self._answer({"Location": where})
        else:
            self._answer({}, 307, Location=where)

    def _unknown(self, _: Path, __: bytes) -> None:
        self._error(400, "UnsupportedOperationException", self.query["op"])

    def _getfilestatus(self, path: Path, _: bytes) -> None:
        self._answer({"FileStatus": self._status(path, "")})

    def _liststatus(self, path: Path, _: bytes) -> None:
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [self._status(p, p.name if path.is_dir() else "") for p in inside]
        listed = {"FileStatuses": {"FileStatus": found}}
        batch = self.query["op"] == "LISTSTATUS_BATCH"
        whole = {"DirectoryListing": {"partialListing": listed, "remainingEntries": 0}}
        self._answer(whole if batch else listed)

    _liststatus_batch = _liststatus

    def _getfileblocklocations(self, path: Path, _: bytes) -> None:
        size = path.stat().st_size
        block = {"hosts": ["localhost"], "names": ["localhost:1"], "topologyPaths": ["/x"]}
        block |= {"offset": 0, "length": size, "corrupt": False, "storageTypes": ["DISK"]}
        block |= {"cachedHosts": [], "storageIds": []}
        self._answer({"BlockLocations": {"BlockLocation": [block]}})

    def _open(self, path: Path, _: bytes) -> None:
        if not path.is_file():
            raise FileNotFoundError(path)
        if "step" not in self.query:
            self._redirect()
            return
        data = path.read_bytes()[int(self.query.get("offset", 0)) :]
        self._answer(data[: int(self.query.get("length", len(data)))])

    def _create(self, path: Path, body: bytes) -> None:
        if "step" not in self.query:
            self._redirect()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self._answer({}, 201, Location=f"{self.server.uri}/{quote(self.name)}")

    def _append(self, path: Path, body: bytes) -> None:
        if "step" not in self.query:
            self._redirect()
            return
        with path.open("ab") as file:
            file.write(body)
        self._answer({})

    def _mkdirs(self, path: Path, _: bytes) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._answer({"boolean": True})

    def _rename(self, path: Path, _: bytes) -> None:
        target = self.server.root / self.query["destination"].strip("/")
        possible = path.exists() and target.parent.is_dir()
        if possible and target.is_dir():
            target /= path.name
        if possible:
            path.rename(target)
        self._answer({"boolean": possible})

    def _delete(self, path: Path, _: bytes) -> None:
        there = path.exists()
        if path.is_dir():
            shutil.rmtree(path)
        elif there:
            path.unlink()
        self._answer({"boolean": there})

    def _setpermission(self, path: Path, _: bytes) -> None:
        self._answer({})

    _settimes = _setowner = _setreplication = _setpermission
