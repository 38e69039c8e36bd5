"""Of plans that are as good the one that changes least: no leader changes for nothing."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from optim import Instance, evaluate, solve
from optim.errors import InvalidInput
from optim.figures.measures import migrated_tasks
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import import_instance
from tests.streamplace.clusters.kafka.folders import Line, write_folder


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


def small(folder: Path, rng: random.Random) -> Instance | None:
    """An operation on up to four partitions of factors 1 to 3, on brokers in whole sizes."""
    brokers = list(range(1, rng.randint(3, 5)))
    dead = rng.choice((0, 0, brokers[-1]))
    mode = rng.choice(("rebalance", "add-broker", "remove-broker", "leaders", "dead-broker"))
    added = brokers[-1] if mode == "add-broker" else 0
    told = [{"id": b, "alive": b != dead or b == added} for b in brokers]
    found: dict[str, Line] = {}
    for number in range(rng.randint(2, 4)):
        places = [b for b in brokers if b != added]
        replicas = rng.sample(places, min(len(places), rng.choice((1, 1, 2, 3))))
        isr = [b for b in replicas if b != dead or b == added]
        leader = rng.choice(isr) if isr else None
        size = 100 * rng.choice((1, 1, 2, 3))
        found[f"t-{number}"] = Line(replicas, leader=leader, isr=isr, size=size)
    rates = dict.fromkeys(found, (10, rng.choice((10, 20))))
    folder = write_folder(folder, found, told, rates=rates)
    options = [("mode", mode), ("balance", rng.choice(("disk", "disk", "nw_out", "replicas")))]
    if mode in ("add-broker", "remove-broker"):
        options.append(("brokers", str(brokers[-1])))
    try:
        return import_instance("kafka", [str(folder)], options).instance
    except InvalidInput:
        return None  # nothing to do


def assert_no_plan_changes_less(instance: Instance, node: np.ndarray) -> None:
    """Of all plans that are as good none copies less, or as much with fewer switches."""
    value, cost, switches = changes_of(instance, node)
    for other in every_plan(instance):
        paid = migrated_tasks(instance, other)
        if float(instance.tasks.migration_cost[paid].sum()) > cost:
            continue
        found = changes_of(instance, other)
        assert not (found[0] <= value and (found[1], found[2]) < (cost, switches)), other


@pytest.mark.seeds(6)
@pytest.mark.parametrize("method", ["balance-milp", "balance-search"])
@pytest.mark.parametrize("seed", range(24))
def test_of_plans_as_good_the_one_that_changes_least(
    seed: int, method: str, tmp_path: Path
) -> None:
    """By brute force, the least bytes and then the fewest switches; the proof says so, too."""
    instance = small(tmp_path, random.Random(seed))
    if instance is None:
        return
    result = solve(instance, method)
    if result.plan is None:
        return
    assert_no_plan_changes_less(instance, np.asarray(result.plan.node_indices(instance)))
    levels = {level.name: level for level in result.objective_levels}
    assert levels["migration_cost"].value == levels["migration_cost"].bound


@pytest.mark.parametrize("method", [None, "balance-search"])
@pytest.mark.parametrize("sizes", [(100, 300, 100), (300, 100, 100), (100, 100, 300)])
def test_a_new_broker_gets_the_fewest_bytes_that_even_out(
    sizes: tuple[int, ...], method: str | None, tmp_path: Path
) -> None:
    found = {f"t-{i}": Line([1], size=size) for i, size in enumerate(sizes)}
    folder = write_folder(tmp_path, found, [{"id": 1}, {"id": 2}])
    options = [("mode", "add-broker"), ("brokers", "2")]
    instance = import_instance("kafka", [str(folder)], options).instance
    result = solve(instance, method)
    assert result.evaluation is not None
    assert (result.evaluation.load_distance, result.evaluation.migration_cost) == (50, 200)


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


def test_nothing_to_balance_is_said(tmp_path: Path) -> None:
    """Topics without a byte, or without a rate: every plan is as even as any other."""
    partitions = {"t-0": Line([1, 2], size=0), "t-1": Line([2, 1], size=0)}
    folder = write_folder(tmp_path / "k", partitions)
    made = import_instance("kafka", [str(folder)])
    assert any(
        "no task has any disk: every placement is as even" in x for x in made.ledger.warnings
    )
    counted = import_instance("kafka", [str(folder)], [("balance", "replicas")])
    assert not any("no task has any" in text for text in counted.ledger.warnings)
