"""`throughput-exact`: the most input that any placement carries, by patterns of nodes.

How full a node is depends on its own contents alone, so the highest utilisation is the greatest of
independent values: the least one up to which patterns can cover all tasks and nodes is the optimum,
and that none below it can is its proof. See docs/methods/throughput/throughput-exact.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.column_generation.driver import MOST_WHOLE, SAME, Bottleneck
from formulations.column_generation.driver import warm_up as warm_up_patterns
from formulations.column_generation.integer import Backend
from formulations.column_generation.problem import Clock, Pool, TableRows
from formulations.throughput.problem import (
    KNOWN_FORMS,
    MOVES,
    NEVER,
    NODES,
    STARTS,
    Demand,
    Grouped,
    Listed,
    Room,
    check_moves,
    counted,
    emptied_first,
    finished,
    fullest_last,
    good_starts,
    grouped,
    least_load,
    list_patterns,
    load_of,
    rate_at,
    traffic_level,
)
from optim.errors import Problem, UnsuitableMethod
from optim.figures.load import without_measured
from optim.figures.measures import imc_gain_of
from optim.kernels.classes import counts_of, deal
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import Form
from optim.rules.capacity import refuse_local_first
from optim.util.compiled import warming
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.column_generation.problem import Counts
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request
    from optim.referee import Evaluation, Level


_TRAFFIC_SECONDS = 5.0


def run(instance: Instance, request: Request) -> Outcome:
    """Place the tasks of an instance; the method's entry point.

    Raises `UnsuitableMethod`: links enclose several nodes, tasks are too unlike, or nodes have too
        many patterns.
    """
    request, compiled = request.warmed(warm_up)
    clock = Clock(request.deadline, None)
    backend = Backend(request.solver or "highs", request.seed, request.threads)
    most = int(request.options["most_patterns"])
    if request.objective in (MOVES, NODES):
        return fewest(instance, request, clock, backend, most)
    binding = without_measured(instance)
    counted = grouped(binding, instance, METHOD.name)
    recorder = ProgressRecorder("max", request.progress, request.started)
    classes = counted.classes
    starts, listed = _listed(binding, counted, request, most)
    if listed is None:
        start, low = fullest_last(instance, starts), least_load(instance)
        if start is None or load_of(instance, start) > low * (1 + SAME):
            raise _too_many(most)
        outcome = Outcome(Termination.OPTIMAL, start, times={"compile": compiled})
        return finished(instance, outcome, low)
    built = request.elapsed()
    search = bottleneck(counted, listed, clock, backend, least_load(instance))
    for node in starts:
        search.offer(counts_of(counted.groups, classes, node, instance.num_nodes))
        if search.counts is not None:
            request.offer(_assign_tasks(counted, request, search.counts))
    outcome = Outcome(Termination.OPTIMAL, times={"build": built, "compile": compiled})
    level = None
    try:
        search.relax()
        recorder.note(_rate(search.high), _rate(search.low))
        if not search.closed:
            search.close()
        level = _least_traffic(instance, counted, listed, search)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
    if search.counts is None:
        none = search.low == np.inf
        outcome.termination = Termination.INFEASIBLE if none else _ended(search)
        return outcome
    outcome.node = _assign_tasks(counted, request, search.counts)
    if outcome.termination is not Termination.INTERRUPTED and not search.closed:
        outcome.termination = _ended(search)
    recorder.note(_rate(search.high), _rate(search.low))
    recorder.finish()
    outcome.trace = recorder.trace
    outcome.levels = () if level is None else (level,)
    outcome.notes.append(
        f"{len(listed):,} patterns of {counted.groups.num_groups} groups of tasks on "
        f"{classes.num_classes} classes of nodes"
    )
    return finished(instance, outcome, search.low)


def _listed(
    binding: Instance, counted: Grouped, request: Request, most: int
) -> tuple[list[Ints], Listed | None]:
    """Return starts, and the patterns that are no fuller: few from any start, or of the best."""
    starts: list[Ints] = []
    for searched, few in ((False, min(most, MOST_WHOLE)), (True, most)):
        starts = good_starts(binding, request, searched=searched)
        high = min((load_of(counted.instance, node) for node in starts), default=np.inf)
        listed = counted.patterns(min(high * (1 + 1e-6), NEVER), few, 10 * few)
        if listed is not None:
            break
    return starts, listed


def _least_traffic(
    instance: Instance, counted: Grouped, listed: Listed, search: Bottleneck
) -> Level | None:
    """Of the plans of the best rate found, take the one of least traffic between nodes."""
    if instance.flows.local:  # what stays of these is in no pair of groups
        return None
    count = search.within(search.high)
    if search.counts is None or not 0 < count <= MOST_WHOLE or search.clock.over():
        return None
    at = np.arange(count, dtype=np.int64)
    answer = search.choose(at, counted.problem.gain(listed.counts[at]), _TRAFFIC_SECONDS)
    if answer.counts is not None and search.measure(answer.counts) <= search.high * (1 + SAME):
        before = counted.problem.gain(search.counts).sum()
        if counted.problem.gain(answer.counts).sum() > before:
            search.counts = answer.counts
    node = deal(counted.groups, counted.classes, search.counts, None)
    proven = search.closed and np.isfinite(answer.bound)
    inside = answer.bound * counted.problem.scale
    bound = max(0.0, instance.total_traffic - inside) if proven else None
    return traffic_level(instance, node, bound)


def _assign_tasks(counted: Grouped, request: Request, counts: Counts) -> Ints:
    start, home = request.warm_start, counted.instance.tasks.node
    near = start if start is not None and (home < 0).all() else home
    return deal(counted.groups, counted.classes, counts, near)


def _ended(search: Bottleneck) -> Termination:
    over = search.clock.over()
    return Termination.TIME_LIMIT if over else Termination.ITERATION_LIMIT


def _rate(load: float) -> float | None:
    return rate_at(load) if load < np.inf else None


def _too_many(most: int) -> UnsuitableMethod:
    reason = f"would list more than {most:,} patterns of nodes"
    remedy = "use throughput-search, or raise option most_patterns"
    return UnsuitableMethod(Problem(METHOD.name, None, reason, remedy))


@warming
def warm_up() -> None:
    """Compile, or load from disk, the kernels of `throughput-exact`."""
    warm_up_patterns()
    one, free = np.ones(1), np.full(3, np.inf)
    demand = Demand(one, np.ones((1, 1)), np.zeros((1, 1)), np.zeros((2, 1)))
    node = Room(np.ones(1, dtype=np.int32), one, -one, one, free, barred=False)
    list_patterns(demand, node, 1.0, 10, np.zeros((2, 1), dtype=np.int64), np.zeros(2))


def rows_of(grouped: Grouped, listed: Listed, least_gain: float | None = None) -> TableRows:
    """Write budgets of moves, counts of nodes, and a least traffic inside nodes, as rows."""
    paying = grouped.paying(listed.counts, listed.node_class)
    counts = grouped.node_counts
    rows = np.vstack([(paying @ grouped.price).T, counts.by_contents(listed.counts)])
    upper = np.append(grouped.budget, counts.upper)
    lower = np.full(len(upper), -np.inf)
    if least_gain is not None:
        rows = np.vstack([rows, grouped.problem.gain(listed.counts)])
        lower = np.append(lower, least_gain / grouped.problem.scale)
        upper = np.append(upper, np.inf)
    return TableRows(lower, upper, table=rows)


def bottleneck(
    counted: Grouped,
    listed: Listed,
    clock: Clock,
    backend: Backend,
    low: float = 0.0,
    least_gain: float | None = None,
) -> Bottleneck:
    """Set up the driver: the highest utilisation of a node is the value of its pattern.

    `low`: a utilisation that every placement has at least somewhere.
    `least_gain`: least traffic inside nodes, where one is asked for.
    """

    def measure(counts: Counts) -> float:
        return load_of(counted.instance, deal(counted.groups, counted.classes, counts, None))

    at = np.arange(len(listed), dtype=np.int64)
    pool = Pool(listed.counts, listed.node_class, np.zeros(len(listed)), at)
    rows = rows_of(counted, listed, least_gain)
    return Bottleneck(counted.problem, pool, listed.value, rows, clock, backend, measure, low)


# What is asked of a rate that is given: the fewest moves, or the fewest nodes, that carry it.
#
# Capacities and links are limits then (`optim.figures.load.carrying` writes the rate into them).


def _keeping(
    least: float, objective: str
) -> Callable[[Ints, Evaluation], tuple[float, ...] | None]:
    """Rank plans by moves, or nodes; none that keeps less traffic inside nodes."""

    def rank(_node: Ints, evaluation: Evaluation) -> tuple[float, ...] | None:
        gain, value = evaluation.imc_gain, evaluation.objective(objective)
        if gain is None or value is None or gain < least * (1 - SAME):
            return None
        return (value,)

    return rank


def fewest(
    instance: Instance, request: Request, clock: Clock, backend: Backend, most: int
) -> Outcome:
    """Choose the patterns that keep all limits with the fewest moves, or nodes in use.

    Raises `UnsuitableMethod`: as of `grouped`; or nodes have more patterns than an integer program
        takes.
    """
    objective, method = str(request.objective), "throughput-exact"
    check_moves(instance, objective, method)
    least = request.options["min_imc_gain"]
    if least is not None:
        refuse_local_first(instance, "option min_imc_gain adds up pairs of tasks")
    problem = grouped(instance, instance, method, moves=objective == MOVES, limits=True)
    listed = problem.patterns(1.0, most, 10 * most)
    if listed is None:
        raise _too_many(most)
    usable = problem.classes.node_class >= 0
    for node in good_starts(instance, request, searched=False):
        if least is None or imc_gain_of(instance, node) >= least * (1 - SAME):
            request.offer(node)
    if objective == NODES:
        # fewest nodes in use are most empty patterns
        gain, most_gain = (listed.counts.sum(axis=1) == 0).astype(np.float64), int(usable.sum())
    else:
        # fewest moves are most tasks that stay
        paying = problem.paying(listed.counts, listed.node_class).sum(axis=1)
        gain, most_gain = listed.counts.sum(axis=1) - paying.astype(np.float64), instance.num_tasks
    at = np.arange(len(listed), dtype=np.int64)
    outcome = Outcome(Termination.OPTIMAL, objective=objective, times={"build": request.elapsed()})
    try:
        client = bottleneck(problem, listed, clock, backend, least_gain=least)
        answer = client.choose(at, gain)
    except KeyboardInterrupt:
        outcome.termination = Termination.INTERRUPTED
        return outcome
    if answer.stopped:
        over = clock.over()
        outcome.termination = Termination.TIME_LIMIT if over else Termination.ITERATION_LIMIT
    elif answer.bound == -np.inf:
        outcome.termination = Termination.INFEASIBLE
        return outcome
    if np.isfinite(answer.bound):
        outcome.bound = float(max(0.0, np.ceil(most_gain - answer.bound - 1e-6)))
    if answer.counts is not None:
        outcome.node = deal(problem.groups, problem.classes, answer.counts, instance.tasks.node)
        outcome.claimed = counted(instance, outcome.node, objective)
    outcome.notes.append(f"{len(listed):,} patterns of {problem.groups.num_groups} groups of tasks")
    if least is not None:
        outcome.assumes = ("that keep as much traffic inside nodes as option min_imc_gain says",)
        outcome.rank = _keeping(least * request.scale.rate, objective)
    return outcome


METHOD = Method(
    name="throughput-exact",
    family="throughput",
    kind="exact",
    objective="sustainable_rate",
    objectives=(MOVES, NODES),
    run=emptied_first(run),
    summary="Node patterns by their utilisation: the least threshold up to which they cover all",
    source="ours; the objective of Karimov et al., ICDE 2018",
    needs=("tasks", "nodes", "bounded_rate"),
    forms=KNOWN_FORMS | {Form.NODE_COUNT},
    options=(
        Option("most_patterns", "int", 1_000_000, "refuse beyond so many of a class", minimum=1),
        Option(
            "min_imc_gain",
            "float",
            None,
            "with --objective migrations or nodes_used: the least "
            "traffic inside nodes that plans keep",
            minimum=0,
            unit="rate",
        ),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
)
