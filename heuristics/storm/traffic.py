"""Traffic between executors as the online scheduler walks it: directed pairs, heaviest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from heuristics.task_allocation.groups import stable_descending

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]


class Pairs(NamedTuple):
    """(K,) ordered pairs and their rates."""

    source: Integers
    target: Integers
    rate: Floats


class Neighbours(NamedTuple):
    """Who talks to whom, both directions added, in CSR form."""

    indptr: Integers
    indices: Integers
    rate: Floats


def directed_pairs(instance: Instance) -> Pairs:
    """Return all traffic as directed task pairs, each pair once, by descending rate.

    Ties, up to rounding, stand in order of their task numbers.

    Raises
    ------
    InvalidInput
        There are more than `optim.format.traffic.MAX_PAIRS`.
    """
    flows = instance.flows
    _ = instance.pairs.u  # refuses sizes that are too large, with words
    parts = [(flows.source, flows.target, flows.rate)]
    for block in flows.blocks:
        a, b = len(block.sources), len(block.targets)
        rate = np.full(a * b, block.pair_rate)
        parts.append((np.repeat(block.sources, b), np.tile(block.targets, a), rate))
    source, target, rate = (np.concatenate(column) for column in zip(*parts, strict=True))
    key, where = np.unique(
        source.astype(np.int64) * instance.num_tasks + target, return_inverse=True
    )
    summed = np.bincount(where.reshape(-1), rate, len(key)).astype(np.float64)
    key, summed = key[summed > 0], summed[summed > 0]
    order = stable_descending(summed)
    u, v = np.divmod(key[order], max(1, instance.num_tasks))
    return Pairs(u, v, summed[order])


def neighbours(count: int, u: Integers, v: Integers, rate: Floats) -> Neighbours:
    """Return the neighbours of `count` things from pairs, each pair's directions added."""
    from scipy.sparse import coo_array

    ends = (np.concatenate([u, v]), np.concatenate([v, u]))
    matrix = coo_array((np.concatenate([rate, rate]), ends), shape=(count, count)).tocsr()
    matrix.sum_duplicates()
    return Neighbours(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
