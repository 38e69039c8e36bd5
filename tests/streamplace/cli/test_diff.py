"""``streamplace diff``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from tests.streamplace.cli.conftest import write_plan

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


def test_from_the_current_placement(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("diff", "pairs.json", "best.json", "--json")
    assert done.returncode == ExitCode.OK
    answer = json.loads(done.stdout)
    assert answer["moves"] == [
        {"task": "b/0", "from": "n2", "to": "n1", "cost": 1.0},
        {"task": "c/0", "from": "n1", "to": "n2", "cost": 1.0},
    ]
    assert answer["before"]["evaluation"]["imc_gain"] == 0.0
    assert answer["after"]["evaluation"]["imc_gain"] == 12.0


def test_the_text_shows_before_and_after(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("diff", "pairs.json", "best.json")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "current best.json" in lines
    assert "traffic between nodes 12 MB/s 0 MB/s" in lines
    assert "2 moves (50 % of the tasks), cost 2" in lines
    assert "b/0 n2 n1 1" in lines


def test_between_two_plans(streamplace: Run, plan_file: Path) -> None:
    other = {"a/0": "n2", "b/0": "n2", "c/0": "n1", "d/0": "n1"}
    write_plan(plan_file.with_name("other.json"), other)
    answer = json.loads(
        streamplace("diff", "pairs.json", "best.json", "other.json", "--json").stdout
    )
    assert len(answer["moves"]) == 4
    same = streamplace("diff", "pairs.json", "best.json", "best.json")
    assert "no moves: the placements are the same" in same.stdout


def test_without_a_current_placement_one_plan_is_not_enough(
    streamplace: Run, document: dict[str, Any], plan_file: Path
) -> None:
    del document["tasks"][2]
    plan_file.with_name("pairs.json").write_text(json.dumps(document))
    done = streamplace("diff", "pairs.json", "best.json")
    assert done.returncode == ExitCode.USAGE
    assert "tasks[].node" in done.stderr
    assert "BEFORE AFTER" in done.stderr


def test_three_plans_are_too_many(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("diff", "pairs.json", *["best.json"] * 3)
    assert done.returncode == ExitCode.USAGE
    assert "at most two" in done.stderr


def test_many_moves_are_counted(streamplace: Run, document: dict[str, Any], tmp_path: Path) -> None:
    document["operators"] = [{"id": "o", "group": {"tasks": 30, "load": {"cpu": 30}}}]
    document["tasks"] = [{"id": f"o/{i}", "node": "n1"} for i in range(30)]
    document["streams"] = []
    (tmp_path / "x.json").write_text(json.dumps(document))
    plan = write_plan(tmp_path / "p.json", {f"o/{i}": "n2" for i in range(30)})
    plan.write_text(plan.read_text().replace('"pairs"', '"x"'))
    done = streamplace("diff", "x.json", "p.json")
    assert "30 moves (100 % of the tasks), cost 30" in done.stdout
    assert "… and 10 more moves (--json lists all)" in done.stdout
    assert "o/19" in done.stdout
    assert "o/20" not in done.stdout
