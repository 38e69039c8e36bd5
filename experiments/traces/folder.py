"""The folder of a trace: ``trace.json`` beside Parquet tables; written whole or not at all."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.traces.manifest import TABLES, Manifest, is_ours
from experiments.traces.tables import check_table, count_rows, read_table
from optim.errors import InvalidInput, Problem
from optim.util.files import write_atomic

if TYPE_CHECKING:
    import pyarrow as pa

    from experiments.traces.job import Job

MARKER = "trace.json"
INSTANCES = "instances"
_NEW = ".new"
_INSTANCE = re.compile(r".*-p\d+\.json")
"""Names that `experiments.traces.instances` gives."""


class TraceFolder:
    """A finished trace, or one in the making.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path) -> TraceFolder:
        """Take a folder for a new trace; an older one stays until `finish`.

        Raises
        ------
        InvalidInput
            The folder holds something else.
        """
        folder = cls(path)
        target = folder.path
        try:
            if target.exists() and not is_ours(target / MARKER):
                inside = target.iterdir() if target.is_dir() else [target]
                if any(path.name != _NEW for path in inside):
                    reason, remedy = "is not empty and holds no trace", "choose another folder"
                    raise InvalidInput(Problem("--output", str(target), reason, remedy))
            folder.clean()
            (target / _NEW).mkdir(parents=True)
        except OSError as error:
            reason = f"cannot be written: {error.strerror}"
            raise InvalidInput(Problem("--output", str(target), reason)) from None
        return folder

    @classmethod
    def open(cls, path: str | Path) -> TraceFolder:
        """Take a finished trace.

        Raises
        ------
        InvalidInput
            There is none, or it is not as it was written.
        """
        folder = cls(path)
        if not is_trace(folder.path):
            remedy = "make one with `streamplace trace JOB.toml -o DIR`"
            raise InvalidInput(Problem(str(path), None, f"holds no {MARKER}", remedy))
        for name, rows in folder.manifest.rows.items():
            check_table(folder._table_path(name), name, rows)
        return folder

    # -- writing ---------------------------------------------------------------------------------

    def part_uri(self, name: str) -> str:
        """Return where Spark is to write a table."""
        return (self.path.resolve() / _NEW / f"{name}.parquet").as_uri()

    @property
    def scratch(self) -> Path:
        """Where archives may be unpacked; it goes with an unfinished trace."""
        return self.path.resolve() / _NEW

    def finish(self, manifest: Manifest, seconds: float) -> TraceFolder:
        """Put the new tables in the place of older ones and write the manifest last.

        Instances of an older trace are removed.
        """
        (self.path / MARKER).unlink(missing_ok=True)
        self.remove_instances()
        rows = {}
        for name in TABLES:
            target = self._table_path(name)
            shutil.rmtree(target, ignore_errors=True)
            new = self.path / _NEW / target.name
            if new.exists():
                new.rename(target)
                rows[name] = count_rows(target)
        whole = replace(manifest, seconds=seconds, rows=rows)
        write_atomic(self.path / MARKER, whole.to_json())
        return TraceFolder.open(self.path)

    def clean(self) -> None:
        """Remove what an unfinished trace left."""
        shutil.rmtree(self.path / _NEW, ignore_errors=True)

    def remove_instances(self) -> None:
        """Remove written instances; files of others stay."""
        folder = self.path / INSTANCES
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            if path.is_file() and _INSTANCE.fullmatch(path.name):
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()

    # -- reading ---------------------------------------------------------------------------------

    @cached_property
    def manifest(self) -> Manifest:
        """What the trace says about itself."""
        return Manifest.read(self.path / MARKER)

    @cached_property
    def job(self) -> Job:
        """The description the trace was made with."""
        from experiments.traces.job import Job

        return Job.from_dict(dict(self.manifest.job), self.path, str(self.path / MARKER))

    def table(self, name: str, first: int | None = None, last: int | None = None) -> pa.Table:
        """Return a table, or its rows of some periods, in the order of periods.

        Raises
        ------
        InvalidInput
            The table cannot be read.
        """
        if name in self.manifest.rows:
            return read_table(self._table_path(name), first, last)
        import pyarrow as pa

        return pa.table({"period": pa.array([], pa.int32())})

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self.manifest.rows.get(name, 0)

    def _table_path(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    @cached_property
    def totals(self) -> dict[str, dict[str, float]]:
        """For each operator its events, cost, and the share of its largest key group."""
        table = self.table("loads")
        found: dict[str, dict[str, float]] = {}
        if not len(table):
            return found
        sums = table.group_by(["operator", "group"]).aggregate([("events", "sum"), ("cost", "sum")])
        operators = np.array(sums["operator"].to_pylist(), dtype=object)
        for name in sorted(set(operators)):
            mine = operators == name
            cost = sums["cost_sum"].to_numpy()[mine]
            total = float(np.sort(cost).sum())
            found[str(name)] = {
                "events": int(sums["events_sum"].to_numpy()[mine].sum()),
                "cost": total,
                "key_groups": len(cost),
                "largest": float(cost.max()) / total if total > 0 else 0.0,
            }
        return found


def is_trace(path: str | Path) -> bool:
    """Tell whether a folder is a finished trace."""
    return (Path(path) / MARKER).is_file()
