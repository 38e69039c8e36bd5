"""Traffic between hosts: as Flink placed the instances, as planned, and the least there can be.

No sweep: graphs are imported three times, with other rates and capacities each.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.studies.papers.tables import certified_of
from optim import solve
from optim.errors import InvalidInput, Problem
from optim.format.instance import Instance
from optim.referee import Result, evaluate_indices
from optim.util.store import remembered
from streamplace.clusters.exchange.sources import import_instance

VARIABLE = "STREAMPLACE_ZEROTUNE"
SHARED = "STREAMPLACE_SHARED"
SECONDS, SECONDS_REDUCED = 30.0, 2.0
EVERY_REDUCED = 6


def data_folder() -> Path:
    """Return the folder of the graphs: as the environment says, else beside the repository."""
    named = os.environ.get(VARIABLE)
    repository = Path(__file__).resolve().parents[4]
    shared = Path(os.environ.get(SHARED, repository.parent / "shared"))
    folder = Path(named) if named else shared / "data" / "zerotune"
    if not folder.is_dir():
        reason = "is no folder" if named else "is not set, and no data folder lies beside us"
        remedy = f"get the query graphs of ZeroTune and name their folder: {VARIABLE}=…/graphs"
        raise InvalidInput(Problem(VARIABLE, str(folder) if named else None, reason, remedy))
    return folder


def graph_files(folder: Path) -> list[Path]:
    """Return the graphs of a folder, in order."""
    graphs = sorted(p for p in folder.rglob("*") if p.name.endswith((".graph", ".graph.gz")))
    if not graphs:
        remedy = "files end in .graph or .graph.gz"
        raise InvalidInput(Problem(VARIABLE, str(folder), "holds no graphs", remedy))
    return graphs


def plan_query(path: Path, seconds: float) -> dict[str, Any]:
    """Import one graph and plan it again; so many seconds for the exact method."""
    even = _instance(path, "even", "cores")
    start = solve(even, "imc-search")
    # even rates make the instances of an operator equal, which exact methods need
    best = solve(even, "imc-exact", time_limit=seconds, warm_start="imc-search", max_classes=1000)
    measured, placed = _instance(path, "measured", "cores"), _instance(path, "measured", "placed")
    return {
        "query": path.name.removesuffix(".gz").removesuffix(".graph"),
        "kind": path.parent.name,
        "instances": even.num_tasks,
        "operators": even.num_operators,
        "hosts": even.num_nodes,
        "even": _figures(even, best) | {"search": _share(even, start)} | certified_of(even, best),
        "measured": _figures(measured, solve(measured, "imc-search")),
        "placed": _figures(placed, solve(placed, "imc-search")),
    }


def _instance(path: Path, rates: str, capacity: str) -> Instance:
    options = [("rates", rates), ("capacity", capacity)]
    return import_instance("zerotune", [str(path)], options).instance


def _figures(instance: Instance, result: Result) -> dict[str, Any]:
    """Return traffic between hosts as shares of all traffic: Flink's, the plan's, the bound's."""
    now = evaluate_indices(instance, instance.tasks.node)
    total = instance.total_traffic
    # all traffic less the bound on the IMC gain
    bound = None if result.bound is None else max(0.0, total - result.bound)
    return {
        "flink_feasible": now.feasible,
        "total": total,
        "flink": (now.internode_traffic or 0.0) / total,
        "plan": _share(instance, result),
        "bound": None if bound is None else bound / total,
        "termination": str(result.termination),
        "moves": None if result.evaluation is None else result.evaluation.migrations,
    }


def _share(instance: Instance, result: Result) -> float | None:
    if result.evaluation is None or result.evaluation.internode_traffic is None:
        return None
    return result.evaluation.internode_traffic / instance.total_traffic


def planned(folder: Path, reduced: bool) -> pd.DataFrame:
    """Plan every query again; a finished one is stored as a file and not repeated."""
    seconds = SECONDS_REDUCED if reduced else SECONDS
    files = graph_files(data_folder())
    files = files[::EVERY_REDUCED] if reduced else files
    rows: list[dict[str, Any]] = []
    for number, path in enumerate(files, 1):

        def plan(path: Path = path, number: int = number) -> Any:
            sys.stderr.write(f"{number} of {len(files)}: {path.name}\n")
            return plan_query(path, seconds)

        key = {"query": path.name, "seconds": seconds}
        rows.append(remembered(folder / f"{path.name}.json", key, plan))
    return pd.json_normalize(rows)
