"""What needs no run: the models' points, bookings, acquired machines, the worked example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.papers.model_driven.plans import MICRO, PAIRS, Predicted, dag_at, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

TOLD = (
    ("xml_parse", 1, 310), ("xml_parse", 7, 255), ("pi", 1, 105), ("pi", 2, 110),
    ("file_write", 1, 60_000), ("file_write", 3, 45_000), ("azure_blob", 1, 2),
    ("azure_blob", 50, 30), ("azure_table", 1, 3), ("azure_table", 60, 60),
)  # fmt: skip
"""(task, threads, tuples/s) of section 5.3."""


def recorded_runs(folder: Path, reduced: bool) -> pd.DataFrame:
    """Return recorded runs of the CPU-bound job: a bench of an hour, as root, is not repeated."""
    import pandas as pd

    from experiments.studies.lab.flink_bench import RUNS

    found = pd.read_csv(RUNS)
    return found[found["shape"] == "CPU-bound"]


def models_table(reduced: bool) -> pd.DataFrame:
    """Make one row a measured point of the authors' records, and one a point of section 5.3."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, points in dag_at("linear", 100.0).models.items():
        rows += [
            {"task": name, "threads": p.threads, "rate": p.rate, "CPU %": p.cpu,
             "memory %": p.memory, "from": "records"}
            for p in points
        ]  # fmt: skip
    rows += [
        {"task": task, "threads": k, "rate": float(rate), "from": "section 5.3"}
        for task, k, rate in TOLD
    ]
    return pd.DataFrame(rows)


def bookings_table(reduced: bool) -> pd.DataFrame:
    """Make one row a micro DAG, rate and allocation: threads, CPU, memory, slots."""
    import pandas as pd

    from formulations.model_driven.allocate import ALLOCATIONS, allocate

    rows = []
    for dag in MICRO:
        for rate in (50.0, 100.0, 200.0):
            for ends in (False, True):
                instance = dag_at(dag, rate, ends)
                for name in ALLOCATIONS:
                    made = allocate(instance, name)
                    cpu, memory = made.totals
                    blob = instance.operators.ids.index("blob")
                    rows.append(
                        {
                            "DAG": dag,
                            "rate": rate,
                            "allocation": name,
                            "source and sink": ends,
                            "threads": int(made.threads.sum()),
                            "CPU %": cpu,
                            "memory %": memory,
                            "slots": made.slots,
                            "blob threads": int(made.threads[blob]),
                            "blob CPU %": made.cpu[blob],
                            "blob memory %": made.memory[blob],
                        }
                    )
    return pd.DataFrame(rows)


def acquired_table(reduced: bool) -> pd.DataFrame:
    """Make one row a number of slots: what is acquired, and the least price of any mix."""
    import pandas as pd

    from experiments.generators import generate
    from formulations.model_driven.allocate import acquire

    instance = generate("micro_dag", largest_vm="D4")
    kinds = {vm.id: vm for vm in instance.vm_types}
    rows = []
    cheapest = [0.0]
    for slots in range(1, 101):
        nodes = acquire(instance, slots)
        cheapest.append(min(cheapest[max(0, slots - k.slots)] + k.price for k in kinds.values()))
        rows.append(
            {
                "slots": slots,
                "machines": len(nodes),
                "slots acquired": sum(kinds[n.vm_type].slots for n in nodes),
                "price": sum(kinds[n.vm_type].price for n in nodes),
                "least price": cheapest[slots],
                "price by the slot": slots * kinds["D1"].price,
            }
        )
    return pd.DataFrame(rows)


def worked_table(reduced: bool) -> pd.DataFrame:
    """Make one row a slot of the worked example (Figure 4): what each mapping puts there.

    Tasks B, O, Y, G with 5, 4, 3, 5 threads on three machines of two slots; full bundles of
    2, 3, 3, 4 threads. What the threads need is not given: the partial bundles fit one slot.
    """
    import pandas as pd

    from formulations.model_driven.allocate import Allocation
    from heuristics.model_driven.mapping import Job, map_round_robin
    from heuristics.model_driven.slot_aware import map_slot_aware
    from optim.format.plan import AcquiredNode

    names = "BOYG"
    threads, bundle = np.array([5, 4, 3, 5]), np.array([2, 3, 3, 4])
    full, rest = threads // bundle, threads % bundle
    part = np.where(rest > 0, 30.0, 0.0)
    single = np.full(4, 100.0 / 3)
    made = Allocation(
        "mba", threads, 100.0 * full + part, 100.0 * full + part, full, bundle, rest, part, part,
        single, single,
    )  # fmt: skip
    first = np.cumsum(threads) - threads
    job = Job(made, np.arange(4), first, {}, {"D2": 2})
    nodes = tuple(AcquiredNode(id=f"vm{v + 1}", vm_type="D2", slots=2) for v in range(3))
    found = {"DSM": map_round_robin(job, nodes), "SAM": map_slot_aware(job, nodes)}
    rows = []
    for place in range(6):
        row: dict[str, Any] = {"slot": f"s{place // 2 + 1}{place % 2 + 1}"}
        for name, mapped in found.items():
            here = np.flatnonzero((mapped.node == place // 2) & (mapped.slot == place % 2))
            task = np.repeat(np.arange(4), threads)[here]
            row[name] = " ".join(
                f"{names[t]}{q - first[t] + 1}" for t, q in zip(task, here, strict=True)
            )
        rows.append(row)
    return pd.DataFrame(rows)


def mixed_table(reduced: bool) -> pd.DataFrame:
    """Make one row a random DAG and pair: slots of several tasks, bookings of the fullest slot."""
    import pandas as pd

    from experiments.generators import generate

    rows = []
    for seed in range(10 if reduced else 100):
        instance = generate("model_dag", seed=seed, tasks=8, rate=40.0 + seed)
        for pair in PAIRS:
            plan = plan_of(instance, pair)
            assert plan is not None
            found = Predicted(instance, plan)
            b = found.bundles
            cpu, memory = b.cpu, b.memory
            rows.append(
                {
                    "seed": seed,
                    "pair": pair,
                    "tasks": instance.num_operators,
                    "mixed slots": found.mixed,
                    "fullest slot, memory %": max(b.by_slot(_alone(instance, b, 2)).values()),
                    "fullest machine, CPU % of its cores": float(
                        (b.by_node(_alone(instance, b, 1)) / _cores(instance, plan)).max()
                    ),
                    "measured, fullest slot CPU %": max(b.by_slot(cpu).values()),
                    "measured, fullest slot memory %": max(b.by_slot(memory).values()),
                }
            )
    return pd.DataFrame(rows)


def _alone(instance: Any, bundles: Any, what: int) -> Any:
    """(B,) CPU (1) or memory (2) of a row's threads as if each were measured alone."""
    from formulations.model_driven.performance_model import performance_models

    models = performance_models(instance)
    single = np.array([(m.cpu(1) if what == 1 else m.memory(1)) for m in models], dtype=float)
    return bundles.threads * single[bundles.operator]


def _cores(instance: Any, plan: Any) -> Any:
    from formulations.model_driven.allocate import cores_of

    return np.array(cores_of(instance, plan.nodes), dtype=float)
