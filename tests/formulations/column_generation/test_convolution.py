"""The compiled inner loops of functional bounds against their definition."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.column_generation.bound import NONE, rest_of


def by_definition(before, after, step_rows, step_width):  # type: ignore[no-untyped-def]
    """Try every split of what is left."""
    rows, width = before.shape
    rest = np.full((step_rows, step_width), NONE)
    for a, b in np.ndindex(min(step_rows, rows), min(step_width, width)):
        left = after[rows - 1 - a :: -1, width - 1 - b :: -1]
        rest[a, b] = (before[: rows - a, : width - b] + left).max()
    return rest


@pytest.mark.parametrize("reached", [0.0, 0.1, 0.5, 1.0])
def test_what_the_other_nodes_have_by_the_total_left_to_them(reached: float) -> None:
    rng = np.random.default_rng(int(100 * reached))
    for _ in range(250):
        rows, width, *steps = rng.integers(1, 9, size=4).tolist()
        before, after = (
            np.where(rng.random((rows, width)) < reached, rng.normal(size=(rows, width)), NONE)
            for _ in range(2)
        )
        found = rest_of(before, after, *steps)
        assert np.array_equal(found, by_definition(before, after, *steps))
