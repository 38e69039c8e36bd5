"""Plans of the five pairs of allocation and mapping, and what is predicted of them."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from formulations.model_driven.performance_model import Bundles
    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Floats

Row = dict[str, Any]

MICRO = ("linear", "diamond", "star")
LSA_RSM, MBA_SAM = "LSA+RSM", "MBA+SAM"
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


def slots(dag: str, rate: float, pair: str) -> Row:
    """Slots and threads of a plan of Figures 7 and 8, and its predicted rates."""
    instance, plan, row = _planned(dag, rate, pair)
    found = Predicted(instance, plan)
    return row | {
        "slots": row["allocated"] + row["extra"],
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


def _planned(dag: str, rate: float, pair: str, **options: Any) -> tuple[Instance, Plan, Row]:
    """Return a plan, and the columns that every row has."""
    instance = dag_at(dag, rate)
    plan = plan_of(instance, pair, **options)
    assert plan is not None
    allocated = int(plan.planned_slots or 0)
    extra = sum(node.slots for node in plan.nodes) - allocated
    row = {"DAG": dag, "rate": rate, "pair": pair, "allocated": allocated, "extra": extra}
    return instance, plan, row


def weights(
    dag: str, rate: float, weights: tuple[float, float, float] | None = None, rule: str = ""
) -> Row:
    """RSM with LSA by weights of memory, CPU and network in its distance, which the paper does not
    give, and by slot rule; without weights SAM, Algorithm 6 to the letter."""
    pair, choice = MBA_SAM, "Algorithm 6 to the letter"
    options: dict[str, Any] = {"literal": True}
    if weights:
        pair, choice = LSA_RSM, f"weights {'/'.join(map(str, weights))}, {rule}"
        named = zip(("w_memory", "w_cpu", "w_network"), map(float, weights), strict=True)
        options = {**dict(named), "slot_rule": rule}
    instance, plan, row = _planned(dag, rate, pair, **options)
    found = Predicted(instance, plan)
    head = {key: row.pop(key) for key in ("DAG", "rate", "pair")}
    rates = {"predicted": found.capacity, "predicted, shuffled": found.shuffled}
    return {**head, "choice": choice, **row, **rates, "table by slot": _told(found, "table")}


def _told(found: Predicted, task: str) -> str:
    if task not in found.instance.operators.ids:
        return ""
    return " ".join(map(str, found.by_slot(task)))


def planned(dag: str, pair: str) -> Row:
    """Planned and predicted rates of a micro DAG on five machines of four slots."""
    rate, plan = planned_on_20(dag, pair)
    found = Predicted(dag_at(dag, rate), plan)
    return {
        "DAG": dag,
        "pair": pair,
        "planned": rate,
        "predicted": found.capacity,
        "predicted, nearest count": found.nearest,
        "predicted, shuffled": found.shuffled,
        **{f"{task} threads": count for task, count in (plan.threads or {}).items()},
        **{f"{task} by slot": _told(found, task) for task in ("blob", "table", "xml")},
    }
