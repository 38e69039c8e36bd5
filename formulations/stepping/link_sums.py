"""Traffic over links on the way: what each step changes, without judging a whole placement.

Steps of a batch whose tasks talk to none of one another change links independently, so that their
increases add up to the most that any subset of them brings; others never share a batch.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import link_loads
from optim.rules import LINKS
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formulations.stepping.between import Between
    from formulations.stepping.move import Step
    from optim.format.tables import Ints

MOST = 5_000_000
"""Pairs of tasks that talk, up to which they are spread out."""
_DRIFT = 1e-12
_IN, _OUT = 1, 2
"""Directions that do not count: what leaves a link's nodes is nothing to one of direction 2."""


class LinkSums:
    """Loads of the links while a batch of moves is made.

    Parameters
    ----------
    between
        The rules of the way; its start is where the tasks are.
    """

    def __init__(self, between: Between) -> None:
        instance = between.instance
        links = instance.links
        self._load = link_loads(instance, between.start)
        available = links.capacity * instance.limits.max_link_utilisation
        ends = np.maximum(self._load, link_loads(instance, between.goal)) * (1 + _DRIFT)
        self._most = np.maximum(available + slack(available), ends)
        self._high = self._load.copy()
        self._direction = links.direction.tolist()
        self._behind: list[tuple[int, ...]] = [() for _ in range(instance.num_nodes + 1)]
        for i in np.flatnonzero(np.isfinite(links.capacity)).tolist():
            for n in links.node_indices[links.node_indptr[i] : links.node_indptr[i + 1]].tolist():
                self._behind[n] = (*self._behind[n], i)
        source, target, rate = instance.flows.directed()
        moving = between.start != between.goal
        some = moving[source] | moving[target]
        self._source, self._target = source[some].tolist(), target[some].tolist()
        self._rate: list[float] = rate[some].tolist()
        self._of: dict[int, list[int]] = defaultdict(list)
        for k, ends_of in enumerate(zip(self._source, self._target, strict=True)):
            for task in set(ends_of):
                self._of[task].append(k)
        self._busy: dict[int, int] = {}

    @classmethod
    def of(cls, between: Between) -> LinkSums | None:
        """Return the sums; ``None`` where no link binds, or too many tasks talk."""
        instance = between.instance
        flows = instance.flows
        pairs = len(flows.rate) + sum(len(b.sources) * len(b.targets) for b in flows.blocks)
        return cls(between) if LINKS.present(instance) is not None and pairs <= MOST else None

    def fits(self, step: Step, node: Ints) -> bool:
        """Whether a step keeps every link, beside any of the batch.

        Parameters
        ----------
        node
            (T,) where tasks are before the batch.
        """
        busy = self._busy
        if busy and any(
            self._source[k] in busy or self._target[k] in busy
            for move in step
            for k in self._of[move.task]
        ):
            return False
        change = self._change(step, node)
        return all(x <= 0 or self._high[i] + x <= self._most[i] for i, x in change.items())

    def enter(self, step: Step, node: Ints) -> None:
        """Count what a step of the batch brings."""
        for i, x in self._change(step, node).items():
            self._high[i] += max(x, 0.0)
        self._busy.update((move.task, 1) for move in step)

    def cancel(self, step: Step, node: Ints) -> None:
        """Take a step out of the batch again."""
        for i, x in self._change(step, node).items():
            self._high[i] -= max(x, 0.0)
        for move in step:
            del self._busy[move.task]

    def end(self, steps: Iterable[Step], node: Ints) -> None:
        """Finish the batch; `node` is still where tasks were before it."""
        for step in steps:
            for i, x in self._change(step, node).items():
                self._load[i] += x
        self._high = self._load.copy()
        self._busy.clear()

    def _change(self, step: Step, node: Ints) -> dict[int, float]:
        """Return what a step adds to the load of each link that it changes."""
        goes = {move.task: move.target for move in step}
        change: dict[int, float] = defaultdict(float)
        for k in {k for task in goes for k in self._of[task]}:
            u, v = self._source[k], self._target[k]
            a, b = int(node[u]), int(node[v])
            self._count(a, b, -self._rate[k], change)
            self._count(goes.get(u, a), goes.get(v, b), self._rate[k], change)
        return change

    def _count(self, a: int, b: int, rate: float, change: dict[int, float]) -> None:
        """Count a stream from node a to node b on the links between; -1, the last, is nowhere."""
        if a == b:
            return
        left, entered = self._behind[a], self._behind[b]
        for i in left:
            if i not in entered and self._direction[i] != _OUT:
                change[i] += rate
        for i in entered:
            if i not in left and self._direction[i] != _IN:
                change[i] += rate
