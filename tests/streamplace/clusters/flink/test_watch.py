"""Watching: what a plan would change, and when it is applied."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from optim.errors import ExitCode
from optim.format.plan import Plan
from streamplace.cli.main import main
from streamplace.clusters.exchange.sources import import_instance
from streamplace.execute.loop import Flink
from tests.streamplace.clusters import systems

NOW = ["--option", "interval=0", "--every", "0.01"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


def test_tasks_that_trade_places_do_not_move(saved: Callable[..., str]) -> None:
    instance = import_instance("flink", [saved(systems.flink())]).instance
    now = instance.tasks.node
    assert now[:2].tolist() == [0, 1]
    system = Flink("")
    for first, same in (([1, 0], True), ([1, 1], False)):
        there = now.copy()
        there[:2] = first
        plan = Plan.from_indices(instance, there)
        assert (system.place_counts(instance, plan) == system.place_counts(instance)) is same


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
    assert lines[0].endswith("not applied (no --apply)")


def applier(folder: Path, text: str) -> str:
    """Return a command that runs a script with the sheet."""
    script = folder / "apply.py"
    script.write_text("import json, os, pathlib, signal, sys\n" + text)
    return shlex.join([sys.executable, str(script)])


def test_it_is_applied_once_in_a_cool_down(
    serve: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    command = applier(
        tmp_path,
        "sheet = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        f"open({str(log)!r}, 'a').write(sheet['format'] + '\\n')\n",
    )
    arguments = ["watch", "flink", serve(systems.flink()), *NOW, "--method", "imc-exact", "--json"]
    assert main([*arguments, "--rounds", "2", "--apply", command]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["verdict"] for one in said] == ["applied", "stays"]
    assert "cooling down" in said[1]["reason"]
    assert log.read_text().splitlines() == ["streamplace.flink/1"]
    more = ["--rounds", "1", "--apply", command, "--gain", "2", "--cool-down", "0"]
    assert main([*arguments, *more]) == 0
    assert "not worth the moves" in json.loads(capsys.readouterr().out)["reason"]


def test_a_change_survives_kill_9(
    serve: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = applier(tmp_path, "os.kill(os.getppid(), signal.SIGKILL)\n")
    words = ["watch", "flink", serve(systems.flink()), *NOW, "--rounds", "1"]
    words += ["--method", "imc-exact"]
    ours = [sys.executable, "-m", "streamplace", *words, "--apply", command]
    done = subprocess.run(ours, check=False)
    assert done.returncode == -signal.SIGKILL
    assert main(words) == 0  # what runs is what ran before: the plan was never rolled out
    printed = capsys.readouterr()
    assert "was not begun" in printed.err
    assert printed.out.rstrip().endswith("not applied (no --apply)")


def test_flink_needs_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "flink", "http://127.0.0.1:9", *NOW, "--apply"]) == ExitCode.USAGE
    assert "needs a command" in capsys.readouterr().err


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
    assert f"`streamplace {verb} flink` is the new name of this command" in capsys.readouterr().err
