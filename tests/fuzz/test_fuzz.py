"""A fixed part of the fuzzer: the same instances and questions at every run.

What a limit in seconds leaves undone differs from run to run; what is demanded of the answer does
not, and no time is asserted.
"""

from __future__ import annotations

import pytest

from tests.fuzz.cases import examine
from tests.fuzz.command import OBSERVED, counted
from tests.fuzz.product import Calls

HANGS = 300  # seconds after which a call is taken to hang


@pytest.mark.seeds(5)
@pytest.mark.parametrize("seed", range(101, 161))
def test_nothing_is_wrong_with_any_answer(seed: int) -> None:
    """Nothing found; ``python -m tests.fuzz --case SEED`` writes what is."""
    found = examine(seed, Calls(patience=HANGS))
    wrong = [f"{f.kind} {f.method} {f.question.keywords}: {f.detail}" for f in found
             if f.kind not in OBSERVED]  # fmt: skip
    assert wrong == []


def test_proofs_of_all_exact_methods_are_counted_where_none_is_named() -> None:
    assert {"imc-exact", "balance-milp", "storm-milp"} <= {*counted("")}
    assert counted("imc-exact,flux") == ["imc-exact", "flux"]
    with pytest.raises(SystemExit, match="naively: no method"):
        counted("naively")
