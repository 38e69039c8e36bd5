"""Reading a running cluster over REST: its pages, rates from two readings, and whether it held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.ledger import Ledger
from streamplace.clusters.exchange.sources import Document
from streamplace.clusters.exchange.web import quoted
from streamplace.clusters.flink.pages import (
    Job,
    Listed,
    read_job,
    read_overview,
    read_task_managers,
)
from streamplace.clusters.flink.processors import (
    ask_processors,
    take_processors,
)
from streamplace.clusters.flink.rates import (
    CLOCK,
    METRICS,
    Sample,
    difference,
    interval_of,
    sample_of,
    twice,
)

if TYPE_CHECKING:
    from streamplace.clusters.exchange.web import WebClient

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
