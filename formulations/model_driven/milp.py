"""`slots-milp`: the fewest slots that hold given threads or bundles, then the least traffic.

What is packed comes from an allocation: MBA's bundles, or LSA's threads. Each step begins with the
best packing so far: the family's heuristics; the fewest slots (`fewest`); on the machines acquired
for them the least traffic (`machines`); what these leave open, by a plain model (`counts_model`). A
step that fails leaves the packing as it was, and the next one goes on.

Ours; the paper has no exact form. Problem: Shukla and Simmhan, JPDC 2018, sections 3 and 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.column_generation import driver
from formulations.column_generation.client import Client, Incumbent
from formulations.column_generation.pricing import RING, OfClass, TreePricer
from formulations.column_generation.problem import PatternProblem, make_problem
from formulations.model_driven.allocate import ALLOCATIONS, acquire, allocate, cores_of
from formulations.model_driven.fewest import (
    Fewest,
    SolverCalls,
    add_traffic,
    build_counts,
    leading_class,
    prove_fewest,
    rates_of_pairs,
    traffic_between,
    unit_of_traffic,
)
from formulations.model_driven.performance_model import FULL
from formulations.model_driven.referee import checked_bundles, evaluate_model_driven
from formulations.model_driven.slots import (
    NO,
    ROOM,
    ROUNDING,
    YES,
    deal,
    first_fit,
    first_fit_on_machines,
    fits,
    items_of,
    make_items,
    pack,
    placement,
    which_pack,
)
from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.figures.measures import slack
from optim.methods.registry import Method, Option, Outcome, Request, get_method
from optim.referee import Level, Termination
from optim.rules.base import Form
from optim.solvers.mps import PosedModel
from optim.util.compiled import warming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from formulations.column_generation.problem import Pool
    from formulations.model_driven.allocate import Allocation
    from formulations.model_driven.fewest import CountsModel
    from formulations.model_driven.performance_model import Counts
    from formulations.model_driven.slots import Items, Machines, Slot
    from optim.format.instance import Instance
    from optim.format.plan import AcquiredNode, ThreadPlacement
    from optim.format.tables import Floats

# Second level of `slots-milp`: the least traffic between given machines, by machine patterns.
#
# Machines with equally many slots are interchangeable, and so are the items of a class: the
# problem is one of counts, which `formulations.column_generation` solves. What is particular is
# what fits a machine: items that share slots are no liquid. The engine searches by what is linear
# (CPU and memory in sum, and the prices of the first level, at which no slot's content is worth
# more than one slot); every content it finds is then packed into the slots for real
# (`pack_kernel`).

MOST_CLASSES = 200
MOST_CELLS = 200_000
"""Classes of items, and machines times classes, beyond which the engine is not asked."""

NODE_BUDGET = 5_000_000  # Search nodes of one pricing: some seconds.

_PACK_STEPS = 20_000
_MOST_PACKED = 20_000
_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False, kw_only=True)
class MachineProblem(PatternProblem):
    """The allocation problem in counts, with slots."""

    item: Floats  # (G, R) size of an item in the resources that a slot binds.
    alone: NDArray[Any]  # (G,) whether an item takes a slot of its own.
    largest: Counts  # (G,) classes, the largest items first, as they are packed.
    num_slots: Counts  # (K,) slots of a machine of each class.

    def packs(self, node_class: int, counts: Counts) -> NDArray[np.int8]:
        """(P,) whether contents go into the slots of a machine: NO, YES or UNKNOWN."""
        order = self.largest
        rows = np.ascontiguousarray(np.asarray(counts, dtype=np.int64)[:, order])
        verdicts: NDArray[np.int8] = which_pack(
            rows,
            self.alone[order],
            self.item[order],
            ROOM,
            int(self.num_slots[node_class]),
            _PACK_STEPS,
        )
        return verdicts

    def fits(self, node_class: int, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether contents (P, G) keep the bounds of a machine and go into its slots."""
        within = super().fits(node_class, counts)
        within[within] = self.packs(node_class, counts[within]) == YES
        return within

    def slots(self, node_class: int, content: Counts) -> list[dict[int, int]]:
        """Slots of a machine with a content that packs."""
        shared = np.where(self.alone, 0, content)[self.largest]
        free = int(self.num_slots[node_class] - content[self.alone].sum())
        _, at = pack(shared, self.item[self.largest], ROOM, free, _PACK_STEPS)
        slots: list[Slot] = [{c: 1} for c in np.flatnonzero(self.alone).tolist()
                             for _ in range(int(content[c]))]  # fmt: skip
        classes = np.repeat(self.largest, shared)
        for s in range(int(at.max(initial=-1)) + 1):
            here, count = np.unique(classes[at == s], return_counts=True)
            slots.append(dict(zip(here.tolist(), count.tolist(), strict=True)))
        return slots


class PackingPricer(TreePricer):
    """Prices and lists contents that go into the slots, not only into the sum of their room."""

    problem: MachineProblem

    def price_class(
        self, node_class: int, price: Floats, threshold: float, *, gainless: bool = False
    ) -> OfClass:
        """Find the best content that packs; where too many do not, bound it by the linear one."""
        priced = super().price_class(node_class, price, threshold, gainless=gainless)
        packs = self.problem.packs(node_class, priced.counts) != NO
        if packs.all():
            return priced
        pool = None
        if not gainless:
            pool = super()._enumerate_class(node_class, price, threshold, _MOST_PACKED)
        pool = None if pool is None else self._packed(pool)
        if pool is None:
            return OfClass(priced.counts[packs], priced.highest, priced.proven)
        value = pool.value(price)
        best = np.argsort(-value, kind="stable")[:RING]
        return OfClass(pool.counts[best], float(value.max(initial=threshold)), True)

    def enumerate(self, price: Floats, side: Floats, threshold: Floats, room: int) -> Pool | None:
        """Return all contents above the thresholds that pack; ``None`` where that is too much."""
        pool = super().enumerate(price, side, threshold, room)
        return None if pool is None else self._packed(pool)

    def _packed(self, pool: Pool) -> Pool | None:
        """Keep what packs; ``None`` where the time does not suffice to find out."""
        keep = np.ones(len(pool), dtype=np.bool_)
        for k in range(self.problem.num_node_classes):
            of_class = np.flatnonzero(pool.node_class == k)
            for first in range(0, len(of_class), _AT_ONCE):
                if self.clock.over():
                    return None
                part = of_class[first : first + _AT_ONCE]
                keep[part] = self.problem.packs(k, pool.counts[part]) != NO
        return pool.only(keep)


@dataclass
class OnMachines:
    """What is known of placing all items on given machines."""

    #: In counts, and the best so far.
    problem: MachineProblem
    incumbent: Incumbent
    order: Counts  # (G,) class of items of each class of the problem.
    place: Counts  # (N,) machine of each node of the problem, which are listed class by class.
    total: float = 0.0

    @classmethod
    def of(
        cls,
        items: Items,
        pairs: Floats,
        sizes: Sequence[int],
        cores: Sequence[int] | None,
        price: Floats,
        calls: SolverCalls,
        gap: float,
    ) -> OnMachines:
        """State the problem in counts.

        `pairs`: (C, C) traffic between one item of each class.
        `sizes`, `cores`: slots of each machine; its cores where they serve all of its slots.
        `price`: (C,) price of an item; no slot's content is worth more than 1.
        """
        order = np.argsort(items.count, kind="stable")  # few choices first in the search
        items, pairs, price = items.only(order), pairs[np.ix_(order, order)], price[order]
        kinds = np.array([sizes, sizes if cores is None else cores]).T
        distinct, kind, nodes = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
        num_slots = distinct[:, 0].astype(np.float64)
        cpu = num_slots * ROOM if cores is None else distinct[:, 1] * FULL + ROUNDING
        base = make_problem(
            items.count,
            np.stack([items.cpu, items.memory, price], axis=1),
            pairs,
            nodes,
            np.stack([cpu, num_slots * ROOM, num_slots * (1 + 1e-9)], axis=1),
        )
        size = items.sizes(pooled=cores is not None)
        problem = MachineProblem(
            **vars(base),
            item=np.ascontiguousarray(size),
            alone=items.exclusive,
            largest=np.argsort(-size.max(axis=1), kind="stable"),
            num_slots=distinct[:, 0].astype(np.int64),
        )
        incumbent = Incumbent(problem, calls.clock(problem.scale), gap=gap)
        total = 0.5 * float(items.count @ pairs @ items.count)
        place = np.argsort(kind.reshape(-1), kind="stable")
        return cls(problem, incumbent, order, place, total)

    @property
    def solvable(self) -> bool:
        """Whether the engine's arrays are of a reasonable size."""
        classes = self.problem.num_classes
        return classes <= MOST_CLASSES and classes * self.problem.num_nodes <= MOST_CELLS

    @property
    def closed(self) -> bool:
        """Whether nothing better can be found."""
        return self.incumbent.closed

    @property
    def traffic_bound(self) -> float:
        """Traffic that must cross between machines at least, in the unit of the pairs."""
        bound = self.incumbent.bound
        if not np.isfinite(bound):
            return 0.0
        return max(0.0, self.total - bound * self.problem.scale)

    def offer(self, machines: Machines) -> None:
        """Take a packing as a start."""
        counts = np.zeros((len(machines), len(self.order)), dtype=np.int64)
        for v, slots in enumerate(machines):
            for slot in slots:
                for c, n in slot.items():
                    counts[v, c] += n
        self.incumbent.offer(counts[np.ix_(self.place, self.order)])

    def machines(self) -> Machines | None:
        """Return the slots of each machine, in the order the machines were given."""
        counts = self.incumbent.counts
        if counts is None:
            return None
        owner = self.problem.class_of_node()
        machines: Machines = [[] for _ in self.place]
        for n, v in enumerate(self.place.tolist()):
            slots = self.problem.slots(int(owner[n]), counts[n])
            machines[v] = [{int(self.order[g]): k for g, k in slot.items()} for slot in slots]
        return machines


def place_on_machines(placement: OnMachines, calls: SolverCalls) -> None:
    """Find and prove the best placement, in place, as far as time and memory go."""
    incumbent = placement.incumbent
    pricer = PackingPricer(placement.problem, incumbent.clock, NODE_BUDGET)
    client = Client(placement.problem, pricer, incumbent.clock)
    driver.solve(client, incumbent, calls.backend)


MAPPINGS = ("sam", "rsm", "dsm")

_MOST_WORK = 2_000_000
"""Threads times slots up to which `rsm` is asked: it maps all again for each further slot."""

_ENOUGH = 1 - 1e-9  # Share of a rate that counts as all of it.


def family_starts(
    instance: Instance, allocation: Allocation, calls: SolverCalls
) -> Iterator[tuple[str, ThreadPlacement]]:
    """Map the allocation's threads by each heuristic, while there is time; names and plans."""
    for mapping in MAPPINGS:
        large = int(allocation.threads.sum()) * allocation.slots > _MOST_WORK
        if calls.over() or (mapping == "rsm" and large):
            continue
        method = get_method(f"{allocation.name}+{mapping}")
        try:
            outcome = method.run(instance, Request(options=method.read_options({})))
        except InvalidInput:
            continue  # this mapping reads what the models do not have
        compiled = outcome.times.get("compile", 0.0)
        calls.request = replace(calls.request, started=calls.request.started + compiled)
        if outcome.threads is not None:
            yield method.name, outcome.threads


def stands_beside(
    instance: Instance, other: ThreadPlacement, packed: ThreadPlacement, *, pooled: bool
) -> bool:
    """Whether a plan that splits bundles, or books otherwise, is as good as a packing in all else.

    It keeps all rules, CPU is bound as asked, and its slots sustain the input rate, or no less than
    those of the packing.
    """
    plan = other.to_plan(instance)
    evaluation = evaluate_model_driven(instance, plan)
    if not evaluation.feasible:
        return False
    rate = instance.input_rate
    bundles = checked_bundles(instance, plan)
    if not pooled and rate is not None:
        cpu, _ = bundles.use(bundles.filled(rate))
        if max(bundles.by_slot(cpu).values()) > FULL + slack(FULL):
            return False
    packed_rate = evaluate_model_driven(instance, packed.to_plan(instance)).capacity_rate
    if rate is None or packed_rate is None or evaluation.capacity_rate is None:
        return evaluation.capacity_rate == packed_rate
    return bool(evaluation.capacity_rate >= min(rate, packed_rate) * _ENOUGH)


@warming
def warm_up() -> None:
    """Compile, or load from disk, every kernel."""
    driver.warm_up()
    one, size = np.ones((1, 1), dtype=np.int64), np.ones((1, 1))
    which_pack(one, np.zeros(1, dtype=np.bool_), size, 1.0, 1, 1)


_LESS = 1e-6  # By how much less traffic, in thousandths of all, a packing is better.


@dataclass
class Packed:
    """The packing so far."""

    items: Items
    pairs: Floats  # (C, C) traffic between one item of each class, in the same unit.
    #: Slots in use of each machine, and the machines; empty while there is no packing.
    machines: Machines = field(default_factory=list)
    nodes: tuple[AcquiredNode, ...] = ()
    traffic: float = float("inf")  # Between the machines, in thousandths of all.

    @classmethod
    def empty(cls, instance: Instance, items: Items) -> Packed:
        """Nothing yet."""
        return cls(items, rates_of_pairs(items, instance))

    @property
    def num_slots(self) -> int:
        """Slots of the machines."""
        return sum(node.slots for node in self.nodes)

    def placement(self, allocation: Allocation) -> ThreadPlacement:
        """Place the allocation's threads as they are packed."""
        return placement(self.items, self.machines, self.nodes, allocation)

    def offer(self, machines: Machines, nodes: tuple[AcquiredNode, ...]) -> bool:
        """Take a packing if it is better; return whether it was."""
        slots = sum(node.slots for node in nodes)
        if self.nodes and slots > self.num_slots:
            return False
        traffic = traffic_between(self.items, machines, self.pairs)
        if slots == self.num_slots and traffic >= self.traffic - _LESS:
            return False
        self.machines, self.nodes, self.traffic = machines, nodes, traffic
        return True


MOST_PRODUCTS = 20_000  # Products of the plain model beyond which the traffic is not proven.
_OPTIMAL = 1e-7  # Relative gap of the traffic that counts as closed.
_PATIENCE = 16  # Slot counts tried one by one for a first packing; then in larger and larger steps.


class _Run:
    """One run: what is packed, the best packing so far, and what is proven."""

    def __init__(self, instance: Instance, request: Request, allocation: Allocation) -> None:
        self.instance, self.options, self.allocation = instance, request.options, allocation
        self.calls = SolverCalls(request)
        self.pooled = request.options["cpu"] == "vm"
        self.items = make_items(instance, allocation, request.options["items"])
        self.packed = Packed.empty(instance, self.items)
        self.notes: list[str] = []
        self.failed = self.closed = False
        self.traffic_bound: float | None = None
        self.beside: tuple[str, ThreadPlacement] | None = None
        self.fewest = self._first_fit()
        self._store_best_plan()

    def _store_best_plan(self) -> None:
        """Store the best plan so far in the request: it outlives whatever happens to this run."""
        packed = self.packed.placement(self.allocation)
        beside = self.beside if self.outdone else None
        self.calls.request.incumbents.threads = packed if beside is None else beside[1]

    @property
    def outdone(self) -> bool:
        """Whether a plan beside the packings has fewer slots."""
        return self.beside is not None and self.beside[1].num_slots < self.packed.num_slots

    def _first_fit(self) -> Fewest:
        """Pack by first fit with CPU bound in every slot, which keeps pooled cores as well."""
        slots = first_fit(self.items)
        nodes = acquire(self.instance, len(slots))
        self.packed.offer(deal(self.items, slots, nodes), nodes)
        bound = self.items.bound(pooled=self.pooled)
        if self.pooled:
            bound = self._fewest_slots_by_cores(bound)
        return Fewest(self.items, slots, len(slots), bound)

    def _fewest_slots_by_cores(self, bound: int) -> int:
        """Fewest slots, from a bound on, whose machines have the cores for all CPU."""
        cpu = float((self.items.count * self.items.cpu).sum())
        largest = max(vm.slots for vm in self.instance.vm_types)
        bound = max(bound, math.ceil(cpu / FULL - 1e-6) - largest)
        while True:
            nodes = acquire(self.instance, bound)
            if FULL * sum(cores_of(self.instance, nodes)) + ROUNDING * len(nodes) >= cpu:
                return bound
            bound += 1

    def step(self, phase: str, act: Callable[[], None]) -> None:
        """Take a step unless the time is up; whatever it fails with, the packing remains."""
        calls = self.calls
        if calls.over():
            return
        try:
            act()
        except KeyboardInterrupt:
            calls.interrupted = True
        except Exception as error:  # nothing that fails in a solver may cost the incumbent
            self.failed = True
            self.notes.append(f"{phase} failed, earlier results are used: {error!r}")
        self._store_best_plan()
        calls.report(self.packed.num_slots, self.fewest.bound, phase)

    def offer(self, machines: Machines, nodes: tuple[AcquiredNode, ...]) -> None:
        """Take a packing if it is better, and let the first level know."""
        if self.packed.offer(machines, nodes) and self.packed.num_slots < self.fewest.num_slots:
            self.fewest.slots = [slot for slots in machines for slot in slots]
            self.fewest.num_slots = self.packed.num_slots

    def begin(self) -> None:
        """Take the family's heuristics: as packings, or beside them where they split bundles."""
        if self.pooled:
            self._fit_on_machines()
        for name, placed in family_starts(self.instance, self.allocation, self.calls):
            machines = items_of(self.items, placed)
            if machines is not None and fits(self.items, machines, self._cores(placed.nodes)):
                self.offer(machines, placed.nodes)
            elif self.beside is None or placed.num_slots < self.beside[1].num_slots:
                packed = self.packed.placement(self.allocation)
                if stands_beside(self.instance, placed, packed, pooled=self.pooled):
                    self.beside = name, placed

    def _fit_on_machines(self) -> None:
        """Pooled cores: first fit on the machines of few slots."""
        # few more slots at a time at first, then 5 %: far from the bound single counts seldom
        # matter
        slots, tries = self.fewest.bound, 0
        while slots < self.packed.num_slots and not self.calls.over():
            nodes = acquire(self.instance, slots)
            machines = first_fit_on_machines(self.items, nodes, cores_of(self.instance, nodes))
            if machines is not None:
                self.offer(machines, nodes)
            tries += 1
            slots += 1 if tries <= _PATIENCE else 1 + slots // 20

    def find_fewest(self) -> None:
        """First level: the fewest slots."""
        prove_fewest(self.fewest, self.calls, pooled=self.pooled)
        if self.pooled:
            self._try_machines()
        elif self.fewest.num_slots < self.packed.num_slots:
            nodes = acquire(self.instance, self.fewest.num_slots)
            self.packed.offer(deal(self.items, self.fewest.slots, nodes), nodes)

    def _try_machines(self) -> None:
        """Pooled cores: is there a packing on the machines of one slot count after the other?"""
        fewest = self.fewest
        while not fewest.closed and not self.calls.over():
            nodes = acquire(self.instance, fewest.bound)
            counts = self._counts(nodes)
            answer = self.calls.solve(counts.model)
            if answer.x is not None:
                self.offer(counts.machines(answer.x), nodes)
            if answer.termination != "infeasible":
                return
            fewest.bound += 1
            self.calls.report(self.packed.num_slots, fewest.bound, "machines")

    def least_traffic(self) -> None:
        """Second level, on the machines of the first, by patterns.

        Threads are left to the plain model: they are few classes of many items, which have many
        contents of a machine.
        """
        nodes = self.packed.nodes
        if self.packed.traffic == 0:
            self.traffic_bound, self.closed = 0.0, True
            return
        if self.options["items"] == "threads":
            return
        on_machines = OnMachines.of(
            self.items,
            self.packed.pairs,
            [node.slots for node in nodes],
            self._cores(nodes),
            self.fewest.price,
            self.calls,
            max(_OPTIMAL, self.calls.request.gap or 0.0),
        )
        if not on_machines.solvable:
            return
        on_machines.offer(self.packed.machines)
        try:
            place_on_machines(on_machines, self.calls)
        finally:  # what was found before it failed counts
            machines = on_machines.machines()
            if machines is not None:
                self.offer(machines, nodes)
            self.closed = on_machines.closed
            self._prove_traffic(on_machines.traffic_bound)

    def traffic_by_counts(self) -> None:
        """Second level by the plain model, where the patterns ended without a proof."""
        nodes, request = self.packed.nodes, self.calls.request
        counts = self._counts(nodes)
        whole = request.solver == "cp-sat"
        if not add_traffic(counts, self.instance, whole=whole, most=MOST_PRODUCTS):
            self.closed = True
            self.notes.append(
                f"the traffic between machines would take more than {MOST_PRODUCTS:,} products: "
                "best effort, not proven"
            )
            return
        # the model numbers equal machines by what they hold of this class; the start follows
        leader = leading_class(self.items)
        leaders = [sum(slot.get(leader, 0) for slot in slots) for slots in self.packed.machines]
        order = sorted(range(len(nodes)), key=lambda v: (-nodes[v].slots, -leaders[v], v))
        start = counts.vector([self.packed.machines[v] for v in order])
        answer = self.calls.solve(counts.model, start)
        if answer.x is not None:
            self.offer(counts.machines(answer.x), nodes)
        if answer.bound is not None:
            self._prove_traffic(answer.bound)
        self.closed = answer.termination in ("optimal", "gap_reached")

    def _prove_traffic(self, bound: float) -> None:
        """Take a bound on the traffic; it counts where the number of slots is proven."""
        if self.fewest.closed:
            self.traffic_bound = max(self.traffic_bound or 0.0, min(bound, self.packed.traffic))

    def _counts(self, nodes: tuple[AcquiredNode, ...]) -> CountsModel:
        """Build the plain model of all items on machines."""
        sizes = [node.slots for node in nodes]
        return build_counts(self.items, sizes, self._cores(nodes), pooled=self.pooled)

    def _cores(self, nodes: tuple[AcquiredNode, ...]) -> list[int] | None:
        """Cores of machines, where they serve all of their slots."""
        return cores_of(self.instance, nodes) if self.pooled else None

    def outcome(self) -> Outcome:
        """Say what was found and proven."""
        outcome = self._of_packing()
        if self.beside is not None and self.outdone:
            name, outcome.threads = self.beside
            outcome.claimed = float(outcome.threads.num_slots)
            outcome.notes.append(
                f"{name} does with {outcome.threads.num_slots} slots, since it splits what is "
                f"packed here; of packings {self.fewest.bound} are proven to be needed"
            )
            outcome.bound, outcome.assumes = None, ()
            outcome.levels = (Level("internode_traffic", "min", None),)
            if outcome.termination is not Termination.INTERRUPTED:
                outcome.termination = Termination.HEURISTIC
        return outcome

    def _of_packing(self) -> Outcome:
        """Say what is known of the packing."""
        packed, calls, allocation = self.packed, self.calls, self.allocation
        cpu, memory = allocation.totals
        notes = [
            f"{self.options['items']} of {allocation.name}: {len(self.items.count)} kinds, "
            f"{int(self.items.count.sum()):,} items, {cpu:,.2f} % CPU, {memory:,.2f} % memory of "
            f"a slot, which asks for {allocation.slots} slots"
        ]
        calls.recorder.finish()
        return Outcome(
            self._termination(),
            claimed=float(packed.num_slots),
            bound=float(self.fewest.bound),
            assumes=self._assumes(),
            levels=(Level("internode_traffic", "min", None, self._bound_on_traffic()),),
            notes=notes + self.notes + list(dict.fromkeys(calls.messages)),
            trace=calls.recorder.trace,
            solver=calls.solver,
            threads=packed.placement(allocation),
        )

    def _bound_on_traffic(self) -> float | None:
        """Bound in the file's unit."""
        bound = self.traffic_bound
        return None if bound is None else bound * unit_of_traffic(self.instance)

    def _assumes(self) -> tuple[str, ...]:
        """What the plans are that are compared; the file itself leaves threads and use open."""
        bundles = self.options["items"] == "bundles"
        return (
            f"that run the threads of {self.allocation.name}",
            "that keep its bundles whole" if bundles else "that book each thread as measured alone",
            "that acquire the largest machines first" if self.pooled else "that bind CPU by slot",
        )

    def _termination(self) -> Termination:
        if self.calls.interrupted:
            return Termination.INTERRUPTED
        if self.fewest.closed and (self.closed or not self.options["traffic"]):
            return Termination.OPTIMAL
        if self.calls.over():
            return Termination.TIME_LIMIT
        return Termination.ERROR if self.failed else Termination.ITERATION_LIMIT


def pose(instance: Instance, request: Request) -> PosedModel:
    """Return the model of the fewest slots, in as many as first fit takes.

    Raises `UnsuitableMethod`: cores are pooled: then the machines, and with them the rows, follow
        from the slots.
    """
    if request.options["cpu"] == "vm":
        reason = "has no one model: which machines there are depends on how many slots are taken"
        raise UnsuitableMethod(Problem("--option cpu", "vm", reason, "use --option cpu=slot"))
    items = make_items(instance, _allocation(instance, request), request.options["items"])
    counts = build_counts(items, [len(first_fit(items))], None, pooled=False)
    alone = counts.count[items.exclusive].ravel()
    for columns in (counts.used, alone):
        counts.model.set_objective(columns, np.ones(len(columns)))
    of = zip(items.operator.tolist(), items.threads.tolist(), strict=True)
    ids = {"item": [f"{instance.operators.ids[o]},{threads}" for o, threads in of]}
    return PosedModel(counts.model, "slots", ids={**ids, "machine": ["all"]})


def _allocation(instance: Instance, request: Request) -> Allocation:
    kind = request.options["items"]
    name = request.options["allocation"] or ("lsa" if kind == "threads" else "mba")
    return allocate(instance, name)


def run(instance: Instance, request: Request) -> Outcome:
    """Pack, prove, then place for traffic.

    Raises `InvalidInput`: a rate that no thread count supports, or an item that no slot holds.
    """
    request, compiled = request.warmed(warm_up)
    work = _Run(instance, request, _allocation(instance, request))
    built = work.calls.request.elapsed()
    work.step("start", work.begin)
    work.step("fewest slots", work.find_fewest)
    if request.options["traffic"] and not work.outdone:
        work.step("traffic", work.least_traffic)
        if not work.closed:
            work.step("traffic by counts", work.traffic_by_counts)
    outcome = work.outcome()
    outcome.times = {"build": built + work.calls.handover, "compile": compiled}
    return outcome


METHOD = Method(
    name="slots-milp",
    family="model-driven",
    decides="threads",
    kind="exact",
    objective="slots",
    run=run,
    pose=pose,
    summary="The fewest slots for an allocation's threads or bundles, then least machine traffic",
    source="ours; the problem of Shukla and Simmhan, JPDC 2018, sections 3 and 7",
    needs=("models", "dag", "tuple_rates", "vm_types", "whole_slots"),
    forms=frozenset({Form.SLOTS}),
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
        Option("traffic", "bool", True, "minimise the traffic between machines, too"),
    ),
    solvers=("highs", "scip", "cbc", "cp-sat"),
    default_solver="highs",
)
