"""``streamplace verify``: whether a running cluster is as a plan has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet, read_plan
from streamplace.clusters.flink.fetch import read_live, wait_until_running
from streamplace.clusters.flink.verify import sheet_by_names, verify
from streamplace.present.arguments import (
    add_command_config,
    add_json,
    delay,
    load_instance,
    seconds,
)
from streamplace.present.console import printable
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

    from streamplace.clusters.flink.verify import Verdict

EXAMPLES = """\
examples:
  streamplace verify flink http://localhost:8081 sheet.json
  streamplace verify flink http://localhost:8081 plan.json --instance cluster.json
  streamplace verify kafka localhost:9092 plan.json
  streamplace verify kafka plan.json --describe topics.txt
  streamplace verify storm nimbus://localhost:6627 placement.json

Counted are subtasks of each vertex on each task manager: that is what Flink can be held to. Which
index runs where is its own choice. Of Kafka's partitions replicas, sync, leaders and log
directories are compared; of Storm's executors node and worker, and the share of messages that cross
between nodes.
exit codes: 0 all as planned, 1 not, 2 unknown, as the cluster does not report it.

docs/flink.md and docs/kafka.md say more."""

_FAR = 0.05
"""Difference of the measured share from the predicted one that is worth a note."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("system", choices=("flink", "kafka", "storm"), help="the kind of cluster")
    parser.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="flink: the job manager's address; storm: nimbus://HOST:PORT; kafka: HOST:PORT",
    )
    parser.add_argument("plan", metavar="PLAN", help="what `export` wrote, or a plan")
    parser.add_argument(
        "--describe",
        metavar="FILE",
        help="kafka: what kafka-topics.sh --describe prints now; a file or a pipe (/dev/stdin)",
    )
    parser.add_argument(
        "--election",
        metavar="FILE",
        help="kafka: takes the partitions whose leader is to be elected",
    )
    add_command_config(parser)
    parser.add_argument("--instance", metavar="FILE", help="the plan's: joins vertices by id")
    parser.add_argument("--job", metavar="NAME", default="", help="name or id, if several run")
    parser.add_argument(
        "--wait", metavar="S", type=delay, default=60.0, help="for subtasks to run; default 60"
    )
    parser.add_argument(
        "--interval", metavar="S", type=delay,
        help="between two readings of rates; default what the cluster is set to",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=10.0, help="of an answer; default 10"
    )
    parser.add_argument(
        "--reports", metavar="FOLDER", type=Path, help="storm: of the workers' CsvStormReporter"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Verify, and print what differs."""
    if args.system == "kafka":
        return _verify_kafka(args)
    if args.system == "storm":
        _need("URL", args.url, "nimbus://HOST:PORT")
        return _verify_storm(args)
    _need("URL", args.url, "the job manager's REST address")
    instance = None if args.instance is None else load_instance(args.instance)
    plan = read_plan(args.plan, instance)
    client = WebClient(args.url.rstrip("/"), args.timeout)
    wait_until_running(client, args.job, args.wait)
    live = read_live(client, args.job, args.interval)
    sheet = plan if isinstance(plan, Sheet) else sheet_by_names(plan, live.jobs)
    verdict = verify(sheet, live.managers, live.jobs)
    if args.json:
        print_json(verdict.to_dict(), indent=None)
    else:
        sys.stdout.write(_text(verdict))
    return 0 if verdict.holds else 1


def _verify_storm(args: argparse.Namespace) -> int:
    from streamplace.clusters.storm.nimbus import Nimbus
    from streamplace.clusters.storm.placement import load_placement
    from streamplace.clusters.storm.verify import verify as verify_storm

    placement = load_placement(args.plan)
    with Nimbus(args.url, args.timeout) as nimbus:
        verdict = verify_storm(nimbus, placement, args.reports)
    if args.json:
        print_json(verdict.to_dict(), indent=None)
    else:
        sys.stdout.write(verdict.text())
    return 0 if verdict.holds else 1


def _verify_kafka(args: argparse.Namespace) -> int:
    from streamplace.clusters.kafka import verify as kafka
    from streamplace.clusters.kafka.admin import KafkaAdmin

    wanted = kafka.wanted_of(args.plan)
    if args.url is None:
        _need("URL", args.describe, "HOST:PORT, or --describe FILE of kafka-topics.sh")
        running = kafka.described(args.describe)
        verdict = kafka.verdict_of(wanted, kafka.compare(wanted, running))
    else:
        with KafkaAdmin(args.url, args.timeout, args.command_config) as admin:
            verdict, running = kafka.verify_live(admin, wanted), admin.partitions()
    if args.election is not None:
        write_atomic(Path(args.election), kafka.elections_needed(wanted, running))
    if args.json:
        print_json(verdict.to_dict(), indent=None)
    else:
        sys.stdout.write(verdict.text())
    return 0 if verdict.holds else 1


def _need(path: str, value: str | None, remedy: str) -> None:
    if value is None:
        raise InvalidInput(Problem(path, None, "is missing", remedy))


def _text(verdict: Verdict) -> str:
    ended = f"; {verdict.ended} ended" if verdict.ended else ""
    lines = [f"{verdict.as_planned} of {verdict.planned} subtasks as planned{ended}"]
    lines += [
        printable(f"  {d.vertex} on {d.manager}: {d.running}, planned {d.planned}")
        for d in verdict.differences
    ]
    predicted, measured = verdict.predicted_share, verdict.measured_share
    if predicted is not None and measured is not None:
        far = "" if abs(predicted - measured) <= _FAR else " (keys or loads are skewed, or it lags)"
        lines.append(f"remote share {measured:.3f} measured, {predicted:.3f} predicted{far}")
    return "\n".join(lines) + "\n"
