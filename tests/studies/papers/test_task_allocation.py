"""The figures of the CIKM 2014 paper: what their tables and sentences make of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.generators import generate
from experiments.studies.papers import find_figures
from experiments.studies.papers.figure import Figure, run_figure
from experiments.studies.papers.tables import load
from experiments.studies.papers.task_allocation import runs
from experiments.sweep import plan_runs
from optim import Plan, evaluate

FOLDER = Path(runs.__file__).parent
SWEEPS = sorted({*FOLDER.glob("*_*.toml")})
REAL = ("fig_6", "fig_7", "fig_8")


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_sweep_is_right_at_full_size(path: Path) -> None:
    if path.stem == "sec_7_3":
        spec = load(path)
        assert spec.generators[0].seeds == tuple(range(2000))
        return
    # the real jobs' sweeps are the same for every number of nodes: two stand for all
    changes = {"instances.generate.0.nodes": [1, 100]} if path.stem in REAL else None
    plan = plan_runs(load(path, changes))
    assert plan.notes == ()


@pytest.mark.parametrize("stem", REAL)
def test_only_storm_runs_on_fewer_nodes(stem: str) -> None:
    changes = {"instances.generate.0.capacity": [400]}
    runs = plan_runs(load(FOLDER / f"{stem}.toml", changes)).runs
    assert {run.label for run in runs if run.instance.num_nodes < 100} == {"Storm"}
    nodes = {run.instance.num_nodes for run in runs if run.label == "Storm"}
    assert nodes == set(range(1, 101))


def rows(**columns: list[Any]) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    return pd.DataFrame({"feasible": [True] * count, "gap": [0.0] * count, **columns})


def figure(name: str) -> Figure:
    return find_figures(f"task-allocation/{name}")[0]


def test_figure_4a_orders_by_shrinking_ratio() -> None:
    table = figure("fig-4a").table(
        rows(
            **{
                "instance.rates": ["10,10", "10,20", "10,10", "10,20"],
                "method_label": ["TL by IMC", "TL by IMC", *["TL by significance"] * 2],
                "imc_gain": [7.0, 10.0, 9.0, 10.0],
            }
        )
    )
    assert list(table["IMC of pair 2 / pair 1"]) == [2.0, 1.0]
    said = figure("fig-4a").measured(table)[1]
    assert "part at the ratio 1;" in said and "29 % better" in said


def test_figure_4b_has_one_line_a_size_and_proved_optima_alone() -> None:
    table = figure("fig-4b").table(
        rows(
            **{
                "instance.tasks": ["10,10"] * 4 + ["10,70"] * 4,
                "method_label": ["TD", "TL, row by row", "TL, diagonal", "optimum"] * 2,
                "imc_gain": [2.0, 1.2, 2.0, 2.0, 2.0, 1.2, 1.0, 2.5],
                "gap": [None, None, None, 0.0, None, None, None, 0.1],
            }
        )
    )
    assert list(table["tasks of the second group"]) == [10, 70]
    assert list(table["optimum"].isna()) == [False, True]
    table.loc[1, "optimum"] = 2.0
    assert "diagonal from 2 to 1 MB/s" in figure("fig-4b").measured(table)[1]


def real_rows() -> pd.DataFrame:
    names = ["TD", "TL", "imc-search", "optimum"]
    lines = [(100.0, 100, name, gain) for name, gain in zip(names, [4.0, 2.0, 5, 5], strict=True)]
    lines += [(100.0, workers, "Storm", gain) for workers, gain in [(5, 2.0), (3, 3.0), (2, 8.0)]]
    frame = pd.DataFrame(lines, columns=["instance.capacity", "num_nodes", "method_label", "g"])
    # on two workers a node is overloaded, so that three are the fewest
    frame["feasible"] = frame["num_nodes"] > 2
    frame["gap"] = np.where(frame["method_label"] == "optimum", 0.0, np.nan)
    return frame.rename(columns={"g": "imc_gain"})


def test_storm_gets_the_fewest_workers_that_hold_the_job() -> None:
    table = figure("fig-6").table(real_rows())
    assert table.at[0, "Storm"] == 3.0
    assert table.at[0, "Storm's workers"] == 3
    told = " ".join(figure("fig-6").measured(table))
    assert "33 % better than Storm" in told
    assert "100 % better than TL" in told
    assert "up to 1 % of the job's traffic" in told
    assert "TD is never below 80 %" in told


def test_an_optimum_that_is_not_proved_is_left_out_and_counted() -> None:
    frame = real_rows()
    frame.loc[frame["method_label"] == "optimum", "gap"] = 0.01
    table = figure("fig-6").table(frame)
    assert len(table) == 1
    assert figure("fig-6").measured(table)[2].endswith("by one solver, at 0 of 1 capacities.")


def test_capacities_at_which_one_fails_are_left_out() -> None:
    frame = real_rows().replace({"method_label": {"TD": "TD-RS", "imc-search": "TD-IMC"}})
    assert len(figure("fig-8").table(frame)) == 1
    frame.loc[frame["method_label"] == "TL", "feasible"] = False
    assert len(figure("fig-8").table(frame)) == 0


def test_section_7_3_sums_over_graphs_and_an_open_certificate_leaves_no_gap() -> None:
    runs = rows(
        instance=["a"] * 4 + ["b"] * 4,
        method_label=["optimum (imc-exact)", "TD", "TL", "imc-search"] * 2,
        imc_gain=[10.0, 10.0, 5.0, 10.0, 20.0, 14.0, 19.0, 20.0],
        gap=[0.0, None, None, None, 0.5, None, None, None],
        time_solve=[0.002] * 8,
        bound_by=["certificate", None, None, None, "one solver", None, None, None],
        certified_gap=[0.01, None, None, None, None, None, None, None],
    )
    table = figure("sec-7-3").table(runs)
    by = table.set_index("method")
    assert by.at["TD", "% of the optimum"] == pytest.approx(80)
    assert by.at["TD", "worst graph (%)"] == pytest.approx(70)
    assert by.at["TD", "graphs at the optimum"] == 1
    best = by.loc["optimum (imc-exact)"]
    assert (best["proved"], best["by"]) == (1, "certificate (1)")
    assert best["certified gap, worst (%)"] == 1.0
    said = figure("sec-7-3").measured(table)
    assert "TD reaches 80.0 % and TL 80.0 %" in said[0]
    assert "by certificate (1), on 1 of 2 graphs" in said[1]
    runs["gap"] = 0.0  # the second optimum, proved by one solver, has no certificate
    best = figure("sec-7-3").table(runs).set_index("method").loc["optimum (imc-exact)"]
    assert best["by"] == "certificate (1), one solver (1)"
    assert pd.isna(best["certified gap, worst (%)"])


def test_calls_are_counted_second_by_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 100.0, 0.25))
    monkeypatch.setattr(runs.time, "process_time", lambda: float(next(clock)))
    calls: list[None] = []
    counts = runs.count_calls(lambda: calls.append(None), 2)
    # one call to warm up, then one a quarter of a second
    assert counts == [4, 8]
    assert len(calls) == 9


def test_the_kernels_timed_place_every_task() -> None:
    state = runs.prepared("TD", nodes=8)()
    assert state.left.sum() == 0  # type: ignore[attr-defined]
    placed = runs.prepared("TL", nodes=8)()
    assert np.min(placed) >= 0  # type: ignore[call-overload]


def test_throughput_is_not_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {"TD": 100, "TL": 1}
    monkeypatch.setattr(runs, "prepared", calls.pop)
    counts = lambda calls, seconds: [calls * at for at in range(1, seconds + 1)]  # noqa: E731
    monkeypatch.setattr(runs, "count_calls", counts)
    for _ in range(2):  # a second call of `prepared` would find nothing
        table = figure("fig-5").table(figure("fig-5").rows(tmp_path, True))
    assert list(table["TD / TL"]) == [100, 100, 100]
    said = figure("fig-5").measured(table)
    assert "TD makes 100 allocations a second, TL 1: a ratio of 100" in said[0]


def test_the_rate_never_exceeds_its_level() -> None:
    found = dict(runs.rates(17, 0.5))
    assert all(rate <= 1 for rate in found.values())
    assert max(found, key=lambda minute: found[minute]) < 5
    assert runs.NOISE < runs.THRESHOLD / 2, "noise alone would set planning off"


def test_storm_on_the_fewest_workers_overloads_nothing() -> None:
    job = generate("twitter", capacity=runs.CAPACITY)
    node = runs.storm(job).node
    assert evaluate(job, Plan.from_indices(job, node)).feasible
    fewer = node % node.max()
    assert not evaluate(job, Plan.from_indices(job, fewer)).feasible


def test_figure_9_plans_again_only_when_the_rate_changes(tmp_path: Path) -> None:
    table = run_figure(figure("fig-9"), tmp_path, reduced=True).table
    again = table[table["moves of TD-RC"] > 0]["minute"]
    assert list(again) == [2.0, 5.0]
    gain = table["TD-RC (MB/s)"]
    assert gain.min() > 0.9 * gain.max()
    assert table["TD (MB/s)"].min() < 0.6 * table["TD (MB/s)"].max()
