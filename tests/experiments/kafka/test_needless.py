"""Of plans that are as good the one that changes least: no leader changes for nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from experiments.interchange.importing import import_instance
from optim import Instance, evaluate, solve
from optim.format.plan import Plan
from tests.experiments.kafka.folders import Line, write_folder


def cluster(folder: Path, seed: int, partitions: int, count: int, *, dead: bool) -> Path:
    """A cluster of factor 2 or 3; one broker dead or none; sizes few, so that plans are equal."""
    rng = random.Random(seed)
    factor = rng.randint(2, 3)
    gone = count if dead else 0
    told = [{"id": b, "alive": b != gone} for b in range(1, count + 1)]
    found, rates = {}, {}
    for number in range(partitions):
        replicas = rng.sample(range(1, count + 1), factor)
        isr = [b for b in replicas if b != gone]
        name, size = (
            f"t-{number}",
            rng.choice((100, 100, 200)) if count < 5 else rng.randint(99, 999),
        )
        found[name] = Line(replicas, leader=rng.choice(isr), isr=isr, size=size)
        rates[name] = (10, rng.choice((10, 20)))
    return write_folder(folder, found, told, rates=rates)


def leaders_changed(instance: Instance, plan: Plan) -> list[str]:
    labels = instance.tasks.labels
    return [
        name
        for t, name in enumerate(instance.tasks.ids)
        if labels[t]["role"] == "leader" and plan.assignment[name] != labels[t]["leader"]
    ]


@pytest.mark.parametrize(
    ("mode", "method"),
    [
        ("dead-broker", None),
        ("dead-broker", "balance-search"),
        ("replication-factor", None),
        ("replication-factor", "balance-search"),
    ],
)
def test_no_leader_changes_where_replicas_are_made_anew(
    mode: str, method: str | None, tmp_path: Path
) -> None:
    folder = cluster(tmp_path, 2, 16, 5, dead=mode == "dead-broker")
    options = [("mode", mode)] + ([("factor", "3")] if mode == "replication-factor" else [])
    instance = import_instance("kafka", [str(folder)], options).instance
    plan = solve(instance, method, time_limit=2.0).plan
    assert plan is not None
    assert leaders_changed(instance, plan) == []
    stay = instance.tasks.node[~instance.nodes.leaving[instance.tasks.node]]
    kept = plan.node_indices(instance)[~instance.nodes.leaving[instance.tasks.node]]
    assert (stay == kept).all()


def every_plan(instance: Instance) -> Iterator[np.ndarray]:
    nodes = np.flatnonzero(instance.open_nodes).tolist()
    may = [[n for n in nodes if instance.allowed_mask(t)[n]] for t in range(instance.num_tasks)]
    for places in itertools.product(*may):
        yield np.array(places, np.int32)


def changes_of(instance: Instance, node: np.ndarray) -> tuple[float, float, int]:
    """The objective, bytes and switches of a plan; no numbers where it breaks a rule."""
    found = evaluate(instance, Plan.from_indices(instance, node, None, "m", {}))
    if not found.feasible or found.load_distance is None:
        return np.inf, np.inf, 0
    return round(found.load_distance, 6), found.migration_cost or 0.0, found.switches or 0


@pytest.mark.seeds(6)
@pytest.mark.parametrize("seed", range(24))
def test_no_exchange_of_replicas_could_be_undone(seed: int, tmp_path: Path) -> None:
    """Between the replicas of each partition no other order is as good and changes less."""
    rng = random.Random(seed)
    balance = rng.choice(("disk", "disk", "nw_out", "leaders", "replicas"))
    folder = cluster(tmp_path, seed, rng.randint(3, 6), 4, dead=rng.random() < 0.5)
    instance = import_instance("kafka", [str(folder)], [("balance", balance)]).instance
    result = solve(instance, rng.choice(("balance-search", "balance-milp")))
    assert result.plan is not None
    node = np.asarray(result.plan.node_indices(instance))
    value, cost, switches = changes_of(instance, node)
    for i in range(len(instance.sets.ids)):
        members = instance.sets.tasks_of(i)
        for order in itertools.permutations(node[members].tolist()):
            other = node.copy()
            other[members] = order
            found = changes_of(instance, other)
            assert not (found[0] <= value and (found[1], found[2]) < (cost, switches)), (i, order)
        other = node.copy()
        other[members] = instance.tasks.node[members]
        found = changes_of(instance, other)
        assert not (found[0] <= value and (found[1], found[2]) < (cost, switches)), i


@pytest.mark.parametrize("method", [None, "balance-search"])
@pytest.mark.parametrize("seed", range(3))
def test_leaders_are_evened_without_copies_where_that_is_enough(
    seed: int, method: str | None, tmp_path: Path
) -> None:
    """Broker 1 leads all; followers are dealt out so that leaders alone can be even."""
    rng = random.Random(seed)
    others = [2, 2, 3, 3, 4, 4, 2 + seed, 3]
    rng.shuffle(others)
    found = {f"t-{i}": Line([1, b], size=rng.randint(10, 90)) for i, b in enumerate(others)}
    rates = dict.fromkeys(found, (0, 10))
    told = [{"id": b} for b in range(1, 5)]
    folder = write_folder(tmp_path, found, told, rates=rates)
    instance = import_instance("kafka", [str(folder)], [("balance", "nw_out")]).instance
    result = solve(instance, method, time_limit=2.0)
    assert result.evaluation is not None
    assert result.evaluation.load_distance == 0
    assert result.evaluation.migration_cost == 0
