"""The figures of the CIKM 2014 paper: what their tables and sentences make of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.generators import generate
from experiments.studies.papers import find_figures
from experiments.studies.papers.figure import run_figure
from experiments.studies.papers.sweeps import load
from experiments.studies.papers.task_allocation import fig_9, figures, throughput
from experiments.studies.papers.task_allocation.figures import proved_only
from experiments.sweep import plan_runs
from optim import Plan, evaluate
from optim.util.store import remembered

FOLDER = Path(figures.__file__).parent
SWEEPS = sorted(path for path in FOLDER.glob("*.toml") if path.stem != "claims")
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


def test_figure_4a_orders_by_shrinking_ratio() -> None:
    table = figures.pair_table(
        rows(
            **{
                "instance.rates": ["10,10", "10,20", "10,10", "10,20"],
                "method_label": ["TL by IMC", "TL by IMC", *["TL by significance"] * 2],
                "imc_gain": [7.0, 10.0, 9.0, 10.0],
            }
        )
    )
    assert list(table[figures.RATIO]) == [2.0, 1.0]
    assert "part at the ratio 1;" in figures.pair_measured(table)[1]
    assert "29 % better" in figures.pair_measured(table)[1]


def test_only_proved_optima_are_shown_as_such() -> None:
    shown = proved_only(
        rows(method_label=["optimum", "optimum", "TD"], gap=[0.0, 0.1, None], imc_gain=[3, 4, 2.0])
    )
    assert list(shown["imc_gain"].isna()) == [False, True, False]


def test_figure_4b_has_one_line_a_size() -> None:
    labels = ["TD", figures.ROW, figures.DIAGONAL, "optimum"]
    table = figures.split_table(
        rows(
            **{
                "instance.tasks": ["10,10"] * 4 + ["10,70"] * 4,
                "method_label": labels * 2,
                "imc_gain": [2.0, 1.2, 2.0, 2.0, 2.0, 1.2, 1.0, 2.0],
            }
        )
    )
    assert list(table[figures.TASKS]) == [10, 70]
    assert "diagonal from 2 to 1 MB/s" in figures.split_measured(table)[1]


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
    table = figures.gains(real_rows(), ("TD", "TL", "Storm", "imc-search", "optimum"))
    assert table.at[0, figures.STORM] == 3.0
    assert table.at[0, figures.WORKERS] == 3
    told = " ".join(figures.compared(table, 10.0))
    assert "33 % better than Storm" in told
    assert "100 % better than TL" in told
    assert "up to 10 % of the job's traffic" in told
    assert "TD is never below 80 %" in told


def test_an_optimum_that_is_not_proved_is_left_out_and_counted() -> None:
    frame = real_rows()
    frame.loc[frame["method_label"] == "optimum", "gap"] = 0.01
    table = figures.gains(frame, ("TD", "TL", "Storm", "imc-search", "optimum"))
    assert len(table) == 1
    assert "by one solver, at 0 of 1" in figures.compared(table, 10.0)[2]


def test_capacities_at_which_one_fails_are_left_out() -> None:
    frame = real_rows()
    frame.loc[frame["method_label"] == "TL", "feasible"] = False
    assert len(figures.gains(frame, ("TD", "Storm"))) == 1
    assert len(figures.gains(frame, ("TD", "TL", "Storm"))) == 0


def test_section_7_3_sums_over_graphs() -> None:
    labels = [figures.OPTIMUM, "TD", "TL", "imc-search"]
    table = figures.graphs_table(
        rows(
            instance=["a"] * 4 + ["b"] * 4,
            method_label=labels * 2,
            imc_gain=[10.0, 10.0, 5.0, 10.0, 20.0, 14.0, 19.0, 20.0],
            gap=[0.0, None, None, None, 0.5, None, None, None],
            time_solve=[0.002] * 8,
        )
    )
    by = table.set_index("method")
    assert by.at["TD", figures.SHARE] == pytest.approx(80)
    assert by.at["TD", "worst graph (%)"] == pytest.approx(70)
    assert by.at["TD", "graphs at the optimum"] == 1
    assert by.at[figures.OPTIMUM, "proved"] == 1
    assert "TD reaches 80.0 % and TL 80.0 %" in figures.graphs_measured(table)[0]


def test_calls_are_counted_second_by_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 100.0, 0.25))
    monkeypatch.setattr(throughput.time, "process_time", lambda: float(next(clock)))
    calls: list[None] = []
    counts = throughput.count_calls(lambda: calls.append(None), 2)
    # one call to warm up, then one a quarter of a second
    assert counts == [4, 8]
    assert len(calls) == 9


def test_the_kernels_timed_place_every_task() -> None:
    state = throughput.prepared("TD", nodes=8)()
    assert state.left.sum() == 0  # type: ignore[attr-defined]
    placed = throughput.prepared("TL", nodes=8)()
    assert np.min(placed) >= 0  # type: ignore[call-overload]


def test_throughput_is_not_measured_twice(tmp_path: Path) -> None:
    for name, counts in (("TD", [100, 200, 300]), ("TL", [1, 2, 3])):
        asked = {"method": name, "seconds": throughput.SECONDS_REDUCED}
        assert remembered(tmp_path / f"{name}.json", asked, lambda c=counts: c) == counts
    table = throughput.table(throughput.measure(tmp_path, True))
    assert list(table["TD / TL"]) == [100, 100, 100]
    assert (
        "TD makes 100 allocations a second, TL 1: a ratio of 100" in throughput.measured(table)[0]
    )


def test_the_rate_never_exceeds_its_level() -> None:
    found = dict(fig_9.rates(17, 0.5))
    assert all(rate <= 1 for rate in found.values())
    assert max(found, key=lambda minute: found[minute]) < 5
    assert fig_9.NOISE < fig_9.THRESHOLD / 2, "noise alone would set planning off"


def test_storm_on_the_fewest_workers_overloads_nothing() -> None:
    job = generate("twitter", capacity=fig_9.CAPACITY)
    node = fig_9.plan_storm(job)
    assert evaluate(job, Plan.from_indices(job, node)).feasible
    fewer = node % node.max()
    assert not evaluate(job, Plan.from_indices(job, fewer)).feasible


def test_figure_9_plans_again_only_when_the_rate_changes(tmp_path: Path) -> None:
    (figure,) = find_figures("task-allocation/fig-9")
    table = run_figure(figure, tmp_path, reduced=True).table
    again = table[table["moves of TD-RC"] > 0][fig_9.MINUTE]
    assert list(again) == [2.0, 5.0]
    gain = table["TD-RC (MB/s)"]
    assert gain.min() > 0.9 * gain.max()
    assert table["TD (MB/s)"].min() < 0.6 * table["TD (MB/s)"].max()
