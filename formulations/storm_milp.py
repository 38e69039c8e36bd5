"""``storm-milp``: the placement of Storm's executors with least traffic between nodes, proven.

Executors go to workers, workers to nodes (Aniello et al. 2013, section 3.2.2): exactly min(W, E)
workers a topology, none of them empty or shared, at most S of them on a node of S slots, nodes
within their capacity. Traffic between nodes comes first, of the plans that are best so far the one
with least traffic between slots is taken (section 3.2.1).

By default all vectors of counts of interchangeable executors that a node may hold are listed, and
chosen from by column generation (`formulations.storm_patterns`); neither equal executors, nor equal
nodes, nor workers can be exchanged for each other there. Where there are too many of these, or
slots have capacities, the linearised form (`formulations.storm_model`) bounds what it finds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.imc_common import why_nothing_fits
from formulations.storm_jobs import missing_slots, storm_jobs
from formulations.storm_starts import Start, feasible_start
from optim.errors import Problem, UnsuitableMethod
from optim.measures import imc_gain_of
from optim.registry import Method, Option, Outcome
from optim.results import Level, Termination

if TYPE_CHECKING:
    from formulations.storm_jobs import StormJobs
    from formulations.storm_patterns.problem import StormProblem
    from optim.instance import Instance
    from optim.registry import Request

FORMS = ("auto", "patterns", "workers")


def run(instance: Instance, request: Request) -> Outcome:
    """Solve by patterns where they can be listed, else by the linearised form.

    Raises
    ------
    UnsuitableMethod
        A component is in no topology, though there are some; a task may go to leaving nodes only,
        whose slots do not count; or no form takes the instance.
    """
    _check_places(instance)
    request, compiling = request.warmed(warm_up)
    jobs = storm_jobs(instance, METHOD.name)
    reasons = missing_slots(instance, jobs)
    if reasons:
        # what runs may stand without slots, and seem to break no rule
        return Outcome(Termination.INFEASIBLE, reasons=reasons, own_order=True)
    from formulations.storm_patterns.problem import make_problem

    problem = make_problem(instance, jobs)
    why = _why_not_patterns(instance, jobs, problem, request)
    start = feasible_start(instance, jobs, request)
    if why is None:
        outcome = _by_patterns(instance, jobs, problem, request, start)
    else:
        outcome = _by_workers(instance, jobs, request, start)
        if request.options["form"] == "auto":
            outcome.notes.insert(0, f"linearised form: {why}")
    outcome.times["compile"] = compiling
    outcome.own_order = True  # staying or a start may keep no worker count: never by traffic alone
    if request.warm_start is not None and (start is None or not start.given):
        outcome.warm_start_accepted = False
        outcome.notes.append("the warm start breaks a rule and was not used")
    return outcome


def _check_places(instance: Instance) -> None:
    bound = np.flatnonzero(~instance.has_open_node)
    if len(bound):
        task = instance.tasks.ids[int(bound[0])]
        reason = f"needs a staying node for every task, and {task} may go to none"
        remedy = "add one to its allowed nodes, or take the mark off a node it may use"
        raise UnsuitableMethod(Problem(METHOD.name, None, reason, remedy))


def warm_up() -> float:
    """Compile the kernels, or load them from the cache; return the seconds it took."""
    from formulations.storm_patterns import covering, splitting

    began = time.perf_counter()
    splitting.warm_up()
    covering.warm_up()
    return time.perf_counter() - began


def _why_not_patterns(
    instance: Instance, jobs: StormJobs, problem: StormProblem, request: Request
) -> str | None:
    """Say why patterns cannot be listed; ``None`` when they can.

    Raises
    ------
    UnsuitableMethod
        They were asked for.
    """
    from formulations.storm_patterns.rows import MAX_TOPOLOGIES

    form, most = request.options["form"], request.options["most_patterns"]
    why = None
    if form == "workers":
        return "asked for"
    if problem.num_states > most:
        why = f"{problem.num_states:,} patterns are more than the {most:,} of option most_patterns"
    elif jobs.num_jobs > MAX_TOPOLOGIES:
        why = f"{jobs.num_jobs} topologies are more than {MAX_TOPOLOGIES}"
    elif np.isfinite(instance.nodes.slot_capacity[jobs.slots > 0]).any():
        why = "slots have capacities"
    if why is not None and form == "patterns":
        raise UnsuitableMethod(Problem("--option form", form, why, "take form=workers or auto"))
    return why


def _by_patterns(
    instance: Instance,
    jobs: StormJobs,
    problem: StormProblem,
    request: Request,
    start: Start | None,
) -> Outcome:
    from formulations.storm_patterns.closing import close, close_slots
    from formulations.storm_patterns.first_plan import FirstPlan
    from formulations.storm_patterns.master import TOLERANCE, Master
    from formulations.storm_patterns.placing import columns_of, place
    from formulations.storm_patterns.states import list_states

    master = Master(problem, list_states(problem))
    built = request.elapsed()
    first = None if start is None else columns_of(master, start.node)
    known = first if first is not None else FirstPlan(master).find()
    if known is not None:
        master.start_from(known)
    master.run(lambda: request.remaining() == 0.0)
    if master.finished and master.unplaced > TOLERANCE:
        return _infeasible(instance, built)
    chosen = close(master, request, first if first is not None else known)
    if chosen.termination == "infeasible":
        return _infeasible(instance, built, chosen.solver)
    outcome = Outcome(
        Termination(chosen.termination),
        notes=chosen.notes,
        trace=chosen.trace,
        times={"build": built},
        solver=chosen.solver,
        warm_start_accepted=chosen.start_accepted if request.warm_start is not None else None,
    )
    if chosen.counts is not None:
        close_slots(master, request, chosen, request.options["second_level"])
        outcome.node, outcome.slot = place(instance, jobs, problem, chosen)
    elif start is not None:
        outcome.node, outcome.slot = start.node, start.slot
    _tell_levels(
        instance,
        outcome,
        chosen.bound * problem.scale,
        None if chosen.slot_bound is None else chosen.slot_bound * problem.scale,
    )
    return outcome


def _by_workers(
    instance: Instance, jobs: StormJobs, request: Request, start: Start | None
) -> Outcome:
    from formulations.storm_direct import solve_direct

    given = None if start is None else (start.node, start.slot)
    answer = solve_direct(instance, jobs, request, given)
    if answer.termination == "infeasible" and answer.node is None:
        return _infeasible(instance, answer.build_seconds, answer.solver)
    outcome = Outcome(
        Termination(answer.termination),
        answer.node,
        answer.slot,
        notes=answer.notes,
        trace=answer.trace,
        times={"build": answer.build_seconds},
        solver=answer.solver,
        warm_start_accepted=answer.start_accepted if request.warm_start is not None else None,
    )
    _tell_levels(instance, outcome, answer.bound, answer.slot_bound)
    return outcome


def _infeasible(instance: Instance, built: float, solver: str | None = None) -> Outcome:
    return Outcome(
        Termination.INFEASIBLE,
        reasons=why_nothing_fits(instance),
        times={"build": built},
        solver=solver,
    )


def _tell_levels(
    instance: Instance, outcome: Outcome, gain_bound: float | None, slot_bound: float | None
) -> None:
    """Turn bounds on traffic that stays together into bounds on traffic between."""
    from formulations.storm_direct import slot_gain

    total = instance.total_traffic
    between = slots = None
    if outcome.node is not None:
        between = max(0.0, total - imc_gain_of(instance, outcome.node.astype(np.int32)))
        slots = max(0.0, total - slot_gain(instance, outcome.node, outcome.slot))
        outcome.claimed = between
    if gain_bound is not None and np.isfinite(gain_bound):
        outcome.bound = max(0.0, total - gain_bound)
        if between is not None:
            outcome.bound = _not_above(outcome.bound, between, total)
    least = None if slot_bound is None else max(0.0, total - slot_bound)
    if least is not None and slots is not None:
        least = _not_above(least, slots, total)
    outcome.levels = (
        Level("internode_traffic", "min", between, outcome.bound),
        Level("interslot_traffic", "min", slots, least),
    )


def _not_above(bound: float, value: float, total: float) -> float:
    """Return a bound that rounding (sums as large as `total`) put above the value, at the value."""
    return value if value < bound <= value + 1e-8 * total else bound


_OPTIONS: tuple[Any, ...] = (
    Option(
        "form",
        "str",
        "auto",
        "patterns of counts by column generation, or the linearised form (workers)",
        choices=FORMS,
    ),
    Option("second_level", "bool", True, "lower the traffic between slots, too"),
    Option(
        "most_patterns",
        "int",
        4_000_000,
        "vectors of counts that are listed at most; beyond, the linearised form is taken",
        minimum=1,
    ),
    Option(
        "most_products",
        "int",
        2_000_000,
        "the linearised form is refused when pairs × nodes exceed this",
        minimum=1,
    ),
)

METHOD = Method(
    name="storm-milp",
    family="storm",
    kind="exact",
    objective="internode_traffic",
    run=run,
    summary="Least traffic between nodes, then between slots, worker counts exact; proven",
    source="Aniello, Baldoni and Querzoni, DEBS 2013, section 3.2.2",
    needs=("tasks", "nodes"),
    honours=frozenset(
        {"capacity", "min_load", "allowed", "leaving", "slots", "max_tasks_per_slot"}
    ),
    options=_OPTIONS,
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    promises_feasibility=True,
    takes_warm_start=True,
    empties_leaving=True,
)
