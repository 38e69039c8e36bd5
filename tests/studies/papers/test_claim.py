"""A claim as data: SQL, texts with values, and the verdict rule."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from experiments.studies.papers.claims import Finding, Query, claims_of

TABLE = pd.DataFrame({"seed": [0, 1, 2, 3], "ours": [1.0, 2.0, 3.0, 4.0], "theirs": [2.0] * 4})


def judge_claim(paper: str, name: str, *frames: pd.DataFrame) -> Finding:
    """Return what other tables than the stored ones say of a claim."""
    judge = next(claim.judge for claim in claims_of(paper) if claim.id == name)
    assert judge is not None
    return judge(*frames)


def judged(table: pd.DataFrame = TABLE, **changes: Any) -> Finding:
    parts: dict[str, Any] = {
        "id": "X-1",
        "tables": ("runs",),
        "sql": "FROM runs",
        "verdict": ["max(ours) > 3", "min(ours) > 3"],
        "text": "{max(ours):.1f} of {count(*)} runs",
    }
    return Query(**{**parts, **changes})(table)


def test_values_stand_in_the_text_and_make_the_verdict() -> None:
    assert judged() == Finding("in part", "4.0 of 4 runs")
    assert judged(verdict=["max(ours) > 3"]).verdict == "same"
    assert judged(verdict="not shown").verdict == "not shown"


def test_statistics_are_those_of_all_tables() -> None:
    from experiments.statistics import mean_interval, median_interval, paired_sign_test

    text = "{mean95(ours)}; {median95_if(ours, seed > 0)}; {sign_p(ours, theirs):g}"
    ours, theirs = TABLE["ours"], TABLE["theirs"]
    told = f"{mean_interval(ours)}; {median_interval(ours[1:])}; {paired_sign_test(ours, theirs):g}"
    assert judged(text=text).figure == told
    assert judged(text="{rank_corr(ours, seed):g} {share(ours > theirs):g}").figure == "1 50"
    assert judged(text="{rises(ours, seed)} {falls(ours, seed)}").figure == "True False"
    assert judged(text="{string_agg(format('{:g}', ours), '; ')}").figure == "1; 2; 3; 4"


def test_the_first_cause_that_holds_is_given() -> None:
    cause = [{"when": "max(ours) > 9", "text": "high"}, {"text": "low: {max(ours):g}"}]
    assert judged(cause=cause).cause == "low: 4"
    assert judged(cause=cause[:1]).cause is None
    left = judged(left_out="count_if(ours < 3)", left_out_why="small")
    assert (left.left_out, left.left_out_why) == (2, "small")


def test_a_view_may_name_another() -> None:
    views = {"high": "FROM pairs WHERE ours > 3", "pairs": "FROM runs", "other": "FROM nowhere"}
    assert judged(sql="FROM high", views=views).figure == "4.0 of 1 runs"


def test_a_view_may_have_arguments() -> None:
    views = {"high(name, least)": "FROM query_table(name) WHERE ours > least"}
    assert judged(sql="FROM high('runs', 2)", views=views).figure == "4.0 of 2 runs"
    assert judged(sql="FROM high('runs', 3)", views=views).figure == "4.0 of 1 runs"


def test_known_points_are_joined_by_lines_and_constants_have_no_correlation() -> None:
    text = "{interp(1.5, list(seed), list(ours)):g}, {r2(ours, seed):.1f}"
    assert judged(text=text).figure == "2.5, 1.0"
    assert judged(text="{r2(ours, theirs) IS NULL}").figure == "True"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"text": "{avg(latency)}"}, "X-1: .*latency"),
        ({"text": "{max(ours) FILTER (ours > 9)}"}, "X-1: .* is unknown"),
        ({"verdict": ["max(ours) FILTER (ours > 9) > 1"]}, "X-1: .* is unknown"),
        ({"text": "{ours}", "verdict": ["true"]}, "gives 4 rows .* not 1"),
    ],
)
def test_what_the_tables_lack_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(LookupError, match=told):
        judged(**changes)


def test_an_unknown_value_in_a_list_is_no_value() -> None:
    table = TABLE.assign(ours=[1.0, None, 3.0, None])
    assert judged(table, text="{mean95(ours).seeds}", verdict=["true"]).figure == "2"
