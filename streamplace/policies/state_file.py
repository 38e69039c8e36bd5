"""The file in which a policy's state outlives the process; one writer at a time."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.format.read import parse_json
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamplace.policies.policy import State

STATE_FORMAT = "streamplace.policy_state/1"
_MOST = 64 << 20


class StateFile:
    """The state of a policy.

    Parameters
    ----------
    path
        The file; it is made by the first `save`.
    policy
        As ``--policy`` has it, with what else decides on the meaning of the state.
    """

    def __init__(self, path: str | Path, policy: str) -> None:
        self.path, self.policy = Path(path), policy

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other controller from the state.

        Raises
        ------
        InvalidInput
            One has it.
        """
        lock = Lock(self.path.with_name(f"{self.path.name}.lock"))
        if not self.path.parent.is_dir():
            raise InvalidInput(Problem("--state", str(self.path.parent), "is no folder", "make it"))
        if not lock.acquire():
            remedy = "wait for it, or end it: one controller decides at a time"
            raise InvalidInput(
                Problem("--state", str(self.path), "is another controller's", remedy)
            )
        try:
            yield
        finally:
            lock.release()

    def load(self) -> State:
        """Return the state; ``{}`` where there is no file.

        Raises
        ------
        InvalidInput
            The file is no state, or that of another policy.
        """
        if not self.path.exists():
            return {}
        try:
            content = parse_json(read_bytes(self.path, _MOST))
            self._check(content)
        except InvalidInput as error:
            remedy = "name another file, or remove it to begin anew"
            told = [Problem(p.path, p.value, p.reason, remedy) for p in error.problems]
            raise InvalidInput(told, str(self.path)) from None
        state: State = content["state"]
        return state

    def _check(self, content: Any) -> None:
        told = content.get("format") if isinstance(content, dict) else None
        if told != STATE_FORMAT:
            raise InvalidInput(Problem("format", told, f"is not {STATE_FORMAT}"))
        if content.get("policy") != self.policy:
            reason = f"is not the policy {self.policy}"
            raise InvalidInput(Problem("policy", content.get("policy"), reason))
        if not isinstance(content.get("state"), dict):
            raise InvalidInput(Problem("state", content.get("state"), "is no object"))
        if unknown := sorted(set(content) - {"format", "policy", "state"}):
            raise InvalidInput(Problem(unknown[0], content[unknown[0]], "is no key of a state"))

    def save(self, state: State) -> None:
        """Write the state, as a whole."""
        content = {"format": STATE_FORMAT, "policy": self.policy, "state": state}
        write_atomic(self.path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")
