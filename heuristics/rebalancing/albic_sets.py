"""Sets of key groups in ALBIC.

Step 1: which pairs of key groups are worth collocating. Step 2, first half: collocated pairs that
share a key group are one set. Step 3: the pairs to collocate this round, and the node of each.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.rebalancing.problem import compressed
from optim.errors import InvalidInput, Problem
from optim.format.traffic import MAX_PAIRS
from optim.util.process import c_stdout_silenced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from formulations.rebalancing.problem import BalanceProblem, Floats, Ints
    from optim.format.instance import Instance

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

    `score_factor`: sF: 1 asks for more than the average, 2 for more than twice of it.
    Raises `InvalidInput`: more than `optim.format.traffic.MAX_PAIRS` pairs pass.
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


def merge_pairs(pairs: DirectedPairs, num_tasks: int) -> list[Indices]:
    """Return the sets that pairs merge into: the connected components.

    `pairs`: collocated pairs.
    `num_tasks`: T.
    Returns members of each set in ascending order; sets by their first member. Every set has at
        least two members; key groups of no pair are in none.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = pairs.source, pairs.target
    joined = coo_array((np.ones(len(pairs.rate)), ends), shape=(num_tasks, num_tasks))
    label = connected_components(joined, directed=False)[1]
    tasks = np.union1d(*ends)
    _, first, of = np.unique(label[tasks], return_index=True, return_inverse=True)
    order = np.argsort(of, kind="stable")
    sets = np.split(tasks[order], np.cumsum(np.bincount(of))[:-1]) if len(tasks) else []
    return [sets[k] for k in np.argsort(first)]


@dataclass
class Pins:
    """What is pinned so far, and what that spends."""

    node_of: dict[int, int] = field(default_factory=dict)  # Unit to node.
    #: The key groups of each pair that was chosen.
    pairs: list[tuple[int, int]] = field(default_factory=list)
    #: (K,) what the key groups that leave their node by it take of each budget.
    spent: Floats = field(default_factory=lambda: np.zeros(1))


def choose_pins(
    units: Units, candidates: DirectedPairs, pairs_per_round: int, rng: np.random.Generator
) -> Pins:
    """Pin the pairs with the greatest rate, ties at random.

    Neither key group in a unit of several: both go to the less loaded of their two nodes (load by
    weight). One in such a unit: the other goes to that one's node. Both: as the first case, for the
    units. An end that an earlier pair of the round has pinned stays where it is, and the other one
    goes there. Where the node leaves, is not allowed for a member or costs more than the budget
    holds, the other node of the first and third case is tried, then the next pair.

    `candidates`: pairs on different nodes (the paper's toBeColGrps).
    `pairs_per_round`: how many to pin; the paper pins one.
    `rng`: breaks ties.
    """
    pins = Pins()
    shuffled = rng.permutation(len(candidates.rate))
    order = shuffled[np.argsort(-candidates.rate[shuffled], kind="stable")]
    load = units.problem.base_load / units.problem.weight
    members = _Members(units)
    for pair in order.tolist():
        if len(pins.pairs) >= pairs_per_round:
            break
        source, target = int(candidates.source[pair]), int(candidates.target[pair])
        ends = int(units.unit_of[source]), int(units.unit_of[target])
        for node in _nodes(units, members, ends, load, pins):
            if _pin(units, members, ends, node, pins):
                pins.pairs.append((source, target))
                break
    return pins


class _Members:
    """Members of every unit, looked up without a search."""

    def __init__(self, units: Units) -> None:
        self._order = np.argsort(units.unit_of, kind="stable")
        self._start = np.concatenate([[0], np.cumsum(units.size)])

    def __getitem__(self, unit: int) -> list[int]:
        members: list[int] = self._order[self._start[unit] : self._start[unit + 1]].tolist()
        return members


def _nodes(
    units: Units, members: _Members, ends: tuple[int, int], load: Floats, pins: Pins
) -> list[int]:
    """Return the nodes to try, the paper's choice first."""
    pinned = [pins.node_of[unit] for unit in ends if unit in pins.node_of]
    if pinned:
        return pinned if len(pinned) == 1 else []
    homes = [int(units.problem.home[members[unit][0]]) for unit in ends]
    grouped = [bool(units.size[unit] > 1) for unit in ends]
    if grouped[0] != grouped[1]:
        return [homes[grouped.index(True)]]
    return sorted(homes, key=lambda node: (float(load[node]), node))


def _pin(units: Units, members: _Members, ends: tuple[int, int], node: int, pins: Pins) -> bool:
    """Pin both units to a node if that may be; say whether it was done."""
    problem = units.problem
    new = [unit for unit in ends if unit not in pins.node_of]
    tasks = [task for unit in new for task in members[unit]]
    if problem.leaving[node] or not all(problem.may_be(task, node) for task in tasks):
        return False
    moving = [t for t in tasks if problem.home[t] != node and not problem.is_free[t]]
    spent = pins.spent + problem.price[moving].sum(axis=0)
    if (spent > problem.budget).any():
        return False
    pins.spent = spent
    pins.node_of.update(dict.fromkeys(new, node))
    return True


# The indivisible units of a round: which key groups move together, and the problem over them.


@dataclass(frozen=True, eq=False)
class Units:
    """Key groups in indivisible units."""

    problem: BalanceProblem  # The rebalancing of the single key groups.
    unit_of: Indices  # (T,) unit of each key group, numbered by first member.
    size: Indices  # (U,) number of key groups of each.

    @classmethod
    def of(cls, problem: BalanceProblem, parts: Iterable[Indices]) -> Units:
        """Make each part one unit, and every other key group a unit of its own.

        `problem`: where members of a part are at home on one node.
        `parts`: disjoint.
        """
        # each unit is named by its first key group
        first = np.arange(problem.num_tasks)
        for part in parts:
            first[part] = part.min(initial=problem.num_tasks)
        unit_of, size = np.unique(first, return_inverse=True, return_counts=True)[1:]
        return cls(problem, unit_of.astype(np.int64), size.astype(np.int64))

    @property
    def num_units(self) -> int:
        """U."""
        return len(self.size)

    def merged(self, pins: Mapping[int, int] | None = None) -> BalanceProblem:
        """Return the rebalancing of the units.

        Loads, costs, resources and what is taken of budgets are added over the members; a unit may
        go where all its members may.

        `pins`: unit to the node it must be on.
        """
        problem = self.problem
        paid = np.where(problem.is_free, 0.0, 1.0)
        rows = self._allowed(pins or {})
        restricted, indptr, nodes = compressed(rows)
        single = self.num_units == problem.num_tasks
        return replace(
            problem,
            # rules of key groups are none of units: these cost what their paying members do
            counted=problem.counted if single else None,
            load=self._summed(problem.load),
            cost=self._summed(paid * problem.cost),
            home=self._first_of(problem.home),
            budgets=tuple(
                b._replace(weight=b.weight if single else self._summed(paid * b.weight))
                for b in problem.budgets
            ),
            usage=np.column_stack(
                [self._summed(problem.usage[:, e]) for e in range(problem.num_resources)]
                or [np.zeros((self.num_units, 0))]
            ),
            restricted=restricted,
            allowed_indptr=indptr,
            allowed_nodes=nodes,
        )

    def spread(self, placement: Ints) -> Ints:
        """Return the placement of the key groups that a placement of the units stands for."""
        return placement[self.unit_of]

    def _summed(self, values: Floats) -> Floats:
        return np.bincount(self.unit_of, values, self.num_units).astype(np.float64)

    def _first_of(self, values: Ints) -> Ints:
        first = np.unique(self.unit_of, return_index=True)[1]
        return values[first]

    def _allowed(self, pins: Mapping[int, int]) -> dict[int, Ints]:
        """Return the nodes of every unit that may not go everywhere, by unit."""
        problem = self.problem
        rows: dict[int, Ints] = {}
        for task, allowed in problem.allowed.items():
            unit, nodes = int(self.unit_of[task]), np.unique(allowed)
            rows[unit] = np.intersect1d(rows[unit], nodes) if unit in rows else nodes
        for unit, node in pins.items():
            rows[unit] = np.array([node], dtype=np.int64)
        return rows


# Step 2 of ALBIC, second half: sets too heavy or too costly to move are split.
#
# METIS partitions some key groups into balanced parts; graphs may be small and lopsided.
#
# Source: Karypis and Kumar, "Multilevel algorithms for multi-constraint graph partitioning", SC
# 1998, which both ALBIC and COLA name.

_MOST = 2**28  # Sums of integer weights stay below this, so that METIS's 32 bits hold them.


def balanced_parts(
    adjacency: csr_array[Any, tuple[int, int]],
    members: Indices,
    weight: Floats,
    num_parts: int,
    seed: int,
) -> list[Indices]:
    """Cut some key groups into parts of about even weight with little traffic between them.

    METIS may leave parts empty where few vertices are heavy; the key groups are then dealt out,
    heaviest first, each to the lightest part.

    `adjacency`: (T, T) symmetric pair rates.
    `weight`: (len(members),) their weights.
    `num_parts`: at least 2, at most as many as there are members.
    Returns `num_parts` parts, none empty, members in ascending order, by first member.
    """
    label = _metis(adjacency[members][:, members], weight, num_parts, seed)
    if len(np.unique(label)) < num_parts:
        label = _heaviest_to_lightest_part(weight, num_parts)
    parts = [members[label == k] for k in range(num_parts)]
    return sorted(parts, key=lambda part: int(part[0]))


def _metis(
    graph: csr_array[Any, tuple[int, int]], weight: Floats, num_parts: int, seed: int
) -> NDArray[np.int64]:
    import pymetis

    if num_parts == len(weight):
        return np.arange(num_parts)
    graph.sort_indices()
    # METIS takes integers of 32 bits
    rates = graph.data * (_MOST / max(float(graph.data.sum()), 1e-300))
    weights = weight * (_MOST / max(float(weight.sum()), 1e-300))
    with c_stdout_silenced():  # METIS complains there of bisections that leave a side empty
        partition = pymetis.part_graph(
            num_parts,
            pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices.astype(np.int32)),
            vweights=np.maximum(1, np.round(weights)).astype(np.int64),
            eweights=np.maximum(1, np.round(rates)).astype(np.int64),
            options=pymetis.Options(seed=seed),
            recursive=num_parts <= 8,  # as METIS advises
        )
    return np.array(partition.vertex_part, dtype=np.int64)


def _heaviest_to_lightest_part(weight: Floats, num_parts: int) -> NDArray[np.int64]:
    """Label each member, heaviest first, with the lightest part so far; none stays empty."""
    label = np.zeros(len(weight), dtype=np.int64)
    parts = [(0.0, 0, k) for k in range(num_parts)]
    for member in np.argsort(-weight, kind="stable").tolist():
        total, count, part = heapq.heappop(parts)
        label[member] = part
        heapq.heappush(parts, (total + float(weight[member]), count + 1, part))
    return label


@dataclass(frozen=True)
class PartLimits:
    """What a part must stay below, each with what a key group adds to it."""

    #: Pairs of (T,) amounts and their limit: migration cost, or 1 each for a budget of moves; 0
    #: where moves are free.
    costs: tuple[tuple[Floats, float], ...]
    load: Floats  # (T,) load of the balanced resource.
    max_load: float  # maxPL, same unit.

    @classmethod
    def of(cls, problem: BalanceProblem, max_load: float) -> PartLimits:
        """Derive the limits from the budgets of a problem."""
        free = problem.is_free
        costs = ((np.where(free, 0.0, b.weight), float(b.limit)) for b in problem.budgets)
        return cls(tuple(costs), problem.load, max_load)

    def tightest(self, members: Indices, rng: np.random.Generator) -> tuple[float, Floats]:
        """Return how full the tightest limit is, and the members' amounts in it.

        A part keeps its limits when that is less than 1. Ties between the limits are broken at
        random, as the paper does.
        """
        filled = []
        for amount, limit in (*self.costs, (self.load, self.max_load)):
            used = float(amount[members].sum())
            share = used / limit if limit > 0 else (math.inf if used > 0 else 0.0)
            filled.append((share, amount))
        most = max(share for share, _ in filled)
        tied = [amount for share, amount in filled if share == most]
        return most, tied[int(rng.integers(len(tied))) if len(tied) > 1 else 0][members]


def split_sets(
    instance: Instance, sets: Sequence[Indices], limits: PartLimits, rng: np.random.Generator
) -> list[Indices]:
    """Split each set until every part is one key group or stays below its limits.

    A set is cut into the fewest parts whose even share would stay below the tighter limit; parts
    that still break one are cut again.

    `instance`: for the traffic between the members.
    `sets`: from `heuristics.rebalancing.albic_sets.merge_pairs`.
    `limits`: what a part must stay below.
    `rng`: breaks ties.
    Returns parts; those of one key group are among them.
    """
    done: list[Indices] = []
    # a stack: parts of a set are looked at before the next set
    waiting = list(reversed(sets))
    while waiting:
        members = waiting.pop()
        share, weight = limits.tightest(members, rng)
        if len(members) == 1 or share < 1.0 - _ROUNDING:
            done.append(members)
            continue
        count = len(members)
        if math.isfinite(share):
            count = min(count, math.floor(share + _ROUNDING) + 1)
        seed = int(rng.integers(2**31))
        waiting += reversed(balanced_parts(instance.adjacency, members, weight, count, seed))
    return done
