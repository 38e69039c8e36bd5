"""Figure 5 and tables of times: allocations in a fixed time, and how both algorithms grow.

No sweep: the compiled algorithms alone are timed, on arrays that stand ready.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance


NAMES = ("TD", "TL")


def counted(method: str, seconds: int) -> list[dict[str, int]]:
    """Count the calls of an algorithm second by second."""
    counts = count_calls(prepared(method), seconds)
    return [{"duration (s)": at, "allocations": calls} for at, calls in enumerate(counts, start=1)]


def prepared(name: str, **changes: Any) -> Callable[[], object]:
    """Return one call of TD or TL on the pipeline of Figure 5 with other parameters."""
    from experiments.generators import generate

    return call_of(name, generate("pipeline", seed=0, **{"rates": "15,14,16", **changes}))


def call_of(name: str, instance: Instance) -> Callable[[], object]:
    """Return one call of a compiled algorithm, TD or TL, on arrays that stand ready."""
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.task_level import task_level
    from heuristics.task_allocation.task_pairs import PAIR_ORDERS, pair_runs
    from heuristics.task_allocation.top_down import top_down

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
    import numpy as np

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
    from experiments.studies.papers.task_allocation.runs import job
    from heuristics.task_allocation.groups import grouped_job
    from heuristics.task_allocation.top_down import place_groups

    rates = [(a, b, 1.0 + (a * b) % 7) for a in range(groups) for b in range(a)]
    made = grouped_job(job([(1, 1.0)] * groups, rates, [groups / 18] * 20))
    return {"seconds": seconds_of(lambda: place_groups(made))}
