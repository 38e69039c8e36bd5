"""The constrained task assignment problem, class D (no assignment cost): optima and bounds.

Run: ``python -m experiments.studies.timings.task_allocation.ctap FOLDER [SECONDS]``, FOLDER with
the CTAP library's ``*D?.dat`` and ``.sol`` files. Their least cut is our most collocation: what is
not inside nodes is cut. Each is given to `imc-exact` for at most SECONDS (60) on the clock, one
thread; seconds are those of the processor.
"""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.generators import generate
from experiments.studies.timings.table import print_table, processor_seconds
from optim import solve
from streamplace.clusters.exchange.transfer import import_instance

LIMIT = 60.0


def published(path: Path) -> float | None:
    """Return the optimum in the ``.sol`` file beside an instance, its last number; None without."""
    solution = path.with_suffix(".sol")
    return float(solution.read_text().split()[-1]) if solution.is_file() else None


def line(path: Path, limit: float) -> list[object]:
    """Solve one file and return its line."""
    instance = import_instance("ctap", [str(path)]).instance
    began = processor_seconds()
    result = solve(instance, "imc-exact", time_limit=limit)
    seconds = processor_seconds() - began
    total, known = instance.total_traffic, published(path)
    cut = None if result.objective is None else total - (result.objective.value or 0.0)
    bound = None if result.bound is None else max(0.0, total - result.bound)
    proved = result.termination == "optimal"
    size = f"{instance.num_tasks} on {instance.num_nodes}"
    same = "" if known is None or cut is None else "yes" if abs(cut - known) < 1e-6 else "NO"
    told = ["–" if value is None else f"{value:.6g}" for value in (known, cut, bound)]
    status = "yes" if proved else str(result.termination)
    return [path.stem, size, *told, same, status, f"{seconds:.2f}"]


def main() -> None:
    """Solve all files and print the table."""
    if len(sys.argv) < 2:  # as `make bench` calls it: the files are not ours to ship
        sys.stderr.write(f"{__doc__}\nno FOLDER is given: nothing is measured\n")
        return
    if not Path(sys.argv[1]).is_dir():
        sys.exit(f"{sys.argv[1]} is no folder")
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else LIMIT
    solve(generate("pipeline", nodes=8), "imc-exact")  # compiled before the clock starts
    rows = [line(path, limit) for path in sorted(Path(sys.argv[1]).glob("*D?.dat"))]
    columns = ["file", "tasks on processors", "published least cut", "our least cut"]
    columns += ["our bound", "agree", "closed", "seconds"]
    print_table("CTAP, class D", columns, rows)


if __name__ == "__main__":
    main()
