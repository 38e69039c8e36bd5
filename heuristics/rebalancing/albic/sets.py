"""Step 2 of ALBIC, first half: collocated pairs that share a key group are one set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from heuristics.rebalancing.albic.scores import DirectedPairs, Indices


def merge_pairs(pairs: DirectedPairs, num_tasks: int) -> list[Indices]:
    """Return the sets that pairs merge into, by union–find.

    Parameters
    ----------
    pairs
        Collocated pairs.
    num_tasks
        T.

    Returns
    -------
    list of ndarray
        Members of each set in ascending order; sets by their first member. Every set has at least
        two members; key groups of no pair are in none.
    """
    parent = list(range(num_tasks))

    def root(task: int) -> int:
        while parent[task] != task:
            parent[task] = parent[parent[task]]
            task = parent[task]
        return task

    for source, target in zip(pairs.source.tolist(), pairs.target.tolist(), strict=True):
        one, other = root(source), root(target)
        parent[max(one, other)] = min(one, other)
    members: dict[int, list[int]] = {}
    for task in np.union1d(pairs.source, pairs.target).tolist():
        members.setdefault(root(task), []).append(task)
    return [np.array(group, dtype=np.int64) for _, group in sorted(members.items())]
