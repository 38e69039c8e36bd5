"""A small FTP server over a local folder, as Hadoop's client asks it; it renames anywhere."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

from tests.experiments.spark.processes import running


class Server(ThreadingTCPServer):
    """Serves a folder to anybody."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root

    @property
    def uri(self) -> str:
        return f"ftp://127.0.0.1:{self.server_address[1]}"

    @property
    def settings(self) -> dict[str, str]:
        """What Hadoop has to know: a user, and that the client opens all connections."""
        given = {"user.127.0.0.1": "u", "password.127.0.0.1": "p"}
        given["data.connection.mode"] = "PASSIVE_LOCAL_DATA_CONNECTION_MODE"
        return {f"spark.hadoop.fs.ftp.{name}": value for name, value in given.items()}


@contextlib.contextmanager
def serving(root: Path) -> Iterator[Server]:
    root.mkdir()
    with Server(root) as server, running(server):
        yield server


class Handler(StreamRequestHandler):
    server: Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        self.here, self.source = "/", Path()
        self.waiting: socket.socket | None = None
        self.tell("220 here")
        for line in self.rfile:
            word, _, rest = line.decode("latin-1").rstrip("\r\n").partition(" ")
            do = getattr(self, f"do_{word.upper()}", None)
            try:
                self.tell("502 unknown" if do is None else do(rest))
            except OSError as error:
                self.tell(f"550 {error.strerror}")
            if word.upper() == "QUIT":
                return

    def tell(self, answer: str) -> None:
        self.wfile.write(f"{answer}\r\n".encode("latin-1"))

    def path(self, name: str) -> Path:
        return self.server.root / (name if name.startswith("/") else f"{self.here}/{name}").strip(
            "/"
        )

    def do_USER(self, _: str) -> str:
        return "331 whose"

    def do_PASS(self, _: str) -> str:
        return "230 in"

    def do_TYPE(self, _: str) -> str:
        return "200 so"

    do_MODE = do_STRU = do_NOOP = do_TYPE

    def do_SYST(self, _: str) -> str:
        return "215 UNIX Type: L8"

    def do_QUIT(self, _: str) -> str:
        return "221 out"

    def do_PWD(self, _: str) -> str:
        return f'257 "{self.here}"'

    def do_CWD(self, name: str) -> str:
        path = self.path(name)
        if not path.is_dir():
            return "550 no folder"
        inside = path.relative_to(self.server.root).as_posix()
        self.here = "/" if inside == "." else f"/{inside}"
        return "250 there"

    def do_MKD(self, name: str) -> str:
        self.path(name).mkdir()
        return f'257 "{name}"'

    def do_RMD(self, name: str) -> str:
        self.path(name).rmdir()
        return "250 gone"

    def do_DELE(self, name: str) -> str:
        self.path(name).unlink()
        return "250 gone"

    def do_RNFR(self, name: str) -> str:
        self.source = self.path(name)
        return "350 whither"

    def do_RNTO(self, name: str) -> str:
        shutil.move(self.source, self.path(name))
        return "250 moved"

    def do_PASV(self, _: str) -> str:
        self.waiting = socket.create_server(("127.0.0.1", 0))
        high, low = divmod(self.waiting.getsockname()[1], 256)
        return f"227 at (127,0,0,1,{high},{low})"

    def do_LIST(self, name: str) -> str:
        path = self.path(name)
        found = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
        lines = [
            f"{'d' if p.is_dir() else '-'}rw-r--r-- 1 u u {p.stat().st_size} Jan 01 00:00 {p.name}"
            for p in found
        ]
        return self.passed("".join(f"{line}\r\n" for line in lines).encode("latin-1"))

    def do_RETR(self, name: str) -> str:
        return self.passed(self.path(name).read_bytes())

    def do_STOR(self, name: str) -> str:
        path = self.path(name)
        path.touch()
        return self.passed(None, path)

    def passed(self, content: bytes | None, into: Path = Path()) -> str:
        """Send bytes on the connection that waits, or take what comes there."""
        assert self.waiting is not None
        self.tell("150 now")
        connection, _ = self.waiting.accept()
        self.waiting.close()
        with connection:
            if content is None:
                into.write_bytes(b"".join(iter(lambda: connection.recv(65536), b"")))
            else:
                connection.sendall(content)
        return "226 done"
