from experiments.sweep.planning import plan_runs as plan_runs
from experiments.sweep.reading import read_rows as read_rows
from experiments.sweep.reading import read_rows_pandas as read_rows_pandas
from experiments.sweep.spec import Spec as Spec
from experiments.sweep.spec import load_spec as load_spec
from experiments.sweep.sweeping import SweepSummary as SweepSummary
from experiments.sweep.sweeping import run_sweep as run_sweep
