"""Write a certificate of a bound, and have it checked before anything is said of it."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.certificates import check
from optim.certificates.tree import GaveUp, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Above the value of the plan that sums of doubles and duals are rounded to.
_NEAR = Fraction(1, 10**9)
_DIGITS = 12


class Written(NamedTuple):
    """A checked certificate, its bound, and what it took."""

    document: dict[str, Any]
    bound: Fraction
    seconds: float
    size: int


def certify(
    text: bytes,
    objective: str,
    assignment: Mapping[str, str] | None,
    *,
    ignored: Sequence[str] = (),
    nodes: int = 2000,
    seconds: float = 60.0,
) -> Written:
    """Prove the best bound that can be had on an objective.

    Parameters
    ----------
    text
        The instance's file, unpacked.
    objective
        One of `check.SENSES`.
    assignment
        The best plan known; ``None`` to prove that there is none.
    ignored
        Limits that do not count.
    nodes, seconds
        Limits of the branch and bound.

    Raises
    ------
    check.Refused
        There is no certificate, and why.
    """
    began = time.perf_counter()
    document, sha256 = check.parse(text)
    assumes = [f"without {name}" for name in sorted(ignored)]
    instance = check.Instance(document, frozenset(ignored))
    if objective not in check.SENSES:
        raise check.Refused(f"no certificate is known for {objective}")
    value = Fraction(0)
    if assignment is not None:
        value = check.value_of(instance, {"assignment": dict(assignment)}, objective)
    deadline = began + seconds

    def made(bound: Fraction, proof: dict[str, Any]) -> dict[str, Any] | None:
        certificate = {
            "format": check.FORMAT, "instance_sha256": sha256, "objective": objective,
            "sense": check.SENSES[objective], "bound": number(bound), "assumes": assumes,
            "proof": proof,
        }  # fmt: skip
        try:
            check.check(document, sha256, json.loads(json.dumps(certificate)))
        except check.Refused:
            return None
        return certificate

    for bound, proof in _attempts(instance, objective, value, nodes, deadline):
        for near in dict.fromkeys((value, bound)):
            certificate = made(near, proof)
            if certificate is not None:
                size = len(json.dumps(certificate))
                return Written(certificate, near, time.perf_counter() - began, size)
    raise check.Refused(f"no proof was found within {nodes} cases and {seconds:g} s")


def _attempts(
    instance: check.Instance, objective: str, value: Fraction, nodes: int, deadline: float
) -> Any:
    """Yield (bound, proof), the best bound first."""
    patterns = check.Patterns(instance, objective, value)
    model = patterns.model()
    kind = "threshold" if model.threshold else "patterns"
    near = value if model.threshold else _rounded(value, _NEAR * abs(value), objective)
    try:
        yield near, {"kind": kind, "steps": Tree(model, near, nodes, deadline).run()}
    except GaveUp:
        if model.threshold:
            return
    try:
        step, proved = Tree(model, near, nodes, deadline + 10).root()
    except GaveUp:
        return
    bound = model.offset + model.unit * proved
    yield _rounded(bound, Fraction(0), objective), {"kind": kind, "steps": [step]}


def _rounded(value: Fraction, more: Fraction, objective: str) -> Fraction:
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
