"""``streamplace revert``: put a Storm topology, or Kafka's replicas, back to where they were."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.cli.submit import add_kafka, kafka_settings, tell_kafka, wait_of
from streamplace.cli.verify import tell_verdict
from streamplace.present.arguments import add_json, add_shared, declare
from streamplace.present.numbers import plural
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace revert storm nimbus://localhost:6627 wordcount
  streamplace revert kafka localhost:9092 reassignment.json --throttle 20000000
  streamplace revert kafka localhost:9092 --cancel

`submit storm` stores the earlier placement in Nimbus; Kafka's earlier lists are in
reassignment.rollback.json. --cancel cancels what is under way (of FILE, or all), and removes
throttles.

exit codes: 0 all runs as before; 1 submitted, but not all runs there yet; 2 refused

More: docs/storm.md, kafka.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "system", "the kind of cluster", choices=("storm", "kafka"))
    declare(parser, "URL", "nimbus://HOST:PORT; kafka: HOST:PORT")
    declare(parser, "TOPOLOGY", "its name or id; kafka: the file that was submitted", nargs="?")
    declare(parser, "--cancel", "kafka: only cancel what is under way")
    add_shared(parser, "--timeout", "--wait")
    add_kafka(parser.add_argument_group("kafka"))
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Submit the placement before the last one."""
    if args.system == "kafka":
        return _kafka(args)
    if args.topology is None:
        raise InvalidInput(Problem("TOPOLOGY", None, "is missing", "its name or id"))
    from streamplace.clusters.storm.nimbus import Nimbus
    from streamplace.clusters.storm.submit import previous, submit

    with Nimbus(args.url, args.timeout) as nimbus:
        return tell_verdict(args, submit(nimbus, previous(nimbus, args.topology), wait_of(args)))


def _kafka(args: argparse.Namespace) -> int:
    """Cancel what is under way, and bring the lists back."""
    from streamplace.clusters.kafka import submit as kafka
    from streamplace.clusters.kafka.admin import KafkaAdmin

    if args.topology is None and not args.cancel:
        raise InvalidInput(Problem("FILE", None, "is missing", "the file that was submitted"))
    plan = None if args.topology is None else kafka.load_reassignment(args.topology)
    with KafkaAdmin(args.url, args.timeout, args.command_config) as admin:
        if plan is not None and not args.cancel:
            return tell_kafka(args, kafka.revert(admin, plan, kafka_settings(args)))
        cancelled = [str(key) for key in kafka.cancel(admin, plan)]
    if args.json:
        print_json({"cancelled": cancelled}, indent=None)
    else:
        sys.stdout.write(f"{plural(len(cancelled), 'reassignment')} cancelled\n")
    return 0
