"""The referee for model-driven plans: threads on the slots of acquired machines.

The rules: every operator has threads, every thread stands in an existing slot, no machine lends
more slots than its type has, the memory of each slot and the CPU of each machine suffice. Memory is
bound to a slot, as a worker process is; all cores of a machine, one for each slot its type has,
serve whatever slots the job uses.

Memory and CPU are those at the plan's input rate, a task's best slots filled first, which is what
allocations plan with. What shuffle grouping makes of it is predicted apart
(`rates_of`) and stands in the utilisations and in the supported rate.

Source: Shukla and Simmhan 2017, sections 3, 7.3 (what binds) and 8.5 (prediction).

What a placement of threads will do: supported rate, CPU and memory of slots and machines.

Each slot's rate follows from the task's performance model and the number of its threads there.
Shuffle grouping sends every thread of a task the same share of its tuples, whatever the slot can
take; the input rate that a mapping supports is therefore the least, over tasks and slots, at which
some slot reaches its peak. Beside it stands the *capacity*: the rate if each slot were sent what it
can take (Σ of the slots' peak rates, least over tasks), which is what allocations plan with.

Source: Shukla and Simmhan 2017, sections 8.4 and 8.5; CPU and memory below the peak rate in
proportion to the rate, as there.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_driven.allocate import cores_of
from formulations.model_driven.performance_model import FULL, Bundles, count_bundles, rates_of
from optim.errors import InvalidInput, Problem
from optim.figures.measures import slack
from optim.referee import Evaluation, PlanKind
from optim.rules.base import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.format.instance import Instance
    from optim.format.plan import Plan

_RESOURCES = ("cpu", "memory")
_NAMED = 20


def evaluate_model_driven(instance: Instance, plan: Plan) -> Evaluation:
    """Judge a plan of threads.

    Raises `InvalidInput`: the plan names operators, threads, machines or machine types that do not
        exist.
    """
    check_names(instance, plan)
    bundles, violations = _count(instance, plan)
    ids = [node.id for node in plan.nodes]
    violations += _lent_slots(instance, plan)
    planned = bundles.peak
    served = bundles.peak
    # without an input rate every slot is judged at its peak, the most that it can use
    rate = instance.input_rate
    if rate is not None and bundles.known:
        planned, served = bundles.filled(rate), bundles.shuffled(rate)
    cores = np.array(cores_of(instance, plan.nodes), dtype=np.float64)
    violations += _overloads(bundles, ids, planned, cores)
    violations += _crowds(instance, bundles, ids)
    supported, capacity, at = rates_of(bundles)
    slots = sum(node.slots for node in plan.nodes)
    price = {vm.id: vm.price for vm in instance.vm_types}
    return Evaluation(
        feasible=not violations,
        violations=tuple(violations),
        nodes_used=len(np.unique(bundles.node)),
        supported_rate=supported,
        capacity_rate=capacity,
        bottleneck=None if at is None else _where(instance, bundles, ids, at),
        slots=slots,
        extra_slots=None if plan.planned_slots is None else slots - plan.planned_slots,
        price=sum(price[node.vm_type] for node in plan.nodes),
        node_tasks=_threads_by_node(bundles, ids),
        **_utilisation(bundles, ids, served, cores),
        **_traffic(instance, bundles),
    )


def checked_bundles(instance: Instance, plan: Plan, between: str = "linear") -> Bundles:
    """Count a plan's threads by slot.

    `between`: between measured thread counts: ``linear``, as the referee has it, or the ``nearest``
        count, which is what the paper's own predictions come to.
    Raises `InvalidInput`: the plan names what does not exist, has no threads, or leaves a thread
        without a slot.
    """
    if plan.threads is None:
        raise InvalidInput(
            Problem("threads", None, "is missing: this is no model-driven plan", "give threads")
        )
    check_names(instance, plan)
    bundles, violations = _count(instance, plan, between)
    if violations:
        raise InvalidInput(Problem(v.place, None, f"breaks the rule {v.rule}") for v in violations)
    return bundles


def check_names(instance: Instance, plan: Plan) -> None:
    """Refuse a plan that names what the instance, or the plan itself, does not have.

    Raises `InvalidInput`: see above.
    """
    problems = []
    threads = plan.threads or {}
    types = {vm.id for vm in instance.vm_types}
    machines = {node.id for node in plan.nodes}
    if len(machines) < len(plan.nodes):
        problems.append(Problem("nodes", None, "names a machine twice", "ids must be unique"))
    for i, node in enumerate(plan.nodes):
        if node.vm_type not in types:
            reason = "is not a vm_type of the instance"
            remedy = f"use one of {', '.join(sorted(types)[:5])}"
            problems.append(Problem(f"nodes[{i}].vm_type", node.vm_type, reason, remedy))
    for operator in threads:
        if operator not in instance.operators.index:
            reason = "is not an operator of the instance"
            problems.append(Problem(f"threads.{operator}", None, reason))
    for thread, place in plan.assignment.items():
        if place not in machines:
            reason, remedy = "is not an acquired machine", "name one of nodes[].id of the plan"
            problems.append(Problem(f"assignment.{thread}", place, reason, remedy))
        operator, _, number = thread.rpartition("/")
        exists = number.isdecimal() and int(number) < threads.get(operator, 0)
        if not exists or str(int(number)) != number:
            reason = "is no thread: threads are named operator/0, operator/1, …"
            problems.append(Problem(f"assignment.{thread}", None, reason))
    if problems:
        raise InvalidInput(problems)


def _count(
    instance: Instance, plan: Plan, between: str = "linear"
) -> tuple[Bundles, list[Violation]]:
    """Count threads by (machine, slot, operator); report those without a place."""
    index = {node.id: v for v, node in enumerate(plan.nodes)}
    # a plan that names a slot beyond what its machine lends breaks a rule; it is not malformed
    sizes = np.array([node.slots for node in plan.nodes], dtype=np.int64)
    threads, slots = plan.threads or {}, plan.slots or {}
    placed: Counter[tuple[int, int, int]] = Counter()
    violations: list[Violation] = []
    for o, operator in enumerate(instance.operators.ids):
        wanted = threads.get(operator, 0)
        if wanted == 0:
            violations.append(Violation("placed", operator, 1.0, 1.0, 0.0))
        missing = 0
        for i in range(wanted):
            name = f"{operator}/{i}"
            node, slot = plan.assignment.get(name), slots.get(name)
            if node is None or slot is None:
                missing += 1
                if missing <= _NAMED:
                    violations.append(Violation("placed", name, 1.0, 1.0, 0.0))
                continue
            count = int(sizes[index[node]])
            if slot >= count:
                violations.append(
                    Violation("slots", name, slot + 1.0 - count, slot + 1.0, float(count))
                )
            else:
                placed[index[node], slot, o] += 1
        if missing > _NAMED:
            rest = float(missing - _NAMED)
            where = f"{missing - _NAMED} more threads of {operator}"
            violations.append(Violation("placed", where, rest, rest, 0.0))
    per_operator = np.array([threads.get(o, 0) for o in instance.operators.ids], dtype=np.int64)
    return count_bundles(instance, per_operator, sizes, placed, between), violations


def _lent_slots(instance: Instance, plan: Plan) -> Iterator[Violation]:
    """No machine lends more slots than its type has."""
    most = {vm.id: vm.slots for vm in instance.vm_types}
    for node in plan.nodes:
        has = most[node.vm_type]
        if node.slots > has:
            yield Violation("slots", node.id, float(node.slots - has), float(node.slots), has)


def _overloads(bundles: Bundles, ids: list[str], planned: Any, cores: Any) -> Iterator[Violation]:
    """Memory ≤ 100 % of each slot; CPU ≤ 100 % × cores of each machine."""
    cpu, memory = bundles.use(planned)
    for (v, slot), value in bundles.by_slot(memory).items():
        if value > FULL + slack(FULL):
            yield Violation("slot_capacity", f"{ids[v]}#{slot}.memory", value - FULL, value, FULL)
    for v, value in enumerate(bundles.by_node(cpu).tolist()):
        room = FULL * float(cores[v])
        if value > room + slack(room):
            yield Violation("capacity", f"{ids[v]}.cpu", value - room, value, room)


def _crowds(instance: Instance, bundles: Bundles, ids: list[str]) -> Iterator[Violation]:
    """No slot holds more threads than ``max_tasks_per_slot``."""
    limit = instance.limits.max_tasks_per_slot
    if limit is None:
        return
    counts = bundles.by_slot(bundles.threads.astype(np.float64))
    for (v, slot), count in counts.items():
        if count > limit:
            where = f"{ids[v]}#{slot}"
            yield Violation("max_tasks_per_slot", where, count - limit, count, float(limit))


def _utilisation(bundles: Bundles, ids: list[str], served: Any, cores: Any) -> dict[str, Any]:
    """Shares of slots and machines in use under shuffle grouping."""
    use = dict(zip(_RESOURCES, bundles.use(served), strict=True))
    slots: dict[str, dict[str, float]] = {}
    nodes: dict[str, dict[str, float]] = {name: {} for name in ids}
    for resource, values in use.items():
        for (v, slot), value in bundles.by_slot(values).items():
            slots.setdefault(f"{ids[v]}#{slot}", {})[resource] = value / FULL
        for v, value in enumerate(bundles.by_node(values).tolist()):
            nodes[ids[v]][resource] = value / (FULL * float(cores[v]))
    shares = [share for node in nodes.values() for share in node.values()]
    return {
        "slot_utilisation": slots or None,
        "slots_used": len(slots),
        "utilisation": nodes or None,
        "max_utilisation": max(shares, default=None),
    }


def _threads_by_node(bundles: Bundles, ids: list[str]) -> dict[str, int]:
    counts = bundles.by_node(bundles.threads.astype(np.float64))
    return {name: round(float(c)) for name, c in zip(ids, counts, strict=True)}


def _where(instance: Instance, bundles: Bundles, ids: list[str], row: int) -> str:
    operator = instance.operators.ids[int(bundles.operator[row])]
    return f"{operator} on {ids[int(bundles.node[row])]}#{int(bundles.slot[row])}"


def _traffic(instance: Instance, bundles: Bundles) -> dict[str, Any]:
    """Tuples/s between threads: in all, inside machines, between them, and between slots."""
    # every thread of the sender sends the same to every thread of the receiver
    rates = instance.operators.tuple_rate
    width = int(bundles.slots.max(initial=1))
    # a slot is numbered machine × width + slot, width the most slots of any machine
    places = (bundles.node, bundles.node.astype(np.int64) * width + bundles.slot)
    inside = [_counts_by_place(instance.num_operators, bundles, place) for place in places]
    total, gains = 0.0, [0.0, 0.0]
    for stream in instance.streams:
        a, b = stream.source, stream.target
        rate = float(rates[a] * stream.selectivity)
        # rate / (q_a q_b) for each pair of threads, of which those on one place stay inside
        pairs = float(bundles.of_operator[a]) * float(bundles.of_operator[b])
        if math.isnan(rate) or not pairs:
            continue
        total += rate
        for k, counts in enumerate(inside):
            gains[k] += rate * _together(counts[a], counts[b]) / pairs
    return {
        "total_traffic": total,
        "imc_gain": gains[0],
        "internode_traffic": max(0.0, total - gains[0]),
        "interslot_traffic": max(0.0, total - gains[1]),
        "collocation_factor": gains[0] / total if total > 0 else None,
    }


def _counts_by_place(num_operators: int, bundles: Bundles, place: Any) -> list[Mapping[int, int]]:
    counts: list[Counter[int]] = [Counter() for _ in range(num_operators)]
    rows = zip(bundles.operator.tolist(), place.tolist(), bundles.threads.tolist(), strict=True)
    for operator, at, threads in rows:
        counts[operator][at] += threads
    return list(counts)


def _together(a: Mapping[int, int], b: Mapping[int, int]) -> float:
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    return float(sum(count * large.get(place, 0) for place, count in small.items()))


def remarks(instance: Instance, plan: Plan, evaluation: Evaluation) -> Iterator[str]:
    """Say where shuffle grouping falls short of the rate that was planned for."""
    wanted, supported = instance.input_rate, evaluation.supported_rate
    if wanted is None or supported is None or supported >= wanted * (1 - 1e-9):
        return
    yield (
        f"shuffle grouping supports {supported:.4g} of {wanted:.4g} tuples/s: "
        f"the bottleneck is {evaluation.bottleneck}"
    )
    capacity = evaluation.capacity_rate
    if capacity is not None and capacity < wanted * (1 - 1e-9):
        yield f"at most {capacity:.4g} tuples/s even if each slot received what it can process"


THREADS = PlanKind("threads", evaluate_model_driven, remarks)
