"""``starts="none"``: an exact method's solver begins with nothing, and still answers rightly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.generators import generate
from optim import solve
from optim.errors import InvalidInput
from optim.format.instance import Instance
from optim.methods.registry import Outcome, Request, all_methods, get_method
from optim.methods.solve import NONE
from optim.referee import Termination

COLD = tuple(method.name for method in all_methods() if method.cold)
SMALL = {
    "imc-milp": ("random_graphs", {"tasks": 8, "nodes": 3, "capacity": 200.0}),
    "plan-milp": ("random_graphs", {"tasks": 8, "nodes": 3, "capacity": 200.0}),
    "balance-milp": ("cluster", {"nodes": 4, "key_groups": 3, "shifted": 50.0, "varies": 60.0}),
    "eoa-milp": ("eoa_random", {"nodes": 3, "operators": 4}),
    "storm-milp": ("storm_cluster", {"nodes": 3, "executors": 8, "components": 4}),
    "throughput-milp": ("pipeline", {"nodes": 3, "tasks": "2", "link_share": 0.3}),
}


def test_which_methods_can_begin_with_nothing() -> None:
    assert set(COLD) == set(SMALL)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_cold_run_proves_the_same(name: str) -> None:
    kind, parameters = SMALL[name]
    made = generate(kind, **parameters)
    cold, usual = (solve(made, name, starts=starts, time_limit=60) for starts in (NONE, "own"))
    assert cold.termination is usual.termination is Termination.OPTIMAL
    assert cold.objective is not None
    assert usual.objective is not None
    assert cold.objective.value == pytest.approx(usual.objective.value, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_nothing_goes_before_a_cold_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither heuristics nor the current placement: a solver that finds nothing leaves nothing."""
    kind, parameters = SMALL[name]
    made = generate(kind, **parameters)
    given = solve(made, "top-down" if kind != "cluster" else "flux", repair=True).plan
    placed = made if given is None else _placed(made, given.assignment)
    seen: list[Request] = []

    def finds_nothing(instance: Instance, request: Request) -> Outcome:
        seen.append(request)
        return Outcome(Termination.TIME_LIMIT)

    method = replace(get_method(name), run=finds_nothing)
    monkeypatch.setattr("optim.methods.solve.get_method", lambda _: method)
    assert solve(placed, name, starts=NONE).plan is None
    assert seen[0].cold
    assert seen[0].start() is None
    assert solve(placed, name).plan is not None


def _placed(instance: Instance, assignment: object) -> Instance:
    document = instance.to_dict()
    known = dict(assignment)  # type: ignore[call-overload]
    listed = {task["id"]: task for task in document.get("tasks", [])}
    return instance.replace(
        tasks=[{**listed.get(task, {"id": task}), "node": node} for task, node in known.items()]
    )


@pytest.mark.parametrize("name", ["imc-exact", "imc-search", "top-down", "joint-milp"])
def test_what_goes_on_from_its_own_finds_refuses(name: str) -> None:
    made = generate("random_graphs")
    with pytest.raises(InvalidInput, match=r"'none' is not supported by .*that can: bal"):
        solve(made, name, starts=NONE)


def test_the_word_is_own_or_none() -> None:
    with pytest.raises(InvalidInput, match="neither own nor none"):
        solve(generate("random_graphs"), "imc-milp", starts="cold")


def test_a_start_that_is_given_counts() -> None:
    made = generate("random_graphs", tasks=8, nodes=3, capacity=200)
    found = solve(made, "imc-milp", starts=NONE, warm_start="top-down", time_limit=60)
    assert found.warm_start is not None
    assert found.warm_start.accepted is not False
