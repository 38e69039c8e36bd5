"""Whether topologies run as a placement has them: each executor on its node and in its worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.verdict import PRINTED, Verdict, share_lines
from streamplace.clusters.storm.nimbus import (
    REPORTERS,
    Crossing,
    crossing,
    folder_in,
    name_of,
    oldest_at_report,
    read_workers,
)
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from streamplace.clusters.storm.nimbus import Nimbus
    from streamplace.clusters.storm.submit import Planned, StormPlacement

_SHOWN, _MOST_LINES = 5, 50
_FAR = "loads have changed, or shuffle follows the placement"


@dataclass(frozen=True, config=PRINTED)
class StormDifference:
    """An executor that is not where it is planned."""

    topology: str = Field(description="name of the topology")
    component: str = Field(description="its component")
    executor: str = Field(description="FIRST-LAST, its task ids")
    planned: str = Field(description="NODE:PORT; NODE:+1 and so on is any free port of the node")
    running: str | None = Field(description="NODE:PORT; null while it does not run")


@dataclass(frozen=True, config=PRINTED)
class StormVerdict(Verdict):
    """Whether Storm's executors run as planned."""

    differences: tuple[StormDifference, ...] = Field(description="the others")
    predicted_share: float | None = Field(
        default=None, description="share of messages that cross between nodes, by the plan"
    )
    measured_share: float | None = Field(
        default=None, description="the same by the workers' reports; null where it is unknown"
    )
    share_unknown: str | None = Field(default=None, description="why it is unknown")

    def lines(self) -> Iterator[str]:
        """As `Verdict.lines`."""
        yield f"{self.as_planned} of {self.planned} executors as planned"
        for d in self.differences[:_MOST_LINES]:
            at = d.running or "does not run yet"
            yield f"  {d.component} {d.executor} of {d.topology}: {at}, planned {d.planned}"
        if len(self.differences) > _MOST_LINES:
            yield f"  … and {len(self.differences) - _MOST_LINES} more"
        yield from share_lines(self.predicted_share, self.measured_share, _FAR)
        if self.measured_share is None and self.share_unknown is not None:
            yield f"remote share is not measured: {self.share_unknown}"


class Running(NamedTuple):
    """A topology as Nimbus has it.

    `at` is the node and port of each executor, `up` the seconds of those that run.
    """

    id: str
    at: dict[str, tuple[str, int]]
    up: dict[str, int]


def look(nimbus: Nimbus, name: str, planned: Planned) -> Running:
    """Read where the executors of a topology are.

    Raises `InvalidInput`: the topology is not there, or is not the one that was planned.
    """
    identity = nimbus.topology(name).id
    executors = nimbus.executors(identity)
    node_of = nodes_of(nimbus, identity, planned)
    expected = planned.component_of
    running = {name_of(one): one.component_id for one in executors}
    if differing := sorted(
        n for n in expected.keys() | running.keys() if expected.get(n) != running.get(n)
    ):
        first = [
            f"{n} ({expected.get(n, 'not planned')}; runs: {running.get(n, 'none')})"
            for n in differing
        ]
        reason = (
            f"has {len(running)} executors, the placement names {len(expected)}; they differ in "
            f"{listed(first, _SHOWN)}"
        )
        raise InvalidInput(Problem(f"topology {name}", None, reason, "import and solve again"))
    at = {
        name_of(one): (node_of.get((one.host, one.port), one.host), one.port) for one in executors
    }
    up = {name_of(one): one.uptime_secs for one in executors if (one.uptime_secs or 0) > 0}
    return Running(identity, at, up)


def nodes_of(nimbus: Nimbus, identity: str, planned: Planned) -> dict[tuple[str, int], str]:
    """Return the node of each worker: its host, or its supervisor where the placement names it."""
    places = {w.rpartition(":")[0] for w in planned.workers}
    return {
        (w.host, w.port): w.supervisor_id if w.supervisor_id in places else w.host
        for w in nimbus.workers(identity)
    }


def verify(nimbus: Nimbus, placement: StormPlacement, reports: Path | None = None) -> StormVerdict:
    """Compare a placement with what runs.

    `reports`: folder of the workers' reports (`reports`); else the one that a topology's
        configuration names, where it is on this machine.
    Raises `InvalidInput`: it is of other topologies.
    """
    differences: list[StormDifference] = []
    count = 0
    crossed = total = 0.0
    unknown = None
    for name, planned in placement.topologies.items():
        running = look(nimbus, name, planned)
        count += len(planned.worker_of)
        differences += misplaced(name, planned, running)
        outcome = _crossing(nimbus, running, planned, reports)
        if isinstance(outcome, str):
            unknown = f"{name}: {outcome}"
            continue
        crossed += outcome.crossed
        total += outcome.total
    shares = (placement.remote_share, crossed / total if total and unknown is None else None)
    return StormVerdict(count, count - len(differences), tuple(differences), *shares, unknown)


def _crossing(
    nimbus: Nimbus, running: Running, planned: Planned, reports: Path | None
) -> Crossing | str:
    """Return the messages of a topology that cross between nodes, or why that is not known."""
    why, settings = "", nimbus.topology_configuration(running.id)
    if reports is None:
        reports, why = folder_in(settings)
    if reports is None:
        return why
    node_of = nodes_of(nimbus, running.id, planned)
    up: dict[tuple[str, int], int] = {}
    for executor, seconds in running.up.items():
        up[running.at[executor]] = max(seconds, up.get(running.at[executor], 0))
    if missing := sorted(running.at.keys() - running.up):
        return f"executors [{listed(missing, _SHOWN)}] do not run yet: verify later"
    workers = read_workers(reports, running.id)
    if not workers:
        return f"{reports} holds no report of {running.id} ({REPORTERS}: Storm 2.1 reads none)"
    ages = {w: up[node, w[1]] for w, node in node_of.items() if (node, w[1]) in up}
    return crossing(workers, node_of, oldest=oldest_at_report(ages, settings))


def misplaced(name: str, planned: Planned, running: Running) -> list[StormDifference]:
    """Return the executors of a topology that are not where they are planned.

    A worker of any free port is the port of the node where most of its executors are and that is
    no other worker's.
    """
    ports = _ports(planned, running)
    differences = []
    for executor, worker in planned.worker_of.items():
        place, port = running.at[executor]
        # free ports of the placement are compared with the port that was found for them
        right = (place, port) == (worker.rpartition(":")[0], ports.get(worker))
        if executor not in running.up or not right:
            at = f"{place}:{port}" if executor in running.up else None
            component = planned.component_of[executor]
            differences.append(StormDifference(name, component, executor, worker, at))
    return differences


def _ports(planned: Planned, running: Running) -> dict[str, int]:
    """Return the port of each worker of a placement."""
    port_of: dict[str, int] = {}
    used: set[tuple[str, int]] = set()
    candidates: list[tuple[int, str, int]] = []
    for worker, executors in planned.workers.items():
        place, _, text = worker.rpartition(":")
        if not text.startswith("+"):
            port_of[worker] = int(text)
            used.add((place, int(text)))
            continue
        ports = [running.at[e][1] for e in executors if running.at[e][0] == place]
        candidates += [(-ports.count(port), worker, port) for port in set(ports)]
    # most executors first; a port that another worker has is none of its own
    for _, worker, port in sorted(candidates):
        place = worker.rpartition(":")[0]
        if worker not in port_of and (place, port) not in used:
            port_of[worker] = port
            used.add((place, port))
    return port_of
