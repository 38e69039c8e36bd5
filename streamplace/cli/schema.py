"""``streamplace schema``: the JSON Schemas of the formats and of what ``--json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.exit_codes import ExitCode
from streamplace.cli.answers import ADAPTERS, schema
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace schema > instance.schema.json
  streamplace schema result"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "what", nargs="?", choices=tuple(ADAPTERS), default="instance",
        help="a file's format, or what solve (result), evaluate (evaluation), explain "
        "(explanation), scale, steps, verify or decide (decision) print with --json",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print a JSON Schema (draft 2020-12)."""
    print_json(schema(args.what))
    return int(ExitCode.OK)
