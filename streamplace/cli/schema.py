"""``streamplace schema``: the JSON Schema of the formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.exit_codes import ExitCode
from optim.format.document import instance_schema
from optim.format.plan import plan_schema
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace schema > instance.schema.json
  streamplace schema plan"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "what", nargs="?", choices=("instance", "plan"), default="instance",
        help="whose schema; the instance's if left out",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print a JSON Schema (draft 2020-12)."""
    schema = instance_schema() if args.what == "instance" else plan_schema()
    print_json(schema)
    return int(ExitCode.OK)
