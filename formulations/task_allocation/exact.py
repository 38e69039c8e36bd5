"""`imc-exact`: proven task allocation by node patterns.

Classes of interchangeable tasks and of identical nodes turn the problem into one over counts; see
`formulations.column_generation` for the steps, docs/methods/task_allocation/imc-exact.md for the
proofs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation import driver
from formulations.column_generation.client import OPTIMAL, Client, Incumbent
from formulations.column_generation.integer import Backend
from formulations.column_generation.pricing import MOST_KINDS, NODE_BUDGET, CellPricer, TreePricer
from formulations.column_generation.problem import Clock, CountRows, problem_of
from formulations.task_allocation.common import (
    KNOWN_FORMS,
    STARTS,
    feasible_among,
    feasible_packing,
    feasible_starts,
)
from optim.errors import Problem, UnsuitableMethod
from optim.kernels.classes import counts_of, deal, node_classes, task_groups
from optim.methods.reduce import emptied_or_any
from optim.methods.registry import Method, Option, Outcome
from optim.rules import Form, limits_set, node_counts, rules_of, without_limits
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.column_generation.problem import Counts, PatternProblem
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.classes import NodeClasses, TaskGroups
    from optim.methods.registry import Request

_FORMS = KNOWN_FORMS | {Form.NODE_COUNT, Form.LOCAL_FIRST}

_NOTE = "local_first streams: proved by the linear model of imc-milp, patterns add up pairs"


def run(instance: Instance, request: Request) -> Outcome:
    """Allocate the tasks of an instance; the method's entry point.

    Raises `UnsuitableMethod`: there are more classes of tasks than ``max_classes``, or too many
        with nodes of their own.
    """
    # where repair finishes the plan: of what is not kept here, nothing distinguishes tasks
    instance = without_limits(instance, limits_set(instance).keys() - rules_of(_FORMS))
    if instance.flows.local:
        from formulations.task_allocation import milp

        milp_request = replace(request, options={"break_symmetry": True})
        outcome = milp.run("imc-milp", instance, milp_request)
        outcome.notes.insert(0, _NOTE)
        return outcome
    request, compiled = request.warmed(driver.warm_up)
    groups, classes = task_groups(instance), node_classes(instance)
    _check_classes(groups, request.options["max_classes"])
    problem = problem_of(instance, groups, classes)
    order = _search_order(problem)
    recorder = ProgressRecorder("max", request.progress, request.started)
    clock = Clock(request.deadline, recorder, problem.scale)
    gap = max(OPTIMAL, request.gap or 0.0)
    incumbent = Incumbent(problem.reordered(order), clock, gap=gap)
    built = request.elapsed()
    backend = Backend(request.solver or "highs", request.seed, request.threads)

    def counts(node: Ints) -> Counts:
        return counts_of(groups, classes, node, instance.num_nodes)[:, order]

    def otherwise() -> Counts | None:
        group_counts = feasible_packing(instance, classes)
        return None if group_counts is None else counts(group_counts)

    def dealt(group_counts: Counts) -> Ints:
        back = np.empty_like(group_counts)
        back[:, order] = group_counts
        near = request.warm_start if request.warm_start is not None else instance.tasks.node
        return deal(groups, classes, back, near)

    incumbent.found = lambda group_counts: request.offer(dealt(group_counts))
    interrupted = False
    try:
        start_nodes = feasible_starts(instance, request, classes)
        if request.time_limit is not None and 2 * groups.num_groups > instance.num_tasks:
            # of unlike tasks the patterns are many, and searches ahead
            family_start = request.start()
            start_nodes += (
                []
                if family_start is None
                else feasible_among(instance, [family_start.node], classes)
            )
        starts = [counts(node) for node in start_nodes]
        client = _client(instance, groups, incumbent, order, otherwise)
        driver.solve(client, incumbent, backend, starts)
    except KeyboardInterrupt:
        interrupted = True
    recorder.finish()
    outcome = _outcome(incumbent, request, interrupted)
    outcome.times = {"build": built, "compile": compiled}
    outcome.trace = recorder.trace
    outcome.notes.append(_size_note(groups, classes))
    outcome.notes += [f"proof: {', '.join(incumbent.stages)}"] if incumbent.stages else []
    if incumbent.counts is not None:
        outcome.node = dealt(incumbent.counts)
    return outcome


def _client(
    instance: Instance,
    groups: TaskGroups,
    incumbent: Incumbent,
    order: Counts,
    otherwise: Callable[[], Counts | None],
) -> Client:
    problem, clock = incumbent.problem, incumbent.clock
    bounds = tuple(node_counts(instance))
    if not bounds:
        pricer = TreePricer(problem, clock, NODE_BUDGET)
        return Client(problem, pricer, clock, otherwise=otherwise)
    rows = CountRows(counts=bounds, one=groups.members[groups.indptr[:-1]][order])
    if rows.num_kinds > MOST_KINDS:
        reason = f"knows up to {MOST_KINDS} kinds of tasks whose nodes are counted, "
        reason += f"and here are {rows.num_kinds}"
        raise UnsuitableMethod(Problem("imc-exact", None, reason, "use imc-search or imc-milp"))
    return Client(problem, CellPricer(problem, clock, NODE_BUDGET, rows), clock, rows, otherwise)


def _search_order(problem: PatternProblem) -> Counts:
    """Order of the classes in the search tree: small ones first, the largest last."""
    # the last class costs nothing, as the value is convex in its count
    traffic = problem.rate @ problem.sizes
    return np.asarray(np.lexsort((-traffic, problem.sizes)))


def _check_classes(groups: TaskGroups, most: int) -> None:
    if groups.num_groups <= most:
        return
    raise UnsuitableMethod(
        Problem(
            "imc-exact",
            None,
            f"needs interchangeable tasks: {len(groups.group)} tasks fall into "
            f"{groups.num_groups} classes, more than the {most} of option max_classes",
            "use imc-search or partition, or raise max_classes and give a time limit",
        )
    )


def _outcome(incumbent: Incumbent, request: Request, interrupted: bool) -> Outcome:
    outcome = Outcome(incumbent.ended(interrupted=interrupted))
    if np.isfinite(incumbent.bound):
        outcome.bound = incumbent.bound * incumbent.clock.scale
    if incumbent.counts is not None:
        outcome.claimed = incumbent.value * incumbent.clock.scale
    if request.warm_start is not None:
        outcome.warm_start_accepted = incumbent.counts is not None
    return outcome


def _size_note(groups: TaskGroups, classes: NodeClasses) -> str:
    return (
        f"classes of equal tasks: {groups.num_groups} of {len(groups.group)} tasks; "
        f"of equal nodes: {classes.num_classes} of {len(classes.members)} nodes"
    )


METHOD = Method(
    name="imc-exact",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    run=emptied_or_any(run),
    summary="Node patterns: column generation, dynamic programming, set partitioning; proven",
    source="ours, for the problem of Chatzistergiou and Viglas 2014, section 2",
    forms=_FORMS,
    options=(
        Option(
            "max_classes",
            "int",
            200,
            "refuse when the tasks fall into more classes of interchangeable tasks",
            minimum=1,
        ),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
)
