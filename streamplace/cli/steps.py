"""``streamplace steps``: in which order a plan's moves can be made so that nothing breaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from formulations.schedule.steps import steps
from optim.errors import ExitCode, InvalidInput, Problem
from streamplace.cli.import_system import tell, telling
from streamplace.execute.batches import load_steps, steps_text, with_lists, write_batches
from streamplace.present.arguments import (
    add_instance,
    add_json,
    amount,
    count,
    declare,
    load_instance,
    load_plan,
    one_document,
)
from streamplace.present.numbers import duration, number, plural
from streamplace.present.streams import STDOUT, console_beside, print_json, write_document

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from formulations.schedule.steps import Steps
    from optim.format.instance import Instance

SHOWN_BATCHES = 12
SHOWN_MOVES = 6
SHOWN_BLOCKED = 6

EXAMPLES = """\
examples:
  streamplace steps cluster.json plan.json
  streamplace steps cluster.json plan.json --transient --copy-rate 50 --per-node 2 -o steps.json
  streamplace steps cluster.json plan.json --rollback 3     back from after the third batch

docs/steps.md says which rules bind on the way.

exit codes: 0 an order; 2 invalid input; 3 proven that there is none (with --no-parking);
            4 none was found"""


_PER_NODE = {"kafka": 5}
"""Moves of a node at a time, of systems that make many at once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_instance(parser)
    declare(parser, "PLAN", "a plan file")
    declare(
        parser, "--transient", "a moving task occupies both of its nodes until its batch ends"
    )  # fmt: skip
    declare(
        parser, "--copy-rate R", "state per second that a node sends or receives at most, for "
        "durations", amount
    )  # fmt: skip
    declare(parser, "--per-node K", "moves of a node at a time (1; of Kafka 5)", count)
    declare(parser, "--no-parking", "no task may move by way of a third node")
    declare(
        parser, "--rollback K", "the way back to the present placement after the first K batches",
        int
    )  # fmt: skip
    declare(parser, "-o, --output FILE", "the steps as JSON, for run-steps; -: standard output")
    declare(
        parser, "--files SYSTEM", "with -o: also the files of each batch for storm, kafka, flink, "
        "in FILE.run"
    )  # fmt: skip
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Order the moves, print the batches, and write them."""
    one_document(args.json, args.output != STDOUT)
    if args.output == STDOUT and args.files is not None:
        reason, remedy = "needs -o FILE: the files go into FILE.run", "name a file"
        raise InvalidInput(Problem("--files", args.files, reason, remedy))
    instance = load_instance(args.instance)
    sequence = steps(
        instance, load_plan(args.plan), transient=args.transient, copy_rate=args.copy_rate,
        per_node=args.per_node or _PER_NODE.get(instance.labels.get("system", ""), 1),
        parking=not args.no_parking,
    )  # fmt: skip
    if sequence.found:
        sequence = with_lists(instance, sequence)
    if args.rollback is not None and sequence.found:
        sequence = sequence.rollback(args.rollback)
    if args.output is not None and sequence.found:
        write_document(args.output, steps_text(sequence))
        # by the written file, as `run-steps` will read it
        if args.files is not None:
            folder = Path(f"{args.output}.run")
            with telling(args.quiet) as ledger:
                order = load_steps(args.output, instance)
                write_batches(folder, args.files, instance, order, ledger)
            if not args.quiet:
                tell(ledger)
    if args.json:
        print_json(sequence.to_dict())
    else:
        print_steps(console_beside(args.output), instance, sequence)
    if sequence.found:
        return int(ExitCode.OK)
    return int(ExitCode.INFEASIBLE if sequence.proven and args.no_parking else ExitCode.NO_PLAN)


def print_steps(console: Console, instance: Instance, sequence: Steps) -> None:
    """Print the batches, or why there are none."""
    if not sequence.found:
        _print_blocked(console, instance, sequence)
        return
    if not sequence.batches:
        console.print("no moves: the plan is the present placement")
        return
    batches = "1 batch" if len(sequence.batches) == 1 else f"{len(sequence.batches)} batches"
    heading = f"{plural(sequence.num_moves, 'move')} in {batches}"
    if sequence.seconds[0] is not None:
        heading += f", {duration(sum(s or 0.0 for s in sequence.seconds))} of copying"
    console.print(heading, style="bold")
    if sequence.parked:
        names = ", ".join(instance.tasks.ids[t] for t in sequence.parked[:SHOWN_MOVES])
        console.print(f"parked on a third node for a while: {names}", soft_wrap=True)
    for k, batch in enumerate(sequence.batches[:SHOWN_BATCHES], 1):
        moves = [move.to_dict(instance) for move in batch[:SHOWN_MOVES]]
        listed = ", ".join(f"{m['task']} {m['from'] or 'nowhere'} → {m['to']}" for m in moves)
        rest = f" and {len(batch) - SHOWN_MOVES} more" if len(batch) > SHOWN_MOVES else ""
        seconds = sequence.seconds[k - 1]
        spent = "" if seconds is None else f"{duration(seconds):>9}"
        console.print(f"{k:>5}{spent}  {listed}{rest}", soft_wrap=True)
    if sequence.exchanged:
        exchanges = [
            " and ".join(instance.tasks.ids[m.task] for m in step) for step in sequence.exchanged
        ]
        more = f"; {len(exchanges) - SHOWN_MOVES} more" if len(exchanges) > SHOWN_MOVES else ""
        listed = "; ".join(exchanges[:SHOWN_MOVES])
        console.print(f"one step, by copies that are there: {listed}{more}", soft_wrap=True)
    for note in sequence.notes:
        console.print(f"note: {note}", soft_wrap=True)
    if len(sequence.batches) > SHOWN_BATCHES:
        console.print(f"      and {len(sequence.batches) - SHOWN_BATCHES} more; --json lists all")


def _print_blocked(console: Console, instance: Instance, sequence: Steps) -> None:
    proof = "proven: no order without parking" if sequence.proven else "no order found"
    console.print(f"{proof} keeps every rule on the way", style="bold red")
    for blocked in sequence.blocked[:SHOWN_BLOCKED]:
        move = blocked.move.to_dict(instance)
        has = f"needs {number(blocked.needed)}, has {number(blocked.available)}"
        waits = [instance.tasks.ids[other.task] for other in blocked.waits_for[:3]]
        after = f"; waits for {', '.join(waits)} to move" if waits else ""
        console.print(
            f"  {move['task']} {move['from'] or 'nowhere'} → {move['to']}: {blocked.rule} at "
            f"{blocked.where} {has}{after}",
            soft_wrap=True,
        )
