"""What is told of another objective: only what beats the plan at it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from optim.figures.catalogue import OBJECTIVES
from optim.format.instance import Instance
from streamplace.cli import instead


@pytest.mark.parametrize(("inside", "told"), [(14.0, True), (13.0, False), (10.5, False)])
def test_only_what_is_better_is_told(
    inside: float, told: bool, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(name: str, value: float) -> Any:
        objective = OBJECTIVES[name].of(value)
        evaluation = SimpleNamespace(imc_gain=13.0)
        return SimpleNamespace(
            method="imc-milp", objective=objective, evaluation=evaluation, feasible=True,
            moves=(1, 2), ignored=(),
        )  # fmt: skip

    monkeypatch.setattr(instead, "solve", lambda *_, **__: answer("imc_gain", inside))
    instance = Instance.load(repository / "examples" / "flink-drain.json")
    console = Console(width=120, record=True, quiet=False)
    with console.capture() as capture:
        instead.print_others(console, instance, answer("load_distance", 0.0))
    words = "instead  imc-milp keeps inside nodes 14 MB/s with 2 moves; this plan 13 MB/s\n"
    assert capture.get() == (words if told else "")
