"""The allocation problem in counts: classes of equal tasks, classes of equal nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.kernels.classes import NodeClasses, TaskGroups

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TOTAL_RATE = 1000.0
"""Rates are scaled to this total, so that one set of tolerances suits every unit."""

ROUNDING = 1e-8
"""Scaled gains that differ by less are the same."""


@dataclass(frozen=True, eq=False)
class PatternProblem:
    """G classes of tasks, K classes of nodes, R resources that bind somewhere.

    Attributes
    ----------
    sizes
        (G,) tasks of each class.
    load
        (G, R) load of one task.
    rate
        (G, G) symmetric; scaled traffic of one pair of tasks, the diagonal within a class.
    nodes
        (K,) nodes of each class.
    limit, least
        (K, R) largest (``inf``: none) and smallest (``-inf``: none) load placed on a node,
        rounding allowed for.
    most
        (K, G) most tasks of a class that one node may hold, taken by themselves.
    scale
        What a scaled rate is multiplied with to be in the instance's unit.
    """

    sizes: Counts
    load: Floats
    rate: Floats
    nodes: Counts
    limit: Floats
    least: Floats
    most: Counts
    scale: float = 1.0

    @property
    def num_classes(self) -> int:
        """G."""
        return len(self.sizes)

    @property
    def num_node_classes(self) -> int:
        """K."""
        return len(self.nodes)

    @property
    def num_nodes(self) -> int:
        """All nodes that may be used."""
        return int(self.nodes.sum())

    def gain(self, counts: NDArray[Any]) -> Floats:
        """Scaled traffic inside nodes that hold ``counts`` (…, G) tasks of each class."""
        y = np.asarray(counts, dtype=np.float64)
        # in two steps, and not by BLAS: its threads cost more than such narrow products
        pairs = 0.5 * np.einsum("...g,...g->...", np.einsum("...g,gh->...h", y, self.rate), y)
        own = 0.5 * (y @ np.diag(self.rate))
        return np.asarray(pairs - own)

    def fits(self, node_class: int, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether contents ``counts`` (…, G) keep the bounds of a node of a class."""
        used = np.asarray(counts, dtype=np.float64) @ self.load
        within = (used <= self.limit[node_class]) & (used >= self.least[node_class])
        within = within.all(axis=-1) & (counts <= self.most[node_class]).all(axis=-1)
        return np.asarray(within)

    def reordered(self, order: Counts) -> PatternProblem:
        """Return the problem with its classes of tasks in another order."""
        return replace(
            self,
            sizes=self.sizes[order],
            load=np.ascontiguousarray(self.load[order]),
            rate=np.ascontiguousarray(self.rate[np.ix_(order, order)]),
            most=np.ascontiguousarray(self.most[:, order]),
        )

    def class_of_node(self) -> Counts:
        """(N,) node class of each node when the nodes are listed class by class."""
        return np.repeat(np.arange(self.num_node_classes), self.nodes)


def make_problem(
    sizes: Any, load: Any, rate: Any, nodes: Any, limit: Any, least: Any = None, allowed: Any = None
) -> PatternProblem:
    """Scale the rates, drop resources that bind nowhere, and derive what fits a node at most.

    Parameters
    ----------
    sizes, load, rate, nodes, limit, least
        As in `PatternProblem`; ``rate`` in any unit; ``least`` may be left out.
    allowed
        (K, G) bool, which classes may use which nodes; all by default.
    """
    sizes, nodes = np.asarray(sizes, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
    load, rate = np.asarray(load, dtype=np.float64), np.asarray(rate, dtype=np.float64)
    limit = np.asarray(limit, dtype=np.float64)
    least = np.full(limit.shape, -np.inf) if least is None else np.asarray(least, dtype=np.float64)
    least = np.where(least <= 0.0, -np.inf, least)
    binding = np.isfinite(limit).any(axis=0) | np.isfinite(least).any(axis=0)
    if binding.any():
        load, limit, least = load[:, binding], limit[:, binding], least[:, binding]
    else:  # the kernels want one resource at least
        load, limit = np.zeros((len(sizes), 1)), np.full((len(nodes), 1), np.inf)
        least = np.full((len(nodes), 1), -np.inf)
    weighed = np.outer(sizes, sizes) - np.diag(sizes)
    total = 0.5 * float((rate * weighed).sum())
    scale = total / TOTAL_RATE if total > 0 else 1.0
    most = _most_alone(sizes, load, limit)
    if allowed is not None:
        most = np.where(allowed, most, 0)
    return PatternProblem(
        sizes=sizes,
        load=np.ascontiguousarray(load),
        rate=np.ascontiguousarray(rate / scale),
        nodes=nodes,
        limit=np.ascontiguousarray(limit),
        least=np.ascontiguousarray(least),
        most=np.ascontiguousarray(most),
        scale=scale,
    )


def _most_alone(sizes: Counts, load: Floats, limit: Floats) -> Counts:
    most = np.tile(sizes.astype(np.float64), (len(limit), 1))
    for r in range(load.shape[1]):
        heavy = load[:, r] > 0
        with np.errstate(over="ignore"):
            room = np.maximum(limit[:, r], 0.0)[:, None] / load[heavy, r][None, :]
        most[:, heavy] = np.minimum(most[:, heavy], np.floor(room + 1e-9))
    return most.astype(np.int64)


def problem_of(instance: Instance, groups: TaskGroups, classes: NodeClasses) -> PatternProblem:
    """Return the instance in counts; classes of tasks and nodes keep their order."""
    return make_problem(
        groups.sizes,
        groups.load,
        groups.rates(instance),
        classes.sizes,
        classes.room,
        classes.floor,
        classes.target[groups.kind].T,
    )
