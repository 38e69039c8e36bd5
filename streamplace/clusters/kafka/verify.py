"""Whether a cluster is as planned, by itself or by what ``kafka-topics.sh --describe`` prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from optim.errors import InvalidInput, Problem, problems_in, raise_any
from optim.format.plan import PLAN_FORMAT, Plan
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.exchange.verdict import PRINTED, Verdict
from streamplace.clusters.kafka.admin import EVERY, RATES, RECEIVERS, SENDERS
from streamplace.clusters.kafka.cluster import Key, Partition, some
from streamplace.clusters.kafka.exporter import elections
from streamplace.clusters.kafka.pages import exported, parsed, read_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from streamplace.clusters.kafka.admin import KafkaAdmin

_REPLICA = re.compile(r"(.+)-(\d{1,9})(?:#(\d+))?")


class Planned(NamedTuple):
    """What is planned of a partition: its brokers (``None`` for any), its leader; whether in order.

    A reassignment has the order of replicas, a plan does not.
    """

    brokers: list[int] | None
    leader: int | None
    ordered: bool = False


@dataclass(frozen=True, config=PRINTED)
class KafkaDifference:
    """A partition that is not as planned."""

    partition: str = Field(description="TOPIC-NUMBER")
    what: Literal["replicas", "in sync", "leader", "first of its list", "log dir"] = Field(
        description="what of it"
    )
    running: list[int] | int | None = Field(description="what it is")
    planned: list[int] | int | None = Field(description="what is planned")


def planned_of(name: str) -> dict[Key, Planned]:
    """Read what is planned: a plan, or a reassignment that was exported."""
    value = parsed(read_text(Path(name)), name)
    if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
        with problems_in(name):
            return _of_plan(Plan.from_dict(value))
    lists, elected = exported(value, name)
    return {key: Planned(to, to[0], True) for key, to in (lists | elected).items()}


def _of_plan(plan: Plan) -> dict[Key, Planned]:
    """The first replica of a partition is its leader's; a task without number is leadership."""
    planned: dict[Key, Planned] = {}
    for task, node in plan.assignment.items():
        match = _REPLICA.fullmatch(task)
        if match is None or not node.isdecimal():
            what = "is no replica" if match is None else f"is planned on {node!r}, no broker"
            remedy = "a plan for what `streamplace import kafka` made"
            raise InvalidInput(Problem(f"assignment.{task}", node, what, remedy))
        topic, number, replica = match.groups()
        key = Key(topic, int(number))
        so_far = planned.get(key, Planned(None if replica is None else [], None))
        if so_far.brokers is not None:
            so_far.brokers.append(int(node))
        leads = replica in (None, "1")
        planned[key] = so_far._replace(leader=int(node)) if leads else so_far
    return planned


def compare(plan: dict[Key, Planned], running: dict[Key, Partition]) -> list[KafkaDifference]:
    """Return what differs of partitions that are planned.

    Raises `InvalidInput`: a partition is not described: unknown, as the cluster does not report it.
    """
    lost = [str(key) for key in plan if key not in running]
    remedy = "save --describe of the whole cluster"
    raise_any([Problem("--describe", name, "is not described", remedy) for name in lost])
    differences = []
    for key, planned in plan.items():
        name, line = str(key), running[key]
        listed = line.replicas if planned.ordered else sorted(line.replicas)
        if planned.brokers is not None:
            brokers = planned.brokers if planned.ordered else sorted(planned.brokers)
            late = sorted(set(brokers) - set(line.isr))
            if brokers != listed:
                differences.append(KafkaDifference(name, "replicas", listed, brokers))
            elif late:
                differences.append(KafkaDifference(name, "in sync", line.isr, brokers))
        if line.leader != planned.leader:
            differences.append(KafkaDifference(name, "leader", line.leader, planned.leader))
        # leads now, but the next preferred election would give it to the first
        elif planned.leader not in (None, line.replicas[0]) and sorted(line.replicas) == sorted(
            planned.brokers or line.replicas
        ):
            differences.append(
                KafkaDifference(name, "first of its list", line.replicas[0], planned.leader)
            )
    return differences


@dataclass(frozen=True, config=PRINTED)
class KafkaVerdict(Verdict):
    """Whether Kafka's partitions are as planned."""

    differences: tuple[KafkaDifference, ...] = Field(description="what differs")
    throttled: tuple[str, ...] = Field(
        description="whose throttles are set: brokers, a broker, a topic"
    )

    def lines(self) -> Iterator[str]:
        """As `Verdict.lines`."""
        yield f"{self.as_planned} of {self.planned} partitions as planned"
        for d in self.differences:
            yield f"  {d.partition}: {d.what} {d.running}, planned {d.planned}"
        if {d.what for d in self.differences} == {"leader"}:
            yield "leaders alone differ: elect the preferred ones (--election FILE)"
        if self.throttled:
            yield f"throttles are set: {some(self.throttled)}"


def verdict_of(
    plan: dict[Key, Planned], differences: list[KafkaDifference], throttled: Sequence[str] = ()
) -> KafkaVerdict:
    """Count the partitions that are as planned."""
    right = len(plan) - len({difference.partition for difference in differences})
    return KafkaVerdict(len(plan), right, tuple(differences), tuple(throttled))


def verify_live(
    admin: KafkaAdmin, plan: dict[Key, Planned], running: dict[Key, Partition]
) -> KafkaVerdict:
    """Compare a running cluster: lists, sync, leaders, and that each replica lies in a log dir."""
    ledger = Ledger()
    differences = compare(plan, running)
    alive = [number for number, broker in admin.brokers().items() if broker.alive]
    logs = admin.log_dirs(alive, ledger)
    for key, planned in plan.items():
        stored = logs.sizes.get(key, {})
        differences += [
            KafkaDifference(str(key), "log dir", None, broker)
            for broker in planned.brokers or ()
            if broker in logs.brokers and broker in running[key].isr and broker not in stored
        ]
    limits = throttles(admin, {key.topic for key in plan})
    places = [f"{kind} {name}" if name else "brokers" for kind in limits for name in limits[kind]]
    return verdict_of(plan, differences, places)


def throttles(
    admin: KafkaAdmin, topics: Collection[str], *, own: bool = True
) -> dict[str, dict[str, Any]]:
    """Return the throttles that are set: kind to names to keys; `own`: rates of brokers, too."""
    alive = [str(number) for number, broker in admin.brokers().items() if broker.alive and own]
    queries = {"broker": ([EVERY, *alive], RATES), "topic": (topics, (SENDERS, RECEIVERS))}
    configs = {kind: admin.configs(kind, names, keys) for kind, (names, keys) in queries.items()}
    return {kind: {n: values for n, values in of.items() if values} for kind, of in configs.items()}


def described(name: str) -> dict[Key, Partition]:
    """Read what ``kafka-topics.sh --describe`` printed, out of a file or a pipe."""
    ledger = Ledger()
    running = read_topics(read_text(Path(name), pipe=True), name, ledger)
    ledger.check()
    return running


def elections_needed(plan: dict[Key, Planned], running: dict[Key, Partition]) -> str:
    """Return the text of an election of those whose planned leader is first, and does not lead."""
    lines = ((key, running[key], planned.leader) for key, planned in plan.items())
    return elections(
        key for key, line, leader in lines if line.leader != leader == line.replicas[0]
    )
