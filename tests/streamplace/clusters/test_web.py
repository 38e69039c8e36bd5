"""The HTTP client against a server on loopback that behaves badly."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from optim.errors import InvalidInput
from streamplace.clusters.exchange import sources
from streamplace.clusters.exchange.sources import WebClient, import_instance, site_of


def test_gets_json(serve: Callable[..., str]) -> None:
    client = WebClient(serve({"a/b": {"x": 1}}) + "/")
    assert client.get("a/b", window="600") == {"x": 1}
    assert client.maybe("nothing") is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((500, {}, b""), "answers 500"),
        ((404, {}, b""), "answers 404"),
        ((200, {}, b"<html>"), "is not JSON"),
        ((200, {}, b'{"a":1,"a":2}'), "twice"),
        ((200, {}, b""), "is empty"),
        ((302, {"Location": "http://127.0.0.1:1/other"}, b""), "leads to another host"),
        ((302, {"Location": "file:///etc/passwd"}, b""), "not allowed"),
        ((200, {"Content-Length": "100"}, b"{}"), "98 bytes early"),
    ],
)
def test_bad_answers(
    serve: Callable[..., str], answer: tuple[int, dict[str, str], bytes], told: str
) -> None:
    client = WebClient(serve({"a": answer}), timeout=5)
    with pytest.raises(InvalidInput, match=told):
        client.get("a")


def test_a_query_of_the_address_goes_with_each_request(serve: Callable[..., str]) -> None:
    asked: list[str] = []

    def answer(headers: Any) -> list[int]:
        asked.append(headers["X-Path"])
        return [1]

    client = WebClient(serve({"p/a": answer}) + "/p/?token=a%26b&empty=")
    assert client.get("a", window="6") == [1]
    assert asked == ["/p/a?token=a%26b&empty=&window=6"]


def test_a_redirect_within_the_host_is_followed(serve: Callable[..., str]) -> None:
    documents = {"a": (302, {"Location": "/b"}, b""), "b": [1]}
    assert WebClient(serve(documents)).get("a") == [1]


def test_answers_that_are_too_large(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_RESPONSE", 1000)
    client = WebClient(serve({"a": "x" * 2000, "b": "x" * 900}))
    with pytest.raises(InvalidInput, match="more than 1000 bytes"):
        client.get("a")
    monkeypatch.setattr(sources, "MAX_TOTAL", 2500)
    with pytest.raises(InvalidInput, match="2500 in all"):
        client.get("b")


def test_too_many_requests(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_REQUESTS", 1)
    client = WebClient(serve({"a": 1}))
    client.get("a")
    with pytest.raises(InvalidInput, match="would be request 2"):
        client.get("a")


@pytest.fixture
def slow(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the address of a server that sends a byte now and then, and never ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(request.param)
            while not done.wait(0.05):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    threading.Thread(target=answer, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    done.set()
    listener.close()


@pytest.mark.parametrize(
    "slow", [b"HTTP/1.0 200 OK\r\n\r\n[", b"HTTP/1.0 200 OK\r\nX: "], indirect=True
)
def test_slow_answers_end(slow: str) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidInput, match=r"does not answer within 0\.4 s"):
        WebClient(slow, timeout=0.4).get("a")
    assert time.monotonic() - began < 60  # it ends at all


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://", "is no address"),
        ("http://host:port", "is no address"),
        ("http://me:secret@host", "holds a password"),
    ],
)
def test_bad_addresses(address: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        import_instance("storm", [address])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("timeout", [3e6, 1e20])
def test_waiting_for_ever(serve: Callable[..., str], timeout: float) -> None:
    assert WebClient(serve({"a": 1}), timeout).get("a") == 1


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(InvalidInput, match="cannot be reached"):
        import_instance("flink", [f"http://127.0.0.1:{port}"], timeout=5)


@pytest.mark.parametrize(
    ("address", "site"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/index.html#/jobs", "http://h:1"),
        ("http://h:1/#/job/running", "http://h:1"),
        ("https://proxy/flink/index.html?x=1", "https://proxy/flink"),
        ("http://h:1/flink//", "http://h:1/flink"),
        ("http://h:1/?user=me", "http://h:1?user=me"),
    ],
)
def test_addresses_begin_where_the_interface_does(address: str, site: str) -> None:
    assert site_of(address) == site
    assert WebClient(address).base == site.partition("?")[0]
