"""Rebalancing: `balance-search` and `balance-milp` beside Flux, the plain MILP and a peer.

Run: ``python -m experiments.studies.timings.rebalancing [PART]… [--seeds N] [--limit S]``; the
parts are ``search``, ``proof``, ``solvers``, ``flux`` and ``peer``, all by default. Instances come
from the recipe by seed; those given are taken too where the folder that
``STREAMPLACE_SHARED`` names holds them. The peer needs a Python of its own, named by
``STREAMPLACE_REBALANCER``; its table is left out where there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.studies.timings.rebalancer_peer import peak_megabytes
from experiments.studies.timings.rebalancing_cases import CASES, Case
from experiments.studies.timings.table import print_table
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.bound import forced_moves_bound
from formulations.rebalancing.problem import balance_problem
from optim import solve
from optim.solvers import SOLVERS, capabilities, solve_linear

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.referee.result import Result

#: Beyond this many key groups a run gets a process of its own, for its peak memory.
OWN_PROCESS = 500_000

#: Cases of the table of solvers, of that of Flux, and of the peer's.
SOLVED = CASES[:3]
PEERED = CASES[:5]

#: Seconds that the peer gets, and its balance formulas to try.
PEER_SECONDS, FORMULAS = 10, ("ideal", "squares", "linear")


def distance_at(result: Result, seconds: float) -> float:
    """Return the best load distance known by a moment of a run."""
    known = [value for at, value, _ in result.trace if at <= seconds and value is not None]
    return known[-1] if known else float("nan")


def proved_at(result: Result, gap: float = 1e-3) -> float:
    """Return when value and bound came this near, infinity if never."""
    for at, value, bound in result.trace:
        if value is not None and bound is not None and value - bound <= gap * (1.0 + 1e-9):
            return at
    return float("inf")


def figures(case: Case, instance: Instance) -> dict[str, Any]:
    """Run `balance-search` on an instance; return its row."""
    result = solve(instance, "balance-search", time_limit=case.limit)
    assert result.objective is not None
    return {
        "looks": [distance_at(result, at) for at in case.looks],
        "value": result.objective.value,
        "bound": result.bound,
        "proved": proved_at(result),
        "gigabytes": peak_megabytes() / 1024,
    }


def run_case(case: Case, seed: int | None) -> dict[str, Any] | None:
    """Return the figures of a case for a seed, or (``None``) for the instance given."""
    if case.nodes * case.per_node > OWN_PROCESS and seed is not None:
        command = [sys.executable, "-m", __spec__.name, "--one", str(CASES.index(case)), str(seed)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found
    instance = case.given() if seed is None else case.made(seed)
    return None if instance is None else figures(case, instance)


def search_table(seeds: int) -> None:
    """Return what is reached, when, and what is proved: given, and the median over seeds."""
    rows: list[list[object]] = []
    for case in CASES:
        given = run_case(case, None)
        if given is not None:
            rows.append([case.name, "given", *_told(case, [given]), case.aim])
        made = [found for seed in range(seeds) if (found := run_case(case, seed)) is not None]
        if made:
            label = f"median of {len(made)} seeds"
            rows.append([case.name, label, *_told(case, made), case.aim])
    columns = ["instance", "which", "d by then", "d in the end", "bound", "gap", "memory", "aim"]
    print_table("balance-search", columns, rows)


def _told(case: Case, runs: list[dict[str, Any]]) -> list[str]:
    looks = [
        f"{statistics.median(run['looks'][i] for run in runs):.4f} at {at:g} s"
        for i, at in enumerate(case.looks)
    ]
    value = statistics.median(run["value"] for run in runs)
    bound = statistics.median(run["bound"] for run in runs)
    gap = statistics.median(run["value"] - run["bound"] for run in runs)
    memory = max(run["gigabytes"] for run in runs)
    return [", ".join(looks), f"{value:.4f}", f"{bound:.4f}", f"{gap:.4f}", f"{memory:.2f} GB"]


def proof_table(seeds: int) -> None:
    """Return how soon `balance-milp` and `balance-search` prove the small clusters."""
    rows: list[list[object]] = []
    for case in CASES[:2]:
        for method in ("balance-milp", "balance-search"):
            for given in (True, False):
                instances = [case.given()] if given else [case.made(s) for s in range(seeds)]
                told = [
                    _proof(instance, method, case.limit)
                    for instance in instances
                    if instance is not None
                ]
                if told:
                    proved = sum(at <= case.limit for at, _ in told)
                    median = statistics.median(at for at, _ in told)
                    value = statistics.median(d for _, d in told)
                    which = "given" if given else f"{len(told)} seeds"
                    shown = f"{median:.2f}" if median < float("inf") else "not in time"
                    rows.append(
                        [case.name, which, method, value, f"{proved} of {len(told)}", shown]
                    )
    columns = ["instance", "which", "method", "d (median)", "closed in time", "s (median)"]
    print_table("Proofs, within 15 s and 5 s", columns, rows)


def _proof(instance: Instance, method: str, limit: float) -> tuple[float, float]:
    result = solve(instance, method, time_limit=limit)
    assert result.objective is not None
    assert result.objective.value is not None
    at = proved_at(result)
    if str(result.termination) == "optimal":
        at = min(at, result.times["solve"] + result.times.get("build", 0.0))
    return at, result.objective.value


def solvers_table(limit: float) -> None:
    """Return what the paper's full model reaches cold, by each solver, beside Flux and ours."""
    rows: list[list[object]] = []
    for case in SOLVED:
        instance = case.given() or case.made(0)
        problem = balance_problem(instance)
        for method in ("balance-search", "balance-milp", "flux"):
            began = time.perf_counter()
            found = solve(instance, method, time_limit=None if method == "flux" else limit)
            spent = time.perf_counter() - began - found.times.get("compile", 0.0)
            value = float("nan") if found.objective is None else found.objective.value
            rows.append([case.name, method, value, _number(found.bound), spent])
        built = build_full(problem)
        built.model.freeze()
        for solver in (name for name in SOLVERS if not capabilities(name).integer_only):
            began = time.perf_counter()
            answer = solve_linear(built.model, solver, time_limit=limit)
            spent = time.perf_counter() - began
            value = float("nan")
            if answer.x is not None:
                value = problem.levels(built.read(answer.x)).distance
            rows.append([case.name, f"the paper's model, {solver}", value, answer.bound, spent])
    columns = ["instance", "by", "d", "bound", "s"]
    title = f"Flux, the plain MILP by each solver, and ours; at most {limit:g} s"
    print_table(title, columns, rows)


def flux_table(seeds: int) -> None:
    """Return how far Flux stays off at varies 60 when every key group may move."""
    rows: list[list[object]] = []
    for seed in range(seeds):
        case = Case("ample", 60, 20, 60.0, 1_200, (), 5.0, "")
        instance = case.made(seed)
        flux, ours = solve(instance, "flux"), solve(instance, "balance-search", time_limit=2.0)
        assert flux.objective is not None
        assert ours.objective is not None
        rows.append([seed, flux.objective.value, ours.objective.value, _number(ours.bound)])
    print_table("Flux with a budget of all key groups", ["seed", "Flux", "ours", "bound"], rows)


def peer_table() -> None:
    """Return what Meta's `rebalancer` reaches with its formulas, beside ours."""
    python = find_peer()
    if python is None:
        print("### rebalancer: left out, STREAMPLACE_REBALANCER names no Python that has it\n")
        return
    rows: list[list[object]] = []
    for case in PEERED:
        instance = case.given() or case.made(0)
        ours = figures(case, instance)
        memory = f"{1024 * ours['gigabytes']:.0f} MB"
        rows.append([case.name, "balance-search", ours["looks"][0], case.looks[0], memory])
        rows.append([case.name, "balance-search", ours["value"], case.limit, memory])
        for formula in FORMULAS:
            rows.append([case.name, f"rebalancer, {formula}", *run_peer(python, instance, formula)])
    columns = ["instance", "by", "d", "s", "memory of its process"]
    print_table("Meta's rebalancer (PyPI), local search by moves and swaps", columns, rows)


def find_peer() -> str | None:
    """Return the Python that has the package, named by the environment; ``None`` if none does."""
    python = os.environ.get("STREAMPLACE_REBALANCER")
    if not python or not Path(python).exists():
        return None
    found = subprocess.run([python, "-c", "import rebalancer"], capture_output=True, check=False)
    return python if found.returncode == 0 else None


def run_peer(python: str, instance: Instance, formula: str) -> list[object]:
    """Return the peer's load distance (if within the budget), seconds and memory."""
    problem = balance_problem(instance)
    folder_of = str(Path(__file__).parent)
    call = f"import sys; sys.path.insert(0, {folder_of!r}); import rebalancer_peer as p; p.main()"
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        asked = {
            "load": problem.load.tolist(), "home": problem.home.tolist(),
            "nodes": problem.num_nodes, "budget": problem.most_moved, "formula": formula,
            "seconds": PEER_SECONDS, "answer": str(answer),
        }  # fmt: skip
        done = subprocess.run(
            [python, "-c", call], input=json.dumps(asked), text=True, capture_output=True,
            timeout=20 * PEER_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0 or not answer.exists():
            return ["failed", "", ""]
        found = json.loads(answer.read_text(encoding="utf-8"))
    placement = np.array(found["place"], dtype=np.int64)
    if not problem.is_feasible(placement):
        return ["above the budget", found["build"] + found["solve"], ""]
    distance = problem.levels(placement).distance
    return [distance, found["build"] + found["solve"], f"{found['megabytes']:.0f} MB"]


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def main() -> None:
    """Measure and print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("search", "proof", "solvers", "flux", "peer")
    parser.add_argument("parts", nargs="*", default=parts, help=", ".join(parts))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=30.0)
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        case = CASES[asked.one[0]]
        print(json.dumps(figures(case, case.made(asked.one[1]))))
        return
    print(f"Load of the machine: {os.getloadavg()[0]:.1f}\n")
    forced_moves_bound(balance_problem(CASES[0].made(0)))  # compiled before anything is timed
    if "search" in asked.parts:
        search_table(asked.seeds)
    if "proof" in asked.parts:
        proof_table(asked.seeds)
    if "solvers" in asked.parts:
        solvers_table(asked.limit)
    if "flux" in asked.parts:
        flux_table(asked.seeds)
    if "peer" in asked.parts:
        peer_table()


if __name__ == "__main__":
    main()
