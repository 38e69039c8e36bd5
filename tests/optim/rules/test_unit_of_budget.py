"""A budget of what is not state: methods see its limit in the unit of its weights."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import optim.rules
from optim import Instance, solve
from optim.methods import reduce
from optim.rules.budget import budget_rule

NAME = "max_migration_state"  # A number of the format; here it limits the load that moves.
RULE = budget_rule(NAME, lambda instance: instance.tasks.load[:, 0], unit="resource")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the rule wherever tuples of rules are known."""

    def with_it(rules: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(RULE if getattr(rule, "name", "") == NAME else rule for rule in rules)

    for module in [module for name, module in sys.modules.items() if name.startswith("optim")]:
        for names in ("RULES", "BUDGETS", "MOVE_RULES"):
            if isinstance(getattr(module, names, None), tuple):
                monkeypatch.setattr(module, names, with_it(getattr(module, names)))
    numbers = (limit for rule in optim.rules.RULES for limit in rule.limits)
    of_limits = tuple(some for some in numbers if some.table == "limits" and some.unit)
    monkeypatch.setattr(reduce, "_NUMBERS", of_limits, raising=False)


@pytest.mark.parametrize("method", ["balance-milp", "balance-search", "plan-milp"])
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_what_may_move_is_as_much_in_any_unit(method: str, unit: float) -> None:
    instance = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "load that moves",
            "resources": ["cpu"],
            "nodes": [{"id": "a"}, {"id": "b"}],
            "tasks": [
                {"id": f"t{load}", "load": {"cpu": load * unit}, "node": "a"}
                for load in range(1, 5)
            ],
            "limits": {NAME: 3 * unit},
        }
    )
    result = solve(instance, method, objective="load_distance", seed=1)
    assert result.evaluation is not None
    # 3 of 10 go to the other node: each is then 2 from the mean
    assert (result.evaluation.feasible, result.evaluation.load_distance) == (True, 2 * unit)
