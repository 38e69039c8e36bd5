"""Tables over synthetic topologies of our making: traffic, balance and broken capacities."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from optim.format.instance import Instance

ALPHA = 0.2
"""Of both schedulers of the paper, which gives no value."""

OPTIMUM_LIMIT = 60.0
"""Seconds for an optimum; one that is not proved by then is reported so."""

SETUPS: dict[str, list[dict[str, Any]]] = {
    "stages": [{"stages": n, "replication": "2"} for n in range(1, 9)],
    "replication": [{"stages": 3, "replication": str(n)} for n in range(1, 6)],
    "grouping": [
        {"stages": 4, "replication": "4", "grouping": name}
        for name in ("shuffle", "fields", "alternate")
    ],
    "topologies": [
        {"stages": 2, "replication": "2", "workers": 2, "topologies": n, "utilisation": 45}
        for n in range(1, 5)
    ],
    "utilisation": [{"stages": 4, "replication": "3", "utilisation": n} for n in range(50, 90, 5)],
}
"""Of the generator ``storm_reference``: chains; what is swept, and where all else stands."""


def clusters(reduced: bool) -> pd.DataFrame:
    """One line a set-up, seed and scheduler: traffic, balance and whether the plan overloads."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for sweep, setups in SETUPS.items():
        for setup in setups:
            key = "replication" if sweep == "replication" else sweep
            for seed in range(10 if reduced else 30):
                made = generate("storm_reference", seed=seed, **setup)
                where = {"sweep": sweep, "value": str(setup[key]), "seed": seed}
                lines += [{**where, **line} for line in _scheduled(made)]
    for executors in (12, 24, 48):
        for seed in range(10 if reduced else 30):
            made = generate("storm_cluster", executors=executors, seed=seed)
            where = {"sweep": "random", "value": str(executors), "seed": seed}
            lines += [{**where, **line} for line in _scheduled(made)]
    return pd.DataFrame(lines)


def _scheduled(made: Instance) -> list[dict[str, Any]]:
    return [
        {"scheduler": name, **measured(made, method, **options)}
        for name, method, options in (
            ("default", "storm-even", {}),
            ("offline", "storm-offline", {"alpha": ALPHA}),
            ("online", "storm-online", {"alpha": ALPHA}),
            (
                "online, few nodes",
                "storm-online",
                {"alpha": ALPHA, "delta": 1.0, "node_spread": 0.0},
            ),
        )
    ]


def measured(made: Instance, method: str, **options: Any) -> dict[str, Any]:
    """Return traffic in percent of all, how even nodes and slots are, and what is broken."""
    import numpy as np

    from optim import solve

    result: Any = solve(made, method, **options)
    evaluation, plan = result.evaluation, result.plan
    node, slot = plan.node_indices(made), plan.slot_indices(made)
    held = np.unique(np.stack([node, slot]), axis=1, return_counts=True)[1]
    load = np.bincount(node, made.tasks.load[:, 0], made.num_nodes)
    return {
        "nodes_traffic": 100 * evaluation.internode_traffic / made.total_traffic,
        "slots_traffic": 100 * (evaluation.interslot_traffic or 0.0) / made.total_traffic,
        "fullest": float(load.max() / load.mean()),
        "feasible": bool(evaluation.feasible),
        "spread": int(held.max() - held.min()),
        "slots": len(held),
        **({"proved": result.termination.value == "optimal"} if method == "storm-milp" else {}),
    }


def optima(reduced: bool) -> pd.DataFrame:
    """One line a set-up of `clusters` that is drawn, and seed: the least traffic between nodes."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for sweep, setups in SETUPS.items():
        for setup in setups:
            # of the uses of CPU only that of the sweep over alpha; four topologies take ten times
            # as long as three
            if setup.get("utilisation", 60) not in (45, 60) or setup.get("topologies") == 4:
                continue
            for seed in range(2 if reduced else 30):
                made = generate("storm_reference", seed=seed, **setup)
                found = measured(made, "storm-milp", time_limit=OPTIMUM_LIMIT, threads=1)
                where = {"sweep": sweep, "value": str(setup[sweep]), "seed": seed}
                lines.append({**where, "scheduler": "optimum", **found})
    return pd.DataFrame(lines)


def node_loads(reduced: bool) -> pd.DataFrame:
    """One line a use of CPU, seed and setting: online as meant, and as the published code has it.

    Three topologies of 16 executors on 8 nodes, as few of them as possible.
    """
    import pandas as pd

    from experiments.generators import generate

    few = {"alpha": ALPHA, "delta": 1.0, "node_spread": 0.0}
    size = {"stages": 3, "replication": "4", "nodes": 8, "topologies": 3}
    lines = []
    for use in range(20, 100, 10):
        for seed in range(10 if reduced else 30):
            made = generate("storm_reference", **size, utilisation=use, seed=seed)
            for setting, forget in (("as meant", False), ("with the slip", True)):
                found = measured(made, "storm-online", **few, forget_node_load=forget)
                found["fullest_use"] = use * found.pop("fullest")
                lines.append({"use": use, "seed": seed, "setting": setting, **found})
    return pd.DataFrame(lines)


def limits(reduced: bool) -> pd.DataFrame:
    """One line a use of the nodes, seed and setting: whether online keeps capacity, and could."""
    import pandas as pd

    from experiments.generators import generate
    from optim import solve

    lines = []
    for use in (55, 65, 75, 85, 90):
        for seed in range(10 if reduced else 30):
            made = generate(
                "storm_reference", stages=2, replication="3", utilisation=use, seed=seed
            )
            exact = solve(made, "storm-milp", time_limit=5, threads=1)
            place = None if exact.evaluation is None else exact.evaluation.feasible
            line = {"use": use, "seed": seed, "possible": bool(place)}
            line["settled"] = exact.termination.value in ("optimal", "infeasible") or bool(place)
            for name, options in (
                ("spread", {"alpha": ALPHA}),
                ("spread, gamma 1.1", {"alpha": ALPHA, "gamma": 1.1}),
                ("few nodes", {"alpha": ALPHA, "delta": 1.0, "node_spread": 0.0}),
            ):
                lines.append({**line, "setting": name, **measured(made, "storm-online", **options)})
            lines.append({**line, "setting": "default", **measured(made, "storm-even")})
    return pd.DataFrame(lines)


def alphas(reduced: bool) -> pd.DataFrame:
    """One line an alpha, gamma, scheduler and seed: traffic, and how uneven slots are."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for seed in range(10 if reduced else 30):
        made = generate("storm_reference", stages=4, replication="3", seed=seed)
        for step in range(11):
            for name, method, options in (
                ("offline", "storm-offline", {}),
                ("online, gamma 1.5", "storm-online", {"gamma": 1.5}),
                ("online, gamma 100", "storm-online", {"gamma": 100.0}),
            ):
                where = {"seed": seed, "alpha": step / 10, "scheduler": name}
                lines.append(where | measured(made, method, alpha=step / 10, **options))
    return pd.DataFrame(lines)


def betas(reduced: bool) -> pd.DataFrame:
    """One line a beta, course of the rates and seed: slots that offline uses, and traffic."""
    import pandas as pd

    from experiments.generators import generate

    lines = []
    for selectivity in (1.0, 0.7, 0.4):
        for seed in range(10 if reduced else 30):
            made = generate(
                "storm_reference", stages=5, replication="2", selectivity=selectivity, seed=seed
            )
            for step in range(11):
                where = {"selectivity": selectivity, "seed": seed, "beta": step / 10}
                where["asked"] = min(4, made.num_tasks)
                for alpha in (0.0, 1.0):
                    found = measured(made, "storm-offline", beta=step / 10, alpha=alpha)
                    lines.append({**where, "alpha": alpha, **found})
    return pd.DataFrame(lines)


def sizes(reduced: bool) -> pd.DataFrame:
    """One line a size and seed: seconds and traffic of online and of the exact model."""
    import pandas as pd

    from experiments.generators import generate
    from optim import solve

    lines = []
    for replication in (1, 2, 3, 4):
        for seed in range(5 if reduced else 30):
            made = generate("storm_reference", stages=3, replication=str(replication), seed=seed)
            line: dict[str, Any] = {"executors": made.num_tasks, "seed": seed}
            for name, method, options in (
                ("online", "storm-online", {"alpha": ALPHA}),
                ("few_nodes", "storm-online", {"alpha": ALPHA, "delta": 1.0, "node_spread": 0.0}),
                ("exact", "storm-milp", {"time_limit": 5, "threads": 1}),
            ):
                began = time.process_time()
                result: Any = solve(made, method, **options)
                line[f"{name}_s"] = time.process_time() - began
                known = result.evaluation is not None and result.evaluation.feasible
                line[name] = result.evaluation.internode_traffic if known else None
                if name == "exact":
                    line["proved"] = result.termination.value == "optimal"
            lines.append(line)
    return pd.DataFrame(lines)
