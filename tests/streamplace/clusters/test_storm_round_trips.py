"""Random Storm clusters: a plan exported, read by this file alone, and imported again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import export_plan, import_instance
from tests.streamplace.clusters.nimbus import ALL, TYPES, Served

COMPONENTS = ["__acker", "spout", "b:x", "b", "__eventlogger"]
READ = TYPES.Stream(componentId="spout", streamId="default")


class Cluster:
    """Up to four hosts of one or two supervisors, and up to three topologies.

    `executors` is by topology: first and last task, component, host and port.
    """

    def __init__(self, draw: random.Random) -> None:
        self.supervisors = [
            (f"sup-{h}-{k}", f"h{h}.example", list(range(6700 + 10 * k, 6701 + 10 * k + more)))
            for h in range(draw.randint(1, 4))
            for k, more in enumerate(draw.choices(range(4), k=draw.choice([1, 1, 2])))
        ]
        self.ports = draw.choice([self.supervisors[0][2], [6700, 6701, 6702, 6703]])
        free = [(host, port) for _, host, ports in self.supervisors for port in ports]
        draw.shuffle(free)
        self.executors: dict[str, list[tuple[int, int, str, str, int]]] = {}
        for t in range(draw.randint(1, min(3, len(free)))):
            mine = [free.pop() for _ in range(draw.randint(1, max(1, len(free) // 2))) if free]
            task, made = 1, []
            for component in COMPONENTS[: draw.randint(2, 5)]:
                for _ in range(draw.randint(1, 4)):
                    last = task + draw.randint(0, 2)
                    made.append((task, last, component, *draw.choice(mine)))
                    task = last + 1
            if mine:
                self.executors[f"{draw.choice(['words', 'a:b', 'top-1'])}{t}"] = made

    def getClusterInfo(self) -> Any:
        used = {at[3:] for made in self.executors.values() for at in made}
        return TYPES.ClusterSummary(
            supervisors=[
                TYPES.SupervisorSummary(
                    host=host, supervisor_id=name, uptime_secs=9, num_workers=len(ports),
                    num_used_workers=sum((host, port) in used for port in ports),
                    total_resources={"cpu.pcore.percent": 400.0, "memory.mb": 4096.0},
                ) for name, host, ports in self.supervisors
            ],
            topologies=[
                TYPES.TopologySummary(
                    id=name, name=name, num_executors=len(made), num_workers=3, uptime_secs=1000,
                    status="ACTIVE",
                ) for name, made in self.executors.items()
            ],
        )  # fmt: skip

    def getNimbusConf(self) -> str:
        return json.dumps({"supervisor.slots.ports": self.ports})

    def getTopologyConf(self, identity: str) -> str:
        return json.dumps({"topology.component.cpu.pcore.percent": 10.0})

    def getUserTopology(self, identity: str) -> Any:
        names = {one[2] for one in self.executors[identity]}
        common = TYPES.ComponentCommon
        reads = {READ: TYPES.Grouping(shuffle=TYPES.Nothing())}
        return TYPES.StormTopology(
            spouts={"spout": TYPES.Spout(common=common(inputs={}))},
            bolts={n: TYPES.Bolt(common=common(inputs=reads)) for n in names if n[0] == "b"},
        )

    def getTopologyInfo(self, identity: str) -> Any:
        spout = TYPES.SpecificStats(spout=TYPES.SpoutStats(acked={}, complete_ms_avg={}))
        bolt = TYPES.SpecificStats(
            bolt=TYPES.BoltStats(executed={ALL: {READ: 500}}, execute_ms_avg={ALL: {READ: 0.1}})
        )
        return TYPES.TopologyInfo(
            id=identity, name=identity, uptime_secs=1000, status="ACTIVE",
            executors=[
                TYPES.ExecutorSummary(
                    executor_info=TYPES.ExecutorInfo(first, last), component_id=name, host=host,
                    port=port, uptime_secs=500,
                    stats=TYPES.ExecutorStats(
                        transferred={ALL: {"default": 500}},
                        specific=spout if name == "spout" else bolt,
                    ),
                ) for first, last, name, host, port in self.executors[identity]
            ],
        )  # fmt: skip

    def getTopologyPageInfo(self, identity: str, window: str, is_include_sys: bool) -> Any:
        places = sorted({one[3:] for one in self.executors[identity]})
        workers = [
            TYPES.WorkerSummary(supervisor_id=self.supervisor(*at), host=at[0], port=at[1])
            for at in places
        ]
        return TYPES.TopologyPageInfo(id=identity, workers=workers)

    def supervisor(self, host: str, port: int) -> str:
        return next(n for n, h, ports in self.supervisors if h == host and port in ports)


@pytest.mark.parametrize("node", ["host", "supervisor"])
@pytest.mark.parametrize("seed", range(100))
def test_every_executor_goes_where_the_plan_has_it(seed: int, node: str, tmp_path: Path) -> None:
    draw = random.Random(seed)
    cluster = Cluster(draw)
    options = [("interval", "0"), ("node", node)]
    with Served(cluster) as url:
        instance = import_instance("storm", [url], options).instance
        slots = instance.nodes.slots.tolist()
        free = [(n, s) for n, count in enumerate(slots) for s in range(count)]
        draw.shuffle(free)
        given = {name: [free.pop()] for name in cluster.executors}
        for place in free:
            given[draw.choice([*given])].append(place)
        owner = [
            instance.topologies.ids[instance.operators.topology[o]]
            for o in instance.tasks.operator.tolist()
        ]
        places = [draw.choice(given[name]) for name in owner]
        nodes, numbers = map(list, zip(*places, strict=True))
        plan = Plan.from_indices(instance, nodes, numbers)
        out = tmp_path / "placement.json"
        out.write_text(export_plan("storm", instance, plan).texts[""])
        back = import_instance("storm", [url], options, placement=str(out)).instance
    assert (back.tasks.node.tolist(), back.tasks.slot.tolist()) == (nodes, numbers)
    # read by hand: which ports a node has, and which executors its workers get
    ports: dict[str, list[int]] = {}
    used: dict[str, set[int]] = {}
    for name, host, some in cluster.supervisors:
        ports.setdefault(name if node == "supervisor" else host, []).extend(some)
    for made in cluster.executors.values():
        for _, _, _, host, port in made:
            on = cluster.supervisor(host, port) if node == "supervisor" else host
            used.setdefault(on, set()).add(port)
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for topology, entry in json.loads(out.read_text())["topologies"].items():
        for worker, executors in entry["workers"].items():
            site, _, number = worker.rpartition(":")
            assert number.startswith("+") or int(number) in ports[site]
            found |= {(topology, name): (site, number) for name in executors}
        components = {n: c for c, names in entry["components"].items() for n in names}
        assert components == {f"{f}-{t}": c for f, t, c, *_ in cluster.executors[topology]}
    workers: dict[tuple[int, int], set[tuple[str, str]]] = {}
    for task, name, (n, s) in zip(instance.tasks.ids, owner, places, strict=True):
        site, number = found[name, task[task.rindex("[") + 1 : -1]]
        workers.setdefault((n, s), set()).add((site, number))
        taken = sorted(used.get(site, ()))
        assert site == instance.nodes.ids[n]
        assert s >= len(taken) or number == str(taken[s])  # a slot in use keeps its port
    assert all(len(one) == 1 for one in workers.values())
    assert len(set.union(*workers.values())) == len(workers)
    assert len(found) == instance.num_tasks


def test_supervisors_of_one_host_do_not_share_the_ports_of_nimbus() -> None:
    cluster = Cluster(random.Random(0))
    cluster.supervisors = [("a", "h", [6700, 6701]), ("b", "h", [6710, 6711])]
    cluster.ports = [6700, 6701]
    cluster.executors = {"words": [(1, 1, "spout", "h", 6700), (2, 2, "b", "h", 6701)]}
    with Served(cluster) as url:
        options = [("interval", "0"), ("node", "supervisor")]
        instance = import_instance("storm", [url], options).instance
    assert [labels["ports"] for _, labels in sorted(instance.nodes.labels.items())] == [
        "6700,6701", "+1,+2",
    ]  # fmt: skip
