"""Who proves the optima of figures: from rows to the heads of tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from experiments.studies.papers import find_figures
from experiments.studies.papers.figure import to_markdown
from experiments.studies.papers.tables import BY, GAP, certified_of
from optim import Instance, solve


def test_an_optimum_is_certified_for_its_row(repository: Path) -> None:
    instance = Instance.load(repository / "examples" / "hand-8-tasks.json")
    row = certified_of(instance, solve(instance, "imc-exact"))
    assert row == {BY: "certificate", GAP: 0.0}


def test_heads_say_one_solver_where_no_column_says_by_whom() -> None:
    row = {
        "objective": "capacity in use", "nodes": 5, "GMA": 0.5, "optimum": 0.5, "proved": True,
        "GMA keeps the limits": True, "infeasible": False, "GMA, seconds": 0.1,
        "exact, seconds": 1.0, "highest link use of the optimum": 0.8,
        BY: "certificate", GAP: 0.0,
    }  # fmt: skip
    (figure,) = find_figures("elastic-allocator/gap")
    made = figure.table({"gaps": pd.DataFrame([row])})
    table = to_markdown(made)
    assert "| optimal | by | certified gap, worst (%) |" in table
    assert "| 1 | certificate (1) | 0 |" in table
    assert "| optimal, by one solver |" in to_markdown(made.drop(columns="by"))
