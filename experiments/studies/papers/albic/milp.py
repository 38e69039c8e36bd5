"""The MILP on its own, set-ups C and I: over solving time, budgets and rounds of a scale-in.

No sweeps: solvers get the full model alone, their traces are read at moments, and rounds of a
scale-in and periods start where the plan before left the key groups.
"""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.papers.albic.runs import Row, follow, placed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.rebalancing.problem import Floats
    from optim.format.instance import Instance

SOLVERS = ("cbc", "highs", "scip")
INTEGRATED, FIRST = "integrated", "scale-in first"

GAP = 6.0
"""Percent of the mean load within which the balancing after a scale-in need not go on proving."""

GOOD = 10.0
"""Load distance that is called good: ALBIC's own maxLD."""


def solving(seed: int, nodes: int, moves: int, way: str, limit: float) -> Row:
    """Load distance of Flux, of the search, or of one solver cold with one thread.

    With a solver stands the processor time that it had, building the model included: on a shared
    machine less than its limit (s).
    """
    from experiments.generators import generate
    from formulations.rebalancing.balance.model import build_full
    from formulations.rebalancing.problem import balance_problem
    from optim import solve
    from optim.solvers import solve_linear

    made = generate("cluster", nodes=nodes, varies=40.0, max_migrations=moves, seed=seed)
    if way in ("flux", "balance-search"):
        found = solve(made, way, seed=seed).evaluation
        return {"cpu": None, "distance": found.load_distance if found else None, "limit": limit}
    model = build_full(balance_problem(made)).model
    began = _processor()
    solution = solve_linear(model, way, time_limit=limit, abs_gap=1e-3, seed=seed)
    return {"cpu": _processor() - began, "distance": solution.objective, "limit": limit}


def _processor() -> float:
    """Seconds of processor time that this process and those it has ended have had."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def budgets(seed: int, varies: float, moves: int) -> Row:
    """Least load distance found, by budget and by how much the nodes vary."""
    from experiments.generators import generate
    from optim import solve

    made = generate("cluster", nodes=20, varies=varies, max_migrations=moves, seed=seed)
    found = solve(made, "balance-search", seed=seed).evaluation
    assert found is not None
    return {"distance": found.load_distance}


def scale_in(seed: int, overloaded: int, way: str) -> list[Row]:
    """Rounds of a scale-in at three tenths of the paper's size.

    The integrated way is the MILP's model by balance-search, which is as even in a tenth of the
    time; solvers that stop early leave key groups on leaving nodes.
    """
    from experiments.generators import generate

    made = generate(
        "scale_in", nodes=18, leaving=3, max_migrations=6, overloaded=overloaded, seed=seed
    )
    first = way == FIRST
    given: dict[str, Any] = {"time_limit": 1.0, "gap": GAP} if first else {}
    method = "scale-in-first" if first else "balance-search"
    return run_rounds(made, method, 20, stop=True, **given)


def periods(seed: int, moves: int, count: int) -> list[Row]:
    """Follow Real Job 1's shape, with synthetic loads, under a budget of moves."""
    rows = _followed(seed, moves, count, rest="outside")
    return [{key: row[key] for key in ("period", "distance", "migrations")} for row in rows]


def overloads(seed: int, moves: int) -> Row:
    """Seconds in which a node is above its capacity, of 2,000 with loads that vary by the second.

    A key group's load in a second is lognormal about its mean (σ 0.5); nodes are used to 75 %.
    """
    from experiments.generators import generate
    from optim import solve
    from optim.figures.measures import load_distance_of

    made = generate("cluster", nodes=20, varies=40.0, mean=75.0, max_migrations=moves, seed=seed)
    plan = solve(made, "balance-search", seed=seed).plan
    assert plan is not None
    node = plan.node_indices(made)
    rng = np.random.default_rng(seed)
    factor = rng.lognormal(-0.125, 0.5, (2_000, made.num_tasks))
    loads = np.zeros((2_000, made.num_nodes))
    for at in range(made.num_nodes):
        loads[:, at] = (factor * made.tasks.load[:, 0])[:, node == at].sum(axis=1)
    return {
        "distance": load_distance_of(made, node),
        "overload seconds": int(np.count_nonzero(loads > 100.0)),
    }


TIME = "solving time (s)"


def solving_times(
    nodes: int, budgets: list[int], place: int, by: str, seconds: list[float]
) -> list[Row]:
    """Load distances of Figure 2, 3 or 4 at moments of solving.

    Parameters
    ----------
    nodes, budgets
        Size of the cluster (20 key groups a node), and maxMigrations of its settings.
    place
        Of the setting: varies 40 and 60 %, each with both budgets.
    by
        ``ours``, or a solver ``cold`` or ``warm``.
    seconds
        At which they are read.
    """
    from experiments.generators import generate

    varies, budget = tuple(product((40.0, 60.0), budgets))[place]
    made = generate("cluster", nodes=nodes, varies=varies, max_migrations=budget)
    setting = {"place": place, "setting": f"varies {varies:g} %, {budget} moves"}
    solver, _, start = by.partition(", ")
    rows = traced(made, solver, start == "warm", seconds) if start else quick_ways(made, seconds)
    return [{**row, **setting} for row in rows]


def quick_ways(instance: Instance, seconds: Sequence[float]) -> list[Row]:
    """Flux, which takes no time; balance-search and its proven bound, read at each time."""
    from optim import solve

    flux = solve(instance, "flux").evaluation
    search = solve(instance, "balance-search", time_limit=seconds[-1])
    levels = [flux.load_distance if flux is not None else None] * len(seconds)
    values = _read(search.trace, seconds, 1)
    # the trace ends where the proof does, and has the first level only
    values[-1] = search.objective.value if search.objective else None
    bounds = _read(search.trace, seconds, 2)
    ways = {"Flux": levels, "balance-search": values, "proven bound": bounds}
    return [
        {"way": way, TIME: moment, "distance": value}
        for way, known in ways.items()
        for moment, value in zip(seconds, known, strict=True)
    ]


def _read(trace: Sequence[Any], seconds: Sequence[float], place: int) -> list[float | None]:
    """Return the last entry of a trace known at each time."""
    known = []
    for moment in seconds:
        values = [point[place] for point in trace if point[0] <= moment]
        known.append(next((value for value in reversed(values) if value is not None), None))
    return known


def traced(instance: Instance, solver: str, warm: bool, seconds: Sequence[float]) -> list[Row]:
    """Solve the paper's model once and read its trace at each time."""
    from formulations.rebalancing.balance.model import build_full
    from formulations.rebalancing.balance.search import search_balance
    from formulations.rebalancing.problem import balance_problem
    from optim.solvers import solve_linear

    problem = balance_problem(instance)
    built = build_full(problem)
    start: Floats | None = None
    if warm:
        found = search_balance(problem)
        start = None if found is None else built.write(found)
    solution = solve_linear(
        built.model, solver, time_limit=seconds[-1], abs_gap=1e-3, warm_start=start
    )
    way = f"{solver}, {'warm' if warm else 'cold'}"
    values = _read(solution.trace, seconds, 1)
    values[-1] = solution.objective if values[-1] is None else values[-1]
    return [
        {"way": way, TIME: moment, "distance": value}
        for moment, value in zip(seconds, values, strict=True)
    ]


ROUND, OVERLOADED = "round", "overloaded nodes"
FINISHED = "integrated, drained at the end"


def scale_in_rounds(overloaded: int, way: str, nodes: int, leaving: int, rounds: int) -> list[Row]:
    """Plan rounds until the leaving nodes are empty; no time limits, so that a run repeats."""
    from experiments.generators import generate

    made = generate(
        "scale_in", nodes=nodes, leaving=leaving, overloaded=overloaded, max_migrations=20
    )
    given: Row = {"gap": GAP} if way == FIRST else {}
    method = "scale-in-first" if way == FIRST else "balance-search"
    rows = run_rounds(made, method, rounds, finish=way == FINISHED, **given)
    return [{"way": way, OVERLOADED: overloaded, **row} for row in rows]


def run_rounds(
    instance: Instance,
    method: str,
    rounds: int,
    *,
    finish: bool = False,
    stop: bool = False,
    **given: Any,
) -> list[Row]:
    """Plan again and again from what the last plan left; loads stay as they are.

    With `finish`, a round that can empty the leaving nodes does so, and balances with what is left.
    With `stop`, a round that finds them empty and the load distance at most ten is the last.
    """
    from optim import solve
    from optim.figures.measures import load_distance_of, node_loads

    node, leaving = instance.tasks.node, instance.nodes.leaving
    received = np.zeros(instance.num_nodes)
    rows: list[Row] = []
    moved = 0
    for number in range(rounds + 1):
        now = placed(instance, node)
        left = float(node_loads(now, node)[leaving, 0].sum())
        distance = float(load_distance_of(now, node) or 0.0)
        rows.append({ROUND: number, "distance": distance, "left": left, "moves": moved})
        if number == rounds or (stop and left <= 0 and distance <= GOOD):
            break
        last = finish and 0 < int(leaving[node].sum()) <= (instance.limits.max_migrations or 0)
        by = "scale-in-first" if last else method
        options: dict[str, Any] = {"gap": GAP} if last else dict(given)
        if method == "scale-in-first":
            dealt = zip(instance.nodes.ids, received.tolist(), strict=True)
            options["received"] = ";".join(f"{name}={load!r}" for name, load in dealt if load > 0)
        plan = solve(now, by, seed=number, **options).plan
        before, node = node, node if plan is None else plan.node_indices(now)
        moving = np.flatnonzero(before != node)
        moved = len(moving)
        off = moving[leaving[before[moving]]]
        np.add.at(received, node[off], instance.tasks.load[off, 0])
    return rows


PERIODS = 13
"""The first is where the load distance starts, and is left out of the figures."""


def budget_periods(seed: int, budget: int) -> list[Row]:
    """Follow the same periods with each budget, of 300 key groups."""
    name = "unrestricted" if budget == 300 else str(budget)
    return [{**row, "maxMigrations": name, "seed": seed} for row in _followed(seed, budget)]


def _followed(seed: int, budget: int, count: int = PERIODS, **given: Any) -> list[Row]:
    from experiments.studies.papers.albic.built import joint_periods

    made = joint_periods(
        seed, count, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        max_migrations=budget, **given,
    )  # fmt: skip
    return follow(made, ("MILP", "balance-search", {}))
