"""The default runner: one solve, its result turned into the columns of a row."""

from __future__ import annotations

import functools
import json
import time
from typing import TYPE_CHECKING, Any

from experiments.sweep.row import CERTIFICATE_COLUMNS, FIGURE_COLUMNS

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.referee.result import Result

_KEPT_INSTANCES = 4


def run(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Solve an instance and return what came of it.

    Parameters
    ----------
    document
        The instance's JSON.
    arguments
        Keyword arguments of `optim.solve`, and `certificate`: prove the bound, if there is one,
        whatever that costs (up to a minute, or twice the solve); else only where it costs little.

    Returns
    -------
    dict
        Columns of `experiments.sweep.row`.
    """
    from optim import solve
    from optim.certificates.grade import affordable, claims, insisted
    from optim.util.process import processor_seconds

    began = time.perf_counter()
    asked = dict(arguments)
    insists = asked.pop("certificate", False)
    instance = _instance(document)
    read = time.perf_counter() - began
    before = processor_seconds()
    result = solve(instance, explain=0.0, **asked)  # a row has no place for what clashes
    busy = processor_seconds() - before
    if insists and claims(result):
        result, _ = insisted(result, document)
    else:
        result = affordable(result, lambda: document, busy=busy)
    return columns_of(result, read, time.perf_counter() - began)


@functools.lru_cache(_KEPT_INSTANCES)
def _instance(document: bytes) -> Instance:
    """Read an instance once for all runs on it that follow each other; it is immutable."""
    from optim import Instance

    return Instance.from_json(document)


def columns_of(result: Result, read: float, total: float) -> dict[str, Any]:
    """Return the columns that a result fills; `read` and `total` are seconds."""
    evaluation, objective = result.evaluation, result.objective
    figures = {name: getattr(evaluation, name, None) for name in FIGURE_COLUMNS}
    return {
        "versions": json.dumps(dict(result.versions), sort_keys=True),
        "termination": str(result.termination),
        "feasible": None if evaluation is None else evaluation.feasible,
        "objective_name": objective.name if objective else None,
        "sense": objective.sense if objective else None,
        "objective": objective.value if objective else None,
        **{name: getattr(result, name) for name in ("bound", "bound_of", "gap")},
        **{name: getattr(result, name) for name in CERTIFICATE_COLUMNS},
        **figures,
        "num_violations": None if evaluation is None else len(evaluation.violations),
        "repaired": result.repaired,
        "time_read": read,
        **{f"time_{part}": result.times.get(part) for part in ("build", "solve", "check")},
        "time_total": total,
        "trace": list(result.trace),
        "result": json.dumps(result.to_dict(), ensure_ascii=False, separators=(",", ":")),
    }
