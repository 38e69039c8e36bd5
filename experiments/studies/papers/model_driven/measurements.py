"""Tables behind the claims on model-driven scheduling.

The modelling phase is Algorithm 1 over simulated slots, on tasks whose truth is known.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from experiments.modelling import SlotTask, model_task, queueing_trial
from experiments.studies.papers.claims.tables import Making
from experiments.studies.papers.model_driven import actual, arithmetic, plans

if TYPE_CHECKING:
    import pandas as pd


_ONCE = "nothing random"


TASKS = {
    "parse": (SlotTask(cpu=0.02, contention=0.035, spread=0.2), (1, 2, 4, 7)),
    "pi": (SlotTask(cpu=0.018, wait=0.0015, contention=0.005, spread=0.2), (1, 2, 3, 4, 6)),
    "write": (SlotTask(cpu=0.005, outside_rate=60, contention=0.02, spread=0.2), (1, 3, 5, 7)),
    "blob": (SlotTask(cpu=0.02, wait=0.5, outside_rate=30, spread=0.2), (1, 5, 10, 20, 30, 40)),
    "table": (SlotTask(cpu=0.012, wait=0.33, contention=0.012, spread=0.2),
              (1, 5, 10, 20, 30, 45, 60)),
}  # fmt: skip
"""Tasks after the paper's five, slower ones in proportion, and the thread counts tried."""

TRIALS, SECONDS, FINER = 3, 10.0, 1.08


def peak(task: SlotTask, threads: int) -> float:
    """Return the rate that a task reaches with so many threads, by arithmetic."""
    core = task.cpu * (1 + task.contention * (threads - 1))
    return min(threads / (core + task.wait), 1 / core, task.outside_rate)


def _following(counts: tuple[int, ...], threads: float) -> float:
    """Return the thread count that is tried next, one beyond all after the last."""
    return next((count for count in counts if count > threads), threads + 1000)


def phase_table(reduced: bool) -> pd.DataFrame:
    """Make one row a task, thread count and seed: the modelled peak and the true one."""
    import pandas as pd

    rows = []
    for name, (task, counts) in TASKS.items():
        for seed in range(2 if reduced else 30):
            trials = [
                queueing_trial(task, seconds=SECONDS, seed=TRIALS * seed + k) for k in range(TRIALS)
            ]
            points = model_task(
                trials,
                rate_step=lambda rate: max(1.0, rate * FINER),
                thread_step=partial(_following, counts),
                max_threads=counts[-1],
            )
            rows += [
                {
                    "task": name,
                    "seed": seed,
                    "threads": point.threads,
                    "modelled": point.rate,
                    "true": peak(task, point.threads),
                    "CPU %": point.cpu,
                }
                for point in points
            ]
    return pd.DataFrame(rows)


TABLES = {
    "slots": Making(plans.slots_table, _ONCE),
    "planned": Making(plans.planned_table, _ONCE),
    "weights": Making(plans.weights_table, _ONCE),
    "models": Making(arithmetic.models_table, _ONCE),
    "bookings": Making(arithmetic.bookings_table, _ONCE),
    "acquired": Making(arithmetic.acquired_table, _ONCE),
    "worked": Making(arithmetic.worked_table, _ONCE),
    "mixed": Making(arithmetic.mixed_table, "0-99", "0-9"),
    "reached": Making(actual.reached_table, "0-29", "0-1"),
    "machines": Making(actual.machines_table, "0-29", "0-1"),
    "phase": Making(phase_table, "0-29", "0-1"),
}
