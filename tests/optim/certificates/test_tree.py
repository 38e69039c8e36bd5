"""The writer's branch and bound: what it asks the solver, and how cases end."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from optim.certificates import check, tree


def document(tasks: int, capacity: float) -> dict[str, Any]:
    """A chain of unlike tasks on two nodes."""
    names = [f"t{i}" for i in range(tasks)]
    return {
        "format": "streamplace.instance/1", "name": "chain",
        "tasks": [{"id": t, "load": {"cpu": 3 + i}} for i, t in enumerate(names)],
        "traffic": [[a, b, 7 + i] for i, (a, b) in enumerate(pairwise(names))],
        "nodes": [{"id": n, "capacity": {"cpu": capacity}} for n in "nm"],
    }  # fmt: skip


@pytest.mark.parametrize("price", [1e5, 1e-3])
def test_every_case_takes_one_linear_programme(
    monkeypatch: pytest.MonkeyPatch, price: float
) -> None:
    """Of gains: empty cases too, unless the price of what they lack is too low to tell."""
    asked, cases, dear = [0], [0], tree._DEAR
    solve, case = tree.Tree._solved_whole, tree.Tree._case

    def solving(*args: Any) -> Any:
        asked[0] += 1
        return solve(*args)

    def one(*args: Any) -> Any:
        cases[0] += 1
        return case(*args)

    monkeypatch.setattr(tree, "_DEAR", price)
    monkeypatch.setattr(tree.Tree, "_solved_whole", solving)
    monkeypatch.setattr(tree.Tree, "_case", one)
    model = check.Model(check.Instance(document(6, 18)), "imc_gain", check.ZERO, "dual")
    best = Fraction(35)  # of 64 placements: the first four tasks on one node
    steps = tree.Tree(model, best, 400, time.process_time() + 60).run()
    model.aim(best)
    model.walk(steps)
    assert cases[0] > 1
    assert (asked[0] <= cases[0]) == (price == dear)
