"""``streamplace run-steps``: carry out an order of moves, batch by batch."""

from __future__ import annotations

import hashlib
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import ExitCode, InvalidInput, Problem
from streamplace.cli.import_system import tell, telling
from streamplace.clusters.kafka.cluster import FACTOR, REPLICAS, Key, labelled_brokers
from streamplace.execute.batches import Command, Journal, carry_out, load_steps, write_batches
from streamplace.present.arguments import add_instance, add_shared, declare, load_instance, seconds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from streamplace.execute.batches import Executor

EXAMPLES = """\
examples:
  streamplace run-steps command cluster.json steps.json --run 'move-tasks {file}'
  streamplace run-steps kafka kafka.json steps.json --bootstrap-server broker:9092

A run that was stopped or killed continues when the command is repeated: --folder holds the journal
and the file of each batch. A failed batch stops the run.

exit codes: 0 all batches are carried out; 2 invalid input; 4 a batch failed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "EXECUTOR", "command or kafka", choices=("command", "kafka"))
    add_instance(parser)
    declare(parser, "STEPS", "a file of `streamplace steps -o`")
    declare(parser, "--folder DIR", "journal and batches (STEPS.run)")
    command = parser.add_argument_group("command")
    declare(
        command, "--run TEMPLATE", "command for each batch; {file} and {batch} stand for its file "
        "and its number. A batch that a kill interrupted runs again", dest="template"
    )  # fmt: skip
    declare(command, "--files SYSTEM", "moves (default), storm, flink or kafka", default="moves")
    kafka = parser.add_argument_group("kafka")
    declare(kafka, "--bootstrap-server HOST:PORT", "a broker")
    declare(kafka, "--poll S", "seconds between two checks; default 1", seconds, 1.0)
    add_shared(kafka, "--throttle", "--patience", "--timeout", "--command-config")


def run(args: argparse.Namespace) -> int:
    """Write the batches' files, and carry them out."""
    instance = load_instance(args.instance)
    document = load_steps(args.steps, instance)
    system = "kafka" if args.executor == "kafka" else args.files
    folder = Path(args.folder or f"{args.steps}.run")
    digest = hashlib.sha256(Path(args.steps).read_bytes() + system.encode())
    journal = Journal(folder, digest.hexdigest())
    with telling(args.quiet) as ledger:
        paths = write_batches(folder, system, instance, document, ledger)
    if not args.quiet:
        tell(ledger)
    with _executor(args, instance) as executor:
        carry_out(executor, paths, journal, lambda text: None if args.quiet else _say(text))
    return int(ExitCode.OK)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@contextmanager
def _executor(args: argparse.Namespace, instance: Instance) -> Iterator[Executor]:
    if args.executor == "command":
        if not args.template:
            reason = "is missing"
            raise InvalidInput(Problem("--run", None, reason, "--run 'move-tasks {file}'"))
        yield Command.of(args.template)
        return
    if not args.bootstrap_server:
        raise InvalidInput(Problem("--bootstrap-server", None, "is missing", "HOST:PORT"))
    from streamplace.clusters.kafka.admin import KafkaAdmin
    from streamplace.clusters.kafka.submit import Settings
    from streamplace.execute.batches import Kafka

    factors = {}
    for labels in instance.tasks.labels.values():
        if {"topic", "partition", REPLICAS} <= labels.keys() and labels["partition"].isdecimal():
            # a batch may leave a partition between its present and its wanted number of replicas
            fewest = count = len(labelled_brokers(labels[REPLICAS]) or ())
            if labels.get(FACTOR, "").isdecimal():  # fewer are wanted
                fewest = min(count, int(labels[FACTOR]))
            factors[Key(labels["topic"], int(labels["partition"]))] = fewest
    settings = Settings(
        args.throttle, poll=args.poll, patience=args.patience,
        say=lambda text: None if args.quiet else _say(text),
    )  # fmt: skip
    with KafkaAdmin(args.bootstrap_server, args.timeout, args.command_config) as admin:
        yield Kafka(admin, factors, settings)
