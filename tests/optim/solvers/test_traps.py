"""Traps that solvers and their packages are known for; each test fails if we fall into one."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from formulations.rebalancing.balance.model import Aim, build_moves
from optim.errors import SolverError
from optim.solvers import cbc, solve_linear
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.linear_model import LinearModel
from tests.formulations.rebalancing.balance.cases import varied_problem
from tests.optim.solvers.models import balance, brute_force, hard, knapsacks
from tests.slowly import slowly

REPOSITORY = Path(__file__).resolve().parents[3]

IMPORTS = {
    "or-tools first": "from ortools.math_opt.python import mathopt; "
    "from ortools.linear_solver import pywraplp; from ortools.sat.python import cp_model",
    "scipy first": "from scipy.optimize import milp; milp([1.0], integrality=[1])",
    "nothing first": "pass",
}


@pytest.mark.parametrize("order", [*list(IMPORTS)[:2], *slowly("nothing first")])
def test_copies_of_highs_do_not_meet_in_one_process(order: str) -> None:
    # OR-Tools and highspy each bring a libhighs whose symbols clash in one process
    script = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
{IMPORTS[order]}
from optim.solvers import solve_linear
from optim.solvers.inprocess import solve_small_milp
from tests.optim.solvers.models import knapsacks
model = knapsacks(15, 3)
values = [solve_linear(model, s).objective for s in ("highs", "scip", "cp-sat", "cbc", "highs")]
values.append(solve_small_milp(model).objective)
from ortools.math_opt.python import mathopt
other = mathopt.Model()
other.maximize(other.add_integer_variable(lb=0.0, ub=7.5))
values.append(mathopt.solve(other, mathopt.SolverType.HIGHS).objective_value())
values.append(solve_linear(model, "highs").objective)
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
print(values, "highsbox" in maps)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    optimum = float(brute_force(knapsacks(15, 3)) or 0.0)
    assert done.stdout.strip() == f"{[optimum] * 6 + [7.0, optimum]} False"


@pytest.mark.parametrize("solver", ["highs", "scip", "cp-sat", "cbc"])
def test_children_find_the_code_in_a_zip(solver: str, tmp_path: Path) -> None:
    # Spark ships Python code as zips
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for source in [*REPOSITORY.rglob("optim/**/*.py"), *REPOSITORY.rglob("optim/**/*.pyi")]:
            file.write(source, source.relative_to(REPOSITORY))
    script = f"""
import sys
sys.path = [{str(archive)!r}] + [p for p in sys.path if {str(REPOSITORY)!r} != p]
import optim
assert "code.zip" in optim.__file__
from optim.solvers.linear_model import LinearModel
from optim.solvers import solve_linear
model = LinearModel("zipped", "max")
x = model.add_variables("x", 3, upper=1.0, integer=True, objective=1.0)
model.add_rows("r", 0.0, 2.0, [0, 0, 0], x.indices, 1.0)
print(solve_linear(model, {solver!r}).objective)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "2.0", done.stderr


LYING_CBC = """#!/bin/sh
echo 'Coin0008I model read with 0 errors'
echo 'Cbc0010I After 0 nodes, 1 on tree, -5 best solution, best possible -2613.2369 (0.1 seconds)'
echo 'Cbc0020I Exiting on maximum time'
echo 'Result - Stopped on time limit'
printf 'Optimal - objective value 0.00000000\\n' > solution.txt
{python} -c "import struct; f = open('solution.bin', 'wb'); \
f.write(struct.pack('<iid', {rows}, {columns}, 0.0) + bytes(16 * ({rows} + {columns})))"
"""


def test_optimal_in_cbcs_file_after_a_timeout_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = hard()
    program = tmp_path / "cbc"
    program.write_text(
        LYING_CBC.format(python=sys.executable, rows=model.num_rows, columns=model.num_variables)
    )
    program.chmod(0o700)
    monkeypatch.setattr(cbc, "executable", lambda: program)
    monkeypatch.setattr(cbc, "_banner_version", lambda: "fake")
    solution = solve_linear(model, "cbc", time_limit=30.0)
    assert solution.termination == "time_limit"
    assert solution.objective == 100.0
    assert solution.bound == pytest.approx(2613.2369, abs=1e-3)


def test_crash_of_a_solver_is_an_error_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "cbc"
    program.write_text("#!/bin/sh\necho 'ERROR: out of cheese'\nkill -SEGV $$\n")
    program.chmod(0o700)
    monkeypatch.setattr(cbc, "executable", lambda: program)
    monkeypatch.setattr(cbc, "_banner_version", lambda: "fake")
    with pytest.raises(SolverError, match="out of cheese"):
        solve_linear(knapsacks(5, 1), "cbc")


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_loads_that_fill_a_capacity_exactly_fit(solver: str) -> None:
    # three loads of 100/3 on a capacity of 100: rounding loads up would leave one out
    model = LinearModel("thirds", "max")
    x = model.add_variables("x", 4, upper=1.0, integer=True, objective=1.0)
    model.add_rows("cap", -np.inf, 100.0, np.zeros(4, int), x.indices, 100.0 / 3.0)
    solution = solve_linear(model, solver)
    assert (solution.termination, solution.objective) == ("optimal", 3.0)


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc", "cp-sat"])
def test_tolerances_are_not_spent_on_overloading(solver: str) -> None:
    # ten loads that exceed the capacity by 5e-4, well within a solver's relative tolerance
    model = LinearModel("brim", "max")
    x = model.add_variables("x", 10, upper=1.0, integer=True, objective=1.0)
    model.add_rows("cap", -np.inf, 1000.0, np.zeros(10, int), x.indices, 100.00005)
    solution = solve_linear(model, solver)
    assert (solution.termination, solution.objective) == ("optimal", 9.0)


@cache
def best_balance() -> float | None:
    return brute_force(balance(2, 4, seed=4))


@pytest.mark.parametrize("solver", ["highs", "scip", "cbc"])
def test_balance_model_equals_brute_force(solver: str) -> None:
    solution = solve_linear(balance(2, 4, seed=4), solver)
    assert solution.termination == "optimal"
    assert solution.objective == pytest.approx(best_balance(), abs=2e-6)


def test_small_milp_in_this_process_agrees() -> None:
    model = knapsacks(15, 3)
    assert solve_small_milp(model).objective == brute_force(model)


def test_a_gap_reached_in_scips_presolving_has_a_bound() -> None:
    """SCIP then prints no dual bound; the gap limit that it claims implies one."""
    problem = varied_problem(118)
    best = np.array([4, 3, 3, 4, 0, 4])
    built = build_moves(problem, Aim("left", max_distance=2.5 + 1e-6))
    solution = solve_linear(built.model, "scip", abs_gap=1e-3, warm_start=built.write(best), seed=0)
    assert solution.objective == pytest.approx(4.5)
    assert solution.bound is not None
    assert 4.499 <= solution.bound <= 4.5
