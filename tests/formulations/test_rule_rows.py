"""Rows of place rules admit the placements that keep them and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formulations.model_rows import Whereabouts, add_rule_rows
from optim.kernels.place_rules import PlaceRules, place_rules
from optim.solvers.linear_model import LinearModel
from tests.optim.kernels.rule_cases import ruled_instance


def _full(model: LinearModel, rules: PlaceRules) -> tuple[Whereabouts, Any]:
    """One column a task and node."""
    t, n = len(rules.home), len(rules.most_in)
    x = model.add_variables("x", (t, n), upper=1.0, integer=True).indices
    where = Whereabouts(
        np.repeat(np.arange(t), n), np.tile(np.arange(n), t), x.ravel(), np.ones(t * n),
        np.full(t, -1),
    )  # fmt: skip

    def columns(node: Any) -> Any:
        return x[np.arange(t), node]

    return where, columns


def _moves(model: LinearModel, rules: PlaceRules) -> tuple[Whereabouts, Any]:
    """One column a move away from home."""
    t, n = len(rules.home), len(rules.most_in)
    y = model.add_variables("y", (t, n), upper=1.0, integer=True).indices
    task, node = np.repeat(np.arange(t), n), np.tile(np.arange(n), t)
    where = Whereabouts(
        np.concatenate([task, task]),
        np.concatenate([node, rules.home[task]]),
        np.concatenate([y.ravel(), y.ravel()]),
        np.repeat([1.0, -1.0], t * n),
        rules.home,
    )

    def columns(node: Any) -> Any:
        away = np.flatnonzero(node != rules.home)
        return y[away, node[away]]

    return where, columns


@pytest.mark.parametrize("form", [_full, _moves])
@pytest.mark.parametrize("seed", range(25))
def test_rows_hold_where_the_rules_are_kept(seed: int, form: Any) -> None:
    rules = place_rules(ruled_instance(seed))
    model = LinearModel("rules")
    where, columns = form(model, rules)
    rows = add_rule_rows(model, rules, where)
    model.freeze()
    rng = np.random.default_rng(seed)
    for _ in range(60):
        node = rng.integers(0, len(rules.most_in), len(rules.home))
        x = np.zeros(model.num_variables)
        x[columns(node)] = 1.0
        rows.complete(x, node)
        assert (model.violation(x) <= 1e-9) == rules.are_kept(node)
