"""Compiling the kernels once a process, before the clock of a run starts."""

from __future__ import annotations

import time

import numpy as np

from formulations.patterns.clock import Clock
from formulations.patterns.count_table import best_choice
from formulations.patterns.functional_bound import Functional
from formulations.patterns.pricing import TreePricer
from formulations.patterns.problem import make_problem
from formulations.patterns.start import constructed, improved
from optim.util.compiled import warming

_BUDGET = 1000


def warm_up() -> float:
    """Compile, or load from disk, every kernel; return the seconds that took (0 the next time)."""
    began = time.perf_counter()
    _compile()
    return time.perf_counter() - began


@warming
def _compile() -> None:
    problem = make_problem(
        sizes=[1, 2], load=[[1.0], [1.0]], rate=[[0.0, 1.0], [1.0, 0.0]],
        nodes=[1, 1], limit=[[2.0], [3.0]],
    )  # fmt: skip
    pricer = TreePricer(problem, Clock(), _BUDGET)
    price = np.zeros(2)
    pricer.price_class(0, price, -1.0)
    pool = pricer.enumerate(price, np.zeros(0), np.full(2, -np.inf), _BUDGET)
    counts = constructed(problem)
    assert pool is not None
    assert counts is not None
    improved(problem, counts, 0, rounds=1)
    best_choice(problem, pool)
    Functional(problem, pool, np.array([[0, 0], [1, 1]])).evaluate(price)
