"""Watching: what a plan would change, and when it is applied."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optim.exit_codes import ExitCode
from streamplace.cli.main import main
from streamplace.clusters.exchange.transfer import import_instance
from streamplace.clusters.flink.watch import count_moves, gain_of
from tests.streamplace.clusters import systems

NOW = ["--option", "interval=0", "--every", "0.01"]


@pytest.mark.parametrize(
    ("before", "after", "sense", "gain"),
    [(4, 3, "min", 0.25), (4, 5, "min", 0), (4, 5, "max", 0.25), (0, 1, "max", 1)],
)
def test_gains(before: float, after: float, sense: str, gain: float) -> None:
    assert gain_of(before, after, sense) == gain


def test_tasks_that_trade_places_do_not_move(saved: Callable[..., str]) -> None:
    instance = import_instance("flink", [saved(systems.flink())]).instance
    now = instance.tasks.node
    assert count_moves(instance, now) == 0
    assert now[:2].tolist() == [0, 1]
    traded = now.copy()
    traded[:2] = [1, 0]
    assert count_moves(instance, traded) == 0
    traded[:2] = [1, 1]
    assert count_moves(instance, traded) == 1


def test_without_apply_it_only_tells(
    serve: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve(systems.flink())
    assert main(["watch", "flink", url, *NOW, "--rounds", "2", "--method", "imc-exact"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("warning: no --link-rate") == 1  # once, not at every look
    lines = printed.out.splitlines()
    assert len(lines) == 2
    assert "imc_gain 2 now, 4 planned (+100.0%)" in lines[0]
    assert lines[0].endswith("worth it; not applied (no --apply)")


def test_it_is_applied_once_in_a_cool_down(
    serve: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    script = tmp_path / "apply.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "sheet = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        f"open({str(log)!r}, 'a').write(sheet['format'] + '\\n')\n"
    )
    command = shlex.join([sys.executable, str(script)])
    arguments = ["watch", "flink", serve(systems.flink()), *NOW, "--method", "imc-exact", "--json"]
    assert main([*arguments, "--rounds", "2", "--apply", command]) == 0
    said = [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]
    assert said == ["applied", "worth it; cooling down"]
    assert log.read_text().splitlines() == ["streamplace.flink/1"]
    assert main([*arguments, "--rounds", "1", "--apply", command, "--gain", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "not worth a restart"


def test_a_first_look_that_fails_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "flink", "http://127.0.0.1:9", *NOW]) == ExitCode.USAGE
    assert "cannot be reached" in capsys.readouterr().err


def test_submit_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "flink", "http://127.0.0.1:9"]) == ExitCode.USAGE
    assert "are what submit takes" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["submit", "watch"])
def test_the_older_spelling_names_the_new_one(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["flink", verb, "http://127.0.0.1:9", *(NOW if verb == "watch" else [])]) == 2
    assert f"`streamplace {verb} flink` is what this is called now" in capsys.readouterr().err
