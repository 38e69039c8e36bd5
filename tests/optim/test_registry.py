"""Methods of other packages: found by their entry points, and checked before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import Distribution, EntryPoint
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

from optim import InvalidInput, registry, solve
from optim.errors import RefereeRefused
from optim.registry import Method, Outcome, all_methods, get_method, method_names
from optim.results import Termination
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
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Install a package ``other`` whose module has `thing`, under the given names."""
    own = [e.point for e in registry._entries().values() if e.point.name in ("naive", "flux")]

    def install(thing: Any, *names: str, value: str = "other_module:thing") -> None:
        module = ModuleType("other_module")
        module.thing = thing  # type: ignore[attr-defined]
        monkeypatch.setitem(__import__("sys").modules, "other_module", module)
        dist = cast("Distribution", type("Dist", (), {"name": "other"})())
        theirs = [EntryPoint(name, value, registry.GROUP) for name in names]
        for entry in theirs:
            vars(entry).update(dist=dist)
        monkeypatch.setattr(registry, "entry_points", lambda **_: [*own, *theirs])
        registry._entries.cache_clear()

    yield install
    monkeypatch.undo()
    registry._entries.cache_clear()


def test_a_method_of_another_package_runs(register: Register) -> None:
    register(made_up(), "theirs")
    assert method_names() == ("flux", "naive", "theirs")
    result = solve(instance(), "theirs", repair=True)
    assert (result.method, result.feasible) == ("theirs", True)


def test_it_does_not_take_a_name_of_ours(register: Register) -> None:
    register(made_up("naive"), "naive")
    assert get_method("naive").summary != "made up"


@pytest.mark.parametrize(
    ("thing", "value", "words"),
    [
        (None, "no_such_module:thing", "cannot be loaded: No module named"),
        (None, "other_module:nothing", "cannot be loaded: .* has no attribute"),
        (3, "other_module:thing", "is no Method"),
        (made_up("another"), "other_module:thing", "calls itself another"),
        (made_up(objective="luck"), "other_module:thing", "unknown objective luck"),
        (made_up(needs=("tasks", "luck")), "other_module:thing", "unknown needs: luck"),
    ],
)
def test_what_is_no_method_is_told_and_left_out(
    register: Register, thing: Any, value: str, words: str
) -> None:
    register(thing, "theirs", value=value)
    with pytest.raises(InvalidInput, match=rf"'theirs' .*{words}.*of the package other"):
        get_method("theirs")
    with pytest.warns(UserWarning, match=words):
        assert [method.name for method in all_methods()] == ["flux", "naive"]


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
