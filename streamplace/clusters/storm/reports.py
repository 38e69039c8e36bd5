"""What workers report themselves: messages that they sent to each other, and their processor time.

Storm's ``CsvStormReporter`` writes a file a metric with lines ``t,value``, t in seconds; all of one
report have the same t::

    storm.worker.<topology>.<host>.__system.-1.<port>-__send-iconnection-sent-<host>:<port>.csv
    storm.worker.<topology>.<host>.<component>.<stream>.<task>.<port>-__transfer-count-<stream>.csv
    storm.topology.<topology>.<host>.__system.-1.<port>-startTimeSecs.csv

In the first host, dots are underscores. Counts are those since the worker started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPORTERS = "topology.metrics.reporters"
REPORTER = "CsvStormReporter"
_SENT, _GIVEN, _STARTED = "__send-iconnection-sent-", "__transfer-count-", "startTimeSecs"
_CPU = "workerCpuUsage"
SPAN = 60.0
"""Seconds before the last report that count, where a worker runs for as long."""
_LATE = 3
"""Periods after which a report is of a worker that is gone."""

Place = tuple[str, int]
Rows = dict[int, float]


@dataclass
class Worker:
    """What a worker reported: by time, when it started, its part of a core, what each task gave on,
    and what it sent to each other worker."""

    started: Rows = field(default_factory=dict)
    cpu: Rows = field(default_factory=dict)
    given: list[Rows] = field(default_factory=list)
    sent: dict[Place, Rows] = field(default_factory=dict)

    def window(self, span: float = SPAN) -> tuple[int, int, int] | None:
        """Return the first and last report that count, and the period; ``None``: fewer than two.

        Of a worker that started again the reports before are another's.
        """
        if not self.started:
            return None
        last = max(self.started)
        since = self.started[last]
        times = sorted(t for t in self.started if t > since and t >= last - span)
        return (times[0], last, times[-1] - times[-2]) if len(times) > 1 else None

    def nearest(self, first: int, last: int) -> tuple[int, int]:
        """Return its reports nearest to two times: of the worker that runs now, and never one."""
        newest = max(self.started)
        times = sorted(t for t in self.started if t > self.started[newest])
        begin = min(times[:-1], key=lambda t: abs(t - first))
        return begin, min((t for t in times if t > begin), key=lambda t: abs(t - last))


def folder_in(settings: Mapping[str, Any]) -> tuple[Path | None, str]:
    """Return where the workers of a topology write their reports on this machine, or why nowhere.

    Parameters
    ----------
    settings
        Of the topology.
    """
    for reporter in settings.get(REPORTERS) or ():
        if isinstance(reporter, dict) and str(reporter.get("class", "")).endswith(REPORTER):
            told = reporter.get("csv.log.dir")
            if isinstance(told, str) and Path(told).is_dir():
                return Path(told), ""
            where = f"{told} of its hosts" if told else "its hosts"
            return None, f"workers report in {where}: collect the files, --reports FOLDER"
    return None, f"the topology has no {REPORTER} in {REPORTERS}"


def read_workers(folder: Path, identity: str) -> dict[Place, Worker]:
    """Read the reports of a topology's workers, by the host that these name and port.

    Raises
    ------
    InvalidInput
        It is no folder, or a file of it is no such report.
    """
    name = re.compile(
        rf"storm\.(?:worker|topology)\.{re.escape(identity)}\.([^.]*)\..*?\.(\d+)-"
        rf"(?:({_STARTED})|({_CPU})|({_GIVEN}).+(?<!\.m1_rate)|{_SENT}(.+):(\d+))\.csv"
    )
    found: dict[Place, Worker] = {}
    if not folder.is_dir():
        remedy = f"the folder of the files that {REPORTER} wrote"
        raise InvalidInput(Problem("--reports", str(folder), "is no folder", remedy))
    for path in sorted(folder.rglob("*.csv")):
        told = name.fullmatch(path.name)
        if told is None:
            continue
        worker = found.setdefault((told[1], int(told[2])), Worker())
        rows = _read(path)
        if told[3]:
            worker.started |= rows
        elif told[4]:
            worker.cpu |= rows
        elif told[5]:
            worker.given.append(rows)
        else:
            worker.sent.setdefault((told[6], int(told[7])), {}).update(rows)
    return found


def _read(path: Path) -> Rows:
    rows: Rows = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = iter(file)
            next(lines, None)
            for line in lines:
                if line.endswith("\n"):  # else it is being written
                    time, _, value = line.partition(",")
                    rows[int(time)] = float(value)
    except (OSError, ValueError) as error:
        reason, remedy = f"is no report of {REPORTER}: {error}", "t,value in each line"
        raise InvalidInput(Problem(str(path), None, reason, remedy)) from error
    return rows


@dataclass(frozen=True)
class Crossing:
    """Messages a second that were given to executors, and those of them that crossed nodes."""

    crossed: float
    total: float


def crossing(
    workers: dict[Place, Worker], node_of: Mapping[Place, str], span: float = SPAN
) -> Crossing | str:
    """Return what crosses between nodes, or why that is not known.

    Each worker counts between two reports of its own, those nearest to the time for which all have
    reported: what is sent just after a start is not what is sent later.

    Parameters
    ----------
    node_of
        The node of each worker that runs, by host and port.
    span
        Seconds before a worker's last report that count.
    """
    reported = _running(workers, node_of, span)
    newest = max((window[1] for _, window in reported.values()), default=0)
    late = [p for p, (_, w) in reported.items() if newest - w[1] > _LATE * max(w[2], 1)]
    missing = [f"{host}:{port}" for host, port in sorted({*late, *(node_of.keys() - reported)})]
    if missing:
        return f"{', '.join(missing[:3])} reported less than twice since started"
    crossed = total = 0.0
    since = max((window[0] for _, window in reported.values()), default=0)
    until = min((window[1] for _, window in reported.values()), default=0)
    for place, (worker, _) in reported.items():
        first, last = worker.nearest(since, until)
        total += sum(_grown(rows, first, last) for rows in worker.given) / (last - first)
        for other, rows in worker.sent.items():
            if node_of.get(other) not in (None, node_of[place]):
                crossed += _grown(rows, first, last) / (last - first)
    return Crossing(crossed, total) if total else "nothing is sent"


def processors(
    workers: dict[Place, Worker], places: Sequence[Place]
) -> tuple[dict[Place, float], list[Place]]:
    """Return the cores that the threads of running workers use, and the workers that report none.

    Parameters
    ----------
    places
        Host and port of the workers that run.
    """
    used = {}
    for place, (worker, (first, last, _)) in _running(workers, places).items():
        told = [cores for t, cores in worker.cpu.items() if first < t <= last]
        if told:
            used[place] = sum(told) / len(told)
    return used, sorted(place for place in places if place not in used)


def _running(
    workers: dict[Place, Worker], places: Iterable[Place], span: float = SPAN
) -> dict[Place, tuple[Worker, tuple[int, int, int]]]:
    """Return the workers that run and reported twice, with the window of their reports."""
    of_port: dict[int, list[Place]] = {}
    for place in places:
        of_port.setdefault(place[1], []).append(place)
    found: dict[Place, tuple[Worker, tuple[int, int, int]]] = {}
    for (host, port), worker in workers.items():
        named = [p for p in of_port.get(port, ()) if p[0].replace(".", "_") == host]
        named = named or of_port.get(port, [])
        window = worker.window(span)
        if len(named) == 1 and window is not None:
            now = found.get(named[0])
            if now is None or now[1][1] < window[1]:
                found[named[0]] = worker, window
    return found


def _grown(rows: Rows, first: int, last: int) -> float:
    """Return by how much a count grew between two reports; one that is not there yet is 0."""
    return max(0.0, rows[last] - rows.get(first, 0.0)) if last in rows else 0.0
