"""Documents on standard input and output, and amounts with their units."""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optim import Plan
from optim.errors import ExitCode
from streamplace.present.arguments import delay, growth, seconds, share
from tests.streamplace.cli.conftest import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLE = str(Path("examples/hand-8-tasks.json").resolve())


def test_plan_goes_through_a_pipe(streamplace: Run) -> None:
    solved = streamplace("solve", EXAMPLE, "-q", "-o", "-")
    assert solved.returncode == ExitCode.OK
    assert "optimal" in solved.stderr, "the answer goes beside the document"
    plan = Plan.from_json(solved.stdout)
    for command in ("evaluate", "check", "steps"):
        judged = streamplace(command, EXAMPLE, "-", stdin=solved.stdout)
        assert judged.returncode == ExitCode.OK, judged.stderr
    judged = streamplace("evaluate", EXAMPLE, "-", "--json", stdin=solved.stdout)
    assert json.loads(judged.stdout)["imc_gain"] == 14
    assert len(plan.assignment or {}) == 8


def test_dash_is_no_file(streamplace: Run, tmp_path: Path) -> None:
    made = streamplace("generate", "pipeline", "-o", "-")
    assert json.loads(made.stdout)["format"] == "streamplace.instance/1"
    assert not list(tmp_path.rglob("-"))
    one = streamplace("solve", EXAMPLE, "-o", "-", "--json")
    assert one.returncode == ExitCode.USAGE
    assert "standard output takes one document" in one.stderr


def test_gzip_on_standard_input(tmp_path: Path) -> None:
    def checked(data: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([COMMAND, "check", "-"], input=data, capture_output=True, check=False)

    packed = gzip.compress(Path(EXAMPLE).read_bytes())
    assert checked(packed).returncode == ExitCode.OK
    cut = checked(packed[:100])
    assert cut.returncode == ExitCode.USAGE
    assert b"standard input" in cut.stderr
    assert b"is no whole gzip file" in cut.stderr


def test_standard_input_holds_one_document(streamplace: Run) -> None:
    twice = streamplace("evaluate", "-", "-", stdin=Path(EXAMPLE).read_text())
    assert twice.returncode == ExitCode.USAGE
    assert "holds one document where two are read" in twice.stderr


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5s", 5), ("500ms", 0.5), ("2m", 120), ("1.5min", 90), ("1h", 3600), ("1e2s", 100)],
)
def test_durations_have_units(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["5x", "s", "5 hours", "nan", "inf", "-1s", "0", "0ms", "1h30m"])
def test_no_durations(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        seconds(text)


def test_shares_are_numbers_or_percentages() -> None:
    assert share("5%") == share("0.05") == pytest.approx(0.05)
    assert growth("150%") == growth("1.5") == pytest.approx(1.5)
    assert delay("0") == 0
    for text in ("5", "101%", "-1%", "%", "five%"):
        with pytest.raises(argparse.ArgumentTypeError):
            share(text)
    with pytest.raises(argparse.ArgumentTypeError, match="5 percent is written 5%"):
        share("5")
