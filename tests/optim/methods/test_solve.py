"""`solve` around a method: suitability, repair, claims, bounds, starts. The methods are made up."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optim import InvalidInput, Plan, UnsuitableMethod, evaluate, plugins, solve
from optim.errors import ExitCode, Problem, RefereeRefused, SolverError
from optim.figures.measures import load_distance_of
from optim.format.instance import Instance
from optim.methods import run
from optim.methods.reduce import emptied
from optim.methods.registry import METHODS, Method, Option, Outcome, Request, get_method
from optim.methods.run import _limit as run_limit
from optim.referee import Termination
from optim.util import progress
from tests.formulations.model_driven.model_cases import WAITS, model_instance
from tests.optim.make import instance, nodes

Maker = Callable[..., None]


class FakeEntry:
    def __init__(self, method: Method) -> None:
        self.method = method

    def load(self) -> Method:
        return self.method


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    """Register a method ``fake`` that returns what the test says."""

    def register(
        outcome: Callable[[Instance, Request], Outcome] | Outcome, **declared: Any
    ) -> None:
        def run(made: Instance, request: Request) -> Outcome:
            return outcome(made, request) if callable(outcome) else outcome

        method = Method(
            name="fake",
            family="task allocation",
            kind="exact",
            objective="imc_gain",
            run=run,
            summary="made up",
        )
        entry = plugins.Entry(FakeEntry(replace(method, **declared)), plugins.OURS)
        known = {**plugins.entries(METHODS.group), "fake": entry}
        monkeypatch.setattr(plugins, "entries", lambda _: known)

    yield register


def placed(*node: int, **fields: Any) -> Outcome:
    termination = fields.pop("termination", Termination.OPTIMAL)
    return Outcome(termination, np.array(node, dtype=np.int32), **fields)


def test_objective_is_the_referees(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1, bound=6.0, claimed=6.0))
    result = solve(instance(), "fake")
    assert result.objective is not None
    assert (result.objective.name, result.objective.value, result.gap) == ("imc_gain", 6.0, 0.0)
    assert result.termination == "optimal"
    assert result.exit_code == ExitCode.OK


def test_wrong_claim_is_an_error(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1, claimed=6.1))
    with pytest.raises(SolverError, match=r"claims imc_gain = 6.1, but the referee finds 6"):
        solve(instance(), "fake")


def test_plan_beyond_a_proven_bound_is_an_error(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1, bound=5.0))
    with pytest.raises(SolverError, match="a checked plan has 6"):
        solve(instance(), "fake")
    fake(placed(0, 0, 0, 1, bound=5.0, assumes=("that are small",)))
    assert solve(instance(), "fake").termination != "optimal"


def test_overloaded_plan_of_a_method_that_promises(fake: Maker) -> None:
    fake(placed(0, 0, 0, 0))
    with pytest.raises(RefereeRefused, match=r"capacity at n1.cpu: needs 12, has 10"):
        solve(instance(), "fake")
    fake(placed(0, 0, 0, 0, termination=Termination.HEURISTIC), promises_feasibility=False)
    result = solve(instance(), "fake")
    assert result.plan is not None
    assert not result.feasible
    assert result.exit_code == ExitCode.NO_PLAN


def test_unplaced_tasks_are_named_and_repair_places_them(fake: Maker) -> None:
    fake(placed(0, -1, 0, -1, termination=Termination.HEURISTIC), kind="heuristic")
    result = solve(instance(), "fake")
    assert result.plan is None
    assert result.unplaced == ("a/1", "b/1")
    assert result.exit_code == ExitCode.NO_PLAN
    mended = solve(instance(), "fake", repair=True)
    assert mended.repaired
    assert mended.feasible
    assert mended.exit_code == ExitCode.OK


def test_time_that_was_spent_on_compiling_is_had_again(
    fake: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, left = [0.0], []
    monkeypatch.setattr(progress, "seconds", lambda: clock[0])

    def run(made: Instance, request: Request) -> Outcome:
        remaining = request.remaining()
        assert remaining is not None
        left.append(remaining)
        if len(left) == 1:
            time.sleep(0.3)
            clock[0] += 0.3
            return placed(0, 0, 0, 1, termination=Termination.TIME_LIMIT)
        return placed(0, 0, 1, 1, termination=Termination.TIME_LIMIT)

    fake(run)
    result = solve(instance(), "fake", time_limit=0.3)
    assert len(left) == 2
    assert left[1] > 0.2
    assert result.objective is not None
    assert result.objective.value == 6.0  # of the two plans the better one
    assert any("a second time" in note for note in result.notes)


def test_a_search_for_a_start_has_seconds_by_size() -> None:
    """It takes all that it is given, however small the instance, where it finds no plan."""
    small, search, heuristic = instance(), get_method("joint-search"), get_method("flux")

    def seconds(method: Method, limit: float | None) -> float | None:
        return run_limit(method, small, Request(time_limit=limit))

    assert seconds(search, 100.0) == pytest.approx(1.0, abs=0.1)
    assert seconds(heuristic, 100.0) == pytest.approx(25.0, abs=0.1)
    assert seconds(search, 1.0) == pytest.approx(0.25, abs=0.05)
    assert seconds(search, None) is None


def test_an_answer_outlives_a_failing_start(fake: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("optim.methods.run.one_start", fails)
    fake(placed(0, 0, 0, 1, termination=Termination.TIME_LIMIT), starts=("top-down",))
    result = solve(instance(), "fake")
    assert result.objective is not None
    assert result.objective.value == 6.0
    assert any("MemoryError: no room" in note for note in result.notes)


def test_optimal_means_the_gap(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1, bound=9.0))
    assert solve(instance(), "fake").termination == "iteration_limit"
    assert solve(instance(), "fake", gap=0.5).termination == "gap_reached"
    fake(placed(0, 0, 0, 1))
    result = solve(instance(), "fake")
    assert (result.bound, result.gap, result.bound_of) == (None, None, None)


@pytest.mark.parametrize("assumes", [(), ("that are small",)])
def test_a_plan_that_breaks_a_limit_is_never_optimal(fake: Maker, assumes: Any) -> None:
    """Not even where its value is that of the bound: the method did not know the limit."""
    made = instance(limits={"max_load_distance": 0})
    fake(placed(0, 0, 0, 0, bound=12.0, assumes=assumes, termination=Termination.OPTIMAL))
    result = solve(made, "fake", repair=True)
    assert (result.feasible, result.exit_code) == (False, 4)
    assert (result.bound, result.gap) == (12.0, None)
    assert result.termination == "iteration_limit"


@pytest.mark.parametrize("unit", [1e-6, 1.0, 6.6e11])
def test_load_distance_gap_is_in_percent_of_the_mean(fake: Maker, unit: float) -> None:
    parts = {"nodes": nodes(2, capacity={"cpu": 10 * unit})}
    loads = [("a", 4 * unit, 1), ("b", 8 * unit, 3)]
    made = instance(
        **parts,
        operators=[
            {"id": name, "group": {"tasks": 2, "load": {"cpu": load}, "state": state}}
            for name, load, state in loads
        ],
    )

    def run(seen: Instance, request: Request) -> Outcome:  # loads 8 and 4, mean 6
        return placed(0, 0, 0, 1, bound=1.5 * unit / request.scale.of("resource"))

    fake(run, objective="load_distance")
    result = solve(made, "fake")
    assert result.objective is not None
    assert result.objective.value == pytest.approx(2 * unit)
    assert result.gap == pytest.approx(100 / 12)
    assert result.termination == "iteration_limit"
    assert solve(made, "fake", gap=8.4).termination == "gap_reached"
    assert solve(made, "fake", gap=8.3).termination == "iteration_limit"
    assert solve(made, "fake", gap="8.4%").termination == "gap_reached"
    assert solve(made, "fake", gap="8.3%").termination == "iteration_limit"


def test_percent_means_the_same_for_every_objective(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1))
    found = solve(instance(), "fake").objective
    assert found is not None
    fake(placed(0, 0, 0, 1, bound=found.value / 0.925))  # a gap of 7.5 %
    for gap, reached in ((0.08, True), ("8%", True), (0.07, False), ("7%", False), ("7.6%", True)):
        expected = "gap_reached" if reached else "iteration_limit"
        assert solve(instance(), "fake", gap=gap).termination == expected, gap
    for wrong in ("8", "x%", "-1%", "101%", "%", [1]):
        with pytest.raises(InvalidInput, match="--gap"):
            solve(instance(), "fake", gap=wrong)  # type: ignore[arg-type]


def test_a_method_is_asked_for_a_gap_in_its_own_unit(fake: Maker) -> None:
    asked: list[float | None] = []

    def run(made: Instance, request: Request) -> Outcome:
        asked.append(request.gap)
        return placed(0, 0, 0, 1)

    fake(run, objective="load_distance")
    solve(instance(), "fake", gap=10.0)
    fake(run)
    solve(instance(), "fake", gap=0.1)
    assert asked == [pytest.approx(6.0), 0.1]  # a node has 60 in the units that methods see


def test_never_worse_than_the_start_or_than_staying(fake: Maker) -> None:
    current = [
        {"id": t, "node": n}
        for t, n in (("a/0", "n1"), ("a/1", "n1"), ("b/0", "n1"), ("b/1", "n2"))
    ]
    made = instance(tasks=current)
    fake(placed(0, 1, 1, 0, termination=Termination.TIME_LIMIT))  # gain 6 as well: no gain
    assert solve(made, "fake").moves == ()
    fake(placed(0, 0, 1, 1, termination=Termination.TIME_LIMIT))  # gain 0; staying has 6
    result = solve(made, "fake")
    assert result.moves == ()
    assert any("staying is better" in note for note in result.notes)
    start = Plan.from_indices(made, [0, 0, 0, 1])
    with pytest.raises(InvalidInput, match="takes no start"):
        solve(made, "fake", warm_start=start)
    fake(placed(0, 0, 1, 1, termination=Termination.TIME_LIMIT), takes_warm_start=True)
    result = solve(instance(), "fake", warm_start=Plan.from_indices(instance(), [0, 0, 0, 1]))
    assert result.objective is not None
    assert result.objective.value == 6
    assert result.warm_start is not None
    assert result.warm_start.objective == 6


def test_the_time_of_a_method_that_makes_the_start_is_told(fake: Maker) -> None:
    fake(placed(0, 0, 1, 1, termination=Termination.TIME_LIMIT), takes_warm_start=True)
    result = solve(instance(), "fake", warm_start="naive")
    assert result.warm_start is not None
    assert result.warm_start.method == "naive"
    assert 0 < result.times["warm_start"] < result.times["total"]
    fake(placed(0, 0, 1, 1), takes_warm_start=True)
    assert "warm_start" not in solve(instance(), "fake").times


def test_a_solver_s_false_claim_costs_no_plan(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1, bound=5.0, solver="liar"))
    result = solve(instance(), "fake")
    assert (result.termination, result.bound) == ("iteration_limit", None)
    assert any("(liar) claims 5 as a proven bound" in note for note in result.notes)
    where = {"a/0": "n1", "a/1": "n1", "b/0": "n1", "b/1": "n2"}
    fake(Outcome(Termination.INFEASIBLE, solver="liar"))
    made = instance(tasks=[{"id": t, "node": n} for t, n in where.items()])
    result = solve(made, "fake")
    assert (result.termination, result.moves) == ("iteration_limit", ())
    assert any("liar: fake calls the instance infeasible" in note for note in result.notes)


def test_false_infeasible_is_an_error(fake: Maker) -> None:
    current = [
        {"id": t, "node": n}
        for t, n in (("a/0", "n1"), ("a/1", "n1"), ("b/0", "n1"), ("b/1", "n2"))
    ]
    fake(Outcome(Termination.INFEASIBLE))
    with pytest.raises(SolverError, match="staying is a feasible plan"):
        solve(instance(tasks=current), "fake")
    result = solve(instance(), "fake")
    assert result.exit_code == ExitCode.INFEASIBLE


def test_quick_proof_names_task_and_amount() -> None:
    made = instance(nodes=nodes(3, capacity={"cpu": 3}))
    result = solve(made, "top-down")
    assert result.exit_code == ExitCode.INFEASIBLE
    assert "b/0.cpu (fits no node" in str(result.reasons[0])
    assert result.reasons[0].amount == pytest.approx(1)
    full = solve(instance(nodes=nodes(2, capacity={"cpu": 5.9})), "top-down")
    assert [(r.where, round(r.amount, 6)) for r in full.reasons] == [("all nodes.cpu", 0.2)]


@pytest.mark.parametrize("wrapped", [0, 1, 2])  # as often as compiled code wraps Ctrl-C
def test_interrupted(fake: Maker, wrapped: int) -> None:
    def stop(made: Instance, request: Request) -> Outcome:
        error: BaseException = KeyboardInterrupt()
        for _ in range(wrapped):
            outer = SystemError("returned a result with an exception set")
            outer.__cause__ = error
            error = outer
        raise error

    fake(stop)
    result = solve(instance(), "fake")
    assert result.termination == "interrupted"
    assert result.plan is None
    assert result.exit_code == ExitCode.INTERRUPTED


def test_a_start_in_which_an_interrupt_was_wrapped_ends_the_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, calls = run.hopeless, []

    def wrapped(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:  # of the start
            raise SystemError("returned a result with an exception set") from KeyboardInterrupt()
        return plain(*given)

    monkeypatch.setattr(run, "hopeless", wrapped)
    result = solve(instance(), "imc-milp")
    assert result.termination == "interrupted"
    assert len(calls) == 2


def test_limits_that_a_method_does_not_keep(fake: Maker) -> None:
    made = instance(limits={"max_migrations": 1}, tasks=[{"id": "a/0", "node": "n1"}])
    fake(placed(0, 0, 0, 1))
    with pytest.raises(UnsuitableMethod, match=r"max_migrations = 1.*--ignore max_migrations"):
        solve(made, "fake")
    result = solve(made, "fake", ignore=["max_migrations"])
    assert result.ignored == ("max_migrations",)
    fake(placed(0, 0, 0, 1), needs=("tasks", "current_placement"))
    with pytest.raises(UnsuitableMethod, match=r"needs tasks\[\]\.node .*; a/1 has none"):
        solve(made, "fake")


def test_arguments_are_checked_together(fake: Maker) -> None:
    fake(placed(0, 0, 0, 1), options=(Option("depth", "int", 3, "how deep", minimum=1),))
    with pytest.raises(InvalidInput) as caught:
        solve(
            instance(),
            "fake",
            solver="glpk",
            time_limit=-1,
            gap=float("nan"),
            seed=-1,
            threads=0,
            depth=0,
            width=1,
        )
    paths = [p.path for p in caught.value.problems]
    assert paths == [
        "--solver",
        "--time-limit",
        "--seed",
        "--threads",
        "--gap",
        "--option depth",
        "--option width",
    ]
    with pytest.raises(InvalidInput, match="did you mean top-down"):
        solve(instance(), "topdown")
    with pytest.raises(InvalidInput, match="is no limit"):
        solve(instance(), "fake", ignore=["gravity"])
    fake(placed(0, 0, 0, 1), takes_warm_start=True)
    for name in ("nowhere", "a" * 5000):
        with pytest.raises(InvalidInput, match=r"neither a method nor|cannot be read"):
            solve(instance(), "fake", warm_start=name)
    made = instance(limits={"max_load_distance": 0})
    assert solve(made, "fake", ignore="max_load_distance").ignored == ("max_load_distance",)


def test_infeasible_without_leaving_nodes_proves_nothing_where_tasks_may_stay_there(
    fake: Maker,
) -> None:
    # n2 leaves and n1 alone is too small: staying keeps every rule, but nothing empties n2
    where = {"a/0": "n1", "a/1": "n2", "b/0": "n1", "b/1": "n2"}
    made = instance(
        nodes=[{"id": "n1", "capacity": {"cpu": 8}}, {"id": "n2", "leaving": True}],
        tasks=[{"id": t, "node": n} for t, n in where.items()],
    )
    fake(Outcome(Termination.INFEASIBLE, assumes=emptied(made)))
    result = solve(made, "fake")
    assert result.termination == "iteration_limit"
    assert result.feasible
    assert result.moves == ()
    assert "though these may stay" in result.notes[0]
    fake(Outcome(Termination.INFEASIBLE))
    with pytest.raises(SolverError, match="staying is a feasible plan"):
        solve(made, "fake")
    fake(Outcome(Termination.INFEASIBLE), objective="load_distance")
    with pytest.raises(SolverError, match="staying is a feasible plan"):
        solve(made, "fake")


def test_an_order_of_its_own_is_respected(fake: Maker) -> None:
    current = [
        {"id": t, "node": n}
        for t, n in (("a/0", "n1"), ("a/1", "n1"), ("b/0", "n1"), ("b/1", "n2"))
    ]
    fake(placed(0, 0, 1, 1, termination=Termination.TIME_LIMIT, rank=lambda node, evaluation: None))
    assert len(solve(instance(tasks=current), "fake").moves) == 1


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"bound": 99.0}, "99 as a proven bound on slots, but a checked plan has"),
        ({"claimed": 99.0}, "claims slots = 99, but the referee finds"),
    ],
)
def test_plans_of_threads_are_held_against_what_is_said_of_them(
    fake: Maker, said: dict[str, float], message: str
) -> None:
    made = model_instance({"waits": WAITS}, {"a": "waits"})
    real = get_method("mba+sam")

    def boasting(given: Instance, request: Request) -> Outcome:
        return replace(real.run(given, replace(request, options=real.read_options({}))), **said)

    fake(boasting, decides="threads", objective="slots", needs=real.needs)
    with pytest.raises(SolverError, match=message):
        solve(made, "fake")


def test_a_method_that_fails_with_no_plan_ends_in_its_family_s_best(fake: Maker) -> None:
    def fails(*_: Any) -> Outcome:
        raise MemoryError

    fake(fails, starts=("storm-even",))
    result = solve(instance(), "fake")
    assert result.feasible
    assert result.termination == "error"
    assert any("fake failed (MemoryError)" in note for note in result.notes)


def test_what_a_method_refuses_while_it_runs_is_told(fake: Maker) -> None:
    def refuses(*_: Any) -> Outcome:
        raise InvalidInput(Problem("instance", "it", "is too large"))

    fake(refuses, starts=("storm-even",))
    with pytest.raises(InvalidInput, match="too large"):
        solve(instance(), "fake")


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("method", [None, "balance-milp", "balance-search"])
def test_where_nothing_loads_the_first_resource_another_is_balanced(
    method: str | None, placed: bool
) -> None:
    """Against all plans: the least load distance that they have with memory first."""
    rng = np.random.default_rng(5)
    for _ in range(6):
        tasks = [
            {"id": name, "load": {"memory": int(rng.integers(1, 9)), "disk": 1}} for name in "abcde"
        ]
        if placed:
            tasks = [{**task, "node": "n1"} for task in tasks]
        document = {
            "format": "streamplace.instance/1", "name": "x", "tasks": tasks,
            "resources": ["cpu", "memory", "disk"], "limits": {"max_load_distance": 3},
            "nodes": [{"id": n, "capacity": {"memory": 40}} for n in ("n1", "n2", "n3")],
        }  # fmt: skip
        instance = Instance.from_dict(document)
        turned = Instance.from_dict({**document, "resources": ["memory", "cpu", "disk"]})
        turned = turned.replace(limits={})
        every = itertools.product(range(3), repeat=5)
        best = min(load_distance_of(turned, np.array(p, np.int32)) for p in every)
        result = solve(instance, method)
        assert result.plan is not None and result.feasible
        assert evaluate(turned, Plan(turned.name, result.plan.assignment)).load_distance == (
            pytest.approx(best)
        )
        assert str(result.termination) == "heuristic"  # the file's own objective is equal for all
        assert result.bound is None
        assert result.notes[0].startswith("no task has a load of cpu, the resource that is")
        assert result.instance_sha256 == instance.sha256


def test_another_resource_is_balanced_where_a_derived_load_of_the_first_is_nothing() -> None:
    made = Instance.from_dict({
        "format": "streamplace.instance/1", "name": "x", "resources": ["cpu", "memory"],
        "nodes": [{"id": n, "capacity": {"memory": 90}} for n in ("n1", "n2")], "input_rate": 10,
        "operators": [
            {"id": "a", "group": {"tasks": 4, "load": {"memory": 40}}, "cpu_per_tuple": 0}
        ],
    })  # fmt: skip
    result = solve(made)
    assert result.evaluation is not None and result.feasible
    assert set((result.evaluation.node_tasks or {}).values()) == {2}


def test_numbers_that_a_solver_cannot_hold_are_a_refusal_whatever_is_in_hand() -> None:
    """With the current placement in hand this ended in `error`."""
    made = instance(
        nodes=[
            {"id": "n1", "capacity": {"cpu": 1000000004.1234567}},
            {"id": "n2", "capacity": {"cpu": 1000000004.1234567}},
            {"id": "n3", "capacity": {"cpu": 6.1}},
        ],
        tasks=[
            {"id": "a", "load": {"cpu": 999999999.7654321}, "node": "n1"},
            {"id": "b", "load": {"cpu": 2.0000001}, "node": "n2"},
            {"id": "c", "load": {"cpu": 1.0000003}, "node": "n2"},
            {"id": "d", "load": {"cpu": 3.3333333}, "node": "n3"},
        ],
        operators=[],
        streams=[],
        traffic=[["a", "b", 1e9], ["b", "c", 2.0], ["c", "d", 1.3], ["d", "a", 0.7]],
    )
    with pytest.raises(InvalidInput, match=r"--solver.*'cp-sat'.*whole numbers.*use highs"):
        solve(made, "joint-milp", solver="cp-sat")
