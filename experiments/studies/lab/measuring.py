"""What a running job of the bench does: orders a second, and where its subtasks are."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.lab.cluster import PATIENCE, LabError
from optim import Instance, Plan, evaluate
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import WebClient
from streamplace.clusters.flink.fetch import CLOCK, Cluster, elapsed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamplace.clusters.flink.exporter import Sheet
    from streamplace.clusters.flink.fetch import Sample

_RECORDS = "numRecordsOut"
_PAUSE = 0.5
_TRIES = 60
"""Times to ask until the store of metrics has been filled anew."""


@dataclass(frozen=True)
class Row:
    """A run.

    Attributes
    ----------
    measured, predicted
        Orders/s: as counted, and at which the imported instance says that something is full.
    full
        The bottleneck, by the instance.
    apart
        Share of traffic that crosses between machines, by the instance.
    load, busy
        The machine's load average, and the share of its cores in use by all that ran on it.
    """

    shape: str
    policy: str
    repetition: int
    measured: float
    predicted: float
    full: str
    apart: float
    subtasks: int
    as_planned: int
    load: float
    busy: float

    def cells(self) -> dict[str, Any]:
        """Return it as a line of the table, of rounded numbers."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


COLUMNS = tuple(field.name for field in fields(Row))


class Running:
    """A job on a cluster.

    Raises
    ------
    InvalidInput
        The job manager does not answer.
    """

    def __init__(self, url: str, job: str) -> None:
        self._client = WebClient(url, PATIENCE)
        self._job = job
        page = self._client.get(f"jobs/{job}")
        self._vertices = {vertex["id"]: vertex for vertex in page["vertices"]}

    def rate_during(self, work: Callable[[], object]) -> float:
        """Return the orders/s that sources put out meanwhile, by their own clocks.

        Raises
        ------
        LabError
            The job manager has no new counters.
        """
        first = self._counters()
        work()
        second = self._counters()
        return sum(
            (second[i][_RECORDS] - first[i][_RECORDS]) / elapsed(first[i], second[i])
            for i in second
        )

    def assignment(self) -> dict[str, str]:
        """Return where each subtask is, named as the import names tasks."""
        return {
            f"{vertex['name']}/{subtask['subtask']}": subtask["taskmanager-id"]
            for key, vertex in self._vertices.items()
            for subtask in self._client.get(f"jobs/{self._job}/vertices/{key}")["subtasks"]
        }

    def runs(self) -> bool:
        """Whether it never stopped: a job that restarted has counted anew."""
        page = self._client.get(f"jobs/{self._job}")
        started = page["timestamps"]
        return page["state"] == "RUNNING" and not started["RESTARTING"]

    def _counters(self) -> Sample:
        key, vertex = next(
            (k, v) for k, v in self._vertices.items() if v["name"].startswith("Source")
        )
        ask = partial(
            Cluster(self._client, self._job, Ledger()).sample,
            f"jobs/{self._job}/vertices/{key}",
            vertex["parallelism"],
            (_RECORDS, *CLOCK),
        )
        old = ask()  # as old as the last question of anybody
        for _ in range(_TRIES):
            time.sleep(_PAUSE)
            new = ask()
            if new and all(elapsed(old.get(i, {}), new[i]) > 0 for i in new):
                return new
            old = {**new, **old}
        raise LabError(f"job {self._job}: no fresh counters of {vertex['name']}")


def foresee(instance: Instance, assignment: dict[str, str]) -> tuple[float, str, float]:
    """Return the multiple of the profiled rate that a placement carries, what is full then, and
    the share of traffic that crosses between machines."""
    found = evaluate(instance, Plan(instance.name, assignment))
    full = (found.saturation or [{}])[0]
    what = full.get("link") or f"{full.get('node') or full.get('task')} {full.get('resource')}"
    apart = (found.internode_traffic or 0.0) / (found.total_traffic or 1.0)
    return found.sustainable_rate or 0.0, str(what), apart


def joined(sheets: list[Sheet], manager: str) -> dict[str, Any]:
    """Return a task manager's settings for several plans at once."""
    found: dict[str, Any] = {}
    names: list[str] = []
    for sheet in sheets:
        own = sheet.configuration(manager)
        names += own.pop("external-resources", [])
        found |= own
    return found | ({"external-resources": names} if names else {})


def as_planned(sheet: Sheet, assignment: Mapping[str, str]) -> int:
    """Count the subtasks of planned vertices that are where the plan has one of them."""
    found = 0
    for group in sheet.groups:
        for name in group.vertices.values():
            left = dict(group.counts)
            for task, manager in assignment.items():
                if task.rpartition("/")[0] == name and left.get(manager, 0):
                    left[manager] -= 1
                    found += 1
    return found


def cpu_clock() -> tuple[float, float]:
    """Return jiffies that the machine's cores were in use, and all of theirs."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [float(n) for n in line.split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
