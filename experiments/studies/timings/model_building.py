"""Building `balance-milp` in the paper's full form: our arrays, bare scipy, and PuLP objects.

Run: ``python -m experiments.studies.timings.model_building``. 60 nodes × 1,200 key groups, fixed
seed. The three ways make the same matrix (checked); ratios are medians over pairs measured in turn.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from experiments.studies.timings.table import print_table
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.problem import make_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.rebalancing.problem import BalanceProblem

NODES, KEY_GROUPS, BUDGET, PAIRS = 60, 1_200, 50, 7


def problem_of(nodes: int, key_groups: int) -> BalanceProblem:
    """Return a cluster with the same number of key groups on every node."""
    rng = np.random.default_rng(1)
    load = 50.0 * nodes / key_groups * rng.uniform(0.95, 1.05, key_groups)
    return make_problem(load, np.arange(key_groups) % nodes, nodes, max_moves=BUDGET)


def with_arrays(problem: BalanceProblem) -> csr_array:
    """Build the model as the method does, up to the arrays passed to a solver."""
    return build_full(problem).model.freeze().matrix


def with_scipy(problem: BalanceProblem) -> csr_array:
    """Build the bare constraint matrix: triplets into CSR, no bounds, no names, no checks."""
    t, n = problem.num_tasks, problem.num_nodes
    x, d = np.arange(t * n, dtype=np.int32), t * n
    task = np.repeat(np.arange(t, dtype=np.int32), n)
    node = np.tile(np.arange(n, dtype=np.int32), t)
    each, load = np.arange(n), np.repeat(problem.load, n)
    above, below = t + 2, t + 2 + n
    budget = below + n
    homes = np.arange(t) * n + problem.home
    rows: list[Any] = [task, [t, t, t + 1, t + 1], above + node, above + each, above + each]
    rows += [below + node, below + each, below + each, np.full(t, budget)]
    cols: list[Any] = [x, [d + 1, d, d + 2, d], x, np.full(n, d), np.full(n, d + 1)]
    cols += [x, np.full(n, d), np.full(n, d + 2), homes]
    values: list[Any] = [np.ones(t * n), [1, -1, 1, -1], load, -np.ones(n), np.ones(n)]
    values += [load, np.ones(n), -np.ones(n), -np.ones(t)]
    triplets = (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols)))
    return csr_array(coo_array(triplets, shape=(budget + 1, d + 3)))


def with_pulp(problem: BalanceProblem) -> Any:
    """Build the same model out of PuLP's objects."""
    import pulp

    t, n = problem.num_tasks, problem.num_nodes
    load, share = problem.load.tolist(), problem.share.tolist()
    model = pulp.LpProblem("balance", pulp.LpMinimize)
    x = [[pulp.LpVariable(f"x_{k}_{i}", cat="Binary") for i in range(n)] for k in range(t)]
    d, d_u, d_l = (pulp.LpVariable(name, lowBound=0) for name in ("d", "d_u", "d_l"))
    model += d
    for k in range(t):
        model += pulp.lpSum(x[k]) == 1
    model += d_u <= d
    model += d_l <= d
    for i in range(n):
        placed = pulp.lpSum(load[k] * x[k][i] for k in range(t))
        model += placed <= share[i] + d - d_u
        model += placed >= share[i] - d + d_l
    stay = pulp.lpSum(x[k][i] for k, i in enumerate(problem.home.tolist()))
    model += t - stay <= BUDGET
    return model


def main() -> None:
    """Measure and print the table."""
    problem = problem_of(NODES, KEY_GROUPS)
    ours, bare, model = with_arrays(problem), with_scipy(problem), with_pulp(problem)
    if abs(ours - bare).max() > 0.0:
        raise AssertionError("the array model and the bare matrix differ")
    if sum(len(row) for row in model.constraints.values()) != ours.nnz:
        raise AssertionError("the PuLP model differs")
    seconds: dict[str, list[float]] = {"arrays": [], "scipy": [], "pulp": []}
    for _ in range(PAIRS):
        # arrays and scipy are short: one disturbance must not decide a pair
        seconds["scipy"].append(min(_seconds(with_scipy, problem) for _ in range(5)))
        seconds["arrays"].append(min(_seconds(with_arrays, problem) for _ in range(5)))
        seconds["pulp"].append(_seconds(with_pulp, problem))
    rows = [
        ["streamplace arrays", *_row(seconds, "arrays"), "≤ 3 × scipy, ≤ 1/10 of PuLP"],
        ["bare scipy CSR", *_row(seconds, "scipy"), ""],
        ["PuLP objects", *_row(seconds, "pulp"), ""],
    ]
    title = f"Building balance-milp in full form, {NODES} nodes × {KEY_GROUPS} key groups"
    print_table(title, ["way", "ms (median)", "× scipy", "× PuLP", "aim"], rows)


def _seconds(build: Callable[[BalanceProblem], object], problem: BalanceProblem) -> float:
    started = time.perf_counter()
    build(problem)
    return time.perf_counter() - started


def _row(seconds: dict[str, list[float]], way: str) -> list[float]:
    """Return the median milliseconds and the median paired ratios to scipy and to PuLP."""
    ratios = [
        statistics.median(a / b for a, b in zip(seconds[way], seconds[other], strict=True))
        for other in ("scipy", "pulp")
    ]
    return [1e3 * statistics.median(seconds[way]), *ratios]


if __name__ == "__main__":
    main()
