"""Performance profiles against values worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.report.figures import Profile
from experiments.report.figures import profiles as profiles_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def profiles(rows: Iterable[dict[str, Any]], num_cases: int) -> list[Profile]:
    told = list(rows)
    columns = {n: np.array([row[n] for row in told]) for n in ("ratio", "runs", "tries")}
    who = np.array(["abc".index(row["contestant"]) for row in told], dtype=int)
    return profiles_of(columns | {"contestant": who}, "abc", num_cases)


def _row(contestant: str, ratio: float, runs: int = 1, tries: int = 1) -> dict[str, Any]:
    return {"contestant": contestant, "ratio": ratio, "runs": runs, "tries": tries}


def test_profile_by_hand() -> None:
    # four cases: a best on two, 1.5 on one, without a plan on one; b within 1.2 on all
    rows = [_row("a", 1.0, 2), _row("a", 1.5), _row("b", 1.0, 2), _row("b", 1.2, 2)]
    first, second = profiles(rows, 4)
    assert (first.contestant, second.contestant) == ("b", "a")
    assert [second.at(r) for r in (0.9, 1.0, 1.4999, 1.5, 99)] == [0, 0.5, 0.5, 0.75, 0.75]
    assert [first.at(r) for r in (1.0, 1.19, 1.2)] == [0.5, 0.5, 1.0]
    assert (first.total, second.total) == (1.0, 0.75)


def test_seeds_count_as_parts_of_a_case() -> None:
    rows = [_row("a", 1.0, runs=1, tries=3), _row("a", 2.0, runs=2, tries=3), _row("a", 1.0)]
    (profile,) = profiles(rows, 2)
    assert profile.at(1.0) == pytest.approx((1 / 3 + 1) / 2)
    assert profile.total == pytest.approx(1.0)


def test_nothing_to_profile() -> None:
    assert profiles([], 3) == []
    assert profiles([_row("a", 1.0)], 0) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 100)), max_size=30))
def test_profiles_rise_from_the_best_to_what_is_solved(pairs: list[tuple[str, float]]) -> None:
    for profile in profiles((_row(name, ratio) for name, ratio in pairs), 30):
        assert list(profile.ratios) == sorted(set(profile.ratios))
        assert list(profile.shares) == sorted(profile.shares)
        solved = sum(name == profile.contestant for name, _ in pairs)
        assert profile.total == pytest.approx(solved / 30)
        assert profile.at(0.5) == 0
