"""`imc-milp`: the textbook linearisation of task allocation, one variable a task and node.

It is a judge for small instances; `imc-exact` is the method for large ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.task_allocation.common import (
    HONOURS,
    KNOWN_FORMS,
    LINEAR_FORMS,
    LINEAR_ONLY,
    STARTS,
    feasible_among,
    feasible_starts,
    relabelled,
)
from formulations.task_allocation.model import (
    MOST_PRODUCTS,
    AllocationModel,
    build,
    solve_exactly,
)
from optim.errors import SolverError
from optim.kernels.classes import node_classes
from optim.methods.draining import emptied_or_any
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Termination
from optim.rules import kept_by
from optim.solvers import solve_linear
from optim.solvers.interface import ABSOLUTE_ZERO
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

_HONOURS = HONOURS | LINEAR_ONLY
_KEPT = kept_by(_HONOURS)

_PLAN_CELLS = 20_000
"""Tasks × nodes up to which any plan is looked for, in at most `_PLAN_NODES` nodes of the tree."""
_PLAN_NODES = 2000


def run(instance: Instance, request: Request) -> Outcome:
    """Build the model, hand it to the solver, read the placement back.

    Raises
    ------
    UnsuitableMethod
        The model would be too large.
    """
    request.start()  # an incumbent, should Ctrl-C come while the model is built
    solver = request.solver or "highs"
    ordered = bool(request.options["break_symmetry"])
    made = build(
        instance,
        break_symmetry=ordered,
        whole_products=solver == "cp-sat",
    )
    start = _start(instance, request, made, ordered=ordered)
    built = request.elapsed()
    if start is not None:
        request.offer(start)
    answer, cuts = _solved(instance, request, made, start, solver, built)
    outcome = _outcome(instance, made, answer, built)
    if outcome.node is not None:
        request.offer(outcome.node)
    if cuts:
        outcome.notes.append(
            f"{cuts} placements that {answer.solver} took for feasible within its tolerance were "
            "cut off"
        )
    if request.warm_start is not None:
        outcome.warm_start_accepted = answer.warm_start_accepted if start is not None else False
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the whole model, to be written."""
    ordered, whole = bool(request.options["break_symmetry"]), request.solver == "cp-sat"
    made = build(instance, break_symmetry=ordered, whole_products=whole)
    return PosedModel(made.model, "imc_gain", made.scale)


def _solved(
    instance: Instance,
    request: Request,
    made: AllocationModel,
    start: Ints | None = None,
    solver: str = "highs",
    built: float = 0.0,
    options: dict[str, Any] | None = None,
) -> tuple[LinearSolution, int]:
    """Solve until the placement keeps all rules exactly; return the answer and the cuts made."""

    def solve() -> LinearSolution:
        return solve_linear(
            made.model,
            solver,
            time_limit=request.remaining(),
            gap=request.gap,
            seed=request.seed,
            threads=request.threads,
            warm_start=None if start is None else made.vector(start),
            options=options,
            progress=_scaled_progress(request, made.scale, built),
        )

    return solve_exactly(instance, made, _KEPT, request, solve)


def find_plan(instance: Instance, request: Request) -> Ints | None:
    """Return any plan that keeps what `imc-milp` keeps, of an instance that is small enough.

    Parameters
    ----------
    request
        Its seed and its clock count.
    """
    if instance.num_tasks * instance.num_nodes > _PLAN_CELLS:
        return None
    made = build(instance, products=False, empties=False)
    quiet, most = replace(request, progress=None, gap=None), {"mip_max_nodes": _PLAN_NODES}
    try:
        answer, _ = _solved(instance, quiet, made, options=most)
    except SolverError:
        return None
    return None if answer.x is None else made.place(answer.x)


def _start(
    instance: Instance, request: Request, made: AllocationModel, *, ordered: bool
) -> Ints | None:
    """Return the best start that is feasible, its identical nodes numbered as the model wants."""
    classes = node_classes(instance)
    starts = feasible_starts(instance, request, classes)
    found = request.start()
    starts += [] if found is None else feasible_among(instance, [found.node], classes)
    if not starts:
        return None
    gains = [made.model.objective_of(made.vector(s)) for s in starts]
    start = starts[int(np.argmax(gains))]
    return relabelled(start, classes) if ordered else start


def _scaled_progress(
    request: Request, scale: float, built: float
) -> Callable[[Progress], None] | None:
    tell = request.progress
    if tell is None:
        return None

    def scaled(moment: Progress) -> None:
        value, bound = _times(moment.incumbent, scale), _times(moment.bound, scale)
        tell(Progress(moment.seconds + built, value, bound, moment.phase))

    return scaled


def _times(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _outcome(
    instance: Instance, made: AllocationModel, answer: LinearSolution, built: float
) -> Outcome:
    outcome = Outcome(
        Termination(str(answer.termination)),
        trace=[
            (s + built, _times(v, made.scale), _times(b, made.scale)) for s, v, b in answer.trace
        ],
        times={"build": built + answer.build_seconds},
        solver=answer.solver,
    )
    if answer.message:
        outcome.notes.append(answer.message)
    if outcome.termination is Termination.INFEASIBLE:
        return outcome
    if answer.bound is not None:
        # nothing collocates more than all there is, which a model's first bound may not see
        outcome.bound = min(answer.bound * made.scale, instance.total_traffic)
    if answer.x is not None and answer.objective is not None:
        outcome.node = made.place(answer.x)
        # a stopped run may hold a placement whose products are not all switched on yet
        whole = made.model.objective_of(made.vector(outcome.node))
        outcome.claimed = max(whole, answer.objective) * made.scale
        if answer.bound is not None and abs(answer.bound - whole) <= ABSOLUTE_ZERO:
            outcome.bound = whole * made.scale  # the rest are products a tolerance leaves on
    return outcome


METHOD = Method(
    name="imc-milp",
    family="task allocation",
    kind="exact",
    objective="imc_gain",
    run=emptied_or_any(run),
    pose=pose,
    summary="The textbook linearisation: one variable a task and node, products of pairs; a judge",
    source="Chatzistergiou and Viglas 2014, section 2, linearised",
    forms=KNOWN_FORMS | LINEAR_FORMS,
    options=(Option("break_symmetry", "bool", True, "number identical nodes by their first task"),),
    constants={"most_products": MOST_PRODUCTS},
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
    cold=True,
)
