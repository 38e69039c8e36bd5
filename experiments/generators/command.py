"""``streamplace generate``: write an instance of a stated class."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from experiments.generators import KINDS
from optim.errors import InvalidInput, Problem
from streamplace.present.arguments import add_json, add_option, add_output, declare, whole
from streamplace.present.streams import print_all

if TYPE_CHECKING:
    from experiments.generators.kinds import Kind

EXAMPLES = """\
examples:
  streamplace generate                               the kinds and their parameters
  streamplace generate random_graphs --seed 7 -o graph.json
  streamplace generate pipeline --option nodes=8 --option tasks=80,120,90,110 | \\
    streamplace solve - --method top-down
  streamplace generate geometric --option tasks=100000 --option nodes=1000 -o large.json.gz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "KIND", "leave it out to list the kinds", nargs="?")
    declare(
        parser, "--seed N", "default 0, and no other for kinds in which nothing is random", whole, 0
    )  # fmt: skip
    add_option(parser, "a parameter of the kind")
    add_output(parser, ".json or .json.gz; standard output if left out")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Generate and write, or list the kinds."""
    if args.kind is None:
        if args.option or args.output:
            remedy = f"one of {', '.join(KINDS.names())}"
            raise InvalidInput(Problem("KIND", None, "is missing", remedy))
        print_all(KINDS, _notes_of, as_json=args.json)
        return 0
    instance = KINDS.get(args.kind).make(args.seed, dict(args.option))
    if args.output:
        instance.save(args.output)
        sys.stderr.write(f"{args.output}: {instance!r}\n")
    else:
        sys.stdout.write(instance.to_json())
    return 0


def _notes_of(kind: Kind) -> list[str]:
    source = [f"  {kind.source}"] if kind.source else []
    return source if kind.random else [*source, "  nothing is random: there is no seed but 0"]
