"""METIS graph and partition files, both ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optim import Instance, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import Imported, export_plan, import_instance
from streamplace.clusters.files import read_partition

# the manual's way of writing: sizes, one weight, edge weights
WEIGHTED = """% a remark
4 4 111
5 1 2 1 3 2
6 2 1 1 3 3
7 3 1 2 2 3 4 4
8 4 3 4
"""


def load(folder: Path, text: str, *options: tuple[str, str], name: str = "g.graph") -> Imported:
    path = folder / name
    path.write_text(text)
    return import_instance("metis", [str(path)], options)


def test_weights_sizes_and_edges(tmp_path: Path) -> None:
    made = load(tmp_path, WEIGHTED, ("parts", "2"), ("imbalance", "0.1"))
    instance = made.instance
    assert instance.tasks.ids == ("1", "2", "3", "4")
    assert instance.tasks.load[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert instance.tasks.state.tolist() == [5.0, 6.0, 7.0, 8.0]
    assert instance.nodes.capacity[:, 0].tolist() == [5.5, 5.5]
    u, v, rate = instance.pairs
    assert list(zip(u, v, rate, strict=True)) == [
        (0, 1, 1.0),
        (0, 2, 2.0),
        (1, 2, 3.0),
        (2, 3, 4.0),
    ]
    assert not made.ledger.warnings


def test_plain_graph_with_a_lonely_vertex(tmp_path: Path) -> None:
    instance = load(tmp_path, "3 1\n2\n1\n\n").instance
    assert instance.num_tasks == 3
    assert instance.total_traffic == 1.0
    assert instance.tasks.load[:, 0].tolist() == [1.0, 1.0, 1.0]


def test_edges_of_one_direction_and_other_weights_are_told(tmp_path: Path) -> None:
    made = load(tmp_path, "3 3 001\n2 5 3 1\n1 7\n\n")
    assert made.ledger.warnings == [
        "1 edges stand in one direction only: taken as they are",
        "1 edges differ in their two directions: the larger weight counts",
        "the header says 3 edges, the file holds 2",
    ]
    assert made.instance.pairs.rate.tolist() == [7.0, 1.0]


def test_several_weights(tmp_path: Path) -> None:
    instance = load(tmp_path, "2 1 10 2\n3 4 2\n5 6 1\n").instance
    assert instance.resources == ("weight", "weight 2")
    assert instance.tasks.load.tolist() == [[3.0, 4.0], [5.0, 6.0]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("nonsense\n", "is no header"),
        ("3\n", "is no header"),
        ("3 1 21\n1\n2\n3\n", "'21' is no format"),
        ("3 1\n2\n1\n", "vertex lines are not the 3"),
        ("2 1\n2\n1\n1\n", "vertex lines are not the 2"),
        ("2 1\n3\n1\n", "line 2: 3 is no other vertex"),
        ("2 1\n1\n1\n", "is no other vertex"),
        ("2 1\n2 2\n1\n", "stands twice"),
        ("2 1\nx\n1\n", "'x' is no whole number"),
        ("2 1\n-1\n1\n", "'-1' is no whole number"),
        ("2 1 001\n2\n1 1\n", "do not fit the header's format"),
        ("99999999999 1\n1\n", "asks for 1 to"),
        ("0 0\n", "asks for 1 to"),
    ],
)
def test_refusals(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        load(tmp_path, text)


def test_import_solve_export_import(tmp_path: Path) -> None:
    first = load(tmp_path, WEIGHTED).instance
    plan = solve(first, "imc-exact").plan
    assert plan is not None
    export_plan("metis", first, plan).save(tmp_path / "g.part.2")
    again = import_instance(
        "metis", [str(tmp_path / "g.graph")], placement=str(tmp_path / "g.part.2")
    ).instance
    assert again.tasks.node.tolist() == plan.node_indices(first).tolist()


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.integers(0, 9), min_size=n, max_size=n),
            st.dictionaries(
                st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(
                    lambda p: p[0] < p[1]
                ),
                st.integers(1, 99),
                max_size=10,
            )
            if n > 1
            else st.just({}),
        )
    )
)
def test_graphs_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    graph: tuple[int, list[int], dict[tuple[int, int], int]],
) -> None:
    _, weights, edges = graph
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "g",
            "nodes": [{"id": "0"}],
            "tasks": [{"id": str(i), "load": {"cpu": w}} for i, w in enumerate(weights)],
            "traffic": [[str(a), str(b), r] for (a, b), r in edges.items()],
        }
    )
    text = export_plan("metis-graph", instance, None).texts[""]
    back = load(tmp_path_factory.mktemp("g"), text).instance
    assert back.tasks.load[:, 0].tolist() == [float(w) for w in weights]
    for column, other in zip(back.pairs, instance.pairs, strict=True):
        assert np.array_equal(column, other)


def test_fractions_are_scaled(tmp_path: Path) -> None:
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "g",
            "nodes": [{"id": "0"}],
            "tasks": [{"id": "a", "load": {"cpu": 0.5}}, {"id": "b", "load": {"cpu": 0.25}}],
            "traffic": [["a", "b", 0.001]],
        }
    )
    done = export_plan("metis-graph", instance, None, [("scale", "100")])
    assert done.texts[""] == "2 1 011\n100 2 100\n50 1 100\n"
    assert (
        done.ledger.readings[0] == "loads of cpu are scaled so that the largest is 100, and rounded"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0\n1\n", "not the 4 tasks"),
        ("0\n1\n2\n0\n", "no part from 0 to 1"),
        ("0\n1\n²\n0\n", "line 3: '²' is no part"),
    ],
)
def test_partition_files_that_do_not_fit(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_partition(text, load(tmp_path, WEIGHTED).instance)


def test_a_plan_of_another_instance_is_refused(tmp_path: Path) -> None:
    instance = load(tmp_path, WEIGHTED).instance
    with pytest.raises(InvalidInput, match="is not a node of the instance"):
        export_plan("metis", instance, Plan("g", dict.fromkeys("1234", "7")))
    with pytest.raises(InvalidInput, match=r"assignment.4 is missing \(a plan that places every"):
        export_plan("metis", instance, Plan("g", dict.fromkeys("123", "0")))
    with pytest.raises(InvalidInput, match="is not a task of the instance"):
        export_plan("metis", instance, Plan("g", dict.fromkeys("12345", "0")))
    with pytest.raises(InvalidInput, match="PLAN is missing"):
        export_plan("metis", instance, None)
    other = load(tmp_path, WEIGHTED, ("imbalance", "0.5"), name="h.graph").instance
    plan = solve(other, "imc-exact").plan
    with pytest.raises(InvalidInput, match="is another instance's"):
        export_plan("metis", instance, plan)
