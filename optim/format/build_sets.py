"""Sets of tasks, from the document to their table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.errors import Problem
from optim.format.tables import APART, NO_INDEX, SET_RULES, SPREAD, SetTable

if TYPE_CHECKING:
    from optim.format.document import InstanceDocument, SetDocument
    from optim.format.tables import NodeTable, OperatorTable, TaskTable


def build_sets(
    document: InstanceDocument,
    nodes: NodeTable,
    operators: OperatorTable,
    tasks: TaskTable,
    problems: list[Problem],
) -> SetTable:
    """Resolve the members of every set; whatever is wrong is added to the problems."""
    entries = document.sets
    index = tasks.index if entries else {}
    first: dict[str, int] = {}
    members: list[list[int]] = []
    for i, entry in enumerate(entries):
        path = f"sets[{i}]"
        if first.setdefault(entry.id, i) != i:
            reason = f"is also the id of sets[{first[entry.id]}]"
            problems.append(Problem(f"{path}.id", entry.id, reason, "ids must be unique"))
        members.append(_members(entry, path, operators, index, problems))
        problems += _misused(entry, path, nodes)
    rule = np.array([SET_RULES.index(entry.rule) for entry in entries], dtype=np.int32)
    lengths = [len(tasks_of_set) for tasks_of_set in members]
    return SetTable(
        ids=tuple(entry.id for entry in entries),
        rule=rule,
        by_rack=np.array([entry.over == "rack" for entry in entries], dtype=np.bool_),
        limit=np.array([e.at_most or e.at_least or 1 for e in entries], dtype=np.int32),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        members=np.array([t for tasks_of_set in members for t in tasks_of_set], dtype=np.int32),
        by_operator=np.array(
            [
                NO_INDEX if e.operator is None else operators.index.get(e.operator, NO_INDEX)
                for e in entries
            ],
            dtype=np.int32,
        ),
    )


def _members(
    entry: SetDocument,
    path: str,
    operators: OperatorTable,
    index: dict[str, int],
    problems: list[Problem],
) -> list[int]:
    if (entry.operator is None) == (not entry.tasks):
        reason = "has no members" if entry.operator is None else "has both tasks and operator"
        problems.append(Problem(path, entry.id, reason, "give tasks, or operator"))
        return []
    if entry.operator is not None:
        at = operators.index.get(entry.operator)
        if at is None:
            reason = "is not the id of an operator"
            problems.append(Problem(f"{path}.operator", entry.operator, reason))
            return []
        found = operators.task_indices[operators.task_indptr[at] : operators.task_indptr[at + 1]]
        return sorted(found.tolist())
    places = []
    for j, name in enumerate(entry.tasks):
        task = index.get(name)
        if task is None:
            problems.append(Problem(f"{path}.tasks[{j}]", name, "is not the id of a task"))
        elif name in entry.tasks[:j]:
            problems.append(Problem(f"{path}.tasks[{j}]", name, "stands twice", "keep one"))
        else:
            places.append(task)
    return sorted(places)


def _misused(entry: SetDocument, path: str, nodes: NodeTable) -> list[Problem]:
    rule = SET_RULES.index(entry.rule)
    found = []
    if entry.at_most is not None and rule != APART:
        reason = f"is of no use to {entry.rule}"
        found.append(Problem(f"{path}.at_most", entry.at_most, reason, "only apart takes it"))
    if entry.at_least is not None and rule != SPREAD:
        reason = f"is of no use to {entry.rule}"
        found.append(Problem(f"{path}.at_least", entry.at_least, reason, "only spread takes it"))
    if entry.at_least is None and rule == SPREAD:
        reason = "is missing: over how many places to spread"
        found.append(Problem(f"{path}.at_least", None, reason, "give a whole number from 1"))
    without = np.flatnonzero(nodes.rack < 0)
    if entry.over == "rack" and len(without):
        reason = f"needs nodes[].rack; {nodes.ids[without[0]]} has none"
        found.append(Problem(f"{path}.over", "rack", reason, "give every node its rack"))
    return found
