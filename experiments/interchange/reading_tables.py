"""Reading placements out of tables with a heading line."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np

from experiments.interchange.placing import Places
from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from optim.instance import Instance


def places_of_table(text: str, instance: Instance, column: str, *, whole: bool) -> Places:
    """Return the places a table names.

    Parameters
    ----------
    column
        The one that holds the node.
    whole
        Whether every task must be named; otherwise tasks that are not stay where they are.

    Raises
    ------
    InvalidInput
        Columns are missing, a row names what the instance does not have, or tasks are left out.
    """
    reader = csv.DictReader(io.StringIO(text))
    headings = reader.fieldnames or []
    missing = [name for name in ("task", column) if name not in headings]
    if missing:
        raise InvalidInput(Problem("line 1", ",".join(headings)[:60], f"lacks {missing}"))
    node = instance.tasks.node.copy()
    slot = instance.tasks.slot.copy()
    with_slots = "slot" in headings
    seen = np.zeros(instance.num_tasks, dtype=np.bool_)
    problems: list[Problem] = []
    for row in reader:
        line = f"line {reader.line_num}"
        task = instance.tasks.index.get(row["task"] or "", -1)
        place = instance.nodes.index.get(row[column] or "", -1)
        if task < 0 or seen[max(0, task)]:
            reason = "is no task of the instance" if task < 0 else "stands twice"
            problems.append(Problem(line, row["task"], reason))
        elif place < 0:
            problems.append(Problem(line, row[column], "is no node of the instance"))
        else:
            seen[task], node[task] = True, place
            given = (row.get("slot") or "").strip()
            slot[task] = int(given) if given.isdigit() and len(given) < 9 else -1
        if len(problems) > 1000:
            break
    if whole and not seen.all() and not problems:
        name = instance.tasks.ids[int(np.flatnonzero(~seen)[0])]
        reason = f"and {int((~seen).sum()) - 1} more tasks are not in the table"
        problems.append(Problem("table", name, reason, "use moves for a part"))
    if problems:
        raise InvalidInput(problems)
    return Places(node, slot if with_slots and (slot >= 0).any() else None)
