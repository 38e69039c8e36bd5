"""Claims of solvers that do not hold are errors which name solver, claim and measured figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from optim.errors import SolverError
from optim.solvers import LinearTermination, SolverCapabilities, interface, solve_linear
from optim.solvers.interface import Answer
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from optim.solvers.interface import SolveTask

OPTIMAL, TIME = LinearTermination.OPTIMAL, LinearTermination.TIME_LIMIT
UNFINISHED = LinearTermination.ITERATION_LIMIT


class Liar:
    """A back end that answers what it is told to."""

    def __init__(self, *answers: Answer, second_attempt: bool = False) -> None:
        self.answers = list(answers)
        self.seen: list[bool] = []
        self.capabilities = SolverCapabilities(
            "liar", "Liar", "nowhere", second_attempt=second_attempt
        )

    def version(self) -> str:
        return "0"

    def solve(self, task: SolveTask) -> Answer:
        self.seen.append(task.second_attempt)
        return self.answers.pop(0)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Let every solver name stand for a `Liar` with the given answers."""

    def prepare(*answers: Answer, second_attempt: bool = False) -> list[bool]:
        liar = Liar(*answers, second_attempt=second_attempt)
        monkeypatch.setattr(interface, "load", lambda name: liar)
        monkeypatch.setattr("optim.solvers.solve.load", lambda name: liar)
        return liar.seen

    return prepare


def pair(sense: str = "max") -> LinearModel:
    """Return two binaries of value 3 and 2, of which one may be taken."""
    model = LinearModel("pair", "max" if sense == "max" else "min")
    x = model.add_variables("x", 2, upper=1.0, integer=True, objective=[3.0, 2.0])
    model.add_rows("one", -np.inf, 1.0, [0, 0], x.indices, 1.0)
    return model


def answer(termination: LinearTermination, x: list[float] | None, bound: float | None) -> Answer:
    return Answer(termination, "CLAIMED", None if x is None else np.array(x), bound=bound)


def test_true_claim_is_taken(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [1.0 - 1e-8, 1e-9], 3.0))
    solution = solve_linear(pair(), "liar")
    assert solution.termination == "optimal"
    assert solution.x is not None
    assert solution.x.tolist() == [1.0, 0.0]
    assert (solution.objective, solution.bound) == (3.0, 3.0)


def test_violated_solution_called_optimal_is_an_error(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [1.0, 1.0], 5.0))
    with pytest.raises(SolverError, match=r"liar 0.*'CLAIMED'.*'pair'.*one\[0\] by 1"):
        solve_linear(pair(), "liar")


def test_fractional_solution_called_optimal_is_an_error(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [0.6, 0.6], 3.0))
    with pytest.raises(SolverError, match="whole integers"):
        solve_linear(pair(), "liar")


def test_violated_incumbent_after_a_timeout_is_dropped(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(TIME, [1.0, 1.0], 5.0))
    solution = solve_linear(pair(), "liar")
    assert solution.termination == "time_limit"
    assert solution.x is None
    assert solution.bound == 5.0
    assert "one[0]" in solution.message


def test_solution_worse_than_its_bound_is_not_optimal(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [0.0, 1.0], 3.0))
    with pytest.raises(SolverError, match=r"objective is 2 and the bound 3"):
        solve_linear(pair(), "liar")


def test_a_bound_that_a_solution_beats_is_not_believed(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(TIME, [1.0, 0.0], 2.5))
    solution = solve_linear(pair(), "liar")
    assert (solution.termination, solution.objective, solution.bound) == (UNFINISHED, 3.0, None)
    assert "liar 0 claims the bound 2.5" in solution.message
    assert "verified solution has 3" in solution.message


def test_a_bound_that_the_warm_start_beats_is_not_believed(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [0.0, 1.0], 2.0))
    solution = solve_linear(pair(), "liar", warm_start=[1.0, 0.0])
    assert (solution.termination, solution.objective, solution.bound) == (UNFINISHED, 3.0, None)


def test_infeasible_is_not_believed_with_a_feasible_start_in_hand(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(LinearTermination.INFEASIBLE, None, None))
    solution = solve_linear(pair(), "liar", warm_start=[1.0, 0.0])
    assert (solution.termination, solution.objective, solution.bound) == (UNFINISHED, 3.0, None)
    assert "claims 'pair' is infeasible" in solution.message


def test_optimal_without_a_solution_is_an_error(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, None, 3.0))
    with pytest.raises(SolverError, match="without a solution"):
        solve_linear(pair(), "liar")


def test_giving_up_without_a_solution_is_an_error(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(LinearTermination.ERROR, None, None), answer(LinearTermination.ERROR, [1, 0], None))
    with pytest.raises(SolverError, match="gave up 'pair' with 'CLAIMED'"):
        solve_linear(pair(), "liar")
    solution = solve_linear(pair(), "liar")
    assert (solution.termination, solution.objective) == ("error", 3.0)


def test_bound_that_rounding_put_past_the_objective_becomes_it(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [1.0, 0.0], 3.0 - 1e-7))
    assert solve_linear(pair(), "liar").bound == 3.0


def test_a_closed_gap_is_optimal_whatever_the_status(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(TIME, [1.0, 0.0], 3.0))
    assert solve_linear(pair(), "liar").termination == "optimal"


def test_infinite_bounds_are_unknown(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(TIME, [1.0, 0.0], float("inf")))
    assert solve_linear(pair(), "liar").bound is None


def test_worse_than_the_warm_start_is_replaced_by_it(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(TIME, [0.0, 1.0], 5.0))
    solution = solve_linear(pair(), "liar", warm_start=[1.0, 0.0])
    assert solution.objective == 3.0
    assert solution.message == "the solver found nothing better than the start it was given"


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (answer(OPTIMAL, [0.0, 0.0], 0.0), "unbounded"),
        (answer(LinearTermination.INFEASIBLE, None, None), "infeasible"),
        (answer(TIME, None, None), "time_limit"),
    ],
)
def test_infeasible_or_unbounded_is_resolved(told, second: Answer, expected: str) -> None:  # type: ignore[no-untyped-def]
    told(answer(LinearTermination.INFEASIBLE_OR_UNBOUNDED, None, None), second)
    assert solve_linear(pair(), "liar").termination == expected


def test_continuous_variables_follow_rounded_integers(told) -> None:  # type: ignore[no-untyped-def]
    # y = 1000 x: a solver that leaves x at 1 - 1e-6 has y at 999.999, which rounding breaks
    model = LinearModel("follow", "max")
    x = model.add_variables("x", 1, upper=1.0, integer=True, objective=1.0)
    y = model.add_variables("y", 1, upper=2000.0)
    model.add_rows("link", 0.0, 0.0, [0, 0], [x.start, y.start], [1000.0, -1.0])
    told(answer(OPTIMAL, [1.0 - 1e-6, 999.999], 1.0))
    solution = solve_linear(model, "liar")
    assert solution.termination == "optimal"
    assert solution.x is not None
    assert solution.x.tolist() == [1.0, 1000.0]


def test_an_answer_that_does_not_hold_is_asked_for_again_where_that_helps(told) -> None:  # type: ignore[no-untyped-def]
    wrong, right = answer(OPTIMAL, [1.0, 0.0], float("inf")), answer(OPTIMAL, [1.0, 0.0], 3.0)
    told(wrong, right)
    with pytest.raises(SolverError, match="the bound none"):
        solve_linear(pair(), "liar")
    seen = told(wrong, right, second_attempt=True)
    solution = solve_linear(pair(), "liar")
    assert seen == [False, True]
    assert (solution.termination, solution.bound) == ("optimal", 3.0)
    assert "solved again without presolve, since liar 0 claims" in solution.message
    told(wrong, wrong, second_attempt=True)
    with pytest.raises(SolverError, match="the bound none"):
        solve_linear(pair(), "liar")


def test_giving_up_on_a_model_without_solutions_is_asked_about_again(told) -> None:  # type: ignore[no-untyped-def]
    none = answer(LinearTermination.INFEASIBLE, None, None)
    told(answer(LinearTermination.ERROR, None, None), none, second_attempt=True)
    assert solve_linear(pair(), "liar").termination == "infeasible"


def test_highs_goes_without_presolve_the_second_time() -> None:
    from dataclasses import replace

    from optim.solvers.highs import common_options
    from optim.solvers.interface import SolveTask as Task
    from optim.util.progress import ProgressRecorder

    model = pair()
    task = Task(
        model, model.freeze(), 0.0, None, 1e-6, 1e-9, 0, 1, None, False, {},
        ProgressRecorder("max"),
    )  # fmt: skip
    assert common_options(task)["presolve"] == "choose"
    assert common_options(replace(task, second_attempt=True))["presolve"] == "off"


def small(unit: float, least: float = -1.0) -> LinearModel:
    """Return one binary that costs a little, and as much more in another variable as it takes."""
    model = LinearModel("small", "min")
    x = model.add_variables("x", 1, upper=1.0, integer=True, objective=unit)
    model.add_variables("y", 1, lower=least, upper=1.0, objective=1.0)
    model.add_rows("one", 1.0, 1.0, [0], x.indices, 1.0)
    return model


def test_a_bound_past_a_small_objective_proves_no_more_than_tolerances_allow(told) -> None:  # type: ignore[no-untyped-def]
    # the bound of 0.0010015 became 0.001, which a solution of 0.000999 beats
    told(answer(OPTIMAL, [1.0, 0.0], 1.0015e-3))
    solution = solve_linear(small(1e-3), "liar")
    assert solution.objective == 1e-3
    assert solution.bound == pytest.approx(1e-3 - 2e-6)
    assert solution.termination == "gap_reached"


def test_a_bound_past_nothing_is_nothing_where_no_less_is_possible(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [1.0, 0.0], 1e-7))
    solution = solve_linear(small(0.0, least=0.0), "liar")
    assert (solution.termination, solution.bound) == ("optimal", 0.0)


def test_a_bound_far_past_a_small_objective_is_not_believed(told) -> None:  # type: ignore[no-untyped-def]
    told(answer(OPTIMAL, [1.0, 0.0], 1.01e-3))
    solution = solve_linear(small(1e-3), "liar")
    assert (solution.termination, solution.bound) == (UNFINISHED, None)
    assert "bound 0.00101" in solution.message
