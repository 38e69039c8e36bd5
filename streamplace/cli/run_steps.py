"""``streamplace run-steps``: carry out an order of moves, batch by batch."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.exit_codes import ExitCode
from streamplace.cli.import_system import tell, telling
from streamplace.clusters.kafka.replicas import DEAD, FACTOR, REPLICAS, labelled_brokers
from streamplace.execute.batches import load_steps, write_batches
from streamplace.execute.kafka import Kafka
from streamplace.execute.run import Command, Journal, carry_out
from streamplace.present.arguments import add_instance, count, load_instance, seconds

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from streamplace.execute.run import Executor

EXAMPLES = """\
examples:
  streamplace run-steps command cluster.json steps.json --run 'move-tasks {file}'
  streamplace run-steps kafka kafka.json steps.json --bootstrap-server broker:9092

A run that was stopped, or killed, goes on where it stood when it is started again: --folder holds
the journal and the file of each batch. A failed batch stops it.

exit codes: 0 all batches are made; 2 invalid input; 4 a batch failed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "executor", metavar="EXECUTOR", choices=("command", "kafka"), help="command or kafka"
    )
    add_instance(parser)
    parser.add_argument("steps", metavar="STEPS", help="a file of `streamplace steps -o`")
    parser.add_argument("--folder", metavar="DIR", help="journal and batches (STEPS.run)")
    command = parser.add_argument_group("command")
    command.add_argument(
        "--run", metavar="TEMPLATE", dest="template",
        help="command a batch; {file} and {batch} stand for its file and its number. "
        "A batch that was under way when a run was killed is run again",
    )  # fmt: skip
    command.add_argument(
        "--files", metavar="SYSTEM", default="moves", help="moves (default), storm, flink or kafka"
    )
    kafka = parser.add_argument_group("kafka")
    kafka.add_argument("--bootstrap-server", metavar="HOST:PORT", help="given to Kafka's tool")
    kafka.add_argument("--zookeeper", metavar="HOST:PORT", help="in its place, before Kafka 2.5")
    kafka.add_argument("--command-config", metavar="FILE", help="given to Kafka's tool")
    kafka.add_argument("--throttle", metavar="B", type=count, help="bytes a second")
    kafka.add_argument("--poll", metavar="S", type=seconds, default=5.0, help="seconds (5)")
    kafka.add_argument(
        "--patience", metavar="S", type=seconds, default=float("inf"), help="seconds a batch"
    )


def run(args: argparse.Namespace) -> int:
    """Write the batches' files, and carry them out."""
    instance = load_instance(args.instance)
    document = load_steps(args.steps, instance)
    executor = _executor(args, instance)
    system = "kafka" if args.executor == "kafka" else args.files
    folder = Path(args.folder or f"{args.steps}.run")
    told = hashlib.sha256(Path(args.steps).read_bytes() + system.encode())
    journal = Journal(folder, told.hexdigest())
    with telling(args.quiet) as ledger:
        paths = write_batches(folder, system, instance, document, ledger)
    if not args.quiet:
        tell(ledger)
    carry_out(executor, paths, journal, lambda text: None if args.quiet else _say(text))
    return int(ExitCode.OK)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _executor(args: argparse.Namespace, instance: Instance) -> Executor:
    if args.executor == "command":
        if not args.template:
            reason = "is missing"
            raise InvalidInput(Problem("--run", None, reason, "--run 'move-tasks {file}'"))
        return Command.of(args.template)
    ways = (("--bootstrap-server", args.bootstrap_server), ("--zookeeper", args.zookeeper))
    connect = [word for way in ways if way[1] for word in way]
    if len(connect) != 2:
        reason = "excludes --zookeeper" if connect else "is missing"
        raise InvalidInput(Problem("--bootstrap-server", None, reason, "HOST:PORT"))
    if args.command_config:
        connect += ["--command-config", args.command_config]
    factors = {}
    for labels in instance.tasks.labels.values():
        if {"topic", "partition", REPLICAS} <= labels.keys() and labels["partition"].isdecimal():
            fewest = now = len(labelled_brokers(labels[REPLICAS]) or ())
            if labels.get(FACTOR, "").isdecimal():  # fewer are wanted
                fewest = min(now, int(labels[FACTOR]))
            factors[labels["topic"], int(labels["partition"])] = fewest
    dead = [n for n, told in instance.nodes.labels.items() if told.get(DEAD)]
    if args.throttle is not None and dead:
        reason = f"cannot be: broker {instance.nodes.ids[dead[0]]} is dead"
        remedy = (
            "the tool would wait for it, move nothing and leave rates set; leave --throttle out, "
            "and set rates on the living brokers with kafka-configs.sh"
        )
        raise InvalidInput(Problem("--throttle", args.throttle, reason, remedy))
    return Kafka(
        tuple(connect), factors, args.poll, args.patience, args.throttle,
        say=lambda text: None if args.quiet else _say(text),
    )  # fmt: skip
