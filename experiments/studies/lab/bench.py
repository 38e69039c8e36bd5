"""Ways to place, measured on emulated machines, each run a line of a CSV file at once.

Machines have a share of a core and a narrow link each (`machines`). What is run on them is that of
a system: `flink_bench`, `storm_bench`. Machines, shapes and policies were fixed before anything was
measured.
"""

from __future__ import annotations

import csv
import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from experiments.studies.lab.machines import reason_against
from experiments.studies.lab.runner import LabError, run_lab, tell
from optim import InvalidInput

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from experiments.studies.lab.runner import Argument

    Runs = Iterable[tuple[str, Callable[[], "Row"]]]
    """What is run, in words, and what runs it."""


@dataclass(frozen=True)
class Row:
    """A run: a job or topology, the way in which it is placed, and how many came before."""

    shape: str
    policy: str
    repetition: int

    def cells(self) -> dict[str, Any]:
        """Return it as a line of the table, of rounded numbers."""
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items()}


@dataclass(frozen=True)
class Bench:
    """The bench of a system.

    Attributes
    ----------
    name, description
        The target of ``make``, and what it does.
    row
        Type of its rows.
    runs
        Makes machines and clusters on a stack of contexts, and yields what is to be run.
    table
        Makes the table of the runs.
    repetitions, seconds
        Of each run, and of a measurement, where nothing else is asked for.
    arguments
        Further ones of the command line.
    reason_against
        Returns why the system is not here, or ``None``.
    """

    name: str
    description: str | None
    row: type[Row]
    runs: Callable[[ExitStack, Path, argparse.Namespace], Runs]
    table: Callable[[pd.DataFrame], str]
    repetitions: int
    seconds: float
    reason_against: Callable[[], str | None]
    arguments: tuple[Argument, ...] = ()

    def main(self) -> int:
        """Run the bench; where it cannot be run, say why and end well."""
        times, seconds = {"type": int, "default": self.repetitions}, self.seconds
        return run_lab(
            self.name,
            self.description,
            self.work,
            ("--repetitions", times),
            ("--seconds", {"type": float, "default": seconds, "help": "of a measurement"}),
            *self.arguments,
            reason_against=lambda: reason_against() or self.reason_against(),
        )

    def work(self, folder: Path, args: argparse.Namespace) -> tuple[str, bool]:
        """Run all, store the rows as they come, and print the table."""
        file, failed = folder / "runs.csv", 0
        with ExitStack() as stack, file.open("w", newline="") as out:
            names = [field.name for field in fields(self.row)]
            table = csv.DictWriter(out, names, lineterminator="\n")
            table.writeheader()
            for what, run in self.runs(stack, folder, args):
                try:
                    cells = run().cells()
                except (LabError, InvalidInput) as error:
                    failed += 1
                    tell(f"failed: {what}: {error}")
                    continue
                table.writerow(cells)
                out.flush()
                tell(json.dumps(cells))
        tell(self.table(pd.read_csv(file)))
        return f"{file}, {failed} runs failed", not failed
