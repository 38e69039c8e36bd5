"""The fewest tasks on given nodes, over all parallelisms: branch and bound on boxes of numbers.

A box has a least and a greatest number of tasks of each operator. What a node may hold at any
numbers in it contains what it may hold at those of a plan. Prices of the operators refute a box if
all nodes together, each holding what is worth most, are worth less than all operators. Prices come
from linear programs over the contents of nodes at single numbers. See docs/scale.md.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.format.parallelism import largest_share, smallest_share
from optim.solvers.inprocess import solve_lp, solve_small_milp
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import LinearModel
from optim.util.compiled import kernel

if TYPE_CHECKING:
    from formulations.throughput.scale_counts import Counts, Counts64
    from optim.format.tables import Floats

_SAFE = 1e-9
_PRICES, _CONTENTS, _PLACED = 120, 20_000, 40_000_000
_NODES = 2_000
_PROGRAM, _BOX = 20_000, 200
"""Work of a linear program, and of a box, in contents that are looked at."""


@dataclass
class Boxes:
    """What `search` found.

    Attributes
    ----------
    tasks, counts, gain
        Numbers of tasks, (V, O) or by kind of task (`Counts.exact`), and traffic inside; of none
        that was found ``None``.
    least
        Fewest tasks that are not refuted; infinite where no parallelism carries the rate.
    whole
        Whether of no parallelism of as few tasks more traffic is inside.
    """

    tasks: Any = None
    counts: Any = None
    gain: float = -np.inf
    least: float = np.inf
    whole: bool = True


class BoxSearch:
    """Branch and bound over numbers of tasks on fixed nodes.

    Parameters
    ----------
    counts
        Operators and the nodes.
    low, high
        (O,) least and greatest numbers.
    work
        Contents of nodes after which the rest is left open.
    """

    def __init__(self, counts: Counts, low: Counts64, high: Counts64, work: float) -> None:
        self.counts, self.low, self.high, self.work = counts, low, high, work
        keys = [
            counts.room[v].tobytes() + counts.link[v].tobytes() for v in range(len(counts.cost))
        ]
        self.first = [keys.index(key) for key in dict.fromkeys(keys)]
        self.kind = np.array([list(dict.fromkeys(keys)).index(key) for key in keys])
        self.number = np.bincount(self.kind)
        self.prices: list[Floats] = list(np.eye(len(low)))

    def search(self, most: int) -> Boxes:
        """Find the fewest tasks, no more than `most`, and of those the most traffic inside."""
        found = Boxes()
        heap = [(int(self.low.sum()), 0, self.low, self.high)]
        number = 0
        while heap:
            total, _, low, high = heapq.heappop(heap)
            if total > most or (found.tasks is not None and total > found.least):
                return found
            if self.work <= 0:
                found.least, found.whole = min(found.least, total), False
                return found
            # no operator has more tasks than the others leave
            high = np.minimum(high, most - total + low)
            if self._refuted(low, high):
                continue
            if (low == high).all():
                self._at(low, found)
                continue
            ratio = np.where(high > low, high / low, 0.0)
            # the operator whose share varies most within the box, at the geometric mean
            o = int(ratio.argmax())
            middle = min(int(np.sqrt(low[o] * float(high[o]))), int(high[o]) - 1)
            for side in (0, 1):
                below, above = low.copy(), high.copy()
                if side == 0:
                    above[o] = middle
                else:
                    below[o] = middle + 1
                number += 1
                heapq.heappush(heap, (int(below.sum()), number, below, above))
        return found

    def _refuted(self, low: Counts64, high: Counts64) -> bool:
        """Whether known prices refute all numbers of a box."""
        counts, prices = self.counts, np.array(self.prices)
        groups = [int(k) or None for k in counts.key_groups]
        least = np.array([smallest_share(int(n), k) for n, k in zip(high, groups, strict=True)])
        most = np.array([largest_share(int(n), k) for n, k in zip(low, groups, strict=True)])
        total = np.zeros(len(prices))
        for v, number in zip(self.first, self.number.tolist(), strict=True):
            worth = np.zeros(len(prices))
            seen = most_worth(
                counts.load, counts.each, counts.rate, counts.price, counts.room[v],
                counts.link[v], least, most, high, prices, _CONTENTS, worth,
            )  # fmt: skip
            self.work -= seen + _BOX
            if seen > _CONTENTS:
                return False
            total += number * worth
        # Σ π_o is what all operators together are worth; if all nodes hold less, something is
        # missing
        margin = prices.sum(axis=1) - total - _SAFE * np.abs(prices).sum(axis=1)
        best = int(margin.argmax())
        if margin[best] <= 0:
            return False
        self.prices.insert(0, self.prices.pop(best))  # those that refute come first, and stay
        return True

    def _at(self, tasks: Counts64, found: Boxes) -> None:
        """Look at single numbers: refute them, or place the tasks."""
        kinds, sizes = self.counts.exact(tasks)
        listed = [kinds.contents(sizes, v, _CONTENTS) for v in self.first]
        self.work -= _PROGRAM
        if any(rows is None for rows in listed):
            self._open(tasks, found)
            return
        rows = [np.asarray(x) for x in listed]
        if (sum(n * x.max(axis=0) for n, x in zip(self.number, rows, strict=True)) < sizes).any():
            return
        if self._refuted_alone(tasks, kinds, sizes, rows):
            return
        placed = self._placed(kinds, sizes, rows)
        if placed is False:
            self._open(tasks, found)
        elif placed is not None and placed[0] > found.gain:
            found.gain, found.tasks, found.counts = placed[0], tasks, placed[1]
            found.least = min(found.least, int(tasks.sum()))

    def _open(self, tasks: Counts64, found: Boxes) -> None:
        found.whole = False
        found.least = min(found.least, int(tasks.sum()))

    def _refuted_alone(
        self, tasks: Counts64, kinds: Counts, sizes: Counts64, rows: list[Counts64]
    ) -> bool:
        """Whether prices of a linear program refute numbers of tasks; they are remembered."""
        # the nodes of each class are as many times as are there; how often at least?
        of = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
        columns = np.vstack(rows)
        matrix = np.zeros((len(sizes) + len(rows), len(columns) + 1))
        matrix[: len(sizes), :-1] = columns.T
        matrix[len(sizes) + of, np.arange(len(columns))] = 1.0
        matrix[len(sizes) :, -1] = -self.number
        low = np.append(sizes, np.full(len(rows), -np.inf)).astype(float)
        high = np.append(sizes, np.zeros(len(rows))).astype(float)
        cost = np.append(np.zeros(len(columns)), 1.0)
        free = np.full(len(cost), np.inf)
        solved = solve_lp(cost, matrix, low, high, np.zeros(len(cost)), free)
        if solved.termination is not LinearTermination.OPTIMAL or solved.row_duals is None:
            return False
        dual = solved.row_duals[: len(sizes)]
        paid = sum(
            int(n) * max(0.0, float((x @ dual).max()))
            for n, x in zip(self.number, rows, strict=True)
        )
        worth = float(dual @ sizes)
        if worth <= paid + _SAFE * float(np.abs(dual) @ sizes):
            return False
        price, start = np.zeros(len(tasks)), 0
        for o, n in enumerate(tasks.tolist()):  # of uneven shares the kinds follow each other
            end = start
            while n:
                n -= int(sizes[end])
                end += 1
            price[o] = float(dual[start:end] @ sizes[start:end])
            start = end
        self.prices = [price, *self.prices[: _PRICES - 1]]
        return True

    def _placed(self, kinds: Counts, sizes: Counts64, rows: list[Counts64]) -> Any:
        """Return traffic inside and (V, O) counts; ``None`` where there are none, or ``False``."""
        if float(np.prod(sizes + 1.0)) * sum(map(len, rows)) <= _PLACED:
            best: Any = kinds.best(sizes, _PLACED)
            if best is not False:
                return best if best is None else (best[1], best[2])
        of = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
        columns, gain = np.vstack(rows), np.concatenate([kinds.gain(x, sizes) for x in rows])
        model = LinearModel("max")
        model.add_variables("held", len(columns), 0, self.number[of], True, gain)
        model.add_matrix_rows("tasks", columns.T, sizes, sizes)
        per_class = (of == np.arange(len(rows))[:, None]).astype(float)
        model.add_matrix_rows("nodes", per_class, -np.inf, self.number)
        solved = solve_small_milp(model, node_limit=_NODES, gap=_SAFE)
        self.work -= 10 * _PROGRAM
        if solved.termination is LinearTermination.INFEASIBLE:
            return None
        if solved.termination is not LinearTermination.OPTIMAL or solved.x is None:
            return False
        held = np.repeat(np.arange(len(columns)), np.round(solved.x).astype(int))
        counts = np.zeros((len(self.kind), len(sizes)), dtype=np.int64)
        for k in range(len(rows)):
            mine = columns[held[of[held] == k]]
            counts[np.flatnonzero(self.kind == k)[: len(mine)]] = mine
        return float(kinds.gain(counts, sizes).sum()), counts


@kernel(steps=lambda load, prices: 300.0 * len(load) * len(prices))
def most_worth(  # type: ignore[no-untyped-def]
    load, each, rate, price, room, link, least, most, high, prices, limit, worth
):
    """Find what a node may hold is worth at most, at numbers of tasks of a box.

    Parameters
    ----------
    load, each, rate, price
        As of `Counts`.
    room, link
        (R,) and (3,) of the node.
    least, most
        (O,) smallest and greatest part of its operator that a task has.
    high
        (O,) most tasks.
    prices
        (P, O) worth of all of an operator.
    limit
        Contents after which to stop.
    worth
        (P,) output: the most, 0 at least.

    Returns
    -------
    int
        Contents looked at; above the limit nothing is known.
    """
    operators, resources = load.shape
    counts = np.zeros(operators, dtype=np.int64)
    lower, upper, need = np.zeros(operators), np.zeros(operators), np.zeros(resources)
    sent, taken = np.zeros(operators), np.zeros(operators)
    for i in range(operators):
        for j in range(operators):
            sent[i] += rate[i, j]
            taken[j] += rate[i, j]
    seen, noise = 0, 1e-12 * sent.sum()
    at = operators - 1
    while True:
        # the next content in order: one task more of the last operator that may have it
        at = operators - 1
        while at >= 0:
            counts[at] += 1
            fits = counts[at] <= high[at] and counts[at] * least[at] <= 1.0 + 1e-9
            if fits:
                for r in range(resources):
                    total = 0.0
                    for o in range(at + 1):
                        total += counts[o] * (least[o] * load[o, r] + each[o, r])
                    if total > room[r] * (1 + 1e-9):
                        fits = False
                        break
            if fits:
                break
            counts[at] = 0
            at -= 1
        if at < 0:
            return seen
        seen += 1
        if seen > limit:
            return seen
        for o in range(operators):
            lower[o] = min(1.0, counts[o] * least[o])
            upper[o] = min(1.0, counts[o] * most[o])
        out, into = 0.0, 0.0
        for i in range(operators):
            for j in range(operators):
                if rate[i, j] > 0.0:
                    out += rate[i, j] * lower[i] * (1.0 - upper[j])
                    into += rate[i, j] * lower[j] * (1.0 - upper[i])
        out, into = max(0.0, out - noise), max(0.0, into - noise)
        good = (
            out <= link[0] * (1 + 1e-9)
            and into <= link[1] * (1 + 1e-9)
            and out + into <= link[2] * (1 + 1e-9)
        )
        if good:
            for r in range(resources):
                need[r] = out * price[0, r] + into * price[1, r]
                for o in range(operators):
                    need[r] += lower[o] * load[o, r] + counts[o] * each[o, r]
                if need[r] > room[r] * (1 + 1e-9):
                    good = False
                    break
        if good:
            for p in range(len(prices)):
                value = 0.0
                for o in range(operators):
                    part = upper[o] if prices[p, o] > 0.0 else lower[o]
                    value += prices[p, o] * part
                worth[p] = max(worth[p], value)
