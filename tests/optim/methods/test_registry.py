"""Methods of other packages: what they declare and what they return is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optim import InvalidInput, solve
from optim.errors import RefereeRefused
from optim.methods import choose
from optim.methods.registry import (
    METHODS,
    NEEDS,
    Method,
    Outcome,
    get_method,
    method_names,
)
from optim.referee import Termination
from tests.conftest import Plug
from tests.optim.make import instance

Register = Callable[..., None]


def made_up(name: str = "theirs", node: Any = (0, 0, 0, 0), **declared: Any) -> Method:
    outcome = Outcome(Termination.HEURISTIC, np.array(node))
    return Method(
        name=name,
        family="task allocation",
        kind="heuristic",
        run=lambda _instance, _request: outcome,
        summary="made up",
        **{"objective": "imc_gain", **declared},
    )


@pytest.fixture
def register(plug: Plug) -> Register:
    """Install a package ``other`` with a method under the given name."""

    def install(thing: Any, name: str) -> None:
        plug(METHODS.group, {name: thing}, keep=("naive", "flux"))

    return install


def test_a_method_of_another_package_runs(register: Register) -> None:
    register(made_up(), "theirs")
    assert method_names() == ("flux", "naive", "theirs")
    result = solve(instance(), "theirs", repair=True)
    assert (result.method, result.feasible) == ("theirs", True)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (made_up(objective="luck"), "unknown objective luck"),
        (made_up(needs=("tasks", "luck")), "needs what there is not: luck"),
        (made_up(honours=frozenset({"capacity", "luck"})), "honours what there is not: luck"),
    ],
)
def test_what_declares_nonsense_is_told(register: Register, thing: Any, words: str) -> None:
    register(thing, "theirs")
    with pytest.raises(InvalidInput, match=rf"'theirs' .*{words}.*of the package other"):
        get_method("theirs")


@pytest.mark.parametrize(
    "node",
    [[0, 0, 0], [0, 0, 0, 2], [0, 0, 0, -2], [[0], [0], [0], [0]], [0.0, 0.0, 0.0, 0.5]],
)
def test_what_is_no_placement_is_refused(register: Register, node: Any) -> None:
    register(made_up(node=node), "theirs")
    with pytest.raises(RefereeRefused, match="theirs returned no"):
        solve(instance(), "theirs", repair=True)


@pytest.mark.parametrize("returned", [None, [0, 0, 0, 0], Outcome(Termination.HEURISTIC, [0] * 4)])
def test_what_is_no_outcome_is_refused(register: Register, returned: Any) -> None:
    method = replace(made_up(), run=lambda _instance, _request: returned)
    register(method, "theirs")
    with pytest.raises(RefereeRefused, match="theirs returned"):
        solve(instance(), "theirs")


def test_slots_that_are_none_are_refused(register: Register) -> None:
    outcome = Outcome(Termination.HEURISTIC, np.zeros(4, np.int32), slot=np.zeros(3, np.int32))
    register(replace(made_up(), run=lambda _instance, _request: outcome), "theirs")
    with pytest.raises(RefereeRefused, match="slot indices"):
        solve(instance(), "theirs")


def test_what_may_be_needed_can_be_looked_for() -> None:
    assert NEEDS.keys() == choose._MISSING.keys()


def test_names_of_earlier_versions_are_still_there_and_say_what_they_are_now() -> None:
    method, reason = get_method("plan-search"), {"slots_used": "it is of slots"}
    with pytest.warns(DeprecationWarning, match=r"Method\(unable=\) is Method\(why_not=\)"):
        assert replace(method, unable=reason).why_not == reason
