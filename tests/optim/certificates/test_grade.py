"""What a solve certifies unasked: where it costs little, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from optim import Instance, solve
from optim.certificates.grade import affordable


def test_only_long_solves_are_certified_unasked(repository: Path) -> None:
    instance = Instance.load(repository / "examples" / "capsys-rate-q6.json")
    result = solve(instance, "throughput-exact")
    short = replace(result, times={"solve": 0.9})
    assert affordable(short, lambda: b"") is short
    # a busy machine made it long by the clock, not the work
    waited = replace(result, times={"solve": 100.0})
    assert affordable(waited, lambda: b"", busy=0.9) is waited
    told = affordable(replace(result, times={"solve": 100.0}), lambda: instance.to_json().encode())
    assert told.bound_by == "certificate"
    assert told.certified_gap == pytest.approx(0.0, abs=1e-9)
    # a file that takes longer to read than a fifth of the solve is left alone
    big = replace(result, times={"solve": 1.0})
    assert affordable(big, lambda: b" " * 10_000_000) is big
    assert affordable(big, lambda: pytest.fail("the text is made"), making=3.0) is big
