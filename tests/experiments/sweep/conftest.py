"""A small instance, and sweeps around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from experiments.sweep.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

INSTANCE: dict[str, Any] = {
    "format": "streamplace.instance/1",
    "name": "tiny",
    "resources": ["cpu", "memory"],
    "nodes": [
        {"id": "n1", "capacity": {"cpu": 100, "memory": 10}},
        {"id": "n2", "capacity": {"cpu": 300, "memory": 10}},
    ],
    "operators": [
        {"id": "a", "group": {"tasks": 2, "load": {"cpu": 60, "memory": 2}}},
        {"id": "b", "group": {"tasks": 2, "load": {"cpu": 40, "memory": 2}}},
    ],
    "streams": [{"from": "a", "to": "b", "rate": 8}],
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    """Return the document of an instance: two nodes, two operators of two tasks each."""
    return json.loads(json.dumps(INSTANCE))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a folder that holds the instances tiny.json and other.json."""
    for name in ("tiny", "other"):
        (tmp_path / f"{name}.json").write_text(json.dumps({**INSTANCE, "name": name}))
    return tmp_path


@pytest.fixture
def make_spec(base: Path) -> Callable[..., Spec]:
    """Return a maker of specs on the instance tiny: matrix, then other top-level entries."""

    def make(matrix: dict[str, Any], **top: Any) -> Spec:
        document = {"name": "t", "instances": {"files": ["tiny.json"]}, "matrix": matrix, **top}
        return Spec.from_dict(document, base)

    return make
