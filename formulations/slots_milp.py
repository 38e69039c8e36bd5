"""`slots-milp`: the fewest slots that hold given threads or bundles, then the least traffic.

First level: slots as cutting patterns (`formulations.slots_model`), proven. Second level, with the
machines acquired for that many slots: traffic between machines. What is packed comes from an
allocation: MBA's bundles, or LSA's threads; so the bound is of that restricted problem.

Ours; the paper has no exact form. Problem: Shukla and Simmhan, JPDC 2018, sections 3 and 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.slots_items import ROUNDING, Items, make_items
from formulations.slots_model import MachineModel, add_traffic, build_machines, fewest_slots
from formulations.slots_packing import Machines, Slot, deal, first_fit, placement, slots_of_patterns
from formulations.slots_patterns import maximal_patterns
from optim.acquisition import acquire, cores_of
from optim.allocation import ALLOCATIONS, Allocation, allocate
from optim.performance import FULL
from optim.progress import Progress
from optim.registry import Method, Option, Outcome, Request
from optim.results import Level, Termination
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from optim.instance import Instance
    from optim.performance import Counts
    from optim.plan import AcquiredNode
    from optim.solvers import LinearSolution

_STOPPED = {
    "time_limit": Termination.TIME_LIMIT,
    "iteration_limit": Termination.ITERATION_LIMIT,
    "interrupted": Termination.INTERRUPTED,
}


@dataclass
class _Run:
    """What is known as a run goes on."""

    instance: Instance
    request: Request
    allocation: Allocation
    items: Items
    shared: Counts
    patterns: Counts | None
    pooled: bool
    slots: list[Slot]
    bound: int
    machines: Machines | None = None
    nodes: tuple[AcquiredNode, ...] = ()
    stopped: Termination | None = None
    solver: str | None = None
    traffic_bound: float | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    handover: float = 0.0

    @property
    def num_slots(self) -> int:
        """Slots of the best packing so far."""
        if self.machines is not None:
            return sum(node.slots for node in self.nodes)
        return len(self.slots)

    def solve(self, model: Any, start: Any = None, **keywords: Any) -> LinearSolution:
        """Hand a model to the back end, and note why it stopped where it did not finish."""
        request = self.request
        answer = solve_linear(
            model,
            request.solver or "highs",
            time_limit=request.remaining(),
            seed=request.seed,
            threads=request.threads,
            warm_start=start,
            **keywords,
        )
        self.solver = answer.solver
        self.handover += answer.build_seconds
        if str(answer.termination) in _STOPPED:
            self.stopped = _STOPPED[str(answer.termination)]
        if answer.message:
            self.notes.append(answer.message)
        return answer

    def tell(self, phase: str) -> None:
        """Report slots and bound."""
        seconds = self.request.elapsed()
        self.trace.append((seconds, float(self.num_slots), float(self.bound)))
        if self.request.progress is not None:
            self.request.progress(
                Progress(seconds, float(self.num_slots), float(self.bound), phase)
            )


def run(instance: Instance, request: Request) -> Outcome:
    """Pack, prove, then place for traffic.

    Raises
    ------
    InvalidInput
        A rate that no thread count supports, or an item that no slot holds.
    """
    options = request.options
    kind = options["items"]
    name = options["allocation"] or ("lsa" if kind == "threads" else "mba")
    allocation = allocate(instance, name)
    items = make_items(instance, allocation, kind)
    pooled = options["cpu"] == "vm"
    shared = np.flatnonzero(~items.exclusive)
    patterns = _patterns(items, shared, request, pooled=pooled)
    slots = first_fit(items)
    state = _Run(
        instance, request, allocation, items, shared, patterns, pooled, slots,
        items.bound(pooled=pooled),
    )  # fmt: skip
    if pooled:
        _raise_to_the_cores(state)
    built = request.elapsed()
    state.tell("first fit")
    _find_fewest(state)
    state.tell("fewest slots")
    _settle_machines(state)
    if options["traffic"] and state.stopped is None:
        _least_traffic(state)
    return _outcome(state, built)


def _patterns(items: Items, shared: Counts, request: Request, *, pooled: bool) -> Counts | None:
    sizes = [items.memory[shared]] if pooled else [items.cpu[shared], items.memory[shared]]
    room = [FULL + ROUNDING] * len(sizes)
    # half of the time at most: what is known without patterns is worth telling, too
    limit = request.time_limit
    return maximal_patterns(
        [s.tolist() for s in sizes],
        items.count[shared].tolist(),
        room,
        request.options["most_patterns"],
        None if limit is None else request.started + limit / 2,
    )


def _find_fewest(state: _Run) -> None:
    """First level: the fewest slots, or a bound and the best packing when stopped."""
    if state.bound >= len(state.slots):
        return
    if state.patterns is None:
        state.notes.append(
            "a slot can be filled in more ways than option most_patterns or the time allows: "
            "first fit, and the bound by sums"
        )
        return
    # with pooled cores these patterns know memory only: their fewest is a bound
    model = fewest_slots(state.items, state.patterns, state.shared)
    answer = state.solve(model, gap=state.request.gap)
    alone = state.items.num_exclusive
    if answer.bound is not None and math.isfinite(answer.bound):
        state.bound = max(state.bound, alone + math.ceil(answer.bound - 1e-6))
    if state.pooled:
        _try_machines(state)
    elif answer.x is not None:
        times = np.rint(answer.x).astype(np.int64)
        found = slots_of_patterns(state.items, state.patterns, times, state.shared)
        if len(found) < len(state.slots):
            state.slots = found


def _raise_to_the_cores(state: _Run) -> None:
    """Raise the bound to the slots whose machines have the cores for all CPU."""
    items = state.items
    cpu = float((items.count * items.cpu).sum())
    largest = max(vm.slots for vm in state.instance.vm_types)
    state.bound = max(state.bound, math.ceil(cpu / FULL - 1e-6) - largest)
    while state.bound < len(state.slots):
        nodes = acquire(state.instance, state.bound)
        if FULL * sum(cores_of(state.instance, nodes)) + ROUNDING * len(nodes) >= cpu:
            return
        state.bound += 1


def _try_machines(state: _Run) -> None:
    """Pooled cores: is there a packing on the machines of one slot count after the other?

    Each count that is proven infeasible raises the bound.
    """
    assert state.patterns is not None
    while state.bound < len(state.slots) and state.stopped is None:
        nodes = acquire(state.instance, state.bound)
        cores = cores_of(state.instance, nodes)
        made = build_machines(state.items, state.patterns, state.shared, nodes, cores)
        answer = state.solve(made.model)
        if answer.x is not None:
            state.machines, state.nodes = made.machines(answer.x), nodes
            return
        if str(answer.termination) != "infeasible":
            return
        state.bound += 1
        state.tell("machines")


def _settle_machines(state: _Run) -> None:
    """Acquire the machines, and deal the slots onto them."""
    if state.machines is None:
        state.nodes = acquire(state.instance, len(state.slots))
        state.machines = deal(state.items, state.slots, state.nodes)


def _least_traffic(state: _Run) -> None:
    """Second level, on the machines of the first."""
    if len(state.nodes) == 1:
        state.traffic_bound = 0.0
        return
    if state.patterns is None:
        return
    assert state.machines is not None
    cores = cores_of(state.instance, state.nodes) if state.pooled else None
    made = build_machines(state.items, state.patterns, state.shared, state.nodes, cores)
    added = add_traffic(
        made,
        state.instance,
        state.allocation.threads,
        whole=state.request.solver == "cp-sat",
        most=state.request.options["most_products"],
    )
    if not added:
        state.notes.append(
            "the traffic between machines would take more products than option most_products: "
            "slots are dealt in the order of the tasks instead"
        )
        return
    machines = _ordered(made, state.machines, state.nodes)
    answer = state.solve(made.model, made.vector(machines), gap=state.request.gap)
    if answer.x is not None:
        state.machines = made.machines(answer.x)
    if answer.bound is not None and state.bound >= state.num_slots:
        state.traffic_bound = max(0.0, answer.bound * made.scale)


def _ordered(made: MachineModel, machines: Machines, nodes: tuple[AcquiredNode, ...]) -> Machines:
    """Number equal machines as the model wants: most items of the leading class first."""
    leader = int(np.argmax(made.items.count))
    held = [sum(slot.get(leader, 0) for slot in slots) for slots in machines]
    order = sorted(range(len(nodes)), key=lambda v: (-nodes[v].slots, -held[v], v))
    return [machines[v] for v in order]


def _outcome(state: _Run, built: float) -> Outcome:
    assert state.machines is not None
    placed = placement(state.items, state.machines, state.nodes, state.allocation)
    proved = state.bound >= state.num_slots
    termination = state.stopped or Termination.OPTIMAL
    if not proved and state.stopped is None:
        termination = Termination.ITERATION_LIMIT
    cpu, memory = state.allocation.totals
    what = "threads" if state.request.options["items"] == "threads" else "bundles"
    notes = [
        f"{what} of {state.allocation.name}: {len(state.items.count)} kinds, "
        f"{int(state.items.count.sum()):,} items, {cpu:,.2f} % CPU, {memory:,.2f} % memory of a "
        f"slot, which asks for {state.allocation.slots} slots"
    ]
    return Outcome(
        termination,
        claimed=float(state.num_slots),
        bound=float(state.bound),
        bound_of="restricted",
        levels=(Level("internode_traffic", "min", None, state.traffic_bound),),
        notes=notes + list(dict.fromkeys(state.notes)),
        trace=state.trace,
        times={"build": built + state.handover},
        solver=state.solver,
        threads=placed,
    )


METHOD = Method(
    name="slots-milp",
    family="model-driven",
    kind="exact",
    objective="slots",
    run=run,
    summary="The fewest slots for an allocation's threads or bundles, then least machine traffic",
    source="ours; the problem of Shukla and Simmhan, JPDC 2018, sections 3 and 7",
    needs=("models", "dag", "tuple_rates", "vm_types", "whole_slots"),
    honours=frozenset({"slots"}),
    options=(
        Option(
            "items",
            "str",
            "bundles",
            "what is packed: the allocation's bundles, as sam does, or single threads, as rsm does",
            choices=("bundles", "threads"),
        ),
        Option(
            "allocation",
            "str",
            None,
            "whose threads: left out, mba for bundles and lsa for threads",
            choices=ALLOCATIONS,
        ),
        Option(
            "cpu",
            "str",
            "slot",
            "whether CPU is bound in each slot, as sam books it, or over a machine's slots, as rsm",
            choices=("slot", "vm"),
        ),
        Option("traffic", "bool", True, "place for least traffic between machines as well"),
        Option(
            "most_patterns",
            "int",
            50_000,
            "ways to fill a slot beyond which only first fit and a bound by sums are told",
            minimum=1,
            maximum=5_000_000,
        ),
        Option(
            "most_products",
            "int",
            20_000,
            "products beyond which the traffic is left out",
            minimum=1,
            maximum=5_000_000,
        ),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
)
