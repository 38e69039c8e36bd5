"""Contestants and cases: what is named apart, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from experiments.report.database import natural_key
from experiments.report.figures import pairs_of, runs_of
from experiments.report.findings import gather
from tests.experiments.report.synthetic import plan, run

if TYPE_CHECKING:
    from collections.abc import Callable

HOSTILE = "a'b\\\" {c} :d"


def _contestants(sweep: Any) -> list[str]:
    rows = sweep.con.sql("SELECT DISTINCT contestant FROM runs ORDER BY 1").fetchall()
    return [name for (name,) in rows]


def test_solver_and_settings_are_named_only_where_they_differ(read: Callable[..., Any]) -> None:
    def milp(solver: str | None, limit: int, **changes: Any) -> dict[str, Any]:
        factors = {"time_limit": limit, "threads": 1, HOSTILE: HOSTILE}
        return plan("Q1", "milp", 1.0, solver=solver, factors=factors, **changes)

    rows = [
        milp("cbc", 1), milp("cbc", 10), milp("highs", 1), milp("highs", 10),
        plan("Q1", "exact", 1.0, solver="highs", factors={"time_limit": 10}),
        plan("Q1", "exact", 1.0, solver="highs", factors={"time_limit": 10}, seed=1),
    ]  # fmt: skip
    assert _contestants(read(rows)) == [
        "exact time_limit=10",
        "milp [cbc] time_limit=1", "milp [cbc] time_limit=10",
        "milp [highs] time_limit=1", "milp [highs] time_limit=10",
    ]  # fmt: skip


def test_hostile_factor_names_are_only_names(read: Callable[..., Any]) -> None:
    rows = [
        plan("Q1", "m", 1.0, factors={HOSTILE: 1}, instance_sha256="a"),
        plan("Q1", "m", 1.0, factors={HOSTILE: 2}, instance_sha256="b"),
    ]
    labels = read(rows).labels
    assert labels.level_names == (HOSTILE,)
    assert [case.levels for case in labels.cases] == [("1",), ("2",)]


def test_cases_are_told_apart_by_what_belongs_to_the_instance(read: Callable[..., Any]) -> None:
    rows = [
        plan(name, "m", 1.0, factors={"load_share": share, "constant": 7, "repair": "false"})
        for name in ("Q10", "Q2")
        for share in (0.9, 0.75)
    ]
    labels = read(rows).labels
    assert labels.level_names == ("load_share",)
    assert [case.name for case in labels.cases] == [
        "Q2 · 0.75", "Q2 · 0.9", "Q10 · 0.75", "Q10 · 0.9"
    ]  # fmt: skip


@pytest.mark.slow
def test_cases_of_one_name_get_their_sha(read: Callable[..., Any]) -> None:
    rows = [plan("Q1", "m", 1.0, instance_sha256=sha * 64) for sha in "ab"]
    labels = read(rows).labels
    assert [case.name for case in labels.cases] == ["Q1 · aaaaaaaa", "Q1 · bbbbbbbb"]


@pytest.mark.slow
def test_ignored_limits_make_another_case(read: Callable[..., Any]) -> None:
    rows = [
        plan("Q1", "m", 1.0),
        plan("Q1", "m", 2.0, seed=1, result='{"ignored": ["max_migrations", "links"]}'),
        run("Q1", "n", outcome="crash", result=None),
        plan("Q1", "o", 1.0, result='{"ignored": null}'),
        plan("Q1", "p", 1.0, result="not JSON"),
    ]
    labels = read(rows).labels
    assert labels.level_names == ("ignored limits",)
    assert [case.levels for case in labels.cases] == [("",), ("links, max_migrations",)]


@pytest.mark.parametrize(
    "ordered", [["Q1", "Q2", "Q10"], ["0.5", "0.75", "0.9"], ["a", "B", "c"], ["", "1", "x"]]
)
def test_natural_order(ordered: list[str]) -> None:
    assert sorted(sorted(ordered, reverse=True), key=natural_key) == ordered


def test_equal_instances_are_one_case_whatever_they_are_called(read: Callable[..., Any]) -> None:
    """Ten seeds of a generator without chance would else make any difference look sure."""
    rows = [
        plan(
            f"copy {seed}", method, gain, instance_content="c" * 64, factors={"instance.seed": seed}
        )
        for seed in range(10)
        for method, gain in (("good", 2.0), ("bad", 1.0))
    ]
    # of an earlier version, which wrote no content, and of this one: the same instance
    rows += [plan("Q1", "good", 1.0), plan("Q1", "bad", 1.0, instance_content="d" * 64)]
    sweep = read(rows)
    assert [case.name for case in sweep.labels.cases] == [
        "copy 0 and 9 equal ones · 0 and 9 equal ones", "Q1"
    ]  # fmt: skip
    found = gather(sweep.con, sweep.labels)
    (pair,) = pairs_of(
        runs_of(found.metrics[0].runs, found.names, "value"), ["good", "bad"], more=True
    )
    assert (pair.pairs, pair.better, pair.equal, pair.sign) == (2, 1, 1, 1.0)
