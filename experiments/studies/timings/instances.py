"""Instances in memory: reading, evaluating, building models; certificates of their bounds."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from experiments.generators import generate
from experiments.studies.bench.cases import read
from experiments.studies.bench.proofs import EXACT, methods_of
from experiments.studies.bench.rebalancer_process import peak_megabytes
from experiments.studies.timings.registry import Rows, apart, least, spend, value_of
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.problem import BalanceProblem, plain_problem
from optim import Instance, Plan, evaluate, solve
from optim.certificates import check
from optim.certificates.grade import certified
from optim.figures.catalogue import OBJECTIVES
from optim.referee import Result

STREAMS, NODES = 4, 1_000


def write_instance(path: Path, tasks: int) -> None:
    """Write an instance with `STREAMS` directed pairs a task and a current placement."""
    rng = random.Random(1)
    value = {
        "format": "streamplace.instance/1",
        "name": f"reading-{tasks}",
        "origin": "benchmark, seed 1",
        "resources": ["cpu", "memory"],
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 1e3, "memory": 5e3}} for i in range(NODES)],
        "tasks": [
            {"id": f"t{i}", "load": {"cpu": rng.random(), "memory": rng.random()},
             "state": rng.random(), "node": f"n{i % NODES}"}
            for i in range(tasks)
        ],
        "traffic": [
            [f"t{i}", f"t{(i + 7 * k + 1) % tasks}", rng.random()]
            for i in range(tasks) for k in range(STREAMS)
        ],
    }  # fmt: skip
    path.write_text(json.dumps(value))


def read_once(path: str) -> dict[str, float]:
    """Read one file and evaluate a plan on it; return seconds, and peak memory in MB."""
    read = spend(Instance.load, path)
    instance, peak = read.value, peak_megabytes()
    # any plan: 7 and 1,000 have no common divisor, so that all nodes are used
    plan = Plan.from_indices(instance, (np.arange(instance.num_tasks) * 7) % instance.num_nodes)
    return {
        "read and validate, s (≤ 2)": read.wall,
        "peak memory, MB (≤ 1,000)": peak,
        "referee, first call, s (≤ 0.05)": spend(evaluate, instance, plan).wall,
        "referee, further calls, s": least(evaluate, instance, plan).wall,
        "write, read again and hash, s": spend(
            lambda: instance.replace(name=instance.name).sha256
        ).wall,
    }


def reading(tasks: int = 100_000, repeats: int = 5) -> Rows:
    """Read, validate and evaluate a large instance."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.json"
        write_instance(path, tasks)
        runs = [apart(read_once, str(path)) for _ in range(repeats)]
        yield "file, MB", path.stat().st_size / 1e6, None
    for what in runs[0]:
        yield what, min(run[what] for run in runs), max(run[what] for run in runs)


def problem_of(nodes: int, key_groups: int, budget: int = 50) -> BalanceProblem:
    """Return a cluster with the same number of key groups on every node."""
    rng = np.random.default_rng(1)
    load = 50.0 * nodes / key_groups * rng.uniform(0.95, 1.05, key_groups)
    return plain_problem(load, np.arange(key_groups) % nodes, nodes, max_moves=budget)


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
    # rows: one node a task; d_u ≤ d, d_l ≤ d; above, below for each node; the budget of moves
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
    model += t - stay <= problem.most_moved
    return model


def model_building(nodes: int = 60, key_groups: int = 1200, pairs: int = 7) -> Rows:
    """Build one matrix in three ways; they are checked to be the same."""
    problem = problem_of(nodes, key_groups)
    ours, bare, model = with_arrays(problem), with_scipy(problem), with_pulp(problem)
    if abs(ours - bare).max() > 0.0:
        raise AssertionError("the array model and the bare matrix differ")
    if sum(len(row) for row in model.constraints.values()) != ours.nnz:
        raise AssertionError("the PuLP model differs")
    ways = {"streamplace arrays": with_arrays, "bare scipy CSR": with_scipy, "PuLP": with_pulp}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(pairs):
        for way, build in ways.items():
            # arrays and scipy are short: one disturbance must not decide a pair
            runs = 1 if way == "PuLP" else 5
            seconds[way].append(least(build, problem, repeats=runs).wall)
    for way, spent in seconds.items():
        ratios = (
            median(a / b for a, b in zip(spent, seconds[other], strict=True))
            for other in ("bare scipy CSR", "PuLP")
        )
        yield way, 1e3 * median(spent), *ratios


SECONDS, MOST_NODES = 60.0, 20_000


def row_of(
    case: str, instance: Instance, objective: str, method: str, limit: float | None = None
) -> list[object]:
    """Solve an instance, certify its bound, and have the checker read both again."""
    run = spend(solve, instance, method, objective=objective, time_limit=limit)
    result, text = run.value, instance.to_json().encode()
    write = spend(lambda: certified(result, text, nodes=MOST_NODES, seconds=SECONDS))
    graded, document = write.value
    value = value_of(result)
    # no certificate within its limits
    if document is None:
        return [case, value, result.bound, None, None, "no", "", run.cpu, write.cpu, None, None]
    packed = json.dumps(document).encode()

    def checked() -> None:
        read, sha256 = check.parse(text)
        check.check(read, sha256, check.parse(packed)[0])

    gap, kind = gap_of_value(graded), document["proof"]["kind"]
    closed = "yes" if gap is not None and gap <= 1e-6 else "no"
    return [
        case, value, result.bound, graded.certified_bound, gap, closed, kind, run.cpu, write.cpu,
        spend(checked).cpu, len(packed),
    ]  # fmt: skip


def gap_of_value(result: Result) -> float | None:
    """Return the certified gap; of the load distance, whose gaps are points of the mean load, as a
    share of the value like the others.
    """
    gap, bound = result.certified_gap, result.certified_bound
    if gap is None or result.objective is None or not result.objective.value:
        return gap
    value = result.objective.value
    percent = OBJECTIVES[result.objective.name].percent
    return abs(value - bound) / abs(value) if percent and bound is not None else gap


def certified_cases(only: str = "", limit: float = 120.0) -> Rows:
    """Certify the default cases whose names hold a text."""
    for case in read():
        exact = [method for method in methods_of(case) if method in EXACT]
        if exact and case.unasked and only in case.name:
            instance = case.instance()
            yield row_of(case.name, instance, case.objective, exact[0], limit)


def certified_graphs(graphs: int = 2000) -> Rows:
    """As in `task_allocation.random_graphs`."""
    for seed in range(graphs):
        instance = generate("random_graphs", seed=seed)
        yield row_of(f"graph {seed}", instance, "imc_gain", "imc-exact")
