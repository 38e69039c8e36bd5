"""The folder of a replay: what was asked, each policy's state after its last period, and rows.

One file a policy holds its rows and its state, replaced as a whole after every period: killed at
any moment, a replay goes on after the last period that was finished.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.replay.cluster import Cluster
from experiments.replay.deployment import Deployment
from experiments.replay.framework import State
from optim.errors import InvalidInput, Problem
from optim.files import read_bytes, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MARKER = "replay.json"
FORMAT = "streamplace.replay/1"
_STATES = "policies"


@dataclass
class Progressed:
    """How far a policy is: its rows, seconds of planning, and its state (``None`` at the start)."""

    rows: list[dict[str, Any]]
    seconds: list[float]
    state: State | None


class ReplayFolder:
    """A replay's folder.

    Parameters
    ----------
    path
        New, empty, or that of the same replay.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, record: Mapping[str, Any]) -> None:
        """Take the folder for a replay; one of the same is taken up again.

        Parameters
        ----------
        record
            Everything that decides on the rows, policies excepted.

        Raises
        ------
        InvalidInput
            The folder holds another replay, or something else.
        """
        marker = self.path / MARKER
        content = json.loads(json.dumps({"format": FORMAT, **record}))
        if marker.is_file():
            known = json.loads(read_bytes(marker))
            if known != content:
                changed = [key for key in content if known.get(key) != content[key]]
                reason = f"holds another replay: {', '.join(changed) or 'its record'} differs"
                raise self._wrong(reason)
            return
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise self._wrong("is not empty and holds no replay")
        (self.path / _STATES).mkdir(parents=True, exist_ok=True)
        write_atomic(marker, json.dumps(content, indent=1, ensure_ascii=False) + "\n")

    def _wrong(self, reason: str) -> InvalidInput:
        return InvalidInput(Problem("--output", str(self.path), reason, "choose another folder"))

    def load(self, policy: str) -> Progressed:
        """Return how far a policy is."""
        path = self._state_path(policy)
        if not path.is_file():
            return Progressed([], [], None)
        content = json.loads(read_bytes(path))
        return Progressed(content["rows"], content["seconds"], _read_state(content["state"]))

    def save(self, policy: str, progressed: Progressed) -> None:
        """Store rows and state of a policy, both or neither."""
        assert progressed.state is not None
        content = {
            "policy": policy,
            "rows": progressed.rows,
            "seconds": progressed.seconds,
            "state": _state_dict(progressed.state),
        }
        write_atomic(self._state_path(policy), json.dumps(content, ensure_ascii=False))

    def _state_path(self, policy: str) -> Path:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in policy)[:60]
        mark = hashlib.sha256(policy.encode()).hexdigest()[:8]
        return self.path / _STATES / f"{name}-{mark}.json.gz"


def _state_dict(state: State) -> dict[str, Any]:
    deployment = state.deployment
    split = not deployment.is_whole
    return {
        "cluster": state.cluster.to_dict(),
        "places": deployment.places[:, 0].tolist(),
        "second": deployment.places[:, 1].tolist() if split else None,
        "share": deployment.share.tolist() if split else None,
        "merge": None if deployment.merge is None else deployment.merge.tolist(),
        "memory": dict(deployment.memory),
        "start_load": state.start_load,
        "changed": state.changed,
    }


def _read_state(value: Mapping[str, Any]) -> State:
    deployment = Deployment.whole(np.array(value["places"], dtype=np.int64))
    if value["second"] is not None:
        places = np.column_stack([deployment.node, np.array(value["second"], dtype=np.int64)])
        deployment = Deployment(places, np.array(value["share"]))
    if value["merge"] is not None:
        merge = np.array(value["merge"])
        deployment = Deployment(deployment.places, deployment.share, merge)
    deployment = replace(deployment, memory=value.get("memory", {}))
    cluster = Cluster.from_dict(value["cluster"])
    return State(cluster, deployment, value["start_load"], value["changed"])
