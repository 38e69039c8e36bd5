"""Rates of subtasks, from two readings of their counters; what their processes compute.

The job manager answers questions for metrics from a store, and only then has it filled anew, at
most once in `metrics.fetcher.update-interval`. So an answer is as old as the last question of
anybody, and while many questions are asked the store may change under them. Each reading therefore
begins with one question whose answer is thrown away, and follows a moment later, when the store has
been filled and does not change for the rest of its interval.

A task that waits for a processor is busy, too, and what a process does beside its subtasks
(network, collecting garbage, compiling) is in no busy time.
"""

from __future__ import annotations

import re
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from streamplace.clusters.exchange.pages import Reading, is_whole
from streamplace.clusters.exchange.web import quoted
from streamplace.clusters.flink.pages import Job, Metric, Subtask
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from streamplace.clusters.exchange.declarations import Ledger


CLOCK = ("accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")
"""Their sum is the time a subtask has run: the store's own clock."""
RATES = {
    "busyTimeMsPerSecond": "accumulateBusyTimeMs",
    "backPressuredTimeMsPerSecond": "accumulateBackPressuredTimeMs",
    "numBytesInPerSecond": "numBytesIn",
    "numBytesOutPerSecond": "numBytesOut",
    "Shuffle.Netty.Input.numBytesInRemotePerSecond": "Shuffle.Netty.Input.numBytesInRemote",
    "Shuffle.Netty.Input.numBytesInLocalPerSecond": "Shuffle.Netty.Input.numBytesInLocal",
}
"""Flink's means over 60 s, and the counters whose differences are better."""
METRICS = tuple(dict.fromkeys((*RATES, *CLOCK, *RATES.values())))

DEFAULT_INTERVAL = 10.0
_MARGIN = 1.0
_FILLED = 2.0
"""Seconds in which a store has been filled."""
_UNITS = {"": 1e-3, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}

Sample = dict[int, dict[str, float]]
"""Subtask index to metric to value, of one vertex."""
_TIME = "Status.JVM.CPU.Time"
"""Processor time of a task manager's process, ns."""
_TIMES, _CORES = 1.5, 0.1
"""Busy time that is warned of: so many times what the process used, and so many cores more."""
_PROCESS = "process of "


def interval_of(config: Any) -> float:
    """Return how often the store is filled, in s, from ``/jobmanager/config``."""
    for entry in config if isinstance(config, list) else ():
        if isinstance(entry, dict) and entry.get("key") == "metrics.fetcher.update-interval":
            found = re.fullmatch(r"(\d{1,9})\s*([a-z]*)", str(entry.get("value")).strip())
            if found and found[2] in _UNITS:
                return int(found[1]) * _UNITS[found[2]]
    return DEFAULT_INTERVAL


def sample_of(metrics: Iterable[Metric]) -> Sample:
    """Sort the metrics of a vertex, of ids such as ``3.numBytesIn``."""
    found: Sample = {}
    for entry in metrics:
        head, _, metric = entry.id.partition(".")
        if is_whole(head) and entry.value is not None:
            found.setdefault(int(head), {})[metric] = entry.value
    return found


def two_readings(
    ask: Callable[[], dict[str, Sample]], wake: Callable[[], object], interval: float
) -> tuple[dict[str, Sample], dict[str, Sample]]:
    """Return two answers, at least an interval apart, each from a store that was just filled.

    Where the first is empty, as nothing is measured, it is the only one. Where some subtasks stand
    still in the second, as a busy task manager was not read in time, it is asked once more.

    Parameters
    ----------
    ask, wake
        Ask for everything, and for anything.
    interval
        Of the store, s.
    """

    def read() -> dict[str, Sample]:
        wake()
        time.sleep(min(_FILLED, interval / 4))
        return ask()

    first = read()
    if not any(first.values()):
        return first, first
    for _ in range(2):
        time.sleep(interval + _MARGIN if interval > 0 else 0.0)
        second = read()
        if not _some_stand(first, second):
            break
    return first, second


def difference(first: Sample, second: Sample) -> tuple[list[Metric], int]:
    """Return metrics with rates out of counters, and of how many subtasks it has them.

    A subtask whose counters stood still or went back, as after a restart, keeps Flink's means.
    """
    found: list[Metric] = []
    counted = 0
    for index, now in sorted(second.items()):
        before = first.get(index, {})
        seconds = elapsed(before, now)
        for rate, counter in RATES.items():
            value, span = now.get(rate), None
            gain = now.get(counter, 0.0) - before.get(counter, 0.0)
            if seconds > 0 and counter in now and counter in before and gain >= 0:
                value, span = gain / seconds, seconds
            if value is not None:
                name = f"{index}.{rate}"
                found.append(Metric.model_construct(id=name, value=value, seconds=span))
        counted += seconds > 0
    return found, counted


def _some_stand(first: dict[str, Sample], second: dict[str, Sample]) -> bool:
    """Whether the clocks of some subtasks, but not of all, stood still from answer to answer."""
    return {span > 0 for span in _spans(first, second)} == {True, False}


def _spans(first: dict[str, Sample], second: dict[str, Sample]) -> list[float]:
    """Return how long each subtask that has a clock ran from answer to answer, in s."""
    return [
        elapsed(first.get(at, {}).get(index, {}), now)
        for at, sample in second.items()
        for index, now in sample.items()
        if all(name in now for name in CLOCK)
    ]


def elapsed(before: dict[str, float], now: dict[str, float]) -> float:
    """Return the seconds between two readings of a subtask, by its own clock; 0 where unknown."""
    if not all(name in sample for name in CLOCK for sample in (before, now)):
        return 0.0
    spent = [now[name] - before[name] for name in CLOCK]
    return 0.0 if min(spent) < 0 else sum(spent) / 1000.0  # one that went back began anew


def ask_processors(
    ask: Callable[[str, Sequence[str]], list[Metric] | None], managers: Iterable[str]
) -> dict[str, Sample]:
    """Return the processor time of each task manager; `ask` gives metrics of a path by name."""
    found: dict[str, Sample] = {}
    for manager in managers:
        for entry in ask(f"taskmanagers/{quoted(manager)}", [_TIME]) or ():
            if entry.value is not None:
                found[_PROCESS + manager] = {0: {_TIME: entry.value}}
    return found


def take_processors(first: dict[str, Sample], second: dict[str, Sample]) -> dict[str, float]:
    """Take the processors out of two readings; return what each process used, in cores."""
    before, after = (
        {name.removeprefix(_PROCESS): reading.pop(name)[0][_TIME] for name in list(reading)
         if name.startswith(_PROCESS)}
        for reading in (first, second)
    )  # fmt: skip
    spans = [span for span in _spans(first, second) if span > 0]
    if not spans:
        return {}
    return {
        name: (time - before[name]) / 1e9 / median(spans)
        for name, time in after.items()
        if time > before.get(name, time)
    }


def warn_of_waiting(used: Mapping[str, float], jobs: Sequence[Job], ledger: Ledger) -> None:
    """Warn of task managers whose subtasks are busy for longer than their process computes.

    `used` are cores in use, by task manager.
    """
    busy = _busy(jobs)
    if waiting := [m for m in used if busy.get(m, 0.0) > max(_TIMES * used[m], used[m] + _CORES)]:
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
    others
        Jobs that run and are not imported.
    """
    option = "--option cpu", "process"
    if others:
        reason = f"{len(others)} running jobs that are not imported share the processes"
        ledger.problem(*option, reason, "import all running jobs, or leave it out")
    if not used:
        reason = "no processor time is reported (Status.JVM.CPU.Time of task managers, read twice)"
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
    if untold := sorted(str(manager) for manager in busy if manager not in used):
        ledger.warn(f"no processor time of {listed(untold, 5)}: CPU there is the busy time")
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
