"""`balance-search` as a method: anytime within its limit, best kept on Ctrl-C, bound below plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from formulations.rebalancing.balance import search as balance_search
from heuristics.rebalancing import balance_search as method
from heuristics.rebalancing.balance_search import METHOD
from optim import solve
from optim.methods.registry import Request
from optim.referee import Termination
from tests.heuristics.rebalancing.cases import case


def cluster(**limits: Any) -> Any:
    rng = np.random.default_rng(6)
    where = "".join(str(n) for n in np.repeat(np.arange(8), 20))
    loads = rng.uniform(0.8, 1.2, 160) * np.repeat([1.5, 0.5, 1, 1, 1, 1, 1, 1], 20)
    return case(where, loads=[round(float(v), 3) for v in loads], **limits)


def test_without_a_limit_it_repeats_and_reads_no_clock() -> None:
    instance = cluster(max_migrations=14)
    first, second = (solve(instance, "balance-search", seed=3) for _ in range(2))
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.to_json() == second.plan.to_json()
    assert first.objective is not None
    assert first.bound is not None
    assert first.bound <= first.objective.value


def test_time_is_used_for_proofs_and_the_trace_only_improves() -> None:
    instance = cluster(max_migrations=14)
    quick = solve(instance, "balance-search")
    longer = solve(instance, "balance-search", time_limit=6.0, warm_start=quick.plan)
    assert quick.bound is not None
    assert longer.bound is not None
    assert longer.objective is not None
    assert quick.objective is not None
    assert longer.bound >= quick.bound - 1e-9
    assert longer.objective.value <= quick.objective.value + 1e-9
    values = [value for _, value, _ in longer.trace if value is not None]
    bounds = [bound for _, _, bound in longer.trace if bound is not None]
    assert values == sorted(values, reverse=True)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= values[-1]


def test_plans_of_few_migrations_are_annealed(monkeypatch: pytest.MonkeyPatch) -> None:
    annealed: list[Any] = []
    monkeypatch.setattr(balance_search.Portfolio, "anneal", lambda self, start: annealed.append(1))
    monkeypatch.setattr(method, "FEW", 14)
    assert solve(cluster(max_migrations=14), "balance-search").gap != 0.0
    assert len(annealed) == method.RUNS
    solve(cluster(max_migrations=15), "balance-search")
    solve(cluster(), "balance-search")
    solve(case("0000112", loads=[3.0, 2.5, 1.7, 1.1, 2.2, 1.9, 2.6], nodes=3), "balance-search")
    assert len(annealed) == method.RUNS


def test_a_limit_too_short_for_anything_keeps_staying() -> None:
    result = solve(cluster(max_migrations=14), "balance-search", time_limit=1e-4)
    assert result.plan is not None
    assert result.termination is Termination.TIME_LIMIT


def test_ctrl_c_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    descend = balance_search.Portfolio.descend

    def stop(self: Any, start: Any, tries: int) -> None:
        if self.problem.num_tasks > 10:  # not while the kernels are compiled
            raise KeyboardInterrupt
        descend(self, start, tries)

    monkeypatch.setattr(balance_search.Portfolio, "descend", stop)
    instance = cluster(max_migrations=14)
    outcome = METHOD.run(instance, Request(options=METHOD.read_options({})))
    assert outcome.termination is Termination.INTERRUPTED
    assert outcome.node is not None
    assert (outcome.node != instance.tasks.node).any()


def test_ctrl_c_passes_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.formulations.rebalancing.make import make_problem

    def stop(self: Any, start: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(balance_search.Portfolio, "aim_at_goals", stop)
    with pytest.raises(KeyboardInterrupt):
        balance_search.search_balance(make_problem([1.0, 2.0], [0, 0], 2))


def test_a_gap_asked_for_ends_it_early() -> None:
    instance = cluster(max_migrations=14)
    result = solve(instance, "balance-search", time_limit=60.0, gap=0.2)
    assert result.gap is not None
    assert result.gap <= 0.2
    assert result.times["solve"] < 30.0


def test_progress_is_told() -> None:
    told: list[Any] = []
    request = Request(options=METHOD.read_options({}), progress=told.append, time_limit=0.5)
    METHOD.run(cluster(max_migrations=14), replace(request))
    assert told
    assert all(p.bound is None or p.incumbent is None or p.bound <= p.incumbent for p in told)


def test_capacities_of_several_resources_and_costs_hold() -> None:
    """Memory allows no second key group on n1, cost no dear one: what is left is moved to n2."""
    instance = case(
        "000012", loads=[3.0, 3.0, 2.0, 2.0, 2.0, 2.0], state=[9.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        capacity=7.0, nodes=3, max_migration_cost=3.0,
    )  # fmt: skip
    result = solve(instance, "balance-search", time_limit=5.0, repair=False)
    assert result.plan is not None
    assert result.plan.assignment["k0"] == "n0"
    assert result.evaluation is not None
    assert result.evaluation.feasible
    assert result.evaluation.migration_cost <= 3.0
    assert result.termination is Termination.OPTIMAL


def test_moving_onto_a_leaving_node_only_where_allowed() -> None:
    """{6, 6}, {7}, {7} and an empty leaving node: a 6 on it gives 8/3, none there 10/3."""
    instance = case("0012", loads=[6.0, 6.0, 7.0, 7.0], nodes=4, leaving=(3,))
    kept = solve(instance, "balance-search")
    assert kept.objective is not None
    assert kept.objective.value == pytest.approx(10 / 3)
    entered = solve(instance, "balance-search", allow_into_leaving=True)
    assert entered.objective is not None
    assert entered.objective.value == pytest.approx(8 / 3)
    assert entered.bound is not None
    assert entered.bound <= 8 / 3 + 1e-9
