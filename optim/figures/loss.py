"""What a placement still carries when any one node is lost.

The tasks of the lost node start again elsewhere, the others stay. They are put one by one, the
heaviest first, each on the node where the fullest rate-driven resource is least full with it, by
the loads alone: among nodes that stay, that it may use, and where the resources that do not grow
with the rate and `max_tasks` leave room. Traffic is not looked at when they are put, nor are
sets, slots and budgets of moves; what crosses nodes and links afterwards counts in full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.figure import Figure
from optim.figures.placement import Placement
from optim.figures.rate import without_measured
from optim.util.tolerance import slack

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints


def heaviest_first(instance: Instance) -> Ints:
    """(T,) tasks by the greatest share that one has of a rate-driven resource's load."""
    driven = list(instance.rate_driven)
    load, total = instance.tasks.load[:, driven], instance.total_load[driven]
    share = np.divide(load, total, out=np.zeros_like(load), where=total > 0).max(axis=1)
    return np.asarray(np.argsort(-np.round(share, 12), kind="stable"))


def spare_room(instance: Instance) -> Floats:
    """(N, R) headroom; with the tolerance where the rate does not drive a resource."""
    room = instance.headroom + slack(instance.nodes.capacity * instance.limits.max_utilisation)
    driven = list(instance.rate_driven)
    room[:, driven] = np.maximum(instance.headroom[:, driven], 0.0)
    return np.asarray(room)


def after_loss(instance: Instance, node: Ints, lost: int) -> Ints | None:
    """Return the placement after the loss of a node; ``None`` where a task finds no place."""
    return restarted(instance, np.where(node == lost, -1, node), lost)


def restarted(instance: Instance, node: Ints, lost: int = -1) -> Ints | None:
    """Return the placement whose tasks without a node have started again; ``None`` as above.

    Parameters
    ----------
    lost
        A node that holds none of them.
    """
    at, driven = np.array(node, dtype=np.int32), list(instance.rate_driven)
    count, room, placed = instance.num_nodes, spare_room(instance), node >= 0
    others = np.setdiff1d(np.arange(instance.num_resources), driven)
    used = np.stack(
        [np.bincount(at[placed], load, count) for load in instance.tasks.load[placed].T], axis=1
    )
    held = np.bincount(at[placed], minlength=count)
    most = np.where(instance.nodes.max_tasks >= 0, instance.nodes.max_tasks, np.inf)
    staying = instance.open_nodes & (np.arange(count) != lost)
    order = heaviest_first(instance)
    for t in order[~placed[order]].tolist():
        with_it = used + instance.tasks.load[t]
        fits = staying & instance.allowed_mask(t) & (held < most)
        fits &= (with_it[:, others] <= room[:, others]).all(axis=1)
        if not fits.any():
            return None
        need = with_it[:, driven]
        share = np.where(need > 0, np.inf, 0.0)
        np.divide(need, room[:, driven], out=share, where=(need > 0) & (room[:, driven] > 0))
        n = int(np.argmin(np.where(fits, np.round(share.max(axis=1), 9), np.inf)))
        n = n if fits[n] else int(np.argmax(fits))
        at[t] = n
        used[n], held[n] = with_it[n], held[n] + 1
    return at


def _worst(placement: Placement) -> float | None:
    instance, node = placement.instance, placement.node
    if not len(node) or node.min() < 0:
        return None
    worst = np.inf
    for lost in range(instance.num_nodes):
        after = after_loss(instance, node, lost) if placement.used[lost] else node
        if after is None:
            return 0.0
        worst = min(worst, Placement(instance, after).rate)
    return float(worst) if np.isfinite(worst) else None


RATE_AFTER_LOSS = Figure(
    "rate_after_loss",
    "rate after a loss",
    "sustainable rate that is left whichever single node is lost: its tasks start again, the "
    "heaviest first, each where the loads leave it most room, the others stay; 0 where one finds "
    "no place. Reckoned only where it is what is optimised",
    "multiple",
    _worst,
    sense="max",
    of_staying=True,
    hard=without_measured,
    costly=True,
)
