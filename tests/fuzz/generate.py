"""Random small instances with every field of the format, few enough placements to try them all."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

from tests.fuzz.limits import add_limits
from tests.fuzz.models import model_instance
from tests.fuzz.newer import add_newer
from tests.fuzz.reading import Document, Reading

FORMAT = "streamplace.instance/1"
PLACEMENTS = 20_000


class Draw(random.Random):
    """Random choices in few words; figures of one kind an instance, so that sums differ in ways."""

    def setup(self) -> None:
        """Choose how the figures of this instance look."""
        kinds = {"whole": 38, "quarter": 16, "float": 17, "tenth": 12, "equal": 8,
                 "tiny": 3, "huge": 3, "wide": 3}  # fmt: skip
        self.kind = self.choices(list(kinds), list(kinds.values()))[0]

    def chance(self, share: float) -> bool:
        """Return true in that share of the calls."""
        return self.random() < share

    def among(self, weighted: dict[Any, float]) -> Any:
        """Return a key by weight."""
        return self.choices(list(weighted), list(weighted.values()))[0]

    def some(self, items: list[Any]) -> list[Any]:
        """Return at least one of the items, in their order."""
        return sorted(self.sample(items, self.randint(1, len(items))))

    def figure(self, most: float = 10.0) -> float:
        """Return a load, rate or cost; now and then 0."""
        if self.chance(0.08):
            return 0
        grid = {"whole": 1, "quarter": 4, "tenth": 10}
        if self.kind in grid:
            return self.randint(1, int(most * grid[self.kind])) / grid[self.kind]
        if self.kind == "equal":
            return self.choice((3, 5))
        if self.kind == "huge":
            return self.randint(1, int(most)) * 1e11
        unit = {"tiny": 1e-7, "wide": 10 ** self.uniform(-4, 5)}.get(self.kind, 1.0)
        return self.uniform(0, most) * unit

    def up(self, value: float) -> float:
        """Return a capacity no less than a value, on the grid of the figures."""
        grid = {"whole": 1, "equal": 1, "quarter": 4, "tenth": 10}.get(self.kind)
        return value if grid is None else math.ceil(value * grid - 1e-9) / grid


def generate(
    seed: int,
    fields: frozenset[str] = frozenset(),
    modelled: float = 0.06,
    placements: int = PLACEMENTS,
    sure: frozenset[str] = frozenset(),
) -> Document:
    """Return a random instance.

    Parameters
    ----------
    seed
        The same seed and fields give the same instance.
    fields
        Newer fields of the format that may be used (`tests.fuzz.newer.PROBES`).
    modelled
        Share of model-driven instances.
    placements
        Most placements that there may be.
    sure
        Of the newer fields those that are used in any case.
    """
    draw = Draw(seed)
    draw.setup()
    if draw.chance(modelled):
        return {"format": FORMAT, "name": "fuzz", **model_instance(draw)}
    count = draw.among({1: 1, 2: 2, 3: 6, 4: 10, 5: 14, 6: 18, 7: 16, 8: 12, 9: 6})
    width = draw.among({1: 5, 2: 22, 3: 36, 4: 24, 5: 9, 6: 4})
    while width**count > placements:
        count -= 1
    names = ["cpu", "mem", "net"][: draw.among({1: 60, 2: 30, 3: 10})]
    document: Document = {"format": FORMAT, "name": "fuzz", "resources": names}
    if draw.chance(0.1):
        names.reverse()
    document["nodes"] = [{"id": f"n{i}"} for i in range(width)]
    if draw.chance(0.1):
        _derived(draw, document, count)
    else:
        _operators(draw, document, count)
        _streams(draw, document)
    _homes(draw, document)
    _capacities(draw, document)
    add_limits(draw, document)
    add_newer(draw, document, fields, sure)
    if draw.chance(0.1):
        document["units"] = {"cpu": "percent of a core"}
        document["labels"] = {"made": "at random"}
        document["nodes"][0]["labels"] = {"host": "a#1"}
        if document.get("operators"):
            document["operators"][0]["labels"] = {"vertex": "v1"}
    return {k: v for k, v in document.items() if v != []}


def entry(document: Document, task: str) -> dict[str, Any]:
    """Return the entry of a task, a new one for a member of a group."""
    for found in document["tasks"]:
        if found["id"] == task:
            return found
    document["tasks"].append({"id": task})
    return document["tasks"][-1]


def _loads(draw: Draw, document: Document, size: int = 1) -> dict[str, float]:
    return {r: draw.figure() * size for r in document["resources"] if draw.chance(0.93)}


def _operators(draw: Draw, document: Document, count: int) -> None:
    """Groups of equal tasks and single tasks, some of which belong to an operator."""
    operators: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []
    grouped, left = draw.chance(0.75), count
    while left:
        if grouped and draw.chance(0.8):
            size = min(left, draw.randint(1, 4))
            group = {"tasks": size, "load": _loads(draw, document, size)}
            if draw.chance(0.5):
                group["state"] = draw.figure() * size
            operators.append({"id": f"g{len(operators)}", "group": group})
            left -= size
        else:
            tasks.append({"id": f"t{len(tasks)}", "load": _loads(draw, document)})
            left -= 1
    if tasks and draw.chance(0.6):
        loose = [f"o{i}" for i in range(draw.randint(1, 2))]
        operators += [{"id": name} for name in loose]
        for task in tasks:
            if draw.chance(0.9):
                task["operator"] = draw.choice(loose)
    for operator in operators:
        if draw.chance(0.1):
            operator["role"] = draw.choice(["source", "operator", "sink", "system"])
    document["operators"], document["tasks"] = operators, tasks
    for name in Reading(document).task_ids:
        if "/" in name and draw.chance(0.07):
            entry(document, name)["load"] = _loads(draw, document)


def _streams(draw: Draw, document: Document) -> None:
    """Streams between operators, and single pairs that replace or complete them."""
    reading = Reading(document)
    sizes = {name: len(tasks) for name, tasks in reading.members.items() if tasks}
    if draw.chance(0.15) or len(reading.task_ids) < 2:
        return
    streams = []
    for a, b in itertools.permutations(sizes, 2):
        if not draw.chance(0.5 if a < b else 0.12):
            continue
        stream = {"from": a, "to": b, "rate": draw.figure()}
        patterns: dict[Any, float] = {"full": 5, "rescale": 3, "merge": 2, "one_to_one": 2}
        if sizes[a] != sizes[b]:
            del patterns["one_to_one"]
        pattern = draw.among(patterns)
        if pattern != "full" or draw.chance(0.3):
            stream["pattern"] = pattern
        streams.append(stream)
    document["streams"] = streams
    if draw.chance(0.45) or not streams:
        chance = draw.choice([0.05, 0.15, 0.3])
        document["traffic"] = [
            [u, v, 0 if draw.chance(0.05) else draw.figure()]
            for u, v in itertools.permutations(reading.task_ids, 2)
            if draw.chance(chance)
        ]


def _derived(draw: Draw, document: Document, count: int) -> None:
    """A pipeline whose loads and rates follow from the input rate."""
    operators: list[dict[str, Any]] = []
    left = count
    while left:
        size = min(left, draw.randint(1, 4))
        group = {"tasks": size, "load": {r: draw.figure() for r in document["resources"][1:]}}
        cost = draw.choice([0.25, 0.5, 1, 2])
        operators.append({"id": f"g{len(operators)}", "group": group, "cpu_per_tuple": cost})
        left -= size
    document["operators"], document["tasks"] = operators, []
    document["input_rate"] = draw.choice([1, 4, 10, 12.5])
    document["streams"] = [
        {
            "from": a["id"],
            "to": b["id"],
            "selectivity": draw.choice([0.5, 1, 2]),
            "tuple_bytes": draw.choice([1, 100]),
        }
        for a, b in itertools.combinations(operators, 2)
        if draw.chance(0.7)
    ]


def _homes(draw: Draw, document: Document) -> None:
    """Where tasks run now, what moving them costs, and where they may be."""
    now = draw.among({"nowhere": 30, "all": 60, "some": 10})
    nodes = [x["id"] for x in document["nodes"]]
    crowded, restricted = draw.chance(0.4), draw.among({0.0: 60, 0.1: 25, 0.4: 15})
    for task in Reading(document).task_ids:
        if now == "all" or (now == "some" and draw.chance(0.6)):
            at_first = crowded and draw.chance(0.5)
            entry(document, task)["node"] = nodes[0] if at_first else draw.choice(nodes)
        for key in ("state", "migration_cost"):
            if now != "nowhere" and draw.chance(0.15):
                entry(document, task)[key] = draw.figure()
        if draw.chance(restricted):
            among = draw.some(nodes)
            entry(document, task)["allowed"] = among[:1] if draw.chance(0.3) else among


def _capacities(draw: Draw, document: Document) -> None:
    """Capacities from comfortable to just too small; load that is there anyway; weights."""
    reading, nodes = Reading(document), document["nodes"]
    equal, total = draw.chance(0.4), reading.totals
    capped = draw.chance(0.9)
    for r, name in enumerate(document["resources"]):
        if not capped or draw.chance(0.12):
            continue
        share = draw.among({0.3: 15, 0.6: 30, 0.8: 30, 0.95: 12, 1.0: 9, 1.1: 4})
        biggest = float(reading.load[:, r].max(initial=0))
        uneven = [1.0 if equal else draw.uniform(0.6, 1.4) for _ in nodes]
        floor = biggest if draw.chance(0.75) else 0.0
        for node, part in zip(nodes, uneven, strict=True):
            if not equal and draw.chance(0.05):
                continue
            size = max(float(total[r]) / share * part / sum(uneven), floor)
            if not equal and draw.chance(0.03):
                size = 0.0
            node.setdefault("capacity", {})[name] = float(draw.up(size))
    if draw.chance(0.2):
        for node in nodes:
            if draw.chance(0.5):
                names = [r for r in document["resources"] if draw.chance(0.7)]
                node["background"] = {r: draw.figure() / 2 for r in names}
    if draw.chance(0.2):
        for node in nodes:
            if draw.chance(0.6):
                node["weight"] = draw.choice([0.5, 1, 2, 3, 0.1, 1.7])
    if len(nodes) > 1 and draw.chance(0.22):
        for node in draw.sample(nodes, draw.randint(1, max(1, len(nodes) // 2))):
            node["leaving"] = True
