"""Reading a running cluster over REST, so that its pages fit each other; waiting for its jobs.

Rates are from two readings of counters. The job manager answers questions for metrics from a store,
and only then has it filled anew, at most once in `metrics.fetcher.update-interval`. So an answer is
as old as the last question of anybody, and while many questions are asked the store may change
under them. Each reading therefore begins with one question whose answer is thrown away, and follows
a moment later, when the store has been filled and does not change for the rest of its interval.

A task that waits for a processor is busy, too, and what a process does beside its subtasks
(network, collecting garbage, compiling) is in no busy time.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import Reading, is_whole, read_page
from streamplace.clusters.exchange.sources import WebClient, quoted
from streamplace.clusters.flink import pages
from streamplace.clusters.flink.pages import RUNNING, Job, Metric, Subtask
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


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
_FASTER, _STALE = 3.0, 60.0
"""Times the seconds that passed, and seconds more: a store may have been older than the answer."""
_FILLED = 2.0
"""Seconds in which a store has been filled."""
_UNITS = {"": 1e-3, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}

Sample = dict[int, dict[str, float]]
"""Subtask index to metric to value, of one vertex."""
_TIME = "Status.JVM.CPU.Time"
"""Processor time of a task manager's process, ns."""
_TIMES, _CORES = 1.5, 0.1
"""Busy time that is waiting in part: so many times what the process used, so many cores more."""
_FULL = 0.8
"""Share of time busy from which on a subtask may be what holds its senders back."""
_PROCESS = "process of "


def interval_of(config: Any) -> float:
    """Return how often the store is filled, in s, from ``/jobmanager/config``."""
    for entry in config if isinstance(config, list) else ():
        if isinstance(entry, dict) and entry.get("key") == "metrics.fetcher.update-interval":
            match = re.fullmatch(r"(\d{1,9})\s*([a-z]*)", str(entry.get("value")).strip())
            if match and match[2] in _UNITS:
                return int(match[1]) * _UNITS[match[2]]
    return DEFAULT_INTERVAL


def sample_of(metrics: Iterable[Metric]) -> Sample:
    """Sort the metrics of a vertex, of ids such as ``3.numBytesIn``."""
    sample: Sample = {}
    for entry in metrics:
        head, _, metric = entry.id.partition(".")
        if is_whole(head) and entry.value is not None:
            sample.setdefault(int(head), {})[metric] = entry.value
    return sample


def two_readings(
    ask: Callable[[], dict[str, Sample]], wake: Callable[[], object], interval: float
) -> tuple[dict[str, Sample], dict[str, Sample], float]:
    """Return two answers, at least an interval apart, each from a store that was just filled.

    The third is how many seconds passed between them. Where the first is empty, as nothing is
    measured, it is the only one. Where subtasks stand still in the second or are not in it, as busy
    task managers were not read in time, it is asked once more.

    `ask`, `wake`: ask for everything, and for anything.
    `interval`: of the store, s.
    """

    def read() -> dict[str, Sample]:
        # the answer is old; asking has the store filled (see above)
        wake()
        time.sleep(min(_FILLED, interval / 4))
        return ask()

    first, began, rested = read(), time.monotonic(), 0.0
    if not any(first.values()):
        return first, first, 0.0
    for _ in range(2):
        pause = interval + _MARGIN if interval > 0 else 0.0
        time.sleep(pause)
        rested += pause
        passed = max(rested, time.monotonic() - began)
        second = read()
        # else some subtasks stood still from answer to answer, or are gone
        if all(_spans(first, second)) and not _lost(first, second):
            break
    return first, second, passed


def difference(first: Sample, second: Sample, passed: float = math.inf) -> tuple[list[Metric], int]:
    """Return metrics with rates out of counters, and of how many subtasks it has them.

    A subtask whose counters stood still or went back, as after a restart, keeps Flink's means, and
    so does one whose clock was set: it ran for far longer than the seconds that `passed`.
    """
    metrics: list[Metric] = []
    counted = 0
    for index, after in sorted(second.items()):
        before = first.get(index, {})
        seconds = elapsed(before, after)
        seconds = seconds if seconds <= _FASTER * passed + _STALE else 0.0
        for rate, counter in RATES.items():
            value, span = after.get(rate), None
            # below 0 the counter began anew: Flink's own mean is taken
            gain = after.get(counter, 0.0) - before.get(counter, 0.0)
            # rate = gain of the counter / s of the subtask's own clock
            if seconds > 0 and counter in after and counter in before and gain >= 0:
                value, span = gain / seconds, seconds
            if value is not None:
                name = f"{index}.{rate}"
                metrics.append(Metric.model_construct(id=name, value=value, seconds=span))
        counted += seconds > 0
    return metrics, counted


def _both(
    first: dict[str, Sample], second: dict[str, Sample]
) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    """Yield what each subtask of either answer has in both; empty where it has nothing."""
    for at in {**first, **second}:
        before, after = first.get(at, {}), second.get(at, {})
        for index in {**before, **after}:
            yield before.get(index, {}), after.get(index, {})


def _lost(first: dict[str, Sample], second: dict[str, Sample]) -> int:
    """Return how many subtasks had a clock in the first answer and have none in the second."""
    return sum(_has_clock(a) and not _has_clock(b) for a, b in _both(first, second))


def _spans(first: dict[str, Sample], second: dict[str, Sample]) -> list[float]:
    """Return how long each subtask that has a clock ran from answer to answer, in s."""
    return [elapsed(before, after) for before, after in _both(first, second) if _has_clock(after)]


def _has_clock(sample: dict[str, float]) -> bool:
    return all(name in sample for name in CLOCK)


def elapsed(before: dict[str, float], after: dict[str, float]) -> float:
    """Return the seconds between two readings of a subtask, by its own clock; 0 where unknown."""
    if not (_has_clock(before) and _has_clock(after)):
        return 0.0
    spent = [after[name] - before[name] for name in CLOCK]
    return 0.0 if min(spent) < 0 else sum(spent) / 1000.0  # one that went back began anew


def take_processors(first: dict[str, Sample], second: dict[str, Sample]) -> dict[str, float]:
    """Take the processors out of two readings; return what each process used, in cores."""
    # processes travel in the same samples as vertices, so that both are of one moment
    before, after = (
        {name.removeprefix(_PROCESS): reading.pop(name)[0][_TIME] for name in list(reading)
         if name.startswith(_PROCESS)}
        for reading in (first, second)
    )  # fmt: skip
    # task managers have no clock: median time between the readings of subtasks
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
    if waiting := _waiting(used, busy):
        worst = max(waiting, key=lambda name: busy[name] / used[name])
        ledger.warn(
            f"on {len(waiting)} of {len(used)} task managers subtasks are busy for longer than "
            f"their process computes ({worst}: {busy[worst]:.2g} s a second, of a processor "
            f"{used[worst]:.2g}): they wait for it, or for something outside, and count as heavier "
            "than they are (--option cpu=process counts what processes compute)"
        )


def _waiting(used: Mapping[str, float], busy: Mapping[str | None, float]) -> list[str]:
    """Return the task managers whose subtasks are busy for longer than their process computes."""
    return [m for m in used if busy.get(m, 0.0) > max(_TIMES * used[m], used[m] + _CORES)]


def share_processors(
    used: Mapping[str, float],
    standing: float,
    managers: Sequence[pages.TaskManager],
    jobs: Sequence[Job],
    others: Sequence[Job],
    ledger: Ledger,
) -> None:
    """Let the subtasks of a task manager share what its process computes, as they are busy.

    Where they wait for a processor, and hold senders back by it, the process gets no more than it
    computes (`TaskManager.reached`), whatever the task manager is configured for.

    `used`, `standing`: cores in use, by task manager, and what of them no subtask causes.
    `others`: jobs that run and are not imported.
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
    held = [job for job in jobs if job.pressed]
    full = {s.place[0] for s in _subtasks(held) if (s.busy or 0.0) >= _FULL}
    limited = full.intersection(_waiting(used, busy))
    for node in managers:
        node.reached = used[node.id] if node.id in limited else None
    for subtask in _subtasks(jobs):
        place = subtask.place[0]
        if place is not None and place in used and subtask.busy:
            # cores = (process - standing) × busy / Σ busy on the same task manager
            part = subtask.busy / busy[place]
            subtask.readings["busy"] = Reading.mean(part * (used[place] - standing), 1.0)
    if unmeasured := sorted(str(manager) for manager in busy if manager not in used):
        ledger.warn(f"no processor time of {listed(unmeasured, 5)}: CPU there is the busy time")
    ledger.reading(
        "a subtask's CPU is its part, by busy time, of what its process computes, in cores"
    )


def _subtasks(jobs: Sequence[Job]) -> list[Subtask]:
    return [s for job in jobs for v in job.vertices.values() for s in v.subtasks.values()]


def _busy(jobs: Sequence[Job]) -> dict[str | None, float]:
    """Return how long subtasks are busy, in s a second, by what they say of their task manager."""
    busy: dict[str | None, float] = {}
    for subtask in _subtasks(jobs):
        manager = subtask.place[0]
        busy[manager] = busy.get(manager, 0.0) + (subtask.busy or 0.0)
    return busy


_METRICS_PER_REQUEST = 60
"""Metrics asked for in one request, so that addresses stay short."""
_MOST_SUBTASKS = 100_000
_AGAIN = "import again"
_PAUSE = 0.5
_SETTLED = 4.0
"""Seconds for which all must be seen to run: pages of jobs are up to 3 s old."""
_REPORTED = 5.0
"""Most seconds for a task manager to report its slots: 0.03 s where it was looked at."""
_ENDED = {"FAILED", "CANCELED", "FINISHED", "SUSPENDED"}


class Snapshot(NamedTuple):
    """Task managers and running jobs of a cluster, with rates from two readings.

    `used` is how many cores the process of each task manager used between the two.
    """

    managers: list[pages.TaskManager]
    jobs: list[pages.Job]
    used: dict[str, float]


@dataclass(frozen=True)
class Cluster:
    """A cluster whose pages are read, each as its type, so that they fit each other.

    `wanted` is name or id of the only job to import; empty for all that run.
    """

    client: WebClient
    wanted: str
    ledger: Ledger

    def read(self, interval: float | None) -> Snapshot:
        """Read all pages; metrics of the wanted jobs three times, `interval` seconds apart.

        Raises `InvalidInput`: the server does not answer, or not with these documents; no job runs;
            a job ended or a task manager came or left meanwhile.
        """
        before = self.managers()
        entries = self._entries()
        jobs = [self._job(entry, is_chosen) for entry, is_chosen in entries]
        if interval is None:
            interval = interval_of(self.client.maybe("jobmanager/config"))
        chosen = [
            job for job, (_, is_chosen) in zip(jobs, entries, strict=True) if is_chosen and job
        ]
        metrics, used, passed = self._metrics(chosen, interval, sorted(m.id for m in before))
        for job, (entry, is_chosen) in zip(jobs, entries, strict=True):
            self._take_vertices(job, entry, is_chosen, passed)
        self.ledger.check()
        for job in chosen:
            for vertex in job.vertices.values():
                pages.take_metrics(metrics.get(_at(job, vertex.id), ()), vertex)
        # again, so that nothing came, left or ended while the pages were read
        after = self.managers()
        self._still(before, after, [entry for entry, is_chosen in entries if is_chosen])
        self.ledger.check()
        return Snapshot(after, [job for job in jobs if job is not None], used)

    def _page(
        self,
        kind: Any,
        path: str,
        entry: pages.Listed | None = None,
        is_chosen: bool = True,
        name: str = "",
    ) -> Any:
        """Return a page as its type; ``None`` with its problems noted, by `name` or the path."""
        # that of a job (`entry`) that is not imported (not `is_chosen`) may be gone: no problem
        value = self.client.get(path) if entry is None else self.client.maybe(path)
        if entry is not None and value is None:
            if not is_chosen:
                return None
            reason = f"is gone: job {entry.name} ended while it was read"
            raise InvalidInput(Problem(self.client.address(path), None, reason, _AGAIN))
        return read_page(kind, value, name or path, self.ledger)

    def _needed(self, kind: Any, path: str, *job: Any) -> Any:
        page = self._page(kind, path, *job)
        self.ledger.check()
        return page

    def managers(self) -> list[pages.TaskManager]:
        """Return the task managers."""
        return self._needed(pages.TaskManagers, "taskmanagers").taskmanagers

    def _overview(self) -> dict[str, pages.Listed]:
        """Return the jobs that are listed, by id."""
        entries: dict[str, pages.Listed] = {}
        for i, entry in enumerate(self._needed(pages.Overview, "jobs/overview").jobs):
            if entry.id in entries:
                self.ledger.problem(f"jobs/overview.jobs[{i}].jid", entry.id, "stands twice")
            entries[entry.id] = entry
        return entries

    def _entries(self) -> list[tuple[pages.Listed, bool]]:
        """Return the jobs that run or are wanted, and whether each is to be imported."""
        jobs = self._overview().values()
        chosen = {entry.id for entry in pages.wanted_of(jobs, self.wanted, self.ledger)}
        self.ledger.check()
        entries = [(e, e.id in chosen) for e in jobs if e.id in chosen or e.running]
        if not any(is_chosen for _, is_chosen in entries):
            available = listed(sorted(f"{e.name} ({e.state or '?'})" for e in jobs), 5)
            what = f"job {self.wanted!r}" if self.wanted else "running job"
            remedy = f"there is {available}" if available else "submit one first"
            raise InvalidInput(Problem(self.client.base, None, f"has no {what}", remedy))
        return entries

    def _job(self, entry: pages.Listed, is_chosen: bool) -> pages.Job | None:
        path = f"jobs/{quoted(entry.id)}"
        job: pages.Job | None = self._needed(pages.Job, path, entry, is_chosen, quoted(entry.id))
        if job is None:
            return None
        pages.take_job(job, quoted(entry.id), self.ledger)
        job.scheduler = job.scheduler or entry.scheduler
        if job.id != entry.id:
            self.ledger.problem(f"{path}.jid", job.id, f"answers for {entry.id}", _AGAIN)
        if is_chosen and not job.planned:
            plan = self._needed(pages.PlanPage, f"{path}/plan", entry, is_chosen)
            pages.take_plan(plan.plan, f"{path}/plan.plan", job, self.ledger)
        self.ledger.check()
        return job

    def _take_vertices(
        self, job: pages.Job | None, entry: pages.Listed, is_chosen: bool, passed: float
    ) -> None:
        """Read the vertices of a job, `passed` seconds or more after the first reading."""
        for vertex in job.vertices.values() if job else ():
            at = f"jobs/{quoted(entry.id)}/vertices/{quoted(vertex.id)}"
            page: pages.VertexPage | None = self._page(pages.VertexPage, at, entry, is_chosen)
            if page is not None and page.id != vertex.id:
                self.ledger.problem(f"{at}.id", page.id, f"answers for {vertex.id}", _AGAIN)
            elif page is not None:
                pages.take_vertex(page, at, vertex, self.ledger)
                if is_chosen and job is not None:
                    self._check_times(job, vertex, page, passed)

    def _check_times(
        self, job: pages.Job, vertex: pages.Vertex, page: pages.VertexPage, passed: float
    ) -> None:
        """Refuse subtasks that started between both readings; warn of those that ended there."""
        subtasks = vertex.subtasks.values()
        running = [s for s in subtasks if s.state == RUNNING and s.seconds is not None]
        fresh = [s.index for s in running if (s.seconds or 0.0) < passed]
        if fresh:
            name = f"{job.name}: {vertex.title}/{fresh[0]}"
            reason = f"started anew while rates were read, and {len(fresh) - 1} more of the vertex"
            self.ledger.problem(name, None, reason, _AGAIN)
        ended = [s for s in subtasks if s.ended and page.now and s.end]
        if late := sum((page.now or 0) - (s.end or 0) < 1000 * passed for s in ended):
            self.ledger.warn(
                f"{late} subtasks of {vertex.title} ended while rates were read: what they sent is "
                f"part of what others read ({_AGAIN})"
            )

    def _metrics(
        self, jobs: list[pages.Job], interval: float, managers: list[str]
    ) -> tuple[dict[str, list[pages.Metric]], dict[str, float], float]:
        """Return rates of all subtasks by vertex, and cores used, from two readings.

        The third is how many seconds passed between both.
        """

        def ask() -> dict[str, Sample]:
            samples = {at: self.sample(at, width) for at, width in widths.items()}
            for manager in managers if any(samples.values()) else ():
                for entry in self._some_metrics(f"taskmanagers/{quoted(manager)}", [_TIME]) or ():
                    if entry.value is not None:
                        samples[_PROCESS + manager] = {0: {_TIME: entry.value}}
            return samples

        def wake() -> None:
            for at in list(widths)[:1]:
                self.sample(at, 1, CLOCK)

        widths = {_at(job, v.id): v.parallelism for job in jobs for v in job.vertices.values()}
        first, second, passed = two_readings(ask, wake, interval)
        used = take_processors(first, second)
        metrics = {}
        counted = means = 0
        for at, sample in second.items():
            metrics[at], exact = difference(first.get(at, {}), sample, passed)
            counted, means = counted + exact, means + len(sample) - exact
        if counted:
            self.ledger.reading("rates are differences of counters between two readings")
        if counted and means:
            self.ledger.reading(f"rates of {means} subtasks are Flink's own means over 60 s")
        if lost := _lost(first, second):
            self.ledger.warn(
                f"{lost} subtasks report no metrics at the second reading: their figures are "
                f"those since they started ({_AGAIN})"
            )
        return metrics, used, passed

    def sample(self, at: str, parallelism: int, metrics: tuple[str, ...] = METRICS) -> Sample:
        """Ask once for metrics of all subtasks of a vertex; empty where there are none."""
        # SUBTASK.METRIC, as the vertex's own page of metrics names them
        names = [f"{i}.{m}" for i in range(min(parallelism, _MOST_SUBTASKS)) for m in metrics]
        sample: Sample = {}
        for start in range(0, len(names), _METRICS_PER_REQUEST):
            page = self._some_metrics(at, names[start : start + _METRICS_PER_REQUEST])
            if page is None:
                break
            for index, values in sample_of(page).items():
                sample.setdefault(index, {}).update(values)
        return sample

    def _some_metrics(self, at: str, names: Sequence[str]) -> list[pages.Metric] | None:
        """Return metrics; ``None`` where the server has none."""
        value = self.client.maybe(f"{at}/metrics", get=",".join(names))
        if value is None:
            return None
        page: list[pages.Metric] | None = read_page(
            list[pages.Metric], value, f"{at}/metrics", self.ledger
        )
        self.ledger.check()
        return page

    def _still(
        self,
        before: list[pages.TaskManager],
        after: list[pages.TaskManager],
        jobs: list[pages.Listed],
    ) -> None:
        """Note as problems what came, left or ended while the pages were read."""
        current = self._overview()
        for entry in jobs:
            later = current.get(entry.id)
            if entry.running and (later is None or not later.running):
                state = "gone" if later is None else later.state
                reason = f"ran, and is {state} now: it changed while it was read"
                self.ledger.problem(f"job {entry.name}", None, reason, _AGAIN)
        first, last = ({manager.id for manager in managers} for managers in (before, after))
        for manager in sorted(first ^ last):
            verb = "left" if manager in first else "came"
            reason = f"{verb} while the cluster was read"
            self.ledger.problem(f"task manager {manager}", None, reason, _AGAIN)

    def all_run(self) -> bool:
        """Whether all subtasks of the wanted job, or of all jobs, run."""
        chosen = [e for e in self._overview().values() if self.wanted in ("", e.id, e.name)]
        open_jobs = [entry for entry in chosen if entry.state not in _ENDED]
        if chosen and not open_jobs and self.wanted:
            name, state = chosen[0].name, chosen[0].state
            remedy = f"/jobs/{chosen[0].id}/exceptions may say why"
            raise InvalidInput(Problem(f"job {name}", state, "has ended", remedy))
        return bool(open_jobs) and all(entry.running and self._runs(entry) for entry in open_jobs)

    def _runs(self, entry: pages.Listed) -> bool:
        job = self._needed(pages.Job, f"jobs/{quoted(entry.id)}", entry, False)
        return job is not None and job.all_run


def _at(job: pages.Job, vertex: str) -> str:
    """Return the path of a vertex."""
    return f"jobs/{quoted(job.id)}/vertices/{quoted(vertex)}"


def read_live(client: WebClient, job: str, interval: float | None) -> Snapshot:
    """As `Cluster.read`, of jobs that run: the one of that name or id, or all if it is empty."""
    snapshot = Cluster(client, job, Ledger()).read(interval)
    chosen = [j for j in snapshot.jobs if j.running and (not job or job in (j.id, j.name))]
    return snapshot._replace(jobs=chosen)


def read_managers(client: WebClient) -> list[pages.TaskManager]:
    """Read the task managers, once each has said what it offers.

    One that has just registered is listed with nothing at all, until its report of slots is there.
    """
    cluster = Cluster(client, "", Ledger())
    ends = time.monotonic() + _REPORTED
    while True:
        managers = cluster.managers()
        # 0 slots: it is registered, and has not reported them yet
        if all(manager.slots for manager in managers) or time.monotonic() >= ends:
            return managers
        time.sleep(_PAUSE)


def wait_until_running(client: WebClient, job: str, limit: float) -> bool:
    """Wait until all subtasks of a job (name or id), or of all jobs (empty), run; whether they do.

    `limit`: most seconds to wait.
    Raises `InvalidInput`: the job ended, or the server does not answer.
    """
    cluster = Cluster(client, job, Ledger())
    ends = time.monotonic() + limit
    since = math.inf
    while True:
        runs = cluster.all_run()
        now = time.monotonic()
        # begins anew whenever one does not run
        since = min(now, since) if runs else math.inf
        if now - since >= min(_SETTLED, limit):
            return True
        if now >= ends and not runs:
            return False
        time.sleep(_PAUSE)
