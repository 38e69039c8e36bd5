"""Child process around OR-Tools' SCIP: log on stdout, result in a file.

OR-Tools' own interrupt does not reach SCIP (its call returns true and SCIP goes on), but SCIP
catches SIGINT by itself and then passes its incumbent.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import time
from array import array
from typing import Any

from optim.solvers.worker_kit import die_with_parent, leave, write_file

_LINE_BUFFERED = 1


def main(folder: str, deadline: str, parameters: str) -> None:
    """Solve ``model.pb`` in `folder`, write ``result`` there: marshalled status, value, vector.

    Parameters
    ----------
    folder
        Working folder.
    deadline
        On the clock of `time.monotonic`, ``None`` for none.
    parameters
        SCIP parameters, one ``name = value`` a line.
    """
    die_with_parent()
    # before SCIP listens there is nothing to hand over
    signal.signal(signal.SIGINT, lambda *_: os._exit(3))
    libc = ctypes.CDLL(None)
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)
    from ortools.linear_solver.python import model_builder_helper as helper

    model = helper.ModelBuilderHelper()
    if not model.read_model_from_proto_file(f"{folder}/model.pb"):
        raise SystemExit("OR-Tools could not read the model")
    solver = helper.ModelSolverHelper("scip")
    solver.enable_output(True)
    solver.set_solver_specific_parameters(parameters)
    if deadline != "None":
        solver.set_time_limit_in_seconds(max(0.0, float(deadline) - time.monotonic()))
    print("incumbent passed", flush=True)
    # SCIP listens by itself while it solves; afterwards the result must get out
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    solver.solve(model)
    write_file(f"{folder}/result", marshal.dumps(_result(solver, model.num_variables())))
    leave()


def _result(solver: Any, count: int) -> dict[str, Any]:
    found = bool(solver.has_solution())
    return {
        "status": solver.status().name,
        "message": solver.status_string(),
        "objective": solver.objective_value() if found else None,
        # one by one: as an array they would need an import of numpy
        "x": array("d", map(solver.variable_value, range(count))).tobytes() if found else None,
    }
