"""Sweeps: a TOML file's matrix of runs, fanned out by Spark, stored as Parquet, resumable.

>>> from experiments.sweep import run_sweep, read_rows

Everything is loaded on first use; only reading with Spark and running a sweep import pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.sweep.planning import plan_runs
    from experiments.sweep.reading import read_rows, read_rows_pandas
    from experiments.sweep.spec import Spec, load_spec
    from experiments.sweep.sweeping import SweepSummary, run_sweep

_WHERE = {
    "Spec": "experiments.sweep.spec",
    "SweepSummary": "experiments.sweep.sweeping",
    "load_spec": "experiments.sweep.spec",
    "plan_runs": "experiments.sweep.planning",
    "read_rows": "experiments.sweep.reading",
    "read_rows_pandas": "experiments.sweep.reading",
    "run_sweep": "experiments.sweep.sweeping",
}

__all__ = [
    "Spec",
    "SweepSummary",
    "load_spec",
    "plan_runs",
    "read_rows",
    "read_rows_pandas",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
