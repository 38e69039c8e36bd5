"""What a C library prints does not reach standard output."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from optim.solvers.silence import c_stdout_silenced


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
        "from optim.solvers.silence import c_stdout_silenced\n"
        "with c_stdout_silenced(): pass\n"
        "sys.stderr.write('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.startswith("done")


def test_small_models_are_solved_in_silence(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import scipy.optimize

    from optim.linear_model import LinearModel
    from optim.solvers.inprocess import solve_small_milp

    solve = scipy.optimize.milp

    def talkative(*arguments: object, **options: object) -> object:
        os.write(1, b"HighsMipSolverData\n")
        return solve(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(scipy.optimize, "milp", talkative)
    model = LinearModel("m", sense="max")
    model.add_variables("x", 2, upper=1.0, integer=True, objective=1.0)
    assert solve_small_milp(model).objective == 2.0
    assert capfd.readouterr().out == ""
