"""The writer's branch and bound: what it asks the solver, and how cases end."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import pytest

from optim.certificates import check, tree, write


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


def talking(seed: int) -> tuple[check.Instance, Fraction]:
    """Seven unlike tasks on three equal nodes, and the most of their traffic that can stay."""
    draw, names = random.Random(seed), [f"t{i}" for i in range(7)]
    read = check.Instance({
        "format": "streamplace.instance/1", "name": "talking",
        "tasks": [{"id": t, "load": {"cpu": draw.randint(3, 7)}} for t in names],
        "traffic": [[a, b, draw.randint(1, 20)] for a, b in combinations(names, 2)],
        "nodes": [{"id": n, "capacity": {"cpu": 13}} for n in "nmo"],
    })  # fmt: skip
    best = 0
    for at in product(range(3), repeat=7):
        held = [sum(read.load[t][0] for t in range(7) if at[t] == n) for n in range(3)]
        if at[0] == 0 and max(held) <= 13:
            best = max(best, sum(rate for (u, v), rate in read.rate.items() if at[u] == at[v]))
    return read, Fraction(best)


def test_equal_nodes_are_branched_on_by_pairs_of_tasks() -> None:
    """How many of them hold one task is always whole: else it is one pattern after the other."""
    read, best = talking(2)
    model = check.Model(read, "imc_gain", best, "patterns")
    steps = tree.Tree(model, best, 400, time.process_time() + 60).run()
    assert {len(step["branch"]) for step in steps if "branch" in step} == {3}
    model.walk(steps)


def test_the_writer_knows_whether_its_steps_prove_the_value_itself() -> None:
    read, best = talking(2)
    for bound, better in ((best, best), (best + 2, best), (best, best - 1)):
        model = check.Model(read, "imc_gain", bound, "patterns")
        grown = tree.Tree(model, bound, 400, time.process_time() + 60, better=better)
        steps, proved = grown.run(), False
        model.aim(better)
        with suppress(check.Refused):
            model.walk(steps)
            proved = True
        assert grown.reached == proved
        assert proved or bound != better


def test_what_was_written_is_read_back_over_a_model_that_is_built_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And refused all the same where its steps prove less."""
    text = json.dumps(document(6, 18)).encode()
    plan = {f"t{i}": "n" if i < 4 else "m" for i in range(6)}
    built, model = [0], check.Model

    def building(*args: Any, **given: Any) -> check.Model:
        built[0] += 1
        return model(*args, **given)

    monkeypatch.setattr(check, "Model", building)
    written = write.certify(text, "imc_gain", plan)
    assert (written.bound, built[0]) == (35, 1)
    assert check.check(*check.parse(text), written.document)
    monkeypatch.setattr(tree.Tree, "run", lambda _: [{"close": [0] * 6}])
    with pytest.raises(check.Refused, match="no proof"):
        write.certify(text, "imc_gain", plan)
