"""Small joint problems, and brute force as their judge."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.rebalancing.joint.problem import JointProblem
from optim.figures.measures import imc_gain_of
from optim.format.instance import Instance
from optim.format.traffic import LocalBlock
from tests.formulations.rebalancing.balance.cases import varied_problem


def varied_joint(seed: int, num_tasks: int = 5, num_nodes: int = 4) -> JointProblem:
    """Return a random problem: one-to-one pairs, a star or any graph; every feature by chance."""
    rng = np.random.default_rng([seed, 11])
    every = [(a, b) for a in range(num_tasks) for b in range(a + 1, num_tasks)]
    kind = rng.integers(0, 3)
    if kind == 0:
        order = rng.permutation(num_tasks)
        chosen = [(min(a, b), max(a, b)) for a, b in zip(order[::2], order[1::2], strict=False)]
    elif kind == 1:
        chosen = [(0, other) for other in range(1, num_tasks)]
    else:
        keep = rng.random(len(every)) < 0.6
        chosen = [pair for pair, kept in zip(every, keep, strict=True) if kept] or every[:1]
    chosen.sort()
    ends = np.array(chosen, np.int64).reshape(-1, 2)
    rate = rng.integers(1, 12, len(ends)) / 2
    balance = varied_problem(seed, num_tasks, num_nodes)
    return JointProblem(balance, ends[:, 0].copy(), ends[:, 1].copy(), rate)


def local_joint(seed: int) -> JointProblem:
    """Return a random problem with `local_first` streams, with pairs beside them or without."""
    rng, problem = np.random.default_rng([seed, 17]), varied_joint(seed)
    tasks = np.arange(problem.balance.num_tasks)
    local = []
    for _ in range(int(rng.integers(1, 4))):
        sources, targets = (
            np.sort(rng.choice(tasks, int(rng.integers(1, most)), replace=False)).astype(np.int32)
            for most in (4, 5)
        )
        local.append(LocalBlock(sources, targets, float(rng.integers(1, 12) / 2)))
    some = rng.random(problem.num_pairs) < rng.choice([0.0, 0.5, 1.0])
    return replace(problem.part(some), local=tuple(local))


def placements(problem: JointProblem) -> Iterator[np.ndarray[Any, Any]]:
    """Yield every feasible placement."""
    balance = problem.balance
    for chosen in itertools.product(range(balance.num_nodes), repeat=balance.num_tasks):
        placement = np.array(chosen, np.int64)
        if problem.is_feasible(placement):
            yield placement


def most(problem: JointProblem) -> float | None:
    """Return the most traffic that can be collocated; ``None`` where no placement is feasible."""
    return max((problem.collocated(p) for p in placements(problem)), default=None)


def random_instance(seed: int) -> Instance:
    """Return a random instance of three nodes: capacities, weights, leaving, budgets, allowed."""
    rng = np.random.default_rng([seed, 13])
    t, n = int(rng.integers(3, 6)), 3
    nodes = [
        {
            "id": f"n{i}",
            "capacity": {"cpu": float(rng.integers(8, 20)), "mem": float(rng.integers(3, 7))},
            "weight": float(rng.choice([1.0, 1.0, 2.0])),
            "leaving": bool(i == n - 1 and rng.random() < 0.4),
        }
        for i in range(n)
    ]
    tasks: list[dict[str, Any]] = [
        {
            "id": f"t{k}",
            "load": {"cpu": float(rng.integers(1, 6)), "mem": 1.0},
            "state": float(rng.integers(1, 4)),
            "node": f"n{rng.integers(n)}",
        }
        for k in range(t)
    ]
    if rng.random() < 0.3:
        only = int(rng.integers(n))  # where it is, if that is where it may be: else one that stays
        stays = tasks[0]["node"] == f"n{only}" or not nodes[only]["leaving"]
        tasks[0]["allowed"] = [f"n{only if stays else 0}"]
    every = [(a, b) for a in range(t) for b in range(a + 1, t)]
    some = rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]
    limits: dict[str, Any] = {}
    if rng.random() < 0.7:
        limits["max_migrations"] = int(rng.integers(0, 5))
    if rng.random() < 0.4:
        limits["max_migration_cost"] = float(rng.integers(0, 8))
    if rng.random() < 0.7:
        limits["max_load_distance"] = float(rng.integers(1, 8))
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": f"random {seed}",
            "resources": ["cpu", "mem"],
            "nodes": nodes,
            "tasks": tasks,
            "traffic": [
                [f"t{every[i][0]}", f"t{every[i][1]}", float(rng.integers(1, 9))] for i in some
            ],
            "limits": limits,
        }
    )


def judged(instance: Instance) -> Iterator[tuple[float, float, float]]:
    """Yield (load left on leaving nodes, traffic, load distance) of all that keep the rules.

    By the referee's own figures; nothing may move onto a leaving node.
    """
    from optim.referee import evaluate_indices

    leaving, home = instance.nodes.leaving, instance.tasks.node
    for chosen in itertools.product(range(instance.num_nodes), repeat=instance.num_tasks):
        node = np.array(chosen, np.int32)
        if (leaving[node] & ~leaving[home]).any():
            continue
        found = evaluate_indices(instance, node)
        if any(violation.rule != "leaving" for violation in found.violations):
            continue
        left = float(instance.tasks.load[leaving[node], 0].sum())
        assert found.load_distance is not None
        yield left, imc_gain_of(instance, node), found.load_distance
