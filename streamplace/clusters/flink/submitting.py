"""Submitting a job so that it runs as planned: all is checked before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from optim.errors import InvalidInput, Problem
from streamplace.clusters.flink.submit import FlinkClient, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamplace.clusters.flink.pages import TaskManager
    from streamplace.clusters.flink.sheet import Group, Sheet

_SHOWN = 5


def submit(
    url: str,
    sheet: Sheet,
    settings: Mapping[str, str],
    make: Callable[[FlinkClient], Any],
    *,
    home: str | None = None,
    managed: int = 0,
    dry_run: bool = False,
) -> tuple[str | None, list[Group]]:
    """Make a job graph, give it the plan's groups, and send it.

    Parameters
    ----------
    make
        Makes the graph of the user's program.
    dry_run
        Do all but send it.

    Returns
    -------
    tuple
        The job's id, or ``None`` for a dry run; and its groups.

    Raises
    ------
    InvalidInput
        The program fails, is not the one that was planned, or the cluster does not take it.
    """
    from py4j.protocol import Py4JJavaError

    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
        remedy = "http://HOST:PORT, as jobs are not sent through proxies or TLS"
        raise InvalidInput(Problem("URL", url, "is no address to submit to", remedy))
    with FlinkClient(parts.hostname, parts.port or 80, settings, home) as client:
        step = "the program"
        try:
            graph = make(client)
            groups = groups_of_job(sheet, client.vertices_of(graph))
            client.regroup(graph, sheet, groups, managed)
            step = "the cluster"
            return (None if dry_run else client.submit(graph)), groups
        except Py4JJavaError as error:
            reason = f"fails: {reason_of(error)}"
            raise InvalidInput(Problem(step, None, reason, "nothing was submitted")) from None


def groups_of_job(sheet: Sheet, vertices: Mapping[str, tuple[str, int]]) -> list[Group]:
    """Return the groups of the planned job that has just these vertices.

    Raises
    ------
    InvalidInput
        There is none, or a vertex has another parallelism: nothing may be submitted.
    """
    nearest: set[str] | None = None
    for job in dict.fromkeys(group.job for group in sheet.groups):
        groups = [group for group in sheet.groups if group.job == job]
        planned = {vertex for group in groups for vertex in group.vertices}
        if planned == vertices.keys():
            _check_widths(groups, vertices)
            return groups
        if nearest is None or len(planned ^ vertices.keys()) < len(nearest):
            nearest = planned ^ vertices.keys()
    names = {v: n for group in sheet.groups for v, n in group.vertices.items()}
    names |= {identity: name for identity, (name, _) in vertices.items()}
    odd = ", ".join(f"{names.get(v, '')} ({v})" for v in sorted(nearest or ())[:_SHOWN])
    reason = f"is not the one that was planned: only one of both has {odd}"
    remedy = "import and solve for this program; nothing was submitted"
    raise InvalidInput(Problem("the program", None, reason, remedy))


def _check_widths(groups: list[Group], vertices: Mapping[str, tuple[str, int]]) -> None:
    problems = []
    for group in groups:
        width = max(vertices[v][1] for v in group.vertices)
        if width != group.parallelism:
            reason = f"is its parallelism, the plan places {group.parallelism}"
            remedy = "-D parallelism.default=N, or import and solve again; nothing was submitted"
            problems.append(Problem(group.operator, width, reason, remedy))
    if problems:
        raise InvalidInput(problems)


def check_quotas(sheet: Sheet, groups: list[Group], managers: list[TaskManager]) -> None:
    """See that the task managers offer what the plan takes, and that it is free.

    Raises
    ------
    InvalidInput
        Some do not: the job would wait for slots that nobody offers, or go elsewhere.
    """
    by_name = {manager.id: manager for manager in managers}
    problems = []
    for group in groups:
        name = sheet.resource(group)
        for manager in sorted(by_name.keys() | group.counts.keys()):
            planned = group.counts.get(manager, 0)
            there = by_name.get(manager)
            total = there.totalResource if there else None
            free = there.freeResource if there else None
            offered = total.amount(name) if total else 0.0
            where = f"task manager {manager}: {name}"
            if planned and there is None:
                remedy = "start it, with its block of the export"
                problems.append(Problem(where, None, "is not there", remedy))
            elif offered != planned:
                reason = f"are offered, the plan takes {planned}"
                remedy = "give it its block of the export, and restart it; nothing was submitted"
                problems.append(Problem(where, f"{offered:g}", reason, remedy))
            elif free is not None and free.amount(name) < planned:
                reason = f"are free, the plan takes {planned}"
                remedy = "cancel the job that runs there; nothing was submitted"
                problems.append(Problem(where, f"{free.amount(name):g}", reason, remedy))
    if problems:
        raise InvalidInput(problems)
