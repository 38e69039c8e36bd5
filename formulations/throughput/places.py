"""What saturates: the rate-driven resources of nodes, and the links of nodes or of several nodes.

A *place* is a node, or the nodes of a link that are neither one node nor all but one. What leaves
and what enters a place is all that its links and its crossing costs are reckoned from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.placement import Placement
from optim.util.tolerance import over

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

OUT, INTO, BOTH = 0, 1, 2
NEVER = 1e30
"""Utilisation of what carries nothing: a need without room."""


@dataclass(frozen=True, eq=False)
class Places:
    """P places: the N nodes first, then what links of several nodes enclose.

    Attributes
    ----------
    room
        (N, R) load that a rate-driven resource takes beside its background; ``inf`` for any, and
        for resources that the rate does not drive.
    barred
        (N,) nodes whose background is too much already: in use, they carry nothing.
    link
        (P, 3) traffic that may leave a place, enter it, and both together; ``inf`` for any.
    inside
        (P - N, N) nodes of the places that are several.
    """

    room: Floats
    barred: Bools
    link: Floats
    inside: Bools

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.room)

    @property
    def single(self) -> bool:
        """Whether nodes are all that saturates: no place is several of them."""
        return not len(self.inside)


def places_of(instance: Instance) -> Places:
    """Read off an instance what saturates."""
    driven = list(instance.rate_driven)
    room = np.full((instance.num_nodes, instance.num_resources), np.inf)
    room[:, driven] = np.maximum(instance.headroom[:, driven], 0.0)
    most = (instance.nodes.capacity * instance.limits.max_utilisation)[:, driven]
    excess = over(instance.nodes.background[:, driven], most)
    links, count = instance.links, instance.num_nodes
    left = np.maximum(links.capacity * instance.limits.max_link_utilisation - links.background, 0.0)
    found: dict[bytes, Floats] = {
        _mask(count, [n]).tobytes(): np.full(3, np.inf) for n in range(count)
    }
    for i in np.flatnonzero(np.isfinite(left)).tolist():
        inside = _mask(count, links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]])
        side = (BOTH, OUT, INTO)[links.direction[i]]
        if inside.all():
            continue  # nothing crosses it
        if inside.sum() == count - 1 > 1:  # what leaves all but one enters that one
            inside, side = ~inside, (INTO, OUT, BOTH)[side]
        own = found.setdefault(inside.tobytes(), np.full(3, np.inf))
        own[side] = min(own[side], left[i])
    masks = np.frombuffer(b"".join(found), dtype=np.bool_).reshape(-1, count)
    return Places(
        room, np.asarray(excess.any(axis=1)), np.array(list(found.values())), masks[count:]
    )


def _mask(count: int, nodes: Any) -> Bools:
    mask = np.zeros(count, dtype=np.bool_)
    mask[nodes] = True
    return mask


def load_of(instance: Instance, node: Ints) -> float:
    """Return the highest utilisation under a placement: 1 over its sustainable rate."""
    least = Placement(instance, np.asarray(node, dtype=np.int32)).rate
    return min(NEVER, 1.0 / least) if least > 0 else NEVER


def thread_load(instance: Instance) -> float:
    """Return the utilisation that the fullest task has in every placement; 0 without any limit."""
    least = float(instance.thread_rates.min(initial=np.inf))
    return min(NEVER, 1.0 / least) if least > 0 else NEVER
