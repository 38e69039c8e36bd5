"""The Elastic Allocator's figures and tables: what they make of rows, and of single runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from experiments.studies.papers import find_figures
from experiments.studies.papers.elastic_allocator.runs import (
    BEST_FILL,
    BEST_SPREAD,
    BOTH,
    EVEN,
    FILL,
    METHODS,
    RANDOM,
    SPREAD,
    UPLINK,
    cluster_at,
    rates,
    run,
    without_links,
)
from experiments.studies.papers.figure import run_figure
from tests.studies.papers.test_claim import judge_claim

if TYPE_CHECKING:
    from pathlib import Path


def test_all_three_are_found() -> None:
    names = [figure.name for figure in find_figures("elastic-allocator")]
    assert names == [f"elastic-allocator/{name}" for name in ("fig-4", "fig-5", "gap")]


def test_figures_of_a_run_by_the_referee() -> None:
    row, result = run(cluster_at(1300, uplink=UPLINK), EVEN)
    judged = result.evaluation
    assert judged is not None
    assert row["CPU, in use"] == judged.used_utilisation
    assert row["deviation of both"] ** 2 == pytest.approx(
        row["CPU deviation"] ** 2 + row["bandwidth deviation"] ** 2
    )
    assert row["CPU, served"] <= row["CPU, all"]
    assert row["bandwidth, highest"] == judged.max_link_utilisation


def test_a_plan_that_sees_cpu_only_breaks_the_uplinks() -> None:
    tight = cluster_at(1200, uplink=10e6)
    assert not run(tight, EVEN)[0]["kept"]
    assert run(without_links(tight), EVEN)[0]["kept"]


def runs(values: dict[str, list[float]], **common: Any) -> dict[str, pd.DataFrame]:
    """Tables of the testbed: by method a figure for each of two workloads, one seed."""
    lines = [
        {"workload": w, "seed": 0, "method": name, "kept": True, **common}
        | dict.fromkeys(FIGURES, value)
        for name, per_workload in values.items()
        for w, value in zip((200, 1400), per_workload, strict=True)
    ]
    best = [
        {"workload": w, "method": entry.label, "proved": w == 200} | dict.fromkeys(FIGURES, 0.05)
        for w in (200, 1400)
        for entry in (BEST_FILL, BEST_SPREAD)
    ]
    return {"testbed": pd.DataFrame(lines), "optimum": pd.DataFrame(best)}


FIGURES = ("CPU, in use", "bandwidth, in use", "CPU deviation", "bandwidth deviation")
USE, DEVIATION, GAP = find_figures("elastic-allocator")
LABELS = (FILL.label, BOTH.label, SPREAD.label, EVEN.label, RANDOM.label)


def test_figure_4_sets_broken_limits_beside_the_curves() -> None:
    rows = runs(dict(zip(LABELS, ([0.8, 0.9], [0.4, 0.4], [0.4, 0.4], [0.3, 0.95], [0.2, 0.5]),
                         strict=True)))  # fmt: skip
    testbed = rows["testbed"]
    testbed.loc[(testbed["method"] == FILL.label) & (testbed["workload"] == 1400), "kept"] = False
    table = USE.table(rows)
    assert list(table["workload (tuples/s)"]) == [200, 1400]
    assert table[f"{FILL.label}, CPU %"].tolist() == pytest.approx([80, 90])
    assert table[f"{FILL.label}: plans over a limit (%)"].tolist() == [0, 100]
    assert table[f"{BEST_FILL.label}, CPU %"].isna().tolist() == [False, True]  # not proved
    told = USE.measured(table)
    assert "at 1 of 2 workloads" in told[0]
    assert "first at 1400" in told[2]


def test_figure_5_tells_the_papers_range_from_what_is_beyond() -> None:
    rows = runs(dict(zip(LABELS, ([0.9, 0.9], [0.1, 0.5], [0.3, 0.1], [0.2, 0.4], [0.6, 0.6]),
                         strict=True)))  # fmt: skip
    told = DEVIATION.measured(DEVIATION.table(rows))
    assert f"{BOTH.label} is lowest at 1 of 1 workloads of the paper and 0 of 1 beyond" in told[0]
    assert f"{SPREAD.label} is lowest at 0 of 1 workloads of the paper and 1 of 1 beyond" in told[0]


def test_a_claim_on_the_testbed_fails_with_one_seed_that_is_not_below() -> None:
    values = dict(zip(LABELS, ([0.9] * 2, [0.1] * 2, [0.2] * 2, [0.3] * 2, [0.4] * 2), strict=True))
    others = (
        "capacity in use",
        "traffic",
        "CPU, all",
        "CPU, served",
        "CPU, highest",
        "bandwidth, all",
    )
    table = runs(values, **dict.fromkeys(others, 0.5))["testbed"]
    assert judge_claim("elastic_allocator", "EOA-F5a", table).verdict == "same"
    second = table.assign(seed=1)
    second.loc[second["method"] == BOTH.label, "CPU deviation"] = 0.35
    worse = judge_claim("elastic_allocator", "EOA-F5a", pd.concat([table, second]))
    assert worse.verdict == "different"
    assert "at 0 of 1 workloads" in worse.figure


def pair(nodes: int, greedy: float, best: float | None, **kw: Any) -> dict[str, Any]:
    return {
        "objective": "capacity in use", "nodes": nodes, "GMA": greedy, "optimum": best,
        "GMA keeps the limits": kw.get("kept", True), "proved": best is not None,
        "infeasible": best is None, "GMA, seconds": 0.1, "exact, seconds": 1.0,
        "highest link use of the optimum": 0.8, "by": "one solver", "certified gap": None,
    }  # fmt: skip


def test_the_gap_table_counts_what_it_leaves_out() -> None:
    rows = [
        pair(5, 0.5, 0.5),
        pair(5, 0.5, 0.4),
        pair(6, 0.5, 0.25, kept=False),
        pair(6, 0.5, None),
    ]
    table = GAP.table({"gaps": pd.DataFrame(rows)}).set_index("nodes")
    line = table.loc["all"]
    assert (line["instances"], line["infeasible"], line["proved"]) == (4, 1, 3)
    assert (line["GMA within limits"], line["GMA at the optimum"]) == (2, 1)
    assert line["mean gap (%)"] == pytest.approx(10)
    assert line["worst gap (%)"] == pytest.approx(20)
    assert "3 of 3 optima known" in GAP.measured(table.reset_index())[0]


def test_the_day_is_set_to_the_papers_peak() -> None:
    assert len(rates()) == 24
    assert max(rates()) == 1200


def test_the_rows_of_u_are_shares_of_what_crosses() -> None:
    from experiments.studies.papers.elastic_allocator.runs import bandwidth_shares

    instance = cluster_at(600, uplink=UPLINK)
    node = np.arange(instance.num_tasks) % instance.num_nodes
    share, sent = bandwidth_shares(instance, node)
    u, v, rate = instance.pairs
    for n in range(instance.num_nodes):
        crossing = sum(
            r for a, b, r in zip(u, v, rate, strict=True) if (node[a] == n) != (node[b] == n)
        )
        assert sent[n] == pytest.approx(crossing)
        assert share[n].sum() == pytest.approx(1 if crossing else 0)
        assert (share[n][node != n] == 0).all()


@pytest.mark.slow
def test_a_reduced_run_writes_its_page(tmp_path: Path) -> None:
    figure = next(f for f in find_figures("elastic-allocator") if f.name.endswith("gap"))
    run_figure(figure, tmp_path, reduced=True)
    pages = list(tmp_path.rglob("page.md"))
    assert len(pages) == 1
    assert "reduced" in pages[0].read_text(encoding="utf-8")


def test_every_method_of_the_figures_runs() -> None:
    instance = cluster_at(400, uplink=UPLINK)
    assert all(run(instance, entry)[0]["placed"] for entry in METHODS)
