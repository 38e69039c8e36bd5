"""``methods``, ``schema`` and ``versions``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from optim.errors import ExitCode
from optim.figures.catalogue import OBJECTIVES
from optim.methods.registry import NEEDS, method_names
from optim.rules import RULE_NAMES
from streamplace.cli.main import main

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]


def test_methods_as_json_say_all_of_the_contract(streamplace: Run) -> None:
    done = streamplace("methods", "--json")
    assert done.returncode == ExitCode.OK, done.stderr
    methods = json.loads(done.stdout)
    assert [method["name"] for method in methods] == list(method_names())
    for method in methods:
        assert method["objective"]["name"] in OBJECTIVES
        assert set(method["needs"]) <= set(NEEDS)
        assert set(method["honours"]) <= set(RULE_NAMES)
        assert method["summary"]
        assert all(option["help"] for option in method["options"])


def test_methods_as_text_stand_by_family(streamplace: Run) -> None:
    done = streamplace("methods")
    assert done.returncode == ExitCode.OK
    for name in method_names():
        assert f"\n{name} " in done.stdout
    assert "\ntask allocation\n" in done.stdout


def test_a_narrow_terminal_lists_what_methods_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["methods"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert "method    kind       what it does" in [line.rstrip() for line in lines]
    assert len(lines) < 3 * len(method_names())
    assert max(map(len, lines)) <= 80


def test_one_method_with_its_options(streamplace: Run) -> None:
    done = streamplace("methods", "top-down")
    assert done.returncode == ExitCode.OK
    assert "priority" in done.stdout
    assert "imc|" in done.stdout or "|imc" in done.stdout
    assert streamplace("methods", "nothing").returncode == ExitCode.USAGE


@pytest.mark.parametrize("what", ["instance", "plan"])
def test_the_schema_takes_what_the_reader_takes(
    what: str, streamplace: Run, instance_file: Path, plan_file: Path
) -> None:
    schema = json.loads(streamplace("schema", what).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    file = instance_file if what == "instance" else plan_file
    document = json.loads(file.read_text())
    jsonschema.validate(document, schema)
    document["nonsense"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, schema)


def test_versions(streamplace: Run) -> None:
    answer = json.loads(streamplace("versions", "--json").stdout)
    assert set(answer) == {"streamplace", "solvers", "libraries", "platform"}
    assert set(answer["solvers"]) == {"cbc", "highs", "scip", "cp-sat"}
    assert all(answer["solvers"].values())
    text = streamplace("versions").stdout
    for part in answer.values():
        for name, value in part.items():
            if value is not None:
                assert name in text
                assert value in text


def test_warm_takes_the_methods_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "naive"]) == ExitCode.OK
    captured = capsys.readouterr()
    assert "1 of 1: naive" in captured.err
    assert captured.out.startswith("1 methods are warm")
    assert main(["warm", "no-such"]) == ExitCode.USAGE


def test_some_small_instance_suits_every_method() -> None:
    from optim.methods.choose import is_suitable
    from optim.methods.registry import get_method
    from streamplace.cli.warm import _small

    instances = _small()
    left_out = [
        name
        for name in method_names()
        if not any(is_suitable(get_method(name), i, repair=True) for i in instances)
    ]
    assert left_out == []
