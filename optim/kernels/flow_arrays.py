"""Traffic of tasks as arrays for compiled searches: pairs, sides of full blocks, totals.

No task sends to itself: instances do not have such traffic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.traffic import FullBlock, LocalBlock


def pairs_of(instance: Instance | None, tasks: int = 0) -> tuple[Any, Any, Any]:
    """CSR of the single task pairs, each in both directions: (E, 2) sent and received."""
    if instance is None:
        return np.zeros(tasks + 1), np.zeros(0), np.zeros((0, 2))
    flows, count = instance.flows, instance.num_tasks
    low = np.minimum(flows.source, flows.target).astype(np.int64)
    high = np.maximum(flows.source, flows.target)
    key, where = np.unique(low * count + high, return_inverse=True)
    upwards = flows.source == low
    up = np.bincount(where.reshape(-1), np.where(upwards, flows.rate, 0.0), len(key))
    down = np.bincount(where.reshape(-1), np.where(upwards, 0.0, flows.rate), len(key))
    u, v = np.divmod(key, max(1, count))
    here, there = np.concatenate([u, v]), np.concatenate([v, u])
    sent, got = np.concatenate([up, down]), np.concatenate([down, up])
    order = np.argsort(here, kind="stable")
    return csr_starts(here, count), there[order], np.stack([sent, got], axis=1)[order]


def sides_of(instance: Instance) -> tuple[Any, Any, Any]:
    """CSR of the sides of blocks that tasks are on: 2·block where they send, one more where they
    receive; and the rate of each. Full blocks come first, of which it is that of a pair; then
    `local_first` streams, of which it is that of a sender."""
    blocks: tuple[FullBlock | LocalBlock, ...] = (*instance.flows.blocks, *instance.flows.local)
    tasks, sides = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for b, block in enumerate(blocks):
        for side, some in ((2 * b, block.sources), (2 * b + 1, block.targets)):
            tasks.append(some.astype(np.int64))
            sides.append(np.full(len(some), side))
    owner = np.concatenate(tasks)
    order = np.argsort(owner, kind="stable")
    rates = [block.pair_rate for block in instance.flows.blocks]
    rates += [near.rate for near in instance.flows.local]
    return (
        csr_starts(owner, instance.num_tasks),
        np.concatenate(sides)[order],
        np.array(rates, dtype=np.float64),
    )


def totals_of(instance: Instance) -> Any:
    """(T, 2) all that a task sends, and receives; `local_first` streams are left out."""
    flows, count = instance.flows, instance.num_tasks
    total = np.zeros((count, 2))
    for column, end in enumerate((flows.source, flows.target)):
        total[:, column] = np.bincount(end, flows.rate, count)
    for block in flows.blocks:
        total[block.sources, 0] += block.pair_rate * len(block.targets)
        total[block.targets, 1] += block.pair_rate * len(block.sources)
    return total


def csr_starts(owner: Any, count: int) -> Any:
    """(count + 1,) where the entries of each of some owners begin, once they are sorted."""
    counted = np.bincount(np.asarray(owner, dtype=np.int64), minlength=count)
    return np.concatenate([[0], np.cumsum(counted)]).astype(np.int64)
