"""Storm: figures computed by hand from the documents of `systems.storm`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from optim import solve
from optim.errors import InvalidInput
from optim.format.instance import Instance
from streamplace.clusters.exchange.sources import import_instance
from tests.streamplace.clusters import systems

BASE = "topology/wordcount-1-1700000000"


def pairs_of(instance: Instance) -> dict[tuple[str, str], float]:
    ids = instance.tasks.ids
    u, v, rate = instance.pairs
    return {(ids[a], ids[b]): r for a, b, r in zip(u, v, rate.tolist(), strict=True)}


def test_placement_load_and_slots(saved: Callable[..., str]) -> None:
    made = import_instance("storm", [saved(systems.storm())])
    instance = made.instance
    assert instance.nodes.ids == ("s1", "s2")
    assert instance.nodes.slots.tolist() == [2, 2]
    assert instance.topologies.ids == ("wordcount",)
    assert instance.topologies.workers.tolist() == [2]
    assert instance.resources == ("cpu", "memory")
    split = instance.tasks.index["split[5-5]"]
    assert instance.tasks.load[split].tolist() == [35.0, 128.0]  # "0.350" is a text
    assert instance.nodes.ids[instance.tasks.node[split]] == "s1"
    # s2 uses port 6701 only: its first slot, the idle one is likely 6700
    assert instance.nodes.labels[1]["ports"] == "6701,+1"
    assert instance.tasks.slot[instance.tasks.index["split[6-6]"]] == 0
    assert instance.tasks.load[instance.tasks.index["sentences[7-7]"], 0] == 20.0
    assert not made.ledger.ignored
    assert instance.operators.role[0] == "source"


def test_an_executor_is_one_thread(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    made = import_instance("storm", [saved(documents)]).instance
    limits = dict(zip(made.tasks.ids, made.tasks.max_load[:, 0].tolist(), strict=True))
    assert limits["split[5-5]"] == limits["count[1-1]"] == 100.0  # percent of a core: capacity 1
    assert limits["sentences[7-7]"] == float("inf")  # a spout tells no capacity
    # count[1-1] has capacity 0.8: 1.25 times the present tuples, on any supervisor
    result = solve(made, objective="sustainable_rate")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1.25)
    assert result.evaluation is not None
    assert result.evaluation.saturation is not None
    assert result.evaluation.saturation[0]["operator"] == "count"
    # what is requested is in a unit of its own: the share of its time stays what it is
    asked = import_instance("storm", [saved(documents)], [("cpu", "requested")]).instance
    assert asked.thread_rates.min() == pytest.approx(1.25)
    # beyond capacity 1, which Storm tells of executors that lag: they carry what they carry
    stats = documents[f"{BASE}/component/count"]["executorStats"]
    stats[0]["capacity"] = "1.300"
    late = import_instance("storm", [saved(documents, "late")]).instance
    assert late.thread_rates.min() == 1.0


def test_traffic_follows_the_groupings(saved: Callable[..., str]) -> None:
    instance = import_instance("storm", [saved(systems.storm())]).instance
    pairs = pairs_of(instance)
    # shuffle: 6000 tuples in 600 s, halves
    assert pairs["sentences[7-7]", "split[5-5]"] == pytest.approx(5.0)
    assert pairs["sentences[7-7]", "split[6-6]"] == pytest.approx(5.0)
    # fields: 50 tuples/s; split sends 1/3 and 2/3, count executes 4/5 and 1/5
    assert pairs["split[5-5]", "count[1-1]"] == pytest.approx(50 / 3 * 0.8)
    assert pairs["split[6-6]", "count[2-2]"] == pytest.approx(100 / 3 * 0.2)
    # global: all to the executor of the lowest task
    assert pairs["count[1-1]", "report[3-3]"] == pytest.approx(5 * 0.8)
    assert ("count[1-1]", "report[4-4]") not in pairs
    assert instance.total_traffic == pytest.approx(10 + 50 + 5)


@pytest.mark.parametrize("grouping", ["all", "none", "localOrShuffle", "LOCAL_OR_SHUFFLE"])
def test_even_groupings(saved: Callable[..., str], grouping: str) -> None:
    documents = systems.storm()
    documents[f"{BASE}/visualization"]["count"][":inputs"][0][":grouping"] = grouping
    pairs = pairs_of(import_instance("storm", [saved(documents)]).instance)
    assert pairs["split[5-5]", "count[1-1]"] == pytest.approx(50 / 3 / 2)
    assert pairs["split[5-5]", "count[2-2]"] == pytest.approx(50 / 3 / 2)


def test_shuffle_that_prefers_who_is_near(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    settings: dict[str, Any] = {"topology.localityaware.higher.bound": 0.8}
    documents[BASE]["configuration"] = settings
    made = import_instance("storm", [saved(documents, "near")])
    names = made.instance.operators.ids
    (near,) = [s for s in made.instance.streams if s.pattern == "local_first"]
    assert (names[near.source], names[near.target]) == ("sentences", "split")
    assert near.rate == pytest.approx(10.0)
    assert near.sender_weights is None  # one sender
    assert any("shuffle prefers receivers in the same worker" in w for w in made.ledger.warnings)
    assert made.instance.total_traffic == pytest.approx(10 + 50 + 5)
    shuffled = documents[f"{BASE}/visualization"]["count"][":inputs"][0]
    shuffled[":grouping"] = "shuffle"
    made = import_instance("storm", [saved(documents, "uneven")])
    near = next(s for s in made.instance.streams if s.sender_weights is not None)
    assert near.sender_weights == pytest.approx((50 / 3, 100 / 3))
    settings["topology.disable.loadaware.messaging"] = True
    made = import_instance("storm", [saved(documents, "even")])
    assert all(s.pattern == "full" for s in made.instance.streams)
    assert not any("shuffle" in told for told in (*made.ledger.warnings, *made.ledger.readings))


def test_without_visualization_shares_are_as_measured(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    del documents[f"{BASE}/visualization"]
    made = import_instance("storm", [saved(documents)])
    assert pairs_of(made.instance)["split[6-6]", "count[1-1]"] == pytest.approx(100 / 3 * 0.8)
    assert any("no document names" in reading for reading in made.ledger.readings)


def test_without_input_statistics_senders_tell(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    del documents[f"{BASE}/component/count"]["inputStats"]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.total_traffic == pytest.approx(10 + 50 + 5)
    assert any("reports no inputs" in reading for reading in made.ledger.readings)


def test_without_component_pages_nothing_is_placed(saved: Callable[..., str]) -> None:
    documents = {k: v for k, v in systems.storm().items() if "/component/" not in k}
    made = import_instance("storm", [saved(documents)])
    assert made.instance.num_tasks == 7
    assert not made.instance.has_current
    assert made.instance.tasks.load[made.instance.tasks.index["count#1"], 0] == 50.0
    assert len(made.ledger.warnings) == 4


def test_from_an_address(saved: Callable[..., str], serve: Callable[..., str]) -> None:
    by_file = import_instance("storm", [saved(systems.storm())]).instance
    by_net = import_instance("storm", [serve(systems.storm(), "api/v1")]).instance
    assert by_net.sha256 == by_file.sha256


@pytest.mark.parametrize(
    ("page", "value", "told"),
    [
        ("supervisor/summary", {"topologies": []}, "supervisors is missing"),
        ("topology/wordcount-1-1700000000", {"supervisors": []}, "spouts is missing"),
        (
            "topology/wordcount-1-1700000000/component/split",
            {"id": "split", "topologyId": "another"},
            "topologyId: 'another' answers for wordcount-1-1700000000",
        ),
    ],
)
def test_what_an_address_answers_is_what_was_asked_for(
    serve: Callable[..., str], page: str, value: Any, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told):
        import_instance("storm", [serve(systems.storm() | {page: value}, "api/v1")])


def test_an_unknown_topology_is_refused(saved: Callable[..., str]) -> None:
    with pytest.raises(InvalidInput, match="topology 'nope'"):
        import_instance("storm", [saved(systems.storm())], [("topology", "nope")])


def test_two_supervisors_of_a_host_are_a_node(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    entries = documents["supervisor/summary"]["supervisors"]
    entries[0] |= {"id": "one", "uptime": "1d 2h", "usedMem": 0.0}
    entries.append(entries[0] | {"id": "two", "uptime": "3h", "logLink": "http://s1/log"})
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.ids == ("s1", "s2")
    # of four slots two are used, one of them by another topology
    assert made.instance.nodes.slots.tolist() == [3, 2]
    assert any("same host (s1)" in reading for reading in made.ledger.readings)


def test_executors_on_a_host_that_is_gone(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents["supervisor/summary"]["supervisors"].pop()
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.ids == ("s1", "s2")
    assert made.instance.nodes.leaving.tolist() == [False, True]
    assert any("supervisor summary lacks" in text for text in made.ledger.warnings)


def test_two_topologies_are_told_apart(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    second = {k.replace("wordcount", "other"): v for k, v in systems.storm().items() if BASE in k}
    for value in second.values():
        for key in ("id", "topologyId"):
            if key in value and "wordcount" in value[key]:
                value[key] = value[key].replace("wordcount", "other")
        if "name" in value:
            value["name"] = "other"
    made = import_instance("storm", [saved(documents | second)])
    instance = made.instance
    assert instance.num_tasks == 14
    assert "wordcount:count[1-1]" in instance.tasks.index
    # each picture's path tells whose it is; both topologies are in the same two slots
    assert all("holds executors of other, wordcount" in text for text in made.ledger.warnings)
    assert len(made.ledger.warnings) == 2
    assert pairs_of(instance)["other:count[1-1]", "other:report[3-3]"] == pytest.approx(4.0)
    loose = {
        k.replace("-1-1700000000/visualization", ""): v for k, v in (documents | second).items()
    }
    doubtful = import_instance("storm", [saved(loose, "loose")])
    assert sum("fits no single topology" in text for text in doubtful.ledger.warnings) == 2
    only = import_instance("storm", [saved(documents | second)], [("topology", "other")]).instance
    assert only.topologies.ids == ("other",)


def test_other_topologies_are_background(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents["supervisor/summary"]["supervisors"][0]["usedCpu"] = 150.0
    documents["supervisor/summary"]["supervisors"][0]["slotsUsed"] = 2
    documents[BASE]["workers"] = [
        {"host": "s1", "port": 6700, "assignedCpu": 50.0},
        {"host": "s2", "port": 6701, "assignedCpu": 60.0},
    ]
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.nodes.background[:, 0].tolist() == [100.0, 0.0]
    assert instance.nodes.slots.tolist() == [1, 2]


def test_own_slots_are_told_by_executors(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents[BASE]["workers"] = [
        {"host": "s1", "assignedCpu": 60.0},
        {"host": "s2", "assignedCpu": 60.0},
    ]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.slots.tolist() == [2, 2]
    assert not any("taken away" in text for text in made.ledger.readings)
    documents["supervisor/summary"]["supervisors"][0]["slotsUsed"] = 2
    one = import_instance("storm", [saved(documents)]).instance
    assert one.nodes.slots.tolist() == [1, 2]
    documents[f"{BASE}/component/count"]["executorStats"][0]["port"] = 6701
    both = import_instance("storm", [saved(documents)]).instance
    assert both.nodes.slots.tolist() == [2, 2]
    del documents[BASE]["workers"]  # executors alone tell as much
    assert import_instance("storm", [saved(documents)]).instance.nodes.slots.tolist() == [2, 2]


def test_hosts_of_other_topologies_alone(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents["supervisor/summary"]["supervisors"].append(
        {"id": "a3", "host": "s3", "slotsTotal": 3, "slotsUsed": 2, "usedCpu": 70.0}
        | {"totalCpu": 400.0, "totalMem": 4096.0}
    )
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.nodes.slots.tolist() == [2, 2, 1]
    documents[BASE]["workers"] = [
        {"host": "s1", "port": 6700, "assignedCpu": 60.0},
        {"host": "s2", "port": 6701, "assignedCpu": 60.0},
    ]
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.nodes.slots.tolist() == [2, 2, 1]
    assert instance.nodes.background[:, 0].tolist() == [0.0, 0.0, 70.0]


def test_slots_whose_they_are_is_not_told(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents["supervisor/summary"]["supervisors"][0]["slotsUsed"] = 2
    del documents[f"{BASE}/component/report"]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.slots.tolist() == [2, 2]
    told = "the owners of slots in use are not reported: slots of others count as free"
    assert told in made.ledger.readings


def test_topologies_that_are_not_active_are_left_out(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    killed = json.loads(json.dumps(documents[BASE]))
    killed |= {"id": "wordcount-0-1600000000", "status": "KILLED"}
    documents["topology/wordcount-0-1600000000"] = killed
    made = import_instance("storm", [saved(documents)])
    assert made.instance.num_tasks == 7
    assert made.ledger.warnings == [
        "wordcount is KILLED: left out (--option topology=wordcount-0-1600000000 takes it)"
    ]
    named = import_instance("storm", [saved(documents)], [("topology", killed["id"])])
    assert not named.instance.has_current
    del documents[BASE], documents["topology/wordcount-0-1600000000"]
    pages = {"supervisor/summary": documents["supervisor/summary"], "topology/killed": killed}
    with pytest.raises(InvalidInput, match="holds no page of an active topology"):
        import_instance("storm", [saved(pages, "killed")])


def test_a_topology_that_is_not_there(serve: Callable[..., str]) -> None:
    documents = systems.storm()
    url = serve(documents, "api/v1")
    with pytest.raises(InvalidInput, match=r"has no topology 'x' \(there is old \(KILLED\), word"):
        import_instance("storm", [url], [("topology", "x")])
    documents["topology/summary"]["topologies"].pop(0)
    with pytest.raises(InvalidInput, match=r"has no active topology \(there is old \(KILLED\)\)"):
        import_instance("storm", [url])
    documents["topology/summary"]["topologies"].clear()
    with pytest.raises(InvalidInput, match="submit one first"):
        import_instance("storm", [url])


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda d: d[BASE]["bolts"][1].pop("boltId"), r"bolts\[1\]\.boltId is missing"),
        (lambda d: d[BASE]["bolts"][0].pop("executors"), r"bolts\[0\]\.executors is missing"),
        (
            lambda d: d["supervisor/summary"]["supervisors"][1].pop("slotsTotal"),
            r"supervisors\[1\]\.slotsTotal is missing",
        ),
        (
            lambda d: d["supervisor/summary"]["supervisors"][0].update(slotsTotal="many"),
            r"slotsTotal: 'many' is not a whole number",
        ),
        (
            lambda d: d["supervisor/summary"]["supervisors"][0].update(slotsTotal=10**12),
            "is more than 10000",
        ),
        (
            lambda d: d[BASE]["bolts"][0].update(executors=10**13),
            "split",
        ),
        (lambda d: d[BASE].update(bolts={}), r"bolts: .* must be a list, not an object"),
        (
            lambda d: d[f"{BASE}/component/split"]["executorStats"].append("x"),
            r"executorStats\[2\]: 'x' must be an object, not a text",
        ),
        (
            lambda d: d[f"{BASE}/component/split"].update(topologyId="zzz"),
            "is the id of no topology page",
        ),
        (lambda d: d[f"{BASE}/component/split"].update(id="zzz"), "is no component of wordcount"),
        (
            lambda d: (
                d[f"{BASE}/component/count"]["executorStats"][0].update(port=7001)
                or d["supervisor/summary"]["supervisors"][0].update(slotsTotal=1)
            ),
            "workers run on 2 ports of s1",
        ),
        (lambda d: d.pop("supervisor/summary"), "there are no nodes"),
        (lambda d: d.pop(BASE), "topology"),
    ],
)
def test_what_is_needed_and_absent(
    saved: Callable[..., str], break_it: Callable[[dict[str, Any]], Any], told: str
) -> None:
    documents = systems.storm()
    break_it(documents)
    if told == "split":
        del documents[f"{BASE}/component/split"]
    with pytest.raises(InvalidInput, match=told):
        import_instance("storm", [saved(documents)])


def test_unknown_fields_are_counted(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    documents[BASE]["shinyNew"] = {"deep": [1, 2]}
    documents[BASE]["bolts"][0]["shinyNew"] = 3
    made = import_instance("storm", [saved(documents)])
    assert made.ledger.ignored_text() == "ignored 2 unknown fields: shinyNew ×2"


def test_window_of_all_time_uses_the_uptime(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    for name, page in documents.items():
        if BASE in name and "window" in page:
            page["window"] = ":all-time"
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.total_traffic == pytest.approx(65 * 600 / 7200)
    del documents[BASE]["uptimeSeconds"]
    with pytest.raises(InvalidInput, match="--option seconds"):
        import_instance("storm", [saved(documents)])
    told = import_instance("storm", [saved(documents)], [("seconds", "600")]).instance
    assert told.total_traffic == pytest.approx(65)


def test_many_pairs_are_spread_evenly(
    saved: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamplace.clusters.storm.model.MOST_PAIRS", 7)
    made = import_instance("storm", [saved(systems.storm())])
    # sentences to split are 2 pairs, split to count 4; count to report would be 4 more
    pairs = pairs_of(made.instance)
    assert pairs["count[1-1]", "report[4-4]"] == pytest.approx(5 / 4)
    assert pairs["split[6-6]", "count[1-1]"] == pytest.approx(100 / 3 * 0.8)
    assert any("very many pairs" in reading for reading in made.ledger.readings)


def test_a_supervisor_without_resources_is_unbounded(saved: Callable[..., str]) -> None:
    documents = systems.storm()
    del documents["supervisor/summary"]["supervisors"][0]["totalCpu"]
    documents["supervisor/summary"]["supervisors"][1]["totalCpu"] = 0
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.capacity[:, 0].tolist() == [float("inf")] * 2
    assert len(made.ledger.warnings) == 2
