"""Who proves the optima of a figure, and what certificates prove of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim import Instance, Result

BY, GAP = "by", "certified gap"
CASES, SECONDS = 2000, 10.0
"""Most cases of a certificate, and seconds of the processor to write one."""


def of_result(instance: Instance, result: Result) -> dict[str, Any]:
    """Certify an optimum as far as that is quickly done, for a row of a figure.

    Returns
    -------
    dict
        `BY`, as in `bound_by` of results, and `GAP`, a share; both ``None`` of what has no bound.
    """
    from optim.certificates.grade import certified

    told, _ = certified(result, instance.to_json().encode(), nodes=CASES, seconds=SECONDS)
    return {BY: told.bound_by, GAP: told.certified_gap}
