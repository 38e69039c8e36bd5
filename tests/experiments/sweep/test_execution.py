"""Sweeps on a local Spark: every kind of run ends as a row, nothing is done twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from experiments.spark.session import SparkFailed
from experiments.sweep import read_rows, read_rows_pandas, run_sweep
from experiments.sweep.execution import Spreader, SweepProgress
from experiments.sweep.plan import plan_runs
from experiments.sweep.row import spark_schema
from experiments.sweep.spec import Spec
from experiments.sweep.store import ResultFolder, list_parts, write_part
from optim import Instance
from optim.errors import InvalidInput
from tests.experiments.sweep import fakes
from tests.experiments.sweep.rows import make_row

Make = Callable[..., Spec]


class Watch:
    """Keeps the moments that it is told."""

    def __init__(self) -> None:
        self.moments: list[SweepProgress] = []

    def __call__(self, moment: SweepProgress) -> None:
        self.moments.append(moment)


def sweep(spec: Spec, out: Path, **options: Any) -> Any:
    options = {"progress": False, "runner": fakes.NAME, **options}
    return run_sweep(spec, out, "local[2]", **options)


@pytest.mark.usefixtures("spark")
def test_every_kind_of_outcome_is_a_row(make_spec: Make, base: Path) -> None:
    pidfile = base / "pid"
    spec = make_spec(
        {
            "method": [
                {"method": "raises"},
                {"method": "exits"},
                {"method": "leaves"},
                {"method": "segfaults"},
                {"method": "sleeps", "run_timeout": 1},
                {"method": "hangs", "run_timeout": 2, "options": {"pidfile": str(pidfile)}},
                {"method": "allocates", "memory_limit": "1GB"},
                {"method": "fills", "memory_limit": "256MB"},
                {"method": "nonsense"},
                "good",
            ],
            "seed": [0, 1],
        }
    )
    watch = Watch()
    summary = sweep(spec, base / "out", progress=nullcontext(watch))
    assert (summary.total, summary.done, summary.failed) == (20, 20, 18)
    assert (watch.moments[-1].done, watch.moments[-1].failed) == (20, 18)
    news = [text for moment in watch.moments for text in moment.news]
    assert len(set(news)) == len(news) == 18
    assert "error: raises on tiny (seed=1): ValueError: boom" in news
    assert "timeout: sleeps on tiny (seed=0): ran longer than 1 s" in news
    rows = read_rows_pandas(base / "out")
    assert rows["run_key"].is_unique
    assert Counter(zip(rows["method"], rows["outcome"], strict=True)) == {
        ("raises", "error"): 2,
        ("exits", "crash"): 2,
        ("leaves", "error"): 2,
        ("segfaults", "crash"): 2,
        ("sleeps", "timeout"): 2,
        ("hangs", "timeout"): 2,
        ("allocates", "memory"): 2,
        ("fills", "memory"): 2,
        ("nonsense", "error"): 2,
        ("good", "ok"): 2,
    }
    by_method = rows.drop_duplicates("method").set_index("method")
    assert "ValueError: boom" in by_method["error"]["raises"]
    assert by_method["exit_code"]["exits"] == 1
    assert by_method["exit_code"]["segfaults"] == -11
    assert "column gap" in by_method["error"]["nonsense"]
    assert sorted(rows[rows["method"] == "good"]["objective"]) == [0, 1]
    if pidfile.exists():  # on a slow machine its time is over before it writes its number
        assert not psutil.pid_exists(int(pidfile.read_text()))


def test_rows_read_by_spark(make_spec: Make, base: Path, spark: SparkSession) -> None:
    out = base / "out [1] {x}"
    sweep(make_spec({"method": ["good"], "seed": [3, 4], "load_share": [0.5]}), out)
    frame = read_rows(spark, out)
    assert frame.schema == spark_schema()
    rows = sorted(frame.collect(), key=lambda row: row["seed"])
    assert [row["objective"] for row in rows] == [3.0, 4.0]
    assert rows[0]["factors"]["load_share"] == "0.5"
    assert [tuple(point) for point in rows[0]["trace"]] == [(0.1, None, 2.0), (0.2, 1.0, None)]
    assert rows[0]["started_at"] is not None
    # rows that were not compacted yet, one of them newer than the one that was
    again = rows[0].asDict(recursive=True)
    newer = {**again, "objective": 9.0, "started_at": make_row("x", 1e9)["started_at"]}
    write_part(ResultFolder(out).parts, [newer, make_row("x")])
    assert sorted(r["objective"] or 0.0 for r in read_rows(spark, out).collect()) == [0, 4, 9]


def test_reading_an_empty_result(base: Path, spark: SparkSession) -> None:
    folder = ResultFolder(base / "out")
    with folder.writing("t"):
        folder.write_marker({"name": "t"})
    assert read_rows(spark, base / "out").count() == 0
    with pytest.raises(InvalidInput, match="no result folder"):
        read_rows(spark, base)


@pytest.mark.usefixtures("spark")
def test_resuming_and_extending_do_only_what_is_missing(make_spec: Make, base: Path) -> None:
    log = base / "log"

    def spec(*seeds: int) -> Spec:
        method = {"method": "marked-0.0", "options": {"log": str(log)}}
        return make_spec({"method": [method], "seed": list(seeds)})

    first = sweep(spec(0, 1, 2), base / "out")
    assert (first.total, first.done, first.skipped) == (3, 3, 0)
    again = sweep(spec(0, 1, 2), base / "out")
    assert (again.done, again.skipped) == (0, 3)
    more = sweep(spec(2, 3, 4, 5), base / "out")
    assert (more.total, more.done, more.skipped) == (4, 3, 1)
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "4", "5"]
    assert sorted(read_rows_pandas(base / "out")["seed"]) == [0, 1, 2, 3, 4, 5]
    marker = json.loads((base / "out" / "sweep.json").read_text())
    assert marker["num_runs"] == len(marker["runs"]) == 4
    assert marker["spec"]["matrix"]["seed"] == [2, 3, 4, 5]
    assert set(marker["versions"]) >= {"python", "streamplace"}


@pytest.mark.usefixtures("spark")
def test_failed_runs_are_repeated_only_when_asked_for(make_spec: Make, base: Path) -> None:
    method = {"method": "fails-once", "options": {"flag": str(base / "flag")}}
    spec = make_spec({"method": ["good", method]})
    assert sweep(spec, base / "out").failed == 1
    kept = sweep(spec, base / "out")
    assert (kept.done, kept.failed) == (0, 1)
    repeated = sweep(spec, base / "out", retry_failed=True)
    assert (repeated.done, repeated.failed, repeated.outcomes) == (1, 0, {"ok": 2})
    assert len(read_rows_pandas(base / "out")) == 2


@pytest.mark.usefixtures("spark")
@pytest.mark.slow
def test_rows_can_go_through_the_driver(make_spec: Make, base: Path) -> None:
    spec = make_spec({"method": ["good", "exits"], "seed": list(range(20))})
    watch = Watch()
    summary = sweep(spec, base / "out", collect=True, progress=nullcontext(watch))
    assert summary.outcomes == {"crash": 20, "ok": 20}
    assert watch.moments[-1].done == 40
    assert read_rows_pandas(base / "out")["run_key"].nunique() == 40


@pytest.mark.usefixtures("spark")
def test_the_default_runner_solves(make_spec: Make, base: Path) -> None:
    spec = make_spec(
        {"method": ["top-down", "storm-even", "mba+sam"], "load_share": [0.5, 0.9]},
        time_limit=20,
    )
    summary = run_sweep(spec, base / "out", "local[2]", progress=False)
    rows = read_rows_pandas(base / "out").set_index("method")
    good = rows.loc[["top-down"]]
    assert summary.total == 6
    assert set(good["outcome"]) == {"ok"}
    assert set(good["objective_name"]) == {"imc_gain"}
    assert (good["imc_gain"] == good["objective"]).all()
    assert good["feasible"].all()
    assert (good["num_violations"] == 0).all()
    assert set(good["instance"]) == {"tiny"}
    assert good["instance_sha256"].nunique() == 2
    result = json.loads(good["result"].iloc[0])
    assert result["format"] == "streamplace.result/1"
    assert result["instance_sha256"] == good["instance_sha256"].iloc[0]
    # no performance models, which this method needs: an error of the run, told as such
    refused = rows.loc[["mba+sam"]]
    assert set(refused["outcome"]) == {"error"}
    assert refused["error"].str.startswith("UnsuitableMethod: ").all()


@pytest.mark.usefixtures("spark")
def test_the_same_plan_as_without_spark(make_spec: Make, base: Path) -> None:
    from optim import solve

    run_sweep(make_spec({"method": ["top-down"]}), base / "out", "local[2]", progress=False)
    result = json.loads(read_rows_pandas(base / "out")["result"].iloc[0])
    plan = solve(Instance.load(base / "tiny.json"), "top-down").plan
    assert plan is not None
    assert result["plan"]["assignment"] == dict(plan.assignment)


@pytest.mark.usefixtures("spark")
def test_an_interruption_keeps_finished_runs_and_ends_the_others(
    make_spec: Make, base: Path
) -> None:
    class Interrupt(Watch):
        def __call__(self, moment: SweepProgress) -> None:
            super().__call__(moment)
            if moment.seconds > 1.5 and len(self.moments) < 10**6:
                self.moments += [moment] * 10**6  # only once
                raise KeyboardInterrupt

    spec = make_spec(
        {
            "method": [{"method": "slow", "options": {"pause": 0.05}}, "sleeps"],
            "seed": list(range(100)),
            "exclude": [{"method": "sleeps", "seed": s} for s in range(1, 100)],
        }
    )
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sweep(spec, base / "out", progress=nullcontext(Interrupt()))
    assert time.monotonic() - began < 60  # it did not wait for the sleeper
    rows = read_rows_pandas(base / "out")
    assert 0 < len(rows) < 100
    assert set(rows["outcome"]) == {"ok"}
    assert not list((base / "out" / "parts").iterdir())


@pytest.mark.usefixtures("spark")
def test_nothing_is_made_when_the_input_is_wrong(make_spec: Make, base: Path) -> None:
    with pytest.raises(InvalidInput, match="is no method"):
        run_sweep(make_spec({"method": ["nothing"]}), base / "out")
    assert not (base / "out").exists()
    (base / "full").mkdir()
    (base / "full" / "file").touch()
    with pytest.raises(InvalidInput, match=r"is not empty and holds no sweep\.json"):
        sweep(make_spec({"method": ["good"]}), base / "full")
    assert [p.name for p in (base / "full").iterdir()] == ["file"]


@pytest.mark.usefixtures("spark")
def test_a_sweep_under_way_keeps_another_one_out(make_spec: Make, base: Path) -> None:
    spec = make_spec({"method": ["good"]})
    with (
        ResultFolder(base / "out").writing("t"),
        pytest.raises(InvalidInput, match="being written by another sweep"),
    ):
        sweep(spec, base / "out")


def test_a_worker_that_cannot_store_rows_ends_the_sweep_and_says_why(
    make_spec: Make, base: Path, spark: SparkSession
) -> None:
    folder = ResultFolder(base / "out")
    runs = plan_runs(make_spec({"method": ["good"]}), fakes.NAME).runs
    with folder.writing("t"):
        spreader = Spreader(spark.sparkContext, folder, "t", fakes.NAME)
        folder.parts.rmdir()
        with pytest.raises(SparkFailed, match=r"FileNotFoundError: .*No such file.*unfinished"):
            spreader.run(runs, [1.0], lambda moment: None)


def test_of_very_many_failures_the_first_are_named(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    failed = {"outcome": "crash", "error": "killed\x1b[2J\nlong trace"}
    rows = [make_row(str(number), **failed) for number in range(60)]
    for part in (rows[:30], rows[30:55], rows[55:]):
        write_part(tmp_path / "parts", part)
    spreader = Spreader.__new__(Spreader)
    spreader._varied, spreader._seen, spreader._named = ["load"], set(), 0
    parts = list_parts(tmp_path / "parts")
    named = [text for upto in (1, 2, 3) for text in spreader._failures(parts[:upto])]
    assert len(named) == 51
    assert named[0].endswith(": killed?[2J")
    assert named[-1] == "more runs failed; the report lists them all"
