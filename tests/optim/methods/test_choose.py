"""No method named, and no portfolio: the first that suits; if it has no plan, the next one."""

from __future__ import annotations

from typing import Any

import pytest

from optim import Instance, InvalidInput, UnsuitableMethod, solve
from optim.methods import choose
from optim.methods.registry import Outcome, all_methods
from optim.referee import Termination
from tests.optim.make import instance, nodes
from tests.optim.methods.test_solve import Maker, fake, placed

__all__ = ["fake"]

NOTHING = Outcome(Termination.ITERATION_LIMIT)


@pytest.fixture
def candidates(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set which methods are tried, in order."""

    def register(*names: str) -> None:
        monkeypatch.setattr(choose, "_candidates", lambda *_: [(name, "told so") for name in names])

    return register


def small() -> Any:
    return instance()


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no portfolio, as where something is asked that only some methods could do."""
    monkeypatch.setattr("optim.methods.solve._is_plain", lambda _: False)


@pytest.mark.usefixtures("one_by_one")
def test_the_next_method_is_asked_where_the_first_has_no_plan(fake: Maker, candidates: Any) -> None:
    fake(NOTHING)
    candidates("fake", "imc-brute")
    result = solve(small())
    assert result.method == "imc-brute"
    assert result.feasible
    assert result.notes[:2] == (
        "method imc-brute: told so",
        "fake ended without a plan that keeps every limit",
    )


def test_a_proof_that_there_is_none_ends_it(fake: Maker, candidates: Any) -> None:
    fake(Outcome(Termination.INFEASIBLE))
    candidates("fake", "storm-even")
    assert solve(small()).termination == "infeasible"


def test_the_first_answer_stands_where_no_other_has_a_plan(fake: Maker, candidates: Any) -> None:
    fake(placed(0, 0, 0, termination=Termination.ITERATION_LIMIT), promises_feasibility=False)
    candidates("fake", "storm-even")
    group = {"tasks": 3, "load": {"cpu": 9}}
    tight = instance(
        nodes=nodes(2, capacity={"cpu": 4.5}), operators=[{"id": "a", "group": group}], streams=[]
    )
    assert solve(tight).method == "fake"
    assert solve(tight).notes[-1] == "storm-even ended without one, too"


@pytest.mark.usefixtures("one_by_one")
def test_no_time_left_ends_it(fake: Maker, candidates: Any) -> None:
    def slow(*_: Any) -> Outcome:
        return Outcome(Termination.TIME_LIMIT, times={"total": 7.0})

    fake(slow)
    candidates("fake", "storm-even")
    assert solve(small(), time_limit=5.0).method == "fake"
    assert solve(small(), time_limit=9.0).method == "storm-even"


@pytest.mark.usefixtures("one_by_one")
def test_an_exact_method_is_no_fallback_for_hours(
    fake: Maker, candidates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "_EXACT_PRODUCTS", 1)
    fake(NOTHING)
    candidates("fake", "imc-brute")
    assert solve(small()).method == "fake"
    assert solve(small(), time_limit=5.0).method == "imc-brute"


def test_options_of_the_first_do_not_fail_the_next(fake: Maker, candidates: Any) -> None:
    from optim.methods.registry import Option

    fake(NOTHING, options=(Option("own", "int", 1, "made up"),))
    candidates("fake", "imc-brute", "storm-even")
    assert solve(small(), own=3).method == "fake"
    with pytest.raises(InvalidInput, match="own"):
        candidates("imc-brute", "fake")
        solve(small(), own=3)


def test_nothing_suits(candidates: Any) -> None:
    candidates("imc-search")
    with pytest.raises(UnsuitableMethod, match="communicate"):
        solve(instance(streams=[]))
    candidates()
    with pytest.raises(InvalidInput, match="suits no method"):
        solve(small())


def imported(load: float) -> Any:
    """Return a job as `import flink` has it: a topology, slots as a resource, links both ways."""
    room = {"cpu": 1.0, "slot": 4.0}
    group = {"tasks": 2, "load": {"cpu": load, "slot": 1.0}}
    return instance(
        resources=["cpu", "slot"],
        nodes=[{"id": f"n{i}", "capacity": room} for i in range(2)],
        links=[
            {"id": f"n{i} {way}", "nodes": [f"n{i}"], "capacity": 5.0, "direction": way}
            for i in range(2)
            for way in ("in", "out")
        ],
        topologies=[{"id": "job"}],
        operators=[{"id": name, "topology": "job", "group": group} for name in ("a", "b")],
        streams=[{"from": "a", "to": "b", "rate": 1.0}],
    )


def test_jobs_with_links_are_solved_for_the_rate() -> None:
    assert choose.choose_method(imported(0.2)).name == "throughput-exact"


def test_a_best_plan_that_carries_less_than_the_input_is_kept() -> None:
    result = solve(imported(1.2), time_limit=10.0)
    assert (result.method, result.termination, result.exit_code) == (
        "throughput-exact",
        "optimal",
        4,
    )
    assert result.plan is not None
    assert result.objective is not None
    assert result.objective.value == pytest.approx(1 / 1.2)


def test_a_search_comes_first_where_a_model_is_not_made_in_time() -> None:
    some = nodes(40)
    ids = [node["id"] for node in some]
    moved = [{"id": f"t{i}", "load": {"cpu": 1}, "node": ids[i % 3]} for i in range(30_000)]
    large = instance(nodes=some, operators=[], streams=[], tasks=moved)
    for seconds, first in ((10.0, "balance-search"), (60.0, "balance-milp")):
        assert choose.choose_method(large, seconds).name == first


def test_why_tasks_are_spread_evenly() -> None:
    costly = instance(
        nodes=nodes(3),
        operators=[{"id": name, "group": {"tasks": 12, "load": {"cpu": 0.1}}} for name in "ab"],
        streams=[{"from": "a", "to": "b", "rate": 1.0, "pattern": "local_first"}],
        crossing_cost={"cpu": {"in": 0.1, "out": 0.1}},
    )
    note = solve(costly, time_limit=1.0).notes[0]
    assert note == "method storm-even: no method for its traffic suits: spread evenly"


@pytest.mark.parametrize("without", ["tasks", "nodes", "both"])
def test_no_method_starts_without_tasks_and_nodes_whatever_it_optimises(without: str) -> None:
    parts: dict[str, Any] = {
        "nodes": [{"id": "n0", "capacity": {"cpu": 1}}],
        "tasks": [{"id": "a"}],
    }
    for name in ("tasks", "nodes") if without == "both" else (without,):
        del parts[name]
    made = Instance.from_dict({"format": "streamplace.instance/1", "name": "x", **parts})
    for method in all_methods():
        for objective in method.objectives:
            with pytest.raises(InvalidInput):
                solve(made, method, objective=objective)
