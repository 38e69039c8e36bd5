"""Task allocation: published heuristics, `imc-exact`, `imc-search`, `partition`.

CPU seconds of whole calls of `solve`, one thread, kernels compiled before, solver processes
included. Rates are calls of the compiled algorithm on arrays in memory.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.bench.rebalancer_process import peak_megabytes
from experiments.studies.papers.task_allocation.throughput import count_calls, prepared
from experiments.studies.timings.registry import (
    LeftOut,
    apart,
    cases,
    collocated,
    least,
    spend,
    value_of,
)
from formulations.column_generation.problem import problem_of
from formulations.column_generation.search import SHARES, searched
from heuristics.task_allocation.groups import grouped_job
from optim import Plan, evaluate, solve
from optim.figures.measures import imc_gain_of
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.first_fit import first_fit_decreasing
from streamplace.clusters.exchange.sources import import_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from experiments.studies.timings.registry import Rows, Spent
    from optim.format.instance import Instance

LIMIT = 600.0
"""On the clock: a busy machine takes several times what it takes the processor."""
JOBS = 20


def throughput(nodes: Sequence[int] = (8, 20, 100), runs: int = 3, seconds: int = 2) -> Rows:
    """Count the calls of the published heuristics; the best of several runs."""
    for count in nodes:
        td, tl = (
            max(count_calls(prepared(name, nodes=count), seconds)[-1] for _ in range(runs))
            / seconds
            for name in ("TD", "TL")
        )
        yield count, f"{td:,.0f}", f"{tl:,.0f}", f"{td / tl:.0f}"


def random_graphs_of(count: int) -> list[Instance]:
    """Return the graphs of CIKM 2014, section 7.3, by seed."""
    return [generate("random_graphs", seed=seed) for seed in range(count)]


def heuristic(name: str) -> tuple[Callable[[Instance], Callable[[], Any]], Callable[..., Any]]:
    """Return what prepares a call of TD or TL, and what gives its plan."""
    from heuristics.task_allocation.task_level import place_pairs, task_level
    from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs
    from heuristics.task_allocation.top_down import place_groups, top_down

    def prepare(instance: Instance) -> Callable[[], Any]:
        job = grouped_job(instance)
        arrays = job.arrays
        if name == "TD":
            order = job.priority("significance")
            return lambda: top_down(*arrays, order, 0)
        runs = pair_runs(job, None, "imc", "shuffled", 0)
        return lambda: task_level(*arrays, runs, PAIR_ORDERS.index("shuffled"), 0)

    return prepare, place_groups if name == "TD" else place_pairs


def searcher(kicks: int) -> Callable[[Instance], Callable[[], Any]]:
    """Return what prepares a call of the search on counts with this many kicks."""

    def prepare(instance: Instance) -> Callable[[], Any]:
        problem = problem_of(instance, task_groups(instance), node_classes(instance))

        def call() -> float:
            counts = searched(problem, [], kicks, 0, SHARES)
            return 0.0 if counts is None else float(problem.gain(counts).sum()) * problem.scale

        return call

    return prepare


def rate_of(calls: Sequence[Callable[[], Any]]) -> float:
    """Return calls a CPU second, best of several rounds."""
    calls[0]()
    return len(calls) / least(lambda: [call() for call in calls]).cpu


def random_graphs(graphs: int = 2_000) -> Rows:
    """Rates of heuristics and of the search, and what they reach."""
    instances = random_graphs_of(graphs)
    optimum = sum(value_of(solve(instance, "imc-exact")) or 0.0 for instance in instances)
    for name in ("TD", "TL"):
        prepare, place = heuristic(name)
        gain = sum(imc_gain_of(i, place(grouped_job(i))) for i in instances)
        rate = rate_of([prepare(instance) for instance in instances])
        yield name, f"{100 * gain / optimum:.2f} %", f"{rate:,.0f}"
    for kicks in (0, 10, 20):
        calls = [searcher(kicks)(instance) for instance in instances]
        gain = sum(call() for call in calls)
        share = f"{100 * gain / optimum:.3f} %"
        yield f"imc-search, {kicks} kicks", share, f"{rate_of(calls):,.0f}"


def random_graphs_exact(graphs: int = 2_000) -> Rows:
    """Time proofs."""
    instances = random_graphs_of(graphs)
    solve(instances[0], "imc-exact")  # compiled before the clock starts
    runs = [spend(solve, instance, "imc-exact") for instance in instances]
    proved = sum(run.value.termination == "optimal" for run in runs)
    method = [run.value.times["solve"] for run in runs]
    for what, times in (("method, wall", method), ("solve, CPU", [run.cpu for run in runs])):
        rank = quantiles(times, n=100)[98]
        closed = f"{proved:,} of {len(runs):,}"
        yield what, closed, 1e3 * median(times), 1e3 * rank, 1e3 * max(times)


def random_job(number: int) -> Instance:
    """Return one of the random jobs: 5–6 groups, 65–150 tasks, utilisation 65–95 %."""
    rng = np.random.default_rng(number)
    tasks, groups = int(rng.integers(65, 151)), int(rng.integers(5, 7))
    nodes, utilisation = int(rng.integers(4, 21)), float(rng.uniform(0.65, 0.95))
    return generate(
        "random_graphs", seed=number, tasks=tasks, least_groups=groups, most_groups=groups,
        costs="noisy", cost=100.0 * nodes * utilisation, nodes=nodes,
    )  # fmt: skip


def proof(instance: Instance, limit: float = LIMIT) -> Spent:
    """Solve by `imc-exact`."""
    return spend(solve, instance, "imc-exact", time_limit=limit)


def closed(run: Spent) -> str:
    """Return whether the optimum is proved, or why not."""
    result = run.value
    proved = result.termination == "optimal" and result.gap is not None and result.gap <= 1e-6
    return "yes" if proved else str(result.termination)


def exact(nodes: Sequence[int] = (8, 20, 100), jobs: int = JOBS) -> Rows:
    """Proofs of each kind of instance."""
    proof(generate("pipeline", nodes=8))  # compiled before the clock starts
    made: list[tuple[str, Instance]] = [
        (f"{rates}, slack {slack}", generate("pipeline", nodes=n, slack=slack, rates=rates))
        for n in nodes for rates in ("15,15,15", "15,14,16") for slack in (1.0, 1.1, 1.5)
    ]  # fmt: skip
    unequal: dict[str, Any] = {
        "tasks": "80,120,90,110",
        "costs": "200,350,220,130",
        "rates": "30,45,12",
    }
    made += [("unequal", generate("pipeline", nodes=n, slack=1.2, **unequal)) for n in nodes]
    made += [(f"job {number}", random_job(number)) for number in range(jobs)]
    for name, job in made:
        run = proof(job)
        size = f"{job.num_operators} × {job.num_tasks} on {job.num_nodes}"
        load = 100 * job.tasks.load.sum() / job.nodes.capacity.sum()
        fits = bool((first_fit_decreasing(job) >= 0).all())
        cells = (closed(run), f"{run.cpu:.2f}", value_of(run.value), run.value.bound, fits)
        yield name, size, load, *cells


def ctap(folder: str = "", limit: float = 60.0) -> Rows:
    """The constrained task assignment problem: its least cut is our most collocation."""
    if not folder:
        raise LeftOut("--set folder=FOLDER with the CTAP library's *D?.dat and .sol files")
    proof(generate("pipeline", nodes=8))  # compiled before the clock starts
    for path in sorted(Path(folder).glob("*D?.dat")):
        yield ctap_row(path, limit)


def ctap_row(path: Path, limit: float) -> list[object]:
    """Solve one file; the published optimum is the last number of the ``.sol`` file beside it."""
    instance = import_instance("ctap", [str(path)]).instance
    run = proof(instance, limit)
    total, solution = instance.total_traffic, path.with_suffix(".sol")
    known = float(solution.read_text().split()[-1]) if solution.is_file() else None
    value, bound = value_of(run.value), run.value.bound
    cut = None if value is None else total - value
    below = None if bound is None else max(0.0, total - bound)
    same = "" if known is None or cut is None else "yes" if abs(cut - known) < 1e-6 else "NO"
    shown = ["–" if x is None else f"{x:.6g}" for x in (known, cut, below)]
    size = f"{instance.num_tasks} on {instance.num_nodes}"
    return [path.stem, size, *shown, same, closed(run), f"{run.cpu:.2f}"]


GRAPHS = ("community", "sparse_random", "geometric")
SEED = 1


def highest(instance: Instance) -> tuple[NDArray[np.int32], float] | None:
    """Return a placement by mt-KaHyPar's highest preset and its CPU s; ``None`` without it."""
    try:
        import mtkahypar  # noqa: F401
    except ImportError:
        return None
    from heuristics.task_allocation import partition as of

    graph, nodes = of.weighted_graph(instance), np.arange(instance.num_nodes)
    fixed = np.full(instance.num_tasks, -1)
    run = spend(lambda: of.mtkahypar_parts(graph, nodes, fixed, SEED, 1, "highest_quality"))
    return run.value.astype(np.int32), run.cpu


def graphs(tasks: int = 10_000, nodes: int = 100, repeats: int = 3) -> Rows:
    """General weighted task graphs."""
    small = generate("community", tasks=200, nodes=4)
    for kind in GRAPHS:
        instance = generate(kind, seed=SEED, tasks=tasks, nodes=nodes)
        found, reference = highest(instance), None
        methods: dict[str, dict[str, Any]] = {
            "imc-search": {}, "imc-search, effort 4": {"effort": 4}, "partition": {},
        }  # fmt: skip
        if found is not None:
            plan = Plan.from_indices(instance, found[0], method="mt-KaHyPar")
            judged = evaluate(instance, plan)
            reference = 100 * (judged.collocation_factor or 0.0)
            bad = len(judged.violations)
            yield kind, "mt-KaHyPar, highest", f"{reference:.2f}", "", f"{found[1]:.1f}", bad
            methods["imc-search, started from it"] = {"warm_start": plan}
        for name, given in methods.items():
            method = name.partition(",")[0]
            solve(small, method, **{k: v for k, v in given.items() if k != "warm_start"})
            run = least(solve, instance, method, repeats=repeats, seed=SEED, **given)
            share, bad = collocated(run.value), len(run.value.evaluation.violations)
            away = "" if reference is None else f"{share - reference:+.2f}"
            yield kind, name, f"{share:.2f}", away, f"{run.cpu:.2f}", bad


def large_row(kind: str, tasks: int, nodes: int) -> list[object]:
    """Solve a large graph; the peak of memory is this process's."""
    instance = generate(kind, seed=SEED, tasks=tasks, nodes=nodes)
    solve(generate("community", tasks=200, nodes=4), "imc-search")
    run = spend(solve, instance, "imc-search", seed=SEED)
    bad = len(run.value.evaluation.violations)
    peak = peak_megabytes() / 1024
    return [kind, f"{collocated(run.value):.2f}", run.cpu, run.wall, f"{peak:.2f}", bad]


def large_graphs(tasks: int = 100_000, nodes: int = 1_000) -> Rows:
    """Task graphs of 100,000 tasks."""
    for kind in GRAPHS:
        yield apart(large_row, kind, tasks, nodes)


DENSE = cases("dense")


def dense(limits: Sequence[float] = (5.0, 60.0), sizes: int = len(DENSE)) -> Rows:
    """Complete graphs of unlike tasks: one seed of each, two of the search."""
    solve(generate("dense", tasks=20, nodes=3), "imc-search", time_limit=0.1)
    for kind, tasks, nodes in DENSE[:sizes]:
        made = generate(kind, seed=1, tasks=tasks, nodes=nodes)
        asked: list[tuple[str, float | None, int]] = [("partition", None, 0)]
        asked += [("imc-search", limit, seed) for limit in limits for seed in range(2)]
        runs = [spend(solve, made, m, seed=seed, time_limit=limit) for m, limit, seed in asked]
        gains = [run.value.evaluation.imc_gain for run in runs]
        for (method, limit, seed), gain, run in zip(asked, gains, runs, strict=True):
            below = f"{100 * (1 - gain / max(gains)):.2f}"
            name = f"{kind}, {tasks} on {nodes}"
            yield name, method, limit, seed, f"{gain:.0f}", below, f"{run.cpu:.1f}"
