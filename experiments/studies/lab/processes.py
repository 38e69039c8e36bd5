"""Processes of a laboratory: recorded before anything else happens, and ended by that record.

Each is the first of a process group of its own, so that what it starts (Storm's workers) ends with
it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Processes:
    """The processes whose files are in a folder.

    Parameters
    ----------
    folder
        Of the record; a process is one of ours while its command line names this folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._record = folder / "pids.json"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._groups: dict[str, list[int]] = {}

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], out: Path
    ) -> None:
        """Start a process; what it prints is added to a file."""
        with out.open("ab") as to:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=to,
                start_new_session=True,
                env=dict(environment),
            )
        self._running[name] = process
        self._groups.setdefault(name, []).append(process.pid)
        self._save()

    def kill(self, name: str) -> None:
        """End a process, and what it started, with -9, as a machine that fails does."""
        process = self._running.pop(name)
        for group in self._groups.pop(name):
            self._signal(group, signal.SIGKILL)
        process.wait()
        self._save()

    def kill_all(self) -> None:
        """End all of them."""
        for name in list(self._running):
            self.kill(name)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to all of them, and to what they started."""
        for groups in list(self._groups.values()):
            for group in groups:
                self._signal(group, number)

    def ended(self) -> dict[str, int]:
        """Return the exit codes of those that ended by themselves."""
        codes = {name: process.poll() for name, process in list(self._running.items())}
        return {name: code for name, code in codes.items() if code is not None}

    def members(self, name: str) -> list[int]:
        """Return the ids of a process and of those that it started and that run."""
        groups = self._groups.get(name, ())
        return [pid for pid, group in _groups_now().items() if group in groups]

    def clear(self) -> None:
        """End what a run that was killed has left, where it still is one of ours."""
        if not self._record.exists():
            return
        recorded = json.loads(self._record.read_text())
        groups = {int(group) for some in recorded.values() for group in some}
        for pid, group in _groups_now().items():
            with suppress(OSError):
                ours = str(self._folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                if ours and group in groups:
                    os.kill(pid, signal.SIGKILL)
        self._record.unlink()

    def _signal(self, group: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, number)

    def _save(self) -> None:
        self._record.write_text(json.dumps(self._groups))


def _groups_now() -> dict[int, int]:
    """Return the process group of every process."""
    found = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            pid = int(folder.name)
            found[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[2])
    return found
