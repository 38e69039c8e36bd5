"""The online scheduler's first phase, word by word and slow: a judge for the compiled one."""

from __future__ import annotations

import math
from itertools import product

Pair = tuple[int, int, float]


def phase_1(
    load: list[float], pairs: list[Pair], num_slots: int, most: int, gamma: float
) -> list[int]:
    """Return the slot of each executor; whole loads and rates, so that sums are exact."""
    cap = gamma * sum(load) / num_slots
    slot: dict[int, int] = {}

    def held(s: int) -> list[int]:
        return [e for e, at in slot.items() if at == s]

    def total(s: int) -> float:
        return sum(load[e] for e in held(s))

    def fits(s: int, *executors: int, soft: bool = True) -> bool:
        added = sum(load[e] for e in executors)
        enough = len(held(s)) + len(executors) <= most
        return enough and (not soft or total(s) + added <= cap + 1e-6)

    def least(*executors: int, soft: bool = True) -> int | None:
        able = [s for s in range(num_slots) if fits(s, *executors, soft=soft)]
        return min(able, key=lambda s: (total(s), len(held(s)), s), default=None)

    def alone(e: int) -> None:
        for soft in (True, False):
            s = least(e, soft=soft)
            if s is not None:
                slot[e] = s
                return

    def between() -> float:
        known = [(u, v, r) for u, v, r in pairs if u in slot and v in slot]
        return sum(r for u, v, r in known if slot[u] != slot[v])

    for u, v, _ in sorted(pairs, key=lambda p: (-p[2], p[0], p[1])):
        if u not in slot and v not in slot:
            s = least(u, v)
            if s is not None:
                slot[u] = slot[v] = s
            else:
                alone(u)
                alone(v)
            continue
        heavier = v if load[v] > load[u] else u
        places = [slot.get(u), slot.get(v), least(heavier)]
        places = [p for i, p in enumerate(places) if p is not None and p not in places[:i]]
        old = slot.pop(u, None), slot.pop(v, None)
        best, chosen = math.inf, old
        for a, b in product(places, places):
            able = (a, b) == old
            if not able:
                able = fits(a, u)
                if able:
                    slot[u] = a
                    able = fits(b, v)
                    del slot[u]
            if able:
                slot[u], slot[v] = a, b  # type: ignore[assignment]
                value = between()
                del slot[u], slot[v]
                if value < best:
                    best, chosen = value, (a, b)
        for e, at in zip((u, v), chosen, strict=True):
            if at is not None:
                slot[e] = at
        for e in (u, v):
            if e not in slot:
                alone(e)
    for s in range(num_slots):
        if not held(s):
            able = [e for e in slot if len(held(slot[e])) > 1]
            if able:
                slot[min(able, key=lambda e: (inside(e, slot, pairs), e))] = s
    for e in range(len(load)):
        if e not in slot:
            able = [s for s in range(num_slots) if len(held(s)) < most]
            if able:
                slot[e] = min(able, key=lambda s: (len(held(s)), s))
    return [slot.get(e, -1) for e in range(len(load))]


def inside(e: int, slot: dict[int, int], pairs: list[Pair]) -> float:
    """Return an executor's traffic with those in its slot."""
    return sum(r for u, v, r in pairs if e in (u, v) and slot.get(u, -1) == slot.get(v, -2))
