"""The actual side: the plans of Figures 7 to 13, run on simulated machines over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.papers.model_driven.plans import (
    CASES,
    COMPARED,
    MICRO,
    PAIRS,
    STEP,
    Predicted,
    dag_at,
    plan_of,
    planned_on_20,
)

if TYPE_CHECKING:
    import pandas as pd

SEEDS = 30
FEWER = 5
"""Tuples/s by which Figures 7 and 8 lower the rate until a run is stable."""

MACHINES: dict[str, dict[str, Any]] = {
    "interpolated": {},
    "early": {"early": True},
    "one core a slot": {"slot_cores": 1.0},
    "two cores a slot": {"slot_cores": 2.0},
}
"""Machines that plans meet, by name: what their `Machines` differ in."""

NOISES = (0.0, 0.05)


def reached_table(reduced: bool) -> pd.DataFrame:
    """Make one row a DAG, rate, pair, machine and seed: the rate that is sustained."""
    import pandas as pd

    from experiments.studies.papers.model_driven.simulation import Machines, Simulation

    rows = []
    for dag, rate in CASES[:: 4 if reduced else 1]:
        for pair in COMPARED:
            instance = dag_at(dag, rate)
            plan = plan_of(instance, pair)
            assert plan is not None
            for name, changed in MACHINES.items():
                if "slot_cores" in changed and (dag, rate) != ("grid", 50.0):
                    continue
                for seed in range(2 if reduced else SEEDS):
                    sim = Simulation(instance, plan, seed, Machines(**changed))
                    actual, _ = sim.peak(FEWER, rate, most=rate)
                    rows.append(
                        {
                            "DAG": dag,
                            "rate": rate,
                            "pair": pair,
                            "machine": name,
                            "seed": seed,
                            "actual": actual,
                        }
                    )
    return pd.DataFrame(rows)


def machines_table(reduced: bool) -> pd.DataFrame:
    """Make one row a machine of the plans on 20 slots: CPU, memory; rate and latency of the run."""
    import pandas as pd

    runs = [("interpolated", noise) for noise in NOISES] + [("early", NOISES[1])]
    rows = [
        row
        for dag in MICRO[: 1 if reduced else 3]
        for pair in PAIRS
        for name, noise in (runs[1:2] if reduced else runs)
        for seed in range(2 if reduced else 1 if noise == 0 else SEEDS)
        for row in _run(dag, pair, name, seed, noise)
    ]
    return pd.DataFrame(rows)


def _run(dag: str, pair: str, name: str, seed: int, noise: float) -> list[dict[str, Any]]:
    from experiments.studies.papers.model_driven.simulation import Machines, Simulation

    rate, plan = planned_on_20(dag, pair)
    instance = dag_at(dag, rate)
    found = Predicted(instance, plan)
    machines = Machines(noise=noise, memory_noise=2 * noise, **MACHINES[name])
    sim = Simulation(instance, plan, seed, machines)
    actual, ran = sim.peak(STEP, 0.8 * found.shuffled)
    row = {"DAG": dag, "pair": pair, "machine": name, "noise": noise, "seed": seed}
    row["actual"] = actual
    if ran is None:
        return [row]
    latency = np.asarray(ran.trial.latencies)
    middle, high = np.quantile(latency, [0.5, 0.99])
    row |= {"latency, median": middle, "latency, 99 %": high, "latency, mean": latency.mean()}
    whole, spread = found.use(found.capacity), found.use(found.shuffled, shuffled=True)
    return [
        row
        | {
            "VM": v + 1,
            "predicted CPU %": whole[0][v] / 4,
            "shuffled CPU %": spread[0][v] / 4,
            "actual CPU %": ran.cpu[v] / 4,
            "predicted memory %": whole[1][v] / 4,
            "shuffled memory %": spread[1][v] / 4,
            "actual memory %": ran.memory[v] / 4,
        }
        for v in range(len(plan.nodes))
    ]
