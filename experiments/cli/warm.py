"""``streamplace warm``: compile what methods need before anybody waits for it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from experiments.cli.streams import write_stdout
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from optim.format.instance import Instance

EXAMPLES = """\
examples:
  streamplace warm
  streamplace warm imc-search partition
  NUMBA_CACHE_DIR=/var/cache/streamplace streamplace warm

The first use of a method compiles its kernels, which takes seconds to a minute, and keeps them on
disk. docs/install.md says where, and what to do in an image."""

SMALL: dict[str, dict[str, Any]] = {
    "cluster": {"nodes": 4, "varies": 60.0, "shifted": 50.0},
    "joint": {"nodes": 4},
    "community": {"tasks": 12, "nodes": 3},
    "eoa_random": {"nodes": 3, "operators": 4},
    "storm_reference": {},
    "random_graphs": {},
    "micro_dag": {},
}
"""Instances of every family: kind and parameters."""
_LIMIT = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("methods", metavar="METHOD", nargs="*", help="by default all")


def run(args: argparse.Namespace) -> int:
    """Solve a small instance by each method; what is told are the seconds spent on compiling.

    Raises
    ------
    InvalidInput
        A method is unknown.
    """
    from optim.methods.registry import get_method, method_names

    methods = [get_method(name) for name in args.methods] or [
        get_method(name) for name in method_names()
    ]
    instances = _small()
    done, total = 0, 0.0
    for number, method in enumerate(methods, 1):
        began = time.perf_counter()
        if _solve(method.name, instances):
            done += 1
        spent = time.perf_counter() - began
        total += spent
        if not args.quiet:
            sys.stderr.write(f"{number} of {len(methods)}: {method.name} {spent:.1f} s\n")
    write_stdout(f"{done} methods are warm, after {total:.1f} s\n")
    return int(ExitCode.OK)


def _small() -> list[Instance]:
    from experiments.generators import generate

    return [generate(kind, seed=1, **parameters) for kind, parameters in SMALL.items()]


def _solve(name: str, instances: Sequence[Instance]) -> bool:
    """Solve each instance that suits a method: with traffic and limits other kernels are used."""
    from optim import solve
    from optim.errors import StreamplaceError

    taken = False
    for instance in instances:
        try:
            solve(instance, name, time_limit=_LIMIT, repair=True)
            taken = True
        except StreamplaceError:
            continue
    return taken
