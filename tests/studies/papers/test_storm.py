"""The figures on Storm and the cross comparison: sweeps that can be read, tables from rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.generators import generate
from experiments.studies.papers import find_figures
from experiments.studies.papers.cross_comparison.runs import can_run
from experiments.studies.papers.tables import load
from optim.methods.solve import solve

FIGURES = find_figures("cross-comparison")


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_sweeps_can_be_read(figure: Any, repository: Path) -> None:
    paper, name = (part.replace("-", "_") for part in figure.name.split("/"))
    path = repository / "experiments" / "studies" / "papers" / paper / f"{name}.toml"
    assert load(path).name == figure.name
    assert figure.words
    assert figure.size


def row(label: str, seed: int, nodes: float, slots: float, **more: Any) -> dict:
    line = {"sweep": "stages", "value": "1", "seed": seed}
    traffic = {"nodes_traffic": nodes, "slots_traffic": slots}
    return {**line, "scheduler": label, **traffic, "proved": None, **more}


def test_shares_are_means_and_unproved_optima_are_left_out() -> None:
    rows = [row("default", s, 80.0, 100.0) for s in (0, 1)]
    rows += [row("online", 0, 20.0, 40.0), row("online", 1, 60.0, 80.0)]
    rows += [
        row("optimum", 0, 20.0, 20.0, proved=True),
        row("optimum", 1, 10.0, 10.0, proved=False),
    ]
    frame = pd.DataFrame(rows)
    proofs = frame["scheduler"] == "optimum"
    (figure,) = find_figures("storm/stages")
    table = figure.table(
        {"clusters": frame[~proofs].drop(columns="proved"), "optima": frame[proofs]}
    )
    line = table.iloc[0]
    assert line["stages of bolts"] == 1
    assert line["default, between nodes (%)"] == 80.0
    assert line["online, between nodes (%)"] == 40.0
    assert line["online, between slots (%)"] == 60.0
    assert pd.isna(line["optimum, between nodes (%)"])  # proved for one seed of two
    said = figure.measured(table)
    assert any(": online 50 % (" in sentence for sentence in said)


def test_methods_without_alpha_stand_in_every_line() -> None:
    busy = {"sweep": "utilisation", "value": "60"}
    lines = [
        row(label, 0, 60.0 - 10 * alpha, 60.0, alpha=alpha)
        for alpha in (0.0, 1.0)
        for label in ("offline", "online, gamma 1.5")
    ]
    (figure,) = find_figures("storm/alpha")
    table = figure.table(
        {
            "alphas": pd.DataFrame(lines),
            "clusters": pd.DataFrame([row("default", 0, 80.0, 80.0, **busy)]),
            "optima": pd.DataFrame([row("optimum", 0, 20.0, 20.0, **{**busy, "proved": True})]),
        }
    )
    assert table["alpha"].tolist() == [0.0, 1.0]
    assert table["default, between nodes (%)"].tolist() == [80.0, 80.0]
    assert table["online, between nodes (%)"].tolist() == [60.0, 50.0]


def test_one_line_a_method() -> None:
    size = {"executors": 8, "components": 4, "workers": 2, "nodes": 3}
    made = generate("storm_cluster", 0, **size, utilisation=50)
    rows = []
    for method in ("storm-online", "top-down"):
        result = solve(made, method, ignore=() if method == "storm-online" else ("slots",))
        rows.append(
            {
                "method_label": method,
                "termination": "heuristic",
                "time_build": 0.0,
                "time_solve": 0.5,
                "result": result.to_json(),
                "storm": can_run(made, json.loads(result.to_json())),
            }
        )
    (figure,) = find_figures("cross-comparison/small")
    table = figure.table(pd.DataFrame(rows))
    assert table["method"].tolist() == ["storm-online", "top-down"]
    assert table["seconds"].tolist() == pytest.approx([0.5, 0.5])
    assert pd.isna(table["traffic between slots (%)"].iloc[1])
    assert figure.measured(table)


def test_plans_that_storm_can_run() -> None:
    made = generate("storm_cluster", 0, executors=8, components=4, workers=2, nodes=3, slots=1)
    exact = json.loads(solve(made, "storm-milp").to_json())
    if exact["plan"] is not None:
        assert can_run(made, exact)
        everywhere = json.loads(json.dumps(exact))
        everywhere["plan"].pop("slots")
        for i, task in enumerate(everywhere["plan"]["assignment"]):
            everywhere["plan"]["assignment"][task] = made.nodes.ids[i % 3]
        assert not can_run(made, everywhere)  # three nodes, two workers
    assert not can_run(made, {"plan": None})
