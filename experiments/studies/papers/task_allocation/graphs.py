"""Tables over the random graphs of section 7.3: heuristics against the optimum, readings of TL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

GRAPHS, GRAPHS_REDUCED = 2000, 100
COSTS = ("ranked", "proportional", "noisy")
"""How a group's cost follows its tasks; the first is the reading that stands."""


def graphs(reduced: bool) -> pd.DataFrame:
    """One line a graph, at the default reading: gains of all in MB/s; empty where not whole."""
    import pandas as pd

    from experiments.generators import generate
    from experiments.studies.papers.task_allocation.allocations import naive, optimum, td, tl
    from optim import solve

    lines = []
    for seed in range(GRAPHS_REDUCED if reduced else GRAPHS):
        made = generate("random_graphs", costs=COSTS[0], seed=seed)
        search = solve(made, method="imc-search", seed=0).evaluation
        lines.append(
            {
                "seed": seed,
                "groups": made.num_operators,
                "optimum": optimum(made),
                "td": td(made).gain,
                "td_imc": td(made, "imc").gain,
                "tl": tl(made, seed=seed).gain,
                "tl_significance": tl(made, "significance", seed=seed).gain,
                "naive": naive(made).gain,
                "imc_search": search.imc_gain if search is not None else None,
            }
        )
    return pd.DataFrame(lines)


def readings(reduced: bool) -> pd.DataFrame:
    """One line a reading of costs, priority and order: share of the optimum over the graphs."""
    import numpy as np
    import pandas as pd

    from experiments.generators import generate
    from experiments.studies.papers.task_allocation.allocations import TL_READINGS, optimum, td, tl

    count = 30 if reduced else 100
    lines = []
    for costs in COSTS:
        made = [generate("random_graphs", costs=costs, seed=seed) for seed in range(count)]
        best = np.array([optimum(one) for one in made])
        gains = {
            ("TL", *key): [tl(m, *key, seed=s).gain for s, m in enumerate(made)]
            for key in TL_READINGS
        }
        gains |= {
            ("TD", key, ""): [td(m, key).gain for m in made] for key in ("significance", "imc")
        }
        gains["TD", "significance, k gives up", ""] = [td(m, k_rule="give_up").gain for m in made]
        for (algorithm, priority, order), gain in gains.items():
            mine = np.array(gain)
            known = ~np.isnan(mine) & ~np.isnan(best)
            lines.append(
                {
                    "costs": costs,
                    "algorithm": algorithm,
                    "priority": priority,
                    "order": order,
                    "share": 100 * mine[known].sum() / best[known].sum(),
                    "graphs": int(known.sum()),
                    "not_whole": int(np.isnan(mine).sum()),
                }
            )
    return pd.DataFrame(lines)


def task_counts(reduced: bool) -> pd.DataFrame:
    """One line a graph of 17 to 68 tasks: TL and TD against the optimum."""
    import pandas as pd

    from experiments.generators import generate
    from experiments.studies.papers.task_allocation.allocations import optimum, td, tl

    lines = []
    for tasks in (17, 34, 51, 68):
        for seed in range(10 if reduced else 40):
            made = generate("random_graphs", costs=COSTS[0], tasks=tasks, seed=seed)
            lines.append(
                {
                    "tasks": tasks,
                    "seed": seed,
                    "optimum": optimum(made),
                    "td": td(made).gain,
                    "tl": tl(made, seed=seed).gain,
                }
            )
    return pd.DataFrame(lines)
