"""The tolerance of a row: by how much what is needed may exceed what is available.

A row is violated where needed − available > 10⁻⁹ · max(|available|, needed). As needed is above
available there, this is needed > available / (1 − 10⁻⁹), so that the tolerance is a function of
what is available alone: no number outside the row counts. A row with nothing available has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = 1e-9
"""Of the larger of what is available in a row and what stands in it."""


def slack(available: Any) -> Any:
    """By how much a sum may exceed what is available and still count as rounding.

    Parameters
    ----------
    available
        The bound of the row, background included; infinite ones are taken for 0.
    """
    return TOLERANCE * np.where(np.isfinite(available), np.abs(available), 0.0)


def over(needed: Any, available: Any) -> Any:
    """Whether what is needed exceeds what is available by more than rounding."""
    return needed > available + slack(available)
