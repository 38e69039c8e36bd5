"""What moves are worth, held against the referee."""

from __future__ import annotations

import numpy as np

from optim import Instance
from optim.figures.catalogue import OBJECTIVES
from optim.referee import evaluate_indices
from streamplace.explain.explanation import worth_of_moves
from tests.fuzz.generate import generate
from tests.fuzz.product import known_fields

ASKED = ("imc_gain", "load_distance", "migration_cost", "sustainable_rate")


def test_every_worth_is_the_referees_difference() -> None:
    judged = rates = 0
    for seed in range(40):
        instance = Instance.from_dict(generate(seed, known_fields(), modelled=0.0))
        if not instance.num_tasks or not instance.num_nodes:
            continue
        rng = np.random.default_rng(seed)
        node = rng.integers(instance.num_nodes, size=instance.num_tasks, dtype=np.int32)
        figure = OBJECTIVES[ASKED[seed % len(ASKED)]]
        before = evaluate_indices(instance, node).objective(figure.name)
        own = {
            (v.rule, v.where): v.amount
            for v in evaluate_indices(figure.binding(instance), node).violations
        }
        for move in worth_of_moves(instance, node, figure):
            undone = node.copy()
            undone[move.task] = move.source
            found = evaluate_indices(instance, undone)
            after = found.objective(figure.name)
            assert (move.worth is None) == (before is None or after is None), seed
            if move.worth is not None and before is not None and after is not None:
                lost = after - before if figure.sense == "min" else before - after
                assert move.worth == lost, seed
            bound = evaluate_indices(figure.binding(instance), undone)
            more = [v for v in bound.violations if v.amount > own.get((v.rule, v.where), 0) * 1.001]
            assert move.breaks == tuple(dict.fromkeys(v.rule for v in more)), seed
            judged += 1
            rates += figure.name == "sustainable_rate" and move.worth is not None
    assert judged > 60
    assert rates > 5


def test_a_move_is_not_blamed_for_what_the_plan_breaks_itself() -> None:
    tasks = [("large", 2, "n0"), ("a", 1, "n1"), ("b", 0.5, "n0")]
    instance = Instance.from_dict({
        "format": "streamplace.instance/1", "name": "x", "resources": ["cpu"],
        "nodes": [{"id": f"n{i}", "capacity": {"cpu": 1}} for i in range(3)],
        "tasks": [{"id": t, "load": {"cpu": load}, "node": n} for t, load, n in tasks],
    })  # fmt: skip
    # n0 is too full in any case; without b's move it is fuller
    moves = worth_of_moves(instance, np.array([0, 2, 1]), OBJECTIVES["nodes_used"])
    assert [(move.task, move.breaks) for move in moves] == [(1, ("capacity",)), (2, ("capacity",))]
    (move,) = worth_of_moves(instance, np.array([0, 2, 0]), OBJECTIVES["nodes_used"])
    assert move.breaks == ()
