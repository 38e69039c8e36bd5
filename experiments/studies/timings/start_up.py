"""What one `streamplace solve` of a small instance costs: processor seconds of the whole process.

Run: ``python -m experiments.studies.timings.start_up [--cold] [METHOD …]``, after ``streamplace
warm`` where not ``--cold``. Cold is a copy of the sources without machine code or bytecode, as
after a clone; the libraries have their bytecode, as pip leaves it. Python's own cache is put in a
folder of this benchmark, since some machines forbid Python to write any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.studies.timings.table import print_table
from optim.errors import InvalidInput, UnsuitableMethod
from optim.methods.choose import check_suitable
from optim.methods.registry import get_method, method_names
from optim.util.process import processor_seconds

ROOT = Path(__file__).resolve().parents[3]
INSTANCE = ROOT / "examples" / "capsys-q1.json"
PACKAGES = ("streamplace", "optim", "formulations", "heuristics", "experiments")

LIMITED = ("imc-milp", "joint-milp", "scale-in-first", "throughput-milp")
"""Methods that go on for minutes until a proof: these have a limit of 1 s."""

_RUNS = 2


def suitable() -> list[str]:
    """Return the methods that take the instance as it is."""
    from optim import Instance

    instance, found = Instance.load(INSTANCE), []
    for name in method_names():
        try:
            check_suitable(get_method(name), instance, repair=False)
        except (InvalidInput, UnsuitableMethod):
            continue
        found.append(name)
    return found


def seconds_of(method: str, root: Path, bytecode: Path) -> float:
    """Return the processor seconds of one run, its solvers' included."""
    limit = ["--time-limit", "1"] if method in LIMITED else []
    command = ["-m", "streamplace", "solve", str(INSTANCE), "--method", method, "--quiet", *limit]
    left_out = ("PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    environment = {**kept, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": str(bytecode)}
    began = processor_seconds()
    subprocess.run(
        [sys.executable, *command], cwd=root, env=environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    taken = processor_seconds() - began
    print(f"{method} {taken:.2f} s", file=sys.stderr)
    return taken


def cold(method: str, bytecode: Path) -> float:
    """Return the processor seconds of a first run in a fresh copy."""
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / package, Path(folder) / package, ignore=ignored)
        return seconds_of(method, Path(folder), bytecode)


def warm(method: str, bytecode: Path) -> list[float]:
    """Return the processor seconds of several runs, the first of which fills caches."""
    return [seconds_of(method, ROOT, bytecode) for _ in range(1 + _RUNS)][1:]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", metavar="METHOD", help="all that suit if left out")
    parser.add_argument("--cold", action="store_true", help="with nothing compiled")
    args = parser.parse_args()
    names = args.methods or suitable()
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        bytecode = Path(folder)
        if args.cold:
            seconds_of("even", ROOT, bytecode)
            columns = ["method", "processor s", "load"]
            rows = [[name, f"{cold(name, bytecode):.1f}", _load()] for name in names]
        else:
            columns = ["method", "least", "most", "load"]
            for name in names:
                taken = warm(name, bytecode)
                rows.append([name, f"{min(taken):.2f}", f"{max(taken):.2f}", _load()])
    print_table("A solve of examples/capsys-q1.json, whole process", columns, rows)


def _load() -> str:
    return f"{os.getloadavg()[0]:.0f}"


if __name__ == "__main__":
    main()
