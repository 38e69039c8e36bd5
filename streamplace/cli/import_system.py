"""``streamplace import``: an instance from a running system, its saved state, or a graph file."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem, StreamplaceError
from streamplace.clusters.exchange.declarations import IMPORTERS, Ledger
from streamplace.clusters.exchange.sources import import_instance
from streamplace.present.arguments import (
    add_json,
    add_option,
    add_output,
    declare,
    one_document,
    seconds,
)
from streamplace.present.streams import print_all, print_json, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from streamplace.clusters.exchange.sources import Imported

EXAMPLES = """\
examples:
  streamplace import                                         the formats and their options
  streamplace import storm http://localhost:8080 -o cluster.json
  streamplace import flink http://localhost:8081 --link-rate 1Gbit -o cluster.json
  streamplace import flink saved/ --option job=orders -o cluster.json
  streamplace import cruise-control load.json partition_load.json capacity.json \\
    --limit max_migrations=10 -o kafka.json
  streamplace import zerotune query.graph.gz -o query.json
  streamplace import cruise-control load.json partition_load.json \\
    --placement reassignment.json -o after.json

docs/import-export.md says what is read, what is inferred, and the limits of each format."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "FORMAT", "leave it out to list the formats", nargs="?")
    declare(parser, "sources", "files, folders of them, or an address", nargs="*", metavar="SOURCE")
    add_output(parser, ".json or .json.gz; standard output if left out", "INSTANCE")
    add_option(parser, "an option of the format")
    declare(
        parser, "--placement FILE", "where tasks are now, in place of what the sources say: a "
        "plan, or an exported file"
    )  # fmt: skip
    limit = "limit of a plan, such as max_migrations=10 or max_utilisation.cpu=0.9"
    add_option(parser, limit, "--limit")
    declare(
        parser, "--link-rate RATE", "of every host's link, such as 1Gbit; short for --option "
        "link_rate=RATE"
    )  # fmt: skip
    declare(
        parser, "--crossing-cost OUT,IN", "first resource that a unit of traffic costs its sender "
        "and its receiver when it crosses nodes; short for --option crossing_cost=OUT,IN"
    )  # fmt: skip
    declare(parser, "--name NAME", "of the instance")
    declare(
        parser, "--timeout S", "seconds an answer over the net may take; default 10", seconds, 10.0
    )  # fmt: skip
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Import and write, or list the formats."""
    if args.format is None:
        print_all(IMPORTERS, lambda one: [f"  reads {one.sources}"], as_json=args.json)
        return 0
    if not args.sources:
        sources = IMPORTERS.get(args.format).sources
        raise InvalidInput(Problem("SOURCE", None, "is missing", f"it takes {sources}"))
    one_document(args.json, args.output)
    flags = {"link_rate": args.link_rate, "crossing_cost": args.crossing_cost}
    short = [(name, value) for name, value in flags.items() if value is not None]
    with telling(args.quiet) as ledger:
        done = import_instance(
            args.format, args.sources, [*args.option, *short], placement=args.placement,
            name=args.name, limits=args.limit, timeout=args.timeout, ledger=ledger,
        )  # fmt: skip
    if args.output:
        done.instance.save(args.output)
    else:
        sys.stdout.write(done.instance.to_json())
    if args.json:
        _print_json(done, args.output)
    if not args.quiet:
        tell(done.ledger)
        where = args.output or "standard output"
        sys.stderr.write(f"{where}: {done.instance!r}\n")
    return 0


@contextmanager
def telling(quiet: bool) -> Iterator[Ledger]:
    """Give a ledger, and report its warnings where what is done with it fails."""
    ledger = Ledger()
    try:
        yield ledger
    except StreamplaceError:
        for text in [] if quiet else ledger.warnings:
            sys.stderr.write(f"warning: {printable(text)}\n")
        raise


def tell(ledger: Ledger) -> None:
    """Report on standard error what was noticed."""
    for what, texts in (("reading", ledger.readings), ("warning", ledger.warnings)):
        for text in texts:
            sys.stderr.write(f"{what}: {printable(text)}\n")
    if ledger.ignored:
        sys.stderr.write(printable(ledger.ignored_text()) + "\n")


def _print_json(done: Imported, output: str) -> None:
    content = {
        "instance": output,
        "name": done.instance.name,
        "sha256": done.instance.sha256,
        "tasks": done.instance.num_tasks,
        "nodes": done.instance.num_nodes,
        "readings": done.ledger.readings,
        "warnings": done.ledger.warnings,
        "ignored_fields": dict(sorted(done.ledger.ignored.items())),
    }
    print_json(content, indent=None)
