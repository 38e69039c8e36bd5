"""Small clusters in the shapes that the systems' interfaces document, written by hand."""

from __future__ import annotations

from typing import Any


def storm() -> dict[str, Any]:
    """A word count on two supervisors: path below /api/v1 to document.

    Within 600 s: sentences 6000 tuples, split to words 30000 (fields), words to the one report.
    """
    identity = "wordcount-1-1700000000"
    base = f"topology/{identity}"
    return {
        "supervisor/summary": {
            "supervisors": [
                {"id": "a1", "host": "s1", "slotsTotal": 2, "slotsUsed": 1, "totalMem": 4096.0}
                | {"totalCpu": 400.0, "usedMem": 800.0, "usedCpu": 60.0, "uptimeSeconds": 9000},
                {"id": "a2", "host": "s2", "slotsTotal": 2, "slotsUsed": 1, "totalMem": 4096.0}
                | {"totalCpu": 400.0, "usedMem": 800.0, "usedCPU": 60.0, "uptimeSeconds": 9000},
            ],
            "schedulerDisplayResource": True,
        },
        "topology/summary": {
            "topologies": [
                {"id": identity, "name": "wordcount", "status": "ACTIVE", "workersTotal": 2},
                {"id": "old-2-1600000000", "name": "old", "status": "KILLED", "workersTotal": 1},
            ]
        },
        base: {
            "id": identity,
            "name": "wordcount",
            "status": "ACTIVE",
            "uptimeSeconds": 7200,
            "window": "600",
            "workersTotal": 2,
            "spouts": [
                {"spoutId": "sentences", "executors": 1, "tasks": 1, "emitted": 6000}
                | {"transferred": 6000, "requestedCpu": 20.0, "requestedMemOnHeap": 128.0}
            ],
            "bolts": [
                {"boltId": "split", "executors": 2, "tasks": 2, "executed": 6000}
                | {"transferred": 30000, "capacity": "0.300", "requestedMemOnHeap": 128.0},
                {"boltId": "count", "executors": 2, "tasks": 2, "executed": 30000}
                | {"transferred": 3000, "capacity": "0.500", "requestedMemOnHeap": 128.0},
                {"boltId": "report", "executors": 2, "tasks": 2, "executed": 3000}
                | {"transferred": 0, "capacity": "0.010", "requestedMemOnHeap": 128.0},
            ],
        },
        f"{base}/component/sentences": {
            "id": "sentences",
            "topologyId": identity,
            "componentType": "spout",
            "window": "600",
            "executors": 1,
            "executorStats": [
                {"id": "[7-7]", "host": "s1", "port": 6700, "emitted": 6000, "transferred": 6000}
            ],
        },
        f"{base}/component/split": {
            "id": "split",
            "topologyId": identity,
            "componentType": "bolt",
            "window": "600",
            "executorStats": [
                _bolt("[6-6]", "s2", 6701, 3000, 20000, "0.250"),
                _bolt("[5-5]", "s1", 6700, 3000, 10000, "0.350"),
            ],
            "inputStats": [_input("sentences", 6000)],
        },
        f"{base}/component/count": {
            "id": "count",
            "topologyId": identity,
            "componentType": "bolt",
            "window": "600",
            "executorStats": [
                _bolt("[1-1]", "s1", 6700, 24000, 2400, "0.800"),
                _bolt("[2-2]", "s2", 6701, 6000, 600, "0.200"),
            ],
            "inputStats": [_input("split", 30000)],
        },
        f"{base}/component/report": {
            "id": "report",
            "topologyId": identity,
            "componentType": "bolt",
            "window": "600",
            "executorStats": [
                _bolt("[3-3]", "s2", 6701, 3000, 0, "0.010"),
                _bolt("[4-4]", "s1", 6700, 0, 0, "0.000"),
            ],
            "inputStats": [_input("count", 3000)],
        },
        f"{base}/visualization": {
            "sentences": {":type": "spout", ":inputs": [], ":stats": []},
            "split": {":type": "bolt", ":inputs": [_reads("sentences", "shuffle")]},
            "count": {":type": "bolt", ":inputs": [_reads("split", "fields")]},
            "report": {":type": "bolt", ":inputs": [_reads("count", "global")]},
        },
    }


def _bolt(name: str, host: str, port: int, done: int, sent: int, capacity: str) -> dict[str, Any]:
    return {
        "id": name,
        "host": host,
        "port": port,
        "executed": done,
        "emitted": sent,
        "transferred": sent,
        "capacity": capacity,
        "executeLatency": "0.048",
        "workerLogLink": "http://s1:8000/log",
    }


def _input(component: str, executed: int) -> dict[str, Any]:
    return {"component": component, "stream": "default", "executed": executed}


def _reads(component: str, grouping: str) -> dict[str, Any]:
    return {":component": component, ":stream": "default", ":grouping": grouping}


JOB = "fd72014d4c864993a2e5a9287b4a9c5d"
SOURCE, MAP, SINK = "cbc357ccb763df2852fee8c4fc7d55f2", "0a448493b4782967b150582570326227", "90bea"


def flink(hosts: tuple[str, str] = ("tm-1:37345", "tm-2:40001")) -> dict[str, Any]:
    """A job of source (2), map (4, hash), sink (4, forward) on two task managers of 4 slots.

    The source writes 4 MB/s and the map 2 MB/s.
    """
    here, there = hosts
    return {
        "taskmanagers": {
            "taskmanagers": [_manager("tm-1", 37345), _manager("tm-2", 40001)],
        },
        "jobs/overview": {
            "jobs": [
                {"jid": JOB, "name": "orders", "state": "RUNNING", "start-time": 1},
                {"jid": "b" * 32, "name": "done", "state": "FINISHED", "start-time": 1},
            ]
        },
        f"jobs/{JOB}": {
            "jid": JOB,
            "name": "orders",
            "state": "RUNNING",
            "duration": 100_000,
            "vertices": [
                {"id": SOURCE, "name": "Source: orders", "parallelism": 2, "status": "RUNNING"},
                {"id": MAP, "name": "Map", "parallelism": 4, "status": "RUNNING"},
                {"id": SINK, "name": "Sink", "parallelism": 4, "status": "RUNNING"},
            ],
        },
        f"jobs/{JOB}/plan": {
            "plan": {
                "jid": JOB,
                "name": "orders",
                "type": "STREAMING",
                "nodes": [
                    {"id": SOURCE, "parallelism": 2, "description": "Source: orders"},
                    {"id": MAP, "parallelism": 4, "inputs": [_ships(SOURCE, "HASH")]},
                    {"id": SINK, "parallelism": 4, "inputs": [_ships(MAP, "FORWARD")]},
                ],
            }
        },
        f"jobs/{JOB}/vertices/{SOURCE}": _vertex(
            SOURCE, [_subtask(0, here, 0, 20e6, 0.5), _subtask(1, there, 0, 20e6, 0.5)]
        ),
        f"jobs/{JOB}/vertices/{MAP}": _vertex(
            MAP, [_subtask(i, here if i < 2 else there, 10e6, 5e6, 0.25) for i in range(4)]
        ),
        f"jobs/{JOB}/vertices/{SINK}": _vertex(
            SINK, [_subtask(i, there if i < 2 else here, 5e6, 0, 0.1) for i in range(4)]
        ),
        f"jobs/{JOB}/vertices/{MAP}/metrics": [
            {"id": "0.busyTimeMsPerSecond", "value": "900.0"},
            {"id": "1.busyTimeMsPerSecond", "value": "NaN"},
        ],
    }


def _manager(host: str, port: int) -> dict[str, Any]:
    return {
        "id": f"{host}-container",
        "path": f"akka.tcp://flink@{host}:6122/user/rpc/taskmanager_0",
        "dataPort": port,
        "slotsNumber": 4,
        "freeSlots": 2,
        "totalResource": {"cpuCores": 4.0, "taskHeapMemory": 512, "networkMemory": 128},
        "hardware": {"cpuCores": 8, "physicalMemory": 10**10},
    }


def _ships(source: str, strategy: str) -> dict[str, Any]:
    return {"num": 0, "id": source, "ship_strategy": strategy, "exchange": "pipelined_bounded"}


def _vertex(identity: str, subtasks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": identity, "name": "any", "parallelism": len(subtasks), "subtasks": subtasks}


def _subtask(index: int, host: str, read: float, write: float, busy: float) -> dict[str, Any]:
    return {
        "subtask": index,
        "status": "RUNNING",
        "attempt": 0,
        "host": host,
        "duration": 100_000,
        "metrics": {
            "read-bytes": 10 * read,
            "write-bytes": 10 * write,
            "read-records": 1,
            "write-records": 1,
            "accumulated-busy-time": busy * 100_000,
        },
    }


def cruise_control() -> dict[str, Any]:
    """Three brokers on two racks; four partitions, all led by broker 1."""
    return {
        "load": {
            "version": 1,
            "hosts": [],
            "brokers": [
                _broker(1, "r1", 60.0, 400.0, 0.0, 800.0, 4000.0),
                _broker(2, "r1", 5.0, 0.0, 300.0, 0.0, 3000.0),
                _broker(3, "r2", 5.0, 0.0, 100.0, 0.0, 1000.0),
            ],
        },
        "partition_load": {
            "version": 1,
            "records": [
                _record("orders", 0, 1, [2], 20.0),
                _record("orders", 1, 1, [2], 15.0),
                _record("orders", 2, 1, [3], 10.0),
                _record("clicks", 0, 1, [], 5.0),
            ],
        },
        "capacity": {
            "brokerCapacities": [
                {
                    "brokerId": "-1",
                    "capacity": {"DISK": "9000", "CPU": "100", "NW_IN": "5000", "NW_OUT": "6000"},
                    "doc": "default",
                },
                {
                    "brokerId": "3",
                    "capacity": {"DISK": {"/a": "1000", "/b": "2000"}, "CPU": {"num.cores": "8"}},
                },
            ]
        },
    }


def _broker(
    number: int, rack: str, cpu: float, leads: float, follows: float, out: float, disk: float
) -> dict[str, Any]:
    return {
        "Host": f"k{number}",
        "Broker": number,
        "Rack": rack,
        "BrokerState": "ALIVE",
        "DiskMB": disk,
        "DiskPct": "12.3",
        "CpuPct": cpu,
        "LeaderNwInRate": leads,
        "FollowerNwInRate": follows,
        "NwOutRate": out,
        "PnwOutRate": out,
        "Replicas": 4,
        "Leaders": 4,
    }


def _record(
    topic: str, number: int, leader: int, followers: list[int], cpu: float
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": number,
        "leader": leader,
        "followers": followers,
        "cpu": cpu,
        "networkInbound": 100.0,
        "networkOutbound": 200.0,
        "disk": 1000.0,
        "msg_in": 12.0,
    }


OTHER = "0e" * 16


def flink_pair() -> dict[str, Any]:
    """Two jobs that keep all slots of two task managers, one subtask a slot.

    Job A is a source and a sink, each (2) on a task manager of its own; so is job B.
    """
    managers = [_manager("tm-1", 37345), _manager("tm-2", 40001)]
    for manager in managers:
        manager["freeSlots"] = 0
    documents: dict[str, Any] = {
        "taskmanagers": {"taskmanagers": managers},
        "jobs/overview": {
            "jobs": [
                {"jid": j, "name": n, "state": "RUNNING"} for j, n in ((JOB, "A"), (OTHER, "B"))
            ]
        },
    }
    for job, name in ((JOB, "A"), (OTHER, "B")):
        source, sink = f"{name.lower()}1", f"{name.lower()}2"
        documents[f"jobs/{job}"] = {
            "jid": job,
            "name": name,
            "state": "RUNNING",
            "vertices": [
                {"id": source, "name": f"{name} in", "parallelism": 2},
                {"id": sink, "name": f"{name} out", "parallelism": 2},
            ],
            "plan": {
                "jid": job,
                "nodes": [{"id": source}, {"id": sink, "inputs": [_ships(source, "HASH")]}],
            },
        }
        for vertex, host in ((source, "tm-1:37345"), (sink, "tm-2:40001")):
            documents[f"jobs/{job}/vertices/{vertex}"] = _vertex(
                vertex, [_subtask(i, host, 10e6, 10e6, 0.5) for i in range(2)]
            )
    return documents
