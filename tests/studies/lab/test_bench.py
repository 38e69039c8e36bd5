"""The bench's parts that need no cluster: shares of a core, quotas of several plans, its table."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.studies.lab import flink_bench, machines, storm_bench
from experiments.studies.lab.flink_bench import (
    RUNS,
    as_planned,
    bench_table,
    earlier,
    foresee,
    joined,
)
from experiments.studies.lab.machines import Bench
from experiments.studies.lab.runner import LabError
from optim import Instance
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.fetch import CLOCK

PAGE = Path(__file__).resolve().parents[3] / "docs" / "flink.md"


def sheet(counts: dict[str, int]) -> Sheet:
    number = sum(counts.values())
    vertices = {"v1": "clean"}
    return Sheet(
        (Group(operator="clean", job="j", vertices=vertices, parallelism=number, counts=counts),),
        {},
    )


def test_quotas_of_several_plans_stand_side_by_side() -> None:
    one, two = sheet({"a": 2, "b": 1}), sheet({"b": 3})
    assert joined([one, two], "a")["external-resources"] == [one.resource(one.groups[0])]
    found = joined([one, two], "b")
    names = [s.resource(s.groups[0]) for s in (one, two)]
    assert found["external-resources"] == names
    assert [found[f"external-resource.{name}.amount"] for name in names] == [1, 3]


def test_subtasks_are_counted_whichever_index_they_have() -> None:
    plan = sheet({"a": 2, "b": 1})
    assert as_planned(plan, {"clean/0": "b", "clean/1": "a", "clean/2": "a"}) == 3
    assert as_planned(plan, {"clean/0": "b", "clean/1": "b", "clean/2": "a"}) == 2


def test_what_is_full_first_is_told() -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "two",
        "nodes": [{"id": n, "capacity": {"cpu": 4}} for n in "ab"],
        "operators": [
            {"id": "o", "group": {"tasks": 1, "load": {"cpu": 1}}},
            {"id": "p", "group": {"tasks": 1, "load": {"cpu": 1}}},
        ],
        "streams": [{"from": "o", "to": "p", "rate": 2}],
        "links": [{"id": "out", "nodes": ["a"], "capacity": 5, "direction": "out"}],
    }
    two = Instance.from_dict(document)
    assert foresee(two, {"o/0": "a", "p/0": "b"}) == (2.5, "out", 1.0)
    assert foresee(two, {"o/0": "a", "p/0": "a"})[::2] == (2.0, 0.0)


def test_a_share_of_a_core_in_both_versions_of_control_groups(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, name in ((old, "cpu.cfs_quota_us"), (new, "cpu.max")):
        folder.mkdir()
        (folder / name).touch()
    machines.set_share(old, 0.25)
    machines.set_share(new, 0.25)
    assert (old / "cpu.cfs_quota_us").read_text() == "2500"
    assert (new / "cpu.max").read_text() == "2500 10000"
    machines.set_share(old, None)
    machines.set_share(new, None)
    assert (old / "cpu.cfs_quota_us").read_text() == "-1"
    assert (new / "cpu.max").read_text() == "max 10000"


@pytest.mark.parametrize("bench", [flink_bench.BENCH, storm_bench.BENCH], ids=lambda b: b.name)
def test_without_root_it_is_skipped(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["bench", "--folder", str(tmp_path / "none")])
    assert bench.main() == 0
    assert capsys.readouterr().out.startswith(f"{bench.name}: skipped: it takes root")
    assert not (tmp_path / "none").exists()


def test_runs_are_stored_as_they_come_and_a_failed_one_is_not_the_end(tmp_path: Path) -> None:
    def fails() -> dict[str, Any]:
        raise LabError("does not run")

    rows = [{"shape": "s", "policy": policy, "rate": 1 / 3} for policy in "pq"]
    runs = [("a", lambda: rows[0]), ("b", fails), ("c", lambda: rows[1])]
    bench = Bench("b", "", lambda *_: runs, lambda found: f"{len(found)}", 1, 1.0, lambda: None)
    told, well = bench.work(tmp_path, Namespace())
    assert (tmp_path / "runs.csv").read_text() == "shape,policy,rate\ns,p,0.3333\ns,q,0.3333\n"
    assert told.endswith("runs.csv, 1 runs failed") and not well


def test_the_page_has_the_table_of_the_runs() -> None:
    assert bench_table(pd.read_csv(RUNS)) in PAGE.read_text()


def test_a_table_of_topologies_has_means_and_their_order() -> None:
    row = dict.fromkeys(("nodes", "predicted_share", "share", "crossed", "predicted_rate"), 1.0)
    runs = pd.DataFrame(
        {"shape": "chain", "policy": policy, "latency": latency, "rate": 10.0, **row}
        for policy, latency in (("even", 4.0), ("exact IMC", 1.0), ("even", 6.0))
    )
    table = storm_bench.bench_table(runs)
    assert "| chain | even | 2 | 1 | 1.000 | 1.000 | 1 | 5.0 | 1 | 10 |" in table
    assert table.endswith("- chain, by latency: exact IMC, even.\n")


def test_a_clock_that_began_anew_is_the_earlier_one() -> None:
    """Of the first subtask the store still had the run before a rescale."""
    at = [
        {0: dict.fromkeys(CLOCK, seconds), 1: dict.fromkeys(CLOCK, 9.0)}
        for seconds in (90.0, 2.0, 5.0)
    ]
    assert earlier(at[0], at[1]) == at[1]
    assert earlier(at[1], at[2]) == at[1]
    assert earlier({}, at[2]) == at[2]
