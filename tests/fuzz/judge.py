"""Demands on one result that need no enumeration: verdict, figures, gap, marks, exit code."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.fuzz.claim import Claim
from tests.fuzz.product import evaluate
from tests.fuzz.promises import expected_drops
from tests.fuzz.rules import NAMED, SLOT_RULES, in_common

Findings = Iterator[tuple[str, str]]
_SAME = 1e-9


def judge(claim: Claim) -> Findings:
    """Yield (kind, detail) of all that is wrong with a result."""
    result = claim.result
    wanted = expected_drops(claim.declared, claim.keywords)
    if set(result.ignored) != wanted:
        yield "ignored-mark", f"told {sorted(result.ignored)}, asked for {sorted(wanted)}"
    if claim.node is not None:
        yield from verdict(
            result.evaluation,
            set(claim.surely_broken),
            set(claim.maybe_broken),
            claim.termination,
            decided=claim.slot is not None,
        )
        yield from _figures(claim)
        yield from _drained(claim)
        yield from _moves(claim)
        again = evaluate(claim.setting.instance, result.plan, ignore=result.ignored)
        if again.to_dict() != result.evaluation.to_dict():
            yield "evaluate", "evaluate(plan) differs from the result's evaluation"
    try:
        json.loads(result.to_json())
    except ValueError as error:
        yield "json", repr(error)
    yield from _gap(claim)
    if claim.termination == "optimal" and (not claim.closed() or claim.bound_of != "problem"):
        told = f"value {claim.value} bound {claim.bound} of {claim.bound_of} gap {claim.gap}"
        yield "optimal-without-proof", told
    assumed = getattr(result, "assumes", None)
    if assumed and claim.bound is not None and claim.bound_of != "restricted":
        yield "assumes", f"assumes {assumed}, but the bound is of the {claim.bound_of}"
    code = 0 if claim.feasible else 3 if claim.termination == "infeasible" else 4
    if int(result.exit_code) != code and claim.termination != "interrupted":
        yield "exit-code", f"{int(result.exit_code)}, ours {code}"


def verdict(
    evaluation: Any, sure: set[str], maybe: set[str], about_what: str, *, decided: bool
) -> Findings:
    """Rules broken, as both see them; what only the tolerance decides is left open.

    Parameters
    ----------
    sure, maybe
        What we find broken with the format's tolerance, and without any.
    decided
        Whether the plan decides slots.
    """
    theirs = {v.rule for v in evaluation.violations}
    told = f"ours {sorted(sure)} theirs {sorted(theirs)}; {about_what}"
    if evaluation.feasible != (not theirs):
        yield "verdict", f"feasible {evaluation.feasible}, but {told}"
    if not decided:
        about = {r for r in theirs if r in SLOT_RULES or (r not in NAMED and "slot" in r)}
        if "placed" not in sure:  # a plan that is not whole has no dealing to speak of
            if "slots" in sure and not about:
                yield "slots-ignored", f"no dealing keeps the slots: {told}"
            if about and "slots" not in maybe:
                yield "slots-refused", f"a dealing keeps the slots: {told}"
        theirs, sure, maybe = theirs - about, sure - SLOT_RULES, maybe - SLOT_RULES
    ours, edge, named = ({in_common(r) for r in rules} for rules in (sure, maybe, theirs))
    if not ours <= named <= edge:
        yield "verdict", f"{told}, without tolerance {sorted(maybe)}"


def _figures(claim: Claim) -> Findings:
    wrong = [
        f"{name}: ours {mine} theirs {theirs}"
        for name, mine, theirs, scale in _compared(claim)
        if not _same(mine, theirs, scale)
    ]
    if wrong:
        yield "figures", "; ".join(wrong[:5])


def _same(mine: Any, theirs: Any, scale: float) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return abs(mine - theirs) <= _SAME * max(abs(mine), abs(theirs), scale)


def _compared(claim: Claim) -> Iterator[tuple[str, Any, Any, float]]:
    """Yield name, our figure, theirs, and the scale on which sums may round."""
    reading, found, told = claim.reading, claim.figures, claim.result.evaluation
    traffic, biggest = reading.total_traffic, float(found.loads.max(initial=0))
    for name in ("imc_gain", "internode_traffic"):
        yield name, found.value(name), getattr(told, name), traffic
    yield "total_traffic", traffic, told.total_traffic, traffic
    if traffic > 0:
        share = found.by_name["imc_gain"][0] / traffic
        yield "collocation_factor", share, told.collocation_factor, 1.0
    yield "load_distance", found.value("load_distance"), told.load_distance, biggest
    if (reading.home >= 0).any():
        yield "migrations", found.value("migrations"), told.migrations, 0.0
        cost = float(reading.cost.sum())
        yield "migration_cost", found.value("migration_cost"), told.migration_cost, cost
    yield "nodes_used", found.value("nodes_used"), told.nodes_used, 0.0
    for name in ("used_capacity", "mean_absolute_deviation", "cpu_deviation"):
        if name in found.by_name:
            known = (told.deviation or {}).get(reading.resources[0])
            theirs = known if name == "cpu_deviation" else getattr(told, name)
            yield name, found.value(name), theirs, 1e-3
    rate = found.value("sustainable_rate")
    if hasattr(told, "sustainable_rate") and rate is not None and math.isfinite(rate):
        yield "sustainable_rate", rate, told.sustainable_rate, 0.0
        yield "saturation", rate, (told.saturation or [{}])[0].get("rate"), 0.0
    yield from _by_node(claim)
    for link, load in zip(reading.links, found.links, strict=True):
        if 0 < link.capacity < math.inf:
            theirs = (told.link_utilisation or {}).get(link.name)
            yield f"link {link.name}", load[0] / link.capacity, theirs, 1e-6
    if claim.slot is not None and claim.node is not None:
        places = list(zip(claim.node, claim.slot, strict=True))
        inside = sum(r for (u, v), r in reading.pairs.items() if places[u] == places[v])
        inside += sum(rate for u, rate, receivers in reading.near
                      if any(places[u] == places[v] for v in receivers))  # fmt: skip
        yield "interslot", max(0.0, traffic - inside), told.interslot_traffic, traffic
        yield "slots_used", len(set(places)), told.slots_used, 0.0


def _by_node(claim: Claim) -> Iterator[tuple[str, Any, Any, float]]:
    reading, found, told = claim.reading, claim.figures, claim.result.evaluation
    biggest, shares = float(found.loads.max(initial=0)), []
    for n, node in enumerate(reading.node_ids):
        yield f"tasks {node}", found.counts[0, n], told.node_tasks[node], 0.0
        for r, name in enumerate(reading.resources):
            load, capacity = found.loads[0, n, r], reading.capacity[n, r]
            yield f"load {node}.{name}", load, told.node_loads[node].get(name), biggest
            if 0 < capacity < math.inf:
                shares.append(load / capacity)
                yield f"use {node}.{name}", shares[-1], told.utilisation[node].get(name), 1e-6
            elif capacity == 0 and load == 0:
                shares.append(0.0)
    yield "max_utilisation", max(shares, default=None), told.max_utilisation, 1e-6


def _drained(claim: Claim) -> Findings:
    """A plan that leaves tasks on leaving nodes says so."""
    reading = claim.reading
    if not reading.leaving.any() or claim.node is None:
        return
    drained = not reading.leaving[[n for n in claim.node if n >= 0]].any()
    told = getattr(claim.result.evaluation, "drained", None)
    if told is not drained and not (drained and told is None):
        yield "drained", f"ours {drained} theirs {told}"


def _moves(claim: Claim) -> Findings:
    """Every move is listed, and nothing else; a switch to a copy may be."""
    reading, node = claim.reading, claim.node
    assert node is not None
    told = {(m.task, m.source, m.target) for m in claim.result.moves}
    every, moved = set(), set()
    for t, (home, at) in enumerate(zip(reading.home.tolist(), node, strict=True)):
        if home >= 0 and at >= 0 and at != home:
            move = (reading.task_ids[t], reading.node_ids[home], reading.node_ids[at])
            every.add(move)
            if not reading.copies[t, at]:
                moved.add(move)
    if not moved <= told <= every:
        yield "moves", f"ours {sorted(moved)} theirs {sorted(told)}"


_MEASURED = {"capacity", "links", "max_load"}
"""Rules that the rate measures."""


def _gap(claim: Claim) -> Findings:
    value, bound, gap = claim.value, claim.bound, claim.gap
    if bound is not None and not math.isfinite(bound):
        yield "bound-infinite", str(bound)
        return
    # the rate measures capacities: a plan that breaks them is as far from its bound as any
    broken = (
        {v.rule for v in claim.result.evaluation.violations} if claim.result.evaluation else set()
    )
    rate = claim.name == "sustainable_rate" and not (
        (claim.result.mending and claim.result.mending.still) or broken - _MEASURED
    )
    stands = claim.feasible or rate
    if not stands or value is None or bound is None:
        if gap is not None:
            yield "gap-figure", f"gap {gap} without a feasible plan and a bound"
        return
    distance = max(0.0, claim.worse_by(value, bound))
    low = high = distance / max(abs(value), abs(bound)) if distance else 0.0
    near = 1e-12
    if claim.name == "load_distance":
        means = [max(m, 1e-300) for m in claim.reading.means]
        low, high = 100 * distance / means[1], 100 * distance / means[0]
        near = 1e-7  # of these percent
    if _between(gap, low, high, near):
        return
    in_units = claim.name == "load_distance" and _between(gap, distance, distance, near)
    ours = f"{low:.9g}" if low == high else f"{low:.9g} to {high:.9g}"
    kind = "gap-unit" if in_units else "gap-figure"
    yield kind, f"value {value} bound {bound} gap {gap} ours {ours}"


def _between(gap: float | None, low: float, high: float, near: float) -> bool:
    return gap is not None and low * (1 - _SAME) - near <= gap <= high * (1 + _SAME) + near


def differs(left: Any, right: Any) -> bool:
    """Whether two arrays of indices, or their absence, are not the same."""
    if left is None or right is None:
        return left is not right
    return not np.array_equal(np.array(left), np.array(right))
