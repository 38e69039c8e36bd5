"""A current placement that breaks limits: *do not worsen, then mend*, held against all placements.

Of all placements that keep budgets, lists of allowed nodes and marks of leaving nodes, and break no
row more than the current one does, those of least excess are looked for, and among these the best
objective. Rows and the excess are reckoned here, from the format's page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tests.fuzz.brute import Space
from tests.fuzz.claim import Claim
from tests.fuzz.generate import Draw, entry, generate
from tests.fuzz.newer import add_max_load
from tests.fuzz.product import known_fields
from tests.fuzz.reading import Document, Reading
from tests.fuzz.rules import LOOSE, TIGHT, dealer, kept

EXACT = (
    "balance-milp", "joint-milp", "imc-milp", "imc-exact", "imc-brute", "eoa-milp", "storm-milp",
    "throughput-exact", "throughput-milp",
)  # fmt: skip
FIELDS = frozenset({"sets", "nodes.max_tasks", "nodes.max_inflow", "limits.max_inflow", "copies"})
EVERY = FIELDS | {
    "direction", "rate_driven", "max_load", "limits.max_migration_state", "limits.max_nodes_used",
    "exclusive_nodes",
}  # fmt: skip
FORCED = "forced"
"""As a field: tasks that may not stay, slots that are too few, other numbers of workers."""
"""Newer fields that are drawn: those of tests that name seeds, and those of `main`."""
DROPS = re.compile(r"--ignore (\w+) drops")
_LIMITED = 0.4
"""Of instances that may have them, the share with ceilings of tasks."""
_RATE = "sustainable_rate"


def broken_instance(
    seed: int,
    fields: frozenset[str] = FIELDS,
    *,
    some: bool = False,
    sure: frozenset[str] = frozenset(),
) -> Document:
    """Return a random instance of a current placement with a limit that it breaks.

    The placement is complete; or of `some` tasks, without newer fields, links and load distances.
    """
    fields = frozenset() if some else fields
    own = known_fields() & fields - {"max_load"}
    document = generate(seed, own, modelled=0.0, placements=4_000, sure=sure)
    draw = Draw(seed + 1)
    draw.kind = "whole"
    nodes = [node["id"] for node in document["nodes"]]
    listed = {task["id"]: task for task in document.get("tasks", [])}
    crowd = draw.choice(nodes)
    for name in Reading(document).task_ids:
        task = listed.get(name)
        if task is None:
            task = listed[name] = {"id": name}
            document.setdefault("tasks", []).append(task)
        if not task.get("node"):
            task["node"] = crowd if draw.chance(0.5) else draw.choice(nodes)
        if task.get("allowed") and task["node"] not in task["allowed"] and draw.chance(0.8):
            task["allowed"].append(task["node"])
    reading = Reading(document)
    loads = _sums(reading)
    for n in draw.sample(range(len(nodes)), min(len(nodes), draw.choice([1, 1, 2]))):
        node, resource = document["nodes"][n], draw.choice(reading.resources)
        load = float(loads[n, reading.resources.index(resource)])
        if load > 0:
            share = reading.limits.get("max_utilisation", {}).get(resource, 1.0)
            least = round(load * draw.choice([0.5, 0.7, 0.9]) / share, 6)
            node.setdefault("capacity", {})[resource] = least
    if draw.chance(0.6):
        document.setdefault("limits", {})["max_migrations"] = draw.randint(0, 3)
    if some:
        for name in ("links", "crossing_cost"):
            document.pop(name, None)
        document.get("limits", {}).pop("max_load_distance", None)
        tasks = document["tasks"]
        for task in draw.sample(tasks, min(len(tasks) - 1, draw.choice([1, 1, 2, 3]))):
            del task["node"]
            task.pop("slot", None)
    if "max_load" in fields and draw.chance(_LIMITED):
        add_max_load(draw, document, reading, nodes)
    if FORCED in fields and not some:
        _force(draw, document)
    if any("slot" not in task for task in document["tasks"] if "node" in task):
        document.get("limits", {}).pop("max_workers_restarted", None)  # counts by slots of today
    return document


def _force(draw: Draw, document: Document) -> None:
    """Have the current placement violate lists of allowed nodes, slots, or numbers of workers."""
    nodes = [node["id"] for node in document["nodes"]]
    if draw.chance(0.4):
        for task in document["tasks"]:
            others = [node for node in nodes if node != task["node"]]
            if others and draw.chance(0.3):
                task["allowed"] = draw.some(others)
    if draw.chance(0.5):
        first = document["resources"][0]
        greatest = float(Reading(document).load[:, 0].max())
        for node in document["nodes"]:
            node["slots"] = draw.randint(0, 3)
            if draw.chance(0.3):
                node["slot_capacity"] = {first: greatest * draw.choice([0.8, 1.0, 2.0])}
        slots = {node["id"]: node["slots"] for node in document["nodes"]}
        for task in document["tasks"]:
            if task.get("slot", -1) >= slots[task["node"]]:
                del task["slot"]
    if document.get("operators") and draw.chance(0.4):
        jobs = document.setdefault("topologies", [{"id": "job0"}])
        jobs[0]["workers"] = draw.randint(1, 4)
        for operator in document["operators"]:
            operator.setdefault("topology", draw.choice(jobs)["id"])


def overfull_instance(seed: int, fields: frozenset[str] = FIELDS) -> Document:
    """Return a random instance of which every complete plan exceeds a limit.

    Too little is there of a resource, of numbers of tasks or of a task's own; tasks are bound to a
    node or a link that does not hold them; a least load is above all load; nothing may move.
    """
    document = broken_instance(seed, fields)
    draw, reading = Draw(seed + 5), Reading(document)
    ways = [_too_little, _too_few_tasks, _too_large, _too_much_wanted, _no_move, _too_narrow]
    draw.choice(ways)(draw, document, reading)
    if Space(Reading(document)).loose.any():
        _too_few_tasks(draw, document, reading)
    return document


def _too_little(draw: Draw, document: Document, reading: Reading) -> None:
    r = int(np.argmax(reading.load.sum(axis=0)))
    share = draw.choice([0.5, 0.8, 0.95]) / len(document["nodes"])
    for node in document["nodes"]:
        node.setdefault("capacity", {})[reading.resources[r]] = float(reading.totals[r]) * share
    document.get("limits", {}).pop("max_utilisation", None)


def _too_few_tasks(draw: Draw, document: Document, reading: Reading) -> None:
    left = draw.randint(0, len(reading.task_ids) - 1)
    for node in document["nodes"]:
        node["max_tasks"] = draw.randint(0, left)
        left -= node["max_tasks"]


def _too_large(draw: Draw, document: Document, reading: Reading) -> None:
    """A task that has to be on one node: it exceeds the capacity, or what it can use itself."""
    t = int(np.argmax(reading.load.max(axis=1)))
    r, task = int(np.argmax(reading.load[t])), entry(document, reading.task_ids[t])
    least = {reading.resources[r]: float(reading.load[t, r]) * draw.choice([0.5, 0.9])}
    if draw.chance(0.5):
        task["max_load"] = least
        return
    task["allowed"] = [task["node"]]
    node = document["nodes"][int(reading.home[t])]
    node["capacity"] = {**node.get("capacity", {}), **least}
    document.get("limits", {}).pop("max_utilisation", None)


def _too_much_wanted(draw: Draw, document: Document, reading: Reading) -> None:
    staying = [node for node in document["nodes"] if not node.get("leaving")]
    if staying:
        most = float(reading.totals[0]) * draw.choice([1.1, 2.0]) + 1.0
        draw.choice(staying)["min_load"] = {reading.resources[0]: most}


def _no_move(_draw: Draw, document: Document, _reading: Reading) -> None:
    for task in document["tasks"]:
        task.pop("copies", None)
    document.setdefault("limits", {})["max_migrations"] = 0


def _too_narrow(draw: Draw, document: Document, reading: Reading) -> None:
    """A link out of a node on which a sender has to be, and its receiver may not be."""
    pairs = {pair: rate for pair, rate in reading.pairs.items() if rate > 0}
    if not pairs or len(reading.node_ids) < 2:
        return
    (u, v), rate = draw.choice(sorted(pairs.items()))
    here, *others = draw.sample(reading.node_ids, len(reading.node_ids))
    for task, nodes in ((u, [here]), (v, others)):
        found = entry(document, reading.task_ids[task])
        found["allowed"], found["node"] = nodes, nodes[0]
        found.pop("slot", None)
        found.pop("copies", None)
    document.get("limits", {}).pop("max_workers_restarted", None)
    link = {"id": "narrow", "nodes": [here], "capacity": rate * draw.choice([0.3, 0.9])}
    document["links"] = [*document.get("links", []), link]
    document.get("limits", {}).pop("max_utilisation", None)


def _sums(reading: Reading) -> np.ndarray:
    loads = np.array(reading.background)
    placed = reading.home >= 0
    np.add.at(loads, reading.home[placed], reading.load[placed])
    return loads


@dataclass(eq=False)
class Rows:
    """(M, K) amounts by which placements break rows, and (K,) all there is of each.

    `slack` is what of a row counts as kept: `TIGHT` for what a method has to find, `LOOSE` for what
    it may return.
    """

    claim: Claim
    slack: float

    @cached_property
    def amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Of all placements; limits that the objective measures are none."""
        reading, figures = self.claim.reading, self.claim.space.figures
        at, rate = self.claim.space.at, self.claim.name == _RATE
        room = np.array(reading.room)
        if rate:
            room[:, reading.rate_driven] = np.inf
        least = np.where(reading.leaving[:, None], 0.0, reading.min_load)
        totals = reading.load.sum(axis=0) + reading.background.sum(axis=0)  # no costs of crossing
        totals = np.where(totals > 0, totals, 1.0)
        flat = np.broadcast_to(totals, room.shape).ravel()
        count = float(max(1, at.shape[1]))
        parts = [
            (self._above(figures.loads, room).reshape(len(at), -1), flat),
            (self._above(least, figures.loads).reshape(len(at), -1), flat),
            (np.maximum(figures.counts - reading.max_tasks, 0.0), np.full(room.shape[0], count)),
        ]
        parts.append(self._threads(len(at), totals, rate=rate))
        for link, load in zip(reading.links, figures.links, strict=True):
            room_of = np.inf if rate else link.room
            total = (reading.total_traffic + sum(x.background for x in reading.links)) or 1.0
            parts.append((self._above(load, np.array(room_of))[:, None], np.array([total])))
        most = reading.limits.get("max_load_distance")
        if most is not None and "load_distance" in figures.by_name:
            far = np.maximum(figures.by_name["load_distance"] - most, 0.0)
            far[far <= self.slack * max(most, reading.means[1])] = 0.0
            parts.append((far[:, None], totals[:1]))
        most = reading.limits.get("max_nodes_used")
        if most is not None:
            more = figures.by_name["nodes_used"] - most
            parts.append((np.maximum(more, 0.0)[:, None], np.array([count])))
        for topology, most in reading.exclusive:
            own, other = (
                (at[:, mask, None] == np.arange(room.shape[0])).any(axis=1)
                for mask in (reading.topology == topology, reading.topology != topology)
            )
            amount = np.stack([own.sum(axis=1) - float(most), (own & other).sum(axis=1)], axis=1)
            parts.append((np.maximum(amount, 0.0), np.full(2, count)))
        for one in reading.sets:
            held = (one.place[at[:, one.tasks]][:, :, None] == np.arange(one.place.max() + 1)).sum(
                1
            )
            used = (held > 0).sum(axis=1, keepdims=True)
            if one.rule == "apart":
                amount = np.maximum(held - one.at_most, 0.0)
            elif one.rule == "together":
                amount = np.maximum(used - 1.0, 0.0)
            else:
                amount = np.maximum(one.at_least - used, 0.0)
            parts.append((amount, np.full(amount.shape[1], count)))
        amounts = np.concatenate([part for part, _ in parts], axis=1)
        sizes = np.concatenate([size for _, size in parts])
        return amounts, sizes

    def _above(self, value: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Return what values exceed limits by, 0 within the slack of the greater of both."""
        bound = np.where(np.isfinite(limit), limit, 0.0)
        over = np.maximum(value - limit, 0.0)
        return np.where(over <= self.slack * np.maximum(value, bound), 0.0, over)

    def _threads(
        self, count: int, totals: np.ndarray, *, rate: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """What tasks have above what they can use, the same in every placement; the worst only.

        A ceiling of an operator is told once, by the task that is most above it.
        """
        reading = self.claim.reading
        over = self._above(reading.load, reading.max_load)
        if rate:  # a ceiling of what is measured
            over[:, reading.rate_driven] = 0.0
        owned = [tasks for tasks in reading.members.values() if tasks]
        alone = set(range(len(over))) - {t for tasks in owned for t in tasks}
        worst = [over[tasks].max(axis=0) for tasks in (*owned, *([t] for t in sorted(alone)))]
        amount = np.concatenate(worst) if worst else np.zeros(0)
        return np.tile(amount, (count, 1)), np.tile(totals, len(worst))

    @cached_property
    def excess(self) -> np.ndarray:
        """(M,) excess of each placement."""
        amounts, sizes = self.amounts
        return np.asarray((amounts / sizes).sum(axis=1))

    @cached_property
    def home(self) -> int | None:
        """Which placement is the current one; ``None`` where it is not among those allowed."""
        same = (self.claim.space.at == self.claim.reading.home).all(axis=1)
        return int(np.flatnonzero(same)[0]) if same.any() else None

    def now(self) -> np.ndarray:
        """(K,) amounts of the current placement; of some tasks, rows of nodes and threads alone."""
        reading, home = self.claim.reading, self.home
        if (reading.home < 0).any():
            room, loads = np.array(reading.room), _sums(reading)
            if self.claim.name == _RATE:
                room[:, reading.rate_driven] = np.inf
            least = np.where(reading.leaving[:, None], 0.0, reading.min_load)
            above, below = self._above(loads, room), self._above(least, loads)
            rate = self.claim.name == _RATE
            threads, _ = self._threads(1, np.ones(room.shape[1]), rate=rate)
            tasks = np.zeros(len(room))  # limits of numbers of tasks are not compared here
            found = np.concatenate([above.ravel(), below.ravel(), tasks, threads[0]])
            return np.pad(found, (0, self.amounts[0].shape[1] - len(found)))
        if home is not None:
            return np.asarray(self.amounts[0][home])
        space = _One(reading)
        return np.asarray(Rows(_OneClaim(self.claim, space), self.slack).amounts[0][0])  # type: ignore[arg-type]

    @cached_property
    def within(self) -> np.ndarray:
        """(M,) which keep the budgets and are nowhere worse than the current one, but for slots."""
        amounts, sizes = self.amounts
        relative, of_all = (1e-6, 1e-8) if self.slack == LOOSE else (1e-9, 1e-12)
        worse = (amounts > self.now() * (1 + relative) + of_all * sizes).any(axis=1)
        space = self.claim.space
        rules = kept(self.claim.reading, space.at, space.figures, self.slack)
        hard = [
            rules[f"max_{name}"]
            for name in ("migrations", "migration_cost", "migration_state")
            if f"max_{name}" in rules
        ]
        return np.logical_and.reduce([~worse, rules["max_inflow"], *hard])

    @cached_property
    def valid(self) -> np.ndarray:
        """(M,) which of these fit the slots: all, where the tasks of today do, else some of all."""
        if not self.claim.reading.slots_matter:
            return self.within
        return self.within & dealer(self.claim.reading, self.slack).possible(self.claim.space.at)


class _One:
    """The current placement alone, as a space."""

    def __init__(self, reading: Reading) -> None:
        from tests.fuzz.figures import measure

        self.at = reading.home[None]
        self.figures = measure(reading, self.at)


class _OneClaim:
    def __init__(self, claim: Claim, space: _One) -> None:
        self.reading, self.space, self.name = claim.reading, space, claim.name


def comparable(claim: Claim) -> bool:
    """Whether every rule has a row here; what slots are exceeded by is not computed (`_fits`).

    Where some tasks have no node, rows are those of nodes; where none has one, there is nothing to
    mend.
    """
    reading, limits = claim.reading, claim.reading.limits
    if not claim.space.complete or claim.name is None or not (reading.home >= 0).any():
        return False
    whole = bool((reading.home >= 0).all())
    if not whole and (
        reading.sets
        or reading.links
        or reading.exclusive
        or reading.crossing["out"].any()
        or reading.crossing["in"].any()
        or np.isfinite(reading.max_tasks).any()
        or {"max_nodes_used", "max_load_distance"} & set(limits)
    ):
        return False
    return whole or not reading.slots_matter


def _fits(reading: Reading, node: Iterable[int]) -> bool:
    """Whether tasks on these nodes fit the slots, with the numbers of workers asked for."""
    at = np.array([list(node)])
    return not reading.slots_matter or bool(dealer(reading, TIGHT).possible(at)[0])


_FORCED = frozenset({"allowed", "leaving", "workers"})
_CLOSE = 1e-8
"""Of excesses, in shares of all there is: what tolerances of rows add up to."""


def wrong_with(claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield (kind, detail) of what is wrong with an answer for a broken start."""
    if claim.result.mending is not None and claim.declared["promises_feasibility"]:
        forced = _FORCED.intersection(v.rule for v in claim.result.evaluation.violations)
        if forced:
            yield "mend-forced", f"{sorted(forced)} hold in any plan, and are violated"
    if not comparable(claim):
        return
    tight, loose = Rows(claim, TIGHT), Rows(claim, LOOSE)
    if (loose.valid & (loose.excess <= _CLOSE)).any():
        return  # the other probes have it
    exact, mending = claim.declared["kind"] == "exact", claim.result.mending
    # what exceeds slots now may do so in a plan: placements that fit them are some of all then
    every = _fits(claim.reading, claim.reading.home)
    if mending is not None and not (loose.valid if every else loose.within).any():
        yield "mend-impossible", "no placement is nowhere worse, and there is an answer"
    if not tight.valid.any():
        return
    if claim.termination == "infeasible":
        yield "mend-infeasible", f"{int(tight.valid.sum())} placements are nowhere worse"
        return
    if claim.node is None or mending is None:
        if claim.declared["promises_feasibility"]:
            yield "mend-no-plan", f"{claim.termination}; {list(claim.result.notes)}"
        return
    same = np.flatnonzero((claim.space.at == np.array(claim.node)).all(axis=1))
    if not len(same):
        if claim.declared["promises_feasibility"]:
            yield "mend-outside", f"{claim.node} breaks allowed or leaving"
        return
    m = int(same[0])
    fits = _fits(claim.reading, claim.space.at[m])
    if not loose.within[m] or (every and not loose.valid[m]):
        amounts, now = loose.amounts[0][m], loose.now()
        yield "mend-worse", f"rows {np.flatnonzero(amounts > now).tolist()}: {amounts} now {now}"
        return
    mine, least = float(loose.excess[m]), float(tight.excess[tight.valid].min())
    off = abs(mine - mending.excess) if fits else mine - mending.excess
    if off > 1e-6 * max(mine, 1e-3):
        yield "mend-figure", f"excess {mending.excess!r}, ours {mine!r}"
    mine = mending.excess  # with what exceeds slots
    level = claim.result.objective_levels[0]
    if level.name != "excess" or (level.bound or 0.0) > least * (1 + 1e-6) + _CLOSE:
        yield "mend-bound", f"{level}, least excess {least!r}"
    if mine > least * (1 + 1e-6) + _CLOSE:
        if exact or claim.termination == "optimal":
            yield "mend-more-excess", f"{mine!r}, least {least!r} ({claim.termination})"
        return
    if mine < least * (1 - 1e-6) - _CLOSE:
        return  # it leaves slots exceeded, and less excess than all that fit them: no match here
    among = tight.valid & (tight.excess <= least * (1 + 1e-8) + 1e-12)  # certainly of the least
    yield from _wrong_objective(claim, among)


def _wrong_objective(claim: Claim, among: NDArray[np.bool_]) -> Iterator[tuple[str, str]]:
    """Compare the objective with the best of all placements of least excess: `among`."""
    values = claim.space.figures.by_name.get(claim.name)
    if values is None or claim.value is None:
        return
    if claim.reading.leaving.any() and claim.termination != "optimal":
        return
    exact = claim.declared["kind"] == "exact"
    best = float(values[among].max() if claim.sense == "max" else values[among].min())
    if claim.bound is not None and claim.bound_of == "problem":
        beyond = claim.worse_by(claim.bound, best)
        if beyond > claim.allowed_miss(best, claim.bound) + claim.rounding():
            yield "mend-objective-bound", f"{claim.name} bound {claim.bound!r}, best {best!r}"
    if claim.worse_by(claim.value, best) > 1.1 * claim.allowed_miss(best) + claim.rounding():
        if claim.termination == "optimal":
            yield "mend-not-optimal", f"{claim.name} {claim.value!r}, best {best!r}"
        elif exact:
            yield "mend-weak", f"{claim.name} {claim.value!r}, best {best!r}; {claim.termination}"
    elif exact and claim.termination != "optimal" and claim.bound_of == "problem":
        yield "mend-unproven", f"{claim.termination} value {claim.value} bound {claim.bound}"


SOFT = frozenset({"mend-weak", "mend-unproven"})
"""No wrong answer: what an exact method leaves unproven where several rows share the excess."""
