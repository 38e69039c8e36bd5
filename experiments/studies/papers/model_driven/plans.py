"""Plans of the five pairs of allocation and mapping, and what is predicted of them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from formulations.model_driven.performance_model import Bundles
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Floats

MICRO = ("linear", "diamond", "star")
APPLICATIONS = ("finance", "traffic", "grid")
CASES = tuple((dag, float(rate)) for dag in MICRO for rate in (50, 100, 200)) + tuple(
    (dag, float(rate)) for dag in APPLICATIONS for rate in (50, 100)
)
"""DAGs and rates of Figures 7 and 8."""

PAIRS = ("LSA+DSM", "LSA+RSM", "MBA+DSM", "MBA+RSM", "MBA+SAM")
LSA_RSM, MBA_SAM = COMPARED = ("LSA+RSM", "MBA+SAM")
SLOTS, STEP = 20, 10
"""Of five D3 machines, and tuples/s by which Figures 9 to 12 raise the rate."""


@cache
def dag_at(dag: str, rate: float, ends: bool = False) -> Instance:
    """Return a DAG at an input rate."""
    from experiments.generators import generate

    if dag in MICRO:
        return generate("micro_dag", shape=dag, rate=rate, ends=ends)
    return generate("application_dag", application=dag, rate=rate, ends=ends)


def plan_of(instance: Instance, pair: str, **options: Any) -> Plan | None:
    """Return the plan of an allocation+mapping."""
    from optim import solve

    return solve(instance, pair.lower(), **options).plan


@cache
def planned_on_20(dag: str, pair: str) -> tuple[float, Plan]:
    """Return the greatest planned rate, in steps of 10, whose plan takes 20 slots, and the plan."""
    rate, best = 0.0, None
    while True:
        plan = plan_of(dag_at(dag, rate + STEP), pair, slots=SLOTS)
        if plan is None or (plan.planned_slots or 0) > SLOTS:
            break
        rate, best = rate + STEP, plan
    assert best is not None, f"{pair} plans nothing for {dag}"
    return rate, best


class Predicted:
    """What the models predict of a plan, by 8.5.1: linear between measured thread counts."""

    def __init__(self, instance: Instance, plan: Plan) -> None:
        from formulations.model_driven.referee import checked_bundles, predict

        self.bundles: Bundles = checked_bundles(instance, plan, "linear")
        self.instance = instance
        self.capacity: float = predict(instance, plan).capacity_rate or 0.0
        self.shuffled: float = predict(instance, plan).supported_rate or 0.0
        self.nearest: float = predict(instance, plan, between="nearest").capacity_rate or 0.0

    def use(self, rate: float, *, shuffled: bool = False) -> tuple[Floats, Floats]:
        """(V,) CPU and memory of each machine at a rate, percent of a slot.

        By capacity each slot works in proportion to what it can; shuffled, to its threads.
        """
        b = self.bundles
        served = b.shuffled(rate)
        if not shuffled:
            level = np.minimum(1.0, rate / b.capacity())
            served = b.peak * level[b.operator]
        cpu, memory = b.use(served)
        return b.by_node(cpu), b.by_node(memory)

    def by_slot(self, task: str) -> list[int]:
        """Return the threads of a task in each slot that has some, most first."""
        o = self.instance.operators.ids.index(task)
        return sorted(self.bundles.threads[self.bundles.operator == o].tolist(), reverse=True)

    @property
    def mixed(self) -> int:
        """Slots with threads of several tasks."""
        places = zip(self.bundles.node.tolist(), self.bundles.slot.tolist(), strict=True)
        return sum(count > 1 for count in Counter(places).values())

    def fullest(self, rate: float) -> float:
        """CPU of the busiest slot at a rate, percent of a slot."""
        return self._busiest(self.bundles.shuffled(rate))

    @property
    def booked(self) -> float:
        """CPU of the busiest slot when its threads are busy, percent of a slot."""
        return self._busiest(self.bundles.peak)

    def _busiest(self, served: Floats) -> float:
        cpu, _ = self.bundles.use(served)
        return max(self.bundles.by_slot(cpu).values())


def slots_table(reduced: bool) -> pd.DataFrame:
    """Make one row a DAG, rate and pair of Figures 7 and 8: slots, threads, predicted rates."""
    import pandas as pd

    rows = []
    for dag, rate in CASES[:: 4 if reduced else 1]:
        for pair in COMPARED:
            instance = dag_at(dag, rate)
            plan = plan_of(instance, pair)
            assert plan is not None
            found = Predicted(instance, plan)
            slots = sum(node.slots for node in plan.nodes)
            planned = int(plan.planned_slots or 0)
            rows.append(
                {
                    "DAG": dag,
                    "rate": rate,
                    "pair": pair,
                    "allocated": planned,
                    "extra": slots - planned,
                    "slots": slots,
                    "threads": sum((plan.threads or {}).values()),
                    "tasks": instance.num_operators,
                    "mixed slots": found.mixed,
                    "busiest slot, CPU %": found.fullest(rate),
                    "busiest slot, booked %": found.booked,
                    "predicted": found.capacity,
                    "predicted, shuffled": found.shuffled,
                    "table by slot": _told(found, "table"),
                    "blob by slot": _told(found, "blob"),
                }
            )
    return pd.DataFrame(rows)


WEIGHTS = ((1, 1, 1), (1, 1, 0), (1, 1, 4), (1, 0, 1), (0, 1, 1), (4, 1, 1), (1, 4, 1))
"""Of memory, CPU and network in RSM's distance, which the paper does not give."""


def weights_table(reduced: bool) -> pd.DataFrame:
    """Make one row a DAG, rate, set of weights and slot rule of RSM with LSA, and SAM literally."""
    import pandas as pd

    from heuristics.model_driven.resource_aware import SLOT_RULES

    choices = [
        (f"weights {m}/{c}/{n}, {rule}", LSA_RSM, {"w_memory": float(m), "w_cpu": float(c),
         "w_network": float(n), "slot_rule": rule})
        for m, c, n in WEIGHTS for rule in SLOT_RULES
    ]  # fmt: skip
    choices.append(("Algorithm 6 to the letter", MBA_SAM, {"literal": True}))
    rows = []
    for dag, rate in CASES[:: 4 if reduced else 1]:
        for name, pair, options in choices:
            instance = dag_at(dag, rate)
            plan = plan_of(instance, pair, **options)
            assert plan is not None
            planned, slots = int(plan.planned_slots or 0), sum(node.slots for node in plan.nodes)
            found = Predicted(instance, plan)
            rows.append(
                {
                    "DAG": dag,
                    "rate": rate,
                    "pair": pair,
                    "choice": name,
                    "allocated": planned,
                    "extra": slots - planned,
                    "predicted": found.capacity,
                    "predicted, shuffled": found.shuffled,
                    "table by slot": _told(found, "table"),
                }
            )
    return pd.DataFrame(rows)


def _told(found: Predicted, task: str) -> str:
    if task not in found.instance.operators.ids:
        return ""
    return " ".join(map(str, found.by_slot(task)))


def planned_table(reduced: bool) -> pd.DataFrame:
    """Make one row a micro DAG and pair on five machines of four slots: planned and predicted."""
    import pandas as pd

    rows = []
    for dag in MICRO[: 1 if reduced else 3]:
        for pair in PAIRS:
            rate, plan = planned_on_20(dag, pair)
            instance = dag_at(dag, rate)
            found = Predicted(instance, plan)
            row: dict[str, Any] = {
                "DAG": dag,
                "pair": pair,
                "planned": rate,
                "predicted": found.capacity,
                "predicted, nearest count": found.nearest,
                "predicted, shuffled": found.shuffled,
            }
            row |= {f"{task} threads": count for task, count in (plan.threads or {}).items()}
            row |= {f"{task} by slot": _told(found, task) for task in ("blob", "table", "xml")}
            rows.append(row)
    return pd.DataFrame(rows)
