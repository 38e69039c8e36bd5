"""The integer program over a given set of patterns: in this process when small, else a back end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation.problem import Rows
from optim.solvers import LIMITED_WORK, solve_linear
from optim.solvers.linear_model import LinearModel
from optim.util.compiled import helper, kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from formulations.column_generation.problem import Clock, Counts, PatternProblem, Pool
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
    """Answer of an integer program over patterns."""

    #: (N, G) best allocation found, nodes listed class by class; ``None`` for none.
    counts: Counts | None
    #: Proven bound on the scaled gain over these patterns; ``-inf`` when no choice of them is an
    #: allocation.
    bound: float
    #: Why it ended before a proof, empty where it did not: out of time, interrupted or failed.
    stopped: str
    #: The back end where one was asked, and whether it took the start.
    solver: str | None = None
    accepted: bool | None = None


def pattern_model(
    sizes: Counts, nodes: Counts, pool: Pool, rows: Rows, *, whole: bool = False
) -> LinearModel:
    """Choose one pattern a node so that each class is used up: maximise the gain.

    `sizes`, `nodes`: (G,) tasks of each class, (K,) nodes of each class.
    `rows`: side rows; variables that stand beside the patterns come after these.
    `whole`: declare those integer.
    """
    # max Σ gain_p λ_p: Σ_p y_pg λ_p = n_g of each class of tasks, Σ_(p of k) λ_p = nodes of class k
    model = LinearModel("node-patterns", sense="max")
    used = model.add_variables(
        "nodes", len(pool), upper=nodes[pool.node_class], integer=True, objective=pool.gain
    ).indices
    pattern, group = np.nonzero(pool.counts)
    counts = pool.counts[pattern, group]
    model.add_rows("class", sizes, sizes, group, used[pattern], counts, num_rows=len(sizes))
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

    `start`: (N, G) allocation; passed as a warm start if all its patterns are in the pool.
    `rows`: side rows, of patterns alone.
    `time_limit`: seconds for this call, beside the clock's; limited work where that has no end.
    `node_limit`: give up after so many branch-and-bound nodes; for programs that run in this
        process.
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
            # a time limit of its own would make the plan depend on the machine
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
    from optim.solvers.inprocess import solve_small_milp

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


# Exact dynamic program over (node, tasks of each class placed so far), for small problems.
#
# The state is the whole vector of counts, so nothing is relaxed: the table's last entry is the
# optimum.  A box of states is walked for each pattern, the last class in the inner loop.

MOST_CELLS = 2_000_000
MOST_WORK = 30_000_000


@helper
def _offset(counts, strides):  # type: ignore[no-untyped-def]
    total = 0
    for g in range(len(counts)):
        total += counts[g] * strides[g]
    return total


@helper
def _add_pattern(table, into, sizes, strides, counts, gain, digits):  # type: ignore[no-untyped-def]
    """``into[s + counts] = max(into[s + counts], table[s] + gain)`` for every state with room."""
    last = len(sizes) - 1
    for g in range(last + 1):
        if counts[g] > sizes[g]:
            return
    # adding a pattern is the same step in the table from every state with room for it
    shift = _offset(counts, strides)
    width = sizes[last] - counts[last] + 1
    for g in range(last + 1):
        digits[g] = 0
    while True:
        # states of one box line stand side by side, the last class fastest
        start = _offset(digits, strides)
        for s in range(start, start + width):
            value = table[s] + gain
            if value > into[s + shift]:
                into[s + shift] = value
        g = last - 1
        while g >= 0:
            if digits[g] < sizes[g] - counts[g]:
                digits[g] += 1
                break
            digits[g] = 0
            g -= 1
        if g < 0:
            return


def _states_seen(sizes, counts, node_class, owner):  # type: ignore[no-untyped-def]
    """Estimate the steps of `fill_and_trace`: states with room for each pattern, and their rows."""
    nodes = np.bincount(owner, minlength=node_class.max(initial=0) + 1)[node_class]
    room = np.maximum(sizes + 1.0 - counts, 0.0)
    return 0.22 * (room.prod(axis=1) @ nodes) + 1.6 * (room[:, :-1].prod(axis=1) @ nodes)


@kernel(steps=_states_seen)
def fill_and_trace(sizes, counts, node_class, gain, owner):  # type: ignore[no-untyped-def]
    """Fill the table for the nodes in order and walk back.

    `sizes`, `counts`, `node_class`, `gain`: (G,), (P, G), (P,), (P,) as in the pool.
    `owner`: (N,) class of each node.
    Returns best gain (``-inf`` when nothing places all tasks) and the (N,) patterns of the nodes.
    """
    num_classes, num_nodes = len(sizes), len(owner)
    strides = np.ones(num_classes, dtype=np.int64)
    for g in range(num_classes - 2, -1, -1):
        strides[g] = strides[g + 1] * (sizes[g + 1] + 1)
    # state s stands for the counts Σ_g s_g · stride_g
    states = strides[0] * (sizes[0] + 1)
    table = np.full((num_nodes + 1, states), -np.inf)
    table[0, 0] = 0.0
    digits = np.zeros(num_classes, dtype=np.int64)
    for n in range(num_nodes):
        for p in range(len(gain)):
            if node_class[p] == owner[n]:
                _add_pattern(table[n], table[n + 1], sizes, strides, counts[p], gain[p], digits)
    chosen = np.full(num_nodes, -1, dtype=np.int64)
    # the last state has all tasks placed on all nodes
    best = table[num_nodes, states - 1]
    left = np.zeros(num_classes, dtype=np.int64)
    for g in range(num_classes):
        left[g] = sizes[g]
    if best > -np.inf:
        for n in range(num_nodes - 1, -1, -1):
            # of the patterns that may come last, the one that gives the value of this state
            here = _offset(left, strides)
            best_pattern, value = -1, -np.inf
            for p in range(len(gain)):
                fits = node_class[p] == owner[n]
                for g in range(num_classes):
                    fits = fits and counts[p, g] <= left[g]
                if not fits:
                    continue
                total = table[n, here - _offset(counts[p], strides)] + gain[p]
                if total > value:
                    best_pattern, value = p, total
            chosen[n] = best_pattern
            for g in range(num_classes):
                left[g] -= counts[best_pattern, g]
    return best, chosen


def affordable(problem: PatternProblem, pool: Pool) -> bool:
    """Whether the table is small enough."""
    states = float(np.prod(problem.sizes.astype(np.float64) + 1.0))
    uses = float(np.bincount(pool.node_class, minlength=problem.num_node_classes) @ problem.nodes)
    return states * (problem.num_nodes + 1) <= MOST_CELLS and states * uses <= MOST_WORK


def best_choice(problem: PatternProblem, pool: Pool) -> tuple[float, Counts | None]:
    """Return the best gain over a pool and its (N, G) contents; ``-inf`` and ``None`` for none."""
    best, chosen = fill_and_trace(
        problem.sizes, pool.counts, pool.node_class, pool.gain, problem.class_of_node()
    )
    if best == -np.inf:
        return -np.inf, None
    return float(best), pool.counts[chosen]
