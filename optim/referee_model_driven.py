"""The referee for model-driven plans: threads on the slots of acquired machines.

Source: Shukla and Simmhan 2017, performance models and the prediction of a mapping; each thread of
an operator receives an equal share of its tuples (shuffle grouping), and a slot with k threads of
an operator serves at most the model's rate for k threads.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.evaluation import Evaluation, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optim.instance import Instance
    from optim.plan import Plan
    from optim.tables import ModelPoint

_FULL = 100.0


def interpolate(points: Sequence[ModelPoint], threads: int) -> tuple[float, float, float]:
    """Return rate, CPU and memory of k threads on one slot, linear between measured counts.

    Below the first and above the last measured count the nearest one holds.
    """
    counts = [p.threads for p in points]
    rate, cpu, memory = (
        float(np.interp(threads, counts, [getattr(p, key) for p in points]))
        for key in ("rate", "cpu", "memory")
    )
    return rate, cpu, memory


def evaluate_model_driven(instance: Instance, plan: Plan) -> Evaluation:
    """Judge a plan of threads: every thread in an existing slot, slots within 100 % CPU and memory.

    Raises
    ------
    InvalidInput
        The plan names operators, machines or machine types that do not exist.
    """
    threads = plan.threads or {}
    machines = {node.id: node for node in plan.nodes}
    _check_names(instance, plan, machines)
    violations: list[Violation] = []
    per_slot: Counter[tuple[str, int, str]] = Counter()
    for operator in instance.operators.ids:
        wanted = threads.get(operator, 0)
        if wanted == 0:
            violations.append(Violation("placed", operator, 1.0, 1.0, 0.0))
        for i in range(wanted):
            name = f"{operator}/{i}"
            node, slot = plan.assignment.get(name), (plan.slots or {}).get(name)
            if node is None or slot is None:
                violations.append(Violation("placed", name, 1.0, 1.0, 0.0))
            elif slot >= machines[node].slots:
                count = float(machines[node].slots)
                violations.append(Violation("slots", name, slot + 1 - count, slot + 1.0, count))
            else:
                per_slot[node, slot, operator] += 1
    use = _slot_use(instance, per_slot)
    for label, figures in sorted(use.items()):
        for resource, value in figures.items():
            if value > _FULL + 1e-6:
                where = f"{label}.{resource}"
                violations.append(Violation("slot_capacity", where, value - _FULL, value, _FULL))
    slots = sum(node.slots for node in plan.nodes)
    price = {vm.id: vm.price for vm in instance.vm_types}
    planned = plan.planned_slots
    return Evaluation(
        feasible=not violations,
        violations=tuple(violations),
        slot_utilisation=use or None,
        nodes_used=len({node for node, _, _ in per_slot}),
        slots_used=len(use),
        supported_rate=_supported_rate(instance, threads, per_slot),
        slots=slots,
        extra_slots=None if planned is None else slots - planned,
        price=sum(price[node.vm_type] for node in plan.nodes),
        **_vm_traffic(instance, threads, per_slot),
    )


def _check_names(instance: Instance, plan: Plan, machines: Mapping[str, object]) -> None:
    problems = []
    types = {vm.id for vm in instance.vm_types}
    if len(machines) < len(plan.nodes):
        problems.append(Problem("nodes", None, "names a machine twice", "ids must be unique"))
    for i, node in enumerate(plan.nodes):
        if node.vm_type not in types:
            reason = "is not a vm_type of the instance"
            problems.append(Problem(f"nodes[{i}].vm_type", node.vm_type, reason))
    for operator in plan.threads or ():
        if operator not in instance.operators.index:
            reason = "is not an operator of the instance"
            problems.append(Problem(f"threads.{operator}", None, reason))
    for thread, place in plan.assignment.items():
        if place not in machines:
            problems.append(Problem(f"assignment.{thread}", place, "is not an acquired machine"))
    if problems:
        raise InvalidInput(problems)


def _slot_use(
    instance: Instance, per_slot: Counter[tuple[str, int, str]]
) -> dict[str, dict[str, float]]:
    use: dict[str, dict[str, float]] = {}
    for (node, slot, operator), count in sorted(per_slot.items()):
        model = instance.operators.model[instance.operators.index[operator]]
        figures = use.setdefault(f"{node}#{slot}", {"cpu": 0.0, "memory": 0.0})
        if model is not None:
            _, cpu, memory = interpolate(instance.models[model], count)
            figures["cpu"] += cpu
            figures["memory"] += memory
    return use


def _supported_rate(
    instance: Instance, threads: Mapping[str, int], per_slot: Counter[tuple[str, int, str]]
) -> float | None:
    """Least input rate at which some slot's threads of an operator reach their peak rate."""
    rates = instance.operators.tuple_rate
    if not instance.input_rate or np.isnan(rates).any():
        return None
    supported = math.inf
    for (_, _, operator), count in per_slot.items():
        o = instance.operators.index[operator]
        model, share = instance.operators.model[o], count / threads[operator]
        per_input = rates[o] / instance.input_rate
        if model is not None and per_input > 0:
            peak = interpolate(instance.models[model], count)[0]
            supported = min(supported, peak / (share * per_input))
    return supported if math.isfinite(supported) else None


def _vm_traffic(
    instance: Instance, threads: Mapping[str, int], per_slot: Counter[tuple[str, int, str]]
) -> dict[str, Any]:
    """Tuples/s between threads, in all and between machines; equal shares a thread pair."""
    rates, index = instance.operators.tuple_rate, instance.operators.index
    on_node: dict[str, Counter[str]] = {name: Counter() for name in instance.operators.ids}
    for (node, _, operator), count in per_slot.items():
        on_node[operator][node] += count
    total = gain = 0.0
    for stream in instance.streams:
        a, b = (instance.operators.ids[o] for o in (stream.source, stream.target))
        rate = float(rates[index[a]] * stream.selectivity)
        if math.isnan(rate) or not threads.get(a) or not threads.get(b):
            continue
        together = sum(count * on_node[b][node] for node, count in on_node[a].items())
        total += rate
        gain += rate * together / (threads[a] * threads[b])
    return {"total_traffic": total, "imc_gain": gain, "internode_traffic": max(0.0, total - gain)}
