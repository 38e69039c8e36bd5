"""Compiling the kernels once a process, before the clock of a run starts."""

from __future__ import annotations

import numpy as np

from formulations.patterns.warm import warm_up as warm_up_patterns
from formulations.throughput.listing import list_patterns
from optim.util.compiled import warming


@warming
def warm_up() -> None:
    """Compile, or load from disk, the kernels of `throughput-exact`."""
    warm_up_patterns()
    one, free = np.ones(1), np.full(3, np.inf)
    list_patterns(
        one, np.ones((1, 1)), np.zeros((1, 1)), np.zeros((2, 1)), np.ones(1, dtype=np.int32),
        one, -one, one, free, False, 1.0, 10, np.zeros((2, 1), dtype=np.int64), np.zeros(2),
    )  # fmt: skip
