"""The row: every column of its type, unknown numbers null, wrong ones refused."""

from __future__ import annotations

import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.sweep import row
from experiments.sweep.row import COLUMNS, REQUIRED, arrow_schema, complete_row
from experiments.sweep.store import table_of
from tests.experiments.sweep.rows import make_row


def test_a_row_has_every_column() -> None:
    made = make_row()
    assert list(made) == list(COLUMNS)
    assert made["gap"] is None
    assert made["factors"] == {"method": "m"}


def test_numpy_scalars_become_plain_and_what_is_not_finite_becomes_null() -> None:
    made = make_row(
        objective=np.float32(1.5),
        bound=-math.inf,
        gap=math.nan,
        migrations=np.int32(3),
        feasible=np.True_,
        exit_code=-11.0,
        trace=[(np.float64(0.1), None, math.inf), {"seconds": 1, "incumbent": 2, "bound": 3}],
    )
    assert (made["objective"], made["bound"], made["gap"]) == (1.5, None, None)
    assert (made["migrations"], type(made["migrations"])) == (3, int)
    assert made["feasible"] is True
    assert made["exit_code"] == -11
    assert made["trace"] == [
        {"seconds": 0.1, "incumbent": None, "bound": None},
        {"seconds": 1.0, "incumbent": 2.0, "bound": 3.0},
    ]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"gpa": 1}, "has no column gpa"),
        ({"gap": "wide"}, "column gap"),
        ({"migrations": 1.5}, "column migrations: 1.5 is not a whole number"),
        ({"trace": [(1, 2)]}, "column trace"),
        ({"trace": 3}, "column trace"),
        ({"method": None}, "a row needs method"),
    ],
)
def test_wrong_columns_are_refused(columns: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        make_row(**columns)


@given(st.text(), st.floats(), st.integers(-(1 << 63), (1 << 63) - 1), st.datetimes())
def test_a_table_holds_whatever_rows_hold(text: str, value: float, seed: int, at: datetime) -> None:
    import pyarrow as pa

    rows = [
        make_row(error=text + "\ud800", objective=value, seed=seed, factors={text: text, "": ""}),
        make_row(trace=[(value, None, value)], started_at=at.replace(tzinfo=UTC), feasible=True),
        make_row(trace=[], factors={}),
    ]
    table = table_of(rows)
    assert table.equals(pa.Table.from_pylist(rows, schema=arrow_schema()))
    assert table["error"][0].as_py() == text + "?"


WORKER = """
import sys
from pathlib import Path
from types import SimpleNamespace
from experiments.sweep.store import keep_instances, write_part
from tests.experiments.sweep.rows import make_row

folder = Path(sys.argv[1])
write_part(folder, [make_row()])
keep_instances(folder, [SimpleNamespace(sha256="a", packed=b"b")])
print("pandas" in sys.modules)
"""


def test_parts_and_instances_are_written_without_pandas(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_both_schemas_name_the_same_columns_and_types() -> None:
    spark = {field.name: field.dataType.simpleString() for field in row.spark_schema().fields}
    assert list(spark) == arrow_schema().names == list(COLUMNS)
    assert spark["factors"] == "map<string,string>"
    assert spark["trace"] == "array<struct<seconds:double,incumbent:double,bound:double>>"
    assert spark["started_at"] == "timestamp"
    assert {f.name for f in arrow_schema() if not f.nullable} == set(REQUIRED)


def test_the_module_imports_without_spark_and_arrow() -> None:
    script = (
        "import sys, experiments.sweep, experiments.sweep.isolation, experiments.sweep.command\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'scipy', 'ortools', 'pulp', 'numba'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_complete_row_keeps_what_is_complete() -> None:
    assert complete_row(make_row()) == make_row()
