"""Saved documents in a folder, and a server on loopback that gives them out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """Return a function that saves documents, each under its path, and names the folder."""

    def save(documents: dict[str, Any], folder: str = "saved") -> str:
        for name, value in documents.items():
            path = tmp_path / folder / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        return str(tmp_path / folder)

    return save


Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Return a function that serves documents on loopback and names the address.

    A value may be a JSON document, (status, headers, bytes), or a function from the headers of a
    request to one of these.
    """
    servers = []

    def start(documents: dict[str, Any], prefix: str = "") -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path.strip("/").removeprefix(prefix).strip("/")
                value = documents.get(path)
                if callable(value):
                    self.headers["X-Path"] = self.path
                    value = value(self.headers)
                if isinstance(value, tuple):
                    status, headers, body = value
                else:
                    status, headers = (404, {}) if value is None else (200, {})
                    body = json.dumps(value).encode()
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
