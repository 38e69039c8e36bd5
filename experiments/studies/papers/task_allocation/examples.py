"""Tables of small set-ups: the paper's examples, its micro-benchmarks, its relaxations."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from experiments.studies.papers.task_allocation import allocations

if TYPE_CHECKING:
    import pandas as pd

    from optim.format.instance import Instance


def examples(reduced: bool) -> pd.DataFrame:
    """One line a run on Figure 2's job: links of pairs 1 to 3 inside nodes, and nodes of each."""
    import pandas as pd

    from experiments.generators import generate

    made = generate("figure2")
    runs: list[tuple[str, str, str, int, Any]] = [
        ("TD", key, "", 0, allocations.td(made, key)) for key in ("significance", "imc")
    ]
    for priority, order in allocations.TL_READINGS:
        for seed in range((30 if reduced else 100) if order == "shuffled" else 1):
            placed = allocations.tl(made, priority, order, seed)
            runs.append(("TL", priority, order, seed, placed))
    lines = []
    for algorithm, priority, order, seed, placed in runs:
        line = {"algorithm": algorithm, "priority": priority, "order": order, "seed": seed}
        for pair in range(3):
            line[f"links_{pair + 1}"] = allocations.links(made, placed.node, pair, pair + 1)
        first = set(placed.node[: 10 + 20].tolist())
        line["nodes_pair_1"] = len(first)
        line["nodes_pair_3"] = len(set(placed.node[30:].tolist()) - first)
        line["nodes"] = len(set(placed.node.tolist()))
        lines.append(line)
    return pd.DataFrame(lines)


def balance_mode(reduced: bool) -> pd.DataFrame:
    """One line a graph and alpha: nodes hold at most alpha times the mean load."""
    import numpy as np
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for seed in range(10 if reduced else 30):
        # fine tasks, so that a bound just above the mean can be kept
        base = generate("random_graphs", costs="ranked", tasks=170, capacity=100, seed=seed)
        mean = float(base.tasks.load[:, 0].sum()) / base.num_nodes
        for alpha in (1.05, 1.1, 1.2, 1.35, 1.6, 2.0):
            made = with_capacity(base, alpha * mean)
            for name, placed in (
                ("TD", allocations.td(made)),
                ("TL", allocations.tl(made, seed=seed)),
            ):
                load = np.bincount(
                    placed.node[placed.node >= 0],
                    base.tasks.load[placed.node >= 0, 0],
                    base.num_nodes,
                )
                lines.append(
                    {"seed": seed, "alpha": alpha, "algorithm": name, "gain": placed.gain}
                    | {"max_over_mean": load.max() / mean, "whole": placed.whole}
                )
    return pd.DataFrame(lines)


def coarseness(reduced: bool) -> pd.DataFrame:
    """One line a job, a use of the nodes and a number of tasks: whether each places all."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for use in (60, 75, 85, 95):
        for tasks in (17, 34, 68, 136):
            for seed in range(10 if reduced else 60):
                made = generate("random_graphs", tasks=tasks, costs="noisy", seed=seed)
                made = with_capacity(made, 500 / 8 / (use / 100))
                lines.append(
                    {"use": use, "tasks": tasks, "seed": seed}
                    | {
                        "td": allocations.td(made).whole,
                        "tl": allocations.tl(made, seed=seed).whole,
                    }
                )
    return pd.DataFrame(lines)


def built(reduced: bool) -> pd.DataFrame:
    """One line a case that is built on purpose, and a seed: what it gains."""
    import pandas as pd

    from experiments.studies.papers.task_allocation.allocations import naive, td, tl

    lines: list[dict[str, Any]] = []

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
    for seed in range(10 if reduced else 30):
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
    return pd.DataFrame(lines)


def _nodes(made: Instance) -> float:
    from optim import solve

    result = solve(made, method="imc-exact")
    assert result.evaluation is not None
    return float(result.evaluation.nodes_used or 0)


def relaxed(reduced: bool) -> pd.DataFrame:
    """One line a job and relaxation of section 5: whether all is placed, gain, highest load."""
    import numpy as np
    import pandas as pd

    from experiments.generators import generate
    from heuristics.task_allocation.groups import grouped_job, recut
    from heuristics.task_allocation.top_down import place_groups

    lines: list[dict[str, Any]] = []
    seeds = range(20 if reduced else 100)

    def add(what: str, seed: int, variant: str, **values: float) -> None:
        lines.append({"what": what, "seed": seed, "variant": variant, **values})

    for seed in seeds:  # the greatest common divisor: use up to 100 %
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
        add("gcd", seed, "as it is", placed=float(allocations.td(made).whole), use=use)
        add("gcd", seed, "recut", placed=float(allocations.td(recut(made)).whole), use=use)
    sizes_of = {
        "normalise": (1, 1, 1, 2, 2, 4),  # the paper's: one, two and four cores
        "normalise, not whole": (1, 1.3, 1, 2.4, 2, 4.4),
    }
    for what, seed in product(sizes_of, seeds):
        base = generate("random_graphs", costs="ranked", tasks=34, seed=seed)
        nodes_of = enumerate(sizes_of[what])
        mixed = base.replace(
            nodes=[{"id": f"n{i}", "capacity": {"cpu": 100.0 * k}} for i, k in nodes_of]
        )
        for variant, normalise in (("as they are", False), ("normalised", True)):
            normal = grouped_job(mixed, normalise=normalise)
            placed = allocations.judged(mixed, place_groups(normal))
            add(what, seed, variant, placed=float(placed.whole), gain=placed.gain)
    for seed in seeds:  # skew: few hot keys
        rng = np.random.default_rng(seed)
        hot = int(rng.integers(1, 4))
        weight = np.ones(40)
        weight[:hot] = rng.integers(4, 9, hot)
        made = skewed(weight, rng)
        job_of = grouped_job(made, margin=0.1)
        placed = allocations.judged(made, place_groups(job_of))
        add(
            "skew",
            seed,
            "even groups",
            placed=float(placed.whole),
            groups=float(made.num_operators),
            new_groups=float(job_of.num_groups),
            hot=float(hot),
        )
    return pd.DataFrame(lines)


def priorities(reduced: bool) -> pd.DataFrame:
    """One line a ratio, cost of the third group, order and seed: TL by each priority (Fig 4a)."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for third in (150, 200, 250, 300, 350):
        for step in range(0, 11, 5 if reduced else 1):
            rates = f"10,{20 - step}"
            made = generate(
                "pipeline", groups=3, tasks="10", costs=f"100,100,{third}",
                nodes=3, capacity=(200 + third) / 2.25, rates=rates,
            )  # fmt: skip
            for seed in range(10 if reduced else 30):
                line = {"third": third, "ratio": (20 - step) / 10, "seed": seed}
                for priority in ("group_imc", "significance"):
                    line[priority] = allocations.tl(made, priority, "shuffled", seed).gain
                lines.append(line)
    return pd.DataFrame(lines)


def uneven_pair(reduced: bool) -> pd.DataFrame:
    """One line a size of the second group, reading and seed: what TL and TD gain (Fig 4b, 4c)."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for tasks in (10, 40, 70) if reduced else range(10, 71, 10):
        made = generate(
            "pipeline", groups=2, tasks=f"10,{tasks}", costs="200", rates="10",
            nodes=6, capacity=80,
        )  # fmt: skip
        best = allocations.optimum(made)
        wide = generate(
            "pipeline", groups=2, tasks=f"10,{tasks}", costs="160", rates="10",
            nodes=6, capacity=80,
        )  # fmt: skip
        shared = {"tasks": tasks, "optimum": best}
        for name, one in (("group is two whole nodes", made), ("two spare nodes", wide)):
            lines.append(
                {**shared, "setup": name, "algorithm": "TD", "order": "", "seed": 0}
                | {"gain": allocations.td(one).gain}
            )
            for order in ("row", "column", "diagonal", "shuffled"):
                for seed in range((10 if reduced else 30) if order == "shuffled" else 1):
                    lines.append(
                        {**shared, "setup": name, "algorithm": "TL", "order": order, "seed": seed}
                        | {"gain": allocations.tl(one, "group_imc", order, seed).gain}
                    )
    return pd.DataFrame(lines)


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
    import numpy as np

    return float(made.flows.collocated(np.array(node, dtype=np.int32), made.num_nodes))


def with_capacity(made: Instance, capacity: float) -> Instance:
    """Return the job on nodes of another capacity."""
    nodes = [{**node, "capacity": {"cpu": capacity}} for node in made.to_dict()["nodes"]]
    return made.replace(nodes=nodes)
