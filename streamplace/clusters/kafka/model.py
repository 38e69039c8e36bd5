"""The document of an instance: a task a replica, a set a partition, the rest as background."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem, meant
from optim.format.document import INSTANCE_FORMAT
from streamplace.clusters.exchange.declarations import weigh
from streamplace.clusters.kafka.cluster import (
    CLUSTER,
    COUNT,
    DEAD,
    FACTOR,
    LEADER,
    LEADERS,
    LEADING_MODES,
    REPLICAS,
    ROLE,
    Cluster,
    Operation,
    Partition,
    Target,
    some,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from streamplace.clusters.exchange.declarations import Ledger

NEW = "new"
"""The node on which replicas stand that are still to be made; it leaves, and all go off it."""
MOST_ALLOWED = 40_000_000
"""Entries of all lists of allowed brokers together."""


def document_of(
    cluster: Cluster, operation: Operation, balance: str | None, ledger: Ledger
) -> dict[str, Any]:
    """Return the document of what an operation may do to a cluster.

    `balance`: the balanced resource; ``None`` for the first that is known and that the operation
        changes.
    """
    if operation.mode == "remove-broker":
        cluster = replace(cluster, emptied=operation.brokers)
    targets = [
        a._replace(replicas=sorted(a.replicas, key=lambda replica: not replica.leads))
        for a in operation.targets(cluster, ledger)
    ]
    resources = _resources(cluster, operation, balance, targets)
    nodes = _nodes(cluster, targets, operation, resources, ledger)
    if sum(len(r.allowed or ()) for a in targets for r in a.replicas) > MOST_ALLOWED:
        reason = f"partitions × brokers give more than {MOST_ALLOWED} allowed places"
        raise InvalidInput(Problem("topics.txt", len(targets), reason, "take --option topics=…"))
    _note(cluster, targets, operation, ledger)
    leadership = operation.mode in LEADING_MODES
    tasks = [task for a in targets for task in _tasks(cluster, a, resources, leadership)]
    weigh(nodes, tasks, resources[0], ledger)
    driven = [r for r in resources if r not in ("disk", COUNT, LEADERS)]
    return {
        "format": INSTANCE_FORMAT,
        "name": cluster.name,
        "units": {r: u for r, u in cluster.units.items() if r in resources}
        | {"state": cluster.units.get("disk", "bytes")},
        "labels": {"system": "kafka", "mode": operation.mode}
        | ({CLUSTER: cluster.id} if cluster.id else {}),
        "resources": resources,
        **({"rate_driven": driven} if driven else {}),
        "nodes": nodes,
        "operators": [{"id": topic} for topic in sorted({a.partition.topic for a in targets})],
        "tasks": tasks,
        "sets": [] if leadership else _sets(cluster, targets),
    }


def _resources(
    cluster: Cluster, operation: Operation, balance: str | None, targets: Sequence[Target]
) -> list[str]:
    """Return the resources, the balanced one first; of leadership those that leading changes."""
    # others a plan of leaders can neither mend nor break
    preferred = (
        ("nw_out", "network_out", LEADERS) if operation.mode in LEADING_MODES else ("disk", COUNT)
    )
    names = [*cluster.resources, COUNT, LEADERS]
    first = balance or next(name for name in preferred if name in names)
    if first not in names:
        reason = "is not known of this cluster"
        raise InvalidInput(Problem("--option balance", first, reason, meant(first, names)))
    rest = [name for name in cluster.resources if name != first]
    if operation.mode not in LEADING_MODES:
        return [first, *rest]
    # where leading and following weigh the same, no election changes anything
    changed = {
        r for r in names for a in targets if a.partition.load(r, True) != a.partition.load(r, False)
    }
    if first not in changed and balance is not None:
        reason = f"does not change by who leads ({operation.mode})"
        others = ", ".join(r for r in names if r in changed)
        raise InvalidInput(Problem("--option balance", first, reason, f"one of {others}"))
    return [first, *(r for r in rest if r in changed)]


def _nodes(
    cluster: Cluster,
    targets: Sequence[Target],
    operation: Operation,
    resources: list[str],
    ledger: Ledger,
) -> list[dict[str, Any]]:
    touched = {a.partition.name for a in targets}
    # rest: background of what no task moves; loads: all, to see who is above capacity already
    rest, loads = _unexplained(cluster, resources), _unexplained(cluster, resources)
    for partition in cluster.partitions:
        _add(loads, partition, resources)
        if partition.name not in touched:
            _add(rest, partition, resources)
        elif operation.mode in LEADING_MODES:  # every replica follows; leading comes on top
            _add(rest, partition, resources, leads=False)
    repairs = operation.mode in ("rebalance", "leaders")  # others need not mend what they found
    nodes: list[dict[str, Any]] = []
    for number, broker in cluster.brokers.items():
        entry: dict[str, Any] = {"id": str(number)}
        if cluster.has_racks:
            entry["rack"] = cluster.rack_of[number]
        if broker.alive:
            most = {r: broker.capacity[r] for r in resources if r in broker.capacity}
            if over := [] if repairs else [r for r in most if loads[number][r] > most[r]]:
                ledger.warn(f"broker {number} is over its capacity of {', '.join(over)} already")
            entry["capacity"] = most | {r: loads[number][r] for r in over}
        background = {r: load for r, load in rest[number].items() if load > 0}
        if background and broker.alive:
            entry["background"] = background
        if not broker.alive or number in cluster.emptied:
            entry["leaving"] = True
            ledger.warn(f"broker {number} is {'to be emptied' if broker.alive else 'dead'}")
        labels = {"host": broker.host, DEAD: "" if broker.alive else "true"}
        entry["labels"] = {key: value for key, value in labels.items() if value}
        nodes.append(entry)
    if any(r.broker is None for a in targets for r in a.replicas):
        nodes.append({"id": NEW, "leaving": True, **({"rack": NEW} if cluster.has_racks else {})})
        ledger.reading(f"replicas to be made stand on a node {NEW!r} that is no broker")
    living = [broker for broker in cluster.brokers.values() if broker.alive]
    bounded = [r for r in resources if all(r in broker.capacity for broker in living)]
    if unbounded := ", ".join(r for r in resources if r in cluster.resources and r not in bounded):
        ledger.warn(f"no capacity of {unbounded} is reported: unbounded on some brokers")
    return nodes


def _add(
    loads: dict[int, dict[str, float]],
    partition: Partition,
    resources: list[str],
    *,
    leads: bool = True,
) -> None:
    """Add what a partition loads its brokers with; its leader's replica too may only follow."""
    following = partition.loads(resources, False).items()
    leading = partition.loads(resources, True).items() if leads else following
    for broker in partition.replicas:
        if broker not in partition.lost:
            for r, x in leading if broker == partition.leader else following:
                loads[broker][r] += x


def _unexplained(cluster: Cluster, resources: list[str]) -> dict[int, dict[str, float]]:
    return {
        number: {r: broker.rest.get(r, 0.0) for r in resources}
        for number, broker in cluster.brokers.items()
    }


def _tasks(
    cluster: Cluster, target: Target, resources: list[str], leadership: bool
) -> Iterator[dict[str, Any]]:
    """Yield a task a replica; what those of a partition have in common is made once."""
    partition = target.partition
    name, living = partition.name, cluster.living(partition)
    loads = {leads: partition.loads(resources, leads) for leads in (True, False)}
    if leadership:
        # a task of leadership loads by what leading adds; its follower's part is background
        loads[True] = {r: max(0.0, load - loads[False][r]) for r, load in loads[True].items()}
    common = {
        "topic": partition.topic,
        "partition": str(partition.number),
        REPLICAS: ",".join(map(str, partition.replicas)),
        LEADER: str(partition.leader),
    }
    factor = str(len(partition.replicas if leadership else target.replicas))
    for i, replica in enumerate(target.replicas):
        role = "leader" if replica.leads else "follower"
        # a replica may change its broker with another of the partition without a copy
        copies = [b for b in living if b != replica.broker]
        if leadership:
            role, copies = "leadership", [b for b in replica.allowed or () if b != replica.broker]
        entry: dict[str, Any] = {
            "id": name if leadership else f"{name}#{i + 1}",
            "operator": partition.topic,
            "node": NEW if replica.broker is None else str(replica.broker),
            "load": loads[replica.leads],
            "labels": {**common, ROLE: role, FACTOR: factor},
        }
        if partition.size is not None:
            entry["state"] = partition.size
        if not copies and replica.broker is not None:  # of no other broker: what it has itself
            copies = [b for b in living if b == replica.broker]
        if copies:
            entry["copies"] = [str(b) for b in copies]
        if replica.allowed is not None:
            entry["allowed"] = [str(b) for b in replica.allowed]
        yield entry


def _sets(cluster: Cluster, targets: Sequence[Target]) -> list[dict[str, Any]]:
    """Sets of a partition's replicas: on distinct brokers, and over racks as `Target` has it."""
    sets: list[dict[str, Any]] = []
    for a in targets:
        count = len(a.replicas)
        if count < 2 or all(r.allowed == (r.broker,) for r in a.replicas):
            continue
        name, ids = a.partition.name, [f"{a.partition.name}#{i + 1}" for i in range(count)]
        apart = {"id": name, "tasks": ids, "rule": "apart", "over": "node", "at_most": 1}
        sets.append(apart)
        if not cluster.has_racks:
            continue
        if a.racks.at_most == 1:  # brokers of distinct racks are distinct brokers
            apart["over"] = "rack"
        elif a.racks.at_most < count:
            sets.append(
                {**apart, "id": f"{name} racks", "over": "rack", "at_most": a.racks.at_most}
            )
        if a.racks.moved_at_most is not None:
            moved = [
                i for i, r in zip(ids, a.replicas, strict=True) if r.broker not in (r.allowed or ())
            ]
            if len(moved) > a.racks.moved_at_most:
                entry = {**apart, "id": f"{name} racks of what moves", "tasks": moved}
                sets.append({**entry, "over": "rack", "at_most": a.racks.moved_at_most})
        # at most k in a rack gives ⌈count / k⌉ racks by itself: no set is needed
        if a.racks.at_least > -(-count // a.racks.at_most):
            entry = {"id": f"{name} spread", "tasks": ids, "rule": "spread", "over": "rack"}
            sets.append({**entry, "at_least": a.racks.at_least})
    return sets


def _note(
    cluster: Cluster, targets: Sequence[Target], operation: Operation, ledger: Ledger
) -> None:
    planned = {a.partition.name for a in targets}
    untouched = planned if operation.mode in LEADING_MODES else set[str]()
    if lost := [p.name for p in cluster.partitions if p.lost and p.name not in planned - untouched]:
        remedy = "--option mode=dead-broker makes it anew"
        ledger.warn(f"a replica is lost with a failed disk, and stays so: {some(lost)}; {remedy}")
    drifted = [
        p.name
        for p in cluster.partitions
        if p.name not in planned and p.leader in cluster.alive and p.leader != p.replicas[0]
    ]
    if drifted:
        ledger.reading(
            f"not the first of its list leads, until the next preferred election: {some(drifted)}"
        )
    if operation.mode in LEADING_MODES:
        ledger.reading("leadership alone moves: nothing is copied, and no plan costs anything")
        return
    few = {
        f"{a.partition.topic} ({a.partition.min_isr})": None
        for a in targets
        if len(a.replicas) < (a.partition.min_isr or 0)
    }
    if few:
        ledger.warn(
            f"fewer replicas than min.insync.replicas of {some(few)}: Kafka before 4 may refuse "
            "what producers send with acks=all; lower min.insync.replicas first"
        )
    ledger.reading("a replica is a task; a move to a broker that holds the partition is free")
    if not cluster.has_racks:
        ledger.reading("racks are not reported: replicas of a partition are on distinct brokers")
        return
    if unknown := [n for n in cluster.staying if not cluster.brokers[n].rack]:
        ledger.warn(
            f"the rack of broker {some(unknown)} is not reported: counted as one of its own"
        )
    shared: dict[int, list[str]] = {}
    for a in targets:
        shared.setdefault(cluster.most_in_a_rack(len(a.replicas)), []).append(a.partition.name)
    if 1 in shared:
        ledger.reading("replicas of a partition are on distinct racks")
    for most, names in sorted(shared.items()):
        if most > 1:
            ledger.warn(f"more replicas than racks, at most {most} in a rack: {some(names)}")
    doubled = [
        a.partition.name
        for a in targets
        if a.racks.at_most > cluster.most_in_a_rack(len(a.replicas))
    ]
    if doubled and operation.mode != "trim":
        ledger.warn(
            f"share a rack already and may go on so: {some(doubled)}; "
            "--option mode=rack-repair mends that"
        )
