"""A rate to be carried with the fewest moves or nodes, and the rate after a loss, by trying all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from optim import Instance, InvalidInput, UnsuitableMethod, evaluate, solve
from optim.figures.load import after_loss, carrying
from optim.figures.measures import migrated_tasks
from optim.rules import broken
from optim.rules.placement import Placement
from streamplace.cli.main import main
from tests.formulations.throughput.small import small

RATES = (0.3, 0.6, 1.0, 1.5)


def least(instance: Instance, objective: str) -> int | None:
    found = None
    for nodes in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        at = np.array(nodes, dtype=np.int32)
        moves = objective == "migrations"
        value = len(migrated_tasks(instance, at)) if moves else len(set(nodes))
        if (found is None or value < found) and not broken(Placement(instance, at)):
            found = value
    return found


@pytest.mark.parametrize("method", ["throughput-exact", "throughput-milp", "throughput-search"])
@pytest.mark.parametrize("seed", [0, 1, 4, 5, 14, 19, 5003, 5006, 5009, 5011, 5020])
def test_fewest_moves_or_nodes(method: str, seed: int) -> None:
    instance, rate = small(seed), RATES[seed % 4]
    objective = "migrations" if (instance.tasks.node >= 0).any() else "nodes_used"
    best = least(carrying(instance, rate), objective)
    try:
        result = solve(instance, method, objective=objective, target_rate=rate)
    except UnsuitableMethod:
        return
    if result.plan is None:
        assert best is None or method == "throughput-search"
        return
    assert result.objective is not None
    assert result.objective.value is not None
    assert result.evaluation is not None
    assert best is not None
    assert (result.evaluation.sustainable_rate or np.inf) >= rate * (1 - 1e-6)
    assert result.bound is None or result.bound <= best <= result.objective.value
    if method != "throughput-search":
        assert result.objective.value == best
        assert result.termination == "optimal"


def pair(**more: object) -> Instance:
    """Four tasks of 2 on three nodes of 6, all at home on the first."""
    return Instance.from_dict({
        "format": "streamplace.instance/1",
        "name": "pair",
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 6}} for i in range(3)],
        "tasks": [{"id": f"t{i}", "load": {"cpu": 2}, "node": "n0"} for i in range(4)],
        **more,
    })  # fmt: skip


def test_a_rate_by_hand() -> None:
    # 8 of 6 on the first node; 1.0 wants one task gone, 1.5 two, 3 four nodes of one task each
    for rate, moves in ((0.75, 0), (1.0, 1), (1.5, 2)):
        result = solve(pair(), "throughput-exact", target_rate=rate)
        assert result.objective is not None
        assert (result.objective.name, result.objective.value) == ("migrations", moves)
    assert solve(pair(), "throughput-exact", target_rate=3.0).exit_code == 3
    with pytest.raises(InvalidInput, match="target-rate"):
        solve(pair(), target_rate=-1.0)


@pytest.mark.slow
def test_after_a_loss_by_hand() -> None:
    """2 + 1 + 1 tasks: the loss of the first puts one more on both others, 6 / 4."""
    instance = pair()
    after = after_loss(instance, np.array([0, 0, 1, 2]), 0)
    assert after is not None
    assert sorted(after.tolist()) == [1, 1, 2, 2]
    result = solve(instance, "throughput-search", objective="rate_after_loss")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.5)
    assert result.bound == pytest.approx(1.5)
    assert result.plan is not None
    assert evaluate(instance, result.plan).rate_after_loss is None  # only where it is asked for


@pytest.mark.parametrize("seed", [0, 3, 5, 8, 12])
def test_no_plan_is_better_after_a_loss_than_the_bound(seed: int) -> None:
    instance = small(seed)
    best = solve(instance, "imc-brute", objective="rate_after_loss")
    found = solve(instance, "throughput-search", objective="rate_after_loss", effort=0.1)
    if best.objective is None or best.objective.value is None or found.plan is None:
        return
    assert found.objective is not None
    assert found.objective.value is not None
    assert found.objective.value <= best.objective.value * (1 + 1e-9)
    assert found.bound is None or found.bound >= best.objective.value * (1 - 1e-9)
    assert found.objective.value >= 0.8 * best.objective.value


def test_on_the_command_line(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    path = f"{tmp_path}/pair.json"
    pair().save(path)
    assert main(["solve", path, "--target-rate", "1.5"]) == 0
    told = capsys.readouterr()
    assert "migrations 2" in " ".join(told.out.split())
    assert "with 1.5 × current input to carry" in told.err
    assert main(["solve", path, "--keep-rate-after-losing", "1"]) == 0
    assert "rate_after_loss 1.5" in " ".join(capsys.readouterr().out.split())
    bad = ["solve", path, "--keep-rate-after-losing", "1", "--objective", "imc_gain"]
    assert main(bad) == 2
