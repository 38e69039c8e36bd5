"""A fixed part of the fuzzer's changes: huge numbers, and limits that are exceeded by a hair."""

from __future__ import annotations

import pytest

from tests.fuzz.cases import examine
from tests.fuzz.changed import CHANGES, with_huge
from tests.fuzz.generate import generate
from tests.fuzz.product import Calls

QUICK = ("imc-exact", "balance-milp", "throughput-exact", "default")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(301, 303))
def test_no_limit_is_switched_off(seed: int, change: str) -> None:
    wrong = {"verdict", "false-infeasible", "too-good", "evaluate", "slots-ignored"}
    found = examine(seed, Calls(patience=300), QUICK, change=change)
    assert [f for f in found if f.kind in wrong or f.kind.startswith(("error", "crash"))] == []


@pytest.mark.parametrize("change", CHANGES)
def test_verdicts_of_evaluate_are_those_of_the_fuzzer(change: str) -> None:
    for seed in range(30):
        assert examine(seed, Calls(), ("none",), change=change) == []


def test_one_number_is_changed() -> None:
    document = generate(3, modelled=0.0)
    changed = with_huge(document, 3)
    assert changed != document
    assert with_huge(document, 3) == changed
