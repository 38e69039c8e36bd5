"""Plug-ins of every kind: listed without loading, ours kept, others' checked, names explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.generators import KINDS
from optim import plugins
from optim.errors import InvalidInput
from optim.kernels.repair import two_tasks
from optim.methods.registry import METHODS, name_of
from optim.methods.solve import solve
from optim.plugins import Plugins
from streamplace.cli.main import main
from streamplace.clusters.exchange.declarations import EXPORTERS, IMPORTERS
from streamplace.policies.registry import POLICIES
from tests.conftest import Plug

TABLES: list[Plugins[Any]] = [METHODS, KINDS, IMPORTERS, EXPORTERS, POLICIES]
table_of_each_kind = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.group)


@table_of_each_kind
def test_all_of_ours_load_under_their_names(table: Plugins[Any], repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    names = table.names()
    assert set(names) >= set(project["entry-points"][table.group])
    assert list(names) == sorted(names)
    assert [thing.name for thing in table.all()] == list(names)


@table_of_each_kind
def test_one_of_another_package_is_found(table: Plugins[Any], plug: Plug) -> None:
    ours = table.names()[0]
    plug(table.group, {"theirs": replace(table.get(ours), name="theirs")}, keep=(ours,))
    assert table.names() == tuple(sorted((ours, "theirs")))
    assert table.get("theirs").name == "theirs"
    assert (table.is_ours(ours), table.is_ours("theirs"), table.is_ours("no")) == (1, 0, 0)


@table_of_each_kind
def test_it_does_not_take_a_name_of_ours(table: Plugins[Any], plug: Plug) -> None:
    ours = table.get(table.names()[0])
    plug(table.group, {ours.name: replace(ours, summary="made up")}, keep=(ours.name,))
    assert table.get(ours.name).summary == ours.summary != "made up"
    assert table.is_ours(ours.name)


@table_of_each_kind
@pytest.mark.parametrize(
    ("change", "value", "words"),
    [
        (None, "no_such_module:thing", "cannot be loaded: No module named"),
        (None, "other_module:nothing", "cannot be loaded: .* has no attribute"),
        (3, "", "is no [A-Z]"),
        ("another", "", "calls itself another"),
    ],
)
def test_what_cannot_be_taken_is_told_and_left_out(
    table: Plugins[Any], plug: Plug, change: Any, value: str, words: str
) -> None:
    ours = table.get(table.names()[0])
    thing = replace(ours, name=change) if isinstance(change, str) else change
    plug(table.group, {"theirs": thing}, keep=(ours.name,), value=value)
    told = rf"{table.where}: 'theirs' {words}.*of the package other: correct or remove"
    with pytest.raises(InvalidInput, match=told):
        table.get("theirs")
    with pytest.warns(UserWarning, match=told):
        assert [thing.name for thing in table.all()] == [ours.name]


def test_a_module_that_fails_when_imported_is_told(
    plug: Plug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('no licence')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plug(METHODS.group, {"theirs": None}, keep=(), value="broken_module:METHOD")
    with pytest.raises(InvalidInput, match="'theirs' cannot be loaded: no licence"):
        METHODS.get("theirs")


@table_of_each_kind
def test_a_wrong_name_is_told_with_the_nearest(table: Plugins[Any]) -> None:
    name = table.names()[-1]
    with pytest.raises(InvalidInput, match=rf"is no {table.noun} \(did you mean"):
        table.get(name[:-1] + "~")
    with pytest.raises(InvalidInput, match=rf"is no {table.noun} \((see `streamplace|one of )"):
        table.get("§§§")


def test_one_that_is_not_installed_yet_is_told_how_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "HOME", tmp_path)
    text = '[project]\nname = "streamplace"\n[project.entry-points."streamplace.methods"]\n'
    (tmp_path / "pyproject.toml").write_text(text + 'anna = "heuristics.anna:METHOD"\n')
    with pytest.raises(InvalidInput, match=rf"installation not yet: pip install -e {tmp_path}"):
        METHODS.get("anna")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    with pytest.raises(InvalidInput, match=r"is no method \(see"):
        METHODS.get("anna")


def test_listing_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from experiments.generators import KINDS\n"
        "from streamplace.clusters.exchange.declarations import EXPORTERS, IMPORTERS\n"
        "from optim.methods.registry import METHODS\n"
        "names = [t.names() for t in (METHODS, KINDS, IMPORTERS, EXPORTERS)]\n"
        "assert all(names)\n"
        "print([m for m in ('numpy', 'pydantic', 'scipy', 'numba') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    "solved",
    [
        "from streamplace import Instance, solve\n"
        "assert solve(Instance.load('examples/capsys-q1.json')).feasible\n",
        "from streamplace.cli.main import main\n"
        "asked = ['solve', 'examples/capsys-q1.json', '-q', '--json', '-o', sys.argv[1]]\n"
        "assert main(asked) == 0\n",
    ],
    ids=["python", "command"],
)
def test_a_small_solve_loads_neither_numba_nor_what_explains_conflicts(
    repository: Path, tmp_path: Path, solved: str
) -> None:
    script = (
        f"import sys\n{solved}"
        "print([m for m in ('scipy', 'numba', 'formulations.conflicts') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "plan.json")],
        capture_output=True, text=True, cwd=repository,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


MINE = """
from dataclasses import dataclass, replace
from optim.methods.registry import get_method
@dataclass(frozen=True)
class Own:
    text: str
METHOD = replace(get_method("random"), name={!r}, summary="of mine")
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write a file with one method, in the folder where commands run; forget it in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(MINE.format("mine"))
    yield tmp_path / "mine.py"
    METHODS.added.clear()
    sys.modules.pop("mine", None)


@pytest.mark.parametrize("reference", ["./mine.py", "mine.py:METHOD", "mine:METHOD"])
def test_what_no_package_registers_is_found_where_it_stands(mine: Path, reference: str) -> None:
    assert name_of(reference) == "mine"
    assert METHODS.get("mine") is METHODS.get(reference)
    assert "mine" not in METHODS.names()
    result = solve(two_tasks(), reference)
    assert (result.method, result.feasible) == ("mine", True)


def test_an_object_is_a_method_and_a_later_one_of_its_name_takes_its_place() -> None:
    first = replace(METHODS.get("random"), name="own")
    assert solve(two_tasks(), first).method == "own"
    second = replace(first, summary="another")
    assert name_of(second) == "own"
    assert METHODS.get("own").summary == "another"
    assert name_of(METHODS.get("random")) == "random"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("mine.py:NOTHING", "cannot be loaded: .*no attribute 'NOTHING'"),
        ("none.py", r"cannot be loaded: \[Errno 2\]"),
        ("nowhere:METHOD", "cannot be loaded: No module named 'nowhere'"),
        ("mine.py:replace", "is no Method of optim.methods.registry"),
        ("two.py", r"has 2 objects of the type Method \(say which: two.py:METHOD\)"),
        ("empty.py", "has 0 objects of the type Method"),
        ("ours.py", "has the name imc-exact, which is registered"),
        ("all.py", "has the name of all methods together"),
        ("wrong.py", "honours what there is not: gravity"),
        ("fails.py", "cannot be loaded: no licence"),
    ],
)
def test_what_is_none_is_told_with_the_reason(mine: Path, reference: str, words: str) -> None:
    more = 'SECOND = replace(METHOD, name="second")'
    honours = 'METHOD = replace(METHOD, honours={"gravity"})'
    for name, text in {
        "two": MINE.format("mine") + more, "empty": "", "ours": MINE.format("imc-exact"),
        "all": MINE.format("portfolio"), "wrong": MINE.format("wrong") + honours,
        "fails": "raise RuntimeError('no licence')",
    }.items():  # fmt: skip
        mine.with_name(f"{name}.py").write_text(text)
    with pytest.raises(InvalidInput, match=f"--method: '{reference}' {words}"):
        name_of(reference)


def test_a_changed_file_is_read_again(mine: Path) -> None:
    assert METHODS.get("mine.py").summary == "of mine"
    mine.write_text(MINE.format("mine").replace("of mine", "changed"))
    os.utime(mine, ns=(1, 1))
    assert METHODS.get("mine.py").summary == "changed"


def test_on_the_command_line(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_tasks().save("two.json")
    assert main(["solve", "two.json", "--method", "./mine.py", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "mine"
    assert main(["solve", "two.json", "--method", "./none.py"]) == 2
    assert "none.py" in capsys.readouterr().err
