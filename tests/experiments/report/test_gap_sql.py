"""SQL's gaps and tolerances are those of the package."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from experiments.report.database import SIZES, ask, define_tables
from optim.figures.catalogue import OBJECTIVES, find_objective
from tests.experiments.report.synthetic import plan

if TYPE_CHECKING:
    from collections.abc import Callable


def _pairs() -> list[tuple[str, float, float, dict[str, float | None]]]:
    """Return random values and bounds, far and near, of every objective, sizes known or not."""
    rng = np.random.default_rng(1)
    found = []
    sums = ("0.7*collocation_factor-0.3*load_distance", "imc_gain-migrations,load_distance")
    for name in (
        *OBJECTIVES,
        *sums,
        "load_distance,migrations",
        "collocation_factor,load_distance",
    ):
        for size in (None, 0.0, 50.0, 1e9, 1e-9):
            scale = size or 1.0
            value = float(rng.uniform(0, scale))
            for off in (0.0, 0.3, -0.3, 1.1e-5, 0.9e-5, -1.1e-5, 1.1e-6, -0.9e-6, 1e-12):
                found.append((name, value, value + off * scale, dict.fromkeys(SIZES, size)))
        found += [(name, 0.0, 0.0, dict.fromkeys(SIZES, 5.0)), (name, 10.0, 9.0, {SIZES[0]: 20.0})]
    return found


def test_sql_agrees_with_the_package(read: Callable[..., Any]) -> None:
    con = read([plan("Q1", "top-down", 1.0)]).con
    pairs = _pairs()
    rows = [
        (i, name, a, b, *(sizes.get(size) for size in SIZES))
        for i, (name, a, b, sizes) in enumerate(pairs)
    ]
    columns = "i INT, name VARCHAR, a DOUBLE, b DOUBLE, " + ", ".join(f"{s} DOUBLE" for s in SIZES)
    con.execute(f"CREATE TABLE pairs ({columns})")
    con.executemany(f"INSERT INTO pairs VALUES ({', '.join('?' * len(rows[0]))})", rows)
    sizes = "{" + ", ".join(f"'{s}': {s}" for s in SIZES) + "}"
    told = ask(
        con,
        f"SELECT i, gap_of(name, a, b, {sizes}) AS gap, gap_share(name, a, b, {sizes}) AS share, "
        f"beats(name, a, b, {sizes}) AS beats, tolerance(name, a, b, {sizes}) AS tolerance "
        "FROM pairs ORDER BY i",
    )
    assert len(told) == len(pairs)
    for (name, a, b, known), row in zip(pairs, told, strict=True):
        figure = find_objective(name)
        reference = known.get(figure.reference) if figure.reference else None
        gap = figure.gap(a, b, reference)
        assert gap is not None
        assert row["gap"] == pytest.approx(gap, rel=1e-12), (name, a, b, known)
        assert row["tolerance"] == pytest.approx(figure.tolerance(a, b, reference), rel=1e-12)
        assert row["beats"] == figure.beats_bound(a, b, reference), (name, a, b, known)
        share = gap / 100 if figure.percent else gap
        assert row["share"] == (share if math.isinf(share) else pytest.approx(share, rel=1e-12))


def test_sizes_come_from_any_row_of_the_problem(read: Callable[..., Any]) -> None:
    """A row of an earlier version has none: another on the same instance tells them."""
    minimal = {"objective_name": "load_distance", "sense": "min", "total_traffic": None}
    rows = [
        plan("A", "old", 4.0, bound=3.0, bound_of="problem", load_distance=4.0, **minimal),
        plan("A", "new", 5.0, mean_load=50.0, load_distance=5.0, **minimal),
        plan("B", "old", 4.0, bound=3.0, bound_of="problem", load_distance=4.0, **minimal),
    ]
    con = read(rows).con
    define_tables(con, "graded")
    define_tables(con, "compared")
    found = ask(con, "SELECT instance, contestant, gap_bound FROM compared ORDER BY ALL")
    gaps = {(row["instance"], row["contestant"]): row["gap_bound"] for row in found}
    assert gaps == {
        ("A", "new"): pytest.approx(0.04),  # 2 of 50
        ("A", "old"): pytest.approx(0.02),
        ("B", "old"): pytest.approx(0.01),  # as the version told it: 1 point
    }
