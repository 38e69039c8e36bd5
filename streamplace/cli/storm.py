"""``streamplace storm``: the plug-in that lets Storm run plans."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic
from streamplace.clusters.storm.nimbus import SCHEDULER
from streamplace.present.arguments import declare, output_file

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace storm plugin -o streamplace-storm.jar

The jar goes into lib/ (or extlib-daemon/) of each Nimbus; topologies and supervisors do not
change. docs/storm.md says what it does and what it leaves to Storm."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "verb", "write the scheduler's jar", choices=("plugin",))
    declare(parser, "-o, --output FILE", "the jar", output_file, required=True)


def run(args: argparse.Namespace) -> int:
    """Write the jar, and print the commands for Nimbus."""
    if args.output is None:
        reason = "is standard output, which gets the line for storm.yaml"
        raise InvalidInput(Problem("--output", "-", reason, "name a file"))
    jar = files("streamplace.clusters.storm") / "plugin" / "streamplace-storm.jar"
    write_atomic(Path(args.output), jar.read_bytes())
    sys.stdout.write(f'storm.scheduler: "{SCHEDULER}"\n')
    if not args.quiet:
        sys.stderr.write(
            f"copy {args.output} into lib/ (or extlib-daemon/) of each Nimbus, add this line to "
            "its storm.yaml, and restart Nimbus\n"
        )
    return 0
