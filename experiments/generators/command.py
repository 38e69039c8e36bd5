"""``streamplace generate``: write an instance of a stated class."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from experiments.generators import KINDS
from optim.errors import InvalidInput, Problem
from streamplace.present.arguments import add_json, add_option, whole
from streamplace.present.listing import load_all, option_lines
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

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
    parser.add_argument("kind", metavar="KIND", nargs="?", help="leave it out to list the kinds")
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0,
        help="default 0, and no other for kinds in which nothing is random",
    )  # fmt: skip
    add_option(parser, "a parameter of the kind")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=".json or .json.gz; standard output if left out"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Generate and write, or list the kinds."""
    if args.kind is None:
        if args.option or args.output:
            raise InvalidInput(
                Problem("KIND", None, "is missing", f"one of {', '.join(KINDS.names())}")
            )
        kinds = load_all(KINDS)
        if args.json:
            print_json([kind.to_dict() for kind in kinds])
        else:
            print("\n\n".join(describe(kind) for kind in kinds))
        return 0
    instance = KINDS.get(args.kind).make(args.seed, dict(args.option))
    if args.output:
        instance.save(args.output)
        sys.stderr.write(f"{args.output}: {instance!r}\n")
    else:
        sys.stdout.write(instance.to_json())
    return 0


def describe(kind: Kind) -> str:
    """Return a kind's summary and parameters as text."""
    source = [f"  {kind.source}"] if kind.source else []
    fixed = [] if kind.random else ["  nothing is random: there is no seed but 0"]
    return "\n".join(
        [f"{kind.name}: {kind.summary}", *source, *fixed, *option_lines(kind.parameters)]
    )
