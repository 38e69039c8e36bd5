"""``streamplace watch``: look at a running Flink again and again, and propose plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamplace.clusters.flink.watch import watch
from streamplace.present.arguments import add_json, add_option, count, growth, seconds

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace watch flink http://localhost:8081 --every 300 --gain 0.1
  streamplace watch flink http://localhost:8081 --apply ./roll-out.sh --cool-down 3600

docs/flink.md says more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("system", choices=("flink",), help="the kind of cluster")
    parser.add_argument("url", metavar="URL", help="the job manager's REST address")
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=10.0, help="of an answer; default 10"
    )
    add_json(parser)
    add_watch(parser.add_argument_group("watch"))
    add_option(parser, "an option of the import")


def run(args: argparse.Namespace) -> int:
    """Watch."""
    return watch(args)


def add_watch(group: argparse._ArgumentGroup) -> None:
    """Declare when to look, how to plan, and when to act."""
    group.add_argument(
        "--every", metavar="S", type=seconds, default=300.0, help="from look to look; default 300"
    )
    group.add_argument("--rounds", metavar="N", type=count, help="looks; default without end")
    group.add_argument("--method", metavar="NAME", help="that plans; default as `solve` chooses")
    group.add_argument("--objective", metavar="NAME", help="default what the method optimises")
    group.add_argument(
        "--time-limit", metavar="S", type=seconds, default=30.0, help="of a plan; default 30"
    )
    group.add_argument(
        "--gain", metavar="SHARE", type=growth, default=0.1,
        help="improvement from which on a plan is worth a restart; default 0.1",
    )  # fmt: skip
    group.add_argument(
        "--cool-down", metavar="S", type=seconds, default=3600.0,
        help="from one plan that is applied to the next; default 3600",
    )  # fmt: skip
    group.add_argument(
        "--apply",
        metavar="COMMAND",
        help="run it with the sheet's file after it; without it nothing is done: a dry run",
    )
