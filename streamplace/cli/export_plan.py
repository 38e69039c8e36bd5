"""``streamplace export``: a plan as the files that a foreign system takes."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.cli.import_system import tell, telling
from streamplace.clusters.exchange.declarations import EXPORTERS
from streamplace.clusters.exchange.sources import export_plan
from streamplace.present.arguments import (
    add_json,
    add_option,
    add_output,
    declare,
    load_instance,
    load_plan,
    one_document,
)
from streamplace.present.streams import print_all, print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace export                                  the formats and their options
  streamplace export kafka kafka.json plan.json -o reassignment.json
      writes reassignment.json and reassignment.rollback.json
  streamplace export storm cluster.json plan.json -o placement.json
  streamplace export metis-graph cluster.json -o cluster.graph
  streamplace export moves cluster.json plan.json

docs/import-export.md describes the formats and how they are applied."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "FORMAT", "leave it out to list the formats", nargs="?")
    declare(parser, "INSTANCE", ".json or .json.gz file, or - for standard input", nargs="?")
    declare(parser, "PLAN", "a plan file for that instance", nargs="?")
    add_output(parser, "standard output if left out")
    add_option(parser, "an option of the format")
    declare(
        parser, "--batches N", "kafka: numbered parts beside FILE, as few as are gentle, or N; "
        "--option batches=N", nargs="?", const="0"
    )  # fmt: skip
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Export and write, or list the formats."""
    if args.format is None:
        print_all(EXPORTERS, lambda one: [], as_json=args.json)
        return 0
    exporter = EXPORTERS.get(args.format)
    if args.instance is None:
        raise InvalidInput(Problem("INSTANCE", None, "is missing", "name an instance file"))
    one_document(args.json, args.output)
    instance = load_instance(args.instance)
    plan = None if args.plan is None else load_plan(args.plan)
    short = [] if args.batches is None else [("batches", args.batches)]
    with telling(args.quiet) as ledger:
        done = export_plan(args.format, instance, plan, [*args.option, *short], ledger=ledger)
    if not args.output:
        sys.stdout.write(done.texts[""])
        written = []
    else:
        written = [str(path) for path in done.save(args.output)]
    if args.json:
        remarks = {"readings": done.ledger.readings, "warnings": done.ledger.warnings}
        print_json({"files": written, **remarks}, indent=None)
    if not args.quiet:
        tell(done.ledger)
        if not args.output and len(done.texts) > 1:
            sys.stderr.write("warning: further files are written only with -o\n")
        for path in written:
            sys.stderr.write(f"{path}\n")
        declared = "" if done.ledger.warnings else exporter.next_step  # warnings come first
        step = done.ledger.next_step or declared
        if written and step:
            sys.stderr.write(f"next: {step.format(*map(shlex.quote, written))}\n")
    return 0
