"""``max_load_distance``: the load distance of a plan keeps below a bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rows, Rule, limit_words, violation, without_limit
from optim.rules.exact import node_load, terms_of, undecided
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _violations(placement: Placement) -> Iterator[Violation]:
    """Load ≤ due + limit on every node, due ≤ load + limit on those that stay."""
    instance, distance = placement.instance, placement.distance
    limit = instance.limits.max_load_distance
    if limit is None or distance is None:
        return
    load, terms = placement.loads[:, 0], terms_of(instance) + 2 * instance.num_nodes
    due, stay = _due(instance, load), instance.open_nodes
    near = undecided(load, due + limit, terms) | undecided(due, load + limit, terms)
    if near.any():
        load = np.array([node_load(placement, n, 0) for n in range(instance.num_nodes)])
        due = _due(instance, load)
    if over(load, due + limit).any() or over(due, load + limit)[stay].any():
        yield violation("max_load_distance", "limits", distance, limit)


def _due(instance: Instance, load: Floats) -> Floats:
    """(N,) share of all load that each node is due by its weight."""
    weight = instance.nodes.weight
    return np.asarray(weight * (math.fsum(load) / math.fsum(weight[instance.open_nodes])))


def _value(placement: Placement) -> Floats:
    return np.array(-np.inf if placement.distance is None else placement.distance)


def _limit(instance: Instance) -> Floats:
    limit = instance.limits.max_load_distance
    return np.array(np.inf if limit is None else limit)


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    limits = instance.limits
    return replace(instance, limits=replace(limits, max_load_distance=float(value)))


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
    rows=(Rows(_value, _limit, _loosened, plain=True),),
)
