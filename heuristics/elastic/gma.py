"""``gma``: the Greedy Matching Algorithm of the Elastic Allocator.

Nodes are classed by the larger of their CPU and bandwidth use: light below 40 %, moderate below
80 %, heavy from there (the paper's three; other numbers share what is below 80 % evenly). Each
operator, in topological order, goes to the node that holds it and serves the objective best; equals
go to the lighter class. Passes over all operators repeat until nothing changes. Operators without a
node go evenly onto the light nodes, by best effort.

Source: "Elastic Allocator: An Adaptive Task Scheduler for Streaming Query in the Cloud", SOSE 2014,
Algorithm 1, doi:10.1109/SOSE.2014.40.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from heuristics.elastic.state import Board, board_of
from optim.figures.measures import node_loads
from optim.methods.registry import Method, Option, Outcome
from optim.referee.result import Termination
from optim.rules.base import LOADS, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.methods.registry import Request

_NAMED = 20


class Allocation:
    """An allocation in the making: where operators stand, and what nodes and links carry."""

    def __init__(
        self, instance: Instance, board: Board, objective: int, num_classes: int = 3
    ) -> None:
        from heuristics.elastic.gma_kernel import Fixed, State

        self.instance, self.board, self.objective = instance, board, objective
        self.num_classes = num_classes
        placed = board.fixed.astype(np.int32)
        self.state = State(
            board.fixed.copy(),
            node_loads(instance, placed),
            np.bincount(placed[placed >= 0], minlength=instance.num_nodes),
            running_traffic(instance, placed),
            np.zeros(len(board.link_room), dtype=np.bool_),
        )
        starts, partner, rate = instance.partners
        self.fixed = Fixed(
            board.order, board.fixed, board.kind, board.target, instance.tasks.load,
            starts.astype(np.int64), partner.astype(np.int64), rate,
            instance.nodes.capacity[:, 0].copy(), board.room + instance.nodes.background,
            instance.open_nodes, board.link_indptr, board.link_of, instance.links.capacity,
            board.link_room,
        )  # fmt: skip

    def run_pass(self) -> int:
        """Take every operator once; return how many were placed or moved."""
        from heuristics.elastic.gma_kernel import one_pass

        return int(one_pass(self.fixed, self.state, self.objective, self.num_classes))

    def classes(self) -> NDArray[np.int64]:
        """(N,) class of each node, from 0 for light."""
        from heuristics.elastic.gma_kernel import classes

        return np.asarray(classes(self.fixed, self.state, self.num_classes))

    def place_tail(self) -> list[int]:
        """Put what has no node evenly on the lightest class it may go to; return those tasks.

        A task that may go nowhere stays without a node.
        """
        board = self.board
        tail = [int(t) for t in board.order if self.state.node[t] < 0]
        if not tail:
            return tail
        weight, taken = self.classes(), np.zeros(self.instance.num_nodes, dtype=np.int64)
        for t in tail:
            may = np.flatnonzero(board.target[board.kind[t]])
            if not len(may):
                continue
            light = may[weight[may] == weight[may].min()]
            chosen = light[np.argmin(taken[light])]
            self.state.node[t] = chosen
            taken[chosen] += 1
        return tail


def running_traffic(instance: Instance, node: Ints) -> Floats:
    """(L,) background + traffic between running tasks that crosses each link.

    Traffic with a task that has no node yet is nowhere.
    """
    links, (u, v, rate) = instance.links, instance.pairs
    loads = links.background.copy()
    between = (node[u] >= 0) & (node[v] >= 0) & (node[u] != node[v])
    if not between.any():
        return loads
    here, there, rate = node[u[between]], node[v[between]], rate[between]
    behind = np.zeros(instance.num_nodes, dtype=np.bool_)
    for i, (start, stop) in enumerate(pairwise(links.node_indptr)):
        members = links.node_indices[start:stop]
        behind[members] = True
        loads[i] += rate[behind[here] != behind[there]].sum()
        behind[members] = False
    return loads


def run(instance: Instance, request: Request) -> Outcome:
    """Allocate; a time limit stands for the paper's t_max and is looked at between passes."""
    request, compiling = request.warmed(warm_up)
    began = time.perf_counter()
    board = board_of(instance)
    objective = _CODES[request.objective or METHOD.objective]
    allocation = Allocation(instance, board, objective, request.options["classes"])
    built = time.perf_counter() - began
    passes, left = 0, True
    while left and passes < request.options["max_passes"]:
        remaining = request.remaining()
        if passes and remaining is not None and remaining <= 0:
            break
        left = allocation.run_pass() > 0
        passes += 1
    tail = allocation.place_tail()
    return Outcome(
        Termination.HEURISTIC,
        node=allocation.state.node.astype(np.int32),
        notes=[f"{passes} passes", *_notes(instance, tail)],
        times={"compile": compiling, "build": built},
    )


def _notes(instance: Instance, tail: list[int]) -> list[str]:
    """Name the best-effort tail, and operators that receive more than they can serve."""
    notes = []
    if tail:
        names = ", ".join(instance.tasks.ids[t] for t in tail[:_NAMED])
        more = f" and {len(tail) - _NAMED} more" if len(tail) > _NAMED else ""
        notes.append(f"best effort: no node held {len(tail)} of the tasks: {names}{more}")
    return [*notes, *overloaded(instance)]


def overloaded(instance: Instance) -> list[str]:
    """Name the operators whose tuple rate is above their service rate, r_j / s_j > 1."""
    table = instance.operators
    known = np.isfinite(table.tuple_rate) & np.isfinite(table.service_rate)
    found = np.flatnonzero(known & (table.tuple_rate > table.service_rate * (1 + 1e-9)))
    return [
        f"operator {table.ids[o]} is overloaded: it receives {table.tuple_rate[o]:.6g} tuples/s "
        f"and serves {table.service_rate[o]:.6g}"
        for o in found[:_NAMED]
    ]


def warm_up() -> None:
    """Compile the kernels, or load them from the cache, on a tiny job."""
    from optim.format.instance import Instance

    tiny = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "tiny",
            "nodes": [{"id": "n", "capacity": {"cpu": 1}}, {"id": "m", "capacity": {"cpu": 1}}],
            "tasks": [{"id": "t", "load": {"cpu": 1}}, {"id": "u", "load": {"cpu": 1}}],
            "traffic": [["t", "u", 1]],
        }
    )
    for code in _CODES.values():
        allocation = Allocation(tiny, board_of(tiny), code)
        allocation.run_pass()
        allocation.classes()


_CODES = {"used_capacity": 0, "cpu_deviation": 1, "resource_deviation": 2}
"""What is optimised to the kernel's number of it: fill few nodes, then least traffic; R_dev of the
CPU; or R_dev of CPU and links together."""

METHOD = Method(
    name="gma",
    family="elastic allocator",
    kind="heuristic",
    objective="used_capacity",
    objectives=tuple(_CODES),
    run=run,
    summary="Greedy matching: each operator to the node that serves the objective best, in passes",
    source="Elastic Allocator, SOSE 2014, Algorithm 1",
    needs=("tasks", "nodes", "capacity"),
    forms=LOADS | {Form.LINK_CAPACITY},
    options=(
        Option(
            "max_passes",
            "int",
            20,
            "passes over all operators at most; 0 leaves all to the best effort",
            minimum=0,
        ),
        Option("classes", "int", 3, "classes of nodes by their use", minimum=2, maximum=100),
    ),
    promises_feasibility=False,
)
