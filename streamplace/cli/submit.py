"""``streamplace submit``: carry a plan out on a running Flink, Storm or Kafka."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.cli.verify import tell_verdict
from streamplace.clusters.exchange.sources import WebClient, read_text
from streamplace.clusters.flink.exporter import Sheet, read_plan
from streamplace.clusters.flink.fetch import read_managers, wait_until_running
from streamplace.clusters.flink.submit import check_quotas, groups_of_job, read_script, submit
from streamplace.present.arguments import (
    add_json,
    add_shared,
    assignment,
    count,
    declare,
    load_instance,
)
from streamplace.present.numbers import plural
from streamplace.present.streams import print_json, printable

if TYPE_CHECKING:
    from streamplace.clusters.flink.submit import FlinkClient
    from streamplace.clusters.kafka.submit import Outcome, Settings

EXAMPLES = """\
examples:
  streamplace submit flink http://localhost:8081 sheet.json --jar job.jar --class org.example.Job \\
    --args --topic orders
  streamplace submit flink http://localhost:8081 sheet.json --sql job.sql -D parallelism.default=4
  streamplace submit storm nimbus://localhost:6627 placement.json
  streamplace submit storm nimbus://localhost:6627 placement.json --dry-run
  streamplace submit kafka localhost:9092 reassignment.json --throttle 20000000

The file is compared with the cluster as it is now; if it does not fit, nothing is changed.
Flink: task managers must offer the sheet's quotas; the job's id goes to stdout. Storm: a running
topology is rebalanced; Nimbus needs the jar of `streamplace storm plugin`. Kafka: replicas are
copied in steps, then leaders elected; after a kill the same command continues, and Ctrl-C cancels
what is under way and removes throttles.

exit codes: 0 all runs as planned; 1 submitted, but not all runs as planned yet; 2 refused

Extras: pip install 'streamplace[flink]' (storm, kafka). More: docs/flink.md, storm.md, kafka.md"""


WAIT = 60.0
"""Seconds until all runs as planned, of Flink and Storm."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "system", "the kind of cluster", choices=("flink", "storm", "kafka"))
    add_common(parser)
    add_flink(parser.add_argument_group("flink"))
    add_kafka(parser.add_argument_group("kafka"))


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare what all systems take."""
    declare(
        parser, "URL", "flink: the job manager's REST address; storm: nimbus://HOST:PORT; kafka: "
        "HOST:PORT"
    )  # fmt: skip
    declare(parser, "plan", "what `export` wrote, or a plan", nargs="?", metavar="FILE")
    declare(parser, "--dry-run", "check all, change nothing")
    add_shared(parser, "--timeout", "--wait")
    add_json(parser)


def add_flink(group: argparse._ArgumentGroup) -> None:
    """Declare what a submission to Flink takes beside."""
    declare(group, "--instance FILE", "the instance, if FILE is a plan and not a sheet")
    declare(group, "--jar FILE", "the program")
    declare(group, "--sql FILE", "a script, as Flink's SQL client takes it")
    declare(group, "--class NAME", "the jar's class with main()", dest="main")
    declare(
        group, "--args ARG", "all that follows is the program's own", default=[], dest="arguments",
        nargs=argparse.REMAINDER
    )  # fmt: skip
    declare(
        group, "-D K=V", "a key of Flink's configuration; may be given again", assignment, [],
        dest="settings", action="append"
    )  # fmt: skip
    declare(
        group, "--managed-memory MB", "of a slot, for RocksDB, Python and batch operators; default "
        "0", count, 0
    )  # fmt: skip
    declare(group, "--flink-home DIR", "an unpacked Flink, not the package")


def add_kafka(parser: argparse._ArgumentGroup) -> None:
    """Declare what a submission to Kafka takes beside."""
    declare(
        parser, "--at-a-time N", "partitions that a broker copies at a time; default 5", count, 5
    )  # fmt: skip
    add_shared(parser, "--throttle", "--patience", "--command-config")


def run(args: argparse.Namespace) -> int:
    """Submit to the system."""
    if args.plan is None and args.system != "flink":
        remedy = f"`streamplace export {args.system} INSTANCE PLAN -o FILE` writes it"
        raise InvalidInput(Problem("FILE", None, "is missing", remedy))
    return {"storm": _storm, "kafka": _kafka}.get(args.system, submit_flink)(args)


def wait_of(args: argparse.Namespace) -> float:
    """Return how long Flink or Storm may take, in s."""
    return WAIT if args.wait is None else args.wait


def _kafka(args: argparse.Namespace) -> int:
    """Check that a reassignment fits the cluster, carry it out, and verify it."""
    from streamplace.clusters.kafka import submit as kafka
    from streamplace.clusters.kafka.admin import KafkaAdmin

    plan = kafka.load_reassignment(args.plan)
    with KafkaAdmin(args.url, args.timeout, args.command_config) as admin:
        checked = kafka.check(admin, plan)
        if not args.quiet:
            duration = f", {checked.size / args.throttle:,.0f} s at least" if args.throttle else ""
            sys.stderr.write(
                f"{plural(checked.changed, 'list')} to change, {plural(checked.copies, 'replica')} "
                f"to copy ({checked.size:,.0f} bytes{duration})\n"
            )
        outcome = None if args.dry_run else kafka.submit(admin, plan, kafka_settings(args))
    work = {"changed": checked.changed, "copies": checked.copies, "bytes": checked.size}
    return tell_kafka(args, outcome, work)


def kafka_settings(args: argparse.Namespace) -> Settings:
    """Return how Kafka is to carry something out."""
    from streamplace.clusters.kafka.submit import Settings

    return Settings(
        args.throttle,
        args.at_a_time,
        patience=args.patience,
        wait=float("inf") if args.wait is None else args.wait,
        say=lambda text: None if args.quiet else print(printable(text), file=sys.stderr),
    )


def tell_kafka(
    args: argparse.Namespace, outcome: Outcome | None, work: dict[str, float] | None = None
) -> int:
    """Report what holds at the end, and return the exit status."""
    given_up = {} if outcome is None else outcome.given_up
    lost = {str(key): reason for key, reason in given_up.items()}
    details = {**(work or {}), "given_up": lost}
    status = tell_verdict(args, None if outcome is None else outcome.verdict, details)
    hint = "import again with --option mode=dead-broker"
    for reason, number in [] if args.quiet else Counter(given_up.values()).items():
        sys.stderr.write(f"given up, {plural(number, 'partition')}: {reason}; {hint}\n")
    return status


def _storm(args: argparse.Namespace) -> int:
    """Check that a placement fits the cluster, rebalance, and wait until it holds."""
    from streamplace.clusters.storm import submit as storm
    from streamplace.clusters.storm.nimbus import Nimbus

    placement = storm.load_placement(args.plan)
    with Nimbus(args.url, args.timeout) as nimbus:
        checked = storm.check(nimbus, placement)
        if not args.quiet:
            for one in checked:
                sys.stderr.write(
                    f"{one.name}: {plural(one.moves, 'executor')} of {len(one.planned.worker_of)} "
                    f"to another node, {plural(one.restarts, 'worker')} to restart\n"
                )
        verdict = None if args.dry_run else storm.submit(nimbus, placement, wait_of(args))
    work = {one.name: {"moves": one.moves, "workers_restarted": one.restarts} for one in checked}
    return tell_verdict(args, verdict, {"topologies": work})


def submit_flink(args: argparse.Namespace) -> int:
    """Check that plan, program and cluster fit, submit, and wait until all subtasks run."""
    if args.plan is None or (args.jar is None) == (args.sql is None):
        remedy = "streamplace submit flink URL SHEET --jar FILE, or --sql FILE"
        raise InvalidInput(Problem("SHEET, --jar, --sql", None, "are what submit takes", remedy))
    instance = None if args.instance is None else load_instance(args.instance)
    sheet = read_plan(args.plan, instance)
    if not isinstance(sheet, Sheet):
        remedy = "`streamplace export flink INSTANCE PLAN -o SHEET`, or --instance INSTANCE"
        raise InvalidInput(Problem(args.plan, None, "does not name vertices", remedy))
    script = None if args.sql is None else read_script(read_text(Path(args.sql)))
    if args.jar is not None and not Path(args.jar).is_file():
        raise InvalidInput(Problem("--jar", args.jar, "does not exist", "the program's jar"))
    client = WebClient(args.url.rstrip("/"), args.timeout)
    managers = read_managers(client)

    def make(flink: FlinkClient) -> object:
        if script is not None:
            graph = flink.graph_of_sql(script)
        else:
            graph = flink.graph_of_jar(args.jar, args.main, args.arguments)
        # after the program is known, before anything is sent
        check_quotas(sheet, groups_of_job(sheet, flink.vertices_of(graph)), managers)
        return graph

    job, groups = submit(
        args.url, sheet, dict(args.settings), make, home=args.flink_home,
        managed=args.managed_memory, dry_run=args.dry_run,
    )  # fmt: skip
    runs = job is not None and wait_until_running(client, job, wait_of(args))
    slots = sum(group.parallelism for group in groups)
    if args.json:
        answer = {"job": job, "running": runs, "groups": len(groups), "slots": slots}
        print_json(answer, indent=None)
    elif job is not None:
        sys.stdout.write(f"{job}\n")
    if not args.quiet:
        state = "fits, and was not submitted" if job is None else "does not run yet"
        state = "runs" if runs else state
        sys.stderr.write(f"plan {sheet.key}: {slots} slots in {len(groups)} groups: {state}\n")
    return 0 if runs or args.dry_run else 1
