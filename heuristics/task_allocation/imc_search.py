"""``imc-search``: our search for task allocation, on groups of equal tasks or on weighted task
graphs.

Interchangeable tasks are found and grouped. Where that leaves few classes the search works on
counts: constructions, exact re-optimisation of node pairs, kicks, and with a time limit a MILP over
the node contents met. Otherwise, and under a migration budget, it works on tasks: a partition or a
repaired plan, then simulated annealing by moves and swaps. It never returns less than a feasible
start it is given, nor than staying.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from optim.methods.lowering import lowered
from optim.methods.registry import Method, Option, Outcome
from optim.moves.board import board_of
from optim.moves.repair import repair
from optim.rules import limits_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request
    from optim.moves.board import Board

_HONOURS = frozenset(
    {
        "capacity",
        "min_load",
        "allowed",
        "leaving",
        "max_migrations",
        "max_migration_cost",
        "max_inflow",
        "copies",
        "sets",
    }
)
_NOT_COUNTED = frozenset({"max_migrations", "max_migration_cost", "max_inflow", "sets"})
"""Rules that counts of equal tasks do not tell; those that capacities tell do not count here."""

MOST_CLASSES = 64
"""More classes of tasks than this, and the search works on tasks."""

MOST_NODES = 2000
"""The same for nodes."""


def run(instance: Instance, request: Request) -> Outcome:
    """Search; see the module's page for what is done when."""
    from formulations.patterns.classes import node_classes, task_groups
    from heuristics.task_allocation.incumbent import Incumbent

    incumbent = Incumbent(instance, request)
    counted = lowered(instance, _HONOURS - {"sets"})
    groups, classes = task_groups(counted), node_classes(counted)
    few = groups.num_groups <= MOST_CLASSES and len(classes.members) <= MOST_NODES
    few = few and not _NOT_COUNTED.intersection(limits_set(counted))
    by = request.options["by"]
    try:
        if by == "groups" or (by == "auto" and few):
            from heuristics.task_allocation.group_search import search_groups

            search_groups(counted, groups, classes, incumbent)
        else:
            search_tasks(instance, incumbent)
        if incumbent.node is None and not incumbent.out_of_time:
            from formulations.task_allocation.milp import find_plan

            found = find_plan(instance, request)
            if found is not None and incumbent.offer(found):
                incumbent.notes = ["the search found no plan, and started from one of imc-milp's"]
                if by != "groups":
                    search_tasks(instance, incumbent)
    except KeyboardInterrupt:
        incumbent.interrupted = True
    return incumbent.outcome()


PROPOSALS = 400
"""Proposals a task at effort 1, within `FEWEST` (for small graphs `MOST_A_TASK`) and `MOST`."""

MOST_A_TASK = 10_000
FEWEST, MOST = 1_000_000, 20_000_000
CHUNK = 250_000
HOT, COLD = 0.45, 0.12
"""First and last temperature in units of the rates' weighted mean, tuned on random, community and
geometric graphs of 10,000 tasks."""

MANY = 5000
"""Up to this many tasks several cuts are made and the best is annealed."""

_PASSES = 50
_SAFETY = 0.8


def search_tasks(instance: Instance, incumbent: Incumbent) -> None:
    """Search task by task; results go to the incumbent."""
    incumbent.compiled(_warm_up())
    for node in _starts(instance, incumbent):
        _take(instance, incumbent, node)
        if incumbent.out_of_time:
            break
    if incumbent.node is None or incumbent.out_of_time:
        return
    board = board_of(instance, incumbent.node)
    _anneal(instance, incumbent, board)
    _descend(instance, board)
    incumbent.offer(board.node.copy())


def _take(instance: Instance, incumbent: Incumbent, node: Ints) -> None:
    """Repair a start if it needs that, descend from it, and offer both."""
    mended = repair(instance, node)
    if not mended.restored:
        if incumbent.node is None:
            incumbent.partial = mended.node
            incumbent.notes = mended.notes
        return
    incumbent.offer(mended.node)
    board = board_of(instance, mended.node)
    _descend(instance, board)
    incumbent.offer(board.node.copy())


def _starts(instance: Instance, incumbent: Incumbent) -> Iterator[Ints]:
    """Yield placements to start from, feasible or not."""
    from heuristics.task_allocation.partition import cuts
    from optim.format.traffic import MAX_PAIRS
    from optim.moves.first_fit import first_fit_decreasing

    yield from incumbent.given_starts()
    chosen = incumbent.request.options["start"]
    flows = instance.flows
    pairs = len(flows.rate) + sum(len(b.sources) * len(b.targets) for b in flows.blocks)
    if chosen == "packing" or pairs > MAX_PAIRS:
        yield first_fit_decreasing(instance)
        return
    tries = 3 if instance.num_tasks <= MANY else 1
    yield from cuts(instance, incumbent.request, engine=chosen, tries=tries)


def _anneal(instance: Instance, incumbent: Incumbent, board: Board) -> None:
    """Run the annealing in chunks, so that clock and keyboard are heard."""
    from optim.moves.anneal import anneal

    effort = incumbent.request.options["effort"]
    least = min(FEWEST, MOST_A_TASK * instance.num_tasks)
    planned = round(effort * min(max(PROPOSALS * instance.num_tasks, least), MOST))
    unit = _unit(instance)
    if planned == 0 or unit <= 0.0:
        return
    done = 0
    cooling = np.log(COLD / HOT)
    while done < planned:
        size = min(CHUNK, planned - done)
        hot = unit * HOT * np.exp(cooling * done / planned)
        cold = unit * HOT * np.exp(cooling * (done + size) / planned)
        began = time.perf_counter()
        anneal(board, size, hot, cold, incumbent.request.seed + done // CHUNK)
        done += size
        remaining = incumbent.request.remaining()
        if remaining is not None:  # cool down in the time there is
            speed = size / max(time.perf_counter() - began, 1e-9)
            planned = min(planned, done + round(_SAFETY * remaining * speed))
        incumbent.recorder.note(phase="anneal")


def _unit(instance: Instance) -> float:
    """Mean rate of a task pair, weighted by rate."""
    flows = instance.flows
    squares = float((flows.rate**2).sum())
    total = float(flows.rate.sum())
    for block in flows.blocks:
        pairs = len(block.sources) * len(block.targets)
        squares += pairs * block.pair_rate**2
        total += pairs * block.pair_rate
    return squares / total if total > 0 else 0.0


def _descend(instance: Instance, board: Board) -> None:
    from optim.moves.descent import descend

    least_gain = 1e-9 * instance.total_traffic / max(1, instance.num_tasks) + 1e-300
    descend(board, np.arange(instance.num_tasks), _PASSES, least_gain)


def _warm_up() -> float:
    """Compile the kernels, or load them from the cache; return the seconds it took."""
    from optim.moves.warm import warm_up

    began = time.perf_counter()
    warm_up()
    return time.perf_counter() - began


METHOD = Method(
    name="imc-search",
    family="task allocation",
    kind="search",
    objective="imc_gain",
    run=run,
    summary="Constructions, exact re-optimisation of node pairs, kicks; annealing on large graphs",
    needs=("tasks", "nodes", "traffic"),
    honours=_HONOURS,
    options=(
        Option(
            "effort",
            "float",
            1.0,
            "multiplies the iteration limits: kicks on groups, proposals on graphs",
            minimum=0.0,
            maximum=1e6,
        ),
        Option(
            "by",
            "str",
            "auto",
            "search on counts of equal tasks, or task by task; chosen by the number of classes",
            choices=("auto", "groups", "tasks"),
        ),
        Option(
            "start",
            "str",
            "metis",
            "what cuts the graph to start from, task by task",
            choices=("metis", "mtkahypar", "packing"),
        ),
    ),
    takes_warm_start=True,
)
