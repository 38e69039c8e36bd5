"""Small rebalancing instances with traffic, written as a user would write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from optim.format.instance import Instance


def case(
    where: str,
    traffic: list[tuple[int, int, float]] = (),  # type: ignore[assignment]
    loads: list[float] | None = None,
    operators: str = "",
    nodes: int = 0,
    leaving: tuple[int, ...] = (),
    state: list[float] | None = None,
    allowed: dict[int, list[int]] | None = None,
    capacity: float | None = None,
    **limits: Any,
) -> Instance:
    """Build an instance of single-letter places.

    Parameters
    ----------
    where
        One digit a key group: its node. Key group i is ``k{i}``.
    traffic
        (from, to, rate) by number.
    loads
        1 each by default.
    operators
        One letter a key group; none by default.
    nodes
        How many; as many as `where` names by default.
    """
    count = len(where)
    tasks: list[dict[str, Any]] = []
    for i in range(count):
        task: dict[str, Any] = {"id": f"k{i}", "load": {"cpu": loads[i] if loads else 1.0}}
        if where[i] != "-":
            task["node"] = f"n{where[i]}"
        if operators:
            task["operator"] = operators[i]
        if state:
            task["state"] = state[i]
        if allowed and i in allowed:
            task["allowed"] = [f"n{n}" for n in allowed[i]]
        tasks.append(task)
    nodes = nodes or max(int(digit) for digit in where) + 1
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "case",
            "resources": ["cpu"],
            "nodes": [
                {
                    "id": f"n{n}",
                    "leaving": n in leaving,
                    "capacity": {} if capacity is None else {"cpu": capacity},
                }
                for n in range(nodes)
            ],
            "operators": [{"id": name} for name in sorted(set(operators))],
            "tasks": tasks,
            "traffic": [[f"k{a}", f"k{b}", rate] for a, b, rate in traffic],
            "limits": limits,
        }
    )


def random_case(seed: int) -> Instance:
    """Return two operators of random sizes on a few nodes, with random one-way traffic."""
    rng = np.random.default_rng([seed, 4])
    up, down, nodes = int(rng.integers(2, 7)), int(rng.integers(2, 7)), int(rng.integers(2, 5))
    count = up + down
    pairs = [
        (i, up + j, float(rng.integers(1, 20)))
        for i in range(up)
        for j in range(down)
        if rng.random() < 0.4
    ] or [(0, up, 1.0)]
    leaving = (nodes - 1,) if nodes > 2 and rng.random() < 0.4 else ()
    state = [float(v) for v in rng.integers(1, 6, count)] if rng.random() < 0.5 else None
    limits: dict[str, Any] = {}
    if rng.random() < 0.7:
        limits["max_migrations"] = int(rng.integers(0, count + 1))
    if rng.random() < 0.4:
        limits["max_migration_cost"] = float(rng.integers(0, 15))
    allowed = {}
    if rng.random() < 0.3:
        chosen = {int(n) for n in rng.integers(0, nodes, nodes)}
        allowed[int(rng.integers(count))] = sorted(chosen if chosen - {*leaving} else {0, *chosen})
    return case(
        "".join(str(n) for n in rng.integers(0, nodes, count)),
        pairs,
        [float(v) for v in rng.integers(1, 12, count)],
        "a" * up + "b" * down,
        nodes,
        leaving,
        state,
        allowed,
        **limits,
    )
