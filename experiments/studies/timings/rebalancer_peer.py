"""Run Meta's `rebalancer` on a rebalancing instance; called by its own Python (3.12 or newer).

It reads one JSON document from standard input (`load`, `home`, `nodes`, `budget`, `formula`,
`seconds`, `answer`) and writes the placement, its times and its peak memory to the file `answer`.
Not imported by anything: the package lives in an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

#: The package's numbers for the formulas of its balance goal.
FORMULAS = {"linear": 1, "squares": 2, "ideal": 4}


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

    asked = json.load(sys.stdin)
    began = time.perf_counter()
    members: list[list[str]] = [[] for _ in range(asked["nodes"])]
    for k, home in enumerate(asked["home"]):
        members[home].append(f"k{k}")
    solver = ProblemSolver(service_name="benchmark", service_scope="benchmark")
    solver.set_object_name("task")
    solver.set_container_name("node")
    solver.set_assignment({f"n{i}": tasks for i, tasks in enumerate(members)})
    solver.add_object_dimension("load", {f"k{k}": a for k, a in enumerate(asked["load"])})
    solver.add_object_dimension("one", {}, default_value=1.0)
    solver.disable_solution_summary()
    goal = {"name": "balance", "scope": "node", "dimension": "load"}
    solver.add_goal({"balanceSpec": {**goal, "formula": FORMULAS[asked["formula"]]}}, 1.0)
    moves = {"name": "budget", "scope": "node", "dimension": "one"}
    limit = {"allowance": float(asked["budget"]), "doNotNormalize": True, "magicScaling": False}
    solver.add_constraint({"minimizeMovementSpec": {**moves, **limit}})
    kinds: list[dict[str, dict[str, str]]] = [{"singleMoveTypeSpec": {}}, {"swapMoveTypeSpec": {}}]
    search = {"solveTime": int(asked["seconds"]), "moveTypeList": kinds, "randomSeed": 1}
    solver.add_solver({"localSearchSolverSpec": search})
    built = time.perf_counter()
    assignment = solver.solve()["assignment"]
    answer = {
        "place": [int(assignment[f"k{k}"][1:]) for k in range(len(asked["load"]))],
        "build": built - began,
        "solve": time.perf_counter() - built,
        "megabytes": peak_megabytes(),
    }
    Path(asked["answer"]).write_text(json.dumps(answer), encoding="utf-8")
