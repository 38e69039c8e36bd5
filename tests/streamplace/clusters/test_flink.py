"""Flink: figures computed by hand from the documents of `systems.flink`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from optim import evaluate, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import import_instance
from streamplace.clusters.flink.model import NO_PRICE
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.systems import JOB, MAP, OTHER, SINK, SOURCE


def hashed(hosts: tuple[str, str] = ("tm-1:37345", "tm-2:40001")) -> dict[str, Any]:
    """Return the documents of `systems.flink` with HASH from map to sink: no chain."""
    documents = systems.flink(hosts)
    plan = documents[f"jobs/{JOB}/plan"]["plan"]["nodes"]
    plan[2]["inputs"][0]["ship_strategy"] = "HASH"
    return documents


def test_tasks_hosts_and_load(saved: Callable[..., str]) -> None:
    made = import_instance("flink", [saved(hashed())], [("loads", "measured")])
    instance = made.instance
    assert instance.operators.ids == ("Source: orders", "Map", "Sink")
    assert instance.operators.num_tasks.tolist() == [2, 4, 4]
    assert instance.nodes.ids == ("tm-1-container", "tm-2-container")
    assert instance.nodes.capacity[:, 0].tolist() == [4.0, 4.0]
    # the host and data port of a subtask name its task manager, which has another id
    assert [int(n) for n in instance.tasks.node] == [0, 1, 0, 0, 1, 1, 1, 1, 0, 0]
    busy = dict(zip(instance.tasks.ids, instance.tasks.load[:, 0].tolist(), strict=True))
    assert busy["Map/0"] == 0.9  # the metric
    assert busy["Map/1"] == 0.25  # its metric is NaN: the counter over the duration
    assert not made.ledger.ignored
    assert instance.operators.labels[1] == {f"vertex {MAP}": "Map"}
    assert instance.labels["job orders"] == JOB


def test_subtasks_that_flink_takes_for_alike_are_alike(saved: Callable[..., str]) -> None:
    made = import_instance("flink", [saved(hashed())])
    cpu = made.instance.tasks.load[:, 0].tolist()
    assert cpu[2:6] == pytest.approx([(0.9 + 3 * 0.25) / 4] * 4)
    assert any("busy 0.25 to 0.90" in text for text in made.ledger.warnings)


def limits_of(made: Any) -> dict[str, float]:
    instance = made.instance
    return dict(zip(instance.tasks.ids, instance.tasks.max_load[:, 0].tolist(), strict=True))


def test_a_subtask_is_one_thread(saved: Callable[..., str]) -> None:
    documents = hashed()
    made = import_instance("flink", [saved(documents)], [("loads", "measured")])
    assert set(limits_of(made).values()) == {1.0}
    for loads in ("measured", "mean"):  # map 0 is busy 0.9, whatever the others are
        made = import_instance("flink", [saved(documents)], [("loads", loads)])
        result = solve(made.instance, objective="sustainable_rate")
        assert result.objective is not None
        assert result.objective.value == pytest.approx(1 / 0.9)
    slots = import_instance("flink", [saved(documents)], [("place", "slots")])
    assert slots.instance.thread_rates.min() == pytest.approx(1 / 0.9)
    chained = import_instance("flink", [saved(systems.flink())])  # two threads in one task
    assert chained.instance.thread_rates.min() == pytest.approx(1 / 0.9)


def test_a_job_at_its_limit_carries_no_more_anywhere(saved: Callable[..., str]) -> None:
    """Its aggregation is busy all the time, and its source waits: moving it brings nothing."""
    documents = hashed()
    for entry in documents[f"jobs/{JOB}/vertices/{MAP}"]["subtasks"]:
        entry["metrics"]["accumulated-busy-time"] = entry["duration"]
    for path in [p for p in documents if MAP in p and "metrics" in p]:
        for entry in documents[path]:
            if entry["id"].endswith("busyTimeMsPerSecond"):
                entry["value"] = "1000"
    made = import_instance("flink", [saved(documents)]).instance
    now = evaluate(made, Plan.from_indices(made, made.tasks.node, None, "now", {}))
    assert now.sustainable_rate is not None
    assert now.sustainable_rate <= 1.0
    result = solve(made, objective="sustainable_rate")
    assert result.objective is not None
    assert result.objective.value == result.bound == 1.0
    assert str(result.termination) == "optimal"
    twice = solve(made, target_rate=2)
    assert twice.exit_code == 3
    assert "Map has 4 tasks; needs at least 8" in str(twice.reasons[0])


def test_a_forward_chain_is_one_unit(saved: Callable[..., str]) -> None:
    made = import_instance("flink", [saved(systems.flink())])
    instance = made.instance
    assert instance.operators.ids == ("Source: orders", "Map + Sink")
    assert instance.operators.num_tasks.tolist() == [2, 4]
    assert list(instance.operators.labels[1]) == [f"vertex {MAP}", f"vertex {SINK}"]
    assert [(s.pattern, s.rate) for s in instance.streams] == [("full", pytest.approx(4.0))]
    assert instance.tasks.load[2, 0] == pytest.approx((0.9 + 3 * 0.25) / 4 + 0.1)
    assert "what a subtask forwards within its slot is no traffic" in made.ledger.readings
    # the sinks run on the task manager of the other maps: each task is paired with one of its own
    assert not any("where none of its tasks" in text for text in made.ledger.warnings)


def test_slots_are_placed_where_groups_stay(saved: Callable[..., str]) -> None:
    """Flink makes four slots of one group, and a slot's load is what is in it."""
    documents = hashed()
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    instance = made.instance
    assert instance.operators.ids == ("slots",)
    assert instance.num_tasks == 4
    # tm-1: source 0, maps 0 and 1, two sinks; tm-2: the others
    assert instance.tasks.load[:, 0].tolist() == pytest.approx([1.5, 0.35, 0.85, 0.35])
    assert instance.tasks.load[:, 1].tolist() == [1.0] * 4
    assert sum(label.startswith("vertex ") for label in instance.operators.labels[0]) == 3
    # of 8 pairs of source and map two share a slot, of 16 pairs of map and sink four
    assert instance.total_traffic == pytest.approx(4 * 6 / 8 + 2 * 12 / 16)
    vertices = documents[f"jobs/{JOB}"]["vertices"]
    for vertex, group in zip(vertices, ("a", "b", "b"), strict=True):
        vertex["slotSharingGroupId"] = group
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager["freeSlots"] = 1
    made = import_instance("flink", [saved(documents)], [("place", "slots")])
    assert made.instance.operators.ids == ("Source: orders", "slots of group 2")
    assert made.instance.operators.num_tasks.tolist() == [2, 4]
    # six slots of four on each: all on one task manager is no plan that could run
    gathered = Plan("x", dict.fromkeys(made.instance.tasks.ids, "tm-1-container"))
    assert not evaluate(made.instance, gathered).feasible


@pytest.mark.parametrize(
    ("strategy", "parallelism", "pattern"),
    [
        ("FORWARD", 2, "full"),
        ("RESCALE", 3, "full"),
        ("REBALANCE", 4, "full"),
        ("BROADCAST", 4, "full"),
        ("SOMETHING_NEW", 4, "full"),
    ],
)
def test_patterns(saved: Callable[..., str], strategy: str, parallelism: int, pattern: str) -> None:
    documents = systems.flink()
    plan = documents[f"jobs/{JOB}/plan"]["plan"]["nodes"][2]
    plan["inputs"][0]["ship_strategy"] = strategy
    documents[f"jobs/{JOB}"]["vertices"][2]["parallelism"] = parallelism
    vertex = documents[f"jobs/{JOB}/vertices/{SINK}"]
    vertex |= {"parallelism": parallelism, "subtasks": vertex["subtasks"][:parallelism]}
    instance = import_instance("flink", [saved(documents)]).instance
    assert instance.streams[1].pattern == pattern


def test_several_inputs_share_what_is_read(saved: Callable[..., str]) -> None:
    documents = systems.flink()
    inputs = documents[f"jobs/{JOB}/plan"]["plan"]["nodes"][2]["inputs"]
    inputs[0]["ship_strategy"] = "REBALANCE"
    inputs.append({"num": 1, "id": SOURCE, "ship_strategy": "HASH"})
    instance = import_instance("flink", [saved(documents)]).instance
    rates = {(s.source, s.target): s.rate for s in instance.streams}
    # the sink reads 2 MB/s; the map writes 2 for it alone, and reads all 4 of the source
    assert (rates[1, 2], rates[0, 2]) == (2.0, 0.0)


def test_slots_that_are_shared(saved: Callable[..., str]) -> None:
    instance = import_instance("flink", [saved(hashed())]).instance
    assert instance.resources == ("cpu", "slot")
    assert instance.tasks.load[:, 1].tolist() == pytest.approx([1 / 3] * 10)
    assert instance.nodes.capacity[:, 1].tolist() == [4, 4]
    together = dict.fromkeys(instance.tasks.ids, "tm-1-container")
    assert evaluate(instance, Plan("x", together)).feasible  # 4 slots take all 10 subtasks
    free = import_instance("flink", [saved(hashed())], [("slots", "free")]).instance
    assert free.resources == ("cpu",)
    with pytest.raises(InvalidInput, match="exclude each other"):
        import_instance("flink", ["."], [("slots", "free"), ("place", "slots")])


def test_slots_of_one_subtask(saved: Callable[..., str]) -> None:
    documents = hashed()
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager |= {"slotsNumber": 6, "freeSlots": 1}
    instance = import_instance("flink", [saved(documents)]).instance
    assert instance.tasks.load[:, 1].tolist() == [1.0] * 10  # 10 subtasks use 10 slots
    forced = import_instance("flink", [saved(documents)], [("slots", "sharing")]).instance
    assert forced.tasks.load[0, 1] == pytest.approx(1 / 3)


def test_slots_of_jobs_that_are_not_imported_are_taken_off(saved: Callable[..., str]) -> None:
    documents = systems.flink_pair()
    made = import_instance("flink", [saved(documents)], [("job", "A")])
    instance = made.instance
    assert instance.resources == ("cpu", "slot")  # 8 subtasks of both jobs use 8 slots
    assert instance.nodes.capacity[:, 1].tolist() == [2.0, 2.0]
    assert instance.nodes.background[:, 0].tolist() == [1.0, 1.0]
    assert "slots that hold none of the imported subtasks are subtracted" in made.ledger.readings
    assert made.ledger.warnings == [NO_PRICE]
    assert evaluate(instance, Plan.from_indices(instance, instance.tasks.node)).feasible
    gathered = Plan("A", dict.fromkeys(instance.tasks.ids, "tm-1-container"))
    assert not evaluate(instance, gathered).feasible
    both = import_instance("flink", [saved(documents)]).instance
    assert both.nodes.capacity[:, 1].tolist() == [4.0, 4.0]
    assert not both.nodes.background.any()


def test_shared_slots_of_other_jobs_are_taken_off(saved: Callable[..., str]) -> None:
    documents = hashed() | {
        name: page for name, page in systems.flink_pair().items() if OTHER in name
    }
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager["freeSlots"] = 1  # 2 are of the orders; B holds 2 slots, one on each
    for vertex in ("b1", "b2"):
        hosts = ("tm-1:37345", "tm-2:40001")
        for entry, host in zip(
            documents[f"jobs/{OTHER}/vertices/{vertex}"]["subtasks"], hosts, strict=True
        ):
            entry["host"] = host
    made = import_instance("flink", [saved(documents)], [("job", "orders"), ("loads", "measured")])
    assert made.instance.nodes.capacity[:, 1].tolist() == [3.0, 3.0]
    assert made.ledger.warnings == [NO_PRICE]


def test_slots_that_nothing_explains_are_told(saved: Callable[..., str]) -> None:
    documents = {k: v for k, v in systems.flink_pair().items() if OTHER not in k}
    made = import_instance("flink", [saved(documents)])
    # nothing says that slots are not shared: Flink's default, and what is in use is taken off
    assert made.instance.nodes.capacity[0].tolist() == [4.0, 2.0]
    assert any(text.startswith("4 slots are in use that") for text in made.ledger.warnings)
    single = import_instance("flink", [saved(documents)], [("slots", "single")])
    assert single.instance.nodes.capacity[0].tolist() == [4.0, 2.0]
    for vertex in ("a1", "a2"):
        del documents[f"jobs/{JOB}/vertices/{vertex}"]
    options = [("slots", "single"), ("idle", "true")]
    lost = import_instance("flink", [saved(documents, "lost")], options)
    assert lost.instance.nodes.capacity[0].tolist() == [4.0, 4.0]
    assert any("4 slots" in text and "not subtracted" in text for text in lost.ledger.warnings)


def test_free_slots_that_are_not_told(saved: Callable[..., str]) -> None:
    documents = systems.flink_pair()
    for manager in documents["taskmanagers"]["taskmanagers"]:
        del manager["freeSlots"]
    made = import_instance("flink", [saved(documents)], [("job", "A")])
    assert any("Flink's default: freeSlots is missing" in text for text in made.ledger.readings)
    # B is seen to share two slots of the first: its source; and two of the second: its sink
    assert made.instance.nodes.capacity[:, 1].tolist() == [2.0, 2.0]


def test_one_job_of_an_address(saved: Callable[..., str], serve: Callable[..., str]) -> None:
    documents = systems.flink_pair()
    by_file = import_instance("flink", [saved(documents)], [("job", "A")]).instance
    by_net = import_instance("flink", [serve(documents)], [("job", "A")]).instance
    assert by_net.sha256 == by_file.sha256
    del documents[f"jobs/{OTHER}"]  # it ended while the pages were read
    made = import_instance("flink", [serve(documents)], [("job", "A")])
    assert any("4 slots are in use that" in text for text in made.ledger.warnings)


def test_jobs_that_ended_are_left_out(saved: Callable[..., str]) -> None:
    documents = systems.flink_pair()
    documents[f"jobs/{OTHER}"]["state"] = "FINISHED"
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager["freeSlots"] = 2
    made = import_instance("flink", [saved(documents)])
    assert made.instance.topologies.ids == ("A",)
    assert made.instance.nodes.capacity[:, 1].tolist() == [4.0, 4.0]
    assert any("do not run: left out: B (FINISHED)" in text for text in made.ledger.warnings)
    named = import_instance("flink", [saved(documents)], [("job", "B")]).instance
    assert named.topologies.ids == ("B",)
    assert named.nodes.capacity[:, 1].tolist() == [2.0, 2.0]


def test_a_name_is_of_the_run_that_runs(
    saved: Callable[..., str], serve: Callable[..., str]
) -> None:
    """A job that was cancelled and submitted again is there twice, under one name."""
    documents = systems.flink_pair()
    for page in (documents[f"jobs/{JOB}"], documents["jobs/overview"]["jobs"][0]):
        page |= {"name": "B", "state": "CANCELED"}
    for source in (saved(documents), serve(documents)):
        made = import_instance("flink", [source], [("job", "B"), ("interval", "0")])
        assert made.instance.labels["job B"] == OTHER
        assert made.instance.num_tasks == 4
        assert any(f"B ran before: {JOB} (CANCELED): left out" in x for x in made.ledger.warnings)
    past = import_instance("flink", [saved(documents)], [("job", JOB)]).instance
    assert past.labels["job B"] == JOB
    documents[f"jobs/{OTHER}"]["state"] = "FINISHED"
    with pytest.raises(InvalidInput, match=rf"is the name of 2 jobs that ended .*{JOB}"):
        import_instance("flink", [saved(documents)], [("job", "B")])
    with pytest.raises(InvalidInput, match=r"holds no running job.*there is B \(CANCELED\), B \(F"):
        import_instance("flink", [saved(documents)])


def test_metrics_with_odd_numbers_are_passed_over(saved: Callable[..., str]) -> None:
    documents = hashed()
    documents[f"jobs/{JOB}/vertices/{MAP}/metrics"].append(
        {"id": "².busyTimeMsPerSecond", "value": "100"}
    )
    assert import_instance("flink", [saved(documents)]).instance.num_tasks == 10


def test_newer_documents_name_the_task_manager(saved: Callable[..., str]) -> None:
    documents = hashed(("elsewhere:1", "nowhere:2"))
    for name in (SOURCE, MAP, SINK):
        for i, subtask in enumerate(documents[f"jobs/{JOB}/vertices/{name}"]["subtasks"]):
            subtask["taskmanager-id"] = f"tm-{1 + i % 2}-container"
            subtask["endpoint"] = subtask.pop("host")
    instance = import_instance("flink", [saved(documents)]).instance
    assert instance.tasks.node.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]


def test_unknown_hosts_leave_no_current_placement(saved: Callable[..., str]) -> None:
    documents = systems.flink(("elsewhere:1", "nowhere:2"))
    made = import_instance("flink", [saved(documents)])
    assert not made.instance.has_current
    assert "where 2 subtasks of Source: orders run is not known" in made.ledger.warnings


def test_from_an_address(saved: Callable[..., str], serve: Callable[..., str]) -> None:
    documents = systems.flink()
    by_file = import_instance("flink", [saved(documents)]).instance
    by_net = import_instance("flink", [serve(documents)], [("interval", "0")]).instance
    assert by_net.sha256 == by_file.sha256


def test_plan_within_the_job_page(serve: Callable[..., str]) -> None:
    documents = hashed()
    plan = documents.pop(f"jobs/{JOB}/plan")["plan"]
    documents[f"jobs/{JOB}"]["plan"] = plan
    instance = import_instance("flink", [serve(documents)], [("interval", "0")]).instance
    assert len(instance.streams) == 2


def test_the_import_can_be_solved(saved: Callable[..., str]) -> None:
    instance = import_instance("flink", [saved(systems.flink())]).instance
    result = solve(instance, "imc-exact")
    assert result.termination == "optimal"
    assert result.evaluation is not None
    # all fit on one task manager of 4 slots and 4 cores: 2·0.5 + 0.9 + 3·0.25 + 4·0.1
    assert result.evaluation.internode_traffic == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda d: d.pop(f"jobs/{JOB}/plan"), "plan is missing"),
        (lambda d: d.pop("taskmanagers"), "there are no nodes"),
        (lambda d: d.pop(f"jobs/{JOB}"), "no job page"),
        (
            lambda d: d["taskmanagers"]["taskmanagers"][0].pop("slotsNumber"),
            r"taskmanagers\[0\]\.slotsNumber is missing",
        ),
        (lambda d: d["taskmanagers"]["taskmanagers"][1].update(id="tm-1-container"), "twice"),
        (lambda d: d[f"jobs/{JOB}"]["vertices"][0].pop("parallelism"), "parallelism is missing"),
        (
            lambda d: [
                page.update(parallelism=10**14)
                for page in (d[f"jobs/{JOB}"]["vertices"][0], d[f"jobs/{JOB}/vertices/{SOURCE}"])
            ],
            "is more than 1000000",
        ),
        (
            lambda d: [
                page.update(parallelism=3)
                for page in (d[f"jobs/{JOB}"]["vertices"][1], d[f"jobs/{JOB}/vertices/{MAP}"])
            ],
            "beyond the parallelism of 3",
        ),
        (
            lambda d: d[f"jobs/{JOB}/plan"]["plan"]["nodes"][1]["inputs"][0].update(id="zz"),
            r"inputs\[0\]\.id: 'zz' is no vertex",
        ),
        (lambda d: d[f"jobs/{JOB}/vertices/{MAP}"].update(id="zz"), "is a vertex of no job page"),
        (
            lambda d: d[f"jobs/{JOB}/vertices/{MAP}"]["subtasks"][1].update(subtask=0),
            "stands twice",
        ),
    ],
)
def test_what_is_needed_and_absent(
    saved: Callable[..., str], break_it: Callable[[dict[str, Any]], Any], told: str
) -> None:
    documents = systems.flink()
    break_it(documents)
    with pytest.raises(InvalidInput, match=told):
        import_instance("flink", [saved(documents)])
