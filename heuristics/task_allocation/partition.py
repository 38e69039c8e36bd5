"""``partition``: a graph partitioner, then repair of what it overloads, then moves and swaps.

The traffic graph is cut by METIS (k-way, ``ufactor``) or mt-KaHyPar (deterministic preset, room as
block weights) into as many parts as about 1.03 of the load needs, not into all nodes; parts go to
nodes by size and allowed tasks; repair brings every resource back to its capacity; a descent by
moves and swaps follows. Several cuts are tried and the best plan is returned.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome, Request
from optim.referee.result import Termination
from optim.rules.base import LOADS, OF_MOVES, Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from heuristics.task_allocation.graph_partition.weighted_graph import WeightedGraph
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.kernels.repair import RepairOutcome

ENGINES = ("metis", "mtkahypar")
_PASSES = 50
_ENTRIES = 1_600_000
"""Matrix entries × tries stay below this, so that large graphs are cut less often."""


def run(instance: Instance, request: Request) -> Outcome:
    """Partition, repair, descend; keep the best of several cuts."""
    from heuristics.task_allocation.graph_partition.weighted_graph import weighted_graph
    from optim.figures.measures import imc_gain_of
    from optim.kernels.warm import warm_up

    request, compiling = request.warmed(warm_up)
    began = time.perf_counter()
    graph = weighted_graph(instance)
    building = time.perf_counter() - began
    best: Ints | None = None
    best_gain = -1.0
    failed: RepairOutcome | None = None
    trace: list[tuple[float, float | None, float | None]] = []
    engine, tries = request.options["engine"], request.options["tries"]
    for start in cuts(instance, request, graph, engine=engine, tries=tries):
        mended = _finished(instance, start)
        if not mended.restored:
            failed = failed or mended
        else:
            gain = imc_gain_of(instance, mended.node)
            if gain > best_gain:
                best, best_gain = mended.node, gain
                request.offer(best)
                trace.append((request.elapsed(), gain, None))
        if request.remaining() == 0.0:
            break
    times = {"compile": compiling, "build": building}
    if best is None:
        assert failed is not None
        node = failed.node if failed.node.min() < 0 else None
        return Outcome(Termination.HEURISTIC, node, notes=failed.notes, times=times)
    return Outcome(Termination.HEURISTIC, best, claimed=best_gain, trace=trace, times=times)


def cuts(
    instance: Instance,
    request: Request,
    graph: WeightedGraph | None = None,
    *,
    engine: str = "metis",
    tries: int = 1,
) -> Iterator[Ints]:
    """Yield (T,) placements straight from a partitioner; capacities may be exceeded.

    Parameters
    ----------
    instance, request
        What to cut; the request's seed and threads are used.
    graph
        The instance's graph where the caller has it.
    engine, tries
        As the options of the method.

    Raises
    ------
    UnsuitableMethod
        The engine is not installed.
    """
    from heuristics.task_allocation.graph_partition.weighted_graph import (
        metis_parts,
        mtkahypar_parts,
        part_nodes,
        weighted_graph,
    )

    graph = graph or weighted_graph(instance)
    if not len(part_nodes(instance, graph)):  # all leave, say: nothing is cut, repair places
        yield np.full(instance.num_tasks, -1, dtype=np.int32)
        return
    if engine == "mtkahypar":
        nodes = part_nodes(instance, graph)
        fixed = _fixed(instance, nodes)
        parts = mtkahypar_parts(graph, nodes, fixed, request.seed, request.threads, "deterministic")
        yield _parts_to_nodes(instance, nodes, parts)
        return
    tries = max(1, min(tries, _ENTRIES // max(1, len(graph.other))))
    for attempt in range(tries):
        nodes = part_nodes(instance, graph, attempt % 3)
        if attempt and len(nodes) == 1:
            return
        shuffle = attempt > 0 or request.seed > 0
        parts = metis_parts(graph, nodes, request.seed + attempt, shuffle)
        yield _parts_to_nodes(instance, nodes, parts)


def _fixed(instance: Instance, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(T,) position of the only node a task may use, -1 for tasks with a choice."""
    position = np.full(instance.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    fixed = np.full(instance.num_tasks, -1)
    table = instance.tasks
    single = np.flatnonzero(np.diff(table.allowed_indptr) == 1)
    fixed[table.restricted[single]] = position[table.allowed_indices[table.allowed_indptr[single]]]
    return fixed


def _finished(instance: Instance, start: Ints) -> RepairOutcome:
    """Repair, and descend if that brought a complete plan."""
    from optim.kernels.descent import descend
    from optim.kernels.repair import repair
    from optim.kernels.state import state_of

    mended = repair(instance, start)
    if not mended.restored:
        return mended
    state = state_of(instance, mended.node)
    least_gain = 1e-9 * instance.total_traffic / max(1, instance.num_tasks) + 1e-300
    descend(state, np.arange(instance.num_tasks), _PASSES, least_gain)
    return replace(mended, node=state.placement())


def _parts_to_nodes(instance: Instance, nodes: NDArray[np.int64], parts: NDArray[np.int64]) -> Ints:
    """(T,) node indices: parts stay in the nodes' order unless allowed nodes speak for another."""
    # with restricted tasks parts and nodes are matched so that least load stands where it may not
    target = nodes
    if len(instance.tasks.restricted) and len(nodes) > 1:
        from scipy.optimize import linear_sum_assignment

        from heuristics.task_allocation.graph_partition.weighted_graph import scalar_loads

        load, room = scalar_loads(instance)
        size = np.bincount(parts, load, minlength=len(nodes))
        wrong = np.maximum(0.0, size[:, None] - room[nodes][None, :])
        for task in instance.tasks.restricted:
            wrong[parts[task]] += load[task] * ~instance.allowed_mask(int(task))[nodes]
        target = nodes[linear_sum_assignment(wrong)[1]]
    return target[parts].astype(np.int32)


METHOD = Method(
    name="partition",
    family="task allocation",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="METIS or mt-KaHyPar cuts the traffic graph; repair, moves and swaps follow",
    source="METIS (Karypis and Kumar 1998); mt-KaHyPar (Gottesbüren et al. 2024)",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS | OF_MOVES | {Form.NODE_FLOOR, Form.SETS, Form.NODE_COUNT, Form.LOCAL_FIRST},
    options=(
        Option("engine", "str", "metis", "which partitioner", choices=ENGINES),
        Option(
            "tries",
            "int",
            3,
            "cuts to try with METIS; fewer on large graphs",
            minimum=1,
            maximum=1000,
        ),
    ),
    constants={"preset": "deterministic"},
)
