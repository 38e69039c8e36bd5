"""Gap and tolerance as SQL functions, made from `optim.figures`: the package defines them once.

``finite(x)``                          a broken number is unknown
``tolerance(name, a, b, sizes)``       how far two values may lie apart and still be the same
``gap_of(name, a, b, sizes)``          `Figure.gap`, in the figure's own unit of gaps
``gap_share(name, a, b, sizes)``       the same with 1 for 100 %, whatever that unit
``share_of(value, optimum)``           their ratio
``beats(name, value, bound, sizes)``   whether a value lies beyond a bound by more than rounding

``sizes`` is a struct with what differences are seen against, a field for each of `SIZES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.figures.catalogue import OBJECTIVES
from optim.figures.figure import PERCENT_GAP, RELATIVE_GAP, SHARE_NOISE

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.figures.figure import Figure

SIZES = sorted({figure.reference for figure in OBJECTIVES.values() if figure.reference})
"""Figures that others are seen against: columns of a sweep's rows."""

_STRUCT = f"STRUCT<{', '.join(f'{name}: DOUBLE' for name in SIZES)}>"


def names_where(condition: Callable[[Figure], object]) -> str:
    """Return a list for SQL's IN: the objectives that meet a condition."""
    return ", ".join(f"'{name}'" for name, figure in OBJECTIVES.items() if condition(figure))


PERCENT = names_where(lambda figure: figure.percent)
"""Objectives whose gaps are differences in percent of their size, as a list for SQL's IN."""

_OF_SIZE = " ".join(
    f"WHEN name IN ({names_where(lambda figure, size=size: figure.reference == size)}) "  # type: ignore[misc]
    f"THEN sizes.{size}"
    for size in SIZES
)


def _function(head: str, returns: str, body: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {head} RETURNS {returns} RETURN {body}"


_ARGUMENTS = f"name STRING, a DOUBLE, b DOUBLE, sizes {_STRUCT}"

FUNCTIONS = (
    _function(
        "finite(x DOUBLE)",
        "DOUBLE",
        "CASE WHEN isnan(x) OR abs(x) = double('Infinity') THEN NULL ELSE x END",
    ),
    _function(f"size_of(name STRING, sizes {_STRUCT})", "DOUBLE", f"CASE {_OF_SIZE} END"),
    _function(
        f"tolerance({_ARGUMENTS})",
        "DOUBLE",
        f"""CASE WHEN name IN ({PERCENT})
            THEN {PERCENT_GAP}D * coalesce(size_of(name, sizes) / 100, 1D)
          ELSE greatest(
            {RELATIVE_GAP}D * greatest(abs(a), abs(b), coalesce(size_of(name, sizes), 0D)),
            CASE WHEN name IN ({names_where(lambda f: f.unit == "share")}) THEN {SHARE_NOISE}D
              ELSE 0D END) END""",
    ),
    _function(
        f"gap_of({_ARGUMENTS})",
        "DOUBLE",
        f"""CASE WHEN a IS NULL OR b IS NULL THEN NULL
          WHEN a = b THEN 0D
          WHEN a > b AND name IN ({names_where(lambda f: f.sense == "max")}) THEN 0D
          WHEN a < b AND name IN ({names_where(lambda f: f.sense == "min")}) THEN 0D
          WHEN name IN ({PERCENT}) THEN CASE
            WHEN size_of(name, sizes) IS NULL THEN abs(a - b)
            WHEN size_of(name, sizes) > 0 THEN 100 * abs(a - b) / size_of(name, sizes)
            ELSE double('Infinity') END
          ELSE abs(a - b) / greatest(abs(a), abs(b)) END""",
    ),
    _function(
        f"gap_share({_ARGUMENTS})",
        "DOUBLE",
        f"gap_of(name, a, b, sizes) / CASE WHEN name IN ({PERCENT}) THEN 100D ELSE 1D END",
    ),
    _function(
        "share_of(value DOUBLE, optimum DOUBLE)",
        "DOUBLE",
        "CASE WHEN optimum = 0 AND value = 0 THEN 1D ELSE value / nullif(optimum, 0) END",
    ),
    _function(
        f"beats({_ARGUMENTS})",
        "BOOLEAN",
        f"""CASE WHEN name IN ({names_where(lambda f: f.sense == "max")})
          THEN a - b > tolerance(name, a, b, sizes)
          ELSE b - a > tolerance(name, a, b, sizes) END""",
    ),
)
