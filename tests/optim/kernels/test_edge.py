"""A plan at the edge of the referee's tolerance is taken, not held against the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optim.format.instance import Instance
from optim.kernels.place_rules import at_the_edge
from optim.methods.solve import solve
from optim.referee import evaluate_indices
from tests.optim.make import instance

OVER = 0.99975e-9  # of 1e-9


def stays(load: float, traffic: float = 0.0, **parts: Any) -> Instance:
    """Two tasks, each where it must be, and traffic between them."""
    given: dict[str, Any] = {"nodes": [{"id": n, "capacity": {"cpu": 1}} for n in "ab"], **parts}
    return instance(
        tasks=[{"id": n, "load": {"cpu": load}, "node": n, "allowed": [n]} for n in "ab"],
        operators=[],
        streams=[],
        traffic=[["a", "b", traffic]],
        **given,
    )


EDGES = {
    "capacity": stays(1 + OVER),
    "min_load": stays(
        1 - OVER, nodes=[{"id": n, "capacity": {"cpu": 1}, "min_load": {"cpu": 1}} for n in "ab"]
    ),
    "links": stays(1, 1 + 8e-10, links=[{"id": "up", "nodes": ["a"], "capacity": 1}]),
}


@pytest.mark.parametrize("rule", EDGES)
def test_only_the_last_of_the_tolerance_is_the_edge(rule: str) -> None:
    here = np.array([0, 1], dtype=np.int32)
    assert evaluate_indices(EDGES[rule], here).feasible
    assert at_the_edge(EDGES[rule], here)
    assert not at_the_edge(stays(1, 1, links=EDGES["links"].to_dict()["links"]), here)


@pytest.mark.parametrize("form", ["patterns", "products"])
@pytest.mark.parametrize("rule", EDGES)
def test_staying_at_the_edge_is_taken_and_said(rule: str, form: str) -> None:
    result = solve(EDGES[rule], "eoa-milp", form=form)
    assert result.exit_code == 0
    assert result.feasible
    assert result.plan is not None
    assert result.termination in ("iteration_limit", "optimal")
    if result.termination == "iteration_limit":
        assert result.bound is None
        assert not result.reasons
        assert any("only by the last of the tolerance" in note for note in result.notes)


@pytest.mark.parametrize("method", ["imc-brute", "imc-exact"])
@pytest.mark.parametrize("rule", ["capacity", "min_load"])
def test_kernels_too(method: str, rule: str) -> None:
    result = solve(EDGES[rule], method)
    assert (result.exit_code, result.termination) == (0, "iteration_limit")


@pytest.mark.parametrize("form", ["patterns", "products"])
def test_staying_at_the_edge_may_beat_the_bound(form: str) -> None:
    """Two tasks on one node is less capacity in use than a method may come to."""
    here = [{"id": t, "load": {"cpu": 0.5 + OVER / 2}, "node": "a"} for t in "tu"]
    made = instance(
        nodes=[{"id": n, "capacity": {"cpu": 1}} for n in "ab"],
        tasks=here,
        operators=[],
        streams=[],
    )
    result = solve(made, "eoa-milp", form=form)
    assert result.feasible
    assert result.objective.value == pytest.approx(0.5)
    assert result.bound is None or result.bound <= 0.5
