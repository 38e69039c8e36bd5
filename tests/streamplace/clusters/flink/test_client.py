"""Flink's own client: programs become job graphs, and get the groups of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.studies.lab.flink import MAIN, build_jar
from optim.errors import InvalidInput
from streamplace.clusters.flink.exporter import Group, Sheet
from streamplace.clusters.flink.submit import (
    FlinkClient,
    flink_jars,
    groups_of_job,
    read_script,
    reason_of,
)

pytestmark = pytest.mark.slow
SQL = """
SET 'parallelism.default' = '3';
CREATE TABLE clicks (user_id INT) WITH
  ('connector' = 'datagen', 'rows-per-second' = '5', 'fields.user_id.max' = '9');
CREATE TABLE counted (user_id INT, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counted SELECT user_id, COUNT(*) FROM clicks GROUP BY user_id;
"""


@pytest.fixture(scope="module")
def client() -> Any:
    """A JVM with Flink's client; nobody listens at its address."""
    pytest.importorskip(
        "pyflink.version", reason="Flink is not installed: pip install 'streamplace[flink]'"
    )
    with FlinkClient("127.0.0.1", 9, {}) as made:
        yield made


def sheet(vertices: dict[str, tuple[str, int]]) -> Sheet:
    """Return a plan that has all of each vertex on one task manager."""
    groups = [
        Group(operator=name, job="j", vertices={v: name}, parallelism=n, counts={"tm1": n})
        for v, (name, n) in vertices.items()
    ]
    return Sheet(tuple(groups), {"j": "0" * 32})


def test_a_jar_is_regrouped_and_else_as_it_was(client: FlinkClient, tmp_path: Path) -> None:
    jar = str(build_jar(client, tmp_path))
    arguments = ["2", "3", "3", "2", "1", "100", "50"]
    graph = client.graph_of_jar(jar, MAIN, arguments)
    vertices = client.vertices_of(graph)
    assert [n for _, n in vertices.values()] == [2, 3, 3, 2, 1]
    assert client.vertices_of(client.graph_of_jar(jar, MAIN, arguments)) == vertices
    plan = sheet(vertices)
    client.regroup(graph, plan, groups_of_job(plan, vertices), managed=16)
    assert client.vertices_of(graph) == vertices
    for vertex, group in zip(
        graph.getVerticesSortedTopologicallyFromSources(), plan.groups, strict=True
    ):
        made = vertex.getSlotSharingGroup()
        assert made.getSlotSharingGroupName() == plan.resource(group)
        profile = made.getResourceProfile()
        assert profile.getExtendedResources()[plan.resource(group)].getValue() == 1
        assert profile.getManagedMemory().getMebiBytes() == 16


def test_a_script_is_one_graph(client: FlinkClient) -> None:
    graph = client.graph_of_sql(read_script(SQL))
    vertices = list(client.vertices_of(graph).values())
    assert [n for _, n in vertices] == [3, 3]
    assert "clicks" in vertices[0][0]


def test_a_program_that_fails_says_why(client: FlinkClient, tmp_path: Path) -> None:
    from py4j.protocol import Py4JJavaError

    jar = str(build_jar(client, tmp_path))
    with pytest.raises(Py4JJavaError) as caught:
        client.graph_of_jar(jar, MAIN, ["two"])
    assert 'NumberFormatException: For input string: "two"' in reason_of(caught.value)


def test_a_folder_without_flink(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no flink-dist"):
        flink_jars(str(tmp_path))
