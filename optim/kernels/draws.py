"""One generator of random numbers for compiled searches, and one rule of what they accept.

The generator is xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift
generators, scrambled", ACM Trans. Math. Softw. 42 (2016), doi:10.1145/2845077); its state is an
array of one number, never 0, that goes on from call to call.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import Any

import numpy as np

from optim.util.compiled import helper

_MOST = 1 << 30


def seeded(seed: int) -> Any:
    """Return a state of the generator, never 0."""
    return np.random.default_rng(seed).integers(1, 2**64, 1, dtype=np.uint64, endpoint=False)


@helper
def draw(random, below):
    """Return a random whole number of 0 … below − 1."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    mixed = x * np.uint64(0x2545F4914F6CDD1D)
    return np.int64((mixed >> np.uint64(33)) % np.uint64(below))


@helper
def uniform(random):
    """Return a random number in (0, 1)."""
    return (draw(random, _MOST) + 0.5) / _MOST


@helper
def accepts(random, worse, temperature):
    """Whether a change is accepted that makes a placement worse by so much (S. Kirkpatrick, C. D.
    Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science 220 (1983),
    doi:10.1126/science.220.4598.671)."""
    return worse <= 0.0 or uniform(random) < math.exp(-worse / temperature)
