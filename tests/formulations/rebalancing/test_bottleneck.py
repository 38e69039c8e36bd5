"""The most used resource comes first, and is then what is balanced."""

from __future__ import annotations

from typing import Any

import pytest

from formulations.rebalancing.bottleneck import bottleneck_first
from optim import evaluate, solve
from optim.errors import InvalidInput
from optim.format.instance import Instance


def _made(memory: float | None, **changes: Any) -> Instance:
    capacity = {"cpu": 100.0} | ({} if memory is None else {"memory": memory})
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "two resources",
            "resources": ["cpu", "memory"],
            "nodes": [{"id": f"n{i}", "capacity": capacity} for i in range(2)],
            "tasks": [
                {"id": f"t{i}", "load": {"cpu": 10, "memory": load}, "node": f"n{i % 2}"}
                for i, load in enumerate((4, 1, 3, 2))
            ],
            **changes,
        }
    )


def test_the_most_used_resource_is_balanced() -> None:
    # cpu 20 %; of 10 the memory is used to 50 %, of 100 to 5 %
    made = bottleneck_first(_made(10.0))
    assert made.resources == ("memory", "cpu")
    assert bottleneck_first(_made(100.0)).resources == ("cpu", "memory")
    assert bottleneck_first(_made(25.0)).resources == ("cpu", "memory")  # equally used
    result = solve(made, "balance-milp")
    assert result.plan is not None
    assert evaluate(made, result.plan).load_distance == pytest.approx(0.0)


def test_what_has_no_capacity_is_not_compared() -> None:
    assert bottleneck_first(_made(None)).resources == ("cpu", "memory")
    with pytest.raises(InvalidInput, match=r"nodes\[\]\.capacity"):
        bottleneck_first(_made(None, nodes=[{"id": "n0"}, {"id": "n1"}]))
