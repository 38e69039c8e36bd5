"""``streamplace revert``: put a Storm topology back to where it was before the last submit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from streamplace.present.arguments import add_json, delay, seconds
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace revert storm nimbus://localhost:6627 wordcount

`submit storm` stores the placement before it with the topology's own, in Nimbus.
exit codes: 0 all runs as before, 1 submitted but not all runs there yet, 2 refused.

docs/storm.md says more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("system", choices=("storm",), help="the kind of cluster")
    parser.add_argument("url", metavar="URL", help="nimbus://HOST:PORT")
    parser.add_argument("topology", metavar="TOPOLOGY", help="its name or id")
    parser.add_argument(
        "--timeout", metavar="S", type=seconds, default=10.0, help="of an answer; default 10"
    )
    parser.add_argument(
        "--wait", metavar="S", type=delay, default=60.0, help="until all runs; default 60"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Submit the placement before the last one."""
    from streamplace.clusters.storm.nimbus import Nimbus
    from streamplace.clusters.storm.submit import previous, submit

    with Nimbus(args.url, args.timeout) as nimbus:
        verdict = submit(nimbus, previous(nimbus, args.topology), args.wait)
    if args.json:
        print_json(verdict.to_dict(), indent=None)
    else:
        sys.stdout.write(verdict.text())
    return 0 if verdict.holds else 1
