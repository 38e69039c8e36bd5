"""Places that a joint model leaves out: what the duals of its relaxation say of them.

docs/proofs/priced-places.md has the argument. Nothing of these places is built: a move's worth is
computed from the duals of the rows that it would be in, for all key groups and some nodes at once.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from formulations.rebalancing.joint.problem import Backbone, JointModel, JointProblem
    from formulations.rebalancing.problem import Bools, Floats, Ints

#: Key groups or pairs times nodes in a block of places.
BLOCK = 1_000_000

#: What a sum may be off by, of the sum of the sizes, for each of its terms.
ROUNDING = 2.0**-50

#: Rows of pairs that a place left out brings with it, and of rules whose key groups have all their
#: places from the start (`complete_tasks`), by the beginning of their names.
OWN_ROWS = ("source_there", "target_there")
COMPLETE_ROWS = (
    "apart_", "together_", "used_if_there", "spread_", "count_", "both_if_", "receiver_there",
    "stays_with", "stays_near",
)  # fmt: skip


class Priced(NamedTuple):
    """What is known of the places left out."""

    #: By how much a placement that uses them may exceed the bound of the model without them.
    more: float
    #: The most promising ones, best first, and what using each may win.
    task: Ints
    node: Ints
    gain: Floats


def complete_tasks(problem: JointProblem) -> Bools:
    """(T,) key groups whose rules are not priced: of sets, counts of nodes and local streams.

    And partners of those with one partner, whose moves are columns of the pair.
    """
    rules, complete = problem.balance.rules, np.zeros(problem.balance.num_tasks, dtype=np.bool_)
    complete[rules.members] = True
    for count in rules.counts:
        for tasks in count.groups:
            complete |= tasks
    for near in problem.local:
        complete[near.sources] = complete[near.targets] = True
    alone = complete & (problem.degree <= 1)
    complete[problem.target[alone[problem.source]]] = True
    complete[problem.source[alone[problem.target]]] = True
    return complete


class _Worth:
    """What moves are worth by the duals of a relaxation, without what pairs win by them."""

    def __init__(self, backbone: Backbone, built: JointModel, duals: Floats, left: bool) -> None:
        self.backbone = None if left or backbone.is_whole else backbone
        self.balance = balance = built.problem.balance
        tasks, nodes, home = balance.num_tasks, balance.num_nodes, balance.home
        #: (T,) of any move: by its row, and by its pairs that stay; (T,), (N,) of a migration.
        self.once, stays = np.zeros(tasks), np.zeros(tasks)
        self.migrating, self.inflow = np.zeros(tasks), np.zeros(nodes)
        # Σ amount·(unit where it goes − unit at home): (T,), (N,), (N,) of each kind of rows
        sums, one = [], np.ones(tasks)
        if left:
            sums.append((balance.load, -1.0 * balance.leaving, -1.0 * balance.leaving))
        prices = {budget.name: budget.weight for budget in balance.budgets}
        for block in built.model.row_blocks:
            name, of, dual = block.name, block.of, duals[block.start : block.stop]
            at = np.zeros(nodes)
            if name in ("load", "capacity", "leave", "arrive", "inflow"):
                at[of["node"]] = dual
            if name == "once":
                self.once += dual
            elif name in ("source_stays", "target_stays"):
                end = of["task" if name == "source_stays" else "other"]
                stays += np.bincount(end, dual, tasks)
            elif name in prices:
                self.migrating += prices[name] * dual
            elif name in ("load", "capacity"):
                used = balance.load if name == "load" else balance.usage[:, of["resource"]]
                sums.append((used, at, at))
            elif name == "load_left":
                sums.append((balance.load, dual * balance.leaving, dual * balance.leaving))
            elif name in ("leave", "arrive"):
                sums.append((one, 0.0 * at, -at) if name == "leave" else (one, at, 0.0 * at))
            elif name == "inflow":
                self.inflow = at
            else:
                assert name.startswith(OWN_ROWS + COMPLETE_ROWS), f"{name}: rows without a price"
        sums.append((one, self.inflow, self.inflow))  # the largest that a migration may win there
        amount, unit, at_home = (np.array(part) for part in zip(*sums, strict=True))
        size = np.abs(unit).max(axis=1) + np.abs(at_home).max(axis=1)
        doubt = np.abs(self.once) + np.abs(stays) + np.abs(self.migrating) + size @ np.abs(amount)
        self.alone, self.doubt = stays, ROUNDING * (len(sums) + 6) * doubt
        self.amount, self.unit = amount[:-1], unit[:-1]
        self.going = -(amount[:-1] * at_home[:-1, home]).sum(axis=0)
        self.going -= balance.rules.pays(np.arange(tasks), home) * self.inflow[home]

    def at(self, nodes: Ints) -> Floats:
        """(T, len(nodes)) of moving there; 0 at home."""
        every = np.arange(self.balance.num_tasks)[:, None]
        worth: Floats = self.amount.T @ self.unit[:, nodes] + self.going[:, None]
        pays = self.balance.rules.pays(every, nodes)
        worth += pays * (self.migrating[:, None] + self.inflow[nodes])
        if self.backbone is not None:
            worth += (1.0 + ROUNDING) * self.backbone.moving(every, nodes)
        worth[self.balance.home[:, None] == nodes] = 0.0
        return worth


def price_places(
    backbone: Backbone,
    built: JointModel,
    duals: Floats,
    places: Bools,
    allowed: Bools,
    most: int,
    *,
    left: bool = False,
    ends: float | None = None,
) -> Priced | None:
    """Return what the places left out may win; ``None`` where `ends`, seconds, comes first.

    `built`: the model over (T, N) `places`; `duals`: of its rows, each leaning on a bound there is.
    `allowed`: (T, N) all places there are.
    `most`: places that are returned.
    `left`: whether the goal is least load on leaving nodes.
    """
    problem = built.problem
    worth, tasks = _Worth(backbone, built, duals, left), problem.balance.num_tasks
    pair_ends = problem.source, problem.target
    rate = np.zeros(problem.num_pairs) if left else problem.rate * (1.0 + ROUNDING)
    single = [problem.degree[end] <= 1 for end in pair_ends]
    every = np.arange(problem.num_pairs)
    several = csr_array(
        (np.concatenate([~one for one in single]).astype(float),
         (np.concatenate(pair_ends), np.concatenate([every, every]))),
        shape=(tasks, problem.num_pairs),
    )  # fmt: skip
    best, best_pair = np.zeros(tasks), np.zeros(problem.num_pairs)
    found: list[Any] = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)]
    width = max(1, BLOCK // max(1, tasks, problem.num_pairs))
    for first in range(0, problem.balance.num_nodes, width):
        if ends is not None and time.perf_counter() >= ends:
            return None
        nodes = np.arange(first, min(first + width, problem.balance.num_nodes))
        may = allowed[:, nodes]
        missing = may & ~places[:, nodes]
        if not missing.any():
            continue
        move = worth.at(nodes)
        alone = move + (worth.once + worth.alone + worth.doubt)[:, None]
        # a pair wins its rate, and what its ends with one partner win: it is their move as well
        pair = np.repeat(rate[:, None], len(nodes), axis=1)
        for end, one in zip(pair_ends, single, strict=True):
            pair += one[:, None] * (move[end] + (worth.once + worth.doubt)[end][:, None])
        out = [missing[end] for end in pair_ends]
        there = may[pair_ends[0]] & may[pair_ends[1]] & (out[0] | out[1])
        # an end with several partners whose place is out has to come too: its move takes the gain
        payers = sum(~one[:, None] & gone for one, gone in zip(single, out, strict=True))
        share = np.where(there & (payers > 0), np.maximum(pair, 0.0), 0.0) / np.maximum(1, payers)
        alone += several @ share
        free = np.where(there & (payers == 0), pair, -np.inf)
        best_pair = np.maximum(best_pair, free.max(axis=1, initial=0.0))
        best = np.maximum(best, np.where(missing, alone, 0.0).max(axis=1, initial=0.0))
        for end, one in zip(pair_ends, single, strict=True):
            alone[end[one]] = np.maximum(alone[end[one]], free[one])
        task, at = np.nonzero(missing)
        these = task, nodes[at], alone[task, at]
        found = [np.concatenate(parts) for parts in zip(found, these, strict=True)]
        order = np.argsort(-found[2], kind="stable")[:most]
        found = [part[order] for part in found]
    for end, one in zip(pair_ends, single, strict=True):
        best_pair -= one * best[end]
    more = (math.fsum(best) + math.fsum(np.maximum(0.0, best_pair))) * (1.0 + ROUNDING)
    return Priced(more, *found)
