"""`imc-milp`: the textbook linearisation of task allocation, one variable a task and node.

    max Σ_(u,v) Σ_n r_uv z_uvn
    s.t. Σ_n x_tn = 1                    every task on one node
         Σ_t load_tr x_tn ≤ room_nr      capacity, each resource
         Σ_t load_tr x_tn ≥ floor_nr     lower load bounds
         z_uvn ≤ x_un,  z_uvn ≤ x_vn     a pair is together on n only if both are there

It is a judge for small instances; `imc-exact` is the method for large ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.imc_common import HONOURS, feasible_starts, relabelled, why_nothing_fits
from optim.errors import Problem, UnsuitableMethod
from optim.grouping import node_classes
from optim.linear_model import LinearModel
from optim.placing.room import placing_masks
from optim.progress import Progress
from optim.registry import Method, Option, Outcome
from optim.results import Termination
from optim.solvers import solve_linear
from optim.solvers.interface import ABSOLUTE_ZERO

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optim.grouping import NodeClasses
    from optim.instance import Instance
    from optim.registry import Request
    from optim.solvers import LinearSolution
    from optim.tables import Floats, Ints

SCALED_TOTAL = 1000.0
"""Rates are scaled to this total, so that solver tolerances mean the same in every unit."""

_ORDERED_TASKS = 64


@dataclass(frozen=True, eq=False)
class Placement:
    """The model and its columns.

    Attributes
    ----------
    model
        To be maximised; objective in scaled rates.
    task, node
        (C,) what each placement variable stands for; they are the first C columns.
    u, v, at
        (Z,) tasks and node of each product variable; they come next.
    scale
        Rate unit per scaled unit.
    """

    model: LinearModel
    task: Ints
    node: Ints
    u: Ints
    v: Ints
    at: Ints
    scale: float

    def place(self, x: NDArray[np.float64], num_tasks: int) -> Ints:
        """Read (T,) node indices off a solution."""
        chosen = np.flatnonzero(x[: len(self.task)] > 0.5)
        node = np.full(num_tasks, -1, dtype=np.int32)
        node[self.task[chosen]] = self.node[chosen]
        return node

    def vector(self, node: Ints) -> NDArray[np.float64]:
        """Write (T,) node indices as a full column vector."""
        x = node[self.task] == self.node
        z = (node[self.u] == self.at) & (node[self.v] == self.at)
        return np.concatenate([x, z]).astype(np.float64)


def build(
    instance: Instance,
    *,
    break_symmetry: bool = True,
    whole_products: bool = False,
    most_products: int = 2_000_000,
) -> Placement:
    """Build the model.

    Parameters
    ----------
    break_symmetry
        Number the identical nodes by their first task.
    whole_products
        Declare the products integer, which a solver without continuous variables needs; they are
        0 or 1 in every optimum anyway.
    most_products
        Products beyond which the model is refused.

    Raises
    ------
    UnsuitableMethod
        Too many products.
    """
    classes = node_classes(instance)
    kind, _, target = placing_masks(instance)
    pairs = instance.pairs
    _check_size(len(pairs.u), instance.num_nodes, most_products)
    may = target[kind]
    model = LinearModel("imc-milp", sense="max")
    task, node = (a.astype(np.int32) for a in np.nonzero(may))
    x = model.add_variables("place", len(task), upper=1.0, integer=True).indices
    column = np.full(may.shape, -1, dtype=np.int64)
    column[task, node] = x
    scale = max(float(pairs.rate.sum()), 1e-300) / SCALED_TOTAL
    pair, at = np.nonzero(may[pairs.u] & may[pairs.v])
    z = model.add_variables(
        "together", len(pair), upper=1.0, integer=whole_products,
        objective=pairs.rate[pair] / scale,
    ).indices  # fmt: skip
    u, v = pairs.u[pair], pairs.v[pair]
    add_assignment(model, task, x, instance.num_tasks)
    add_loads(model, instance, classes, task, node, x)
    add_products(model, z, column[u, at], column[v, at])
    if break_symmetry:
        add_node_order(model, classes, column)
    return Placement(model, task, node, u, v, at.astype(np.int32), scale)


def add_assignment(model: LinearModel, task: Ints, x: NDArray[Any], num_tasks: int) -> None:
    """Every task is on exactly one node: ``Σ_n x_tn = 1``."""
    model.add_rows("assign", 1.0, 1.0, task, x, 1.0, num_rows=num_tasks)


def add_loads(
    model: LinearModel,
    instance: Instance,
    classes: NodeClasses,
    task: Ints,
    node: Ints,
    x: NDArray[Any],
) -> None:
    """Every node keeps its bounds on each resource: ``floor ≤ Σ_t load_tr x_tn ≤ room``."""
    load = instance.tasks.load
    upper, lower = _bounds_of_nodes(classes, instance.num_nodes, instance.num_resources)
    for r, name in enumerate(instance.resources):
        bounded = np.isfinite(upper[:, r]) | np.isfinite(lower[:, r])
        row = np.cumsum(bounded) - 1
        used = bounded[node] & (load[task, r] > 0)
        if bounded.any():
            model.add_rows(
                f"load.{name}", lower[bounded, r], upper[bounded, r], row[node[used]], x[used],
                load[task[used], r], num_rows=int(bounded.sum()),
            )  # fmt: skip


def _bounds_of_nodes(
    classes: NodeClasses, num_nodes: int, num_resources: int
) -> tuple[Floats, Floats]:
    """(N, R) room and floor; nodes that take no task are free of both."""
    upper = np.full((num_nodes, num_resources), np.inf)
    lower = np.full((num_nodes, num_resources), -np.inf)
    of = classes.node_class[classes.members]
    upper[classes.members], lower[classes.members] = classes.room[of], classes.floor[of]
    return upper, np.where(lower > 0, lower, -np.inf)


def add_products(model: LinearModel, z: NDArray[Any], x_u: NDArray[Any], x_v: NDArray[Any]) -> None:
    """A pair is together on a node only if both are there: ``z ≤ x_u`` and ``z ≤ x_v``."""
    rows = np.arange(len(z))
    for name, x in (("with first", x_u), ("with second", x_v)):
        model.add_rows(
            name, -np.inf, 0.0, np.concatenate([rows, rows]), np.concatenate([z, x]),
            np.concatenate([np.ones(len(z)), -np.ones(len(z))]), num_rows=len(z),
        )  # fmt: skip


def add_node_order(model: LinearModel, classes: NodeClasses, column: NDArray[Any]) -> None:
    """Number identical nodes by their first task: ``x_t,j+1 ≤ Σ_(s<t) x_sj``.

    Every placement becomes one that keeps this when identical nodes are exchanged, so no value is
    lost. The rows are written for the first tasks only; any part of them is valid.
    """
    rows: list[NDArray[Any]] = []
    cols: list[NDArray[Any]] = []
    values: list[NDArray[Any]] = []
    count = 0
    for k in range(classes.num_classes):
        members = classes.nodes_of(k)
        usable = np.flatnonzero(column[:, members[0]] >= 0)[:_ORDERED_TASKS]
        for before, after in pairwise(members):
            for i, t in enumerate(usable):
                rows.append(np.full(i + 1, count))
                cols.append(np.append(column[usable[:i], before], column[t, after]))
                values.append(np.append(-np.ones(i), 1.0))
                count += 1
    if count:
        model.add_rows(
            "first task", -np.inf, 0.0, np.concatenate(rows), np.concatenate(cols),
            np.concatenate(values), num_rows=count,
        )  # fmt: skip


def _check_size(num_pairs: int, num_nodes: int, most: int) -> None:
    products = num_pairs * num_nodes
    if products > most:
        reason = (
            f"would need {products:,} products ({num_pairs:,} communicating pairs × "
            f"{num_nodes:,} nodes), more than the {most:,} of option most_products"
        )
        raise UnsuitableMethod(
            Problem("imc-milp", None, reason, "use imc-exact, imc-search or partition")
        )


def run(instance: Instance, request: Request) -> Outcome:
    """Build the model, hand it to the solver, read the placement back.

    Raises
    ------
    UnsuitableMethod
        The model would be too large.
    """
    solver = request.solver or "highs"
    ordered = bool(request.options["break_symmetry"])
    made = build(
        instance,
        break_symmetry=ordered,
        whole_products=solver == "cp-sat",
        most_products=request.options["most_products"],
    )
    start = _start(instance, request, made, ordered=ordered)
    built = request.elapsed()
    answer = solve_linear(
        made.model,
        solver,
        time_limit=request.remaining(),
        gap=request.gap,
        seed=request.seed,
        threads=request.threads,
        warm_start=None if start is None else made.vector(start),
        progress=_scaled_progress(request, made.scale, built),
    )
    outcome = _outcome(instance, made, answer, built)
    if request.warm_start is not None:
        outcome.warm_start_accepted = answer.warm_start_accepted if start is not None else False
    return outcome


def _start(instance: Instance, request: Request, made: Placement, *, ordered: bool) -> Ints | None:
    """Return the best start that is feasible, its identical nodes numbered as the model wants."""
    classes = node_classes(instance)
    starts = feasible_starts(instance, request, classes)
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


def _outcome(instance: Instance, made: Placement, answer: LinearSolution, built: float) -> Outcome:
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
        outcome.reasons = why_nothing_fits(instance)
        return outcome
    if answer.bound is not None:
        # nothing collocates more than all there is, which a model's first bound may not see
        outcome.bound = min(answer.bound * made.scale, instance.total_traffic)
    if answer.x is not None and answer.objective is not None:
        outcome.node = made.place(answer.x, instance.num_tasks)
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
    run=run,
    summary="The textbook linearisation: one variable a task and node, products of pairs; a judge",
    source="Chatzistergiou and Viglas 2014, section 2, linearised",
    honours=HONOURS,
    options=(
        Option("break_symmetry", "bool", True, "number identical nodes by their first task"),
        Option(
            "most_products",
            "int",
            2_000_000,
            "refuse when pairs × nodes exceed this",
            minimum=1,
        ),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
    takes_warm_start=True,
    empties_leaving=True,
)
