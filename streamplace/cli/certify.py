"""``streamplace certify``: check a certificate without a solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamplace.present.arguments import declare

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  streamplace solve cluster.json -o plan.json --certificate proof.json
  streamplace certify cluster.json proof.json
  streamplace certify cluster.json plan.json proof.json

exit codes: 0 the bound holds; 1 it does not follow, and why; 2 a file cannot be read

The checker is one file that needs nothing installed (optim/certificates/check.py):
  python -I check.py INSTANCE CERTIFICATE [PLAN]"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "INSTANCE", ".json or .json.gz file")
    declare(parser, "PLAN", "a plan to compare with the bound", nargs="?")
    declare(parser, "CERTIFICATE", ".json or .json.gz file")


def run(args: argparse.Namespace) -> int:
    """Check a certificate."""
    from optim.certificates.check import main

    return main([x for x in (args.instance, args.certificate, args.plan) if x is not None])
