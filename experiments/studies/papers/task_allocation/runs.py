"""Runs of the tables and figures: the paper's examples, its random graphs, jobs with drawn costs.

No sweeps: placements that are not whole count, TL's order is drawn with the graph, single task
pairs are counted, plans follow one another as a rate varies, and the compiled algorithms alone are
timed, on arrays that stand ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.generators import generate
from experiments.generators.kinds import equal_nodes, instance
from heuristics.task_allocation.groups import grouped_job, recut
from heuristics.task_allocation.task_level import task_level
from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs, uneven_pairs
from heuristics.task_allocation.top_down import place_groups, top_down
from optim import Plan, evaluate, solve
from optim.format.instance import Instance

if TYPE_CHECKING:
    import pandas as pd

Places = NDArray[np.int32]


TL_READINGS = tuple(
    (priority, order)
    for priority in ("task_imc", "group_imc", "significance")
    for order in ("row", "column", "diagonal", "shuffled")
)
"""What the paper leaves open in TL: (priority of the pairs, order of the pairs of a group pair)."""


class Allocated(NamedTuple):
    """A placement and what it gains; the gain of one that is not whole is ``nan``."""

    node: Places
    gain: float
    whole: bool


def tl(
    instance: Instance, priority: str = "group_imc", order: str = "shuffled", seed: int = 0
) -> Allocated:
    """Run TL; the defaults are the default reading."""
    from heuristics.task_allocation.task_level import place_pairs

    job = grouped_job(instance)
    return judged(instance, place_pairs(job, priority, order, seed, uneven_pairs(instance, job)))


def td(instance: Instance, priority: str = "significance", **options: Any) -> Allocated:
    """Run TD."""
    return judged(instance, place_groups(grouped_job(instance), priority, **options))


def naive(instance: Instance) -> Allocated:
    """Run the naive allocator of section 3.1."""
    from heuristics.task_allocation.naive import place_pairs

    job = grouped_job(instance)
    return judged(instance, place_pairs(job, uneven_pairs(instance, job)))


def storm(instance: Instance, workers: int | None = None) -> Allocated:
    """Run Storm's default on a number of workers, or on the fewest that overload no node."""
    num_tasks = instance.num_tasks
    most = min(instance.num_nodes, num_tasks)
    room = instance.headroom[:, 0] + 1e-6
    for count in range(1, most + 1) if workers is None else (workers,):
        # Storm's scheduler deals executors out to the workers in turn
        node = (np.arange(num_tasks) % count).astype(np.int32)
        load = np.bincount(node, instance.tasks.load[:, 0], instance.num_nodes)
        if (load <= room).all():
            return judged(instance, node)
    return Allocated(np.full(num_tasks, -1, dtype=np.int32), float("nan"), False)


def optimum(instance: Instance, time_limit: float = 20.0) -> float:
    """Return the greatest gain, or ``nan`` where it is not proved."""
    result = solve(instance, method="imc-exact", time_limit=time_limit, threads=1)
    if result.termination.value != "optimal" or result.objective is None:
        return float("nan")
    return float(result.objective.value or 0.0)


def judged(instance: Instance, node: Places) -> Allocated:
    """Return a placement with its gain; checks that no node is above its capacity."""
    whole = bool((node >= 0).all())
    # tasks without a node count nowhere: a plan that is not whole is judged by the rest
    placed = node >= 0
    load = np.bincount(node[placed], instance.tasks.load[placed, 0], instance.num_nodes)
    if (load > instance.headroom[:, 0] * (1 + 1e-6) + 1e-6).any():
        raise AssertionError(f"{instance.name}: a node is above its capacity")
    gain = instance.flows.collocated(node, instance.num_nodes) if whole else float("nan")
    return Allocated(node, gain, whole)


def links_of(instance: Instance, node: Places, first: int, second: int) -> int:
    """Return how many task pairs of two operators are on one node."""
    counts: Sequence[Any] = [
        np.bincount(node[tasks][node[tasks] >= 0], minlength=instance.num_nodes)
        for tasks in (instance.tasks_of(first), instance.tasks_of(second))
    ]
    # Σ_n (tasks of the first on n) × (tasks of the second on n)
    return int((counts[0] * counts[1]).sum())


LEVELS = ((0.0, 0.5), (2.0, 1.0), (5.0, 0.7), (8.0, 0.4), (11.0, 0.2), (14.0, 0.4))
"""From which minute on the job gets which share of its peak rate."""
MINUTES, MINUTES_REDUCED = 17.0, 8.0
STEP, STEP_REDUCED = 0.5, 1.0
NOISE = 0.03
THRESHOLD = 0.1
CAPACITY = 400.0


def adapted(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan once at the peak with TD and Storm, and again after every change with TD-RC."""
    import pandas as pd

    minutes, step = (MINUTES_REDUCED, STEP_REDUCED) if reduced else (MINUTES, STEP)
    peak = make_job(1.0)
    once = {"TD": td(peak).node, "Storm": storm(peak).node}
    standing: NDArray[np.int32] | None = None
    planned_at = 0.0
    rows = []
    for minute, rate in rates(minutes, step):
        now = make_job(rate)
        moves = 0
        # TD-RC plans anew once the rate is more than 10 % off the one it planned for
        if standing is None or abs(rate - planned_at) > THRESHOLD * planned_at:
            fresh = td(now).node
            moves = 0 if standing is None else int((fresh != standing).sum())
            standing, planned_at = fresh, rate
        row = {"minute": minute, "input rate (% of peak)": 100 * rate, "moves of TD-RC": moves}
        for name, node in {"TD-RC": standing, **once}.items():
            row |= measured(now, node, name)
        rows.append(row)
    return pd.DataFrame(rows)


def rates(minutes: float, step: float) -> Iterator[tuple[float, float]]:
    """Give pairs of minute and share of the peak: the levels, with a little noise below them."""
    rng = np.random.default_rng(0)
    for minute in np.arange(0.0, minutes, step):
        level = [share for start, share in LEVELS if start <= minute][-1]
        # noise only lowers, so that the plan made at the peak holds throughout
        yield float(minute), level * (1 - NOISE * float(rng.random()))


def make_job(rate: float) -> Instance:
    """Return the Twitter job at a share of its peak rate; costs and traffic follow it."""
    return generate("twitter", capacity=CAPACITY, input_rate=rate)


def measured(instance: Instance, node: Places, name: str) -> dict[str, float]:
    """Return IMC gain and highest utilisation of a placement under the rates of now."""
    evaluation = evaluate(instance, Plan.from_indices(instance, node))
    return {
        f"{name} (MB/s)": evaluation.imc_gain or 0.0,
        f"highest load {name} (%)": 100 * (evaluation.max_utilisation or 0.0),
        f"nodes {name}": evaluation.nodes_used or 0,
    }


NAMES = ("TD", "TL")


def counted(method: str, seconds: int) -> list[dict[str, int]]:
    """Count the calls of an algorithm second by second."""
    counts = count_calls(prepared(method), seconds)
    return [{"duration (s)": at, "allocations": calls} for at, calls in enumerate(counts, start=1)]


def prepared(name: str, **changes: Any) -> Callable[[], object]:
    """Return one call of TD or TL on the pipeline of Figure 5 with other parameters."""
    return call_of(name, generate("pipeline", seed=0, **{"rates": "15,14,16", **changes}))


def call_of(name: str, instance: Instance) -> Callable[[], object]:
    """Return one call of a compiled algorithm, TD or TL, on arrays that stand ready."""
    job = grouped_job(instance)
    arrays = job.arrays
    if name == "TD":
        order = job.priority("significance")
        return lambda: top_down(*arrays, order, 0)
    runs = pair_runs(job, None, "imc", "shuffled", 0)
    return lambda: task_level(*arrays, runs, PAIR_ORDERS.index("shuffled"), 0)


def count_calls(call: Callable[[], object], seconds: int) -> list[int]:
    """Return how many calls had ended after 1, 2, … seconds of this process's own time."""
    call()  # compiled, or loaded from the cache, before the clock starts
    counts: list[int] = []
    calls, batch = 0, 1
    began = time.process_time()
    while len(counts) < seconds:
        for _ in range(batch):
            call()
        calls += batch
        spent = time.process_time() - began
        # look at the clock about every millisecond only
        batch = max(1, int(1e-3 * calls / max(spent, 1e-6)))
        while len(counts) < seconds and spent >= len(counts) + 1:
            counts.append(calls)
    return counts


def throughput(seed: int) -> dict[str, float]:
    """Allocations a second of TD and TL on the pipeline of Figure 5."""
    # about equal, so that the order of the group pairs differs from seed to seed
    rates = np.random.default_rng(seed).uniform(14, 16, 3)
    change = {"rates": ",".join(f"{rate:.3f}" for rate in rates)}
    return {name: 1 / seconds_of(prepared(name, **change), 0.15) for name in NAMES}


def seconds_of(call: Callable[[], object], least: float = 0.05) -> float:
    """Return the least seconds of processor time of a call over several rounds."""
    call()
    best, spent = float("inf"), 0.0
    while spent < least:
        began = time.process_time()
        calls = 0
        while calls < 3 or time.process_time() - began < 1e-3:
            call()
            calls += 1
        took = time.process_time() - began
        spent += took
        best = min(best, took / calls)
    return best


def scaling(what: str, algorithm: str, groups: int, tasks: int, nodes: int) -> dict[str, float]:
    """Seconds of an allocation by tasks, groups and nodes; without tasks, `what` says how many."""
    count = tasks or groups * (1 if "one task" in what else 10)
    job = {"groups": groups, "tasks": str(count // groups), "costs": "200", "rates": "10"}
    call = prepared(algorithm, **job, nodes=nodes, capacity=220.0 * groups / nodes)
    return {"tasks": count, "seconds": seconds_of(call)}


def dense(what: str, groups: int) -> dict[str, float]:
    """Seconds of TD on groups of one task, of which all talk to all."""
    rates = [(a, b, 1.0 + (a * b) % 7) for a in range(groups) for b in range(a)]
    # 20 nodes that hold 1/18 of the load each: used to 90 %
    grouped = grouped_job(job([(1, 1.0)] * groups, rates, [groups / 18] * 20))
    return {"seconds": seconds_of(lambda: place_groups(grouped))}


Row = dict[str, Any]

cached = lru_cache(128)(generate)  # Runs of a table follow each other on one instance.


def examples(algorithm: str, priority: str, order: str, seeds: int) -> Iterator[Row]:
    """Yield links of pairs 1 to 3 of Figure 2's job inside nodes, and nodes of each."""
    instance = cached("figure2")
    for seed in range(seeds if order == "shuffled" else 1):
        placed = (
            td(instance, priority) if algorithm == "TD" else tl(instance, priority, order, seed)
        )
        links = {f"links_{p + 1}": links_of(instance, placed.node, p, p + 1) for p in range(3)}
        # nodes of pair 1 hold groups 1 and 2, 30 tasks; those of pair 3 the other two
        first, last = (set(some.tolist()) for some in np.split(placed.node, [10 + 20]))
        nodes = {"nodes_pair_1": len(first), "nodes_pair_3": len(last - first)}
        yield {"seed": seed, **links, **nodes, "nodes": len(first | last)}


def balance_mode(seed: int, alpha: float, algorithm: str) -> Row:
    """Place a graph on nodes that hold at most alpha times the mean load."""
    # fine tasks, so that a bound just above the mean can be kept
    base = cached("random_graphs", costs="ranked", tasks=170, capacity=100, seed=seed)
    # a capacity of alpha × mean makes an allocator balance
    mean = float(base.tasks.load[:, 0].sum()) / base.num_nodes
    instance = with_capacity(base, alpha * mean)
    placed = td(instance) if algorithm == "TD" else tl(instance, seed=seed)
    assigned = placed.node >= 0
    load = np.bincount(placed.node[assigned], base.tasks.load[assigned, 0], base.num_nodes)
    return {"gain": placed.gain, "max_over_mean": load.max() / mean, "whole": placed.whole}


def coarseness(use: int, tasks: int, seed: int) -> Row:
    """Whether each places all tasks of a job at a use of the nodes."""
    instance = cached("random_graphs", tasks=tasks, costs="noisy", seed=seed)
    # the graphs cost 500 in all, on 8 nodes
    instance = with_capacity(instance, 500 / 8 / (use / 100))
    return {"td": td(instance).whole, "tl": tl(instance, seed=seed).whole}


def built(seeds: int) -> list[Row]:
    """Return what cases gain that are built on purpose."""
    lines: list[Row] = []

    def add(case: str, seed: int, variant: str, value: float) -> None:
        lines.append({"case": case, "seed": seed, "variant": variant, "value": value})

    # a task away: 4 tasks talk to 6 over 24 links of 1 MB/s, all on one node but one task
    n, m, c = 4, 6, 24.0
    instance = job([(n, n), (m, m)], [(0, 1, c)], [n + m, n + m])
    # a task of n moved away cuts c / n, one of m cuts c / m
    whole = [0] * (n + m)
    for variant, task in (("of n", 0), ("of m", n)):
        away = whole.copy()
        away[task] = 1
        add(
            "away",
            0,
            f"loss, a task {variant}",
            collocated_traffic(instance, whole) - collocated_traffic(instance, away),
        )
    add("away", 0, "c / n", c / n)
    add("away", 0, "c / m", c / m)

    # 1,000 links of a heavy group pair, 50 of a light one whose single links are the heavier
    for seed in range(seeds):
        split = job([(40, 40), (25, 25), (2, 40)], [(0, 1, 100 + seed), (1, 2, 40)], [70, 70])
        for priority in ("group_imc", "task_imc"):
            add("misled", seed, priority, tl(split, priority, "row").gain)
    one = job([(100, 100), (100, 100)], [], [20] * 10, [("g0", "g1", 100.0, "one_to_one")])
    for name, placed in (("naive", naive(one)), ("TL", tl(one)), ("TD", td(one))):
        add("one to one", 0, name, placed.gain)

    # full capacity: least nodes and greatest gain are two things
    apart = job([(1, 6), (1, 4), (1, 4), (1, 6)], [(0, 1, 5), (2, 3, 5)], [10, 10, 10])
    add("least nodes", 0, "nodes, optimum", _nodes(apart))
    counter = job([(1, 6), (1, 6), (1, 4), (1, 4)], [(2, 3, 5)], [10, 10, 10])
    add("least nodes", 0, "nodes of the best, counter-example", _nodes(counter))

    add("least nodes", 0, "nodes that suffice, counter-example", 2)
    for variant, node in (("on two nodes", [0, 1, 0, 1]), ("on three nodes", [0, 1, 2, 2])):
        add("least nodes", 0, f"gain {variant}", collocated_traffic(counter, node))
    return lines


def _nodes(instance: Instance) -> float:
    result = solve(instance, method="imc-exact")
    assert result.evaluation is not None
    return float(result.evaluation.nodes_used or 0)


def relaxed(what: str, seed: int) -> Iterator[Row]:
    """Yield a job before and after a relaxation of section 5: whether all is placed, and gain."""
    yield from {"gcd": _common_divisor, "skew": _hot_keys}.get(what, _normalised)(seed, what)


def _common_divisor(seed: int, _: str) -> Iterator[Row]:
    """Cut groups anew by the greatest common divisor, at a use of up to 100 %."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 7))
    cost = rng.integers(1, 12, count) * 10.0
    sizes = rng.integers(1, 6, count)
    nodes = int(rng.integers(2, 6))
    # the least multiple of 10, the divisor of all costs, with which the nodes hold them
    capacity = float(-(-cost.sum() // (10 * nodes)) * 10)
    pairs = [(i, i + 1, float(rng.uniform(5, 20))) for i in range(count - 1)]
    groups = [(int(k), float(c)) for k, c in zip(sizes, cost, strict=True)]
    instance = job(groups, pairs, [capacity] * nodes)
    use = 100 * cost.sum() / (capacity * nodes)
    for variant, one in (("as it is", instance), ("recut", recut(instance))):
        yield {"variant": variant, "placed": float(td(one).whole), "use": use}


SIZES = {
    "normalise": (1, 1, 1, 2, 2, 4),  # the paper's: one, two and four cores
    "normalise, not whole": (1, 1.3, 1, 2.4, 2, 4.4),
}


def _normalised(seed: int, what: str) -> Iterator[Row]:
    """Nodes of unlike sizes, as they are and as several of the smallest."""
    base = cached("random_graphs", costs="ranked", tasks=34, seed=seed)
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 100.0 * k}} for i, k in enumerate(SIZES[what])]
    mixed = base.replace(nodes=nodes)
    for variant, normalise in (("as they are", False), ("normalised", True)):
        normal = grouped_job(mixed, normalise=normalise)
        placed = judged(mixed, place_groups(normal))
        yield {"variant": variant, "placed": float(placed.whole), "gain": placed.gain}


def _hot_keys(seed: int, _: str) -> Iterator[Row]:
    """Groups with few hot keys, cut into even ones."""
    rng = np.random.default_rng(seed)
    hot = int(rng.integers(1, 4))
    weight = np.ones(40)
    weight[:hot] = rng.integers(4, 9, hot)
    instance = skewed(weight, rng)
    even = grouped_job(instance, margin=0.1)
    placed = judged(instance, place_groups(even))
    groups = {"groups": float(instance.num_operators), "new_groups": float(even.num_groups)}
    yield {"variant": "even groups", "placed": float(placed.whole), **groups, "hot": float(hot)}


def priorities(third: int, ratio: float, seed: int) -> Row:
    """TL by each priority in Figure 4a, by traffic ratio and cost of the third group."""
    instance = cached(
        "pipeline", groups=3, tasks="10", costs=f"100,100,{third}", nodes=3,
        # three nodes, used to 75 %: 3 × 0.75 = 2.25
        capacity=(200 + third) / 2.25, rates=f"10,{round(10 * ratio)}",
    )  # fmt: skip
    chosen = ("group_imc", "significance")
    return {priority: tl(instance, priority, "shuffled", seed).gain for priority in chosen}


def uneven_pair(tasks: int, seeds: int) -> Iterator[Row]:
    """Yield what TL and TD gain in Figures 4b and 4c, by size of the second group."""
    pair = {"groups": 2, "tasks": f"10,{tasks}", "rates": "10", "nodes": 6, "capacity": 80}
    whole, wide = (cached("pipeline", **pair, costs=costs) for costs in ("200", "160"))
    best = optimum(whole)
    for name, one in (("group is two whole nodes", whole), ("two spare nodes", wide)):
        shared = {"tasks": tasks, "optimum": best, "setup": name}
        yield {**shared, "algorithm": "TD", "order": "", "seed": 0, "gain": td(one).gain}
        for order in ("row", "column", "diagonal", "shuffled"):
            for seed in range(seeds if order == "shuffled" else 1):
                gain = tl(one, "group_imc", order, seed).gain
                yield {**shared, "algorithm": "TL", "order": order, "seed": seed, "gain": gain}


def graphs(seed: int) -> Row:
    """Gains on a graph of section 7.3 at the default reading, MB/s; empty where not whole."""
    instance = cached("random_graphs", costs="ranked", seed=seed)
    search = solve(instance, method="imc-search", seed=0).evaluation
    return {
        "groups": instance.num_operators,
        "optimum": optimum(instance),
        "td": td(instance).gain,
        "td_imc": td(instance, "imc").gain,
        "tl": tl(instance, seed=seed).gain,
        "tl_significance": tl(instance, "significance", seed=seed).gain,
        "naive": naive(instance).gain,
        "imc_search": search.imc_gain if search is not None else None,
    }


def readings(costs: str, graphs: int) -> Iterator[Row]:
    """Yield the share of the optimum over the graphs, by reading of priority and order."""
    instances = [cached("random_graphs", costs=costs, seed=seed) for seed in range(graphs)]
    best = np.array([optimum(one) for one in instances])
    gains = {
        ("TL", *key): [tl(m, *key, seed=s).gain for s, m in enumerate(instances)]
        for key in TL_READINGS
    }
    gains |= {
        ("TD", key, ""): [td(m, key).gain for m in instances] for key in ("significance", "imc")
    }
    gains["TD", "significance, k gives up", ""] = [td(m, k_rule="give_up").gain for m in instances]
    for (algorithm, priority, order), gain in gains.items():
        values = np.array(gain)
        # only graphs that are placed whole, and whose optimum is proved
        comparable = ~np.isnan(values) & ~np.isnan(best)
        share = 100 * values[comparable].sum() / best[comparable].sum()
        yield {
            "algorithm": algorithm, "priority": priority, "order": order, "share": share,
            "graphs": int(comparable.sum()), "not_whole": int(np.isnan(values).sum()),
        }  # fmt: skip


def task_counts(tasks: int, seed: int) -> Row:
    """TL and TD against the optimum on a graph of 17 to 68 tasks."""
    instance = cached("random_graphs", costs="ranked", tasks=tasks, seed=seed)
    return {
        "optimum": optimum(instance),
        "td": td(instance).gain,
        "tl": tl(instance, seed=seed).gain,
    }


TOTAL = {"twitter": 143.0, "bargain": 790.0}


def drawn(kind: str, seed: int, capacity: float) -> Instance:
    """Return a job of the paper's shape and total traffic; seed 0 is the generator's own.

    Costs of the groups, numbers of tasks and shares of the traffic are drawn; a task never costs
    more than half of the least capacity.
    """
    instance = generate(kind, capacity=capacity)
    if seed == 0:
        return instance
    rng = np.random.default_rng(seed)
    document = instance.to_dict()
    # shares of a total that is drawn; at most 30 % of a core a task
    cost = rng.dirichlet(np.full(instance.num_operators, 2.0)) * rng.uniform(300, 4000)
    tasks = np.maximum(np.ceil(cost / 30).astype(int), rng.integers(2, 31, instance.num_operators))
    for operator, c, k in zip(document["operators"], cost, tasks, strict=True):
        operator.pop("tasks", None)
        operator["group"] = {"tasks": int(k), "load": {"cpu": float(c)}}
    share = rng.dirichlet(np.full(len(document["streams"]), 1.5))
    for stream, part in zip(document["streams"], share, strict=True):
        stream["rate"] = float(TOTAL[kind] * part)
    return instance.replace(operators=document["operators"], streams=document["streams"])


def workloads(job: str, seed: int, capacity: int) -> Row:
    """Gains of all on a draw of the lost costs; empty where not whole."""
    instance = drawn(job, seed, float(capacity))
    return {
        "td": td(instance).gain,
        "td_imc": td(instance, "imc").gain,
        "tl": tl(instance, seed=seed).gain,
        "storm": storm(instance).gain,
    }


def workers(workers: int) -> Row:
    """Storm's gain at the peak of Figure 9 on a number of workers, beside TD's."""
    instance = make_job(1.0)
    return {"storm": storm(instance, workers).gain, "td": td(instance).gain}


def varying_rate(seed: int) -> Row:
    """Changes of a rate over four hours: what was noticed, and what was not one."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(0.0, 240.0, 0.5)
    level, planned, levels = 0.5, 0.5, []
    changed, noticed, delays, false = 0, 0, [], 0
    waiting: float | None = None
    for minute in minutes:
        if rng.random() < 0.5 / 12:  # a change every 12 minutes in the mean
            level = float(np.clip(level * rng.choice([0.5, 0.7, 1.4, 2.0]), 0.05, 1.0))
            if abs(level - planned) > THRESHOLD * planned:
                # a further change before the first one is noticed is the same one
                changed += waiting is None
                waiting = minute if waiting is None else waiting
        rate = level * (1 - NOISE * float(rng.random()))
        levels.append(level)
        if abs(rate - planned) > THRESHOLD * planned:
            if waiting is None:
                false += 1
            else:
                noticed += 1
                delays.append(minute - waiting)
            planned, waiting = rate, None
        elif waiting is not None and abs(level - planned) <= THRESHOLD * planned:
            changed, waiting = changed - 1, None  # it went back before it was measured
    longest = max(delays, default=0.0)
    return {"changed": changed, "noticed": noticed, "false": false, "longest_delay": longest}


def job(
    groups: list[tuple[int, float]],
    rates: list[tuple[int, int, float]],
    capacities: list[float],
    patterned: list[tuple[str, str, float, str]] = [],  # noqa: B006  never changed
) -> Instance:
    """Build a job: groups as (tasks, cost of all), edges as (group, group, traffic)."""
    nodes = [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)]
    operators = [
        {"id": f"g{i}", "group": {"tasks": k, "load": {"cpu": c}}}
        for i, (k, c) in enumerate(groups)
    ]
    streams: list[Row] = [{"from": f"g{a}", "to": f"g{b}", "rate": c} for a, b, c in rates]
    streams += [{"from": a, "to": b, "rate": c, "pattern": p} for a, b, c, p in patterned]
    return instance("built", "by hand", nodes=nodes, operators=operators, streams=streams)


def skewed(weight: Any, rng: Any) -> Instance:
    """Build two groups, the first with tasks of unlike loads by key; the rest is nearly even."""
    loads = weight * rng.uniform(0.97, 1.0, len(weight))
    tasks = [
        {"id": f"k{i}", "operator": "keys", "load": {"cpu": float(load)}}
        for i, load in enumerate(loads)
    ]
    operators = [{"id": "keys"}, {"id": "sink", "group": {"tasks": 20, "load": {"cpu": 20.0}}}]
    streams = [{"from": "keys", "to": "sink", "rate": 50.0}]
    parts = {"operators": operators, "tasks": tasks, "streams": streams}
    return instance("skewed", "by hand", nodes=equal_nodes(5, 25.0), **parts)


def collocated_traffic(instance: Instance, node: list[int]) -> float:
    """Return the traffic that a placement keeps inside nodes."""
    return float(instance.flows.collocated(np.array(node, dtype=np.int32), instance.num_nodes))


def with_capacity(instance: Instance, capacity: float) -> Instance:
    """Return the job on nodes of another capacity."""
    nodes = [{**node, "capacity": {"cpu": capacity}} for node in instance.to_dict()["nodes"]]
    return instance.replace(nodes=nodes)
