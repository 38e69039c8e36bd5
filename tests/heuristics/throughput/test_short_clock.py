"""Under a clock of a moment no method returns less than the present."""

from __future__ import annotations

import pytest

from optim import Instance, solve


def leaving() -> Instance:
    """Emptying n1 carries two thirds of the input, staying carries it."""
    nodes = [
        {"id": f"n{i}", "capacity": {"cpu": 12}, "slots": 3, "leaving": i == 1} for i in (0, 1)
    ]
    loads = {"op0": (1, 2), "op1": (2, 4), "op2": (2, 12)}
    operators = [
        {"id": name, "group": {"tasks": count, "load": {"cpu": load}}}
        for name, (count, load) in loads.items()
    ]
    homes = {"op0/0": "n0", "op1/0": "n0", "op1/1": "n0", "op2/0": "n0", "op2/1": "n1"}
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "leaving", "nodes": nodes,
        "operators": operators, "tasks": [{"id": t, "node": n} for t, n in homes.items()],
        "streams": [
            {"from": "op0", "to": "op1", "rate": 1}, {"from": "op1", "to": "op2", "rate": 1},
        ],
    })  # fmt: skip


@pytest.mark.parametrize("seconds", [0.001, 0.01, None])
@pytest.mark.parametrize("method", ["throughput-search", "throughput-exact", "throughput-milp"])
def test_emptying_gives_way_where_it_does_not_carry_the_input(
    method: str, seconds: float | None
) -> None:
    result = solve(leaving(), method, time_limit=seconds)
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.0)
    assert result.moves == ()
