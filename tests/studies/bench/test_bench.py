"""`streamplace bench`: what functions and commands of users may do, and what becomes of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.studies.bench import answers, textbook
from experiments.studies.bench.answers import command_asker, function_asker
from experiments.studies.bench.cases import Case, read
from experiments.studies.bench.scores import Lines, Outcome, judged, scores, summary, summary_text
from experiments.sweep.store import read_rows_pandas
from optim import Instance, Plan, solve
from streamplace.cli.main import main

NAME = "papers-random_graphs-s0"
MINE = """
import contextlib, json, sys, time

def heap(instance):
    names = [f"{o['id']}/{i}" for o in instance["operators"] for i in range(o["group"]["tasks"])]
    return dict.fromkeys(names, instance["nodes"][0]["id"])

def spread(instance):
    print("talk")
    nodes = [node["id"] for node in instance["nodes"]]
    return {task: nodes[i % len(nodes)] for i, task in enumerate(heap(instance))}

def better(instance):
    yield heap(instance)
    yield spread(instance)
    raise ZeroDivisionError("no idea")

def slow(instance):
    yield spread(instance)
    while True:
        with contextlib.suppress(Exception):  # what stops it must not be one
            time.sleep(0.01)

def leaving(instance):
    sys.exit(3)

if __name__ == "__main__":
    print("garbage first")
    read = json.load(sys.stdin)
    print(json.dumps(spread(read)), flush=True)
    if "wait" in sys.argv:
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        print(f"child {child.pid}", flush=True)
        time.sleep(60)
    if "fail" in sys.argv:
        sys.exit("it went wrong")
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path / "mine.py"


@pytest.fixture(scope="module")
def case() -> Case:
    return next(case for case in read() if case.name == NAME)


@pytest.fixture(scope="module")
def instance(case: Case) -> Instance:
    return case.instance()


def row_of(case: Case, instance: Instance, asked: Outcome, limit: float = 10.0) -> dict[str, Any]:
    return judged(case, instance, asked, limit).row


def ask(mine: Path, name: str, instance: Instance, limit: float = 10.0) -> Outcome:
    import importlib

    function = getattr(importlib.import_module("mine"), name)
    return function_asker(function, limit)(instance, "imc_gain")


def test_a_generator_s_plans_are_each_judged(
    mine: Path, case: Case, instance: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ask(mine, "better", instance)
    assert len(asked.answers) == 2 and "no idea" in str(asked.problem)
    assert capsys.readouterr().out == ""  # what it prints is not among the results
    row = row_of(case, instance, asked)
    assert row["feasible"] and len(row["trajectory"]) == 1 and "no idea" in row["problem"]


def test_a_function_is_stopped_at_the_limit(mine: Path, case: Case, instance: Instance) -> None:
    asked = ask(mine, "slow", instance, 0.2)
    assert asked.stopped and len(asked.answers) == 1
    assert row_of(case, instance, asked, 0.2)["feasible"]
    assert "sys.exit" in str(ask(mine, "leaving", instance).problem)


def test_a_command_s_lines_are_plans(mine: Path, case: Case, instance: Instance) -> None:
    asked = command_asker(f"{sys.executable} {mine}", 20.0)(instance, "imc_gain")
    assert len(asked.answers) == 1 and "2 lines" in str(asked.problem)
    failed = command_asker(f"{sys.executable} {mine} fail", 20.0)(instance, "imc_gain")
    assert failed.answers and failed.problem == "ended with 1: it went wrong"
    assert row_of(case, instance, failed)["feasible"]


def test_a_command_is_stopped_with_what_it_started(mine: Path, instance: Instance) -> None:
    command = f"{sys.executable} -c \"import os, time, subprocess as s; print('{{}}', flush=True); "
    command += "c = s.Popen(['sleep', '60']); open('pid', 'w').write(str(c.pid)); time.sleep(60)\""
    os.chdir(mine.parent)
    asked = command_asker(command, 4.0)(instance, "imc_gain")
    assert asked.stopped and len(asked.answers) == 1
    child = int((mine.parent / "pid").read_text())
    for _ in range(200):
        status = Path(f"/proc/{child}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            break
        time.sleep(0.01)
    else:
        pytest.fail("the command's child lives on")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/no/such/place", "cannot be started"),
        ("true", "wrote nothing"),
        ("echo [1]", "wrote no JSON object"),
        ("cat", "none"),  # the instance itself is no plan
    ],
)
def test_garbage_is_told(command: str, problem: str, case: Case, instance: Instance) -> None:
    row = row_of(case, instance, command_asker(command, 10.0)(instance, "imc_gain"))
    assert not row["feasible"] and row["problem"]
    assert problem == "none" or problem in row["problem"]


def test_a_document_over_several_lines_is_one(instance: Instance) -> None:
    asked = command_asker('printf \'{\\n "t": "n"\\n}\\n\'', 10.0)(instance, "imc_gain")
    assert asked.answers[0][1] == {"t": "n"} and asked.problem is None


def test_a_command_that_floods_is_stopped(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 1 << 16)
    assert "wrote more" in str(command_asker("yes", 10.0)(instance, "imc_gain").problem)


def test_plans_of_others_are_refused(case: Case, instance: Instance) -> None:
    plan = solve(instance, "top-down").plan
    assert plan is not None
    other = {**plan.to_dict(), "instance_sha256": "0" * 64}
    other.pop("sha256")
    row = row_of(case, instance, Outcome([(0.1, other)]))
    assert not row["feasible"] and "another instance" in row["problem"]
    strange = Outcome([(0.1, {**plan.assignment, "nobody": "node"})])
    assert "nobody" in str(row_of(case, instance, strange)["problem"])


def test_what_is_better_than_the_best_known_is_said(case: Case, instance: Instance) -> None:
    plan = solve(instance, "imc-exact").plan
    open_case = Case(**{**vars(case), "best": case.best / 2 if case.best else 0, "certified": None})
    row = row_of(open_case, instance, Outcome([(0.1, plan)]))
    assert row["better_than_best"] and row["gap"] is None and row["gap_to_best"] == 0
    assert row["primal_integral"] == pytest.approx(0.01)
    text = summary_text([row, *({**row, "case": f"graphs-of-a-long-name-{i}"} for i in range(9))])
    assert "better than the best known value: papers-random_graphs-s0" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    assert Lines([case]).of(row).endswith(" *")
    again = scores(case, row, 10.0)  # by what is known later
    assert not again["better_than_best"] and again["at_bound"]


def test_a_missing_plan_is_no_small_gap(case: Case, instance: Instance) -> None:
    rows = [row_of(case, instance, Outcome(problem="x" * 300)) for _ in range(2)]
    rows.append(row_of(case, instance, Outcome([(0.0, solve(instance, "imc-exact").plan)])))
    found = summary(rows)[-1]
    assert found["feasible"] == 1 and found["at_bound"] == 1
    assert found["median_gap_percent"] == float("inf")
    assert found["mean_primal_integral"] == pytest.approx(2 / 3)
    assert all(len(Lines([case]).of(row)) <= 100 for row in rows)


def test_a_rate_below_the_input_is_a_plan() -> None:
    case = next(case for case in read() if case.name == "throughput-bargain-12x67")
    instance = case.instance()
    asked = Outcome([(0.1, solve(instance, objective="sustainable_rate", time_limit=2).plan)])
    row = row_of(case, instance, asked)
    assert row["feasible"] and row["value"] < 1


def test_runs_of_several_methods_share_a_folder(mine: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "results")
    asked = ["bench", "--only", NAME, "--seconds", "5", "-o", folder]
    plans = tmp_path / "plans"
    assert main([*asked, "--method", "top-down", "--plans", str(plans)]) == 0
    assert Plan.load(plans / f"{NAME}.json").method == "top-down"
    assert main([*asked, "--my-method", "mine:heap", "--label", "mine"]) == 4
    assert main([*asked, "--my-method", "mine:spread", "--label", "mine"]) == 0
    assert main([*asked, "--my-method", "mine:spread", "--label", "mine"]) == 0  # in its place
    rows = read_rows_pandas(folder)
    labels = sorted(rows["method_label"])
    assert [label.split(" · ")[0] for label in labels] == [
        "best known", "mine", "mine", "top-down",
    ]  # fmt: skip
    assert set(rows["instance"]) == {NAME}
    known = rows[rows["method"] == "best known"].iloc[0]
    assert known["termination"] == "optimal" and known["bound_by"] == "certificate"
    gaps = rows.set_index("method")["certified_gap"]
    assert gaps["top-down"] == pytest.approx(0.0501765, rel=1e-3)


def test_ctrl_c_keeps_what_is_done(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.path.insert(0, str(mine.parent))
    import mine as module  # type: ignore[import-not-found]

    seen: list[str] = []

    def once(document: dict[str, Any]) -> dict[str, str]:
        seen.append(document["name"])
        if len(seen) == 2:
            raise KeyboardInterrupt
        return dict(module.spread(document))

    monkeypatch.setattr(module, "once", once, raising=False)
    before = signal.getsignal(signal.SIGALRM)
    folder, file = tmp_path / "results", tmp_path / "mine.json"
    asked = ["bench", "--family", "papers", "--my-method", "mine:once"]
    assert main([*asked, "-o", str(folder)]) == 130
    assert len(read_rows_pandas(folder)) == 2  # of the run, and of the set
    seen.clear()
    assert main([*asked, "-o", str(file)]) == 130
    assert len(json.loads(file.read_text())["cases"]) == 1
    assert signal.getsignal(signal.SIGALRM) == before


def test_files_of_others_that_are_not_there_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["bench", "--method", "naive", "--family", "ctap"]
    assert main(asked) == 2
    assert "--data" in capsys.readouterr().err
    assert main([*asked, "--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("left out: ") >= 1


def test_what_is_run_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    listed = ["bench", "--list", "--json"]

    def names(*more: str) -> list[str]:
        assert main([*listed, *more]) == 0
        return [row["name"] for row in json.loads(capsys.readouterr().out)]

    assert names("--family", "papers", "--only", "graphs-s0") == [NAME]
    assert main([*listed, "--family", "none"]) == 2
    assert "one of" in capsys.readouterr().err
    assert main([*listed, "--only", "zzz"]) == 2
    everything = names("--all")
    assert set(names()) < set(everything)
    assert len(everything) == len(read())


def test_what_is_known_is_shown_without_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--only", NAME]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "case" and "certified bound" in head
    assert line.startswith(NAME) and line.endswith(" 0")
    assert main(["bench", "--only", NAME]) == 2
    assert "--my-method" in capsys.readouterr().err


def test_instances_are_written_for_the_certificates_and_plans_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from experiments.studies.bench.proofs import certificate_of, plan_of

    folder = tmp_path / "cases"
    assert main(["bench", "--instances", str(folder), "--only", NAME]) == 0
    assert "1 instance written" in capsys.readouterr().err
    (file,) = folder.iterdir()
    case = next(case for case in read() if case.name == NAME)
    words = [str(file), str(plan_of(case)), str(certificate_of(case))]
    assert main(["certify", *words]) == 0
    assert "holds: imc_gain is at most 34.87" in capsys.readouterr().out
    assert main(["bench", "--instances", str(folder), "--family", "ctap", "--all"]) == 2
    assert "left out" in capsys.readouterr().err


@pytest.mark.parametrize("objective", textbook.OBJECTIVES)
def test_the_textbook_s_models_find_the_optimum(objective: str) -> None:
    from optim import InstanceBuilder

    builder = InstanceBuilder("small")
    builder = builder.node("a", capacity=10).node("b", capacity=10).node("c", capacity=10)
    loads = (4, 3, 3, 2, 2)
    for i, load in enumerate(loads):
        builder = builder.task(f"t{i}", load=load, node="abc"[i % 3])
    for i in range(4):
        builder = builder.traffic(f"t{i}", f"t{i + 1}", 1.0 + i)
    instance = builder.build()
    case = Case(
        "x", "x", objective, {}, 5, 3, instance.sha256, None, None, None, None, None, None
    )  # fmt: skip
    asked = textbook.asker("highs", 20.0)(instance, objective)
    best = solve(instance, "imc-brute", objective=objective)
    assert best.objective is not None
    row = row_of(case, instance, asked)
    assert row["value"] == pytest.approx(best.objective.value, rel=1e-5), row


@pytest.mark.slow
def test_the_report_reads_what_bench_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    asked = ["bench", "--only", NAME, "--seconds", "5", "-o", str(folder), "--method"]
    assert main([*asked, "top-down"]) == 0
    assert main([*asked, "imc-exact"]) == 0
    page = tmp_path / "report.html"
    assert main(["report", str(folder), "-o", str(page)]) == 0
    text = page.read_text()
    assert "top-down · " in text and "imc-exact · " in text and "best known · " in text
    assert "Gap to certified bound" in text
    assert (
        "found it (mean time of a run" in text
        and "best known · traffic inside nodes has" not in text
    )
