"""Objectives as sums and levels of figures: what is read, what is refused, what they are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optim.errors import InvalidInput
from optim.figures.catalogue import OBJECTIVES, find_objective
from optim.figures.figure import in_units
from optim.referee import evaluate_indices
from optim.rules.placement import Placement
from tests.optim.make import instance

READ = {
    "load_distance": ("load_distance", "min", ["load_distance"]),
    " 0.70 * collocation_factor - .3*load_distance": (
        "0.7*collocation_factor-0.3*load_distance", "max",
        ["0.7*collocation_factor-0.3*load_distance"],
    ),
    "load_distance, migrations": (
        "load_distance,migrations", "min", ["load_distance", "migrations"],
    ),
    "utilisation,imc_gain*2": ("used_capacity,2*imc_gain", "min", ["used_capacity", "2*imc_gain"]),
    "-load_distance": ("-load_distance", "max", ["-load_distance"]),
    "1e-3*imc_gain-1e2*migrations": (
        "0.001*imc_gain-100*migrations", "max", ["0.001*imc_gain-100*migrations"],
    ),
}  # fmt: skip
REFUSED = {
    "luck": r"'luck' is no figure to optimise \(one of load_distance",
    "imc_gain-1*load_distence": r"'load_distence' is no figure to optimise \(did you mean load",
    "total_traffic": "is no figure to optimise",
    "0.7**imc_gain": r"is no figure and no sum \(write FIGURE",
    "imc_gain imc_gain": "is no figure and no sum",
    "imc_gain,(migrations)": r"'\(migrations\)' is no figure and no sum of imc_gain",
    "0.7imc_gain": "is no figure and no sum",
    "2*imc_gain*3": "weighs imc_gain twice",
    "imc_gain,": "has an empty level",
    "": "has an empty level",
    "0*imc_gain": "weighs imc_gain by 0 ",
    "1e999*imc_gain": "weighs imc_gain by inf ",
    "load_distance+imc_gain": r"seeks much load_distance.*\(load_distance is better small: give",
    "-imc_gain": r"seeks little imc_gain.*\(imc_gain is better large: give it no minus",
    "imc_gain+imc_gain": r"has imc_gain twice in one sum \(write it once",
    "migrations,migrations": "has the level migrations twice",
}


@pytest.mark.parametrize("text", READ)
def test_expressions_are_read(text: str) -> None:
    name, sense, levels = READ[text]
    found = find_objective(text)
    assert (found.name, found.sense, [one.name for one in found.levels]) == (
        name,
        sense,
        levels,
    )
    assert find_objective(found.name) == found or find_objective(found.name).name == name


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_expression_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(InvalidInput, match=REFUSED[text]) as caught:
        find_objective(text)
    assert all(p.path == "--objective" and p.remedy for p in caught.value.problems)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        find_objective("luck-fortune,0*imc_gain")
    assert len(caught.value.problems) == 3


def test_a_sum_is_of_the_figures_as_evaluate_has_them() -> None:
    made, node = instance(), np.array([0, 0, 0, 1], dtype=np.int32)
    seen = evaluate_indices(made, node)
    text = "0.7*collocation_factor-0.3*load_distance,migrations"
    assert seen.collocation_factor is not None and seen.load_distance is not None
    value = 0.7 * seen.collocation_factor - 0.3 * seen.load_distance
    assert seen.objective(text) == pytest.approx(value)
    figure = find_objective(text)
    assert figure.value is not None
    assert figure.value(Placement(made, node)) == pytest.approx(value)
    assert [level.read(seen) for level in figure.levels] == [pytest.approx(value), seen.migrations]


def test_a_costly_figure_is_reckoned_where_a_sum_asks_for_it() -> None:
    made, node = instance(), np.array([0, 0, 0, 1], dtype=np.int32)
    assert evaluate_indices(made, node).rate_after_loss is None
    asked = evaluate_indices(made, node, None, "rate_after_loss-migrations")
    known = evaluate_indices(made, node, None, "rate_after_loss").rate_after_loss
    assert asked.rate_after_loss == known


def test_a_sum_that_lacks_a_figure_is_unknown() -> None:
    made = instance(links=[])
    text = "imc_gain-max_link_utilisation"
    assert evaluate_indices(made, np.zeros(4, dtype=np.int32)).objective(text) is None


def test_weights_follow_the_units() -> None:
    figure = in_units(
        find_objective("2*imc_gain-3*migrations,load_distance"),
        lambda unit: {"rate": 10.0}.get(unit, 1.0),
    )
    assert [weight for weight, _ in figure.levels[0].parts] == [20.0, -3.0]
    assert figure.levels[1] is OBJECTIVES["load_distance"]


def test_limits_that_the_rate_measures_are_kept_in_a_sum() -> None:
    made = instance()
    rate, total = (
        find_objective("sustainable_rate,migrations"),
        find_objective("2*sustainable_rate"),
    )
    assert math.isinf(rate.binding(made).nodes.capacity[:, made.rate_driven].min())
    assert total.binding(made) is made
