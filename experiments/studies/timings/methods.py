"""Methods at the sizes they are meant for: Storm, elastic operators, model-driven mapping,
sustainable rate; the portfolio beside each of them.
"""

from __future__ import annotations

import copy
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.generators import generate
from experiments.studies.bench.cases import read
from experiments.studies.timings.registry import least, spend, value_of
from optim import Instance, solve
from optim.errors import StreamplaceError, UnsuitableMethod
from optim.figures.catalogue import OBJECTIVES
from optim.kernels.warm import warm_up
from optim.methods.choose import check_suitable
from optim.methods.portfolio import PORTFOLIO
from optim.methods.registry import Request, get_method, method_names
from optim.referee.evaluate import evaluate_indices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from experiments.studies.timings.registry import Rows
    from optim.figures.figure import Figure
    from optim.referee.result import Result

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NODES, SLOTS = 100, 4


def random_pairs(topologies: int, executors: int, pairs: int) -> Instance:
    """Return executors that talk to random others of their topology, on equal nodes."""
    rng = np.random.default_rng(0)
    own = executors // topologies
    of = rng.integers(0, topologies, 2 * pairs)
    a, b = rng.integers(0, own, (2, 2 * pairs)) * topologies + of
    low, high = np.minimum(a, b), np.maximum(a, b)
    known = np.unique(np.stack([low, high], axis=1)[low != high], axis=0)
    chosen = rng.permutation(known)[:pairs].tolist()
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": f"{topologies} topologies",
            "nodes": [
                {"id": f"n{i}", "slots": SLOTS, "capacity": {"cpu": executors / NODES * 143}}
                for i in range(NODES)
            ],
            "topologies": [
                {"id": f"t{k}", "workers": NODES * SLOTS // topologies} for k in range(topologies)
            ],
            "operators": [{"id": f"o{k}", "topology": f"t{k}"} for k in range(topologies)],
            "tasks": [
                {"id": f"e{i}", "operator": f"o{i % topologies}", "load": {"cpu": load}}
                for i, load in enumerate(rng.uniform(50, 150, executors).tolist())
            ],
            "traffic": [
                [f"e{u}", f"e{v}", rate]
                for (u, v), rate in zip(
                    chosen, rng.lognormal(size=len(chosen)).tolist(), strict=True
                )
            ],
        }
    )


def between_nodes(result: Result) -> float:
    """Return the traffic between nodes, percent of all."""
    found = result.evaluation
    return 100 * (found.internode_traffic or 0.0) / (found.total_traffic or 1.0) if found else 100.0


def storm_online(executors: int = 10_000, pairs: int = 100_000) -> Rows:
    """Storm's online scheduler, evaluation included."""
    for topologies in (1, 10):
        made = random_pairs(topologies, executors, pairs)
        _ = made.pairs, made.sha256
        chosen: tuple[dict[str, Any], ...] = ({}, {"alpha": 0.05, "gamma": 3.0})
        for options in chosen:
            solve(made, "storm-online", **options)
            run = least(solve, made, "storm-online", repeats=3, **options)
            shown = ", ".join(f"{k} {v:g}" for k, v in options.items()) or "defaults"
            yield topologies, shown, run.wall, between_nodes(run.value)


def storm_milp(groupings: Sequence[str] = ("shuffle", "alternate", "fields")) -> Rows:
    """Proofs by patterns, of both levels."""
    for grouping in groupings:
        for slots in (1, 4):
            made = generate(
                "storm_reference", seed=1, stages=4, replication="4", grouping=grouping, slots=slots
            )
            solve(made, "storm-milp")  # loads kernels
            result = solve(made, "storm-milp")
            seconds = result.times["build"] + result.times["solve"]
            yield grouping, slots, seconds, between_nodes(result), str(result.termination)


def gma(nodes: int = 1_000, operators: int = 10_000, racks: Sequence[int] = (0, 25)) -> Rows:
    """The elastic allocator's heuristic, the referee left out."""
    method = get_method("gma")
    for count in racks:
        instance = generate("eoa_random", nodes=nodes, operators=operators, racks=count)
        for objective in ("used_capacity", "cpu_deviation"):
            request = Request(objective=objective, options=method.read_options({}))
            method.run(instance, request)  # compiles, and derives the instance's arrays
            run = least(method.run, instance, request, repeats=3)
            result = solve(instance, "gma", objective=objective)
            yield count, objective, run.wall, result.notes[0]


def eoa_milp(seeds: int = 10) -> Rows:
    """The exact model at 60 % CPU use."""
    solve(generate("eoa_random", seed=0, nodes=4, operators=6), "eoa-milp")  # compiles
    for racks in (0, 2):
        made = [generate("eoa_random", seed=seed, racks=racks) for seed in range(seeds)]
        for objective in ("used_capacity", "cpu_deviation", "mean_absolute_deviation"):
            given = {"objective": objective, "time_limit": 60.0}
            runs = [spend(solve, instance, "eoa-milp", **given) for instance in made]
            closed = sum(run.value.termination in ("optimal", "infeasible") for run in runs)
            times = [run.wall for run in runs]
            yield racks, objective, median(times), max(times), f"{closed} of {seeds}"


RATES = {"mba": 160.0, "lsa": 585.0}
"""Input rates at which each allocation makes about 100,000 threads of 1,000 tasks."""
STEPS = {"lsa+rsm": {"step": 500}}
"""Slots acquired at once: one thread measured alone needs so much memory that LSA's many leave gaps
in most slots, and mapping 100,000 threads again for each single slot would take minutes."""


def model_driven(tasks: int = 1_000) -> Rows:
    """Every model-driven method on a random DAG of the five measured tasks, kernels compiled."""
    for allocation, rate in RATES.items():
        instance = generate("model_dag", tasks=tasks, rate=rate, largest_vm="D4")
        for method in (f"{allocation}+{mapping}" for mapping in ("dsm", "sam", "rsm")):
            options: dict[str, Any] = STEPS.get(method, {})
            runs = [spend(solve, instance, method, **options) for _ in range(4)]
            best = min(run.wall - run.value.times.get("compile", 0.0) for run in runs)
            mapping_s = min(run.value.times["solve"] for run in runs)
            result = runs[-1].value
            plan, found = result.plan, result.evaluation
            note = result.notes[-1] if result.notes else ""
            if plan is None or found is None:
                yield method, None, None, None, best, mapping_s, note
            else:
                threads = sum((plan.threads or {}).values())
                cells = (f"{threads:,}", plan.planned_slots, found.slots)
                yield method, *cells, best, mapping_s, note


def pipeline(nodes: int, tasks: int = 100, groups: int = 4) -> Instance:
    """Build a pipeline of groups of 200 % CPU, 80 % of all, whose network cards take a fifth."""
    streams = [{"from": f"v{i}", "to": f"v{i + 1}", "rate": 15.0} for i in range(groups - 1)]
    card = 1.2 * 15.0 * (groups - 1) / nodes
    cpu = {"cpu": 250.0 * groups / nodes}
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"pipeline-{groups}x{tasks}-{nodes}",
        "nodes": [{"id": f"n{i}", "capacity": cpu} for i in range(nodes)],
        "operators": [
            {"id": f"v{i}", "group": {"tasks": tasks, "load": {"cpu": 200.0}}}
            for i in range(groups)
        ],
        "streams": streams,
        "links": [
            {"id": f"{way}{i}", "nodes": [f"n{i}"], "capacity": card, "direction": way}
            for i in range(nodes)
            for way in ("out", "in")
        ],
        "crossing_cost": {"cpu": {"out": 1.0, "in": 1.0}},
    }
    return Instance.from_dict(document)


def rate_cases(only: str = "") -> Rows:
    """Prove each; search it for a second; compare with collocation and an even spread."""
    for instance in bench_instances("throughput-q"):
        if only not in instance.name:
            continue
        solve(instance, "throughput-exact")
        exact = spend(solve, instance, "throughput-exact")
        found = solve(instance, "throughput-search", time_limit=1.0)
        best = value_of(exact.value) or 0.0
        yield (
            instance.name, best, str(exact.value.termination), exact.wall, exact.cpu,
            (value_of(found) or 0.0) / best, *(best / rate for rate in _others(instance)),
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


def rate_pipelines(
    nodes: Sequence[int] = (8, 20, 100),
    large: tuple[int, int, int] = (1000, 5000, 20),
    limit: float = 30.0,
) -> Rows:
    """4 × 100 tasks within half a minute; 100,000 tasks on 1,000 nodes within ten seconds."""
    asked = [(pipeline(count), "throughput-exact", limit) for count in nodes]
    asked.append((pipeline(*large), "throughput-search", limit / 3))
    for instance, method, seconds in asked:
        solve(pipeline(4, 4), method, time_limit=1.0)
        run = spend(solve, instance, method, time_limit=seconds)
        result = run.value
        size = f"{instance.num_operators} × {instance.num_tasks} on {instance.num_nodes}"
        cells = (value_of(result), result.bound, result.gap, str(result.termination))
        yield size, method, *cells, run.wall, run.cpu


class Reached(NamedTuple):
    """What a method reached: tasks on leaving nodes, and the objective."""

    left: int
    value: float


def reached(result: Result, figure: Figure) -> Reached | None:
    """Return what a plan reaches by the referee; limits that the objective measures are none."""
    if result.evaluation is None or not (result.feasible or figure.hard):
        return None
    value = result.evaluation.objective(figure.name)
    left = result.evaluation.undrained
    count = 0 if left is None or figure.weighs_leaving else int(left["count"])
    return None if value is None else Reached(count, float(value))


def behind(one: Reached | None, other: Reached | None, figure: Figure) -> float:
    """Return by what share of the other the one is worse; below 0 it is better."""
    if other is None:
        return 0.0
    if one is None or one.left > other.left:
        return 1.0
    sign = 1.0 if figure.sense == "max" else -1.0
    size = max(abs(one.value), abs(other.value))
    lost = sign * (other.value - one.value)
    return lost / size if size > 1e-9 and one.left == other.left else 0.0


def singles(instance: Instance, objective: str) -> Iterator[str]:
    """Yield the methods that suit an instance without repair and optimise the same."""
    for name in method_names():
        method = get_method(name)
        if method.aimed_at(objective).objective != objective:
            continue
        try:
            check_suitable(method, instance, repair=False)
        except UnsuitableMethod:
            continue
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
    made: dict[str, Iterable[Instance]] = {
        "examples": map(Instance.load, sorted(EXAMPLES.glob("*.json"))),
        "sweep": bench_instances("collocation-q"),
    }
    warm_up()
    for instance in (i for which in sets for i in islice(made[which], most)):
        try:
            ours = solve(instance, PORTFOLIO, time_limit=seconds)
        except StreamplaceError as error:
            print(f"{instance.name}: {error}", file=sys.stderr)
            continue
        if ours.objective is None:
            continue
        figure = OBJECTIVES[ours.objective.name]
        mine = reached(ours, figure)
        best, name, tried = None, "", 0
        for single in islice(singles(instance, figure.name), rivals):
            with suppress(StreamplaceError):
                result = solve(instance, single, time_limit=seconds, objective=figure.name)
                tried, found = tried + 1, reached(result, figure)
                if found is not None and (best is None or behind(best, found, figure) > 0):
                    best, name = found, single
        yield (
            instance.name, figure.name, mine and mine.value, str(ours.termination), name,
            best and best.value, tried, f"{100 * behind(mine, best, figure):.3f} %",
        )  # fmt: skip
