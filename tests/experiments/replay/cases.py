"""Small recordings: the same key groups on the same nodes, loads that change."""

from __future__ import annotations

from typing import Any

from optim.format.instance import Instance
from tests.heuristics.rebalancing.cases import case


def recording(where: str, loads: list[list[float]], **given: Any) -> list[Instance]:
    """Return one period for each list of loads; see `case` for the rest."""
    return [
        case(where, loads=period, **given).replace(name=f"p{number}")
        for number, period in enumerate(loads)
    ]
