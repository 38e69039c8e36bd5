"""Small instances for tests, written as a user would write them."""

from __future__ import annotations

from typing import Any

from optim.format.instance import Instance


def document(**parts: Any) -> dict[str, Any]:
    """Return a minimal document with parts replaced."""
    base: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": "small",
        "nodes": [{"id": "n1", "capacity": {"cpu": 10}}, {"id": "n2", "capacity": {"cpu": 10}}],
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4}}},
            {"id": "b", "group": {"tasks": 2, "load": {"cpu": 8}, "state": 6}},
        ],
        "streams": [{"from": "a", "to": "b", "rate": 12}],
    }
    return {**base, **parts}


def instance(**parts: Any) -> Instance:
    """Return the minimal instance with parts replaced.

    Two nodes of 10; tasks a/0, a/1 (2 each) and b/0, b/1 (4 each, state 3); each a–b pair 3.
    """
    return Instance.from_dict(document(**parts))


def nodes(count: int, **fields: Any) -> list[dict[str, Any]]:
    """Return equal nodes n1, n2, …"""
    return [{"id": f"n{i + 1}", **fields} for i in range(count)]
