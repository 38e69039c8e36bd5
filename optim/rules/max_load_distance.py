"""``max_load_distance``: the load distance of a plan keeps below a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rule, limit_words, violation, without_limit
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _violations(placement: Placement) -> Iterator[Violation]:
    """Load ≤ due + limit on every node, due ≤ load + limit on those that stay."""
    instance, distance = placement.instance, placement.distance
    limit = instance.limits.max_load_distance
    if limit is None or distance is None:
        return
    load, stay = placement.loads[:, 0], instance.open_nodes
    due = instance.nodes.weight * (load.sum() / instance.nodes.weight[stay].sum())
    if over(load, due + limit).any() or over(due, load + limit)[stay].any():
        yield violation("max_load_distance", "limits", distance, limit)


def _node_key(instance: Instance) -> Floats:
    nodes = instance.nodes
    return np.column_stack([nodes.weight, nodes.background[:, 0], nodes.leaving])


MAX_LOAD_DISTANCE = Rule(
    name="max_load_distance",
    field="limits.max_load_distance",
    form=Form.DISTANCE,
    present=limit_words("max_load_distance"),
    dropped=without_limit("max_load_distance"),
    violations=_violations,
    varies=True,
    node_key=_node_key,
)
