"""`storm-milp` spreads workers without a solver, and loses no plan where one fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from formulations.storm.split import transported
from optim import solve
from tests.formulations.storm.cases import random_cluster
from tests.test_plan_in_hand import Fault


@pytest.mark.parametrize("seed", range(40))
def test_workers_are_spread_wherever_they_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, nodes = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    low = rng.integers(0, 2, (jobs, nodes))
    high = low + rng.integers(0, 3, (jobs, nodes))
    fewest = rng.integers(0, 5, jobs)
    most, slots = fewest + rng.integers(0, 3, jobs), rng.integers(0, 5, nodes)
    ranges = [range(a, b + 1) for a, b in zip(low.ravel(), high.ravel(), strict=True)]
    tables = [np.array(t).reshape(low.shape) for t in itertools.product(*ranges)]
    good = [
        t
        for t in tables
        if (t.sum(axis=0) <= slots).all()
        and (fewest <= t.sum(axis=1)).all()
        and (t.sum(axis=1) <= most).all()
    ]
    found = transported(low, high, fewest, most, slots)
    assert (found is None) == (not good)
    if found is not None:
        assert any((found == t).all() for t in good)
        assert found.sum() == min(t.sum() for t in good)


@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_whatever_fails_after_the_first_plan_it_is_kept(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, whole = random_cluster(8), Fault()
    with monkeypatch.context() as patch:
        whole.arm(patch)
        solve(made, "storm-milp", form=form)
    assert whole.first is not None
    assert whole.calls > whole.first
    for at in sorted({whole.first + 1, (whole.first + whole.calls) // 2 + 1, whole.calls}):
        fault = Fault(at)
        with monkeypatch.context() as patch:
            fault.arm(patch)
            assert solve(made, "storm-milp", form=form).feasible, f"call {at}"
