"""Servers that answer an import with anything but what was asked for."""

from __future__ import annotations

import socket
import threading
import time

from tests.torture.files import call
from tests.torture.tally import TRACEBACK, Tally

_TIMEOUT = 1.0
_OK = b"HTTP/1.1 200 OK\r\n"
_JSON = _OK + b"Content-Type: application/json\r\n"
#: By name: what is sent at once, and what again and again until the other side leaves.
ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "headers that drip": (_OK + b"X: ", b"x"),
    "a status that drips": (b"H", b"T"),
    "a body that drips": (_OK + b"\r\n[", b" "),
    "headers without end": (_OK, b"X: y\r\n" * 500),
    "a header without end": (_OK + b"X: ", b"x" * 65536),
    "a body without end": (_OK + b"\r\n[", b"0," * 40000),
    "a length that is too long": (_JSON + b"Content-Length: 100\r\n\r\n{}", b""),
    "a length that is none": (_JSON + b"Content-Length: -5\r\n\r\n{}", b""),
    "chunks that are none": (_JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", b""),
    "a chunk that ends early": (_JSON + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{}", b""),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", b""),
    "a redirect to itself": (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", b""),
    "a redirect to a file": (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", b""),
    "a redirect elsewhere": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b""),
    "an error": (b"HTTP/1.1 500 No\r\n\r\n", b""),
    "an empty document": (_JSON + b"\r\n", b""),
    "a list": (_JSON + b"\r\n[]", b""),
    "a number": (_JSON + b"\r\n5", b""),
    "null": (_JSON + b"\r\nnull", b""),
    "an object of nothing": (_JSON + b"\r\n{}", b""),
    "wrong types": (_JSON + b'\r\n{"jobs":5,"topologies":{},"brokers":"x"}', b""),
    "a deep nest": (_JSON + b"\r\n" + b"[" * 100_000, b""),
    "bytes that are no text": (_JSON + b"\r\n\xff\xfe\x00", b""),
    "a web page": (_OK + b"Content-Type: text/html\r\n\r\n<html>", b""),
}
IMPORTERS = ("flink", "storm", "cruise-control")


def run() -> Tally:
    """Import from each."""
    tally = Tally(f"a hostile server ({len(ANSWERS)} kinds), three importers")
    for name, (first, again) in ANSWERS.items():
        for importer in IMPORTERS:
            tally.tried += 1
            with socket.create_server(("127.0.0.1", 0)) as listener:
                stop = threading.Event()
                server = threading.Thread(target=_serve, args=(listener, first, again, stop))
                server.start()
                began = time.monotonic()
                address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
                code, said = call(["import", importer, address, "--timeout", str(_TIMEOUT)])
                took = time.monotonic() - began
                stop.set()
                listener.shutdown(socket.SHUT_RDWR)
                server.join()
            if code not in (2, 4) or TRACEBACK.search(said):
                tally.fault(f"{importer}, {name}: {code}: {said[-200:]!r}")
            elif took > 60 * _TIMEOUT:
                tally.fault(f"{importer}, {name}: {took:.0f} s")
            else:
                tally.tell("refused")
    return tally


def _serve(listener: socket.socket, first: bytes, again: bytes, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                connection.recv(4096)
                connection.sendall(first)
                while again and not stop.is_set():
                    connection.sendall(again)
                    if len(again) < 10:
                        time.sleep(0.05)
            except OSError:
                continue
