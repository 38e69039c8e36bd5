"""Planted conflicts: whether `explain` names exactly the rules that clash, each one needed.

Each instance sets twelve rules, all satisfied by its current placement; then a conflict of
one to three rules is planted by one of `PLANTS`. Named right means: one conflict, of these rule
instances and no others, and of each a placement that keeps the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiments.studies.timings.registry import spend
from formulations.conflicts.conflict import clashes_of
from formulations.conflicts.decide import Judge, conflicts
from formulations.conflicts.rule_instances import atoms_of
from optim import Instance

Document = dict[str, Any]
Rule = tuple[str, frozenset[str]]
Expected = set[Rule]

RACKS = 5
SECONDS = 60.0


class Base:
    """An instance with twelve rules that its current placement keeps, as a document."""

    def __init__(self, seed: int, nodes: int, tasks: int) -> None:
        self.rng = np.random.default_rng(seed)
        each = self.each = tasks // nodes
        self.nodes, self.all = [f"n{i}" for i in range(nodes)], range(tasks)
        # mean loads 10 and 2.5 of 25 and 6 a task: 40 and 42 % of the capacities are used
        cpu, memory = self.rng.uniform(5, 15, tasks), self.rng.uniform(1, 4, tasks)
        loads = zip(cpu.tolist(), memory.tolist(), self.rng.uniform(1, 9, tasks), strict=True)
        node = {
            "capacity": {"cpu": 25.0 * each, "memory": 6.0 * each}, "min_load": {"cpu": 1.0},
            "max_tasks": 3 * each, "slots": 4,
        }  # fmt: skip
        self.tasks: list[Document] = [
            {"id": f"t{i}", "operator": "all", "load": {"cpu": c, "memory": m},
             "state": float(state), "node": f"n{i % nodes}"}
            for i, (c, m, state) in enumerate(loads)
        ]  # fmt: skip
        self.document: Document = {
            "format": "streamplace.instance/1",
            "name": f"planted-{seed}",
            "resources": ["cpu", "memory"],
            "nodes": [{"id": f"n{i}", **node, "rack": f"r{i % RACKS}"} for i in range(nodes)],
            "operators": [{"id": "all", "topology": "job"}, {"id": "pinned", "topology": "job"}],
            "topologies": [{"id": "job"}],
            "tasks": self.tasks,
            "traffic": [["t0", f"t{nodes}", 1.0]],
            "links": [
                {"id": f"up-r{k}", "nodes": self.rack(k), "capacity": 50.0} for k in range(RACKS)
            ],
            "sets": [
                {"id": "calm", "tasks": ["t1", "t2", "t3"], "rule": "apart"},
                {"id": "close", "tasks": ["t4", f"t{4 + nodes}"], "rule": "together"},
            ],
            "limits": {
                "max_migrations": tasks // 4, "max_migration_cost": 2.0 * tasks,
                "max_load_distance": 30.0 * each, "max_tasks_per_slot": each,
                "max_inflow": 2 * each,
            },
        }  # fmt: skip
        self.tasks[5]["allowed"] = ["n5", "n6"]
        self.document["nodes"][-1]["leaving"] = True

    def rack(self, k: int) -> list[str]:
        """Nodes of a rack."""
        return [n for i, n in enumerate(self.nodes) if i % RACKS == k]

    def some(self, count: int, off: tuple[int, ...] = ()) -> list[int]:
        """Draw tasks that no rule of the base is of, without those on some nodes."""
        n = len(self.nodes)
        # tasks of the base's own rules stand on the first seven nodes
        drawn = self.rng.choice([i for i in self.all if i % n > 6], count, replace=False)
        return [t for t in sorted(drawn.tolist()) if t % n not in off]

    def pin(self, tasks: list[int], nodes: list[str]) -> Rule:
        """Let tasks be on some nodes only; return the rule that says so."""
        for t in tasks:
            self.tasks[t] |= {"allowed": nodes, "operator": "pinned"}
        return of("allowed", [f"t{t}" for t in tasks])

    def group(self, tasks: list[int], name: str = "planted", **rule: Any) -> Rule:
        """Add a set; return the rule."""
        members = [f"t{t}" for t in tasks]
        self.document["sets"].append({"id": name, "tasks": members, **rule})
        return of("sets", [name])

    def limit(self, **values: float) -> None:
        """Set limits."""
        self.document["limits"] |= values

    def set_nodes(self, nodes: list[str], **values: Any) -> None:
        """Change fields of nodes."""
        for node in (node for node in self.document["nodes"] if node["id"] in nodes):
            for name, value in values.items():
                node[name] = {**node[name], **value} if isinstance(value, dict) else value

    def load(self, tasks: Iterable[int], resource: str) -> float:
        """Sum of a load."""
        return sum(self.tasks[t]["load"][resource] for t in tasks)

    def on(self, node: int) -> list[int]:
        """Tasks of a node."""
        return [t for t in self.all if t % len(self.nodes) == node]


def of(rule: str, ids: Iterable[str] = ()) -> Rule:
    """Name a rule of some nodes, sets, links or tasks."""
    return rule, frozenset(ids)


def memory_in_all(b: Base) -> Expected:
    """All memory is less than what the tasks need."""
    del b.document["nodes"][-1]["leaving"]  # else all others are too small for what may be there
    # less than the mean load on every node: no placement holds it
    share = b.load(b.all, "memory") / len(b.nodes)
    b.set_nodes(b.nodes, capacity={"memory": float(b.rng.uniform(0.7, 0.95)) * share})
    return {of("capacity", b.nodes)}


def memory_of_a_rack(b: Base) -> Expected:
    """Tasks pinned to a rack need more memory than it has."""
    rack, tasks = b.rack(2), b.some(5 * len(b.nodes) // RACKS)
    need = b.load(tasks, "memory") / len(rack)
    b.set_nodes(rack, capacity={"memory": float(b.rng.uniform(0.6, 0.85)) * need})
    return {b.pin(tasks, rack), of("capacity", rack)}


def tasks_on_two_nodes(b: Base) -> Expected:
    """More tasks are pinned to two nodes than these may hold."""
    tasks = b.some(11)
    b.set_nodes(["n1", "n2"], max_tasks=5)
    return {b.pin(tasks, ["n1", "n2"]), of("max_tasks", ["n1", "n2"])}


def apart_on_too_few(b: Base) -> Expected:
    """A set is to be apart on more racks than there are."""
    return {b.group(b.some(RACKS * 2 + 1), rule="apart", over="rack", at_most=2)}


def apart_and_pinned(b: Base) -> Expected:
    """A set that is to be apart is pinned to fewer nodes."""
    tasks = b.some(4)
    return {b.group(tasks, rule="apart"), b.pin(tasks, ["n1", "n2", "n3"])}


def together_is_too_large(b: Base) -> Expected:
    """A set that is to be together fits on no node."""
    tasks = b.some(6 * b.each)
    # all but the capacity for CPU is wide, so that this alone conflicts
    b.set_nodes(b.nodes, max_tasks=6 * b.each, capacity={"memory": 60.0 * b.each}, slots=9)
    b.limit(max_load_distance=90.0 * b.each)
    # or this would conflict as well
    b.limit(max_inflow=9 * b.each)
    return {b.group(tasks, rule="together"), of("capacity", b.nodes)}


def together_and_apart(b: Base) -> Expected:
    """Two tasks are to be together and apart."""
    tasks = b.some(2)
    b.group(tasks, "other", rule="apart")
    b.group(tasks, rule="together")
    return {of("sets", ["other", "planted"])}


def together_and_pinned_apart(b: Base) -> Expected:
    """Tasks that are to be together are pinned to different nodes."""
    first, second = b.some(2)
    b.pin([first], ["n1"])
    b.pin([second], ["n2"])
    pinned = of("allowed", [f"t{first}", f"t{second}"])
    return {b.group([first, second], rule="together"), pinned}


def spread_and_pinned(b: Base) -> Expected:
    """A set that is to be spread over racks is pinned to two of them."""
    tasks = b.some(8)
    rule = b.group(tasks, rule="spread", over="rack", at_least=3)
    return {rule, b.pin(tasks, [*b.rack(1), *b.rack(3)])}


def moves_and_pinned(b: Base) -> Expected:
    """More tasks have to move than may."""
    tasks = b.some(20, off=(1, 2, 3))
    b.limit(max_migrations=len(tasks) - 3)
    return {b.pin(tasks, ["n1", "n2", "n3"]), of("max_migrations")}


def cost_and_pinned(b: Base) -> Expected:
    """Tasks that have to move cost more than may be spent."""
    tasks = b.some(20, off=(1, 2, 3))
    cost = sum(b.tasks[t]["state"] for t in tasks)
    b.limit(max_migration_cost=0.8 * cost)
    return {b.pin(tasks, ["n1", "n2", "n3"]), of("max_migration_cost")}


def inflow_and_pinned(b: Base) -> Expected:
    """More tasks have to move onto a node than may."""
    tasks = b.some(12, off=(1,))
    b.set_nodes(["n1"], max_inflow=len(tasks) - 2)
    return {b.pin(tasks, ["n1"]), of("max_inflow", ["n1"])}


def least_load_of_few_tasks(b: Base) -> Expected:
    """A node is to have more load than as many tasks as it may hold can bring."""
    # four tasks of at most 15 bring 60, less than 62
    b.set_nodes(["n3"], min_load={"cpu": 15.5 * 4}, max_tasks=4)
    return {of("min_load", ["n3"]), of("max_tasks", ["n3"])}


def least_load_and_inflow(b: Base) -> Expected:
    """A node is to have more load than may come onto it."""
    # three more tasks of at most 15 bring 45, less than 48
    home = b.load(b.on(3), "cpu")
    b.set_nodes(["n3"], min_load={"cpu": home + 16.0 * 3}, max_inflow=3)
    return {of("min_load", ["n3"]), of("max_inflow", ["n3"])}


def slots_and_tasks_a_slot(b: Base) -> Expected:
    """All slots hold fewer tasks than there are."""
    # four slots a node: 4 ((each - 1) div 4) is less than the mean number of tasks
    b.limit(max_tasks_per_slot=(b.each - 1) // 4)
    return {of("slots", b.nodes), of("max_tasks_per_slot")}


def distance_and_pinned(b: Base) -> Expected:
    """What is pinned to a node is more than the load distance lets it have."""
    tasks = b.some(2 * b.each)
    b.set_nodes(["n1"], max_tasks=4 * b.each, capacity={"cpu": 60.0 * b.each})
    mean = b.load(b.all, "cpu") / (len(b.nodes) - 1)
    b.limit(max_load_distance=0.9 * (b.load(tasks, "cpu") - mean))
    b.set_nodes(["n1"], max_inflow=3 * b.each)
    return {b.pin(tasks, ["n1"]), of("max_load_distance")}


def moves_off_a_full_node(b: Base) -> Expected:
    """A node that is too small for what is on it cannot be relieved within the budget."""
    b.set_nodes(["n2"], capacity={"cpu": 0.4 * b.load(b.on(2), "cpu")})
    b.limit(max_migrations=max(1, b.each // 4))
    return {of("capacity", ["n2"]), of("max_migrations")}


def leaving_pinned_and_small(b: Base) -> Expected:
    """A new task may go onto a leaving node or one that is too small for it."""
    (task,) = b.some(1)
    b.tasks[task].pop("node")
    b.tasks[task]["load"]["memory"] = 9.0 * b.each
    b.set_nodes(["n2", b.nodes[-1]], capacity={"memory": 30.0 * b.each})
    return {
        b.pin([task], ["n1", b.nodes[-1]]), of("capacity", ["n1"]), of("leaving", [b.nodes[-1]])
    }  # fmt: skip


def link_and_pinned(b: Base) -> Expected:
    """Tasks pinned inside and outside of a rack send more to each other than its link carries."""
    first, second = b.some(2)
    b.document["traffic"].append([f"t{first}", f"t{second}", 60.0])
    b.pin([first], b.rack(1))
    b.pin([second], b.rack(2))
    for link in b.document["links"]:
        # the other racks' links carry the pair: one link alone conflicts
        if link["id"] != "up-r1":
            link["capacity"] = 500.0
    return {of("allowed", [f"t{first}", f"t{second}"]), of("links", ["up-r1"])}


PLANTS: tuple[Callable[[Base], Expected], ...] = (
    memory_in_all, memory_of_a_rack, tasks_on_two_nodes, apart_on_too_few, apart_and_pinned,
    together_is_too_large, together_and_apart, together_and_pinned_apart, spread_and_pinned,
    moves_and_pinned, cost_and_pinned, inflow_and_pinned, least_load_of_few_tasks,
    least_load_and_inflow, slots_and_tasks_a_slot, distance_and_pinned, moves_off_a_full_node,
    leaving_pinned_and_small, link_and_pinned,
)  # fmt: skip


def planted(seed: int, nodes: int = 60, tasks: int = 1200) -> tuple[Instance, Expected]:
    """Return an instance with one conflict, and the rules that it is of."""
    base = Base(seed, nodes, tasks)
    expected = PLANTS[seed % len(PLANTS)](base)
    return Instance.from_dict(base.document), expected


def named(instance: Instance, seconds: float = SECONDS) -> tuple[bool | None, list[Expected]]:
    """Return the verdict on an instance, and the conflicts found."""
    atoms = atoms_of(instance)
    verdict, cores = conflicts(Judge(atoms, seconds))
    return verdict, [
        {(c.rule, frozenset(c.ids)) for c in clashes_of(atoms, core)} for core in cores
    ]


def run(seed: int, nodes: int, tasks: int) -> dict[str, Any]:
    """Explain one instance: whether exactly the rules that conflict are named, and in what time."""
    instance, expected = planted(seed, nodes, tasks)
    run = spend(named, instance)
    right = run.value[1] == [expected]
    name = PLANTS[seed % len(PLANTS)].__name__.replace("_", " ")
    if not right:
        print(f"seed {seed}, {name}: {run.value[1]}, not {expected}"[:400], file=sys.stderr)
    return {"planted": name, "right": right, "seconds": run.wall}
