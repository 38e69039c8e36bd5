"""A cluster over REST: rates read twice, hosts and links, and servers that lie."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from optim import evaluate, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange import pages as exchange_pages
from streamplace.clusters.exchange.declarations import Ledger
from streamplace.clusters.exchange.pages import read_page
from streamplace.clusters.exchange.sources import import_instance
from streamplace.clusters.flink import fetch as flink_fetch
from streamplace.clusters.flink import fetch as flink_sampling
from streamplace.clusters.flink.fetch import (
    CLOCK,
    Sample,
    difference,
    interval_of,
    sample_of,
    two_readings,
)
from streamplace.clusters.flink.model import megabytes
from streamplace.clusters.flink.pages import Metric
from tests.streamplace.clusters import systems
from tests.streamplace.clusters.systems import JOB, MAP, OTHER, SINK, SOURCE

NOW = [("interval", "0")]


def counters(seconds: float, out: float, read: float, busy: float, of: int) -> list[dict[str, Any]]:
    """Return metrics of `of` subtasks that ran so long at so many bytes/s and share of time."""
    values = {
        "accumulateBusyTimeMs": 1000 * busy * seconds,
        "accumulateIdleTimeMs": 1000 * (1 - busy) * seconds,
        "accumulateBackPressuredTimeMs": 0,
        "numBytesIn": read * seconds,
        "numBytesOut": out * seconds,
        "numBytesInPerSecond": 1.0,  # an old mean
        "numBytesOutPerSecond": 1.0,
        "busyTimeMsPerSecond": 1.0,
    }
    return [{"id": f"{i}.{k}", "value": str(v)} for i in range(of) for k, v in values.items()]


def in_turn(values: Iterable[Any]) -> Callable[[Any], Any]:
    """Answer each question with the next value, and in the end with the last one."""
    left = list(values)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class Store:
    """The job manager's store of metrics, whose time passes only while an import rests.

    A question finds it as it is. Where the last fill is an interval ago it is filled anew, and that
    is seen two questions later, or after a rest.
    """

    def __init__(self) -> None:
        self._now = 100.0
        self._filled = self._held = self._coming = 0.5
        self._until = 0

    def page(self, at: Callable[[float], Any]) -> Callable[[Any], Any]:
        """Return a page of what is at a given age."""

        def answer(_: Any) -> Any:
            self._until -= 1
            if self._until == 0:
                self._held = self._coming
            if self._now - self._filled >= 10:
                self._filled = self._coming = self._now
                self._until = 2
            return at(self._held)

        return answer

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self._held = self._coming
        self._now += seconds


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a store; imports rest in its time."""
    made = Store()
    monkeypatch.setattr(flink_sampling.time, "sleep", made.rest)
    return made


def growing(store: Store) -> dict[str, Any]:
    """Return the job of `systems.flink`, counting, whose load changed once."""
    documents = systems.flink()
    for vertex, of, read, out in ((SOURCE, 2, 0, 3e6), (MAP, 4, 1.5e6, 5e5), (SINK, 4, 5e5, 0)):

        def at(age: float, of: int = of, read: float = read, out: float = out) -> Any:
            if age < 1:
                return counters(age, 9 * out, 9 * read, 0.9, of)
            return counters(age, out, read, 0.25, of)

        documents[f"jobs/{JOB}/vertices/{vertex}/metrics"] = store.page(at)
    return documents


def test_rates_are_differences_of_counters(serve: Callable[..., str], store: Store) -> None:
    made = import_instance("flink", [serve(growing(store))])
    assert [s.rate for s in made.instance.streams] == [pytest.approx(6.0)]
    assert made.instance.tasks.load[:, 0].tolist() == pytest.approx([0.25] * 2 + [0.5] * 4)
    assert "rates are differences of counters between two readings" in made.ledger.readings


def test_a_subtask_that_started_anew_between_both_readings(
    serve: Callable[..., str], store: Store
) -> None:
    """11 s lie between them; its counters may exceed those of its first run all the same."""
    documents = growing(store)
    subtasks = documents[f"jobs/{JOB}/vertices/{MAP}"]["subtasks"]
    subtasks[2]["duration"] = 11_500
    import_instance("flink", [serve(documents)])
    subtasks[2]["duration"], subtasks[3]["duration"] = 10_500, 0
    with pytest.raises(InvalidInput, match=r"orders: Map/2 started anew while .* 1 more"):
        import_instance("flink", [serve(documents)])
    subtasks[2]["status"] = subtasks[3]["status"] = "FINISHED"
    import_instance("flink", [serve(documents)])


@pytest.mark.parametrize(("ended", "told"), [(10_500, True), (11_500, False)])
def test_a_vertex_that_ended_between_both_readings(
    serve: Callable[..., str], store: Store, ended: int, told: bool
) -> None:
    """The map read its 3 MB/s for a part of the time; the source is at rest now."""
    documents = growing(store)
    page = documents[f"jobs/{JOB}/vertices/{SOURCE}"]
    page["now"] = 1_000_000
    for subtask in page["subtasks"]:
        subtask |= {"status": "FINISHED", "end-time": 1_000_000 - ended}
    made = import_instance("flink", [serve(documents)])
    assert made.instance.tasks.load[:, 0].tolist() == pytest.approx([0.0] * 2 + [0.5] * 4)
    warned = "2 subtasks of Source: orders ended while rates were read"
    assert any(warned in text for text in made.ledger.warnings) == told


def test_a_clock_that_was_set_is_no_time(serve: Callable[..., str], store: Store) -> None:
    """An hour more at the second reading: 1.5 MB/s would be 4.6 kB/s. Flink's means stay."""
    documents = growing(store)
    documents[f"jobs/{JOB}/vertices/{MAP}/metrics"] = store.page(
        lambda age: [
            {"id": one["id"], "value": "250" if "busyTimeMsPer" in one["id"] else one["value"]}
            | ({"value": str(3.6e6)} if age > 105 and one["id"].endswith("IdleTimeMs") else {})
            | ({"value": "15e5"} if one["id"].endswith("BytesInPerSecond") else {})
            for one in counters(age, 5e5, 1.5e6, 0.25, 4)
        ]
    )
    made = import_instance("flink", [serve(documents)])
    assert [s.rate for s in made.instance.streams] == [pytest.approx(6.0)]
    assert "rates of 4 subtasks are Flink's own means over 60 s" in made.ledger.readings


@pytest.mark.parametrize("late", [True, False])
def test_a_subtask_that_is_not_in_the_second_reading(
    serve: Callable[..., str], store: Store, late: bool
) -> None:
    """It is asked for once more: its page has what it did since it started, 0.1 MB/s."""
    documents = growing(store)

    def at(age: float) -> Any:
        gone = 105 < age < (120 if late else 1e9)
        return [m for m in counters(age, 5e5, 1.5e6, 0.25, 4) if not (gone and m["id"][0] == "3")]

    documents[f"jobs/{JOB}/vertices/{MAP}/metrics"] = store.page(at)
    made = import_instance("flink", [serve(documents)])
    warned = [text for text in made.ledger.warnings if "no metrics at the second reading" in text]
    assert len(warned) == (not late)
    if late:
        assert [s.rate for s in made.instance.streams] == [pytest.approx(6.0)]
    else:
        assert warned[0].startswith("1 subtasks report")


def test_two_jobs_of_one_name_are_told(serve: Callable[..., str]) -> None:
    documents = systems.flink_pair()
    for entry in documents["jobs/overview"]["jobs"]:
        entry["name"] = "orders"
    for page in (JOB, OTHER):
        documents[f"jobs/{page}"]["name"] = "orders"
    made = import_instance("flink", [serve(documents)], [*NOW, ("job", "orders")])
    assert (
        f"2 jobs of the name orders run: all are imported: {JOB}, {OTHER}" in made.ledger.warnings
    )
    alone = import_instance("flink", [serve(documents)], [*NOW, ("job", JOB)])
    assert alone.instance.num_tasks < made.instance.num_tasks
    assert not [text for text in alone.ledger.warnings if "of the name" in text]


def with_processor(store: Store, cores: float) -> dict[str, Any]:
    """Return ten subtasks of one task manager, each busy for 0.25 s a second."""
    documents = growing(store)
    name = "tm-1-container"
    for vertex in (SOURCE, MAP, SINK):
        page = f"jobs/{JOB}/vertices/{vertex}"
        documents[page] = assigned(documents[page], name)
    documents[f"taskmanagers/{name}/metrics"] = store.page(
        lambda age: [{"id": "Status.JVM.CPU.Time", "value": str(1e9 * cores * age)}]
    )
    return documents


@pytest.mark.parametrize(("cores", "told"), [(0.2, True), (2.4, False)])
def test_waiting_for_a_processor_is_told(
    serve: Callable[..., str], store: Store, cores: float, told: bool
) -> None:
    made = import_instance("flink", [serve(with_processor(store, cores))])
    found = [text for text in made.ledger.warnings if "for longer than their process" in text]
    assert bool(found) == told
    if told:
        assert "on 1 of 1 task managers" in found[0]
        assert "2.5 s a second, of a processor 0.2" in found[0]


@pytest.mark.parametrize("cores", [0.2, 4.0])
def test_subtasks_share_what_their_process_computes(
    serve: Callable[..., str], store: Store, cores: float
) -> None:
    source = serve(with_processor(store, cores))
    made = import_instance("flink", [source], [("cpu", "process")])
    before = import_instance("flink", [source])
    load, busy = (m.instance.tasks.load[:, 0] for m in (made, before))
    assert load.sum() == pytest.approx(cores)
    assert (load / busy).tolist() == pytest.approx([cores / busy.sum()] * len(load))
    assert not [text for text in made.ledger.warnings if "their process" in text]


@pytest.mark.parametrize(
    ("held", "busy", "cores", "capacity"),
    # held back and waiting; nothing held; nobody full; a process that computes while it is busy
    [(0.7, 0.95, 0.4, 0.4), (0.0, 0.95, 0.4, 4.0), (0.7, 0.5, 0.4, 4.0), (0.7, 0.95, 3.9, 4.0)],
)
def test_a_process_that_gets_no_more_than_it_computes_is_full(
    serve: Callable[..., str], store: Store, held: float, busy: float, cores: float, capacity: float
) -> None:
    """What a job carries at its limit is what its placement carries, also of configured cores."""
    documents = with_processor(store, cores)
    for vertex, of, pressed, works in ((SOURCE, 2, held, 0.1), (MAP, 4, 0.0, busy)):

        def at(age: float, of: int = of, pressed: float = pressed, works: float = works) -> Any:
            entries = counters(age, 5e5, 1.5e6, works, of)
            for entry in entries:
                if "BackPressured" in entry["id"]:
                    entry["value"] = str(1000 * pressed * age)
                elif "Idle" in entry["id"]:
                    entry["value"] = str(1000 * (1 - works - pressed) * age)
            return entries

        documents[f"jobs/{JOB}/vertices/{vertex}/metrics"] = store.page(at)
    imported = import_instance("flink", [serve(documents)], [("cpu", "process")])
    instance = imported.instance
    assert instance.nodes.capacity[0, 0] == pytest.approx(capacity)
    told = [text for text in imported.ledger.warnings if "counts as its capacity" in text]
    assert bool(told) == (capacity < 4)
    running = evaluate(instance, Plan.from_indices(instance, instance.tasks.node))
    assert (running.sustainable_rate == pytest.approx(1.0)) == (capacity < 4)


def test_what_has_ended_has_no_part_of_its_process(serve: Callable[..., str], store: Store) -> None:
    documents = with_processor(store, 2.4)
    for entry in documents[f"jobs/{JOB}/vertices/{SOURCE}"]["subtasks"]:
        entry["status"] = "FINISHED"
    instance = import_instance("flink", [serve(documents)], [("cpu", "process")]).instance
    cpu = instance.tasks.load[:, 0].tolist()
    assert cpu == pytest.approx([0.0] * 2 + [0.6] * 4)  # maps and sinks are four chains


def test_what_a_process_takes_while_it_stands_still_is_its_nodes(
    serve: Callable[..., str], store: Store
) -> None:
    options = [("cpu", "process"), ("standing", "0.4")]
    instance = import_instance("flink", [serve(with_processor(store, 2.4))], options).instance
    assert instance.tasks.load[:, 0].sum() == pytest.approx(2.0)
    background = instance.nodes.background[:, 0].tolist()
    assert background == pytest.approx([0.4] * len(background))
    with pytest.raises(InvalidInput, match="uses no more than that"):
        import_instance("flink", [serve(with_processor(store, 0.2))], options)


def test_processors_that_are_not_told_are_refused(
    serve: Callable[..., str], saved: Callable[..., str], store: Store
) -> None:
    for source in (serve(growing(store)), saved(systems.flink())):
        with pytest.raises(InvalidInput, match="no processor time is reported"):
            import_instance("flink", [source], [("cpu", "process")])


def sample(seconds: float, busy: float) -> Sample:
    return sample_of(Metric(**entry) for entry in counters(seconds, 1e6, 2e6, busy, 1))


def test_counters_that_go_back_leave_the_means() -> None:
    before, now = (sample(s, 0.5) for s in (20.0, 5.0))
    document, counted = difference(before, now)
    assert counted == 0
    assert {entry.value for entry in document} == {1.0}
    assert difference({}, now)[1] == 0
    mixed = sample(40.0, 0.1)  # longer, but busy for less: another run
    assert difference(before, mixed)[1] == 0


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("1000", 1.0), ("10 s", 10.0), ("1 min", 60.0), ("soon", 10.0), (None, 10.0)],
)
def test_the_interval_of_the_store_is_the_clusters(told: Any, seconds: float) -> None:
    entry = {"key": "metrics.fetcher.update-interval", "value": told}
    assert interval_of([entry] if told else {"errors": []}) == seconds


def test_nothing_that_flows_is_refused(saved: Callable[..., str]) -> None:
    documents = systems.flink()
    for vertex in (SOURCE, MAP, SINK):
        for subtask in documents[f"jobs/{JOB}/vertices/{vertex}"]["subtasks"]:
            subtask["metrics"] |= {"read-bytes": 0, "write-bytes": 0}
    with pytest.raises(InvalidInput, match="nothing flows"):
        import_instance("flink", [saved(documents)])
    made = import_instance("flink", [saved(documents)], [("idle", "true")])
    assert made.instance.total_traffic == 0


def test_a_young_job_is_told(saved: Callable[..., str]) -> None:
    documents = systems.flink()
    documents[f"jobs/{JOB}/vertices/{MAP}"]["subtasks"][3]["duration"] = 20_000
    made = import_instance("flink", [saved(documents)])
    assert any("that run for 20 s" in text for text in made.ledger.warnings)


# -- servers that lie, are slow, or show half of it ------------------------------------------------


def test_nobody_there() -> None:
    with pytest.raises(InvalidInput, match="cannot be reached"):
        import_instance("flink", ["http://127.0.0.1:9"], NOW)


def overview(*states: str) -> dict[str, Any]:
    return {"jobs": [{"jid": JOB, "name": "orders", "state": state} for state in states]}


def managers(number: int) -> dict[str, Any]:
    whole = systems.flink()["taskmanagers"]
    return {"taskmanagers": whole["taskmanagers"][:number]}


def assigned(document: dict[str, Any], manager: str) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    for subtask in changed["subtasks"]:
        subtask["taskmanager-id"] = manager
    return changed


@pytest.mark.parametrize(
    ("page", "answers", "told"),
    [
        ("jobs/overview", [overview()], "has no running job; submit one|has no running job"),
        ("jobs/overview", [overview("RESTARTING")], r"there is orders \(RESTARTING\)"),
        ("jobs/overview", [overview("RUNNING"), overview("FINISHED")], "ran, and is FINISHED now"),
        ("jobs/overview", [overview("RUNNING"), overview()], "ran, and is gone now"),
        ("jobs/overview", [{"jobs": 3}], "jobs"),
        (f"jobs/{JOB}", [None], "job orders ended while it was read"),
        (f"jobs/{JOB}", [{"jid": OTHER, "vertices": []}], f"answers for {JOB}"),
        (f"jobs/{JOB}/vertices/{MAP}", [None], "job orders ended while it was read"),
        (f"jobs/{JOB}/vertices/{MAP}", [{"taskmanagers": []}], "subtasks is missing"),
        (f"jobs/{JOB}/vertices/{MAP}", [{"id": SINK, "subtasks": []}], f"answers for {MAP}"),
        (f"jobs/{JOB}/vertices/{MAP}/metrics", [[{"value": "1"}]], r"metrics\[0\].id is missing"),
        ("jobs/overview", [overview("RUNNING", "RUNNING")], "stands twice"),
        (f"jobs/{JOB}/vertices/{MAP}", [(500, {}, b"")], "answers 500"),
        (f"jobs/{JOB}/vertices/{MAP}", [(200, {}, b"<html>")], "is not JSON"),
        ("taskmanagers", [managers(2), managers(1)], "task manager tm-2-container.*left while"),
        ("taskmanagers", [managers(1), managers(2)], "task manager tm-2-container.*came while"),
        ("taskmanagers", [managers(0)], "there are no nodes"),
    ],
)
def test_a_cluster_that_changes_or_lies(
    serve: Callable[..., str], page: str, answers: list[Any], told: str
) -> None:
    documents = systems.flink()
    missing = (404, {}, b"")
    documents[page] = in_turn([missing if a is None else a for a in answers])
    with pytest.raises(InvalidInput, match=told):
        import_instance("flink", [serve(documents)], NOW)


def test_each_page_is_parsed_once_and_as_its_type(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Counter[tuple[str, str]] = Counter()

    def counted(kind: Any, value: Any, path: str, ledger: Ledger) -> Any:
        if kind != list[Metric]:  # asked for again and again
            parsed[kind.__name__, path] += 1
        return read_page(kind, value, path, ledger)

    for module in (flink_fetch, exchange_pages):
        monkeypatch.setattr(module, "read_page", counted)
    import_instance("flink", [serve(systems.flink())], NOW)
    looked_at_twice = {("TaskManagers", "taskmanagers"), ("Overview", "jobs/overview")}
    assert {page for page, times in parsed.items() if times > 1} == looked_at_twice
    kinds = {kind for kind, _ in parsed}
    assert kinds == {"TaskManagers", "Overview", "Job", "PlanPage", "VertexPage"}


def test_metrics_are_of_the_vertex_that_was_asked_for(
    serve: Callable[..., str], store: Store
) -> None:
    """Whatever its id: `a1` is a part of many ids."""
    documents = systems.flink_pair()
    vertices = [page for page in documents if "/vertices/" in page and not page.endswith("metrics")]
    for page in vertices:
        of = len(documents[page]["subtasks"])
        documents[f"{page}/metrics"] = store.page(
            lambda age, of=of: counters(age, 1e6, 1e6, 0.25, of)
        )
    made = import_instance("flink", [serve(documents)])
    assert not [text for text in made.ledger.warnings if "names no single vertex" in text]
    assert made.instance.tasks.load[:, 0].sum() == pytest.approx(
        0.25 * sum(len(documents[page]["subtasks"]) for page in vertices)
    )


def test_a_task_manager_that_is_not_listed(serve: Callable[..., str]) -> None:
    documents = systems.flink()
    page = f"jobs/{JOB}/vertices/{SINK}"
    documents[page] = assigned(documents[page], "tm-9-container")
    with pytest.raises(InvalidInput, match="tm-9-container' is a task manager that is not listed"):
        import_instance("flink", [serve(documents)], NOW)


def test_a_job_that_waits_for_slots(serve: Callable[..., str]) -> None:
    documents = systems.flink()
    page = assigned(documents[f"jobs/{JOB}/vertices/{SINK}"], "(unassigned)")
    page["subtasks"][2]["status"] = "SCHEDULED"
    documents[f"jobs/{JOB}/vertices/{SINK}"] = page
    with pytest.raises(InvalidInput, match="Sink/2: 'SCHEDULED' is not running"):
        import_instance("flink", [serve(documents)], NOW)


# -- hosts, links, cores ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rate"), [("1Gbit", 125.0), ("40 MB/s", 40.0), ("10Gbps", 1250.0), ("500kbit", 0.0625)]
)
def test_rates_of_links(text: str, rate: float) -> None:
    assert megabytes(text) == pytest.approx(rate)


@pytest.mark.parametrize("text", ["fast", "0Gbit", "1", "-1Gbit", "1 parsec"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(InvalidInput, match="no rate of a link"):
        megabytes(text)


def test_links_are_of_hosts(saved: Callable[..., str]) -> None:
    documents = systems.flink()
    third = copy.deepcopy(documents["taskmanagers"]["taskmanagers"][1]) | {"id": "third"}
    third["dataPort"] = 5
    documents["taskmanagers"]["taskmanagers"].append(third)
    made = import_instance("flink", [saved(documents)], [("link_rate", "1Gbit")])
    links = made.instance.to_dict()["links"]
    assert [(link["id"], link["nodes"], link["direction"]) for link in links] == [
        ("tm-1 out", ["tm-1-container"], "out"),
        ("tm-1 in", ["tm-1-container"], "in"),
        ("tm-2 out", ["tm-2-container", "third"], "out"),
        ("tm-2 in", ["tm-2-container", "third"], "in"),
    ]
    assert {link["capacity"] for link in links} == {125.0}


def test_cores_and_links_out_of_a_file(saved: Callable[..., str], tmp_path: Path) -> None:
    documents = systems.flink()
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager["hardware"]["cpuCores"] = 2
    made = import_instance("flink", [saved(documents)], [("cores", "configured")])
    assert made.instance.nodes.capacity[:, 0].tolist() == [4.0, 4.0]
    assert made.instance.nodes.labels[0]["cores of the machine"] == "2"
    assert any("configured for 4 cores, the machine has 2" in w for w in made.ledger.warnings)
    auto = import_instance("flink", [saved(documents)])
    assert auto.instance.nodes.capacity[:, 0].tolist() == [2.0, 2.0]  # no more than there is
    assert any("the machine has 2: those count" in w for w in auto.ledger.warnings)
    real = import_instance("flink", [saved(documents)], [("cores", "hardware")])
    assert real.instance.nodes.capacity[:, 0].tolist() == [2.0, 2.0]
    hosts = tmp_path / "hosts.json"
    hosts.write_text(json.dumps({"*": {"link": "1Gbit"}, "tm-2": {"cores": 16, "rack": "r"}}))
    said = import_instance("flink", [saved(documents)], [("hosts", str(hosts))]).instance
    assert said.nodes.capacity[:, 0].tolist() == [2.0, 16.0]
    assert said.to_dict()["nodes"][1]["rack"] == "r"
    assert len(said.links.ids) == 4
    for wrong, told in (
        ({"tm-7": {"cores": 1}}, "tm-7 is no host"),
        ({"*": {"link": "quick"}}, "no rate of a link"),
        ({"*": {"kernels": 4}}, "kernels"),
        ([], "must be"),
    ):
        hosts.write_text(json.dumps(wrong))
        with pytest.raises(InvalidInput, match=told):
            import_instance("flink", [saved(documents)], [("hosts", str(hosts))])


def test_what_runs_has_room_whatever_the_slots_say(saved: Callable[..., str]) -> None:
    """Where a plan was carried out there may be more slots than `slotsNumber`."""
    documents = systems.flink()
    for vertex in documents[f"jobs/{JOB}"]["vertices"]:
        vertex["slotSharingGroupId"] = vertex["id"]
    for manager in documents["taskmanagers"]["taskmanagers"]:
        manager |= {"slotsNumber": 1, "freeSlots": 0}
    instance = import_instance("flink", [saved(documents)]).instance
    assert evaluate(instance, Plan.from_indices(instance, instance.tasks.node)).feasible


def test_jobs_of_one_cluster_are_solved_together(saved: Callable[..., str]) -> None:
    instance = import_instance("flink", [saved(systems.flink_pair())]).instance
    assert instance.labels["job A"] == JOB
    assert instance.labels["job B"] == OTHER
    result = solve(instance, "imc-exact")
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic == pytest.approx(0.0)


def test_a_task_manager_that_was_not_read_in_time_is_asked_once_more() -> None:
    clocks = iter([(1, 1), (2, 1), (3, 2)])

    def ask() -> dict[str, dict[int, dict[str, float]]]:
        told = enumerate(next(clocks))
        return {"vertex": {i: dict.fromkeys(CLOCK, 1000.0 * at) for i, at in told}}

    first, second, _ = two_readings(ask, lambda: None, 0.0)
    assert [first["vertex"][i][CLOCK[0]] for i in (0, 1)] == [1000, 1000]
    assert [second["vertex"][i][CLOCK[0]] for i in (0, 1)] == [3000, 2000]
    clocks = iter([(1, 1), (1, 1), (3, 3)])  # none of them was
    assert two_readings(ask, lambda: None, 0.0)[1]["vertex"][0][CLOCK[0]] == 3000
