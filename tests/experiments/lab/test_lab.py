"""A small cluster of its own: a plan submitted, verified, and verified again after kill -9."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.cli.main import main
from experiments.flink.client import FlinkClient
from experiments.flink.sheet import Group, Sheet
from experiments.lab.cluster import HOST, Lab
from experiments.lab.jar import MAIN, build_jar

pytestmark = pytest.mark.slow
ARGUMENTS = ["1", "2", "2", "1", "1", "100", "50"]
COUNTS = ({"a": 1}, {"b": 2}, {"a": 1, "b": 1}, {"b": 1}, {"a": 1})


def test_counts_are_as_planned_also_after_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(
        "pyflink.version", reason="Flink is not installed: pip install 'streamplace[flink]'"
    )
    with FlinkClient(HOST, 9, {}) as client:
        jar = str(build_jar(client, tmp_path))
        vertices = client.vertices_of(client.graph_of_jar(jar, MAIN, ARGUMENTS))
    groups = [
        Group(operator=name, job=MAIN, vertices={key: name}, parallelism=n, counts=counts)
        for (key, (name, n)), counts in zip(vertices.items(), COUNTS, strict=True)
    ]
    sheet = Sheet(tuple(groups), {})
    plan = str(tmp_path / "sheet.json")
    Path(plan).write_text(json.dumps(sheet.to_dict()))
    with Lab(tmp_path / "cluster") as lab:
        for name in sheet.task_managers:
            lab.start(name, sheet.configuration(name))
        lab.wait_for({"a", "b"})
        submit = ["flink", "submit", lab.url, plan, "--jar", jar, "--class", MAIN, "--wait", "120"]
        assert main([*submit, "--", *ARGUMENTS]) == 0
        # what runs has the quotas: a second one is refused, and not sent
        assert main([*submit, "--", *ARGUMENTS]) == 2
        assert "cancel the job that runs there" in capsys.readouterr().err
        verify = ["verify", "flink", lab.url, plan, "--wait", "120"]
        assert main(verify) == 0
        lab.kill("b")
        lab.wait_for({"a"})
        lab.start("b", sheet.configuration("b"))
        lab.wait_for({"a", "b"})
        assert main(verify) == 0
        assert capsys.readouterr().out.count("7 of 7 subtasks as planned") == 2
