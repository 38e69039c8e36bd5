"""Runs of the tables: the paper's examples, its random graphs, jobs with drawn costs.

No sweeps: placements that are not whole count, TL's order is drawn with the graph, and single task
pairs are counted, of which no figure of the referee says anything.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.generators import generate
from experiments.studies.papers.task_allocation import allocations
from experiments.studies.papers.task_allocation.allocations import (
    TL_READINGS,
    naive,
    optimum,
    td,
    tl,
)
from experiments.studies.papers.task_allocation.workloads import NOISE, THRESHOLD, make_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance

Row = dict[str, Any]

cached = lru_cache(128)(generate)
"""Runs of a table follow each other on one instance."""


def examples(algorithm: str, priority: str, order: str, seeds: int) -> Iterator[Row]:
    """Yield links of pairs 1 to 3 of Figure 2's job inside nodes, and nodes of each."""
    made = cached("figure2")
    for seed in range(seeds if order == "shuffled" else 1):
        placed = td(made, priority) if algorithm == "TD" else tl(made, priority, order, seed)
        links = {f"links_{p + 1}": allocations.links(made, placed.node, p, p + 1) for p in range(3)}
        first, last = (set(some.tolist()) for some in np.split(placed.node, [10 + 20]))
        nodes = {"nodes_pair_1": len(first), "nodes_pair_3": len(last - first)}
        yield {"seed": seed, **links, **nodes, "nodes": len(first | last)}


def balance_mode(seed: int, alpha: float, algorithm: str) -> Row:
    """Place a graph on nodes that hold at most alpha times the mean load."""
    # fine tasks, so that a bound just above the mean can be kept
    base = cached("random_graphs", costs="ranked", tasks=170, capacity=100, seed=seed)
    mean = float(base.tasks.load[:, 0].sum()) / base.num_nodes
    made = with_capacity(base, alpha * mean)
    placed = td(made) if algorithm == "TD" else tl(made, seed=seed)
    known = placed.node >= 0
    load = np.bincount(placed.node[known], base.tasks.load[known, 0], base.num_nodes)
    return {"gain": placed.gain, "max_over_mean": load.max() / mean, "whole": placed.whole}


def coarseness(use: int, tasks: int, seed: int) -> Row:
    """Whether each places all tasks of a job at a use of the nodes."""
    made = cached("random_graphs", tasks=tasks, costs="noisy", seed=seed)
    made = with_capacity(made, 500 / 8 / (use / 100))
    return {"td": td(made).whole, "tl": tl(made, seed=seed).whole}


def built(seeds: int) -> list[Row]:
    """Return what cases gain that are built on purpose."""
    lines: list[Row] = []

    def add(case: str, seed: int, variant: str, value: float) -> None:
        lines.append({"case": case, "seed": seed, "variant": variant, "value": value})

    # a task away: 4 tasks talk to 6 over 24 links of 1 MB/s, all on one node but one task
    n, m, c = 4, 6, 24.0
    made = job([(n, n), (m, m)], [(0, 1, c)], [n + m, n + m])
    whole = [0] * (n + m)
    for variant, task in (("of n", 0), ("of m", n)):
        away = whole.copy()
        away[task] = 1
        add("away", 0, f"loss, a task {variant}", kept(made, whole) - kept(made, away))
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
        add("least nodes", 0, f"gain {variant}", kept(counter, node))
    return lines


def _nodes(made: Instance) -> float:
    from optim import solve

    result = solve(made, method="imc-exact")
    assert result.evaluation is not None
    return float(result.evaluation.nodes_used or 0)


def relaxed(what: str, seed: int) -> Iterator[Row]:
    """Yield a job before and after a relaxation of section 5: whether all is placed, and gain."""
    yield from {"gcd": _common_divisor, "skew": _hot_keys}.get(what, _normalised)(seed, what)


def _common_divisor(seed: int, _: str) -> Iterator[Row]:
    """Cut groups anew by the greatest common divisor, at a use of up to 100 %."""
    from heuristics.task_allocation.groups import recut

    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 7))
    cost = rng.integers(1, 12, count) * 10.0
    sizes = rng.integers(1, 6, count)
    nodes = int(rng.integers(2, 6))
    capacity = float(-(-cost.sum() // (10 * nodes)) * 10)
    pairs = [(i, i + 1, float(rng.uniform(5, 20))) for i in range(count - 1)]
    groups = [(int(k), float(c)) for k, c in zip(sizes, cost, strict=True)]
    made = job(groups, pairs, [capacity] * nodes)
    use = 100 * cost.sum() / (capacity * nodes)
    for variant, one in (("as it is", made), ("recut", recut(made))):
        yield {"variant": variant, "placed": float(td(one).whole), "use": use}


SIZES = {
    "normalise": (1, 1, 1, 2, 2, 4),  # the paper's: one, two and four cores
    "normalise, not whole": (1, 1.3, 1, 2.4, 2, 4.4),
}


def _normalised(seed: int, what: str) -> Iterator[Row]:
    """Nodes of unlike sizes, as they are and as several of the smallest."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.top_down import place_groups

    base = cached("random_graphs", costs="ranked", tasks=34, seed=seed)
    nodes = [{"id": f"n{i}", "capacity": {"cpu": 100.0 * k}} for i, k in enumerate(SIZES[what])]
    mixed = base.replace(nodes=nodes)
    for variant, normalise in (("as they are", False), ("normalised", True)):
        normal = grouped_job(mixed, normalise=normalise)
        placed = allocations.judged(mixed, place_groups(normal))
        yield {"variant": variant, "placed": float(placed.whole), "gain": placed.gain}


def _hot_keys(seed: int, _: str) -> Iterator[Row]:
    """Groups with few hot keys, cut into even ones."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.top_down import place_groups

    rng = np.random.default_rng(seed)
    hot = int(rng.integers(1, 4))
    weight = np.ones(40)
    weight[:hot] = rng.integers(4, 9, hot)
    made = skewed(weight, rng)
    even = grouped_job(made, margin=0.1)
    placed = allocations.judged(made, place_groups(even))
    groups = {"groups": float(made.num_operators), "new_groups": float(even.num_groups)}
    yield {"variant": "even groups", "placed": float(placed.whole), **groups, "hot": float(hot)}


def priorities(third: int, ratio: float, seed: int) -> Row:
    """TL by each priority in Figure 4a, by traffic ratio and cost of the third group."""
    made = cached(
        "pipeline", groups=3, tasks="10", costs=f"100,100,{third}", nodes=3,
        capacity=(200 + third) / 2.25, rates=f"10,{round(10 * ratio)}",
    )  # fmt: skip
    chosen = ("group_imc", "significance")
    return {priority: tl(made, priority, "shuffled", seed).gain for priority in chosen}


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
    from optim import solve

    made = cached("random_graphs", costs="ranked", seed=seed)
    search = solve(made, method="imc-search", seed=0).evaluation
    return {
        "groups": made.num_operators,
        "optimum": optimum(made),
        "td": td(made).gain,
        "td_imc": td(made, "imc").gain,
        "tl": tl(made, seed=seed).gain,
        "tl_significance": tl(made, "significance", seed=seed).gain,
        "naive": naive(made).gain,
        "imc_search": search.imc_gain if search is not None else None,
    }


def readings(costs: str, graphs: int) -> Iterator[Row]:
    """Yield the share of the optimum over the graphs, by reading of priority and order."""
    made = [cached("random_graphs", costs=costs, seed=seed) for seed in range(graphs)]
    best = np.array([optimum(one) for one in made])
    gains = {
        ("TL", *key): [tl(m, *key, seed=s).gain for s, m in enumerate(made)] for key in TL_READINGS
    }
    gains |= {("TD", key, ""): [td(m, key).gain for m in made] for key in ("significance", "imc")}
    gains["TD", "significance, k gives up", ""] = [td(m, k_rule="give_up").gain for m in made]
    for (algorithm, priority, order), gain in gains.items():
        mine = np.array(gain)
        known = ~np.isnan(mine) & ~np.isnan(best)
        share = 100 * mine[known].sum() / best[known].sum()
        yield {
            "algorithm": algorithm, "priority": priority, "order": order, "share": share,
            "graphs": int(known.sum()), "not_whole": int(np.isnan(mine).sum()),
        }  # fmt: skip


def task_counts(tasks: int, seed: int) -> Row:
    """TL and TD against the optimum on a graph of 17 to 68 tasks."""
    made = cached("random_graphs", costs="ranked", tasks=tasks, seed=seed)
    return {"optimum": optimum(made), "td": td(made).gain, "tl": tl(made, seed=seed).gain}


TOTAL = {"twitter": 143.0, "bargain": 790.0}


def drawn(kind: str, seed: int, capacity: float) -> Instance:
    """Return a job of the paper's shape and total traffic; seed 0 is the generator's own.

    Costs of the groups, numbers of tasks and shares of the traffic are drawn; a task never costs
    more than half of the least capacity.
    """
    made = generate(kind, capacity=capacity)
    if seed == 0:
        return made
    rng = np.random.default_rng(seed)
    document = made.to_dict()
    cost = rng.dirichlet(np.full(made.num_operators, 2.0)) * rng.uniform(300, 4000)
    tasks = np.maximum(np.ceil(cost / 30).astype(int), rng.integers(2, 31, made.num_operators))
    for operator, c, k in zip(document["operators"], cost, tasks, strict=True):
        operator.pop("tasks", None)
        operator["group"] = {"tasks": int(k), "load": {"cpu": float(c)}}
    share = rng.dirichlet(np.full(len(document["streams"]), 1.5))
    for stream, part in zip(document["streams"], share, strict=True):
        stream["rate"] = float(TOTAL[kind] * part)
    return made.replace(operators=document["operators"], streams=document["streams"])


def workloads(job: str, seed: int, capacity: int) -> Row:
    """Gains of all on a draw of the lost costs; empty where not whole."""
    made = drawn(job, seed, float(capacity))
    return {
        "td": td(made).gain,
        "td_imc": td(made, "imc").gain,
        "tl": tl(made, seed=seed).gain,
        "tl_row": tl(made, "task_imc", "row").gain,
        "storm": allocations.storm(made).gain,
    }


def workers(workers: int) -> Row:
    """Storm's gain at the peak of Figure 9 on a number of workers, beside TD's."""
    made = make_job(1.0)
    return {"storm": allocations.storm(made, workers).gain, "td": td(made).gain}


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
    from optim.format.instance import Instance

    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "built",
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": c}} for i, c in enumerate(capacities)],
            "operators": [
                {"id": f"g{i}", "group": {"tasks": k, "load": {"cpu": c}}}
                for i, (k, c) in enumerate(groups)
            ],
            "streams": [{"from": f"g{a}", "to": f"g{b}", "rate": c} for a, b, c in rates]
            + [{"from": a, "to": b, "rate": c, "pattern": p} for a, b, c, p in patterned],
        }
    )


def skewed(weight: Any, rng: Any) -> Instance:
    """Build two groups, the first with tasks of unlike loads by key; the rest is nearly even."""
    from optim.format.instance import Instance

    loads = weight * rng.uniform(0.97, 1.0, len(weight))
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "skewed",
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": 25.0}} for i in range(5)],
            "operators": [
                {"id": "keys"},
                {"id": "sink", "group": {"tasks": 20, "load": {"cpu": 20.0}}},
            ],
            "tasks": [
                {"id": f"k{i}", "operator": "keys", "load": {"cpu": float(load)}}
                for i, load in enumerate(loads)
            ],
            "streams": [{"from": "keys", "to": "sink", "rate": 50.0}],
        }
    )


def kept(made: Instance, node: list[int]) -> float:
    """Return the traffic that a placement keeps inside nodes."""
    return float(made.flows.collocated(np.array(node, dtype=np.int32), made.num_nodes))


def with_capacity(made: Instance, capacity: float) -> Instance:
    """Return the job on nodes of another capacity."""
    nodes = [{**node, "capacity": {"cpu": capacity}} for node in made.to_dict()["nodes"]]
    return made.replace(nodes=nodes)
