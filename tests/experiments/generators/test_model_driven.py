"""The micro and application DAGs of the model-driven scheduling paper."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.generators import generate
from optim import Instance


def rate(instance: Instance, task: str) -> float:
    return float(instance.operators.tuple_rate[instance.operators.index[task]])


def out_rate(instance: Instance) -> float:
    """Rate of all tasks that feed no other."""
    feeding = {s.source for s in instance.streams}
    ends = [o for o in range(instance.num_operators) if o not in feeding]
    return float(instance.operators.tuple_rate[ends].sum())


def test_linear_diamond_and_star() -> None:
    linear, diamond, star = (
        generate("micro_dag", shape=shape) for shape in ("linear", "diamond", "star")
    )
    assert set(linear.operators.tuple_rate.tolist()) == {100}
    assert rate(diamond, "pi") == 400
    assert [rate(diamond, t) for t in ("blob", "table", "xml", "file")] == [100] * 4
    assert rate(star, "xml") == 200
    assert rate(star, "blob") == 100
    assert all(made.num_operators == 5 for made in (linear, diamond, star))
    assert all(set(made.operators.model) == set(made.models) for made in (linear, diamond, star))


@pytest.mark.parametrize(
    ("application", "tasks", "table", "out", "blobs", "pis"),
    [("finance", 7, 200, 200, 1, 2), ("traffic", 10, 100, 300, 2, 1), ("grid", 15, 300, 400, 2, 1)],
)
def test_applications_keep_what_the_text_tells(
    application: str, tasks: int, table: float, out: float, blobs: int, pis: int
) -> None:
    """7 to 15 tasks, 1:2 to 1:4, rates at the table query, one Pi less where blob is one more."""
    made = generate("application_dag", application=application, rate=100)
    assert made.num_operators == tasks
    assert rate(made, "table1") == table
    assert out_rate(made) == out
    assert made.operators.model.count("azure_blob") == blobs
    assert made.operators.model.count("pi") == pis
    assert "rebuilt" in made.origin


def test_source_and_sink_where_asked_for() -> None:
    made = generate("micro_dag", shape="diamond", ends=True, rate=50)
    assert made.operators.ids[0] == "source"
    assert made.operators.role[-1] == "sink"
    assert rate(made, "pi") == 200
    assert rate(made, "sink") == 200


def test_machines_up_to_the_largest() -> None:
    made = generate("micro_dag", largest_vm="D4")
    assert [(vm.id, vm.slots, vm.price) for vm in made.vm_types] == [
        ("D1", 1, 0.098),
        ("D2", 2, 0.196),
        ("D3", 4, 0.392),
        ("D4", 8, 0.784),
    ]
    assert [vm.id for vm in generate("micro_dag").vm_types] == ["D1", "D2", "D3"]


def test_random_dags_keep_their_rates_and_repeat() -> None:
    made = generate("model_dag", seed=5, tasks=200, rate=30)
    assert np.allclose(made.operators.tuple_rate, 30)
    assert made.to_json() == generate("model_dag", seed=5, tasks=200, rate=30).to_json()
    assert made.to_json() != generate("model_dag", seed=6, tasks=200, rate=30).to_json()
    assert generate("model_dag", tasks=1).num_operators == 1
