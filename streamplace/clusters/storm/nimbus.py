"""Storm's Nimbus, asked over Thrift: every executor with what it did, and rebalances.

Facts, of Storm 2.8.3:

- Counts of an executor are those since it started (``:all-time``), as of its last report; its
  uptime is that of the same report. So the difference of two readings over the difference of
  uptimes is a rate, however old the reports are.
- Executors report every ``executor.metrics.frequency.secs``, 60 s by default.
- Bolts count what they execute by sender and stream; spouts do not count what ackers send them.
- Nothing reports the ports of idle slots: ``supervisor.slots.ports`` of Nimbus' own configuration
  is that of the supervisors only where all share one file.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.pages import as_number, as_whole, completed, is_whole, read_page
from streamplace.clusters.storm import pages
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from typing import Self

    from streamplace.clusters.exchange.declarations import Ledger

SCHEME = "nimbus://"
PORT = 6627
ALL_TIME = ":all-time"
SCHEDULER = "streamplace.PlanScheduler"
"""Class of the plug-in."""
PLACEMENT, PREVIOUS = "streamplace.placement", "streamplace.previous"
"""Keys of a topology's blob: where its executors are to be, and where they were before."""
_BLOB = "streamplace-{}"
"""Key of the blob of a topology's id; `PlanScheduler.java` says why it is no configuration."""
_CHUNK = 1 << 19
FREQUENCY = "executor.metrics.frequency.secs"
_SAMPLED, _EVEN = "topology.stats.sample.rate", "topology.disable.loadaware.messaging"
_ACKER, _INIT, _ACK = "__acker", "__ack_init", "__ack_ack"
_LATE = 5.0
"""Seconds that a report may take to come to Nimbus."""


def is_nimbus(source: str) -> bool:
    """Whether a source is an address of Nimbus."""
    return source.startswith(SCHEME)


class Nimbus:
    """A connection to Nimbus.

    `address`: ``nimbus://HOST:PORT``; 6627 without a port.
    `timeout`: seconds that an answer may take.
    Raises `InvalidInput`: it is no such address, nothing answers there, or not as Nimbus does.
    """

    def __init__(self, address: str, timeout: float) -> None:
        import thriftpy2
        from thriftpy2.rpc import make_client
        from thriftpy2.transport import TFramedTransportFactory

        self.address = address
        host, port = _host_and_port(address)
        interface = files("streamplace.clusters.storm") / "nimbus.thrift"
        self._types: Any = thriftpy2.load(str(interface), module_name="streamplace_nimbus_thrift")
        milliseconds = max(1, round(1000 * timeout))
        try:
            self._client: Any = make_client(
                self._types.Nimbus, host, port, timeout=milliseconds,
                trans_factory=TFramedTransportFactory(),
            )  # fmt: skip
        except Exception as error:  # thriftpy2 has an error of its own for each cause
            remedy = "nimbus://HOST:PORT with nimbus.thrift.port, 6627 by default"
            self._refuse(f"cannot be reached: {_text_of(error)}", remedy)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _refuse(self, reason: str, remedy: str) -> NoReturn:
        raise InvalidInput(Problem(self.address, None, reason, remedy))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Call a method of Nimbus; that a blob is not there is for the caller to know."""
        try:
            return getattr(self._client, name)(*arguments)
        except self._types.KeyNotFoundException:
            raise
        except self._types.NotAliveException:
            self._refuse(
                f"no topology {arguments[0]} runs", "import again: it may have been killed"
            )
        except self._types.AuthorizationException as error:
            self._refuse(f"{name} is not allowed: {error.msg}", "ask as the topology's owner")
        except self._types.InvalidTopologyException as error:
            self._refuse(f"{name} is refused: {error.msg}", "nothing was changed")
        except TimeoutError:
            self._refuse(f"does not answer {name} in time", "--timeout S gives it longer")
        except Exception as error:
            self._refuse(
                f"{name} fails: {_text_of(error)}",
                "is it Nimbus of Storm 2.x, without SASL (storm.thrift.transport: "
                "SimpleTransportPlugin)? A secured Nimbus is not supported",
            )

    def cluster(self) -> Any:
        """Return supervisors and topologies."""
        return self._ask("getClusterInfo")

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of Nimbus itself."""
        return _settings(self._ask("getNimbusConf"), "configuration of Nimbus")

    def topology_configuration(self, identity: str) -> dict[str, Any]:
        """Return the configuration of a topology, Nimbus' own where it sets nothing else."""
        return _settings(self._ask("getTopologyConf", identity), f"configuration of {identity}")

    def executors(self, identity: str) -> list[Any]:
        """Return the executors of a topology that a scheduler places."""
        executors = self._ask("getTopologyInfo", identity).executors or []
        if any(one.executor_info is None or not one.component_id for one in executors):
            reason = f"reports an executor of {identity} without its tasks or component"
            self._refuse(reason, "import again; the UI shows what Nimbus knows of it")
        placed = [one for one in executors if one.component_id != pages.SYSTEM]
        counts = Counter(name_of(one) for one in placed)
        if twice := sorted(name for name, count in counts.items() if count > 1):
            reason = f"reports executors of {identity} at two places: {listed(twice, 5)}"
            self._refuse(reason, "it is being moved: try again")
        return placed

    def workers(self, identity: str) -> list[Any]:
        """Return the worker processes of a topology."""
        return list(self._ask("getTopologyPageInfo", identity, ALL_TIME, True).workers or [])

    def components(self, identity: str) -> dict[str, Any]:
        """Return what a user's topology declares of each component."""
        topology = self._ask("getUserTopology", identity)
        return {
            name: part.common
            for name, part in ((topology.spouts or {}) | (topology.bolts or {})).items()
            if part.common is not None
        }

    def topology(self, name: str) -> Any:
        """Return the summary of the topology with a name or id.

        Raises `InvalidInput`: there is none, or it is not in a state in which it can be looked at
            or moved.
        """
        topologies = self.cluster().topologies or []
        summary = next(
            (summary for summary in topologies if name in (summary.id, summary.name)), None
        )
        if summary is None:
            available = ", ".join(sorted(summary.name for summary in topologies)) or "none"
            self._refuse(f"no topology {name} runs", f"there is {available}")
        self.check_state(summary)
        return summary

    def check_state(self, summary: Any) -> None:
        """Refuse a topology that is being moved or killed, by its summary."""
        if (summary.status or "ACTIVE") not in ("ACTIVE", "INACTIVE"):
            reason = f"topology {summary.name} is {summary.status}"
            self._refuse(reason, "wait until that has ended")

    def store(self, identity: str, document: dict[str, Any]) -> None:
        """Store a document for a topology, which the plug-in reads and which outlives Nimbus."""
        key = _BLOB.format(identity)
        try:
            session = self._ask("beginUpdateBlob", key)
        except self._types.KeyNotFoundException:
            # AccessControlType OTHER is 1; READ 1 | WRITE 2 | ADMIN 4
            other = self._types.AccessControl(type=1, access=7)  # anyone; read, write, administer
            meta = self._types.SettableBlobMeta(acl=[other])
            session = self._ask("beginCreateBlob", key, meta)
        # mtime=0: the same document gives the same bytes
        data = gzip.compress(json.dumps(document).encode(), mtime=0)
        for start in range(0, len(data), _CHUNK):
            self._ask("uploadBlobChunk", session, data[start : start + _CHUNK])
        self._ask("finishBlobUpload", session)

    def stored(self, identity: str) -> dict[str, Any]:
        """Return the document that was stored for a topology; none is empty."""
        try:
            session = self._ask("beginBlobDownload", _BLOB.format(identity)).session
        except self._types.KeyNotFoundException:
            return {}
        parts = []
        while part := self._ask("downloadBlobChunk", session):
            parts.append(part)
        return _settings(gzip.decompress(b"".join(parts)).decode(), _BLOB.format(identity))

    def kill(self, name: str) -> None:
        """End a topology once its spouts have been silent for as long as its messages may take."""
        self._ask("killTopology", name)

    def set_active(self, name: str, *, active: bool) -> None:
        """Let the spouts of a topology send, or stop them; bolts go on."""
        self._ask("activate" if active else "deactivate", name)

    def rebalance(self, name: str, workers: int) -> None:
        """Let all executors of a topology be placed anew, at once."""
        options = self._types.RebalanceOptions(wait_secs=0, num_workers=workers)
        self._ask("rebalance", name, options)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix(SCHEME).rstrip("/").rpartition(":")
    if not colon:
        host, port = port, str(PORT)
    if not host or "/" in host or not is_whole(port) or not 0 < int(port) < 65536:
        remedy = f"{SCHEME}HOST:PORT, such as {SCHEME}localhost:{PORT}"
        raise InvalidInput(Problem("SOURCE", address, "is no address of Nimbus", remedy))
    return host.strip("[]"), int(port)


def _text_of(error: BaseException) -> str:
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return str(text).strip().partition("\n")[0][:200]


def _settings(text: str, what: str) -> dict[str, Any]:
    try:
        settings = json.loads(text)
    except ValueError:
        reason, remedy = "is no JSON", "the logs of Nimbus show what it has stored"
        raise InvalidInput(Problem(what, text[:60], reason, remedy)) from None
    return settings if isinstance(settings, dict) else {}


def name_of(executor: Any) -> str:
    """Return ``first-last``, the task ids of an executor."""
    return f"{executor.executor_info.task_start}-{executor.executor_info.task_end}"


# -- from Nimbus to the pages of an import ---------------------------------------------------------


@dataclass(frozen=True)
class _Counts:
    """What an executor counted up to a report: seconds of age, tuples and busy milliseconds.

    `busy` is NaN where it is not reported.
    """

    age: float
    executed: dict[tuple[str, str], float]
    busy: float
    transferred: dict[str, float]

    def since(self, before: _Counts | None) -> _Counts:
        """Return what was counted between two reports; all of it where it started in between."""
        if before is None or self.age <= before.age:
            return self
        executed = {k: n - before.executed.get(k, 0.0) for k, n in self.executed.items()}
        transferred = {k: n - before.transferred.get(k, 0.0) for k, n in self.transferred.items()}
        busy = self.busy - before.busy
        # a counter that went back is that of a new start
        if any(grown < 0 for grown in (*executed.values(), *transferred.values(), busy)):
            return self
        return _Counts(self.age - before.age, executed, busy, transferred)


def _counts_of(executor: Any) -> _Counts | None:
    """Return the counts of an executor; ``None`` before its first report, and for what is none."""
    stats, age = executor.stats, as_number(executor.uptime_secs)
    if stats is None or stats.specific is None or not age:
        return None
    bolt = stats.specific.bolt
    transferred = _all_time(stats.transferred)
    executed = {} if bolt is None else _all_time(bolt.executed)
    if transferred is None or executed is None:
        return None
    mean = {} if bolt is None else (bolt.execute_ms_avg or {}).get(ALL_TIME, {})
    # ms of all executions = number × mean; NaN where a mean is missing or negative
    busy = 0.0
    for stream, count in executed.items():
        each = as_number(mean.get(stream)) if count else 0.0
        busy += math.nan if each is None else count * each
    received = {(stream.componentId, stream.streamId): n for stream, n in executed.items()}
    return _Counts(age, received, busy, transferred)


def _all_time(windows: Any) -> dict[Any, float] | None:
    """Return counts since the start; ``None`` where there are none, or one is no count."""
    # Storm leaves all windows out as long as nothing is counted
    counts = {} if windows == {} else (windows or {}).get(ALL_TIME)
    numbers = None if counts is None else {k: as_number(n) for k, n in counts.items()}
    return None if numbers is None or None in numbers.values() else numbers  # type: ignore[return-value]


@dataclass(frozen=True)
class Live:
    """A cluster by its Nimbus."""

    nimbus: Nimbus
    ledger: Ledger
    #: Seconds between two readings; ``None`` until all executors have reported anew, 0 for one
    #: reading alone.
    interval: float | None = None
    by_supervisor: bool = False  # Whether a node is a supervisor, and not the host of several.
    sleep: Callable[[float], None] = time.sleep  # Waits so many seconds.
    #: Folder of the workers' reports, by which executors compute; empty: the one that a topology's
    #: configuration names; ``None``: how much they compute is not asked for.
    reports: str | None = None
    #: The node of each worker that is not called as its host, by host and port.
    _node_of: dict[tuple[str, int], str] = field(default_factory=dict, init=False)

    def _node(self, host: str, port: int) -> str:
        return self._node_of.get((host, port), host)

    def read(self, wanted: str) -> tuple[dict[str, pages.Supervisor], list[pages.Topology]]:
        """Return supervisors, and the active topologies or the one with a name or id."""
        cluster = self.nimbus.cluster()
        chosen = pages.chosen(cluster.topologies or (), wanted, self.nimbus.address)
        for one in chosen:
            self.nimbus.check_state(one)
        settings = {one.id: self.nimbus.topology_configuration(one.id) for one in chosen}
        counts = self._measure(settings)
        for one in chosen:
            # one that is moved meanwhile counts nothing for a part of the time
            self.nimbus.topology(one.id)
        topologies = [self._topology(one, settings[one.id], counts[one.id]) for one in chosen]
        supervisors: dict[str, pages.Supervisor] = {}
        ports = self._shared_ports(topologies)
        hosts = Counter(one.host for one in cluster.supervisors or ())
        entries = [
            # supervisors of one host cannot share ports: theirs are not those of Nimbus' file
            self._supervisor(one, ports if hosts[one.host] == 1 else [])
            for one in cluster.supervisors or ()
        ]
        self.ledger.check()
        pages.add_supervisors(
            pages.Supervisors.model_construct(supervisors=[one for one in entries if one]),
            supervisors,
            self.ledger,
        )
        return supervisors, topologies

    def _shared_ports(self, topologies: list[pages.Topology]) -> list[int]:
        """Return the worker ports that Nimbus is configured with, where workers are on these."""
        numbers = self.nimbus.configuration().get("supervisor.slots.ports")
        ports = {as_whole(port): None for port in numbers} if isinstance(numbers, list) else {}
        used = {worker.port for topology in topologies for worker in topology.processes} - {None}
        return [p for p in ports if p is not None] if used and used <= ports.keys() else []

    def _measure(
        self, settings: dict[str, dict[str, Any]]
    ) -> dict[str, list[tuple[Any, _Counts | None]]]:
        """Return the executors of each topology, with what they counted between two readings."""
        first = {i: {name_of(e): _counts_of(e) for e in self.nimbus.executors(i)} for i in settings}
        # long enough that each executor has reported once more
        period = max(
            (as_number(one.get(FREQUENCY)) or 60.0 for one in settings.values()), default=0.0
        )
        limit = period + _LATE if self.interval is None else self.interval
        until = time.monotonic() + limit
        while True:
            second = {i: self.nimbus.executors(i) for i in settings}
            stale = [
                e for i, some in second.items() for e in some
                if (before := first[i].get(name_of(e))) and (later := _counts_of(e))
                and later.age == before.age
            ]  # fmt: skip
            time_left = until - time.monotonic()
            if time_left <= 0 or (self.interval is None and not stale):
                break
            self.sleep(min(time_left, 1.0) if self.interval is None else time_left)
        if limit and stale:
            self.ledger.reading(
                f"{len(stale)} executors did not report within {limit:g} s: their rates are those "
                "since they started"
            )
        measured: dict[str, list[tuple[Any, _Counts | None]]] = {}
        for i, some in second.items():
            measured[i] = []
            if gone := sorted(first[i].keys() - {name_of(executor) for executor in some}):
                self.ledger.warn(
                    f"{i}: executors [{listed(gone, 5)}] were there at the first reading and are "
                    "not at the second: it is being rebalanced, or a worker died; import again"
                )
            if unusable := [e for e in some if e.stats is not None and _counts_of(e) is None]:
                names = listed([f"{e.component_id}[{name_of(e)}]" for e in unusable], 5)
                self.ledger.warn(
                    f"{i}: {names} reports figures that are no counts, or of no time: it counts as "
                    "the others of its component"
                )
            for executor in some:
                counts = _counts_of(executor)
                if counts is not None and limit:
                    counts = counts.since(first[i].get(name_of(executor)))
                measured[i].append((executor, counts))
        return measured

    def _topology(
        self, summary: Any, settings: dict[str, Any], measured: list[tuple[Any, _Counts | None]]
    ) -> pages.Topology:
        workers = self.nimbus.workers(summary.id)
        if self.by_supervisor:
            self._node_of.update({(w.host, w.port): w.supervisor_id for w in workers})
        declared = self.nimbus.components(summary.id)
        inputs = {name: (common.inputs or {}) for name, common in declared.items()}
        parts: dict[str, pages.Component] = {}
        for executor, counts in sorted(measured, key=lambda one: one[0].executor_info.task_start):
            name = executor.component_id
            bolt = bool(inputs.get(name)) or name not in declared
            part = parts.get(name) or _component(name, bolt, declared.get(name), settings)
            parts[name] = part
            part.executors.append(self._executor(executor, counts))
            part.count = len(part.executors)
        topology = pages.Topology.model_construct(
            id=summary.id, reported_name=summary.name, status=summary.status,
            workers=as_whole(summary.num_workers), executors=len(measured), spouts=[], bolts=[],
            path=summary.name, processes=tuple(self._worker(w) for w in workers),
            configuration=settings,
        )  # fmt: skip
        topology.uptimeSeconds = as_number(summary.uptime_secs)
        topology.components = parts
        topology.configuration = self.nimbus.configuration() | settings
        self._add_streams(topology, inputs, settings)
        if self.reports is not None:
            self._share_processors(topology, settings, workers)
        return topology

    def _share_processors(
        self, topology: pages.Topology, settings: dict[str, Any], workers: list[Any]
    ) -> None:
        folder, why = Path(self.reports) if self.reports else None, ""
        if folder is None:
            folder, why = folder_in(settings)
        if folder is None:
            self.ledger.problem("--option cpu", "process", f"{topology.name}: {why}")
            self.ledger.check()
            return
        places = [(worker.host, worker.port) for worker in workers]
        reports = read_workers(folder, topology.id)
        ages: dict[tuple[str | None, int | None], float] = {}
        for executor in (e for part in topology.components.values() for e in part.executors):
            here = executor.host, executor.port
            ages[here] = max(executor.age or 0.0, ages.get(here, 0.0))
        of_place = {p: ages.get((self._node(*p), p[1]), 0.0) for p in places}
        used, missing = processors(reports, places, oldest_at_report(of_place, settings))
        if missing:
            names = listed([f"{host}:{port}" for host, port in missing], 3)
            reason = f"{topology.name}: {names} reported no workerCpuUsage twice since started"
            self.ledger.problem("--option cpu", "process", reason, "wait for two reports")
            self.ledger.check()
        beside = 0.0
        for place, cores in used.items():
            beside += _compute(topology, (self._node(*place), place[1]), cores)
        self.ledger.reading(
            "an executor's CPU is its part of what its worker's threads compute: of bolts by busy "
            "time, and no more than that; what is left is that of spouts"
            + (f", and {beside:.2g} cores of workers without any" if beside > 0.005 else "")
        )

    def _executor(self, entry: Any, counts: _Counts | None) -> pages.Executor:
        page = {"id": f"[{name_of(entry)}]", "uptimeSeconds": entry.uptime_secs, "port": entry.port}
        page["host"] = self._node(entry.host, entry.port)
        executor: pages.Executor = read_page(pages.Executor, page, "executors", self.ledger)
        if counts is None:
            return executor
        executor.measured = max(counts.age, 1.0)
        executor.received, executor.sent_on = counts.executed, counts.transferred
        if counts.executed:
            executor.executed = sum(counts.executed.values())
            # Storm's own capacity: s executing / s measured
            executor.capacity = as_number(counts.busy / 1000.0 / executor.measured)
        executor.transferred = sum(counts.transferred.values())
        return executor

    def _add_streams(
        self, topology: pages.Topology, inputs: dict[str, Any], settings: dict[str, Any]
    ) -> None:
        """Take up groupings, what each component read, and what ackers send to spouts."""
        ledger, parts = self.ledger, topology.components
        for receiver, streams in inputs.items():
            for stream, grouping in streams.items():
                # a union of Thrift: the one field that is set is the grouping
                kind = next((k for k, v in vars(grouping).items() if v is not None), "custom")
                kind = "global" if kind == "fields" and not grouping.fields else kind
                kind = "custom" if kind.startswith("custom") else kind
                # load-aware messaging: tuples go to who is near as long as that is not overloaded
                if kind in _FOLLOWING and not settings.get(_EVEN):
                    kind = pages.LOCAL_FIRST
                topology.groupings[stream.componentId, stream.streamId, receiver] = kind
        for part in parts.values():
            for executor in part.executors:
                for key, count in executor.received.items():
                    part.inputs[key] = part.inputs.get(key, 0.0) + count
        self._add_acks(parts)
        if any(executor.capacity for part in parts.values() for executor in part.executors):
            ledger.reading(
                "an executor's busy time is wall-clock: a thread that waits for a processor counts "
                "as busy (--option cpu=process takes what workers' processes compute, "
                "cpu=requested what components request)"
            )
        rate = settings.get(_SAMPLED)
        if isinstance(rate, int | float) and 0 < rate < 1:
            ledger.reading(f"counts are of a sample ({_SAMPLED} {rate:g}): steps of {1 / rate:.0f}")
        spans = [e.measured for p in parts.values() for e in p.executors if e.measured]
        if spans:
            ledger.reading(
                f"rates of {topology.name} are of {min(spans):.0f} s to {max(spans):.0f} s"
            )
            self._warn_of_few(topology, max(spans))

    def _warn_of_few(self, topology: pages.Topology, seconds: float) -> None:
        """Warn where the busiest component's executors counted so little that shares are chance."""
        counts = {
            name: [sum(e.received.values()) for e in part.executors]
            for name, part in topology.components.items()
            if part.kind == "bolt" and not part.is_system and len(part.executors) > 1
        }
        if not counts:
            return
        name, most = max(counts.items(), key=lambda item: sum(item[1]))
        # of n tuples that come by chance, √n more or less come as well: a share of 1 / √n
        mean = sum(most) / len(most)
        if 0 < mean < ENOUGH:
            longer = math.ceil(seconds * ENOUGH / mean)
            self.ledger.warn(
                f"{topology.name}: an executor of {name} counted {mean:.0f} tuples in "
                f"{seconds:.0f} s: its share is known to {100 / math.sqrt(mean):.0f} %, and a plan "
                f"takes advantage of chance (--option interval={longer} counts {ENOUGH:,})"
            )

    @staticmethod
    def _add_acks(parts: dict[str, pages.Component]) -> None:
        """Give spouts what ackers send: each the share of what it gave ackers to follow."""
        spouts = {
            executor.name: executor.sent_on[_INIT] / executor.measured
            for part in parts.values()
            if part.kind == "spout"
            for executor in part.executors
            if executor.sent_on.get(_INIT) and executor.measured
        }
        acker = parts.get(_ACKER)
        if acker is None or not spouts:
            return
        # acks to a spout's executor = acks a second × its share of tuples to be tracked a second
        key, total = (_ACKER, _ACK), sum(spouts.values())
        ack_rate = sum(completed([e.rate_on(_ACK) for e in acker.executors]) or ())
        for part in parts.values():
            for executor in part.executors:
                if executor.name in spouts and executor.measured:
                    share = spouts[executor.name] / total
                    executor.received = {key: share * ack_rate * executor.measured}
                    part.inputs[key] = part.inputs.get(key, 0.0) + executor.received[key]

    def _supervisor(self, summary: Any, ports: list[int]) -> pages.Supervisor | None:
        offers = summary.total_resources or {}
        page = {
            "host": summary.supervisor_id if self.by_supervisor else summary.host,
            "slotsTotal": summary.num_workers, "slotsUsed": summary.num_used_workers,
            "usedCpu": summary.used_cpu, "totalCpu": offers.get("cpu.pcore.percent"),
            "usedMem": summary.used_mem, "totalMem": offers.get("memory.mb"),
            "blacklisted": bool(summary.blacklisted),
        }  # fmt: skip
        path = f"supervisors: {summary.supervisor_id or summary.host}"
        supervisor: pages.Supervisor | None = read_page(pages.Supervisor, page, path, self.ledger)
        if supervisor is not None and len(ports) == supervisor.slots:
            supervisor.ports = ports
        return supervisor

    def _worker(self, summary: Any) -> pages.Worker:
        page = {
            "host": self._node(summary.host, summary.port), "port": summary.port,
            "executorsTotal": summary.num_executors, "assignedCpu": summary.assigned_cpu,
            "assignedMemOnHeap": summary.assigned_memonheap,
            "assignedMemOffHeap": summary.assigned_memoffheap,
        }  # fmt: skip
        worker: pages.Worker = read_page(pages.Worker, page, "workers", self.ledger)
        return worker


_FOLLOWING = {"shuffle", "local_or_shuffle"}
"""Groupings of which traffic follows the placement, where messaging knows loads and places."""


def _compute(topology: pages.Topology, place: tuple[str, int], cores: float) -> float:
    """Let the executors of a worker share what its process computes; return what is left."""
    pairs = [
        (part, executor)
        for part in topology.components.values()
        for executor in part.executors
        if (executor.host, executor.port) == place
    ]
    # bolts: min(1, cores / Σ busy) of their busy time; spouts share what that leaves
    busy = sum(executor.busy or 0.0 for _, executor in pairs)
    scale = min(1.0, cores / busy) if busy else 0.0
    spouts = [executor for part, executor in pairs if part.kind == "spout"]
    for part, executor in pairs:
        if part.kind != "spout":
            executor.computes = scale * (executor.busy or 0.0)
    for executor in spouts:
        executor.computes = max(0.0, cores - busy) / len(spouts)
    return 0.0 if spouts else max(0.0, cores - busy)


def _component(name: str, bolt: bool, common: Any, settings: dict[str, Any]) -> pages.Component:
    overrides = (
        {}
        if common is None or not common.json_conf
        else _settings(common.json_conf, f"{name}.json_conf")
    )
    of = settings | overrides
    kind = pages.Bolt if bolt else pages.Component
    part: pages.Component = kind.model_construct(name=name, count=0)
    part.executors, part.inputs = [], {}
    part.cpu_request = as_number(of.get("topology.component.cpu.pcore.percent"))
    part.requestedMemOnHeap = as_number(of.get("topology.component.resources.onheap.memory.mb"))
    part.requestedMemOffHeap = as_number(of.get("topology.component.resources.offheap.memory.mb"))
    return part


# -- what workers report themselves ----------------------------------------------------------------

REPORTERS = "topology.metrics.reporters"
REPORTER = "CsvStormReporter"
_SENT, _GIVEN, _STARTED = "__send-iconnection-sent-", "__transfer-count-", "startTimeSecs"
_CPU = "workerCpuUsage"
SPAN = 60.0
"""Seconds before the last report that count, where a worker runs for as long."""
_LATE_REPORT = 3
"""Periods after which a report is of a worker that is gone."""
ENOUGH = 1000
"""Tuples that a share is measured of: 1.96 √(p (1 - p) / 1000) is at most .031."""
_WRAP = 2.0**32

Place = tuple[str, int]
Rows = dict[int, float]


@dataclass
class Worker:
    """What a worker reported: by time, when it started, its part of a core, what each task gave on,
    and what it sent to each other worker."""

    started: Rows = field(default_factory=dict)
    cpu: Rows = field(default_factory=dict)
    passed_on: list[Rows] = field(default_factory=list)
    sent: dict[Place, Rows] = field(default_factory=dict)

    def times(self) -> list[int]:
        """Return the reports that count: of the worker that runs now, without the first.

        What executors count at first, one after the other, is not what they count later.
        """
        if not self.started:
            return []
        # startTimeSecs is the time of the start, the same in all reports of one process
        since = self.started[max(self.started)]
        return sorted(t for t in self.started if t > since)[1:]

    def window(self, span: float = SPAN) -> tuple[int, int, int] | None:
        """Return the first and last report that count, and the period; ``None``: fewer than two."""
        times = self.times()
        if len(times) < 2:
            return None
        last = times[-1]
        first = next(t for t in times if t >= last - span)
        return (first, last, last - times[-2]) if first < last else None

    def nearest(self, first: int, last: int) -> tuple[int, int]:
        """Return its reports nearest to two times: of the worker that runs now, and never one."""
        times = self.times()
        begin = min(times[:-1], key=lambda t: abs(t - first))
        return begin, min((t for t in times if t > begin), key=lambda t: abs(t - last))

    def counts_for(self, last: int) -> float:
        """Return the seconds for which the executors of its last report had counted by then.

        A process is there long before its executors, half a minute on a busy machine.
        """
        since = self.started[max(self.started)]
        return last - min((t for rows in self.passed_on for t in rows if t > since), default=last)

    def ends(self, first: int, last: int, running: Container[Place]) -> bool:
        """Whether the last report is of a worker that ends: it has closed a connection.

        A worker reports once more when it is stopped, after it has closed its connections.
        """
        return any(
            other in running and last not in rows and any(first <= t < last for t in rows)
            for other, rows in self.sent.items()
        )


def folder_in(settings: Mapping[str, Any]) -> tuple[Path | None, str]:
    """Return where the workers of a topology write their reports on this machine, or why nowhere.

    `settings`: of the topology.
    """
    for reporter in settings.get(REPORTERS) or ():
        if isinstance(reporter, dict) and str(reporter.get("class", "")).endswith(REPORTER):
            folder = reporter.get("csv.log.dir")
            if isinstance(folder, str) and Path(folder).is_dir():
                return Path(folder), ""
            where = f"{folder} of its hosts" if folder else "its hosts"
            return None, f"workers report in {where}: collect the files, --reports FOLDER"
    return None, f"the topology has no {REPORTER} in {REPORTERS}"


def read_workers(folder: Path, identity: str) -> dict[Place, Worker]:
    """Read the reports of a topology's workers, by the host that these name and port.

    Raises `InvalidInput`: it is no folder, or a file of it is no such report.
    """
    # file: storm.worker.TOPOLOGY.HOST.….PORT-METRIC.csv, a dot of the host as _
    name = re.compile(
        rf"storm\.(?:worker|topology)\.{re.escape(identity)}\.([^.]*)\..*?\.(\d+)-"
        rf"(?:({_STARTED})|({_CPU})|({_GIVEN}).+(?<!\.m1_rate)|{_SENT}(.+):(\d+))\.csv"
    )
    workers: dict[Place, Worker] = {}
    if not folder.is_dir():
        remedy = f"the folder of the files that {REPORTER} wrote"
        raise InvalidInput(Problem("--reports", str(folder), "is no folder", remedy))
    for path in sorted(folder.rglob("*.csv")):
        match = name.fullmatch(path.name)
        if match is None:
            continue
        worker = workers.setdefault((match[1], int(match[2])), Worker())
        rows = _read(path)
        if match[3]:
            worker.started |= rows
        elif match[4]:
            worker.cpu |= rows
        elif match[5]:
            worker.passed_on.append(rows)
        else:
            worker.sent.setdefault((match[6], int(match[7])), {}).update(rows)
    return workers


def _read(path: Path) -> Rows:
    rows: Rows = {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = iter(file)
            next(lines, None)
            for line in lines:
                if line.endswith("\n"):  # else it is being written
                    time, _, value = line.partition(",")
                    rows[int(time)] = float(value)
    except (OSError, ValueError) as error:
        reason, remedy = f"is no report of {REPORTER}: {error}", "t,value in each line"
        raise InvalidInput(Problem(str(path), None, reason, remedy)) from error
    return rows


@dataclass(frozen=True)
class Crossing:
    """Messages a second that were given to executors, and those of them that crossed nodes."""

    crossed: float
    total: float


def crossing(
    workers: dict[Place, Worker],
    node_of: Mapping[Place, str],
    span: float = SPAN,
    oldest: Mapping[Place, float] | None = None,
) -> Crossing | str:
    """Return what crosses between nodes, or why that is not known.

    Each worker counts between two reports of its own, those nearest to the time for which all have
    reported: what is sent just after a start is not what is sent later.

    `node_of`: the node of each worker that runs, by host and port.
    `span`: seconds before a worker's last report that count; all since the start where that is less
    than `ENOUGH` messages.
    `oldest`: seconds that executors may have counted at a worker's last report: those that counted
    for longer ran before those that run now.
    """
    reported = {
        place: (worker, window)
        for place, (worker, window) in _running(workers, node_of, span, oldest).items()
        if not worker.ends(window[0], window[1], node_of)
    }
    newest = max((window[1] for _, window in reported.values()), default=0)
    late = [p for p, (_, w) in reported.items() if newest - w[1] > _LATE_REPORT * max(w[2], 1)]
    missing = [f"{host}:{port}" for host, port in sorted({*late, *(node_of.keys() - reported)})]
    if missing:
        return (
            f"{', '.join(missing[:3])} reported less than three times since started: verify later"
        )
    if len({*node_of.values()}) > 1 and not any(worker.sent for worker, _ in reported.values()):
        return f"the workers of this Storm report no {_SENT}HOST:PORT"
    crossed = total = messages = 0.0
    since = max((window[0] for _, window in reported.values()), default=0)
    until = min((window[1] for _, window in reported.values()), default=0)
    for place, (worker, _) in reported.items():
        # all count over the same time, from where the last begins to where the first ends
        first, last = worker.nearest(since, until)
        transferred = sum(_grown(rows, first, last) for rows in worker.passed_on)
        messages += transferred
        total += transferred / (last - first)
        for other, rows in worker.sent.items():
            if node_of.get(other) not in (None, node_of[place]):
                crossed += _grown(rows, first, last) / (last - first)
    if messages >= ENOUGH:
        return Crossing(crossed, total)
    if span < math.inf:
        return crossing(workers, node_of, math.inf, oldest)
    return (
        f"{messages:.0f} messages were sent between reports of all workers, a share takes "
        f"{ENOUGH:,}: verify later"
    )


def oldest_at_report(up: Mapping[Place, float], settings: Mapping[str, Any]) -> dict[Place, float]:
    """Return the seconds that executors may have counted at a worker's last report (`crossing`).

    `up`: seconds for which they run, as Nimbus says, of a report ago. `settings`: of the topology.
    """
    every = as_number(settings.get(FREQUENCY)) or 60.0
    return {place: seconds + every + 2 * _LATE for place, seconds in up.items()}


def processors(
    workers: dict[Place, Worker],
    places: Sequence[Place],
    oldest: Mapping[Place, float] | None = None,
) -> tuple[dict[Place, float], list[Place]]:
    """Return the cores that the threads of running workers use, and the workers that report none.

    `places`: host and port of the workers that run.
    """
    used = {}
    for place, (worker, (first, last, _)) in _running(workers, places, SPAN, oldest).items():
        readings = [cores for t, cores in worker.cpu.items() if first < t <= last]
        if readings:
            used[place] = sum(readings) / len(readings)
    return used, sorted(place for place in places if place not in used)


def _running(
    workers: dict[Place, Worker],
    places: Iterable[Place],
    span: float,
    oldest: Mapping[Place, float] | None,
) -> dict[Place, tuple[Worker, tuple[int, int, int]]]:
    """Return the workers that run and reported twice, with the window of their reports."""
    of_port: dict[int, list[Place]] = {}
    for place in places:
        of_port.setdefault(place[1], []).append(place)
    running: dict[Place, tuple[Worker, tuple[int, int, int]]] = {}
    for (host, port), worker in workers.items():
        # the host as Storm writes it into names of files; else the only worker on that port
        matches = [p for p in of_port.get(port, ()) if p[0].replace(".", "_") == host]
        matches = matches or of_port.get(port, [])
        window = worker.window(span)
        if len(matches) == 1 and window is not None:
            if worker.counts_for(window[1]) > (oldest or {}).get(matches[0], math.inf):
                continue
            previous = running.get(matches[0])
            if previous is None or previous[1][1] < window[1]:
                running[matches[0]] = worker, window
    return running


def _grown(rows: Rows, first: int, last: int) -> float:
    """Return by how much a count grew between two reports; one that is not there yet is 0.

    A count that falls began again: Storm's are of 32 bits, and those of a connection are its own.
    """
    grown, before = 0.0, rows.get(first, 0.0)
    for t in sorted(t for t in rows if first < t <= last):
        step = rows[t] - before
        if step < 0:
            # beyond 2^31 - 1 it goes on from -2^31
            step = step + _WRAP if step < -_WRAP / 2 else max(0.0, rows[t])
        grown, before = grown + step, rows[t]
    return grown
