"""The outermost layer: help, dispatch, exit codes, pipes, internal errors."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from optim.errors import ExitCode, InvalidInput, Problem, StreamplaceError
from streamplace.cli import main as cli
from tests.streamplace.cli.conftest import COMMAND, write_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

# What `--help` may not wait for.
HEAVY = (
    "numpy",
    "scipy",
    "pydantic",
    "rich",
    "pandas",
    "pyspark",
    "ortools",
    "numba",
    "optim.format.plan",
)


def test_help_names_every_command_and_exit_code(streamplace: Run) -> None:
    done = streamplace("--help")
    assert done.returncode == 0
    assert done.stderr == ""
    for command in cli.commands():
        assert re.search(rf"\n  {command.name}\s", done.stdout)
    codes = done.stdout.split("exit codes: ")[1].replace("\n", " ")
    for code in ExitCode:
        assert re.search(rf"(^|[;,] ){int(code)}\b", codes)


@pytest.mark.parametrize("command", [command.name for command in cli.commands()])
def test_every_command_has_help(command: str, streamplace: Run) -> None:
    done = streamplace(command, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: streamplace {command}")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from streamplace.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=600
    )
    loaded = set(done.stderr.split())
    assert "streamplace.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_no_command_is_a_usage_error(streamplace: Run) -> None:
    done = streamplace()
    assert done.returncode == ExitCode.USAGE
    assert done.stdout == ""
    assert "usage: streamplace" in done.stderr


def test_unknown_command_suggests_the_near_one(streamplace: Run) -> None:
    done = streamplace("slove", "x.json")
    assert done.returncode == ExitCode.USAGE
    assert "unknown command 'slove'; did you mean `solve`?" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_misspelt_option_suggests_the_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    for option, hint in (("--metod=x", "; did you mean `--method`?"), ("--zebra", "")):
        with pytest.raises(SystemExit):
            cli.main(["solve", "x.json", option])
        said = capsys.readouterr().err.splitlines()
        assert said[0] == f"streamplace solve: error: unrecognized arguments: {option}{hint}"


def test_version(streamplace: Run) -> None:
    done = streamplace("--version")
    assert done.returncode == 0
    assert done.stdout.split()[0] == "streamplace"


def run_without_reader(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command into a pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        os.close(write)


@pytest.mark.parametrize("arguments", [["schema"], ["--help"], ["methods"], ["--version"]])
def test_a_reader_who_leaves_is_no_error(arguments: list[str]) -> None:
    done = run_without_reader(*arguments)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_reader_who_leaves_does_not_change_the_exit_code(
    flags: list[str], instance_file: Path
) -> None:
    everything = dict.fromkeys(["a/0", "b/0", "c/0", "d/0"], "n1")
    plan = write_plan(instance_file.with_name("p.json"), everything)
    done = run_without_reader("evaluate", instance_file, plan, *flags)
    assert done.stderr == ""
    assert done.returncode == ExitCode.NO_PLAN


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["methods"], ["methods", "--json"], ["--help"]])
def test_a_full_disk_is_no_internal_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == f"streamplace: nothing more can be written: {os.strerror(28)}\n"


def test_a_folder_that_may_not_be_entered_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def exists(path: Path) -> bool:  # as where a folder above it may not be searched
        raise PermissionError(13, os.strerror(13), str(path))

    monkeypatch.setattr(Path, "exists", exists)
    folder = tmp_path / "closed"
    assert cli.main(["report", str(folder)]) == ExitCode.USAGE
    assert capsys.readouterr().err == f"streamplace: '{folder}': {os.strerror(13)}\n"


@pytest.mark.parametrize(
    "arguments",
    [["report", "x" * 300], ["solve", "x", "--method", "top-down", "-o", "x" * 300 + "/y"]],
)
def test_a_name_that_is_too_long_is_no_internal_error(
    arguments: list[str], streamplace: Run
) -> None:
    done = streamplace(*arguments)
    assert done.returncode == ExitCode.USAGE
    assert os.strerror(36) in done.stderr


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_closed_stream_is_an_empty_one(stream: int, instance_file: Path) -> None:
    instance = "-" if stream == 0 else str(instance_file)
    closing = f"exec {stream}>&-; exec {COMMAND} check {instance} --json"
    done = subprocess.run(["sh", "-c", closing], capture_output=True, text=True, check=False)
    assert done.returncode == (ExitCode.USAGE if stream == 0 else ExitCode.OK)
    assert ("standard input: $ is empty" in done.stderr) == (stream == 0)
    assert bool(done.stdout) == (stream == 2)


def test_a_plain_terminal_gets_question_marks_instead_of_a_crash(
    instance_file: Path, plan_file: Path
) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [COMMAND, "evaluate", instance_file, plan_file],
        env=environment,
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Return a function that replaces ``check`` by something that raises."""

    def install(error: BaseException) -> None:
        def fail(args: object) -> int:
            raise error

        monkeypatch.setattr("streamplace.cli.check.run", fail)

    return install


def test_interruption_is_130(
    command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    command_that(KeyboardInterrupt())
    assert cli.main(["check", "x"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "streamplace: interrupted\n"


def test_errors_carry_their_exit_code(
    command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    command_that(InvalidInput(Problem("nodes[0].id", "x", "is odd", "change it"), "f.json"))
    assert cli.main(["check", "x"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "streamplace: f.json: nodes[0].id: 'x' is odd (change it)\n"
    command_that(StreamplaceError("the solver broke"))
    assert cli.main(["check", "x"]) == ExitCode.INTERNAL
    assert capsys.readouterr().err == "streamplace: the solver broke\n"


def test_debug_shows_where_an_error_came_from(
    command_that: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    command_that(StreamplaceError("the solver broke"))
    assert cli.main(["check", "x", "--debug"]) == ExitCode.INTERNAL
    assert "Traceback" in capsys.readouterr().err


RAISING = (
    "import sys, streamplace.cli.check\n"
    "def fail(args): raise {error}\n"
    "streamplace.cli.check.run = fail\n"
    "from streamplace.cli.main import main\n"
    "sys.exit(main(['check', 'x']))\n"
)


def test_a_pipe_that_breaks_inside_a_command_is_no_error() -> None:
    script = RAISING.format(error="BrokenPipeError()")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("debug", [False, True])
def test_internal_errors_are_short_unless_debugged(debug: bool, tmp_path: Path) -> None:
    script = RAISING.format(error="ZeroDivisionError('by design')")
    environment = {**os.environ, "STREAMPLACE_DEBUG": "1" if debug else ""}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == ExitCode.INTERNAL
    assert "ZeroDivisionError: by design" in done.stderr
    assert ("Traceback" in done.stderr) is debug
    assert ("Please report" in done.stderr) is not debug


def test_the_shell_completes_commands_and_methods(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for line, found in (("streamplace ste", "steps"), ("streamplace solve x --method flu", "flux")):
        asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
        environment = {**os.environ, **asked, "_ARGCOMPLETE_STDOUT_FILENAME": str(out)}
        subprocess.run([COMMAND], env=environment, check=False)
        assert found in out.read_text()


def test_help_fits_a_screen_and_help_all_shows_the_rest(streamplace: Run) -> None:
    for command in cli.commands():
        short = streamplace(command.name, "--help").stdout
        assert len(short.splitlines()) <= 60, command.name
        rare = getattr(importlib.import_module(command.module), "RARE", ())
        assert ("--help-all" in short) == bool(rare)
        if rare:
            whole = streamplace(command.name, "--help-all")
            assert whole.returncode == ExitCode.OK
            assert not set(rare) & set(short.split())
            assert set(rare) <= set(whole.stdout.replace(",", " ").split())


def test_commands_are_listed_by_group(streamplace: Run) -> None:
    listed = streamplace("--help").stdout
    for command in cli.commands():
        assert listed.index(f"\n{command.group}:") < listed.index(f"\n  {command.name} ")
