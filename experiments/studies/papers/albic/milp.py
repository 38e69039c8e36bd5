"""The MILP on its own, set-ups C and I: over solving time, budgets and rounds of a scale-in.

No sweeps: solvers get the full model alone, their traces are read at moments, and rounds of a
scale-in and periods start where the plan before left the key groups.
"""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.papers.albic.runs import Policy, Row, follow, frame, kept, placed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from formulations.rebalancing.problem import Floats
    from optim.format.instance import Instance

SECONDS = 5.0
"""Time limit of a solver, cold and with one thread; what it has of a processor is measured."""

SOLVERS = ("cbc", "highs", "scip")
INTEGRATED, FIRST = "integrated", "scale-in first"

GAP = 6.0
"""Percent of the mean load within which the balancing after a scale-in need not go on proving."""

GOOD = 10.0
"""Load distance that is called good: ALBIC's own maxLD."""


def solving(seed: int, nodes: int, moves: int, way: str, seconds: float = SECONDS) -> list[Row]:
    """Load distance of Flux, of the search, or of one solver cold with one thread.

    With a solver stands the processor time that it had, building the model included: on a shared
    machine less than its limit.
    """
    from experiments.generators import generate
    from formulations.rebalancing.balance.model import build_full
    from formulations.rebalancing.problem import balance_problem
    from optim import solve
    from optim.solvers import solve_linear

    made = generate("cluster", nodes=nodes, varies=40.0, max_migrations=moves, seed=seed)
    row: Row = {"seed": seed, "nodes": nodes, "moves": moves, "way": way}
    if way in ("flux", "balance-search"):
        found = solve(made, way, seed=seed).evaluation
        return [{**row, "cpu": None, "distance": found.load_distance if found else None}]
    model = build_full(balance_problem(made)).model
    began = _processor()
    solution = solve_linear(model, way, time_limit=seconds, abs_gap=1e-3, seed=seed)
    return [{**row, "cpu": _processor() - began, "distance": solution.objective}]


def _processor() -> float:
    """Seconds of processor time that this process and those it has ended have had."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def budgets(seed: int, varies: float, moves: int) -> list[Row]:
    """Least load distance found, by budget and by how much the nodes vary."""
    from experiments.generators import generate
    from optim import solve

    made = generate("cluster", nodes=20, varies=varies, max_migrations=moves, seed=seed)
    found = solve(made, "balance-search", seed=seed).evaluation
    assert found is not None
    return [{"seed": seed, "varies": varies, "moves": moves, "distance": found.load_distance}]


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
    rows = run_rounds(made, method, 20, stop=True, **given)
    return [{"seed": seed, "overloaded": overloaded, "way": way, **row} for row in rows]


def periods(seed: int, moves: int, count: int) -> list[Row]:
    """Follow Real Job 1's shape, with synthetic loads, under a budget of moves."""
    from experiments.studies.papers.albic.built import joint_periods

    made = joint_periods(
        seed, count, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        rest="outside", max_migrations=moves,
    )  # fmt: skip
    rows = follow(made, ("MILP", "balance-search", {}))
    keep = ("period", "distance", "migrations")
    return [{"seed": seed, "moves": moves, **{key: row[key] for key in keep}} for row in rows]


def overloads(seed: int, moves: int) -> list[Row]:
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
    over: Any = (loads > 100.0).sum()
    return [
        {
            "seed": seed,
            "moves": moves,
            "distance": load_distance_of(made, node),
            "overload seconds": int(over),
        }
    ]


MOMENTS, MOMENTS_REDUCED = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0), (0.5, 1.0, 2.0, 5.0)
"""Seconds at which load distances are read for Figures 2 to 4."""

TIME = "solving time (s)"


def solving_times(folder: Path, reduced: bool, nodes: int, budgets: list[int]) -> pd.DataFrame:
    """Measure every setting, way and solver of Figure 2, 3 or 4, or take it from the folder.

    Parameters
    ----------
    nodes, budgets
        Size of the cluster (20 key groups a node), and maxMigrations of each setting.
    """
    from experiments.generators import generate

    seconds = MOMENTS_REDUCED if reduced else MOMENTS
    solvers = SOLVERS[1:3] if reduced else SOLVERS
    settings = list(product((40.0, 60.0), budgets))[: 1 if reduced else None]
    rows: list[Row] = []
    for place, (varies, budget) in enumerate(settings):
        made = generate("cluster", nodes=nodes, varies=varies, max_migrations=budget)
        key = {"nodes": nodes, "varies": varies, "budget": budget, "seconds": seconds}
        ours = {**key, "ways": "flux, balance-search with its bound"}
        parts = kept(folder, ours, lambda m=made: quick_ways(m, seconds))  # type: ignore[misc]
        for solver, warm in product(solvers, (False, True)):
            more = {**key, "solver": solver, "warm": warm}
            parts = parts + kept(
                folder,
                more,
                lambda m=made, s=solver, w=warm: traced(m, s, w, seconds),  # type: ignore[misc]
            )
        setting = {"place": place, "setting": f"varies {varies:g} %, {budget} moves"}
        rows += [{**row, **setting} for row in parts]
    return frame(rows)


def quick_ways(instance: Instance, seconds: tuple[float, ...]) -> list[Row]:
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


def _read(trace: Sequence[Any], seconds: tuple[float, ...], place: int) -> list[float | None]:
    """Return the last entry of a trace known at each time."""
    known = []
    for moment in seconds:
        values = [point[place] for point in trace if point[0] <= moment]
        known.append(next((value for value in reversed(values) if value is not None), None))
    return known


def traced(instance: Instance, solver: str, warm: bool, seconds: tuple[float, ...]) -> list[Row]:
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
ROUNDS, ROUNDS_REDUCED = 16, 8
FINISHED = "integrated, drained at the end"
WAYS: tuple[Policy, ...] = (
    (INTEGRATED, "balance-search", {}),
    (FINISHED, "balance-search", {}),
    (FIRST, "scale-in-first", {"gap": GAP}),
)
"""Names, methods and their settings. None has a time limit, so that a run repeats."""


def scale_in_rounds(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan round after round until the leaving nodes are empty."""
    from experiments.generators import generate

    rows: list[Row] = []
    for overloaded in (1, 5):
        size = {"nodes": 20, "leaving": 3} if reduced else {"nodes": 60, "leaving": 10}
        made = generate("scale_in", **size, overloaded=overloaded, max_migrations=20)
        rounds = ROUNDS_REDUCED if reduced else ROUNDS
        for name, method, given in WAYS:
            key = {**size, "overloaded": overloaded, "rounds": rounds, "way": name, **given}
            rows += kept(
                folder,
                key,
                lambda i=made, m=method, n=name, o=overloaded, r=rounds, g=given: [  # type: ignore[misc]
                    {"way": n, OVERLOADED: o, **row}
                    for row in run_rounds(i, m, r, finish=n == FINISHED, **g)
                ],
            )
    return frame(rows)


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


BUDGETS = (10, 13, 20, 30, 300)
SEEDS, SEEDS_REDUCED = 30, 2
PERIODS = 13
"""The first is where the load distance starts, and is left out of the figures."""


def budget_periods(folder: Path, reduced: bool) -> pd.DataFrame:
    """Follow the same periods with each budget, from every seed."""
    rows: list[Row] = []
    for seed, budget in product(range(SEEDS_REDUCED if reduced else SEEDS), BUDGETS):
        name = "unrestricted" if budget == BUDGETS[-1] else str(budget)
        rows += kept(
            folder,
            {"budget": budget, "periods": PERIODS, "seed": seed},
            lambda s=seed, b=budget, n=name: [  # type: ignore[misc]
                {**row, "maxMigrations": n, "seed": s} for row in _followed(s, b)
            ],
        )
    return frame(rows)


def _followed(seed: int, budget: int) -> list[Row]:
    from experiments.studies.papers.albic.built import joint_periods

    made = joint_periods(
        seed, PERIODS, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        max_migrations=budget,
    )  # fmt: skip
    return follow(made, ("MILP", "balance-search", {}))
