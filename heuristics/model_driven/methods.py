"""The six combinations: ``lsa`` or ``mba`` threads, mapped by ``dsm``, ``rsm`` or ``sam``.

Each is a method ``allocation+mapping``. The allocation says how many threads each task gets and how
many slots they ask for; machines are acquired for these; the mapping places every thread. Where it
fails, one more slot is acquired and the mapping repeated.

Source: Shukla and Simmhan, JPDC 2018, arXiv:1702.01785, sections 6 to 8.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from heuristics.model_driven.resource_aware import SLOT_RULES
from optim.format.document import MAX_NODES
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Termination
from optim.rules.base import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from heuristics.model_driven.mapping import Job, Mapper, Placed
    from optim.format.instance import Instance
    from optim.methods.registry import Request

_ALLOCATIONS = {
    "lsa": ("threads by linear scaling of one", "Algorithm 2"),
    "mba": ("threads by the performance model, in bundles", "Algorithm 3"),
}
_MAPPINGS = {
    "dsm": ("round robin over slots (Storm's default)", "Algorithm 4"),
    "rsm": ("thread by thread to the machine nearest in CPU, memory and network", "Algorithm 5"),
    "sam": ("full bundles to slots of their own, the last one to the best fit", "Algorithm 6"),
}


def _mapper(mapping: str) -> Mapper:
    if mapping == "dsm":
        from heuristics.model_driven.mapping import map_round_robin

        return map_round_robin
    if mapping == "rsm":
        from heuristics.model_driven.resource_aware import map_resource_aware

        return map_resource_aware
    from heuristics.model_driven.slot_aware import map_slot_aware

    return map_slot_aware


def place_threads(instance: Instance, allocation: str, mapping: str, request: Request) -> Outcome:
    """Allocate, acquire, map, and acquire more where mapping fails.

    Raises
    ------
    InvalidInput
        A rate that no thread count supports, or a model that lacks what the allocation reads.
    """
    from formulations.model_driven.allocate import allocate
    from heuristics.model_driven.mapping import Job, map_with_further_slots
    from optim.format.plan import ThreadPlacement

    request, compiling = request.warmed(*((_warm_up,) if mapping == "rsm" else ()))
    began = time.perf_counter()
    allocated = allocate(instance, allocation)
    job = Job.of(instance, allocated, request.options)
    building = time.perf_counter() - began
    placed = map_with_further_slots(instance, job, _mapper(mapping))
    outcome = Outcome(Termination.HEURISTIC, times={"build": building})
    if mapping == "rsm":
        outcome.times["compile"] = compiling
    outcome.notes += _notes(instance, job, placed)
    if placed.mapped.failed < 0:
        outcome.threads = ThreadPlacement(
            allocated.threads, placed.nodes, placed.mapped.node, placed.mapped.slot, allocated.slots
        )
    return outcome


def _warm_up() -> None:
    from heuristics.model_driven.resource_aware import warm_up

    warm_up()


def _notes(instance: Instance, job: Job, placed: Placed) -> list[str]:
    made = job.allocation
    cpu, memory = made.totals
    notes = [
        f"{made.name} asks for {made.slots} slots: {job.num_threads:,} threads, "
        f"{cpu:,.2f} % CPU, {memory:,.2f} % memory of a slot"
    ]
    slots = sum(node.slots for node in placed.nodes)
    failed = placed.mapped.failed
    if failed >= 0:
        task = instance.operators.ids[failed]
        if placed.mapped.hopeless:
            notes.append(
                f"insufficient resources for {task}: what must stand together of it needs more "
                "than an empty slot (or machine) has, so that no number of slots would do"
            )
        else:
            notes.append(f"insufficient resources for {task} on {slots} slots; more slots may do")
    elif slots > made.slots:
        tries = "" if placed.tries == 1 else f", mapped in {placed.tries} tries"
        notes.append(f"{slots - made.slots} extra slots acquired{tries}")
    elif slots < made.slots:
        notes.append(
            f"placed on {slots} slots as requested, though {made.name} asks for {made.slots}"
        )
    return notes


_COMMON = (
    Option(
        "slots",
        "int",
        None,
        "map onto this many slots, instead of what the allocation asks for and more on failure",
        minimum=1,
        maximum=MAX_NODES,
    ),
)
_CONSTANTS = {"vms_per_rack": "all"}
_STEP = (
    Option("step", "int", 1, "slots acquired when the mapping fails", minimum=1, maximum=100_000),
)
_WEIGHT = "weight of {} in the distance of a machine"
_OF_MAPPING: dict[str, tuple[Option, ...]] = {
    "dsm": (),
    "rsm": (
        *_STEP,
        Option("w_memory", "float", 1.0, _WEIGHT.format("free memory"), minimum=0, maximum=1e9),
        Option("w_cpu", "float", 1.0, _WEIGHT.format("free CPU"), minimum=0, maximum=1e9),
        Option("w_network", "float", 1.0, _WEIGHT.format("network hops"), minimum=0, maximum=1e9),
        Option(
            "slot_rule",
            "str",
            "first",
            "slot of the machine: the first with the memory, or that with most or least of it free",
            choices=SLOT_RULES,
        ),
    ),
    "sam": (
        *_STEP,
        Option(
            "literal",
            "bool",
            False,
            "form bundles from thread counts as Algorithm 6 reads, instead of the allocation's",
        ),
    ),
}


def _runner(allocation: str, mapping: str) -> Callable[[Instance, Request], Outcome]:
    def run(instance: Instance, request: Request) -> Outcome:
        return place_threads(instance, allocation, mapping, request)

    return run


def _method(allocation: str, mapping: str) -> Method:
    threads, first = _ALLOCATIONS[allocation]
    places, second = _MAPPINGS[mapping]
    return Method(
        name=f"{allocation}+{mapping}",
        family="model-driven",
        decides="threads",
        kind="heuristic",
        objective="slots",
        run=_runner(allocation, mapping),
        summary=f"{threads[0].upper()}{threads[1:]}; {places}",
        source=f"Shukla and Simmhan, JPDC 2018, {first} and {second}",
        needs=("models", "dag", "tuple_rates", "vm_types", "whole_slots"),
        forms=frozenset({Form.SLOTS}),
        options=(*_COMMON, *_OF_MAPPING[mapping]),
        constants=_CONSTANTS | ({"thread_use": "auto"} if mapping == "rsm" else {}),
        # by LSA's booking, taken literally, the last bundle may need less than the model says
        promises_feasibility=(allocation, mapping) == ("mba", "sam"),
    )


LSA_DSM = _method("lsa", "dsm")
LSA_RSM = _method("lsa", "rsm")
LSA_SAM = _method("lsa", "sam")
MBA_DSM = _method("mba", "dsm")
MBA_RSM = _method("mba", "rsm")
MBA_SAM = _method("mba", "sam")
