"""Storm's own reports: messages that cross between nodes, each worker between its own two."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from optim import Instance
from optim.errors import InvalidInput
from streamplace.cli.main import main
from streamplace.clusters.storm.nimbus import Crossing, Place, crossing, folder_in, read_workers
from tests.streamplace.clusters.nimbus import Fake, Served

ID = "words-1-17"
A, B, C = ("10.0.0.1", 6700), ("10.0.0.1", 6701), ("10.0.0.2", 6700)
NODES = {A: "n1", B: "n1", C: "n2"}


def write(folder: Path, at: Place, metric: str, rows: Mapping[int, float], kind: str) -> None:
    host = at[0].replace(".", "_")
    path = folder / f"storm.{kind}.{ID}.{host}.{metric.replace('PORT', str(at[1]))}.csv"
    path.write_text("t,value\n" + "".join(f"{t},{n:.12g}\n" for t, n in rows.items()))


def report(
    folder: Path, at: Place, times: list[int], rate: float, sent: Mapping[Place, float],
    started: int = 90,
) -> None:  # fmt: skip
    """Let a worker report at some times, and a second after its start, with rates since then."""
    times = [started + 1, *times]
    at_start = {t: float(started) for t in times}
    write(folder, at, "__system.-1.PORT-startTimeSecs", at_start, "topology")
    given = {t: rate * (t - started) for t in times}
    write(folder, at, "split.default.7.PORT-__transfer-count-default", given, "worker")
    write(folder, at, "split.default.7.PORT-__transfer-count-default.m1_rate", given, "worker")
    for (host, port), each in sent.items():
        rows = {t: each * (t - started) for t in times}
        metric = f"__system.-1.PORT-__send-iconnection-sent-{host}:{port}"
        write(folder, at, metric, rows, "worker")


def test_between_two_reports_of_each_worker(tmp_path: Path) -> None:
    report(tmp_path, A, [100, 110, 120], 60.0, {B: 10.0, C: 20.0})
    report(tmp_path, B, [103, 113], 40.0, {C: 5.0})
    report(tmp_path, C, [95, 105, 115], 100.0, {A: 30.0})
    found = crossing(read_workers(tmp_path, ID), NODES)
    assert found == Crossing(pytest.approx(55.0), pytest.approx(200.0))


def test_all_workers_count_at_the_same_time(tmp_path: Path) -> None:
    """One that runs for longer sent ten times as much before: only what all reported counts."""
    report(tmp_path, A, [100, 110, 120, 130], 0.0, {})
    given = {100: 0.0, 110: 10000.0, 120: 11000.0, 130: 12000.0}
    write(tmp_path, A, "split.default.7.PORT-__transfer-count-default", given, "worker")
    sent = f"__system.-1.PORT-__send-iconnection-sent-{C[0]}:{C[1]}"
    write(tmp_path, A, sent, given, "worker")
    report(tmp_path, B, [119, 129], 100.0, {}, started=112)
    report(tmp_path, C, [121, 131], 100.0, {}, started=112)
    found = crossing(read_workers(tmp_path, ID), NODES)
    assert found == Crossing(pytest.approx(100.0), pytest.approx(300.0))


def test_counts_before_a_restart_are_another_workers(tmp_path: Path) -> None:
    for at in (A, B, C):
        report(tmp_path, at, [100, 110], 100.0, {A: 10.0} if at != A else {})
    path = next(tmp_path.glob("*10_0_0_2*startTime*"))
    path.write_text("t,value\n80,20\n91,90\n100,90\n110,90\n")
    for file in tmp_path.glob("*10_0_0_2*6700-__*[!e].csv"):
        lines = file.read_text().splitlines()
        file.write_text("\n".join([lines[0], "80,99999", *lines[1:]]) + "\n")
    found = crossing(read_workers(tmp_path, ID), NODES)
    assert found == Crossing(pytest.approx(10.0), pytest.approx(300.0))


# start, messages given, and messages sent to the other worker, by report: two workers of a Storm
# 2.8.3 that a rebalance stopped at 152 and at 154, after the connections were closed
STOPPED = {
    A: (
        114,
        {135: 12265.0, 140: 15606.0, 145: 19109.0, 150: 22605.0, 154: 23713.0},
        {135: 1683.0, 140: 2358.0, 145: 2919.0, 150: 3423.0},
    ),
    C: (
        131,
        {137: 573.0, 142: 1221.0, 147: 1704.0, 152: 2214.0, 154: 2214.0},
        {137: 573.0, 142: 1221.0, 147: 1704.0},
    ),
}


@pytest.mark.parametrize(
    ("last", "ends"), [(150, ""), (152, "2:6700"), (154, "1:6700, 10.0.0.2:6700")]
)
def test_the_last_report_of_a_worker_that_is_stopped(tmp_path: Path, last: int, ends: str) -> None:
    """It has no connections any more: .000 was measured where .275 was predicted."""
    for at, to in ((A, C), (C, A)):
        started, given, sent = STOPPED[at]
        rows = {t: n for t, n in given.items() if t <= last}
        start = dict.fromkeys(rows, started)
        write(tmp_path, at, "__system.-1.PORT-startTimeSecs", start, "topology")
        write(tmp_path, at, "split.default.7.PORT-__transfer-count-default", rows, "worker")
        name = f"__system.-1.PORT-__send-iconnection-sent-{to[0]}:{to[1]}"
        write(tmp_path, at, name, {t: n for t, n in sent.items() if t <= last}, "worker")
    found = crossing(read_workers(tmp_path, ID), {A: "n1", C: "n2"})
    if ends:
        assert f"{ends} reported less than three times" in str(found)
    else:
        assert found == Crossing((2919 - 2358 + 1704 - 1221) / 5, (19109 - 15606 + 1704 - 1221) / 5)


def test_reports_of_a_worker_before_the_one_that_runs(tmp_path: Path) -> None:
    """Nimbus says that it runs for at most 15 s: what was counted for 19 s is another's.

    A process that is there for 10 s more before it counts may be the same.
    """
    for at in (A, B, C):
        report(tmp_path, at, [100, 110], 100.0, {A: 10.0} if at != A else {})
    workers = read_workers(tmp_path, ID)
    assert crossing(workers, NODES, oldest={A: 19.0}) == Crossing(10.0, 300.0)
    assert "10.0.0.1:6700 reported" in str(crossing(workers, NODES, oldest={A: 15.0, B: 20.0}))


def test_the_first_report_after_a_start_does_not_count(tmp_path: Path) -> None:
    """Executors begin one after the other: .901 would cross in the first 5 s, of .500 later."""
    for at in (A, C):
        report(tmp_path, at, [100, 105, 110, 115], 0.0, {})
    given = {91: 0.0, 100: 910.0, 105: 1910.0, 110: 2910.0, 115: 3910.0}
    sent = {91: 0.0, 100: 820.0, 105: 1320.0, 110: 1820.0, 115: 2320.0}
    write(tmp_path, A, "split.default.7.PORT-__transfer-count-default", given, "worker")
    name = f"__system.-1.PORT-__send-iconnection-sent-{C[0]}:{C[1]}"
    write(tmp_path, A, name, sent, "worker")
    nodes = {A: "n1", C: "n2"}
    assert crossing(read_workers(tmp_path, ID), nodes) == Crossing(100.0, 200.0)


def test_few_messages_are_no_share(tmp_path: Path) -> None:
    """Those of a minute, else all since the workers run together."""
    for at in (A, B, C):
        report(tmp_path, at, [100, 110, 160, 170], 5.0, {A: 1.0} if at != A else {})
    workers = read_workers(tmp_path, ID)
    assert crossing(workers, NODES) == Crossing(1.0, 15.0)
    for worker in workers.values():
        for t in (100, 110):
            del worker.started[t]
    assert str(crossing(workers, NODES)).startswith("150 messages were sent between reports")


def test_workers_that_do_not_count_what_they_send(tmp_path: Path) -> None:
    for at in (A, B, C):
        report(tmp_path, at, [100, 110], 100.0, {})
    workers = read_workers(tmp_path, ID)
    assert "report no __send-iconnection-sent-HOST:PORT" in str(crossing(workers, NODES))
    assert crossing(workers, dict.fromkeys(NODES, "n1")) == Crossing(0.0, 300.0)


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        ({100: 2**31 - 500.0, 110: -(2.0**31) + 500}, 100.0),  # a whole number of 32 bits
        ({100: 5000.0, 105: 5500.0, 110: 500.0}, 100.0),  # a connection that was made anew
        ({105: 500.0, 110: 1000.0}, 100.0),  # one that was made in between
    ],
)
def test_counts_of_connections_that_begin_again(
    tmp_path: Path, counts: dict[int, float], rate: float
) -> None:
    for at in (A, C):
        report(tmp_path, at, [100, 105, 110], 100.0, {})
    name = f"__system.-1.PORT-__send-iconnection-sent-{C[0]}:{C[1]}"
    write(tmp_path, A, name, counts, "worker")
    found = crossing(read_workers(tmp_path, ID), {A: "n1", C: "n2"})
    assert found == Crossing(rate, 200.0)


@pytest.mark.parametrize(
    ("times", "told"),
    [([110], "10.0.0.2:6700 reported less"), ([10, 20], "10.0.0.2:6700 reported less")],
)
def test_a_worker_that_does_not_report(tmp_path: Path, times: list[int], told: str) -> None:
    report(tmp_path, A, [100, 110], 10.0, {})
    report(tmp_path, B, [100, 110], 10.0, {})
    report(tmp_path, C, times, 10.0, {}, started=5)
    assert told in str(crossing(read_workers(tmp_path, ID), NODES))


def test_a_file_that_is_no_report(tmp_path: Path) -> None:
    report(tmp_path, A, [100, 110], 10.0, {})
    next(tmp_path.glob("*default.csv")).write_text("t,value\n5,x\n")
    with pytest.raises(InvalidInput, match="is no report of CsvStormReporter"):
        read_workers(tmp_path, ID)
    with pytest.raises(InvalidInput, match="is no folder"):
        read_workers(tmp_path / "none", ID)


def test_where_workers_report(tmp_path: Path) -> None:
    csv = {"class": "org.apache.storm.metrics2.reporters.CsvStormReporter"}
    key = "topology.metrics.reporters"
    assert folder_in({})[1] == f"the topology has no CsvStormReporter in {key}"
    assert folder_in({key: [csv | {"csv.log.dir": str(tmp_path)}]}) == (tmp_path, "")
    assert "collect the files" in folder_in({key: [csv | {"csv.log.dir": "/none/there"}]})[1]
    assert "collect the files" in folder_in({key: [csv]})[1]


def test_verify_says_the_share_or_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = Fake()
    workers: dict[str, list[str]] = {}
    components: dict[str, list[str]] = {}
    for name, (host, port) in fake.at.items():
        workers.setdefault(f"{host}:{port}", []).append(name)
        components.setdefault(fake.components[name], []).append(name)
    document = {
        "format": "streamplace.storm/1",
        "topologies": {"words": {"workers": workers, "components": components}},
        "remote_share": 0.5,
    }
    plan = tmp_path / "placement.json"
    plan.write_text(json.dumps(document))
    reports = tmp_path / "reports"
    reports.mkdir()
    with Served(fake) as url:
        assert main(["verify", "storm", url, str(plan), "--reports", str(reports)]) == 0
        assert f"is not measured: words: {reports} holds no report of" in capsys.readouterr().out
    one, two, three = ("h1", 6700), ("h2", 6700), ("h2", 6701)
    report(reports, one, [100, 110], 50.0, {two: 20.0, three: 11.0})
    report(reports, two, [100, 110], 30.0, {one: 20.0, three: 5.0})
    report(reports, three, [100, 110], 20.0, {})
    with Served(fake) as url:
        assert main(["verify", "storm", url, str(plan)]) == 0
        assert "remote share is not measured: words: the topology has no" in capsys.readouterr().out
        assert main(["verify", "storm", url, str(plan), "--reports", str(reports)]) == 0
        assert "remote share 0.510 measured, 0.500 predicted\n" in capsys.readouterr().out
        assert main(["verify", "storm", url, str(plan), "--reports", str(plan)]) == 2
        csv = {"class": "a.CsvStormReporter", "csv.log.dir": str(reports)}
        fake.settings["topology.metrics.reporters"] = [csv]
        assert main(["verify", "storm", url, str(plan), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["measured_share"], told["share_unknown"]) == (pytest.approx(0.51), None)
        # reports of 50 s in one process; the one that runs began 5 s ago
        report(reports, one, [100, 110, 150], 50.0, {two: 20.0, three: 11.0})
        report(reports, two, [100, 110, 150], 30.0, {one: 20.0, three: 5.0})
        report(reports, three, [100, 110, 150], 20.0, {})
        fake.settings["executor.metrics.frequency.secs"] = 5
        fake.started = dict.fromkeys(fake.at, fake.clock)
        assert main(["verify", "storm", url, str(plan)]) == 0
        assert "h1:6700, h2:6700, h2:6701 reported less than three times" in capsys.readouterr().out
        fake.started = {"1-1": fake.clock + 100}
        assert main(["verify", "storm", url, str(plan)]) == 1
        assert "is not measured: words: executors [1-1] do not run yet" in capsys.readouterr().out


def test_executors_share_what_their_process_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bolts are busy 5 % (split) and 24, 6 % (count) of the time; processes compute otherwise."""
    fake = Fake()
    fake.at = dict.fromkeys(("1-1", "2-2", "4-4"), ("h1", 6700))  # acker, count .24 busy, spout
    fake.at |= dict.fromkeys(("3-3", "5-5", "6-6"), ("h2", 6700))  # count .06, two of split .05
    command = ["import", "storm", "", "-o", str(tmp_path / "i.json"), "--option", "cpu=process"]
    command += ["--option", "interval=1", "-q"]
    with Served(fake) as url:
        command[2] = url
        assert main(command) == 2
        assert "has no CsvStormReporter" in capsys.readouterr().err
        command += ["--option", f"reports={tmp_path}"]
        for at, cores in ((("h1", 6700), 1.0), (("h2", 6700), 0.08)):
            report(tmp_path, at, [100, 110, 140], 1.0, {})
            rows = {100: 9.0, 110: cores, 140: cores}  # the first is of the time before
            write(tmp_path, at, "__system.-1.PORT-workerCpuUsage", rows, "topology")
        assert main(command) == 0
        # reports of 40 s in one process; the one that runs began 10 s before
        before, fake.started = fake.settings, dict.fromkeys(fake.at, fake.clock)
        fake.settings = before | {"executor.metrics.frequency.secs": 5}
        assert main(command) == 2
        assert "h1:6700, h2:6700 reported no workerCpuUsage twice" in capsys.readouterr().err
        fake.settings, fake.started = before, {}
        next(tmp_path.glob("*h2*Usage.csv")).unlink()
        assert main(command) == 2
        assert "h2:6700 reported no workerCpuUsage twice" in capsys.readouterr().err
    live = Instance.load(tmp_path / "i.json")
    cpu = dict(zip(live.tasks.ids, live.tasks.load[:, 0].tolist(), strict=True))
    assert cpu["count[2-2]"] == pytest.approx(24.0)  # no more than it is busy
    assert cpu["lines[4-4]"] == pytest.approx(100 - 24 - cpu["__acker[1-1]"])
    assert cpu["split[5-5]"] == pytest.approx(8.0 * 5 / 16)
    assert cpu["count[3-3]"] == pytest.approx(8.0 * 6 / 16)
    assert main(["import", "storm", str(tmp_path), "--option", "cpu=process", "-o", "x"]) == 2
    assert "needs Nimbus and the workers' reports" in capsys.readouterr().err
