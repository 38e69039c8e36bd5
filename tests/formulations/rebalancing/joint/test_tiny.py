"""Tiny problems: the model comes before any search, in bounded work, and compiles nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from optim import Instance, solve
from optim.methods.registry import get_method
from optim.solvers.interface import Answer, LinearTermination
from tests.formulations.rebalancing.ruled_cases import feasible, ruled_case


def placed(loads: list[float], homes: list[str], traffic: list[Any], room: float = 5) -> Instance:
    """Return tasks a, b, … on two nodes."""
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1", "name": "tiny", "resources": ["cpu"],
            "nodes": [{"id": n, "capacity": {"cpu": room}} for n in ("n1", "n2")],
            "tasks": [
                {"id": chr(97 + i), "load": {"cpu": load}, "node": home}
                for i, (load, home) in enumerate(zip(loads, homes, strict=True))
            ],
            "traffic": traffic,
        }
    )  # fmt: skip


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every search fail."""
    from formulations.rebalancing.joint import milp

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a search ran")

    monkeypatch.setattr(milp, "find", never)
    monkeypatch.setattr(milp.balance_search, "warm_up", never)


@pytest.mark.usefixtures("no_search")
def test_two_tasks_that_do_not_fit_together() -> None:
    result = solve(placed([5, 1], ["n1", "n1"], [["a", "b", 1]]), "joint-milp", time_limit=10)
    assert result.feasible
    assert (result.bound, result.gap) == (0, 0)


@pytest.mark.usefixtures("no_search")
def test_no_packing_is_proved() -> None:
    made = placed([3, 3, 3, 1], ["n1", "n1", "n2", "n2"], [["a", "b", 1], ["c", "d", 1]])
    none = solve(made, "joint-milp", time_limit=10, start_broken="refuse")
    assert str(none.termination) == "infeasible"
    mended = solve(made, "joint-milp", time_limit=10)  # no worse than now, which is too much
    assert mended.plan is not None


@pytest.mark.usefixtures("no_search")
@pytest.mark.seeds(8)
@pytest.mark.parametrize("drain", ["soft", "first"])
@pytest.mark.parametrize("seed", range(60))
def test_against_all_plans(seed: int, drain: str) -> None:
    instance = ruled_case(seed)
    plans = list(feasible(instance))
    if not plans and instance.nodes.leaving.any():
        return  # how to say why is the search's
    result = solve(instance, "joint-milp", drain=drain, start_broken="refuse")
    if not plans:
        assert str(result.termination) == "infeasible"
        return
    assert result.objective is not None
    least = min(left for _, _, left in plans)
    among = [gain for _, gain, left in plans if drain == "soft" or left <= least + 1e-9]
    assert result.objective.value == pytest.approx(max(among))


@pytest.mark.parametrize("kills", [1, 100])
def test_a_solver_without_a_bound_proves_nothing(
    kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over before it has one, as on a busy machine: the search and the model follow."""
    from optim.solvers import solve as solvers

    answers, ask = iter(range(kills)), solvers._ask

    def killed(backend: Any, task: Any) -> Answer:
        if next(answers, None) is None:
            return ask(backend, task)
        return Answer(LinearTermination.TIME_LIMIT, "killed")

    monkeypatch.setattr(solvers, "_ask", killed)
    result = solve(placed([5, 1], ["n1", "n2"], [["a", "b", 1]]), "joint-milp", time_limit=100)
    assert (result.bound, result.gap) == (0, 0)


def test_nothing_is_compiled_or_loaded() -> None:
    """Its kernels would take ten seconds where they are not on disk."""
    code = (
        "import sys; from optim import Instance, solve\n"
        "nodes = [{'id': f'n{i}', 'capacity': {'cpu': 3}} for i in range(4)]\n"
        "tasks = [{'id': f't{i}', 'load': {'cpu': 1.5}, 'node': 'n0'} for i in range(3)]\n"
        "made = Instance.from_dict({'format': 'streamplace.instance/1', 'name': 'x',\n"
        "  'nodes': nodes, 'tasks': tasks, 'traffic': [['t0', 't1', 2], ['t1', 't2', 1]]})\n"
        "result = solve(made, 'joint-milp')\n"
        "assert str(result.termination) == 'optimal', result.termination\n"
        "assert 'numba' not in sys.modules and 'llvmlite' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_half_of_the_time_is_the_methods_own() -> None:
    """However many heuristics a family has: they share the other half."""
    from optim.methods.registry import Request
    from optim.methods.run import _limit

    made = placed([1, 1], ["n1", "n1"], [["a", "b", 1]])
    early = Request(time_limit=100.0)
    late = Request(time_limit=100.0, started=early.started - 45.0)
    assert _limit(get_method("partition"), made, early) == pytest.approx(25, abs=1)
    assert _limit(get_method("partition"), made, late) == pytest.approx(5, abs=1)
