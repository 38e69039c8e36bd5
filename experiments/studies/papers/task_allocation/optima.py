"""Optima as figures show them: only those that are proved are called so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PROVED = 1e-6
"""Greatest gap that counts as proved."""


def proved_only(rows: pd.DataFrame, label: str = "optimum") -> pd.DataFrame:
    """Return the rows with the gain of this method unknown wherever it is not proved."""
    open_ones = (rows["method_label"] == label) & ~(rows["gap"] <= PROVED)
    return rows.assign(imc_gain=rows["imc_gain"].mask(open_ones))
