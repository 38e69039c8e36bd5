"""Meta's `rebalancer` (PyPI) on rebalancing instances: local search by moves and swaps.

It needs a Python of its own (3.12 or newer), named by ``STREAMPLACE_REBALANCER``, which runs `main`
of this file: one JSON document on standard input (`load`, `home`, `nodes`, `budget`, `formula`,
`seconds`, `answer`), placement, times and peak memory to the file `answer`. So nothing of ours is
imported at the top.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.format.instance import Instance

#: The package's numbers for the formulas of its balance goal.
FORMULAS = {"linear": 1, "squares": 2, "ideal": 4}
PYTHON = "STREAMPLACE_REBALANCER"


def find_peer() -> str | None:
    """Return the Python that has the package."""
    return python_of(PYTHON, "rebalancer")


def python_of(variable: str, module: str) -> str | None:
    """Return the Python that a variable names, or this one; ``None`` if it has no such module."""
    python = os.environ.get(variable, sys.executable)
    if not Path(python).exists():
        return None
    check = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    return python if check.returncode == 0 else None


def answer_of(python: str, file: Path, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Run a file by a Python of others, the question on its standard input; return its answer.

    Raises `RuntimeError`: it ended without an answer; with the last line that it printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        # the peer takes whole seconds
        request = {**request, "seconds": max(1, int(seconds)), "answer": str(answer)}
        done = subprocess.run(
            [python, str(file)], input=json.dumps(request), text=True, capture_output=True,
            # it may build for long before its own limit counts
            timeout=60 + 20 * seconds, check=False,
        )  # fmt: skip
        if done.returncode != 0 or not answer.exists():
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1])
        document: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return document


def run_peer(python: str, instance: Instance, formula: str, seconds: float) -> dict[str, Any]:
    """Return its answer on an instance: `place` (node of each task), `build`, `solve`, `megabytes`.

    Raises `RuntimeError`: it ended without an answer.
    """
    from formulations.rebalancing.problem import balance_problem

    problem = balance_problem(instance)
    request = {
        "load": problem.load.tolist(), "home": problem.home.tolist(), "nodes": problem.num_nodes,
        "budget": problem.most_moved or len(problem.load), "formula": formula,
    }  # fmt: skip
    return answer_of(python, Path(__file__), request, seconds)


def peak_megabytes() -> float:
    """Return the peak memory of this process, nan if unknown.

    `resource` would report that of the process it was forked from where this was greater.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    lines = status.read_text(encoding="utf-8").splitlines()
    return next((float(line.split()[1]) / 1024 for line in lines if "VmHWM" in line), float("nan"))


def main() -> None:
    """Build the problem, solve it by local search with moves and swaps, write the answer."""
    from rebalancer import ProblemSolver  # type: ignore[import-not-found]

    request = json.load(sys.stdin)
    began = time.perf_counter()
    members: list[list[str]] = [[] for _ in range(request["nodes"])]
    for k, home in enumerate(request["home"]):
        members[home].append(f"k{k}")
    solver = ProblemSolver(service_name="benchmark", service_scope="benchmark")
    solver.set_object_name("task")
    solver.set_container_name("node")
    solver.set_assignment({f"n{i}": tasks for i, tasks in enumerate(members)})
    solver.add_object_dimension("load", {f"k{k}": a for k, a in enumerate(request["load"])})
    solver.add_object_dimension("one", {}, default_value=1.0)
    solver.disable_solution_summary()
    goal = {"name": "balance", "scope": "node", "dimension": "load"}
    solver.add_goal({"balanceSpec": {**goal, "formula": FORMULAS[request["formula"]]}}, 1.0)
    moves = {"name": "budget", "scope": "node", "dimension": "one"}
    limit = {"allowance": float(request["budget"]), "doNotNormalize": True, "magicScaling": False}
    solver.add_constraint({"minimizeMovementSpec": {**moves, **limit}})
    kinds: list[dict[str, dict[str, str]]] = [{"singleMoveTypeSpec": {}}, {"swapMoveTypeSpec": {}}]
    search = {"solveTime": int(request["seconds"]), "moveTypeList": kinds, "randomSeed": 1}
    solver.add_solver({"localSearchSolverSpec": search})
    built = time.perf_counter()
    assignment = solver.solve()["assignment"]
    answer = {
        "place": [int(assignment[f"k{k}"][1:]) for k in range(len(request["load"]))],
        "build": built - began,
        "solve": time.perf_counter() - built,
        "megabytes": peak_megabytes(),
    }
    Path(request["answer"]).write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # modules here may have names of the package's own
    main()
