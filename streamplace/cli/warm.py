"""``streamplace warm``: compile what methods need before anybody waits for it."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from optim.errors import ExitCode
from optim.util.process import usable_cores
from streamplace.packages import missing_extra
from streamplace.present.arguments import count, declare
from streamplace.present.streams import write_stdout

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance

EXAMPLES = """\
examples:
  streamplace warm
  streamplace warm imc-search partition
  NUMBA_CACHE_DIR=/var/cache/streamplace streamplace warm

The first use of a method compiles its kernels, which takes seconds to a minute, and stores them on
disk; docs/install.md says where, and what to do in an image. Without names the Java classes that a
trace needs are archived, too (182 MB in the cache folder)."""

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
_LIMIT = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "methods", "by default all", nargs="*", metavar="METHOD")
    declare(
        parser, "--jobs N", "processes that compile side by side (default: one a core)", count,
        usable_cores()
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Solve a small instance by each method; what is reported are the seconds spent on
    compiling.
    """
    from optim.errors import InvalidInput, Problem
    from optim.methods.registry import get_method, method_names
    from streamplace.cli.main import commands

    methods = [get_method(name) for name in args.methods] or [
        get_method(name) for name in method_names()
    ]
    began, done = time.perf_counter(), 0
    targets = [] if args.methods else [command.warm for command in commands() if command.warm]
    with ProcessPoolExecutor(min(args.jobs, len(methods)), get_context("spawn")) as pool:
        prepared = [pool.submit(_prepare, target) for target in targets]
        waiting = {pool.submit(_solve, method.name): method.name for method in methods}
        for number, future in enumerate(as_completed(waiting), 1):
            num_ready, spent, has_cache = future.result()
            if not has_cache:
                pool.shutdown(cancel_futures=True)
                reason = "is needed: no folder for machine code is writable"
                remedy = "set it to a writable folder, here and for all later runs"
                raise InvalidInput(Problem("NUMBA_CACHE_DIR", None, reason, remedy))
            done += num_ready
            if not args.quiet:
                name = waiting[future]
                sys.stderr.write(f"{number} of {len(methods)}: {name} {spent:.1f} s\n")
        for one in prepared:
            if not args.quiet:
                sys.stderr.write(f"{one.result()}\n")
    write_stdout(f"{done} methods are warm, after {time.perf_counter() - began:.1f} s\n")
    return int(ExitCode.OK)


def _prepare(target: str) -> str:
    """Prepare a command's first use (`Command.warm`); return what was done, in words."""
    try:
        return str(resolve_name(target)())
    except ModuleNotFoundError as error:
        text = missing_extra(error)
        if text is None:
            raise
        return f"{target.partition(':')[0]} {text}"


@cache
def _small() -> list[Instance]:
    from optim.plugins import entries

    registered = entries("streamplace.generators")
    kinds = {name: registered[name].point.load() for name in SMALL}
    return [kinds[name].make(int(kinds[name].random), SMALL[name]) for name in SMALL]


def _solve(name: str) -> tuple[bool, float, bool]:
    """Solve each instance that suits a method, and one for each of its other objectives.

    With traffic and limits other kernels are used, and some for a single objective.

    Returns whether any suits it, the seconds, and whether what was compiled is there for others.
    """
    from optim.methods.registry import get_method
    from optim.util import compiled, progress

    # no instance is small: every kernel is compiled
    compiled.SMALL = -1
    began = time.perf_counter()
    suited = [_takes(name, instance, None) for instance in _small()]
    for objective in get_method(name).objectives[1:]:
        any(_takes(name, instance, objective) for instance in _small())
    return any(suited), time.perf_counter() - began, progress.is_kept()


def _takes(name: str, instance: Instance, objective: str | None) -> bool:
    from optim import solve
    from optim.errors import StreamplaceError

    try:
        solve(instance, name, objective=objective, time_limit=_LIMIT, repair=True)
    except StreamplaceError:
        return False
    return True
