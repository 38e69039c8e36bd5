"""Small machines out of one: network namespaces with links of a given rate, and a share of a core.

Each machine is a namespace whose only way out is a cable to a bridge, shaped at both ends by a
token bucket, and a control group that limits the CPU of all processes in it. Linux only, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from experiments.studies.lab.runner import LabError, run_lab, tell
from optim import InvalidInput

Runs = Iterable[tuple[str, Callable[[], dict[str, Any]]]]
"""What is run, in words, and what runs it and returns its row: shape, policy, repetition first."""


_PREFIX = "10.211.77"  # A private bridge; nothing leaves the machine.
GATEWAY = f"{_PREFIX}.254"  # Address of this machine on the bridge: where job managers listen.
_BRIDGE = "splab"
_PERIOD = 10_000
"""Microseconds in which a group gets its share: short, so that it is like a slow core."""
_WEIGHT, _USUAL = 262_144, 1024
"""Of a limited machine among all that runs, the most there is: it gets its share, whatever else
runs here. Of one without a limit, as it starts, the usual."""
CONTROL = Path("/sys/fs/cgroup")


def reason_against() -> str | None:
    """Return why there can be no such machines here, or ``None``."""
    if os.name != "posix" or os.geteuid() != 0:
        return "it takes root to make network namespaces"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} are missing (package iproute2)"
    if _cpu_root(CONTROL) is None:
        return f"no control group under {CONTROL} limits CPU"
    # containers often have the tools, and not the right
    probe = f"{_BRIDGE}-probe"
    commands = (
        ["ip", "netns", "add", probe],
        ["ip", "netns", "exec", probe, "tc", "qdisc", "add", "dev", "lo", *_bucket(40.0)],
    )
    try:
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return f"`{' '.join(command)}` fails: {done.stderr.strip()}"
    finally:
        _run_quietly("ip", "netns", "del", probe)
    return None


class Machines:
    """Namespaces and control groups, as a context manager that removes them whatever happens.

    `names`: of the machines; at most 250, of few letters each (a network device holds the name).
    `megabits`: rate of a cable, each way, Mbit/s.
    """

    def __init__(self, names: Sequence[str], megabits: float) -> None:
        self._names = list(names)
        self._rate = megabits

    def __enter__(self) -> Self:
        self._remove()
        try:
            _run("ip", "link", "add", _BRIDGE, "type", "bridge")
            _run("ip", "addr", "add", f"{GATEWAY}/24", "dev", _BRIDGE)
            _run("ip", "link", "set", _BRIDGE, "up")
            for name in self._names:
                self._add(name)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def address(self, name: str) -> str:
        """Return a machine's address on the bridge."""
        return f"{_PREFIX}.{self._names.index(name) + 1}"

    def inside(self, name: str) -> list[str]:
        """Return what to put before a command that is to run on a machine; its id stays."""
        member = self._group(name) / "cgroup.procs"
        # the shell joins the group and becomes the command: all its children are in it
        join = ["sh", "-c", f'echo $$ > {member}; exec "$@"', "sh"]
        return [*join, "ip", "netns", "exec", self._space(name)]

    def limit(self, cores: float | None) -> None:
        """Give each machine so many cores, before all else; ``None`` lifts that, as for a start."""
        for name in self._names:
            set_share(self._group(name), cores)

    def sent(self, name: str) -> int:
        """Return the bytes that a machine has sent, by the bridge's end of its cable."""
        # what the machine sends, the bridge's end receives
        counter = Path(f"/sys/class/net/{self._space(name)}/statistics/rx_bytes")
        return int(counter.read_text())

    def _add(self, name: str) -> None:
        space, shape = self._space(name), _bucket(self._rate)
        in_space = ["ip", "netns", "exec", space]
        _run("ip", "netns", "add", space)
        # one end in the machine, the other on the bridge, each shaped on its way out
        cable = ["type", "veth", "peer", "name", "eth0", "netns", space]
        _run("ip", "link", "add", space, *cable)
        _run("ip", "link", "set", space, "master", _BRIDGE, "up")
        _run(*in_space, "ip", "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run(*in_space, "ip", "link", "set", device, "up")
        # a token bucket shapes what leaves a device: both directions need one
        _run(*in_space, "tc", "qdisc", "add", "dev", "eth0", *shape)
        _run("tc", "qdisc", "add", "dev", space, *shape)
        self._group(name).mkdir()

    def _remove(self) -> None:
        for name in self._names:
            _run_quietly("ip", "netns", "del", self._space(name))
            _run_quietly("ip", "link", "del", self._space(name))
            _remove_group(self._group(name))
        _run_quietly("ip", "link", "del", _BRIDGE)

    def _space(self, name: str) -> str:
        return f"{_BRIDGE}-{name}"

    def _group(self, name: str) -> Path:
        root = _cpu_root(CONTROL)
        if root is None:
            raise OSError(f"no control group under {CONTROL} limits CPU")
        return root / self._space(name)


def set_share(group: Path, cores: float | None) -> None:
    """Limit the CPU of a control group and put it first, of either version; ``None``: neither."""
    first = cores is not None
    # the kernel takes no quota below 1 ms
    quota = None if cores is None else max(1000, round(cores * _PERIOD))
    # control groups of version 2; version 1 below
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD}")
        (group / "cpu.weight").write_text("10000" if first else "100")
        return
    (group / "cpu.shares").write_text(str(_WEIGHT if first else _USUAL))
    (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
    (group / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))


def _cpu_root(control: Path) -> Path | None:
    """Return the folder in which groups that limit CPU are made, of either version."""
    if (control / "cpu" / "cpu.cfs_quota_us").exists() or (control / "cpu" / "tasks").exists():
        return control / "cpu"
    passed_on = control / "cgroup.subtree_control"
    if passed_on.exists() and "cpu" in passed_on.read_text().split():
        return control
    return None


def _bucket(megabits: float) -> list[str]:
    return ["root", "tbf", "rate", f"{megabits:g}mbit", "burst", "128kb", "latency", "100ms"]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _run_quietly(*command: str) -> None:
    subprocess.run(command, check=False, capture_output=True)


def _remove_group(group: Path) -> None:
    """Remove a control group; its processes, ended just now, may take a moment to leave it."""
    for _ in range(50):
        with contextlib.suppress(FileNotFoundError):
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.1)
                continue
        return


@dataclass(frozen=True)
class Bench:
    """Ways to place on a system, measured, each run a line of a CSV file at once.

    Machines, shapes and policies were fixed before anything was measured.
    """

    # name, description: the target of `make`, and what it does.
    name: str
    description: str | None
    # Makes machines and clusters on a stack of contexts, and yields what is to be run.
    runs: Callable[[ExitStack, Path, argparse.Namespace], Runs]
    table: Callable[[pd.DataFrame], str]  # makes the table of the runs
    # repetitions, seconds: of each run, and of a measurement, where nothing else is asked for.
    repetitions: int
    seconds: float
    reason_against: Callable[[], str | None]  # returns why the system is not here, or `None`

    def main(self) -> int:
        """Run the bench; where it cannot be run, say why and end well."""
        times, seconds = {"type": int, "default": self.repetitions}, self.seconds
        return run_lab(
            self.name,
            self.description,
            self.work,
            ("--repetitions", times),
            ("--seconds", {"type": float, "default": seconds, "help": "of a measurement"}),
            reason_against=lambda: reason_against() or self.reason_against(),
        )

    def work(self, folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
        """Run all, store the rows as they come, and print the table."""
        file, failed = folder / "runs.csv", 0
        with ExitStack() as stack, file.open("w", newline="") as out:
            for what, run in self.runs(stack, folder, args):
                try:
                    row = run()
                except (LabError, InvalidInput) as error:
                    failed += 1
                    tell(f"failed: {what}: {error}")
                    continue
                cells = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
                table = csv.DictWriter(out, list(cells), lineterminator="\n")
                if not out.tell():
                    table.writeheader()
                table.writerow(cells)
                out.flush()
                tell(json.dumps(cells))
        tell(self.table(pd.read_csv(file)))
        return f"{file}, {failed} runs failed", not failed
