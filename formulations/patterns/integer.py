"""The integer program over a given set of patterns: in this process when small, else a back end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.patterns.count_table import affordable, best_choice
from formulations.patterns.pool import Rows
from optim.solvers import LIMITED_WORK, solve_linear
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from formulations.patterns.clock import Clock
    from formulations.patterns.pool import Pool
    from formulations.patterns.problem import Counts, PatternProblem
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
        Why it ended before a proof, empty where it did not: out of time, interrupted or failed.
    solver, accepted
        The back end where one was asked, and whether it took the start.
    """

    counts: Counts | None
    bound: float
    stopped: str
    solver: str | None = None
    accepted: bool | None = None


def pattern_model(
    sizes: Counts, nodes: Counts, pool: Pool, rows: Rows, *, whole: bool = False
) -> LinearModel:
    """Choose one pattern a node so that each class is used up: maximise the gain.

    Parameters
    ----------
    sizes, nodes
        (G,) tasks of each class, (K,) nodes of each class.
    rows
        Side rows; variables that stand beside the patterns come after these.
    whole
        Declare those integer.
    """
    model = LinearModel("node-patterns", sense="max")
    used = model.add_variables(
        "nodes", len(pool), upper=nodes[pool.node_class], integer=True, objective=pool.gain
    ).indices
    pattern, group = np.nonzero(pool.counts)
    held = pool.counts[pattern, group]
    model.add_rows("class", sizes, sizes, group, used[pattern], held, num_rows=len(sizes))
    model.add_rows("node class", nodes, nodes, pool.node_class, used, 1.0, num_rows=len(nodes))
    if len(rows):
        matrix = rows.of(pool)
        if rows.beside is not None:
            model.add_variables("beside", len(rows.most), upper=rows.most, integer=whole)
            from scipy.sparse import csr_array, hstack

            matrix = hstack([csr_array(matrix), csr_array(rows.beside)])
        model.add_matrix_rows("side", matrix, rows.lower, rows.upper)
    return model


def choose(
    problem: PatternProblem,
    pool: Pool,
    clock: Clock,
    backend: Backend,
    start: Counts | None = None,
    *,
    rows: Rows | None = None,
    time_limit: float | None = None,
    node_limit: int | None = None,
) -> Chosen:
    """Solve the integer program over a pool, by a table where that is small.

    Parameters
    ----------
    start
        (N, G) allocation; handed over as a warm start if all its patterns are in the pool.
    rows
        Side rows, of patterns alone.
    time_limit
        Seconds for this call, beside the clock's; limited work where that has no end.
    node_limit
        Give up after so many branch-and-bound nodes; for programs that run in this process.
    """
    rows = Rows() if rows is None else rows
    if len(pool) == 0:
        return Chosen(None, -np.inf, "")
    if not len(rows) and affordable(problem, pool):
        value, counts = best_choice(problem, pool)
        return Chosen(counts, value, "")
    model = pattern_model(problem.sizes, problem.nodes, pool, rows)
    x: NDArray[Any] | None = None
    bound = np.inf
    seconds = clock.left()
    options: Mapping[str, Any] = {}
    if time_limit is not None:
        if seconds is None:
            options = LIMITED_WORK[backend.name]
        else:
            seconds = min(seconds, time_limit)
    stopped, solver, accepted = "iteration_limit", None, None
    if backend.name == "highs" and len(pool) <= IN_PROCESS:
        x, bound, done = _in_process(model, seconds, node_limit or FEW_NODES)
        stopped = "" if done else stopped
    if stopped and node_limit is None and not clock.over():
        answer = solve_linear(
            model, backend.name, time_limit=seconds, gap=0.0, seed=backend.seed,
            threads=backend.threads, warm_start=_start_vector(problem, pool, start),
            options=options,
        )  # fmt: skip
        x, bound, stopped = _read(answer)
        solver, accepted = answer.solver, answer.warm_start_accepted
    counts = None if x is None else _counts(problem, pool, x)
    return Chosen(counts, bound, stopped, solver, accepted)


def _in_process(
    model: LinearModel, seconds: float | None, node_limit: int
) -> tuple[NDArray[Any] | None, float, bool]:
    answer = solve_small_milp(model, seconds, gap=0.0, node_limit=node_limit)
    if answer.termination == "infeasible":
        return None, -np.inf, True
    bound = np.inf if answer.bound is None else answer.bound
    return answer.x, bound, answer.termination == "optimal"


def _read(answer: LinearSolution) -> tuple[NDArray[Any] | None, float, str]:
    if answer.termination == "infeasible":
        return None, -np.inf, ""
    bound = np.inf if answer.bound is None else answer.bound
    done = answer.termination in ("optimal", "gap_reached")
    return answer.x, bound, "" if done else str(answer.termination)


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
