"""Servers of tests, in a thread of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from socketserver import BaseServer


@contextlib.contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """Serve until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
