"""Storm: Nimbus by Thrift, or the UI's REST documents, from files or from a running UI."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from optim.errors import InvalidInput, Problem
from optim.plugins import Option
from streamplace.clusters.exchange.declarations import COSTS, Importer, Ledger, Request
from streamplace.clusters.exchange.pages import read_page
from streamplace.clusters.exchange.sources import (
    WebClient,
    address_in,
    is_url,
    quoted,
    saved_documents,
    site_of,
)
from streamplace.clusters.storm import pages
from streamplace.clusters.storm.model import add_system_executors, build_document
from streamplace.clusters.storm.nimbus import Live, Nimbus, is_nimbus
from streamplace.present.numbers import listed

_MAX_EXECUTORS = 1_000_000
_PREFIX = "/api/v1"

OPTIONS = (
    Option("topology", "str", "", "only the topology with this name or id; default all active"),
    Option(
        "cpu", "str", "measured", "load of a bolt's executor: by the time it is busy; what it "
        "requests; process (Nimbus): its part, by that, of what its worker's process computes",
        choices=("measured", "requested", "process"),
    ),
    Option(
        "reports", "str", "", "Nimbus, cpu=process: folder of the files of the workers' "
        "CsvStormReporter; default csv.log.dir where that is on this machine",
    ),
    Option("window", "str", "600", "window asked for, in seconds or :all-time (addresses only)"),
    Option(
        "interval", "float", None, "Nimbus: seconds between two readings of counts, 0 for one "
        "reading; default until all executors have reported anew", minimum=0.0,
    ),
    Option(
        "node", "str", "host", "Nimbus: what a node is, where a host has several supervisors",
        choices=("host", "supervisor"),
    ),
    Option(
        "seconds", "float", None, "time that the counts cover, if no page has it, in seconds",
        minimum=1e-3,
    ),
    *COSTS,
)  # fmt: skip


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """As `Importer.read`, of a cluster's state."""
    address = address_in(request.sources, lambda source: is_url(source) or is_nimbus(source))
    by_nimbus = address is not None and is_nimbus(address)
    if request.options["cpu"] == "process" and not by_nimbus:
        reason, remedy = "needs Nimbus and the workers' reports", "import from nimbus://HOST:PORT"
        raise InvalidInput(Problem("--option cpu", "process", reason, remedy))
    if address is None:
        supervisors, topologies = pages.read_files(saved_documents(request.sources), ledger)
    elif by_nimbus:
        # one connection for all readings: the pages are of one leader
        with Nimbus(address, request.timeout) as nimbus:
            by_supervisor = request.options["node"] == "supervisor"
            live = Live(nimbus, ledger, request.options["interval"], by_supervisor)
            if request.options["cpu"] == "process":
                live = replace(live, reports=request.options["reports"])
            supervisors, topologies = live.read(request.options["topology"])
    else:
        client = WebClient(site_of(address, _PREFIX), request.timeout)
        cluster = Cluster(client, request.options["window"], ledger)
        supervisors, topologies = cluster.read(request.options["topology"])
    ledger.check()
    wanted = request.options["topology"]
    available = listed(sorted({f"{t.name} ({t.status or 'ACTIVE'})" for t in topologies}), 5)
    topologies = _chosen(topologies, wanted, ledger)
    # names become the ids of topologies, so that each may be there once
    names: dict[str, str] = {}
    for topology in topologies:
        if topology.name in names:
            reason = f"is also the name of the topology in {names[topology.name]}"
            ledger.problem(f"{topology.path}.name", topology.name, reason, "give one page of each")
        names[topology.name] = topology.path
    if not topologies:
        what = f"topology {wanted!r}" if wanted else "page of an active topology (spouts and bolts)"
        remedy = "save /api/v1/topology/ID too, or import from nimbus://HOST:PORT while it runs"
        if available:
            remedy = f"there is {available}; to take another one, {remedy}"
        ledger.problem("SOURCE", None, f"holds no {what}", remedy)
    if not supervisors:
        remedy = "save /api/v1/supervisor/summary too"
        ledger.problem("SOURCE", None, "holds no supervisor summary: there are no nodes", remedy)
    for topology in topologies:
        _complete(topology, request.options["seconds"], ledger)
    if topologies and not any(topology.known_executors for topology in topologies):
        reason = f"has no executors: {listed([t.name for t in topologies], 5)} runs nowhere yet"
        ledger.problem("SOURCE", None, reason, "import once Storm has found slots for it")
    ledger.check()
    for topology in topologies:
        add_system_executors(topology, ledger)
        if not topology.is_active:
            ledger.warn(f"{topology.name} is {topology.status}: its figures may be of the past")
    return build_document(supervisors, topologies, request.options["cpu"], ledger)


def _chosen(topologies: list[pages.Topology], wanted: str, ledger: Ledger) -> list[pages.Topology]:
    """Return the topologies that are named, or else the active ones."""
    if wanted:
        return [t for t in topologies if wanted in (t.id, t.name)]
    for topology in topologies:
        if not topology.is_active:
            ledger.warn(
                f"{topology.name} is {topology.status}: left out "
                f"(--option topology={topology.id} takes it)"
            )
    return [t for t in topologies if t.is_active]


def _complete(topology: pages.Topology, seconds: float | None, ledger: Ledger) -> None:
    """Stand in for executors that no component page reports; settle what counts stand for."""
    if seconds:
        topology.window = seconds
    for part in topology.components.values():
        part.window = None if seconds else part.window
        _stand_in(topology, part, ledger)
        for executor in part.executors:
            executor.seconds = topology.seconds(part, executor)
    executors = topology.known_executors
    if any(e.seconds is None for e in executors):
        reason = "reports no number of seconds, and neither uptimeSeconds nor uptime is reported"
        remedy = "say it: --option seconds=600"
        ledger.problem(f"{topology.path}.window", None, reason, remedy)
    spans = [e.seconds for e in executors if e.seconds is not None]
    if spans and min(spans) < max(spans) and not any(e.measured for e in executors):
        ledger.reading(
            f"counts of {topology.name} are those of {min(spans):.0f} s to {max(spans):.0f} s, by "
            "executor: since it started, or the window"
        )
    counted = [e for e in executors if e.executed is not None or e.transferred is not None]
    no_age = [e for e in counted if e.age is None]
    if no_age and (len(no_age) < len(counted) or any(e.uptime for e in no_age)):
        ledger.warn(
            f"{topology.name}: {len(no_age)} of {len(counted)} executors report no uptime that is "
            f"understood ({no_age[0].name}: {no_age[0].uptime!r}): counted as old as the topology"
        )
    if ages := [e.age for e in executors if e.age is not None and e.age < pages.YOUNG]:
        ledger.warn(
            f"{topology.name} has {len(ages)} executors that run for {min(ages):.0f} s to "
            f"{max(ages):.0f} s: those that have not reported yet count as their equals"
        )


def _stand_in(topology: pages.Topology, part: pages.Component, ledger: Ledger) -> None:
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
        pages.Executor.model_construct(name=f"#{i}", capacity=part.busy) for i in range(part.count)
    ]


@dataclass(frozen=True)
class Cluster:
    """A cluster by the REST address of its UI; `window` is in seconds, or ``:all-time``."""

    client: WebClient
    window: str
    ledger: Ledger

    def read(self, wanted: str) -> tuple[dict[str, pages.Supervisor], list[pages.Topology]]:
        """Return supervisors, and the active topologies or the one with a name or id."""
        supervisors: dict[str, pages.Supervisor] = {}
        page: pages.Supervisors = self._needed(pages.Supervisors, "supervisor/summary")
        pages.add_supervisors(page, supervisors, self.ledger)
        summary: pages.Summary = self._needed(pages.Summary, "topology/summary")
        chosen = pages.chosen(summary.topologies, wanted, self.client.base)
        topologies = [self._topology(entry.id) for entry in chosen]
        self.ledger.check()
        return supervisors, topologies

    def _topology(self, identity: str) -> pages.Topology:
        path = f"topology/{quoted(identity)}"
        topology: pages.Topology = self._needed(pages.Topology, path, window=self.window)
        self._add_system(topology, path)
        pages.take_topology(topology, path, self.ledger)
        for name in topology.components:
            at = f"{path}/component/{quoted(name)}"
            if name.startswith("__"):
                part = self._optional(pages.ComponentPage, at, sys="1")
            else:
                part = self._page(pages.ComponentPage, at, window=self.window, sys="0")
            if part is not None:
                if part.topologyId not in (None, topology.id):
                    reason = f"answers for {topology.id}"
                    self.ledger.problem(f"{at}.topologyId", part.topologyId, reason, "import again")
                pages.take_component(part, at, self.ledger, topology)
        picture = self._optional(dict[str, pages.Pictured], f"{path}/visualization")
        if picture is not None:
            pages.take_visualization(picture, topology)
        return topology

    def _add_system(self, page: pages.Topology, path: str) -> None:
        """Add system components to a page that counts executors which it does not list."""
        # the page that lists them counts their streams too, and so is read for nothing else
        # the page counts no more than it lists: nothing is missing
        if (page.executors or 0) <= sum(row.count for row in (*page.spouts, *page.bolts)):
            return
        whole: pages.SystemRows | None = self._optional(pages.SystemRows, path, sys="1")
        names = {pages.SYSTEM, *(row.name for row in page.bolts)}
        for row in whole.bolts if whole else ():
            if row.is_system and row.name not in names:
                page.bolts.append(row)

    def _page(self, kind: Any, path: str, **query: str) -> Any:
        """Return a page as its type; ``None`` with its problems noted."""
        return read_page(kind, self.client.get(path, **query), path, self.ledger)

    def _needed(self, kind: Any, path: str, **query: str) -> Any:
        page = self._page(kind, path, **query)
        self.ledger.check()
        return page

    def _optional(self, kind: Any, path: str, **query: str) -> Any:
        """Return a page that an import can do without; ``None``, with a warning, where it fails."""
        try:
            value, page_ledger = self.client.maybe(path, window=self.window, **query), Ledger()
            page = None if value is None else read_page(kind, value, path, page_ledger)
            page_ledger.check()
        except InvalidInput as error:
            first = error.problems[0]
            text = f"{first.path if path in first.path else path} {first.reason}"
            self.ledger.warn(f"{text}: taken from the other pages as far as they say it")
            return None
        self.ledger.ignored += page_ledger.ignored
        return page


IMPORTER = Importer(
    name="storm",
    summary="executors of Storm topologies on supervisors, with slots and current workers",
    sources="nimbus://HOST:PORT, the UI's address, or its JSON pages as files: supervisor "
    "summary, topology, component, visualization",
    options=OPTIONS,
    read=read,
)
