"""``storm-milp``: brute force as the judge, its parts, what it says when stuck."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.generators import generate
from formulations.column_generation.client import Client
from formulations.column_generation.problem import Clock
from formulations.storm import exact, milp, split
from formulations.storm.exact import StormClient
from formulations.storm.milp import METHOD
from formulations.storm.problem import StormProblem, list_states, make_problem, storm_jobs
from formulations.storm.split import Splitter
from optim.errors import UnsuitableMethod
from optim.format.instance import Instance
from optim.methods.registry import Request
from optim.methods.solve import solve
from optim.referee import Result, Termination, evaluate, evaluate_indices
from optim.solvers import LinearSolution, LinearTermination
from tests.formulations.storm.cases import brute_force, random_cluster
from tests.heuristics.storm.clusters import chain
from tests.optim.make import instance
from tests.slowly import product_of, slowly

SOLVERS = ("highs", "scip", "cbc", "cp-sat")


def levels(result: Result) -> dict[str, tuple[float | None, float | None]]:
    return {level.name: (level.value, level.bound) for level in result.objective_levels}


def check(made: Instance, *, digits: float = 0.0, **given: Any) -> None:
    """Compare both levels with brute force; `digits` of all traffic are left open beside."""
    if not made.has_open_node.all():
        try:
            found = solve(made, "storm-milp", **given)
        except UnsuitableMethod as error:
            assert "a staying node for every task" in str(error)
        else:  # what does not fit all nodes together is told before the method is asked
            assert found.termination == "infeasible"
            assert found.reasons
        return
    want = brute_force(made)
    result = solve(made, "storm-milp", **given)
    if want is None:
        assert result.termination == "infeasible", result
        assert result.exit_code == 3
        return
    # what is 0 for every plan is not called optimal
    proved = "optimal" if made.total_traffic > 0 else "heuristic"
    assert result.termination == proved, (result.termination, result.notes)
    assert result.plan is not None
    judged = evaluate(made, result.plan)
    assert judged.feasible, judged.violations
    assert judged.internode_traffic == pytest.approx(want[0], abs=1e-5)
    assert judged.interslot_traffic == pytest.approx(want[1], abs=1e-5)
    told, off = levels(result), digits * made.total_traffic
    assert told["internode_traffic"][1] == pytest.approx(want[0], abs=1e-5 + off / 100)
    assert told["interslot_traffic"][1] == pytest.approx(want[1], abs=1e-4 + off)


@pytest.mark.parametrize("seed", range(40))
def test_patterns_against_brute_force(seed: int) -> None:
    check(random_cluster(seed), form="patterns")


@pytest.mark.seeds(20)
@pytest.mark.parametrize("seed", [*range(100, 140), *slowly(*range(140, 400))])
def test_local_first_against_brute_force(seed: int) -> None:
    solver = SOLVERS[seed // 8 % 4] if seed % 8 == 0 else "highs"
    made = random_cluster(seed, near=True, slot_capacity=seed % 4 == 0)
    check(made, digits=1e-6, solver=solver)


@pytest.mark.parametrize("seed", [5092, *range(5100, 5115)])
def test_closing_over_few_columns_and_parts_loses_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No first plan, few columns at a time, a part for every number of empty nodes."""
    monkeypatch.setattr(Client, "stages", (3, 6, 12, 24))
    monkeypatch.setattr(exact, "PARTS_ABOVE", 4)
    monkeypatch.setattr(exact, "CUT_ABOVE", 2)
    if seed % 2:
        monkeypatch.setattr(StormClient, "from_columns", lambda *given: None)
    check(random_cluster(seed), form="patterns")


@pytest.mark.parametrize("seed", range(100, 118))
def test_linearised_form_against_brute_force(seed: int) -> None:
    check(random_cluster(seed, slot_capacity=seed % 2 == 0), form="workers")


@pytest.mark.parametrize(
    ("form", "solver"), product_of(["patterns", "workers"], "highs", ["scip", "cp-sat", "cbc"])
)
def test_all_back_ends(solver: str, form: str) -> None:
    check(random_cluster(2 if form == "patterns" else 104), form=form, solver=solver)


@settings(max_examples=15)
@given(st.integers(1000, 100_000))
def test_any_cluster(seed: int) -> None:
    check(random_cluster(seed))


def test_by_hand() -> None:
    # two chains of 1-1 with 10 each, coupled by 3: two nodes of one slot take a chain each
    made = chain([1, 1, 1, 1], workers=2, rates=[10.0, 3.0, 10.0]).replace(
        nodes=[{"id": f"n{i}", "slots": 1, "capacity": {"cpu": 3}} for i in range(2)]
    )
    result = solve(made, "storm-milp")
    assert levels(result) == {
        "internode_traffic": (pytest.approx(3.0), pytest.approx(3.0)),
        "interslot_traffic": (pytest.approx(3.0), pytest.approx(3.0)),
    }


def test_traffic_between_slots_comes_second() -> None:
    # all fit one node: nothing between nodes; of the splits into two workers the one at the 2
    made = chain([1, 1, 1], workers=2, rates=[5.0, 2.0])
    result = solve(made, "storm-milp")
    assert levels(result)["internode_traffic"] == (0.0, 0.0)
    assert levels(result)["interslot_traffic"] == (pytest.approx(2.0), pytest.approx(2.0))


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e8])
@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_levels_do_not_depend_on_the_unit_of_traffic(form: str, unit: float) -> None:
    """Seven flows of 2 to 7: 12 between nodes, 18 between slots, in any unit."""
    flows = [(0, 1, 5), (0, 2, 5), (1, 2, 4), (3, 4, 6), (2, 3, 7), (1, 3, 3), (0, 4, 2)]
    made = instance(
        nodes=[{"id": n, "capacity": {"cpu": 3}, "slots": 2} for n in "ab"],
        topologies=[{"id": "p", "workers": 3}],
        operators=[{"id": "o", "topology": "p"}],
        tasks=[{"id": f"t{i}", "load": {"cpu": 1}, "operator": "o"} for i in range(5)],
        streams=[],
        traffic=[[f"t{u}", f"t{v}", rate * unit] for u, v, rate in flows],
    )
    result = solve(made, "storm-milp", form=form)
    assert result.termination == "optimal"
    for name, value in (("internode_traffic", 12), ("interslot_traffic", 18)):
        assert levels(result)[name] == pytest.approx((value * unit,) * 2, rel=1e-6, abs=0)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_best_plan_may_lose_more_in_sum_than_any_of_its_patterns(solver: str) -> None:
    """Four tasks of 3 and one of 5 on nodes of 6: 2 + 2 + 1 keeps the only pair together."""
    made = instance(
        nodes=[{"id": f"n{i}", "capacity": {"cpu": 6}} for i in range(4)],
        operators=[
            {"id": "a", "group": {"tasks": 4, "load": {"cpu": 12}}},
            {"id": "b", "group": {"tasks": 1, "load": {"cpu": 5}}},
        ],
        streams=[],
        traffic=[["a/1", "a/0", 3]],
    )
    result = solve(made, "storm-milp", solver=solver)
    assert (result.termination, result.bound, result.bound_of) == ("optimal", 0.0, "problem")


@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_workers_and_slots_that_are_not_given_are_free(form: str) -> None:
    """One topology, no number of workers, two nodes: all of it fits one node, in one slot."""
    made = chain([2, 2], workers=None).replace(
        nodes=[{"id": "n0", "capacity": {"cpu": 4}}, {"id": "n1", "slots": 1}]
    )
    result = solve(made, "storm-milp", form=form)
    assert levels(result) == {"internode_traffic": (0.0, 0.0), "interslot_traffic": (0.0, 0.0)}
    assert result.bound_of == "problem"


def test_a_node_without_slots_takes_all_workers() -> None:
    made = chain([1, 1, 1], workers=3, rates=[5.0, 2.0]).replace(nodes=[{"id": "a"}, {"id": "b"}])
    assert levels(solve(made, "storm-milp")) == {
        "internode_traffic": (0.0, 0.0),
        "interslot_traffic": (pytest.approx(7.0), pytest.approx(7.0)),
    }


def test_more_topologies_without_workers_than_there_could_be_rows_for() -> None:
    names = [f"t{i}" for i in range(7)]
    made = instance(
        nodes=[{"id": f"n{i}", "slots": 4, "capacity": {"cpu": 7}} for i in range(2)],
        topologies=[{"id": n} for n in names],
        operators=[
            {"id": n, "topology": n, "group": {"tasks": 2, "load": {"cpu": 2}}} for n in names
        ],
        streams=[],
        traffic=[[f"{n}/0", f"{n}/1", 2 + i] for i, n in enumerate(names)],
    )
    result = solve(made, "storm-milp", form="patterns")
    assert levels(result)["internode_traffic"] == (pytest.approx(2.0), pytest.approx(2.0))


def test_exact_worker_counts_cost_traffic() -> None:
    # three workers for three executors on nodes of one slot: nobody shares a node
    made = chain([1, 1, 1], workers=3, rates=[5.0, 2.0]).replace(
        nodes=[{"id": f"n{i}", "slots": 1} for i in range(4)]
    )
    result = solve(made, "storm-milp")
    assert levels(result)["internode_traffic"][0] == pytest.approx(7.0)


def test_too_few_slots_are_told_with_figures() -> None:
    made = chain([2, 2], workers=4).replace(nodes=[{"id": "n0", "slots": 3}])
    result = solve(made, "storm-milp")
    assert result.exit_code == 3
    slots, workers = result.reasons
    assert (slots.rule, slots.where, slots.needed, slots.available) == ("slots", "n0", 4, 3)
    assert (workers.rule, workers.where, workers.needed) == ("workers", "t", 4)


def test_too_few_slots_where_the_executors_stand_now() -> None:
    # a placement without slots breaks no rule the referee could see, but is no Storm schedule
    made = chain([1, 1], workers=2)
    node = {"id": "n0", "slots": 1, "capacity": {"cpu": 100}}
    tasks = [{"id": f"c{i}/0", "operator": f"c{i}", "node": "n0"} for i in range(2)]
    made = made.replace(nodes=[node], tasks=tasks)
    for warm_start in (None, "storm-even"):
        result = solve(made, "storm-milp", warm_start=warm_start)
        assert result.termination == "infeasible"
        assert "needs 2, has 1" in str(result.reasons[0])


def test_no_slots_for_workers_that_are_not_given() -> None:
    made = chain([2, 2], workers=None).replace(nodes=[{"id": "n0", "slots": 0}])
    reason = solve(made, "storm-milp").reasons[0]
    assert (reason.rule, reason.needed, reason.available) == ("slots", 1, 0)  # it holds all
    for method in ("storm-even", "storm-offline", "storm-online"):
        assert solve(made, method).notes[0] == "t: 0 free slots for 1 workers"


def test_no_free_slots_at_all() -> None:
    made = chain([1, 1]).replace(nodes=[{"id": "n0", "slots": 0}])
    assert solve(made, "storm-milp").exit_code == 3


def test_slots_on_leaving_nodes_do_not_count() -> None:
    made = chain([1, 1], workers=2).replace(
        nodes=[{"id": "n0", "slots": 1}, {"id": "n1", "slots": 5, "leaving": True}]
    )
    result = solve(made, "storm-milp")
    assert result.exit_code == 3
    slots, _, leaving = result.reasons
    assert (slots.where, slots.needed, slots.available) == ("n0", 2, 1)
    assert (leaving.rule, leaving.where) == ("leaving", "n1")


def test_patterns_that_cannot_be_listed_are_refused_or_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("formulations.storm.milp.MOST_PATTERNS", 1)
    made = random_cluster(1)
    with pytest.raises(UnsuitableMethod, match="patterns are more than 1"):
        solve(made, "storm-milp", form="patterns")
    result = solve(made, "storm-milp")
    assert any("linearised form" in note for note in result.notes)


@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_never_worse_than_the_start(form: str) -> None:
    made = generate("storm_reference", seed=1, stages=2, replication="3", utilisation=50)
    start = solve(made, "storm-online")
    result = solve(made, "storm-milp", warm_start="storm-online", time_limit=2, form=form)
    assert result.warm_start is not None
    assert start.evaluation is not None
    assert result.evaluation is not None
    assert result.evaluation.internode_traffic <= start.evaluation.internode_traffic + 1e-6


def test_a_stopped_run_keeps_start_and_bound() -> None:
    made = generate("storm_reference", seed=1, stages=4, replication="4")
    result = solve(made, "storm-milp", warm_start="storm-online", time_limit=0.2, form="patterns")
    assert result.plan is not None
    assert result.feasible
    if result.bound is not None:
        assert result.objective is not None
        assert result.objective.value is not None
        assert result.bound <= result.objective.value + 1e-6


def test_a_start_that_breaks_a_rule_is_told() -> None:
    made = chain([1, 1, 1], workers=3, rates=[5.0, 2.0]).replace(
        nodes=[{"id": f"n{i}", "slots": 1} for i in range(3)]
    )
    from optim.format.plan import Plan

    bad = Plan.from_indices(made, np.zeros(3, dtype=np.int32))
    result = solve(made, "storm-milp", warm_start=bad)
    assert result.termination == "optimal"
    assert any("violates a rule" in note for note in result.notes)
    assert result.warm_start is not None
    assert result.warm_start.accepted is False


def test_the_paper_size_is_proven() -> None:
    # 20 executors, 4 workers, 4 nodes, 5 stages, all-to-all between stages
    made = generate("storm_reference", seed=0, stages=4, replication="4", grouping="shuffle")
    result = solve(made, "storm-milp")
    assert result.termination == "optimal"
    assert result.evaluation is not None
    share = result.evaluation.internode_traffic / result.evaluation.total_traffic
    assert share == pytest.approx(15 / 32)


def problem_of(made: Instance) -> StormProblem:
    return make_problem(made, storm_jobs(made, "storm-milp"))


def solved(made: Instance) -> StormClient:
    problem = problem_of(made)
    part = StormClient(problem, list_states(problem), Clock())
    part.master.run()
    return part


def test_the_master_bounds_the_optimum() -> None:
    looked_at = 0
    for seed in range(30):
        made = random_cluster(seed)
        want = brute_force(made)
        if want is None or made.total_traffic == 0:
            continue
        looked_at += 1
        part = solved(made)
        best = (made.total_traffic - want[0]) / part.problem.scale
        assert part.master.root.finished
        assert part.bound >= best - 1e-6
        before = part.bound
        part.tighten()
        assert best - 1e-6 <= part.bound <= before + 1e-6
    assert looked_at > 7


def test_equal_executors_and_nodes_are_classes() -> None:
    made = generate("storm_reference", seed=0, stages=4, replication="4", grouping="shuffle")
    problem = problem_of(made)
    assert problem.inner.sizes.tolist() == [4] * 5
    assert problem.num_states == 5**5
    assert problem.inner.num_node_classes == 1
    fields = generate("storm_reference", seed=0, stages=4, replication="4", grouping="fields")
    problem = problem_of(fields)
    assert problem.num_states == 5 * 2**16  # the spout's executors stay alike


def test_the_best_split() -> None:
    made = chain([2, 2], workers=2, rates=[8.0])
    problem = problem_of(made)
    splitter = Splitter(problem, 0)
    counts = np.array([[2, 2]])
    splitter.prepare(counts, np.array([2]))
    # 2 + 2 with 2 each pair: 3 + 1 keeps 4 of 8, so do 2 + 2 across
    inside = float(splitter.gain(counts, np.array([2]))[0]) * problem.inner.scale
    assert inside == pytest.approx(4.0)
    parts = splitter.parts(counts[0], 2)
    assert parts.sum(axis=0).tolist() == [2, 2]
    assert (parts.sum(axis=1) >= 1).all()


def test_a_task_bound_to_a_leaving_node_is_no_proof_of_infeasibility() -> None:
    """It may stay there, but slots of leaving nodes do not count: refused, not "infeasible"."""
    made = instance(
        nodes=[{"id": "n1", "slots": 2, "leaving": True}, {"id": "n2", "slots": 2}],
        tasks=[{"id": "a/0", "node": "n1", "allowed": ["n1"]}],
    )
    with pytest.raises(UnsuitableMethod, match="a staying node for every task, and a/0 may go"):
        solve(made, "storm-milp")


def test_too_few_slots_are_no_disagreement_with_a_start_that_says_no_slots() -> None:
    """Without slots a placement keeps no worker count, and its feasibility refutes nothing."""
    made = instance(
        nodes=[{"id": "n1", "slots": 1}, {"id": "n2", "slots": 1}],
        topologies=[{"id": "t", "workers": 3}],
        operators=[{"id": "a", "topology": "t", "group": {"tasks": 4}}],
        tasks=[{"id": f"a/{i}", "node": "n1"} for i in range(4)],
        streams=[],
    )
    for start in (None, "storm-even"):
        result = solve(made, "storm-milp", warm_start=start, repair=True)
        assert (result.termination, result.exit_code) == ("infeasible", 3)


def test_better_plans_are_handed_over_as_they_are_found() -> None:
    made = generate("storm_reference", seed=1, stages=2, replication="3", utilisation=50)
    request = Request(solver="highs", options=METHOD.read_options({"form": "patterns"}))
    outcome = METHOD.run(made, request)
    assert outcome.termination == "optimal"
    best = request.incumbents.plans[-1]
    judged = evaluate_indices(made, best.node, best.slot)
    assert judged.feasible
    assert judged.internode_traffic == pytest.approx(outcome.claimed)


@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_a_long_run_begins_with_the_best_of_the_heuristics(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No time is left for more than that."""
    monkeypatch.setattr(milp, "_AT_ONCE", 0)
    made = generate("storm_cluster", 0, topologies=2, executors=8, workers=2)
    start = solve(made, "storm-online")
    assert start.objective is not None
    result = solve(made, "storm-milp", form=form, time_limit=0.05)
    assert result.objective is not None
    assert result.feasible
    assert result.objective.value <= start.objective.value + 1e-9  # type: ignore[operator]


def test_of_equal_nodes_and_slots_most_executors_stay() -> None:
    """All fit one node; four of six are on the second, three of them in its slot 1."""
    made = chain([2, 2, 2], workers=2, rates=[5.0, 1.0])
    nodes = [{"id": n, "slots": 3, "capacity": {"cpu": 100}} for n in "abc"]
    at = [("a", 0), ("b", 1), ("b", 1), ("b", 1), ("b", 0), ("c", 2)]
    tasks = [
        {"id": f"c{i // 2}/{i % 2}", "operator": f"c{i // 2}", "node": node, "slot": slot}
        | {"load": {"cpu": 1}}
        for i, (node, slot) in enumerate(at)
    ]
    made = made.replace(nodes=nodes, tasks=tasks)
    result = solve(made, "storm-milp")
    assert result.evaluation is not None and result.plan is not None
    assert result.evaluation.migrations == 2
    assert set(result.plan.assignment.values()) == {"b"}
    slots = result.plan.slots
    assert slots is not None
    there = [t for t in tasks if t["node"] == "b"]
    assert [t["id"] for t in there if slots[t["id"]] != t["slot"]] == []


def test_executors_of_one_class_keep_their_slots() -> None:
    """Three alike in slots of two and one: who was in a slot that has room is there again."""
    group, before = np.zeros(3, np.int64), np.array([1, 0, -1])
    slot = split._slots(group, before, np.array([[2], [1]]))
    assert slot[:2].tolist() == [1, 0]
    assert sorted(np.bincount(slot).tolist()) == [1, 2]


def test_a_bound_lowered_by_rounding_is_within_the_gap_that_scip_was_asked_for() -> None:
    """SCIP stops at 8 - 8e-6, and the linearised form takes 1e-9 of all traffic off."""
    tasks = [("t0", 7, "n1"), ("t1", 3, "n0"), ("t2", 8, "n2")]
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "rounding",
            "nodes": [
                {"id": "n0", "capacity": {"cpu": 6}},
                {"id": "n1", "capacity": {"cpu": 6}, "min_load": {"cpu": 3.4818208787327882}},
                {"id": "n2", "capacity": {"cpu": 8}},
            ],
            "operators": [{"id": "so0"}],
            "tasks": [
                {"id": name, "load": {"cpu": load}, "operator": "so0", "node": node}
                | ({"copies": ["n2"]} if name == "t0" else {})
                for name, load, node in tasks
            ],
            "traffic": [["t0", "t2", 5], ["t2", "t0", 3]],
            "limits": {"max_migrations": 3},
        }
    )
    assert str(solve(instance, "storm-milp", solver="scip").termination) == "optimal"


def test_second_level_claims_nothing_of_a_part_without_a_bound() -> None:
    # its relaxation was stopped before the first bound: its patterns are not listed
    made = chain([2, 2])
    problem = problem_of(made)
    part = StormClient(problem, list_states(problem), Clock())
    assert part.bound == np.inf
    for value in (0.0, -np.inf):
        assert exact._as_good([solved(made), part], value) is None


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
@pytest.mark.parametrize("form", ["patterns", "workers"])
def test_little_traffic_between_nodes_is_proven_to_its_own_digits(form: str, solver: str) -> None:
    """Of 264,000 inside nodes and 78 between, 1e-9 of all is 3.4e-6 of what is between."""
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "little",
            "nodes": [{"id": n, "capacity": {"cpu": 3}, "slots": 1} for n in ("n0", "n1")],
            "topologies": [{"id": "job", "workers": 2}],
            "operators": [{"id": "o", "topology": "job"}],
            "tasks": [{"id": t, "load": {"cpu": 1}, "operator": "o"} for t in "abcdef"],
            "traffic": [
                ["a", "b", 160_000.25], ["c", "d", 100_000.5], ["e", "f", 40.0],
                ["b", "c", 60.0], ["d", "e", 38.0], ["a", "f", 3998.5],
            ],
        }
    )  # fmt: skip
    result = solve(made, "storm-milp", form=form, solver=solver)
    assert str(result.termination) == "optimal"
    assert result.objective is not None
    assert result.objective.value == pytest.approx(100.0)
    assert result.gap is not None
    assert result.gap <= 2e-9


def test_no_coefficient_is_the_tolerance_that_is_left_beside_a_task() -> None:
    """HiGHS' presolve took 8e-8 of room beside a task for some, and 56 between nodes for best."""
    copies = {"op0/0": ["n1", "n2", "n3"], "op0/1": ["n2"], "op0/3": ["n0", "n2"]}
    rates = {
        "op0/0": {"op0/1": 2}, "op0/1": {"op0/3": 1, "op2/0": 1}, "op0/3": {"op2/0": 7},
        "op0/2": {"op0/0": 10, "op1/1": 10, "op2/0": 3}, "op1/0": {"op0/2": 6, "op1/1": 5},
        "op1/1": {"op0/3": 9, "op1/0": 6, "op2/0": 4}, "op2/0": {"op0/0": 9},
    }  # fmt: skip
    loads = {"op0": (4, 4, 40), "op1": (2, 20, 0), "op2": (1, 6, 1)}
    made = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "full",
            "resources": ["cpu", "mem"],
            "nodes": [
                {"id": f"n{i}", "capacity": {"cpu": cpu, "mem": mem}}
                | ({"max_tasks": 4} if i == 0 else {})
                for i, (cpu, mem) in enumerate([(10, 10), (10, 11), (19, 18), (14, 16)])
            ],
            "operators": [
                {"id": name, "group": {"tasks": tasks, "load": {"cpu": cpu, "mem": mem}}}
                for name, (tasks, cpu, mem) in loads.items()
            ],
            "tasks": [
                {
                    "id": t,
                    "node": "n1",
                    "copies": at,
                    "state": 4,
                    "migration_cost": 4 + 3 * (at == ["n2"]),
                }
                for t, at in copies.items()
            ],
            "streams": [{"from": "op0", "to": "op2", "rate": 2}],
            "traffic": [[u, v, rate] for u, to in rates.items() for v, rate in to.items()],
            "limits": {"max_migration_cost": 6},
        }
    )
    result = solve(made, "storm-milp", solver="highs")
    assert str(result.termination) == "optimal"
    assert result.objective is not None
    assert result.objective.value == 47


def test_an_interrupt_of_the_second_level_is_told(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, plain = Instance.load(repository / "examples" / "capsys-q2.json"), exact._solve

    def interrupted(*arguments: Any) -> LinearSolution:
        answer = plain(*arguments)
        return replace(answer, x=None, termination=LinearTermination.INTERRUPTED)

    monkeypatch.setattr(exact, "_solve", interrupted)
    result = solve(instance, "storm-milp")
    assert result.termination is Termination.INTERRUPTED
    assert result.feasible
    assert result.gap == pytest.approx(0.0, abs=1e-6)
