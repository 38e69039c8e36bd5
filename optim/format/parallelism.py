"""Another parallelism: the instance in which operators have other numbers of tasks.

What an operator does stays: its load of the resources that the input drives, its state and its
streams are split over its new tasks. Other resources (slots, memory of a thread) are of each task.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, meant
from optim.format.changes import add_nodes
from optim.format.instance import Instance
from optim.format.traffic import point_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optim.format.plan import Plan
    from optim.format.tables import Floats

    Document = dict[str, Any]

_MOST_PAIRS = 5_000_000
_SAME = 1e-9
_OF_A_TASK = ("node", "slot", "labels", "allowed", "copies")
"""What a task keeps of its own; an operator whose number changes has no lists that differ."""


def shares(tasks: int, key_groups: int | None = None) -> Floats:
    """Return (tasks,) what part of an operator each task has.

    Of key groups a task has whole ones, as Flink deals ranges of them: ⌊K / n⌋ or ⌈K / n⌉.

    Examples
    --------
    >>> shares(4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> float(shares(85, 128).max()) == 2 / 128, int((shares(85, 128) > 1 / 85).sum())
    (True, 43)
    """
    if key_groups is None:
        return np.full(tasks, 1.0 / tasks)
    ends = -(-np.arange(tasks + 1, dtype=np.int64) * key_groups // tasks)  # ⌈i K / n⌉
    return np.diff(ends) / key_groups


def largest_share(tasks: int, key_groups: int | None = None) -> float:
    """Return the part of an operator that its fullest task has."""
    return 1.0 / tasks if key_groups is None else -(-key_groups // tasks) / key_groups


def smallest_share(tasks: int, key_groups: int | None = None) -> float:
    """Return the part of an operator that its emptiest task has."""
    return 1.0 / tasks if key_groups is None else (key_groups // tasks) / key_groups


def least_parallelism(ratio: float, low: int, groups: int | None) -> int | None:
    """Return the least number of tasks whose fullest uses no more than it can; `None` if none is.

    `ratio`: the load of the whole operator over what one task can use.
    `low`: the least number that counts.
    `groups`: key groups of which a task has whole ones; ``None`` for even parts.
    """
    if not math.isfinite(ratio):
        return None
    # 1e-9 less, so that rounding of the quotient adds no task
    count = max(low, 1, math.ceil(ratio * (1 - _SAME)))
    if groups is None:
        return count
    while count <= groups and largest_share(count, groups) * ratio > 1 + _SAME:
        count += 1
    return count if count <= groups else None


def key_groups_of(instance: Instance, operator: int) -> int | None:
    """Return the key groups of an operator, if it says how many."""
    groups = int(instance.operators.key_groups[operator])
    return groups if groups > 0 else None


def bounds_of(instance: Instance, operator: int) -> tuple[int, int | None]:
    """Return the least and the greatest number of tasks that an operator may have."""
    table = instance.operators
    highest = [int(x[operator]) for x in (table.max_parallelism, table.key_groups)]
    return max(1, int(table.min_parallelism[operator])), min(
        (x for x in highest if x > 0), default=None
    )


def why_fixed(instance: Instance, operator: int) -> str | None:
    """Return why the number of tasks of an operator cannot be another; ``None`` where it can."""
    tasks, table = instance.tasks_of(operator), instance.tasks
    if not len(tasks):
        return "has no tasks"
    if np.isin(tasks, table.copied).any():
        return "has tasks with copies"
    for sets in (instance.sets, instance.slot_sets):
        for i in np.flatnonzero(sets.by_operator < 0).tolist():
            if np.isin(tasks, sets.tasks_of(i)).any():
                return f"has tasks that the set {sets.ids[i]} lists"
    masks = {_places(instance, int(t)) for t in tasks}
    return None if len(masks) == 1 else "has tasks that may be on different nodes"


def at_parallelism(
    instance: Instance, parallelism: Mapping[str, int], added: Mapping[str, str] | None = None
) -> Instance:
    """Return the instance whose operators have other numbers of tasks, and that has further nodes.

    Tasks keep ids and current nodes in the order of their numbers; further ones are ``op/i``.
    An operator of which nothing changes stays as it was measured.

    `parallelism`: operator id to number of tasks.
    `added`: ids of nodes that are added, each with that of the node it is like.
    Raises `InvalidInput`: an unknown operator or node, a number out of bounds, or tasks that are
        not alike.
    """
    _check(instance, parallelism, added or {})
    document = instance.to_dict()
    for like in dict.fromkeys((added or {}).values()):
        add_nodes(document, like, [name for name, of in (added or {}).items() if of == like])
    index = instance.operators.index
    changed = {
        index[name]: n for name, n in parallelism.items() if _changes(instance, index[name], n)
    }
    if changed:
        _Change(instance, document, changed).apply()
    return Instance.from_dict(document)


def spoken_of(instance: Instance, plan: Plan) -> tuple[Instance, Plan]:
    """Return the instance that a plan speaks of, at its parallelism and with the nodes it adds.

    And the plan as one of that instance, without what chooses it.

    Raises `InvalidInput`: the plan is another instance's, or as of `at_parallelism`.
    """
    if plan.parallelism is None:
        return instance, plan
    if plan.instance_sha256 not in (None, instance.sha256):
        reason = f"is another instance's; {instance.name!r} has {instance.sha256}"
        remedy = "use the instance the plan was made for, or make a new plan"
        raise InvalidInput(Problem("instance_sha256", plan.instance_sha256, reason, remedy))
    scaled = at_parallelism(instance, plan.parallelism, plan.added_nodes)
    plain = replace(
        plan, parallelism=None, added_nodes={}, target_rate=None, claimed_instance_sha256=None
    )
    return scaled, plain


def _places(instance: Instance, task: int) -> bytes:
    return instance.allowed_mask(task).tobytes()


def _changes(instance: Instance, operator: int, tasks: int) -> bool:
    """Whether an operator is another with so many tasks; one without skew takes that of its key
    groups.
    """
    if tasks != len(instance.tasks_of(operator)):
        return True
    groups = key_groups_of(instance, operator)
    load = instance.tasks.load[instance.tasks_of(operator)]
    return bool(groups and groups % tasks and np.allclose(load, load[0], rtol=1e-9, atol=0.0))


def _check(instance: Instance, parallelism: Mapping[str, int], added: Mapping[str, str]) -> None:
    problems = []
    for name, n in parallelism.items():
        path = f"parallelism.{name}"
        if name not in instance.operators.index:
            remedy = meant(name, list(instance.operators.ids), "there are")
            problems.append(Problem(path, n, "is not the id of an operator", remedy))
            continue
        operator = instance.operators.index[name]
        least, most = bounds_of(instance, operator)
        if n < least or (most is not None and n > most):
            bound = f"at least {least}" if n < least else f"at most {most}"
            remedy = "change its bounds (min_parallelism, max_parallelism, key_groups)"
            problems.append(Problem(path, n, f"must be {bound}", remedy))
        elif n != len(instance.tasks_of(operator)) and (reason := why_fixed(instance, operator)):
            remedy = f"leave it at {len(instance.tasks_of(operator))}"
            problems.append(Problem(path, n, f"cannot be chosen: {name} {reason}", remedy))
    for name, like in added.items():
        if like not in instance.nodes.index or name in instance.nodes.index:
            wrong = "is a node already" if name in instance.nodes.index else f"is like {like!r}"
            remedy = "give new nodes an id of their own, each like a node of the instance"
            problems.append(Problem(f"added_nodes.{name}", like, wrong, remedy))
    if problems:
        raise InvalidInput(problems)


class _Change:
    """Operators of a document while their numbers of tasks change."""

    def __init__(self, instance: Instance, document: Document, changed: dict[int, int]) -> None:
        self.instance, self.document, self.changed = instance, document, changed
        sizes = [int(n) for n in instance.operators.num_tasks]
        self.sizes = [changed.get(o, n) for o, n in enumerate(sizes)]
        self.weights = {o: shares(n, key_groups_of(instance, o)) for o, n in changed.items()}
        self.ids = {o: self._ids(o, n) for o, n in changed.items()}

    def apply(self) -> None:
        """Write tasks, streams and traffic of the changed operators."""
        rewritten = {int(t) for o in self.changed for t in self.instance.tasks_of(o)}
        names = {self.instance.tasks.ids[t] for t in rewritten}
        entries = {e["id"]: e for e in self.document.get("tasks", [])}
        task_entries = [e for name, e in entries.items() if name not in names]
        for o in self.changed:
            task_entries += self._tasks(o, entries)
        self.document["tasks"] = task_entries
        self._check_one_to_one()
        self._traffic()

    def _ids(self, o: int, n: int) -> list[str]:
        names = [self.instance.tasks.ids[t] for t in self.instance.tasks_of(o)]
        head, taken, number = self.instance.operators.ids[o], set(self.instance.tasks.index), 0
        if self.instance.operators.group_tasks[o] >= 0:
            return [f"{head}/{i}" for i in range(n)]
        while len(names) < n:
            if (name := f"{head}/{number}") not in taken:
                names.append(name)
            number += 1
        return names[:n]

    def _tasks(self, o: int, entries: dict[str, Document]) -> list[Document]:
        """Return the tasks of an operator, each with its share; its group is written anew."""
        instance, n, share = self.instance, self.changed[o], self.weights[o]
        tasks, table = instance.tasks_of(o), instance.tasks
        driven = np.isin(np.arange(instance.num_resources), instance.rate_driven)
        whole, each = table.load[tasks].sum(axis=0), table.load[tasks].mean(axis=0)
        cost, state = table.given_cost[tasks], table.state[tasks]
        operator = self.document["operators"][o]
        group = operator.get("group")
        even = group is not None and bool((share == share[0]).all())
        if group is not None:
            load = np.where(driven, whole, each * n)
            names = dict(zip(instance.resources, load.tolist(), strict=True))
            group["tasks"] = n
            group["load"] = {r: x for r, x in names.items() if x or r in group.get("load", {})}
            group.pop("state", None)
            if not np.isnan(state).any():
                group["state"] = float(state.sum())
        limits = table.max_load[tasks].min(axis=0)
        shown = {
            r: x for r, x in zip(instance.resources, limits.tolist(), strict=True) if np.isfinite(x)
        }
        places = next(
            (e["allowed"] for t in tasks if "allowed" in (e := entries.get(table.ids[t], {}))), None
        )
        task_entries = []
        for i, name in enumerate(self.ids[o]):
            old = entries.get(name, {}) if i < len(tasks) else {}
            entry: Document = {k: v for k, v in old.items() if k in _OF_A_TASK}
            if not even:
                load = np.where(driven, whole * share[i], each)
                entry["load"] = dict(zip(instance.resources, load.tolist(), strict=True))
                if not np.isnan(state).any():
                    entry["state"] = float(state.sum() * share[i])
            if not np.isnan(cost).any():
                entry["migration_cost"] = float(cost.sum() * share[i])
            if places is not None and i >= len(tasks):
                entry["allowed"] = places
            if group is None:
                entry["operator"] = instance.operators.ids[o]
            if shown and limits.tolist() != self._inherited_limits(o):
                entry["max_load"] = shown
            if entry or group is None:
                task_entries.append({"id": name, **entry})
        return task_entries

    def _inherited_limits(self, o: int) -> list[float]:
        """Return what one task can use by its operator and group alone."""
        table = self.instance.operators
        both = np.where(
            np.isfinite(table.group_max_load[o]), table.group_max_load[o], table.max_load[o]
        )
        return list(both.tolist())

    def _check_one_to_one(self) -> None:
        names = self.instance.operators.ids
        for s in self.instance.streams:
            a, b = self.sizes[s.source], self.sizes[s.target]
            if s.pattern == "one_to_one" and a != b:
                reason = f"must be that of {names[s.source]}, {a}: their stream is one to one"
                remedy = "give both the same, or the stream another pattern"
                raise InvalidInput(Problem(f"parallelism.{names[s.target]}", b, reason, remedy))

    def _traffic(self) -> None:
        """Write what the changed operators send and receive: as streams, or, of uneven shares,
        as pairs.
        """
        table, operator = self.instance.traffic, self.instance.tasks.operator
        touched = np.isin(operator, list(self.changed))
        between = touched[table.source] | touched[table.target]
        unchanged = np.flatnonzero(~between).tolist()
        listed = self.document.get("traffic", [])
        pairs = [listed[i] for i in unchanged]
        totals: dict[tuple[int, int], float] = {}
        for i in np.flatnonzero(between).tolist():
            u, v = (self._end(int(t)) for t in (table.source[i], table.target[i]))
            totals[u, v] = totals.get((u, v), 0.0) + float(table.rate[i])
        patterns = {(s.source, s.target): s for s in self.instance.streams}
        rates = {
            ends: s.rate
            for ends, s in patterns.items()
            if not s.replaced and any(end in self.changed for end in ends)
        }
        for stream in self.document.get("streams", []):
            o = self.instance.operators.index[stream["from"]]
            if o in self.changed and stream.pop("sender_weights", None):
                stream["sender_weights"] = self.weights[o].tolist()
        for (u, v), rate in {**rates, **totals}.items():
            if u == v:
                # of an even spread over n tasks 1 / n stays within a task, and is no traffic
                whole = rate / (1 - 1 / len(self.instance.tasks_of(u)))
                pairs += [p for p in self._pairs(u, u, whole, "full") if p[0] != p[1]]
                continue
            declared = patterns.get((u, v))
            if declared is not None and declared.pattern == "local_first" and not declared.replaced:
                continue
            uneven = any(
                o in self.weights and self.weights[o].min() < self.weights[o].max() for o in (u, v)
            )
            if not uneven and declared is not None and not declared.replaced:
                continue
            if not uneven and declared is None and u >= 0 and v >= 0:
                self.document.setdefault("streams", []).append(
                    {"from": self._name(u), "to": self._name(v), "rate": rate}
                )
            elif rate > 0:
                pairs += self._pairs(u, v, rate, "full" if declared is None else declared.pattern)
        self.document["traffic"] = pairs

    def _end(self, task: int) -> int:
        """Return a task's operator; of one without any, a number below 0 that stands for it."""
        operator = int(self.instance.tasks.operator[task])
        return operator if operator >= 0 else -1 - task

    def _name(self, end: int) -> str:
        return self.instance.operators.ids[end]

    def _members(self, end: int) -> tuple[list[str], Floats]:
        if end < 0:
            return [self.instance.tasks.ids[-1 - end]], np.ones(1)
        if end in self.ids:
            return self.ids[end], self.weights[end]
        names = [self.instance.tasks.ids[t] for t in self.instance.tasks_of(end)]
        return names, shares(len(names))

    def _pairs(self, u: int, v: int, rate: float, pattern: Any) -> Iterable[list[Any]]:
        (senders, a), (receivers, b) = self._members(u), self._members(v)
        if pattern == "full":
            if len(a) * len(b) > _MOST_PAIRS:
                name = self._name(max(u, v))
                reason = f"makes more than {_MOST_PAIRS:,} pairs of tasks of unequal shares"
                remedy = "choose a number that divides key_groups"
                raise InvalidInput(Problem(f"parallelism.{name}", len(b), reason, remedy))
            at = np.indices((len(a), len(b))).reshape(2, -1)
            rates = rate * a[at[0]] * b[at[1]]
        else:
            # 1 / a of the rate is a sender's even part: of unequal ones, its own share
            i, j, part = point_pairs(pattern, len(a), len(b))
            at, rates = np.array([i, j]), rate * part * len(a) * a[i]
        columns = zip(*at.tolist(), rates.tolist(), strict=True)
        return [[senders[x], receivers[y], r] for x, y, r in columns if r > 0]
