"""Storm: the UI's REST documents, from files or from a running UI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
from streamplace.clusters.exchange.nodes import COSTS
from streamplace.clusters.exchange.sources import address_in, saved_documents
from streamplace.clusters.exchange.web import WebClient, site_of
from streamplace.clusters.storm.fetch import Cluster
from streamplace.clusters.storm.model import add_system_executors, build_document
from streamplace.clusters.storm.pages import (
    ACTIVE,
    YOUNG,
    Component,
    Executor,
    Topology,
    read_files,
)

if TYPE_CHECKING:
    from streamplace.clusters.exchange.declarations import Ledger

_MAX_EXECUTORS = 1_000_000
_PREFIX = "/api/v1"

#: Names told of many.
_NAMED = 5

OPTIONS = (
    Option("topology", "str", "", "only the topology with this name or id; default all active"),
    Option(
        "cpu", "str", "measured", "load of a bolt's executor", choices=("measured", "requested")
    ),
    Option("window", "str", "600", "window asked for, in seconds or :all-time (addresses only)"),
    Option(
        "seconds", "float", None, "what the counts stand for, where no document tells", minimum=1e-3
    ),
    *COSTS,
)


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of a cluster's state.

    Raises
    ------
    InvalidInput
        A needed document or field is missing, by path.
    """
    address = address_in(request.sources)
    if address is None:
        supervisors, topologies = read_files(saved_documents(request.sources), ledger)
    else:
        client = WebClient(site_of(address, _PREFIX), request.timeout)
        cluster = Cluster(client, request.options["window"], ledger)
        supervisors, topologies = cluster.read(request.options["topology"])
    ledger.check()
    wanted = request.options["topology"]
    there = ", ".join(sorted({topology.name for topology in topologies})[:_NAMED])
    topologies = _chosen(topologies, wanted, ledger)
    _one_each(topologies, ledger)
    if not topologies:
        what = f"topology {wanted!r}" if wanted else "page of an active topology (spouts and bolts)"
        remedy = "save /api/v1/topology/ID too"
        if wanted and there:
            remedy = f"there is {there}; to take another one, {remedy}"
        ledger.problem("SOURCE", None, f"holds no {what}", remedy)
    if not supervisors:
        remedy = "save /api/v1/supervisor/summary too"
        ledger.problem("SOURCE", None, "holds no supervisor summary: there are no nodes", remedy)
    for topology in topologies:
        _complete(topology, request.options["seconds"], ledger)
    ledger.check()
    for topology in topologies:
        add_system_executors(topology, ledger)
        if topology.status != ACTIVE:
            ledger.warn(f"{topology.name} is {topology.status}: its figures may be of the past")
    return build_document(supervisors, topologies, request.options["cpu"], ledger)


def _chosen(topologies: list[Topology], wanted: str, ledger: Ledger) -> list[Topology]:
    """Return the topologies that are named, or else the active ones."""
    if wanted:
        return [t for t in topologies if wanted in (t.id, t.name)]
    for topology in topologies:
        if topology.status != ACTIVE:
            ledger.warn(
                f"{topology.name} is {topology.status}: left out "
                f"(--option topology={topology.id} takes it)"
            )
    return [t for t in topologies if t.status == ACTIVE]


def _one_each(topologies: list[Topology], ledger: Ledger) -> None:
    names: dict[str, str] = {}
    for topology in topologies:
        if topology.name in names:
            reason = f"is also the name of the topology in {names[topology.name]}"
            ledger.problem(f"{topology.path}.name", topology.name, reason, "give one page of each")
        names[topology.name] = topology.path


def _complete(topology: Topology, seconds: float | None, ledger: Ledger) -> None:
    """Stand in for executors that no component page tells; settle what counts stand for."""
    if seconds:
        topology.window = seconds
    for part in topology.components.values():
        part.window = None if seconds else part.window
        _stand_in(topology, part, ledger)
        for executor in part.executors:
            executor.seconds = topology.seconds(part, executor)
    executors = [e for part in topology.components.values() for e in part.executors]
    if any(e.seconds is None for e in executors):
        ledger.problem(
            f"{topology.path}.window",
            None,
            "tells no number of seconds, and neither uptimeSeconds nor uptime is told",
            "say it: --option seconds=600",
        )
    spans = [e.seconds for e in executors if e.seconds is not None]
    if spans and min(spans) < max(spans):
        ledger.reading(
            f"counts of {topology.name} are those of {min(spans):.0f} s to {max(spans):.0f} s, by "
            "executor: since it started, or the window"
        )
    young = [e.age for e in executors if e.age is not None and e.age < YOUNG]
    if young:
        ledger.warn(
            f"{topology.name} has {len(young)} executors that run for {min(young):.0f} s to "
            f"{max(young):.0f} s: those that have not reported yet count as their equals"
        )


def _stand_in(topology: Topology, part: Component, ledger: Ledger) -> None:
    """Make executors of a component without a page; those of the system are settled later."""
    if part.executors:
        if part.count != len(part.executors):
            ledger.warn(
                f"{part.name} has {part.count} executors by the topology page and "
                f"{len(part.executors)} by its own, which counts"
            )
        return
    if part.count > _MAX_EXECUTORS:
        path = f"{topology.path}: {part.name}.executors"
        ledger.problem(path, part.count, f"is more than {_MAX_EXECUTORS}")
        return
    if part.is_system:
        return
    if part.count:
        ledger.warn(
            f"{part.name} has no component page: where its executors run is unknown, and each "
            "counts as busy as the busiest"
        )
    part.executors = [
        Executor.model_construct(name=f"#{i}", capacity=part.busy) for i in range(part.count)
    ]


IMPORTER = Importer(
    name="storm",
    summary="executors of Storm topologies on supervisors, with slots and current workers",
    sources="the UI's address, or its JSON pages as files: supervisor summary, topology, "
    "component, visualization",
    options=OPTIONS,
    read=read,
)
