"""Methods in pairs: who is paired with whom, what a run without a plan counts, and how sure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import stats

from experiments.report.build import make_report
from experiments.report.document import MOST_ROWS
from experiments.report.findings import gather
from experiments.report.latex import escape, to_latex
from experiments.report.pairing import LEAST_CASES, interval, pairs_of, runs_of, wilcoxon_p
from tests.experiments.report.synthetic import plan, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from experiments.report.document import Report, Table
    from experiments.report.pairing import Pair, Runs


def _pair(first: dict[Any, Any], second: dict[Any, Any], more: bool = True) -> Pair:
    runs: dict[str, Runs] = {
        name: {key: None if value is None else (value, 1e-9) for key, value in found.items()}
        for name, found in (("a", first), ("b", second))
    }
    return pairs_of(runs, ["a", "b"], more)[0]


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
        assert found.sign == stats.binomtest(units, units).pvalue
        assert (found.advantage, found.low, found.high) == (1.0, 1.0, 1.0)
    # less is better: the same values the other way round
    assert _pair(many, {key: value + 1 for key, value in many.items()}, more=False).better == 6


def test_seeds_that_change_nothing_are_no_draws() -> None:
    first = {(case, seed): 2.0 for case in "AB" for seed in range(30)}
    second = dict.fromkeys(first, 1.0)
    found = _pair(first, second)
    assert (found.pairs, found.better, found.by_case, found.sign) == (60, 2, True, 0.5)
    assert _pair(first, {**second, ("A", 7): 1.5}).better == 60


def test_ties_of_figures_are_ties_of_their_differences() -> None:
    gains = [0.1 * step - 0.1 * (step - 1) for step in range(1, 9)]
    signs = [-1, 1, 1, 1, 1, -1, 1, 1]
    found = wilcoxon_p([gain * sign for gain, sign in zip(gains, signs, strict=True)])
    assert len(set(gains)) > 1
    assert found == wilcoxon_p(signs) == stats.wilcoxon(signs).pvalue
    assert wilcoxon_p([0.0, 0.0]) is wilcoxon_p([]) is None


def test_signed_ranks_with_ties_are_those_of_all_signs() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 5, 8):
        values = rng.integers(1, 4, size) * rng.choice([-1.0, 1.0, 1.0], size)
        assert wilcoxon_p(values.tolist()) == pytest.approx(
            stats.wilcoxon(values).pvalue, rel=1e-12
        )


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


@pytest.mark.parametrize("size", [LEAST_CASES, 30])
def test_the_interval_holds_the_mean_as_often_as_it_says(size: int) -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(200):
        _, low, high = interval(rng.normal(3.0, 1.0, size).tolist())
        held += bool(low is not None and high is not None and low <= 3.0 <= high)
    assert 0.91 <= held / 200 <= 0.98
    values = rng.normal(3.0, 1.0, size).tolist()
    assert interval(values) == interval(values[::-1])
    shares = [1.0] * (size - 1) + [0.0]
    assert interval(shares)[2] == 1.0


def test_of_repeated_runs_the_first_counts() -> None:
    rows = [
        {"contestant": "a", "problem": "A", "seed": 0, "has_plan": True, "value": v, "noise": 0.0}
        for v in (1.0, 2.0)
    ]
    assert runs_of(rows, "value") == {"a": {("A", 0): (1.0, 0.0)}}


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
    return make_report(gather(sweep.spark, sweep.labels))


def _values(table: Table) -> list[list[Any]]:
    return [[cell.value for cell in line] for line in table.rows]


def test_the_report_tells_intervals_pairs_and_who_had_no_plan(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    tables = {table.key: table for table in chance.all_tables}
    pairs = {(line[0], line[1]): line for line in _values(tables["collocation-pairs"])}
    pair = pairs["alpha_1", "beta"]
    assert pair[:9] == ["alpha_1", "beta", 30, 3, 0, 0, 30, 0, 0]
    assert pair[9:12] == pytest.approx([0.01, 0.01, 0.01])
    assert pair[12] == stats.binomtest(30, 30).pvalue
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
    assert r"\texttt{alpha\_1} & \texttt{beta} & 30 & 3 & 0" in text
    assert "95 \\%" in text or "\\%" in text
    assert text.count("{") == text.count("}")
    assert escape("[a*]") == "{[}a{*}]"


def test_a_long_table_is_numbered_once_and_says_where_it_is_cut(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    short = next(t for t in chance.tables if t.key == "collocation-pairs")
    text = to_latex(replace(short, rows=short.rows[:1] * (MOST_ROWS + 1), last_is_summary=True))
    caption, _, rest = text.partition(r"\endfirsthead")
    assert caption.count(r"\caption{") == caption.count(r"\label{") == 1
    assert not {r"\caption", r"\label"} & set(re.findall(r"\\\w+", rest))
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 1} rows." in caption
    assert rest.count(r"\midrule") == 1


@pytest.mark.slow
def test_drawings_are_files_with_real_colours(report: Report) -> None:
    chance = next(section for section in report.sections if section.key == "chance")
    drawing = chance.figures[0].drawing
    assert drawing.file().startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert "var(" not in drawing.file()
    pdf = drawing.pdf()
    assert pdf.startswith(b"%PDF-") and pdf == drawing.pdf()
    assert b"0.8353 0.3686 0.0000" in pdf  # the second method's colour on the page, #d55e00
    assert b"0.0117647059" not in pdf  # and no placeholder is left
