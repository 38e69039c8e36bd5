"""Process plumbing that no call of the isolation reaches."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from experiments.sweep.isolation import children_of, reap, resident_bytes


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


def test_shared_memory_counts_once() -> None:
    code = """
import os, sys, time
kept = bytearray(os.urandom(1 << 20) * 64)
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        time.sleep(600)
    children.append(child)
print(flush=True)
sys.stdin.readline()
for child in children:
    os.kill(child, 9)
"""
    before = resident_bytes(os.getpid())  # a JVM of other tests may be there
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert 60 << 20 < resident_bytes(os.getpid()) - before < 300 << 20
    child.communicate(b"\n", timeout=600)
