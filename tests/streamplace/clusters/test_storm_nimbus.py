"""Storm by its Nimbus: readings of executors, plans carried out, verified and reverted."""

from __future__ import annotations

import copy
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from optim import Instance
from optim.errors import InvalidInput
from streamplace.cli.main import main
from streamplace.cli.schema import schema
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.storm.nimbus import Nimbus
from streamplace.clusters.storm.submit import (
    check,
    load_placement,
    previous,
    read_placement,
    submit,
)
from streamplace.clusters.storm.verify import verify
from tests.streamplace.clusters.nimbus import ALL, COMPONENTS, Fake, Served

QUICK = [("interval", "0.01")]


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def url(fake: Fake) -> Iterator[str]:
    with Served(fake) as address:
        yield address


def imported(url: str, *options: tuple[str, str]) -> Instance:
    return import_instance("storm", [url], [*QUICK, *options]).instance


def test_every_executor_and_stream_with_its_rate(url: str) -> None:
    instance = imported(url)
    document = instance.to_dict()
    assert [task["id"] for task in document["tasks"]] == [
        "__acker[1-1]", "count[2-2]", "count[3-3]", "lines[4-4]", "split[5-5]", "split[6-6]",
    ]  # fmt: skip
    roles = {one["id"]: one.get("role", "operator") for one in document["operators"]}
    assert roles == {"__acker": "system", "count": "operator", "lines": "source",
                     "split": "operator"}  # fmt: skip
    rates = {(s["from"], s["to"]): s["rate"] for s in document["streams"]}
    assert rates == pytest.approx({
        ("lines", "split"): 100.0, ("split", "count"): 300.0, ("lines", "__acker"): 100.0,
        ("split", "__acker"): 100.0, ("count", "__acker"): 300.0, ("__acker", "lines"): 100.0,
    })  # fmt: skip
    # keys are skewed as measured, shuffle is even
    pairs = {(a, b): rate for a, b, rate in document["traffic"]}
    assert pairs["split[5-5]", "count[2-2]"] == pytest.approx(120.0)
    assert pairs["split[5-5]", "count[3-3]"] == pytest.approx(30.0)
    assert not any(a.startswith("lines") and b.startswith("split") for a, b in pairs)
    # busy: 240 tuples/s of 1 ms
    loads = {task["id"]: task["load"]["cpu"] for task in document["tasks"]}
    assert loads["count[2-2]"] == pytest.approx(24.0)
    assert loads["lines[4-4]"] == 10.0


def test_acks_go_to_the_spouts_that_sent(fake: Fake, url: str) -> None:
    fake.components["7-7"] = "lines"
    fake.at["7-7"] = ("h1", 6700)
    pairs = {(a, b): rate for a, b, rate in imported(url).to_dict()["traffic"]}
    assert pairs["__acker[1-1]", "lines[4-4]"] == pytest.approx(25.0)
    assert pairs["__acker[1-1]", "lines[7-7]"] == pytest.approx(75.0)


def test_rates_are_those_between_two_readings(fake: Fake, url: str) -> None:
    fake.started["2-2"] = -10_000  # counts of hours do not matter
    first = imported(url)
    again = import_instance("storm", [url]).instance  # until all have reported
    for instance in (first, again):
        rates = {(s["from"], s["to"]): s["rate"] for s in instance.to_dict()["streams"]}
        assert rates["split", "count"] == pytest.approx(300.0)


def test_without_a_new_report_rates_are_those_since_the_start(fake: Fake, url: str) -> None:
    fake.frozen = True
    done = import_instance("storm", [url], QUICK)
    rates = {(s["from"], s["to"]): s["rate"] for s in done.instance.to_dict()["streams"]}
    assert rates["split", "count"] == pytest.approx(300.0)
    assert any("did not report within" in text for text in done.ledger.readings)
    once = import_instance("storm", [url], [("interval", "0")])
    assert not any("did not report" in text for text in once.ledger.readings)


def executor_of(told: Any, name: str) -> Any:
    return next(e for e in told.executors if f"{e.executor_info.task_start}" == name)


def counts_of(told: Any) -> Any:
    return executor_of(told, "2").stats


def bolt_of(told: Any) -> Any:
    return counts_of(told).specific.bolt


def by_stream(counts: dict[Any, Any], value: float) -> dict[str, Any]:
    return {ALL: dict.fromkeys(counts[ALL], value)}


@pytest.mark.parametrize(
    ("change", "load", "rate"),
    [
        (lambda t: setattr(executor_of(t, "2"), "uptime_secs", 0), 6.0, 120.0),
        (lambda t: setattr(executor_of(t, "2"), "uptime_secs", -7), 6.0, 120.0),
        (lambda t: setattr(executor_of(t, "2"), "uptime_secs", None), 6.0, 120.0),
        (lambda t: setattr(executor_of(t, "2"), "stats", None), 6.0, 120.0),
        (lambda t: setattr(counts_of(t), "specific", None), 6.0, 120.0),
        (lambda t: setattr(counts_of(t), "transferred", None), 6.0, 120.0),
        (lambda t: setattr(bolt_of(t), "executed", by_stream(bolt_of(t).executed, -1)), 6.0, 120.0),
        (lambda t: setattr(bolt_of(t), "executed", {"600": bolt_of(t).executed[ALL]}), 6.0, 120.0),
        (lambda t: setattr(bolt_of(t), "execute_ms_avg", None), 6.0, 300.0),
        (
            lambda t: setattr(bolt_of(t), "execute_ms_avg", by_stream(bolt_of(t).executed, -1.0)),
            6.0,
            300.0,
        ),
        (
            lambda t: setattr(
                bolt_of(t), "execute_ms_avg", by_stream(bolt_of(t).executed, float("nan"))
            ),
            6.0,
            300.0,
        ),
        (lambda t: setattr(executor_of(t, "2"), "host", ""), 24.0, 300.0),
    ],
)
def test_what_an_executor_does_not_report_is_that_of_its_equals(
    fake: Fake, url: str, change: Any, load: float, rate: float
) -> None:
    """Not 0, and not an exception."""
    fake.change = change
    document = imported(url).to_dict()
    loads = {task["id"]: task["load"]["cpu"] for task in document["tasks"]}
    assert loads["count[2-2]"] == pytest.approx(load)
    rates = {(s["from"], s["to"]): s["rate"] for s in document["streams"]}
    assert rates["split", "count"] == pytest.approx(rate)


def test_an_executor_without_an_uptime_has_not_reported(fake: Fake, url: str) -> None:
    fake.change = lambda told: setattr(executor_of(told, "2"), "uptime_secs", None)
    with Nimbus(url, 5.0) as nimbus:
        assert verify(nimbus, of_workers({"h3:6700": ALL_ON})).planned == 6


def test_acks_follow_what_spouts_send_a_second(fake: Fake, url: str) -> None:
    """One that started between the readings has counted for longer than the others."""
    fake.components["7-7"] = "lines"
    fake.at["7-7"] = ("h1", 6700)
    seen: list[Any] = []

    def without_first(told: Any) -> None:
        if not seen:
            told.executors.remove(executor_of(told, "7"))
        seen.append(told)

    fake.change = without_first
    pairs = {(a, b): rate for a, b, rate in imported(url).to_dict()["traffic"]}
    assert pairs["__acker[1-1]", "lines[4-4]"] == pytest.approx(25.0)


def test_executors_that_are_gone_at_the_second_reading(fake: Fake, url: str) -> None:
    seen: list[Any] = []

    def without_second(told: Any) -> None:
        if seen:
            told.executors.remove(executor_of(told, "2"))
        seen.append(told)

    fake.change = without_second
    done = import_instance("storm", [url], QUICK)
    assert any("[2-2] were there at the first reading" in text for text in done.ledger.warnings)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: setattr(executor_of(t, "2"), "executor_info", None), "without its tasks"),
        (lambda t: setattr(executor_of(t, "2"), "component_id", None), "without its tasks"),
        (lambda t: t.executors.clear(), "words runs nowhere yet"),
    ],
)
def test_executors_that_cannot_be_placed(fake: Fake, url: str, change: Any, reason: str) -> None:
    fake.change = change
    with pytest.raises(InvalidInput, match=reason):
        imported(url)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"num_workers": None}, "slotsTotal is missing"),
        ({"num_workers": -2}, "-2 is not a whole number"),
        ({"host": None}, "host is missing"),
        ({"total_resources": {"cpu.pcore.percent": float("nan"), "memory.mb": -1.0}}, ""),
        ({"used_cpu": float("nan"), "used_mem": -1.0}, ""),
    ],
)
def test_odd_supervisors(fake: Fake, url: str, told: dict[str, Any], reason: str) -> None:
    fake.machine = told
    if reason:
        with pytest.raises(InvalidInput, match=reason):
            imported(url)
    else:
        assert imported(url).num_nodes == 3


@pytest.mark.parametrize(
    "odd",
    [
        {"executor.metrics.frequency.secs": "often"},
        {"topology.component.cpu.pcore.percent": -10.0},
        {"topology.component.resources.onheap.memory.mb": True},
        {"supervisor.slots.ports": [[6700]]},
    ],
)
def test_odd_settings(fake: Fake, url: str, odd: dict[str, Any]) -> None:
    fake.settings, fake.ports = odd, odd.get("supervisor.slots.ports", fake.ports)
    assert imported(url).num_tasks == 6


def test_ports_that_are_texts_are_ports(fake: Fake, url: str) -> None:
    fake.ports = ["6700", "6701", "6701"]  # type: ignore[list-item]
    assert imported(url).nodes.labels[2]["ports"] == "6700,6701"


def test_a_configuration_that_is_no_json(
    fake: Fake, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "getTopologyConf", lambda identity: "{", raising=False)
    with pytest.raises(InvalidInput, match=r"configuration of words-1-17: '{' is no JSON"):
        imported(url)


def test_ports_of_idle_slots(fake: Fake, url: str) -> None:
    labels = {n["id"]: n["labels"]["ports"] for n in imported(url).to_dict()["nodes"]}
    assert labels == {"h1": "6700,6701", "h2": "6700,6701", "h3": "6700,6701"}
    fake.ports = [6800, 6801]  # Nimbus' own file is not that of its supervisors
    labels = {n["id"]: n["labels"]["ports"] for n in imported(url).to_dict()["nodes"]}
    assert labels == {"h1": "6700,+1", "h2": "6700,6701", "h3": "+1,+2"}


def test_a_topology_that_is_not_there(url: str) -> None:
    with pytest.raises(InvalidInput, match=r"nimbus://\S+ has no topology 'x' \(there is words"):
        imported(url, ("topology", "x"))


def test_blacklisted_hosts_are_leaving(fake: Fake, url: str) -> None:
    fake.shut = fake.hosts[:1]
    nodes = imported(url).nodes
    assert [nodes.ids[n] for n in nodes.leaving.nonzero()[0]] == list(fake.hosts[:1])


def test_nodes_may_be_supervisors(url: str) -> None:
    instance = imported(url, ("node", "supervisor"))
    assert instance.nodes.ids == ("id-h1", "id-h2", "id-h3")
    assert (instance.tasks.node >= 0).all()


def test_shuffle_that_follows_the_placement_is_told(fake: Fake, url: str) -> None:
    fake.settings["topology.disable.loadaware.messaging"] = False
    done = import_instance("storm", [url], QUICK)
    assert any("shuffle prefers receivers" in text for text in done.ledger.warnings)
    near = [s for s in done.instance.streams if s.pattern == "local_first"]
    assert near and not any(stream.replaced for stream in near)
    fake.settings["topology.disable.loadaware.messaging"] = True
    done = import_instance("storm", [url], QUICK)
    assert not any("shuffle prefers" in text for text in done.ledger.warnings)
    assert all(stream.pattern == "full" for stream in done.instance.streams)


def test_a_sample_is_told(fake: Fake, url: str) -> None:
    fake.settings["topology.stats.sample.rate"] = 0.05
    done = import_instance("storm", [url], QUICK)
    assert any("steps of 20" in text for text in done.ledger.readings)


# -- plans carried out -----------------------------------------------------------------------------


def test_shares_of_few_tuples_are_chance(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 tuples/s by two executors: 1,500 each in 10 s, 2,000 in 13.3 s."""
    monkeypatch.setattr("streamplace.clusters.storm.nimbus.ENOUGH", 2000)
    # longer than the second reading takes on a busy machine, so that a third is the last
    told = import_instance("storm", [url], [("interval", "0.5")]).ledger.warnings
    assert any("count counted 1500 tuples in 10 s" in one and "interval=14 " in one for one in told)
    told = import_instance("storm", [url], [("interval", "0")]).ledger.warnings  # of 115 s and more
    assert not any(" counted " in one for one in told)


def exported(url: str, folder: Path) -> str:
    """Export the plan that puts all into two workers of h2 and one of h3."""
    instance = imported(url)
    node = [1, 1, 1, 2, 2, 1]
    slot = [0, 1, 0, 1, 1, 0]
    from optim.format.plan import Plan

    plan = Plan.from_indices(instance, node, slot)
    done = export_plan("storm", instance, plan)
    target = folder / "placement.json"
    done.save(target)
    return str(target)


def test_the_exported_placement(url: str, tmp_path: Path) -> None:
    value = json.loads(Path(exported(url, tmp_path)).read_text())
    assert value["topologies"] == {
        "words": {
            "workers": {
                "h2:6700": ["1-1", "3-3", "6-6"], "h2:6701": ["2-2"], "h3:6701": ["4-4", "5-5"],
            },
            "components": {
                "__acker": ["1-1"], "count": ["2-2", "3-3"], "lines": ["4-4"],
                "split": ["5-5", "6-6"],
            },
        }
    }  # fmt: skip
    # of 1000 tuples/s: lines → split[6-6] 50; split[5-5] → count 150; lines ↔ acker 200,
    # split[5-5] → acker 50
    assert value["remote_share"] == pytest.approx(450 / 1000)


def test_submitted_verified_and_reverted(fake: Fake, url: str, tmp_path: Path) -> None:
    before = dict(fake.at)
    placement = load_placement(exported(url, tmp_path))
    with Nimbus(url, 5.0) as nimbus:
        now = verify(nimbus, placement)
        assert (now.planned, now.holds) == (6, False)
        done = submit(nimbus, placement, wait=5.0, sleep=lambda seconds: None)
        assert done.holds and verify(nimbus, placement).as_planned == 6
        options = fake.rebalances[0]
        assert (options.wait_secs, options.num_workers) == (0, 3)
        assert fake.stored()["streamplace.placement"] == placement.topologies["words"].workers
        back = submit(nimbus, previous(nimbus, "words"), wait=5.0, sleep=lambda seconds: None)
        assert back.holds and fake.at == before


def test_no_way_back_to_executors_that_are_gone(fake: Fake, url: str, tmp_path: Path) -> None:
    placement = load_placement(exported(url, tmp_path))
    with Nimbus(url, 5.0) as nimbus:
        submit(nimbus, placement, wait=5.0, sleep=lambda seconds: None)
        for name in ("5-5", "6-6"):
            del fake.components[name]
        with pytest.raises(InvalidInput, match="had other executors before: 5-5, 6-6 ran"):
            previous(nimbus, "words")


def test_any_free_port(fake: Fake, url: str) -> None:
    workers = {"h3:+1": ["1-1", "2-2"], "h3:+2": ["3-3"], "h1:6700": ["4-4", "5-5", "6-6"]}
    placement = of_workers(workers)
    with Nimbus(url, 5.0) as nimbus:
        assert submit(nimbus, placement, wait=5.0, sleep=lambda seconds: None).holds
        fake.at["2-2"] = fake.at["3-3"]
        wrong = verify(nimbus, placement).differences
        assert [(one.executor, one.running) for one in wrong] == [("2-2", "h3:6802")]


def of_workers(workers: dict[str, list[str]]) -> Any:
    components: dict[str, list[str]] = {}
    for name, component in COMPONENTS.items():
        components.setdefault(component, []).append(name)
    return read_placement(
        {
            "format": "streamplace.storm/1",
            "topologies": {"words": {"workers": workers, "components": components}},
        }
    )


ALL_ON = ["1-1", "2-2", "3-3", "4-4", "5-5", "6-6"]


@pytest.mark.parametrize(
    ("change", "workers", "reason"),
    [
        ({"scheduler": "org.apache.storm.DefaultScheduler"}, {"h1:6700": ALL_ON}, "reads no place"),
        ({}, {"h9:6700": ALL_ON}, "on no node that Nimbus knows"),
        ({"others": {("h1", 6701): "mine"}}, {"h1:6701": ALL_ON}, "serves topology mine"),
        (
            {"others": {("h3", 6700): "mine", ("h3", 6701): "mine"}},
            {"h3:+1": ALL_ON},
            "slots are free",
        ),
        ({"status": "REBALANCING"}, {"h1:6700": ALL_ON}, "is REBALANCING"),
        ({"status": "KILLED"}, {"h1:6700": ALL_ON}, "is KILLED"),
    ],
)
def test_what_does_not_fit_is_refused(
    fake: Fake, url: str, change: dict[str, Any], workers: dict[str, list[str]], reason: str
) -> None:
    for name, value in change.items():
        setattr(fake, name, value)
    with Nimbus(url, 5.0) as nimbus:
        for act in (check, submit):
            with pytest.raises(InvalidInput, match=reason):
                act(nimbus, of_workers(workers))
    assert not fake.rebalances


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_topology_that_is_moved_is_not_imported(fake: Fake, url: str, when: str) -> None:
    """It counts nothing for a part of the time."""
    if when == "before":
        fake.status = "REBALANCING"
    else:
        fake.change = lambda _: setattr(fake, "status", "REBALANCING")
    with pytest.raises(InvalidInput, match=r"words is REBALANCING .*wait until that has ended"):
        imported(url, ("topology", "words"))


def test_an_answer_that_takes_too_long(
    fake: Fake, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = fake.getClusterInfo
    monkeypatch.setattr(fake, "getClusterInfo", lambda: (time.sleep(0.5), at_once())[1])
    with (
        Nimbus(url, 0.1) as nimbus,
        pytest.raises(InvalidInput, match="does not answer getClusterInfo in time"),
    ):
        nimbus.cluster()


def test_another_topology_than_planned(fake: Fake, url: str) -> None:
    placement = of_workers({"h1:6700": ALL_ON})
    fake.components = {**COMPONENTS, "7-7": "count"}
    fake.at["7-7"] = ("h1", 6700)
    fake._counted = lambda name, age: None  # type: ignore[method-assign, assignment]
    with Nimbus(url, 5.0) as nimbus, pytest.raises(InvalidInput, match="has 7 executors"):
        verify(nimbus, placement)


@pytest.mark.parametrize("at", [0, 6])
def test_an_executor_at_two_places_is_not_judged(fake: Fake, url: str, at: int) -> None:
    """Whichever of both is reported first."""

    def twice(told: Any) -> None:
        other = copy.copy(told.executors[0])
        other.host = "h3"
        told.executors.insert(at, other)

    workers: dict[str, list[str]] = {}
    for name, (host, port) in fake.at.items():
        workers.setdefault(f"{host}:{port}", []).append(name)
    with Nimbus(url, 5.0) as nimbus:
        assert verify(nimbus, of_workers(workers)).holds
        fake.change = twice
        with pytest.raises(InvalidInput, match="at two places: 1-1"):
            verify(nimbus, of_workers(workers))


def test_what_is_not_carried_out_in_time_is_told(fake: Fake, url: str) -> None:
    fake.carries_out = False
    with Nimbus(url, 5.0) as nimbus:
        verdict = submit(nimbus, of_workers({"h3:6700": ALL_ON}))
    assert (verdict.planned, verdict.as_planned) == (6, 0)


@pytest.mark.parametrize("age", [None, 3])
def test_the_report_of_the_worker_before_is_none_of_the_new_one(
    fake: Fake, url: str, age: int | None
) -> None:
    fake.has_reported = False
    if age is not None:  # it started just before
        fake.frozen = True
        fake.started = dict.fromkeys(COMPONENTS, fake.clock - age)
    with Nimbus(url, 5.0) as nimbus:
        verdict = submit(nimbus, of_workers({"h3:6700": ALL_ON}))
    assert verdict.as_planned == 0
    assert {one.running for one in verdict.differences} == {None}


@pytest.mark.parametrize("first_report_after", [None, 8])
def test_a_worker_that_was_never_ended_counts_once_no_old_one_can_report(
    fake: Fake, url: str, monkeypatch: pytest.MonkeyPatch, first_report_after: int | None
) -> None:
    """The placement before the last, submitted again before its workers had ended, or reported."""
    fake.has_reported = False
    if first_report_after is not None:
        fake.started = dict.fromkeys(COMPONENTS, fake.clock + first_report_after)
    monkeypatch.setattr("streamplace.clusters.storm.submit._OLD_WORKERS", 0.0)
    with Nimbus(url, 5.0) as nimbus:
        assert submit(nimbus, of_workers({"h3:6700": ALL_ON}), wait=0.1).holds


def test_a_worker_restarts_whole(fake: Fake, url: str) -> None:
    fake.has_reported = False
    workers = {"h1:6700": ["1-1", "4-4"], "h2:6700": ["2-2"], "h2:6701": ["3-3", "5-5", "6-6"]}
    with Nimbus(url, 5.0) as nimbus:
        verdict = submit(nimbus, of_workers(workers))
    assert verdict.as_planned == 2  # those of h1


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, "format"),
        ({"format": "streamplace.storm/1"}, "topologies"),
        ({"format": "streamplace.storm/1", "topologies": {"t": {"workers": {}}}}, "workers"),
        (
            {
                "format": "streamplace.storm/1",
                "topologies": {
                    "t": {"workers": {"h1": ["1-1"]}, "components": {"a": ["1-1"]}},
                },
            },
            "NODE:PORT",
        ),
        (
            {
                "format": "streamplace.storm/1",
                "topologies": {
                    "t": {"workers": {"h1:1": ["1-1", "1-1"]}, "components": {"a": ["1-1"]}},
                },
            },
            "stands twice",
        ),
        (
            {
                "format": "streamplace.storm/1",
                "topologies": {
                    "t": {"workers": {"h1:1": ["1-1"]}, "components": {"a": ["2-2"]}},
                },
            },
            "only one of workers and components",
        ),
        (
            {
                "format": "streamplace.storm/1",
                "remote_share": 2,
                "topologies": {
                    "t": {"workers": {"h1:1": ["1-1"]}, "components": {"a": ["1-1"]}},
                },
            },
            "remote_share",
        ),
    ],
)
def test_no_placement(document: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput, match=path):
        read_placement(document)


@pytest.mark.parametrize(
    "address", [f"nimbus://{end}" for end in ("", "h:port", "h:99999", "h:9²")]
)
def test_no_address(address: str) -> None:
    with pytest.raises(InvalidInput, match="is no address of Nimbus"):
        Nimbus(address, 1.0)


def test_nothing_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InvalidInput, match="cannot be reached"):
        Nimbus(f"nimbus://127.0.0.1:{port}", 1.0)


def test_something_else_answers() -> None:
    """A server with SASL closes, or answers what is no frame."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def answer() -> None:
            peer, _ = server.accept()
            peer.recv(100)
            peer.sendall(b"\x05\x00\x00\x00\x0bno such mechanism")
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        with (
            pytest.raises(InvalidInput, match="without SASL"),
            Nimbus(f"nimbus://127.0.0.1:{server.getsockname()[1]}", 2.0) as nimbus,
        ):
            nimbus.cluster()


def test_the_commands(
    fake: Fake, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(url, tmp_path)
    capsys.readouterr()
    assert main(["submit", "storm", url, file, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out == "fits, and was not submitted\n"
    assert said.err == "words: 3 executors of 6 to another node, 3 workers to restart\n"
    assert main(["verify", "storm", url, file]) == 1
    assert "of 6 executors as planned\n" in capsys.readouterr().out
    assert not fake.rebalances
    assert main(["submit", "storm", url, file, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["submitted"] and answer["verdict"]["holds"]
    assert answer["topologies"] == {"words": {"moves": 3, "workers_restarted": 3}}
    assert main(["verify", "storm", url, file]) == 0
    capsys.readouterr()
    fake.at["2-2"] = ("h1", 6700)
    assert main(["verify", "storm", url, file, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["differences"][0]["running"] == "h1:6700"
    jsonschema.validate(told, schema("verify"))
    fake.at["2-2"] = ("h2", 6701)
    assert main(["revert", "storm", url, "words"]) == 0
    assert main(["verify", "storm", url, file]) == 1
    assert main(["revert", "storm", url, "lines"]) == 2
    assert main(["import", "storm", url, str(tmp_path)]) == 2


def test_the_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jar = tmp_path / "plugin.jar"
    assert main(["storm", "plugin", "-o", str(jar)]) == 0
    assert capsys.readouterr().out == 'storm.scheduler: "streamplace.PlanScheduler"\n'
    assert jar.read_bytes()[:2] == b"PK" and jar.stat().st_size <= 30_000
    assert main(["storm", "plugin", "-o", "-"]) == 2
    assert "name a file" in capsys.readouterr().err
