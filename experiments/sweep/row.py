"""The row: one run with all it was given and all that came of it; the same columns everywhere."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from optim.figures.catalogue import FIGURES
from optim.format.instance import Instance

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from optim.referee import Result

_KINDS = {"count": "int", "flag": "bool", "text": "text"}

FIGURE_COLUMNS: Mapping[str, str] = {
    figure.name: _KINDS.get(figure.unit, "float") for figure in FIGURES if figure.single
}
"""Columns of the referee's figures; a row from before a figure was declared has none for it."""

CERTIFICATE_COLUMNS: Mapping[str, str] = {
    "bound_by": "text", "certified_bound": "float", "certified_gap": "float",
}  # fmt: skip
"""What the bound rests on, as `Result` reports it."""

NEWER_COLUMNS = frozenset((*FIGURE_COLUMNS, *CERTIFICATE_COLUMNS, "instance_content"))
"""Columns that rows of older versions may lack."""

COLUMNS: Mapping[str, str] = {
    # what was asked for
    "run_key": "text!", "sweep": "text!", "factors": "map!", "instance": "text!",
    "instance_sha256": "text!", "instance_content": "text", "num_tasks": "int!",
    "num_nodes": "int!", "method": "text!", "method_label": "text!", "family": "text!",
    "kind": "text!", "solver": "text", "seed": "int!", "time_limit": "float", "threads": "int!",
    # where, when and how it ended
    "host": "text!", "versions": "text!", "started_at": "time!", "outcome": "text!",
    "error": "text", "exit_code": "int",
    # what it claims and what the referee says of it
    "termination": "text", "feasible": "bool", "objective_name": "text", "sense": "text",
    "objective": "float", "bound": "float", "bound_of": "text", "gap": "float",
    **CERTIFICATE_COLUMNS,
    **FIGURE_COLUMNS,
    "num_violations": "int", "repaired": "bool", "time_read": "float", "time_build": "float",
    "time_solve": "float", "time_check": "float", "time_total": "float", "trace": "trace",
    "result": "text",
}  # fmt: skip
"""Name and type of every column; ``!`` marks those that are never null."""

TRACE_FIELDS = ("seconds", "incumbent", "bound")

REQUIRED = tuple(name for name, kind in COLUMNS.items() if kind.endswith("!"))


SQL_TYPES = {
    "text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN",
    "time": "TIMESTAMPTZ", "map": "MAP(VARCHAR, VARCHAR)",
    "trace": f"STRUCT({', '.join(f'{field} DOUBLE' for field in TRACE_FIELDS)})[]",
}  # fmt: skip
"""What the types are in SQL of DuckDB."""


def arrow_schema() -> pa.Schema:
    """Return the schema of the Parquet files."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "map": pa.map_(pa.string(), pa.string()),
        "trace": pa.list_(pa.struct([(field, pa.float64()) for field in TRACE_FIELDS])),
    }
    return pa.schema(
        [
            pa.field(name, types[kind.rstrip("!")], nullable=not kind.endswith("!"))
            for name, kind in COLUMNS.items()
        ]
    )


def spark_schema() -> StructType:
    """Return the schema as Spark reads it; Spark takes every column of a file as nullable."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(pa.schema([field.with_nullable(True) for field in arrow_schema()]))


def complete_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with every column, each of its type; what is absent or not finite is None.

    Raises `ValueError, TypeError`: a column is unknown, of another type, or required and absent.
    """
    unknown = sorted(set(values) - set(COLUMNS))
    if unknown:
        raise ValueError(f"a row has no column {', '.join(unknown)}")
    row = {name: _convert(name, kind, values.get(name)) for name, kind in COLUMNS.items()}
    absent = [name for name in REQUIRED if row[name] is None]
    if absent:
        raise ValueError(f"a row needs {', '.join(absent)}")
    return row


def _convert(name: str, kind: str, value: Any) -> Any:
    convert = _CONVERTERS.get(kind.rstrip("!"))
    if value is None or convert is None:
        return value
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {name}: {error}") from None


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def _whole_number(value: Any) -> int:
    if int(value) != value:
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)


def _text(value: Any) -> str:
    """Return a text that UTF-8 can hold, whatever bytes a solver put into its message."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _trace(points: Iterable[Any]) -> list[dict[str, float | None]]:
    """Take points (seconds, incumbent, bound) as sequences or as mappings."""
    rows = []
    for point in points:
        items = [point[f] for f in TRACE_FIELDS] if isinstance(point, dict) else list(point)
        if len(items) != len(TRACE_FIELDS):
            raise ValueError(f"a trace point has {len(TRACE_FIELDS)} entries, not {len(items)}")
        numbers = (None if item is None else _finite(item) for item in items)
        rows.append(dict(zip(TRACE_FIELDS, numbers, strict=True)))
    return rows


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "float": _finite,
    "int": _whole_number,
    "bool": bool,
    "text": _text,
    "map": lambda value: {str(key): str(item) for key, item in dict(value).items()},
    "trace": _trace,
}


# -- the default runner: one solve, its result turned into the columns of a row --------------------

_KEPT_INSTANCES = 4


def run(document: bytes, arguments: dict[str, Any]) -> dict[str, Any]:
    """Solve an instance and return what came of it.

    `document`: the instance's JSON.
    `arguments`: keyword arguments of `optim.solve`, and `certificate`: prove the bound, if there is
        one, whatever that costs (up to a minute, or twice the solve); else only where it costs
        little.
    Returns columns of `experiments.sweep.row`.
    """
    from optim import solve
    from optim.certificates.grade import affordable, claims, insisted
    from optim.util.process import processor_seconds

    began = time.perf_counter()
    options = dict(arguments)
    insists = options.pop("certificate", False)
    instance = _instance(document)
    read = time.perf_counter() - began
    before = processor_seconds()
    result = solve(instance, explain=0.0, **options)  # a row has no place for what clashes
    busy = processor_seconds() - before
    if insists and claims(result):
        result, _ = insisted(result, document)
    else:
        result = affordable(result, lambda: document, busy=busy)
    return columns_of(result, read, time.perf_counter() - began)


@functools.lru_cache(_KEPT_INSTANCES)
def _instance(document: bytes) -> Instance:
    """Read an instance once for all runs on it that follow each other; it is immutable."""
    from optim import Instance

    return Instance.from_json(document)


def columns_of(result: Result, read: float, total: float) -> dict[str, Any]:
    """Return the columns that a result fills; `read` and `total` are seconds."""
    evaluation, objective = result.evaluation, result.objective
    figures = {name: getattr(evaluation, name, None) for name in FIGURE_COLUMNS}
    return {
        "versions": json.dumps(dict(result.versions), sort_keys=True),
        "termination": str(result.termination),
        "feasible": None if evaluation is None else evaluation.feasible,
        "objective_name": objective.name if objective else None,
        "sense": objective.sense if objective else None,
        "objective": objective.value if objective else None,
        **{name: getattr(result, name) for name in ("bound", "bound_of", "gap")},
        **{name: getattr(result, name) for name in CERTIFICATE_COLUMNS},
        **figures,
        "num_violations": None if evaluation is None else len(evaluation.violations),
        "repaired": result.repaired,
        "time_read": read,
        **{f"time_{part}": result.times.get(part) for part in ("build", "solve", "check")},
        "time_total": total,
        "trace": list(result.trace),
        "result": json.dumps(result.to_dict(), ensure_ascii=False, separators=(",", ":")),
    }
