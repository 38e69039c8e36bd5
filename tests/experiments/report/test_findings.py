"""The numbers of the report against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest

from experiments.report.build import summarise
from experiments.report.database import define_macros
from experiments.report.findings import Findings, MetricFindings, gather, time_grid, time_shift
from experiments.sweep.store import connect
from tests.experiments.report.synthetic import infeasible, plan, proof, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.database import Rows

OPEN = {"kind": "exact", "termination": "time_limit", "bound_of": "problem"}


def _rows() -> list[dict[str, Any]]:
    """Return three cases: A proved (80), B with a bound only (50 known, 64), C infeasible."""
    return [
        proof("A", "exact", 80.0, time_build=0.5, time_solve=1.5, num_tasks=10),
        plan("A", "greedy", 60.0, seed=0, time_build=None, time_solve=1.0, num_tasks=10),
        plan("A", "greedy", 40.0, seed=1, time_build=None, time_solve=3.0, num_tasks=10),
        plan("A", "overloading", 90.0, feasible=False, exit_code=4, num_tasks=10),
        plan("B", "exact", 50.0, bound=64.0, time_build=1.0, time_solve=59.0, num_tasks=20, **OPEN),
        plan("B", "greedy", 48.0, seed=0, time_solve=1.0, num_tasks=20),
        run("B", "greedy", seed=1, termination="heuristic", exit_code=4, num_tasks=20),
        plan("B", "overloading", 48.0, num_tasks=20),
        run("B", "picky", outcome="error", exit_code=2, error="UnsuitableMethod: picky needs more"),
        run("A", "picky", outcome="crash", exit_code=-11, error="\nsignal 11\nmore", num_tasks=10),
        infeasible("C", "exact", time_solve=0.5),
        run("C", "greedy", termination="heuristic", exit_code=4, time_solve=1.0),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def findings(read: Callable[..., Any]) -> Findings:
    """Return what the three cases say."""
    sweep = read(_rows())
    return gather(sweep.con, sweep.labels)


@pytest.fixture(scope="module")
def gaps(findings: Findings) -> dict[str, dict[str, Any]]:
    """Return the gaps on the own objective by contestant."""
    return {item["contestant"]: item for item in findings.own_gaps}


def _metric(findings: Findings) -> MetricFindings:
    (metric,) = findings.metrics
    return metric


def test_gap_to_the_best_bound_is_over_cases_and_before_that_over_seeds(
    gaps: dict[str, dict[str, Any]],
) -> None:
    # A: (20/80 + 40/80) / 2 over the seeds; B: the one plan, 16/64; then the mean of the two
    assert gaps["greedy"]["gap_bound"] == pytest.approx((0.375 + 0.25) / 2)
    assert gaps["greedy"]["worst_gap_bound"] == pytest.approx(0.5)
    assert gaps["exact"]["gap_bound"] == pytest.approx((0.0 + 14 / 64) / 2)


def test_gap_to_the_optimum_only_where_one_is_proven(gaps: dict[str, dict[str, Any]]) -> None:
    assert gaps["greedy"]["gap_optimum"] == pytest.approx(0.375)
    assert gaps["greedy"]["num_gap_optimum"] == 1
    assert gaps["exact"]["gap_optimum"] == 0
    assert gaps["overloading"]["gap_optimum"] is None  # its plan of A is refused, B is open
    assert gaps["overloading"]["num_gap_optimum"] == 0


def test_gap_to_the_best_known(gaps: dict[str, dict[str, Any]]) -> None:
    assert gaps["greedy"]["gap_known"] == pytest.approx((0.375 + 2 / 50) / 2)
    assert gaps["exact"]["gap_known"] == 0
    assert gaps["exact"]["best"] == 2


def test_a_refused_plan_sets_no_best_and_has_no_gap(gaps: dict[str, dict[str, Any]]) -> None:
    assert gaps["overloading"]["gap_bound"] == pytest.approx(0.25)  # of B alone
    assert (gaps["overloading"]["plans"], gaps["overloading"]["runs"]) == (1, 2)


def test_every_run_is_counted_once(findings: Findings) -> None:
    endings = (
        *("proved", "unproved", "refused", "infeasible", "no_plan", "none_exists"),
        *("not_applicable", "error", "crash", "timeout", "memory"),
    )
    for item in findings.contestants.values():
        assert sum(item[ending] for ending in endings) == item["runs"]
    greedy = findings.contestants["greedy"]
    assert (greedy["unproved"], greedy["no_plan"], greedy["none_exists"]) == (3, 1, 1)
    picky = findings.contestants["picky"]
    assert (picky["not_applicable"], picky["crash"], picky["solvable"]) == (1, 1, 1)
    assert findings.contestants["exact"]["infeasible"] == 1


def test_times_are_shifted_geometric_means_of_building_and_solving(findings: Findings) -> None:
    assert findings.shift == 1.0
    times = [2.0, 60.0, 0.5]
    expected = math.prod(1 + t for t in times) ** (1 / 3) - 1
    assert findings.contestants["exact"]["seconds"] == pytest.approx(expected)
    assert findings.contestants["exact"]["most_seconds"] == 60.0
    assert findings.contestants["picky"]["seconds"] is None


@pytest.mark.parametrize(("median", "shift"), [(0.099, 0.01), (0.1, 1.0), (9.0, 1.0), (None, 1.0)])
def test_the_shift_follows_the_data(median: float | None, shift: float) -> None:
    assert time_shift(median) == shift


def test_virtual_best(findings: Findings) -> None:
    (best,) = findings.own_best
    assert best["gap_bound"] == pytest.approx((0 + 14 / 64) / 2)
    assert (best["runs"], best["plans"], best["proved"]) == (2, 2, 1)
    assert best["seconds"] == pytest.approx(math.sqrt(3.0 * 61.0) - 1)


def test_status_of_the_cases(findings: Findings) -> None:
    status = {findings.labels.case(p).instance: row for p, row in _metric(findings).status.items()}
    assert (status["A"]["optimum"], status["A"]["proved_by"]) == (80.0, ["exact"])
    assert (status["B"]["optimum"], status["B"]["best_bound"]) == (None, 64.0)
    assert (status["B"]["bound_by"], status["B"]["best_known"]) == ("exact", 50.0)
    assert status["C"]["best_known"] is None
    (problem,) = findings.infeasible
    assert findings.labels.case(problem).instance == "C"
    assert findings.infeasible[problem] == ["exact"]


def test_ratios_of_the_profile(findings: Findings) -> None:
    found = _metric(findings).ratios
    mine = found["contestant"] == findings.names.index("greedy")
    ratios = list(zip(found["ratio"][mine], found["tries"][mine], strict=True))
    assert ratios == [
        (pytest.approx(50 / 48), 2), (pytest.approx(80 / 60), 2), (pytest.approx(2.0), 2)
    ]  # fmt: skip
    assert _metric(findings).num_measured == 2
    assert _metric(findings).num_proved == 1


def test_gap_by_size(findings: Findings) -> None:
    sizes = {(item["contestant"], item["size"]): item["gap_bound"]
             for item in _metric(findings).sizes}  # fmt: skip
    assert sizes["greedy", 10] == pytest.approx(0.375)
    assert sizes["exact", 20] == pytest.approx(14 / 64)
    assert ("overloading", 10) not in sizes


def test_failures_keep_their_place_and_reason(findings: Findings) -> None:
    (failed,) = findings.failed
    assert (failed["contestant"], failed["verdict"], failed["exit_code"]) == ("picky", "crash", -11)
    assert [item["contestant"] for item in findings.not_applicable] == ["picky"]


@pytest.mark.slow
def test_anytime_gap_is_what_half_of_the_runs_have_reached(read: Callable[..., Any]) -> None:
    trace = [(0.5, None, 200.0), (1.0, 20.0, 150.0), (2.0, 60.0, 120.0)]
    rows = [
        proof("A", "exact", 80.0, time_build=0.0, time_solve=4.0, trace=trace),
        proof("B", "exact", 100.0, time_build=0.0, time_solve=10.0),
        plan("B", "late", 50.0, time_build=0.0, time_solve=10.0),
        run("A", "late", outcome="timeout"),
    ]
    sweep = read([row | {"trace": _points(row["trace"])} for row in rows])
    found = _at(gather(sweep.con, sweep.labels).anytime)
    assert found["exact", 0.1] is None
    assert found["exact", 1.0] == pytest.approx(0.75)
    assert found["exact", 10.0] == 0
    assert found["late", 10.0] == pytest.approx(0.5)  # one of two runs is half of them


def _points(trace: Any) -> list[dict[str, float | None]]:
    names = ("seconds", "incumbent", "bound")
    return [dict(zip(names, point, strict=True)) for point in trace or []]


def _at(rows: Rows) -> dict[tuple[str, float], float | None]:
    return {(item["contestant"], item["moment"]): item["gap"] for item in rows}


@pytest.mark.slow
def test_the_trace_of_a_refused_plan_reaches_no_gap(read: Callable[..., Any]) -> None:
    trace = [{"seconds": 0.001, "incumbent": 79.0, "bound": None}]
    refused = plan("A", "greedy", 90.0, feasible=False, exit_code=4, trace=trace)
    sweep = read([proof("A", "exact", 80.0), refused])
    gaps = [
        i["gap"] for i in gather(sweep.con, sweep.labels).anytime if i["contestant"] == "greedy"
    ]
    assert set(gaps) == {None}


@pytest.mark.slow
def test_the_virtual_best_where_nothing_can_be_kept_or_nobody_suits(
    read: Callable[..., Any],
) -> None:
    refused = {"outcome": "error", "exit_code": 2, "error": "UnsuitableMethod: exact needs more"}
    sweep = read([proof("A", "exact", 0.0), run("B", "exact", **refused), run("C", "none")])
    found = gather(sweep.con, sweep.labels)
    (own,), best = found.own_best, _metric(found).best
    assert (own["runs"], own["plans"], own["proved"]) == (1, 1, 1)
    assert (best["runs"], best["plans"], best["proved"]) == (2, 1, 1)
    assert (best["of_optimum"], best["worst_of_optimum"]) == (1.0, 1.0)


@pytest.mark.slow
def test_gaps_of_load_distance_are_parts_of_the_mean_load(read: Callable[..., Any]) -> None:
    minimal = {
        "objective_name": "load_distance", "sense": "min", "total_traffic": None, "mean_load": 50.0,
    }  # fmt: skip
    rows = [
        proof("A", "milp", 4.0, load_distance=4.0, imc_gain=None, **minimal),
        plan("A", "flux", 6.5, load_distance=6.5, imc_gain=None, **minimal),
        plan("B", "flux", 3.0, load_distance=3.0, imc_gain=None, **minimal),
        plan("A", "top-down", 50.0, load_distance=9.0),
    ]
    sweep = read(rows)
    findings = gather(sweep.con, sweep.labels)
    gaps = {item["contestant"]: item for item in findings.own_gaps}
    assert gaps["flux"]["gap_optimum"] == pytest.approx(2.5 / 50)
    assert gaps["flux"]["gap_bound"] == pytest.approx(2.5 / 50)
    assert gaps["top-down"]["gap_bound"] is None
    metric = next(item for item in findings.metrics if item.name == "load_distance")
    assert metric.contestants["top-down"]["gap_optimum"] == pytest.approx(5 / 50)
    # case B, where only flux has a plan, counts as the widest gap for the others' places
    assert metric.order == ["flux", "milp", "top-down"]


@pytest.mark.slow
def test_plans_that_leave_tasks_on_leaving_nodes_are_told_first(read: Callable[..., Any]) -> None:
    rows = [
        plan("A", "flux", 30.0, drained=False),
        plan("B", "flux", 30.0, drained=False),
        plan("A", "top-down", 20.0, drained=True),
        plan("B", "top-down", 20.0),
        plan("A", "naive", 10.0, drained=False, feasible=False),
    ]
    sweep = read(rows)
    first, *others = summarise(gather(sweep.con, sweep.labels))
    assert first == "Not drained: 2 plans with tasks on leaving nodes, of flux (2)."
    assert "drained" not in " ".join(others)


def test_broken_numbers_are_unknown(read: Callable[..., Any]) -> None:
    con = read([plan("A", "exact", 50.0)]).con
    texts = ("'Infinity'", "'-Infinity'", "'NaN'", "NULL", "2")
    values = ", ".join(f"finite(CAST({text} AS DOUBLE))" for text in texts)
    assert con.execute(f"SELECT {values}").fetchone() == (None, None, None, None, 2.0)


def test_time_grid() -> None:
    grid = time_grid(0.002, 30.0)
    assert (grid[0], grid[-1]) == (0.001, 100.0)
    assert {0.01, 0.1, 1.0, 10.0} <= set(grid)
    assert time_grid(None, None) == [1.0]


def test_means_do_not_depend_on_the_order_of_rows() -> None:
    con = connect()
    define_macros(con)
    found = set()
    for order in itertools.islice(itertools.permutations((1e16, 1.0, -1e16, 0.1)), 0, None, 5):
        rows = ", ".join(f"({x}::DOUBLE)" for x in order)
        found.add(con.execute(f"SELECT ordered_mean(x) FROM (VALUES {rows}) t(x)").fetchone())
    assert len(found) == 1
    nothing = "SELECT ordered_mean(x) FROM (VALUES (CAST(NULL AS DOUBLE))) t(x)"
    assert con.execute(nothing).fetchone() == (None,)
