"""Compiling the kernels of `slots-milp` before its clock starts."""

from __future__ import annotations

from functools import cache

import numpy as np

from formulations.model_driven.pack_kernel import which_pack
from formulations.patterns import warm


@cache
def warm_up() -> None:
    """Compile, or load from disk, every kernel."""
    warm.warm_up()
    one, size = np.ones((1, 1), dtype=np.int64), np.ones((1, 1))
    which_pack(one, np.zeros(1, dtype=np.bool_), size, 1.0, 1, 1)
