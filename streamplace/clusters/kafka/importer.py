"""Kafka: a folder of what its own tools print, as an instance of replicas on brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from optim.errors import InvalidInput, Problem
from optim.plugins import Option
from streamplace.clusters.exchange.declarations import Importer, Ledger, Request
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.kafka import pages
from streamplace.clusters.kafka.admin import KafkaAdmin, is_address
from streamplace.clusters.kafka.cluster import (
    COUNT,
    DEAD,
    LEADER,
    LEADERS,
    LEADERSHIP,
    MODES,
    REPLICAS,
    ROLE,
    Broker,
    Cluster,
    Key,
    Operation,
    Partition,
    follower_cpu,
    listed_partitions,
    some,
)
from streamplace.clusters.kafka.model import document_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


T = TypeVar("T")
TOPICS, LOGS, BROKERS = "topics.txt", "log-dirs.json", "brokers.json"
ENDPOINTS, RATES, CURRENT = "endpoints.txt", "rates.csv", "current.txt"
UNITS = {"disk": "bytes", "nw_in": "bytes/s", "nw_out": "bytes/s", "cpu": "percent"}
OPERATION = (
    Option("mode", "str", "rebalance", "the operation", choices=MODES),
    Option("brokers", "str", None, "brokers to add, remove or demote: 3,4"),
    Option(
        "factor", "int", None, "planned number of replicas of a partition", minimum=1, maximum=1000
    ),
    Option("topics", "str", None, "plan only these topics: orders,clicks"),
)


def read_folder(folder: Path, ledger: Ledger) -> Cluster:
    """Read what a folder holds."""
    texts = {
        name: read_text(folder / name)
        for name in (TOPICS, LOGS, BROKERS, ENDPOINTS, RATES, CURRENT)
        if (folder / name).is_file()
    }
    if TOPICS not in texts:
        remedy = f"save what kafka-topics.sh --describe prints as {folder / TOPICS}"
        raise InvalidInput(Problem(str(folder / TOPICS), None, "does not exist", remedy))
    path = {name: (folder / name).as_posix() for name in texts}

    def read(name: str, how: Callable[[str, str, Ledger], T], none: Any) -> T:
        return how(texts[name], path[name], ledger) if name in texts else none

    topics = read(TOPICS, pages.read_topics, {})
    brokers = read(ENDPOINTS, pages.read_endpoints, {})
    for number, broker in read(BROKERS, pages.read_brokers, dict[int, Broker]()).items():
        if (endpoint := brokers.get(number)) is not None:  # its life is what Kafka reports
            broker = replace(
                broker, rack=broker.rack or endpoint.rack, alive=broker.alive and endpoint.alive
            )
        brokers[number] = broker
    logs = read(LOGS, pages.read_logs, pages.Logs({}, {}, {}, []))
    columns, rates = read(RATES, pages.read_rates, ([], {}))
    current = read(CURRENT, pages.read_current, {})
    for key, replicas in current.items():
        if key in topics and topics[key].replicas != replicas:
            reason = f"differs from {topics[key].replicas} of {TOPICS}"
            ledger.problem(f"{path[CURRENT]}: {key}", replicas, reason, "save both at one time")
    ledger.check()
    unknown = "capacities" if ENDPOINTS in texts else "racks and capacities"
    for name, what in (
        (LOGS, "sizes are unknown, a replica costs 1 to copy"),
        (BROKERS, f"{unknown} are unknown"),
        (RATES, "rates and CPU are unknown"),
    ):
        if name not in texts:
            ledger.reading(f"no {name}: {what}")
    lists = " and ".join(name for name in (BROKERS, ENDPOINTS) if name in texts)
    name = folder.resolve().name or "kafka"
    return _cluster(name, topics, brokers, logs, lists, ledger, columns=columns, rates=rates)


def read_live(admin: KafkaAdmin, ledger: Ledger) -> Cluster:
    """Read a running cluster: who lives, all partitions, and what each broker stores."""
    brokers = admin.brokers()
    topics = admin.partitions(ledger)
    if not topics:
        ledger.problem(admin.address, None, "has no topic", "is it the right cluster?")
        ledger.check()
    logs = admin.log_dirs([b for b, broker in brokers.items() if broker.alive], ledger)
    ledger.check()
    ledger.reading("rates, CPU and capacities are unknown")
    if not logs.sizes:
        ledger.reading("no broker says what it stores: sizes are unknown, a copy costs 1")
    cluster = _cluster("kafka", topics, brokers, logs, admin.address, ledger, is_live=True)
    return replace(cluster, id=admin.cluster())


def _cluster(
    name: str,
    topics: dict[Key, Partition],
    brokers: dict[int, Broker],
    logs: pages.Logs,
    listed: str,
    ledger: Ledger,
    *,
    columns: Collection[str] = (),
    rates: Mapping[Key, dict[str, float]] = MappingProxyType({}),
    is_live: bool = False,
) -> Cluster:
    """Join brokers, partitions and loads; `listed` names what lists brokers, empty for nothing."""
    at, of = ("the log directories", "the cluster") if is_live else (LOGS, TOPICS)
    _complete(brokers, topics, logs.brokers, listed, ledger)
    _leave_out_failed(brokers, logs, ledger)
    reported = {"disk": bool(logs.sizes), "nw_in": "bytes_in" in columns, "cpu": "cpu" in columns}
    reported["nw_out"] = reported["nw_in"] and "bytes_out" in columns
    cluster = Cluster(
        name=name,
        brokers=dict(sorted(brokers.items())),
        partitions=[_with_loads(p, logs, rates.get(key, {})) for key, p in topics.items()],
        resources=tuple(name for name in UNITS if reported[name]),
        units=UNITS,
    )
    for what, by_key in ((f"size in {at}", logs.sizes), (f"rate in {RATES}", rates)):
        led = [p for p in cluster.partitions if by_key and p.leader is not None]
        if unreported := [p.name for p in led if p.key not in by_key]:
            ledger.warn(f"no {what}, taken for 0: {some(unreported)}")
        if unknown := [key for key in by_key if key not in topics]:
            ledger.warn(f"a {what} of no partition of {of}, left out: {some(unknown)}")
    return cluster


def _complete(
    brokers: dict[int, Broker],
    topics: dict[Key, Partition],
    answered: Collection[int],
    listed: str,
    ledger: Ledger,
) -> None:
    """Add the brokers that only replicas or log dirs name; judge who is dead by what reports it."""
    # only living brokers report their log dirs. `listed` names the files that list brokers
    # living brokers: listed, or in an ISR, or they answered for their log dirs
    holders = {number for line in topics.values() for number in line.replicas}
    in_sync = {number for line in topics.values() for number in line.isr}
    for number in [] if listed else sorted({*answered} - holders):
        brokers[number] = Broker(number)
        ledger.warn(f"broker {number} holds no replica, and is known from {LOGS} alone")
    for number in sorted(holders - brokers.keys()):
        alive = not listed and (number in in_sync or number in answered)
        brokers[number] = Broker(number, alive=alive)
        if listed:
            ledger.warn(f"broker {number} holds replicas and {listed} lacks it: taken for dead")
        elif not alive:
            ledger.warn(f"broker {number} is in no ISR: taken for dead")
    for number in sorted(holders - in_sync):
        if brokers[number].alive:
            ledger.warn(f"broker {number} is alive by {listed or LOGS}, and in no ISR")
    for number in sorted(number for number in in_sync if not brokers[number].alive):
        ledger.warn(
            f"broker {number} is in an ISR, and not alive by {listed or LOGS}: taken for dead"
        )
    if not any(broker.alive for broker in brokers.values()):
        ledger.problem(listed or TOPICS, None, "no broker is alive", "look at what lists brokers")
        ledger.check()


def _leave_out_failed(brokers: dict[int, Broker], logs: pages.Logs, ledger: Ledger) -> None:
    """Leave out the room of failed disks; a broker all of whose disks failed is as good as dead."""
    for number, names in logs.failed.items():
        share, total = logs.working[number]
        broker = brokers.setdefault(number, Broker(number, alive=False))
        text = f"broker {number}: log dir {some(names)} failed"
        if not share:
            broker.alive = False
            ledger.warn(f"{text}, and it has no other: taken for dead")
        elif broker.alive:
            has = broker.capacity.get("disk")
            text += ": its replicas there are lost"
            if has is not None:
                broker.capacity["disk"] = has * share if total is None else min(has, total)
                text += f", its disk counts {broker.capacity['disk']:,.0f} of {has:,.0f}"
            ledger.warn(text)


def _with_loads(described: Partition, logs: pages.Logs, rates: dict[str, float]) -> Partition:
    """Return a partition as it is once a reassignment has ended, with size and loads."""
    replicas = [b for b in described.replicas if b not in described.removing]
    leader, stored = described.leader, logs.sizes.get(described.key, {})
    # without log dirs nothing is known; with them a partition that none has is empty
    size = None  # bytes of the leader's replica, else of the largest
    if logs.sizes:
        size = stored[leader] if leader in stored else max(stored.values(), default=0.0)
    if leader is not None and leader not in replicas:
        leader = next(iter(replicas), None)  # as it is once the reassignment has ended
    # on a failed log dir: not in sync, and in none of the broker's other dirs
    lost = {b for b in logs.failed if b in replicas and b not in described.isr and b not in stored}
    into, cpu = rates.get("bytes_in", 0.0), rates.get("cpu", 0.0)
    # nw_out of the leader: to consumers, and once to each follower
    out = rates.get("bytes_out", 0.0) + into * (len(replicas) - 1)
    follows = follower_cpu(cpu, into, out)
    disk = size or 0.0
    return replace(
        described,
        replicas=replicas,
        leader=leader,
        leading={"disk": disk, "nw_in": into, "nw_out": out, "cpu": cpu},
        following={"disk": disk, "nw_in": into, "nw_out": 0.0, "cpu": follows},
        size=size,
        lost=frozenset(lost),
    )


def follow(
    document: dict[str, Any], moves: Mapping[str, str], options: Mapping[str, Any], ledger: Ledger
) -> None:
    """Move tasks in the document: node, replica list, leader, copies, and where they may go."""
    tasks = document["tasks"]
    dead = {n["id"] for n in document["nodes"] if n.get("labels", {}).get(DEAD)}
    names = [entry["id"] for entry in tasks]
    listed = listed_partitions((entry["labels"] for entry in tasks), names, ledger)
    home = [_number(entry["node"]) for entry in tasks]
    after = [_number(moves.get(entry["id"], entry["node"])) for entry in tasks]
    for partition in listed.values():
        if not any(names[t] in moves for t in partition.tasks):
            continue
        lists = partition.under(home, after)
        if len(set(lists.replicas)) < len(lists.replicas):
            key = str(partition.key)
            ledger.problem(key, lists.replicas, "lists a broker twice", "move it on")
        for t in partition.tasks:
            entry, node = tasks[t], str(after[t])
            entry["node"] = node
            entry["labels"][REPLICAS] = ",".join(map(str, lists.replicas))
            entry["labels"][LEADER] = str(lists.leader)
            if entry["labels"][ROLE] == LEADERSHIP:
                copies = [b for b in entry["allowed"] if b != node]
            else:
                # a move onto one of these copies nothing
                copies = [str(b) for b in lists.replicas if str(b) not in dead | {node}]
                entry.pop("allowed", None)
            entry["copies"] = copies or [node]


def _number(node: str) -> int:
    """Return a broker's number; -1 for the node of replicas that are still to be made."""
    return int(node) if node.isdecimal() else -1


def operation_of(options: Mapping[str, Any]) -> Operation:
    """Return what the options ask for."""
    words = [word.strip() for word in (options["brokers"] or "").split(",") if word.strip()]
    if wrong := [word for word in words if not is_whole(word)]:
        raise InvalidInput(
            Problem(
                "--option brokers", wrong[0], "is no broker's number", "numbers with commas: 3,4"
            )
        )
    topics = {word.strip() for word in (options["topics"] or "").split(",")} - {""}
    brokers = frozenset(map(int, words))
    return Operation(options["mode"], brokers, options["factor"], frozenset(topics))


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """As `Importer.read`, of a folder or a running cluster."""
    source = request.sources[0]
    is_live = is_address(source)
    if len(request.sources) != 1 or not (is_live or Path(source).is_dir()):
        reason = "is no folder" if len(request.sources) == 1 else "are several sources"
        remedy = "HOST:PORT of a broker, or one folder that holds topics.txt"
        raise InvalidInput(Problem("SOURCE", list(request.sources), reason, remedy))
    operation = operation_of(request.options)
    if is_live:
        with KafkaAdmin(source, request.timeout, request.options["command_config"]) as admin:
            cluster = read_live(admin, ledger)
    else:
        cluster = read_folder(Path(source), ledger)
    return document_of(cluster, operation, request.options["balance"], ledger)


IMPORTER = Importer(
    name="kafka",
    summary="Kafka's replicas on brokers, asked of the cluster or from what its own tools print",
    sources="HOST:PORT of a broker, or a folder: topics.txt (kafka-topics.sh --describe) and, "
    "where there, log-dirs.json, endpoints.txt, brokers.json, rates.csv and current.txt",
    options=(
        *OPERATION,
        Option(
            "balance", "str", None, "the balanced resource; default disk, or nw_out for leadership",
            choices=(*pages.CAPACITIES, COUNT, LEADERS),
        ),
        Option("command_config", "str", None, "addresses: key=value of a secured cluster, a file"),
    ),
    read=read,
    follow=follow,
)  # fmt: skip
