"""Runners that do what runs should not do; the method's name says which."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAME = "tests.experiments.sweep.fakes:run"


def run(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Behave, or misbehave, as the method's name says."""
    behaviour = arguments["method"]
    if behaviour.startswith("marked-"):
        return _marked(arguments)
    return {
        "good": _good,
        "slow": _slow,
        "raises": _raises,
        "exits": lambda *_: os._exit(1),
        "leaves": lambda *_: sys.exit(3),
        "segfaults": lambda *_: os.kill(os.getpid(), signal.SIGSEGV),
        "sleeps": lambda *_: time.sleep(3600),
        "hangs": _hangs,
        "allocates": lambda *_: len(bytearray(8 << 30)),
        "fills": _fills,
        "nonsense": lambda *_: {"gap": "wide", "outcome": "ok"},
        "fails-once": _fails_once,
    }[behaviour](document, arguments)


def _good(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "objective": float(arguments["seed"]),
        "objective_name": "imc_gain",
        "trace": [(0.1, None, 2.0), (0.2, 1.0, float("inf"))],
        "termination": "heuristic",
        "result": document.decode()[:20],
    }


def _slow(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    time.sleep(arguments["pause"])
    return _good(document, arguments)


def _raises(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("boom")


def _hangs(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Wait for a process in a session of its own, as a solver that will not end."""
    process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    Path(arguments["pidfile"]).write_text(str(process.pid))
    process.wait()
    return {}


def _fills(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Use memory bit by bit, so that no single request is refused."""
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))


def _fails_once(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    flag = Path(arguments["flag"])
    if not flag.exists():
        flag.touch()
        raise ValueError("not yet")
    return _good(document, arguments)


def _marked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Leave a line for every time this run was done."""
    with Path(arguments["log"]).open("a") as file:
        file.write(f"{arguments['seed']}\n")
    time.sleep(float(arguments["method"].removeprefix("marked-")))
    return {"objective": float(arguments["seed"])}
