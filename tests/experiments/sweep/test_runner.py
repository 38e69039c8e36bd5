"""The default runner: one solve, and every figure of its result in the row."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, columns_of, run
from optim import Instance, solve
from optim.certificates import grade
from optim.errors import InvalidInput


def test_figures_are_the_referee_s(tiny: dict[str, Any]) -> None:
    tiny["nodes"][0]["capacity"]["cpu"] = 300
    tiny["tasks"] = [{"id": f"{o}/{i}", "node": f"n{i + 1}"} for o in ("a", "b") for i in range(2)]
    instance = Instance.from_dict(tiny)
    columns = run(instance.to_json().encode(), {"method": "top-down", "seed": 1})
    result = solve(instance, "top-down", seed=1)
    assert result.evaluation is not None
    assert set(columns) <= set(COLUMNS)
    assert {name: columns[name] for name in FIGURE_COLUMNS} == {
        name: getattr(result.evaluation, name) for name in FIGURE_COLUMNS
    }
    assert columns["objective"] == result.evaluation.imc_gain
    assert columns["sense"] == "max"
    assert columns["num_violations"] == 0
    assert json.loads(columns["result"])["plan"] == result.to_dict()["plan"]
    assert columns["time_total"] >= columns["time_read"] > 0


def test_no_plan_means_no_figures(tiny: dict[str, Any]) -> None:
    for node in tiny["nodes"]:
        node["capacity"]["cpu"] = 40
    columns = columns_of(solve(Instance.from_dict(tiny), "top-down"), 0.0, 0.0)
    assert columns["termination"] == "infeasible"
    assert columns["feasible"] is None
    assert columns["num_violations"] is None
    assert all(columns[name] is None for name in FIGURE_COLUMNS)


def test_a_sweep_may_insist_on_certificates(
    tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve that takes moments is not certified of itself, and what has no bound never."""
    text = Instance.from_dict(tiny).to_json().encode()
    monkeypatch.setattr(grade, "_LEAST", math.inf)  # else what is certified depends on the machine
    plain = run(text, {"method": "imc-brute"})
    assert (plain["bound_by"], plain["certified_bound"]) == ("one solver", None)
    told = run(text, {"method": "imc-brute", "certificate": True})
    assert (told["bound_by"], told["certified_gap"]) == ("certificate", 0)
    assert told["certified_bound"] == told["objective"] == plain["objective"]
    heuristic = run(text, {"method": "top-down", "certificate": True})
    assert heuristic["certified_bound"] is None


def test_errors_are_left_to_the_isolation(tiny: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="slots-milp needs"):
        run(json.dumps(tiny).encode(), {"method": "slots-milp"})
