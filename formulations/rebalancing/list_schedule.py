"""Longest-processing-time list schedule of parts on nodes, with capacities and allowed nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import node_loads
from optim.kernels.room import placing_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints

    Indices = NDArray[np.int64]


class ListScheduler:
    """Puts parts on nodes, heaviest first, each where the node's load by weight grows least high.

    Parameters
    ----------
    instance
        Whose staying nodes are used.
    present
        (T,) node indices, -1 for none: what is there already. By default nothing but background.
    """

    def __init__(self, instance: Instance, present: Ints | None = None) -> None:
        self._instance = instance
        self._present = np.zeros((instance.num_nodes, instance.num_resources))
        if present is not None:
            self._present = node_loads(instance, present) - instance.nodes.background
        self._weight = instance.nodes.weight
        self._room = placing_room(instance)
        self._restricted = np.zeros(instance.num_tasks, dtype=np.bool_)
        self._restricted[instance.tasks.restricted] = True

    def place(self, parts: Sequence[Indices], loads: Floats) -> Indices:
        """Return the node of each part; -1 for those that fit nowhere.

        Parameters
        ----------
        parts
            Key groups of each part.
        loads
            (len(parts), R) loads.
        """
        used = self._present.copy()
        total = self._instance.nodes.background[:, 0] + used[:, 0]
        node = np.full(len(parts), -1, dtype=np.int64)
        for part in np.argsort(-loads[:, 0], kind="stable").tolist():
            fits = (used + loads[part] <= self._room).all(axis=1) & self.may_hold(parts[part])
            if not fits.any():
                continue
            height = np.where(fits, (total + loads[part, 0]) / self._weight, np.inf)
            chosen = int(height.argmin())
            node[part] = chosen
            total[chosen] += loads[part, 0]
            used[chosen] += loads[part]
        return node

    def may_hold(self, part: Indices) -> Bools:
        """(N,) staying nodes where every key group of a part may be."""
        mask = self._instance.open_nodes.copy()
        for task in part[self._restricted[part]].tolist():
            mask &= self._instance.allowed_mask(task)
        return mask
