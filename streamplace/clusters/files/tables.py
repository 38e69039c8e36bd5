"""CSV: every task with its operator, node and slot, and where it is now."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from streamplace.clusters.exchange.declarations import Exporter
from streamplace.clusters.exchange.reading_tables import places_of_table
from streamplace.present.spreadsheet import to_cell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.placements import Places

HEADINGS = ("task", "operator", "node", "slot", "current_node", "moves")


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the table, one row a task in the instance's order."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEADINGS)
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


def read_back(text: str, instance: Instance) -> Places:
    """Read the table again.

    Raises
    ------
    InvalidInput
        Columns are missing, or a row names what the instance does not have.
    """
    return places_of_table(text, instance, "node", whole=True)


EXPORTER = Exporter(
    name="csv",
    summary="all tasks with node and slot, and where they are now, as CSV",
    options=(),
    write=write,
    read_back=read_back,
)
