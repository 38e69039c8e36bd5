"""Flink: state, time base and completeness of what is read, in jobs of the smallest size."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optim import Instance, evaluate, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import Imported, export_plan, import_instance
from streamplace.clusters.flink.model import NO_PRICE
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.test_storm import pairs_of

JOB = "ab" * 16
LIFE = 1000.0
"""Seconds that subtasks ran where nothing else is said."""


def manager(name: str, slots: int = 3, cores: float = 4.0, **more: Any) -> dict[str, Any]:
    """Return a task manager of so many slots and cores on the host ``NAME-host``."""
    return {
        "id": name,
        "path": f"pekko.tcp://flink@{name}-host:6122/user/rpc/taskmanager_0",
        "dataPort": 1,
        "slotsNumber": slots,
        "totalResource": {"cpuCores": cores},
        **more,
    }


def subtask(
    at: str,
    busy: float | None = 0.5,
    read: float = 0.0,
    written: float = 0.0,
    state: str | None = "RUNNING",
    seconds: float = LIFE,
    held: float | None = None,
) -> dict[str, Any]:
    """Return a subtask on a task manager: share of time busy and held, MB/s read and written."""
    metrics = {
        "read-bytes": read * 1e6 * seconds,
        "write-bytes": written * 1e6 * seconds,
        "accumulated-busy-time": "NaN" if busy is None else busy * 1000 * seconds,
    }
    if held is not None:
        metrics["accumulated-backpressured-time"] = held * 1000 * seconds
    found = {"taskmanager-id": at, "duration": 1000 * seconds, "metrics": metrics}
    return found if state is None else {**found, "status": state}


def pages(
    managers: list[dict[str, Any]],
    vertices: dict[str, list[dict[str, Any]]],
    edges: list[tuple[str, str, str]],
    **job: Any,
) -> dict[str, Any]:
    """Return the documents of a running job: vertex to subtasks, and (from, to, strategy)."""
    nodes: list[dict[str, Any]] = [{"id": name} for name in vertices]
    for sender, receiver, how in edges:
        node = next(n for n in nodes if n["id"] == receiver)
        node.setdefault("inputs", []).append({"id": sender, "ship_strategy": how})
    found: dict[str, Any] = {
        "taskmanagers": {"taskmanagers": managers},
        f"jobs/{JOB}": {
            "jid": JOB,
            "name": "orders",
            "state": "RUNNING",
            "vertices": [
                {"id": name, "name": name, "parallelism": len(found)}
                for name, found in vertices.items()
            ],
            "plan": {"jid": JOB, "nodes": nodes},
            **job,
        },
    }
    for name, subtasks in vertices.items():
        numbered = [{"subtask": i, **entry} for i, entry in enumerate(subtasks)]
        found[f"jobs/{JOB}/vertices/{name}"] = {"id": name, "subtasks": numbered}
    return found


def warned(made: Imported, text: str) -> bool:
    return any(text in warning for warning in made.ledger.warnings)


def loads(instance: Instance, resource: str = "cpu") -> dict[str, float]:
    r = instance.resources.index(resource)
    return dict(zip(instance.tasks.ids, instance.tasks.load[:, r].tolist(), strict=True))


def rates(instance: Instance) -> dict[tuple[str, str], float]:
    ids = instance.operators.ids
    return {(ids[s.source], ids[s.target]): s.rate for s in instance.streams}


# -- subtasks that ended ---------------------------------------------------------------------------


def with_an_ended_source(state: str) -> dict[str, Any]:
    """Kafka 4 × 1 MB/s; JDBC 2 × ended after 20 s at 50 MB/s; Join reads 4 MB/s."""
    two = ["t1", "t2"]
    return pages(
        [manager("t1", 4), manager("t2", 4)],
        {
            "kafka": [subtask(two[i % 2], 0.3, 0, 1.0) for i in range(4)],
            "jdbc": [subtask(at, 0.95, 0, 50.0, state, 20.0) for at in two],
            "join": [subtask(at, 0.6, 2.0, 0.0) for at in two],
        },
        [("kafka", "join", "HASH"), ("jdbc", "join", "HASH")],
    )


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED", "FAILED"])
def test_what_has_ended_uses_nothing(saved: Callable[..., str], state: str) -> None:
    made = import_instance("flink", [saved(with_an_ended_source(state))])
    cpu, slot = loads(made.instance), loads(made.instance, "slot")
    assert {cpu["jdbc/0"], cpu["jdbc/1"], slot["jdbc/0"], slot["jdbc/1"]} == {0.0}
    assert cpu["kafka/0"] == pytest.approx(0.3)
    # two vertices run in a slot of the group, not three
    assert slot["kafka/0"] == slot["join/0"] == pytest.approx(0.5)
    assert rates(made.instance)["kafka", "join"] == pytest.approx(4.0)
    assert rates(made.instance)["jdbc", "join"] == 0.0
    assert warned(made, f"jdbc: of 2 subtasks 2 {state}: no CPU, slot or traffic")
    assert warned(made, "once the job has recovered") == (state != "FINISHED")
    # the sheet still names every vertex at its parallelism: submit compares them
    plan = solve(made.instance, seed=1).plan
    assert plan is not None
    assert '"operator": "jdbc"' in export_plan("flink", made.instance, plan).texts[""]


def test_a_task_manager_of_ended_subtasks_may_be_gone(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    for entry in documents[f"jobs/{JOB}/vertices/jdbc"]["subtasks"]:
        entry["taskmanager-id"] = "t9"
    made = import_instance("flink", [saved(documents)])
    assert made.instance.has_current
    assert loads(made.instance)["jdbc/0"] == 0.0


def test_a_vertex_that_has_ended_by_the_jobs_page(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    documents[f"jobs/{JOB}"]["vertices"][1]["status"] = "FINISHED"
    page = documents.pop(f"jobs/{JOB}/vertices/jdbc")
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance, "slot")["jdbc/0"] == 0.0
    assert loads(made.instance, "slot")["join/0"] == pytest.approx(0.5)
    assert rates(made.instance)["kafka", "join"] == pytest.approx(4.0)
    assert not warned(made, "no busy time")
    for entry in page["subtasks"]:
        del entry["status"]
    documents[f"jobs/{JOB}/vertices/jdbc"] = page
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance)["jdbc/0"] == 0.0
    vertex = documents[f"jobs/{JOB}"]["vertices"][1]
    vertex.pop("status")
    vertex["tasks"] = {"FINISHED": 2, "RUNNING": 0}  # what the page counts says it, too
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance)["jdbc/0"] == 0.0


def without_pages_of(documents: dict[str, Any], *vertices: str) -> dict[str, Any]:
    return {k: v for k, v in documents.items() if k.rpartition("/vertices/")[2] not in vertices}


def test_metrics_count_where_no_page_lists_the_subtasks(saved: Callable[..., str]) -> None:
    documents = without_pages_of(with_an_ended_source("RUNNING"), "kafka", "join", "jdbc")
    for name, width, told in (("kafka", 4, "Out"), ("jdbc", 2, "Out"), ("join", 2, "In")):
        documents[f"jobs/{JOB}/vertices/{name}/metrics"] = [
            {"id": f"{i}.{metric}", "value": value}
            for i in range(width + 1)  # one is left of before a rescaling
            for metric, value in (
                ("busyTimeMsPerSecond", "300"), (f"numBytes{told}PerSecond", "1000000")
            )
        ]  # fmt: skip
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance)["kafka/3"] == pytest.approx(0.3)
    expected = {("kafka", "join"): 4 / 3, ("jdbc", "join"): 2 / 3}  # 2 MB/s, by what each sends
    assert rates(made.instance) == pytest.approx(expected)
    assert warned(made, "where 4 subtasks of kafka run is not known")


def test_a_stream_of_which_no_page_says_the_rate_is_warned_of(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1")],
        {n: [subtask("t1", 0.3, 1.0, 1.0)] for n in ("a", "b", "c")},
        [("a", "b", "HASH"), ("b", "c", "HASH")],
    )
    made = import_instance("flink", [saved(without_pages_of(documents, "b", "c"))])
    assert rates(made.instance) == pytest.approx({("a", "b"): 1.0, ("b", "c"): 0.0})
    assert warned(made, "what b sends to c is on no page: counted as 0")
    assert not warned(import_instance("flink", [saved(documents)]), "is on no page")


def test_half_of_a_vertex_has_ended(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    kafka = documents[f"jobs/{JOB}/vertices/kafka"]["subtasks"]
    for entry in kafka[2:]:
        entry |= {"status": "FINISHED", "duration": 5000.0}
    for entry in documents[f"jobs/{JOB}/vertices/join"]["subtasks"]:
        entry["metrics"]["read-bytes"] /= 2
    instance = import_instance("flink", [saved(documents)]).instance
    assert [loads(instance)[f"kafka/{i}"] for i in range(4)] == pytest.approx([0.3, 0.3, 0, 0])
    talk = {pair: rate for pair, rate in pairs_of(instance).items() if rate > 0}
    # 2 MB/s from the two that run to both joins
    assert talk == pytest.approx(
        {(f"kafka/{i}", f"join/{j}"): 0.5 for i in range(2) for j in range(2)}
    )


def test_slots_of_ended_subtasks_are_free(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    for entry in documents["taskmanagers"]["taskmanagers"]:
        entry["freeSlots"] = 1  # a slot each: two of kafka and one of join
    made = import_instance("flink", [saved(documents)], [("slots", "single")])
    assert made.instance.nodes.capacity[:, 1].tolist() == [4.0, 4.0]
    assert not warned(made, "that no subtask explains")


@pytest.mark.parametrize(
    "state", ["INITIALIZING", "SCHEDULED", "DEPLOYING", "CREATED", "RECONCILING", "CANCELING"]
)
def test_what_does_not_run_yet_is_refused(saved: Callable[..., str], state: str) -> None:
    documents = with_an_ended_source(state)
    with pytest.raises(InvalidInput, match=f"jdbc/0: '{state}' is not running"):
        import_instance("flink", [saved(documents)])


@pytest.mark.parametrize("state", ["RESTARTING", "RECONCILING", "INITIALIZING", "FAILING"])
def test_a_named_job_between_two_states_is_refused(saved: Callable[..., str], state: str) -> None:
    documents = with_an_ended_source("CANCELED")
    documents[f"jobs/{JOB}"]["state"] = state
    with pytest.raises(InvalidInput, match=f"'{state}' is neither running nor ended"):
        import_instance("flink", [saved(documents)], [("job", "orders")])


def test_a_named_job_that_ended_is_imported_as_it_ran(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    documents[f"jobs/{JOB}"]["state"] = "FINISHED"
    made = import_instance("flink", [saved(documents)], [("job", "orders")])
    assert loads(made.instance)["jdbc/0"] == pytest.approx(0.95)
    assert warned(made, "orders is FINISHED: its loads and rates are means over the time it ran")


def test_no_state_is_running(saved: Callable[..., str]) -> None:
    documents = with_an_ended_source("FINISHED")
    for page in documents.values():
        for entry in page.get("subtasks", ()):
            entry.pop("status")
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance)["jdbc/0"] == pytest.approx(0.95)


# -- completeness and time base --------------------------------------------------------------------


def test_subtasks_that_report_nothing_are_like_their_equals(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1")],
        {
            "a": [subtask("t1", 0.2, 0, 2.0), subtask("t1", 0.2, 0, 2.0)],
            "b": [subtask("t1", 0.4, 2.0), subtask("t1", None, 2.0)],
        },
        [("a", "b", "HASH")],
    )
    documents[f"jobs/{JOB}/vertices/b"]["subtasks"][1]["metrics"]["read-bytes"] = "-1"
    made = import_instance("flink", [saved(documents)])
    assert loads(made.instance)["b/1"] == pytest.approx(0.4)
    assert rates(made.instance)["a", "b"] == pytest.approx(4.0)
    assert warned(made, "no busy time for 1 of 4 subtasks")


def test_a_sender_of_unknown_rate_gets_what_others_leave(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1")],
        {
            "a": [subtask("t1", 0.2, 0, 1.0)],
            "b": [subtask("t1", 0.2, 0, 9.0)],
            "c": [subtask("t1", 0.4, 4.0)],
        },
        [("a", "c", "HASH"), ("b", "c", "HASH")],
    )
    del documents[f"jobs/{JOB}/vertices/b"]["subtasks"][0]["metrics"]["write-bytes"]
    found = rates(import_instance("flink", [saved(documents)]).instance)
    assert found == pytest.approx({("a", "c"): 1.0, ("b", "c"): 3.0})


@pytest.mark.parametrize(
    ("written", "read", "flows"),
    [
        # the filter alone reads 8 of 16 MB/s: 8 are left for the join, which has 2 of dim
        (
            {"clicks": 16, "dim": 2},
            {"filter": 8, "join": 10},
            {("clicks", "filter"): 8, ("clicks", "join"): 8, ("dim", "join"): 2},
        ),
        # two of c's 6 MB/s are b's, four of d's 10 are e's: a writes 4 and 6
        (
            {"a": 10, "b": 2, "e": 4},
            {"c": 6, "d": 10},
            {("a", "c"): 4, ("a", "d"): 6, ("b", "c"): 2, ("e", "d"): 4},
        ),
        # nothing is for the side output, and buffers hold 1 MB/s of what a writes
        (
            {"a": 4, "b": 2},
            {"c": 5, "d": 0},
            {("a", "c"): 10 / 3, ("b", "c"): 5 / 3, ("a", "d"): 0},
        ),
    ],
)
def test_what_a_sender_writes_is_divided_among_its_outputs(
    saved: Callable[..., str],
    written: dict[str, float],
    read: dict[str, float],
    flows: dict[tuple[str, str], float],
) -> None:
    vertices = {name: [subtask("t1", 0.2, 0, rate)] for name, rate in written.items()}
    vertices |= {name: [subtask("t1", 0.2, rate)] for name, rate in read.items()}
    documents = pages([manager("t1")], vertices, [(*edge, "HASH") for edge in flows])
    found = rates(import_instance("flink", [saved(documents)]).instance)
    assert found == pytest.approx(flows, rel=1e-6)


def test_a_vertex_that_the_plan_lacks_is_warned_of(saved: Callable[..., str]) -> None:
    vertices = {"a": [subtask("t1", 0.2, 0, 2.0)], "b": [subtask("t1", 0.4, 2.0)]}
    documents = pages([manager("t1")], vertices, [("a", "b", "HASH")])
    documents[f"jobs/{JOB}"]["plan"]["nodes"].pop()
    made = import_instance("flink", [saved(documents)])
    assert warned(made, "the plan of orders has no b: their inputs are unknown")


def test_means_over_a_minute_are_not_those_of_a_younger_subtask(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1")],
        {"sender": [subtask("t1", 0.6, 0, 3.0, seconds=20.0)], "reader": [subtask("t1", 0.4, 3.0)]},
        [("sender", "reader", "HASH")],
    )
    del documents[f"jobs/{JOB}/vertices/reader"]["subtasks"][0]["metrics"]["read-bytes"]
    documents[f"jobs/{JOB}/vertices/sender/metrics"] = [
        {"id": "0.busyTimeMsPerSecond", "value": "200"},  # 0.6 for 20 s of 60
        {"id": "0.numBytesOutPerSecond", "value": "1000000"},
    ]
    instance = import_instance("flink", [saved(documents)]).instance
    assert loads(instance)["sender/0"] == pytest.approx(0.6)
    assert "figures are means over 20 s to 1000 s" in instance.origin
    assert rates(instance)["sender", "reader"] == pytest.approx(3.0)


@pytest.mark.parametrize("duration", [0, "0", -5, "NaN", None])
def test_figures_over_no_time_are_unknown(saved: Callable[..., str], duration: Any) -> None:
    documents = pages(
        [manager("t1")],
        {"a": [subtask("t1", 0.2, 0, 2.0)], "b": [subtask("t1"), subtask("t1", 0.4, 2.0)]},
        [("a", "b", "HASH")],
    )
    documents[f"jobs/{JOB}/vertices/b"]["subtasks"][0]["duration"] = duration
    instance = import_instance("flink", [saved(documents)]).instance
    assert loads(instance)["b/0"] == pytest.approx(0.4)
    assert rates(instance)["a", "b"] == pytest.approx(4.0)


# -- what is in the slots now ----------------------------------------------------------------------


def test_now_is_what_is_in_the_slots(saved: Callable[..., str]) -> None:
    """A × 6 busy 0.2 on both; B × 3 busy 0.9 and C × 2 busy 0.5 all on t1: 4.3 and 0.6 cores."""
    documents = pages(
        [manager("t1"), manager("t2")],
        {
            "A": [subtask("t1" if i < 3 else "t2", 0.2, 0, 1.0) for i in range(6)],
            "B": [subtask("t1", 0.9, 2.0, 1.0) for _ in range(3)],
            "C": [subtask("t1", 0.5, 1.5) for _ in range(2)],
        },
        [("A", "B", "HASH"), ("B", "C", "HASH")],
    )
    instance = import_instance("flink", [saved(documents)], [("place", "slots")]).instance
    now = evaluate(instance, Plan.from_indices(instance, instance.tasks.node))
    assert now.load_distance == pytest.approx(1.85)
    assert pytest.approx(0.930, abs=5e-4) == 4 / 4.3
    assert now.sustainable_rate is not None
    assert now.sustainable_rate <= 4 / 4.3 + 1e-9
    # three of six A send to t2's B, which there are none of: half of 6 MB/s crosses
    assert now.internode_traffic == pytest.approx(3.0)


def test_subtasks_of_a_slot_keep_their_own_load(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1"), manager("t2")],
        {
            "A": [subtask("t1", 0.9, 0, 1.0), subtask("t2", 0.1, 0, 1.0)],
            "B": [subtask("t1", 0.5, 2.0)],
        },
        [("A", "B", "HASH")],
    )
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    assert list(loads(made.instance).values()) == pytest.approx([1.4, 0.1])
    even = [("place", "slots"), ("loads", "mean")]
    alike = import_instance("flink", [saved(documents)], even).instance
    assert list(loads(alike).values()) == pytest.approx([1.0, 0.5])


def test_more_of_a_vertex_than_slots_there_count_where_they_are(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1"), manager("t2"), manager("t3")],
        {
            "A": [subtask("t1", 0.1, 0, 1.0), *(subtask("t2", 0.1, 0, 1.0) for _ in range(3))],
            "B": [subtask("t1", 0.5, 2.0) for _ in range(2)],
        },
        [("A", "B", "HASH")],
    )
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    assert loads(made.instance)["slots/0"] == pytest.approx(1.1)
    documents[f"jobs/{JOB}/vertices/B"]["subtasks"][1]["taskmanager-id"] = "t3"
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    assert warned(made, "slots: 1 subtasks run on a task manager where none of its tasks is")


@pytest.mark.parametrize("place", ["slots", "subtasks"])
def test_tasks_of_ended_subtasks_are_left_to_those_that_need_one(
    saved: Callable[..., str], place: str
) -> None:
    """Of four maps two run, on t2; of four sinks the two on t2 are in the same tasks."""
    documents = pages(
        [manager("t1", 4), manager("t2", 4)],
        {
            "map": [
                *(subtask("t1", 0.9, 1.0, 1.0, "FAILED") for _ in range(2)),
                *(subtask("t2", 0.2, 1.0, 1.0) for _ in range(2)),
            ],
            "sink": [subtask("t2" if i < 2 else "t1", 0.1, 0.5) for i in range(4)],
        },
        [("map", "sink", "FORWARD")],
    )
    made = import_instance("flink", [saved(documents)], [("place", place)])
    assert not warned(made, "where none of its tasks is")
    instance = made.instance
    assert np.bincount(instance.tasks.node).tolist() == [2, 2]
    on = np.bincount(instance.tasks.node, instance.tasks.load[:, 0])
    assert on.tolist() == pytest.approx([0.2, 0.6])


def test_a_failed_subtask_may_name_a_task_manager_that_was_started_anew(
    saved: Callable[..., str],
) -> None:
    documents = with_an_ended_source("FAILED")
    for i, entry in enumerate(documents[f"jobs/{JOB}/vertices/jdbc"]["subtasks"]):
        entry |= {"taskmanager-id": "old", "host": f"t{i + 1}-host:1"}
    assert loads(import_instance("flink", [saved(documents)]).instance)["jdbc/0"] == 0.0
    documents[f"jobs/{JOB}/vertices/jdbc"]["subtasks"][0]["status"] = "RUNNING"
    with pytest.raises(InvalidInput, match="'old' is a task manager that is not listed"):
        import_instance("flink", [saved(documents)])


def test_slots_whose_widest_subtask_has_ended_are_where_the_others_run(
    saved: Callable[..., str],
) -> None:
    """The source, 4 × on task managers that are gone, held the slots; maps run on t1 and t2."""
    documents = pages(
        [manager("t1"), manager("t2")],
        {
            "src": [subtask("gone", 0.9, 0, 9.0, "FINISHED") for _ in range(4)],
            "other": [subtask("t1", 0.3, 0, 3.0)],
            "map": [subtask("t2" if i else "t1", 0.2, 1.0) for i in range(3)],
        },
        [("src", "map", "HASH"), ("other", "map", "HASH")],
    )
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    instance = made.instance
    on = np.bincount(instance.tasks.node, instance.tasks.load[:, 0], minlength=2)
    assert on.tolist() == pytest.approx([0.5, 0.4])
    assert sorted(loads(instance, "slot").values()) == [0.0, 1.0, 1.0, 1.0]
    assert not warned(made, "where none of its tasks is")


def test_an_export_of_unequal_tasks_says_so(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1"), manager("t2")],
        {
            "A": [subtask("t1", 0.9, 0, 1.0), subtask("t2", 0.1, 0, 1.0)],
            "B": [subtask("t1", 0.5, 2.0)],
        },
        [("A", "B", "HASH")],
    )
    for place in ("slots", "subtasks"):
        instance = import_instance("flink", [saved(documents)], [("place", place)]).instance
        now = Plan.from_indices(instance, instance.tasks.node)
        told = export_plan("flink", instance, now).ledger.warnings
        assert any("tasks of slots have unequal loads" in text for text in told) == (
            place == "slots"
        )


# -- task managers, hosts, cores -------------------------------------------------------------------


def small(managers: list[dict[str, Any]], **job: Any) -> dict[str, Any]:
    """Return a job of two subtasks, both on the first task manager."""
    at = managers[0]["id"]
    return pages(
        managers,
        {"a": [subtask(at, 0.2, 0, 2.0)], "b": [subtask(at, 0.4, 2.0)]},
        [("a", "b", "HASH")],
        **job,
    )


def test_an_id_that_is_its_host(saved: Callable[..., str]) -> None:
    managers = [manager(name, path=f"pekko.tcp://flink@{name}:6122/user/rpc") for name in "xy"]
    documents = small(managers)
    entry = documents[f"jobs/{JOB}/vertices/b"]["subtasks"][0]
    del entry["taskmanager-id"]
    entry["host"] = "y:1"
    instance = import_instance("flink", [saved(documents)]).instance
    assert [instance.nodes.ids[n] for n in instance.tasks.node] == ["x", "y"]
    managers[1]["path"] = "pekko.tcp://flink@x:6123/user/rpc"  # the host of another one
    managers[1]["dataPort"] = 2
    entry["endpoint"] = "x:2"
    del entry["host"]
    instance = import_instance("flink", [saved(documents, "shared")]).instance
    assert [instance.nodes.ids[n] for n in instance.tasks.node] == ["x", "y"]


def test_hosts_of_ipv6_are_told_apart(saved: Callable[..., str]) -> None:
    managers = [
        manager(f"t{i}", path=f"pekko.tcp://flink@[fd00::{i}]:6122/user/rpc") for i in (1, 2)
    ]
    instance = import_instance("flink", [saved(small(managers))], [("link_rate", "1Gbit")]).instance
    assert list(instance.links.ids) == [
        "[fd00::1] out", "[fd00::1] in", "[fd00::2] out", "[fd00::2] in",
    ]  # fmt: skip


def test_cores_of_a_machine_are_dealt_to_its_task_managers(saved: Callable[..., str]) -> None:
    host = "akka.tcp://flink@box:6122/user/taskmanager"
    old: list[dict[str, Any]] = [
        {"id": "t1", "path": host, "dataPort": 1, "slotsNumber": 3, "freeSlots": 2, "cpuCores": 8},
        {
            "id": "t2",
            "path": host,
            "dataPort": 2,
            "slotsNumber": 1,
            "freeSlots": 1,
            "cpuCores": "8",
        },
    ]
    made = import_instance("flink", [saved(small(old))])
    assert made.instance.nodes.capacity[:, 0].tolist() == [6.0, 2.0]
    assert made.instance.nodes.labels[0]["cores of the machine"] == "8"
    for entry in old:  # 1.5 to 1.11
        entry["hardware"] = {"cpuCores": entry.pop("cpuCores")}
    made = import_instance("flink", [saved(small(old), "newer")])
    assert made.instance.nodes.capacity[:, 0].tolist() == [6.0, 2.0]


@pytest.mark.parametrize(("configured", "capacity"), [(8.0, [6.0, 2.0]), (3.0, [3.0, 3.0])])
def test_configured_cores_are_no_more_than_the_machine_has(
    saved: Callable[..., str], configured: float, capacity: list[float]
) -> None:
    host = {"path": "pekko.tcp://flink@box:6122/user/rpc", "hardware": {"cpuCores": 8}}
    managers = [manager("t1", 3, configured, **host), manager("t2", 1, configured, **host)]
    made = import_instance("flink", [saved(small(managers))])
    assert made.instance.nodes.capacity[:, 0].tolist() == capacity
    assert warned(made, "configured for 16 cores, the machine has 8") == (configured == 8)


def test_cores_said_of_a_host_that_is_also_an_id(saved: Callable[..., str], tmp_path: Any) -> None:
    host = "pekko.tcp://flink@box:6122/user/rpc"
    managers = [manager("box", 2, path=host), manager("t2", 2, path=host, dataPort=2)]
    hosts = tmp_path / "hosts.json"
    hosts.write_text('{"box": {"cores": 8}}')
    made = import_instance("flink", [saved(small(managers))], [("hosts", str(hosts))])
    assert made.instance.nodes.capacity[:, 0].tolist() == [4.0, 4.0]


def test_a_link_said_of_any_task_manager_is_its_host_s(
    saved: Callable[..., str], tmp_path: Path
) -> None:
    host = "pekko.tcp://flink@box:6122/user/rpc"
    managers = [manager("t1", path=host), manager("t2", path=host, dataPort=2), manager("t3")]
    hosts = tmp_path / "hosts.json"
    hosts.write_text('{"*": {"link": "1Gbit"}, "t2": {"link": "8Gbit"}}')
    made = import_instance("flink", [saved(small(managers))], [("hosts", str(hosts))])
    capacity = dict(zip(made.instance.links.ids, made.instance.links.capacity, strict=True))
    assert (capacity["box out"], capacity["t3-host out"]) == (1000.0, 125.0)


# -- what else the pages say -----------------------------------------------------------------------


def test_a_task_manager_without_cores_is_warned_of(
    saved: Callable[..., str], tmp_path: Path
) -> None:
    documents = pages(
        [manager("t1", totalResource=None), manager("t2")],
        {"a": [subtask("t1", 0.2, 0, 1.0)], "b": [subtask("t2", 0.2, 1.0)]},
        [("a", "b", "HASH")],
    )
    made = import_instance("flink", [saved(documents)])
    assert warned(made, "t1 reports no cores: its CPU is unbounded (--option hosts=FILE sets them)")
    assert not warned(made, "t2 reports no cores")
    (tmp_path / "hosts.json").write_text('{"t1": {"cores": 2}}')
    made = import_instance("flink", [saved(documents)], [("hosts", str(tmp_path / "hosts.json"))])
    assert not warned(made, "reports no cores")


@pytest.mark.parametrize("where", ["job", "overview"])
def test_the_adaptive_scheduler_is_told(saved: Callable[..., str], where: str) -> None:
    two = [manager("t1"), manager("t2")]
    documents = small(two, schedulerType="Adaptive") if where == "job" else small(two)
    if where == "overview":
        listed = {"jid": JOB, "name": "orders", "state": "RUNNING", "schedulerType": "Adaptive"}
        documents["jobs/overview"] = {"jobs": [listed]}
    made = import_instance("flink", [saved(documents)])
    assert made.instance.labels["scheduler orders"] == "Adaptive"
    assert warned(made, "orders runs under the Adaptive scheduler")
    plain = import_instance("flink", [saved(small(two, schedulerType="Default"), "plain")])
    assert not warned(plain, "scheduler")


def test_the_scheduler_of_an_address(serve: Callable[..., str]) -> None:
    listed = {"jid": JOB, "name": "orders", "state": "RUNNING", "schedulerType": "Adaptive"}
    documents = small([manager("t1")]) | {"jobs/overview": {"jobs": [listed]}}
    made = import_instance("flink", [serve(documents)], [("interval", "0")])
    assert warned(made, "orders runs under the Adaptive scheduler")


def test_back_pressure_is_told(saved: Callable[..., str]) -> None:
    documents = pages(
        [manager("t1")],
        {"src": [subtask("t1", 0.2, 0, 2.0, held=0.8)], "agg": [subtask("t1", 1.0, 2.0, held=0)]},
        [("src", "agg", "HASH")],
    )
    made = import_instance("flink", [saved(documents)])
    assert warned(made, "orders is back-pressured (src 80% of the time)")
    assert made.instance.operators.labels[0]["back-pressured"] == "0.80"
    documents[f"jobs/{JOB}/vertices/src/metrics"] = [
        {"id": "0.backPressuredTimeMsPerSecond", "value": "20"}
    ]
    assert not warned(import_instance("flink", [saved(documents)]), "back-pressured")


@pytest.mark.parametrize("most", [128, "128"])
def test_key_groups_that_do_not_divide_are_told(saved: Callable[..., str], most: Any) -> None:
    documents = pages(
        [manager("t1", 100)],
        {
            "src": [subtask("t1", 0.2, 0, 85.0)],
            "agg": [subtask("t1", 0.4, 1.0) for _ in range(85)],
        },
        [("src", "agg", "HASH")],
    )
    documents[f"jobs/{JOB}"]["vertices"][1]["maxParallelism"] = most
    made = import_instance("flink", [saved(documents)])
    text = "agg: 128 key groups on 85 subtasks: 43 have 2, 42 have 1, up to 1.33 × the mean; 64 or"
    assert warned(made, text)
    assert made.instance.operators.labels[1]["max parallelism"] == "128"
    inputs = documents[f"jobs/{JOB}"]["plan"]["nodes"][1]["inputs"]
    inputs[0]["ship_strategy"] = "REBALANCE"  # no keys
    assert not warned(import_instance("flink", [saved(documents)]), "key groups")


def test_packing_without_links_is_told(saved: Callable[..., str]) -> None:
    two = [manager("t1"), manager("t2")]
    assert NO_PRICE in import_instance("flink", [saved(small(two))]).ledger.warnings
    for option in (("link_rate", "1Gbit"), ("crossing_cost", "0.02")):
        made = import_instance("flink", [saved(small(two))], [option])
        assert NO_PRICE not in made.ledger.warnings
    alone = import_instance("flink", [saved(small([manager("t1")]), "alone")])
    assert NO_PRICE not in alone.ledger.warnings


def test_what_is_named_against_packing_helps(saved: Callable[..., str]) -> None:
    """Eight subtasks of 0.5 on four task managers of two cores."""
    documents = pages(
        [manager(f"t{i}", 4, 2.0) for i in range(4)],
        {
            "a": [subtask(f"t{i}", 0.5, 0, 1.0) for i in range(4)],
            "b": [subtask(f"t{i}", 0.5, 1.0) for i in range(4)],
        },
        [("a", "b", "HASH")],
    )
    source = saved(documents)

    def highest(objective: str | None, limits: list[tuple[str, str]]) -> float:
        found = solve(
            import_instance("flink", [source], limits=limits).instance, objective=objective
        ).evaluation
        assert found is not None
        assert found.max_utilisation is not None
        return found.max_utilisation

    assert highest(None, []) == pytest.approx(1.0)
    assert highest("load_distance", []) == pytest.approx(0.5)
    assert highest("sustainable_rate", []) == pytest.approx(0.5)
    assert highest(None, [("max_utilisation.cpu", "0.8")]) <= 0.8


# -- random jobs, against sums by hand -------------------------------------------------------------

STATES = ("RUNNING", "RUNNING", "RUNNING", "FINISHED", "CANCELED")


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, list[tuple[str, float, str]]]:
    """Vertex to subtasks: task manager, share of time busy, state; one runs of each."""
    share = st.integers(0, 100).map(lambda percent: percent / 100)
    one = st.tuples(st.sampled_from(["t1", "t2", "t3"]), share, st.sampled_from(STATES))
    found = {}
    for v in range(draw(st.integers(2, 4))):
        at, busy, _ = draw(one)
        found[f"vertex{v}"] = [(at, busy, "RUNNING"), *draw(st.lists(one, max_size=4))]
    return found


@pytest.mark.parametrize("place", ["subtasks", "slots"])
@pytest.mark.parametrize("how", ["HASH", "FORWARD"])
@given(jobs())
@settings(max_examples=60, deadline=None)
def test_now_is_the_sum_of_what_runs(
    place: str, how: str, job: dict[str, list[tuple[str, float, str]]]
) -> None:
    """6 MB/s flow through a chain: loads of task managers and traffic, by the running subtasks."""
    names = list(job)
    vertices = {}
    for name, subtasks in job.items():
        running = sum(state == "RUNNING" for _, _, state in subtasks)
        flow = {"read": 6.0 / running, "written": 6.0 / running}
        # what has ended was fast and busy, once
        past = {"read": 70.0, "written": 90.0}
        vertices[name] = [
            subtask(at, busy, **(flow if state == "RUNNING" else past), state=state)
            for at, busy, state in subtasks
        ]
    edges = [(a, b, how) for a, b in itertools.pairwise(names)]
    documents = pages([manager(name, 20) for name in ("t1", "t2", "t3")], vertices, edges)
    with tempfile.TemporaryDirectory() as folder:
        for name, value in documents.items():
            path = Path(folder) / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        options = [("place", place), ("loads", "measured")]
        made = import_instance("flink", [folder], options)
    instance = made.instance
    want = dict.fromkeys(("t1", "t2", "t3"), 0.0)
    for at, busy, state in itertools.chain(*job.values()):
        want[at] += busy if state == "RUNNING" else 0.0
    assert instance.tasks.load[:, 0].sum() == pytest.approx(sum(want.values()))
    if not warned(made, "where none of its tasks is"):
        loads = np.bincount(instance.tasks.node, instance.tasks.load[:, 0], minlength=3)
        assert loads.tolist() == pytest.approx(list(want.values()))
    inside = instance.total_traffic
    assert inside <= 6.0 * len(edges) + 1e-9
    if place == "subtasks" and how == "HASH":
        assert inside == pytest.approx(6.0 * len(edges))
        dead = [
            instance.tasks.index[f"{name}/{i}"]
            for name, subtasks in job.items()
            for i, (_, _, state) in enumerate(subtasks)
            if state != "RUNNING"
        ]
        assert not instance.tasks.load[dead].any()
        u, v, rate = instance.pairs
        assert not set(dead) & {*u[rate > 0].tolist(), *v[rate > 0].tolist()}


def test_a_blocked_task_manager_gets_nothing(saved: Callable[..., str]) -> None:
    documents = systems.flink()
    documents["taskmanagers"]["taskmanagers"][1]["blocked"] = True
    made = import_instance("flink", [saved(documents)])
    assert made.instance.nodes.leaving.tolist() == [False, True]
    assert any("is blocked: Flink gives it no subtasks" in text for text in made.ledger.warnings)


def test_pages_of_before_and_after_a_rescale(saved: Callable[..., str]) -> None:
    """The job's page knows six subtasks, the vertex' own page four, whose rates would be six's."""
    documents = systems.flink()
    documents[f"jobs/{systems.JOB}"]["vertices"][1]["parallelism"] = 6
    with pytest.raises(
        InvalidInput, match=r"parallelism: 4 is 6 by the job's page: the job was re"
    ):
        import_instance("flink", [saved(documents)])
