"""A bound on the traffic inside nodes where executors are too unlike to list what a node may hold.

Two executors exchange at most ρ × load × load', with one ρ for each two components. So a node holds
no more traffic than a quadratic form of the loads that it holds of each component, whose greatest
value over what fits is found face by face. Prices on the components' loads tie the nodes together.
The argument is in ``docs/proofs/density-bound.md``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from optim.solvers.inprocess import solve_lp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.storm.problem import StormProblem
    from optim.format.instance import Instance

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


MOST_COMPONENTS = 10
"""Components that are distinguished: their subsets are looked at one by one."""

_STEPS, _CLOSE = 100, 1e-6
"""Steps of the search for prices, and the part of all traffic that a further one must promise."""
_SPREAD, _SLACK, _ROUNDING = 1e-9, 1e-7, 1e-6
"""Added to densities so that no system is singular; by how much a point may lie outside a face;
what is added to the bound, as a part of all traffic, for doubles."""


@dataclass(frozen=True, eq=False)
class Densities:
    """The relaxation for one resource; traffic is a part of all traffic, load a part of all load.

    Attributes
    ----------
    density
        (C, C) most traffic of two executors for each load of one and of the other.
    loads
        (C,) load of each component.
    room, nodes
        (K,) load that a node of each class has room for; how many nodes there are of it.
    """

    density: Floats
    loads: Floats
    room: Floats
    nodes: Floats


def density_bound(instance: Instance, problem: StormProblem, seconds: float) -> float | None:
    """Return traffic that no placement has more of inside nodes; ``None`` where nothing is known.

    Parameters
    ----------
    problem
        Classes of nodes and topologies are read; its classes of executors need not be few.
    seconds
        Of the wall clock; whenever they are over, there is a bound.
    """
    total, ends = instance.total_traffic, time.perf_counter() + seconds
    best = np.inf
    for resource in range(instance.num_resources):
        relaxed = densities(instance, problem, resource)
        if relaxed is not None and (best == np.inf or time.perf_counter() < ends):
            best = min(best, priced(relaxed, ends) + _ROUNDING)
    return None if best >= 1.0 else best * total


def densities(instance: Instance, problem: StormProblem, resource: int) -> Densities | None:
    """Return the relaxation for a resource; ``None`` where it bounds nothing."""
    load, room = instance.tasks.load[:, resource], problem.classes.room[:, resource]
    whole, traffic = float(load.sum()), instance.total_traffic
    if traffic <= 0.0 or not (load > 0.0).all() or not np.isfinite(room).all():
        return None
    of = _components(instance, problem)
    u, v, rate = instance.pairs
    density = np.zeros((int(of.max()) + 1,) * 2)
    share = (rate / traffic) / (load[u] / whole) / (load[v] / whole)
    for a, b in ((of[u], of[v]), (of[v], of[u])):
        np.maximum.at(density, (a, b), share)
    return Densities(
        density,
        np.bincount(of, weights=load / whole).astype(np.float64),
        np.maximum(0.0, room) / whole,
        problem.classes.sizes.astype(np.float64),
    )


def _components(instance: Instance, problem: StormProblem) -> Integers:
    """(T,) component of each executor; the smallest ones are one where there are too many."""
    keys = np.column_stack([problem.job[problem.groups.group], instance.tasks.operator])
    of = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(-np.bincount(of), kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.minimum(np.arange(len(order)), MOST_COMPONENTS - 1)
    return rank[of]


def priced(relaxed: Densities, ends: float) -> float:
    """Return the least bound that prices of a column generation give, as a part of all traffic."""
    kinds, parts = len(relaxed.nodes), len(relaxed.loads)
    spread = _SPREAD * max(1.0, float(relaxed.density.max()))
    # any numbers above 0 do; these are of no pattern
    odd = np.sqrt(2.0 + np.arange(parts * parts)).reshape(parts, parts) % 1.0
    density = relaxed.density + spread * (odd + odd.T)
    price = np.zeros(parts)
    held: list[list[Floats]] = [[] for _ in range(kinds)]
    best = np.inf
    # a face whose system is nearly singular may be missed by as much as was added to densities
    missed = 10.0 * spread * float(relaxed.nodes @ relaxed.room**2)
    for _ in range(_STEPS):
        bound = float(price @ relaxed.loads) + missed
        for k in range(kinds):
            try:
                value, points = _fullest(density, price, float(relaxed.room[k]))
            except np.linalg.LinAlgError:  # a face was not looked at: no bound
                return best
            bound += float(relaxed.nodes[k]) * value
            held[k] += points
        best = min(best, bound)
        if time.perf_counter() > ends:
            break
        answer = _master(relaxed, density, held)
        if answer is None or best - answer[0] < _CLOSE:
            break
        price = answer[1]
    return best


def _fullest(density: Floats, price: Floats, room: float) -> tuple[float, list[Floats]]:
    """Return the most that a node is worth at these prices, and loads that come near to it."""
    worth, points = [0.0], [np.zeros(len(price))]
    for found in _stationary(density, price, room):
        inside = (found >= -_SLACK * room).all(axis=1) & (found.sum(axis=1) <= room * (1 + _SLACK))
        for q in found[inside]:
            worth.append(float(0.5 * q @ density @ q - price @ q))
            points.append(np.maximum(q, 0.0))
    order = np.argsort(worth)[::-1]
    return worth[int(order[0])], [points[i] for i in order[:5].tolist()]


def _stationary(density: Floats, price: Floats, room: float) -> Iterator[Floats]:
    """Yield (M, C) stationary points of all faces of the loads that fit, of one dimension each."""
    parts = len(price)
    for size in range(1, parts + 1):
        faces = np.array(list(combinations(range(parts), size)))
        form = density[faces[:, :, None], faces[:, None, :]]
        bordered = np.zeros((len(faces), size + 1, size + 1))
        bordered[:, :size, :size] = form
        bordered[:, size, :size] = bordered[:, :size, size] = 1.0
        right = np.concatenate([price[faces], np.full((len(faces), 1), room)], axis=1)
        rows = np.arange(len(faces))[:, None]
        for matrix, side in ((form, price[faces]), (bordered, right)):
            points = np.zeros((len(faces), parts))
            points[rows, faces] = np.linalg.solve(matrix, side[:, :, None])[:, :size, 0]
            yield points


def _master(
    relaxed: Densities, density: Floats, held: list[list[Floats]]
) -> tuple[float, Floats] | None:
    """Solve the linear program over some loads; what it places wrongly costs all traffic."""
    points = np.array([q for some in held for q in some])
    kinds, parts = len(held), len(relaxed.loads)
    of = np.repeat(np.arange(kinds), [len(some) for some in held])
    wrong = np.diag(relaxed.loads)
    placed = np.hstack([points.T, wrong, -wrong])
    whole = np.hstack([of[None, :] == np.arange(kinds)[:, None], np.zeros((kinds, 2 * parts))])
    gain = 0.5 * np.einsum("pi,ij,pj->p", points, density, points)
    cost = np.concatenate([-gain, np.ones(2 * parts)])
    answer = solve_lp(
        cost, np.vstack([placed, whole]), np.concatenate([relaxed.loads, np.full(kinds, -np.inf)]),
        np.concatenate([relaxed.loads, relaxed.nodes]), np.zeros(len(cost)),
        np.full(len(cost), np.inf),
    )  # fmt: skip
    if answer.objective is None or answer.row_duals is None:
        return None
    return -answer.objective, -answer.row_duals[:parts]
