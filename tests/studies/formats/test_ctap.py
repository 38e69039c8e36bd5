"""CTAP files: the cost of a plan as the library counts it, and its published optima."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.formats.ctap import OFFSET
from optim import Instance, evaluate, solve
from optim.errors import InvalidInput
from optim.format.plan import Plan
from streamplace.clusters.exchange.sources import import_instance

# three tasks, two processors; costs by processor; pairs 12, 13, 23; sizes; capacities; remarks
TEXT = """3
2
4 1 3
2 5 3

7 0
2

1 2 3
4 4
a remark
"""


def load(folder: Path, text: str) -> Instance:
    path = folder / "t.dat"
    path.write_text(text)
    return import_instance("ctap", [str(path)]).instance


def plan_of(instance: Instance, *nodes: str) -> Plan:
    anchors = {t: t.split()[1] for t in instance.tasks.ids if t.startswith("anchor")}
    return Plan("t", {f"t{i + 1}": n for i, n in enumerate(nodes)} | anchors)


def test_cost_by_hand(tmp_path: Path) -> None:
    instance = load(tmp_path, TEXT)
    offset = float(instance.labels[OFFSET])
    evaluation = evaluate(instance, plan_of(instance, "p1", "p2", "p1"))
    # execution 4 + 5 + 3; communication 1–2: 7, 2–3: 2
    assert evaluation.internode_traffic == pytest.approx(12 + 9 + offset)
    assert evaluation.feasible
    assert not evaluate(instance, plan_of(instance, "p1", "p1", "p1")).feasible  # 6 > 4


@given(st.data())
def test_cost_of_any_plan(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    tasks, nodes = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    small = st.integers(0, 20)
    costs = [[data.draw(small) for _ in range(tasks)] for _ in range(nodes)]
    pairs = {p: data.draw(small) for p in itertools.combinations(range(tasks), 2)}
    numbers = [tasks, nodes, *itertools.chain(*costs), *pairs.values()]
    numbers += [1] * tasks + [tasks] * nodes
    instance = load(tmp_path_factory.mktemp("c"), " ".join(map(str, numbers)))
    where = [data.draw(st.integers(0, nodes - 1)) for _ in range(tasks)]
    expected = sum(costs[n][t] for t, n in enumerate(where))
    expected += sum(c for (a, b), c in pairs.items() if where[a] != where[b])
    evaluation = evaluate(instance, plan_of(instance, *(f"p{n + 1}" for n in where)))
    measured = (evaluation.internode_traffic or 0.0) - float(instance.labels[OFFSET])
    assert measured == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "number 1 should be a number"),
        ("1", "number 2 should be a number"),
        ("x 2", "number 1: 'x' should be a number"),
        ("3 2 1 2", "one of the execution costs"),
        ("0 2", "is no number of tasks"),
        ("1000000000 2", "is no number of tasks"),
        ("2.5 1", "is no number of tasks"),
        (TEXT.replace("1 2 3\n4 4\n", "1 2 3\n4 -4\n"), "'-4' should be a number"),
    ],
)
def test_refusals(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        load(tmp_path, text)


@pytest.mark.parametrize("name", [f"{c}{i}" for c in "ABCD" for i in "abcde"])
def test_published_optima(name: str, shared_data: Path) -> None:
    published = shared_data / "ctap" / f"tassc1003{name}.sol"
    if not published.is_file():
        pytest.skip("no published optimum is here")
    made = import_instance("ctap", [str(published.with_suffix(".dat"))]).instance
    words = published.read_text().split()
    optimum = float(words[-1])
    processors = dict(zip(words[:-1:2], words[1:-1:2], strict=True))
    theirs = plan_of(made, *(f"p{processors[str(t + 1)]}" for t in range(len(processors))))
    evaluation = evaluate(made, theirs)
    assert evaluation.feasible
    offset = float(made.labels[OFFSET])
    assert (evaluation.internode_traffic or 0) - offset == pytest.approx(optimum)
    if name in ("Aa", "Bb", "Ca", "Dd"):
        result = solve(made, "imc-exact")
        assert result.termination == "optimal"
        assert result.evaluation is not None
        assert (result.evaluation.internode_traffic or 0) - offset == pytest.approx(optimum)
