"""Contradictions that are planted must be found, and named; what agrees must pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from experiments.report.findings import (
    Contradiction,
    ContradictoryRuns,
    contradictions,
    grade,
)
from optim.errors import ExitCode
from tests.experiments.report.synthetic import infeasible, plan, proof

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORING = '{"ignored": ["max_migrations"]}'


def _distance(instance: str, method: str, value: float, **changes: Any) -> dict[str, Any]:
    """Return a plan of a method that minimises the load distance."""
    changes = {
        "objective_name": "load_distance", "sense": "min", "load_distance": value, "imc_gain": 1.0,
        **changes,
    }  # fmt: skip
    return plan(instance, method, value, **changes)


def _rows() -> list[dict[str, Any]]:
    bound = {"bound_of": "problem", "kind": "exact", "termination": "time_limit"}
    proved = {"termination": "optimal", "bound_of": "problem", "kind": "exact"}
    return [
        # contradictions, one an instance
        plan("beaten", "heuristic", 51.0),
        plan("beaten", "exact", 45.0, bound=50.0, **bound),
        _distance("beaten-min", "heuristic", 2.9),
        _distance("beaten-min", "exact", 4.0, bound=3.0, **bound),
        proof("two-optima", "exact-a", 50.0),
        proof("two-optima", "exact-b", 50.001),
        infeasible("exists", "exact"),
        plan("exists", "heuristic", 10.0),
        _distance("other-objective", "balance", 1.0, imc_gain=60.0),
        proof("other-objective", "exact", 50.0),
        proof("own-bound", "exact", 50.0, bound=50.01),
        _distance("own-bound-points", "exact", 4.0, bound=3.9, **proved),
        # no contradictions
        plan("near", "heuristic", 50.00004),
        plan("near", "exact", 45.0, bound=50.0, **bound),
        _distance("near-points", "heuristic", 2.9995),
        _distance("near-points", "exact", 4.0, bound=3.0, **bound),
        proof("zero", "exact", 0.0),
        plan("zero", "heuristic", 1e-12),
        plan("restricted", "heuristic", 51.0),
        plan("restricted", "exact", 45.0, bound=50.0, **(bound | {"bound_of": "restricted"})),
        plan("refused", "overloading", 51.0, feasible=False),
        proof("refused", "exact", 50.0),
        plan("ignoring", "careless", 51.0, result=IGNORING),
        proof("ignoring", "exact", 50.0),
        infeasible("ignoring-infeasible", "exact"),
        plan("ignoring-infeasible", "careless", 51.0, result=IGNORING),
        _distance("near-own-bound", "exact", 4.0, bound=3.9995, **proved),
        _distance("other-way-round", "exact", 9.0, imc_gain=10.0, bound=9.0, **proved),
        plan("other-way-round", "top-down", 30.0, load_distance=20.0),
    ]


@pytest.fixture(scope="module")
def found(read: Callable[..., Any]) -> dict[str, Contradiction]:
    """Return the contradictions by instance; more than one an instance is a failure itself."""
    listed = contradictions(read(_rows()).con)
    by_instance = {item.instance: item for item in listed}
    assert len(by_instance) == len(listed), [item.text for item in listed]
    return by_instance


@pytest.mark.parametrize(
    ("instance", "kind", "first", "second"),
    [
        ("beaten", "bound", "heuristic", "exact"),
        ("beaten-min", "bound", "heuristic", "exact"),
        ("two-optima", "optima", "exact-a", "exact-b"),
        ("exists", "infeasible", "heuristic", "exact"),
        ("other-objective", "bound", "balance", "exact"),
        ("own-bound", "own bound", "exact", "exact"),
        ("own-bound-points", "own bound", "exact", "exact"),
    ],
)
def test_contradictions_name_both_runs(
    found: dict[str, Contradiction], instance: str, kind: str, first: str, second: str
) -> None:
    item = found[instance]
    assert item.kind == kind
    assert item.first.startswith(f"{first} (seed 0, run ")
    assert item.second.startswith(f"{second} (seed 0, run ")
    assert item.first in item.text
    assert item.second in item.text


def test_nothing_else_is_a_contradiction(found: dict[str, Contradiction]) -> None:
    assert set(found) == {
        "beaten", "beaten-min", "two-optima", "exists", "other-objective", "own-bound",
        "own-bound-points",
    }  # fmt: skip


def test_a_contradiction_stops_the_report(read: Callable[..., Any]) -> None:
    sweep = read([proof("Q1", "exact", 50.0), plan("Q1", "<script>", 51.0)])
    with pytest.raises(ContradictoryRuns, match=r"<script> \(seed 0.*50.*exact") as caught:
        grade(sweep.con)
    assert caught.value.exit_code == ExitCode.INTERNAL


def test_the_tightest_bound_counts(read: Callable[..., Any]) -> None:
    bound = {"bound_of": "problem", "kind": "exact", "termination": "time_limit"}
    rows = [
        plan("Q1", "loose", 45.0, bound=60.0, **bound),
        plan("Q1", "tight", 45.0, bound=50.0, **bound),
        plan("Q1", "heuristic", 55.0),
    ]
    (item,) = contradictions(read(rows).con)
    assert item.second.startswith("tight ")
