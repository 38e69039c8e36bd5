"""A whole replay: the folder, taking it up again, the files, the command."""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.replay import command
from experiments.replay import run as replaying
from experiments.replay.periods import day_periods, find_files
from experiments.replay.run import COLUMNS, ReplayFolder, ReplayOptions, run_replay, step
from optim.errors import InvalidInput, UnsuitableMethod
from optim.rules import BUDGETS
from streamplace.policies.nodes import CostModel
from streamplace.policies.parallelism import ScalingChoice
from tests.experiments.replay.cases import recording

DAY: dict[str, Any] = {"nodes": 4, "key_groups": 5, "operators": 2, "periods": 6}
OPTIONS = ReplayOptions(
    policies=("flux", "potc", "static"),
    costs=CostModel(0.2, 0.2, 0.01),
    scaling=ScalingChoice("utilisation", {"cooldown": 0}),
)
QUICK = replace(OPTIONS, policies=("potc", "static"))
FILES = ("rows.csv", "rows.parquet", "summary.md", "replay.svg")


def contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in FILES}


def test_the_same_replay_writes_the_same_bytes(tmp_path: Path) -> None:
    periods = day_periods(1, **DAY)
    for name in ("one", "two"):
        run_replay(periods, tmp_path / name, OPTIONS)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


SLOWED = """
import sys, time
from experiments.replay import run
from experiments.replay.periods import day_periods, find_files
from experiments.replay.run import step
from tests.experiments.replay.test_run import DAY, QUICK

def slowed(*args):
    time.sleep(0.05)
    return step(*args)

run.step = slowed
run.run_replay(day_periods(1, **DAY), sys.argv[1], QUICK)
"""


@pytest.mark.slow
def test_sigkill_loses_no_period(tmp_path: Path) -> None:
    periods, torn = day_periods(1, **DAY), tmp_path / "torn"
    run_replay(periods, tmp_path / "whole", QUICK)
    rng, before, kills = random.Random(5), 0, 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", SLOWED, str(torn)])
        while child.poll() is None and stored(torn) == before:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.1))
        if child.poll() is not None:
            assert child.returncode == 0
            break
        with pytest.raises(InvalidInput, match="is being written by another replay"):
            run_replay(periods, torn, QUICK)
        child.kill()
        child.wait()
        now, kills = stored(torn), kills + 1
        assert now > before
        before = now
    assert kills > 3
    assert contents(torn) == contents(tmp_path / "whole")
    assert not list(torn.rglob(".*"))


def stored(path: Path) -> int:
    """Return the number of periods that are stored, of all policies."""
    folder = ReplayFolder(path)
    return sum(len(folder.load(policy).rows) for policy in QUICK.policies)


def test_killed_anywhere_it_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods = day_periods(1, **DAY)
    run_replay(periods, tmp_path / "whole", OPTIONS)
    calls = []

    def failing(*args: Any) -> Any:
        calls.append(args[2])
        if len(calls) in (4, 9):
            raise KeyboardInterrupt
        return step(*args)

    monkeypatch.setattr(replaying, "step", failing)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run_replay(periods, tmp_path / "torn", OPTIONS)
    run_replay(periods, tmp_path / "torn", OPTIONS)
    assert len(calls) == 3 * 6 + 2, "no finished period is done again"
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")


def test_a_finished_replay_does_nothing_and_more_policies_may_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods = day_periods(1, **DAY)
    first = run_replay(periods, tmp_path, OPTIONS)
    monkeypatch.setattr(replaying, "step", lambda *_: pytest.fail("nothing is left to do"))
    again = run_replay(periods, tmp_path, OPTIONS)
    assert again.rows == first.rows
    monkeypatch.undo()
    more = ReplayOptions(**{**vars(OPTIONS), "policies": ("static", "albic:pairs_per_round=2")})
    done = run_replay(periods, tmp_path, more)
    assert {row["policy"] for row in done.rows} == {"static", "albic:pairs_per_round=2"}


def test_another_replay_is_refused(tmp_path: Path) -> None:
    periods = recording("01", [[1, 2], [2, 1]])
    options = ReplayOptions(policies=("static",))
    run_replay(periods, tmp_path / "a", options)
    with pytest.raises(InvalidInput, match="holds another replay: seed is 0, not 1"):
        run_replay(periods, tmp_path / "a", ReplayOptions(policies=("static",), seed=1))
    with pytest.raises(InvalidInput, match="periods has 2 entries, not 1"):
        run_replay(periods[:1], tmp_path / "a", options)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "letter.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"is not empty and holds no replay\.json"):
        run_replay(periods, tmp_path / "b", options)
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["letter.txt"]


def test_rows_hold_every_column(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    done = run_replay(day_periods(0, **DAY), tmp_path, OPTIONS)
    names = list(COLUMNS)
    assert all(set(row) == set(names) for row in done.rows)
    with (tmp_path / "rows.csv").open() as file:
        read = list(csv.DictReader(file))
    assert list(read[0]) == names
    assert len(read) == 18
    table = pq.read_table(tmp_path / "rows.parquet")
    assert table.column_names == names
    assert table.to_pylist() == list(done.rows)
    assert read[5]["load_distance_next"] == ""
    assert {row["over_budget"] for row in read} <= {"true", "false"}


def test_policies_that_cannot_plan_are_refused_before_anything_runs(tmp_path: Path) -> None:
    periods = recording("01", [[1, 2]])
    with pytest.raises(UnsuitableMethod, match="needs streams or traffic"):
        run_replay(periods, tmp_path / "x", ReplayOptions(policies=("static", "partition")))
    with pytest.raises(InvalidInput, match="stands twice"):
        run_replay(periods, tmp_path / "x", ReplayOptions(policies=("static", "static")))
    assert not (tmp_path / "x").exists()


# -- periods -------------------------------------------------------------------------------------


def test_periods_must_belong_together(tmp_path: Path) -> None:
    first, second = recording("01", [[1, 2], [2, 1]])
    options = ReplayOptions(policies=("static",))
    fewer = second.replace(tasks=second.to_dict()["tasks"][:1])
    with pytest.raises(InvalidInput, match="p1: tasks lacks k1, unlike p0"):
        run_replay([first, fewer], tmp_path, options)
    turned = second.replace(nodes=second.to_dict()["nodes"][::-1])
    with pytest.raises(InvalidInput, match="nodes stand in another order"):
        run_replay([first, turned], tmp_path, options)
    homeless = first.replace(tasks=[{"id": "k0"}, {"id": "k1"}])
    with pytest.raises(InvalidInput, match="starts from the placement"):
        run_replay([homeless, second], tmp_path, options)
    with pytest.raises(InvalidInput, match="no periods"):
        run_replay([], tmp_path, options)


def test_later_placements_are_not_read(tmp_path: Path) -> None:
    first, second = recording("01", [[1, 2], [2, 1]])
    free = second.replace(tasks=[{"id": "k0", "load": {"cpu": 9}}, {"id": "k1"}])
    done = run_replay([first, free], tmp_path, ReplayOptions(policies=("static",)))
    assert [row["load_distance"] for row in done.rows] == [0.5, 4.5]


def test_a_day_rises_and_falls_and_repeats() -> None:
    periods = day_periods(3, **{**DAY, "periods": 24}, bursts=0, drift=0)
    loads = [float(p.total_load[0]) for p in periods]
    assert loads.index(min(loads)) == 4
    assert loads.index(max(loads)) == 16
    assert max(loads) == pytest.approx(0.75 * 400, rel=1e-3)
    assert min(loads) == pytest.approx(0.3 * max(loads), rel=1e-3)
    assert [p.sha256 for p in day_periods(3, **DAY)] == [p.sha256 for p in day_periods(3, **DAY)]
    assert len({p.sha256 for p in periods}) == 24


# -- command -------------------------------------------------------------------------------------


def run_command(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parser.add_argument("--quiet", action="store_true")
    return command.run(parser.parse_args([*arguments]))


def test_command_on_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "periods"
    folder.mkdir()
    for number, period in enumerate(recording("0001", [[1, 1, 1, 1]] * 11)):
        period.save(folder / f"p{number}.json")
    output = str(tmp_path / "out")
    given = ["--policy", "flux", "--max-migrations", "1", "--quiet", "--periods", "10"]
    assert run_command(str(folder), "-o", output, *given, "--json") == 0
    told = capsys.readouterr()
    assert told.err == ""
    document = json.loads(told.out)
    assert [row["name"] for row in document["rows"]] == [f"p{i}" for i in range(10)]
    assert document["policies"][0]["migrations"] == 1
    assert run_command(str(folder), "-o", output, *given) == 0
    assert "load distance now" in capsys.readouterr().out


def test_every_budget_of_the_rules_is_a_flag(tmp_path: Path) -> None:
    recording("00", [[1, 1]])[0].save(tmp_path / "p.json")
    given = {rule.name: 3 for rule in BUDGETS}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    output = tmp_path / "out"
    assert run_command(str(tmp_path / "p.json"), "-o", str(output), "--policy=static", *flags) == 0
    assert given.items() <= json.loads((output / "replay.json").read_text()).items()


def test_command_on_a_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [f"--day-option={key}={value}" for key, value in DAY.items()]
    given = ["--day", *pairs, "-o", str(tmp_path / "out"), "--policy", "static"]
    assert run_command(*given) == 0
    told = capsys.readouterr()
    assert "static" in told.out
    assert "6/6 periods" in told.err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "INSTANCE is missing"),
        (["a.json", "--day"], "stands beside --day"),
        (["a.json", "--day-option", "nodes=3"], "of no use without --day"),
        (["nowhere.json"], "no such file or folder"),
        (["--day", "--day-option", "noses=3"], "is no parameter of day"),
        (["--day", "--day-option", "operators=3"], "must be even"),
    ],
)
def test_command_refuses(given: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        run_command(*given, "-o", str(tmp_path / "out"))


def test_periods_of_a_folder_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["²1.json", "²2.json", "²10.json"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in find_files([tmp_path])] == names
