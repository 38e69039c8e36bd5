"""What other objectives would have given, where `solve` chose the sustainable rate by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from experiments.cli.console import plain_table
from experiments.cli.tables import figure
from optim.errors import StreamplaceError
from optim.figures.catalogue import BY_NAME

if TYPE_CHECKING:
    from rich.console import Console

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.referee.result import Result

_SECONDS = 2.0
_SHOWN = ("sustainable_rate", "imc_gain", "load_distance")


def print_instead(console: Console, instance: Instance, result: Result) -> None:
    """Print a line each of the plan, of collocation and of balance; nothing of other objectives."""
    told = result.objective is not None and result.objective.name == "sustainable_rate"
    if not told or result.plan is None:
        return
    from optim.referee.evaluate import evaluate_indices

    table = plain_table(["", *(BY_NAME[name].label for name in _SHOWN)])
    plans = {
        "this plan: greatest rate": result.plan.node_indices(instance),
        "collocation": _collocated(instance),
        "balance": _balanced(instance),
    }
    for words, node in plans.items():
        if node is None or node.min(initial=0) < 0:
            continue
        found = evaluate_indices(instance, node)
        values = [(BY_NAME[name].unit, getattr(found, name)) for name in _SHOWN]
        table.add_row(words, *(figure(instance, unit, value) for unit, value in values))
    console.print()
    console.print(table)


def _collocated(instance: Instance) -> Ints | None:
    """Return a placement of much traffic inside, on capacities that hold the load."""
    from heuristics.throughput.starts import eased
    from optim.methods.solve import solve

    roomy = eased(instance)
    try:
        plan = solve(roomy, "imc-search", time_limit=_SECONDS).plan
    except StreamplaceError:  # limits that it does not keep: the line is left out
        return None
    return None if plan is None else plan.node_indices(roomy)


def _balanced(instance: Instance) -> Ints | None:
    """Return a placement of little load distance: tasks by decreasing load, to the emptiest."""
    from heuristics.throughput.starts import spread
    from optim.figures.rate import without_measured

    return np.asarray(spread(without_measured(instance), instance))
