"""Storm: the UI's REST documents, from files or from a running UI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.options import Option
from streamplace.clusters.exchange.declarations import Importer, Request
from streamplace.clusters.exchange.nodes import COSTS
from streamplace.clusters.exchange.pages import as_whole
from streamplace.clusters.exchange.sources import Document, documents_of
from streamplace.clusters.exchange.web import WebClient, quoted, site_of
from streamplace.clusters.storm.model import add_system_executors, build_document
from streamplace.clusters.storm.pages import (
    ACTIVE,
    SYSTEM,
    YOUNG,
    Component,
    Executor,
    Supervisor,
    Topology,
    is_visualization,
    read_component,
    read_summary,
    read_supervisors,
    read_topology,
    read_visualization,
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
    documents = documents_of(request.sources, lambda: _download(request, ledger))
    supervisors, topologies = _sort(documents, ledger)
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


def _sort(
    documents: list[Document], ledger: Ledger
) -> tuple[dict[str, Supervisor], list[Topology]]:
    """Tell the documents apart by what they hold, and read them in the order they need."""
    supervisors: dict[str, Supervisor] = {}
    topologies: list[Topology] = []
    parts, pictures = [], []
    for document in documents:
        value = document.value
        if not isinstance(value, dict):
            ledger.problem(document.name, value, "is not an object", "expected a page of the UI")
        elif "spouts" in value and "bolts" in value:
            topology = read_topology(value, document.name, ledger)
            topologies += [] if topology is None else [topology]
        elif "executorStats" in value or "componentType" in value:
            parts.append(document)
        elif "supervisors" in value and "executorStats" not in value:
            supervisors.update(read_supervisors(value, document.name, ledger))
        elif is_visualization(value):
            pictures.append(document)
        elif "topologies" not in value:
            ledger.warn(f"{document.name} is no page of the UI that is known, and is left out")
    ledger.check()  # what a page that cannot be read lacks is no problem of the others
    for document in parts:
        owner = _owner(document, topologies, ledger)
        if owner is not None:
            read_component(document.value, document.name, ledger, owner)
    for document in pictures:
        owner = _pictured(document, topologies)
        if owner is None:
            ledger.warn(f"{document.name} fits no single topology page, and is left out")
        else:
            read_visualization(document.value, document.name, ledger, owner)
    return supervisors, topologies


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


def _owner(document: Document, topologies: list[Topology], ledger: Ledger) -> Topology | None:
    identity = document.value.get("topologyId")
    if identity is None and len(topologies) == 1:
        return topologies[0]
    found = [t for t in topologies if t.id == identity]
    if not found:
        path = f"{document.name}.topologyId"
        ledger.problem(path, identity, "is the id of no topology page", "save that page too")
        return None
    return found[0]


def _pictured(document: Document, topologies: list[Topology]) -> Topology | None:
    """Return the topology of a visualization, which names components but not its topology.

    The path tells, where it holds the topology's id; else the components do.
    """
    by_path = [t for t in topologies if t.id in document.name]
    if len(by_path) == 1:
        return by_path[0]
    names = set(document.value)
    fitting = [t for t in topologies if names & set(t.components)]
    whole = [t for t in fitting if set(t.components) <= names]
    found = whole if len(whole) == 1 else fitting
    return found[0] if len(found) == 1 else None


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


def _download(request: Request, ledger: Ledger) -> list[Document]:
    """Get the pages that the import needs of a running UI."""
    from optim.errors import InvalidInput, Problem

    if len(request.sources) != 1:
        raise InvalidInput(
            Problem("SOURCE", list(request.sources), "one address, or files", "one cluster a run")
        )
    client = WebClient(site_of(request.sources[0], _PREFIX), request.timeout)
    window = request.options["window"]
    documents = []

    def add(path: str, value: Any) -> Any:
        documents.append(Document(path, value))
        return value

    add("supervisor/summary", client.get("supervisor/summary"))
    for identity in _listed(client.get("topology/summary"), request.options["topology"], ledger):
        path = f"topology/{quoted(identity)}"
        page = add(path, client.get(path, window=window))
        _add_system(page, client, path, window, ledger)
        for name in _component_names(page):
            part = f"{path}/component/{quoted(name)}"
            if not name.startswith("__"):
                add(part, client.get(part, window=window, sys="0"))
            elif (found := _optional(client, part, window, ledger, sys="1")) is not None:
                add(part, found)
        picture = _optional(client, f"{path}/visualization", window, ledger)
        if picture is not None:
            add(f"{path}/visualization", picture)
    return documents


def _optional(client: WebClient, path: str, window: str, ledger: Ledger, **more: str) -> Any:
    """Return a page that an import can do without; ``None``, with a warning, where it fails."""
    from optim.errors import InvalidInput

    try:
        return client.maybe(path, window=window, **more)
    except InvalidInput as error:
        problem = error.problems[0]
        ledger.warn(f"{path} {problem.reason}: taken from the other pages as far as they say it")
        return None


def _add_system(page: Any, client: WebClient, path: str, window: str, ledger: Ledger) -> None:
    """Add system components to a topology's page, where it counts executors that it does not list.

    The page that lists them counts their streams too, and so is read for nothing else.
    """
    bolts = page.get("bolts") if isinstance(page, dict) else None
    total = as_whole(page.get("executorsTotal")) if isinstance(page, dict) else None
    if not isinstance(bolts, list) or total is None:
        return
    rows = [*bolts, *(page.get("spouts") or ())]
    if total <= sum(as_whole(row.get("executors")) or 0 for row in rows if isinstance(row, dict)):
        return
    whole = _optional(client, path, window, ledger, sys="1")
    listed = whole.get("bolts") if isinstance(whole, dict) else None
    known = {row.get("boltId") for row in bolts if isinstance(row, dict)}
    for row in listed if isinstance(listed, list) else ():
        name = row.get("boltId") if isinstance(row, dict) else None
        if isinstance(name, str) and name.startswith("__") and name not in {SYSTEM, *known}:
            bolts.append(row)


def _listed(summary: Any, wanted: str, ledger: Ledger) -> list[str]:
    found = [
        identity
        for identity, name, status in read_summary(summary, "topology/summary", ledger)
        if wanted in (identity, name) or (not wanted and status == ACTIVE)
    ]
    ledger.check()
    return found


def _component_names(page: Any) -> list[str]:
    names = []
    for kind, key in (("spouts", "spoutId"), ("bolts", "boltId")):
        entries = page.get(kind) if isinstance(page, dict) else None
        for entry in entries if isinstance(entries, list) else []:
            name = entry.get(key) if isinstance(entry, dict) else None
            if isinstance(name, str) and 0 < len(name) <= 1000:
                names.append(name)
    return names


IMPORTER = Importer(
    name="storm",
    summary="executors of Storm topologies on supervisors, with slots and current workers",
    sources="the UI's address, or its JSON pages as files: supervisor summary, topology, "
    "component, visualization",
    options=OPTIONS,
    read=read,
)
