from experiments.sweep.execution import SweepSummary as SweepSummary
from experiments.sweep.execution import run_sweep as run_sweep
from experiments.sweep.plan import plan_runs as plan_runs
from experiments.sweep.spec import Spec as Spec
from experiments.sweep.spec import load_spec as load_spec
from experiments.sweep.store import read_rows as read_rows
from experiments.sweep.store import read_rows_pandas as read_rows_pandas
