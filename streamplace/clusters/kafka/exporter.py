"""Kafka: the reassignment file of ``kafka-reassign-partitions``, and what goes with it.

`reassignment` writes the file that takes a cluster from one placement to another: only partitions
whose list changes, each with its whole list. ``log_dirs`` is left out, because a list of another
length than the replicas' is refused by the tool. What Kafka would refuse is refused here, by name.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.figures.measures import migrated_tasks, node_loads
from optim.format.document import parse_json
from optim.plugins import Option
from streamplace.clusters.exchange.declarations import Exporter, Ledger, Places
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.kafka.cluster import (
    CLUSTER,
    DEAD,
    FACTOR,
    Key,
    Labelled,
    Lists,
    listed_partitions,
    some,
)
from streamplace.clusters.kafka.pages import read_elected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optim.format.instance import Instance
    from optim.format.tables import Ints

ROLLBACK, ELECTION = ".rollback.json", ".election.json"
BACK = ".rollback.election.json"
"""Leaders to elect once the rollback is complete."""
_AT_A_TIME = 5
_STEPS = (
    "kafka-reassign-partitions.sh --bootstrap-server HOST:PORT --reassignment-json-file {{0}} "
    "{execute}; --verify in place of --execute says when it is done; the same with {{1}} takes it "
    "back"
)
_SUBMIT = "streamplace submit kafka HOST:PORT {0} --throttle BYTES; revert kafka takes it back"
_THROTTLED = "--execute --throttle BYTES"
_FULL = 0.9
"""Share of a disk above which a plan that fills it is warned of."""


class Change(NamedTuple):
    """A partition whose replicas or leader change: its lists before and after."""

    partition: Labelled
    before: Lists
    after: Lists

    @property
    def is_listed(self) -> bool:
        """Whether its list changes; else an election is enough."""
        return self.before.replicas != self.after.replicas

    @property
    def copied_to(self) -> list[int]:
        """Brokers that copy it."""
        return [b for b in self.after.replicas if b not in self.before.replicas]


def changes(
    instance: Instance,
    before: Ints,
    after: Ints,
    ledger: Ledger,
    *,
    whole: bool = True,
    back: bool = False,
) -> list[Change]:
    """Return the partitions that change between two placements.

    From the present placement lists change from what they are now, and a way that ends there ends
    with these lists; else a placement says them, the leader first.

    What Kafka would refuse is a problem: dead and unknown brokers, a broker twice, an empty list,
    another number of replicas than the partition is to have, tasks that name no partition.

    `before`, `after`: (T,) node of each task.
    `whole`: whether each partition is to have all of its replicas afterwards.
    `back`: whether it is part of the way back: then where replicas are at home before and after,
        lists become what they are now.
    """
    broker_of = _broker_numbers(instance, ledger)
    dead = _dead(instance, broker_of)
    ids = instance.tasks.ids
    moved = np.flatnonzero(before != after).tolist()
    for t in moved:
        if before[t] < 0:
            reason = f"is missing ({ids[t]}): which replica to replace is unknown"
            ledger.problem(f"tasks[{t}].node", None, reason, "import the current placement")
    home, old, new = (
        [broker_of[n] if n >= 0 else -1 for n in nodes.tolist()]
        for nodes in (instance.tasks.node, before, after)
    )
    # without the label factor no list changes unless a task moves
    if not moved and not any(FACTOR in of_task for of_task in instance.tasks.labels.values()):
        return []
    labels = [instance.tasks.labels.get(t, {}) for t in range(instance.num_tasks)]
    changed = []
    stays = 0
    brokers, starts = set(broker_of), home == old and not back
    returns = not starts and home == new
    for partition in listed_partitions(labels, ids, ledger).values():
        change = Change(
            partition,
            partition.now if starts else _lists(partition, home, old, dead),
            partition.now if returns else _lists(partition, home, new, dead),
        )
        if change.before != change.after:
            changed.append(change)
            _check(change, brokers, dead, whole, ledger)
        else:
            stays += not dead.isdisjoint(change.after.replicas)
    if stays:
        ledger.warn(f"{stays:,} partitions go on having replicas on dead brokers")
    return changed


def _dead(instance: Instance, broker_of: list[int]) -> set[int]:
    return {broker_of[n] for n, labels in instance.nodes.labels.items() if labels.get(DEAD)}


def _lists(partition: Labelled, home: list[int], broker: list[int], dead: set[int]) -> Lists:
    """Return the lists under a placement; one that keeps a dead broker Kafka does not reorder."""
    lists = partition.under(home, broker)
    current = partition.now.replicas
    if not dead.isdisjoint(current) and sorted(lists.replicas) == sorted(current):
        return lists._replace(replicas=list(current))
    return lists


def _check(change: Change, brokers: set[int], dead: set[int], whole: bool, ledger: Ledger) -> None:
    replicas, factor = change.after.replicas, change.partition.factor
    if not change.is_listed:
        return
    name = str(change.partition.key)
    if twice := [b for b, count in Counter(replicas).items() if count > 1]:
        reason = f"already holds another replica of it ({change.before.replicas})"
        ledger.problem(name, twice[0], reason, "put its replicas into a set `apart`")
    if dead_replicas := [b for b in replicas if b in dead]:
        ledger.problem(name, dead_replicas[0], "is dead: Kafka refuses it", "let the plan leave it")
    if any(b not in brokers for b in change.copied_to) or -1 in replicas:
        ledger.problem(name, replicas, "names no broker of the instance", "place every replica")
    may = {len(replicas)} if factor is None else {factor}
    if not whole:  # on the way from now to there
        may.add(len(change.partition.now.replicas))
    if not replicas or not min(may) <= len(replicas) <= max(may):
        reason = f"has {len(replicas)} replicas, not {factor}"
        ledger.problem(name, replicas, reason, f"as the label {FACTOR} has it")


def reassignment(
    lists: Iterable[tuple[Key, Sequence[int]]],
    cluster: str = "",
    elected: Iterable[tuple[Key, Sequence[int]]] = (),
) -> str:
    """Return the text of a reassignment: partitions with their whole replica lists.

    The id of the cluster, and lists that stay and whose first is to be elected, are for `submit`,
    `verify` and `read_back`; Kafka's own tool passes over them.
    """
    entries, led = (
        [
            {"topic": key.topic, "partition": key.number, "replicas": list(replicas)}
            for key, replicas in pairs
        ]
        for pairs in (lists, elected)
    )
    more = {CLUSTER: cluster} if cluster else {}
    content = {"version": 1, **more, "partitions": entries} | ({"elected": led} if led else {})
    return json.dumps(content, ensure_ascii=False) + "\n"


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: reassignment, rollback, elections and parts, in Kafka's JSON."""
    changed = changes(instance, instance.tasks.node, places.node, ledger)
    ledger.check()
    moved = [change for change in changed if change.is_listed]
    if not moved:
        ledger.warn("no partition moves: the file is empty of them")
    cluster = instance.labels.get(CLUSTER, "")
    led = elected(changed)
    alone = [c for c in changed if not c.is_listed and c.partition.key in led]
    after, chosen = ([(c.partition.key, c.after.replicas) for c in part] for part in (moved, alone))
    texts = {
        "": reassignment(after, cluster, chosen),
        ROLLBACK: reassignment(((c.partition.key, c.before.replicas) for c in moved), cluster),
    }
    dead = _dead(instance, _broker_numbers(instance, ledger))
    _warn_of_disks(instance, places.node, moved, ledger)
    # of Kafka's tool alone: `submit` asks no dead broker
    dead_in_lists = dead & {b for c in moved for b in (*c.before.replicas, *c.after.replicas)}
    if moved:
        by_tool = _STEPS.format(execute="--execute" if dead_in_lists else _THROTTLED)
        ledger.next_step = _SUBMIT if cluster else by_tool
    _note_copies(instance, moved, options["throttle"], () if cluster else dead_in_lists, ledger)
    if refused := sum(not dead.isdisjoint(c.before.replicas) for c in moved):
        ledger.reading(
            f"{ROLLBACK}: Kafka refuses {refused:,} of its {len(moved):,} lists while broker "
            f"{', '.join(map(str, sorted(dead)))} is dead"
        )
    # the same brokers go on under the same leader, in another order
    same = (c for c in moved if sorted(c.before.replicas) == sorted(c.after.replicas))
    if stable := sum(c.before.leader == c.after.leader is not None for c in same):
        ledger.reading(
            f"{stable:,} of the lists only put the present leader first, so that it goes on leading"
        )
    if led:
        texts[ELECTION] = elections(led)
        _add_way_back(texts, changed, ledger)
        count = f"{len(led):,} partition{'s change' if len(led) > 1 else ' changes'} the leader"
        ledger.reading(
            f"{count}: kafka-leader-election.sh --election-type preferred --path-to-json-file "
            f"with the file that ends in {ELECTION}, once the copies are there"
        )
    if options["batches"] is not None and moved:
        parts = batches(moved, options["batches"])
        for i, part in enumerate(parts, 1):
            texts[f".{i}.json"] = reassignment((c.partition.key, c.after.replicas) for c in part)
        ledger.reading(f"{len(parts)} numbered parts: one after the other, --verify between them")
    return texts


def elected(changed: Iterable[Change]) -> list[Key]:
    """Return the partitions whose leader changes, and is to be elected: it is the first."""
    return [
        c.partition.key
        for c in changed
        if c.after.leader != c.before.leader
        or (c.after.leader is None and c.after.replicas[0] != c.before.replicas[0])
    ]


def elections(partitions: Iterable[Key]) -> str:
    """Return the text of an election of preferred leaders."""
    entries = [{"topic": topic, "partition": number} for topic, number in partitions]
    return json.dumps({"partitions": entries}, ensure_ascii=False) + "\n"


def _add_way_back(texts: dict[str, str], changed: Sequence[Change], ledger: Ledger) -> None:
    """Add the leaders to elect after a rollback: those that were the first of their lists."""
    led = [c for c in changed if c.after.leader != c.before.leader]
    if first := [c for c in led if c.before.leader == c.before.replicas[0]]:
        texts[BACK] = elections(c.partition.key for c in first)
    if other := len(led) - len(first):
        ledger.reading(f"{ROLLBACK}: {other:,} leaders were not the first replica: that will lead")


def _note_copies(
    instance: Instance, moved: Sequence[Change], rate: float, dead: Collection[int], ledger: Ledger
) -> None:
    """Say what is copied, where most of it goes, and how long that takes under a throttle."""
    # with --throttle Kafka's tool asks every broker of old and new lists; one that is dead does not
    # answer, and nothing is moved
    onto: dict[int, float] = {}
    for change in moved:
        size = float(instance.tasks.migration_cost[change.partition.tasks[0]])
        for broker in change.copied_to:
            onto[broker] = onto.get(broker, 0.0) + size
    unit = instance.units.get("state")
    if moved and not onto:
        ledger.reading("nothing is copied: no throttle is needed")
    if not onto:
        return
    if dead:
        ledger.reading(
            f"no --throttle: the tool would wait for broker {', '.join(map(str, sorted(dead)))}, "
            "move nothing and leave rates set; kafka-configs.sh --alter --entity-type brokers "
            "--entity-default sets rates that need no dead broker's answer"
        )
    # seconds ≥ bytes onto the busiest broker / rate
    if unit is None or not instance.tasks.state.any():
        count = sum(len(change.copied_to) for change in moved)
        ledger.reading(f"{count:,} replicas are copied, their sizes are unknown")
        return
    most = max(onto, key=lambda b: (onto[b], -b))
    scale = {"MB": 1e6, "KB": 1e3}.get(unit, 1.0)
    with_ = f"at {rate:.0f} bytes/s" if dead else f"with --throttle {rate:.0f}"
    ledger.reading(
        f"{sum(onto.values()):,.0f} {unit} are copied, {onto[most]:,.0f} of them onto broker "
        f"{most}: {onto[most] * scale / rate:,.0f} s at least {with_}"
    )


def _warn_of_disks(instance: Instance, node: Ints, moved: Sequence[Change], ledger: Ledger) -> None:
    """Warn of disks that the plan fills, or that are too small while old and new are on them."""
    if "disk" not in instance.resources or not moved:
        return
    r = instance.resources.index("disk")
    room = instance.nodes.capacity[:, r]
    before, after = (node_loads(instance, where)[:, r] for where in (instance.tasks.node, node))
    most = before.copy()
    for t in migrated_tasks(instance, node).tolist():
        # copied first, deleted later: for that time a disk holds old and new replicas
        most[node[t]] += instance.tasks.load[t, r]
    names = instance.nodes.ids
    with np.errstate(invalid="ignore", divide="ignore"):
        full = np.flatnonzero((after > _FULL * room) & (after > before)).tolist()
        over = np.flatnonzero((most > room) & (most > before) & (after <= room)).tolist()
    if full:
        text = some([f"{names[n]} to {100 * after[n] / room[n]:.0f} %" for n in full])
        ledger.warn(
            f"the plan fills the disk of broker {text}: --limit max_utilisation.disk=0.8 at import "
            "leaves room"
        )
    if over:
        text = some([f"{names[n]} {100 * most[n] / room[n]:.0f} %" for n in over])
        ledger.warn(
            "replicas that come are copied before those that go are deleted, which takes of the "
            f"disk of broker {text}: --batches, or `streamplace steps`, one after the other"
        )


def batches(moved: Sequence[Change], parts: int) -> list[list[Change]]:
    """Cut a reassignment into parts that are executed one after the other.

    Copies onto a broker are dealt out over the parts; changes of order alone, which copy nothing,
    come last.

    `parts`: how many; 0 for as few as let no broker copy more than 5 partitions at a time.
    """
    nth: Counter[int] = Counter()
    order = []
    for i, change in enumerate(moved):
        nth.update(change.copied_to)
        # a partition waits for the broker that has most to copy: its n-th copy comes in part n
        turn = max((nth[broker] for broker in change.copied_to), default=len(moved))
        order.append((not change.copied_to, turn, i))
    # as few as let each broker copy _AT_A_TIME a part
    if not parts:
        parts = -(-max(nth.values(), default=1) // _AT_A_TIME)
    parts = min(parts, len(moved))
    chosen = [moved[i] for *_, i in sorted(order)]
    return [chosen[k * len(chosen) // parts : (k + 1) * len(chosen) // parts] for k in range(parts)]


def _broker_numbers(instance: Instance, ledger: Ledger) -> list[int]:
    """Return the broker of each node, -1 where it is none; one that two name is a problem."""
    numbers: list[int] = []
    for node, name in enumerate(instance.nodes.ids):
        text = instance.nodes.labels.get(node, {}).get("broker", name)
        number, path = int(text) if is_whole(text) else -1, f"nodes[{node}].id"
        if number < 0 and not instance.nodes.leaving[node]:
            ledger.problem(path, text, "is no broker number", "name it in the label broker")
        elif number >= 0 and number in numbers:
            ledger.problem(path, number, "is the broker of two nodes")
        numbers.append(number)
    return numbers


def read_back(text: str, instance: Instance) -> Places:
    """As `Exporter.read_back`, of a reassignment; partitions that it does not name stay."""
    ledger = Ledger()
    broker_of = _broker_numbers(instance, ledger)
    nodes = {broker: n for n, broker in enumerate(broker_of) if broker >= 0}
    labels = (instance.tasks.labels.get(t, {}) for t in range(instance.num_tasks))
    listed = listed_partitions(labels, instance.tasks.ids, ledger)
    home = [broker_of[n] if n >= 0 else -1 for n in instance.tasks.node.tolist()]
    where = instance.tasks.node.copy()
    lists, led = read_elected(parse_json(text.encode()), "reassignment", ledger)
    ledger.check()
    entries = [("partitions", *entry) for entry in enumerate(lists.items())]
    for what, i, (key, replicas) in [*entries, *(("elected", *e) for e in enumerate(led.items()))]:
        path, partition = f"reassignment.{what}[{i}]", listed.get(key)
        if partition is None:
            ledger.problem(path, str(key), "is no partition of the instance")
            continue
        if not set(replicas) <= {*nodes, *partition.now.replicas}:
            ledger.problem(f"{path}.replicas", replicas, "names brokers the instance lacks")
            continue
        broker_of_task = partition.home_of(home, replicas, led=key in led)
        if broker_of_task is None or not set(broker_of_task.values()) <= nodes.keys():
            reason = f"differs from {partition.now.replicas} by more than its tasks can move"
            remedy = "import the state that the file was written for"
            ledger.problem(f"{path}.replicas", replicas, reason, remedy)
            continue
        for task, broker in broker_of_task.items():
            where[task] = nodes[broker]
    ledger.check()
    return Places(where)


EXPORTER = Exporter(
    name="kafka",
    summary="kafka-reassign-partitions JSON, the file that takes it back, leaders to elect, parts",
    options=(
        Option(
            "batches", "int", None, "numbered parts beside the file; 0: as few as possible if a "
            f"broker copies at most {_AT_A_TIME} partitions at a time", minimum=0, maximum=100_000,
        ),
        Option("throttle", "float", 50e6, "bytes/s, for the reported time", minimum=1.0),
    ),
    write=write,
    read_back=read_back,
    next_step=_STEPS.format(execute=_THROTTLED),
)  # fmt: skip
