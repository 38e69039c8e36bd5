"""Matrix expansion: the example of GitHub's documentation, and what must hold for any matrix."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from experiments.sweep.plan import expand, size

_KEYS = st.sampled_from(["a", "b", "c"])
_FACTORS = st.dictionaries(
    _KEYS, st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True), min_size=1
)
_ENTRIES = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c", "x"]), st.integers(0, 4), min_size=1),
    max_size=4,
)


def test_documented_example_of_include() -> None:
    combinations = expand(
        {"fruit": ["apple", "pear"], "animal": ["cat", "dog"]},
        include=[
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
            {"fruit": "banana", "animal": "cat"},
        ],
    )
    assert combinations == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_exclude_needs_all_its_keys_to_match() -> None:
    combinations = expand({"os": ["l", "m"], "v": [1, 2]}, exclude=[{"os": "m", "v": 1}])
    assert combinations == [{"os": "l", "v": 1}, {"os": "l", "v": 2}, {"os": "m", "v": 2}]


def test_an_excluded_combination_comes_back_by_include() -> None:
    combinations = expand({"v": [1, 2]}, exclude=[{"v": 2}], include=[{"v": 2, "x": 9}])
    assert combinations == [{"v": 1}, {"v": 2, "x": 9}]


def test_without_factors_only_includes_remain() -> None:
    assert expand({}, include=[{"a": 1}]) == [{"a": 1}]
    assert expand({}) == []


@given(_FACTORS, _ENTRIES, _ENTRIES)
def test_semantics_hold_for_any_matrix(
    factors: dict[str, list[int]], exclude: list[dict[str, int]], include: list[dict[str, int]]
) -> None:
    combinations = expand(factors, exclude, include)
    whole = [c for c in combinations if set(factors) <= set(c)]
    product = expand(factors)
    assert len(product) == size(factors) == math.prod(map(len, factors.values()))
    kept = [c for c in product if not any(e.items() <= c.items() for e in exclude)]
    # what is left of the product stands first, in order, its original values untouched
    assert [{k: c[k] for k in factors} for c in combinations[: len(kept)]] == kept
    for entry in include:
        own = {k: v for k, v in entry.items() if k in factors}
        fits = [c for c in kept if own.items() <= c.items()]
        assert bool(fits) != (entry in combinations[len(kept) :])
    assert len(combinations) <= len(kept) + len(include)
    assert all(isinstance(c, dict) for c in whole)


def test_a_matcher_decides_what_equal_means() -> None:
    def same_start(_: str, held: Any, wanted: Any) -> bool:
        return bool(str(held).startswith(str(wanted)))

    assert expand({"m": ["top-a", "flux"]}, exclude=[{"m": "top"}], matches=same_start) == [
        {"m": "flux"}
    ]
