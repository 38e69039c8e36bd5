"""Bounds by counting: the multipliers that the checker's sums are tried with."""

from __future__ import annotations

import copy
import time
from fractions import Fraction
from typing import Any

from optim.certificates import check

ZERO = Fraction(0)
_DIGITS = 12
_HALVINGS, _GOLDEN = 20, 12
_NEAR = Fraction(1, 10**7)
_RATIO = 0.6180339887498949
_PARTS = (Fraction(1), Fraction(1, 2), ZERO)


def counting(
    instance: check.Instance, value: Fraction, deadline: float
) -> tuple[Fraction, dict[str, Any]] | None:
    """Return the best bound on the load distance by counting, and its proof.

    The value itself, less a little, is tried first; then the distance between 0 and it is halved.
    """
    placed = all(home is not None for home in instance.home) and not any(instance.copies)
    if not placed or "max_migrations" not in instance.limits or instance.mean is None:
        return None
    low, high, proof = ZERO, value, None
    rough, middle = _in_doubles(instance), rounded(value, value * _NEAR, "load_distance")
    for _ in range(_HALVINGS):
        found = _multipliers(rough, middle, deadline) if middle > low else None
        told = dict(zip(("out", "gain"), map(number, found), strict=True)) if found else {}
        if told and check.moved(instance, middle, told):
            low, proof = middle, {"kind": "counting", **told}
        else:
            high = middle
        if high == value:
            break
        middle = rounded((low + high) / 2, ZERO, "load_distance")
    return None if proof is None else (low, proof)


def _in_doubles(instance: check.Instance) -> Any:
    rough: Any = copy.copy(instance)
    rough.load = [[float(load[0])] for load in instance.load]
    rough.base = [[float(base[0])] for base in instance.base]
    rough.weight, rough.mean = [float(w) for w in instance.weight], float(instance.mean or 0)
    return rough


def _multipliers(rough: Any, bound: Any, deadline: float) -> tuple[Fraction, Fraction] | None:
    """Look for multipliers that refute a distance; the sum is concave in the price of load."""
    free = [load[0] for load in rough.load if load[0] > 0]
    most = 2.0 / (sum(free) / len(free)) if free else 1.0
    budget = float(rough.limits["max_migrations"])

    bound = float(bound)

    def lacking(part: Any, price: Any) -> float:
        rounded_part: Any = float(part)
        total = check.least_moves(rough, bound, rounded_part, price)
        return -1.0 if total is None else budget - float(total)

    for part in _PARTS:
        left, right = -most, most
        a, b = right - _RATIO * (right - left), left + _RATIO * (right - left)
        fa, fb = lacking(part, a), lacking(part, b)
        for _ in range(_GOLDEN):
            price, best = (a, fa) if fa < fb else (b, fb)
            if time.process_time() > deadline:
                return None
            if best < 0:
                return part, Fraction(price).limit_denominator(10**6)
            if fa < fb:
                right, b, fb = b, a, fa
                a = right - _RATIO * (right - left)
                fa = lacking(part, a)
            else:
                left, a, fa = a, b, fb
                b = left + _RATIO * (right - left)
                fb = lacking(part, b)
    return None


def rounded(value: Fraction, more: Fraction, objective: str) -> Fraction:
    """Return a short decimal no better than a bound and `more` weaker than it."""
    worse = value + more if check.SENSES[objective] == "max" else value - more
    if not worse:
        return worse
    digits = _DIGITS - len(str(int(abs(worse)))) if abs(worse) >= 1 else _DIGITS
    unit = Fraction(1, 10 ** max(0, digits))
    steps = worse / unit
    whole = -(-steps.numerator // steps.denominator)
    if check.SENSES[objective] == "min":
        whole = steps.numerator // steps.denominator
    return whole * unit


def number(value: Fraction) -> int | str:
    """Write an exact number: an integer, or a text p/q."""
    return int(value) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
