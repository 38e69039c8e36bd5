"""Process plumbing that no call of the isolation reaches."""

from __future__ import annotations

import subprocess
import sys

import psutil

from experiments.sweep.processes import children_of, reap, resident_bytes


def test_a_child_that_does_not_end_is_killed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    assert child.pid in children_of(psutil.Process().pid)
    assert resident_bytes(psutil.Process().pid) > 0
    reap(child.pid, 0.2)
    assert not psutil.pid_exists(child.pid)


def test_a_child_that_ends_is_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    reap(child.pid)
    assert not psutil.pid_exists(child.pid)
