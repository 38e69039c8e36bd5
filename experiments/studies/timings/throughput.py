"""Sustainable rate: the 18 CAPSys cases, pipelines of 4 × 100 tasks, and the search at 1,000 nodes.

Run: ``python -m experiments.studies.timings.throughput [cases] [pipelines] [large]``. Six profiled
queries (`examples/capsys-rate-q*.json`), each at three levels of CPU and network: the share of the
CPU that the query takes at its current input, and each half of a network card over all traffic.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from pathlib import Path
from typing import Any

from experiments.studies.timings.table import print_table, processor_seconds
from optim import Instance, solve
from optim.referee.evaluate import evaluate_indices

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MADE_AT = (0.75, 0.15)
LEVELS = {"ample": (0.5, 0.3), "as profiled": MADE_AT, "tight": (0.9, 0.1)}
SEARCH_SECONDS, PIPELINE_SECONDS, LARGE_SECONDS = 1.0, 30.0, 10.0


def capsys_case(query: int, level: str) -> Instance:
    """Build one of the 18 cases."""
    document = json.loads((EXAMPLES / f"capsys-rate-q{query}.json").read_text("utf-8"))
    cpu, network = (mine / made for mine, made in zip(LEVELS[level], MADE_AT, strict=True))
    document["name"] += f"-{level}"
    for node in document["nodes"]:
        node["capacity"]["cpu"] /= cpu
    for link in document["links"]:
        link["capacity"] *= network
    return Instance.from_dict(document)


def pipeline(nodes: int, tasks: int = 100, groups: int = 4) -> Instance:
    """Build a pipeline of groups of 200 % CPU, 80 % of all, whose network cards take a fifth."""
    streams = [{"from": f"v{i}", "to": f"v{i + 1}", "rate": 15.0} for i in range(groups - 1)]
    card = 1.2 * 15.0 * (groups - 1) / nodes
    document: dict[str, Any] = {
        "format": "streamplace.instance/1",
        "name": f"pipeline-{groups}x{tasks}-{nodes}",
        "nodes": [
            {"id": f"n{i}", "capacity": {"cpu": 250.0 * groups / nodes}} for i in range(nodes)
        ],
        "operators": [
            {"id": f"v{i}", "group": {"tasks": tasks, "load": {"cpu": 200.0}}}
            for i in range(groups)
        ],
        "streams": streams,
        "links": [
            {"id": f"{way}{i}", "nodes": [f"n{i}"], "capacity": card, "direction": way}
            for i in range(nodes)
            for way in ("out", "in")
        ],
        "crossing_cost": {"cpu": {"out": 1.0, "in": 1.0}},
    }
    return Instance.from_dict(document)


def timed(instance: Instance, method: str, **more: Any) -> tuple[Any, float, float]:
    """Return the result, seconds by the clock and processor seconds, compilation left out."""
    began, used = time.perf_counter(), processor_seconds()
    result = solve(instance, method, **more)
    return result, time.perf_counter() - began, processor_seconds() - used


def of(result: Any) -> float | None:
    """Return the value of a result."""
    return None if result.objective is None else result.objective.value


def cases() -> None:
    """Prove the 18 cases; search each for a second; say what collocation and balance carry."""
    rows = []
    for level in LEVELS:
        for query in range(1, 7):
            instance = capsys_case(query, level)
            timed(instance, "throughput-exact")
            exact, clock, processor = timed(instance, "throughput-exact")
            found, *_ = timed(instance, "throughput-search", time_limit=SEARCH_SECONDS)
            best = of(exact) or 0.0
            rows.append([
                f"Q{query}, {level}", best, str(exact.termination), clock, processor,
                (of(found) or 0.0) / best, *(best / rate for rate in _others(instance)),
            ])  # fmt: skip
    columns = ["case", "highest rate", "proof", "s", "processor s", "search in 1 s"]
    print_table("CAPSys at three levels", [*columns, "over collocation", "over round robin"], rows)


def _others(instance: Instance) -> list[float]:
    """Rates of the proven best collocation and of an even spread, where capacities are hard."""
    from heuristics.throughput.starts import eased

    rates, roomy = [], eased(copy.copy(instance))
    for method in ("imc-exact", "storm-even"):
        plan = solve(roomy, method).plan
        assert plan is not None
        rate = evaluate_indices(instance, plan.node_indices(roomy)).sustainable_rate
        rates.append(rate or float("nan"))
    return rates


def pipelines() -> None:
    """Solve pipelines of 4 × 100 tasks within half a minute."""
    rows = []
    for nodes in (8, 20, 100):
        timed(pipeline(4, 4), "throughput-exact")
        result, clock, processor = timed(
            pipeline(nodes), "throughput-exact", time_limit=PIPELINE_SECONDS
        )
        told = [of(result), result.bound, result.gap, str(result.termination)]
        rows.append([f"4 × 100 tasks, {nodes} nodes", *told, clock, processor])
    columns = ["pipeline", "rate", "bound", "gap", "ended", "s", "processor s"]
    print_table("Pipelines, throughput-exact, 30 s", columns, rows)


def large() -> None:
    """Search for ten seconds on 1,000 nodes with 100,000 tasks."""
    timed(pipeline(4, 4), "throughput-search", time_limit=1.0)
    instance = pipeline(1000, tasks=5000, groups=20)
    result, clock, processor = timed(instance, "throughput-search", time_limit=LARGE_SECONDS)
    row = [instance.name, of(result), result.bound, result.gap, clock, processor]
    columns = ["instance", "rate", "bound", "gap", "s", "processor s"]
    print_table("throughput-search, 10 s", columns, [row])


if __name__ == "__main__":
    for name in sys.argv[1:] or ("cases", "pipelines", "large"):
        {"cases": cases, "pipelines": pipelines, "large": large}[name]()
