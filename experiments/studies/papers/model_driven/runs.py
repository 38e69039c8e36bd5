"""Runs of the tables: plans of the five pairs of allocation and mapping with what is predicted of
them, books of the models, simulated machines, Algorithm 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.generators import generate
from experiments.modelling import SlotTask, model_task, queueing_trial
from experiments.studies.lab.flink_bench import RUNS
from experiments.studies.papers.model_driven.simulation import Machines, Simulation
from formulations.model_driven.allocate import ALLOCATIONS, Allocation, acquire, allocate, cores_of
from formulations.model_driven.performance_model import Bundles, performance_models, rates_of
from formulations.model_driven.referee import checked_bundles
from heuristics.model_driven import Job, map_round_robin, map_slot_aware
from optim import solve
from optim.format.instance import Instance
from optim.format.plan import AcquiredNode, Plan
from optim.format.tables import Floats

Row = dict[str, Any]

MICRO = ("linear", "diamond", "star")
LSA_RSM, MBA_SAM = "LSA+RSM", "MBA+SAM"
SLOTS, STEP = 20, 10  # Of five D3 machines, and tuples/s by which Figures 9 to 12 raise the rate.


@cache
def dag_at(dag: str, rate: float, ends: bool = False) -> Instance:
    """Return a DAG at an input rate."""
    if dag in MICRO:
        return generate("micro_dag", shape=dag, rate=rate, ends=ends)
    return generate("application_dag", application=dag, rate=rate, ends=ends)


def plan_of(instance: Instance, pair: str, **options: Any) -> Plan | None:
    """Return the plan of an allocation+mapping."""
    return solve(instance, pair.lower(), **options).plan


@cache
def planned_on_20(dag: str, pair: str) -> tuple[float, Plan]:
    """Return the greatest planned rate, in steps of 10, whose plan takes 20 slots, and the plan."""
    rate, best = 0.0, None
    # greedy, as the paper does: the first rate that needs more slots ends it
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
        self.bundles: Bundles = checked_bundles(instance, plan, "linear")
        self.instance = instance
        shuffled, capacity, _ = rates_of(self.bundles)
        self.capacity, self.shuffled = capacity or 0.0, shuffled or 0.0
        nearest = rates_of(checked_bundles(instance, plan, "nearest"))[1]
        self.nearest: float = nearest or 0.0

    def use(self, rate: float) -> tuple[Floats, Floats]:
        """(V,) CPU and memory of each machine at a rate, percent of a slot."""
        b = self.bundles
        # all slots of a task work at the same share of their peaks: 1 at the task's capacity
        level = np.minimum(1.0, rate / b.capacity())
        cpu, memory = b.use(b.peak * level[b.operator])
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
    instance, plan, row = _plan_and_row(dag, rate, pair)
    predicted = Predicted(instance, plan)
    return row | {
        "slots": row["allocated"] + row["extra"], "threads": sum((plan.threads or {}).values()),
        "tasks": instance.num_operators, "mixed slots": predicted.mixed,
        "busiest slot, CPU %": predicted.fullest(rate), "busiest slot, booked %": predicted.booked,
        "predicted": predicted.capacity, "predicted, shuffled": predicted.shuffled,
        "table by slot": _slots_text(predicted, "table"),
        "blob by slot": _slots_text(predicted, "blob"),
    }  # fmt: skip


def _plan_and_row(dag: str, rate: float, pair: str, **options: Any) -> tuple[Instance, Plan, Row]:
    """Return a plan, and the columns that every row has."""
    instance = dag_at(dag, rate)
    plan = plan_of(instance, pair, **options)
    assert plan is not None
    allocated = int(plan.planned_slots or 0)
    # slots of the machines beyond those that were asked for
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
        named_weights = zip(("w_memory", "w_cpu", "w_network"), map(float, weights), strict=True)
        options = {**dict(named_weights), "slot_rule": rule}
    instance, plan, row = _plan_and_row(dag, rate, pair, **options)
    predicted = Predicted(instance, plan)
    head = {key: row.pop(key) for key in ("DAG", "rate", "pair")}
    rates = {"predicted": predicted.capacity, "predicted, shuffled": predicted.shuffled}
    return {
        **head,
        "choice": choice,
        **row,
        **rates,
        "table by slot": _slots_text(predicted, "table"),
    }


def _slots_text(predicted: Predicted, task: str) -> str:
    if task not in predicted.instance.operators.ids:
        return ""
    return " ".join(map(str, predicted.by_slot(task)))


def planned(dag: str, pair: str) -> Row:
    """Planned and predicted rates of a micro DAG on five machines of four slots."""
    rate, plan = planned_on_20(dag, pair)
    predicted = Predicted(dag_at(dag, rate), plan)
    return {
        "DAG": dag,
        "pair": pair,
        "planned": rate,
        "predicted": predicted.capacity,
        "predicted, nearest count": predicted.nearest,
        "predicted, shuffled": predicted.shuffled,
        **{f"{task} threads": count for task, count in (plan.threads or {}).items()},
        **{f"{task} by slot": _slots_text(predicted, task) for task in ("blob", "table", "xml")},
    }


TOLD = (
    ("xml_parse", 1, 310), ("xml_parse", 7, 255), ("pi", 1, 105), ("pi", 2, 110),
    ("file_write", 1, 60_000), ("file_write", 3, 45_000), ("azure_blob", 1, 2),
    ("azure_blob", 50, 30), ("azure_table", 1, 3), ("azure_table", 60, 60),
)  # fmt: skip
"""(task, threads, tuples/s) of section 5.3."""


def recorded_runs(folder: Path, reduced: bool) -> pd.DataFrame:
    """Return recorded runs of the CPU-bound job: a bench of an hour, as root, is not repeated."""
    runs = pd.read_csv(RUNS)
    return runs[runs["shape"] == "CPU-bound"]


def models() -> Iterator[Row]:
    """Yield the measured points of the authors' records, and those of section 5.3."""
    for name, points in dag_at("linear", 100.0).models.items():
        for p in points:
            used = {"CPU %": p.cpu, "memory %": p.memory}
            yield {"task": name, "threads": p.threads, "rate": p.rate, **used, "from": "records"}
    for task, k, rate in TOLD:
        yield {"task": task, "threads": k, "rate": float(rate), "from": "section 5.3"}


def bookings(dag: str, rate: float, ends: bool) -> Iterator[Row]:
    """Yield threads, CPU, memory and slots of a micro DAG by allocation."""
    instance = dag_at(dag, rate, ends)
    blob = instance.operators.ids.index("blob")
    for name in ALLOCATIONS:
        allocation = allocate(instance, name)
        cpu, memory = allocation.totals
        yield {
            "DAG": dag, "rate": rate, "allocation": name, "source and sink": ends,
            "threads": int(allocation.threads.sum()), "CPU %": cpu, "memory %": memory,
            "slots": allocation.slots, "blob threads": int(allocation.threads[blob]),
            "blob CPU %": allocation.cpu[blob], "blob memory %": allocation.memory[blob],
        }  # fmt: skip


def acquired() -> Iterator[Row]:
    """Yield what is acquired by number of slots, and the least price of any mix."""
    instance = generate("micro_dag", largest_vm="D4")
    kinds = {vm.id: vm for vm in instance.vm_types}
    cheapest = [0.0]
    for slots in range(1, 101):
        nodes = acquire(instance, slots)
        # least price of s slots: min over kinds k of least(s - slots_k) + price_k
        cheapest.append(min(cheapest[max(0, slots - k.slots)] + k.price for k in kinds.values()))
        yield {
            "slots": slots,
            "machines": len(nodes),
            "slots acquired": sum(kinds[n.vm_type].slots for n in nodes),
            "price": sum(kinds[n.vm_type].price for n in nodes),
            "least price": cheapest[slots],
        }


def worked() -> Iterator[Row]:
    """Yield what each mapping puts on the slots of the worked example (Figure 4).

    Tasks B, O, Y, G with 5, 4, 3, 5 threads on three machines of two slots; full bundles of
    2, 3, 3, 4 threads. What the threads need is not given: the partial bundles fit one slot.
    """
    names = "BOYG"
    threads, bundle = np.array([5, 4, 3, 5]), np.array([2, 3, 3, 4])
    # a full bundle takes a slot, 100 %; a partial one 30 %, so that three fit one slot
    full, rest = threads // bundle, threads % bundle
    part = np.where(rest > 0, 30.0, 0.0)
    single = np.full(4, 100.0 / 3)
    allocation = Allocation(
        "mba", threads, 100.0 * full + part, 100.0 * full + part, full, bundle, rest, part, part,
        single, single,
    )  # fmt: skip
    # threads are numbered through, task by task
    first = np.cumsum(threads) - threads
    job = Job(allocation, np.arange(4), first, {}, {"D2": 2})
    nodes = tuple(AcquiredNode(id=f"vm{v + 1}", vm_type="D2", slots=2) for v in range(3))
    mappings = {"DSM": map_round_robin(job, nodes), "SAM": map_slot_aware(job, nodes)}
    for place in range(6):
        row = {"slot": f"s{place // 2 + 1}{place % 2 + 1}"}
        for name, mapped in mappings.items():
            here = np.flatnonzero((mapped.node == place // 2) & (mapped.slot == place % 2))
            task = np.repeat(np.arange(4), threads)[here]
            row[name] = " ".join(
                f"{names[t]}{q - first[t] + 1}" for t, q in zip(task, here, strict=True)
            )
        yield row


def mixed(seed: int, pair: str) -> Row:
    """Slots of several tasks, and bookings of the fullest slot, of a random DAG."""
    instance = generate("model_dag", seed=seed, tasks=8, rate=40.0 + seed)
    plan = plan_of(instance, pair)
    assert plan is not None
    predicted = Predicted(instance, plan)
    b, one = predicted.bundles, performance_models(instance)
    # threads as if each were measured alone
    cpu, memory = (
        b.threads * np.array(single, dtype=float)[b.operator]
        for single in ([m.cpu(1) for m in one], [m.memory(1) for m in one])
    )
    cores = np.array(cores_of(instance, plan.nodes), dtype=float)
    return {
        "tasks": instance.num_operators,
        "mixed slots": predicted.mixed,
        "fullest slot, memory %": max(b.by_slot(memory).values()),
        "fullest machine, CPU % of its cores": float((b.by_node(cpu) / cores).max()),
    }


FEWER = 5  # Tuples/s by which Figures 7 and 8 lower the rate until a run is stable.

MACHINES: dict[str, dict[str, Any]] = {
    "interpolated": {},
    "early": {"early": True},
    "one core a slot": {"slot_cores": 1.0},
    "two cores a slot": {"slot_cores": 2.0},
}
"""Machines that plans meet, by name: what their `Machines` differ in."""


def reached(dag: str, rate: float, pair: str, machine: str, seed: int) -> Row:
    """The rate that simulated machines sustain of a plan of Figures 7 and 8."""
    instance = dag_at(dag, rate)
    plan = plan_of(instance, pair)
    assert plan is not None
    sim = Simulation(instance, plan, seed, Machines(**MACHINES[machine]))
    # from the planned rate downwards, in steps of 5 tuples/s
    actual, _ = sim.peak(FEWER, rate, most=rate)
    key = {"DAG": dag, "rate": rate, "pair": pair, "machine": machine, "seed": seed}
    return {**key, "actual": actual}


def machines(dag: str, pair: str, machine: str, noise: float, seed: int) -> list[Row]:
    """CPU and memory of each machine of a plan on 20 slots; rate and latency of the run."""
    rate, plan = planned_on_20(dag, pair)
    instance = dag_at(dag, rate)
    predicted = Predicted(instance, plan)
    noisy = Machines(noise=noise, memory_noise=2 * noise, **MACHINES[machine])
    sim = Simulation(instance, plan, seed, noisy)
    # from below what the models predict: fewer runs than from 0
    actual, ran = sim.peak(STEP, 0.8 * predicted.shuffled)
    row: Row = {"DAG": dag, "pair": pair, "machine": machine, "noise": noise, "seed": seed}
    row["actual"] = actual
    if ran is None:
        return [row]
    latency = np.asarray(ran.trial.latencies)
    middle, high = np.quantile(latency, [0.5, 0.99])
    row |= {"latency, median": middle, "latency, 99 %": high}
    # percent of a slot below; of the machine, which has four, in the table
    cpu, memory = predicted.use(predicted.capacity)
    return [
        row
        | {
            "VM": v + 1, "predicted CPU %": cpu[v] / 4, "actual CPU %": ran.cpu[v] / 4,
            "predicted memory %": memory[v] / 4, "actual memory %": ran.memory[v] / 4,
        }
        for v in range(len(plan.nodes))
    ]  # fmt: skip


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
    # seconds on the slot's core a tuple; every further thread makes them longer
    core = task.cpu * (1 + task.contention * (threads - 1))
    return min(threads / (core + task.wait), 1 / core, task.outside_rate)


def _next_count(counts: tuple[int, ...], threads: float) -> float:
    """Return the thread count that is tried next, one beyond all after the last."""
    return next((count for count in counts if count > threads), threads + 1000)


def phase(task: str, seed: int) -> Iterator[Row]:
    """Yield modelled and true peak by thread count: Algorithm 1 over simulated slots, on a task
    whose truth is known."""
    slot_task, counts = TASKS[task]
    trials = [
        queueing_trial(slot_task, seconds=SECONDS, seed=TRIALS * seed + k) for k in range(TRIALS)
    ]
    for point in model_task(
        trials,
        rate_step=lambda rate: max(1.0, rate * FINER),
        thread_step=partial(_next_count, counts),
        max_threads=counts[-1],
    ):
        true = peak(slot_task, point.threads)
        yield {"threads": point.threads, "modelled": point.rate, "true": true, "CPU %": point.cpu}
