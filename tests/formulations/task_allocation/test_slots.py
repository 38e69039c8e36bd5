"""Rows of slots hold for every placement that fits them, and for no other where slots are plain."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from formulations.task_allocation.slots import SlotRows
from optim import Instance, solve
from optim.rules.slot_assignment import assign_slots
from optim.solvers.linear_model import LinearModel
from tests.fuzz.mending import broken_instance

TASKS, NODES = 5, 3


def slotted(seed: int, *, plain: bool) -> Instance:
    """Return a random instance with slots; plain without sizes, sets and tasks of no topology."""
    rng = random.Random(seed)
    nodes = [{"id": f"n{n}", "slots": rng.randint(0, 3)} for n in range(NODES)]
    jobs = [{"id": f"j{k}", "workers": rng.randint(1, 4)} for k in range(2)]
    if rng.random() < 0.3:
        del jobs[1]["workers"], nodes[2]["slots"]
    operators = [{"id": f"o{k}", "topology": f"j{k}"} for k in range(2)]
    owners = ["o0", "o1"] if plain else ["o0", "o1", None]
    tasks = [
        {"id": f"t{t}", "load": {"cpu": rng.randint(0, 4)}, "operator": rng.choice(owners)}
        for t in range(TASKS)
    ]
    tasks = [{key: v for key, v in task.items() if v is not None} for task in tasks]
    limits = {"max_tasks_per_slot": rng.randint(1, 2)} if rng.random() < 0.3 else {}
    document: dict[str, Any] = {
        "format": "streamplace.instance/1", "name": "s", "nodes": nodes, "topologies": jobs,
        "operators": operators, "tasks": tasks, "limits": limits,
    }  # fmt: skip
    if not plain:
        for node in nodes:
            if rng.random() < 0.4:
                node["slot_capacity"] = {"cpu": rng.randint(2, 7)}
        kinds: list[dict[str, Any]] = [
            {"rule": "apart"}, {"rule": "apart", "at_most": 2}, {"rule": "together"},
            {"rule": "spread", "at_least": 2},
        ]  # fmt: skip
        names = [task["id"] for task in tasks]
        document["sets"] = [
            {"id": f"s{i}", "over": "slot", "tasks": rng.sample(names, 2 + i), **rng.choice(kinds)}
            for i in range(rng.randint(0, 2))
        ]
    return Instance.from_dict(document)


def rows_of(made: Instance) -> tuple[LinearModel, SlotRows]:
    """Return a model of placements whose only rows are those of slots."""
    model = LinearModel("slots")
    task, node = np.repeat(np.arange(TASKS), NODES), np.tile(np.arange(NODES), TASKS)
    model.add_variables("x", TASKS * NODES, upper=1.0, integer=True)
    rows = SlotRows(made, SimpleNamespace(model=model, task=task, node=node))  # type: ignore[arg-type]
    return model, rows


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_rows_hold_where_tasks_fit_the_slots(seed: int, plain: bool) -> None:
    made = slotted(seed, plain=plain)
    model, rows = rows_of(made)
    arrays = model.freeze()
    matrix = LinearConstraint(arrays.matrix, arrays.row_lower, arrays.row_upper)
    every = list(itertools.product(range(NODES), repeat=TASKS))
    for node in map(np.array, random.Random(seed).sample(every, 40)):
        x = np.zeros(model.num_variables)
        x[np.arange(TASKS) * NODES + node] = 1.0
        known = assign_slots(made, node.astype(np.int32)).slot is not None
        if known:
            rows.complete(x, node.astype(np.int32))
            assert model.violation(x) <= 1e-9
        if plain:
            lower, upper = np.array(arrays.lower), np.array(arrays.upper)
            lower[: TASKS * NODES] = upper[: TASKS * NODES] = x[: TASKS * NODES]
            found = milp(
                0 * x,
                constraints=matrix,
                bounds=Bounds(lower, upper),
                integrality=arrays.integrality,
            )
            assert found.success == known


@pytest.mark.parametrize("seed", [39, 135, 171])
def test_no_placement_has_to_be_cut_off_for_its_slots(seed: int) -> None:
    result = solve(Instance.from_dict(broken_instance(seed)), "plan-milp")
    assert result.termination == "infeasible"
    assert not any("cut off" in note for note in result.notes)
