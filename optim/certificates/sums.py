"""Bounds by counting: the multipliers that the checker's sums are tried with."""

from __future__ import annotations

import copy
from contextlib import suppress
from fractions import Fraction
from typing import Any

from optim.certificates import check

ZERO = Fraction(0)
_DIGITS = 12
_HALVINGS, _GOLDEN = 16, 12
_RATIO = 0.6180339887498949
_PARTS = (Fraction(1), Fraction(1, 2), ZERO)


def counting(
    instance: check.Instance, objective: str, value: Fraction
) -> tuple[Fraction, dict[str, Any]] | None:
    """Return the best bound by counting, no better than the value of a plan, and its proof."""
    proof: dict[str, Any] = {"kind": "counting"}
    if objective == "imc_gain":
        return max(value, instance.total_traffic), proof
    if objective == "sustainable_rate":
        return _rate(instance, value)
    if objective == "load_distance" and value > 0:
        return _distance(instance, value)
    return None if objective == "feasible" else (ZERO, proof)


def _rate(instance: check.Instance, value: Fraction) -> tuple[Fraction, dict[str, Any]] | None:
    found = []
    for r in range(len(instance.resources)):
        with suppress(check.Refused):
            found.append((max(value, check.counted_rate(instance, r)), r))
    if not found:
        return None
    bound, r = min(found)
    return bound, {"kind": "counting", "resource": r}


def _distance(instance: check.Instance, value: Fraction) -> tuple[Fraction, dict[str, Any]]:
    """Halve the distance between 0 and the plan's; doubles find the multipliers."""
    low = ZERO
    proof: dict[str, Any] = {"kind": "counting"}
    placed = all(home is not None for home in instance.home) and not any(instance.copies)
    if not placed or "max_migrations" not in instance.limits or instance.mean is None:
        return low, proof
    rough = _in_doubles(instance)
    high = value
    for _ in range(_HALVINGS):
        middle = rounded((low + high) / 2, ZERO, "load_distance")
        found = _multipliers(rough, middle)
        if found is not None and check.moved(instance, middle, *found):
            low, high = middle, high
            out, gain = map(number, found)
            proof = {"kind": "counting", "out": out, "gain": gain}
        else:
            high = middle
    return low, proof


def _in_doubles(instance: check.Instance) -> Any:
    rough: Any = copy.copy(instance)
    rough.load = [[float(load[0])] for load in instance.load]
    rough.base = [[float(base[0])] for base in instance.base]
    rough.weight, rough.mean = [float(w) for w in instance.weight], float(instance.mean or 0)
    return rough


def _multipliers(rough: Any, bound: Any) -> tuple[Fraction, Fraction] | None:
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
