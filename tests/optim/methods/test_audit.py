"""Claims are held against the referee in the unit of the instance, be it bytes or terabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from optim import Instance, solve
from optim.errors import SolverError
from optim.figures.catalogue import OBJECTIVES
from optim.methods.audit import _without_idle_moves, check_bound, check_claim
from optim.methods.registry import Method, Outcome
from optim.referee import Evaluation, Level, Termination, evaluate_indices

if TYPE_CHECKING:
    from optim.format.tables import Ints


def apart(unit: float) -> Instance:
    """Return two tasks of traffic 1 (in `unit`) that no node takes together."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "apart",
            "resources": ["cpu"],
            "nodes": [{"id": n, "capacity": {"cpu": 1.0}} for n in "ab"],
            "tasks": [{"id": f"t{i}", "load": {"cpu": 0.6}} for i in range(2)],
            "traffic": [["t0", "t1", unit]],
        }
    )


def judged(unit: float) -> Evaluation:
    return evaluate_indices(apart(unit), np.array([0, 1], dtype=np.int32))


def claim(value: float, unit: float) -> None:
    method = cast("Any", type("Named", (), {"name": "named"}))
    outcome = Outcome(Termination.OPTIMAL)
    outcome.claimed = value
    check_claim(cast("Method", method), outcome, OBJECTIVES["imc_gain"], judged(unit))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
def test_what_a_tolerance_leaves_on_is_no_wrong_claim_in_any_unit(unit: float) -> None:
    claim(1e-8 * unit, unit)
    with pytest.raises(SolverError, match="claims imc_gain"):
        claim(1e-5 * unit, unit)


@pytest.mark.parametrize("solver", ["highs", "cbc", "scip", "cp-sat"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e12])
def test_that_no_plan_has_more_than_nothing_is_proven_in_any_unit(solver: str, unit: float) -> None:
    result = solve(apart(unit), "imc-milp", solver=solver)
    told = (result.objective.value, result.bound, result.bound_of, result.gap)
    assert told == (0.0, 0.0, "problem", 0.0)
    # what is the same for every plan is never called optimal
    assert result.termination == "heuristic"
    assert "imc_gain is 0 for every plan: no plan has more" in result.notes


@pytest.mark.parametrize(("bound", "kept"), [(5.0, True), (0.0, True), (-5.0, False)])
def test_a_beaten_bound_of_a_restricted_problem_is_dropped_with_a_note(
    bound: float, kept: bool
) -> None:
    # it stood there with a gap of 0
    method = cast("Method", cast("Any", type("Named", (), {"name": "named"})))
    outcome = Outcome(Termination.GAP_REACHED, bound=bound, assumes=("that are small",))
    check_bound(method, outcome, OBJECTIVES["imc_gain"], 0.0, judged(1.0), stands=True)
    assert outcome.bound == (bound if kept else None)
    assert outcome.assumes == (("that are small",) if kept else ())
    assert ("is dropped, since the plan has 0" in " ".join(outcome.notes)) is not kept


def draining(room: float, *, home: bool = True) -> Instance:
    """Return three tasks of 4, two of them on a leaving node; the other node has this room."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "draining",
            "resources": ["cpu"],
            "nodes": [
                {"id": "n0", "capacity": {"cpu": room}, "slots": 1},
                {"id": "n1", "capacity": {"cpu": 10.0}, "slots": 1, "leaving": True},
            ],
            "operators": [{"id": "o"}],
            "tasks": [
                {"id": f"t{i}", "operator": "o", "load": {"cpu": 4.0}}
                | ({"node": f"n{min(i, 1)}", "slot": 0} if home else {})
                for i in range(3)
            ],
            "traffic": [["t1", "t2", 1.0]],
        }
    )


EMPTYING = ["eoa-milp", "imc-exact", "imc-milp", "imc-brute", "storm-milp"]


@pytest.mark.parametrize("method", EMPTYING)
def test_nothing_is_infeasible_while_tasks_may_stay_on_leaving_nodes(method: str) -> None:
    result = solve(draining(5.0), method)
    assert (result.termination, result.bound_of) == ("optimal", "problem")
    assert any("leaving nodes" in note for note in result.notes)
    assert result.feasible
    assert result.plan is not None
    assert dict(result.plan.assignment) == {"t0": "n0", "t1": "n1", "t2": "n1"}


@pytest.mark.parametrize("method", ["eoa-milp", "imc-milp", "imc-brute", "storm-milp"])
def test_the_budget_may_not_do_to_empty_a_node(method: str) -> None:
    tied = draining(20.0).replace(limits={"max_migrations": 1})
    result = solve(tied, method)
    assert (result.termination, result.bound_of) == ("optimal", "problem")
    assert result.plan is not None
    together = {"t0": "n0", "t1": "n1", "t2": "n1"}
    assert method == "eoa-milp" or dict(result.plan.assignment) == together


@pytest.mark.parametrize("method", EMPTYING)
def test_a_node_that_cannot_be_emptied_leaves_room_to_mend_the_others(method: str) -> None:
    full = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "full",
            "nodes": [
                {"id": "n0", "capacity": {"cpu": 9}},
                {"id": "n1", "capacity": {"cpu": 7}},
                {"id": "n2", "capacity": {"cpu": 10}, "leaving": True},
            ],
            "tasks": [
                {"id": f"t{i}", "load": {"cpu": load}, "node": node}
                for i, (load, node) in enumerate([(6, "n0"), (5, "n0"), (6, "n2"), (1, "n0")])
            ],
            "traffic": [["t1", "t3", 1.0]],
        }
    )
    result = solve(full, method)  # t2 fits nowhere once n0 is within its capacity
    assert (result.termination, result.bound_of) == ("optimal", "problem")
    assert result.plan is not None
    where = dict(result.plan.assignment)
    assert where["t2"] == "n2"
    assert where["t1"] == where["t3"] or method == "eoa-milp"
    assert result.feasible


@pytest.mark.parametrize("method", EMPTYING)
def test_a_bound_of_plans_that_empty_nodes_is_a_restricted_one(method: str) -> None:
    result = solve(draining(20.0), method)
    assert result.feasible
    assert (result.termination, result.bound_of) == ("gap_reached", "restricted")
    bare = solve(draining(20.0, home=False), method)
    assert (bare.termination, bare.bound_of) == ("optimal", "problem")


@pytest.mark.parametrize("method", EMPTYING)
def test_what_has_no_place_anywhere_else_stays_proven(method: str) -> None:
    assert solve(draining(5.0, home=False), method).termination == "infeasible"


def test_nan_is_a_wrong_claim() -> None:
    with pytest.raises(SolverError, match="claims imc_gain = nan"):
        claim(float("nan"), 1.0)


NAMED = cast("Method", cast("Any", type("Named", (), {"name": "named", "kind": "search"})))


def undone(made: Instance, plan: Ints, outcome: Outcome) -> Ints:
    """Return a search's plan for the least load distance without the moves that bring nothing."""
    judged = evaluate_indices(made, plan, None, "load_distance")
    objective = OBJECTIVES["load_distance"]
    return _without_idle_moves(made, NAMED, outcome, objective, plan, judged)[0]


def with_leaving(nodes: int, leaving: int, tasks: list[tuple[float, int]]) -> Instance:
    """Return an instance, the first nodes of which leave; `tasks`: load and current node."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "leaving",
            "resources": ["cpu"],
            "nodes": [{"id": f"n{i}", "leaving": i < leaving} for i in range(nodes)],
            "tasks": [
                {"id": f"t{k}", "load": {"cpu": load}, "node": f"n{node}"}
                for k, (load, node) in enumerate(tasks)
            ],
        }
    )


def test_undone_moves_keep_the_level_of_the_load_on_leaving_nodes() -> None:
    """Without it, the bound of the moves would be read as that of all plans."""
    plan = np.array([1, 1, 2], dtype=np.int32)  # t0 moves, and the distance is 1 as before
    outcome = Outcome(Termination.HEURISTIC, node=plan)
    left = Level("load_on_leaving_nodes", "min", 0.0, None, "resource")
    outcome.levels = (left, Level("migrations", "min", 1.0, 0.0, "count"))
    node = undone(with_leaving(3, 1, [(1.0, 2), (5.0, 1), (4.0, 2)]), plan, outcome)
    assert node.tolist() == [2, 1, 2]
    found = [(level.name, level.value, level.bound) for level in outcome.levels]
    assert found == [("load_on_leaving_nodes", 0.0, None), ("migrations", 0.0, 0.0)]


@pytest.mark.parametrize("seed", range(150))
def test_undone_moves_leave_no_more_on_leaving_nodes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, leaving, tasks = (int(rng.integers(a, b)) for a, b in ((3, 5), (1, 3), (2, 6)))
    now = [(float(rng.integers(1, 5)), int(rng.integers(nodes))) for _ in range(tasks)]
    made, plan = with_leaving(nodes, leaving, now), rng.integers(0, nodes, tasks).astype(np.int32)
    node = undone(made, plan, Outcome(Termination.HEURISTIC, node=plan))
    load = made.tasks.load[:, 0]
    assert load[node < leaving].sum() <= load[plan < leaving].sum()
