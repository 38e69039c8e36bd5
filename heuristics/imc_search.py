"""``imc-search``: our search for task allocation, on groups of equal tasks or on weighted task
graphs.

Interchangeable tasks are found and grouped. Where that leaves few classes the search works on
counts: constructions, exact re-optimisation of node pairs, kicks, and with a time limit a MILP over
the node contents met. Otherwise, and under a migration budget, it works on tasks: a partition or a
repaired plan, then simulated annealing by moves and swaps. It never returns less than a feasible
start it is given, nor than staying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.registry import Method, Option, Outcome

if TYPE_CHECKING:
    from optim.instance import Instance
    from optim.registry import Request

MOST_CLASSES = 64
"""More classes of tasks than this, and the search works on tasks."""

MOST_NODES = 2000
"""The same for nodes."""


def run(instance: Instance, request: Request) -> Outcome:
    """Search; see the module's page for what is done when."""
    from heuristics.task_allocation.incumbent import Incumbent
    from optim.grouping import node_classes, task_groups

    incumbent = Incumbent(instance, request)
    groups, classes = task_groups(instance), node_classes(instance)
    limits = instance.limits
    budget = limits.max_migrations is not None or limits.max_migration_cost is not None
    few = groups.num_groups <= MOST_CLASSES and len(classes.members) <= MOST_NODES
    by = request.options["by"]
    try:
        if by == "groups" or (by == "auto" and few and not budget):
            from heuristics.task_allocation.group_search import search_groups

            search_groups(instance, groups, classes, incumbent)
        else:
            from heuristics.task_allocation.graph_search import search_tasks

            search_tasks(instance, incumbent)
    except KeyboardInterrupt:
        incumbent.interrupted = True
    return incumbent.outcome()


METHOD = Method(
    name="imc-search",
    family="task allocation",
    kind="search",
    objective="imc_gain",
    run=run,
    summary="Constructions, exact re-optimisation of node pairs, kicks; annealing on large graphs",
    needs=("tasks", "nodes", "traffic"),
    honours=frozenset(
        {
            "capacity",
            "min_load",
            "allowed",
            "leaving",
            "max_migrations",
            "max_migration_cost",
        }
    ),
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
