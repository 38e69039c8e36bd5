"""Step 1 of ALBIC: which pairs of key groups are worth collocating."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.traffic import MAX_PAIRS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats

    Indices = NDArray[np.int64]

_ROUNDING = 1e-9
"""Rates this close to the threshold, relative to it, are on it: even spreads must not pass."""


class DirectedPairs(NamedTuple):
    """Key groups that send to one another: (K,) each, sorted by sender, then receiver."""

    source: Indices
    target: Indices
    rate: Floats

    def where(self, mask: NDArray[np.bool_]) -> DirectedPairs:
        """Return the pairs of a mask."""
        return DirectedPairs(self.source[mask], self.target[mask], self.rate[mask])


def beneficial_pairs(instance: Instance, score_factor: float) -> DirectedPairs:
    """Return the pairs with out(g_i, g_j) > sF · avg(g_i).

    avg(g_i) is what g_i sends in all, out(g_i), divided by the number of its downstream key groups:
    all key groups of the operators to which the operator of g_i sends, itself excepted. Key groups
    without an operator count as those of one operator.

    Parameters
    ----------
    instance
        With traffic.
    score_factor
        sF: 1 asks for more than the average, 2 for more than twice of it.

    Raises
    ------
    InvalidInput
        More than `optim.format.traffic.MAX_PAIRS` pairs pass.
    """
    flows, tasks = instance.flows, instance.num_tasks
    out = np.bincount(flows.source, flows.rate, tasks).astype(np.float64)
    for block in flows.blocks:
        np.add.at(out, block.sources, block.pair_rate * len(block.targets))
    downstream = num_downstream(instance)
    threshold = score_factor * out / np.maximum(1, downstream) * (1.0 + _ROUNDING)
    keep = flows.rate > threshold[flows.source]
    parts = [(flows.source[keep], flows.target[keep], flows.rate[keep])]
    passing = [b.sources[b.pair_rate > threshold[b.sources]] for b in flows.blocks]
    _check_size(sum(len(s) * len(b.targets) for s, b in zip(passing, flows.blocks, strict=True)))
    for sources, block in zip(passing, flows.blocks, strict=True):
        count = len(sources) * len(block.targets)
        pairs = np.repeat(sources, len(block.targets)), np.tile(block.targets, len(sources))
        parts.append((*pairs, np.full(count, block.pair_rate)))
    source, target, rate = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((target, source))
    return DirectedPairs(
        source[order].astype(np.int64), target[order].astype(np.int64), rate[order]
    )


def num_downstream(instance: Instance) -> Indices:
    """(T,) how many key groups lie downstream of each: those of its operator's receivers."""
    flows, count = instance.flows, instance.num_operators
    operator = np.where(instance.tasks.operator < 0, count, instance.tasks.operator)
    edges = {
        *zip(operator[flows.source].tolist(), operator[flows.target].tolist(), strict=True),
        *((int(operator[b.sources[0]]), int(operator[b.targets[0]])) for b in flows.blocks),
    }
    size = np.bincount(operator, minlength=count + 1)
    below = np.zeros(count + 1, dtype=np.int64)
    for source, target in edges:
        below[source] += size[target] - (source == target)
    return below[operator]


def _check_size(count: int) -> None:
    if count > MAX_PAIRS:
        raise InvalidInput(
            Problem(
                "--option score_factor",
                None,
                f"lets {count} pairs of key groups pass, more than {MAX_PAIRS}",
                "take 1 or more: evenly spread traffic then never counts",
            )
        )
