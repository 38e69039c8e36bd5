"""Sums of the writer's arrays against the checker's own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from optim.certificates import check
from optim.certificates.tree import Arrays


def made(kind: str) -> check.Model:
    """Four tasks on two nodes of different size, with a budget."""
    names = "abcd"
    read = check.Instance({
        "format": "streamplace.instance/1", "name": "small",
        "tasks": [{"id": t, "load": {"cpu": 2 + i}, "node": "n"} for i, t in enumerate(names)],
        "traffic": [["a", "b", 3], ["b", "c", 5], ["a", "d", 2]],
        "nodes": [{"id": "n", "capacity": {"cpu": 12}}, {"id": "m", "capacity": {"cpu": 9}}],
        "limits": {"max_migrations": 2},
    })  # fmt: skip
    return check.Model(read, "imc_gain", check.ZERO, kind)


@pytest.mark.parametrize("kind", ["patterns", "dual"])
@pytest.mark.parametrize("large", [1, 10**6, 2 * 10**18, 10**30])
def test_sums_are_the_checkers(kind: str, large: int) -> None:
    """Beyond 64 bits as well, of some columns or all, with cuts and without; dense or not."""
    model, draw = made(kind), random.Random(large)
    arrays, every = Arrays(model), len(model.columns)
    for case in range(40):
        chosen = np.array([j for j in range(every) if case < 5 or draw.random() < 0.7], dtype=int)
        cuts: list[Any] = []
        for sense in "<>"[: case % 3]:
            held = frozenset(j for j in range(every) if draw.random() < 0.5)
            of_all = np.array([float(j in held) for j in range(every)])
            cuts.append((of_all, held, sense, draw.randint(0, 2)))
        plain = tuple((held, sense, right) for _, held, sense, right in cuts)
        sign = {"<": (0, large), ">": (-large, 0), "=": (-large, large)}
        senses = [sense for sense, _ in model.rows] + [sense for _, sense, _ in plain]
        y, over = [draw.randint(*sign[sense]) for sense in senses], draw.choice([0, 1, large])
        value, rests = arrays.value(y, over, chosen, tuple(cuts))
        expected, apart = model.value(y, over, chosen.tolist(), plain)
        assert value == expected
        assert [int(rest) for rest in rests] == apart
        if case == 20:
            arrays._is_dense[:] = False  # what is not kept densely is taken from the sparse one


@pytest.mark.parametrize("kind", ["patterns", "dual"])
def test_what_was_kept_densely_before_is_not_taken_from_what_is_kept_now(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(kind)
    some = len(model.columns) // 2
    rows = len(model.rows) + len(model.groups)
    monkeypatch.setattr("optim.certificates.tree._DENSE", rows * (some + 1))
    arrays, whole = Arrays(model), Arrays(made(kind))
    first, second = np.arange(some), np.arange(some, len(model.columns))
    arrays.narrow(first)
    arrays.narrow(second)
    for columns in (first, second):
        told = arrays.of(columns)
        told = told if isinstance(told, np.ndarray) else told.toarray()
        every = whole.of(columns)
        assert (told == (every if isinstance(every, np.ndarray) else every.toarray())).all()
