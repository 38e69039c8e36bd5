"""Runs on the benchmark as rows of a result folder: `streamplace report` compares them.

A run has the key of its case, method and limit: run again, it takes the place of the one before.
The set itself is a contestant, "best known", with its values and certified bounds. Contestants are
distinguished by objective: reports say of each what it optimises.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from experiments.studies.bench.cases import Case
from experiments.studies.bench.scores import BEYOND, Run
from experiments.sweep.row import FIGURE_COLUMNS, complete_row
from experiments.sweep.store import ResultFolder, write_part
from optim import Instance
from optim.figures.catalogue import OBJECTIVES
from optim.methods.registry import package_version

SWEEP = "open benchmark"
BEST_KNOWN = "best known"


@dataclass(frozen=True)
class Contestant:
    """Who was run: what tables call it, what it is, and within which limit."""

    # label, method: in tables; what was asked for on the command line.
    label: str
    method: str
    kind: str  # as `Method.kind`
    limit: float  # seconds for a case


@contextmanager
def opened(folder: ResultFolder) -> Iterator[ResultFolder]:
    """Keep others from writing while the block runs, and put the rows into one file at its end."""
    with folder.writing(SWEEP):
        folder.write_marker({"name": SWEEP, "runs": []})
        try:
            yield folder
        finally:
            folder.compact()


def store(folder: ResultFolder, contestant: Contestant, run: Run) -> None:
    """Write the row of a run, and that of the set on its case."""
    write_part(folder.parts, [of_run(contestant, run), of_case(run.case, run.instance)])


def of_run(contestant: Contestant, run: Run) -> dict[str, Any]:
    """Return the row of a run."""
    row, result = run.row, run.outcome.result
    same_objective = result is not None and result.objective is not None
    same_objective = same_objective and result.objective.name == run.case.objective  # type: ignore[union-attr]
    figures = _sizes(run.case, run.instance)
    if run.evaluation is not None:
        figures |= {name: getattr(run.evaluation, name) for name in _shown_figures(run.case)}
    # a registered method that ends without a plan has run well: its termination says why
    failed = not row["feasible"] and (result is None or row["problem"] == BEYOND)
    ended = "time_limit" if row["stopped"] else "heuristic"
    return complete_row({
        **_common_columns(run.case, run.instance), **figures,
        "run_key": _key(run.case, contestant.method, contestant.label, contestant.limit),
        "method": contestant.method, "kind": contestant.kind,
        "method_label": _label(contestant.label, run.case),
        "time_limit": contestant.limit,
        "outcome": "error" if failed else "ok", "error": _error_text(run) if failed else None,
        "termination": str(result.termination) if same_objective and result is not None else ended,
        "feasible": row["feasible"] if not failed else None, "objective": row["value"],
        "bound": result.bound if same_objective and result is not None and not failed else None,
        "bound_of": result.bound_of if same_objective and result is not None else None,
        "bound_by": result.bound_by if same_objective and result is not None else None,
        "certified_bound": run.case.proven, "certified_gap": row["gap"],
        "num_violations": 0 if row["feasible"] else None,
        "time_solve": row["seconds"], "time_total": row["seconds"],
        "trace": [(point.seconds, point.value, None) for point in run.points],
        "versions": json.dumps(_versions() if result is None else dict(result.versions)),
    })  # fmt: skip


def of_case(case: Case, instance: Instance) -> dict[str, Any]:
    """Return the row of the set itself: its best known value, its certified bound."""
    bound, best = case.proven, case.best
    figure = OBJECTIVES[case.objective]
    # gaps of load distance are percent of the mean load
    reference = instance.mean_load if figure.percent else None
    gap, closed = figure.gap(best, bound, reference), False
    if best is not None and bound is not None:  # as reports hold an optimum against its bound
        closed = abs(best - bound) <= figure.tolerance(best, bound, reference)
    figures = _sizes(case, instance)
    if best is not None:
        figures |= {case.objective: best}
        if case.objective == "imc_gain" and instance.total_traffic:
            figures["collocation_factor"] = best / instance.total_traffic
    return complete_row({
        **_common_columns(case, instance), **figures,
        "run_key": _key(case, BEST_KNOWN, "", 0.0), "method": BEST_KNOWN,
        "method_label": _label(BEST_KNOWN, case), "kind": "exact", "outcome": "ok",
        "termination": "optimal" if closed else "heuristic",
        "feasible": best is not None, "objective": best, "bound": bound,
        "bound_of": None if bound is None else "problem",
        "bound_by": None if bound is None else "certificate", "certified_bound": bound,
        "certified_gap": gap, "num_violations": 0, "versions": json.dumps(_versions()),
    })  # fmt: skip


def _shown_figures(case: Case) -> list[str]:
    """Return the figures that a report is to show of a case: what it asks for, and no other."""
    figure = OBJECTIVES[case.objective]
    names = (figure.name, figure.reference, figure.shown_as)
    return [name for name in names if name is not None and name in FIGURE_COLUMNS]


def _sizes(case: Case, instance: Instance) -> dict[str, Any]:
    """Return what gaps are seen against: plans have it, and the set's rows need it as well."""
    references = {"mean_load": instance.mean_load, "total_traffic": instance.total_traffic}
    return {
        name: value
        for name, value in references.items()
        if name == OBJECTIVES[case.objective].reference
    }


def _common_columns(case: Case, instance: Instance) -> dict[str, Any]:
    return {
        "sweep": SWEEP, "factors": {}, "instance": case.name, "instance_sha256": instance.sha256,
        "num_tasks": instance.num_tasks, "num_nodes": instance.num_nodes, "family": case.family,
        "seed": 0, "threads": 1, "host": socket.gethostname(), "started_at": datetime.now(UTC),
        "objective_name": case.objective, "sense": str(OBJECTIVES[case.objective].sense),
    }  # fmt: skip


def _label(label: str, case: Case) -> str:
    return f"{label} · {OBJECTIVES[case.objective].label}"


def _error_text(run: Run) -> str:
    return ("unsuitable: " if run.outcome.unsuitable else "") + str(run.row["problem"])


def _versions() -> dict[str, str]:
    return {"streamplace": package_version("streamplace") or ""}


def _key(case: Case, method: str, label: str, limit: float) -> str:
    parts = [SWEEP, case.name, case.instance_sha256, method, label, limit]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
