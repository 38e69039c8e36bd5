"""How well a bound is known: by a checked certificate, by two solvers, or by one."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from optim.figures.catalogue import find_objective
from optim.format.instance import Instance
from optim.referee import Termination
from optim.rules import broken, without_limits
from optim.rules.placement import Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.referee import Result

_SAME = 1e-6
"""Gap of a certified bound from a claimed one up to which the certificate carries the claim."""


_SHARE, _CASES = 0.2, 2000
_LEAST, _LOADING, _SCIPY = 0.01, 0.02, 0.4
"""Seconds that the smallest certificate takes, the loading of the writer, and that of scipy."""

_MOST_SECONDS, _MOST_CASES = 60.0, 20_000
"""What may be spent where a certificate is insisted on, or twice the time of the solve."""


def certified(
    result: Result, text: bytes, *, nodes: int, seconds: float
) -> tuple[Result, dict[str, Any] | None]:
    """Certify what a result claims, as far as that can be done.

    `result`: of `solve`; of one that found the instance infeasible, that is certified.
    `text`: the instance's file, unpacked.
    `nodes`, `seconds`: limits of the branch and bound.
    Returns the result with `certified_bound`, `certified_gap` and `bound_by`, and the certificate.
    """
    excess = None
    if result.mending is not None and result.mending.still:
        excess = result.mending.excess
    infeasible = result.termination is Termination.INFEASIBLE
    plan = None if result.plan is None else dict(result.plan.assignment)
    if infeasible:
        objective = "feasible"
    elif result.objective is not None and plan is not None:
        objective = result.objective.name
    else:
        return _noted(result, "there is no plan that a bound could be of"), None
    # the writer loads scipy, which takes longer than most solves that need no certificate
    from optim.certificates.check import Refused, Unreadable
    from optim.certificates.write import certify

    try:
        value = None if result.objective is None else result.objective.value
        written = certify(
            text, objective, plan, value=value, claimed=result.bound, ignored=result.ignored,
            excess=excess, nodes=nodes, seconds=seconds,
        )  # fmt: skip
    except (Refused, Unreadable) as error:
        return _noted(result, str(error)), None
    note = f"certificate of {written.size:,} bytes, written and checked in {written.seconds:.2g} s"
    if result.mending is not None and excess is not None:
        least = float(Fraction(written.document["excess"]["bound"]))
        note += f"; no plan that is nowhere worse than now has an excess below {least:.6g}"
        result = replace(result, mending=replace(result.mending, certified=least))
    result = replace(result, notes=(*result.notes, note))
    if infeasible and _starts_broken(result, text):
        note = (
            "the certificate proves that no plan keeps every limit, not that each makes one worse"
        )
        return replace(result, notes=(*result.notes, note)), written.document
    if infeasible:
        return replace(result, bound_by="certificate"), written.document
    bound, figure = float(written.bound), find_objective(objective)
    assert result.evaluation is not None and result.objective is not None
    reference = figure.reference_of(result.evaluation)
    apart = figure.gap(result.bound, bound, reference)
    # the certificate stands for the claim where its bound is as good, up to `_SAME`
    carried = result.bound is None or (apart is not None and apart <= _SAME)
    gap = figure.gap(result.objective.value, bound, reference)
    if result.mending is not None and excess is not None:
        claimed = result.objective_levels[0].bound or 0.0
        carried = carried and (result.mending.certified or 0.0) >= claimed - _SAME * excess
        # of plans of so much excess alone: a better bound of these is none of what is claimed
        beyond = figure.gap(bound, result.bound, reference)
        carried = carried and (beyond is None or beyond <= _SAME)
        gap = None  # as of every plan that breaks a limit
    return (
        replace(
            result,
            certified_bound=bound,
            certified_gap=gap,
            bound_by="certificate" if carried else result.bound_by,
        ),
        written.document,
    )


def _starts_broken(result: Result, text: bytes) -> bool:
    """Whether the current placement breaks limits, so that plans may break them as much."""
    instance = without_limits(Instance.from_json(text), result.ignored)
    now, placed = Placement(instance, instance.tasks.node), instance.tasks.node >= 0
    return bool(placed.any()) and any(violation.rule != "placed" for violation in broken(now))


def insisted(result: Result, text: bytes) -> tuple[Result, dict[str, Any] | None]:
    """Return what `certified` does, in up to a minute or twice the time of the solve."""
    limit = max(_MOST_SECONDS, 2 * result.times.get("total", 0.0))
    return _or_uncertified(
        result, lambda: certified(result, text, nodes=_MOST_CASES, seconds=limit)
    )


def claims(result: Result) -> bool:
    """Whether a result says anything that a certificate could prove."""
    return result.bound is not None or result.termination is Termination.INFEASIBLE


def affordable(
    result: Result, text: Callable[[], bytes], making: float = 0.0, busy: float = math.inf
) -> Result:
    """Certify what a result claims, if that costs at most a fifth of the time of the solve.

    To begin with one costs something, the more the less of what writes it is loaded, so that short
    solves are left alone. What is not certified so is left as it is; so is what a certificate
    proves less of than is claimed, as that would only be a second, worse bound beside the first.

    `making`: seconds that this takes about.
    `busy`: processor seconds of the solve, where they are known: on a machine that others keep busy
        the clock shows more, and what takes long there would not be worth it elsewhere.
    """
    spent = min(busy, sum(result.times.get(part, 0.0) for part in ("build", "solve")))
    if not claims(result) or _SHARE * spent < _LEAST + _loading() + making:
        return result
    seconds = (_SHARE * spent - _loading()) / 2  # what is written is checked
    best, document = _or_uncertified(
        result, lambda: certified(result, text(), nodes=_CASES, seconds=seconds)
    )
    return result if document is None or not _proves_claim(best) else best


def _loading() -> float:
    """Seconds that loading the writer takes: nothing if it is loaded."""
    if "optim.certificates.write" in sys.modules:
        return 0.0
    return _LOADING if "scipy.optimize" in sys.modules else _SCIPY


def _proves_claim(result: Result) -> bool:
    """Whether a certificate proves what is claimed, or more."""
    if result.bound_by == "certificate" or result.certified_gap is None or result.gap is None:
        return result.bound_by == "certificate"
    return result.certified_gap <= result.gap + _SAME


def _or_uncertified(
    result: Result, prove: Callable[[], tuple[Result, dict[str, Any] | None]]
) -> tuple[Result, dict[str, Any] | None]:
    """Prove; what was solved is not lost with its certificate."""
    try:
        return prove()
    except KeyboardInterrupt:
        return _noted(result, "it was interrupted"), None
    except MemoryError:
        return _noted(result, "there is not the memory for one"), None


def _noted(result: Result, reason: str) -> Result:
    return replace(result, notes=(*result.notes, f"no certificate: {reason}"))
