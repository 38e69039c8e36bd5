"""What a result proves, held against all placements there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.fuzz.claim import Claim
from tests.fuzz.figures import measure
from tests.fuzz.promises import EMPTIES, LEAVES_FEWEST, OF_LEAVING, leaves_behind, reads_more
from tests.fuzz.rules import TIGHT, broken

Findings = Iterator[tuple[str, str]]


def prove(claim: Claim) -> Findings:
    """Yield (kind, detail) of every proof and promise that does not hold."""
    if not claim.space.complete:
        return
    if claim.termination == "infeasible":
        yield from _infeasible(claim)
        return
    yield from _existence(claim)
    yield from _indifferent(claim)
    among = _looked_among(claim)
    if among is not None and claim.name in claim.space.figures.by_name:
        tight, loose = claim.space.tight & among, claim.space.loose & among
        yield from _bound(claim, tight)
        yield from _optimum(claim, tight, loose)
        yield from _levels(claim, tight)
    yield from _unproven(claim)
    yield from _staying(claim)


def _infeasible(claim: Claim) -> Findings:
    """Infeasible only where no placement keeps every rule without any tolerance."""
    good = claim.space.tight
    if claim.keywords.get("drain") == "hard":  # asked for, so that it is part of the question
        good = good & ~claim.reading.leaving[claim.space.at].any(axis=1)
    if good.any():
        reasons = [str(r) for r in claim.result.reasons]
        example = claim.space.example(good)
        yield "false-infeasible", f"{example} keeps every rule; reasons {reasons}"


def _existence(claim: Claim) -> Findings:
    space, kind = claim.space, claim.declared["kind"]
    if claim.sound and not space.loose.any():
        yield "impossible", "a feasible plan where there is none among all placements"
    if claim.sound and claim.keywords.get("drain") == "hard":
        stays = claim.reading.leaving[claim.node] & claim.reading.can_stay_off
        if stays.any():
            yield "drain-hard", "drain=hard, and tasks stay on leaving nodes"
    limited = "time_limit" in claim.keywords or "max_load_distance" in claim.keywords
    if claim.result.plan is not None or kind == "heuristic" or limited:
        return
    good = space.tight if leaves_behind(claim.method, claim.keywords) else _emptied(claim)
    if good.any():
        notes = list(claim.result.notes)
        yield "no-plan", f"{claim.termination}; {int(good.sum())} placements keep all; {notes}"


def indifferent(claim: Claim) -> bool:
    """Whether no plan is better than another by the objective: there is nothing in it to optimise.

    The most that can be is 0, no tasks communicate, or no task has a load to balance.
    """
    reading, name = claim.reading, str(claim.name)
    if name in ("imc_gain", "internode_traffic", "interslot_traffic") and not reading.total_traffic:
        return True
    if name == "load_distance":
        costs = (reading.document.get("crossing_cost") or {}).get(reading.resources[0]) or {}
        return not reading.load[:, 0].any() and not any(costs.values())
    return claim.sense == "max" and claim.bound == 0 and claim.bound_of == "problem"


def _indifferent(claim: Claim) -> Findings:
    """An objective by which no plan is better than another is never told as optimal."""
    if indifferent(claim) and claim.value is not None and claim.termination == "optimal":
        yield "optimal-for-nothing", f"{claim.name} {claim.value!r} is that of every plan"


def _emptied(claim: Claim) -> np.ndarray:
    return claim.space.tight & claim.space.emptied


def _looked_among(claim: Claim) -> np.ndarray | None:
    """(M,) the placements that the bound speaks of; ``None`` where that is the method's to say."""
    if claim.bound_of != "restricted":
        return np.ones(len(claim.space.at), dtype=bool)
    if claim.method in EMPTIES and not reads_more(claim.method, claim.reading):
        return claim.space.emptied
    return None


def compared(claim: Claim) -> str:
    """Return what `prove` compares with all placements: ``optimal`` or ``infeasible``, else
    nothing.
    """
    if not claim.space.complete or claim.termination == "infeasible":
        return "infeasible" if claim.space.complete else ""
    among = _looked_among(claim) is not None and claim.name in claim.space.figures.by_name
    return "optimal" if among and _is_proof(claim) else ""


def _is_proof(claim: Claim) -> bool:
    """Whether a value is proved the best, of the whole problem or what the bound speaks of."""
    told = claim.termination == "optimal" or (claim.bound_of == "restricted" and claim.closed())
    return told and claim.sound and claim.value is not None


def _bound(claim: Claim, tight: np.ndarray) -> Findings:
    best = claim.space.best(str(claim.name), claim.sense, tight)
    if claim.bound is None or best is None or not np.isfinite(best):
        return
    beyond = claim.worse_by(claim.bound, best)  # a bound that is worse than the best cuts it off
    allowed = claim.allowed_miss(best, claim.bound)
    if beyond > claim.rounding() + min(allowed, 1e-7 * max(abs(best), abs(claim.bound))):
        little = beyond <= allowed + claim.rounding()
        kind = "bound-a-little-wrong" if little else "bound-wrong"
        told = f"{claim.termination}, of {claim.bound_of}"
        yield kind, f"{claim.name} bound {claim.bound!r} optimum {best!r} ({told})"


def _optimum(claim: Claim, tight: np.ndarray, loose: np.ndarray) -> Findings:
    if not _is_proof(claim) or claim.value is None:
        return
    name, value = str(claim.name), claim.value
    low, high = (claim.space.best(name, claim.sense, among) for among in (tight, loose))
    if low is not None and np.isfinite(low):
        allowed = 1.1 * claim.allowed_miss(low, value) + claim.rounding()
        if claim.worse_by(value, low) > allowed:
            yield "not-optimal", f"{name} {value!r} told as optimal, optimum {low!r}"
    if high is not None and np.isfinite(high):
        allowed = 1e-9 * max(abs(value), abs(high)) + claim.rounding()
        if claim.worse_by(high, value) > allowed:
            yield "too-good", f"{name} {value!r} beyond the optimum {high!r}"


def _levels(claim: Claim, among: np.ndarray) -> Findings:
    """A proved level is the best one among plans that are no worse on the levels before."""
    figures, value, among = claim.space.figures.by_name, claim.value, among.copy()
    if not claim.sound or value is None or claim.termination != "optimal":
        return
    first = figures[str(claim.name)]
    among &= claim.worse_by(first, value) <= claim.rounding()
    for level in claim.result.objective_levels:
        if level.name == claim.name:
            continue
        if level.name not in figures or level.value is None:
            return  # what comes after it is best among plans that this does not know
        mine = claim.figures.value(level.name)
        of_load = level.name in ("load_distance", "sum_of_sides")
        size = float(claim.reading.totals[0]) if of_load else claim.reading.total_traffic
        scale = 1e-6 * max(abs(level.value), size)
        if mine is not None and abs(mine - level.value) > scale:
            yield "level-figure", f"{level.name} told {level.value} ours {mine}"
        best = claim.space.best(level.name, level.sense, among)
        if level.bound is None or best is None:
            return
        side = 1.0 if level.sense == "min" else -1.0
        if side * (level.bound - best) > scale:
            yield "level-bound", f"{level.name} bound {level.bound} optimum {best}"
        among &= side * (figures[level.name] - level.value) <= scale


_AS_A_WHOLE = {"seed", "solver", "explain", "objective", "ignore"}
"""Keywords that leave what is asked whole."""


def _unproven(claim: Claim) -> Findings:
    """An exact method without a limit ends with a proof."""
    asked = {"time_limit", "gap", "max_load_distance", "drain"} & set(claim.keywords)
    if claim.declared["kind"] != "exact" or asked or claim.termination == "optimal":
        return
    if indifferent(claim):
        return
    levels = claim.result.objective_levels
    if claim.keywords.get("weighted") and levels and _closed(levels[-1].value, levels[-1].bound):
        return  # what was asked for is closed: the load distance alone is another problem
    if claim.value is None:  # the objective does not apply, as used capacity where all is 0
        return
    if claim.bound_of == "restricted" and set(claim.keywords) - {
        "seed",
        "solver",
        "explain",
        "objective",
        "ignore",
    }:
        return  # an option asked for less than the whole problem
    drains = not leaves_behind(claim.method, claim.keywords) and claim.reading.leaving.any()
    if drains or reads_more(claim.method, claim.reading):
        return
    edge = (claim.space.tight != claim.space.loose).any()
    if claim.sound and not edge and not claim.result.repaired:
        notes = list(claim.result.notes)
        told = f"{claim.name} {claim.value} bound {claim.bound} gap {claim.gap}"
        yield "unproven", f"{claim.termination}, {told}; {notes}"


def _closed(value: float | None, bound: float | None) -> bool:
    """Whether a level's bound meets its value."""
    if value is None or bound is None:
        return False
    return abs(value - bound) <= 1e-9 * max(1.0, abs(value))


def _staying(claim: Claim) -> Findings:
    """An exact method or search is never worse than staying, where that keeps every rule."""
    reading, home = claim.reading, claim.reading.home
    if claim.declared["kind"] == "heuristic" or not len(home) or (home < 0).any():
        return
    if claim.value is None or "max_load_distance" in claim.keywords:
        return
    if reading.leaving[home].any() and not leaves_behind(claim.method, claim.keywords):
        return
    if broken(reading, home.tolist(), None, TIGHT):
        return
    stays = claim.worth(measure(reading, home[None]))
    if stays is None:
        return
    if not claim.feasible:
        yield "worse-than-staying", f"no feasible plan, and staying keeps every rule ({stays!r})"
        return
    if claim.method in LEAVES_FEWEST and claim.name not in OF_LEAVING:
        plans = np.array([claim.node, home])
        left, now = (reading.leaving[plans] & reading.can_stay_off).sum(axis=1).tolist()
        if left > now:
            yield "worse-than-staying", f"{left} tasks on leaving nodes, staying has {now}"
        if left != now:  # counts before the objective
            return
    value = claim.worth(claim.figures)
    value = claim.value if value is None else value
    if claim.worse_by(value, stays) > 1e-9 * max(abs(stays), abs(value)) + claim.rounding():
        yield "worse-than-staying", f"{claim.name} {value!r}, staying has {stays!r}"
