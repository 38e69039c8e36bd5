"""The rules of a plan, one function for many placements and for one.

Each limit is kept within a `slack` relative to what is available in its row. `TIGHT` leaves room
for rounding only, `LOOSE` is the format's tolerance. A placement between the two is at the edge: it
speaks neither for nor against anybody.
"""

from __future__ import annotations

from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from tests.fuzz.dealing import Dealer, broken_by_slots
from tests.fuzz.figures import Figures, measure
from tests.fuzz.reading import Reading, Together

TIGHT, LOOSE = 1e-13, 1e-9 * (1 + 1e-6)
SLOT_RULES = frozenset(
    {
        "slots",
        "slot_capacity",
        "max_tasks_per_slot",
        "one_topology_a_slot",
        "workers",
        "slot_sets",
        "max_workers_restarted",
    }
)
#: rules whose names in a violation are part of the format; the newer ones are compared as one
NAMED = SLOT_RULES | {
    "placed", "allowed", "leaving", "capacity", "min_load", "links",
    "max_migrations", "max_migration_cost", "max_load_distance",
}  # fmt: skip

_dealers: WeakKeyDictionary[Reading, dict[float, Dealer]] = WeakKeyDictionary()


def dealer(reading: Reading, slack: float) -> Dealer:
    """Return the dealer of an instance; what it has worked out is kept."""
    known = _dealers.setdefault(reading, {})
    return known.setdefault(slack, Dealer(reading, slack))


def kept(reading: Reading, at: np.ndarray, figures: Figures, slack: float) -> dict[str, np.ndarray]:
    """Return, a rule, (M,) whether each of (M, T) placements keeps it; slots are dealt freely."""
    tasks = np.arange(at.shape[1])
    nowhere = at < 0
    good = {
        "placed": ~nowhere.any(axis=1),
        "allowed": (reading.allowed[tasks, at] | nowhere).all(axis=1),
        "leaving": (reading.open[tasks, at] | ~reading.allowed[tasks, at] | nowhere).all(axis=1),
        "capacity": _within(figures.loads, reading.room, slack).all(axis=(1, 2)),
    }
    threads = (reading.load <= reading.max_load * (1 + slack)).all()
    good["max_load"] = np.full(len(at), bool(threads))  # a task's own, wherever it is
    least = np.where(reading.leaving[:, None], 0.0, reading.min_load)
    good["min_load"] = (figures.loads + slack * least >= least).all(axis=(1, 2))
    links = zip(reading.links, figures.links, strict=True)
    crossing = [_within(load, link.room, slack) for link, load in links]
    good["links"] = np.logical_and.reduce([np.ones(len(at), dtype=bool), *crossing])
    for name in ("migrations", "migration_cost", "migration_state"):
        most = reading.limits.get(f"max_{name}")
        if most is not None:
            good[f"max_{name}"] = _within(figures.by_name[name], most, slack)
    far = reading.limits.get("max_load_distance")
    if far is not None and "load_distance" in figures.by_name:
        good["max_load_distance"] = _near(reading, figures.loads[:, :, 0], far, slack)
    most = reading.limits.get("max_nodes_used")
    if most is not None:
        good["max_nodes_used"] = figures.by_name["nodes_used"] <= most
    good["max_tasks"] = (figures.counts <= reading.max_tasks).all(axis=1)
    good["max_inflow"] = (figures.inflow <= reading.max_inflow).all(axis=1)
    sets = [keeps_set(one, at) for one in reading.sets]
    good["sets"] = np.logical_and.reduce([np.ones(len(at), dtype=bool), *sets])
    good["exclusive_nodes"] = keeps_alone(reading, at)
    if reading.slots_matter:
        sofar = np.logical_and.reduce(list(good.values())) if len(at) > 1 else np.ones(1, bool)
        good["slots"] = np.zeros(len(at), dtype=bool)  # dealt only where the rest is kept
        if sofar.any():
            good["slots"][sofar] = dealer(reading, slack).possible(at[sofar])
    return good


def _within(load: np.ndarray, room: np.ndarray | float, slack: float) -> np.ndarray:
    within: np.ndarray = load <= room + slack * np.where(np.isfinite(room), room, 0.0)
    return within


def _near(reading: Reading, load: np.ndarray, far: float, slack: float) -> np.ndarray:
    """(M,) whether (M, N) loads keep within a distance of what the weights make of the mean."""
    stay = ~reading.leaving
    mean = load.sum(axis=1, keepdims=True) / reading.weight[stay].sum()
    due = reading.weight * mean
    least = _within(due, load + far, slack)[:, stay].all(axis=1)
    near: np.ndarray = _within(load, due + far, slack).all(axis=1) & least
    return near


def keeps_set(one: Together, at: np.ndarray) -> np.ndarray:
    """(M,) whether a set is apart, together or spread; a task that is nowhere counts nowhere."""
    where = np.where(at[:, one.tasks] >= 0, one.place[at[:, one.tasks]], -1)
    held = (where[:, :, None] == np.arange(one.place.max(initial=-1) + 1)).sum(axis=1)
    used = (held > 0).sum(axis=1)
    if one.rule == "apart":
        return (held <= one.at_most).all(axis=1)
    return used <= 1 if one.rule == "together" else used >= one.at_least


def keeps_alone(reading: Reading, at: np.ndarray) -> np.ndarray:
    """(M,) whether topologies with nodes of their own stand on few enough, and nobody else does."""
    good = np.ones(len(at), dtype=bool)
    for topology, most in reading.exclusive:
        for m, nodes in enumerate(at):
            own = set(nodes[reading.topology == topology].tolist()) - {-1}
            others = set(nodes[reading.topology != topology].tolist())
            good[m] &= len(own) <= most and not own & others
    return good


def broken(reading: Reading, node: list[int], slot: list[int] | None, slack: float) -> set[str]:
    """Return the names of the rules that one plan breaks; without slots, whether any dealing is."""
    at = np.array([node], dtype=int)
    found = kept(reading, at, measure(reading, at), slack)
    names = {name for name, good in found.items() if not good[0]}
    if slot is not None:
        names = (names - {"slots"}) | broken_by_slots(reading, node, slot, slack)
    return names


@cache
def in_common(name: str) -> str:
    """Return a rule's name as two referees have it in common."""
    return name if name in NAMED else "newer"
