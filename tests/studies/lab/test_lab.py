"""A small cluster of its own: a plan submitted, verified, and verified again after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from experiments.studies.lab.flink import MAIN, FlinkCluster, build_jar
from experiments.studies.lab.runner import Cluster, LabError, maven_jars, run_lab
from streamplace.cli.main import main
from streamplace.clusters.flink.exporter import Group, Sheet

ARGUMENTS = ["1", "2", "2", "1", "1", "100", "50"]
COUNTS = ({"a": 1}, {"b": 2}, {"a": 1, "b": 1}, {"b": 1}, {"a": 1})


def test_only_processes_of_the_folder_are_ended(tmp_path: Path) -> None:
    """What a killed run has left is ended by its id, unless another process has that id now."""
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        subprocess.Popen([*sleep, str(tmp_path)], start_new_session=True) as ours,
        subprocess.Popen(sleep, start_new_session=True) as another,
    ):
        try:
            record = {"tm1": [ours.pid], "tm2": [another.pid]}
            (tmp_path / "pids.json").write_text(json.dumps(record))
            Cluster(tmp_path).clear()
            assert ours.wait(600) == -signal.SIGKILL
            assert another.poll() is None
            assert not (tmp_path / "pids.json").exists()
        finally:
            another.kill()
            ours.kill()


def _is_dead(pid: int) -> bool:
    """Whether a process has ended, also where nobody has waited for it yet."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    processes = Cluster(tmp_path)
    code = (
        "import subprocess, sys, time; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); time.sleep(60)"
    )
    processes.launch("sv1", [sys.executable, "-c", code], os.environ, tmp_path / "out")
    while len(members := processes.members("sv1")) < 2:
        time.sleep(0.05)
    processes.kill("sv1")
    while not all(map(_is_dead, members)):
        time.sleep(0.05)
    assert processes.ended() == {}


def test_the_last_line_says_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(folder: Path, args: Namespace) -> tuple[str, bool]:
        if args.plans == 0:
            raise LabError(f"no plans: see {folder.name}")
        return f"{args.plans} plans", args.plans > 1

    handler = signal.getsignal(signal.SIGTERM)
    try:
        for plans, code, told in ((2, 0, "2 plans"), (1, 1, "1 plans"), (0, 1, "failed: no plans")):
            monkeypatch.setattr("sys.argv", ["x", "--folder", str(tmp_path), "--plans", str(plans)])
            assert run_lab("lab-x", "", work, ("--plans", {"type": int})) == code
            assert capsys.readouterr().out.startswith(f"lab-x: {told}")
    finally:
        signal.signal(signal.SIGTERM, handler)


def test_jars_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools, folder = tmp_path / "bin", tmp_path / "jars"
    tools.mkdir()
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda tool: None if tool == "mvn" else tool)
    with pytest.raises(LabError, match="mvn is not there: a:b:1 needs"):
        maven_jars(folder, "a:b:1")
    monkeypatch.setattr("shutil.which", lambda tool: tool)
    mvn = tools / "mvn"
    mvn.write_text("#!/bin/sh\necho no such artifact; exit 1\n")
    mvn.chmod(0o755)
    with pytest.raises(LabError, match="does not give a:b:1: no such artifact"):
        maven_jars(folder, "a:b:1")
    mvn.write_text("#!/bin/sh\ngrep -c '<artifactId>[bd]<' pom.xml >> calls; mkdir lib\n")
    for _ in range(2):
        assert maven_jars(folder, "a:b:1", "c:d:2") == folder / "lib"
    assert (folder / "calls").read_text() == "2\n"


@pytest.mark.live
@pytest.mark.slow
def test_counts_are_as_planned_also_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(
        "pyflink.version", reason="Flink is not installed: pip install 'streamplace[flink]'"
    )
    with FlinkCluster(tmp_path / "cluster") as lab:
        _go_through(lab, tmp_path)
        assert capsys.readouterr().out.count("7 of 7 subtasks as planned") == 2


def _go_through(lab: FlinkCluster, folder: Path) -> None:
    """Submit by a plan and verify; let a task manager fail, and verify again."""
    with lab.client() as client:
        jar = str(build_jar(client, folder))
        vertices = client.vertices_of(client.graph_of_jar(jar, MAIN, ARGUMENTS))
    groups = [
        Group(operator=name, job=MAIN, vertices={key: name}, parallelism=n, counts=counts)
        for (key, (name, n)), counts in zip(vertices.items(), COUNTS, strict=True)
    ]
    sheet = Sheet(tuple(groups), {})
    plan = str(folder / "sheet.json")
    Path(plan).write_text(json.dumps(sheet.to_dict()))
    for name in sheet.task_managers:
        lab.start(name, sheet.configuration(name))
    lab.wait_for({"a", "b"})
    patience = ["--timeout", "30", "--wait", "300"]
    submit = ["submit", "flink", lab.url, plan, "--jar", jar, "--class", MAIN, *patience]
    assert main([*submit, "--args", *ARGUMENTS]) == 0
    verify = ["verify", "flink", lab.url, plan, *patience]
    assert main(verify) == 0
    lab.kill("b")
    lab.wait_for({"a"})
    lab.start("b", sheet.configuration("b"))
    lab.wait_for({"a", "b"})
    assert main(verify) == 0
