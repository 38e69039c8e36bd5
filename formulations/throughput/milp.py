"""`throughput-milp`: the least highest utilisation by a binary a task and node, products of pairs.

    min θ
    s.t. Σ_n x_tn = 1                                       every task on one node
         Σ_t (l_tr + o_r S_t + i_r E_t) x_tn − (o_r + i_r) Σ_p R_p z_pn ≤ room_nr θ
                                                            what the rate drives on a node
         Σ_t S_t x_tn − Σ_p R_p z_pn ≤ room_n θ             what leaves a node; so what enters it
         the same with Σ_(n in l) x_tn and w_pl             of links of several nodes
         z_pn ≤ x_un,  z_pn ≤ x_vn                          a pair is together if both are there

S and E are all that a task sends and receives, R_p the traffic of a pair, o and i what a unit of it
costs a sender and a receiver. All else are rows of `formulations.model_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_rows import (
    Inside,
    Placing,
    RuleRows,
    add_assignment,
    add_budgets,
    add_inside,
    add_order,
    add_rule_rows,
    check_products,
)
from formulations.task_allocation import milp as linear
from formulations.task_allocation.common import relabelled
from formulations.throughput.exact import check_moves
from formulations.throughput.problem import (
    KNOWN_FORMS,
    MOVES,
    NEVER,
    NODES,
    STARTS,
    Places,
    emptied_first,
    finished,
    fullest_last,
    good_starts,
    least_load,
    load_of,
    places_of,
    rate_at,
)
from optim.figures.load import without_measured
from optim.kernels.classes import node_classes
from optim.kernels.place_rules import place_rules, placing_floor, placing_masks, placing_room
from optim.methods.reduce import emptied, may_be_rewritten, without_leaving
from optim.methods.registry import Method, Outcome
from optim.referee import Termination
from optim.rules import broken, budgets
from optim.rules.base import Form
from optim.rules.placement import Placement
from optim.solvers import solve_kept, solve_linear
from optim.solvers.linear_model import LinearModel
from optim.solvers.mps import PosedModel
from optim.util.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.format.traffic import TaskPairs
    from optim.kernels.classes import NodeClasses
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution


# need of a link: Σ_t (out·sent_t + in·got_t) x_t − (out + in) Σ_pairs rate z, z inside its nodes
_SIDES = (("out", 1.0, 0.0), ("in", 0.0, 1.0), ("both", 1.0, 1.0))
"""How much of what leaves, and of what enters, each kind of link counts."""


@dataclass(frozen=True, eq=False)
class RateModel:
    """The model and its columns."""

    model: LinearModel
    placing: Placing  # The placement variables.
    products: list[Inside]  # Pairs together on nodes, and among those of links.
    rules: RuleRows
    highest: int  # The column of θ.
    classes: NodeClasses

    def place(self, x: Floats) -> Ints:
        """Read (T,) node indices off a solution."""
        return self.placing.read(x).astype(np.int32)

    def vector(self, instance: Instance, node: Ints) -> Floats:
        """Write (T,) node indices as a full column vector."""
        vector = np.zeros(self.model.num_variables)
        vector[self.placing.column] = node[self.placing.task] == self.placing.node
        for pairs in self.products:
            pairs.complete(vector, node)
        self.rules.complete(vector, node.astype(np.int64))
        vector[self.highest] = load_of(instance, node)
        return vector

    def forbid(self, node: Ints) -> None:
        """Cut off one placement."""
        columns = self.placing.column[node[self.placing.task] == self.placing.node]
        self.model.add_rows("cut_off", -np.inf, len(node) - 1, 0, columns, 1.0, num_rows=1)


@dataclass
class _Builder:
    """The parts of a model that several rows need."""

    instance: Instance
    model: LinearModel
    column: NDArray[Any]
    pairs: TaskPairs
    sent: Any
    got: Any
    products: list[Inside] = field(default_factory=list)

    def together(
        self, inside: Bools, name: str, of: Mapping[str, Any], *, exact: bool
    ) -> NDArray[Any]:
        """Add a product for each pair: both are on these nodes. Exact ones are not 0 then."""
        ends = self.pairs.u, self.pairs.v
        inside_columns = add_inside(self.model, name, self.column, inside, ends, of, exact=exact)
        self.products.append(inside_columns)
        return inside_columns.column

    def row(
        self,
        name: str,
        of: Mapping[str, Any],
        inside: Bools,
        each: Floats,
        product: tuple[NDArray[Any], Floats] | None,
        *,
        lower: float = -np.inf,
        upper: float = 0.0,
        highest: tuple[int, float] | None = None,
    ) -> None:
        """Bound a sum over the tasks on some nodes, less what pairs keep among them."""
        columns = self.column[:, np.flatnonzero(inside)]
        task, at = np.nonzero(columns >= 0)
        some = each[task] != 0
        terms: list[Any] = [(0, columns[task, at][some], each[task[some]])]
        if product is not None:
            terms.append((0, product[0], -product[1]))
        if highest is not None:
            terms.append((0, highest[0], -highest[1]))
        self.model.add_sum(name, lower, upper, 1, *terms, of=of)


def build(
    binding: Instance,
    instance: Instance,
    *,
    measured: bool,
    low: float,
    high: float,
) -> RateModel:
    """Build the model.

    `binding`: the instance without the limits that the rate measures.
    `measured`: whether what saturates counts: without, any placement that keeps all else is as
        good; with, nothing is where there is no room for it.
    `low`, `high`: between which θ is.
    """
    rules, places = place_rules(binding), places_of(instance)
    kind, _, target = placing_masks(binding)
    may = target[kind]
    if measured:
        may = may & ~places.barred
    model = LinearModel("throughput-milp", sense="min")
    task, node = np.nonzero(may)
    at = {"task": task, "node": node}
    x = model.add_variables("x", len(task), upper=1.0, integer=True, of=at).indices
    column = np.full(may.shape, -1, dtype=np.int64)
    column[task, node] = x
    theta_block = model.add_variables(
        "highest_utilisation", 1, lower=low, upper=high, objective=1.0
    )
    highest = int(theta_block.indices[0])
    placing = Placing.by_columns(x, task, node, may.shape)
    add_assignment(model, placing)
    source, goal, rate = instance.flows.directed()
    sent, received = (np.bincount(end, rate, instance.num_tasks) for end in (source, goal))
    builder = _Builder(instance, model, column, instance.pairs, sent, received)
    _add_nodes(builder, binding, places, highest, measured=measured)
    if measured:
        for i, inside in enumerate(places.inside):
            link = places.link[len(places.room) + i]
            together = builder.together(inside, "inside", {"place": i}, exact=False)
            _add_links(builder, {"place": i}, inside, link, together, highest)
    add_budgets(model, placing, rules, budgets(binding))
    also = np.column_stack([
        places.room, places.link[: len(may.T)], places.barred, places.inside.T,
    ])  # fmt: skip
    classes = node_classes(binding, also)
    add_order(model, map(classes.nodes_of, range(classes.num_classes)), column)
    added = add_rule_rows(model, rules, placing.where)
    return RateModel(model, placing, builder.products, added, highest, classes)


def _add_nodes(
    builder: _Builder, binding: Instance, places: Places, highest: int, *, measured: bool
) -> None:
    """Every node: what binds, what the rate drives, and its links."""
    instance, cost = builder.instance, builder.instance.crossing_cost
    hard, floor = placing_room(binding), placing_floor(binding)
    load, traffic = instance.tasks.load, builder.pairs.rate
    for n in range(instance.num_nodes):
        inside = np.arange(instance.num_nodes) == n
        linked = measured and bool(np.isfinite(places.link[n]).any())
        # products are subtracted from a need, so a relaxed one only raises it; where a lower bound
        # makes more need welcome they have to be exact
        lifted = bool((np.isfinite(floor[n]) & cost.any(axis=0)).any())
        together = None
        if linked or cost.any():
            together = builder.together(inside, "together", {"node": n}, exact=lifted)
        for r in range(instance.num_resources):
            of = {"node": n, "resource": r}
            # load + crossing cost if all traffic crossed, less that of the pairs that stay together
            each = load[:, r] + cost[0, r] * builder.sent + cost[1, r] * builder.got
            pairs = cost[:, r].sum() * traffic
            product = None if together is None or not cost[:, r].any() else (together, pairs)
            if np.isfinite(hard[n, r]) or np.isfinite(floor[n, r]):
                builder.row(
                    "capacity", of, inside, each, product, lower=floor[n, r], upper=hard[n, r]
                )
            if measured and np.isfinite(places.room[n, r]):
                room = places.room[n, r]
                _measure(builder, "utilisation", of, inside, each, product, room, highest)
        if linked and together is not None:
            _add_links(builder, {"node": n}, inside, places.link[n], together, highest)


def _add_links(
    builder: _Builder,
    of: Mapping[str, Any],
    inside: Bools,
    room: Floats,
    together: NDArray[Any],
    highest: int,
) -> None:
    """What leaves some nodes, what enters them, and both together."""
    for (side, out, into), most in zip(_SIDES, room.tolist(), strict=True):
        if np.isfinite(most):
            each = out * builder.sent + into * builder.got
            product = together, (out + into) * builder.pairs.rate
            _measure(builder, f"link_{side}", of, inside, each, product, most, highest)


def _measure(
    builder: _Builder,
    name: str,
    of: Mapping[str, Any],
    inside: Bools,
    each: Floats,
    product: tuple[NDArray[Any], Floats] | None,
    room: float,
    highest: int,
) -> None:
    """Bound a need by its room times θ; without room there is no need."""
    if room > 0:
        # Σ need / room ≤ θ: rows in parts of the room, so that θ is the same for all
        product = None if product is None else (product[0], product[1] / room)
        builder.row(name, of, inside, each / room, product, highest=(highest, 1.0))
    else:
        builder.row(name, of, inside, each, product, upper=room)


MOST_PRODUCTS = 500_000  # Products, pairs times nodes, beyond which the method refuses.
OTHERS = "use throughput-exact or throughput-search"
_ORDERED = {"break_symmetry": True}
"""Options of `plan-milp`."""
_SAME = 1e-9
_NEAR = 2e-6
"""By how much a solver's tolerances may keep its bound from the value of an optimal placement."""


def run(instance: Instance, request: Request) -> Outcome:
    """Place the tasks of an instance; the method's entry point.

    Raises `UnsuitableMethod`: the model would be too large.
    """
    check_products(METHOD.name, instance, MOST_PRODUCTS, OTHERS)
    if request.objective in (MOVES, NODES):
        return _fewest(instance, request)
    binding, low = without_measured(instance), least_load(instance)
    starts = good_starts(binding, request, searched=True)
    start = fullest_last(instance, starts)
    if start is not None:
        request.offer(start)
        if load_of(instance, start) <= low * (1 + _SAME):  # no model could say more
            outcome = Outcome(Termination.OPTIMAL, start, times={"build": request.elapsed()})
            return finished(instance, outcome, low)
    answer, node = _solved(binding, instance, request, start, low, measured=True)
    if str(answer.termination) == "infeasible":
        # nothing carries any input; whether there is a placement at all is another question
        answer, node = _solved(binding, instance, request, start, low, measured=False)
        low = NEVER
    return _outcome(instance, answer, node, low)


def _solved(
    binding: Instance,
    instance: Instance,
    request: Request,
    start: Ints | None,
    low: float,
    *,
    measured: bool,
) -> tuple[LinearSolution, Ints | None]:
    """Solve until the placement keeps exactly what binds."""
    high = NEVER if start is None else load_of(instance, start)
    bounded = measured and high < NEVER
    # θ of an optimal plan lies between the bound by sums and the start's, each widened by what
    # solvers may violate
    low = min(low, high) if bounded else 0.0
    rate_model = build(
        binding, instance, measured=measured, low=low * (1 - _NEAR),
        high=high * (1 + _NEAR) if bounded else _top(instance),
    )  # fmt: skip
    return _placed(
        binding,
        request,
        rate_model,
        _start_vector(instance, rate_model, start) if bounded else None,
    )


def _placed(
    binding: Instance, request: Request, rate_model: RateModel, vector: Floats | None
) -> tuple[LinearSolution, Ints | None]:
    """Solve a model until its placement keeps exactly what binds."""

    def solve() -> LinearSolution:
        settings = {**request.solving(), "gap": request.gap or 0.0}
        report, solver = _rescaled_progress(request), request.solver or "highs"
        return solve_linear(
            rate_model.model, solver, warm_start=vector, progress=report, **settings
        )

    def cut_off(x: Floats) -> bool:
        node = rate_model.place(x)
        if not broken(Placement(binding, node)):
            return False
        rate_model.forbid(node)
        return True

    answer, _ = solve_kept(solve, cut_off, lambda: request.remaining() == 0)
    if answer.x is None:
        return answer, None
    node = rate_model.place(answer.x)
    request.offer(node)
    return answer, node


def _fewest(instance: Instance, request: Request) -> Outcome:
    """Count moves or nodes instead, by the model of `plan-milp`, as capacities and links bind."""
    check_moves(instance, str(request.objective), METHOD.name)
    outcome = linear.run(METHOD.name, instance, replace(request, options=_ORDERED))
    if outcome.bound is not None:  # counts are whole
        outcome.bound = max(0.0, float(np.ceil(outcome.bound - 1e-4)))
    return outcome


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the whole model: of the highest utilisation, or of what is counted instead."""
    check_products(METHOD.name, instance, MOST_PRODUCTS, OTHERS)
    if emptied(instance) and may_be_rewritten(instance):
        instance = without_leaving(instance, may_stay=False)
    if request.objective in (MOVES, NODES):
        check_moves(instance, request.objective, METHOD.name)
        return linear.pose(METHOD.name, instance, replace(request, options=_ORDERED))
    binding = without_measured(instance)
    rate_model = build(binding, instance, measured=True, low=0.0, high=_top(instance))
    inside = [
        "&".join(instance.nodes.ids[n] for n in np.flatnonzero(some))
        for some in places_of(instance).inside
    ]
    figure = "highest utilisation (sustainable_rate is 1 / it)"
    return PosedModel(rate_model.model, figure, ids={"place": inside})


def _top(instance: Instance) -> float:
    """Return a utilisation that no placement exceeds where there is room for what it needs."""
    places = places_of(instance)
    cost = instance.crossing_cost.sum(axis=0) * instance.total_traffic
    need = instance.total_load + cost
    top = 1.0
    for r in range(instance.num_resources):
        room = places.room[:, r]
        some = room[np.isfinite(room) & (room > 0)]
        top = max(top, float(need[r] / some.min()) if len(some) else 0.0)
    room = places.link[np.isfinite(places.link) & (places.link > 0)]
    return max(top, float(instance.total_traffic / room.min()) if len(room) else 0.0)


def _start_vector(instance: Instance, rate_model: RateModel, start: Ints | None) -> Floats | None:
    if start is None or (rate_model.classes.node_class[start] < 0).any():
        return None
    return rate_model.vector(instance, relabelled(start, rate_model.classes))


def _rescaled_progress(request: Request) -> Callable[[Progress], None] | None:
    tell = request.progress
    if tell is None:
        return None

    def report(now: Progress) -> None:
        value = None if now.incumbent is None else rate_at(now.incumbent)
        bound = None if not now.bound or now.bound <= 0 else rate_at(now.bound)
        tell(Progress(now.seconds, value, bound, now.phase))

    return report


def _outcome(instance: Instance, answer: LinearSolution, node: Ints | None, low: float) -> Outcome:
    outcome = Outcome(
        Termination(str(answer.termination)), node, times={"build": answer.build_seconds},
        solver=answer.solver, warm_start_accepted=answer.warm_start_accepted,
        notes=[answer.message] if answer.message else [],
    )  # fmt: skip
    if outcome.termination is Termination.INFEASIBLE:
        return outcome
    if low < NEVER and answer.bound is not None:
        low = max(low, answer.bound)
    if node is not None:
        high = load_of(instance, node)
        # what a tolerance lets a bound say beyond the value, or leaves between the two
        low = high if abs(high - low) <= _NEAR * high else min(low, high)
    return finished(instance, outcome, low)


METHOD = Method(
    name="throughput-milp",
    family="throughput",
    kind="exact",
    objective="sustainable_rate",
    objectives=(MOVES, NODES),
    run=emptied_first(run),
    pose=pose,
    summary="A binary a task and node, products of pairs, the highest utilisation minimised",
    source="ours; the objective of Karimov et al., ICDE 2018",
    needs=("tasks", "nodes", "bounded_rate"),
    forms=KNOWN_FORMS | {Form.SETS, Form.NODE_COUNT},
    solvers=("highs", "scip", "cbc"),
    default_solver="highs",
    takes_warm_start=True,
    starts=STARTS,
    cold=True,
)
