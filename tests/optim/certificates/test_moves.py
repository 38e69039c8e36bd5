"""The writer's branches on how many tasks leave nodes, or come to them."""

from __future__ import annotations

import json
import random
import time
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from optim.certificates import check
from optim.certificates.tree import GaveUp, Tree
from optim.certificates.write import Moves, certify, rounded


def crowded(seed: int) -> tuple[dict[str, Any], Fraction, dict[str, str]]:
    """Six unlike tasks on three nodes, two may move: the least load distance, and its plan."""
    draw, names = random.Random(seed), [f"t{i}" for i in range(6)]
    loads, homes = [draw.randint(20, 60) for _ in names], [draw.choice("abc") for _ in names]
    document = {
        "format": "streamplace.instance/1", "name": "crowded", "limits": {"max_migrations": 2},
        "tasks": [
            {"id": t, "load": {"cpu": a}, "node": n}
            for t, a, n in zip(names, loads, homes, strict=True)
        ],
        "nodes": [{"id": n} for n in "abc"],
    }  # fmt: skip
    mean, best = Fraction(sum(loads), 3), None
    for at in product("abc", repeat=6):
        if sum(a != b for a, b in zip(at, homes, strict=True)) <= 2:
            held = [sum(a for a, n in zip(loads, at, strict=True) if n == m) for m in "abc"]
            value = max(abs(a - mean) for a in held)
            if best is None or value < best[0]:
                best = value, dict(zip(names, at, strict=True))
    assert best is not None
    return document, *best


def modelled(document: dict[str, Any], bound: Fraction, kind: str) -> check.Model:
    return check.Model(check.Instance(document), "load_distance", bound, kind)


@pytest.mark.parametrize("seed", range(6))
def test_the_least_load_distance_is_proved_and_nothing_below_a_plan_is(seed: int) -> None:
    document, best, _ = crowded(seed)
    steps = Moves(modelled(document, best, "dual"), best, 400, time.process_time() + 30).run()
    modelled(document, best, "dual").walk(json.loads(json.dumps(steps)))
    more = best + Fraction(1, 1000)
    with pytest.raises(check.Refused):  # the same steps, of a bound that the plan is below
        modelled(document, more, "dual").walk(steps)
    with pytest.raises(GaveUp):
        Moves(modelled(document, more, "dual"), more, 400, time.process_time() + 30).run()


def test_what_counting_leaves_open_is_closed_by_moves() -> None:
    found = [seed for seed in range(40) if _only_moves(*crowded(seed)[:2])]
    assert found
    for seed in found[:3]:
        document, best, plan = crowded(seed)
        text = json.dumps(document).encode()
        written = certify(text, "load_distance", plan, nodes=20, seconds=20)
        assert written.document["proof"]["kind"] == "dual"
        assert best * (1 - Fraction(2, 10**7)) <= written.bound <= best


def _only_moves(document: dict[str, Any], best: Fraction) -> bool:
    """Whether a bound just below the best is beyond counting."""
    if not best:
        return False
    near = rounded(best, best / 10**7, "load_distance")
    try:
        Tree(modelled(document, near, "counting"), near, 200, time.process_time() + 30).run()
    except GaveUp:
        return True
    return False
