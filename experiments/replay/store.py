"""The folder of a replay: what was asked, each policy's state after its last period, and rows.

One file a policy holds its rows and its state, replaced as a whole after every period: killed at
any moment, a replay goes on after the last period that was finished.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from experiments.replay.stored import read_stored
from optim.errors import InvalidInput, Problem
from optim.util.files import read_bytes, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from experiments.replay.framework import State

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
            The folder holds another replay, a damaged one, or something else.
        """
        marker = self.path / MARKER
        content = json.loads(json.dumps({"format": FORMAT, **record}))
        if marker.is_file():
            known = _json(marker)
            if not isinstance(known, dict) or known.get("format") != FORMAT:
                raise self._wrong(f"holds a {MARKER} that is no record of a replay")
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
        """Return how far a policy is.

        Raises
        ------
        InvalidInput
            What is stored is damaged.
        """
        path = self._state_path(policy)
        if not path.is_file():
            return Progressed([], [], None)
        try:
            return Progressed(*read_stored(_json(path), policy))
        except InvalidInput as error:
            remedy = "remove it to begin this policy anew, or choose another folder"
            told = [replace(problem, remedy=remedy) for problem in error.problems]
            raise InvalidInput(told, str(path)) from None

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


def _json(path: Path) -> Any:
    """Return the content of a file; ``None`` where it is no JSON."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        return None


def _state_dict(state: State) -> dict[str, Any]:
    deployment = state.deployment
    split = not deployment.is_whole
    return {
        "cluster": asdict(state.cluster),
        "places": deployment.places[:, 0].tolist(),
        "second": deployment.places[:, 1].tolist() if split else None,
        "share": deployment.share.tolist() if split else None,
        "merge": None if deployment.merge is None else deployment.merge.tolist(),
        "memory": dict(deployment.memory),
        "start_load": state.start_load,
        "changed": state.changed,
    }
