"""Storm: time base and completeness of what is read, in topologies of the smallest size."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim import Instance, evaluate
from optim.errors import ExitCode
from optim.format.plan import Plan
from streamplace.cli.check import suspicions
from streamplace.clusters.exchange.pages import seconds_of
from streamplace.clusters.exchange.sources import Imported, import_instance
from tests.command import run_command
from tests.streamplace.clusters.test_storm import pairs_of

BASE = "topology/t-1-1"


def executor(number: int, host: str = "s1", port: int = 6700, **more: Any) -> dict[str, Any]:
    """Return an executor of one task."""
    return {"id": f"[{number}-{number}]", "host": host, "port": port, **more}


def pages(
    spout: list[dict[str, Any]], bolt: list[dict[str, Any]], count: float, **topology: Any
) -> dict[str, Any]:
    """Return a spout ``in`` and a bolt ``out`` that executed so many tuples, on s1 and s2."""
    ports = {(e["host"], e["port"]) for e in [*spout, *bolt]}
    return {
        "supervisor/summary": {
            "supervisors": [
                {"id": name, "host": name, "slotsTotal": 4, "totalMem": 1000.0, "totalCpu": 400.0}
                for name in ("s1", "s2")
            ]
        },
        "topology/summary": {"topologies": [{"id": "t-1-1", "name": "t", "status": "ACTIVE"}]},
        BASE: {
            "id": "t-1-1",
            "name": "t",
            "window": "600",
            "uptimeSeconds": 119_141,
            "workersTotal": len(ports),
            "spouts": [{"spoutId": "in", "executors": len(spout)}],
            "bolts": [{"boltId": "out", "executors": len(bolt)}],
            **topology,
        },
        f"{BASE}/component/in": {"id": "in", "topologyId": "t-1-1", "executorStats": spout},
        f"{BASE}/component/out": {
            "id": "out",
            "topologyId": "t-1-1",
            "executorStats": bolt,
            "inputStats": [{"component": "in", "stream": "default", "executed": count}],
        },
    }


def warned(made: Imported, text: str) -> bool:
    return any(text in warning for warning in made.ledger.warnings)


def broken(instance: Instance) -> list[str]:
    """Return what `check` says that the current placement breaks."""
    return [problem.reason for problem in suspicions(instance) if "breaks" in problem.reason]


# -- since when counts count -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("4m 0s", 240), ("1h 21m 20s", 4880), ("2d 1h 0m 3s", 176_403), ("7s", 7), ("0s", 0)],
        *[("12", 12), (12.5, 12.5), ("", None), ("soon", None), (-3, None), (None, None)],
        *[("10 minutes 0 seconds", 600), ("1 day, 2 hrs", 93_600), ("4 min", 240), ("1d", 86_400)],
        *[("00:10:00", 600), ("0:04:00", 240), ("1d 2:03:04", 93_784), ("49:05:01", 176_701)],
        *[("10:00", None), ("-0:10:00", None), ("5 parsecs", None)],
    ],
)
def test_spans_of_time(text: Any, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "age",
    [
        *[{"uptimeSeconds": 4880}, {"uptimeSeconds": "4880"}, {"uptime": "1h 21m 20s"}],
        *[{"uptime": "1 hour 21 minutes 20 seconds"}, {"uptime": "01:21:20"}, {"uptime": 4880}],
        {"uptimeSeconds": -1, "uptime": "1h 21m 20s"},
    ],
)
def test_executors_count_since_they_started(saved: Callable[..., str], age: Any) -> None:
    """The topology runs for 119,141 s, its executors for 4,880 s: 507,100 tuples are 103.9/s."""
    documents = pages(
        [executor(1, transferred=507_100, **age)],
        [executor(2, executed=507_100, **age)],
        507_100,
        window=":all-time",
    )
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.total_traffic == pytest.approx(507_100 / 4880)


@pytest.mark.parametrize("uptime", [{}, {"uptime": "a while"}])
def test_an_uptime_that_is_not_understood_is_warned_of(
    saved: Callable[..., str], uptime: dict[str, Any]
) -> None:
    documents = pages(
        [executor(1, transferred=600, uptimeSeconds=600)],
        [executor(2, executed=600, **uptime)],
        600,
    )
    made = import_instance("storm", [saved(documents)])
    told = (
        f"t: 1 of 2 executors report no uptime that is understood ([2-2]: {uptime.get('uptime')!r})"
    )
    assert warned(made, told)
    documents[f"{BASE}/component/out"]["executorStats"][0]["uptime"] = "10 minutes"
    assert not warned(import_instance("storm", [saved(documents)]), "no uptime")


def restarted(seconds: float, count: int) -> dict[str, Any]:
    """Two equal bolts execute 50 tuples/s; one was restarted so many seconds ago."""
    return pages(
        [executor(1, transferred=60_000, uptimeSeconds=9000)],
        [
            executor(2, executed=30_000, uptimeSeconds=9000, executeLatency="4"),
            executor(3, "s2", executed=count, uptimeSeconds=seconds, executeLatency="4"),
        ],
        30_000 + count,
    )


@pytest.mark.parametrize(("seconds", "count"), [(60, 3000), (300, 15_000), (0, 0), (20, 0)])
def test_a_restarted_executor_is_as_fast_as_its_equal(
    saved: Callable[..., str], seconds: float, count: int
) -> None:
    made = import_instance("storm", [saved(restarted(seconds, count))])
    assert f"counts of t are those of {seconds} s to 600 s" in " ".join(made.ledger.readings)
    assert pairs_of(made.instance) == pytest.approx(
        {("in[1-1]", "out[2-2]"): 50.0, ("in[1-1]", "out[3-3]"): 50.0}
    )
    assert warned(made, f"t has 1 executors that run for {seconds} s") == (seconds < 60)


def test_busy_is_by_the_executors_own_time(saved: Callable[..., str]) -> None:
    instance = import_instance("storm", [saved(restarted(60, 3000))]).instance
    assert instance.tasks.load[1:, 0].tolist() == pytest.approx([20.0, 20.0])  # 50/s of 4 ms


def test_a_capacity_of_zero_before_the_first_report_is_none(saved: Callable[..., str]) -> None:
    documents = restarted(20, 0)
    for entry, capacity in zip(
        documents[f"{BASE}/component/out"]["executorStats"], ("0.300", "0.000"), strict=True
    ):
        entry["capacity"] = capacity
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.tasks.load[1:, 0].tolist() == pytest.approx([30.0, 30.0])


@pytest.mark.parametrize("count", [-5, "NaN", None])
def test_counts_that_are_none_are_those_of_equals(saved: Callable[..., str], count: Any) -> None:
    documents = restarted(9000, 30_000)
    documents[f"{BASE}/component/out"]["executorStats"][1]["executed"] = count
    found = pairs_of(import_instance("storm", [saved(documents)]).instance)
    assert found == pytest.approx({("in[1-1]", "out[2-2]"): 50.0, ("in[1-1]", "out[3-3]"): 50.0})


def test_an_executor_that_executes_nothing_is_not_its_equal(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 0)
    found = pairs_of(import_instance("storm", [saved(documents)]).instance)
    assert found == pytest.approx({("in[1-1]", "out[2-2]"): 50.0})


def test_pages_of_0_9_tell_the_uptime_as_a_text(saved: Callable[..., str]) -> None:
    documents = pages(
        [executor(1, transferred=2400, uptime="4m 0s")],
        [executor(2, executed=2400, uptime="4m 0s")],
        2400,
        uptime="4m 0s",
    )
    del documents[BASE]["uptimeSeconds"]
    assert import_instance("storm", [saved(documents)]).instance.total_traffic == 10.0
    for entry in (*documents.values(), *documents[f"{BASE}/component/in"]["executorStats"]):
        entry.pop("uptime", None)
    documents[f"{BASE}/component/out"]["executorStats"][0].pop("uptime")
    documents[BASE]["uptime"] = "4m 0s"  # that of the topology is all there is
    assert import_instance("storm", [saved(documents)]).instance.total_traffic == 10.0


def test_the_window_is_that_of_the_page(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 30_000)
    documents[BASE]["window"] = "10800"
    documents[f"{BASE}/component/out"]["window"] = "600"
    assert import_instance("storm", [saved(documents)]).instance.total_traffic == 100.0
    documents[BASE]["window"] = "600"
    documents[f"{BASE}/component/out"]["window"] = ":all-time"
    found = import_instance("storm", [saved(documents)]).instance.total_traffic
    assert found == pytest.approx(60_000 / 9000)


# -- executors of the system -----------------------------------------------------------------------


def with_ackers(**worker: Any) -> dict[str, Any]:
    """Two workers of 384 MB: four executors of 128 MB that pages name, and two ackers."""
    documents = pages(
        [executor(1, transferred=600), executor(2, "s2", transferred=600)],
        [executor(3, executed=600), executor(4, "s2", executed=600)],
        1200,
        executorsTotal=6,
    )
    for part in (*documents[BASE]["spouts"], *documents[BASE]["bolts"]):
        part |= {"requestedMemOnHeap": 128.0, "requestedCpu": 10.0}
    documents[BASE]["workers"] = [
        {"host": host, "port": 6700, "executorsTotal": 3, "assignedMemOnHeap": 384.0}
        | {"assignedCpu": 40.0, **worker}
        for host in ("s1", "s2")
    ]
    for supervisor in documents["supervisor/summary"]["supervisors"]:
        supervisor |= {"totalMem": 600.0, "usedMem": 384.0, "usedCpu": 40.0, "slotsUsed": 1}
    return documents


def all_on(instance: Instance, node: int) -> bool:
    nodes = np.full(instance.num_tasks, node)
    return evaluate(instance, Plan.from_indices(instance, nodes)).feasible


def test_ackers_that_workers_name_are_tasks(saved: Callable[..., str]) -> None:
    documents = with_ackers(componentNumTasks={"__acker": 1, "in": 1, "out": 1, "__system": 1})
    made = import_instance("storm", [saved(documents)], [("cpu", "requested")])
    instance = made.instance
    at = [instance.tasks.index[f"__acker#{i}"] for i in range(2)]
    assert instance.num_tasks == 6
    assert instance.tasks.node[at].tolist() == [0, 1]
    assert instance.tasks.slot[at].tolist() == [0, 0]
    assert instance.tasks.load[at].tolist() == [[20.0, 128.0]] * 2  # the rest of 40 % and 384 MB
    assert any("2 system executors (__acker) are tasks" in text for text in made.ledger.readings)
    assert not instance.nodes.background.any()
    assert not all_on(instance, 0)  # 768 of 600 MB


@pytest.mark.parametrize("told", ["workers", "executors"])
def test_ackers_that_nothing_names_are_background(saved: Callable[..., str], told: str) -> None:
    documents = with_ackers()
    if told == "executors":
        del documents[BASE]["workers"]
    made = import_instance("storm", [saved(documents)])
    instance = made.instance
    assert instance.num_tasks == 4
    assert instance.nodes.background[:, 1].tolist() == [128.0, 128.0]
    cpu = 20.0 if told == "workers" else 10.0  # what is left of the workers', or Storm's default
    assert instance.nodes.background[:, 0].tolist() == [cpu, cpu]
    assert warned(made, f"t: 2 system executors (ackers and the like) are on no page: {cpu:g} %")
    assert not all_on(instance, 0)  # 512 + 128 of 600 MB


def test_ackers_of_a_page_with_system_components(saved: Callable[..., str]) -> None:
    documents = with_ackers()
    acker = {"boltId": "__acker", "executors": 2, "requestedMemOnHeap": 128.0}
    documents[BASE]["bolts"] += [acker, {"boltId": "__system", "executors": 2}]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.has_current  # without its page: reserved, no task of unknown place
    assert made.instance.nodes.background[:, 1].tolist() == [128.0, 128.0]
    documents[f"{BASE}/component/__acker"] = {
        "id": "__acker",
        "topologyId": "t-1-1",
        "executorStats": [
            executor(5, capacity="0.02", executed=600), executor(6, "s2", capacity="0.04"),
        ],
        "inputStats": [{"component": "in", "stream": "__ack_init", "executed": 600}],
    }  # fmt: skip
    made = import_instance("storm", [saved(documents)])
    assert made.instance.num_tasks == 6
    acker_at = made.instance.tasks.index["__acker[6-6]"]
    assert made.instance.tasks.load[acker_at].tolist() == [4.0, 128.0]
    assert not warned(made, "system executors")


def test_ackers_of_an_address(serve: Callable[..., str]) -> None:
    documents = with_ackers()
    plain = documents[BASE]
    acker = {"boltId": "__acker", "executors": 2, "requestedMemOnHeap": 128.0}
    whole = {**plain, "bolts": [*plain["bolts"], acker, {"boltId": "__system", "executors": 2}]}
    documents[BASE] = lambda headers: whole if "sys=1" in headers["X-Path"] else plain
    documents[f"{BASE}/component/__acker"] = {
        "id": "__acker",
        "topologyId": "t-1-1",
        "executorStats": [executor(5, capacity="0.02"), executor(6, "s2", capacity="0.04")],
    }
    made = import_instance("storm", [serve(documents, "api/v1")])
    assert made.instance.num_tasks == 6
    assert "__acker[6-6]" in made.instance.tasks.index
    documents[f"{BASE}/component/__acker"] = (500, {}, b"")
    made = import_instance("storm", [serve(documents, "api/v1")])
    assert made.instance.num_tasks == 4
    assert made.instance.nodes.background[:, 1].tolist() == [128.0, 128.0]
    assert warned(made, "answers 500")


def test_ackers_whose_page_tells_no_needs(saved: Callable[..., str]) -> None:
    """They have what their workers are assigned beyond the others; else what Storm takes."""
    documents = with_ackers()
    documents[BASE]["bolts"].append({"boltId": "__acker", "executors": 2})
    documents[f"{BASE}/component/__acker"] = {
        "id": "__acker", "topologyId": "t-1-1", "executorStats": [executor(5), executor(6, "s2")]
    }  # fmt: skip
    instance = import_instance("storm", [saved(documents)]).instance
    at = [instance.tasks.index[f"__acker[{i}-{i}]"] for i in (5, 6)]
    assert instance.tasks.load[at].tolist() == [[20.0, 128.0]] * 2  # the rest of 40 % and 384 MB
    assert not all_on(instance, 0)
    del documents[BASE]["workers"]
    instance = import_instance("storm", [saved(documents)]).instance
    assert instance.tasks.load[at].tolist() == [[10.0, 128.0]] * 2


def test_memory_of_workers_where_nothing_is_requested(saved: Callable[..., str]) -> None:
    documents = with_ackers()
    for part in (*documents[BASE]["spouts"], *documents[BASE]["bolts"]):
        del part["requestedMemOnHeap"]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.tasks.load[:, 1].tolist() == [128.0] * 4
    assert made.instance.nodes.background[:, 1].tolist() == [128.0, 128.0]


def test_memory_of_other_topologies_is_background(saved: Callable[..., str]) -> None:
    documents = with_ackers(executorsTotal=2, assignedMemOnHeap=256.0)
    documents[BASE]["executorsTotal"] = 4
    documents["supervisor/summary"]["supervisors"][1]["usedMem"] = 500.0
    made = import_instance("storm", [saved(documents)])
    assert made.instance.nodes.background[:, 1].tolist() == [128.0, 244.0]


# -- slots and workers -----------------------------------------------------------------------------


def second_of(documents: dict[str, Any]) -> dict[str, Any]:
    """Return the pages of a topology ``u`` in the same slots."""
    found = {}
    for name, page in documents.items():
        if name.startswith(BASE):
            copy = {**page}
            copy |= {"name": "u", "id": "u-1-1"} if name == BASE else {"topologyId": "u-1-1"}
            found[name.replace("t-1-1", "u-1-1")] = copy
    return found


def test_two_topologies_in_one_slot(saved: Callable[..., str], tmp_path: Path) -> None:
    documents = restarted(9000, 30_000)
    made = import_instance("storm", [saved(documents | second_of(documents))])
    assert warned(made, "s1:6700 holds executors of t, u: a slot serves one topology")
    assert [text.partition(":")[0] for text in broken(made.instance)] == [
        "the current placement breaks one_topology_a_slot"
    ] * 2
    made.instance.save(tmp_path / "two.json")
    done = run_command(["check", "two.json"], tmp_path, {})
    assert "the current placement breaks one_topology_a_slot" in done.stdout
    assert done.stdout.endswith(
        "valid, but the current placement violates a rule (solve repairs it)\n"
    )
    assert done.returncode == ExitCode.NO_PLAN
    done = run_command(["check", "two.json", "--json", "--ignore", "slots"], tmp_path, {})
    assert (json.loads(done.stdout)["current_feasible"], done.returncode) == (True, 0)
    done = run_command(["check", "two.json", "--json"], tmp_path, {})
    assert (json.loads(done.stdout)["current_feasible"], done.returncode) == (False, 4)
    alone = import_instance("storm", [saved(documents, "alone")])
    assert not broken(alone.instance)


@pytest.mark.parametrize("told", [1, 4, "3"])
def test_a_stale_number_of_workers(saved: Callable[..., str], told: Any) -> None:
    documents = restarted(9000, 30_000)
    documents[BASE]["workersTotal"] = told
    made = import_instance("storm", [saved(documents)])
    assert made.instance.topologies.workers.tolist() == [2]
    assert warned(made, f"t: workersTotal is {told}, its executors are in 2 slots")
    assert not broken(made.instance)


def test_more_workers_than_executors_is_not_stale(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 30_000)
    documents[f"{BASE}/component/out"]["executorStats"][0]["port"] = 6701
    documents[BASE]["workersTotal"] = 7  # three executors are in three slots: as many as can be
    made = import_instance("storm", [saved(documents)])
    assert made.instance.topologies.workers.tolist() == [7]
    assert not warned(made, "workersTotal")


def test_a_worker_of_executors_that_no_page_names_is_not_missing(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 30_000)
    documents[BASE] |= {"workersTotal": 3, "executorsTotal": 4}  # an acker alone in the third
    made = import_instance("storm", [saved(documents)])
    assert made.instance.topologies.workers.tolist() == [3]
    assert not warned(made, "workersTotal")


# -- pages that fail, and addresses ----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        *[(500, {}, b"oops"), (200, {}, b"<html>"), (404, {}, b""), (200, {}, b"[]")],
        *[(200, {}, b'{"error": "x"}'), (200, {}, b'{"out": {":inputs": [{":stream": "s"}]}}')],
    ],
)
def test_a_visualization_that_fails(serve: Callable[..., str], answer: Any) -> None:
    documents = restarted(9000, 30_000) | {f"{BASE}/visualization": answer}
    made = import_instance("storm", [serve(documents, "api/v1")])
    assert made.instance.total_traffic == pytest.approx(100.0)
    assert warned(made, "visualization") == (answer[0] != 404)


def test_a_bolt_that_nothing_feeds_is_told(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 30_000)
    del documents[f"{BASE}/component/out"]["inputStats"]
    made = import_instance("storm", [saved(documents)])
    assert made.instance.total_traffic == 0
    assert warned(made, "no page says what out reads")


@pytest.mark.parametrize(
    "end",
    [
        *["", "/", "/index.html", "/index.html#/x", "/ui.html", "/#/overview", "/api/v1"],
        *["/api/v1/", "/topology.html?id=t-1-1", "/api/v1/topology/summary", "?doAsUser=me"],
        *["/index.html;jsessionid=1F?x=1", "/;jsessionid=1F", "/topology.html;v=1?id=t-1-1#x"],
    ],
)
def test_addresses_that_a_browser_shows(serve: Callable[..., str], end: str) -> None:
    address = serve(restarted(9000, 30_000), "api/v1")
    assert import_instance("storm", [address + end]).instance.total_traffic == pytest.approx(100.0)


def test_a_topology_that_is_not_active_is_told(saved: Callable[..., str]) -> None:
    documents = restarted(9000, 30_000)
    documents[BASE]["status"] = "REBALANCING"
    made = import_instance("storm", [saved(documents)], [("topology", "t")])
    assert warned(made, "t is REBALANCING: its figures may be of the past")


# -- random executors, against the rates that they were made with ----------------------------------


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(1, 50_000)), min_size=1, max_size=5),
    st.sampled_from(["600", 600, "10800", ":all-time"]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_rates_are_those_of_the_executors(
    bolts: list[tuple[int, int]], window: Any, text: bool, partly: bool
) -> None:
    """Each executor executes so many tuples/s since so many seconds ago."""
    spans = [age if window == ":all-time" else min(age, int(window)) for _, age in bolts]
    entries = []
    for k, ((rate, age), span) in enumerate(zip(bolts, spans, strict=True)):
        told = {"uptime": f"{age // 60}m {age % 60}s"} if text else {"uptimeSeconds": str(age)}
        entries.append(executor(k + 2, executed=rate * span, executeLatency="1", **told))
    count = sum(rate * span for (rate, _), span in zip(bolts, spans, strict=True))
    documents = pages([executor(1, uptimeSeconds=50_000)], entries, count, window=window)
    if partly:  # two streams of one sender
        entry = documents[f"{BASE}/component/out"]["inputStats"][0]
        documents[f"{BASE}/component/out"]["inputStats"].append({**entry, "stream": "s"})
    with tempfile.TemporaryDirectory() as folder:
        for name, value in documents.items():
            path = Path(folder) / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        instance = import_instance("storm", [folder]).instance
    times = 2 if partly else 1
    assert pairs_of(instance) == pytest.approx(
        {("in[1-1]", f"out[{k + 2}-{k + 2}]"): times * rate for k, (rate, _) in enumerate(bolts)}
    )
    assert instance.tasks.load[1:, 0].tolist() == pytest.approx([rate / 10 for rate, _ in bolts])


def supervisor(documents: dict[str, Any], **more: Any) -> None:
    documents["supervisor/summary"]["supervisors"][1] |= more


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: supervisor(d, blacklisted=True), "s2 is blacklisted: Storm gives it no workers"),
        (
            lambda d: supervisor(d, totalMem="NaN"),
            "s2 reports no totalMem: its memory is unbounded",
        ),
        (
            lambda d: d[f"{BASE}/component/out"]["executorStats"][0].update(host=None, port=None),
            r"out\[2-2\] has no worker now",
        ),
        (
            lambda d: d[f"{BASE}/component/out"]["executorStats"][0].update(capacity="35.000"),
            r"busy at most all the time, and capacity is out\[2-2\] 35",
        ),
        (
            lambda d: d[f"{BASE}/component/out"]["inputStats"][0].update(executed=0),
            "nothing flows: loads and rates are those of standing still",
        ),
    ],
)
def test_what_changes_the_answer_is_used_or_warned_of(
    change: Callable[[dict[str, Any]], Any], told: str, saved: Callable[..., str]
) -> None:
    bolt = executor(2, "s2", executed=600, capacity="0.500")
    documents = pages([executor(1)], [bolt], 600)
    documents[BASE]["bolts"][0]["requestedMemOnHeap"] = 128.0
    before = import_instance("storm", [saved(documents)])
    change(documents)
    made = import_instance("storm", [saved(documents)])
    (said,) = set(made.ledger.warnings) - set(before.ledger.warnings)
    assert re.search(told, said)
    assert made.instance.nodes.leaving.tolist() == [False, "blacklisted" in told]


@pytest.mark.parametrize("count", ["—", None, "NaN", -1])
def test_an_input_that_is_not_known_is_not_zero(count: Any, saved: Callable[..., str]) -> None:
    documents = pages([executor(1, transferred=6000)], [executor(2, "s2", executed=6000)], 6000)
    reads = [{":component": "in", ":stream": "default", ":grouping": "shuffle"}]
    documents[f"{BASE}/visualization"] = {"in": {":inputs": []}, "out": {":inputs": reads}}
    documents[f"{BASE}/component/out"]["inputStats"][0]["executed"] = count
    made = import_instance("storm", [saved(documents)])
    assert made.instance.streams[0].rate == pytest.approx(10.0)
    assert any("what its sender transferred" in text for text in made.ledger.readings)
    del documents[f"{BASE}/visualization"]
    made = import_instance("storm", [saved(documents, "other")])
    assert any("no page says what out reads" in text for text in made.ledger.warnings)
