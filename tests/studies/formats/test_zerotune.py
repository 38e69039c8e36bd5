"""ZeroTune graphs: a small one by hand, and the published ones where they are here."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optim.errors import InvalidInput
from optim.referee import evaluate_indices
from streamplace.clusters.exchange.sources import Imported, import_instance


def instances(*entries: tuple[str, float, float | None]) -> str:
    texts = [
        f"{{outputRate={out}, avgCPULoad=9.5, "
        + (f"inputRate={into}, " if into is not None else "")
        + f"host={host}}}"
        for host, out, into in entries
    ]
    return "[" + ", ".join(texts) + "]"


def graph(**changes: Any) -> str:
    """A source of 2, forwarded to a filter of 2, hashed to a keyed aggregate of 3; hosts h1, h2."""
    parts = {
        "source": instances(("h1", 60.0, None), ("h2", 40.0, None)),
        "filter": instances(("h2", 4.0, 40.0), ("h1", 6.0, 60.0)),
        "aggregate": instances(("h1", 1.0, 5.0), ("h1", 1.0, 3.0), ("h1", 1.0, 2.0)),
        "edges": '"q-0" -- "q-1"; "q-1" -- "q-2"; "q-0" -- "h1" ["occurences"=1]; "h1" -- "h2";',
        "parallelism": 2,
        "cores": '"physicalCPUCores"="8"',
    } | changes
    return f"""graph {{
    "q-0" ["operatorType"="SourceOperator","parallelism"=2,"instances"="{parts["source"]}"];
    "q-1" ["operatorType"="FilterOperator","parallelism"={parts["parallelism"]},
           "instances"="{parts["filter"]}","component"="0"];
    "q-2" ["operatorType"="WindowedAggregateOperator","parallelism"=3,"keyByClass"="Integer",
           "instances"="{parts["aggregate"]}"];
    "h1" ["operatorType"="PhysicalNode",{parts["cores"]},"host"="h1"];
    "h2" ["operatorType"="PhysicalNode","physicalCPUCores"="4","host"="h2"];
    {parts["edges"]}
}}
"""


def load(tmp_path: Path, text: str, *options: tuple[str, str]) -> Imported:
    path = tmp_path / "job.graph.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return import_instance("zerotune", [str(path)], options)


def test_placement_slots_and_pairs(tmp_path: Path) -> None:
    made = load(tmp_path, graph())
    instance = made.instance
    assert instance.name == "job"
    assert instance.nodes.ids == ("h1", "h2")
    assert instance.tasks.node.tolist() == [0, 1, 1, 0, 0, 0, 0]
    assert instance.tasks.load[:, 0].tolist() == [1.0] * 7
    # h1 has 5 instances on 8 cores, h2 2 on 4: 5/8 a core, 5 and 2.5 slots
    assert instance.nodes.capacity[:, 0].tolist() == [5.0, 2.0]
    pairs = {
        (instance.tasks.ids[a], instance.tasks.ids[b]): r
        for a, b, r in zip(*(np.asarray(c).tolist() for c in instance.pairs), strict=True)
    }
    # forwarded within each host, in the list's other order
    assert pairs["source-0/0", "filter-1/1"] == 60.0
    assert pairs["source-0/1", "filter-1/0"] == 40.0
    assert ("source-0/0", "filter-1/0") not in pairs
    # hashed: what is sent, in proportion to what is received
    assert pairs["filter-1/1", "windowedaggregate-2/0"] == pytest.approx(6.0 * 0.5)
    assert pairs["filter-1/0", "windowedaggregate-2/2"] == pytest.approx(4.0 * 0.2)
    assert not made.ledger.ignored
    for word in ("FORWARD", "avgCPULoad is its host's", "slots by cores", "in proportion"):
        assert word in instance.origin


def test_even_rates_and_slots_as_placed(tmp_path: Path) -> None:
    made = load(tmp_path, graph(), ("rates", "even"), ("capacity", "placed"))
    instance = made.instance
    assert instance.nodes.capacity[:, 0].tolist() == [5.0, 2.0]
    assert len(instance.traffic.rate) == 2  # the forwarded pairs; the rest is a full stream
    assert instance.traffic.rate.tolist() == [50.0, 50.0]
    assert instance.streams[1].rate == pytest.approx(10.0)
    assert instance.total_traffic == pytest.approx(110.0)


def test_even_rates_are_those_of_all_instances_also_of_one_that_sent_nothing(
    tmp_path: Path,
) -> None:
    source = instances(("h1", 100.0, None), ("h2", 0.0, None))
    instance = load(tmp_path, graph(source=source), ("rates", "even")).instance
    assert instance.traffic.rate.tolist() == [50.0, 50.0]
    measured = load(tmp_path, graph(source=source)).instance
    assert measured.total_traffic == pytest.approx(110.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism": 5},
        {"filter": instances(("h1", 4.0, 40.0), ("h1", 6.0, 60.0))},
    ],
)
def test_no_forwarding(tmp_path: Path, changes: dict[str, Any]) -> None:
    instance = load(tmp_path, graph(**changes)).instance
    assert [s.pattern for s in instance.streams] == ["full", "full"]


def test_instances_that_were_not_measured(tmp_path: Path) -> None:
    made = load(tmp_path, graph(parallelism=5))
    assert made.ledger.warnings == [
        "3 instances of 1 operators were not measured, and are left out"
    ]


def test_an_edge_to_itself_stands_for_the_one_before(tmp_path: Path) -> None:
    made = load(tmp_path, graph(edges='"q-0" -- "q-1"; "q-2" -- "q-2";'))
    names = made.instance.operators.ids
    streams = [(names[s.source], names[s.target]) for s in made.instance.streams]
    assert streams == [("source-0", "filter-1"), ("filter-1", "windowedaggregate-2")]
    assert any("sends to itself" in reading for reading in made.ledger.readings)


def test_an_edge_to_itself_without_a_number_before(tmp_path: Path) -> None:
    text = graph(edges='"q-0" -- "q-1"; "q-2" -- "q-2";').replace("q-2", "q-²")
    with pytest.raises(InvalidInput, match="q-² -- q-² sends to itself"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"edges": '"q-0" -- "q-0";'}, "sends to itself"),
        ({"edges": '"q-0" -- "q-1"; "q-0" -- "q-1";'}, "stands twice"),
        ({"source": "[{outputRate=1, host=h9}]"}, "'?h9'? is a host that the graph does not"),
        ({"source": "[{outputRate=1}]"}, r"instances\[0\]\.host is missing"),
        ({"source": "[{host=h1}]"}, r"instances\[0\]\.outputRate is missing"),
        ({"source": "[{host=h1, outputRate=NaN}]"}, "outputRate: 'NaN' is not a number"),
        ({"cores": '"a"="b"'}, "physicalCPUCores is missing"),
        ({"cores": '"physicalCPUCores"="0"'}, "is no number of cores"),
        ({"parallelism": '"many"'}, "parallelism: 'many' is not a whole number"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        load(tmp_path, graph(**changes))


def test_no_graph_at_all(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no operators"):
        load(tmp_path, "graph { }")
    with pytest.raises(InvalidInput, match="zerotune reads one file"):
        import_instance("zerotune", [str(tmp_path)])


def test_the_published_graphs(shared_data: Path) -> None:
    files = sorted((shared_data / "zerotune").rglob("*.graph.gz"))
    if not files:
        pytest.skip("the ZeroTune graphs are not here")
    assert len(files) == 46
    forwarded = 0
    for path in files:
        made = import_instance("zerotune", [str(path)])
        instance = made.instance
        assert instance.has_current
        now = evaluate_indices(instance, instance.tasks.node)
        assert now.feasible
        assert now.max_utilisation == pytest.approx(1.0)
        forwarded += sum(s.pattern == "one_to_one" for s in instance.streams)
        # everything but sources is fed: no edge was lost
        fed = {s.target for s in instance.streams}
        roles = enumerate(instance.operators.role)
        assert all(o in fed for o, role in roles if role != "source")
        assert not made.ledger.ignored
    assert forwarded == 4
