"""Methods in pairs: who is paired with whom, what a run without a plan counts, and how sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy

from experiments.report.build import make_report
from experiments.report.figures import LEAST_CASES, pairs_of, runs_of
from experiments.report.findings import gather
from streamplace.present.plots import COLORS, to_pdf, to_svg
from streamplace.present.table import MOST_ROWS, latex, to_latex
from tests.experiments.report.synthetic import plan, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.figures import Pair, Runs
    from experiments.report.tables import Report
    from streamplace.present.table import Table


def _runs(*rows: tuple[Any, ...]) -> Runs:
    """Return runs of contestant, case, seed and value; ``None`` is no plan."""
    who, case, seed, value = zip(*rows, strict=True)
    columns = {
        "contestant": np.array(["ab".index(name) for name in who]),
        "problem": np.unique(case, return_inverse=True)[1],
        "seed": np.array(seed),
        "has_plan": np.array([one is not None for one in value]),
        "value": np.array(value, dtype=float),
        "noise": np.full(len(rows), 1e-9),
    }
    return runs_of(columns, ["a", "b"], "value")


def _pair(first: dict[Any, Any], second: dict[Any, Any], more: bool = True) -> Pair:
    found = (("a", first), ("b", second))
    rows = [(name, *key, value) for name, mine in found for key, value in mine.items()]
    return pairs_of(_runs(*rows), ["a", "b"], more)[0]


def test_pairs_are_of_one_case_and_one_seed() -> None:
    found = _pair({("A", 0): 5.0, ("A", 1): 9.0, ("B", 0): 1.0}, {("A", 1): 8.0, ("A", 2): 0.0})
    assert (found.pairs, found.unmatched, found.better, found.worse) == (1, 3, 1, 0)
    assert (found.advantage, found.low) == (1.0, None)


def test_few_cases_count_runs_and_many_count_cases() -> None:
    few = {(case, seed): float(seed) for case in "AB" for seed in range(4)}
    many = {(case, seed): float(seed) for case in "ABCDEF" for seed in range(4)}
    for runs, units in ((few, 8), (many, LEAST_CASES)):
        found = _pair({key: value + 1 for key, value in runs.items()}, runs)
        assert (found.pairs, found.better, found.worse) == (len(runs), units, 0)
        assert found.sign == pytest.approx(scipy.stats.binomtest(units, units).pvalue, rel=1e-12)
        assert (found.advantage, found.low, found.high) == (1.0, 1.0, 1.0)
    # less is better: the same values the other way round
    assert _pair(many, {key: value + 1 for key, value in many.items()}, more=False).better == 6


def test_seeds_that_change_nothing_are_no_draws() -> None:
    first = {(case, seed): 2.0 for case in "AB" for seed in range(30)}
    second = dict.fromkeys(first, 1.0)
    found = _pair(first, second)
    assert (found.pairs, found.better, found.by_case, found.sign) == (60, 2, True, 0.5)
    assert _pair(first, {**second, ("A", 7): 1.5}).better == 60


def test_a_run_without_a_plan_loses_and_is_counted() -> None:
    first = {("A", seed): 1.0 for seed in range(10)}
    second = {("A", seed): None if seed < 6 else 1.0 for seed in range(10)}
    found = _pair(first, second)
    assert (found.only_first, found.only_second, found.neither) == (6, 0, 0)
    assert (found.better, found.equal, found.worse) == (6, 4, 0)
    assert (found.sign, found.wilcoxon, found.advantage) == (0.03125, None, 0.0)
    turned = _pair(second, first)
    assert (turned.only_second, turned.worse) == (6, 6)
    assert _pair(second, second).neither == 6


def test_rounding_is_no_difference() -> None:
    assert _pair({("A", 0): 1.0}, {("A", 0): 1.0 + 1e-12}).equal == 1


def test_of_repeated_runs_the_first_counts() -> None:
    found = _runs(("a", "A", 0, 1.0), ("a", "A", 0, 2.0), ("b", "A", 0, None), ("b", "A", 0, 2.0))
    assert (found.names, found.ran.all()) == (["a", "b"], True)
    np.testing.assert_array_equal(found.value, [[1.0], [np.nan]])


@pytest.fixture(scope="module")
def report(read: Callable[..., Any]) -> Report:
    """Return a report of three methods on one case with 30 seeds; one fails on three."""
    rows = []
    for seed in range(30):
        rows.append(plan("Q1", "alpha_1", 50.0 + seed % 7, seed=seed))
        lost = run("Q1", "beta", seed=seed, termination="heuristic", exit_code=4)
        rows.append(lost if seed < 3 else plan("Q1", "beta", 49.0 + seed % 7, seed=seed))
        rows.append(plan("Q1", "gamma", 30.0 + seed % 5, seed=seed))
    sweep = read(rows)
    return make_report(gather(sweep.con, sweep.labels))


def _values(table: Table) -> list[list[Any]]:
    return [[cell.value for cell in line] for line in table.rows]


def test_the_report_tells_intervals_pairs_and_who_had_no_plan(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    tables = {table.key: table for table in chance.all_tables}
    pairs = {(line[0], line[1]): line for line in _values(tables["collocation-pairs"])}
    pair = pairs["alpha_1", "beta"]
    assert pair[:9] == ["alpha_1", "beta", 30, 3, 0, 0, 30, 0, 0]
    assert pair[9:12] == pytest.approx([0.01, 0.01, 0.01])
    assert pair[12] == pytest.approx(scipy.stats.binomtest(30, 30).pvalue, rel=1e-12)
    assert pair[14] == 3 * pair[12]  # of three pairs, in the numbers of the figure of two as well
    mine = [line for names, line in pairs.items() if names[0] == "alpha_1"]
    assert len(mine) == 2 and _values(chance.figures[0].table) == mine
    assert _values(tables["without-plan"]) == [["beta", "Q1", seed, "no plan"] for seed in range(3)]
    means = {line[0]: line[1:4] for line in _values(tables["collocation-intervals"])}
    assert means == {"alpha_1": [30, 30, 1], "beta": [30, 27, 1], "gamma": [30, 30, 1]}


def test_tables_for_latex_are_escaped_and_ruled(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    text = to_latex(next(t for t in chance.tables if t.key == "collocation-pairs"))
    assert text.startswith("\\begin{table}\n") and text.endswith("\\end{table}\n")
    assert r"\texttt{alpha\_1} & \texttt{beta} & 30 & 3 & 0" in re.sub(" +", " ", text)
    assert "95 \\%" in text or "\\%" in text
    assert text.count("{") == text.count("}")
    assert latex("[a*]") == "{[}a{*}]"


def test_a_long_table_is_numbered_once_and_says_where_it_is_cut(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    short = next(t for t in chance.tables if t.key == "collocation-pairs")
    text = to_latex(replace(short, rows=short.rows[:1] * (MOST_ROWS + 1), last_is_summary=True))
    caption, _, rest = text.partition(r"\endfirsthead")
    assert caption.count(r"\caption{") == caption.count(r"\label{") == 1
    assert not {r"\caption", r"\label"} & set(re.findall(r"\\\w+", rest))
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 1} rows." in caption
    assert rest.count(r"\midrule") == 1


def test_drawings_are_files_with_the_colours_of_their_methods(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    drawing = chance.figures[0].drawing
    assert COLORS[1] in drawing.svg  # the second method's
    assert drawing.svg == to_svg(drawing.figure)
    pdf = to_pdf(drawing.figure)
    assert pdf.startswith(b"%PDF-") and pdf == to_pdf(drawing.figure)
