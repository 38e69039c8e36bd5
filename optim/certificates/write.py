"""Write a certificate of a bound, and have it checked before anything is said of it."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.certificates import check
from optim.certificates.sums import counting, number, rounded
from optim.certificates.tree import GaveUp, Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ZERO = Fraction(0)
_GRACE = 10.0
_SHARES = (Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 100), Fraction(1, 20), Fraction(1, 4))
#: Above the value of the plan that sums of doubles and duals are rounded to.
_NEAR = Fraction(1, 10**9)


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
        Limits of the branch and bound; seconds of the processor.

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
    value = ZERO
    if assignment is not None:
        value = check.value_of(instance, {"assignment": dict(assignment)}, objective)
    deadline = time.process_time() + seconds

    def made(bound: Fraction, proof: dict[str, Any]) -> dict[str, Any] | None:
        certificate = {
            "format": check.FORMAT, "instance_sha256": sha256, "objective": objective,
            "sense": check.SENSES[objective], "bound": number(bound), "assumes": assumes,
            "proof": proof,
        }  # fmt: skip
        try:
            check.check(document, sha256, json.loads(json.dumps(certificate)))
        except (check.Refused, check.Unreadable):
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
) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    """Yield (bound, proof), the best bound first."""
    sums = counting(instance, objective, value)
    if sums is not None and sums[0] == value:
        yield sums
    try:
        yield from _patterns(instance, objective, value, nodes, deadline)
    except check.Refused:  # too many patterns
        if sums is None:
            raise
    if sums is not None:
        yield sums


def _patterns(
    instance: check.Instance, objective: str, value: Fraction, nodes: int, deadline: float
) -> Iterator[tuple[Fraction, dict[str, Any]]]:
    if objective in check.THRESHOLDS:
        for bound in _weaker(objective, value):
            model = check.Model(instance, objective, bound)
            with suppress(GaveUp):
                yield (
                    bound,
                    {
                        "kind": "threshold",
                        "steps": Tree(model, bound, nodes, deadline).run(),
                    },
                )
        return
    model = check.Model(instance, objective, value)
    near = rounded(value, _NEAR * abs(value), objective)
    with suppress(GaveUp):
        yield near, {"kind": "patterns", "steps": Tree(model, near, nodes, deadline).run()}
    with suppress(GaveUp):
        step, proved = Tree(model, near, nodes, deadline + _GRACE).root()
        bound = model.offset + model.unit * proved
        yield rounded(bound, ZERO, objective), {"kind": "patterns", "steps": [step]}


def _weaker(objective: str, value: Fraction) -> Iterator[Fraction]:
    """Yield bounds to try, the value of the plan first."""
    yield value
    if objective != "feasible" and value:
        for share in _SHARES:
            more = value * (1 + share) if check.SENSES[objective] == "max" else value * (1 - share)
            yield rounded(more, ZERO, objective)
