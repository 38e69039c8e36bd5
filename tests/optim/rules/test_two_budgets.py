"""A rule that sets two budgets over moves: one for the tasks of each topology."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import optim.rules
from formulations.conflicts.excess import raised
from formulations.conflicts.rule_instances import atoms_of
from optim import Instance, solve
from optim.methods.reduce import with_bounded_costs
from optim.methods.registry import get_method
from optim.referee import evaluate_indices
from optim.rules import budgets
from optim.rules.base import Form, Limit, Rule, current_node_key, occupied_node_key, violation
from optim.rules.budget import Budget
from streamplace.explain.explanation import _unit, why_infeasible, why_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim.rules.base import Violation
    from optim.rules.placement import Placement

NAME = "max_topology_moves"


def _most(instance: Instance) -> Any:
    """The numbers stand in a column that no other rule of these instances reads."""
    return instance.topologies.shared_nodes


def _budgets(instance: Instance) -> Iterator[Budget]:
    for entry in np.flatnonzero(_most(instance) > 0).tolist():
        weight = (instance.task_topology == entry).astype(float)
        yield Budget(NAME, weight, float(_most(instance)[entry]), True, entry)


def _violations(placement: Placement) -> Iterator[Violation]:
    for budget in _budgets(placement.instance):
        spent = budget.weight[placement.migrated].sum()
        if spent > budget.limit:
            where = placement.instance.topologies.ids[budget.entry]
            yield violation(NAME, where, spent, budget.limit)


def _written(instance: Instance, values: Any) -> Instance:
    return instance.with_values("topologies", shared_nodes=values.astype(np.int32))


LIMIT = Limit(
    NAME, "topologies", _most, lambda of: _most(of) > 0, _written, unset=0, whole=True
)  # fmt: skip
RULE = Rule(
    NAME,
    f"topologies[].{NAME}",
    Form.BUDGET,
    lambda of: NAME if (_most(of) > 0).any() else None,
    lambda of: _written(of, 0 * _most(of)),
    violations=_violations,
    task_key=lambda of: np.column_stack([current_node_key(of), of.task_topology]),
    node_key=occupied_node_key,
    limits=(LIMIT,),
    budgets=_budgets,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the rule wherever the tuple of rules is known."""
    rules, moves = (*optim.rules.RULES, RULE), (*optim.rules.BUDGETS, RULE)
    for module in list(sys.modules.values()):
        if getattr(module, "RULES", None) is optim.rules.RULES and module is not optim.rules:
            monkeypatch.setattr(module, "RULES", rules)
    monkeypatch.setattr(optim.rules, "RULES", rules)
    monkeypatch.setattr(optim.rules, "BUDGETS", moves)
    monkeypatch.setitem(optim.rules.LIMITS, NAME, LIMIT)
    monkeypatch.setitem(optim.rules.FORM_OF, NAME, Form.BUDGET)
    # the rules that a method keeps are computed from its forms when it is loaded
    method = get_method("balance-milp")
    monkeypatch.setitem(vars(method), "honours", method.honours | {NAME})


def instance(*most: int, node: int = 10) -> Instance:
    """Two topologies of three tasks of load 1 on `a`, beside an empty node `b`."""
    tasks = [f"{topology}{k}" for topology in "xy" for k in range(3)]
    document = {
        "format": "streamplace.instance/1",
        "name": "two budgets",
        "nodes": [{"id": "a", "capacity": {"cpu": node}}, {"id": "b", "capacity": {"cpu": 10}}],
        "topologies": [{"id": "x"}, {"id": "y"}],
        "operators": [{"id": topology, "topology": topology} for topology in "xy"],
        "tasks": [
            {"id": t, "operator": t[0], "load": {"cpu": 1}, "node": "a", "state": 1} for t in tasks
        ],
    }
    return _written(Instance.from_dict(document), np.array(most))


def test_each_budget_is_a_row_of_the_exact_model() -> None:
    """Three moves would balance; the budgets leave two, one of each topology."""
    result = solve(instance(1, 1), "balance-milp", time_limit=20)
    assert result.plan is not None
    moved = sorted(t for t, n in result.plan.assignment.items() if n == "b")
    assert [t[0] for t in moved] == ["x", "y"]
    free = solve(instance(3, 1), "balance-milp", time_limit=20)
    assert free.plan is not None
    assert sum(n == "b" for n in free.plan.assignment.values()) == 3


def test_the_excess_is_of_each_budget() -> None:
    there = np.ones(6, dtype=np.int32)
    found = evaluate_indices(instance(1, 2), there)
    assert [(v.where, v.amount) for v in found.violations] == [("x", 2), ("y", 1)]
    assert found.excess == pytest.approx((2 + 1) / 3)


def test_conflicts_name_the_budgets_and_one_is_raised() -> None:
    """Four have to leave `a`; the budgets are for three."""
    found = why_infeasible(instance(1, 2, node=2), 5)
    assert found.feasible is False
    named = {(c.where, c.available) for rules in found.conflicts for c in rules if c.rule == NAME}
    assert named in ({("x", 1), ("y", 2)}, {("x, y", 3)})
    helps = [(r.where, r.by) for r in (*found.relaxation, *found.remedies) if r.rule == NAME]
    assert helps in ([("x", 1)], [("y", 1)])


def test_a_plan_names_the_budgets_that_are_used_up_and_raises_each_alone() -> None:
    of_two, node = instance(1, 2), np.array([1, 0, 0, 1, 1, 0], dtype=np.int32)
    found = why_plan(of_two, "balance-milp", node)
    used = [(b.rule, b.where, b.used, b.available) for b in found.binding]
    assert used == [(NAME, "x", 1, 1), (NAME, "y", 2, 2)]
    for entry, bound in enumerate(found.binding):
        atom, more = _unit(of_two, bound) or (0, 0.0)
        raised_one = raised(atoms_of(of_two), {atom: more})
        assert _most(raised_one).tolist() == [1 + (entry == 0), 2 + (entry == 1)]


def test_two_budgets_leave_their_column_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task can pay, and of one budget the column would be bounded; each is of its own tasks."""
    of_two = instance(1, 1)
    assert len(budgets(of_two)) == 2
    heavy = replace(
        RULE,
        weight_column="state",
        budgets=lambda of: (b._replace(weight=1e4 * b.weight) for b in _budgets(of)),
    )
    monkeypatch.setattr("optim.methods.reduce.BUDGETS", (heavy,))
    assert with_bounded_costs(of_two) is of_two
