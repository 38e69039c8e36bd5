"""Settings of `solve`: one object, keywords that win over it, and why there is no plan."""

from __future__ import annotations

import argparse
import inspect
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optim import Instance, solve
from optim.errors import InvalidInput
from optim.methods.registry import Settings
from streamplace.cli import solve as command
from tests.command import run_command
from tests.optim.make import instance, nodes

if TYPE_CHECKING:
    from pathlib import Path

    from optim.methods.registry import Method


def whole_tasks() -> Instance:
    """Return four tasks of 6 on three nodes of 10: 24 of 30, and one to a node."""
    return instance(
        nodes=nodes(3, capacity={"cpu": 10}),
        tasks=[{"id": f"t{i}", "load": {"cpu": 6}, "node": f"n{1 + i % 3}"} for i in range(4)],
        operators=[],
        streams=[],
        traffic=[["t0", "t1", 1]],
    )


def test_an_object_and_its_fields_as_keywords_are_the_same() -> None:
    made, settings = instance(), Settings(seed=7, time_limit=5.0, options={"first": "order"})
    assert Settings.of(settings, {"seed": 3, "best": 1}) == Settings(
        seed=3, time_limit=5.0, options={"first": "order", "best": 1}
    )
    one = solve(made, "imc-search", Settings(seed=7, options={"effort": 0.5}))
    two = solve(made, "imc-search", seed=7, effort=0.5)
    assert (one.seed, two.seed) == (7, 7)
    assert one.plan is not None
    assert two.plan is not None
    assert one.plan.sha256 == two.plan.sha256


def test_options_are_taken_as_a_mapping_and_whole_numbers_of_numpy_as_such() -> None:
    asked = {"options": {"best": 1}, "seed": np.int64(3), "threads": np.int32(2), "first": "order"}
    found = Settings.of(Settings(options={"best": 2, "last": 3}), asked)
    assert found.options == {"best": 1, "last": 3, "first": "order"}
    assert (found.seed, type(found.seed), type(found.threads)) == (3, int, int)


def test_one_limit_is_a_list_of_one_and_each_is_there_once() -> None:
    assert Settings.of(None, {"ignore": "capacity"}).ignore == ("capacity",)
    assert Settings.of(None, {"ignore": ["leaving", "capacity", "leaving"]}).ignore == (
        "leaving", "capacity",
    )  # fmt: skip


def test_what_is_no_field_is_an_option_and_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="time_limt"):
        solve(instance(), "imc-search", time_limt=3)


def test_each_method_that_begins_is_announced_with_its_reason() -> None:
    begun: list[tuple[str, str | None, str]] = []

    def chosen(method: Method, solver: str | None, why: str) -> None:
        begun.append((method.name, solver, why))

    solve(instance(), "imc-milp", Settings(chosen=chosen), solver="scip")
    assert begun == [("imc-milp", "scip", "as asked")]
    begun.clear()
    result = solve(instance(), chosen=chosen)
    assert f"method {begun[0][0]}: {begun[0][2]}" in result.notes


@pytest.mark.parametrize("method", ["imc-milp", "imc-exact", "imc-brute", "balance-milp"])
def test_the_rules_that_clash_are_told_by_every_exact_method(method: str) -> None:
    result = solve(whole_tasks(), method, start_broken="refuse", explain=60.0)
    assert [str(reason) for reason in result.reasons] == [
        "capacity at all nodes.cpu (4 tasks, at most 1 a node): needs 32, has 30 (2 off)"
    ]


def test_they_are_left_where_no_time_is_given_and_it_is_said_where_it_is_too_short() -> None:
    left = solve(whole_tasks(), "imc-milp", start_broken="refuse", explain=0.0)
    assert (left.termination, left.reasons) == ("infeasible", ())
    short = solve(whole_tasks(), "imc-milp", start_broken="refuse", explain=1e-9)
    assert short.reasons == ()
    assert "streamplace explain" in short.notes[-1]


def test_nodes_that_cannot_be_emptied_are_explained() -> None:
    made = instance(
        nodes=[{"id": "a", "leaving": True}, {"id": "b", "capacity": {"cpu": 2.0}}],
        operators=[], streams=[], limits={"max_migrations": 1},
        tasks=[{"id": f"t{i}", "load": {"cpu": 1.0}, "node": "a"} for i in range(2)],
    )  # fmt: skip
    result = solve(made, "balance-milp", drain="hard", explain=60.0)
    assert result.termination == "infeasible"
    told = {reason.rule: (reason.needed, reason.available) for reason in result.reasons}
    assert told["max_migrations"] == (2.0, 1.0)


def test_python_and_the_command_line_have_the_same_defaults() -> None:
    """What the command adds is told in text: conflicts, and a certificate where it costs little."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args(["cluster.json"])
    assert args.method is None
    assert inspect.signature(solve).parameters["method"].default is None
    assert replace(command._settings(args, {}), explain=Settings().explain) == Settings()


@pytest.mark.parametrize("name", ["hand-8-tasks", "capsys-q1"])
def test_python_and_the_command_line_answer_the_same(
    name: str, examples: Path, tmp_path: Path
) -> None:
    path = examples / f"{name}.json"
    told = json.loads(run_command(["solve", str(path), "--json", "-q"], tmp_path, {}).stdout)
    found = solve(Instance.load(path)).to_dict()
    for key in ("method", "termination", "objective", "bound", "gap", "moves", "seed", "plan"):
        assert told[key] == found[key], key


def test_a_portfolio_is_what_no_method_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []

    def seen(_: object, __: object, settings: Settings) -> None:
        asked.append(settings.time_limit)

    monkeypatch.setattr("optim.methods.solve.run_portfolio", seen)
    assert solve(instance()).feasible
    assert solve(instance(), "portfolio").feasible
    assert asked == [None, None]
