"""``streamplace flink``: older spelling of `submit flink` and `watch flink`, for one version."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamplace.cli.submit import add_common, add_flink, submit_flink
from streamplace.cli.watch import add_watch, watch
from streamplace.execute.loop import Flink
from streamplace.present.arguments import add_option, declare

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
`streamplace submit flink` and `streamplace watch flink` are the new names; this spelling
goes with the next version."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "verb", "what to do", choices=("submit", "watch"))
    add_common(parser)
    add_flink(parser.add_argument_group("submit"))
    add_watch(parser.add_argument_group("watch"))
    add_option(parser, "of watch: an option of the import")


def run(args: argparse.Namespace) -> int:
    """Submit, or watch."""
    if not args.quiet:
        sys.stderr.write(f"`streamplace {args.verb} flink` is the new name of this command\n")
    return watch(args, Flink(args.url.rstrip("/"))) if args.verb == "watch" else submit_flink(args)
