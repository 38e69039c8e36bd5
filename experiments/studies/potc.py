"""``potc``, the power of two choices, as a policy: no method, since it splits key groups.

Source: Nasir et al., "The power of both choices", ICDE 2015, as in Madsen, Zhou, Cao 2016, sections
2.2 and 5.2.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optim.plugins import Option
from streamplace.policies.nodes import Deployment
from streamplace.policies.planners import Planner
from streamplace.policies.policy import Planned, PolicyFactory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from streamplace.policies.nodes import Integers
    from streamplace.policies.planners import Memory

_SWEEPS = 20
_CHUNK = 4_000_000


@dataclass(frozen=True)
class Potc(Planner):
    """The power of two choices: splits every key group over two hashed nodes, so it is no method.

    Every key group has two candidate nodes by two hash functions; senders send each tuple to the
    less loaded one. What they believe is taken to be true, and tuples to be small, which flatters
    PoTC: the loads settle where no key group gains by sending more to its other node. Each window
    the two partial states are merged on a third node by hash, a load that cannot be balanced.
    """

    seed: int = 0  # of the hash functions; the same in every period
    merge: float = 0.1  # load of merging, as a share of a key group's load
    scales: bool = True

    def plan(self, instance: Instance, memory: Memory, seed: int, now: float) -> Planned:
        """Hash over the nodes there are; budgets do not bind it."""
        return Planned(deploy(instance, self.seed, self.merge), "routing", None)

    def meets(self, instance: Instance, deployment: Deployment) -> Deployment:
        """Follow the loads: every tuple is routed anew."""
        return deploy(instance, self.seed, self.merge)


def candidates(instance: Instance, seed: int) -> tuple[Integers, Integers]:
    """Return (T, 2) candidate nodes and (T,) merging nodes by rendezvous hashing.

    Only staying nodes a key group may be on are candidates, or leaving ones where it may be on no
    other; one that may be on a single node has it twice. Changing the set of nodes moves only the
    key groups of the nodes that came or went.
    """
    names, tasks = instance.nodes.ids, instance.num_tasks
    salts = [_salts(names, f"{seed}/{what}") for what in ("candidate", "merge")]
    restricted = set(instance.tasks.restricted.tolist())
    two = np.empty((tasks, 2), dtype=np.int64)
    merge = np.empty(tasks, dtype=np.int64)
    # in blocks of rows: all (T, N) scores of a large job at once would fill the memory
    step = max(1, _CHUNK // max(1, len(names)))
    for start in range(0, tasks, step):
        rows = np.arange(start, min(tasks, start + step))
        mask = np.tile(instance.open_nodes, (len(rows), 1))
        for place, task in enumerate(rows.tolist()):
            if task in restricted:
                allowed = instance.allowed_mask(task)
                mask[place] = allowed & (instance.open_nodes | ~instance.has_open_node[task])
        score = np.where(mask, _scores(rows, salts[0]), 0)
        order = np.argsort(score, axis=1, kind="stable")[:, ::-1]
        second = np.where(mask.sum(axis=1) > 1, order[:, min(1, len(names) - 1)], order[:, 0])
        two[rows] = np.column_stack([order[:, 0], second])
        merge[rows] = np.where(instance.open_nodes, _scores(rows, salts[1]), 0).argmax(axis=1)
    return two, merge


def split_loads(instance: Instance, places: Integers, background: Floats) -> Floats:
    """(T,) share of each key group at its first place when senders even out what they see.

    Key groups in turn divide their load so that their two nodes stand equally high (load by
    weight), as far as one key group can; twenty rounds of that.
    """
    load, weight = instance.tasks.load[:, 0], instance.nodes.weight.tolist()
    share = np.where(places[:, 0] == places[:, 1], 1.0, 0.5)
    height = background + np.bincount(
        places.ravel(), np.column_stack([share * load, (1 - share) * load]).ravel(), len(weight)
    )
    nodes, loads, shares = height.tolist(), load.tolist(), share.tolist()
    split = [(k, a, b) for k, (a, b) in enumerate(places.tolist()) if a != b and loads[k] > 0]
    for _ in range(_SWEEPS):
        for k, a, b in split:
            here = shares[k] * loads[k]
            rest_a, rest_b = nodes[a] - here, nodes[b] - (loads[k] - here)
            # h_a / w_a = h_b / w_b with what is not k's: k's part at a is cut to [0, load]
            level = (rest_a + rest_b + loads[k]) / (weight[a] + weight[b])
            part = min(1.0, max(0.0, (level * weight[a] - rest_a) / loads[k]))
            shares[k] = part
            nodes[a] = rest_a + part * loads[k]
            nodes[b] = rest_b + (1.0 - part) * loads[k]
    return np.array(shares)


def merge_loads(instance: Instance, places: Integers, merge: Integers, factor: float) -> Floats:
    """(N,) load of merging: `factor` of the load of each split key group that has a state.

    A key group whose state is given as 0 has nothing to merge.
    """
    split = (places[:, 0] != places[:, 1]) & (instance.tasks.state != 0)
    amounts = factor * instance.tasks.load[split, 0]
    return np.bincount(merge[split], amounts, instance.num_nodes).astype(np.float64)


def deploy(instance: Instance, seed: int, factor: float) -> Deployment:
    """Return what PoTC makes of the loads of an instance."""
    places, merge = candidates(instance, seed)
    share = split_loads(instance, places, instance.nodes.background[:, 0].copy())
    return Deployment(places, share, merge_loads(instance, places, merge, factor))


def _salts(names: tuple[str, ...], salt: str) -> NDArray[np.uint64]:
    digests = [hashlib.sha256(f"{salt}/{name}".encode()).digest()[:8] for name in names]
    return np.array([int.from_bytes(d, "little") for d in digests], dtype=np.uint64)


def _scores(tasks: Integers, salts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(len(tasks), N) one well-mixed number a pair (the finaliser of splitmix64), never 0."""
    mixed = tasks.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + salts[None, :]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    # never 0, the score of a node that is not allowed
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


POTC = PolicyFactory(
    "potc",
    "splits every key group over two hashed nodes (partial key grouping)",
    lambda options, seed, _: Potc(seed, **options),
    (Option("merge", "float", 0.1, "load of merging, share of a key group's load", minimum=0.0),),
)
