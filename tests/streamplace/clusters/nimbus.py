"""A stand-in for Nimbus that speaks its protocol, with a topology that counts and moves."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TFramedTransportFactory, TServerSocket

import streamplace.clusters.storm as home

TYPES: Any = thriftpy2.load(f"{home.__path__[0]}/nimbus.thrift", module_name="tested_nimbus_thrift")
ALL = ":all-time"
COMPONENTS = {
    "1-1": "__acker", "2-2": "count", "3-3": "count", "4-4": "lines", "5-5": "split",
    "6-6": "split",
}  # fmt: skip


@dataclass
class Fake:
    """A cluster: hosts of two slots each, and one topology of a spout, two bolts and an acker.

    Every reading of its executors is five seconds after the one before. A spout's executor sends
    100 tuples/s, each of the two of ``split`` gets half, and sends three for each on to ``count``,
    of which the first executor gets 80 %.
    """

    hosts: tuple[str, ...] = ("h1", "h2", "h3")
    shut: tuple[str, ...] = ()
    slots: int = 2
    at: dict[str, tuple[str, int]] = field(default_factory=dict)
    scheduler: str = "streamplace.PlanScheduler"
    ports: list[int] = field(default_factory=lambda: [6700, 6701])
    status: str = "ACTIVE"
    settings: dict[str, Any] = field(default_factory=dict)
    others: dict[tuple[str, int], str] = field(default_factory=dict)
    clock: int = 100
    frozen: bool = False
    started: dict[str, int] = field(default_factory=dict)
    rebalances: list[Any] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    downloads: dict[str, bytes] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)
    carries_out: bool = True
    has_reported: bool = True
    change: Callable[[Any], Any] = id  # of what is told of the executors
    machine: dict[str, Any] = field(default_factory=dict)  # of what is told of the first host

    components: dict[str, str] = field(default_factory=lambda: dict(COMPONENTS))

    def __post_init__(self) -> None:
        places = [("h1", 6700), ("h2", 6700), ("h2", 6701)]
        for i, name in enumerate(self.components):
            self.at.setdefault(name, places[i % 3])

    def getClusterInfo(self) -> Any:
        used = {*self.at.values(), *self.others}
        supervisors = [
            TYPES.SupervisorSummary(
                host=host, uptime_secs=1, num_workers=self.slots, supervisor_id=f"id-{host}",
                num_used_workers=sum(place == host for place, _ in used),
                blacklisted=host in self.shut,
                total_resources={"cpu.pcore.percent": 400.0, "memory.mb": 4096.0},
            )
            for host in self.hosts
        ]  # fmt: skip
        for name, value in self.machine.items():
            setattr(supervisors[0], name, value)
        names = [("words", self.status), *((name, "ACTIVE") for name in set(self.others.values()))]
        topologies = [
            TYPES.TopologySummary(
                id=f"{name}-1-17", name=name, num_tasks=6, num_executors=6, num_workers=3,
                uptime_secs=self.clock, status=status,
            )
            for name, status in names
        ]  # fmt: skip
        return TYPES.ClusterSummary(supervisors=supervisors, topologies=topologies)

    def getNimbusConf(self) -> str:
        return json.dumps({"storm.scheduler": self.scheduler, "supervisor.slots.ports": self.ports})

    def getTopologyConf(self, identity: str) -> str:
        self._known(identity)
        usual = {"topology.stats.sample.rate": 1.0, "executor.metrics.frequency.secs": 60}
        usual["topology.disable.loadaware.messaging"] = True
        usual["topology.component.cpu.pcore.percent"] = 10.0
        return json.dumps(usual | self.settings)

    def getUserTopology(self, identity: str) -> Any:
        self._known(identity)
        shuffle = TYPES.Grouping(shuffle=TYPES.Nothing())
        fields = TYPES.Grouping(fields=["key"])
        common = TYPES.ComponentCommon
        return TYPES.StormTopology(
            spouts={"lines": TYPES.Spout(common=common(inputs={}))},
            bolts={
                "split": TYPES.Bolt(common=common(inputs={_stream("lines"): shuffle})),
                "count": TYPES.Bolt(common=common(inputs={_stream("split"): fields})),
            },
        )

    def getTopologyInfo(self, identity: str) -> Any:
        self._known(identity)
        if not self.frozen:
            self.clock += 5
        executors = [
            TYPES.ExecutorSummary(
                executor_info=TYPES.ExecutorInfo(*map(int, name.split("-"))),
                component_id=component, host=self.at[name][0], port=self.at[name][1],
                uptime_secs=self.clock - self.started.get(name, 0),
                stats=self._counted(name, self.clock - self.started.get(name, 0)),
            )
            for name, component in self.components.items()
        ]  # fmt: skip
        system = TYPES.ExecutorSummary(
            executor_info=TYPES.ExecutorInfo(-1, -1), component_id="__system", host="h1", port=6700,
            uptime_secs=1,
        )  # fmt: skip
        told = TYPES.TopologyInfo(
            id=identity, name="words", uptime_secs=self.clock, executors=[*executors, system],
            status=self.status,
        )  # fmt: skip
        self.change(told)
        return told

    @staticmethod
    def _counted(name: str, age: int) -> Any:
        executed, sent = {
            "4-4": ({}, {"default": 100, "__ack_init": 100}),
            "7-7": ({}, {"default": 300, "__ack_init": 300}),
            "5-5": ({("lines", "default"): 50}, {"default": 150, "__ack_ack": 50}),
            "6-6": ({("lines", "default"): 50}, {"default": 150, "__ack_ack": 50}),
            "2-2": ({("split", "default"): 240}, {"__ack_ack": 240}),
            "3-3": ({("split", "default"): 60}, {"__ack_ack": 60}),
            "1-1": (
                {("lines", "__ack_init"): 100, ("split", "__ack_ack"): 100,
                 ("count", "__ack_ack"): 300},
                {"__ack_ack": 100},
            ),
        }[name]  # fmt: skip
        bolt = TYPES.BoltStats(
            executed={ALL: {_stream(*key): rate * age for key, rate in executed.items()}},
            execute_ms_avg={ALL: {_stream(*key): 1.0 for key in executed}},
        )
        return TYPES.ExecutorStats(
            transferred={ALL: {stream: rate * age for stream, rate in sent.items()}},
            specific=TYPES.SpecificStats(bolt=bolt) if executed
            else TYPES.SpecificStats(spout=TYPES.SpoutStats(acked={}, complete_ms_avg={})),
        )  # fmt: skip

    def getTopologyPageInfo(self, identity: str, window: str, is_include_sys: bool) -> Any:
        self._known(identity)
        mine = sorted(set(self.at.values()))
        if not identity.startswith("words-"):
            mine = [at for at, name in self.others.items() if identity.startswith(f"{name}-")]
        workers = [
            TYPES.WorkerSummary(supervisor_id=f"id-{host}", host=host, port=port, num_executors=2)
            for host, port in mine
        ]
        return TYPES.TopologyPageInfo(id=identity, workers=workers)

    def beginCreateBlob(self, key: str, meta: Any) -> str:
        if key in self.blobs:
            raise TYPES.KeyAlreadyExistsException(msg=key)
        self.blobs[key] = b""
        return key

    def beginUpdateBlob(self, key: str) -> str:
        if key not in self.blobs:
            raise TYPES.KeyNotFoundException(msg=key)
        self.blobs[key] = b""
        return key

    def uploadBlobChunk(self, session: str, chunk: bytes) -> None:
        self.blobs[session] += chunk

    def finishBlobUpload(self, session: str) -> None:
        self.finished.append(session)

    def beginBlobDownload(self, key: str) -> Any:
        if key not in self.blobs:
            raise TYPES.KeyNotFoundException(msg=key)
        self.downloads[key] = self.blobs[key]
        return TYPES.BeginDownloadResult(version=1, session=key)

    def downloadBlobChunk(self, session: str) -> bytes:
        left = self.downloads[session]
        self.downloads[session] = left[50:]
        return left[:50]

    def stored(self, topology: str = "words-1-17") -> dict[str, Any]:
        """Return what was uploaded for a topology, as the plug-in reads it."""
        assert f"streamplace-{topology}" in self.finished
        document = json.loads(gzip.decompress(self.blobs[f"streamplace-{topology}"]))
        assert isinstance(document, dict)
        return document

    def rebalance(self, name: str, options: Any) -> None:
        self.rebalances.append(options)
        told = self.stored()
        if not self.carries_out:
            return
        changed: dict[str, tuple[str, int]] = {}
        for worker, executors in told["streamplace.placement"].items():
            host, _, port = worker.rpartition(":")
            number = 6800 + int(port[1:]) if port.startswith("+") else int(port)
            before = {name for name, at in self.at.items() if at == (host, number)}
            changed |= {} if before == {*executors} else dict.fromkeys(executors, (host, number))
        self.at |= changed
        if self.has_reported:  # else Nimbus has the reports of the workers before
            self.started |= dict.fromkeys(changed, self.clock)

    def _known(self, identity: str) -> None:
        if not any(identity == one.id for one in self.getClusterInfo().topologies):
            raise TYPES.NotAliveException(msg=identity)


def _stream(component: str, stream: str = "default") -> Any:
    return TYPES.Stream(componentId=component, streamId=stream)


class Served:
    """A fake that answers on loopback while it is entered."""

    def __init__(self, fake: Any) -> None:
        self.socket = TServerSocket(host="127.0.0.1", port=0, client_timeout=None)
        self.socket.listen()
        self.port = self.socket.sock.getsockname()[1]
        self.socket.listen = lambda: None  # type: ignore[method-assign]
        self.server = TThreadedServer(
            TProcessor(TYPES.Nimbus, fake), self.socket, daemon=True,
            iprot_factory=TBinaryProtocolFactory(), itrans_factory=TFramedTransportFactory(),
        )  # fmt: skip
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            self.server.serve()

    def __enter__(self) -> str:
        self.thread.start()
        return f"nimbus://127.0.0.1:{self.port}"

    def __exit__(self, *error: object) -> None:
        self.server.closed = True
        self.socket.close()
