"""Plain moves: the tasks that change node, with where from, where to, and what it costs."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import numpy as np

from streamplace.clusters.exchange.declarations import Exporter
from streamplace.clusters.exchange.reading_tables import places_of_table
from streamplace.present.numbers import plural
from streamplace.present.spreadsheet import to_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.placements import Places

HEADINGS = ("task", "from", "to", "cost")


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the moves in the instance's order, as CSV; ``from`` is empty where it is unknown."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEADINGS)
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


def read_back(text: str, instance: Instance) -> Places:
    """Read moves again; tasks that they do not name stay.

    Raises
    ------
    InvalidInput
        Columns are missing, or a row names what the instance does not have.
    """
    return places_of_table(text, instance, "to", whole=False)


EXPORTER = Exporter(
    name="moves",
    summary="only the tasks that move: task, from, to, cost, as CSV",
    options=(),
    write=write,
    read_back=read_back,
)
