"""Parallelism and placement chosen together for a rate: see docs/scale.md.

Levels, one after the other: the fewest nodes (or the least price), the fewest tasks, the most
traffic inside nodes, the fewest moves. Counts of tasks (`scale_counts`) describe most instances,
and are searched and proved as such; every plan is judged by the referee from instance and plan.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.throughput.scale_bound import Boxes, BoxSearch, Offer, PartsBound
from formulations.throughput.scale_counts import Counts, anneal, counts_of, everywhere, plain_reason
from optim.errors import InvalidInput, Problem, RefereeRefused, StreamplaceError, meant
from optim.figures.measures import imc_gain_of, migrated_tasks, over
from optim.format.changes import add_nodes, new_names
from optim.format.instance import Instance
from optim.format.parallelism import (
    at_parallelism,
    bounds_of,
    key_groups_of,
    least_parallelism,
    shares,
    spoken_of,
    why_fixed,
)
from optim.format.plan import Plan
from optim.kernels.classes import matched
from optim.methods.solve import solve
from optim.referee import Termination, evaluate
from optim.rules import CAPACITY, LINKS, fewest_nodes, using_at_most
from optim.rules.placement import Placement
from optim.util.compiled import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.format.tables import Floats
    from optim.referee import Evaluation

Bounds = tuple[float | None, float | None, float | None]
"""Proven of cost, tasks and traffic inside, each among plans that are best on those before it."""

_STEPS = 60_000  # Moves of an annealing.
_PROGRAMS = 1_500  # Linear programs of the bound, for one cost of nodes.
_EACH_WORK, _LEAST_WORK = 40_000_000, 1_000_000
"""Work on one parallelism exactly; on the least, for each selection of nodes."""
_BOXES = 150_000_000.0  # Work on all parallelisms of nodes that are alike.
_FEW, _FEW_TASKS = 400, 24  # Parallelisms and tasks up to which each is tried exactly.
_CHUNK, _TRIES = 120, 2_000  # Further nodes of each kind; selections of nodes that are tried.
_MOST_NODES = 2_000
_UNBOUNDED = 1_000_000
_SECONDS, _MORE_NODES = 5.0, 4
"""For a solve of one parallelism, and nodes added, where counts do not describe the instance."""
_SAME = 1e-9


@dataclass(frozen=True)
class ScaleLevel:
    """One level: its figure, what the plan has of it, the proven bound, and whether they meet."""

    name: str
    value: float
    bound: float | None

    @property
    def proven(self) -> bool:
        """Whether no plan that is as good on the levels before is better here."""
        return self.bound is not None and abs(self.value - self.bound) <= 1e-6 * max(1, self.value)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"name": self.name, "value": self.value, "bound": self.bound, "proven": self.proven}


@dataclass(frozen=True)
class Scaling:
    """What carries a rate: the plan, its levels; or why there is none."""

    rate: float  # Multiple of the current input.
    #: Operator id to the least number of tasks that its threads need, by counting.
    least: Mapping[str, int]

    plan: Plan | None = None
    evaluation: Evaluation | None = None
    levels: tuple[ScaleLevel, ...] = ()
    infeasible: bool = False  # Whether it is proven that nothing carries the rate.
    notes: tuple[str, ...] = ()

    @property
    def parallelism(self) -> Mapping[str, int]:
        """Operator id to number of tasks."""
        if self.plan is None:
            return {}
        return self.plan.parallelism or self.plan.threads or {}

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        evaluation = self.evaluation
        return {
            "target_rate": self.rate,
            "feasible": self.plan is not None,
            "infeasible": self.infeasible,
            "parallelism": None if self.plan is None else dict(self.parallelism),
            "least_parallelism": dict(self.least),
            "nodes_used": None if evaluation is None else evaluation.nodes_used,
            "added_nodes": {} if self.plan is None else dict(self.plan.added_nodes),
            "levels": [level.to_dict() for level in self.levels],
            "plan": None if self.plan is None else self.plan.to_dict(),
            "evaluation": None if evaluation is None else evaluation.to_dict(),
            "notes": list(self.notes),
        }


def scale(instance: Instance, rate: float, *, like: str | None = None, seed: int = 0) -> Scaling:
    """Choose how many tasks each operator has, on how many nodes, and where.

    `instance`: with loads and rates at the current input.
    `rate`: multiple of the current input to be carried.
    `like`: id of the node that further nodes are like; of those with machine types the first of
        each, else the largest that stays, when left out.
    Raises `InvalidInput`: the rate is not between 0 and 1e9, nothing grows with the input, or an
        unknown node.
    """
    if not 0 < rate < 1e9:
        raise InvalidInput(Problem("--target-rate", rate, "must be above 0 and below 1e9"))
    if not instance.num_tasks and any(model is not None for model in instance.operators.model):
        return _by_models(instance, rate, seed)
    driven = list(instance.rate_driven)
    if not (instance.total_load[driven] > 0).any() and not instance.has_traffic:
        names = ", ".join(instance.resources[r] for r in driven)
        reason = f"has no load of {names} and no traffic: nothing grows with the input"
        raise InvalidInput(Problem("operators", None, reason, "give loads, or streams with rates"))
    like_nodes = _like_nodes(instance, like)
    ranges, reasons = ranges_of(instance, rate)
    least = {instance.operators.ids[o]: low for o, (low, _) in ranges.items()}
    reasons += _full_without_tasks(instance)
    if reasons:
        return Scaling(rate, least, infeasible=True, notes=tuple(reasons))
    return _Search(instance, rate, ranges, like_nodes, seed).run()


def _full_without_tasks(instance: Instance) -> Iterator[str]:
    """Yield the nodes and links that their background alone makes too full."""
    nowhere = Placement(instance, np.full(instance.num_tasks, -1, dtype=np.int32))
    for rule in (CAPACITY, LINKS):
        for breach in rule.violations(nowhere):
            needed, room = f"{breach.needed:.6g}", f"{breach.available:.6g}"
            yield f"{breach.where} has a background of {needed}, above the {room} that may be used"


def ranges_of(
    instance: Instance, rate: float
) -> tuple[dict[int, tuple[int, int | None]], list[str]]:
    """Return the least and greatest number of tasks of each operator, and why there are none.

    The least is by counting: no task may need more at the rate than one can use (`max_load`).
    """
    ranges: dict[int, tuple[int, int | None]] = {}
    reasons = []
    driven = list(instance.rate_driven)
    for o, name in enumerate(instance.operators.ids):
        tasks = instance.tasks_of(o)
        if not len(tasks):
            continue
        low, high = bounds_of(instance, o)
        declared_low = low
        fixed = why_fixed(instance, o)
        load = instance.tasks.load[tasks][:, driven]
        most = instance.tasks.max_load[tasks][:, driven].min(axis=0)
        groups = key_groups_of(instance, o)
        if fixed is not None:
            low, high = len(tasks), len(tasks)
            enough = bool((load * rate <= most * (1 + _SAME)).all())
        else:
            least = least_parallelism(_ratio(load.sum(axis=0) * rate, most), low, groups)
            low = least or 0
            enough = low > 0 and (high is None or low <= high)
        if not enough:
            needed = least_parallelism(_ratio(load.sum(axis=0) * rate, most), declared_low, None)
            explanation = f"may have {high}" if needed is not None else "one can use none"
            explanation = f"{fixed}, so that it keeps {len(tasks)}" if fixed else explanation
            needs = f"at least {needed}" if needed else "more than any number of"
            reasons.append(f"{name} needs {needs} tasks by its max_load, and {explanation}")
        ranges[o] = low or declared_low, high
        reasons += _needs_of_each(instance, o)
    return ranges, reasons


def _needs_of_each(instance: Instance, operator: int) -> Iterator[str]:
    """Yield resources of which a task needs more than it can use, whatever the number of tasks."""
    tasks = instance.tasks_of(operator)
    load, most = instance.tasks.load[tasks], instance.tasks.max_load[tasks]
    # as they are, and as of another number of tasks: the mean of each, within the least limit
    above = over(load, most).any(axis=0) & over(load.mean(axis=0), most.min(axis=0))
    for r in np.setdiff1d(np.flatnonzero(above), instance.rate_driven).tolist():
        name, needed = instance.operators.ids[operator], float(load[:, r].mean())
        yield (
            f"a task of {name} needs {needed:.6g} {instance.resources[r]}, where its max_load is "
            f"{float(most[:, r].min()):.6g}: other numbers of tasks do not change that"
        )


def _ratio(whole: Floats, most: Floats) -> float:
    """Return how many times what one task can use an operator needs; infinite where that is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(whole > 0, whole / most, 0.0).max(initial=0.0))


def _like_nodes(instance: Instance, like: str | None) -> list[str]:
    """Return the nodes that further ones are like."""
    nodes = instance.nodes
    if like is not None:
        if like not in nodes.index:
            reason = f"is not in {instance.name!r}"
            remedy = meant(like, list(nodes.ids), "there are")
            raise InvalidInput(Problem("--like", like, reason, remedy))
        return [like]
    if not instance.open_nodes.any():
        raise InvalidInput(Problem("nodes", None, "has none that stays", "name one that is like"))
    typed = [int(np.flatnonzero(nodes.vm_type == k)[0]) for k in np.unique(nodes.vm_type) if k >= 0]
    if typed:
        return [nodes.ids[n] for n in typed]
    room = np.where(instance.open_nodes, instance.headroom[:, 0], -np.inf)
    return [nodes.ids[int(room.argmax())]]


class _Search:
    """The search of one rate, and what it knows to be impossible."""

    def __init__(
        self, instance: Instance, rate: float, ranges: Any, like_nodes: list[str], seed: int
    ) -> None:
        self.instance, self.rate, self.seed, self.like_nodes = instance, rate, seed, like_nodes
        self.operators = list(ranges)
        self.low = np.array([low for low, _ in ranges.values()], dtype=np.int64)
        self.high = np.array([high or _UNBOUNDED for _, high in ranges.values()], dtype=np.int64)
        self.priced = bool((instance.nodes.vm_type >= 0).any())
        self.groups = [key_groups_of(instance, o) or 0 for o in self.operators]
        self.present = set(instance.nodes.ids)
        self.notes: list[str] = []
        self.impossible = False
        few = fewest_nodes(instance)
        self.most_nodes = _MOST_NODES if few is None else few.limit

    def run(self) -> Scaling:
        """Search, prove what can be proved, and judge."""
        ids = [self.instance.operators.ids[o] for o in self.operators]
        least = dict(zip(ids, self.low.tolist(), strict=True))
        reason = plain_reason(self.instance) if everywhere(self.instance) else "lists allowed nodes"
        if reason is None:
            plan_and_bounds = self._by_counts()
        else:
            self.notes.append(f"the instance {reason}: each parallelism is solved by itself")
            plan_and_bounds = self._by_methods()
        if plan_and_bounds is None:
            return Scaling(self.rate, least, infeasible=self.impossible, notes=tuple(self.notes))
        return self._judged(least, *plan_and_bounds)

    def cost_of(self, instance: Instance) -> Floats:
        """(N,) cost of each node in use: its price, or 1."""
        if not self.priced:
            return np.ones(instance.num_nodes)
        price = np.array([*(vm.price for vm in instance.vm_types), 0.0])
        return np.asarray(price[instance.nodes.vm_type])

    def pool(self, count: int) -> tuple[Instance, dict[str, str]]:
        """Return the instance with so many further nodes like each, and their names."""
        document, added = self.instance.to_dict(), dict[str, str]()
        for like in self.like_nodes:
            names = new_names(self.instance, like, count)
            add_nodes(document, like, names)
            added |= dict.fromkeys(names, like)
        return (Instance.from_dict(document) if added else self.instance), added

    # -- by counts ---------------------------------------------------------------------------

    def _by_counts(self) -> tuple[Plan, Bounds] | None:
        vectors = float(np.prod((self.high - self.low + 1).astype(float)))
        if vectors <= _FEW and self.high.sum() <= _FEW_TASKS:
            return self._by_all()
        return self._by_nodes()

    def _counts(self, further: int) -> tuple[Counts, list[str]]:
        """Return the counts on nodes that stay, the cheapest and largest first, and their names."""
        instance, added = self.pool(further)
        counts = counts_of(instance, self.rate, self.cost_of(instance))
        home = self.instance.tasks.node[self.instance.tasks.node >= 0]
        used = np.bincount(home, minlength=instance.num_nodes) > 0
        fresh = np.array([name in added for name in instance.nodes.ids])
        size = np.where(np.isfinite(counts.room[:, 0]), counts.room[:, 0], 1e300)
        order = np.lexsort((np.arange(len(fresh)), fresh, ~used, -size, counts.cost))
        order = order[instance.open_nodes[order]]
        counts = counts.only(order)._replace(low=self.low, high=self.high)
        return counts, [instance.nodes.ids[n] for n in order.tolist()]

    def _by_all(self) -> tuple[Plan, Bounds] | None:
        """Try every parallelism, each exactly: no more nodes than tasks are of use."""
        pool, names = self._counts(min(self.most_nodes, int(self.high.sum())))
        spans = [range(low, high + 1) for low, high in zip(self.low, self.high, strict=True)]
        best: Any = None
        unknown = False
        for one in sorted(itertools.product(*spans), key=lambda n: (sum(n), n)):
            n = np.array(one, dtype=np.int64)
            placed = self._exact(pool, n)
            unknown = unknown or placed is False
            if placed and (best is None or (placed[0], sum(one), -placed[1]) < best[0]):
                best = ((placed[0], sum(one), -placed[1]), n, placed[2])
        if best is None:
            self.impossible = not unknown
            return None
        (cost, tasks, gain), n, counts = best
        levels = (None, None, None) if unknown else (cost, float(tasks), -gain)
        return self._plan(pool, n, counts, names), levels

    def _exact(self, counts: Counts, n: Any, work: int = _EACH_WORK) -> Any:
        """Place so many tasks of each operator exactly: as `Counts.best`, of kinds of tasks."""
        left_out = len(counts.cost) - self.most_nodes
        if left_out > 0 and _alike(counts):
            counts = counts.only(np.arange(self.most_nodes))
        kinds, sizes = counts.exact(n)
        placed = kinds.best(sizes, work, self.most_nodes)
        if not placed or len(placed[2]) > self.most_nodes:
            return placed
        return *placed[:2], np.pad(placed[2], ((0, max(left_out, 0)), (0, 0)))

    def _by_nodes(self) -> tuple[Plan, Bounds] | None:
        """Search for the fewest nodes that carry the rate: from the least not refuted upwards."""
        pool, names = self._counts(_CHUNK)
        bound = PartsBound(pool, self._offers(pool, names), _PROGRAMS)
        refuted, open_, alike = 0.0, False, len(bound.boxes) == 1
        for tried, chosen in enumerate(self._selections(pool)):
            if tried > _TRIES:
                break
            if len(chosen) > self.most_nodes:
                continue
            part = pool.only(chosen)
            cost = float(part.cost.sum())
            if not open_ and cost > refuted * (1 + _SAME):
                bound.programs = 0
                if bound.lacks(cost, self.low) or bound.refutes(cost * (1 + _SAME)):
                    refuted = cost
                    continue
                open_ = True
            if not _enough(part):
                continue
            by_name = [names[v] for v in chosen]
            boxed = None
            if alike:  # the search of the numbers of tasks is a proof, too
                boxed = self._boxed(part)
                if boxed.least == np.inf:
                    refuted, open_ = cost, False
                    continue
                if boxed.tasks is not None:
                    return self._plan_of_boxes(part, by_name, boxed, self._next(pool, refuted))
            fewest = self._exact(part, self.low, _LEAST_WORK)
            if fewest:
                bounds = (self._next(pool, refuted), float(self.low.sum()), None)
                return self._plan(part, self.low, fewest[2], by_name), bounds
            annealed = self._annealed(part)
            if annealed is not None:
                return self._fewer(part, by_name, annealed, self._next(pool, refuted), boxed)
        return None

    def _boxed(self, part: Counts, most: int | None = None) -> Boxes:
        """Search all parallelisms of no more than so many tasks on these nodes."""
        most = int(self.high.sum()) if most is None else most
        return BoxSearch(part, self.low, np.minimum(self.high, most), _BOXES).search(most)

    def _plan_of_boxes(
        self, part: Counts, names: list[str], boxes: Boxes, cost: float
    ) -> tuple[Plan, Bounds]:
        """Return the plan of a search of nodes that are alike, and what it proves."""
        whole = boxes.whole and boxes.tasks.sum() == boxes.least
        bounds = (cost, float(boxes.least), boxes.gain if whole else None)
        return self._plan(part, boxes.tasks, boxes.counts, names), bounds

    def _next(self, pool: Counts, refuted: float) -> float:
        """Return the least cost above one that is refuted: none below it carries the rate."""
        if not self.priced:
            return refuted + 1.0
        costs = (float(pool.cost[one].sum()) for one in self._selections(pool))
        # where nothing is refuted yet, nodes without a price may do
        return next(cost for cost in costs if cost > refuted * (1 + _SAME) or not refuted)

    def _offers(self, pool: Counts, names: list[str]) -> list[Offer]:
        """Return the classes of nodes; of those that may be added there are any number."""
        keys = pool.priced_keys()
        fresh = {key for key, name in zip(keys, names, strict=True) if name not in self.present}
        return [
            Offer(pool.room[v], pool.link[v], float(pool.cost[v]),
                  np.inf if key in fresh else float(keys.count(key)))
            for key in dict.fromkeys(keys)
            for v in [keys.index(key)]
        ]  # fmt: skip

    def _selections(self, pool: Counts) -> Iterator[Any]:
        """Yield nodes to use, in order of their cost; of equal cost the largest first."""
        if not self.priced:
            size = np.where(np.isfinite(pool.room[:, 0]), pool.room[:, 0], 1e300)
            order = np.argsort(-size, kind="stable")
            yield from (order[:k] for k in range(1, len(order) + 1))
            return
        kinds = np.column_stack([pool.cost, pool.room, pool.link])
        _, first, kind = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        price, places = pool.cost[first], [np.flatnonzero(kind == k) for k in range(len(first))]
        # numbers of nodes of each kind, least cost first: each successor has one node more
        heap, seen = [(0.0, tuple([0] * len(first)))], {tuple([0] * len(first))}
        while heap:
            _, number = heapq.heappop(heap)
            if any(number):
                yield np.concatenate([at[:k] for at, k in zip(places, number, strict=True)])
            for i in range(len(number)):
                more = (*number[:i], number[i] + 1, *number[i + 1 :])
                if more not in seen and more[i] <= len(places[i]):
                    seen.add(more)
                    total = sum(p * k for p, k in zip(price.tolist(), more, strict=True))
                    heapq.heappush(heap, (total, more))

    def _annealed(self, part: Counts) -> Any:
        """Return (V, O) counts that carry the rate on all of these nodes, if any are found."""
        best, random = None, seeded(self.seed)
        for start in self._starts(part):
            annealed = np.zeros_like(start)
            excess = anneal(part, start, _STEPS, random, annealed)
            if excess <= 0 and (best is None or annealed.sum() < best.sum()):
                best = annealed
        return best

    def _starts(self, part: Counts) -> Iterator[Any]:
        """Yield counts to begin with: a task on each node, of all operators or but of the light."""
        nodes = len(part.cost)
        with np.errstate(divide="ignore", invalid="ignore"):
            loads = part.load / part.room.min(axis=0)
        weight = np.nan_to_num(loads).max(axis=1) + (part.rate + part.rate.T).sum(axis=1) / max(
            float(part.rate.sum()), 1e-300
        )
        for light in (0.0, 0.1, 0.3, np.inf):
            start = np.zeros((nodes, len(self.low)), dtype=np.int64)
            for o in range(len(self.low)):
                most = self.low[o] if weight[o] <= light else nodes
                np.add.at(
                    start[:, o], np.arange(int(np.clip(most, self.low[o], self.high[o]))) % nodes, 1
                )
            yield start

    def _fewer(
        self, part: Counts, names: list[str], annealed: Any, cost: float, boxed: Boxes | None
    ) -> tuple[Plan, Bounds]:
        """Lower, or place best, the number of tasks found by annealing."""
        # `boxed` is what is known of nodes that are alike; of others other nodes of the same cost
        # may take fewer tasks
        n = annealed.sum(axis=0)
        tasks = float(self.low.sum() if boxed is None else min(boxed.least, int(n.sum())))
        if boxed is None:
            fewer = self._boxed(part, int(n.sum()))
            if fewer.tasks is not None:
                plan, _ = self._plan_of_boxes(part, names, fewer, cost)
                return plan, (cost, tasks, None)
        exact = self._exact(part, n)
        if not exact:
            return self._plan(part, n, annealed, names, by_operator=True), (cost, tasks, None)
        return self._plan(part, n, exact[2], names), (cost, tasks, None)

    def _plan(
        self, part: Counts, n: Any, counts: Any, names: list[str], *, by_operator: bool = False
    ) -> Plan:
        """Write counts as a plan in which most tasks stay, with no node that is not used."""
        ids = [self.instance.operators.ids[o] for o in self.operators]
        parallelism = dict(zip(ids, n.tolist(), strict=True))
        scaled = at_parallelism(self.instance, parallelism)
        groups: list[Any] = []
        for o, size in zip(self.operators, n.tolist(), strict=True):
            tasks = scaled.tasks_of(o)
            share = shares(size, self.groups[self.operators.index(o)] or None)
            groups += [tasks] if by_operator else [tasks[share == s] for s in np.unique(share)]
        places = {name: v for v, name in enumerate(names)}
        home = np.array([
            places.get(self.instance.nodes.ids[v], -1) if v >= 0 else -1
            for v in scaled.tasks.node.tolist()
        ])  # fmt: skip
        # nodes that are alike may exchange their contents: so that most tasks stay where they are
        before = np.zeros_like(counts)
        for g, tasks in enumerate(groups):
            np.add.at(before[:, g], home[tasks][home[tasks] >= 0], 1)
        keys = part.priced_keys()
        placed = counts.copy()
        for key in dict.fromkeys(keys):
            same_key = np.array([v for v, other in enumerate(keys) if other == key])
            placed[same_key] = counts[same_key][matched(counts[same_key], before[same_key])]
            # none is added while one like it, that is there, stays empty
            empty = same_key[~placed[same_key].any(axis=1)]
            free = [v for v in empty.tolist() if names[v] in self.present]
            fresh = [
                v for v in same_key.tolist() if names[v] not in self.present and v not in empty
            ]
            for here, there in zip(free, fresh, strict=False):
                placed[[here, there]] = placed[[there, here]]
        assignment: dict[str, str] = {}
        for g, tasks in enumerate(groups):
            # a task stays while its node wants one of its kind; the rest fills what is still wanted
            quota, left = placed[:, g].copy(), []
            for t in tasks.tolist():
                if home[t] >= 0 and quota[home[t]] > 0:
                    quota[home[t]] -= 1
                    assignment[scaled.tasks.ids[t]] = names[home[t]]
                else:
                    left.append(t)
            for t, v in zip(left, np.repeat(np.arange(len(names)), quota).tolist(), strict=True):
                assignment[scaled.tasks.ids[t]] = names[v]
        return self.written(parallelism, assignment)

    def written(self, parallelism: dict[str, int], assignment: dict[str, str]) -> Plan:
        """Return the plan; nodes that it adds are numbered anew, and none is there in vain."""
        fresh = sorted(set(assignment.values()) - self.present, key=_numbered)
        added: dict[str, str] = {}
        renamed: dict[str, str] = {}
        for like in self.like_nodes:
            fresh_like = [name for name in fresh if name.rpartition("-new")[0] == like]
            new = new_names(self.instance, like, len(fresh_like))
            renamed |= dict(zip(fresh_like, new, strict=True))
            added |= dict.fromkeys(new, like)
        order = at_parallelism(self.instance, parallelism).tasks.ids
        return Plan(
            self.instance.name,
            {task: renamed.get(assignment[task], assignment[task]) for task in order},
            parallelism=parallelism, added_nodes=added, target_rate=self.rate, method="scale",
            claimed_instance_sha256=self.instance.sha256,
        )  # fmt: skip

    # -- the verdict -------------------------------------------------------------------------

    def _judged(self, least: dict[str, int], plan: Plan, bounds: Bounds) -> Scaling:
        """Have the referee judge the plan, and compare with what is proved."""
        evaluation = evaluate(self.instance, plan)
        if not evaluation.feasible:
            raise RefereeRefused(f"scale: the referee refused the plan: {evaluation.violations[0]}")
        scaled, plain = spoken_of(self.instance, plan)
        node = plain.node_indices(scaled)
        cost = float(self.cost_of(scaled)[np.unique(node)].sum())
        moves = len(migrated_tasks(scaled, node))
        least_moves = 0.0 if not moves else None
        values = (cost, float(scaled.num_tasks), imc_gain_of(scaled, node), float(moves))
        names = ("price" if self.priced else "nodes_used", "tasks", "imc_gain", "migrations")
        levels = tuple(
            ScaleLevel(name, value, bound)
            for name, value, bound in zip(names, values, (*bounds, least_moves), strict=True)
        )
        return Scaling(self.rate, least, plan, evaluation, levels, notes=tuple(self.notes))

    # -- by methods: what counts do not describe ---------------------------------------------

    def _by_methods(self) -> tuple[Plan, Bounds] | None:
        """Solve a few parallelisms, each by itself, for the fewest nodes and then most inside.

        Of nodes with prices the present ones are tried first; nothing is proved of a price, as the
        methods count nodes.
        """
        whole = bool((self.low == self.high).all())
        best = self._cheapest(0) if self.priced else None
        best = self._cheapest(_MORE_NODES) if best is None else best
        if best is None:
            return None
        parallelism, scaled, result = best
        used, tasks = len(set(result.plan.assignment.values())), scaled.num_tasks
        inner = solve(
            using_at_most(scaled, used), objective="imc_gain", target_rate=self.rate,
            seed=self.seed, time_limit=_SECONDS, repair=True,
        )  # fmt: skip
        plan = result.plan
        if inner.plan is not None and inner.feasible:
            dearer = self._cost_of_plan(scaled, inner.plan) > self._cost_of_plan(scaled, plan)
            plan = plan if dearer else inner.plan
        bound = result.bound if whole and not self.priced else None
        fewest = bound is not None and bound == used
        return self.written(parallelism, dict(plan.assignment)), (
            bound, float(tasks) if whole else None, inner.bound if fewest else None,
        )  # fmt: skip

    def _cheapest(self, further: int) -> Any:
        """Return the cheapest plan found, with its parallelism and instance, if there is any.

        `further`: nodes of each kind that may be added at least, where any may; as many as tasks
            do.
        """
        ids = [self.instance.operators.ids[o] for o in self.operators]
        whole = bool((self.low == self.high).all())
        best: Any = None
        for n in self._candidates():
            parallelism = dict(zip(ids, n, strict=True))
            pool, _ = self.pool(min(self.most_nodes, max(further, sum(n))) if further else 0)
            try:
                scaled = at_parallelism(pool, parallelism)
                result = solve(
                    scaled, objective="nodes_used", target_rate=self.rate, seed=self.seed,
                    time_limit=_SECONDS,
                )  # fmt: skip
            except StreamplaceError as error:
                self.notes.append(f"{parallelism}: {error}")
                continue
            if result.plan is None:
                none = result.termination is Termination.INFEASIBLE
                self.impossible = whole and none and bool(further)
                continue
            cost = self._cost_of_plan(scaled, result.plan)
            if best is None or (cost, sum(n)) < best[0]:
                best = (cost, sum(n)), (parallelism, scaled, result)
        return None if best is None else best[1]

    def _cost_of_plan(self, instance: Instance, plan: Plan) -> float:
        """Cost of the nodes that a plan uses."""
        node = plan.node_indices(instance)
        return float(self.cost_of(instance)[np.unique(node[node >= 0])].sum())

    def _candidates(self) -> Iterator[list[int]]:
        """Yield numbers of tasks worth a solve: the least, today's, and multiples of both."""
        now = self.instance.operators.num_tasks[self.operators]
        seen = set()
        # on the way from today's numbers to those that the rate multiplies
        grown = [np.ceil(now * (1 + (self.rate - 1) * k / 4)).astype(int) for k in (1, 2, 3, 4)]
        bases: list[Any] = [self.low, now, *(self.low * k for k in (2, 3, 4)), *grown]
        for base in bases:
            n = self._tied(np.clip(base, self.low, self.high))
            if n is not None and tuple(n) not in seen:
                seen.add(tuple(n))
                yield n

    def _tied(self, n: Any) -> list[int] | None:
        """Give operators whose streams are one to one the same number."""
        number = {o: int(x) for o, x in zip(self.operators, n, strict=True)}
        pairs = [(s.source, s.target) for s in self.instance.streams if s.pattern == "one_to_one"]
        for _ in pairs:
            for a, b in pairs:
                number[a] = number[b] = max(number[a], number[b])
        bounds = zip(number.values(), self.high.tolist(), strict=True)
        return list(number.values()) if all(x <= high for x, high in bounds) else None


def _numbered(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-new")
    return head, int(number) if number.isdigit() else 0


def _alike(part: Counts) -> bool:
    """Whether all nodes are of one class."""
    return all(bool((x == x[0]).all()) for x in (part.room, part.link, part.cost[:, None]))


def _enough(part: Counts) -> bool:
    """Whether nodes have room for all load, at the least numbers of tasks: by adding up."""
    need = part.load.sum(axis=0) + part.low @ part.each
    return bool((need <= part.room.sum(axis=0) * (1 + _SAME)).all())


def _by_models(instance: Instance, rate: float, seed: int) -> Scaling:
    """Scale operators with performance models: threads and machines by the model-driven methods."""
    if not instance.input_rate:
        reason = "is not given, or 0: no threads can be planned"
        raise InvalidInput(Problem("input_rate", instance.input_rate, reason, "set it above 0"))
    more = instance.replace(input_rate=instance.input_rate * rate)
    result = solve(more, seed=seed)
    if result.plan is None:
        none = result.termination is Termination.INFEASIBLE
        return Scaling(rate, {}, infeasible=none, notes=tuple(result.notes))
    plan = replace(result.plan, _instance=None, claimed_instance_sha256=more.sha256)
    objective = result.objective
    levels = () if objective is None or objective.value is None else (
        ScaleLevel(objective.name, float(objective.value), result.bound),
    )  # fmt: skip
    return Scaling(rate, {}, plan, result.evaluation, levels, notes=tuple(result.notes))
