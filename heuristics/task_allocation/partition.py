"""``partition``: a graph partitioner, then repair of what it overloads, then moves and swaps.

The traffic graph is cut by METIS (k-way, ``ufactor``) or mt-KaHyPar (deterministic preset, room as
block weights) into as many parts as about 1.03 of the load needs, not into all nodes; parts go to
nodes by size and allowed tasks; repair brings every resource back to its capacity; a descent by
moves and swaps follows. Several cuts are tried and the best plan is returned.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import Problem, UnsuitableMethod
from optim.kernels.place_rules import placing_room
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome, Request
from optim.referee import Termination
from optim.rules.base import LOADS, OF_MOVES, Form
from optim.util.process import c_stdout_silenced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.kernels.repair import RepairOutcome

ENGINES = ("metis", "mtkahypar")
_PASSES = 50
_ENTRIES = 1_600_000
"""Matrix entries × tries stay below this, so that large graphs are cut less often."""


def run(instance: Instance, request: Request) -> Outcome:
    """Partition, repair, descend; keep the best of several cuts."""
    from optim.figures.measures import imc_gain_of
    from optim.kernels.repair import warm_up

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
        repaired = _finished(instance, start)
        if not repaired.restored:
            failed = failed or repaired
        else:
            gain = imc_gain_of(instance, repaired.node)
            if gain > best_gain:
                best, best_gain = repaired.node, gain
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

    `instance`, `request`: what to cut; the request's seed and threads are used.
    `graph`: the instance's graph where the caller has it.
    `engine`, `tries`: as the options of the method.
    Raises `UnsuitableMethod`: the engine is not installed.
    """
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

    repaired = repair(instance, start)
    if not repaired.restored:
        return repaired
    state = state_of(instance, repaired.node)
    least_gain = 1e-9 * instance.total_traffic / max(1, instance.num_tasks) + 1e-300
    descend(state, np.arange(instance.num_tasks), _PASSES, least_gain)
    return replace(repaired, node=state.placement())


def _parts_to_nodes(instance: Instance, nodes: NDArray[np.int64], parts: NDArray[np.int64]) -> Ints:
    """(T,) node indices: parts stay in the nodes' order unless allowed nodes speak for another."""
    # with restricted tasks parts and nodes are matched so that least load stands where it may not
    target = nodes
    if len(instance.tasks.restricted) and len(nodes) > 1:
        from scipy.optimize import linear_sum_assignment

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
)


# The graph a partitioner sees: integer weights for tasks, pairs and blocks, one number a task.
#
# Partitioners balance one weight a vertex. With several resources the weights are added, each
# resource in proportion to how tight it is; what that leaves out is repaired afterwards.
#
# Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
# graphs", SIAM J. Sci. Comput. 20(1), 1998, doi:10.1137/S1064827595287997.
#
# An optional package. Source: Gottesbüren et al., "Scalable high-quality hypergraph
# partitioning", ACM Transactions on Algorithms 20(1), 2024, doi:10.1145/3626527.

_MOST = 2**30  # Sums of integer weights stay below this, so that 32 bits hold them.

ROOM_TO_MOVE = 1.03
"""Parts are asked for so that together they offer this much of the load: room for good cuts."""


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """A job as a graph."""

    #: CSR form, each pair in both directions.
    indptr: NDArray[np.int32]
    other: NDArray[np.int32]
    pair_weight: NDArray[np.int32]  # (2 E,) integer rates, at least 1.
    task_weight: NDArray[np.int64]  # (T,) integer loads, rounded up.
    #: (N,) integer room of every node, rounded down; 0 on leaving ones, where others stay.
    node_weight: NDArray[np.int64]

    def permuted(self, order: NDArray[np.int64]) -> WeightedGraph:
        """Return the same graph with its vertices in another order: another start for an engine."""
        from scipy.sparse import csr_array

        size = len(self.task_weight)
        matrix = csr_array((self.pair_weight, self.other, self.indptr), shape=(size, size))
        matrix = matrix[order][:, order]
        matrix.sort_indices()
        return WeightedGraph(
            matrix.indptr.astype(np.int32),
            matrix.indices.astype(np.int32),
            matrix.data.astype(np.int32),
            self.task_weight[order],
            self.node_weight,
        )


def weighted_graph(instance: Instance) -> WeightedGraph:
    """Derive the graph of an instance.

    Raises `InvalidInput`: there are more task pairs than are spread out.
    """
    matrix = instance.adjacency
    load, room = scalar_loads(instance)
    scale = _MOST / 2 / max(load.sum(), room.sum(), 1e-300)
    rates = matrix.data * (_MOST / max(matrix.data.sum(), 1e-300))
    return WeightedGraph(
        indptr=matrix.indptr.astype(np.int32),
        other=matrix.indices.astype(np.int32),
        pair_weight=np.maximum(1, np.round(rates)).astype(np.int32),
        task_weight=np.ceil(load * scale).astype(np.int64),
        node_weight=np.floor(room * scale).astype(np.int64),
    )


def scalar_loads(instance: Instance) -> tuple[Floats, Floats]:
    """Return (T,) one load a task and (N,) one room a node, both in shares of the total load.

    Each resource counts by its tightness: total load over total room of the staying nodes (of all,
    where none stays). Where no resource is bounded, tasks count equally and every node has room for
    all.
    """
    stay = instance.open_nodes
    usable = stay if stay.any() else np.ones(instance.num_nodes, dtype=np.bool_)
    total = instance.total_load
    room = np.maximum(placing_room(instance), 0.0)
    room = np.where(np.isfinite(room), room, total)
    room[~usable] = 0.0
    offered = room.sum(axis=0)
    bounded = np.isfinite(instance.headroom).any(axis=0) & (total > 0)
    if not bounded.any():
        load = np.full(instance.num_tasks, 1.0 / max(1, instance.num_tasks))
        return load, np.where(usable, 1.0, 0.0)
    tightness = total[bounded] / np.maximum(offered[bounded], 1e-300)
    factor = tightness / tightness.sum() / total[bounded]
    return instance.tasks.load[:, bounded] @ factor, room[:, bounded] @ factor


def part_nodes(instance: Instance, graph: WeightedGraph, extra: int = 0) -> NDArray[np.int64]:
    """Return the nodes to ask parts for: the largest that hold 1.03 of the load, and `extra` more.

    Nodes that must hold something (a lower load bound, or a task with no other node) are always
    among them. Largest first, ties by index; one staying node where none has room.
    """
    weight = graph.node_weight
    order = np.argsort(-weight, kind="stable")
    order = order[weight[order] > 0]
    if not len(order):  # no staying node has room for anything: one takes all, and repair goes on
        return np.argmax(instance.open_nodes, keepdims=True)
    if extra == 0 and (instance.total_load <= placing_room(instance)[order[0]]).all():
        count = 1
    else:
        needed = int(graph.task_weight.sum())
        total_room = np.cumsum(weight[order])
        count = int(np.searchsorted(total_room, ROOM_TO_MOVE * needed)) + 1 + extra
    chosen = np.zeros(instance.num_nodes, dtype=np.bool_)
    chosen[order[:count]] = True
    chosen |= (instance.nodes.min_load > 0).any(axis=1) & (weight > 0)
    table = instance.tasks
    single = np.flatnonzero(np.diff(table.allowed_indptr) == 1)
    chosen[table.allowed_indices[table.allowed_indptr[single]]] = True
    return order[chosen[order]]


_LARGEST_FACTOR = 300


def metis_parts(
    graph: WeightedGraph, nodes: NDArray[np.int64], seed: int, shuffle: bool
) -> NDArray[np.int64]:
    """Partition into one part a node, sizes in proportion to the nodes' room.

    `nodes`: (K,) the nodes to make parts for.
    `seed`: of METIS, and of the order of the vertices when `shuffle`.
    `shuffle`: renumber the vertices first, which gives METIS another start (its own seed hardly
        does).
    Returns (T,) position in `nodes` of each task. Parts may exceed their node's room.
    """
    import pymetis

    size = len(graph.task_weight)
    if len(nodes) == 1:
        return np.zeros(size, dtype=np.int64)
    order = np.random.default_rng(seed).permutation(size) if shuffle else np.arange(size)
    if shuffle:
        graph = graph.permuted(order)
    room = graph.node_weight[nodes].astype(np.float64)
    spare = room.sum() / max(1.0, float(graph.task_weight.sum())) - 1.0
    options = pymetis.Options(seed=seed, ufactor=int(np.clip(1000 * spare, 1, _LARGEST_FACTOR)))
    equal = room.max() == room.min()
    with c_stdout_silenced():  # METIS complains there of bisections that leave a side empty
        partition = pymetis.part_graph(
            len(nodes),
            pymetis.CSRAdjacency(graph.indptr, graph.other),
            vweights=graph.task_weight,
            eweights=graph.pair_weight,
            tpwgts=None if equal else _shares(room),
            options=options,
            recursive=False,  # bisection with a loose ufactor overloads the parts
        )
    parts = np.empty(size, dtype=np.int64)
    parts[order] = partition.vertex_part
    return parts


def _shares(room: NDArray[np.float64]) -> list[float]:
    shares = room / room.sum()
    shares[-1] = max(0.0, 1.0 - shares[:-1].sum())
    return [float(share) for share in shares]


PRESETS = {
    "deterministic": "DETERMINISTIC",
    "deterministic_quality": "DETERMINISTIC_QUALITY",
    # does not repeat exactly: benchmarks only
    "highest_quality": "HIGHEST_QUALITY",
}


def _package() -> Any:
    try:
        import mtkahypar
    except ImportError:
        raise UnsuitableMethod(
            Problem(
                "--option engine",
                "mtkahypar",
                "needs the package mtkahypar, which is not installed",
                "pip install mtkahypar, or take engine=metis",
            )
        ) from None
    return mtkahypar


@cache
def _initialised(threads: int) -> Any:
    return _package().initialize(threads, False)


def mtkahypar_parts(
    graph: WeightedGraph,
    nodes: NDArray[np.int64],
    fixed: NDArray[np.int64],
    seed: int,
    threads: int,
    preset: str,
) -> NDArray[np.int64]:
    """Partition into one block a node, none heavier than the node's room.

    `fixed`: (T,) position in `nodes` a task is bound to, -1 for free ones.
    `threads`: threads; they do not change the result.
    `preset`: key of `PRESETS`.
    Returns (T,) position in `nodes` of each task.
    Raises `UnsuitableMethod`: the package is not installed.
    """
    package = _package()
    size = len(graph.task_weight)
    if len(nodes) == 1:
        return np.zeros(size, dtype=np.int64)
    engine = _initialised(threads)
    context = engine.context_from_preset(getattr(package.PresetType, PRESETS[preset]))
    context.set_partitioning_parameters(len(nodes), 0.03, package.Objective.CUT)
    context.set_individual_target_block_weights(_limits(graph, nodes).tolist())
    context.logging = False
    package.set_seed(seed)
    row = np.repeat(np.arange(size), np.diff(graph.indptr))
    once = row < graph.other
    edges = list(zip(row[once].tolist(), graph.other[once].tolist(), strict=True))
    weights = graph.pair_weight[once].tolist()
    built = engine.create_graph(
        context, size, len(edges), edges, graph.task_weight.tolist(), weights
    )
    if (fixed >= 0).any():
        built.add_fixed_vertices(fixed.tolist(), len(nodes))
    return np.array(built.partition(context).get_partition(), dtype=np.int64)


def _limits(graph: WeightedGraph, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Room of each block; raised in proportion where rounding left less than all tasks weigh."""
    room = np.maximum(1, graph.node_weight[nodes])
    needed = int(graph.task_weight.sum())
    if int(room.sum()) >= needed:
        return room
    return np.ceil(room * (needed / room.sum())).astype(np.int64) + 1
