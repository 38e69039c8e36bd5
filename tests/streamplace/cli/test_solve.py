"""``streamplace solve``: plan, texts, files, exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from optim import Instance, Plan, evaluate
from optim.errors import ExitCode
from tests.streamplace.cli.conftest import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


def test_json_is_all_there_is_on_stdout(streamplace: Run, instance_file: Path) -> None:
    done = streamplace("solve", "pairs.json", "--method", "top-down", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    result = json.loads(done.stdout)
    assert result["format"] == "streamplace.result/1"
    assert result["objective"] == {"name": "imc_gain", "value": 12.0, "sense": "max"}
    assert result["evaluation"]["feasible"] is True
    assert result["evaluation"]["imc_gain"] == 12.0
    assert [set(move) for move in result["moves"]] == [{"task", "from", "to", "cost"}] * 2
    assert set(result["times"]) >= {"read", "build", "solve", "check"}
    instance = Instance.load(instance_file)
    assert result["instance_sha256"] == instance.sha256
    plan = Plan.from_dict(result["plan"])
    assert evaluate(instance, plan).imc_gain == 12.0


def test_the_text_tells_status_objective_nodes_moves_verdict(
    streamplace: Run, instance_file: Path
) -> None:
    done = streamplace("solve", "pairs.json", "--method", "top-down")
    assert done.returncode == ExitCode.OK
    assert "pairs: 4 tasks of 4 operators on 2 nodes, cpu, traffic 12 MB/s" in done.stderr
    assert "method top-down: as asked" in done.stderr
    assert done.stdout.startswith("heuristic  imc_gain 12 MB/s  no bound\n")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "collocation 0 % 100 %" in lines
    assert "n1 ████████ 80 / 100 80 % 2" in lines
    assert any(line.startswith("2 moves of 4 tasks") for line in lines)
    assert "referee feasible" in lines
    assert not any("\x1b" in line for line in lines)


def test_the_plan_file_is_a_plan_that_checks(streamplace: Run, instance_file: Path) -> None:
    done = streamplace("solve", "pairs.json", "--method", "top-down", "-o", "plan.json", "-q")
    assert done.returncode == ExitCode.OK
    assert done.stderr == ""
    plan = Plan.load(instance_file.with_name("plan.json"))
    assert plan.sha256[:12] in done.stdout
    assert evaluate(Instance.load(instance_file), plan).feasible
    assert streamplace("check", "pairs.json", "plan.json").returncode == ExitCode.OK


def test_the_same_plan_byte_for_byte(streamplace: Run, instance_file: Path) -> None:
    texts = []
    for name in ("one.json", "two.json"):
        streamplace("solve", "pairs.json", "--method", "top-down", "-o", name, "-q")
        texts.append(instance_file.with_name(name).read_bytes())
    assert texts[0] == texts[1]


def test_an_instance_from_standard_input(streamplace: Run, document: dict[str, Any]) -> None:
    text = json.dumps(document)
    done = streamplace("solve", "-", "--method", "top-down", "--json", stdin=text)
    assert done.returncode == ExitCode.OK
    assert json.loads(done.stdout)["instance"] == "pairs"
    done = streamplace("solve", "-", stdin="{")
    assert done.returncode == ExitCode.USAGE
    assert "standard input" in done.stderr


def test_without_a_method_one_is_chosen_and_said_why(streamplace: Run, instance_file: Path) -> None:
    done = streamplace("solve", "pairs.json", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    result = json.loads(done.stdout)
    assert f"method {result['method']}" in done.stderr
    assert any(note.startswith(f"method {result['method']}: ") for note in result["notes"])
    assert result["evaluation"]["imc_gain"] == 12.0


def test_a_task_that_fits_nowhere_is_exit_3_with_which_and_by_how_much(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["operators"][0]["group"]["load"]["cpu"] = 130
    (tmp_path / "x.json").write_text(json.dumps(document))
    refused = ("solve", "x.json", "--method", "top-down", "--start-broken", "refuse")
    done = streamplace(*refused, "-o", "plan.json")
    assert done.returncode == ExitCode.INFEASIBLE
    assert done.stdout.startswith("infeasible: no plan\n")
    assert (
        "capacity at a/0.cpu (fits no node; nearest n1): needs 130, has 100 (30 off)"
        in " ".join(done.stdout.split())
    )
    assert "conflict: cannot hold" in done.stdout
    assert "none, so plan.json was not written" in done.stdout
    assert not (tmp_path / "plan.json").exists()
    done = streamplace(*refused, "--json")
    assert done.returncode == ExitCode.INFEASIBLE
    assert json.loads(done.stdout)["reasons"][0]["amount"] == 30
    done = streamplace("solve", "x.json", "--method", "top-down")  # it is there now
    assert done.returncode == ExitCode.NO_PLAN
    assert done.stdout.startswith("still broken: capacity of n1.cpu by ")
    assert "no plan keeps every limit: capacity at a/0.cpu (fits no node" in done.stdout


def test_a_heuristic_that_overloads_by_design_is_exit_4(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    # storm-even deals executors out without looking at capacities.
    for operator, load in zip(document["operators"], (90, 10, 90, 10), strict=True):
        operator["group"]["load"]["cpu"] = load
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("solve", "x.json", "--method", "storm-even", "-o", "plan.json")
    assert done.returncode == ExitCode.NO_PLAN, done.stdout + done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "referee infeasible: 1 violation" in lines
    assert "capacity n1.cpu 180 100 80" in lines
    remedy = "--repair lets repair mend the plan; an exact method proves whether a plan exists"
    assert remedy in lines
    assert (tmp_path / "plan.json").exists()
    done = streamplace("solve", "x.json", "--method", "storm-even", "--repair")
    assert done.returncode == ExitCode.OK
    assert remedy not in " ".join(done.stdout.split())


def test_an_unwritable_output_is_found_before_solving(
    streamplace: Run, instance_file: Path
) -> None:
    done = streamplace("solve", "pairs.json", "-o", "no/plan.json")
    assert done.returncode == ExitCode.USAGE
    assert "method" not in done.stderr  # nothing was chosen, so nothing was solved


def test_ids_of_a_file_cannot_command_the_terminal(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["nodes"][0]["id"] = "n1\x1b[2J[red]"
    for task in document["tasks"]:
        if task["node"] == "n1":
            task["node"] = "n1\x1b[2J[red]"
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("solve", "x.json", "--method", "top-down")
    assert done.returncode == ExitCode.OK
    assert "\x1b" not in done.stdout + done.stderr
    assert "n1\\x1b[2J[red]" in done.stdout


def test_ignored_limits_are_marked(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["limits"] = {"max_migrations": 1}
    (tmp_path / "x.json").write_text(json.dumps(document))
    arguments = ["solve", "x.json", "--method", "top-down", "--ignore", "max_migrations"]
    assert "ignored: max_migrations" in streamplace(*arguments).stdout
    done = streamplace(*arguments, "--json")
    assert done.returncode == ExitCode.OK
    assert json.loads(done.stdout)["ignored"] == ["max_migrations"]


@pytest.mark.slow
def test_an_interruption_tells_the_best_plan_so_far(examples: Path) -> None:
    # no solver proves this in any short time; without the option no solver is needed
    options = ["--method", "balance-milp", "--option", "form=moves", "--json"]
    process = subprocess.Popen(
        [COMMAND, "solve", examples / "capsys-q2.json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if "bound" in line:
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == ExitCode.INTERRUPTED, told + errors
    result = json.loads(output)
    assert result["termination"] == "interrupted"
    assert result["evaluation"]["feasible"] is True
    assert "Traceback" not in errors


@pytest.mark.parametrize("method", ["imc-exact", "imc-brute"])
def test_a_proof_is_told(method: str, streamplace: Run, instance_file: Path) -> None:
    done = streamplace("solve", "pairs.json", "--method", method)
    assert done.returncode == ExitCode.OK, done.stderr
    by = {"imc-exact": "HiGHS"}.get(method, method)
    told = re.escape(f"optimal ({by})") + "  imc_gain 12 MB/s  bound 12 MB/s  gap 0 %\n"
    # where the machine is so slow that a certificate costs little beside the solve
    certified = r"optimal \(certified\)  imc_gain 12 MB/s  certified bound 12 MB/s  gap 0 %\n"
    assert re.match(f"{told}|{certified}", done.stdout)


def test_the_current_placement_is_evaluated_once(
    streamplace: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import optim.referee

    judged, figures_of = list[Any](), optim.referee.figures_of

    def counting(placement: Any, asked: str) -> Any:
        judged.append(placement)
        return figures_of(placement, asked)

    monkeypatch.setattr(optim.referee, "figures_of", counting)
    streamplace("solve", str(repository / "examples/capsys-q1.json"), "--method", "balance-milp")
    current = [p for p in judged if (p.node == p.instance.tasks.node).all()]
    assert len(current) == 1
    assert len(judged) == 2  # and the plan
