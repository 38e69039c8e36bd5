"""A toy method on the open benchmark: judged by the referee, held against what was proved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.studies.bench.cases import Case, read
from experiments.studies.bench.scores import Outcome, judged
from streamplace.cli.main import main

TOY = """
def heap(instance):
    names = [f"{o['id']}/{i}" for o in instance["operators"] for i in range(o["group"]["tasks"])]
    return dict.fromkeys(names, instance["nodes"][0]["id"])

def fail(instance):
    raise ZeroDivisionError("no idea")

def silent(instance):
    yield from ()
"""
PLACE = """
import json, sys
from toy import heap
print(json.dumps(heap(json.load(sys.stdin))))
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "place.py").write_text(PLACE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy", raising=False)
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> list[Any]:
    assert main(["bench", "--json", "--only", "figure2", *arguments]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "streamplace.bench/1"
    assert found["versions"]["platform"]["python"]
    return found["cases"]


def test_methods_of_users_are_judged(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (best,) = asked(capsys, 0, "--method", "imc-exact")
    assert best["feasible"] and best["gap"] == pytest.approx(0, abs=1e-9)
    (heaped,) = asked(capsys, 4, "--my-method", "toy:heap")
    assert not heaped["feasible"] and "cpu" in heaped["problem"]
    command = f"{sys.executable} {toy / 'place.py'}"
    (same,) = asked(capsys, 4, "--my-command", command)
    assert same["problem"] == heaped["problem"]
    (failed,) = asked(capsys, 4, "--my-method", "toy:fail")
    assert "no idea" in failed["problem"]
    (silent,) = asked(capsys, 4, "--my-method", "toy:silent")
    assert silent["problem"] == "ended without a plan"
    (toy / "broken.py").write_text("def place(:")
    for method in ("toy:none", "broken:place"):
        assert main(["bench", "--my-method", method]) == 2
    assert main(["bench", "--method", "naive", "--only", "figure2"]) == 0
    assert "1 of 1 feasible, " in capsys.readouterr().out


def test_a_plan_beyond_the_bound_is_no_success() -> None:
    case = next(case for case in read() if case.name == "papers-figure2")
    assert case.best is not None
    false = Case(**{**case.__dict__, "certified": str(case.best / 2)})
    from optim import solve

    instance = case.instance()
    asked = Outcome([(0.1, solve(instance, "imc-exact").plan)])
    row = judged(false, instance, asked, 10.0).row
    assert not row["feasible"] and "beyond" in row["problem"]


def test_a_method_that_there_is_not_is_refused_before_any_case(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "--method", "imc-exac"]) == 2
    assert "did you mean imc-exact?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "reason"), [("  ", "names no program"), ("./place 'x", "No closing quotation")]
)
def test_a_command_that_is_none_is_refused(
    command: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--only", "figure2", "--my-command", command]) == 2
    assert reason in capsys.readouterr().err
