"""A running cluster as verifying and submitting see it: its jobs, and where their subtasks run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.ledger import Ledger
from streamplace.clusters.exchange.web import WebClient, quoted
from streamplace.clusters.flink.fetch import Cluster
from streamplace.clusters.flink.importer import read_pages
from streamplace.clusters.flink.pages import (
    RUNNING,
    read_overview,
    read_task_managers,
)

if TYPE_CHECKING:
    from streamplace.clusters.flink.pages import Job, TaskManager

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
