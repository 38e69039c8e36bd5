"""What runs where, whole or split in two, and the load that makes: serialisation included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.capacity import refuse_local_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

    Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Deployment:
    """Where key groups run.

    Attributes
    ----------
    places
        (T, 2) node indices; twice the same where a key group is not split.
    share
        (T,) part of a key group's tuples that goes to its first place.
    merge
        (N,) load that merging partial states costs on each node, or ``None`` for none.
    """

    places: Integers
    share: Floats
    merge: Floats | None = None

    @classmethod
    def whole(cls, node: Any) -> Deployment:
        """Return a deployment of undivided key groups from (T,) node indices."""
        first = np.asarray(node, dtype=np.int64)
        return cls(np.column_stack([first, first]), np.ones(len(first)))

    @property
    def node(self) -> Integers:
        """(T,) first places: the placement, where nothing is split."""
        return self.places[:, 0]

    @property
    def placement(self) -> Ints:
        """(T,) the same, as placements of an instance are."""
        return self.node.astype(np.int32)

    @property
    def is_whole(self) -> bool:
        """Whether no key group is split."""
        return bool((self.places[:, 0] == self.places[:, 1]).all())

    @property
    def shares(self) -> Floats:
        """(T, 2) part of the tuples at each place."""
        return np.column_stack([self.share, 1.0 - self.share])

    def moved_to(self, new_index: Integers) -> Deployment:
        """Return the deployment after nodes were renumbered."""
        merge = None
        if self.merge is not None:
            keep = np.flatnonzero(new_index >= 0)
            merge = np.zeros(len(keep))
            merge[new_index[keep]] = self.merge[keep]
        return Deployment(new_index[self.places], self.share, merge)


@dataclass(frozen=True)
class CostModel:
    """What moving data costs, in units of the first resource.

    Attributes
    ----------
    serialise, deserialise
        Load per unit of rate that leaves a node, on the sender's side and the receiver's.
    migration
        Load per unit of migration cost, on both nodes, in the period of the move.
    """

    serialise: float = 0.0
    deserialise: float = 0.0
    migration: float = 0.0


def crossing_load(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(T, 2) load of serialisation that each key group has at each of its places.

    A tuple from key group i to j crosses when the place of i that sent it and the place of j that
    receives it lie on different nodes; which place of a split key group takes part is independent.
    """
    extra = np.zeros(deployment.places.shape)
    if costs.serialise == 0 and costs.deserialise == 0:
        return extra
    refuse_local_first(instance, "costs of serialisation are of pairs of tasks")
    flows, places, shares = instance.flows, deployment.places, deployment.shares
    for a, b, part, same in _parts(instance, deployment):
        crossing = np.where(same, 0.0, part)
        np.add.at(extra[:, a], flows.source, costs.serialise * crossing)
        np.add.at(extra[:, b], flows.target, costs.deserialise * crossing)
    for block in flows.blocks:
        senders = mass_by_node(instance, deployment, block.sources)
        receivers = mass_by_node(instance, deployment, block.targets)
        for a in range(2):
            elsewhere = len(block.targets) - receivers[places[block.sources, a]]
            cost = costs.serialise * block.pair_rate * elsewhere
            extra[block.sources, a] += cost * shares[block.sources, a]
            elsewhere = len(block.sources) - senders[places[block.targets, a]]
            cost = costs.deserialise * block.pair_rate * elsewhere
            extra[block.targets, a] += cost * shares[block.targets, a]
    return extra


def _parts(instance: Instance, deployment: Deployment) -> Iterator[tuple[int, int, Floats, Bools]]:
    """Yield each pair of places of senders and receivers: its rates, and where both are one."""
    flows, places, shares = instance.flows, deployment.places, deployment.shares
    for a in range(2):
        for b in range(2):
            part = shares[flows.source, a] * shares[flows.target, b] * flows.rate
            yield a, b, part, places[flows.source, a] == places[flows.target, b]


def mass_by_node(instance: Instance, deployment: Deployment, tasks: Any) -> Floats:
    """(N,) number of some key groups on each node, split ones in parts."""
    places, shares = deployment.places[tasks], deployment.shares[tasks]
    counted = np.bincount(places.ravel(), shares.ravel(), instance.num_nodes)
    return counted.astype(np.float64)


def collocated_traffic(instance: Instance, deployment: Deployment) -> float:
    """Return the traffic that stays on its node."""
    flows = instance.flows
    if deployment.is_whole:
        return flows.collocated(deployment.placement, instance.num_nodes)
    refuse_local_first(instance, "traffic of key groups that are split is of pairs of tasks")
    gain = 0.0
    for _, _, part, same in _parts(instance, deployment):
        gain += float(part[same].sum())
    for block in flows.blocks:
        senders = mass_by_node(instance, deployment, block.sources)
        gain += block.pair_rate * float(senders @ mass_by_node(instance, deployment, block.targets))
    return gain


def node_loads(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(N,) load of the first resource: background, key groups, serialisation and merging.

    Parameters
    ----------
    instance
        With the loads of the key groups as they are without serialisation.
    deployment, costs
        What runs where, and what crossing traffic costs.
    """
    parts = deployment.shares * instance.tasks.load[:, :1]
    parts += crossing_load(instance, deployment, costs)
    counted = np.bincount(deployment.places.ravel(), parts.ravel(), instance.num_nodes)
    loads = instance.nodes.background[:, 0] + counted
    return loads if deployment.merge is None else loads + deployment.merge


def measured_load(instance: Instance, deployment: Deployment, costs: CostModel) -> Floats:
    """(T, R) loads as the statistics of the period show them: serialisation is the key group's."""
    load = instance.tasks.load.copy()
    load[:, 0] += crossing_load(instance, deployment, costs).sum(axis=1)
    return load
