"""The integer program over a given set of patterns: in this process when small, else a back end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.node_patterns.count_table import affordable, best_choice
from optim.linear_model import LinearModel
from optim.silence import c_stdout_silenced
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.node_patterns.clock import Clock
    from formulations.node_patterns.pricing import Pool
    from formulations.node_patterns.problem import Counts, PatternProblem
    from optim.solvers import LinearSolution

IN_PROCESS = 5000
FEW_NODES = 1000
"""Patterns, and branch-and-bound nodes, up to which HiGHS runs in this process: starting one would
dominate. Beyond, the back end runs in its own, which can be interrupted."""


@dataclass(frozen=True)
class Backend:
    """Which solver takes the integer programs, and how."""

    name: str = "highs"
    seed: int = 0
    threads: int = 1


@dataclass(frozen=True, eq=False)
class Chosen:
    """Answer of an integer program over patterns.

    Attributes
    ----------
    counts
        (N, G) best allocation found, nodes listed class by class; ``None`` for none.
    bound
        Proven bound on the scaled gain over these patterns; ``-inf`` when no choice of them is an
        allocation.
    stopped
        Ended before a proof: out of time, interrupted or failed.
    """

    counts: Counts | None
    bound: float
    stopped: bool


def pattern_model(problem: PatternProblem, pool: Pool) -> LinearModel:
    """Choose one pattern a node so that each class is used up: maximise the gain."""
    model = LinearModel("node-patterns", sense="max")
    upper = problem.nodes[pool.node_class]
    used = model.add_variables(
        "nodes", len(pool), upper=upper, integer=True, objective=pool.gain
    ).indices
    pattern, group = np.nonzero(pool.counts)
    model.add_rows(
        "class", problem.sizes, problem.sizes, group, used[pattern], pool.counts[pattern, group]
    )
    model.add_rows("node class", problem.nodes, problem.nodes, pool.node_class, used, 1.0)
    return model


def choose(
    problem: PatternProblem,
    pool: Pool,
    clock: Clock,
    backend: Backend,
    start: Counts | None = None,
    time_limit: float | None = None,
    node_limit: int | None = None,
) -> Chosen:
    """Solve the integer program over a pool, by a table where that is small.

    Parameters
    ----------
    start
        (N, G) allocation; handed over as a warm start if all its patterns are in the pool.
    time_limit
        Seconds for this call, beside the clock's.
    node_limit
        Give up after so many branch-and-bound nodes; for programs that run in this process.
    """
    if len(pool) == 0:
        return Chosen(None, -np.inf, stopped=False)
    if affordable(problem, pool):
        value, counts = best_choice(problem, pool)
        return Chosen(counts, value, stopped=False)
    model = pattern_model(problem, pool)
    x: NDArray[Any] | None = None
    bound = np.inf
    left = [t for t in (clock.left(), time_limit) if t is not None]
    seconds = min(left) if left else None
    done = False
    if backend.name == "highs" and len(pool) <= IN_PROCESS:
        x, bound, done = _in_process(model, seconds, node_limit or FEW_NODES)
    if not done and node_limit is None and not clock.over():
        answer = solve_linear(
            model, backend.name, time_limit=seconds, gap=0.0, seed=backend.seed,
            threads=backend.threads, warm_start=_start_vector(problem, pool, start),
        )  # fmt: skip
        x, bound, done = _read(answer)
    if x is None:
        return Chosen(None, bound, not done)
    return Chosen(_counts(problem, pool, x), bound, not done)


def _in_process(
    model: LinearModel, seconds: float | None, node_limit: int
) -> tuple[NDArray[Any] | None, float, bool]:
    from scipy.optimize import Bounds, LinearConstraint, milp

    arrays = model.freeze()
    options: dict[str, Any] = {"mip_rel_gap": 0.0, "node_limit": node_limit}
    if seconds is not None:
        options["time_limit"] = seconds
    with c_stdout_silenced():
        answer = milp(
            -arrays.cost,
            integrality=np.ones(len(arrays.cost), dtype=np.int64),
            bounds=Bounds(arrays.lower, arrays.upper),
            constraints=LinearConstraint(arrays.matrix, arrays.row_lower, arrays.row_upper),
            options=options,  # type: ignore[arg-type]
        )
    if answer.status == 2:
        return None, -np.inf, True
    done = answer.status == 0
    known = answer.mip_dual_bound
    bound = np.inf if known is None or not np.isfinite(known) else -float(known)
    if answer.x is None:
        return None, bound, False
    x = np.round(answer.x)
    if model.violation(x) > 1e-6:
        return None, bound, False
    return x, bound, done


def _read(answer: LinearSolution) -> tuple[NDArray[Any] | None, float, bool]:
    if answer.termination == "infeasible":
        return None, -np.inf, True
    bound = np.inf if answer.bound is None else answer.bound
    return answer.x, bound, answer.termination == "optimal"


def _start_vector(problem: PatternProblem, pool: Pool, start: Counts | None) -> NDArray[Any] | None:
    if start is None:
        return None
    column = {
        (int(k), row.tobytes()): i
        for i, (k, row) in enumerate(zip(pool.node_class, pool.counts, strict=True))
    }
    vector = np.zeros(len(pool))
    for k, row in zip(problem.class_of_node(), start, strict=True):
        at = column.get((int(k), np.ascontiguousarray(row, dtype=np.int64).tobytes()))
        if at is None:
            return None
        vector[at] += 1.0
    return vector


def _counts(problem: PatternProblem, pool: Pool, x: NDArray[Any]) -> Counts:
    """Deal the chosen patterns out to the nodes, class by class, in pool order."""
    times = np.round(x).astype(np.int64)
    chosen = np.repeat(np.arange(len(pool)), times)
    order = chosen[np.argsort(pool.node_class[chosen], kind="stable")]
    return np.asarray(pool.counts[order])
