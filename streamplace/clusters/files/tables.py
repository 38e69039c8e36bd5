"""CSV: every task with its place, only the moves, and placements read out of such tables."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Exporter
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.placements import Places
from streamplace.present.numbers import plural
from streamplace.present.spreadsheet import from_cell, to_cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.declarations import Ledger
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
    rows = _rows(text)
    _, headings = next(rows, (1, []))
    missing = [name for name in ("task", column) if name not in headings]
    if missing:
        raise InvalidInput(Problem("line 1", ",".join(headings)[:60], f"lacks {missing}"))
    node = instance.tasks.node.copy()
    slot = instance.tasks.slot.copy()
    with_slots = "slot" in headings
    seen = np.zeros(instance.num_tasks, dtype=np.bool_)
    problems: list[Problem] = []
    for number, values in rows:
        line = f"line {number}"
        row = dict(zip(headings, values, strict=False))
        task = _meant(row.get("task", ""), instance.tasks.index)
        place = _meant(row.get(column, ""), instance.nodes.index)
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
    if problems:
        raise InvalidInput(problems)
    return Places(node, slot if with_slots and (slot >= 0).any() else None)


def _meant(cell: str, index: Mapping[str, int]) -> int:
    """Return the number of what a cell names, with the apostrophe of `to_cell` or without."""
    return index.get(from_cell(cell), index.get(cell, -1))


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the number of its last line."""
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        remedy = "a quote may have been left open"
        raise InvalidInput(Problem(f"line {reader.line_num}", None, str(error), remedy)) from None


def write_table(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the table, one row a task in the instance's order."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(TABLE)
    tasks, nodes, operators = instance.tasks, instance.nodes.ids, instance.operators.ids
    for t, name in enumerate(tasks.ids):
        now, then = int(tasks.node[t]), int(places.node[t])
        slot = -1 if places.slot is None else int(places.slot[t])
        table.writerow(
            [
                to_cell(name),
                to_cell(operators[tasks.operator[t]]) if tasks.operator[t] >= 0 else "",
                to_cell(nodes[then]),
                slot if slot >= 0 else "",
                to_cell(nodes[now]) if now >= 0 else "",
                "yes" if now >= 0 and now != then else "no" if now >= 0 else "",
            ]
        )
    return {"": text.getvalue()}


def read_table(text: str, instance: Instance) -> Places:
    """Read the table again.

    Raises
    ------
    InvalidInput
        Columns are missing, or a row names what the instance does not have.
    """
    return places_of_table(text, instance, "node", whole=True)


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
    """Return the moves in the instance's order, as CSV; ``from`` is empty where it is unknown."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(MOVED)
    nodes, tasks = instance.nodes.ids, instance.tasks
    moved = np.flatnonzero(places.node != tasks.node).tolist()
    for t in moved:
        source = to_cell(nodes[tasks.node[t]]) if tasks.node[t] >= 0 else ""
        cost = f"{tasks.migration_cost[t]:.10g}"
        table.writerow([to_cell(tasks.ids[t]), source, to_cell(nodes[places.node[t]]), cost])
    if places.slot is not None:
        same = (places.node == tasks.node) & (places.slot != tasks.slot) & (tasks.slot >= 0)
        if same.any():
            tasks_told = plural(int(same.sum()), "task")
            ledger.warn(f"not listed, for they change their slot only: {tasks_told}")
    return {"": text.getvalue()}


def read_moves(text: str, instance: Instance) -> Places:
    """Read moves again; tasks that they do not name stay.

    Raises
    ------
    InvalidInput
        Columns are missing, or a row names what the instance does not have.
    """
    return places_of_table(text, instance, "to", whole=False)


MOVES = Exporter(
    name="moves",
    summary="only the tasks that move: task, from, to, cost, as CSV",
    options=(),
    write=write_moves,
    read_back=read_moves,
)
