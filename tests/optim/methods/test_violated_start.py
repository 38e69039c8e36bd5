"""A current placement that breaks limits: do not worsen, then mend."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.generators import generate
from formulations.conflicts.excess import least_excess
from optim import Instance, InvalidInput, Plan, Result, solve
from optim.figures.catalogue import find_objective
from optim.kernels.least_excess import LeastExcess, excess_bound
from optim.methods import solve as solving
from optim.methods import violated_start
from optim.methods.registry import Settings
from optim.methods.violated_start import SecondLevel, broken_start, first_level
from optim.referee import Termination
from optim.rules import budgets, slot_assignment
from optim.rules.budget import budget_rule
from streamplace import InstanceBuilder
from tests.command import run_command
from tests.fuzz.brute import Space
from tests.fuzz.cases import Finding
from tests.fuzz.mending import EVERY, FIELDS, FORCED, broken_instance, overfull_instance
from tests.fuzz.product import Calls, known_fields
from tests.fuzz.reading import Reading
from tests.fuzz.tally import asked
from tests.fuzz.variants import in_units

BROKEN = Path(__file__).parent / "broken"


def crowded(moves: int | None = 2, *, count: int = 9) -> Instance:
    """Nodes of 100; key groups of 24 on one of them."""
    builder = InstanceBuilder("crowded")
    for node in ("n0", "n1", "n2"):
        builder = builder.node(node, capacity=100)
    for i in range(count):
        builder = builder.task(f"k{i}", load=24, node="n0")
    builder = builder.task("a", load=5, node="n1").task("b", load=5, node="n2")
    for i in range(count):
        builder = builder.traffic(f"k{i}", "a", 1.0 + i)
    return builder.limits(max_migrations=moves).build() if moves is not None else builder.build()


METHODS = (
    "balance-milp", "balance-search", "joint-milp", "joint-search", "flux", "albic", "imc-milp",
    "scale-in-first",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_as_much_is_mended_as_the_budget_allows(method: str) -> None:
    result = solve(crowded(), method)
    assert result.plan is not None
    assert result.evaluation is not None
    assert result.mending is not None
    assert result.evaluation.node_loads["n0"]["cpu"] == pytest.approx(168)
    assert [(v.where, v.amount, was) for v, was in result.mending.still] == [("n0.cpu", 68, 116)]
    assert result.mending.rounds == 2
    assert result.objective_levels[0].name == "excess"
    assert result.objective_levels[0].value == pytest.approx(68 / 226)
    assert int(result.exit_code) == 4
    assert not result.feasible
    assert result.gap is None


def test_an_exact_method_proves_both_levels() -> None:
    result = solve(crowded(), "balance-milp")
    assert str(result.termination) == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(92.6667, abs=1e-3)
    level = result.objective_levels[0]
    assert level.bound == level.value


def test_whole_weights_that_count_some_moves_only_bound_no_number_of_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a, b on n1 and n2 count; the key groups on n0 move for nothing
    some = budget_rule("max_migrations", lambda instance: (instance.tasks.node > 0).astype(float))
    monkeypatch.setattr("optim.rules.BUDGETS", (some,))
    instance = crowded(0)
    (budget,) = budgets(instance)
    assert budget.integral
    assert not budget.counts_all
    node = np.array([0] * 3 + [1] * 3 + [2] * 3 + [1, 2], dtype=np.int32)
    assert not budget.weight[node != instance.tasks.node].any()
    assert (np.bincount(node, instance.tasks.load[:, 0]) <= 100).all()
    assert excess_bound(instance, np.ones(1)) == 0.0  # as of the plan above


def test_a_level_that_its_time_ended_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever it is, and however soon the run after it ends."""
    whole = solving._solve
    runs: list[Result] = []

    def first_run_late(*args: Any) -> Result:
        runs.append(whole(*args))
        if runs[1:]:
            return runs[-1]
        return replace(runs[0], termination=Termination.TIME_LIMIT, bound=None)

    def late(*args: Any) -> LeastExcess:
        return replace(first_level(*args), bound=0.0, late=True)

    for name, changed in (("_solve", first_run_late), ("first_level", late)):
        with monkeypatch.context() as patch:
            patch.setattr(solving, name, changed)
            assert str(solve(crowded(), "joint-milp").termination) == "time_limit"


def test_refusing_says_that_there_is_no_plan() -> None:
    result = solve(crowded(), "balance-milp", start_broken="refuse")
    assert str(result.termination) == "infeasible"
    assert result.mending is None
    assert int(result.exit_code) == 3


def test_a_plan_that_keeps_all_is_today_s_answer() -> None:
    mended, refused = (
        solve(crowded(9), "balance-milp", start_broken=s) for s in ("mend", "refuse")
    )
    assert mended.feasible
    assert mended.mending is None
    assert mended.plan is not None
    assert refused.plan is not None
    assert mended.plan.sha256 == refused.plan.sha256
    assert mended.objective_levels == refused.objective_levels


def test_a_method_of_its_own_choice_mends() -> None:
    result = solve(crowded())
    assert result.mending is not None
    assert result.mending.still[0][0].amount == pytest.approx(68)


def test_no_budget_at_all_keeps_what_is_there() -> None:
    result = solve(crowded(0), "balance-milp")
    assert result.moves == ()
    assert result.mending is not None
    assert result.mending.rounds is None
    assert "this budget mends nothing" in str(result.mending)


def test_too_much_load_altogether_is_spread_without_an_end() -> None:
    result = solve(crowded(None, count=14), "balance-milp")
    assert result.mending is not None
    level = result.objective_levels[0]
    proven = level.bound == pytest.approx(level.value)
    told = "no plan mends more" if proven else "whether a plan mends more is not known"
    assert told in str(result.mending)
    assert result.mending.excess == pytest.approx(54 / 346)  # four of 24 on each of the others


def test_forced_moves_stay_forced() -> None:
    builder = InstanceBuilder("forced").node("n0", capacity=1).node("n1", capacity=1)
    builder = builder.task("a", load=2, node="n0", allowed=["n1"])
    result = solve(builder.limits(max_migrations=0).build(), "balance-milp")
    assert str(result.termination) == "infeasible"


@pytest.mark.parametrize("method", ["imc-exact", "balance-milp", "joint-search", "scale-in-first"])
@pytest.mark.parametrize("huge", [1.0, 1e6, 1e14])
def test_a_huge_load_elsewhere_changes_nothing_of_what_is_mended(method: str, huge: float) -> None:
    builder = InstanceBuilder("huge").node("far").node("n1", capacity=100)
    builder = builder.node("n2", capacity=100).task("h", load=huge, node="far", allowed=["far"])
    for task, load in (("a", 60), ("b", 60), ("c", 30)):
        builder = builder.task(task, load=load, node="n1", allowed=["n1", "n2"])
    builder = builder.task("d", load=60, node="n2", allowed=["n2"]).traffic("a", "b", 1.0)
    result = solve(builder.build(), method)
    assert [move.task for move in result.moves] == ["c"]
    assert result.mending is not None
    assert [(v.where, v.amount, was) for v, was in result.mending.still] == [("n1.cpu", 20, 50)]
    assert result.mending.least


def test_repair_is_not_asked_where_the_plan_of_least_excess_keeps_every_limit() -> None:
    builder = InstanceBuilder("good").node("n0", capacity=12).node("n1", capacity=12, leaving=True)
    builder = builder.node("n2", capacity=12).task("t0", load=4, node="n1")
    for task, load in (("t1", 9), ("t2", 4), ("t3", 5)):
        builder = builder.task(task, load=load, node="n2")
    instance = builder.limits(max_migrations=1).build()
    plain, repaired = (solve(instance, "scale-in-first", repair=r) for r in (False, True))
    assert plain.feasible
    assert not repaired.repaired
    assert plain.plan is not None
    assert repaired.plan is not None
    assert plain.plan.sha256 == repaired.plan.sha256


@pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-7])
def test_that_the_excess_is_the_least_is_proven_however_small_it_is(share: float) -> None:
    rates = (7.1, 9.7, 16.3)
    capacity = sum(rates) * (1 - share)
    for order in ((0, 1, 2), (2, 0, 1)):  # names and order change no proof
        builder = InstanceBuilder("small").node("n0", capacity=capacity)
        builder = builder.node("n1", capacity=capacity)
        for k in order:
            builder = builder.task(f"t{k}", load=rates[k], node="n0")
        for k, load in enumerate((20.3, 5.9, 6.9)):
            builder = builder.task(f"s{k}", load=load, node="n1")
        builder = builder.traffic("t0", "t1", 1.0)
        result = solve(builder.limits(max_migrations=1).build(), "imc-milp")
        assert str(result.termination) == "optimal"
        assert result.mending is not None
        assert result.mending.least


@pytest.mark.parametrize("seed", [15, 17])
def test_a_start_by_name_is_never_made_worse(seed: int) -> None:
    instance = Instance.from_dict(broken_instance(seed))
    start = solve(instance, "balance-search")
    found = solve(instance, "balance-milp", warm_start="balance-search", time_limit=0.001)
    assert start.mending is not None
    assert found.mending is not None
    assert found.warm_start is not None
    assert found.warm_start.method == "balance-search"
    assert start.objective is not None
    assert found.objective is not None
    assert found.mending.excess <= start.mending.excess * (1 + 1e-7)
    if found.mending.excess >= start.mending.excess * (1 - 1e-7):
        assert found.objective.value <= start.objective.value * (1 + 1e-9)  # type: ignore[operator]


def test_a_rate_to_be_carried_is_kept_or_refused() -> None:
    assert solve(crowded(), "throughput-exact", target_rate=1.0).mending is None


def test_how_must_be_one_of_two() -> None:
    with pytest.raises(InvalidInput, match="is no mode"):
        solve(crowded(), "balance-milp", start_broken="ignore")


def test_the_command_says_first_what_is_still_broken(tmp_path: Path) -> None:
    (tmp_path / "over.json").write_text(crowded().to_json())
    found = run_command(["solve", "over.json", "--method", "balance-milp"], tmp_path, {})
    assert found.returncode == 4
    assert found.stdout.splitlines()[0] == (
        "still broken: capacity of n0.cpu by 68 (was 116); about 2 more rounds of the budget"
    )
    assert run_command(["solve", "over.json", "--start-broken", "no"], tmp_path, {}).returncode == 2


@pytest.mark.seeds(6)
def told_wrong(
    seed: int, methods: list[str], fields: frozenset[str] = FIELDS, *, some: bool = False
) -> list[Finding]:
    """Return what brute force finds wrong with the answers for one broken start."""
    document, counts, calls = broken_instance(seed, fields, some=some), Counter[str](), Calls(120)
    found = [f for name in methods for f in asked(document, seed, name, counts, calls)]
    assert counts["asked"] == len(methods)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_all_placements_agree(seed: int) -> None:
    methods = ["balance-milp", "imc-milp", "joint-search", "storm-milp", "throughput-milp", "flux"]
    assert told_wrong(seed, methods) == []


@pytest.mark.seeds(6)
@pytest.mark.parametrize("seed", range(100, 112))
def test_all_placements_agree_where_some_tasks_have_no_node(seed: int) -> None:
    methods = ["balance-milp", "imc-milp", "eoa-milp", "storm-milp", "throughput-milp"]
    assert told_wrong(seed, methods, some=True) == []


@pytest.mark.seeds(3)
@pytest.mark.parametrize("seed", range(1000, 1006))
def test_all_placements_agree_where_tasks_may_not_stay_or_exceed_slots(seed: int) -> None:
    assert told_wrong(seed, ["imc-milp"], EVERY | {FORCED}) == []


@pytest.mark.parametrize(
    ("seed", "method"),
    [
        (1154, "eoa-milp"),  # what is there now is at the edge of the load distance
        (1172, "imc-brute"),  # its plans leave leaving nodes, and more excess
        (1190, "eoa-milp"),  # capacities of 0, of which the objective is a share
        (33, "balance-milp"),  # sets together
        (10, "balance-milp"),  # forced moves
    ],
)
def test_cases_that_were_wrong_while_this_was_written(seed: int, method: str) -> None:
    assert told_wrong(seed, [method]) == []


@pytest.mark.parametrize(
    ("seed", "method"),
    [
        (4, "storm-milp"),  # what slots have room for
        (36, "imc-milp"),  # sets that are to be together
        (49, "balance-milp"),  # numbers of slots
    ],
)
def test_the_least_excess_is_proven_of_what_the_model_undersells(seed: int, method: str) -> None:
    instance = Instance.from_json(json.dumps(broken_instance(seed)))
    result = solve(instance, method)
    assert result.mending is not None
    assert result.mending.least
    assert result.objective_levels[0].bound == result.objective_levels[0].value


def test_one_slot_more_holds_any_number_of_tasks() -> None:
    """All but a fit n1, which has no slot for the one that may be nowhere else."""
    builder = InstanceBuilder("slots").node("n0", capacity=3).node("n1", capacity=3, slots=0)
    places = (("a", 3, "n1"), ("b", 0.5, "n1"), ("c", 0.5, "n0"), ("d", 0.0625, "n1"))
    for task, load, node in places:
        builder = builder.task(task, load=load, node=node)
    builder = builder.task("e", load=0.0625, node="n1")
    builder = builder.task("f", load=0.625, node="n1", allowed=["n1"])
    start = broken_start(builder.build(), find_objective("nodes_used"))
    assert start is not None
    least = first_level(start, None)
    assert (least.excess, least.bound) == (pytest.approx(1 / 6), pytest.approx(1 / 6))


@pytest.mark.parametrize("method", ["imc-brute", "plan-milp"])
@pytest.mark.parametrize("seed", [1894, 2116])
def test_few_placements_are_all_judged_where_slots_stay_exceeded(seed: int, method: str) -> None:
    document = broken_instance(seed, known_fields() | {FORCED}, sure=frozenset({"local_first"}))
    asked: dict[str, Any] = {"objective": "internode_traffic", "ignore": ["local_first_links"]}
    result = solve(Instance.from_dict(document), method, **asked if method == "plan-milp" else {})
    assert result.objective is not None
    assert result.bound == pytest.approx(result.objective.value)


def test_the_best_of_all_placements_is_not_optimal_for_nothing() -> None:
    result = solve(Instance.load(BROKEN / "a-gain-of-nothing.json"), "imc-brute")
    assert result.objective is not None
    assert (result.objective.value, str(result.termination)) == (0.0, "heuristic")


@pytest.mark.parametrize("some", [False, True])
def test_every_broken_instance_can_be_read(some: bool) -> None:
    for seed in range(60):
        Instance.from_dict(broken_instance(seed, known_fields() | {FORCED}, some=some))


def test_every_overfull_instance_has_no_plan_that_keeps_all_limits() -> None:
    for seed in range(60):
        document = overfull_instance(seed, known_fields() | {FORCED})
        Instance.from_dict(document)
        assert not Space(Reading(document)).loose.any()


@pytest.mark.seeds(4)
@pytest.mark.parametrize("seed", range(8))
def test_all_placements_agree_where_every_plan_exceeds_a_limit(seed: int) -> None:
    document, counts, calls = overfull_instance(seed, EVERY), Counter[str](), Calls(120)
    methods = ("balance-milp", "imc-milp", "throughput-milp", "joint-milp")
    assert [f for name in methods for f in asked(document, seed, name, counts, calls)] == []


def test_what_a_thread_has_too_much_is_known_to_stay() -> None:
    builder = InstanceBuilder("thread").node("n0", capacity=10).node("n1", capacity=10)
    builder = builder.task("a", load=3, node="n0", max_load=2).task("b", load=1, node="n0")
    result = solve(builder.traffic("a", "b", 1.0).build(), "balance-milp")
    assert result.mending is not None
    assert result.mending.least
    assert str(result.termination) == "optimal"


def test_what_a_thread_has_too_much_is_a_share_of_its_own_resource() -> None:
    builder = InstanceBuilder("threads", resources=["cpu", "memory"])
    builder = builder.node("n0", capacity={"cpu": 9, "memory": 900}).operator("op (x)")
    builder = builder.task(
        "a", operator="op (x)", load={"cpu": 1, "memory": 400}, node="n0", max_load={"memory": 300}
    )
    builder = builder.task("b", load={"cpu": 3, "memory": 100}, node="n0")
    result = solve(builder.build(), "balance-milp")
    assert result.mending is not None
    assert result.mending.excess == pytest.approx(100 / 500)


def test_brute_force_with_ceilings_sees_a_share_of_the_wrong_resource(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed, methods = 4000040, ["balance-milp"]
    assert told_wrong(seed, methods, EVERY) == []
    monkeypatch.setattr("optim.rules._resource", lambda *_: 0)
    wrong = {finding.kind for finding in told_wrong(seed, methods, EVERY)}
    assert "mend-figure" in wrong


def test_the_best_of_plans_that_empty_leaving_nodes_has_reached_its_gap() -> None:
    builder = InstanceBuilder("leaving").node("n0", capacity=0, leaving=True)
    builder = builder.node("n1", capacity=2).node("n2", capacity=2)
    for i, node in enumerate(("n0", "n1", "n1", "n1", "n1", "n1", "n2")):
        builder = builder.task(f"t{i}", load=1, node=node)
    builder = builder.traffic("t0", "t4", 1.0).traffic("t1", "t2", 2.0)
    result = solve(builder.build(), "imc-milp")
    assert result.mending is not None
    assert result.mending.least
    assert (str(result.termination), result.bound_of) == ("gap_reached", "restricted")


@pytest.mark.parametrize("method", ["balance-milp", "imc-exact", "balance-search", "flux", None])
def test_a_placement_of_some_tasks_is_mended_beside_the_placing_of_the_others(
    method: str | None,
) -> None:
    builder = InstanceBuilder("some").node("n0", capacity=1).node("n1", capacity=1)
    builder = builder.task("a", load=2, node="n0").task("b", load=1)
    result = solve(builder.build(), method)
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"a": "n0", "b": "n1"}
    assert result.mending is not None
    assert [(v.where, v.amount, was) for v, was in result.mending.still] == [("n0.cpu", 1.0, 1.0)]
    more = builder.task("c", load=0.5).build()
    result = solve(more, method)  # c would make n0 worse, or break n1
    assert (str(result.termination), result.mending) == ("infeasible", None)


@pytest.mark.parametrize("method", ["storm-even", "flux", "random"])
def test_what_overloads_by_design_calls_nothing_infeasible_that_can_be_mended(method: str) -> None:
    builder = InstanceBuilder("full").node("n0", capacity=10).node("n1", capacity=6)
    for i, node in enumerate(("n0", "n0", "n1")):
        builder = builder.task(f"t{i}", load=6, node=node)
    result = solve(builder.build(), method)
    assert str(result.termination) != "infeasible"
    assert result.plan is not None
    assert result.mending is not None
    assert result.objective_levels[0].value == pytest.approx(2 / 18)


def test_a_start_that_leaves_tasks_behind_does_not_answer_drain_hard() -> None:
    instance = Instance.load(BROKEN / "drain-hard-from-a-broken-start.json")
    for start in (None, "balance-search"):
        result = solve(instance, "balance-milp", drain="hard", warm_start=start)
        assert result.plan is not None
        assert not instance.nodes.leaving[result.plan.node_indices(instance)].any()


def test_repair_of_a_broken_start_packs_what_can_be_packed() -> None:
    instance = Instance.load(BROKEN / "repair-of-a-broken-start.json")
    assert not solve(instance, "storm-offline").feasible
    result = solve(instance, "storm-offline", repair=True)
    assert result.feasible
    assert result.repaired


def _costly_to_cross() -> Instance:
    """Nine tasks on three nodes that they fit, but for what it costs to cross nodes."""
    builder = InstanceBuilder("dear", crossing_cost={"cpu": {"out": 1, "in": 1}})
    for node in ("n0", "n1", "n2"):
        builder = builder.node(node, capacity=10)
    for i in range(9):
        builder = builder.task(f"t{i}", load=3, node="n0")
    for i in range(9):
        builder = builder.traffic(f"t{i}", f"t{(i + 1) % 9}", 1.0 + i / 10)
    return builder.build()


@pytest.mark.parametrize("name", ["", "a-bound-that-creeps"])
def test_what_the_model_of_least_excess_does_not_know_takes_no_endless_rounds(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from formulations.conflicts import excess

    asked: list[object] = []
    solved = excess.solve_small_milp

    def counted(*arguments: object, **keywords: object) -> object:
        asked.append(arguments)
        return solved(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(excess, "solve_small_milp", counted)
    solve(Instance.load(BROKEN / f"{name}.json") if name else _costly_to_cross(), "imc-brute")
    assert 0 < len(asked) <= 40


def test_a_method_that_keeps_no_such_limit_is_refused_before_anything_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def mended(*_: object) -> None:
        raise AssertionError("mended first")

    monkeypatch.setattr("optim.methods.solve.first_level", mended)
    with pytest.raises(InvalidInput, match="naive does not keep crossing_cost"):
        solve(_costly_to_cross(), "naive")


@pytest.mark.slow
def test_notes_of_a_plan_that_is_not_taken_are_not_told() -> None:
    """Seven tasks cannot be apart over two racks: the plan is that of least excess."""
    loads = [5.39, 5.08, 9.89, 0.17, 7.44, 9.22, 0.42]
    homes = ["n0", "n0", "n2", "n0", "n0", "n1", "n0"]
    room = {"n0": 10.47, "n1": 11.37, "n2": 9.89, "n3": 9.71}
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "racks",
            "nodes": [
                {"id": n, "capacity": {"cpu": c}, "rack": f"r{i % 2}"}
                for i, (n, c) in enumerate(room.items())
            ],
            "operators": [{"id": "o"}],
            "tasks": [
                {"id": f"t{i}", "load": {"cpu": load}, "operator": "o", "node": home}
                for i, (load, home) in enumerate(zip(loads, homes, strict=True))
            ],
            "traffic": [["t0", "t1", 8.9], ["t0", "t4", 9.6], ["t5", "t3", 5.4], ["t6", "t2", 3.9]],
            "sets": [{"id": "p0", "rule": "apart", "over": "rack", "operator": "o", "at_most": 1}],
            "limits": {"max_load_distance": 1.19, "max_inflow": 1},
        }
    )
    result = solve(instance, "throughput-milp", time_limit=8.0)
    assert "throughput-milp found no plan: the plan of least excess replaces it" in result.notes
    assert not any("the plan carries" in note for note in result.notes)


def test_the_least_excess_is_not_lost_in_presolve() -> None:
    """`g4/0` fills n1 exactly; a load of 1e-9 of the capacity made HiGHS' presolve exclude that."""
    instance = Instance.load(BROKEN / "least-excess-lost-in-presolve.json")
    result = solve(instance, "throughput-exact")
    assert result.mending is not None
    assert result.mending.excess == pytest.approx(
        83.9774981202469 / 337.6111789982206
        + 6525.40734025729 / 151182.31465327332
        + 16.488528557469266 / 337.6111789982206
    )


def test_all_placements_are_judged_where_they_are_few() -> None:
    """The model knows no cost of crossing, and no single move mends more."""
    result = solve(Instance.load(BROKEN / "what-crosses-and-nodes-of-their-own.json"), "imc-brute")
    assert result.mending is not None
    assert result.mending.least
    assert result.mending.excess == pytest.approx(0.5284627)


def test_shares_of_the_excess_are_searched_without_heuristics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import optim.methods.solve as solving

    plain, starts = solving._solve, []

    def noted(instance: Instance, method: str, asked: Settings) -> Result:
        starts.append(asked.starts)
        return plain(instance, method, asked)

    monkeypatch.setattr(solving, "_solve", noted)
    result = solve(Instance.from_dict(broken_instance(73)), "plan-milp")
    assert result.termination == "optimal"
    assert starts[0] == "own"
    assert "none" in starts[1:]


def test_of_plans_of_equal_excess_rounding_chooses_none() -> None:
    """Descent leaves one of two equal tasks where it is; the model's plan exchanges them."""
    result = solve(Instance.load(BROKEN / "equal-but-for-rounding.json"), "gma")
    assert result.plan is not None
    assert (result.plan.assignment["op1/0"], result.plan.assignment["op1/1"]) == ("n2", "n1")


@pytest.mark.parametrize("work", [0, 200_000])
def test_what_may_fit_the_slots_has_less_excess(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Task a has to join the others: two slots of 12 do, where first-fit finds three."""
    little = partial(slot_assignment.assign_slots, work=work)
    monkeypatch.setattr(slot_assignment, "assign_slots", little)
    builder = InstanceBuilder("slots").node("n1", slots=2, slot_capacity=12).node("n2", capacity=3)
    for task, load in zip("abcdef", [6, 5, 4, 3, 3, 3], strict=True):
        builder = builder.task(task, load=load, node="n2" if task == "a" else "n1")
    result = solve(builder.limits(max_migrations=1).build(), "imc-brute", objective="nodes_used")
    if work:
        assert result.termination == "optimal"
    else:
        assert result.mending is not None
        assert not result.mending.least


def test_most_of_the_time_is_for_a_plan_that_keeps_every_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The joint instance has one; that none is better in excess is not seen within the time."""
    import optim.methods.solve as solving

    limits: list[float | None] = []
    own = solving._solve

    def spy(instance: Instance, method: str, asked: Settings) -> Result:
        limits.append(asked.time_limit)
        return own(instance, method, asked)

    monkeypatch.setattr(solving, "_solve", spy)
    instance = generate("joint", seed=1, max_load_distance=5.0)
    solve(instance, "joint-search", time_limit=0.5)
    assert limits[0] is not None
    assert limits[0] >= 0.4


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_placements_beyond_number_are_not_judged() -> None:
    start = broken_start(crowded(None, count=700), find_objective("load_distance"))
    assert start is not None
    assert violated_start._all_placements(start, 1000) is None


@pytest.mark.parametrize(
    ("method", "more", "only"),
    [
        ("storm-milp", {"topologies": [{"id": "j", "workers": 1}]}, {}),
        ("imc-milp", {"limits": {"max_migrations": 1}}, {"allowed": ["n0"]}),
    ],
    ids=["workers", "allowed"],
)
def test_a_start_that_breaks_what_must_hold_is_not_taken_for_better(
    method: str, more: dict[str, Any], only: dict[str, Any]
) -> None:
    """It has less excess: it breaks a rule that no plan may break, and no capacity."""
    places = (("a", 3, "n0"), ("b", 3, "n0"), ("c", 0, "n1"), ("d", 0, "n1"))
    tasks = [
        {"id": task, "load": {"cpu": load}, "node": node, "operator": "o"}
        for task, load, node in places
    ]
    tasks[2] |= only
    slots = {} if only else {"slots": 2}
    nodes = [{"id": node, "capacity": {"cpu": 4}, **slots} for node in ("n0", "n1")]
    document = {
        "format": "streamplace.instance/1", "name": "held", "resources": ["cpu"],
        "nodes": nodes, "tasks": tasks, "traffic": [["a", "b", 1.0]],
        "operators": [{"id": "o", **({} if only else {"topology": "j"})}], **more,
    }  # fmt: skip
    apart = Plan("held", {"a": "n0", "b": "n1", "c": "n1", "d": "n1"})
    instance = Instance.from_dict(document)
    result = solve(instance, method, warm_start=apart)
    assert result.plan is not None
    assert result.plan.assignment["c"] == "n0"
    assert result.objective_levels[0].value == pytest.approx(2 / 6)


def test_a_bound_that_the_plan_beats_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SecondLevel.solve

    def too_high(self: SecondLevel, *, exact: bool) -> None:
        whole(self, exact=exact)
        assert self.bound is not None
        self.bound += 1

    monkeypatch.setattr(SecondLevel, "solve", too_high)
    result = solve(crowded(), "balance-milp")
    assert (result.bound, str(result.termination)) == (None, "iteration_limit")
    assert any("not believed" in note for note in result.notes)


def test_no_number_of_workers_is_left_violated() -> None:
    """Two workers run and one is wanted, for which neither node has the capacity."""
    builder = InstanceBuilder("workers", topologies=[{"id": "j", "workers": 1}])
    for node in ("n0", "n1"):
        builder = builder.node(node, capacity=4, slots=2)
    builder = builder.operator("o", topology="j").traffic("t0", "t1", 3)
    for i in range(2):
        builder = builder.task(f"t{i}", load=5, operator="o", node=f"n{i}")
    result = solve(builder.build(), "plan-search")
    assert (result.termination, result.plan) == ("infeasible", None)


@pytest.mark.parametrize(
    ("moves", "loads", "room", "more", "least"),
    [
        (1, (5, 3, 2), 9, {}, 1 / 10),  # of 6 too many the largest task takes 5
        (1, (4, 4, 4), 9, {"copies": ["n1"]}, 0.0),  # the first one goes free of charge
        (None, (2, 2, 2, 2), 2, {}, 2 / 8),  # no more than 6 fit
        # what crosses only adds load
        (1, (5, 3, 2), 9, {"crossing_cost": {"cpu": {"out": 1, "in": 1}}}, 1 / 10),
        # a budget of costs bounds no number of moves
        (None, (5, 3, 2), 9, {"max_migration_cost": 2, "migration_cost": 0.5}, 0.0),
    ],
    ids=["moves", "copies", "room", "crossing", "costs"],
)
def test_no_placement_has_less_than_the_bound_of_the_excess(
    moves: int | None,
    loads: tuple[int, ...],
    room: int,
    more: dict[str, Any],
    least: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = dict(more)
    crossing, cost = more.pop("crossing_cost", None), more.pop("max_migration_cost", None)
    builder = InstanceBuilder("bound", **({"crossing_cost": crossing} if crossing else {}))
    builder = builder.node("n0", capacity=4).node("n1", capacity=room)
    for i, load in enumerate(loads):
        builder = builder.task(f"t{i}", load=load, node="n0", **({} if i and not cost else more))
    instance = builder.limits(max_migrations=moves, max_migration_cost=cost).build()
    start = broken_start(instance, find_objective("migrations"))
    assert start is not None
    every = itertools.product(range(2), repeat=len(loads))
    known = min(start.judged(np.array(node, dtype=np.int32))[0] for node in every)
    assert known == pytest.approx(least)
    assert excess_bound(instance, start.weight) == pytest.approx(least)
    loose = start.loose(instance.tasks.node)
    # the model itself: with few placements that are cut off
    monkeypatch.setattr("formulations.conflicts.excess._ROUNDS", 3)
    node, bound = least_excess(instance, loose, start.weight, None, start.judged_surely)
    assert node is not None
    assert start.judged(node)[0] == pytest.approx(known)
    assert bound == pytest.approx(least)


def test_a_model_that_excludes_a_known_plan_proves_no_least_excess() -> None:
    """Beside a background of 1e13 the model of the excess is infeasible to a solver."""
    builder = InstanceBuilder("beside", resources=["cpu", "mem"])
    for n, (cpu, mem, background) in enumerate([(10, 15, 0), (16, 10, 1e13), (10, 20, 0)]):
        builder = builder.node(f"n{n}", capacity={"cpu": cpu, "mem": mem}, background=background)
    for t, at in enumerate([0, 1, 0]):
        builder = builder.task(f"t{t}", load={"cpu": 5, "mem": 9}, node=f"n{at}")
    instance = builder.task("t3", load={"cpu": 9, "mem": 2}, node="n2").build()
    result = solve(instance, "balance-milp")
    # n0 and n2 exchange tasks, which mends the memory of n0
    assert result.mending is not None
    assert result.mending.excess == pytest.approx(1.0)
    assert [v.where for v, _ in result.mending.still] == ["n1.cpu"]


def _end(document: dict[str, Any], power: int) -> tuple[str, float]:
    """Return how balance-milp ends with loads × 10^power, and the least excess."""
    result = solve(Instance.from_dict(in_units(document, power, 0, 0)), "balance-milp")
    return str(result.termination), result.mending.excess if result.mending else 0.0


@pytest.mark.parametrize("power", [-4, -1, 0, 1, 3])
def test_a_row_exceeded_by_rounding_has_no_share_of_the_excess(power: int) -> None:
    """Loads of one node sum to its capacity and 1e-17: that row was narrowed without end."""
    document = json.loads((BROKEN / "full-but-for-rounding.json").read_text())
    assert _end(document, power) == ("optimal", pytest.approx(20 / 111))


@pytest.mark.parametrize("seed", [0, 1, 3, 5, 10, 12, 13])
def test_the_unit_of_loads_changes_no_end(seed: int) -> None:
    document = broken_instance(seed)
    termination, excess = _end(document, 0)
    for power in (-1, 2):
        assert _end(document, power) == (termination, pytest.approx(excess, rel=1e-6))
