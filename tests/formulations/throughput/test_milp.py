"""`throughput-milp` against all placements, for every form of link and rule."""

from __future__ import annotations

import pytest

from optim import Instance, UnsuitableMethod, solve
from tests.formulations.throughput.small import THREADS, best_of, small
from tests.formulations.throughput.test_exact import check


@pytest.mark.parametrize("seed", [*range(9), 126, 1053, *range(THREADS, THREADS + 12)])
def test_equal_to_all_placements(seed: int) -> None:
    instance = small(seed)
    try:
        result = solve(instance, "throughput-milp", start_broken="refuse")
    except UnsuitableMethod as error:
        assert error.problems[0].remedy
        return
    check(instance, result)


@pytest.mark.parametrize("solver", ["cbc", "highs", "scip"])
def test_every_solver_agrees(solver: str) -> None:
    instance = small(2)
    check(instance, solve(instance, "throughput-milp", solver=solver))


def test_links_of_several_nodes() -> None:
    document = {
        "format": "streamplace.instance/1",
        "name": "racks",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 10}} for i in range(4)],
        "operators": [
            {"id": "a", "group": {"tasks": 2, "load": {"cpu": 4}}},
            {"id": "b", "group": {"tasks": 2, "load": {"cpu": 8}}},
        ],
        "streams": [{"from": "a", "to": "b", "rate": 12}],
        "links": [{"id": "rack", "nodes": ["n0", "n1"], "capacity": 2, "direction": "out"}],
    }
    instance = Instance.from_dict(document)
    best = best_of(instance)
    assert best is not None
    result = solve(instance, "throughput-milp", start_broken="refuse")
    assert result.termination == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(best[0])
