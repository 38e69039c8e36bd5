"""What the processes of task managers compute, beside how long their subtasks are busy.

A task that waits for a processor is busy, too, and what a process does beside its subtasks
(network, collecting garbage, compiling) is in no busy time.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from streamplace.clusters.exchange.pages import as_number
from streamplace.clusters.exchange.readings import Reading
from streamplace.clusters.exchange.web import quoted
from streamplace.clusters.flink.rates import elapsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from streamplace.clusters.exchange.ledger import Ledger
    from streamplace.clusters.exchange.web import WebClient
    from streamplace.clusters.flink.pages import Job, Subtask
    from streamplace.clusters.flink.rates import Sample

_TIME = "Status.JVM.CPU.Time"
"""Processor time of a task manager's process, ns."""
_TIMES, _CORES = 1.5, 0.1
"""Busy time that is told of: so many times what the process used, and so many cores more."""
_PROCESS = "process of "


def ask_processors(client: WebClient, managers: Iterable[str]) -> dict[str, Sample]:
    """Return the processor time of each task manager, beside the samples of vertices."""
    found: dict[str, Sample] = {}
    for manager in managers:
        page = client.maybe(f"taskmanagers/{quoted(manager)}/metrics", get=_TIME)
        for entry in page if isinstance(page, list) else ():
            time = as_number(entry.get("value")) if isinstance(entry, dict) else None
            if time is not None:
                found[_PROCESS + manager] = {0: {_TIME: time}}
    return found


def take_processors(first: dict[str, Sample], second: dict[str, Sample]) -> dict[str, float]:
    """Take the processors out of two readings; return what each process used, in cores."""
    times = [
        {name.removeprefix(_PROCESS): reading.pop(name)[0][_TIME] for name in list(reading)
         if name.startswith(_PROCESS)}
        for reading in (first, second)
    ]  # fmt: skip
    spans = [
        span
        for at, sample in second.items()
        for index, now in sample.items()
        if (span := elapsed(first.get(at, {}).get(index, {}), now)) > 0
    ]
    if not spans:
        return {}
    before, after = times
    return {
        name: (time - before[name]) / 1e9 / median(spans)
        for name, time in after.items()
        if time > before.get(name, time)
    }


def tell_waiting(used: Mapping[str, float], jobs: Sequence[Job], ledger: Ledger) -> None:
    """Warn of task managers whose subtasks are busy for longer than their process computes.

    Parameters
    ----------
    used
        Cores in use, by task manager.
    jobs
        Those that are imported.
    """
    busy = _busy(jobs)
    waiting = [m for m in used if busy.get(m, 0.0) > max(_TIMES * used[m], used[m] + _CORES)]
    if waiting:
        worst = max(waiting, key=lambda name: busy[name] / used[name])
        ledger.warn(
            f"on {len(waiting)} of {len(used)} task managers subtasks are busy for longer than "
            f"their process computes ({worst}: {busy[worst]:.2g} s a second, of a processor "
            f"{used[worst]:.2g}): they wait for it, or for something outside, and count as heavier "
            "than they are (--option cpu=process counts what processes compute)"
        )


def share_processors(
    used: Mapping[str, float],
    standing: float,
    jobs: Sequence[Job],
    others: Sequence[Job],
    ledger: Ledger,
) -> None:
    """Let the subtasks of a task manager share what its process computes, as they are busy.

    Parameters
    ----------
    used, standing
        Cores in use, by task manager, and what of them no subtask causes.
    jobs, others
        The jobs that are imported, whose subtasks are changed, and others that run.
    """
    option = "--option cpu", "process"
    if others:
        reason = f"{len(others)} running jobs that are not imported share the processes"
        ledger.problem(*option, reason, "import all running jobs, or leave it out")
    if not used:
        reason = "no processor time is told (Status.JVM.CPU.Time of task managers, read twice)"
        ledger.problem(*option, reason, "import from the running cluster, or leave it out")
    busy = _busy(jobs)
    for manager in sorted(name for name in used if busy.get(name) and used[name] <= standing):
        reason = f"{manager} uses no more than that ({used[manager]:.3g} cores) while its tasks run"
        ledger.problem("--option standing", standing, reason, "measure it while nothing flows")
    ledger.check()
    for subtask in _subtasks(jobs):
        place = subtask.place[0]
        if place is not None and place in used and subtask.busy:
            part = subtask.busy / busy[place]
            subtask.readings["busy"] = Reading.mean(part * (used[place] - standing), 1.0)
    untold = sorted(str(manager) for manager in busy if manager not in used)
    if untold:
        ledger.warn(f"no processor time of {', '.join(untold[:5])}: CPU there is the busy time")
    ledger.reading(
        "a subtask's CPU is its part, by busy time, of what its process computes, in cores"
    )


def _subtasks(jobs: Sequence[Job]) -> list[Subtask]:
    return [s for job in jobs for v in job.vertices.values() for s in v.subtasks.values()]


def _busy(jobs: Sequence[Job]) -> dict[str | None, float]:
    """Return how long subtasks are busy, in s a second, by what they say of their task manager."""
    found: dict[str | None, float] = {}
    for subtask in _subtasks(jobs):
        manager = subtask.place[0]
        found[manager] = found.get(manager, 0.0) + (subtask.busy or 0.0)
    return found
