"""Periods of a trace as instances, placements, the command, and the replay of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.replay.periods import load_trace
from experiments.traces.folder import TraceFolder
from experiments.traces.instances import InstanceMaker, instances, load_scale, period_range, place
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.cli.main import main
from tests.experiments.traces.cases import job
from tests.experiments.traces.made import TABLES, load, made, rate


def test_an_instance_of_a_period(tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, TABLES))
    first = maker.instance(0, np.zeros(7))
    assert first.tasks.ids == (*(f"user/{i}" for i in range(4)), *(f"page/{i}" for i in range(3)))
    assert first.tasks.load[:, 0].tolist() == pytest.approx([0, 0, 0, 0.01, 0, 0.02, 0])
    assert first.tasks.state[:4].tolist() == [0, 0, 0, 10]
    assert np.isnan(first.tasks.state[4:]).all()
    assert first.total_traffic == pytest.approx(0.01)
    assert first.tasks.node.tolist() == [0] * 7
    assert first.labels["start"] == "1970-01-01T00:00:00Z"
    again = Instance.from_json(first.to_json())
    assert again.sha256 == first.sha256


@pytest.mark.parametrize("row", [load(0, "someone", 0, 1.0), load(0, "user", 4, 1.0)])
def test_key_groups_that_the_job_does_not_have(row: dict[str, Any], tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, {**TABLES, "loads": [row]}))
    with pytest.raises(InvalidInput, match=r"names key groups that the job does not have"):
        maker.instance(0)


def test_state_goes_on_and_an_empty_period_is_empty(tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, TABLES))
    quiet = maker.instance(1)
    assert float(quiet.total_load[0]) == 0.0
    assert quiet.total_traffic == 0.0
    assert quiet.tasks.state[:4].tolist() == [5, 0, 0, 10]
    assert not quiet.has_current
    assert maker.instance(2).tasks.state[:4].tolist() == [5, 0, 0, 20]
    late = InstanceMaker(TraceFolder.open(tmp_path / "trace"), 2, 2)
    assert late.instance(2).sha256 == maker.instance(2).sha256


def test_utilisation_scales_the_mean_load(tmp_path: Path) -> None:
    trace = made(tmp_path, TABLES, cluster__utilisation=30)
    maker = InstanceMaker(trace)
    loads = [float(maker.instance(p).total_load[0]) for p in range(3)]
    assert sum(loads) / 3 == pytest.approx(0.3 * 200)
    assert load_scale(trace) == pytest.approx(60 * 3 * 3600 / 144)


def test_placements(tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, TABLES))
    assert place(maker, "round-robin", 0).tolist() == [0, 1, 0, 1, 0, 1, 0]
    worst = place(maker, "worst", 0)
    # page/1 hears from user/0 and user/3, which lie on different nodes: the lesser 72 of 144
    assert worst.tolist()[:4] == [0, 1, 0, 1]
    assert np.bincount(worst[:4]).tolist() == [2, 2]
    within = {node: 72 * (node == 0) + 72 * (node == 1) for node in range(2)}
    assert within[int(worst[5])] == 72
    assert sorted(np.bincount(worst[4:]).tolist()) == [1, 2]
    best = place(maker, "top-down", 2)
    assert best[0] == best[3] == best[5]


def test_the_worst_placement_collocates_nothing_that_it_need_not(tmp_path: Path) -> None:
    pairs = [rate(p, g, g % 3, 1.0 + g) for p in (0, 2) for g in range(4)]
    maker = InstanceMaker(made(tmp_path, {**TABLES, "rates": pairs}, cluster__nodes=3))
    node = place(maker, "worst", 0)
    gain = maker.instance(0, node).flows.collocated(node.astype(np.int32), 3)
    assert gain == 0


def test_placements_carried_from_period_to_period(tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, TABLES))
    still = list(instances(maker, range(3), "round-robin"))
    assert all((i.tasks.node == still[0].tasks.node).all() for i in still)
    carried = list(instances(maker, range(2, 3), "round-robin", carry="top-down"))
    assert [i.name for i in carried] == ["clicks-p2"]
    assert carried[0].tasks.node[3] == carried[0].tasks.node[5], "planned on period 0"
    whole = list(instances(maker, range(3), "round-robin", carry="top-down"))
    assert whole[2].sha256 == carried[0].sha256


NO_TRAFFIC = {**TABLES, "rates": [rate(2, 0, 1, 72.0)]}


def test_a_period_that_a_method_cannot_plan_changes_nothing(tmp_path: Path) -> None:
    """Period 0 has load and no traffic, which top-down needs."""
    maker = InstanceMaker(made(tmp_path, NO_TRAFFIC))
    unplanned: dict[int, str] = {}
    found = list(instances(maker, range(3), "round-robin", "top-down", unplanned=unplanned))
    assert [i.name for i in found] == ["clicks-p0", "clicks-p1", "clicks-p2"]
    assert all((i.tasks.node == found[0].tasks.node).all() for i in found)
    assert list(unplanned) == [0]
    assert "traffic" in unplanned[0]


def test_the_command_tells_periods_without_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(made(tmp_path, NO_TRAFFIC).path)
    given = [path, "--instances", "all", "--carry", "top-down"]
    assert run(*given) == 0
    told = capsys.readouterr().out
    assert "no plan of top-down for 0: nothing moved there; first: " in told
    assert run(*given, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["period"] for entry in told["without_plan"]] == [0]
    assert len(told["instances"]) == 3


def test_a_placement_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    maker = InstanceMaker(made(tmp_path, NO_TRAFFIC))
    with pytest.raises(InvalidInput, match=r"'top-down' finds no plan for period 0: .*traffic"):
        place(maker, "top-down", 0)


@pytest.mark.parametrize(
    ("text", "expected"), [("all", [0, 1, 2]), ("1", [1]), ("0-2", [0, 1, 2]), ("2-2", [2])]
)
def test_period_ranges(text: str, expected: list[int]) -> None:
    assert list(period_range(text, 3)) == expected


@pytest.mark.parametrize("text", ["", "x", "3", "2-1", "-1", "1-", "0-3", "1e9", "²"])
def test_period_ranges_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match="--instances"):
        period_range(text, 3)


def run(*arguments: str) -> int:
    return main(["trace", *arguments])


def test_command_on_a_finished_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, TABLES)
    folder = str(tmp_path / "trace")
    assert run(folder, "--instances", "0-1", "--placement", "top-down", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["periods"] == 3
    assert told["rows"] == {"loads": 3, "rates": 3, "states": 3}
    found = [Instance.load(path) for path in told["instances"]]
    assert [i.name for i in found] == ["clicks-p0", "clicks-p1"]
    assert all(i.has_current for i in found)
    assert run(folder) == 0
    assert "3 periods from 1970-01-01T00:00:00Z" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["job.toml", "-o", "x"], "job.toml does not exist"),
        (["."], "folder without a trace"),
        (["trace", "--instances", "9"], "--instances"),
        (["trace", "--instances", "0", "--placement", "best"], "'best' is no placement"),
        (["trace", "--instances", "0", "--carry", "best"], "'best' is no method"),
        (["trace", "-o", "elsewhere"], "--output: 'elsewhere' is of no use with a finished trace"),
        (["trace", "--scratch", "x"], "--scratch: 'x' is of no use with a finished trace"),
        (["trace", "--master", "yarn"], "--master: 'yarn' is of no use with a finished trace"),
        (["trace", "--placement", "worst"], "--placement: 'worst' is of use for instances only"),
        (["trace", "--carry", "cola"], "--carry: 'cola' is of use for instances only"),
        (["trace", "--seed", "0"], "--seed: 0 is of use for instances only"),
        # the job does not exist: these are told before anything is looked at
        (["job.toml", "-o", "x", "--instances", "0-"], "'0-' is no period"),
        (["job.toml", "-o", "x", "--instances", ""], "'' is no period"),
        (["job.toml", "-o", "x", "--instances", "3-1"], "'3-1' ends before it begins"),
        (["job.toml", "-o", "x", "--instances", "0", "--carry", "best"], "'best' is no method"),
        (["job.toml", "-o", "x", "--instances", "0", "--placement", ""], "is no placement"),
    ],
)
def test_command_refuses(
    given: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made(tmp_path, TABLES)
    monkeypatch.chdir(tmp_path)
    assert run(*given) == 2
    assert message in capsys.readouterr().err


def test_a_manifest_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.json").write_text('{"format": "something else"}')
    assert run(str(tmp_path)) == 2
    assert "is no result folder of a trace" in capsys.readouterr().err


def test_links_and_crossing_costs_of_the_cluster(tmp_path: Path) -> None:
    link = {"id": "up", "nodes": ["n0"], "capacity": 5, "direction": "out"}
    costs = {"cpu": {"out": 0.5, "in": 0.25}}
    trace = made(tmp_path, TABLES, cluster__links=[link], cluster__crossing_cost=costs)
    instance = InstanceMaker(trace).instance(0)
    assert instance.links.ids == ("up",)
    assert instance.crossing_cost.ravel().tolist() == [0.5, 0.25]
    with pytest.raises(InvalidInput, match=r"cluster\.links"):
        made(tmp_path / "bad", TABLES, cluster__links=[{**link, "nodes": ["n77"]}])


def test_a_trace_without_cluster_makes_no_instances(tmp_path: Path) -> None:
    document = job()
    del document["cluster"]
    trace = made(tmp_path, TABLES)
    content = json.loads((trace.path / "trace.json").read_text())
    del content["job"]["cluster"]
    (trace.path / "trace.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="cluster is missing"):
        InstanceMaker(TraceFolder.open(trace.path))


def test_command_traces_and_makes_instances(
    tmp_path: Path, spark: Any, capsys: pytest.CaptureFixture[str], examples: Path
) -> None:
    output = str(tmp_path / "out")
    assert run(str(examples / "clicks.toml"), "-o", output, "--instances", "all", "-q") == 0
    told = capsys.readouterr()
    assert "clicks: 3 periods" in told.out
    assert told.err == ""
    assert len(list((tmp_path / "out" / "instances").iterdir())) == 3
    other = tmp_path / "other.csv"
    other.write_text("at,user\n2024-01-01T00:00:00Z,ann\n")
    given = ["-o", output, "--events", f"clicks={other}"]
    assert run(str(examples / "clicks.toml"), *given) == 2
    assert "operator[1].key" in capsys.readouterr().err


def test_a_replay_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = made(tmp_path, TABLES, cluster__placement="worst")
    periods = load_trace(trace.path)
    assert [p.name for p in periods] == ["clicks-p0", "clicks-p1", "clicks-p2"]
    assert len(load_trace(trace.path, most=2)) == 2
    output = str(tmp_path / "replay")
    given = ["replay", str(trace.path), "-o", output, "--policy", "flux", "--policy", "static"]
    assert main([*given, "--placement", "round-robin", "--quiet", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows if row["policy"] == "static"] == [p.name for p in periods]
    assert main(["replay", str(trace.path), output, "-o", output]) == 2
    assert "names a trace and more" in capsys.readouterr().err
    assert main(["replay", "--day", "-o", output, "--placement", "worst"]) == 2
    assert "with a trace only" in capsys.readouterr().err
