"""Flink: the REST interface's documents, from files or from a running job manager."""

from __future__ import annotations

from typing import Any

from optim.plugins import Option
from streamplace.clusters.exchange.declarations import COSTS, Importer, Ledger, Request
from streamplace.clusters.exchange.sources import WebClient, address_in, saved_documents
from streamplace.clusters.flink.fetch import Cluster, share_processors, warn_of_waiting
from streamplace.clusters.flink.model import build_document
from streamplace.clusters.flink.pages import ENDED, Job, read_files, wanted_of
from streamplace.present.numbers import listed

OPTIONS = (
    Option("job", "str", "", "only the job with this name or id; default all running"),
    Option(
        "place", "str", "subtasks", "subtasks: each vertex by itself, as export flink runs it; "
        "slots: those of the job's own sharing groups", choices=("subtasks", "slots"),
    ),
    Option(
        "slots", "str", "auto", "sharing: a slot takes a subtask of every vertex of its group; "
        "single: one subtask; auto: by the slots in use; free: no limit",
        choices=("auto", "sharing", "single", "free"),
    ),
    Option(
        "loads", "str", "auto", "mean: subtasks of a vertex are alike, as Flink assigns them; "
        "measured: each its own; auto: mean where subtasks are placed, measured where slots are",
        choices=("auto", "mean", "measured"),
    ),
    Option(
        "cpu", "str", "busy", "busy: the share of time a subtask is busy; process: its part, in "
        "proportion, of the CPU time of its task manager's process", choices=("busy", "process"),
    ),
    Option(
        "standing", "float", 0.0, "cores that the process of a task manager uses without input: "
        "background of its node", minimum=0, maximum=1e6,
    ),
    Option(
        "cores", "str", "auto", "configured: of the task manager; hardware: its part of the "
        "cores of its machine; auto: configured, or hardware if the machine has less",
        choices=("auto", "configured", "hardware"),
    ),
    Option("link_rate", "str", "", "of every host, each way, such as 1Gbit or 40MB/s"),
    Option("hosts", "str", "", "a JSON file: host or task manager to link, cores, rack"),
    Option(
        "interval", "float", None, "seconds between two readings of rates; default what the "
        "cluster is set to", minimum=0, maximum=3600,
    ),
    Option("idle", "bool", False, "import a job without flow, too"),
    *COSTS,
)  # fmt: skip


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """As `Importer.read`, of jobs and task managers."""
    if request.options["place"] == "slots" and request.options["slots"] == "free":
        remedy = "leave one of them out"
        ledger.problem("--option slots", "free", "and place=slots exclude each other", remedy)
        ledger.check()
    address = address_in(request.sources)
    if address is None:
        managers, everyone = read_files(saved_documents(request.sources), ledger)
        used: dict[str, float] = {}
    else:
        client = WebClient(address.rstrip("/"), request.timeout)
        cluster = Cluster(client, request.options["job"], ledger)
        managers, everyone, used = cluster.read(request.options["interval"])
    ledger.check()
    wanted = request.options["job"]
    jobs = wanted_of(everyone, wanted, ledger)
    ledger.check()
    if not wanted and (
        idle := [f"{job.name} ({job.state})" for job in everyone if not job.running]
    ):
        names = listed(idle, 5)
        ledger.warn(f"saved jobs do not run: left out: {names} (--option job=NAME takes one)")
    imported = {job.id for job in jobs}
    others = [job for job in everyone if job.running and job.id not in imported]
    if not jobs:
        what = f"job {wanted!r}" if wanted else "running job (/jobs/ID, with vertices)"
        available = listed(sorted({f"{job.name} ({job.state or '?'})" for job in everyone}), 5)
        remedy = (
            f"there is {available}; to take another one, save its pages too"
            if available
            else ("save that page too")
        )
        ledger.problem("SOURCE", None, f"holds no {what}", remedy)
    if not managers:
        reason = "holds no task managers: there are no nodes"
        ledger.problem("SOURCE", None, reason, "save /taskmanagers too")
    for job in jobs:
        if not job.running:
            _take_past(job, ledger)
        if not job.planned:
            remedy = f"save /jobs/{job.id}/plan too"
            ledger.problem(f"{job.path}.plan", None, "is missing: streams are unknown", remedy)
    ledger.check()
    if request.options["cpu"] == "process":
        share_processors(used, request.options["standing"], managers, jobs, others, ledger)
    else:
        warn_of_waiting(used, jobs, ledger)
    return build_document(managers, jobs, others, request.options, ledger)


def _take_past(job: Job, ledger: Ledger) -> None:
    """Take the figures of a job that was named though it ended; refuse one between two states."""
    if job.state not in ENDED:
        remedy = f"wait until it runs; /jobs/{job.id}/exceptions may say why it does not"
        ledger.problem(f"{job.path}.state", job.state, "is neither running nor ended", remedy)
    ledger.warn(f"{job.name} is {job.state}: its loads and rates are means over the time it ran")
    for vertex in job.vertices.values():
        vertex.state = None
        for subtask in vertex.subtasks.values():
            subtask.past = True


IMPORTER = Importer(
    name="flink",
    summary="subtasks of Flink jobs on task managers, with slots and current hosts",
    sources="the REST address, or its JSON documents as files: taskmanagers, job, plan, vertices, "
    "metrics",
    options=OPTIONS,
    read=read,
)
