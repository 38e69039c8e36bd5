"""``streamplace check``."""

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


def test_a_sound_instance(streamplace: Run, instance_file: Path) -> None:
    done = streamplace("check", "pairs.json")
    assert done.returncode == ExitCode.OK
    assert done.stdout.splitlines()[-1] == "valid"
    assert "4 tasks of 4 operators on 2 nodes" in done.stdout
    assert "suspicious" not in done.stdout


def test_a_feasible_plan(streamplace: Run, plan_file: Path) -> None:
    done = streamplace("check", "pairs.json", "best.json")
    assert done.returncode == ExitCode.OK
    assert done.stdout.splitlines()[-1].split() == ["referee", "feasible"]


def test_a_plan_that_breaks_rules_is_exit_4_with_figures(
    streamplace: Run, instance_file: Path
) -> None:
    write_plan(instance_file.with_name("p.json"), dict.fromkeys(["a/0", "b/0", "c/0"], "n1"))
    done = streamplace("check", "pairs.json", "p.json")
    assert done.returncode == ExitCode.NO_PLAN
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["capacity", "n1.cpu", "120", "100", "20"] in lines
    assert ["placed", "d/0", "1", "0", "1"] in lines
    done = streamplace("check", "pairs.json", "p.json", "--json")
    assert done.returncode == ExitCode.NO_PLAN
    answer = json.loads(done.stdout)
    assert answer["feasible"] is False
    assert {v["rule"] for v in answer["violations"]} == {"placed", "capacity"}


def test_a_limit_can_be_left_out(streamplace: Run, instance_file: Path) -> None:
    everything = dict.fromkeys(["a/0", "b/0", "c/0", "d/0"], "n1")
    write_plan(instance_file.with_name("p.json"), everything)
    assert streamplace("check", "pairs.json", "p.json").returncode == ExitCode.NO_PLAN
    done = streamplace("check", "pairs.json", "p.json", "--ignore", "capacity")
    assert done.returncode == ExitCode.OK


def test_an_impossible_instance_is_exit_3(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["operators"][0]["group"]["load"]["cpu"] = 130
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("check", "x.json")
    assert done.returncode == ExitCode.INFEASIBLE
    assert "infeasible: no plan can exist" in done.stdout
    assert "a/0" in done.stdout
    answer = json.loads(streamplace("check", "x.json", "--json").stdout)
    assert answer["infeasible"][0]["needed"] == 130


def test_what_is_suspicious_is_told_and_does_not_fail(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["operators"][0]["group"]["load"]["cpu"] = 95
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("check", "x.json")
    assert done.returncode == ExitCode.INFEASIBLE or done.returncode == ExitCode.OK
    assert "valid, but suspicious" in done.stdout
    assert "tasks a/0" in done.stdout
    assert json.loads(streamplace("check", "x.json", "--json").stdout)["warnings"]
