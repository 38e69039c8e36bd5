"""States survive the folder as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.replay.cluster import Cluster
from experiments.replay.deployment import Deployment
from experiments.replay.framework import State
from experiments.replay.store import Progressed, ReplayFolder

CLUSTER = Cluster(("n0", "added-2"), (0, 0), (True, False), 2)
WHOLE = Deployment.whole([1, 0, 1])
SPLIT = Deployment(np.array([[0, 1], [1, 1]]), np.array([0.1, 1.0]), np.array([0.3, 0.0]))


@pytest.mark.parametrize("deployment", [WHOLE, SPLIT], ids=["whole", "split"])
def test_round_trip(tmp_path: Path, deployment: Deployment) -> None:
    folder = ReplayFolder(tmp_path / "out")
    folder.open({"seed": 1})
    assert folder.load("a").state is None
    rows = [{"policy": "a", "period": 0, "load_distance": 0.1 + 0.2}]
    folder.save("a", Progressed(rows, [1.5], State(CLUSTER, deployment, 50.25, 7)))
    folder.open({"seed": 1})
    found = folder.load("a")
    assert found.rows == rows
    assert found.seconds == [1.5]
    assert found.state is not None
    assert found.state.cluster == CLUSTER
    assert (found.state.start_load, found.state.changed) == (50.25, 7)
    np.testing.assert_array_equal(found.state.deployment.places, deployment.places)
    np.testing.assert_array_equal(found.state.deployment.share, deployment.share)
    if deployment.merge is None:
        assert found.state.deployment.merge is None
    else:
        np.testing.assert_array_equal(found.state.deployment.merge, deployment.merge)


def test_policies_of_like_names_keep_apart(tmp_path: Path) -> None:
    folder = ReplayFolder(tmp_path / "out")
    folder.open({})
    for number, name in enumerate(("flux:a=1", "flux_a=1", "flux/../a=1")):
        rows = [{"number": number}]
        folder.save(name, Progressed(rows, [0.0], State(CLUSTER, WHOLE, 1.0)))
    assert [folder.load(n).rows[0]["number"] for n in ("flux:a=1", "flux_a=1")] == [0, 1]
    assert folder.load("flux/../a=1").rows[0]["number"] == 2
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["policies", "replay.json"]
