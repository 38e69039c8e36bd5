"""Blocks of output that several subcommands print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamplace.present.numbers import plural
from streamplace.present.tables import (
    SHOWN_MOVES,
    SHOWN_NODES,
    SHOWN_VIOLATIONS,
    carries_line,
    drain_line,
    hidden_nodes,
    move_table,
    node_table,
    violation_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from optim.format.instance import Instance
    from optim.referee.evaluation import Evaluation
    from optim.rules.violation import Violation


def print_undrained(console: Console, evaluation: Evaluation | None) -> None:
    """Print, before all else, that leaving nodes keep tasks."""
    line = drain_line(evaluation)
    if line is not None:
        console.print(line, soft_wrap=True)


def print_carries(console: Console, evaluation: Evaluation | None) -> None:
    """Print what is full first as the input grows."""
    line = carries_line(evaluation)
    if line is not None:
        console.print(line, soft_wrap=True)


def print_violations(console: Console, violations: Sequence[Violation]) -> None:
    """Print what a plan breaks, with the figures."""
    if not violations:
        return
    console.print(violation_table(violations))
    _print_rest(console, len(violations) - SHOWN_VIOLATIONS, "violation")


def print_reasons(console: Console, reasons: Sequence[Violation]) -> None:
    """Print why no plan can exist."""
    console.print("\ninfeasible: no plan can exist", style="bold red")
    print_violations(console, reasons)


def print_nodes(console: Console, instance: Instance, evaluation: Evaluation) -> None:
    """Print the load of the nodes."""
    table = node_table(instance, evaluation, console)
    if table is None:
        return
    console.print()
    console.print(table)
    hidden = hidden_nodes(instance)
    if hidden:
        rest = plural(hidden, "more node")
        console.print(f"… and {rest}; the {SHOWN_NODES} fullest are shown", style="dim")


def print_moves(console: Console, moves: Sequence[tuple[str, str, str, float]]) -> None:
    """Print the first moves: (task, from, to, cost)."""
    if not moves:
        return
    console.print(move_table(moves))
    _print_rest(console, len(moves) - SHOWN_MOVES, "move")


def _print_rest(console: Console, rest: int, noun: str) -> None:
    if rest > 0:
        console.print(f"… and {plural(rest, f'more {noun}')} (--json lists all)", style="dim")
