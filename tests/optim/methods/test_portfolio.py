"""The portfolio: who is tried, what is told, and that proofs end it."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest

from optim import Instance, solve
from optim.errors import SolverError
from optim.methods import portfolio
from optim.methods.choose import Choice
from optim.methods.registry import Settings
from optim.referee import Termination


@pytest.fixture
def instance() -> Instance:
    tasks = [
        {"id": f"t{i}", "load": {"cpu": 1 + i % 3}, "node": f"n{i % 2}", "state": 1}
        for i in range(9)
    ]
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": "p",
        "resources": ["cpu"],
        "nodes": [{"id": f"n{i}"} for i in range(3)],
        "tasks": tasks,
        "limits": {"max_migrations": 4},
    }
    return Instance.from_dict(document)


def test_a_proof_by_the_first_ends_it(instance: Instance) -> None:
    alone = solve(instance)
    found = solve(instance, "portfolio")
    assert found.plan is not None and alone.plan is not None
    assert found.plan.to_json() == alone.plan.to_json()
    assert found.termination is Termination.OPTIMAL
    assert not [note for note in found.notes if note.startswith("tried")]


def scripted(instance: Instance, answers: dict[str, list[dict[str, Any]]]) -> Any:
    """Return what stands for the methods: results that are changed copies of a true one."""
    calls: list[tuple[str, float, bool]] = []
    true = {name: solve(instance, name) for name in answers}

    def solve_one(choice: Choice, **changes: Any) -> Any:
        calls.append((choice.name, changes["time_limit"], changes["warm_start"] is not None))
        answer = answers[choice.name].pop(0)
        if "raises" in answer:
            raise answer["raises"]
        return replace(true[choice.name], **answer)

    return solve_one, calls


def run(instance: Instance, solve_one: Any) -> Any:
    return portfolio.run_portfolio(instance, solve_one, Settings(time_limit=10.0, threads=1))


LATE = {"termination": Termination.TIME_LIMIT, "bound": None, "bound_of": None, "gap": None}


def test_the_best_plan_with_the_best_bound(instance: Instance) -> None:
    bound = solve(instance, "balance-milp").bound
    proof = {**LATE, "bound": bound, "bound_of": "problem"}
    worse = solve(instance, "flux", repair=True)
    first = {**LATE, "objective": worse.objective, "plan": worse.plan, "moves": worse.moves,
             "evaluation": worse.evaluation}  # fmt: skip
    answers = {"balance-milp": [first, proof], "balance-search": [LATE]}
    solve_one, calls = scripted(instance, answers)
    found = run(instance, solve_one)
    assert [name for name, _, _ in calls] == ["balance-milp", "balance-search", "balance-milp"]
    assert [warm for _, _, warm in calls] == [False, True, True]
    assert calls[1][1] < calls[0][1] < calls[2][1] <= 10
    assert (found.bound, found.termination) == (bound, Termination.OPTIMAL)
    assert found.notes[-2].startswith("tried: balance-milp ")
    assert found.notes[-1].startswith("best plan: balance-")


def test_a_plan_beyond_a_bound_names_both(instance: Instance) -> None:
    value = solve(instance, "balance-milp").objective
    assert value is not None and value.value is not None
    wrong = {**LATE, "bound": value.value + 1, "bound_of": "problem"}
    solve_one, _ = scripted(instance, {"balance-milp": [wrong, LATE], "balance-search": [LATE]})
    with pytest.raises(SolverError, match=r"balance-.* beats the proven bound of balance-milp"):
        run(instance, solve_one)


def test_ctrl_c_gives_the_best(instance: Instance) -> None:
    answers = {"balance-milp": [LATE], "balance-search": [{"raises": KeyboardInterrupt()}]}
    solve_one, calls = scripted(instance, answers)
    found = run(instance, solve_one)
    assert (found.termination, found.feasible) == (Termination.INTERRUPTED, True)
    assert len(calls) == 2


def test_judging_takes_of_the_time(instance: Instance) -> None:
    slow = {**LATE, "times": {"check": 6.0}}
    solve_one, calls = scripted(instance, {"balance-milp": [slow, LATE], "balance-search": [LATE]})
    run(instance, solve_one)
    assert calls[2][1] <= 10 - 6


def test_what_follows_has_what_time_is_left(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = chain([0.0, 0.0], repeat(7.0))  # before the portfolio, and after it
    limits: list[float | None] = []
    monkeypatch.setattr("optim.methods.solve.run_portfolio", lambda *_, **__: None)
    monkeypatch.setattr("optim.methods.solve.time.perf_counter", lambda: next(clock))

    def asked_for(_: Any, asked: Any) -> None:
        limits.append(asked.time_limit)
        raise InterruptedError

    monkeypatch.setattr("optim.methods.solve._solve_by_choice", asked_for)
    with pytest.raises(InterruptedError):
        solve(instance, "portfolio", objective="imc_gain", time_limit=8.0)
    assert limits == [1.0]
