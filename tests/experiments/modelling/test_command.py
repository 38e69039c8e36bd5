"""``streamplace model``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from experiments.modelling import TrialResult, model_task
from streamplace.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

FAST = ["--seconds", "10", "--rate-step", "10", "--max-threads", "2", "--trials", "1"]


def test_it_prints_the_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "parse:cpu=0.02", "fetch:cpu=0.01,wait=0.04", *FAST]) == 0
    told = capsys.readouterr().out
    assert "parse" in told
    assert "        1        50  100.00" in told


def test_it_writes_what_goes_into_an_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "models.json"
    assert main(["model", "parse:cpu=0.02", *FAST, "-o", str(path), "--json"]) == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document == json.loads(capsys.readouterr().out)
    assert [p["rate"] for p in document["models"]["parse"]] == [50.0, 50.0]


def noisy(threads: int, rate: float) -> TrialResult:
    """A trial of one's own: stable up to 30 tuples/s."""
    times = [float(i) for i in range(20)]
    return TrialResult(times, [0.1 + t * (rate > 30) for t in times], rate, threads)


def test_it_takes_a_trial_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", f"mine={__name__}:noisy", "--trial", *FAST]) == 0
    assert "        1        30   30.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("parse", "is neither simulated nor a function"),
        ("parse:cpp=0.1", "is no key of a task"),
        ("parse:cpu=fast", "is no number"),
        ("parse:wait=1", "cpu"),
        ("parse:cpu=1,cpu=2", "stands twice"),
        ("parse:cpu=1,memory=inf", "memory: inf"),
        ("parse:cpu=1,spread=1e200", "spread: 1e+200"),
        ("mine=nowhere.at:all", "cannot be loaded"),
        ("mine=os.path:join", "fails: TypeError"),
        ("mine=math:pow --trial", "returns float, not a TrialResult"),
    ],
)
def test_what_is_wrong_is_told(task: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", *task.split(), "--seconds", "0.1"]) == 2
    assert told in capsys.readouterr().err


def test_a_name_of_two_tasks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "parse:cpu=0.02", "parse:cpu=0.01", *FAST]) == 2
    assert "'parse' stands twice" in capsys.readouterr().err


def test_one_noisy_trial_of_three_does_not_end_the_search() -> None:
    def upset(threads: int, rate: float) -> TrialResult:
        return noisy(threads, rate + 30 * (rate == 10))

    points = model_task([noisy, upset, noisy], rate_step=10, max_threads=1)
    assert points[0].rate == 30
    assert model_task(upset, rate_step=20, max_threads=1)[0].rate == 20
