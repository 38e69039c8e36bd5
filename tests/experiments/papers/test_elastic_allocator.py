"""The Elastic Allocator's figures: what their tables and sentences make of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.generators import generate
from experiments.papers import find_figures
from experiments.papers.elastic_allocator import fig_4, fig_5, gap, testbed
from experiments.papers.running import run_figure
from experiments.papers.sweeps import load
from experiments.sweep import plan_runs
from optim import solve

FOLDER = Path(testbed.__file__).parent
SWEEPS = sorted(path for path in FOLDER.glob("*.toml") if path.stem != "claims")


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_is_right_at_full_size(path: Path) -> None:
    plan = plan_runs(load(path))
    assert plan.notes == ()


def test_all_three_are_found() -> None:
    names = [figure.name for figure in find_figures("elastic-allocator")]
    assert names == [f"elastic-allocator/{name}" for name in ("fig-4", "fig-5", "gap")]


def test_the_gap_is_over_at_least_a_hundred_instances() -> None:
    runs = plan_runs(load(FOLDER / "gap.toml")).runs
    assert len({run.instance.name for run in runs}) >= 100
    assert {run.instance.num_nodes for run in runs} == set(range(5, 11))


def test_figures_of_a_run_by_the_referee() -> None:
    made = generate("eoa_testbed", workload=400)
    result = solve(made, "even")
    found = testbed.figures(result.to_json())
    judged = result.evaluation
    assert judged is not None
    assert judged.used_utilisation is not None
    assert judged.deviation is not None
    assert judged.link_utilisation is not None
    assert found["cpu use"] == pytest.approx(100 * judged.used_utilisation)
    assert found["cpu deviation"] == judged.deviation["cpu"]
    assert judged.nodes_used == made.num_nodes
    mean = sum(judged.link_utilisation.values()) / made.num_nodes
    assert found["link use"] == pytest.approx(100 * mean)


def run(label: str, workload: float, use: float, *, feasible: bool = True, gap: float = 0.0) -> Any:
    """One row as a sweep writes it: two nodes, of which the first is in use."""
    evaluation = {
        "used_utilisation": use,
        "used_capacity": 0.5 if use > 0.5 else 1.0,
        "deviation": {"cpu": use / 2},
        "link_utilisation": {"up-n0": use / 10, "up-n1": 0.0},
        "node_tasks": {"n0": 3, "n1": 0},
    }
    exact = label == "optimum"
    return {
        "method_label": label,
        "instance.workload": workload,
        "feasible": feasible,
        "kind": "exact" if exact else "heuristic",
        "gap": gap if exact else None,
        "result": json.dumps({"evaluation": evaluation}),
    }


def test_figure_4_sets_gap_and_broken_limits_beside_the_curves() -> None:
    rows = [
        run("GMA", 200, 0.4), run("Even", 200, 0.3), run("optimum", 200, 0.6),
        run("Random", 200, 0.2), run("Random", 200, 0.35, feasible=False),
        run("GMA", 400, 0.7, feasible=False), run("Even", 400, 0.3), run("optimum", 400, 0.8),
        run("Random", 400, 0.9),
    ]  # fmt: skip
    table = fig_4.table(pd.DataFrame(rows))
    assert list(table[testbed.WORKLOAD]) == [200, 400]
    assert table["GMA, CPU %"].tolist() == pytest.approx([40, 70])
    assert table["Random, CPU %"].tolist() == pytest.approx([27.5, 90])
    assert table["Random's most, CPU %"].tolist() == pytest.approx([35, 90])
    assert table["GMA, bandwidth %"].tolist() == pytest.approx([4, 7])  # the link in use
    assert table[fig_4.GAP].tolist()[0] == pytest.approx(50)
    assert table[fig_4.GAP].isna().tolist() == [False, True]  # a broken plan has no gap
    assert table["Random's plans over a limit (%)"].tolist() == [50, 0]
    assert "at 1 of 2 workloads" in fig_4.measured(table)[0]


def test_only_proved_optima_are_drawn() -> None:
    rows = [run("GMA", 200, 0.4), run("Even", 200, 0.3), run("Random", 200, 0.2)]
    table = fig_4.table(pd.DataFrame([*rows, run("optimum", 200, 0.6, gap=0.1),
                                      run("optimum", 300, 0.6), run("GMA", 300, 0.6),
                                      run("Random", 300, 0.2)]))  # fmt: skip
    assert table["optimum, CPU %"].isna().tolist() == [True, False]


def test_figure_5_compares_deviations() -> None:
    rows = [
        run("GMA", 200, 0.2), run("GMA filling nodes", 200, 0.9), run("Even", 200, 0.4),
        run("optimum", 200, 0.1), run("Random", 200, 0.6),
    ]  # fmt: skip
    table = fig_5.table(pd.DataFrame(rows))
    assert table[fig_5.GAP].tolist() == pytest.approx([50])
    told = fig_5.measured(table)
    assert "at 1 of 1 workloads" in told[0]
    assert "deviation at 1 of 1" in told[2]


def pair(instance: str, nodes: int, greedy: float, best: float | None, **kw: Any) -> list[Any]:
    rows = []
    for first, second in (("GMA", "optimum"), ("GMA spreading", "optimum spreading")):
        levels = [{"value": best, "bound": best}]
        common = {"instance": instance, "instance.nodes": nodes, "time_total": 1.0}
        rows += [
            {**common, "method_label": first, "objective": greedy, "internode_traffic": 30.0,
             "feasible": kw.get("kept", True), "termination": "heuristic", "gap": None,
             "result": "{}"},
            {**common, "method_label": second, "objective": best, "internode_traffic": 20.0,
             "feasible": best is not None, "gap": None if best is None else 0.0,
             "termination": "infeasible" if best is None else "optimal",
             "result": json.dumps({"objective_levels": levels if best else []})},
        ]  # fmt: skip
    return rows


def test_the_gap_table_counts_what_it_leaves_out() -> None:
    rows = pd.DataFrame(
        [
            *pair("a", 5, 0.5, 0.5),
            *pair("b", 5, 0.5, 0.4),
            *pair("c", 6, 0.5, 0.25, kept=False),
            *pair("d", 6, 0.5, None),
        ]
    )
    rows["objective"] = rows["objective"].astype(float)
    rows["gap"] = rows["gap"].astype(float)
    table = gap.table(rows).set_index(["objective", gap.NODES])
    line = table.loc[(gap.FILL, gap.ALL)]
    assert line["instances"] == 4
    assert line["infeasible"] == 1
    assert line["proved"] == 3
    assert line["GMA within limits"] == 2
    assert line["GMA at the optimum"] == 1
    assert line[gap.MEAN] == pytest.approx(10)
    assert line[gap.WORST] == pytest.approx(20)
    assert line[gap.NETWORK] == pytest.approx(50)
    assert "3 of 3 optima proved" in gap.measured(table.reset_index())[0]


@pytest.mark.slow
def test_a_reduced_run_writes_its_page(spark: object, tmp_path: Path) -> None:
    figure = next(f for f in find_figures("elastic-allocator") if f.name.endswith("fig-5"))
    run_figure(figure, tmp_path, reduced=True)
    pages = list(tmp_path.rglob("page.md"))
    assert len(pages) == 1
    assert "reduced" in pages[0].read_text(encoding="utf-8")
