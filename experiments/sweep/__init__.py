"""Sweeps: a TOML file's matrix of runs, fanned out by Spark, stored as Parquet, resumable.

>>> from experiments.sweep import run_sweep, read_rows

Everything is loaded on first use; only reading with Spark and running a sweep import pyspark. The
names stand in ``__init__.pyi``.
"""

from optim import lazy

__getattr__, __dir__ = lazy(__name__)
