"""The sweep file: what is read, and that everything wrong in it is told at once, by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.sweep.spec import MethodEntry, Settings, Spec, Variation, load_spec
from optim.errors import ExitCode, InvalidInput

GOOD = """
name = "capsys"
time_limit = 60
memory_limit = "4GB"
ignore = ["max_migrations"]

[instances]
files = ["*.json"]
[[instances.generate]]
kind = "random-graph"
seeds = {from = 0, to = 2}
groups = [2, 3]

[matrix]
method = ["imc-exact", {method = "top-down", label = "TD", options = {priority = ["imc", "x"]}}]
solver = ["highs", "none"]
seed = {from = 0, to = 4, step = 2}
option.priority = ["imc"]
load_share = [0.5, 1]
budget = [0, 3]

[vary]
load_share = {resource = "cpu"}
budget = {kind = "limit", limit = "max_migrations"}

[[matrix.exclude]]
method = "TD"
load_share = 0.5
[[matrix.include]]
method = "imc-exact"
time_limit = 300
"""


def load(tmp_path: Path, text: str) -> Spec:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    return load_spec(path)


def problems_of(document: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as caught:
        Spec.from_dict(document)
    return {problem.path: problem.reason for problem in caught.value.problems}


def with_matrix(matrix: Any, **top: Any) -> dict[str, Any]:
    return {"name": "t", "instances": {"files": ["a.json"]}, "matrix": matrix, **top}


def test_whole_file(tmp_path: Path) -> None:
    spec = load(tmp_path, GOOD)
    assert spec.defaults == Settings(
        time_limit=60.0, memory_limit=4_000_000_000, ignore=("max_migrations",)
    )
    assert spec.files == ("*.json",)
    assert spec.base == tmp_path
    (generator,) = spec.generators
    assert (generator.kind, generator.seeds) == ("random-graph", (0, 1, 2))
    assert generator.parameters == {"groups": (2, 3)}
    assert list(spec.factors) == [
        "method", "solver", "seed", "option.priority", "load_share", "budget",
    ]  # fmt: skip
    assert spec.factors["method"] == (
        MethodEntry("imc-exact"),
        MethodEntry("top-down", "TD", {"priority": "imc"}, ("priority",)),
        MethodEntry("top-down", "TD", {"priority": "x"}, ("priority",)),
    )
    assert spec.factors["solver"] == ("highs", None)
    assert spec.factors["seed"] == (0, 2, 4)
    assert spec.variations == {
        "load_share": Variation("load_share", "load_share", "cpu"),
        "budget": Variation("budget", "limit", None, "max_migrations"),
    }
    assert spec.exclude == ({"method": MethodEntry("TD"), "load_share": 0.5},)
    assert spec.include == ({"method": MethodEntry("imc-exact"), "time_limit": 300.0},)


def test_load_share_needs_no_entry_in_vary() -> None:
    spec = Spec.from_dict(with_matrix({"method": ["m"], "load_share": [0.5]}))
    assert spec.variations == {"load_share": Variation("load_share", "load_share")}


@pytest.mark.parametrize(
    ("matrix", "path", "reason"),
    [
        ({"method": []}, "matrix.method", "is empty"),
        ({"method": "flux"}, "matrix.method", "must be a list"),
        ({"method": ["a"], "seed": []}, "matrix.seed", "is empty"),
        ({"method": ["a"], "seed": [1.5]}, "matrix.seed[0]", "must be a whole number"),
        ({"method": ["a"], "seed": [True]}, "matrix.seed[0]", "must be a whole number"),
        ({"method": ["a"], "seed": [-1]}, "matrix.seed[0]", "must be at least 0"),
        ({"method": ["a"], "seed": {"from": 3, "to": 1}}, "matrix.seed", "must hold 1 to"),
        ({"method": ["a"], "seed": {"from": 0, "to": 10**12}}, "matrix.seed", "must hold 1 to"),
        ({"method": ["a"], "time_limit": [0]}, "matrix.time_limit[0]", "must be above 0"),
        ({"method": ["a"], "time_limit": [float("nan")]}, "matrix.time_limit[0]", "finite"),
        ({"method": ["a"], "gap": [-0.1]}, "matrix.gap[0]", "must be at least 0"),
        ({"method": ["a"], "gap": ["wide"]}, "matrix.gap[0]", "must be a number"),
        ({"method": ["a"], "gap": [[]]}, "matrix.gap[0]", "must be a number, not a list"),
        ({"method": ["a"], "repair": ["yes"]}, "matrix.repair[0]", "must be true or false"),
        ({"method": ["a"], "ignore": [["speed"]]}, "matrix.ignore[0][0]", "is no limit"),
        ({"method": ["a"], "start_broken": ["no"]}, "matrix.start_broken[0]", "must be 'mend' or"),
        ({"method": ["a"], "memory_limit": ["4 apples"]}, "matrix.memory_limit[0]", "is no size"),
        ({"method": ["a"], "memory_limit": [100]}, "matrix.memory_limit[0]", "at least 64 MiB"),
        ({"method": ["a"], "sed": [1]}, "matrix.sed", "is not a known key"),
        ({"method": ["a"], "instance": ["x"]}, "matrix.instance", "is given by [instances]"),
        ({"method": ["a"], "scale_capacity": [{"cpu": 0}]},
         "matrix.scale_capacity[0].cpu", "must be above 0"),
        ({"method": ["a"], "scale_capacity": ["x"]}, "matrix.scale_capacity[0]", "be a number"),
        ({"method": ["a"], "option": {"p": [[1]]}}, "matrix.option.p[0]", "must be a text, a"),
        ({"method": ["a"], "option": [1]}, "matrix.option", "must be a table"),
        ({"method": [{"method": "a", "solver": ["x", 1]}]},
         "matrix.method[0].solver[1]", "must be a text"),
        ({"method": [{"method": "a", "solver": 1}]}, "matrix.method[0].solver", "must be a text"),
        ({"method": ["a"], "include": [{"load_share": 0.5}]},
         "matrix.include[0].load_share", "is no factor"),
        ({"method": ["a"], "exclude": [{"method": {"method": "a", "options": {"p": [1, 2]}}}]},
         "matrix.exclude[0].method", "means several methods"),
        ({"method": ["a"], "load_share": [0]}, "matrix.load_share[0]", "must be above 0"),
        ({"method": ["a", "a"]}, "matrix.method", "holds a value twice"),
        ({"method": ["a"], "seed": [1, 1]}, "matrix.seed", "holds a value twice"),
        ({"method": [{"label": "x"}]}, "matrix.method[0].method", "is missing"),
        ({"method": [{"method": "a", "optoins": {}}]}, "matrix.method[0].optoins", "not a known"),
        ({"method": [{"method": "a", "options": {"p": []}}]},
         "matrix.method[0].options.p", "is empty"),
        ({"method": [{"method": "a", "options": {"p": [[1]]}}]},
         "matrix.method[0].options.p[0]", "must be a text, a number"),
        ({"seed": [1]}, "matrix.method", "is missing"),
        ({"method": ["a"], "exclude": {"method": "a"}}, "matrix.exclude", "must be a list"),
        ({"method": ["a"], "exclude": [{}]}, "matrix.exclude[0]", "is empty"),
        ({"method": ["a"], "exclude": [{"gap": 0.1}]}, "matrix.exclude[0].gap", "is no factor"),
        ({"method": ["a"], "include": [{"speed": 1}]}, "matrix.include[0].speed", "not a known"),
        ({"method": ["a"], "include": [{"seed": "x"}]},
         "matrix.include[0].seed", "must be a whole number"),
    ],
)  # fmt: skip
def test_wrong_matrices(matrix: dict[str, Any], path: str, reason: str) -> None:
    problems = problems_of(with_matrix(matrix))
    assert list(problems) == [path]
    assert reason in problems[path]


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"name": ""}, "name", "is empty"),
        ({"name": 3}, "name", "must be a text"),
        ({"nmae": "x"}, "nmae", "is not a known key"),
        ({"instances": {}}, "instances", "names neither"),
        ({"instances": {"files": []}}, "instances.files", "is empty"),
        ({"instances": {"files": [3]}}, "instances.files[0]", "must be a text"),
        ({"instances": {"generate": [{"seeds": [1]}]}}, "instances.generate[0].kind", "missing"),
        ({"instances": {"generate": [{"kind": "a", "seeds": ["x"]}]}},
         "instances.generate[0].seeds[0]", "must be a whole number"),
        ({"instances": 7}, "instances", "must be a table"),
        ({"vary": {"x": {"kind": "load_share"}}}, "vary.x", "is varied by no factor"),
        ({"vary": {"x": {"kind": "limit"}}}, "vary.x.limit", "is missing"),
        ({"vary": {"x": {"kind": "load_share", "share": 1}}}, "vary.x.share", "not a known key"),
        ({"vary": {"x": {"kind": "colour"}}}, "vary.x.kind", "must be 'load_share'"),
        ({"vary": {"seed": {"kind": "load_share"}}}, "vary.seed", "means something else"),
        ({"time_limit": "1 min"}, "time_limit", "must be a number"),
        ({"threads": 0}, "threads", "must be at least 1"),
    ],
)  # fmt: skip
def test_wrong_tables(change: dict[str, Any], path: str, reason: str) -> None:
    problems = problems_of({**with_matrix({"method": ["a"]}), **change})
    assert list(problems) == [path]
    assert reason in problems[path]


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"tiem_limit": 1}, "did you mean time_limit?"),
        ({"matrix": {"method": ["a"], "sed": [1]}}, "did you mean seed?"),
        ({"matrix": {"method": ["a"], "budgte": [1]}, "vary": {"budget": {"kind": "load_share"}}},
         "did you mean budget?"),
        ({"matrix": {"method": [{"method": "a", "lable": "b"}]}}, "did you mean label?"),
        ({"instances": {"files": ["a"], "colour": 1}}, "known: files, generate"),
        ({"matrix": {"method": ["a"], "ignore": [["speed"]]}}, "limits: max_migrations, "),
    ],
)  # fmt: skip
def test_what_may_be_meant_is_told(change: dict[str, Any], remedy: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Spec.from_dict({**with_matrix({"method": ["a"]}), **change})
    assert caught.value.problems[0].remedy.startswith(remedy)


def test_a_wrong_vary_makes_its_factors_no_unknown_keys() -> None:
    matrix = {"method": ["a"], "budget": [1], "seed": [-1]}
    problems = problems_of(with_matrix(matrix, vary={"budget": {"kind": "colour"}}))
    assert set(problems) == {"vary.budget.kind", "matrix.seed[0]"}


def test_everything_wrong_is_told_at_once() -> None:
    problems = problems_of({"matrix": {"method": [], "gap": [-1]}, "colour": 1})
    assert set(problems) == {"name", "instances", "matrix.method", "matrix.gap[0]", "colour"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"name = ", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b'name = "a"\nname = "b"', "is not TOML"),
    ],
)
def test_files_that_are_no_toml(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=reason) as caught:
        load_spec(path)
    assert caught.value.exit_code is ExitCode.USAGE
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        load_spec(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match="is a directory"):
        load_spec(tmp_path)
