"""Carrying a placement out on a running Storm.

The placement goes into a blob of Nimbus' store, where the plug-in (`plugin`), a scheduler, reads
it; a rebalance follows. Where the executors were before goes beside it, so that it can be reverted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.document import Fault, parse_json, validate
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.sources import read_text
from streamplace.clusters.storm.nimbus import PLACEMENT, PREVIOUS, SCHEDULER, name_of
from streamplace.clusters.storm.verify import (
    Running,
    StormDifference,
    StormVerdict,
    look,
    misplaced,
)
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamplace.clusters.storm.nimbus import Nimbus

_LOOK_AGAIN = 1.0
"""Seconds from one look at a topology that is being moved to the next."""
_OLD_WORKERS = 20.0
"""Seconds after which no worker of before a rebalance reports any more."""


class Checked(NamedTuple):
    """A topology that a placement fits, and the executors that are elsewhere now.

    `restarts` are the workers that end or change: a worker restarts whole.
    """

    name: str
    planned: Planned
    running: Running
    moves: int
    restarts: int


def check(nimbus: Nimbus, placement: StormPlacement) -> list[Checked]:
    """See that a placement fits the cluster as it is now; nothing is changed.

    Raises `InvalidInput`: the plug-in is not Nimbus' scheduler; a topology is not there, is being
        moved or has other executors; a worker is not there, or serves another topology.
    """
    scheduler = nimbus.configuration().get("storm.scheduler")
    if scheduler != SCHEDULER:
        remedy = f"`streamplace storm plugin -o FILE` says how to install {SCHEDULER}"
        raise InvalidInput(Problem("storm.scheduler", scheduler, "reads no placement", remedy))
    running = {name: look(nimbus, name, plan) for name, plan in placement.topologies.items()}
    ledger = Ledger()
    _check_slots(nimbus, placement, running, ledger)
    ledger.check()
    checked = []
    for name, planned in placement.topologies.items():
        current = {(at, frozenset(names)) for (at, _), names in _workers(running[name].at).items()}
        target = {(w.rpartition(":")[0], frozenset(names)) for w, names in planned.workers.items()}
        # of executors: to another node; a worker restarts already if any of its executors change
        moves = sum(
            running[name].at[e][0] != w.rpartition(":")[0] for e, w in planned.worker_of.items()
        )
        checked.append(Checked(name, planned, running[name], moves, len(current - target)))
    return checked


def _workers(at: dict[str, tuple[str, int]]) -> dict[tuple[str, int], list[str]]:
    """Return the executors of each worker, by its node and port."""
    workers: dict[tuple[str, int], list[str]] = {}
    for executor, place in at.items():
        workers.setdefault(place, []).append(executor)
    return workers


def _check_slots(
    nimbus: Nimbus, placement: StormPlacement, running: dict[str, Running], ledger: Ledger
) -> None:
    """See that the workers of a placement are there, and free for their topology."""
    cluster = nimbus.cluster()
    offered: Counter[str] = Counter()
    hosts: dict[str, str] = {}
    for supervisor in cluster.supervisors or ():
        # a placement names either: both keys count the same slots
        for place in {supervisor.host, supervisor.supervisor_id}:
            hosts[place] = supervisor.host
            if not supervisor.blacklisted:
                offered[place] += supervisor.num_workers
    submitted = {one.id: name for name, one in running.items()}
    owner_of: dict[tuple[str, int], str] = {}
    used: Counter[str] = Counter()
    for topology in cluster.topologies or ():
        if topology.id in submitted:
            continue
        workers = {(w.host, w.port, w.supervisor_id) for w in nimbus.workers(topology.id)}
        for host, port, supervisor_id in workers:
            for place in {host, supervisor_id}:
                used[place] += 1
                owner_of[place, port] = topology.name
    demand: Counter[str] = Counter()
    claimed: dict[str, str] = {}
    for name, planned in placement.topologies.items():
        for worker in planned.workers:
            place, _, port = worker.rpartition(":")
            path = f"topologies.{name}.workers.{worker}"
            demand[place] += 1
            if place not in hosts:
                ledger.problem(path, None, "is on no node that Nimbus knows", "import again")
            elif not port.startswith("+"):
                owner = owner_of.get((place, int(port))) or claimed.get(worker)
                if owner is not None and owner != name:
                    ledger.problem(path, None, f"serves topology {owner}", "import and solve again")
                claimed[worker] = name
    for place, number in demand.items():
        # slots of the node less those of topologies that are not submitted
        free = offered[place] - used[place]
        if place in hosts and number > free:
            reason = f"slots are free for these topologies, the placement takes {number}"
            ledger.problem(f"node {place}", free, reason, "import and solve again")


def submit(
    nimbus: Nimbus,
    placement: StormPlacement,
    wait: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
) -> StormVerdict:
    """Rebalance the topologies of a placement, and wait until all executors run where they should.

    `wait`: seconds to wait at most.
    Returns `StormVerdict`: what runs where at the end.
    Raises `InvalidInput`: as `check`, before anything is changed.
    """
    checked = check(nimbus, placement)
    for one in checked:
        # stored with the plan in one blob: there is no plan without its way back
        workers = _workers(one.running.at).items()
        before = {f"{node}:{port}": names for (node, port), names in workers}
        nimbus.store(one.running.id, {PLACEMENT: one.planned.workers, PREVIOUS: before})
        nimbus.rebalance(one.name, len(one.planned.workers))
    began = time.monotonic()
    watch = _Reports(checked)
    while True:
        elapsed = time.monotonic() - began
        verdict = watch.look(nimbus, elapsed)
        if verdict.holds or elapsed >= wait:
            return verdict
        sleep(min(wait - elapsed, _LOOK_AGAIN))


class _Reports:
    """Separates reports of new workers from those before, which Nimbus goes on showing.

    A worker restarts whole, so an executor stays only where all of its worker do. The uptime of any
    other is of its new worker once it is less than at the look before, or differs from it when no
    old worker can be alive.
    """

    def __init__(self, checked: list[Checked]) -> None:
        self._checked = checked
        self._last = {one.name: dict(one.running.up) for one in checked}
        self._new: dict[str, set[str]] = {one.name: _staying(one) for one in checked}

    def look(self, nimbus: Nimbus, elapsed: float) -> StormVerdict:
        """Compare what runs with what was submitted so many seconds ago.

        While a topology is being moved none of its executors counts.
        """
        topologies = nimbus.cluster().topologies or ()
        busy = {one.name for one in topologies if one.status == "REBALANCING"}
        rows: list[StormDifference] = []
        for name, planned, before, *_ in self._checked:
            if name in busy:
                running = before._replace(up={})
            else:
                running = look(nimbus, name, planned)
                last, new = self._last[name], self._new[name]
                late = elapsed > _OLD_WORKERS
                # a first report, or an uptime that fell: the executor is in a new process
                for executor, up in running.up.items():
                    last_up = last.get(executor)
                    if last_up is None or up < last_up or (late and up != last_up):
                        new.add(executor)
                self._last[name] = running.up
                running = running._replace(up={e: up for e, up in running.up.items() if e in new})
            rows += misplaced(name, planned, running)
        count = sum(len(one.planned.worker_of) for one in self._checked)
        return StormVerdict(count, count - len(rows), tuple(rows))


def _staying(one: Checked) -> set[str]:
    """Return the executors of workers that go on as they are."""
    groups, stay = _workers(one.running.at), set[str]()
    for worker, executors in one.planned.workers.items():
        place, _, port = worker.rpartition(":")
        at = one.running.at[executors[0]]
        if at == (place, at[1] if port.startswith("+") else int(port)):
            stay |= {*groups[at]} if {*groups[at]} == {*executors} else set()
    return stay


def previous(nimbus: Nimbus, name: str) -> StormPlacement:
    """Return the placement that a topology had before the last submit.

    Raises `InvalidInput`: there was none, or it is of other executors.
    """
    identity = nimbus.topology(name).id
    before = nimbus.stored(identity).get(PREVIOUS)
    if not isinstance(before, dict) or not before:
        remedy = "`submit storm` remembers what was before it"
        raise InvalidInput(Problem(f"topology {name}", None, "was never submitted", remedy))
    components: dict[str, list[str]] = {}
    for executor in nimbus.executors(identity):
        components.setdefault(executor.component_id, []).append(name_of(executor))
    planned = Planned(before, components)
    # a rebalance with other numbers of executors since then has given them other task ids
    if differing := sorted(planned.worker_of.keys() ^ planned.component_of.keys()):
        reason = f"had other executors before: {listed(differing, 5)} ran, or run, at one time only"
        raise InvalidInput(Problem(f"topology {name}", None, reason, "import and solve again"))
    return StormPlacement({name: planned})


# -- the placement of executors that `export storm` writes and `submit storm` carries out ----------

PLACEMENT_FORMAT = "streamplace.storm/1"
_WORKER = re.compile(r"[^\s:][^\s]*:(\+?\d{1,9})")


def _worker(text: str) -> str:
    if not _WORKER.fullmatch(text):
        raise Fault("is no NODE:PORT, or NODE:+1 for any free port")
    return text


_Names = Annotated[
    list[Annotated[str, Field(pattern=r"^[0-9]{1,9}-[0-9]{1,9}$")]], Field(min_length=1)
]
"""Executors, ``first-last`` of their task ids."""


@dataclass(frozen=True)
class Planned:
    """The placement of a topology."""

    #: ``node:port`` to the executors there; a port ``+1``, ``+2``, … is any free one of the node.
    workers: Annotated[dict[Annotated[str, AfterValidator(_worker)], _Names], Field(min_length=1)]
    components: Annotated[dict[str, _Names], Field(min_length=1)]  # Component to its executors.

    @cached_property
    def worker_of(self) -> dict[str, str]:
        """Executor to its worker."""
        return {name: worker for worker, names in self.workers.items() for name in names}

    @cached_property
    def component_of(self) -> dict[str, str]:
        """Executor to its component."""
        return {name: part for part, names in self.components.items() for name in names}


@dataclass(frozen=True)
class StormPlacement:
    """The placements of topologies by their names, and the predicted remote share of messages."""

    topologies: Annotated[dict[str, Planned], Field(min_length=1)]
    remote_share: Annotated[float, Field(ge=0, le=1)] | None = None


_PLACEMENT = TypeAdapter(StormPlacement)


def load_placement(name: str) -> StormPlacement:
    """Read a file that `export storm` wrote.

    Raises `InvalidInput`: it is none, by path.
    """
    text = read_text(Path(name))
    with problems_in(name):
        return read_placement(parse_json(text.encode()))


def read_placement(value: Any) -> StormPlacement:
    """Read the document of a placement.

    Raises `InvalidInput`: it is none, or names executors twice or not at all.
    """
    stated = value.get("format") if isinstance(value, dict) else None
    if stated != PLACEMENT_FORMAT:
        remedy = "`streamplace export storm INSTANCE PLAN -o FILE` writes one"
        raise InvalidInput(Problem("format", stated, f"is not {PLACEMENT_FORMAT}", remedy))
    placement, ledger = validate(_PLACEMENT, value), Ledger()
    for name, planned in placement.topologies.items():
        path = f"topologies.{name}"
        placed = Counter(one for names in planned.workers.values() for one in names)
        for one in sorted(one for one, times in placed.items() if times > 1):
            ledger.problem(f"{path}.workers", one, "stands twice", "an executor runs in one worker")
        for one in sorted(placed.keys() ^ planned.component_of.keys())[:5]:
            ledger.problem(path, one, "stands in only one of workers and components")
    ledger.check()
    return placement
