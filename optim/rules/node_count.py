"""Rules of the form *count of nodes*: at most so many nodes hold a task of each of some groups.

With one group of tasks it bounds the nodes that these use; with two, and a limit of 0, tasks of the
one may not share a node with tasks of the other. Engines read the counts that an instance sets by
`optim.rules.node_counts`, and know none of them by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.tables import Bools


class NodeCount(NamedTuple):
    """A bound on a number of nodes, as an instance sets it.

    Attributes
    ----------
    rule, entry
        The rule that it is of, and which entry of the file sets it.
    name
        What is counted, in words.
    groups
        One or two (T,) masks: a node counts that holds a task of each.
    limit
        Most nodes that may count.
    """

    rule: str
    entry: int
    name: str
    groups: tuple[Bools, ...]
    limit: int

    def nodes(self, node: NDArray[Any], num_nodes: int) -> Bools:
        """(N,) which nodes count under a placement; -1 is nowhere."""
        counted = np.ones(num_nodes, dtype=np.bool_)
        for tasks in self.groups:
            held = np.zeros(num_nodes, dtype=np.bool_)
            held[node[tasks & (node >= 0)]] = True
            counted &= held
        return counted

    def by_contents(self, one: NDArray[Any], counts: NDArray[Any]) -> Bools:
        """(P,) whether nodes count that hold (P, G) tasks of groups of equal ones.

        Parameters
        ----------
        one
            (G,) a task of each group.
        """
        held = (counts @ tasks[one] > 0 for tasks in self.groups)
        return np.logical_and.reduce(list(held))
