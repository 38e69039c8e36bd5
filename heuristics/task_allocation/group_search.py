"""``imc-search`` on counts: constructions, settled and kicked; then the patterns met, by MILP.

A MILP over node contents says which of the patterns met so far make the best whole placement:
choose for every class of equal nodes as many patterns as it has nodes, so that every group is
placed exactly once: ``max Σ gain_p x_kp`` s.t. ``Σ_kp y_pg x_kp = size_g``, ``Σ_p x_kp ≤ nodes_k``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heuristics.task_allocation.groups import NO_RESTRICTION, grouped_job
from optim.kernels.deal import counts_of, deal
from optim.util.compiled import warming

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heuristics.task_allocation.incumbent import Incumbent
    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.kernels.classes import NodeClasses, TaskGroups

    Counts = NDArray[np.int64]


ROUNDS = 200
"""Kicks at effort 1."""

CHUNK = 50
"""Kicks between two looks at the clock."""

SHARES = (0.0, 0.25)
"""Scores of the pattern constructions: plain traffic, and traffic that stays with its tasks."""

STRENGTH = 2
"""Tasks that the smallest kick moves."""

STEPS = 5000
"""Branches tried at most when two nodes are re-optimised or a pattern is built."""

_POOL = 20_000


@dataclass(frozen=True, eq=False)
class CountProblem:
    """Plain arrays of an instance in counts; nodes are the usable ones, listed class by class.

    Attributes
    ----------
    size, load, rate
        (G,), (G, R), (G, G) as in `optim.kernels.classes.TaskGroups`.
    room, spare
        (N', R) what may be placed, and minus what must be.
    allowed
        (G, N'), or shape (0, 0) for everywhere.
    owner
        (N',) class of each node.
    """

    size: Counts
    load: Floats
    rate: Floats
    room: Floats
    spare: Floats
    allowed: Bools
    owner: Counts

    def gain(self, counts: Counts) -> Floats:
        """Traffic inside nodes with contents (…, G)."""
        y = counts.astype(np.float64)
        pairs = np.einsum("...g,gh,...h->...", y, self.rate, y)
        return np.asarray(0.5 * (pairs - y @ np.diag(self.rate)))


def count_problem(instance: Instance, groups: TaskGroups, classes: NodeClasses) -> CountProblem:
    """Derive the arrays."""
    owner = np.repeat(np.arange(classes.num_classes), classes.sizes)
    target = classes.target[groups.kind][:, owner]
    return CountProblem(
        size=groups.sizes.astype(np.int64),
        load=np.array(groups.load),
        rate=np.ascontiguousarray(groups.rates(instance)),
        room=np.ascontiguousarray(classes.room[owner]),
        spare=np.ascontiguousarray(-classes.floor[owner]),
        allowed=NO_RESTRICTION if target.all() else np.ascontiguousarray(target),
        owner=owner,
    )


def search_groups(
    instance: Instance, groups: TaskGroups, classes: NodeClasses, incumbent: Incumbent
) -> None:
    """Search on counts until the iteration limit or the time limit; results go to the incumbent."""
    incumbent.compiled(warm_up())
    problem = count_problem(instance, groups, classes)
    near = instance.tasks.node
    if incumbent.request.warm_start is not None:
        near = np.asarray(incumbent.request.warm_start, dtype=np.int32)
    starts = [
        counts_of(groups, classes, node, instance.num_nodes)
        for node in _starts(instance, incumbent)
    ]
    pool: list[Counts] = []
    shares = np.array(SHARES)
    rounds = round(ROUNDS * incumbent.request.options["effort"])
    for chunk in range(max(1, -(-rounds // CHUNK))):
        kicks = min(CHUNK, rounds - chunk * CHUNK)
        best, met = _search(problem, shares, starts, kicks, incumbent.request.seed + chunk)
        if best is None:  # no plan exists yet: repair a partial plan, and start from that
            repaired = _repaired(instance, incumbent)
            if repaired is None:
                return
            starts = [counts_of(groups, classes, repaired, instance.num_nodes)]
            best, met = _search(problem, shares, starts, kicks, incumbent.request.seed)
        if best is not None:
            pool.append(met)
            starts, shares = [best], np.zeros(0)
            if not incumbent.offer(deal(groups, classes, best, near)) and incumbent.node is None:
                break
        if incumbent.out_of_time:
            return
    _combine(problem, pool, groups, classes, near, incumbent)


def _search(
    problem: CountProblem, shares: Floats, starts: list[Counts], rounds: int, seed: int
) -> tuple[Counts | None, Counts]:
    """Return the best counts, ``None`` if no construction was complete, and the contents met."""
    from heuristics.task_allocation.count_search import search_counts

    num_nodes, num_groups = len(problem.room), len(problem.size)
    pool = np.full((_POOL, num_groups), -1, dtype=np.int64)
    table = np.array(starts, dtype=np.int64).reshape(-1, num_nodes, num_groups)
    total = 0.5 * float(problem.size @ problem.rate @ problem.size)
    _, best, index = search_counts(
        problem.size,
        problem.load,
        problem.rate,
        problem.room,
        problem.spare,
        problem.allowed,
        shares,
        table,
        max(0, rounds),
        STRENGTH,
        STEPS,
        1e-10 * total + 1e-300,
        seed,
        pool,
    )
    met = np.unique(pool[pool[:, 0] >= 0], axis=0)
    return (best if index >= 0 else None), met


def _starts(instance: Instance, incumbent: Incumbent) -> list[Ints]:
    """Return the feasible ones of: what was given, staying, topDown by both priorities."""
    from heuristics.task_allocation.top_down import place_groups

    job = grouped_job(instance)
    placed = [place_groups(job, priority) for priority in ("significance", "imc")]
    incumbent.partial = placed[0]
    found = []
    for node in [*incumbent.given_starts(), *placed]:
        if incumbent.acceptable(node) is not None:
            incumbent.offer(node)
            found.append(node)
    return found


def _repaired(instance: Instance, incumbent: Incumbent) -> Ints | None:
    """Repair what was given or topDown's partial plan; ``None`` when that fails."""
    from optim.kernels.repair import repair
    from optim.kernels.warm import warm_up as warm_up_repair

    began = time.perf_counter()
    warm_up_repair()
    incumbent.compiled(time.perf_counter() - began)
    candidates = [*incumbent.given_starts()]
    if incumbent.partial is not None:
        candidates.append(incumbent.partial)
    for node in candidates:
        mended = repair(instance, node)
        if mended.restored:
            incumbent.offer(mended.node)
            return mended.node
        incumbent.partial = mended.node
        incumbent.notes += mended.notes
    return None


def _combine(
    problem: CountProblem,
    pool: list[Counts],
    groups: TaskGroups,
    classes: NodeClasses,
    near: Ints,
    incumbent: Incumbent,
) -> None:
    """With a time limit: choose the best set of node contents out of all that were met."""
    remaining = incumbent.request.remaining()
    if remaining is None or remaining < 0.05 or not pool:
        return
    from heuristics.task_allocation.group_search import best_combination

    patterns = np.unique(np.concatenate(pool), axis=0)
    counts = best_combination(problem, patterns, 0.5 * remaining)
    if counts is None or not incumbent.offer(deal(groups, classes, counts, near)):
        return
    best, _ = _search(problem, np.zeros(0), [counts], CHUNK, incumbent.request.seed)
    if best is not None:
        incumbent.offer(deal(groups, classes, best, near))


def warm_up() -> float:
    """Compile the kernels, or load them from the cache; return the seconds it took."""
    began = time.perf_counter()
    _warm_up_once()
    return time.perf_counter() - began


@warming
def _warm_up_once() -> None:
    from heuristics.task_allocation.groups import tiny_job
    from heuristics.task_allocation.top_down import place_groups

    place_groups(tiny_job())
    problem = CountProblem(
        size=np.ones(2, dtype=np.int64),
        load=np.ones((2, 1)),
        rate=np.array([[0.0, 1.0], [1.0, 0.0]]),
        room=np.full((2, 1), 2.0),
        spare=np.full((2, 1), np.inf),
        allowed=NO_RESTRICTION,
        owner=np.zeros(2, dtype=np.int64),
    )
    _search(problem, np.array(SHARES), [], 1, 0)


MOST_PATTERNS = 4000
"""Patterns in the model; those with most gain a unit of load stay."""


def best_combination(problem: CountProblem, patterns: Counts, seconds: float) -> Counts | None:
    """Return (N', G) counts of the best combination found in the time; ``None`` for none.

    Parameters
    ----------
    problem
        Sizes, loads and room.
    patterns
        (P, G) different node contents.
    seconds
        Time limit of the solver.
    """
    from optim.solvers.inprocess import solve_small_milp
    from optim.solvers.linear_model import LinearModel

    gain = problem.gain(patterns)
    patterns, gain = _thinned(problem, patterns, gain)
    column_pattern, column_class = _columns(problem, patterns)
    if not len(column_pattern):
        return None
    nodes = np.bincount(problem.owner)
    bounded = np.isfinite(problem.spare[np.searchsorted(problem.owner, np.arange(len(nodes)))])
    model = LinearModel("patterns", sense="max")
    x = model.add_variables(
        "x",
        len(column_pattern),
        upper=nodes[column_class].astype(np.float64),
        integer=True,
        objective=gain[column_pattern],
    )
    where, group = np.nonzero(patterns[column_pattern])
    size = problem.size.astype(np.float64)
    amount = patterns[column_pattern][where, group].astype(np.float64)
    model.add_rows("placed", size, size, group, x.indices[where], amount, len(size))
    # a lower load bound makes an empty node impossible: then each needs a pattern
    least = np.where(bounded.any(axis=1), nodes, 0).astype(np.float64)
    model.add_rows(
        "nodes",
        least,
        nodes.astype(np.float64),
        column_class,
        x.indices,
        np.ones(len(column_pattern)),
        len(nodes),
    )
    answer = solve_small_milp(model, time_limit=seconds)
    if answer.x is None:
        return None
    chosen = np.round(answer.x).astype(np.int64)
    return _laid_out(problem, patterns, column_pattern, column_class, chosen)


def _thinned(
    problem: CountProblem, patterns: Counts, gain: NDArray[np.float64]
) -> tuple[Counts, NDArray[np.float64]]:
    """Keep the patterns of most gain a unit of load, at most `MOST_PATTERNS`."""
    load = patterns @ problem.load[:, 0]
    worth = gain / np.maximum(load, 1e-300)
    keep = np.sort(np.argsort(-worth, kind="stable")[:MOST_PATTERNS])
    return patterns[keep], gain[keep]


def _columns(problem: CountProblem, patterns: Counts) -> tuple[Counts, Counts]:
    """Pattern and node class of every column: each class takes the patterns that fit its nodes."""
    used = patterns @ problem.load
    which, owner = [], []
    for node_class in range(int(problem.owner.max(initial=-1)) + 1):
        node = int(np.searchsorted(problem.owner, node_class))
        fits = (used <= problem.room[node]).all(axis=1)
        fits &= (used >= -problem.spare[node]).all(axis=1)
        if len(problem.allowed):
            fits &= ~(patterns[:, ~problem.allowed[:, node]] > 0).any(axis=1)
        which.append(np.flatnonzero(fits))
        owner.append(np.full(int(fits.sum()), node_class))
    if not which:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return np.concatenate(which), np.concatenate(owner)


def _laid_out(
    problem: CountProblem,
    patterns: Counts,
    column_pattern: Counts,
    column_class: Counts,
    chosen: Counts,
) -> Counts:
    """(N', G) contents: the chosen patterns on the nodes of their classes, in order."""
    counts = np.zeros((len(problem.owner), len(problem.size)), dtype=np.int64)
    following = np.searchsorted(problem.owner, np.arange(problem.owner.max() + 1))
    for column in np.flatnonzero(chosen):
        for _ in range(chosen[column]):
            counts[following[column_class[column]]] = patterns[column_pattern[column]]
            following[column_class[column]] += 1
    return counts
