"""``streamplace generate``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from experiments.generators import KINDS, command, generate
from optim.errors import InvalidInput
from optim.format.instance import Instance


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))


def test_writes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("random_graphs", "--seed", "5", "--option", "nodes=9") == 0
    printed = capsys.readouterr().out
    assert Instance.from_json(printed).sha256 == generate("random_graphs", 5, nodes=9).sha256


def test_writes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "job.json.gz"
    assert run("pipeline", "-o", str(target)) == 0
    assert Instance.load(target).name.startswith("pipeline")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "400 tasks" in captured.err


def test_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    text = capsys.readouterr().out
    assert all(f"{name}: " in text for name in KINDS.names())
    assert run("--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(KINDS.names())


def test_options_without_a_kind_are_refused() -> None:
    with pytest.raises(InvalidInput, match="KIND is missing"):
        run("--option", "nodes=3")


@pytest.mark.parametrize("name", ["seed", "kind", "name"])
def test_what_is_no_parameter_of_a_kind_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name} is no parameter of pipeline"):
        run("pipeline", "--option", f"{name}=1")


def test_a_seed_for_a_kind_without_chance_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInput, match="seed: 7 is of no use: pipeline draws nothing"):
        run("pipeline", "--seed", "7")
    assert run() == 0
    listed = capsys.readouterr().out.split("\n\n")
    fixed = [kind.split(":")[0] for kind in listed if "nothing is random" in kind]
    assert fixed == [name for name in KINDS.names() if not KINDS.get(name).random]
