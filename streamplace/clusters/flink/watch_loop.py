"""``streamplace flink watch``: import, plan, tell; apply where it is worth it, now and then."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.transfer import import_instance
from streamplace.clusters.flink.watch import propose
from streamplace.present.problems import printable

if TYPE_CHECKING:
    import argparse

    from streamplace.clusters.flink.watch import Proposal


def watch(args: argparse.Namespace) -> int:
    """Look at a cluster every so many seconds; a look that fails is told, and the next one made.

    Raises
    ------
    InvalidInput
        The first look fails, or there is nothing to apply plans with.
    """
    command = None if args.apply is None else shlex.split(args.apply)
    if command == []:
        raise InvalidInput(Problem("--apply", args.apply, "is no command"))
    applied: float | None = None
    told: set[str] = set()
    done = 0
    while args.rounds is None or done < args.rounds:
        if done:
            time.sleep(args.every)
        proposal = _look(args, told, first=done == 0)
        done += 1
        if proposal is None:
            continue
        worth = proposal.gain >= args.gain or proposal.breaks
        cool = applied is None or time.monotonic() - applied >= args.cool_down
        act = worth and cool and command is not None and proposal.moved > 0
        _tell(proposal, args.json, _verdict(proposal, worth, cool, act))
        if act and command is not None:
            applied = time.monotonic()
            _apply(command, proposal)
    return 0


def _look(args: argparse.Namespace, told: set[str], first: bool) -> Proposal | None:
    """Import and plan; each warning of the import is printed once."""
    try:
        made = import_instance("flink", [args.url], args.option, timeout=args.timeout)
        for text in made.ledger.warnings:
            if text not in told:
                sys.stderr.write(f"warning: {printable(text)}\n")
            told.add(text)
        found = propose(made.instance, args.method, args.objective, args.time_limit)
    except InvalidInput as error:
        if first:
            raise
        sys.stderr.write(f"no look: {error}\n")
        return None
    if found is None:
        sys.stderr.write("no feasible plan was found\n")
    return found


def _verdict(proposal: Proposal, worth: bool, cool: bool, act: bool) -> str:
    if proposal.moved == 0:
        return "stays"
    if not worth:
        return "not worth a restart"
    if not cool:
        return "worth it; cooling down"
    return "applied" if act else "worth it; not applied (no --apply)"


def _tell(proposal: Proposal, as_json: bool, verdict: str) -> None:
    if as_json:
        content = {**vars(proposal), "sheet": proposal.sheet.to_dict(), "verdict": verdict}
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {proposal}: {verdict}\n")
    sys.stdout.flush()


def _apply(command: list[str], proposal: Proposal) -> None:
    """Run the user's command with the sheet; what it does with quotas is the site's affair."""
    with tempfile.TemporaryDirectory(prefix="streamplace-flink-") as folder:
        sheet = Path(folder) / f"sheet-{proposal.sheet.key}.json"
        sheet.write_text(json.dumps(proposal.sheet.to_dict(), ensure_ascii=False, indent=1) + "\n")
        try:
            done = subprocess.run([*command, str(sheet)], check=False)
        except OSError as error:
            raise InvalidInput(Problem("--apply", command[0], f"cannot be run: {error}")) from None
    if done.returncode:
        sys.stderr.write(f"{command[0]} ended with {done.returncode}\n")
