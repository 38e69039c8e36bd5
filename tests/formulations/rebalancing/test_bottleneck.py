"""The most used resource comes first, and is then what is balanced."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from formulations.rebalancing.problem import bottleneck_of, resource_first
from optim import evaluate, solve
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


def bottleneck_first(instance: Instance) -> Instance:
    return resource_first(instance, bottleneck_of(instance))


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


def test_a_replay_balances_the_most_used_resource(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # as recorded nodes have 20 and 20 of cpu, and 7 and 3 of memory
    periods = []
    for number in range(2):
        periods.append(tmp_path / f"{number}.json")
        periods[-1].write_text(json.dumps(_made(10.0, name=f"p{number}").to_dict()))
    told = {}
    for flags in ([], ["--bottleneck"]):
        out = ["--policy", "static", "-o", str(tmp_path / f"out{len(flags)}"), "--json"]
        assert main(["replay", *map(str, periods), *out, *flags]) == 0
        written = capsys.readouterr()
        told[len(flags)] = [row["load_distance"] for row in json.loads(written.out)["rows"]]
        assert ("balanced: memory" in written.err) == bool(flags)
    assert told == {0: [0.0, 0.0], 1: [2.0, 2.0]}
