"""Bytes that a rebalancing of Kafka copies, beside Cruise Control's goals worked through greedily.

Paired: each cluster is balanced by Cruise Control's goals, and what that reached is then asked of
our plan at least: the load distance of disk, and the highest utilisation of every other resource
and number of replicas. Clusters are those of the open benchmark (`cluster_of`).

Goals come one after the other; an action of a later goal is only taken where every earlier goal
accepts it. Hard goals are rack awareness and capacities; the soft ones bring replicas, disk,
network and CPU of every broker within a margin of the mean utilisation, worst broker first, by
changes of leaders where these help, by moves of the largest replicas to the emptiest brokers, and
by swaps last. Written from the published order and names of the goals
(`ResourceDistributionGoal`, `ReplicaDistributionGoal`, `LeaderReplicaDistributionGoal`), without a
look at their code; the margins are ours. Goals about
topics (`TopicReplicaDistributionGoal`, `MinTopicLeadersPerBrokerGoal`) only add moves: left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.studies.bench.cases import cluster_of
from experiments.studies.timings.registry import spend, value_of
from formulations.rebalancing.balance.search import warm_up
from optim import solve
from optim.format.instance import Instance
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.kafka.cluster import COUNT, LEADERS, Cluster, Operation
from streamplace.clusters.kafka.model import document_of

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Goal = tuple[int, Floats, Floats]

RESOURCES = ("disk", "nw_in", "nw_out", "cpu")
THRESHOLD = {"disk": 0.8, "nw_in": 0.8, "nw_out": 0.8, "cpu": 0.7}
"""Shares of a capacity that may be used (`*.capacity.threshold`)."""
BALANCE = 0.1 * 0.9
"""How far from the mean a broker may be: `*.balance.threshold` 1.10, less the margin of 0.9."""
PASSES = 5  # Passes over the brokers for one goal.
PUBLISHED = (COUNT, "disk", "nw_in", "nw_out", "cpu", LEADERS)  # Soft goals in their order.
GOALS = {"the published order": PUBLISHED, "disk alone": ("disk",)}


@dataclass
class State:
    """Replica lists while the goals change them; the first of a list leads."""

    cluster: Cluster
    lists: list[list[int]] = field(init=False)  # brokers of each partition, by index
    load: Floats = field(init=False)  # (B, K) load of the brokers: `RESOURCES`, replicas, leaders

    def __post_init__(self) -> None:
        cluster = self.cluster
        names = (*RESOURCES, COUNT, LEADERS)
        self.column = {name: k for k, name in enumerate(names)}
        number = {broker: i for i, broker in enumerate(cluster.brokers)}
        self.rack = [broker.rack for broker in cluster.brokers.values()]
        self.most = np.array(
            [[b.capacity[r] * THRESHOLD[r] for r in RESOURCES] for b in cluster.brokers.values()]
        )
        # replicas and leaders are balanced by number: every broker counts as one
        whole = np.array([[b.capacity[r] for r in RESOURCES] for b in cluster.brokers.values()])
        self.capacity = np.hstack([whole, np.ones((len(whole), 2))])
        self.leads = np.array([[p.load(r, True) for r in names] for p in cluster.partitions])
        self.follows = np.array([[p.load(r, False) for r in names] for p in cluster.partitions])
        self.size = np.array([p.size or 0.0 for p in cluster.partitions])
        self.lists = []
        self.load = np.zeros((len(number), len(names)))
        self.on: list[dict[int, None]] = [{} for _ in number]
        for p, partition in enumerate(cluster.partitions):
            first = partition.leader
            # the leader first, as Kafka lists the preferred one
            order = [first] if first is not None else []
            order += [b for b in partition.replicas if b != first]
            self.lists.append([number[b] for b in order])
            for i, b in enumerate(self.lists[p]):
                self.load[b] += self.share(p, i)
                self.on[b][p] = None
        self.before = [list(brokers) for brokers in self.lists]

    def share(self, p: int, i: int) -> Floats:
        """(K,) load of the i-th replica of a partition."""
        chosen: Floats = self.follows[p] if i else self.leads[p]
        return chosen

    def utilisation(self, column: int) -> Floats:
        """(B,) load by capacity."""
        return self.load[:, column] / self.capacity[:, column]

    def fits_racks(self, p: int, target: int, without: int) -> bool:
        """Whether a replica may come to a broker, when the one on `without` leaves."""
        # no two replicas on a broker, none on a rack that has one already
        others = [b for b in self.lists[p] if b != without]
        return target not in others and self.rack[target] not in {self.rack[b] for b in others}

    def move(self, p: int, source: int, target: int) -> None:
        """Move a replica."""
        i = self.lists[p].index(source)
        self.lists[p][i] = target
        self.load[source] -= self.share(p, i)
        self.load[target] += self.share(p, i)
        del self.on[source][p]
        self.on[target][p] = None

    def lead(self, p: int, target: int) -> None:
        """Let another replica lead."""
        lists = self.lists[p]
        i, change = lists.index(target), self.leads[p] - self.follows[p]
        self.load[lists[0]] -= change
        self.load[target] += change
        lists[0], lists[i] = target, lists[0]

    def copied(self) -> float:
        """Bytes that come onto brokers which did not hold their partition."""
        return float(
            sum(
                size * len(set(after) - set(before))
                for size, after, before in zip(self.size, self.lists, self.before, strict=True)
            )
        )


class Goals:
    """The soft goals that hold so far, and the one that is being worked on."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.reached: list[Goal] = []

    def limits(self, name: str) -> Goal:
        """Return a goal's column, and the least and most load of each broker."""
        state, k = self.state, self.state.column[name]
        total = state.load[:, k].sum() / state.capacity[:, k].sum()
        low, high = total * (1 - BALANCE), total * (1 + BALANCE)
        if name in (COUNT, LEADERS):
            # a mean of 3.4 replicas allows 3 and 4
            low, high = math.floor(low), math.ceil(high)
        return k, low * state.capacity[:, k], high * state.capacity[:, k]

    def accepts(self, source: int, target: int, change: Floats) -> bool:
        """Whether hard goals and soft ones reached so far take `change` from source to target."""
        state, width = self.state, len(RESOURCES)
        after, source_after = state.load[target] + change, state.load[source] - change
        # hard: no capacity is passed by what grows; what is above already may shrink
        for b, new, grows in ((target, after, change > 0), (source, source_after, change < 0)):
            if (grows[:width] & (new[:width] > state.most[b] * (1 + 1e-12))).any():
                return False
        return all(
            self.balances(goal, source, target, float(change[goal[0]])) for goal in self.reached
        )

    def balances(self, goal: Goal, source: int, target: int, change: float) -> bool:
        """Whether both brokers end within a goal's limits, or nearer to each other than before."""
        k, low, high = goal
        if not change:
            return True
        load, capacity = self.state.load[:, k], self.state.capacity[:, k]
        ends = ((target, load[target] + change), (source, load[source] - change))
        if all(low[b] <= x <= high[b] for b, x in ends):
            return True
        if all(low[b] <= load[b] <= high[b] for b in (source, target)):
            return False
        # outside of the limits, an action may go on if it brings the two nearer
        before = abs(load[target] / capacity[target] - load[source] / capacity[source])
        return bool(abs(ends[0][1] / capacity[target] - ends[1][1] / capacity[source]) < before)

    def work(self, name: str) -> None:
        """Bring the brokers within the limits of a goal, as far as that goes."""
        goal = self.limits(name)
        k, low, high = goal
        for _ in range(PASSES):
            # worst first: the fullest is relieved, then the emptiest filled
            by_load = np.argsort(-self.state.utilisation(k), kind="stable").tolist()
            acted = False
            for b in by_load:
                # an action at a time, as each changes what is accepted next
                while self.state.load[b, k] > high[b] and self._act(name, goal, b, lower=True):
                    acted = True
            for b in reversed(by_load):
                while self.state.load[b, k] < low[b] and self._act(name, goal, b, lower=False):
                    acted = True
            if not acted:
                break
        self.reached.append(goal)

    def _act(self, name: str, goal: Goal, b: int, *, lower: bool) -> bool:
        """Take one action that brings load off a broker, or onto it."""
        use = self.state.utilisation(goal[0])
        order = np.argsort(use if lower else -use, kind="stable").tolist()
        others = [one for one in order if one != b]
        ends = ([b], others) if lower else (others, [b])
        leads = name in ("nw_out", "cpu", LEADERS)
        if leads and self._move_leadership(goal, ends[0], None if lower else b):
            return True
        if name == LEADERS:
            return False
        return self._move(goal, *ends) or (lower and name != COUNT and self._swap(goal, b, others))

    def _replicas(self, k: int, b: int) -> Iterator[tuple[int, Floats]]:
        """Replicas on a broker, those of most load first."""
        state = self.state
        shares = {p: state.share(p, state.lists[p].index(b)) for p in state.on[b]}
        for p in sorted(shares, key=lambda p: (-shares[p][k], p)):
            yield p, shares[p]

    def _accepts_move(self, goal: Goal, source: int, target: int, share: Floats) -> bool:
        """Whether a move is the goal's own and accepted: neither end leaves its limits by it."""
        k, low, high = goal
        load = self.state.load
        if share[k] <= 0 or load[target, k] + share[k] > high[target]:
            return False
        if load[source, k] - share[k] < low[source]:
            return False
        return self.accepts(source, target, share)

    def _move(self, goal: Goal, sources: list[int], targets: list[int]) -> bool:
        for source in sources:
            for p, share in self._replicas(goal[0], source):
                for target in targets:
                    if not self._accepts_move(goal, source, target, share):
                        continue
                    if self.state.fits_racks(p, target, source):
                        self.state.move(p, source, target)
                        return True
        return False

    def _move_leadership(self, goal: Goal, sources: list[int], target: int | None) -> bool:
        state = self.state
        for source in sources:
            for p, _ in self._replicas(goal[0], source):
                if state.lists[p][0] != source:
                    continue
                change = state.leads[p] - state.follows[p]
                for b in state.lists[p][1:]:
                    if target in (None, b) and self._accepts_move(goal, source, b, change):
                        state.lead(p, b)
                        return True
        return False

    def _swap(self, goal: Goal, b: int, targets: list[int]) -> bool:
        """Give a large replica for a smaller one."""
        state, k = self.state, goal[0]
        for target in targets:
            # targets come in order of load: no emptier one follows
            if state.utilisation(k)[target] >= state.utilisation(k)[b]:
                break
            smaller = list(self._replicas(k, target))[::-1]
            for p, share in self._replicas(k, b):
                if not state.fits_racks(p, target, b):
                    continue
                for q, other in smaller:
                    if other[k] >= share[k]:
                        break
                    if q == p or not self._accepts_move(goal, b, target, share - other):
                        continue
                    if state.fits_racks(q, b, target):
                        state.move(p, b, target)
                        state.move(q, target, b)
                        return True
        return False


def optimise(cluster: Cluster, goals: tuple[str, ...] = PUBLISHED) -> State:
    """Work through the goals; the cluster's racks and capacities hold before it begins."""
    state = State(cluster)
    working = Goals(state)
    for name in goals:
        working.work(name)
    return state


def as_even(cluster: Cluster, state: State, whole: bool) -> Instance:
    """Return the instance in which no broker may be used more than Cruise Control left it."""
    document = document_of(cluster, Operation(), "disk", Ledger())
    used = {r: state.utilisation(k) for k, r in enumerate(RESOURCES)}
    counts = state.load[:, state.column[COUNT]]
    # 1e-9: their own balance must fit in spite of rounding
    limit = {r: float(u.max()) * (1 + 1e-9) for r, u in used.items()}
    for node in document["nodes"]:
        if whole:
            node["max_tasks"] = int(counts.max())
        for r in RESOURCES:
            most = limit[r] if whole and r != "disk" else 0.8
            node["capacity"][r] *= most
    return Instance.from_dict(document)


def pair(goals: str, seed: int) -> dict[str, Any] | None:
    """Return what both copy, bytes, for the same balance; ``None`` where Cruise Control finds
    nothing to do. Where our plan copies more, theirs counts as ours.
    """
    warm_up()
    cluster = cluster_of(seed)
    state = optimise(cluster, GOALS[goals])
    cruise_control = state.copied()
    if not cruise_control:
        return None
    instance = as_even(cluster, state, GOALS[goals] == PUBLISHED)
    weight, mean = instance.nodes.weight, instance.mean_load or 0.0
    # load distance: the farthest of a broker's load from its share of the mean
    reached = float(np.abs(state.load[:, 0] - weight * mean).max())
    limited = replace(instance, limits=replace(instance.limits, max_load_distance=reached))
    run = spend(solve, limited, "balance-search", objective="migration_cost", seed=seed)
    ours = value_of(run.value) if run.value.feasible else None
    fewest = cruise_control if ours is None else min(ours, cruise_control)
    return {
        "goals": goals, "seed": seed, "replicas": instance.num_tasks, "theirs": cruise_control,
        "ours": ours, "distance": 100.0 * reached / mean, "seconds": run.wall,
        "saving": 100.0 * (1.0 - fewest / cruise_control),
        "possible": 100.0 * (1.0 - float(run.value.bound or 0.0) / cruise_control),
    }  # fmt: skip
