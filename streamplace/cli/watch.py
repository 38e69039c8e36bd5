"""``streamplace watch``: the adaptation loop on a running Flink, Storm or Kafka."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.cli.decide import add_policy, answer, guarded, line, step
from streamplace.execute.loop import SYSTEMS, Loop
from streamplace.present.arguments import (
    add_json,
    add_option,
    add_shared,
    assignment,
    count,
    declare,
    seconds,
)
from streamplace.present.streams import print_json, printable

if TYPE_CHECKING:
    import argparse

    from streamplace.execute.loop import LookOutcome, System

EXAMPLES = """\
examples:
  streamplace watch flink http://localhost:8081 --every 300 --gain 0.1
  streamplace watch flink http://localhost:8081 --policy rate-trigger --apply ./roll-out.sh
  streamplace watch storm nimbus://localhost:6627 --policy storm-trigger --apply

Without --apply nothing is changed. With it plans are carried out as `submit` does, for Flink by the
COMMAND, which gets the exported file. One line a decision.

More: docs/loop.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    declare(parser, "system", "the kind of cluster", choices=tuple(SYSTEMS))
    declare(parser, "URL", "as `streamplace import` takes it")
    add_shared(parser, "--timeout", "--wait")
    add_json(parser)
    add_watch(parser.add_argument_group("watch"))
    add_option(parser, "an option of the import")


def add_watch(group: argparse._ArgumentGroup) -> None:
    """Declare when to look, what decides, and when to act."""
    declare(
        group, "--every S", "seconds from one look (import, decision) to the next; default 300",
        seconds, 300.0
    )  # fmt: skip
    declare(group, "--rounds N", "number of looks; default no end", count)
    add_policy(group)
    declare(group, "--method NAME", "short for --policy NAME")
    declare(
        group, "--limit K=V", "limit of a plan, such as max_migrations=10; may be given "
        "again", assignment, [], action="append"
    )  # fmt: skip
    declare(
        group, "--apply COMMAND", "carry plans out; with COMMAND by running it with the exported "
        "file after it", nargs="?", const=""
    )  # fmt: skip
    add_shared(group, "--throttle")
    declare(
        group, "--state DIR", "folder of journal, state and lock; default below "
        "~/.local/state/streamplace/watch"
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Watch."""
    return watch(args, SYSTEMS[args.system](args.url.rstrip("/")))


def watch(args: argparse.Namespace, system: System) -> int:
    """Look at a system every so many seconds; a look that fails is reported, the next one is made.

    Raises `InvalidInput`: the first look fails, plans cannot be carried out, or another controller
        is there.
    """
    command = [] if args.apply is None else shlex.split(args.apply)
    if args.apply and not command:
        raise InvalidInput(Problem("--apply", args.apply, "is no command"))
    system.options, system.limits, system.timeout = args.option, args.limit, args.timeout
    system.wait, system.throttle, system.command = args.wait, args.throttle, command
    if args.apply is not None:
        system.check_apply()
    if args.method is not None:
        args.policy = args.method
    folder = Path(args.state) if args.state else _folder(system)
    loop = Loop(system, guarded(args), args.policy, folder, args.apply is not None, step)
    warned: set[str] = set()
    done = 0
    with loop.alone():
        while args.rounds is None or done < args.rounds:
            if done:
                time.sleep(args.every)
            try:
                if (recovered := loop.recover()) is not None:
                    sys.stderr.write(f"{printable(recovered)}\n")
                _print(loop.look(), args)
            except InvalidInput as error:
                # the first look shows that address and options are right; later ones may fail
                if not done:
                    raise
                sys.stderr.write(f"no look: {printable(str(error))}\n")
            for text in [] if system.ledger is None else system.ledger.warnings:
                if text not in warned:
                    sys.stderr.write(f"warning: {printable(text)}\n")
                warned.add(text)
            done += 1
    return 0


def _folder(system: System) -> Path:
    """Return the folder of a system, the same for every policy: one controller watches it."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = "".join(c if c.isalnum() or c in "-." else "_" for c in system.url.rpartition("://")[2])
    mark = hashlib.sha256(system.url.encode()).hexdigest()[:8]
    return Path(base) / "streamplace" / "watch" / f"{system.name}-{name[:40]}-{mark}"


def _print(look: LookOutcome, args: argparse.Namespace) -> None:
    if args.json:
        content = answer(look.decision, look.instance, args.policy)
        content |= {"at": look.at, "verdict": look.verdict, "applied": look.applied}
        print_json(content, indent=None)
    else:
        clock = time.strftime("%H:%M:%S", time.localtime(look.at))
        text = line(look.decision, look.instance)
        sys.stdout.write(printable(f"{clock} {text}: {look.verdict}") + "\n")
    sys.stdout.flush()
