"""Exact methods against all placements, until so many proven answers of each are judged.

    python -m tests.fuzz --methods A,B --per-method 1000 [--starts plain|broken|both|overfull]

What is counted stands in a file between runs, so that a run goes on where the last one ended. A
*judged* answer is a proof, of an optimum or of infeasibility, that was held against every placement
of its instance.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Finding, Question
from tests.fuzz.claim import Claim
from tests.fuzz.generate import Draw, generate
from tests.fuzz.mending import FORCED, SOFT, broken_instance, comparable, overfull_instance
from tests.fuzz.newer import add_max_load
from tests.fuzz.product import Calls, InvalidInput, Setting, known_fields
from tests.fuzz.proofs import compared
from tests.fuzz.reading import Document, Reading

STARTS = {
    "plain": ("plain",), "broken": ("broken",), "both": ("plain", "broken"),
    "overfull": ("overfull",),
}  # fmt: skip
"""Of current placements: random ones, some that break a limit, some where every plan does."""
_DROPS = re.compile(r"--ignore (\w+) drops")
_FIGURES = {
    "plan-milp": ("internode_traffic", "load_distance", "nodes_used", "migration_cost",
                  "used_capacity", "mean_absolute_deviation"),
    "throughput-exact": ("sustainable_rate", "sustainable_rate", "migrations", "nodes_used"),
    "throughput-milp": ("sustainable_rate", "sustainable_rate", "migrations", "nodes_used"),
    "eoa-milp": ("used_capacity", "cpu_deviation", "mean_absolute_deviation"),
}  # fmt: skip
"""Objectives that are drawn, where a method has several."""
_LIMITED = 0.4
"""Share of the instances that get ceilings of tasks."""
_SOME = 5
"""Of so many broken starts one is a placement of some tasks."""
_COLUMNS = ("asked", "judged", "broken start", "max_load", "optimal", "infeasible", "unproven",
            "not suited", "wrong")  # fmt: skip


def instance_of(seed: int, start: str, method: str, sure: frozenset[str] = frozenset()) -> Document:
    """Return the random instance of a seed, in the shape that the method needs.

    Newer fields of `sure` are in it in any case, but where only some tasks have a place.
    """
    if start == "overfull":
        document = overfull_instance(seed, known_fields() | {FORCED})
    elif start == "broken":
        some = seed % _SOME == 0
        document = broken_instance(seed, known_fields() | {FORCED}, some=some, sure=sure)
    else:
        document = generate(seed, known_fields(), modelled=0.0, placements=4_000, sure=sure)
        draw = Draw(seed + 2)
        draw.kind = "whole"
        if draw.chance(_LIMITED):
            add_max_load(draw, document, Reading(document), [])
    if method == "eoa-milp":
        return for_eoa(document)
    return for_storm(document, Draw(seed + 3)) if method == "storm-milp" else document


def for_eoa(document: Document) -> Document:
    """Give every node a capacity and no slots, which `eoa-milp` does not know."""
    first = document["resources"][0]
    for node in document["nodes"]:
        node.setdefault("capacity", {}).setdefault(first, 60.0)
        node.pop("slots", None)
        node.pop("slot_capacity", None)
    for topology in document.get("topologies", []):
        topology.pop("workers", None)
    document.get("limits", {}).pop("max_tasks_per_slot", None)
    return document


def for_storm(document: Document, draw: Draw) -> Document:
    """Give every node slots and every topology workers, so that nothing is read into the file."""
    for node in document["nodes"]:
        node.setdefault("slots", draw.randint(1, 4))
    operators = document.setdefault("operators", [])
    jobs = document.setdefault("topologies", [{"id": "job0"}])
    for operator in operators:
        operator.setdefault("topology", jobs[0]["id"])
    loose = [task for task in document.get("tasks", []) if _is_loose(task, operators)]
    if loose:
        operators.append({"id": "loose", "topology": jobs[0]["id"]})
        for task in loose:
            task["operator"] = "loose"
    for job in jobs:
        job.setdefault("workers", draw.randint(1, 4))
    return document


def _is_loose(task: dict[str, Any], operators: list[dict[str, Any]]) -> bool:
    """Whether a task is of no operator: neither by name nor as a member of a group."""
    member = task["id"].rsplit("/", 1)[0]
    grouped = any(x["id"] == member and "group" in x for x in operators)
    return not task.get("operator") and not grouped


def rules_of(document: Document) -> set[str]:
    """Return the names of the rules that an instance sets."""
    found = {key for key, value in document.get("limits", {}).items() if value is not None}
    for table, names in (
        ("nodes", ("capacity", "min_load", "slots", "slot_capacity", "max_tasks", "max_inflow",
                   "leaving", "background")),
        ("tasks", ("allowed", "copies", "max_load")),
        ("operators", ("max_load",)),
        ("topologies", ("workers", "exclusive_nodes")),
    ):  # fmt: skip
        found |= {name for x in document.get(table, []) for name in names if x.get(name)}
    found |= {f"sets over {x.get('over', 'node')}" for x in document.get("sets", [])}
    groups = [x["group"] for x in document.get("operators", []) if "group" in x]
    found |= {name for x in groups for name in ("allowed", "max_load") if x.get(name)}
    near = any(x.get("pattern") == "local_first" for x in document.get("streams", []))
    return (
        found
        | {x for x in ("links", "crossing_cost") if document.get(x)}
        | ({"local_first"} if near else set())
    )


class Tally:
    """Counts of each method, and the seed to go on with; kept in a file."""

    def __init__(self, path: Path, first: int) -> None:
        self.path = path
        known: dict[str, Any] = {"next": first, "methods": {}}
        if path.exists():
            known = json.loads(path.read_text())
        self.next: int = known["next"]
        self.methods = {name: Counter(counts) for name, counts in known["methods"].items()}

    def of(self, method: str) -> Counter[str]:
        """Return the counts of a method, which may be changed."""
        return self.methods.setdefault(method, Counter())

    def save(self) -> None:
        """Write the file."""
        counts = {name: dict(sorted(c.items())) for name, c in sorted(self.methods.items())}
        self.path.write_text(json.dumps({"next": self.next, "methods": counts}, indent=1) + "\n")

    def case(
        self,
        methods: list[str],
        per_method: int,
        starts: str,
        calls: Calls,
        sure: frozenset[str] = frozenset(),
    ) -> Iterator[Finding]:
        """Ask the methods that lack judged answers about the next instance; yield what is wrong."""
        seed = self.next
        each = STARTS[starts]
        start = each[seed % len(each)]
        for method in methods:
            if self.of(method)["judged"] < per_method:
                document = instance_of(seed, start, method, sure)
                yield from asked(document, seed, method, self.of(method), calls, start=start)
        self.next = seed + 1

    def lacking(self, methods: list[str], per_method: int) -> bool:
        """Whether a method has less judged answers than wanted."""
        return any(self.of(method)["judged"] < per_method for method in methods)

    def table(self) -> str:
        """Return the counts a method, and the rules that it refused and that stood in judged
        instances.
        """
        lines = [f"{'method':18}" + "".join(f"{name:>14}" for name in _COLUMNS)]
        for name, counts in sorted(self.methods.items()):
            lines.append(f"{name:18}" + "".join(f"{counts[column]:14}" for column in _COLUMNS))
        for name, counts in sorted(self.methods.items()):
            for what in ("refused", "judged with"):
                told = [f"{key.removeprefix(what + ' ')} {n}" for key, n in sorted(counts.items())
                        if key.startswith(what + " ")]  # fmt: skip
                lines.append(f"{name} {what}: {', '.join(told) or 'none'}")
        return "\n".join(lines)


def asked(
    document: Document, seed: int, method: str, counts: Counter[str], calls: Calls, start: str = ""
) -> Iterator[Finding]:
    """Ask a method about one instance, without the rules that it refuses; yield what is wrong."""
    random.seed(seed)
    try:
        setting = Setting(copy.deepcopy(document), calls)
    except InvalidInput as error:
        counts[f"no instance: {str(error)[:60]}"] += 1
        return
    keywords: dict[str, Any] = {"explain": 0.0}
    if method in _FIGURES:
        keywords["objective"] = Draw(seed + 4).choice(_FIGURES[method])
    counts["asked"] += 1
    answer = setting.answer(method, **keywords)
    drops = sorted(set(_DROPS.findall(answer.refused or "")))
    if drops:
        counts.update(f"refused {name}" for name in drops)
        keywords["ignore"] = drops
        answer = setting.answer(method, **keywords)
    if answer.refused is not None:
        counts["not suited"] += 1
        return
    found = [
        Finding(kind, detail, question, seed, document)
        for question in (Question("result", method, keywords), Question("mended", method, keywords))
        for kind, detail in question.put(setting)
        if kind not in SOFT
    ]
    yield from found
    judged = answer.result and proved(Claim(setting, method, keywords, answer.result))
    if not judged:
        counts["unproven"] += 1
        return
    counts["judged"] += 1
    counts["wrong" if found else judged] += 1
    kept = rules_of(document) - set(drops)
    counts["broken start"] += start in ("broken", "overfull")
    counts["max_load"] += "max_load" in kept
    counts.update(f"judged with {name}" for name in kept)


def proved(claim: Claim) -> str:
    """Return what an answer proves and all placements were compared with; nothing for neither."""
    if claim.result.mending is None:
        return compared(claim)
    return "optimal" if comparable(claim) and claim.termination == "optimal" else ""
