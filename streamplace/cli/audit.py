"""What ``solve`` adds to a bound: a second solver's word, and a certificate."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim import solve
from optim.certificates import grade
from optim.errors import InvalidInput, SolverError
from optim.figures.catalogue import OBJECTIVES
from optim.methods.registry import get_method, method_names
from optim.referee.result import Termination
from optim.util.files import read_bytes, write_atomic
from streamplace.present.inputs import STDIN

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from optim.format.instance import Instance
    from optim.referee.result import Result

TEXT_SECONDS = 2.5e-5
"""Of a task, to make the instance's text."""


def certified(args: argparse.Namespace, instance: Instance, result: Result, busy: float) -> Result:
    """Prove the result's bound, and write the proof; what cannot be proved is noted.

    Without ``--certificate`` the bound is proved where that costs little, given the processor
    seconds that the solve took, and nothing is written.
    """
    if args.certificate is None:
        making = TEXT_SECONDS * instance.num_tasks
        return grade.affordable(result, lambda: instance.to_json().encode(), making, busy)
    named = args.instance != STDIN
    text = read_bytes(args.instance) if named else instance.to_json().encode()
    began = time.perf_counter()
    result, document = grade.insisted(result, text)
    if document is not None:
        write_atomic(args.certificate, json.dumps(document) + "\n")
    return replace(result, times={**result.times, "certify": time.perf_counter() - began})


def cross_checked(
    args: argparse.Namespace, instance: Instance, result: Result, options: dict[str, Any]
) -> Result:
    """Solve again with another solver, or another exact method where the method has one only.

    Raises
    ------
    SolverError
        A plan of one is better than the bound of the other.
    """
    again = None
    if result.objective is not None:
        for method, solver in _seconds(result):
            with suppress(InvalidInput):  # it does not suit the instance, or is not installed
                same = method == result.method
                again = solve(
                    instance, method, solver=solver, gap=args.gap, time_limit=args.time_limit,
                    objective=args.objective if same else result.objective.name, seed=args.seed,
                    threads=args.threads, repair=args.repair, ignore=args.ignore,
                    start_broken=args.start_broken, **(options if same else {}),
                )  # fmt: skip
                break
    if again is None or result.objective is None:
        note = f"no cross-check: {result.method} has no second solver that suits"
        return replace(result, notes=(*result.notes, note))
    figure, pair = OBJECTIVES[result.objective.name], (result, again)
    for mine, other in (pair, pair[::-1]):
        if mine.bound is None or other.objective is None or other.evaluation is None:
            continue
        if mine.bound_of != "problem":  # others may have better plans
            continue
        value, reference = other.objective.value, figure.reference_of(other.evaluation)
        if (
            (other.feasible or _as_little(result, again))
            and value is not None
            and figure.beats_bound(value, mine.bound, reference)
        ):
            claim = f"{_name(mine)} claims {mine.bound:.9g} as a bound"
            raise SolverError(f"{claim}, but {_name(other)} has a plan of {value:.9g}")
    agreed = again.termination == result.termination == "optimal"
    told = "agrees" if agreed else f"ended with {again.termination}, bound {again.bound}"
    notes = (*result.notes, f"cross-check: {_name(again)} {told}")
    return replace(result, notes=notes, bound_by="two solvers" if agreed else result.bound_by)


def _as_little(result: Result, again: Result) -> bool:
    """Whether both break limits that are broken today, and no more than is proved to be least."""
    pair = result.mending, again.mending
    proved = Termination.OPTIMAL in (result.termination, again.termination)
    return proved and None not in pair and abs(pair[0].excess - pair[1].excess) <= 1e-9  # type: ignore[union-attr]


def _name(result: Result) -> str:
    return f"{result.method} with {result.solver}" if result.solver else result.method


def _seconds(result: Result) -> Iterator[tuple[str, str | None]]:
    """Yield (method, solver): the method's other solvers, then other exact methods."""
    first = (result.solver or "").partition(" ")[0]  # its version stands behind
    own = get_method(result.method).solvers if first else ()
    yield from ((result.method, solver) for solver in own if solver != first)
    assert result.objective is not None
    others = [get_method(name) for name in method_names() if name != result.method]
    for other in sorted(others, key=lambda method: (not method.solvers, method.name)):
        if other.kind == "exact" and result.objective.name in (other.objective, *other.objectives):
            yield other.name, None
