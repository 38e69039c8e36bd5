"""`--write-model`: PuLP reads the file back, and its optimum is what the method proves."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pulp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import Instance, InvalidInput, solve
from optim.methods.registry import all_methods
from optim.solvers.linear_model import LinearModel
from optim.solvers.mps import PosedModel, model_names, write_model
from streamplace.cli.main import main
from tests.formulations.model_driven.model_cases import COMPUTES, WAITS, model_instance
from tests.optim.solvers.models import random_model
from tests.test_methods_by_rules import made

pytestmark = pytest.mark.filterwarnings("ignore:Using LpProblem:DeprecationWarning")

ASKED: list[tuple[str, dict[str, Any]]] = [
    ("imc-milp", {}),
    ("plan-milp", {"objective": "0.1*imc_gain-2*nodes_used"}),
    ("balance-milp", {}),
    ("balance-milp", {"form": "full"}),
    ("joint-milp", {}),
    ("eoa-milp", {}),
    ("eoa-milp", {"objective": "mean_absolute_deviation"}),
    ("storm-milp", {}),
    ("throughput-milp", {}),
    ("throughput-milp", {"objective": "migrations"}),
    ("throughput-milp", {"objective": "nodes_used"}),
]
RULES = ("min_load", "leaving", "max_migration_cost", "copies", "sets", "links", "slots")


def model_driven() -> Instance:
    """Three tasks whose threads fill some slots."""
    models = {"waits": WAITS, "computes": COMPUTES}
    tasks = {"in": "waits", "mid": "computes", "out": "waits"}
    return model_instance(models, tasks, [("in", "mid", 1.0), ("mid", "out", 0.5)], 35.0)


def read(path: Path) -> pulp.LpProblem:
    """Read a model as anybody would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its next version
        return pulp.LpProblem.fromMPS(str(path))[1]


def optimum(path: Path) -> float | None:
    """Solve it as anybody would; ``None`` where nothing is feasible."""
    problem = read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status = problem.solve(pulp.PULP_CBC_CMD(msg=False, gapRel=0.0, options=["preprocess off"]))
    if pulp.LpStatus[status] != "Optimal":
        return None
    return float(pulp.value(problem.objective))


def agrees(path: Path, method: str, result: Any) -> None:
    """Compare PuLP's optimum with the method's objective."""
    found = optimum(path)
    if result.termination == "infeasible":
        assert found is None
        return
    assert result.termination in ("optimal", "gap_reached")
    assert result.gap == 0 or result.termination == "optimal"
    assert found is not None
    head = path.read_text().splitlines()[:2]
    assert head[0].startswith(f"* {method} of ")
    told = head[1].removeprefix("* ").split(":")[0]
    known = {level.name: level.value for level in result.objective_levels}
    known |= {result.objective.name: result.objective.value}
    if result.objective.name == "sustainable_rate":
        known["highest utilisation (sustainable_rate is 1 / it)"] = 1 / result.objective.value
    value = known[told]
    negative = "largest, written as its negative" in head[1]
    assert found == pytest.approx(-value if negative else value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("method", "asked"), ASKED, ids=lambda x: x if isinstance(x, str) else "")
def test_pulp_finds_the_same_optimum(
    method: str, asked: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.mps"
    try:
        result = solve(made(rule), method, write_model=path, **asked)
    except InvalidInput:
        assert not path.exists()  # it does not suit the instance
        return
    agrees(path, method, result)


def test_slots_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "slots.mps"
    instance = model_driven()
    for items in ("bundles", "threads"):
        result = solve(instance, "slots-milp", items=items, traffic=False, write_model=path)
        assert not any("splits what is" in note for note in result.notes)
        agrees(path, "slots-milp", result)


def test_names_are_the_instance_s(tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    solve(made("capacity"), "imc-milp", write_model=path)
    words = set(re.split(r"\s+", path.read_text()))
    assert {"x[a/0,n1]", "together[a/0,b/1,n2]", "capacity[n1,cpu]", "assign[c/0]"} <= words
    solve(made("capacity"), "balance-milp", write_model=path)
    words = set(re.split(r"\s+", path.read_text()))
    assert {"move[a/0,n1]", "load_distance[d]", "load_above[n2]", "capacity[n1,cpu]"} <= words
    rows = read(path).constraints
    assert "load_above_n2_" in rows


@pytest.mark.parametrize(
    ("rule", "name"),
    [("sets", "apart_0[n1]"), ("max_inflow", "inflow[n2]"), ("links", "link[up]"),
     ("max_migrations", "max_migrations"), ("max_nodes_used", "used_if_there[a/0,n1]")],
)  # fmt: skip
def test_rows_of_rules_are_named(rule: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    solve(made(rule), "imc-milp", write_model=path)
    assert name in set(re.split(r"\s+", path.read_text()))


def test_every_model_is_declared() -> None:
    able = {method.name for method in all_methods() if method.pose is not None}
    assert able == {method for method, _ in ASKED} | {"slots-milp"}
    assert all(m.to_dict()["writes_model"] == (m.name in able) for m in all_methods())


@pytest.mark.parametrize("method", ["imc-exact", "throughput-exact", "flux", "imc-search", None])
def test_a_method_without_a_model_names_those_with_one(method: str | None, tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    with pytest.raises(InvalidInput) as found:
        solve(made("capacity"), method, write_model=path)
    problem = found.value.problems[0]
    assert problem.path == "--write-model"
    assert "-milp" in str(problem.remedy)
    assert not path.exists()


@pytest.mark.parametrize("name", ["model", "model.txt", "model.mps.gz", "no/m.mps"])
def test_a_bad_path_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as found:
        solve(made("capacity"), "imc-milp", write_model=tmp_path / name)
    problem = found.value.problems[0]
    assert str(tmp_path / name) in (problem.value, problem.path)
    assert not (tmp_path / name).exists()


def test_what_has_no_one_linear_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    instance = model_driven()
    with pytest.raises(InvalidInput, match="use --option cpu=slot"):
        solve(instance, "slots-milp", cpu="vm", write_model=path)
    with pytest.raises(InvalidInput, match="mean_absolute_deviation"):
        solve(made("capacity"), "eoa-milp", objective="cpu_deviation", write_model=path)
    assert not path.exists()


@pytest.mark.parametrize("given", [
    ["--method", "imc-milp", "--write-model", "model.txt"],
    ["--method", "imc-milp", "--write-model", "no/folder/model.mps"],
    ["--method", "imc-milp", "--write-model", "."],
    ["--method", "imc-exact", "--write-model", "model.mps"],
    ["--write-model", "model.mps"],
    ["--method", "imc-milp", "--write-model", "m.mps", "--budget", "1",
     "--or", "--budget", "2"],
])  # fmt: skip
def test_the_command_exits_with_2(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    case = Path("examples/hand-8-tasks.json").resolve()
    monkeypatch.chdir(tmp_path)
    assert main(["solve", str(case), *given]) == 2
    assert "--write-model" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_file(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "model.mps"
    case = ["solve", "examples/hand-8-tasks.json", "-q", "--method", "joint-milp"]
    assert main([*case, "--write-model", str(path)]) == 0
    assert optimum(path) == pytest.approx(-14.0)


def test_a_file_that_stood_there_stays_where_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    path.write_text("as it was")
    with pytest.raises(InvalidInput):
        solve(made("capacity"), "eoa-milp", objective="cpu_deviation", write_model=path)
    assert path.read_text() == "as it was"


def test_lp_is_written_by_pulp(tmp_path: Path) -> None:
    path = tmp_path / "model.lp"
    solve(made("capacity"), "imc-milp", write_model=path)
    text = path.read_text()
    assert "Minimize" in text
    assert "x_a_0,n1_" in text


def test_names_that_readers_cannot_tell_apart_are_numbered() -> None:
    model = LinearModel("names")
    ids = {"task": ["a b", "a_b", "a-b", "a[b"]}
    model.add_variables("x", 4, of={"task": np.arange(4)})
    columns, _ = model_names(model, ids)
    assert columns == ["x[a_b]", "x[a_b]~2", "x[a-b]~3", "x[a[b]~4"]


@given(seed=st.integers(0, 100_000))
def test_pulp_reads_every_number(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("mps") / "model.mps"
    write_model(path, PosedModel(model, "figure"), made("capacity"), "a-method")
    arrays, problem = model.freeze(), read(path)
    sign = 1.0 if arrays.sense == "min" else -1.0
    names, rows = model_names(model, {})
    table = str.maketrans("-+[] >/", "_______")
    columns = {variable.name: variable for variable in problem.variables()}
    for j, name in enumerate(names):
        column = columns[name.translate(table)]
        assert problem.objective.get(column, 0.0) == sign * arrays.cost[j]
        assert (column.cat == "Integer") == arrays.integrality[j]
        lower, upper = column.lowBound, column.upBound
        assert (-np.inf if lower is None else lower) == arrays.lower[j]
        assert (np.inf if upper is None else upper) == arrays.upper[j]
    dense = arrays.matrix.toarray()
    for i, name in enumerate(rows):
        for key, bound, sense in (
            ("", arrays.row_upper[i], 1),
            ("_least", arrays.row_lower[i], -1),
        ):
            row = problem.constraints.get((name + key).translate(table))
            if row is None:
                continue
            if sense < 0:
                assert -row.constant == bound
            elif row.sense == -1:
                assert -row.constant == arrays.row_upper[i]
            for j, other in enumerate(names):
                assert row.get(columns[other.translate(table)], 0.0) == dense[i, j]
        assert not np.isfinite([arrays.row_lower[i], arrays.row_upper[i]]).any() or (
            name.translate(table) in problem.constraints
        )
