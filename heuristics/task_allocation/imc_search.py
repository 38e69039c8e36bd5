"""``imc-search``: our search for task allocation, on groups of equal tasks or on task graphs.

Interchangeable tasks are found and grouped. Where that leaves few classes the search works on
counts: constructions, exact re-optimisation of node pairs, kicks, and with a time limit a MILP over
the node contents met. Otherwise, and under a migration budget, it works on tasks: a partition or a
repaired plan, then simulated annealing by moves and swaps. What stays of `local_first` streams goes
by counts of receivers: there the walk of `plan-search` is taken. It never returns less than a
feasible start it is given, nor than staying.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optim.errors import Problem, UnsuitableMethod
from optim.methods.reduce import lowered
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules import limits_set, rules_of
from optim.rules.base import LOADS, OF_MOVES, Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_FORMS = LOADS | OF_MOVES | {Form.NODE_FLOOR, Form.SETS, Form.NODE_COUNT, Form.LOCAL_FIRST}
_NOT_COUNTED = rules_of({Form.BUDGET, Form.INFLOW, Form.SETS, Form.NODE_COUNT})
"""Rules that counts of equal tasks do not express; those that capacities express do not count here.
"""

MOST_CLASSES = 64  # More classes of tasks than this, and the search works on tasks.
MOST_NODES = 2000  # The same for nodes.


def run(instance: Instance, request: Request) -> Outcome:
    """Search; see the module's page for what is done when.

    Raises `UnsuitableMethod`: counts of equal tasks are asked for, and there are `local_first`
        streams.
    """
    if instance.flows.local:
        return _walk(instance, request)
    from heuristics.task_allocation.incumbent import Incumbent
    from optim.kernels.classes import node_classes, task_groups

    incumbent = Incumbent(instance, request)
    counted = lowered(instance, rules_of(_FORMS - {Form.SETS}))
    groups, classes = task_groups(counted), node_classes(counted)
    few = groups.num_groups <= MOST_CLASSES and len(classes.members) <= MOST_NODES
    few = few and 2 * groups.num_groups <= instance.num_tasks  # else there is little to count
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

            plan = find_plan(instance, request)
            if plan is not None and incumbent.offer(plan):
                incumbent.notes = [_FROM_MODEL]
                if by != "groups":
                    search_tasks(instance, incumbent)
    except KeyboardInterrupt:
        incumbent.interrupted = True
    return incumbent.outcome()


def _walk(instance: Instance, request: Request) -> Outcome:
    """Search by the walk of all figures, which follows who has a receiver near."""
    from formulations.task_allocation.milp import find_plan
    from heuristics.task_allocation import plan_search

    if request.options["by"] == "groups":
        reason = "counts of equal tasks have no local_first streams"
        raise UnsuitableMethod(Problem("--option by", "groups", reason, "take by=tasks or auto"))
    outcome = plan_search.run(instance, request)
    if outcome.node is None and outcome.termination is Termination.ITERATION_LIMIT:
        plan = find_plan(instance, request)
        if plan is not None:
            outcome = plan_search.run(instance, replace(request, warm_start=plan))
            outcome.notes.append(_FROM_MODEL)
    return outcome


_FROM_MODEL = "the search found no plan, and started from one of imc-milp's"

TRIES = 3  # Cuts to start from, as many as `partition` makes: so the search is never below it.


def search_tasks(instance: Instance, incumbent: Incumbent) -> None:
    """Search task by task; results go to the incumbent."""
    from heuristics.task_allocation.annealing import (
        anneal_in_rounds,
        by_table,
        warm_up_rows,
        warm_up_table,
    )
    from optim.kernels.repair import warm_up

    incumbent.warm(warm_up, warm_up_table if by_table(instance) else warm_up_rows)
    # by table the annealing finds more in the time that a descent along long rows takes
    hasty = incumbent.request.remaining() is not None and by_table(instance)
    for node in _starts(instance, incumbent, 1 if hasty else TRIES):
        incumbent.take(node, descend=not hasty)
        if incumbent.out_of_time:
            break
    if incumbent.node is not None and not incumbent.out_of_time:
        anneal_in_rounds(instance, incumbent)


def _starts(instance: Instance, incumbent: Incumbent, tries: int) -> Iterator[Ints]:
    """Yield placements to start from, feasible or not."""
    from heuristics.task_allocation.partition import cuts
    from optim.format.traffic import MAX_PAIRS
    from optim.kernels.first_fit import packings

    yield from incumbent.given_starts()
    chosen = incumbent.request.options["start"]
    if chosen == "packing" or instance.flows.num_pairs > MAX_PAIRS:
        yield next(packings(instance))
        return
    yield from cuts(instance, incumbent.request, engine=chosen, tries=tries)


METHOD = Method(
    name="imc-search",
    family="task allocation",
    kind="search",
    objective="imc_gain",
    run=run,
    summary="Constructions, exact re-optimisation of node pairs, kicks; annealing on large graphs",
    needs=("tasks", "nodes", "traffic"),
    forms=_FORMS,
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
