"""Made-up sweep results with the columns that a sweep writes: the report is judged on these."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.sweep.row import COLUMNS, complete_row
from experiments.sweep.store import ResultFolder, write_part

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def run(instance: str = "Q1", method: str = "top-down", **changes: Any) -> dict[str, Any]:
    """Return one row: a run that went well unless `changes` say otherwise.

    ``factors`` are completed with method, solver, seed and instance; ``objective`` of an
    ``imc_gain`` run is also its evaluated ``imc_gain``.
    """
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "sweep": "demo", "instance": instance, "method": method, "method_label": method,
        "family": "task allocation", "kind": "heuristic", "seed": 0, "threads": 1,
        "num_tasks": 20, "num_nodes": 4, "host": "laptop", "outcome": "ok",
        "versions": json.dumps({"streamplace": "0.1.0", "highs": "1.15.1"}),
        "started_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "result": '{"ignored": []}',
    }  # fmt: skip
    row |= changes
    factors = {str(key): str(value) for key, value in (changes.get("factors") or {}).items()}
    sha = hashlib.sha256(json.dumps([instance, factors.get("load_share")]).encode()).hexdigest()
    row["instance_sha256"] = changes.get("instance_sha256", sha)
    row["factors"] = {
        "method": row["method"], "seed": str(row["seed"]), "instance": instance,
        **({"solver": row["solver"]} if row["solver"] else {}), **factors,
    }  # fmt: skip
    if row["imc_gain"] is None and row["objective_name"] == "imc_gain":
        row["imc_gain"] = row["objective"]
    if row["collocation_factor"] is None and row["imc_gain"] is not None and row["total_traffic"]:
        row["collocation_factor"] = row["imc_gain"] / row["total_traffic"]
    key = [row["instance_sha256"], row["method_label"], row["solver"], row["seed"], factors]
    row["run_key"] = changes.get("run_key", hashlib.sha256(json.dumps(key).encode()).hexdigest())
    return row


def plan(instance: str, method: str, gain: float, **changes: Any) -> dict[str, Any]:
    """Return a feasible plan of a method that maximises ``imc_gain``; 100 of traffic in all."""
    changes = {
        "termination": "heuristic", "feasible": True, "objective_name": "imc_gain",
        "sense": "max", "objective": gain, "total_traffic": 100.0, "time_build": 0.001,
        "time_solve": 0.009, **changes,
    }  # fmt: skip
    return run(instance, method, **changes)


def proof(instance: str, method: str, gain: float, **changes: Any) -> dict[str, Any]:
    """Return a plan with a proof that it is optimal."""
    changes = {
        "kind": "exact", "termination": "optimal", "bound": gain, "bound_of": "problem",
        "gap": 0.0, **changes,
    }  # fmt: skip
    return plan(instance, method, gain, **changes)


def infeasible(instance: str, method: str, **changes: Any) -> dict[str, Any]:
    """Return a run that proved that no plan exists."""
    changes = {"kind": "exact", "termination": "infeasible", "exit_code": 3, **changes}
    return run(instance, method, **changes)


def write(rows: Iterable[dict[str, Any]], folder: Path, parts: int = 2) -> Path:
    """Write `rows` as a result folder of `parts` Parquet files and return it."""
    complete = [complete_row(row) for row in rows]
    results = ResultFolder(folder)
    results.parts.mkdir(parents=True, exist_ok=True)
    results.write_marker({"name": "demo"})
    for part in range(parts):
        if complete[part::parts]:
            write_part(results.parts, complete[part::parts])
    return folder


# --- the demonstration: six queries, three levels of load ------------------------------------

_QUERIES = {"Q1": (26, 3.9), "Q2": (21, 39.3), "Q3": (24, 78.3), "Q4": (23, 53.0),
            "Q5": (23, 13.9), "Q6": (23, 6.9)}  # fmt: skip
_SOLVERS = {"cbc": 9.0, "highs": 3.0, "scip": 5.0, "cp-sat": 1.4}
_HEURISTICS = {
    # method: share of the optimum reached, seconds, what it optimises
    "top-down": (0.93, 4e-4, "imc_gain"),
    "partition": (0.88, 2.1e-3, "internode_traffic"),
    "storm-even": (0.41, 9e-5, None),
    "flux": (0.36, 3e-4, "load_distance"),
}
LIMIT = 30.0


def demo_rows(seed: int = 7) -> list[dict[str, Any]]:
    """Return the runs of a demonstration sweep; the numbers are invented, their shape is not."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for query, (tasks, traffic) in _QUERIES.items():
        for share in (0.5, 0.75, 0.9):
            case = {
                "factors": {"load_share": share}, "num_tasks": tasks, "num_nodes": 4,
            }  # fmt: skip
            if (query, share) == ("Q2", 0.9):
                rows += _no_plan_exists(query, case)
                continue
            best = traffic * float(rng.uniform(0.55, 0.8)) * (1.15 - 0.5 * share)
            rows += _one_case(rng, query, case, traffic, best, hard=(query, share) == ("Q3", 0.9))
    return rows


def _measures(rng: np.random.Generator, traffic: float, gain: float) -> dict[str, Any]:
    return {
        "imc_gain": gain, "total_traffic": traffic, "internode_traffic": traffic - gain,
        "collocation_factor": gain / traffic, "load_distance": float(rng.uniform(9, 22)),
        "nodes_used": 4, "num_violations": 0, "max_utilisation": float(rng.uniform(0.7, 1.0)),
    }  # fmt: skip


def _times(rng: np.random.Generator, seconds: float) -> dict[str, float]:
    seconds *= float(rng.lognormal(0, 0.4))
    return {
        "time_read": 2e-3, "time_build": 0.1 * seconds, "time_solve": 0.9 * seconds,
        "time_check": 3e-4, "time_total": seconds + 2.3e-3,
    }  # fmt: skip


def _trace(rng: np.random.Generator, end: float, best: float, bound: float) -> list[dict[str, Any]]:
    moments = np.sort(end * rng.uniform(0.02, 1, 6))
    return [
        {"seconds": float(at), "incumbent": float(best * (1 - 0.5 * math.exp(-step))),
         "bound": float(bound * (1 + 0.9 * math.exp(-step)))}
        for step, at in enumerate(moments)
    ]  # fmt: skip


def _said_by(method: str, bound: float) -> dict[str, Any]:
    certified = {"bound_by": "certificate", "certified_bound": bound}
    return certified if method == "imc-exact" else {"bound_by": "one solver"}


def _one_case(
    rng: np.random.Generator, query: str, case: dict[str, Any], traffic: float, best: float,
    *, hard: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    rows = []
    bound = best * 1.043 if hard else best
    common = {"objective_name": "imc_gain", "sense": "max", "kind": "exact", "feasible": True,
              "bound_of": "problem", **case}  # fmt: skip
    for method, solver, seconds in [
        ("imc-exact", "highs", 0.05),
        *(("imc-milp", name, s) for name, s in _SOLVERS.items()),
    ]:
        times = _times(rng, seconds)
        late = hard or (solver == "cbc" and query in {"Q1", "Q4"})
        gain, own_bound = best, bound
        if late:
            times["time_solve"] = LIMIT - times["time_build"]
            gain, own_bound = best * float(rng.uniform(0.96, 1)), bound * float(rng.uniform(1, 1.3))
        if hard and method == "imc-exact":
            gain, own_bound = best, bound
        end = times["time_build"] + times["time_solve"]
        rows.append(run(
            query, method, solver=solver, **common, **times, **_measures(rng, traffic, gain),
            objective=gain, bound=own_bound, gap=abs(gain - own_bound) / own_bound,
            termination="time_limit" if late else "optimal", time_limit=LIMIT,
            **_said_by(method, own_bound),
            trace=_trace(rng, end, gain, own_bound),
        ))  # fmt: skip
    rows.append(run(
        query, "imc-brute", kind="exact", outcome="error", exit_code=2, **case,
        error=f"unsuitable: imc-brute: tasks: {case['num_tasks']} is beyond the 12 it tries",
    ))  # fmt: skip
    for method, (reach, seconds, objective) in _HEURISTICS.items():
        gain = best * min(1.0, float(rng.normal(reach, 0.05)))
        measures = _measures(rng, traffic, gain)
        overload = method == "storm-even" and case["factors"]["load_share"] == 0.9
        sense = {"imc_gain": "max", None: None}.get(objective, "min")
        if method == "top-down" and (query, case["factors"]["load_share"]) == ("Q5", 0.9):
            rows.append(run(query, method, **case, termination="heuristic", exit_code=4,
                            **_times(rng, seconds)))  # fmt: skip
            continue
        rows.append(run(
            query, method, **case, **_times(rng, seconds), **measures, termination="heuristic",
            feasible=not overload, objective_name=objective, sense=sense, exit_code=4 * overload,
            family="rebalancing" if method == "flux" else "task allocation",
            objective=measures[objective] if objective else None,
        ))  # fmt: skip
    rows.append(_balance(rng, query, case, traffic, best))
    return rows


def _balance(
    rng: np.random.Generator, query: str, case: dict[str, Any], traffic: float, best: float
) -> dict[str, Any]:
    common = {"kind": "exact", "solver": "highs", "family": "rebalancing", **case}
    if query == "Q6":
        if case["factors"]["load_share"] == 0.9:
            error = "the child ended with signal 11 (SIGSEGV)\nlast phase: solve"
            return run(query, "balance-milp", outcome="crash", exit_code=-11, error=error, **common)
        error = "killed after 45.0 s (limit 30 s and a grace of 15 s)"
        return run(query, "balance-milp", outcome="timeout", error=error, **common)
    measures = _measures(rng, traffic, best * float(rng.normal(0.33, 0.04)))
    measures["load_distance"] = float(rng.uniform(2, 6))
    distance = measures["load_distance"]
    times = _times(rng, 0.4)
    return run(
        query, "balance-milp", **common, **times, **measures, termination="optimal",
        feasible=True, objective_name="load_distance", sense="min", objective=distance,
        bound=distance, bound_of="problem", gap=0.0,
        trace=[{"seconds": 0.5 * times["time_solve"], "incumbent": distance + 4, "bound": None}],
    )  # fmt: skip


def _no_plan_exists(query: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    times = {"time_build": 1e-3, "time_solve": 4e-3, "time_total": 7e-3}
    rows = [infeasible(query, "imc-exact", solver="highs", **case, **times)]
    rows += [infeasible(query, "imc-milp", solver=name, **case, **times) for name in _SOLVERS]
    rows.append(infeasible(query, "balance-milp", solver="highs", **case, **times))
    error = "unsuitable: imc-brute: tasks: 21 is beyond the 12 it tries"
    rows.append(
        run(query, "imc-brute", kind="exact", outcome="error", exit_code=2, error=error, **case)
    )
    rows += [
        run(query, name, **case, termination="heuristic", exit_code=4, **times)
        for name in _HEURISTICS
    ]
    return rows
