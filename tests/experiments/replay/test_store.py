"""States survive the folder as they are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.replay.run import COLUMNS, Progressed, ReplayFolder, State
from optim.errors import InvalidInput
from streamplace.policies.nodes import Cluster, Deployment

CLUSTER = Cluster(("n0", "added-2"), (0, 0), (True, False))
WHOLE = Deployment.whole([1, 0, 1])
SPLIT = Deployment(np.array([[0, 1], [1, 1]]), np.array([0.1, 1.0]), np.array([0.3, 0.0]))


def row(policy: str, **changes: Any) -> dict[str, Any]:
    """Return a row with something in every column."""
    filled = {"string": "x", "int64": 0, "float64": 1.5, "bool": True}
    values = {name: filled[kind] for name, kind in COLUMNS.items()}
    return values | {"policy": policy, "load_distance_before": None} | changes


@pytest.mark.parametrize("deployment", [WHOLE, SPLIT], ids=["whole", "split"])
def test_round_trip(tmp_path: Path, deployment: Deployment) -> None:
    folder = ReplayFolder(tmp_path / "out")
    with folder.writing({"seed": 1}):
        assert folder.load("a").state is None
    rows = [row("a", load_distance=0.1 + 0.2)]
    folder.save("a", Progressed(rows, [1.5], State(CLUSTER, deployment, 50.25, {"looks": 7})))
    with folder.writing({"seed": 1}):
        found = folder.load("a")
    assert found.rows == rows
    assert found.seconds == [1.5]
    assert found.state is not None
    assert found.state.cluster == CLUSTER
    assert (found.state.start_load, found.state.memory) == (50.25, {"looks": 7})
    np.testing.assert_array_equal(found.state.deployment.places, deployment.places)
    np.testing.assert_array_equal(found.state.deployment.share, deployment.share)
    if deployment.merge is None:
        assert found.state.deployment.merge is None
    else:
        np.testing.assert_array_equal(found.state.deployment.merge, deployment.merge)


def test_policies_of_like_names_keep_apart(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "out")
    with folder.writing({}):
        pass
    for number, name in enumerate(("flux:a=1", "flux_a=1", "flux/../a=1")):
        rows = [row(name, nodes=number)]
        folder.save(name, Progressed(rows, [0.0], State(CLUSTER, WHOLE, 1.0)))
    assert [folder.load(n).rows[0]["nodes"] for n in ("flux:a=1", "flux_a=1")] == [0, 1]
    assert folder.load("flux/../a=1").rows[0]["nodes"] == 2
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["policies", "replay.json"]


def refuse(path: Path, record: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text), ReplayFolder(path).writing(record):
        pass


@pytest.mark.parametrize(
    "text",
    ["", '{"format": "streamplace.replay/1", "se', "[]", "5", "{}", '"x"', "\x00", "[" * 99999],
)
def test_a_record_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "replay.json").write_text(text)
    refuse(tmp_path, {"seed": 1}, r"no result folder of a replay .*choose another fol")
    assert (tmp_path / "replay.json").read_text() == text


def test_one_replay_writes_and_another_is_refused(tmp_path: Path) -> None:
    record = {"seed": 1, "periods": [{"name": "a", "sha256": "0"}, {"name": "b", "sha256": "1"}]}
    with ReplayFolder(tmp_path).writing(record):
        refuse(tmp_path, record, "is being written by another replay")
        (tmp_path / "policies" / ".a.json.gz.x1y2").write_text("torn")
    with ReplayFolder(tmp_path).writing(record):
        assert list((tmp_path / "policies").iterdir()) == []
    refuse(tmp_path, {"periods": record["periods"]}, "another replay: seed is 1, not absent")
    record["periods"][1]["sha256"] = "2"  # type: ignore[index]
    refuse(tmp_path, record, r'another replay: periods\[1\].sha256 is "1", not "2"')


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The state file of a policy."""
    folder = ReplayFolder(tmp_path / "out")
    with folder.writing({}):
        pass
    folder.save("a", Progressed([row("a")], [0.5], State(CLUSTER, SPLIT, 1.0)))
    assert folder.load("a").seconds == [0.5]
    (path,) = (tmp_path / "out" / "policies").iterdir()
    return path


def refused(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data))
    with pytest.raises(InvalidInput) as caught:
        ReplayFolder(path.parent.parent).load("a")
    assert "remove it to begin this policy anew" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"policy": "b"}', b"\xff", "{"])
def test_a_state_file_of_something_else(content: str | bytes, stored: Path) -> None:
    assert "is no state of the policy a" in refused(stored, content)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or list of a document with each of its keys or indices."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


def test_a_state_file_that_was_changed_anywhere(stored: Path) -> None:
    text = gzip.decompress(stored.read_bytes())
    count = sum(1 for _ in places(json.loads(text)))
    assert count > 40
    for number in range(count):
        content = json.loads(text)
        table, key = list(places(content))[number]
        table[key] = 7 if table[key] != 7 else 8
        assert "the policy a" in refused(stored, json.dumps(content))
    stored.write_bytes(gzip.compress(text))
    assert ReplayFolder(stored.parent.parent).load("a").seconds == [0.5]
