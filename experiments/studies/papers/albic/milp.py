"""The MILP on its own, set-ups C and I: over solving time, budgets and rounds of a scale-in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.albic.fig_5 import run_rounds

if TYPE_CHECKING:
    from experiments.studies.papers.albic.runs import Row

SECONDS = 5.0
"""Time limit of a solver, cold and with one thread; what it has of a processor is measured."""

SOLVERS = ("cbc", "highs", "scip")
INTEGRATED, FIRST = "integrated", "scale-in first"

GAP = 6.0
"""Percent of the mean load within which rounds of a scale-in need not go on proving."""


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
    from experiments.studies.papers.albic.runs import follow

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
    import numpy as np

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
