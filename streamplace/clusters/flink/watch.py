"""``streamplace watch flink``: import, plan, print; apply where it is worth it, now and then."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import InvalidInput, Problem
from optim.figures.catalogue import find_objective
from optim.format.plan import Plan
from optim.methods.solve import solve
from optim.referee.evaluate import evaluate
from streamplace.clusters.exchange.placements import places_of_plan
from streamplace.clusters.exchange.transfer import import_instance
from streamplace.clusters.flink.exporter import Sheet, sheet_of
from streamplace.present.console import printable
from streamplace.present.streams import print_json

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from optim.format.tables import Ints


@dataclass(frozen=True)
class Proposal:
    """A plan for a cluster as it is now.

    Attributes
    ----------
    objective, now, then
        What was optimised, its value for the current placement, and for the plan.
    gain
        The improvement as a share of the current value; 0 where there is none.
    breaks
        Whether the current placement breaks a rule, which a plan mends whatever it gains.
    moved, total
        Subtasks that would run on another task manager, and all.
    sheet
        To carry it out.
    """

    objective: str
    now: float
    then: float
    gain: float
    breaks: bool
    moved: int
    total: int
    sheet: Sheet

    def __str__(self) -> str:
        """Return it as a line."""
        mends = ", mends a broken rule" if self.breaks else ""
        return (
            f"{self.objective} {self.now:.6g} now, {self.then:.6g} planned "
            f"({self.gain:+.1%}{mends}); {self.moved} of {self.total} move; plan {self.sheet.key}"
        )


def propose(
    instance: Instance, method: str | None, objective: str | None, time_limit: float
) -> Proposal | None:
    """Solve for a cluster as it was imported; ``None`` where there is no feasible plan."""
    result = solve(instance, method, objective=objective, time_limit=time_limit)
    if result.plan is None or not result.feasible or result.objective is None:
        return None
    name = result.objective.name
    current = evaluate(instance, Plan.from_indices(instance, instance.tasks.node))
    before, after = current.objective(name), result.objective.value
    if before is None or after is None:
        return None
    gain = gain_of(before, after, str(find_objective(name).sense))
    moved = count_moves(instance, result.plan.node_indices(instance))
    sheet = sheet_of(instance, places_of_plan(instance, result.plan))
    broken, total = not current.feasible, instance.num_tasks
    return Proposal(name, before, after, gain, broken, moved, total, sheet)


def gain_of(before: float, after: float, sense: str) -> float:
    """Return by which share of itself a value gets better: 0 where it does not, 1 from nothing."""
    better = after - before if sense == "max" else before - after
    if better <= 0:
        return 0.0
    return better / abs(before) if before else 1.0


def count_moves(instance: Instance, node: Ints) -> int:
    """Return how many tasks move in counts: tasks of an operator that change places do not."""
    moved = 0
    for o in range(instance.num_operators):
        tasks = instance.tasks_of(o)
        now = Counter(instance.tasks.node[tasks].tolist())
        then = Counter(node[tasks].tolist())
        moved += sum((then - now).values())
    return moved


def watch(args: argparse.Namespace) -> int:
    """Look at a cluster every so many seconds; a look that fails is reported, the next one made.

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
        _print(proposal, args.json, _verdict(proposal, worth, cool, act))
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


def _print(proposal: Proposal, as_json: bool, verdict: str) -> None:
    if as_json:
        content = {**vars(proposal), "sheet": proposal.sheet.to_dict(), "verdict": verdict}
        print_json(content, indent=None)
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
