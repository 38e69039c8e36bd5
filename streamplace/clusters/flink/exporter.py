"""Flink: quotas of task managers and groups of vertices that leave a job only the planned places.

Three files: the sheet that ``streamplace flink submit`` and ``streamplace verify flink`` read, the
lines for each task manager's ``config.yaml``, and how to put them to use.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from streamplace.clusters.exchange.declarations import Exporter
from streamplace.clusters.flink.sheet import Sheet, sheet_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.placements import Places

_NAMED = 5
_HOW_TO = """\
# Plan {key}: {slots} slots on {managers} task managers

Guaranteed: how many subtasks of each vertex every task manager runs, also after a failure. If a
task manager that has a quota is missing, the job waits for it and runs nowhere else. Not
guaranteed: which index runs where. Flink deals indices anew on every start.

1. Give each task manager its block of the `.taskmanagers.yaml` file, and restart it (the job
   manager stays). The blocks of several plans may stand side by side: join their lists
   `external-resources`. Changing to a plan whose quotas are there is cancel and submit, without any
   restart.
   - Standalone: append the block to that machine's `conf/config.yaml`, then `bin/taskmanager.sh
     stop` and `start`; or start it with `-D external-resources=...` and so on, one `-D` a line.
   - Kubernetes: task managers need names that stay, so run them as a StatefulSet. Put the blocks
     into a ConfigMap, one file a pod name, mount it at `/quotas`, and start with
     `cat /quotas/$(hostname).yaml >> $FLINK_CONF_DIR/config.yaml` before
     `/docker-entrypoint.sh taskmanager`. A native deployment starts equal pods: it cannot hold
     quotas that differ.
   - `taskmanager.resource-id` is the name the plan knows the task manager by; keep it unique.
2. Cancel the job (with a savepoint, if its state is to stay), and submit it with the groups below,
   which needs no change of the program: `streamplace flink submit URL SHEET --jar JOB.jar`, or
   `--sql SCRIPT.sql`. By hand, each vertex' `slotSharingGroup` gets the name below and one unit of
   the resource of that name, 0.01 CPU cores and 1 MB of task heap: small, as the quota is to bind.
3. `streamplace verify flink URL SHEET` counts, and compares what crosses between task managers.

| group and resource | parallelism | vertices | slots by task manager |
|---|---|---|---|
{rows}
"""


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the sheet, the blocks of configuration, and the how-to.

    Raises
    ------
    InvalidInput
        As from `sheet_of`.
    """
    sheet = sheet_of(instance, places)
    ledger.reading("counts of subtasks by task manager are kept; which index goes where is Flink's")
    _warn_of_unequal(instance, ledger)
    return {
        "": json.dumps(sheet.to_dict(), ensure_ascii=False, indent=1) + "\n",
        ".taskmanagers.yaml": "---\n".join(_block(sheet, name) for name in sheet.task_managers),
        ".md": _how_to(sheet),
    }


def _warn_of_unequal(instance: Instance, ledger: Ledger) -> None:
    """Warn of operators whose tasks differ: a plan says which goes where, the sheet how many."""
    names = [
        name
        for o, name in enumerate(instance.operators.ids)
        if len(load := instance.tasks.load[instance.tasks_of(o)])
        and not np.allclose(load, load[0], rtol=1e-9, atol=0.0)
    ]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        ledger.warn(
            f"tasks of {', '.join(names[:_NAMED])}{more} have unequal loads: the plan's figures "
            "hold if each runs where it is planned, and Flink is told only how many run where"
        )


def _block(sheet: Sheet, manager: str) -> str:
    lines = [f"# task manager {' '.join(manager.split())}"]
    for key, value in sheet.configuration(manager).items():
        lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _how_to(sheet: Sheet) -> str:
    rows = []
    for group in sheet.groups:
        vertices = " + ".join(f"{name} (`{key}`)" for key, name in group.vertices.items())
        counts = ", ".join(f"{manager}: {n}" for manager, n in group.counts.items())
        cells = (f"`{sheet.resource(group)}`", str(group.parallelism), vertices, counts)
        plain = (" ".join(cell.replace("|", "\\|").split()) for cell in cells)
        rows.append(f"| {' | '.join(plain)} |")
    slots = sum(group.parallelism for group in sheet.groups)
    managers = len(sheet.task_managers)
    return _HOW_TO.format(key=sheet.key, slots=slots, managers=managers, rows="\n".join(rows))


EXPORTER = Exporter(
    name="flink",
    summary="quotas of task managers and groups of vertices, for submit and verify",
    options=(),
    write=write,
    next_step="give each task manager its block of {1}, then "
    "`streamplace flink submit URL {0} --jar JOB.jar`; {2} says how",
)
