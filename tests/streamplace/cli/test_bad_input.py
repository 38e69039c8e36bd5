"""Bad input through the real command: exit 2, one clear message, nothing half-written."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from optim.errors import ExitCode
from streamplace.cli.main import main
from tests.streamplace.cli.conftest import COMMAND

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

HEAD = '{"format": "streamplace.instance/1", "name": "x", '
NODE = '"nodes": [{"id": "n1", "capacity": {"cpu": 10}}], '

# name: (content, what the message must say)
BAD_FILES: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["is empty"]),
    "not_json": ("{not json", ["is not JSON", "line 1"]),
    "not_an_object": ("[1, 2]", ["must be", "object"]),
    "half_a_file": (HEAD + NODE + '"tasks": [{"id": "a"', ["is not JSON"]),
    "duplicate_key": (HEAD + NODE + '"name": "y"}', ["name", "twice"]),
    "deep_duplicate_key": (
        HEAD + '"nodes": [{"id": "n1", "capacity": {"cpu": 1, "cpu": 2}}]}',
        ["nodes[0].capacity.cpu", "twice"],
    ),
    "unknown_key": (
        HEAD + '"nodes": [{"id": "n1", "capcity": {"cpu": 1}}]}',
        ["nodes[0].capcity", "not a known key", "did you mean capacity?"],
    ),
    "wrong_format": ('{"format": "streamplace.instance/9", "name": "x"}', ["format", "/9"]),
    "nan": (
        HEAD + '"nodes": [{"id": "n1", "capacity": {"cpu": NaN}}]}',
        ["capacity.cpu", "finite"],
    ),
    "too_large_a_number": (
        HEAD + '"nodes": [{"id": "n1", "capacity": {"cpu": 1e400}}]}',
        ["nodes[0].capacity.cpu", "finite"],
    ),
    "negative": (
        HEAD + NODE + '"tasks": [{"id": "a", "load": {"cpu": -1}}]}',
        ["tasks[0].load.cpu", "-1", "must be at least 0"],
    ),
    "text_for_number": (
        HEAD + NODE + '"tasks": [{"id": "a", "load": {"cpu": "1.5"}}]}',
        ["tasks[0].load.cpu", "'1.5'", "not a text"],
    ),
    "true_for_number": (
        HEAD + NODE + '"tasks": [{"id": "a", "load": {"cpu": true}}]}',
        ["tasks[0].load.cpu", "not true/false"],
    ),
    "unknown_node": (
        HEAD + NODE + '"tasks": [{"id": "a", "node": "n9"}]}',
        ["tasks[0].node", "'n9'"],
    ),
    "unknown_allowed": (
        HEAD + NODE + '"tasks": [{"id": "a", "allowed": ["n1", "n9"]}]}',
        ["tasks[0].allowed", "'n9'"],
    ),
    "unknown_operator": (
        HEAD + NODE + '"streams": [{"from": "p", "to": "q", "rate": 1}]}',
        ["streams[0].from", "'p'"],
    ),
    "unknown_traffic": (
        HEAD + NODE + '"tasks": [{"id": "a"}], "traffic": [["a", "b", 1]]}',
        ["traffic[0]", "'b'"],
    ),
    "twice_the_same_id": (
        HEAD + NODE + '"tasks": [{"id": "a"}, {"id": "a"}]}',
        ["tasks[1].id", "'a'"],
    ),
    "too_many_tasks": (
        HEAD + NODE + '"operators": [{"id": "o", "group": {"tasks": 1000000000000}}]}',
        ["operators[0].group.tasks", "1000000000000"],
    ),
    "nested": ("[" * 100_000 + "]" * 100_000, ["nested too deeply"]),
    "nested_objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, ["nested too deeply"]),
    "binary": ("\x00\x01\x02", ["is not JSON"]),
}


def assert_refused(
    done: subprocess.CompletedProcess[str], folder: Path, said: list[str], left: set[str]
) -> None:
    """One message, in the words expected, on standard error only; and no new file."""
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert done.stdout == ""
    for words in said:
        assert words in done.stderr
    assert done.stderr.startswith("streamplace")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert all(len(line) < 400 for line in done.stderr.splitlines())
    assert {path.name for path in folder.iterdir()} == left


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(case: str, streamplace: Run, tmp_path: Path) -> None:
    content, said = BAD_FILES[case]
    (tmp_path / "bad.json").write_text(content)
    done = streamplace("solve", "bad.json", "-o", "plan.json")
    assert_refused(done, tmp_path, ["bad.json", *said], {"bad.json"})


def test_all_problems_are_told_at_once(streamplace: Run, tmp_path: Path) -> None:
    nodes = [{"id": f"n{i}", "capacity": {"cpu": -i - 1}} for i in range(30)]
    text = json.dumps({"format": "streamplace.instance/1", "name": "x", "nodes": nodes})
    (tmp_path / "bad.json").write_text(text)
    done = streamplace("check", "bad.json")
    assert done.returncode == ExitCode.USAGE
    lines = done.stderr.splitlines()
    assert "30 problems" in lines[0]
    assert len(lines) == 22
    assert "10 more" in lines[-1]


def test_a_file_of_two_gigabytes_is_not_read(streamplace: Run, tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    path.touch()
    os.truncate(path, 2 << 30)
    done = streamplace("solve", "huge.json", "-o", "plan.json")
    assert_refused(done, tmp_path, ["huge.json", "too large", str(2 << 30)], {"huge.json"})


def test_a_small_file_that_unpacks_to_too_much_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("optim.util.files.read_bytes.__defaults__", (1 << 20,))
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (8 << 20)))
    assert path.stat().st_size < 1 << 20
    assert main(["check", str(path)]) == ExitCode.USAGE
    assert "too large" in capsys.readouterr().err


def test_not_really_gzip(streamplace: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json.gz").write_text("{}")
    done = streamplace("solve", "x.json.gz", "-o", "plan.json")
    assert_refused(done, tmp_path, ["x.json.gz", "gzip"], {"x.json.gz"})


def test_a_directory(streamplace: Run, tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    done = streamplace("solve", "folder.json")
    assert_refused(done, tmp_path, ["folder.json", "is a directory"], {"folder.json"})


def test_a_missing_file(streamplace: Run, tmp_path: Path) -> None:
    done = streamplace("solve", "nowhere.json")
    assert_refused(done, tmp_path, ["nowhere.json", "does not exist"], set())


def test_no_permission(
    instance_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Root may read anything, so the refusal is the file system's only where it can be.
    if os.geteuid() == 0:

        def refuse(*args: Any, **kwargs: Any) -> Any:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pathlib.Path.open", refuse)
    else:
        instance_file.chmod(0)
    assert main(["check", str(instance_file)]) == ExitCode.USAGE
    assert "pairs.json may not be read" in capsys.readouterr().err


BAD_ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "method": (["--method", "topdown"], ["--method", "'topdown'", "did you mean top-down"]),
    "solver": (["--method", "balance-milp", "--solver", "gurobi"], ["--solver", "cbc, highs"]),
    "solver_of_none": (["--method", "top-down", "--solver", "cbc"], ["--solver", "uses none"]),
    "time_limit": (["--time-limit", "nan"], ["--time-limit", "finite"]),
    "no_time": (["--time-limit", "0"], ["--time-limit", "0"]),
    "gap": (["--gap", "-0.1"], ["--gap", "negative"]),
    "seed": (["--seed", "1.5"], ["--seed", "whole number"]),
    "threads": (["--threads", "0"], ["--threads", "at least 1"]),
    "option_form": (["--option", "priority"], ["--option", "name=value"]),
    "option_name": (["--method", "top-down", "--option", "colour=red"], ["colour", "priority"]),
    "option_value": (["--method", "top-down", "--option", "priority=red"], ["priority", "'red'"]),
    "option_twice": (["--option", "a=1", "--option", "a=2"], ["given twice"]),
    "option_that_is_a_flag": (["--option", "seed=1"], ["use --seed"]),
    "ignore": (["--ignore", "gravity"], ["--ignore", "'gravity'", "max_migrations"]),
    "warm_start": (
        ["--method", "balance-milp", "--warm-start", "nothing"],
        ["--warm-start", "'nothing'", "neither"],
    ),
    "output_folder": (["-o", "no/such/plan.json"], ["--output", "no folder"]),
    "output_directory": (["-o", "."], ["--output", "directory"]),
    "output_instance": (["-o", "./pairs.json"], ["--output", "is the instance itself"]),
    "plot_folder": (["--curve", "moves", "--plot", "no/such.svg"], ["--plot", "no folder"]),
    "plot_kind": (["--curve", "moves", "--plot", "curve.txt"], ["--plot", ".svg, .png, .pdf"]),
    "same_file": (["-o", "p.json", "--certificate", "./p.json"], ["--certificate", "of --output"]),
    "flag": (["--fast"], ["--fast"]),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments(case: str, streamplace: Run, instance_file: Path, tmp_path: Path) -> None:
    arguments, said = BAD_ARGUMENTS[case]
    done = streamplace("solve", instance_file.name, *arguments, "-q")
    assert_refused(done, tmp_path, said, {instance_file.name})


def test_a_method_that_does_not_suit_names_what_is_missing(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("solve", "x.json", "--method", "slots-milp", "-q", "-o", "plan.json")
    assert_refused(
        done, tmp_path, ["slots-milp", "needs operators[].model; a has none"], {"x.json"}
    )


def test_a_limit_that_is_not_honoured_names_both_remedies(
    streamplace: Run, document: dict[str, Any], tmp_path: Path
) -> None:
    document["limits"] = {"max_migrations": 1}
    (tmp_path / "x.json").write_text(json.dumps(document))
    done = streamplace("solve", "x.json", "--method", "top-down", "-q", "-o", "plan.json")
    said = ["max_migrations = 1", "--repair", "--ignore max_migrations"]
    assert_refused(done, tmp_path, said, {"x.json"})


def test_a_plan_of_another_instance(
    streamplace: Run, document: dict[str, Any], plan_file: Path, tmp_path: Path
) -> None:
    other = json.dumps(json.loads(plan_file.read_text()) | {"instance_sha256": "0" * 64})
    (tmp_path / "other.json").write_text(other)
    for command in ("check", "evaluate", "diff"):
        done = streamplace(command, "pairs.json", "other.json")
        assert done.returncode == ExitCode.USAGE
        assert "another instance" in done.stderr


def test_a_plan_that_names_what_does_not_exist(streamplace: Run, instance_file: Path) -> None:
    from tests.streamplace.cli.conftest import write_plan

    write_plan(instance_file.with_name("p.json"), {"a/0": "n7", "zebra": "n1"})
    done = streamplace("evaluate", "pairs.json", "p.json")
    assert done.returncode == ExitCode.USAGE
    assert "'n7'" in done.stderr
    assert "zebra" in done.stderr


def test_a_plan_that_was_changed_by_hand(streamplace: Run, instance_file: Path) -> None:
    streamplace("solve", "pairs.json", "--method", "top-down", "-o", "plan.json", "-q")
    path = instance_file.with_name("plan.json")
    path.write_text(path.read_text().replace('"n1"', '"n2"'))
    done = streamplace("check", "pairs.json", "plan.json")
    assert done.returncode == ExitCode.USAGE
    assert "sha256" in done.stderr
    assert "it was changed" in done.stderr


def test_a_sweep_of_an_empty_matrix(streamplace: Run, instance_file: Path, tmp_path: Path) -> None:
    text = 'name = "empty"\n[instances]\nfiles = ["pairs.json"]\n[matrix]\nmethod = []\n'
    (tmp_path / "empty.toml").write_text(text)
    done = streamplace("sweep", "empty.toml", "-o", "out", "-q")
    assert_refused(
        done, tmp_path, ["empty.toml", "matrix.method", "is empty"], {"empty.toml", "pairs.json"}
    )


def test_a_sweep_that_is_not_toml(streamplace: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("= 3")
    done = streamplace("sweep", "bad.toml", "-o", "out", "-q")
    assert_refused(done, tmp_path, ["bad.toml", "TOML"], {"bad.toml"})


def test_a_report_of_a_folder_that_holds_no_results(streamplace: Run, tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()
    done = streamplace("report", "holiday", "-o", "report.html")
    assert_refused(done, tmp_path, ["holiday"], {"holiday"})
    done = streamplace("report", "nowhere", "-o", "report.html")
    assert_refused(done, tmp_path, ["nowhere"], {"holiday"})


def test_a_full_disk_under_the_log_costs_no_plan(instance_file: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    command = [str(COMMAND), "solve", str(instance_file), "-o", str(plan)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert done.returncode == 0
    assert json.loads(plan.read_text())["assignment"]


def test_a_shortage_of_memory_is_told_as_that(
    instance_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> None:
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr("streamplace.cli.main._dispatch", short)
    assert main(["solve", str(instance_file)]) == ExitCode.USAGE
    assert "not enough memory: Unable to allocate 9 GiB; give it more" in capsys.readouterr().err
