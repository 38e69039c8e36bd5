"""``streamplace verify``: whether a running cluster is as a plan has it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.exporter import Sheet, read_plan
from streamplace.clusters.flink.fetch import read_live, wait_until_running
from streamplace.clusters.flink.verify import sheet_by_names, verify
from streamplace.present.arguments import add_json, add_shared, declare, delay, load_instance
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from streamplace.clusters.exchange.verdict import Verdict

EXAMPLES = """\
examples:
  streamplace verify flink http://localhost:8081 sheet.json
  streamplace verify flink http://localhost:8081 plan.json --instance cluster.json
  streamplace verify kafka localhost:9092 plan.json
  streamplace verify kafka plan.json --describe topics.txt
  streamplace verify storm nimbus://localhost:6627 placement.json

Flink: the number of subtasks of each vertex on each task manager; Flink chooses which index runs
where. Kafka: replicas, sync, leaders and log directories of each partition. Storm: node and worker
of each executor, and the share of messages between nodes.

exit codes: 0 all as planned; 1 not; 2 unknown, as the cluster does not report it

More: docs/flink.md, storm.md, kafka.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "system", "the kind of cluster", choices=("flink", "kafka", "storm"))
    declare(
        parser, "URL", "flink: the job manager's address; storm: nimbus://HOST:PORT; kafka: "
        "HOST:PORT", nargs="?"
    )  # fmt: skip
    declare(parser, "PLAN", "what `export` wrote, or a plan")
    declare(
        parser, "--describe FILE", "kafka: what kafka-topics.sh --describe prints now; a file or a "
        "pipe (/dev/stdin)"
    )  # fmt: skip
    declare(parser, "--election FILE", "kafka: write the partitions whose leader is to be elected")
    add_shared(parser, "--command-config", "--timeout")
    declare(parser, "--instance FILE", "flink: the plan's instance, to join vertices by id")
    declare(parser, "--job NAME", "flink: name or id, if several run", default="")
    declare(parser, "--wait S", "for subtasks to run; default 60", delay, 60.0)
    declare(
        parser, "--interval S", "between two readings of rates; default what the cluster is set to",
        delay
    )  # fmt: skip
    declare(parser, "--reports FOLDER", "storm: files of the workers' CsvStormReporter", Path)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Verify, and print what differs."""
    if args.system == "kafka":
        return _verify_kafka(args)
    if args.system == "storm":
        _need(args.url, "nimbus://HOST:PORT")
        return _verify_storm(args)
    _need(args.url, "the job manager's REST address")
    instance = None if args.instance is None else load_instance(args.instance)
    plan = read_plan(args.plan, instance)
    client = WebClient(args.url.rstrip("/"), args.timeout)
    # a job that still starts would differ from any plan
    wait_until_running(client, args.job, args.wait)
    live = read_live(client, args.job, args.interval)
    sheet = plan if isinstance(plan, Sheet) else sheet_by_names(plan, live.jobs)
    return tell_verdict(args, verify(sheet, live.managers, live.jobs))


def tell_verdict(
    args: argparse.Namespace, verdict: Verdict | None, work: Mapping[str, Any] | None = None
) -> int:
    """Report whether a cluster is as planned, and return the exit status.

    `verdict`: ``None`` where nothing was submitted.
    `work`: of a submission: what `--json` reports beside the verdict.
    """
    if args.json:
        content = None if verdict is None else verdict.to_dict()
        if work is not None:
            content = {"submitted": verdict is not None, **work, "verdict": content}
        print_json(content, indent=None)
    else:
        sys.stdout.write("fits, and was not submitted\n" if verdict is None else verdict.text())
    return 0 if verdict is None or verdict.holds else 1


def _verify_storm(args: argparse.Namespace) -> int:
    from streamplace.clusters.storm.nimbus import Nimbus
    from streamplace.clusters.storm.submit import load_placement
    from streamplace.clusters.storm.verify import verify as verify_storm

    placement = load_placement(args.plan)
    with Nimbus(args.url, args.timeout) as nimbus:
        return tell_verdict(args, verify_storm(nimbus, placement, args.reports))


def _verify_kafka(args: argparse.Namespace) -> int:
    from streamplace.clusters.kafka import verify as kafka
    from streamplace.clusters.kafka.admin import KafkaAdmin

    plan = kafka.planned_of(args.plan)
    if args.url is None:
        _need(args.describe, "HOST:PORT, or --describe FILE of kafka-topics.sh")
        running = kafka.described(args.describe)
        verdict = kafka.verdict_of(plan, kafka.compare(plan, running))
    else:
        with KafkaAdmin(args.url, args.timeout, args.command_config) as admin:
            running = admin.partitions()  # once: what is elected is what was compared
            verdict = kafka.verify_live(admin, plan, running)
    if args.election is not None:
        write_atomic(Path(args.election), kafka.elections_needed(plan, running))
    return tell_verdict(args, verdict)


def _need(value: str | None, remedy: str) -> None:
    if value is None:
        raise InvalidInput(Problem("URL", None, "is missing", remedy))
