"""The command: what it prints where, and its exit codes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from experiments.sweep import command, execution
from experiments.sweep.execution import SweepSummary
from optim.errors import InvalidInput

TOML = """
name = "t"
[instances]
files = ["*.json"]
[matrix]
method = ["top-down", "storm-even"]
load_share = [0.5, 0.9]
"""


@pytest.fixture
def toml(base: Path) -> Path:
    path = base / "sweep.toml"
    path.write_text(TOML)
    return path


def call(*words: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


def test_a_dry_run_counts_and_does_nothing(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(toml, "--dry-run") == 0
    out, err = capsys.readouterr()
    assert out.startswith("t: 8 runs\nmethods   (2): top-down, storm-even\n")
    assert "tiny [load_share=0.9]" in out
    assert err == ""
    assert call(toml, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 8


@pytest.mark.usefixtures("spark")
def test_a_sweep_says_what_it_did(toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_dir = toml.parent / "out"
    assert call(toml, "-o", out_dir, "--master", "local[2]") == 0
    out, err = capsys.readouterr()
    assert out.startswith("8 runs: 8 ok\n8 done now in ")
    assert "8/8 runs" in err
    assert call(toml, "-o", out_dir, "--json") == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert (summary["total"], summary["done"], summary["skipped"]) == (8, 0, 8)


def test_failures_are_pointed_out(
    toml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = SweepSummary(3, 3, 0, 1, {"crash": 1, "ok": 2}, 1.0, Path("out"), ("a note",))
    monkeypatch.setattr(execution, "run_sweep", lambda *a, **k: made)
    assert call(toml, "-o", "out") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 runs: 1 crash, 2 ok"
    assert "1 failed; --retry-failed does them again" in lines
    assert "a note" in lines


def test_an_interruption_is_130(
    toml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "run_sweep", interrupted)
    assert call(toml, "-o", "out") == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "finished runs are stored in out" in err


def test_usage_errors(toml: Path) -> None:
    with pytest.raises(InvalidInput, match="--output is missing"):
        call(toml)
    with pytest.raises(InvalidInput, match="does not exist"):
        call(toml.parent / "none.toml", "-o", "out")
