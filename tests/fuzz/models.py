"""Model-driven instances: made at random, and what their plans must add up to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.fuzz.reading import Document

if TYPE_CHECKING:
    from tests.fuzz.generate import Draw

ENOUGH = 1e-6


def model_instance(draw: Draw) -> Document:
    """Return operators with measured models and machines to acquire."""
    models = {f"m{i}": _points(draw) for i in range(draw.randint(1, 3))}
    count = draw.randint(1, 5)
    operators = [{"id": f"o{i}", "model": draw.choice(sorted(models))} for i in range(count)]
    if draw.chance(0.2):
        operators[0]["role"] = "source"
    streams = [
        {"from": f"o{i}", "to": f"o{j}", "selectivity": draw.choice([1, 1, 0.5, 2, 0])}
        for i, j in itertools.combinations(range(count), 2)
        if draw.chance(0.5)
    ]
    sizes = draw.sample([1, 2, 4, 8], draw.randint(1, 3))
    types = [{"id": f"v{s}", "slots": s, "price": draw.choice([0.1, s / 5, 0])} for s in sizes]
    return {
        "nodes": [], "resources": ["cpu", "memory"], "operators": operators, "streams": streams,
        "models": models, "input_rate": draw.choice([1, 7, 20, 33.3, 60]), "vm_types": types,
    }  # fmt: skip


def _points(draw: Draw) -> list[dict[str, float]]:
    rate, use, points = draw.uniform(2, 12), [0.0, 0.0], []
    for threads in [1, *sorted(draw.sample(range(2, 12), draw.randint(0, 3)))]:
        use = [min(100.0, u + draw.uniform(1, 40)) for u in use]
        cpu, memory = (round(u, 2) for u in use)
        points.append({"threads": threads, "rate": round(rate, 2), "cpu": cpu, "memory": memory})
        rate = max(0.1, rate + draw.uniform(-2, 12))
    return points


def judge_models(document: Document, result: Any) -> Iterator[tuple[str, str]]:
    """Yield (kind, detail) where a model-driven plan's counts, price or bound are not right."""
    if result.plan is None:
        return
    plan, told = result.plan.to_dict(), result.evaluation
    types = {v["id"]: v for v in document["vm_types"]}
    price = sum(types[x["vm_type"]]["price"] for x in plan["nodes"])
    if abs(price - told.price) > ENOUGH * max(1.0, price):
        yield "model-price", f"ours {price} theirs {told.price}"
    lent = {x["id"]: x.get("slots") or types[x["vm_type"]]["slots"] for x in plan["nodes"]}
    if sum(lent.values()) != told.slots:
        yield "model-slots", f"ours {sum(lent.values())} theirs {told.slots}"
    beyond = [t for t, n in plan["assignment"].items() if plan["slots"][t] >= lent[n]]
    if beyond and told.feasible:
        yield "model-slots", f"{beyond[:3]} stand in slots that were not acquired"
    threads = Counter(t.rsplit("/", 1)[0] for t in plan["assignment"])
    wanted = {name: n for name, n in plan["threads"].items() if n}
    if dict(threads) != wanted:
        yield "model-threads", f"placed {dict(threads)} of {wanted}"
    if told.feasible and set(wanted) != {o["id"] for o in document["operators"]}:
        yield "model-threads", f"operators without threads: {sorted(wanted)} have some"
    if told.feasible and result.bound is not None and result.bound > told.slots + ENOUGH:
        yield "bound-wrong", f"slots {told.slots} bound {result.bound}"


def judge_exact_models(exact: Any, heuristic: Any) -> Iterator[tuple[str, str]]:
    """Yield where `slots-milp` proves more than a plan refutes, or returns less than it."""
    if heuristic is None or heuristic.plan is None or not heuristic.feasible:
        return
    slots = heuristic.evaluation.slots
    if exact.bound is not None and exact.bound > slots + ENOUGH:
        yield "bound-wrong", f"bound {exact.bound}, {heuristic.method} has {slots} slots"
    if exact.plan is None:
        yield "no-plan", f"{exact.termination}, {heuristic.method} has {slots} slots"
    elif exact.feasible and exact.evaluation.slots > slots:
        yield "worse-than-family", f"{exact.evaluation.slots} slots, {heuristic.method} {slots}"
