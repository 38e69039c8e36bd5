"""The share of all CPU capacity that stands on nodes in use."""

from __future__ import annotations

import numpy as np
import pytest

from optim.figures.catalogue import OBJECTIVES
from optim.referee import evaluate_indices
from tests.optim.make import instance


def test_nodes_that_hold_a_task_count_whole() -> None:
    unequal = [{"id": "n1", "capacity": {"cpu": 30}}, {"id": "n2", "capacity": {"cpu": 10}}]
    made = instance(nodes=unequal)
    for node, wanted in (([0] * 4, 0.75), ([1] * 4, 0.25), ([0, 1, 0, 1], 1.0)):
        judged = evaluate_indices(made, np.array(node, dtype=np.int32))
        assert judged.objective("used_capacity") == pytest.approx(wanted)
    assert OBJECTIVES["used_capacity"].sense == "min"


def test_it_is_unknown_where_a_capacity_is() -> None:
    made = instance(nodes=[{"id": "n1", "capacity": {"cpu": 30}}, {"id": "n2"}])
    judged = evaluate_indices(made, np.zeros(4, dtype=np.int32))
    assert judged.objective("used_capacity") is None
