"""A figure that is declared once appears wherever figures are told."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from experiments.report.tables import OBJECTIVES as REPORT_WORDS
from experiments.sweep.row import COLUMNS, FIGURE_COLUMNS, arrow_schema
from optim import Instance
from optim.errors import InvalidInput
from optim.figures.catalogue import FIGURES, OBJECTIVES, Figures, figures_of, find_objective
from optim.figures.figure import Figure
from optim.methods.reduce import without_leaving
from optim.referee import Evaluation, evaluate_indices
from optim.rules.placement import Placement
from streamplace.cli.schema import figure_list
from streamplace.present.tables import metric_table
from tests.optim.make import instance

EVERY = [pytest.param(figure, id=figure.name) for figure in FIGURES]
NAMES = {figure.name for figure in FIGURES}


@pytest.mark.parametrize("figure", EVERY)
def test_declared_once_told_everywhere(figure: Figure) -> None:
    assert figure.label
    assert figure.words
    evaluation = Evaluation(feasible=True, violations=(), **_filled(figure))
    assert getattr(evaluation, figure.name) == evaluation.to_dict()[figure.name]
    assert (figure.name in FIGURE_COLUMNS) == figure.single
    assert (figure.name in arrow_schema().names) == figure.single
    assert (figure.name in REPORT_WORDS) == (figure.sense is not None)
    stream = io.StringIO()
    table = metric_table(instance(), [("plan", evaluation)], figure.name)
    Console(file=stream, width=200).print(table)
    assert (figure.label in stream.getvalue()) == figure.single
    assert {figure.reference, figure.shown_as, figure.same_as} <= NAMES | {None}


def _filled(figure: Figure) -> dict[str, object]:
    values = {"flag": True, "text": "here", "table": {}}
    return {figure.name: values.get(figure.unit, 7)}


def test_names_are_those_of_the_attributes() -> None:
    assert [figure.name for figure in FIGURES] == list(Figures.__annotations__)
    others = set(COLUMNS) - set(FIGURE_COLUMNS)
    assert not others & NAMES
    assert len({figure.label for figure in FIGURES if figure.single}) == len(FIGURE_COLUMNS)


def test_a_placement_has_all_its_figures() -> None:
    made = instance()
    node = np.array([0, 0, 0, 1], dtype=np.int32)
    told = figures_of(Placement(made, node))
    asked = {f.name for f in FIGURES if f.value is not None and not f.costly}
    assert set(told) == asked
    evaluation = evaluate_indices(made, node)
    assert {name: getattr(evaluation, name) for name in told} == told
    assert made.mean_load == evaluation.mean_load == 6.0


def test_objectives_answer_to_what_they_were_called() -> None:
    assert find_objective("utilisation").name == "used_capacity"
    assert find_objective("deviation").name == "cpu_deviation"
    assert all(find_objective(name) is figure for name, figure in OBJECTIVES.items())
    with pytest.raises(InvalidInput, match=r"luck.*is no figure to optimise \(one of"):
        find_objective("luck")


def test_the_page_has_the_list_of_the_code() -> None:
    page = Path(__file__).parents[3] / "docs" / "figures.md"
    told = figure_list() in page.read_text("utf-8")
    assert told, "write what `python -m streamplace.cli.schema` prints in docs/figures.md"


@pytest.mark.parametrize("name", OBJECTIVES)
def test_figures_that_tell_leaving_nodes_from_others_say_so(name: str) -> None:
    nodes = [
        {"id": f"n{n}", "capacity": {"cpu": 8.0}, "slots": 4, "leaving": n == 0} for n in range(3)
    ]
    tasks = [{"id": f"t{t}", "load": {"cpu": 1.0 + t}, "node": f"n{t % 3}"} for t in range(4)]
    document = {
        "format": "streamplace.instance/1", "name": "marked", "nodes": nodes, "tasks": tasks,
        "traffic": [["t0", "t3", 1.0], ["t1", "t2", 2.0]],
        "links": [{"id": "up", "nodes": ["n0"], "capacity": 5.0}],
        "rate_driven": ["cpu"],
    }  # fmt: skip
    marked = Instance.from_dict(document)
    plain = without_leaving(marked, may_stay=True)
    value = OBJECTIVES[name].value
    if value is not None:
        differ = [
            value(Placement(marked, np.array(node))) != value(Placement(plain, np.array(node)))
            for node in itertools.product(range(3), repeat=4)
        ]
        assert any(differ) == OBJECTIVES[name].of_staying
