"""Reading a running Storm UI, each page as its type; some can be done without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput
from streamplace.clusters.exchange.pages import read_page
from streamplace.clusters.exchange.web import quoted
from streamplace.clusters.storm.pages import (
    ACTIVE,
    SYSTEM,
    ComponentPage,
    Pictured,
    Summary,
    Supervisor,
    Supervisors,
    SystemRows,
    Topology,
    TopologyPage,
    add_supervisors,
    take_component,
    take_visualization,
    topology_of,
)

if TYPE_CHECKING:
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.exchange.web import WebClient


@dataclass(frozen=True)
class Cluster:
    """A cluster by its UI.

    Attributes
    ----------
    client
        Of the UI's REST address.
    window
        Asked for, in seconds or ``:all-time``.
    ledger
        Takes warnings and problems.
    """

    client: WebClient
    window: str
    ledger: Ledger

    def read(self, wanted: str) -> tuple[dict[str, Supervisor], list[Topology]]:
        """Return supervisors, and the active topologies or the one with a name or id.

        Raises
        ------
        InvalidInput
            The UI does not answer, or not with these pages.
        """
        supervisors: dict[str, Supervisor] = {}
        page: Supervisors = self._needed(Supervisors, "supervisor/summary")
        add_supervisors(page, supervisors, self.ledger)
        summary: Summary = self._needed(Summary, "topology/summary")
        found = [
            self._topology(entry.id)
            for entry in summary.topologies
            if wanted in (entry.id, entry.name)
            or (not wanted and (entry.status or ACTIVE) == ACTIVE)
        ]
        self.ledger.check()
        return supervisors, found

    def _topology(self, identity: str) -> Topology:
        path = f"topology/{quoted(identity)}"
        page: TopologyPage = self._needed(TopologyPage, path, window=self.window)
        self._add_system(page, path)
        topology = topology_of(page, path, self.ledger)
        for name in topology.components:
            at = f"{path}/component/{quoted(name)}"
            if name.startswith("__"):
                part = self._optional(ComponentPage, at, sys="1")
            else:
                part = self._page(ComponentPage, at, window=self.window, sys="0")
            if part is not None:
                self._check_owner(part, at, topology)
                take_component(part, at, self.ledger, topology)
        picture = self._optional(dict[str, Pictured], f"{path}/visualization")
        if picture is not None:
            take_visualization(picture, topology)
        return topology

    def _check_owner(self, part: ComponentPage, at: str, topology: Topology) -> None:
        if part.topologyId not in (None, topology.id):
            reason = f"answers for {topology.id}"
            self.ledger.problem(f"{at}.topologyId", part.topologyId, reason, "import again")

    def _add_system(self, page: TopologyPage, path: str) -> None:
        """Add system components to a page that counts executors which it does not list.

        The page that lists them counts their streams too, and so is read for nothing else.
        """
        rows = [*page.spouts, *page.bolts]
        if (page.executorsTotal or 0) <= sum(row.executors for row in rows):
            return
        whole: SystemRows | None = self._optional(SystemRows, path, sys="1")
        known = {SYSTEM, *(row.id for row in page.bolts)}
        for row in whole.bolts if whole else ():
            if row.id.startswith("__") and row.id not in known:
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
            value = self.client.maybe(path, window=self.window, **query)
        except InvalidInput as error:
            reason = error.problems[0].reason
            told = "taken from the other pages as far as they say it"
            self.ledger.warn(f"{path} {reason}: {told}")
            return None
        return None if value is None else read_page(kind, value, path, self.ledger)
