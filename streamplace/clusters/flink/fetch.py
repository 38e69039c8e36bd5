"""Reading a running cluster over REST, so that its pages fit each other; waiting for its jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import Document
from streamplace.clusters.exchange.web import WebClient, quoted
from streamplace.clusters.flink.pages import (
    RUNNING,
    Job,
    Listed,
    read_job,
    read_overview,
    read_pages,
    read_task_managers,
)
from streamplace.clusters.flink.rates import (
    CLOCK,
    METRICS,
    Sample,
    ask_processors,
    difference,
    interval_of,
    sample_of,
    take_processors,
    twice,
)

if TYPE_CHECKING:
    from streamplace.clusters.flink.pages import TaskManager


_AT_ONCE = 60
"""Metrics asked for in one request, so that addresses stay short."""
_MOST_SUBTASKS = 100_000
_AGAIN = "import again"


class Cluster:
    """The documents of a cluster, read so that they fit each other.

    Parameters
    ----------
    client
        Of its REST address.
    wanted
        Name or id of the only job to import; empty for all that run.
    ledger
        Takes readings and problems.
    """

    def __init__(self, client: WebClient, wanted: str, ledger: Ledger) -> None:
        self._client, self._wanted, self._ledger = client, wanted, ledger
        self.used: dict[str, float] = {}
        """Cores that the process of each task manager used between the two readings."""

    def documents(self, interval: float | None) -> list[Document]:
        """Read all pages; metrics of the wanted jobs three times, `interval` seconds apart.

        Raises
        ------
        InvalidInput
            The server does not answer, or not with these documents; no job runs; a job ended or a
            task manager came or left meanwhile.
        """
        managers = self._managers()
        overview = self._client.get("jobs/overview")
        jobs = self._jobs(overview)
        found = [Document("jobs/overview", overview)]
        parsed: dict[str, Job | None] = {}
        for entry, own in jobs:
            pages, parsed[entry.id] = self._job_pages(entry, own)
            found += pages
        if interval is None:
            interval = interval_of(self._client.maybe("jobmanager/config"))
        chosen = [job for entry, own in jobs if own and (job := parsed[entry.id])]
        metrics = self._metrics(chosen, interval, _ids(managers))
        for entry, own in jobs:
            found += self._vertex_pages(entry, own, parsed[entry.id])
        after = self._managers()
        self._still(managers, after, [entry for entry, own in jobs if own])
        self._ledger.check()
        return [Document("taskmanagers", after), *found, *metrics]

    def _managers(self) -> Any:
        return self._client.get("taskmanagers")

    def _jobs(self, overview: Any) -> list[tuple[Listed, bool]]:
        """Return the jobs that run or are wanted, and whether each is to be imported."""
        listed = read_overview(overview, "jobs/overview", self._ledger)
        self._ledger.check()
        found = []
        for entry in listed:
            own = self._wanted in (entry.id, entry.name) if self._wanted else entry.runs
            if own or entry.runs:
                found.append((entry, own))
        if not any(own for _, own in found):
            there = ", ".join(sorted(f"{e.name or e.id} ({e.state or '?'})" for e in listed)[:5])
            what = f"job {self._wanted!r}" if self._wanted else "running job"
            remedy = f"there is {there}" if there else "submit one first"
            raise InvalidInput(Problem(self._client.base, None, f"has no {what}", remedy))
        return found

    def _page(self, path: str, entry: Listed, own: bool) -> Any:
        """Return a page of a job; of those that are not imported it may be gone."""
        value = self._client.maybe(path)
        if value is None and own:
            reason = f"is gone: job {entry.name or entry.id} ended while it was read"
            raise InvalidInput(Problem(self._client.address(path), None, reason, _AGAIN))
        return value

    def _job_pages(self, entry: Listed, own: bool) -> tuple[list[Document], Job | None]:
        path = f"jobs/{quoted(entry.id)}"
        page = self._page(path, entry, own)
        if page is None:
            return [], None
        found = [Document(path, page)]
        if own and not (isinstance(page, dict) and isinstance(page.get("plan"), dict)):
            found.append(Document(f"{path}/plan", self._page(f"{path}/plan", entry, own)))
        job = read_job(page, path, Ledger())
        if job is not None and job.id != entry.id:
            self._ledger.problem(f"{path}.jid", job.id, f"answers for {entry.id}", _AGAIN)
        return found, job

    def _vertex_pages(self, entry: Listed, own: bool, job: Job | None) -> list[Document]:
        found = []
        for vertex in job.vertices if job else ():
            at = f"jobs/{quoted(entry.id)}/vertices/{quoted(vertex)}"
            detail = self._page(at, entry, own)
            if detail is not None:
                found.append(Document(at, detail))
        return found

    def _metrics(self, jobs: list[Job], interval: float, managers: set[str]) -> list[Document]:
        """Return rates of all subtasks as documents of metrics, from two readings."""

        def ask() -> dict[str, Sample]:
            samples = {at: self.sample(at, width) for at, width in asked.items()}
            known = sorted(managers) if any(samples.values()) else ()
            return samples | ask_processors(self._client, known)

        def wake() -> None:
            for at in list(asked)[:1]:
                self.sample(at, 1, CLOCK)

        asked = {
            f"jobs/{quoted(job.id)}/vertices/{quoted(vertex.id)}": vertex.parallelism
            for job in jobs
            for vertex in job.vertices.values()
        }

        first, second = twice(ask, wake, interval)
        self.used = take_processors(first, second)
        found = []
        counted = means = 0
        for at, sample in second.items():
            document, exact = difference(first.get(at, {}), sample)
            counted, means = counted + exact, means + len(sample) - exact
            found.append(Document(f"{at}/metrics", document))
        if counted:
            self._ledger.reading("rates are differences of counters between two readings")
        if counted and means:
            self._ledger.reading(f"rates of {means} subtasks are Flink's own means over 60 s")
        return found

    def sample(self, at: str, parallelism: int, metrics: tuple[str, ...] = METRICS) -> Sample:
        """Ask once for metrics of all subtasks of a vertex; empty where there are none."""
        names = [f"{i}.{m}" for i in range(min(parallelism, _MOST_SUBTASKS)) for m in metrics]
        found: Sample = {}
        for start in range(0, len(names), _AT_ONCE):
            asked = ",".join(names[start : start + _AT_ONCE])
            value = self._client.maybe(f"{at}/metrics", get=asked)
            if not isinstance(value, list):
                break
            for index, values in sample_of(value).items():
                found.setdefault(index, {}).update(values)
        return found

    def _still(self, before: Any, after: Any, jobs: list[Listed]) -> None:
        """Note as problems what came, left or ended while the pages were read."""
        listed = read_overview(self._client.get("jobs/overview"), "jobs/overview", self._ledger)
        now = {entry.id: entry for entry in listed}
        for entry in jobs:
            later = now.get(entry.id)
            if entry.runs and (later is None or not later.runs):
                state = "gone" if later is None else later.state
                reason = f"ran, and is {state} now: it changed while it was read"
                self._ledger.problem(f"job {entry.name or entry.id}", None, reason, _AGAIN)
        ids = [_ids(page) for page in (before, after)]
        for manager in sorted(ids[0] ^ ids[1]):
            verb = "left" if manager in ids[0] else "came"
            reason = f"{verb} while the cluster was read"
            self._ledger.problem(f"task manager {manager}", None, reason, _AGAIN)


def _ids(managers: Any) -> set[str]:
    return {manager.id for manager in read_task_managers(managers, "taskmanagers", Ledger())}


_PAUSE = 0.5
_SETTLED = 4.0
"""Seconds for which all must be seen to run: pages of jobs are up to 3 s old."""
_REPORTED = 5.0
"""Most seconds for a task manager to report its slots: 0.03 s where it was looked at."""
_ENDED = {"FAILED", "CANCELED", "FINISHED", "SUSPENDED"}


class Live(NamedTuple):
    """Task managers and running jobs of a cluster, with rates from two readings."""

    managers: list[TaskManager]
    jobs: list[Job]
    ledger: Ledger


def read_live(client: WebClient, job: str, interval: float | None) -> Live:
    """Read a cluster.

    Parameters
    ----------
    job
        Name or id of the only job to read; empty for all that run.
    interval
        Seconds between the readings of rates; ``None`` for what the cluster is set to.

    Raises
    ------
    InvalidInput
        As from `Cluster.documents`, or the documents cannot be read.
    """
    ledger = Ledger()
    documents = Cluster(client, job, ledger).documents(interval)
    managers, jobs = read_pages(documents, ledger)
    ledger.check()
    wanted = [j for j in jobs if j.running and (not job or job in (j.id, j.name))]
    return Live(managers, wanted, ledger)


def read_managers(client: WebClient) -> list[TaskManager]:
    """Read the task managers, once each has said what it offers.

    One that has just registered is listed with nothing at all, until its report of slots is there.

    Raises
    ------
    InvalidInput
        The server does not answer, or not with this document.
    """
    ends = time.monotonic() + _REPORTED
    while True:
        ledger = Ledger()
        managers = read_task_managers(client.get("taskmanagers"), "taskmanagers", ledger)
        ledger.check()
        if all(manager.slots for manager in managers) or time.monotonic() >= ends:
            return managers
        time.sleep(_PAUSE)


def wait_until_running(client: WebClient, job: str, limit: float) -> bool:
    """Wait until all subtasks of a job, or of all jobs, run.

    Parameters
    ----------
    job
        Name or id; empty for all jobs.
    limit
        Most seconds to wait.

    Returns
    -------
    bool
        Whether they do; what does not is for the reader of the pages to tell.

    Raises
    ------
    InvalidInput
        The job ended, or the server does not answer.
    """
    ends = time.monotonic() + limit
    since: float | None = None
    while True:
        runs = _all_run(client, job)
        now = time.monotonic()
        since = (now if since is None else since) if runs else None
        if since is not None and now - since >= min(_SETTLED, limit):
            return True
        if now >= ends and since is None:
            return False
        time.sleep(_PAUSE)


def _all_run(client: WebClient, job: str) -> bool:
    ledger = Ledger()
    listed = read_overview(client.get("jobs/overview"), "jobs/overview", ledger)
    ledger.check()
    own = [entry for entry in listed if job in ("", entry.id, entry.name)]
    open_jobs = [entry for entry in own if entry.state not in _ENDED]
    if own and not open_jobs and job:
        name, state = own[0].name or own[0].id, own[0].state
        remedy = f"/jobs/{own[0].id}/exceptions may say why"
        raise InvalidInput(Problem(f"job {name}", state, "has ended", remedy))
    return bool(open_jobs) and all(entry.runs and _runs(client, entry.id) for entry in open_jobs)


def _runs(client: WebClient, job: str) -> bool:
    page: Any = client.maybe(f"jobs/{quoted(job)}")
    if not isinstance(page, dict) or page.get("state") != RUNNING:
        return False
    vertices = page.get("vertices")
    states = [
        state
        for vertex in (vertices if isinstance(vertices, list) else [])
        for state, number in (vertex.get("tasks") or {}).items()
        if number
    ]
    return bool(states) and set(states) <= {RUNNING, "FINISHED"}
