"""Whether a cluster is as planned, by what ``kafka-topics.sh --describe`` prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from optim.errors import InvalidInput, Problem, problems_in, raise_any
from optim.format.plan import PLAN_FORMAT, Plan
from optim.util.files import write_atomic
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.kafka.cluster import Key, Partition
from streamplace.clusters.kafka.exporter import elections
from streamplace.clusters.kafka.pages import parsed, read_assignment, read_topics
from streamplace.present.streams import print_json

_REPLICA = re.compile(r"(.+)-(\d{1,9})(?:#(\d+))?")


class Wanted(NamedTuple):
    """What is planned of a partition: its brokers (``None`` for any), its leader; whether in order.

    A reassignment has the order of replicas, a plan does not.
    """

    brokers: list[int] | None
    leader: int | None
    ordered: bool = False


class Difference(NamedTuple):
    """A partition that is not as planned: which, what of it, and both values."""

    partition: str
    what: str
    running: object
    planned: object


def wanted_of(name: str) -> dict[Key, Wanted]:
    """Read what is planned: a plan, or a reassignment that was exported."""
    value = parsed(read_text(Path(name)), name)
    if isinstance(value, dict) and value.get("format") == PLAN_FORMAT:
        with problems_in(name):
            return _of_plan(Plan.from_dict(value))
    ledger = Ledger()
    lists = read_assignment(value, name, ledger)
    ledger.check()
    return {key: Wanted(brokers, brokers[0], True) for key, brokers in lists.items()}


def _of_plan(plan: Plan) -> dict[Key, Wanted]:
    """The first replica of a partition is its leader's; a task without number is leadership."""
    found: dict[Key, Wanted] = {}
    for task, node in plan.assignment.items():
        match = _REPLICA.fullmatch(task)
        if match is None or not node.isdecimal():
            what = "is no replica" if match is None else f"is planned on {node!r}, no broker"
            remedy = "a plan for what `streamplace import kafka` made"
            raise InvalidInput(Problem(f"assignment.{task}", node, what, remedy))
        topic, number, replica = match.groups()
        key = Key(topic, int(number))
        so_far = found.get(key, Wanted(None if replica is None else [], None))
        if so_far.brokers is not None:
            so_far.brokers.append(int(node))
        leads = replica in (None, "1")
        found[key] = so_far._replace(leader=int(node)) if leads else so_far
    return found


def compare(wanted: dict[Key, Wanted], running: dict[Key, Partition]) -> list[Difference]:
    """Return what differs of partitions that are planned.

    Raises
    ------
    InvalidInput
        A partition is not described: unknown, as the cluster does not report it.
    """
    lost = [str(key) for key in wanted if key not in running]
    remedy = "save --describe of the whole cluster"
    raise_any([Problem("--describe", name, "is not described", remedy) for name in lost])
    found = []
    for key, planned in wanted.items():
        name, line = str(key), running[key]
        listed = line.replicas if planned.ordered else sorted(line.replicas)
        if planned.brokers is not None:
            asked = planned.brokers if planned.ordered else sorted(planned.brokers)
            late = sorted(set(asked) - set(line.isr))
            if asked != listed:
                found.append(Difference(name, "replicas", listed, asked))
            elif late:
                found.append(Difference(name, "in sync", line.isr, asked))
        if line.leader != planned.leader:
            found.append(Difference(name, "leader", line.leader, planned.leader))
        elif planned.leader not in (None, line.replicas[0]) and sorted(line.replicas) == sorted(
            planned.brokers or line.replicas
        ):
            found.append(Difference(name, "first of its list", line.replicas[0], planned.leader))
    return found


def run(plan: str, describe: str, as_json: bool, election: str | None = None) -> int:
    """Verify, print what differs, write who is to be elected, and return the exit status."""
    from streamplace.present.console import printable

    wanted, ledger = wanted_of(plan), Ledger()
    running = read_topics(read_text(Path(describe), pipe=True), describe, ledger)
    ledger.check()
    found = compare(wanted, running)
    if election is not None:  # of what an election of preferred leaders brings to the planned one
        lines = ((key, running[key], planned.leader) for key, planned in wanted.items())
        led = [key for key, line, leader in lines if line.leader != leader == line.replicas[0]]
        write_atomic(Path(election), elections(led))
    right = len(wanted) - len({difference.partition for difference in found})
    if as_json:
        content = {"holds": not found, "planned": len(wanted), "as_planned": right}
        differences = [difference._asdict() for difference in found]
        print_json({**content, "differences": differences}, indent=None)
    else:
        told = [f"{right} of {len(wanted)} partitions as planned"]
        told += [f"  {d.partition}: {d.what} {d.running}, planned {d.planned}" for d in found]
        if {d.what for d in found} == {"leader"}:
            told.append("leaders alone differ: elect the preferred ones (--election FILE)")
        sys.stdout.write("\n".join(map(printable, told)) + "\n")
    return 1 if found else 0
