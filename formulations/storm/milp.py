"""``storm-milp``: the placement of Storm's executors with least traffic between nodes, proven.

Executors go to workers, workers to nodes (Aniello et al. 2013, section 3.2.2): exactly min(W, E)
workers a topology, none of them empty or shared, at most S of them on a node of S slots, nodes
within their capacity. Traffic between nodes comes first, of the plans that are best so far the one
with least traffic between slots is taken (section 3.2.1).

By default all vectors of counts of interchangeable executors that a node may hold are listed, and
chosen from by column generation (`formulations.storm.problem`); neither equal executors, nor equal
nodes, nor workers can be exchanged for each other there. Where there are too many of these, slots
have capacities, or limits are set that only the linearised form (`formulations.storm.linear`)
knows, that is solved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.storm.problem import storm_jobs
from formulations.storm.search import Start, feasible_start
from formulations.task_allocation.common import KNOWN_FORMS, LINEAR_FORMS, LINEAR_ONLY
from optim.errors import Problem, UnsuitableMethod
from optim.figures.measures import internode_of
from optim.methods.reduce import emptied_or_any, lowered
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Level, Termination
from optim.rules import limits_set, rules_of
from optim.rules.base import Form
from optim.solvers.mps import PosedModel
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.column_generation.client import Client
    from formulations.column_generation.problem import Counts
    from formulations.storm.problem import StormJobs, StormProblem
    from optim.format.instance import Instance
    from optim.methods.registry import Request

FORMS = ("auto", "patterns", "workers")

MOST_PATTERNS = 4_000_000
"""Vectors of counts that are listed at most; beyond, the linearised form is taken."""

_WORKERS_ONLY = LINEAR_ONLY | rules_of({Form.SLOT_SETS, Form.RESTARTS})
"""Rules that only the linearised form knows."""

_SMALL = 20_000
"""Pairs × nodes up to which the digits of a proof by patterns are completed by the other form."""

_AT_ONCE = 50_000  # Patterns up to which the first plan is there as soon as a heuristic's would be.

_BOUND_SHARE = 0.2
"""Most of the time that the bound by densities may take: a tenth of a second is usual."""


def run(instance: Instance, request: Request) -> Outcome:
    """Solve by patterns where they can be listed, else by the linearised form.

    Raises `UnsuitableMethod`: a component is in no topology, though there are some; a task may go
        to leaving nodes only, whose slots do not count; or no form takes the instance.
    """
    _check_places(instance)
    request, compiling = request.warmed(warm_up)
    instance = lowered(instance, METHOD.honours - {"sets"})
    jobs = storm_jobs(instance, METHOD.name)
    if jobs.fewest.sum() > jobs.slots.sum():  # Σ S ≥ Σ min(W, E) fails: a worker finds no slot
        return Outcome(Termination.INFEASIBLE)
    from formulations.storm.problem import make_problem

    problem = make_problem(instance, jobs)
    reason = _why_not_patterns(instance, jobs, problem, request)
    long = reason is not None or problem.num_states > _AT_ONCE
    start = feasible_start(instance, jobs, request, heuristics=long)
    if reason is None:
        outcome = _by_patterns(instance, jobs, problem, request, start)
    else:
        outcome = _by_workers(instance, jobs, problem, request, start)
        if request.options["form"] == "auto":
            outcome.notes.insert(0, f"linearised form: {reason}")
    outcome.times["compile"] = compiling
    if request.warm_start is not None and (start is None or not start.given):
        outcome.warm_start_accepted = False
        outcome.notes.append("the warm start violates a rule and was not used")
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the linearised model of the first level."""
    from formulations.storm.linear import build_workers, distinguishes_slots

    _check_places(instance)
    instance = lowered(instance, METHOD.honours - {"sets"})
    jobs = storm_jobs(instance, METHOD.name)
    worker_model = build_workers(
        instance, jobs, with_slots=distinguishes_slots(instance, jobs),
        whole_products=request.solver == "cp-sat",
    ).allocation  # fmt: skip
    ids = {"topology": jobs.names, "resource": instance.resources}
    return PosedModel(worker_model.model, "internode_traffic", -worker_model.scale, ids)


def _check_places(instance: Instance) -> None:
    bound = np.flatnonzero(~instance.has_open_node)
    if len(bound):
        task = instance.tasks.ids[int(bound[0])]
        reason = f"needs a staying node for every task, and {task} may go to none"
        remedy = "add one to its allowed nodes, or remove leaving from a node that it may use"
        raise UnsuitableMethod(Problem(METHOD.name, None, reason, remedy))


def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    from formulations.column_generation import driver
    from formulations.column_generation.bound import warm_up as warm_up_covers
    from formulations.storm.split import warm_up as warm_up_splits

    driver.warm_up()
    warm_up_splits()
    warm_up_covers()


def _why_not_patterns(
    instance: Instance, jobs: StormJobs, problem: StormProblem, request: Request
) -> str | None:
    """Say why patterns cannot be listed; ``None`` when they can."""
    from formulations.storm.problem import MAX_TOPOLOGIES

    form = request.options["form"]
    # without the numbers, which are in the solver's units
    limits = limits_set(instance).items()
    beyond = [words.partition(" = ")[0] for name, words in limits if name in _WORKERS_ONLY]
    reason = None
    if form == "workers":
        return "asked for"
    if beyond:
        reason = f"patterns cannot express {', '.join(beyond)}"
    elif instance.flows.local:
        reason = "patterns cannot express local_first streams"
    elif problem.num_states > MOST_PATTERNS:
        reason = f"{problem.num_states:,} patterns are more than {MOST_PATTERNS:,}"
    elif len(problem.exact_jobs) > MAX_TOPOLOGIES:
        reason = f"{len(problem.exact_jobs)} topologies with workers are more than {MAX_TOPOLOGIES}"
    elif np.isfinite(instance.nodes.slot_capacity[jobs.slots > 0]).any():
        reason = "slots have capacities"
    if reason is not None and form == "patterns":
        raise UnsuitableMethod(Problem("--option form", form, reason, "take form=workers or auto"))
    return reason


def _by_patterns(
    instance: Instance,
    jobs: StormJobs,
    problem: StormProblem,
    request: Request,
    start: Start | None,
) -> Outcome:
    from formulations.column_generation import driver
    from formulations.column_generation.client import OPTIMAL, Incumbent
    from formulations.column_generation.integer import Backend
    from formulations.column_generation.problem import Clock
    from formulations.storm.exact import StormClient, best_workers
    from formulations.storm.problem import list_states
    from formulations.storm.split import place, spread_workers
    from optim.kernels.classes import counts_of

    inner, total = problem.inner, instance.total_traffic
    recorder = ProgressRecorder("min", request.progress, request.started)
    clock = Clock(request.deadline, recorder, -inner.scale, total)
    gap = max(OPTIMAL, request.gap or 0.0)
    incumbent = Incumbent(inner, clock, gap=gap, whole=total / inner.scale)
    backend = Backend(request.solver or "highs", request.seed, request.threads)

    def offer(counts: Counts) -> None:
        workers = spread_workers(problem, counts)
        node, slot = place(instance, jobs, problem, counts, workers, quick=True)
        request.offer(node.astype(np.int32), slot.astype(np.int32))

    incumbent.found = offer
    starts = [] if start is None else [start.node.astype(np.int32)]
    counts = [counts_of(problem.groups, problem.classes, n, instance.num_nodes) for n in starts]
    built = request.elapsed()
    parts: Sequence[Client] = ()
    interrupted = False
    try:
        client = StormClient(problem, list_states(problem), clock)
        parts = driver.solve(client, incumbent, backend, counts)
    except KeyboardInterrupt:
        interrupted = True
    recorder.finish()
    outcome = Outcome(incumbent.ended(interrupted=interrupted))
    if outcome.termination is Termination.INFEASIBLE:
        return Outcome(outcome.termination, times={"build": built}, solver=incumbent.solver)
    outcome.trace, outcome.times = recorder.trace, {"build": built}
    outcome.solver = incumbent.solver
    if outcome.termination is Termination.ITERATION_LIMIT:
        outcome.notes.append("more patterns may be in an optimal placement than can be looked at")
    if request.warm_start is not None:
        outcome.warm_start_accepted = start is not None
    slot_bound = None
    if incumbent.counts is not None:
        proven = outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
        if proven:
            dealt = best_workers(problem, parts, incumbent.counts, request)
            workers, chosen, slot_bound = dealt.workers, dealt.counts, dealt.bound
            outcome.notes += [f"traffic between slots: {dealt.note}"] if dealt.note else []
            if dealt.interrupted:
                outcome.termination = Termination.INTERRUPTED
        else:
            chosen = incumbent.counts
            workers = spread_workers(problem, chosen)
        outcome.node, outcome.slot = place(instance, jobs, problem, chosen, workers)
    elif start is not None:
        outcome.node, outcome.slot = start.node, start.slot
    inside = None if slot_bound is None else slot_bound * inner.scale
    gain_bound, of = incumbent.bound * inner.scale, total
    if outcome.termination is Termination.OPTIMAL:
        gain_bound, of = _sharpened(instance, jobs, request, outcome, gain_bound)
    _report_levels(instance, outcome, gain_bound, inside, of)
    return outcome


def _sharpened(
    instance: Instance, jobs: StormJobs, request: Request, outcome: Outcome, bound: float
) -> tuple[float, float]:
    """Return the bound of traffic inside nodes, and of what it leaves digits open.

    Patterns count traffic inside nodes; where nearly all is, the linearised form bounds the rest.
    """
    from formulations.storm.linear import Direct

    total = instance.total_traffic
    if len(instance.pairs.rate) * instance.num_nodes > _SMALL or outcome.node is None:
        return bound, total
    direct = Direct(instance, jobs, request, None)
    direct.outcome.node, direct.outcome.slot = outcome.node, outcome.slot
    direct.sharpen()
    outcome.node, outcome.slot = direct.outcome.node, direct.outcome.slot
    return (bound, total) if direct.bound is None else (direct.bound, direct.of)


def _by_workers(
    instance: Instance,
    jobs: StormJobs,
    problem: StormProblem,
    request: Request,
    start: Start | None,
) -> Outcome:
    from formulations.storm.linear import Direct
    from formulations.storm.problem import density_bound

    left = request.remaining()
    # the bound by densities: with a time limit first, without one only if the solver stopped
    density: float | None = None
    if left is not None:
        density = density_bound(instance, problem, _BOUND_SHARE * left)
    direct = Direct(instance, jobs, request, None if start is None else (start.node, start.slot))
    direct.solve()
    outcome = direct.outcome
    if outcome.termination is Termination.INFEASIBLE and outcome.node is None:
        return outcome
    if left is None and outcome.termination not in (Termination.OPTIMAL, Termination.INTERRUPTED):
        density = density_bound(instance, problem, np.inf)
    bounds = [bound for bound in (direct.bound, density) if bound is not None]
    _report_levels(instance, outcome, min(bounds, default=None), direct.slot_bound, direct.of)
    return outcome


def _report_levels(
    instance: Instance,
    outcome: Outcome,
    gain_bound: float | None,
    slot_bound: float | None,
    of: float | None = None,
) -> None:
    """Turn bounds on traffic that stays together into bounds on traffic between.

    What little of much traffic is between is known to fewer digits than all of it; `of` is the
    traffic of which the first bound leaves digits open.
    """
    from formulations.storm.linear import DIGITS, interslot_of

    total = instance.total_traffic
    of = total if of is None else of
    between = slots = None
    if outcome.node is not None:
        between = internode_of(instance, outcome.node.astype(np.int32))
        slots = interslot_of(instance, outcome.node, outcome.slot)
        outcome.claimed = between
    if gain_bound is not None and np.isfinite(gain_bound):
        outcome.bound = max(0.0, total - gain_bound - DIGITS * of)
        if between is not None:
            outcome.bound = _not_above(outcome.bound, between, of)
    least = None if slot_bound is None else max(0.0, total - slot_bound - DIGITS * total)
    if least is not None and slots is not None:
        least = _not_above(least, slots, total)
    outcome.levels = (
        Level("internode_traffic", "min", between, outcome.bound, "rate"),
        Level("interslot_traffic", "min", slots, least, "rate"),
    )


def _not_above(bound: float, value: float, total: float) -> float:
    """Return a bound that rounding (sums as large as `total`) put above the value, at the value."""
    return value if value < bound <= value + 1e-8 * total else bound


METHOD = Method(
    name="storm-milp",
    family="storm",
    kind="exact",
    objective="internode_traffic",
    run=emptied_or_any(run),
    pose=pose,
    summary="Least traffic between nodes, then between slots, worker counts exact; proven",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3.2.2",
    needs=("tasks", "nodes"),
    forms=KNOWN_FORMS
    | LINEAR_FORMS
    | {Form.SLOTS, Form.SLOT_COUNT, Form.SLOT_SETS, Form.RESTARTS}
    | {Form.LOCAL_FIRST},
    options=(
        Option(
            "form",
            "str",
            "auto",
            "patterns of counts by column generation, or the linearised form (workers)",
            choices=FORMS,
        ),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    promises_feasibility=True,
    takes_warm_start=True,
    starts=("storm-online", "storm-offline", "storm-even"),
    cold=True,
)
