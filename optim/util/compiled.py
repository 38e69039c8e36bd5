"""Kernels: Python functions that numba compiles where that is worth its while.

A kernel is a plain function and a compiled one (`optim.util.machine_code`) that give the same: they
draw from the same generator, and what numba sums or sorts otherwise than numpy (`sum` of fractions,
an unstable `argsort`) has no place in kernels. Which one runs changes nothing but time.

Numba takes 0.4 s to load, and seconds to a minute to compile what nobody has compiled before. So in
small instances (`by_size`) a kernel runs as plain Python while its steps, which are known before it
begins, take less than that. What counts is the number of steps, never a clock.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
import os
import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, update_wrapper, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from optim.util.process import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = 400  # Tasks times nodes up to which kernels may run as plain Python.
CALL = 300  # Steps of a call that is polynomial in so few tasks and nodes.
READING, LOADING, COMPILING = 20_000, 400_000, 4_000_000
"""Steps, of about a microsecond each, that take as long as reading a compiled kernel from the disk,
as loading numba, and as compiling a kernel."""

_small: ContextVar[bool] = ContextVar("small", default=False)
_within: ContextVar[bool] = ContextVar("within", default=False)


def kernel(function: Any = None, *, steps: Callable[..., float] = lambda: CALL) -> Any:
    """Mark what Python calls: compiled, it is stored on disk where possible.

    Parameters
    ----------
    steps
        Estimates the steps of a call, of about a microsecond each in plain Python; its parameters
        are some of the kernel's.
    """
    return Kernel(function, steps) if function else lambda marked: Kernel(marked, steps)


def helper(function: Any) -> Any:
    """Mark what other kernels call: compiled, it has no way in from Python."""
    function.part = "helper"
    return function


def inlined(function: Any) -> Any:
    """Mark tiny helpers in hot loops: a call that is not inlined counts references to arrays."""
    function.part = "inlined"
    return function


class Kernel:
    """A function and what numba makes of it."""

    part = "kernel"
    total: ClassVar[float] = 0.0
    """Steps that all kernels have run as plain Python."""

    def __init__(self, function: Callable[..., Any], rule: Callable[..., float]) -> None:
        self.function, self.rule, self.steps = function, rule, 0.0
        names = _parameters(function)
        self._rule_arguments = [names.index(name) for name in _parameters(rule)]
        self._draws = "seed" in names
        update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        """Run the plain function where that is quicker, else the compiled one."""
        if _within.get():
            return self.function(*args)
        if "compiled" in vars(self) or not _small.get() or not self._is_short(self.steps_of(*args)):
            return self.compiled(*args)
        return self.plain(*args)

    def steps_of(self, *args: Any) -> float:
        """Estimate the steps of a call."""
        return self.rule(*[args[i] for i in self._rule_arguments])

    def _is_short(self, steps: float) -> bool:
        self.steps += steps
        if not self.on_disk:
            return self.steps <= COMPILING
        # compiled code pays once its reading, or the loading of numba for all kernels, takes less
        if self.steps > READING and ("numba" in sys.modules or Kernel.total + steps > LOADING):
            return False
        Kernel.total += steps
        return True

    @cached_property
    def compiled(self) -> Any:
        """A dispatcher of numba's."""
        from optim.util.machine_code import dispatcher_of

        return dispatcher_of(self.function)

    @cached_property
    def on_disk(self) -> bool:
        """Whether somebody compiled it before."""
        file = Path(self.function.__code__.co_filename)
        cache_folder = os.environ.get("NUMBA_CACHE_DIR")
        folders = [
            file.parent / "__pycache__",
            *(Path(cache_folder).glob("*") if cache_folder else ()),
        ]
        name = f"{file.stem}.{self.function.__qualname__}-*.nbi"
        return any(any(folder.glob(name)) for folder in folders)

    def plain(self, *args: Any) -> Any:
        """Run the function as it stands; its draws are numba's, and nobody's go on from them."""
        drawn = np.random.get_state() if self._draws else None  # noqa: NPY002
        inner = _within.set(True)
        try:
            # as in C: integers wrap round, and a signal finds a kernel whole or not begun
            with Held(), np.errstate(all="ignore"):
                return self.function(*args)
        finally:
            _within.reset(inner)
            if drawn is not None:
                np.random.set_state(drawn)  # noqa: NPY002


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code: Any = function.__code__
    return tuple(code.co_varnames[: code.co_argcount])


@contextmanager
def by_size(cells: int) -> Iterator[None]:
    """Within, kernels may run as plain Python where the instance is small: tasks × nodes.

    In other threads than the main one, which would share the generator, all are compiled.
    """
    small = cells <= SMALL and threading.current_thread() is threading.main_thread()
    before = _small.set(_small.get() or small)
    try:
        yield
    finally:
        _small.reset(before)


def warming(warm_up: Callable[[], object]) -> Callable[[], None]:
    """Let a warm-up be run once a process, and not where kernels may run as plain Python."""
    done = False

    @wraps(warm_up)
    def once() -> None:
        nonlocal done
        if not done and not _small.get():
            warm_up()
            done = True

    return once


# One generator of random numbers for compiled searches, and one rule of what they accept.
#
# The generator is xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift
# generators, scrambled", ACM Trans. Math. Softw. 42 (2016), doi:10.1145/2845077); its state is an
# array of one number, never 0, that goes on from call to call.

_MOST = 1 << 30


def seeded(seed: int) -> Any:
    """Return a state of the generator, never 0."""
    return np.random.default_rng(seed).integers(1, 2**64, 1, dtype=np.uint64, endpoint=False)


@helper
def draw(random, below):
    """Return a random whole number of 0 … below − 1."""
    x = random[0]
    # xorshift64*: shifts 12, 25, 27 and the multiplier of Vigna's table
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
