"""The online scheduler's first phase, word by word and slow: a judge for the compiled one."""

from __future__ import annotations

import math
from itertools import product

Pair = tuple[int, int, float]


class Slots:
    """Slots and the executors assigned to them so far."""

    def __init__(self, load: list[float], num_slots: int, most: int, gamma: float) -> None:
        self.load, self.num_slots, self.most = load, num_slots, most
        self.cap = gamma * sum(load) / num_slots
        self.slot: dict[int, int] = {}

    def held(self, s: int) -> list[int]:
        return [e for e, at in self.slot.items() if at == s]

    def total(self, s: int) -> float:
        return sum(self.load[e] for e in self.held(s))

    def fits(self, s: int, *executors: int, soft: bool = True) -> bool:
        added = sum(self.load[e] for e in executors)
        enough = len(self.held(s)) + len(executors) <= self.most
        return enough and (not soft or self.total(s) + added <= self.cap + 1e-6)

    def least(self, *executors: int, soft: bool = True) -> int | None:
        able = [s for s in range(self.num_slots) if self.fits(s, *executors, soft=soft)]
        return min(able, key=lambda s: (self.total(s), len(self.held(s)), s), default=None)

    def alone(self, e: int) -> None:
        for soft in (True, False):
            s = self.least(e, soft=soft)
            if s is not None:
                self.slot[e] = s
                return

    def between(self, pairs: list[Pair]) -> float:
        slot = self.slot
        known = [(u, v, r) for u, v, r in pairs if u in slot and v in slot]
        return sum(r for u, v, r in known if slot[u] != slot[v])


def phase_1(
    load: list[float], pairs: list[Pair], num_slots: int, most: int, gamma: float
) -> list[int]:
    """Return the slot of each executor; whole loads and rates, so that sums are exact."""
    slots = Slots(load, num_slots, most, gamma)
    slot = slots.slot
    for u, v, _ in sorted(pairs, key=lambda p: (-p[2], p[0], p[1])):
        if u not in slot and v not in slot:
            s = slots.least(u, v)
            if s is not None:
                slot[u] = slot[v] = s
            else:
                slots.alone(u)
                slots.alone(v)
            continue
        assign_pair(slots, pairs, u, v)
        for e in (u, v):
            if e not in slot:
                slots.alone(e)
    for s in range(num_slots):
        if not slots.held(s):
            able = [e for e in slot if len(slots.held(slot[e])) > 1]
            if able:
                slot[min(able, key=lambda e: (inside(e, slot, pairs), e))] = s
    for e in range(len(load)):
        if e not in slot:
            able = [s for s in range(num_slots) if len(slots.held(s)) < most]
            if able:
                slot[e] = min(able, key=lambda s: (len(slots.held(s)), s))
    return [slot.get(e, -1) for e in range(len(load))]


def assign_pair(slots: Slots, pairs: list[Pair], u: int, v: int) -> None:
    """Assign two executors, one of which has a slot, to the slots of least traffic between slots:
    those that they have, and the least loaded one that the heavier fits.
    """
    slot = slots.slot
    heavier = v if slots.load[v] > slots.load[u] else u
    places = [slot.get(u), slot.get(v), slots.least(heavier)]
    places = [p for i, p in enumerate(places) if p is not None and p not in places[:i]]
    old = slot.pop(u, None), slot.pop(v, None)
    best, chosen = math.inf, old
    for a, b in product(places, places):
        able = (a, b) == old
        if not able:
            able = slots.fits(a, u)
            if able:
                slot[u] = a
                able = slots.fits(b, v)
                del slot[u]
        if able:
            slot[u], slot[v] = a, b  # type: ignore[assignment]
            value = slots.between(pairs)
            del slot[u], slot[v]
            if value < best:
                best, chosen = value, (a, b)
    for e, at in zip((u, v), chosen, strict=True):
        if at is not None:
            slot[e] = at


def inside(e: int, slot: dict[int, int], pairs: list[Pair]) -> float:
    """Return an executor's traffic with those in its slot."""
    return sum(r for u, v, r in pairs if e in (u, v) and slot.get(u, -1) == slot.get(v, -2))
