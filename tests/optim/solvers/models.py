"""Models for the solver tests, and brute force as their judge."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.solvers.linear_model import LinearArrays

_RUNNING = """
import sys
sys.path.insert(0, {root!r})
from optim.solvers import process, solve_linear
from tests.optim.solvers.models import hard
process.INTERRUPT_GRACE = 60.0  # CBC and SCIP lose it where a slow machine lets them be killed
def show(progress):
    if progress.incumbent is not None:
        print("incumbent", flush=True)
s = solve_linear(hard(), {solver!r}, time_limit=120, progress=show)
print("END", s.termination, s.objective, s.bound, flush=True)
"""


@contextlib.contextmanager
def solving(solver: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process that solves the hard model, and wait for its first incumbent.

    It has a group of its own, and `folder` for what it writes; afterwards it is gone.
    """
    script = _RUNNING.format(root=str(Path(__file__).resolve().parents[3]), solver=solver)
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, process_group=0,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert child.stdout is not None
    with child.stdout:
        try:
            assert child.stdout.readline() == "incumbent\n"
            yield child
        finally:
            child.kill()
            child.wait()


def knapsacks(num_items: int, num_rows: int, seed: int = 0, offset: float = 100.0) -> LinearModel:
    """Return a multi-dimensional knapsack: maximisation with an offset, binaries only."""
    rng = np.random.default_rng(seed)
    model = LinearModel("knapsacks", "max")
    value = rng.integers(5, 30, num_items).astype(float)
    model.add_variables("take", num_items, upper=1.0, integer=True, objective=value)
    weight = rng.integers(1, 30, (num_rows, num_items)).astype(float)
    model.add_matrix_rows("weight", weight, -np.inf, weight.sum(axis=1) / 3)
    model.set_objective([], [], offset=offset)
    return model


def hard() -> LinearModel:
    """Return a model no solver closes within a minute, but finds solutions of at once."""
    return knapsacks(300, 30)


def balance(num_nodes: int, num_tasks: int, seed: int = 0, decimals: int = 2) -> LinearModel:
    """Return a load-balance model: binaries and one continuous load distance to minimise."""
    rng = np.random.default_rng(seed)
    load = np.round(rng.uniform(1.0, 9.0, num_tasks), decimals)
    model = LinearModel("balance", "min")
    x = model.add_variables("x", (num_tasks, num_nodes), upper=1.0, integer=True)
    d = model.add_variables("d", 1, objective=1.0)
    tasks = np.repeat(np.arange(num_tasks), num_nodes)
    nodes = np.tile(np.arange(num_nodes), num_tasks)
    model.add_rows("placed", 1.0, 1.0, tasks, x.indices.ravel(), 1.0)
    mean = load.sum() / num_nodes
    rows = np.concatenate([nodes, np.arange(num_nodes)])
    cols = np.concatenate([x.indices.ravel(), np.full(num_nodes, d.start)])
    for name, sign in (("above", 1.0), ("below", -1.0)):
        values = np.concatenate([sign * np.repeat(load, num_nodes), -np.ones(num_nodes)])
        model.add_rows(name, -np.inf, np.full(num_nodes, sign * mean), rows, cols, values)
    return model


def random_model(
    rng: np.random.Generator, *, whole: bool = False, digits: int | None = None
) -> LinearModel:
    """Return a small mixed model: free-signed integers, equality and range rows, both senses.

    Parameters
    ----------
    whole
        Without continuous variables.
    digits
        Decimals of its numbers; drawn from 0 to 2 where none are given.
    """
    n, c, m = int(rng.integers(1, 5)), int(rng.integers(0, 3)), int(rng.integers(1, 5))
    c = 0 if whole else c
    model = LinearModel("random", "min" if rng.random() < 0.5 else "max")
    lower = rng.integers(-3, 1, n).astype(float)
    upper = lower + rng.integers(0, 4, n)
    drawn = int(rng.integers(0, 3))
    digits = drawn if digits is None else digits

    def numbers(*shape: int) -> NDArray[np.float64]:
        return np.asarray(np.round(rng.normal(size=shape) * 3, digits))

    model.add_variables("x", n, lower, upper, integer=True, objective=numbers(n))
    if c:
        model.add_variables("c", c, -2.0, rng.choice([2.0, 3.5, 10.0]), objective=numbers(c))
    matrix = numbers(m, n + c) * (rng.random((m, n + c)) < 0.7)
    inside = np.concatenate([rng.integers(lower, upper + 1), rng.uniform(-2, 2, c)])
    centre = matrix @ inside
    kind = rng.integers(0, 4, m)
    row_lower = np.where(kind == 0, -np.inf, centre - rng.integers(0, 2, m))
    row_upper = np.where(kind == 1, np.inf, centre + rng.integers(0, 2, m))
    equal = (kind == 3) & (rng.random(m) < 0.5)
    row_lower = np.where(equal, np.round(centre, digits), row_lower)
    row_upper = np.where(equal, np.round(centre, digits), row_upper)
    if rng.random() < 0.2:
        row_lower = row_lower + rng.integers(0, 5)
        row_upper = np.maximum(row_upper, row_lower)
    model.add_matrix_rows("row", matrix, row_lower, row_upper)
    model.set_objective([], [], offset=float(np.round(rng.normal() * 10, 1)))
    return model


def brute_force(model: LinearModel) -> float | None:
    """Optimum by trying all integers (and an LP for the rest); ``None`` if infeasible."""
    arrays = model.freeze()
    whole, loose = np.flatnonzero(arrays.integrality), np.flatnonzero(~arrays.integrality)
    ranges = [np.arange(arrays.lower[j], arrays.upper[j] + 1) for j in whole]
    sign = 1.0 if arrays.sense == "min" else -1.0
    best: float | None = None
    for point in itertools.product(*ranges):
        x = np.zeros(arrays.num_variables)
        x[whole] = point
        if not _complete(arrays, x, whole, loose, sign):
            continue
        value = sign * arrays.objective_of(x)
        best = value if best is None else min(best, value)
    return None if best is None else sign * best


def _complete(
    arrays: LinearArrays, x: NDArray[np.float64], whole: Any, loose: Any, sign: float
) -> bool:
    """Set the continuous variables of `x` at their best; False if there are no feasible values."""
    dense = arrays.matrix.toarray()
    fixed = dense[:, whole] @ x[whole]
    above, below = arrays.row_upper - fixed, fixed - arrays.row_lower
    if not loose.size:
        return bool((above >= -1e-9).all() and (below >= -1e-9).all())
    rows = np.vstack([dense[:, loose], -dense[:, loose]])
    room = np.concatenate([above, below]) + 1e-9
    kept = np.isfinite(room)
    bounds = np.column_stack([arrays.lower[loose], arrays.upper[loose]])
    answer = linprog(sign * arrays.cost[loose], rows[kept], room[kept], bounds=bounds)
    if answer.status != 0:
        return False
    x[loose] = answer.x
    return True
