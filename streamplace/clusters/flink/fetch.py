"""Reading a running cluster over REST, so that its pages fit each other; waiting for its jobs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import read_page
from streamplace.clusters.exchange.web import WebClient, quoted
from streamplace.clusters.flink import pages, rates
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Sequence


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


class Found(NamedTuple):
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

    def read(self, interval: float | None) -> Found:
        """Read all pages; metrics of the wanted jobs three times, `interval` seconds apart.

        Raises
        ------
        InvalidInput
            The server does not answer, or not with these documents; no job runs; a job ended or a
            task manager came or left meanwhile.
        """
        before = self.managers()
        entries = self._entries()
        jobs = [self._job(entry, own) for entry, own in entries]
        if interval is None:
            interval = rates.interval_of(self.client.maybe("jobmanager/config"))
        chosen = [job for job, (_, own) in zip(jobs, entries, strict=True) if own and job]
        metrics, used = self._metrics(chosen, interval, sorted(m.id for m in before))
        for job, (entry, own) in zip(jobs, entries, strict=True):
            self._take_vertices(job, entry, own)
        self.ledger.check()
        for job in chosen:
            for vertex in job.vertices.values():
                pages.take_metrics(metrics.get(_at(job, vertex.id), ()), vertex)
        after = self.managers()
        self._still(before, after, [entry for entry, own in entries if own])
        self.ledger.check()
        return Found(after, [job for job in jobs if job is not None], used)

    def _page(
        self,
        kind: Any,
        path: str,
        entry: pages.Listed | None = None,
        own: bool = True,
        name: str = "",
    ) -> Any:
        """Return a page as its type; ``None`` with its problems noted, by `name` or the path.

        That of a job (`entry`) that is not imported (not `own`) may be gone, which is no problem.
        """
        value = self.client.get(path) if entry is None else self.client.maybe(path)
        if entry is not None and value is None:
            if not own:
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
        found: dict[str, pages.Listed] = {}
        for i, entry in enumerate(self._needed(pages.Overview, "jobs/overview").jobs):
            if entry.id in found:
                self.ledger.problem(f"jobs/overview.jobs[{i}].jid", entry.id, "stands twice")
            found[entry.id] = entry
        return found

    def _entries(self) -> list[tuple[pages.Listed, bool]]:
        """Return the jobs that run or are wanted, and whether each is to be imported."""
        jobs = self._overview().values()
        wanted = self.wanted
        found = [(e, wanted in (e.id, e.name) if wanted else e.running) for e in jobs]
        found = [(entry, own) for entry, own in found if own or entry.running]
        if not any(own for _, own in found):
            there = listed(sorted(f"{e.name} ({e.state or '?'})" for e in jobs), 5)
            what = f"job {self.wanted!r}" if self.wanted else "running job"
            remedy = f"there is {there}" if there else "submit one first"
            raise InvalidInput(Problem(self.client.base, None, f"has no {what}", remedy))
        return found

    def _job(self, entry: pages.Listed, own: bool) -> pages.Job | None:
        path = f"jobs/{quoted(entry.id)}"
        job: pages.Job | None = self._needed(pages.Job, path, entry, own, quoted(entry.id))
        if job is None:
            return None
        pages.take_job(job, quoted(entry.id), self.ledger)
        job.scheduler = job.scheduler or entry.scheduler
        if job.id != entry.id:
            self.ledger.problem(f"{path}.jid", job.id, f"answers for {entry.id}", _AGAIN)
        if own and not job.planned:
            plan = self._needed(pages.PlanPage, f"{path}/plan", entry, own)
            pages.take_plan(plan.plan, f"{path}/plan.plan", job, self.ledger)
        self.ledger.check()
        return job

    def _take_vertices(self, job: pages.Job | None, entry: pages.Listed, own: bool) -> None:
        for vertex in job.vertices.values() if job else ():
            at = f"jobs/{quoted(entry.id)}/vertices/{quoted(vertex.id)}"
            page: pages.VertexPage | None = self._page(pages.VertexPage, at, entry, own)
            if page is not None and page.id != vertex.id:
                self.ledger.problem(f"{at}.id", page.id, f"answers for {vertex.id}", _AGAIN)
            elif page is not None:
                pages.take_vertex(page, at, vertex, self.ledger)

    def _metrics(
        self, jobs: list[pages.Job], interval: float, managers: list[str]
    ) -> tuple[dict[str, list[pages.Metric]], dict[str, float]]:
        """Return rates of all subtasks by vertex, and cores used, from two readings."""

        def ask() -> dict[str, rates.Sample]:
            samples = {at: self.sample(at, width) for at, width in asked.items()}
            known = managers if any(samples.values()) else ()
            return samples | rates.ask_processors(self._some_metrics, known)

        def wake() -> None:
            for at in list(asked)[:1]:
                self.sample(at, 1, rates.CLOCK)

        asked = {_at(job, v.id): v.parallelism for job in jobs for v in job.vertices.values()}
        first, second = rates.two_readings(ask, wake, interval)
        used = rates.take_processors(first, second)
        found = {}
        counted = means = 0
        for at, sample in second.items():
            found[at], exact = rates.difference(first.get(at, {}), sample)
            counted, means = counted + exact, means + len(sample) - exact
        if counted:
            self.ledger.reading("rates are differences of counters between two readings")
        if counted and means:
            self.ledger.reading(f"rates of {means} subtasks are Flink's own means over 60 s")
        return found, used

    def sample(
        self, at: str, parallelism: int, metrics: tuple[str, ...] = rates.METRICS
    ) -> rates.Sample:
        """Ask once for metrics of all subtasks of a vertex; empty where there are none."""
        names = [f"{i}.{m}" for i in range(min(parallelism, _MOST_SUBTASKS)) for m in metrics]
        found: rates.Sample = {}
        for start in range(0, len(names), _METRICS_PER_REQUEST):
            page = self._some_metrics(at, names[start : start + _METRICS_PER_REQUEST])
            if page is None:
                break
            for index, values in rates.sample_of(page).items():
                found.setdefault(index, {}).update(values)
        return found

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
        now = self._overview()
        for entry in jobs:
            later = now.get(entry.id)
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
        own = [e for e in self._overview().values() if self.wanted in ("", e.id, e.name)]
        open_jobs = [entry for entry in own if entry.state not in _ENDED]
        if own and not open_jobs and self.wanted:
            name, state = own[0].name, own[0].state
            remedy = f"/jobs/{own[0].id}/exceptions may say why"
            raise InvalidInput(Problem(f"job {name}", state, "has ended", remedy))
        return bool(open_jobs) and all(entry.running and self._runs(entry) for entry in open_jobs)

    def _runs(self, entry: pages.Listed) -> bool:
        job = self._needed(pages.Job, f"jobs/{quoted(entry.id)}", entry, False)
        return job is not None and job.all_run


def _at(job: pages.Job, vertex: str) -> str:
    """Return the path of a vertex."""
    return f"jobs/{quoted(job.id)}/vertices/{quoted(vertex)}"


def read_live(client: WebClient, job: str, interval: float | None) -> Found:
    """As `Cluster.read`, of jobs that run: the one of that name or id, or all if it is empty."""
    found = Cluster(client, job, Ledger()).read(interval)
    wanted = [j for j in found.jobs if j.running and (not job or job in (j.id, j.name))]
    return found._replace(jobs=wanted)


def read_managers(client: WebClient) -> list[pages.TaskManager]:
    """Read the task managers, once each has said what it offers.

    One that has just registered is listed with nothing at all, until its report of slots is there.
    """
    cluster = Cluster(client, "", Ledger())
    ends = time.monotonic() + _REPORTED
    while True:
        managers = cluster.managers()
        if all(manager.slots for manager in managers) or time.monotonic() >= ends:
            return managers
        time.sleep(_PAUSE)


def wait_until_running(client: WebClient, job: str, limit: float) -> bool:
    """Wait until all subtasks of a job (name or id), or of all jobs (empty), run; whether they do.

    Parameters
    ----------
    limit
        Most seconds to wait.

    Raises
    ------
    InvalidInput
        The job ended, or the server does not answer.
    """
    cluster = Cluster(client, job, Ledger())
    ends = time.monotonic() + limit
    since = math.inf
    while True:
        runs = cluster.all_run()
        now = time.monotonic()
        since = min(now, since) if runs else math.inf
        if now - since >= min(_SETTLED, limit):
            return True
        if now >= ends and not runs:
            return False
        time.sleep(_PAUSE)
