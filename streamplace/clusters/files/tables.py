"""CSV: every task with its place, only the moves, and placements read out of such tables."""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, raise_any
from streamplace.clusters.exchange.declarations import Exporter, Ledger, Places
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.sources import csv_rows
from streamplace.present.numbers import plural
from streamplace.present.table import from_cell, to_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optim.format.instance import Instance
TABLE = ("task", "operator", "node", "slot", "current_node", "moves")
MOVED = ("task", "from", "to", "cost")


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
        Columns are missing, a row names what the instance does not have, tasks are left out, or the
        text is no table.
    """
    rows = csv_rows(text)
    _, headings = next(rows, (1, []))
    if missing := [name for name in ("task", column) if name not in headings]:
        raise InvalidInput(Problem("line 1", ",".join(headings)[:60], f"lacks {missing}"))
    node = instance.tasks.node.copy()
    slot = instance.tasks.slot.copy()
    with_slots = "slot" in headings
    seen = np.zeros(instance.num_tasks, dtype=np.bool_)
    problems: list[Problem] = []
    for number, values in rows:
        line = f"line {number}"
        row = dict(zip(headings, values, strict=False))
        task = _index_of(row.get("task", ""), instance.tasks.index)
        place = _index_of(row.get(column, ""), instance.nodes.index)
        given = row.get("slot", "").strip()
        if task < 0 or seen[max(0, task)]:
            reason = "is no task of the instance" if task < 0 else "stands twice"
            problems.append(Problem(line, row.get("task"), reason))
        elif place < 0:
            problems.append(Problem(line, row.get(column), "is no node of the instance"))
        elif given and not is_whole(given):
            problems.append(Problem(line, given[:40], "is no slot", "a whole number, or nothing"))
        else:
            seen[task], node[task] = True, place
            slot[task] = int(given) if given else -1
        if len(problems) > 1000:
            break
    if whole and not seen.all() and not problems:
        name = instance.tasks.ids[int(np.flatnonzero(~seen)[0])]
        reason = f"and {int((~seen).sum()) - 1} more tasks are not in the table"
        problems.append(Problem("table", name, reason, "use moves for a part"))
    raise_any(problems)
    return Places(node, slot if with_slots and (slot >= 0).any() else None)


def _index_of(cell: str, index: Mapping[str, int]) -> int:
    """Return the number of what a cell names, with the apostrophe of `to_cell` or without."""
    return index.get(from_cell(cell), index.get(cell, -1))


def _written(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """Return a table as CSV: its texts so that no spreadsheet takes them for formulas."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(heads)
    table.writerows([to_cell(x) if isinstance(x, str) else x for x in row] for row in rows)
    return {"": text.getvalue()}


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index >= 0 else ""


def write_table(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: one row a task in the instance's order."""
    tasks, nodes = instance.tasks, instance.nodes.ids
    slots = np.full(len(tasks.ids), -1) if places.slot is None else places.slot
    columns = (x.tolist() for x in (tasks.operator, places.node, slots, tasks.node))
    rows = [
        (
            name,
            _name(instance.operators.ids, operator),
            nodes[then],
            slot if slot >= 0 else "",
            _name(nodes, now),
            "" if now < 0 else "yes" if now != then else "no",
        )
        for name, operator, then, slot, now in zip(tasks.ids, *columns, strict=True)
    ]
    return _written(TABLE, rows)


read_table = partial(places_of_table, column="node", whole=True)
CSV = Exporter(
    name="csv",
    summary="all tasks with node and slot, and where they are now, as CSV",
    options=(),
    write=write_table,
    read_back=read_table,
)


def write_moves(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: moves in the instance's order; ``from`` is empty where it is unknown."""
    nodes, tasks = instance.nodes.ids, instance.tasks
    rows = [
        (tasks.ids[t], _name(nodes, tasks.node[t]), nodes[places.node[t]], f"{cost:.10g}")
        for t, cost in enumerate(tasks.migration_cost.tolist())
        if places.node[t] != tasks.node[t]
    ]
    if places.slot is not None:
        same = (places.node == tasks.node) & (places.slot != tasks.slot) & (tasks.slot >= 0)
        if same.any():
            change = plural(int(same.sum()), "task")
            ledger.warn(f"not listed, for they change their slot only: {change}")
    return _written(MOVED, rows)


read_moves = partial(places_of_table, column="to", whole=False)
MOVES = Exporter(
    name="moves",
    summary="only the tasks that move: task, from, to, cost, as CSV",
    options=(),
    write=write_moves,
    read_back=read_moves,
)
