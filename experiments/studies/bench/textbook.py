"""The textbook's models, passed to a solver as they are: what a reader would write first.

A binary a task and node, every task on one node, capacities and budgets, products of pairs; no
symmetry is broken, nothing is started from, no bound of ours is given. The load distance is a
variable above all distances; nodes in use have a binary each; the rate is bisected, a feasibility
problem a step.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from experiments.studies.bench.answers import Asker, guarded
from experiments.studies.bench.scores import Outcome, Point
from formulations.task_allocation.model import AllocationModel, build
from optim import Instance, Plan
from optim.figures.load import carrying
from optim.figures.measures import node_loads
from optim.format.tables import Ints
from optim.methods.registry import get_method
from optim.methods.run import view_of
from optim.referee import evaluate_indices
from optim.solvers import LinearSolution, capabilities, solve_linear

OBJECTIVES = (
    "imc_gain", "internode_traffic", "load_distance", "sustainable_rate", "nodes_used",
    "used_capacity",
)  # fmt: skip
"""What there is a model of here."""
_CONTINUOUS = ("load_distance",)  # Those whose model has continuous variables.
_FIRST, _CLOSE = 1.0, 1e-6


def asker(solver: str, limit: float) -> Asker:
    """Ask a solver by the textbook's model of the objective."""

    def work(instance: Instance, objective: str, outcome: Outcome, began: float) -> None:
        solved = _bisect_rate if objective == "sustainable_rate" else _solve
        solved(instance, objective, solver, limit, began, outcome)

    return guarded(work)


def objectives(solver: str) -> tuple[str, ...]:
    """Return the objectives that a solver has a model of."""
    if not capabilities(solver).integer_only:
        return OBJECTIVES
    return tuple(name for name in OBJECTIVES if name not in _CONTINUOUS)


def model_of(instance: Instance, objective: str, *, whole: bool = False) -> AllocationModel:
    """Return the textbook's model of an instance; its objective is to be maximised.

    `instance`, `objective`: what to place, and one of `OBJECTIVES`; for the rate the model of any
    plan. `whole`: declare products integer, for a solver that has no continuous variables.
    """
    traffic = objective in ("imc_gain", "internode_traffic")
    instance = view_of(get_method("imc-milp"), instance).instance  # its rules as linear rows
    soft = objective == "load_distance"  # what stays on leaving nodes counts in it
    allocation = build(
        instance, break_symmetry=False, whole_products=whole, products=traffic, drain=not soft
    )
    if traffic:
        z, rate = allocation.traffic()
        allocation.model.set_objective(z, rate / allocation.scale)
    elif objective == "load_distance":
        _add_distance(instance, allocation)
    elif objective in ("nodes_used", "used_capacity"):
        _add_used(instance, allocation, weighted=objective == "used_capacity")
    return allocation


def _add_distance(instance: Instance, allocation: AllocationModel) -> None:
    """d is above the distance of each node's load from its share: ``±(load_n - share_n) ≤ d``."""
    load = instance.tasks.load[:, 0]
    present = node_loads(instance, np.full(instance.num_tasks, -1, dtype=np.int32))[:, 0]
    # share_n = w_n Σ load / Σ w over the nodes that stay
    stay, weight = instance.open_nodes, instance.nodes.weight
    share = weight * (present.sum() + load.sum()) / weight[stay].sum()
    # coefficients about 1: solvers' tolerances are absolute
    unit = max(float(share.max()), 1e-300)
    d = allocation.model.add_variables("distance", 1, upper=np.inf, objective=-1.0).indices
    columns, n = np.arange(len(allocation.task)), instance.num_nodes
    # a row a node: Σ load x - d ≤ share, and the same with both signs turned
    rows = np.concatenate([allocation.node, np.arange(n)])
    where = np.concatenate([columns, np.repeat(d, n)])
    for sign in (1.0, -1.0):
        values = np.concatenate([sign * load[allocation.task] / unit, -np.ones(n)])
        most = sign * (share - present) / unit
        bounded = np.ones(n, dtype=bool) if sign > 0 else stay  # leaving nodes may be empty
        most = np.where(bounded, most, np.inf)
        allocation.model.add_rows("distance", -np.inf, most, rows, where, values, num_rows=n)


def _add_used(instance: Instance, allocation: AllocationModel, *, weighted: bool) -> None:
    """y is 1 for a node in use: ``x_tn ≤ y_n``."""
    n = instance.num_nodes
    capacity = instance.nodes.capacity[:, 0]
    worth = capacity / capacity.max() if weighted else np.ones(n)
    y = allocation.model.add_variables("used", n, upper=1.0, integer=True, objective=-worth).indices
    columns = np.arange(len(allocation.task))
    allocation.model.add_rows(
        "used", -np.inf, 0.0, np.concatenate([columns, columns]),
        np.concatenate([columns, y[allocation.node]]),
        np.concatenate([np.ones(len(columns)), -np.ones(len(columns))]), num_rows=len(columns),
    )  # fmt: skip


def _solve(
    instance: Instance, objective: str, solver: str, limit: float, began: float, outcome: Outcome
) -> None:
    allocation = model_of(instance, objective, whole=solver == "cp-sat")
    built = time.perf_counter() - began
    answer = _ask_solver(allocation, solver, limit - built)
    if answer.x is None:
        outcome.problem = f"{solver}: {answer.termination}"
        return
    node = allocation.place(answer.x)
    outcome.answers.append((time.perf_counter() - began, Plan.from_indices(instance, node)))
    value = getattr(evaluate_indices(instance, node, None, objective), objective)
    outcome.reported = _trajectory(answer.trace, answer.objective, value, built)


def _ask_solver(allocation: AllocationModel, solver: str, remaining: float) -> LinearSolution:
    """Ask a solver; Ctrl-C, which it takes for its own end, ends it all."""
    answer = solve_linear(allocation.model, solver, time_limit=max(0.1, remaining))
    if str(answer.termination) == "interrupted":
        raise KeyboardInterrupt
    return answer


def _trajectory(trace: Any, last: float | None, value: float | None, built: float) -> list[Point]:
    """Put the solver's incumbents into the objective's unit, by the last one's known value."""
    # exact where the model's objective is a multiple of the figure
    if not last or not value:
        return []
    return [Point(built + s, value / last * v) for s, v, _ in trace if v is not None]


def _bisect_rate(
    instance: Instance, objective: str, solver: str, limit: float, began: float, outcome: Outcome
) -> None:
    """Close in on the highest rate that a plan carries; each plan found is an answer."""
    low, high, factor = 0.0, np.inf, _FIRST
    while high - low > _CLOSE * high or not np.isfinite(high):
        remaining = limit - (time.perf_counter() - began)
        if remaining <= 0.05 or factor < 1e-6 or factor > 1e6:
            break
        scaled = carrying(instance, factor)
        allocation = model_of(scaled, objective, whole=solver == "cp-sat")
        remaining = limit - (time.perf_counter() - began)
        answer = _ask_solver(allocation, solver, remaining)
        node: Ints | None = None
        if answer.x is not None:
            node = allocation.place(answer.x)
            plan = Plan.from_indices(instance, node)
            outcome.answers.append((time.perf_counter() - began, plan))
            rate = evaluate_indices(instance, node, None, objective).sustainable_rate
            # the plan found may carry more than was asked for
            low = max(low, factor, rate or 0.0)
        elif str(answer.termination) == "infeasible":
            high = factor
        else:
            outcome.problem = f"{solver}: {answer.termination} at {factor:g} × the input"
            break
        # doubled until one is infeasible, then halved between both
        factor = 2 * low if not np.isfinite(high) else (low + high) / 2
    if not outcome.answers and outcome.problem is None:
        outcome.problem = f"{solver}: no plan carries anything"
