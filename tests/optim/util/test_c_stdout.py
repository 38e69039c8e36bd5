"""What a C library prints does not reach standard output."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from heuristics.rebalancing.albic_sets import balanced_parts
from optim.util.process import c_stdout_silenced


def test_c_and_python_write_nothing_while_silenced(capfd: pytest.CaptureFixture[str]) -> None:
    libc = ctypes.CDLL(None)
    libc.printf(b"before\n")
    with c_stdout_silenced():
        libc.printf(b"debugging\n")
        os.write(1, b"more of it\n")
    libc.printf(b"after\n")
    libc.fflush(None)
    assert capfd.readouterr().out == "before\nafter\n"


def test_standard_output_comes_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="within"), c_stdout_silenced():
        raise ValueError("within")
    os.write(1, b"here\n")
    assert capfd.readouterr().out == "here\n"


def test_a_process_without_standard_output_goes_on() -> None:
    code = (
        "import os, sys; os.close(1)\n"
        "from optim.util.process import c_stdout_silenced\n"
        "with c_stdout_silenced(): pass\n"
        "sys.stderr.write('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("done")


def test_small_models_are_solved_in_silence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import scipy.optimize

    from optim.solvers.inprocess import solve_small_milp
    from optim.solvers.linear_model import LinearModel

    solve = scipy.optimize.milp

    def talkative(*arguments: object, **options: object) -> object:
        os.write(1, b"HighsMipSolverData\n")
        return solve(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scipy.optimize, "milp", talkative)
    model = LinearModel("m", sense="max")
    model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    assert solve_small_milp(model).objective == 2.0
    assert capfd.readouterr().out == ""


def test_metis_complains_to_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """A bisection that leaves a side empty is told on standard output by METIS itself."""
    rng = np.random.default_rng(13)
    size = int(rng.integers(4, 9))
    parts = int(rng.integers(3, min(size, 8)))
    rates = np.triu(rng.random((size, size)) < 0.5, 1) * rng.random((size, size))
    graph = csr_array(rates + rates.T)
    weight = rng.lognormal(0, 2, size)
    found = balanced_parts(graph, np.arange(size), weight, parts, 0)
    assert len(found) == parts
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
