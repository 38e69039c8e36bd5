"""Small models are solved in this process, whatever comes in between."""

from __future__ import annotations

import pytest

from experiments.generators import generate
from formulations.elastic import problem as module
from formulations.elastic.problem import Settings
from optim.methods.registry import Request
from optim.methods.solve import solve
from optim.solvers.inprocess import SmallMilpSolution
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import LinearModel


def model() -> LinearModel:
    made = LinearModel("small", sense="max")
    made.add_variables("x", 2, upper=3.0, integer=True, objective=[1.0, 2.0])
    made.add_matrix_rows("row", [[2.0, 2.0]], [0.0], [5.0])
    return made


def settings(solver: str = "highs") -> Settings:
    return Settings(Request(), solver)


def test_no_process_is_started_for_few_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "solve_linear", None)
    result = solve(generate("eoa_random", seed=1, nodes=4, operators=6), "eoa-milp")
    assert result.termination == "optimal"
    assert result.solver is not None


def test_where_it_ends_at_its_limit_the_back_end_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    late = SmallMilpSolution(LinearTermination.TIME_LIMIT, None, None, None)
    monkeypatch.setattr(module, "solve_small_milp", lambda *_: late)
    answer = settings().solve_small(model(), None)
    assert (answer.termination, answer.objective, answer.bound) == ("optimal", 4.0, 4.0)


def test_ctrl_c_is_an_end_and_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> SmallMilpSolution:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "solve_small_milp", interrupted)
    assert settings().solve_small(model(), None).termination == "interrupted"


def test_another_solver_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "solve_small_milp", None)
    assert settings("cp-sat").solve_small(model(), None).objective == 4.0
