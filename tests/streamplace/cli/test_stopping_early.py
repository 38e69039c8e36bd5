"""A signal before a method has a plan of its own: the plans of its family, or staying, are kept."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

import formulations.elastic.milp
import formulations.rebalancing.balance.milp
import formulations.task_allocation.milp
from experiments.generators import generate
from optim.solvers import solve as linear
from tests.command import run_command

EARLY = {
    "eoa-milp": (("eoa_random", {"nodes": 4, "operators": 5}), formulations.elastic.milp),
    "imc-milp": (("community", {"tasks": 12, "nodes": 3}), formulations.task_allocation.milp),
    "balance-milp": (
        ("cluster", {"nodes": 5, "varies": 60.0, "shifted": 60.0}),
        formulations.rebalancing.balance.milp,
    ),
}
MOMENTS = [
    ("eoa-milp", "warm_up"),
    ("eoa-milp", "_form"),
    ("eoa-milp", "solver"),
    ("imc-milp", "build"),
    ("imc-milp", "solver"),
    ("balance-milp", "warm_up"),
    ("balance-milp", "solver"),
]


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize(("method", "moment"), MOMENTS)
def test_an_early_signal_keeps_a_plan(
    method: str, moment: str, name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind, parameters), module = EARLY[method]
    generate(kind, seed=1, **parameters).save(tmp_path / "made.json")
    owner, point = (linear, "_ask") if moment == "solver" else (module, moment)
    plain = getattr(owner, point)
    came: list[str] = []

    def signalled(*given: Any, **named: Any) -> Any:
        came.append(moment)
        if len(came) == 1:
            os.kill(os.getpid(), getattr(signal, name))
        return plain(*given, **named)

    monkeypatch.setattr(owner, point, signalled)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    words = ["solve", "made.json", "--method", method, "--json", "-q"]
    words += ["--option", "form=full"] if method == "balance-milp" else []
    words += ["--solver", "cbc"] if method == "eoa-milp" else []  # HiGHS may need no process
    done = run_command(words, tmp_path, {})
    assert came
    assert done.returncode == code, done.stderr
    result = json.loads(done.stdout)
    assert result["termination"] == "interrupted"
    assert result["evaluation"]["feasible"]
    assert not list((tmp_path / "tmp").iterdir())
