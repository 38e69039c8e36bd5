"""Timings of methods that are more than a list of runs, and the instances of those that are."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.generators import generate
from experiments.generators.kinds import equal_nodes
from experiments.generators.kinds import instance as built
from experiments.generators.rebalancing import CLUSTER, SCALE_IN
from experiments.studies.bench.cases import read
from experiments.studies.bench.rebalancer_process import FORMULAS, find_peer, run_peer
from experiments.studies.papers.task_allocation.runs import call_of, count_calls, prepared, td, tl
from experiments.studies.timings.registry import (
    LeftOut,
    Rows,
    cases,
    collocated,
    instance_of,
    least,
    spend,
    value_of,
)
from formulations.column_generation.problem import problem_of
from formulations.column_generation.search import SHARES, searched
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.bound import Needs
from formulations.rebalancing.problem import balance_problem
from optim import Instance, Plan, evaluate, solve
from optim.errors import StreamplaceError, UnsuitableMethod
from optim.figures.catalogue import OBJECTIVES
from optim.figures.figure import Figure
from optim.kernels.classes import node_classes, task_groups
from optim.kernels.repair import warm_up
from optim.methods.choose import check_suitable
from optim.methods.portfolio import PORTFOLIO
from optim.methods.registry import get_method, method_names
from optim.referee import Result, evaluate_indices
from optim.solvers import SOLVERS, capabilities, solve_linear
from streamplace.clusters.exchange.sources import import_instance

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SEED = 1

# --- instances -------------------------------------------------------------------------------


def random_pairs(seed: int, topologies: int, executors: int, pairs: int) -> Instance:
    """Return executors that talk to random others of their topology, on 100 equal nodes."""
    rng, per_topology, nodes, slots = np.random.default_rng(seed), executors // topologies, 100, 4
    of = rng.integers(0, topologies, 2 * pairs)
    a, b = rng.integers(0, per_topology, (2, 2 * pairs)) * topologies + of
    low, high = np.minimum(a, b), np.maximum(a, b)
    distinct = np.unique(np.stack([low, high], axis=1)[low != high], axis=0)
    chosen = rng.permutation(distinct)[:pairs].tolist()
    loads = rng.uniform(50, 150, executors).tolist()
    rates = rng.lognormal(size=len(chosen)).tolist()
    # mean load 100: nodes used to 70 %
    room, workers = {"cpu": executors / nodes * 143}, nodes * slots // topologies
    return built(
        f"{topologies} topologies", "random pairs",
        nodes=[{"id": f"n{i}", "slots": slots, "capacity": room} for i in range(nodes)],
        topologies=[{"id": f"t{k}", "workers": workers} for k in range(topologies)],
        operators=[{"id": f"o{k}", "topology": f"t{k}"} for k in range(topologies)],
        tasks=[
            {"id": f"e{i}", "operator": f"o{i % topologies}", "load": {"cpu": load}}
            for i, load in enumerate(loads)
        ],
        traffic=[[f"e{u}", f"e{v}", r] for (u, v), r in zip(chosen, rates, strict=True)],
    )  # fmt: skip


def pipeline(seed: int, nodes: int, tasks: int = 100, groups: int = 4) -> Instance:
    """Build a pipeline of groups of 200 % CPU, 80 % of all, whose network cards take a fifth."""
    card, cpu = 1.2 * 15.0 * (groups - 1) / nodes, 250.0 * groups / nodes
    return built(
        f"pipeline-{groups}x{tasks}-{nodes}", "groups in a row",
        nodes=equal_nodes(nodes, cpu),
        operators=[
            {"id": f"v{i}", "group": {"tasks": tasks, "load": {"cpu": 200.0}}}
            for i in range(groups)
        ],
        streams=[{"from": f"v{i}", "to": f"v{i + 1}", "rate": 15.0} for i in range(groups - 1)],
        links=[
            {"id": f"{way}{i}", "nodes": [f"n{i}"], "capacity": card, "direction": way}
            for i in range(nodes)
            for way in ("out", "in")
        ],
        crossing_cost={"cpu": {"out": 1.0, "in": 1.0}},
    )  # fmt: skip


def random_job(seed: int) -> Instance:
    """Return one of the random jobs: 5–6 groups, 65–150 tasks, utilisation 65–95 %."""
    rng = np.random.default_rng(seed)
    # drawn in this order: another one would make other jobs
    tasks, groups = int(rng.integers(65, 151)), int(rng.integers(5, 7))
    nodes, utilisation = int(rng.integers(4, 21)), float(rng.uniform(0.65, 0.95))
    return generate(
        "random_graphs", seed=seed, tasks=tasks, least_groups=groups, most_groups=groups,
        costs="noisy", cost=100.0 * nodes * utilisation, nodes=nodes,
    )  # fmt: skip


NEEDED_FOR, GENEROUS = 0.5, 1.5
"""Load distance that the budgets of the large clusters are made for, and how generous they are."""


def cluster(
    seed: int, name: str, nodes: int, per_node: int, varies: float, budget: int | None = None
) -> Instance | None:
    """Return a cluster of the generator, or with the seed -1 the study's own of that name.

    Without a budget it is one and a half times the moves that a load distance of 0.5 takes at
    least. The study's instances are in the folder named by ``STREAMPLACE_SHARED``, if anywhere.
    """
    if seed < 0:
        shared = os.environ.get("STREAMPLACE_SHARED")
        path = Path(shared or "") / "data" / "albic" / f"{name}.json.gz"
        return Instance.load(path) if shared and path.is_file() else None
    sizes: dict[str, Any] = {"nodes": nodes, "key_groups": per_node, "varies": varies}
    if name.startswith("scalein"):
        return SCALE_IN.make(
            seed, {**sizes, "leaving": 2, "overloaded": 2, "max_migrations": budget}
        )
    if budget is None:
        # moves at least needed, by the bound, times GENEROUS
        needs = Needs(balance_problem(CLUSTER.make(seed, sizes | {"max_migrations": 0})))
        budget = int(GENEROUS * needs.least_moves(*needs.outside(NEEDED_FOR))[0])
    return CLUSTER.make(seed, sizes | {"max_migrations": budget})


def joint(seed: int, of: str, nodes: int, key_groups: int, max_migrations: int) -> Instance:
    """Return the study's instance (seed 0, where there is one) or one like it: half of the key
    groups one to one, and of ``joint`` the other half fully partitioned.
    """
    name = f"joint_{nodes}x{key_groups * nodes}_v40_s0_m{max_migrations}"
    study_instance = cluster(-1, name, nodes, key_groups, 40.0) if seed == 0 else None
    more = {"one_to_one": 50} if of == "cluster" else {"operators": 2}
    return study_instance or generate(
        of, seed=seed, nodes=nodes, key_groups=key_groups, varies=40,
        max_migrations=max_migrations, max_load_distance=1.0, **more,
    )  # fmt: skip


# --- task allocation -------------------------------------------------------------------------


def throughput(nodes: Sequence[int] = (8, 20, 100), runs: int = 3, seconds: int = 2) -> Rows:
    """Count the calls of the published heuristics; the best of several runs."""
    for count in nodes:
        td, tl = (
            max(count_calls(prepared(name, nodes=count), seconds)[-1] for _ in range(runs))
            / seconds
            for name in ("TD", "TL")
        )
        yield count, f"{td:,.0f}", f"{tl:,.0f}", f"{td / tl:.0f}"


def searcher(instance: Instance, kicks: int) -> Callable[[], float]:
    """Return a call of the search on counts with this many kicks: the gain that it reaches."""
    problem = problem_of(instance, task_groups(instance), node_classes(instance))

    def call() -> float:
        counts = searched(problem, [], kicks, 0, SHARES)
        return 0.0 if counts is None else float(problem.gain(counts).sum()) * problem.scale

    return call


def random_graphs(graphs: int = 2_000) -> Rows:
    """Calls a CPU second of heuristics and of the search, best of several rounds; their gains."""
    instances = [generate("random_graphs", seed=seed) for seed in range(graphs)]
    optimum = sum(value_of(solve(instance, "imc-exact")) or 0.0 for instance in instances)
    gains: dict[str, tuple[float, list[Callable[[], Any]]]] = {
        "TD": (sum(td(i).gain for i in instances), [call_of("TD", i) for i in instances]),
        "TL": (sum(tl(i).gain for i in instances), [call_of("TL", i) for i in instances]),
    }
    for kicks in (0, 10, 20):
        calls = [searcher(instance, kicks) for instance in instances]
        gains[f"imc-search, {kicks} kicks"] = sum(call() for call in calls), [*calls]
    for name, (gain, called) in gains.items():
        # compiled, or loaded from the cache, before the clock starts
        called[0]()
        rate = len(called) / least(lambda batch=called: [call() for call in batch]).cpu
        yield name, f"{100 * gain / optimum:.3f} %", f"{rate:,.0f}"


def ctap(folder: str = "", limit: float = 60.0) -> Rows:
    """The constrained task assignment problem: its least cut is our most collocation."""
    if not folder:
        raise LeftOut("--set folder=FOLDER with the CTAP library's *D?.dat and .sol files")
    solve(generate("pipeline", nodes=8), "imc-exact")  # compiled before the clock starts
    for path in sorted(Path(folder).glob("*D?.dat")):
        yield ctap_row(path, limit)


def ctap_row(path: Path, limit: float) -> list[object]:
    """Solve one file; the published optimum is the last number of the ``.sol`` file beside it."""
    instance = import_instance("ctap", [str(path)]).instance
    run = spend(solve, instance, "imc-exact", time_limit=limit)
    total, solution = instance.total_traffic, path.with_suffix(".sol")
    published = float(solution.read_text().split()[-1]) if solution.is_file() else None
    value, bound = value_of(run.value), run.value.bound
    # what is not collocated is cut
    cut = None if value is None else total - value
    below = None if bound is None else max(0.0, total - bound)
    same = (
        "" if published is None or cut is None else "yes" if abs(cut - published) < 1e-6 else "NO"
    )
    shown = ["–" if x is None else f"{x:.6g}" for x in (published, cut, below)]
    ended = str(run.value.termination)
    size = f"{instance.num_tasks} on {instance.num_nodes}"
    return [path.stem, size, *shown, same, ended, f"{run.cpu:.2f}"]


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
    for kind in ("community", "sparse_random", "geometric"):
        instance = generate(kind, seed=SEED, tasks=tasks, nodes=nodes)
        highest_quality, reference = highest(instance), None
        methods: dict[str, dict[str, Any]] = {
            "imc-search": {}, "imc-search, effort 4": {"effort": 4}, "partition": {},
        }  # fmt: skip
        if highest_quality is not None:
            plan = Plan.from_indices(instance, highest_quality[0], method="mt-KaHyPar")
            judged = evaluate(instance, plan)
            reference = 100 * (judged.collocation_factor or 0.0)
            bad = len(judged.violations)
            yield (
                kind,
                "mt-KaHyPar, highest",
                f"{reference:.2f}",
                "",
                f"{highest_quality[1]:.1f}",
                bad,
            )
            methods["imc-search, started from it"] = {"warm_start": plan}
        for name, options in methods.items():
            method = name.partition(",")[0]
            solve(small, method, **{k: v for k, v in options.items() if k != "warm_start"})
            run = least(solve, instance, method, repeats=repeats, seed=SEED, **options)
            share, bad = collocated(run.value), len(run.value.evaluation.violations)
            away = "" if reference is None else f"{share - reference:+.2f}"
            yield kind, name, f"{share:.2f}", away, f"{run.cpu:.2f}", bad


# --- rebalancing, rate, portfolio ------------------------------------------------------------


def solvers(most: int = 3, limit: float = 30.0) -> Rows:
    """At most 30 s each; `rebalancer` is what ``STREAMPLACE_REBALANCER`` names the Python of."""
    python = find_peer()
    for case in cases("clusters")[:most]:
        instance = instance_of("methods:cluster", -1, case) or instance_of(
            "methods:cluster", 0, case
        )
        assert instance is not None
        for method in ("balance-search", "balance-milp", "flux"):
            run = spend(solve, instance, method, time_limit=None if method == "flux" else limit)
            spent = run.wall - run.value.times.get("compile", 0.0)
            yield case["name"], method, value_of(run.value), run.value.bound, spent
        problem = balance_problem(instance)
        built = build_full(problem)
        # arrays are made once, and not on a solver's time
        built.model.freeze()
        for solver in (name for name in SOLVERS if not capabilities(name).integer_only):
            run = spend(solve_linear, built.model, solver, time_limit=limit)
            x, bound = run.value.x, run.value.bound
            value = None if x is None else problem.levels(built.read(x)).distance
            yield case["name"], f"the paper's model, {solver}", value, bound, run.wall
        # goals of the peer's own, judged by our load distance
        for formula in FORMULAS if python else ():
            assert python is not None
            answer = run_peer(python, instance, formula, limit)
            placement = np.array(answer["place"], dtype=np.int64)
            fits = problem.is_feasible(placement)
            reached = problem.levels(placement).distance if fits else "above the budget"
            spent = answer["build"] + answer["solve"]
            yield case["name"], f"rebalancer, {formula}", reached, None, spent


def rate_cases(only: str = "") -> Rows:
    """Prove each; search it for a second; compare with collocation and an even spread."""
    for instance in bench_instances("throughput-q"):
        if only not in instance.name:
            continue
        solve(instance, "throughput-exact")
        exact = spend(solve, instance, "throughput-exact")
        search_result = solve(instance, "throughput-search", time_limit=1.0)
        best = value_of(exact.value) or 0.0
        yield (
            instance.name, best, str(exact.value.termination), exact.wall, exact.cpu,
            (value_of(search_result) or 0.0) / best, *(best / rate for rate in _others(instance)),
        )  # fmt: skip


def bench_instances(head: str) -> Iterator[Instance]:
    """Yield the open benchmark's instances whose names begin so, under these names."""
    for case in read():
        if case.name.startswith(head):
            yield case.instance().replace(name=case.name)


def _others(instance: Instance) -> list[float]:
    """Rates of the proven best collocation and of an even spread, where capacities are hard."""
    from heuristics.throughput import eased

    rates, roomy = [], eased(copy.copy(instance))
    for method in ("imc-exact", "storm-even"):
        plan = solve(roomy, method).plan
        assert plan is not None
        rate = evaluate_indices(instance, plan.node_indices(roomy)).sustainable_rate
        rates.append(rate or float("nan"))
    return rates


class Reached(NamedTuple):
    """What a method reached: tasks on leaving nodes, and the objective."""

    left: int
    value: float


def reached(result: Result, figure: Figure) -> Reached | None:
    """Return what a plan reaches by the referee; limits that the objective measures are none."""
    if result.evaluation is None or not (result.feasible or figure.hard):
        return None
    value = result.evaluation.objective(figure.name)
    undrained = result.evaluation.undrained
    count = 0 if undrained is None or figure.weighs_leaving else int(undrained["count"])
    return None if value is None else Reached(count, float(value))


def behind(one: Reached | None, other: Reached | None, figure: Figure) -> float:
    """Return by what share of the other the one is worse; below 0 it is better."""
    if other is None:
        return 0.0
    if one is None or one.left > other.left:
        return 1.0
    sign = 1.0 if figure.sense == "max" else -1.0
    # a plan that leaves fewer tasks on leaving nodes is better, whatever its value
    size = max(abs(one.value), abs(other.value))
    lost = sign * (other.value - one.value)
    return lost / size if size > 1e-9 and one.left == other.left else 0.0


def singles(instance: Instance, objective: str) -> Iterator[str]:
    """Yield the methods that suit an instance without repair and optimise the same."""
    for name in method_names():
        method = get_method(name)
        if method.aimed_at(objective).objective == objective:
            with suppress(UnsuitableMethod):
                check_suitable(method, instance, repair=False)
                yield name


def portfolio(
    seconds: float = 5.0,
    sets: Sequence[str] = ("examples", "sweep"),
    most: int = 100,
    rivals: int = 100,
) -> Rows:
    """Paired: a plan that leaves tasks on leaving nodes is worse than one that leaves fewer, then
    the objective decides, by the referee. So many instances of each set, and methods of each.
    """
    instance_sets: dict[str, Iterable[Instance]] = {
        "examples": map(Instance.load, sorted(EXAMPLES.glob("*.json"))),
        "sweep": bench_instances("collocation-q"),
    }
    warm_up()
    for instance in (i for which in sets for i in islice(instance_sets[which], most)):
        try:
            ours = solve(instance, PORTFOLIO, time_limit=seconds)
        except StreamplaceError as error:
            print(f"{instance.name}: {error}", file=sys.stderr)
            continue
        if ours.objective is None:
            continue
        figure = OBJECTIVES[ours.objective.name]
        our_result = reached(ours, figure)
        best, name, tried = None, "", 0
        for single in islice(singles(instance, figure.name), rivals):
            with suppress(StreamplaceError):
                result = solve(instance, single, time_limit=seconds, objective=figure.name)
                tried, rival_result = tried + 1, reached(result, figure)
                if rival_result is not None and (
                    best is None or behind(best, rival_result, figure) > 0
                ):
                    best, name = rival_result, single
        yield (
            instance.name, figure.name, our_result and our_result.value, str(ours.termination),
            name, best and best.value, tried, f"{100 * behind(our_result, best, figure):.3f} %",
        )  # fmt: skip
