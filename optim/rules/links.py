"""``links``: background + crossing traffic ≤ capacity × max_utilisation.links, each link."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.rules.base import Form, Rows, Rule, labelled, violation
from optim.rules.capacity import proof_slack
from optim.rules.exact import terms_of, undecided
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats
    from optim.rules.placement import Placement
    from optim.rules.violation import Violation


def _present(instance: Instance) -> str | None:
    return "links[].capacity" if np.isfinite(instance.links.capacity).any() else None


def _dropped(instance: Instance) -> Instance:
    links = instance.links
    return replace(instance, links=replace(links, capacity=np.full(len(links.ids), np.inf)))


def _available(instance: Instance) -> Floats:
    return np.asarray(instance.links.capacity * instance.limits.max_link_utilisation)


def _violations(placement: Placement) -> Iterator[Violation]:
    instance = placement.instance
    if not instance.links.ids:
        return
    loads, available = np.array(placement.crossing), _available(instance)
    for i in np.flatnonzero(undecided(loads, available, terms_of(instance))):
        loads[i] = _added_up(placement, int(i))
    for i in np.flatnonzero(over(loads, available)):
        yield violation("links", instance.links.ids[i], loads[i], available[i])


def _added_up(placement: Placement, link: int) -> float:
    """Return the load of a link, correctly rounded."""
    links = placement.instance.links
    flows, count = placement.instance.flows, placement.instance.num_nodes
    source, target, rate = flows.directed()
    listed = links.node_indices[links.node_indptr[link] : links.node_indptr[link + 1]]
    inside = np.append(np.isin(np.arange(count), listed), False)
    out, into = inside[placement.node[source]], inside[placement.node[target]]
    both = (placement.node[source] >= 0) & (placement.node[target] >= 0)
    counts = (out & ~into & (links.direction[link] != 2)) | (
        into & ~out & (links.direction[link] != 1)
    )
    leaves, enters = flows.local_crossing(placement.node, count, inside[:-1].astype(np.int32), 2)
    also = [leaves[1] * (links.direction[link] != 2), enters[1] * (links.direction[link] != 1)]
    return math.fsum([*rate[counts & both], *also, float(links.background[link])])


def _loosened(
    instance: Instance, mask: Bools, value: Floats, placement: Placement | None
) -> Instance:
    links = instance.links
    capacity = np.where(mask, value / instance.limits.max_link_utilisation, links.capacity)
    return replace(instance, links=replace(links, capacity=capacity))


def _proofs(instance: Instance) -> Iterator[Violation]:
    """A link whose background alone exceeds what may be used."""
    room, background = _available(instance), instance.links.background
    least = background - proof_slack(room)
    for i in np.flatnonzero(least > room):
        yield violation("links", f"{instance.links.ids[i]} (background)", background[i], room[i])


def _node_key(instance: Instance) -> NDArray[np.int64]:
    """Nodes behind the same links are equal, and nodes with an equal link of their own."""
    links = instance.links
    behind: list[list[object]] = [[] for _ in range(instance.num_nodes)]
    for i in np.flatnonzero(np.isfinite(links.capacity)).tolist():
        nodes = links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]].tolist()
        own = (links.capacity[i], links.background[i], int(links.direction[i]))
        for n in nodes:
            behind[n].append(own if len(nodes) == 1 else (i,))
    return labelled(tuple(sorted(some, key=repr)) for some in behind)


LINKS = Rule(
    name="links",
    field="links[].capacity",
    form=Form.LINK_CAPACITY,
    present=_present,
    dropped=_dropped,
    violations=_violations,
    proofs=_proofs,
    node_key=_node_key,
    rows=(Rows(lambda placement: placement.crossing, _available, _loosened, plain=True),),
)
