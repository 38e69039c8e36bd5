"""What ``solve`` adds to a bound: a second solver's word, and a certificate."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim.certificates import grade
from optim.errors import SolverError
from optim.figures.catalogue import OBJECTIVES

if TYPE_CHECKING:
    import argparse

    from optim.format.instance import Instance
    from optim.referee.result import Result

MOST_SECONDS, MOST_CASES = 60.0, 20_000
"""What ``--certificate`` takes at most, or twice the time of the solve."""


def certified(args: argparse.Namespace, instance: Instance, result: Result) -> Result:
    """Prove the result's bound, and write the proof; what cannot be proved is noted.

    Without ``--certificate`` the bound is proved where that costs little, and nothing is written.
    """
    if args.certificate is None:
        return grade.affordable(result, lambda: instance.to_json().encode())
    from experiments.cli.inputs import STDIN
    from optim.util.files import read_bytes, write_atomic

    named = args.instance != STDIN
    text = read_bytes(args.instance) if named else instance.to_json().encode()
    limit = max(MOST_SECONDS, 2 * result.times.get("total", 0.0))
    began = time.perf_counter()
    result, document = grade.certified(result, text, nodes=MOST_CASES, seconds=limit)
    if document is not None:
        write_atomic(args.certificate, json.dumps(document) + "\n")
    return replace(result, times={**result.times, "certify": time.perf_counter() - began})


def cross_checked(
    args: argparse.Namespace, instance: Instance, result: Result, options: dict[str, Any]
) -> Result:
    """Solve again with another solver.

    Raises
    ------
    SolverError
        A plan of one is better than the bound of the other.
    """
    from optim import solve
    from optim.methods.registry import get_method

    others = [s for s in get_method(result.method).solvers if s != result.solver]
    if result.solver is None or not others or result.objective is None:
        note = f"no cross-check: {result.method} has no second solver"
        return replace(result, notes=(*result.notes, note))
    again = solve(
        instance, result.method, objective=args.objective, solver=others[0], gap=args.gap,
        time_limit=args.time_limit, seed=args.seed, threads=args.threads, repair=args.repair,
        ignore=args.ignore, **options,
    )  # fmt: skip
    figure, pair = OBJECTIVES[result.objective.name], (result, again)
    for mine, other in (pair, pair[::-1]):
        if mine.bound is None or other.objective is None or other.evaluation is None:
            continue
        value, reference = other.objective.value, figure.reference_of(other.evaluation)
        if (
            other.feasible
            and value is not None
            and figure.beats_bound(value, mine.bound, reference)
        ):
            told = (
                f"claims {mine.bound:.9g} as a bound, but {other.solver} has a plan of {value:.9g}"
            )
            raise SolverError(f"{mine.solver} {told}")
    agreed = again.termination == result.termination == "optimal"
    told = "agrees" if agreed else f"ended with {again.termination}, bound {again.bound}"
    notes = (*result.notes, f"cross-check: {again.solver} {told}")
    return replace(result, notes=notes, bound_by="two solvers" if agreed else result.bound_by)
