"""``min_load``: background + load ≥ min_load on every staying node, an empty one too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rows, Rule, violation
from optim.rules.capacity import proof_slack
from optim.rules.exact import node_loads
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    set_on = np.flatnonzero((instance.nodes.min_load > 0).any(axis=1))
    return f"nodes[].min_load (of {instance.nodes.ids[set_on[0]]})" if len(set_on) else None


def _dropped(instance: Instance) -> Instance:
    nodes = instance.nodes
    return replace(instance, nodes=replace(nodes, min_load=np.zeros_like(nodes.min_load)))


def _least(instance: Instance) -> Floats:
    """(N, R) least load; 0 on leaving nodes."""
    return np.where(instance.open_nodes[:, None], instance.nodes.min_load, 0.0)


def _violations(placement: Placement) -> Iterator[Violation]:
    instance, least = placement.instance, _least(placement.instance)
    loads = node_loads(placement, least, placement.loads)
    for n, r in np.argwhere(over(least, loads)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        yield violation("min_load", where, least[n, r], loads[n, r])


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    nodes = instance.nodes
    least = np.where(mask, np.maximum(-value, 0.0), nodes.min_load)
    return replace(instance, nodes=replace(nodes, min_load=least))


def _proofs(instance: Instance) -> Iterator[Violation]:
    """Lower load bounds that all load together cannot reach."""
    least = _least(instance)
    # what crosses nodes loads them, too: at most all traffic
    most = instance.total_load + instance.total_traffic * instance.crossing_cost.sum(axis=0)
    missing = np.maximum(least - instance.nodes.background, 0.0).sum(axis=0)
    short = least - 2 * proof_slack(least) - instance.nodes.background
    proven = np.maximum(short, 0.0).sum(axis=0)
    for r in np.flatnonzero(proven > most):
        where = f"all nodes.{instance.resources[r]}"
        yield violation("min_load", where, missing[r], most[r])


MIN_LOAD = Rule(
    name="min_load",
    field="nodes[].min_load",
    form=Form.NODE_FLOOR,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    mended=True,
    rows=(
        Rows(
            lambda placement: -placement.loads,
            lambda instance: -_least(instance),
            _loosened,
            plain=True,
        ),
    ),
)
