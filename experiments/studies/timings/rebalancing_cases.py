"""The instances of the rebalancing benchmark: by name where available, else by the recipe."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.generators.rebalancing import CLUSTER, SCALE_IN
from formulations.rebalancing.bound import Needs
from formulations.rebalancing.problem import balance_problem
from optim.format.instance import Instance

#: Load distance that the budgets of the large clusters are made for, and how generous they are.
NEEDED_FOR, GENEROUS = 0.5, 1.5


@dataclass(frozen=True)
class Case:
    """One row: a size, a budget, and what is to be met.

    Attributes
    ----------
    name
        Of the instance given, and of the row.
    nodes, per_node, varies, budget
        Of the recipe; the budget ``None`` is one and a half times what a load distance of 0.5
        takes at least.
    looks
        Seconds at which the best load distance so far is reported.
    limit
        Time limit, s.
    aim
        In words.
    """

    name: str
    nodes: int
    per_node: int
    varies: float
    budget: int | None
    looks: tuple[float, ...]
    limit: float
    aim: str

    def given(self) -> Instance | None:
        """Return the instance given under this name, if there is one."""
        shared = os.environ.get("STREAMPLACE_SHARED")
        if not shared:
            return None
        path = Path(shared) / "data" / "albic" / f"{self.name}.json.gz"
        return Instance.load(path) if path.is_file() else None

    def made(self, seed: int) -> Instance:
        """Return an instance of this size by the recipe."""
        sizes: dict[str, Any] = {
            "nodes": self.nodes, "key_groups": self.per_node, "varies": self.varies,
        }  # fmt: skip
        if self.name.startswith("scalein"):
            more = {"leaving": 2, "overloaded": 2, "max_migrations": self.budget}
            return SCALE_IN.make(seed, {**sizes, **more})
        budget = self.budget
        if budget is None:
            free = balance_problem(CLUSTER.make(seed, sizes | {"max_migrations": 0}))
            needs = Needs(free)
            budget = int(GENEROUS * needs.least_moves(*needs.outside(NEEDED_FOR))[0])
        return CLUSTER.make(seed, sizes | {"max_migrations": budget})


CASES = (
    Case(
        "cluster_20x400_v40_s0_m10", 20, 20, 40.0, 10, (0.05,), 15.0,
        "0.5452 closed ≤ 5 s; nine of ten ≤ 15 s",
    ),
    Case("cluster_60x1200_v40_s0_m20", 60, 20, 40.0, 20, (0.05,), 5.0, "5.1876 closed ≤ 1 s"),
    Case(
        "cluster_60x1200_v40_s0_m50", 60, 20, 40.0, 50, (0.05, 10.0), 15.0,
        "≤ 0.40 in 50 ms, ≤ 0.30 in 10 s, gap ≤ 0.1",
    ),
    Case("cluster_60x1200_v60_s0_m50", 60, 20, 60.0, 50, (0.05,), 15.0, "≤ 1.1 in 15 s"),
    Case("cluster_200x10000_v40_s0_m303", 200, 50, 40.0, None, (0.2,), 5.0, "≤ 0.22 in 0.2 s"),
    Case("1,000 × 100,000", 1_000, 100, 40.0, None, (1.0,), 2.0, "≤ 0.10 in 1 s"),
    Case("10,000 × 1,000,000", 10_000, 100, 40.0, None, (10.0,), 10.0, "≤ 0.10 in 10 s, ≤ 6 GB"),
    Case(
        "scalein_20x400_v20_s0_m20", 20, 20, 20.0, 20, (1.0,), 15.0,
        "≤ 3.25 in 1 s; bound ≥ 2.95 in 15 s",
    ),
)  # fmt: skip
