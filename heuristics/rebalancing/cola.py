"""`cola`: split the job until a list schedule of the parts is balanced.

All key groups begin as one part. The heaviest part is cut in two by balanced graph partitioning,
again and again, until a longest-processing-time list schedule of the parts on the nodes meets the
load balance asked for. What runs where now does not matter, so nearly everything migrates.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.problem import ListScheduler
from heuristics.rebalancing.albic_sets import balanced_parts
from optim.errors import InvalidInput, Problem
from optim.figures.measures import imc_gain_of, load_distance_of
from optim.kernels.place_rules import distance_room
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import LOADS, Form

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.methods.registry import Request

    Indices = NDArray[np.int64]

_TRIES_PER_SPLIT = 64
"""Beyond this many parts schedules are tried less often: every (parts / 64)-th split."""


POINTS = 10.0
"""Load distance to reach by default, on the scale of methods (mean node load 10 to 100)."""


@dataclass
class Schedule:
    """A list schedule: (T,) node indices (-1 unplaced), its load distance and number of parts."""

    node: Ints
    distance: float
    num_parts: int

    @property
    def complete(self) -> bool:
        """Whether everything is placed."""
        return bool(self.node.min(initial=0) >= 0)


def run(instance: Instance, request: Request) -> Outcome:
    """Split and schedule from scratch; the method's entry point.

    Raises `InvalidInput`: no node stays.
    """
    if not instance.open_nodes.any():
        remedy = "keep at least one node: the mean needs it"
        raise InvalidInput(Problem("nodes", None, "are all leaving", remedy))
    option = request.options["max_load_distance"]
    target = POINTS if option is None else float(option)
    own_limit = instance.limits.max_load_distance
    target = target if own_limit is None else min(target, own_limit)
    best = split_until_balanced(instance, target, request)
    unit = request.scale.of("resource")
    reached, aimed = best.distance * unit, target * unit
    notes = [f"{best.num_parts} parts; load distance {reached:.6g}, target {aimed:g}"]
    if best.distance > _reach(instance, target):
        notes.append("the target is not met by any schedule tried")
    claimed = imc_gain_of(instance, best.node) if best.complete else None
    return Outcome(
        Termination.HEURISTIC, node=best.node, claimed=claimed, notes=notes,
        rank=lambda node, evaluation: (evaluation.load_distance or 0.0,),
    )  # fmt: skip


def split_until_balanced(instance: Instance, target: float, request: Request) -> Schedule:
    """Return the first schedule that meets the target, else the best one.

    Schedules are tried once no part alone would break the target; with very many parts not after
    every split. Everything placed comes before a lower load distance.

    `target`: load distance, units of the first resource.
    `request`: seed, and a time limit after which the best schedule so far stands.
    """
    scheduler = ListScheduler(instance)
    parts = _Parts(instance, request.seed)
    reach = _reach(instance, target)
    highest = _highest_share(instance) + reach
    best: Schedule | None = None
    next_try = 1
    while True:
        split = parts.can_split
        # no schedule can meet the target while one part alone is above it
        if (parts.heaviest <= highest and len(parts) >= next_try) or not split:
            schedule = _scheduled(instance, scheduler, parts)
            if best is None or _rank(schedule) < _rank(best):
                best = schedule
                request.offer(best.node)
            if best.complete and best.distance <= reach:
                return best
            next_try = len(parts) + max(1, len(parts) // _TRIES_PER_SPLIT)
        if not split or request.remaining() == 0.0:
            return best or _scheduled(instance, scheduler, parts)
        parts.split_heaviest()


class _Parts:
    """The parts, heaviest first out."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self._instance = instance
        self._rng = np.random.default_rng(seed)
        self._load = instance.tasks.load[:, 0]
        self._whole: list[tuple[float, int, Indices]] = []
        self._single: list[tuple[float, int, Indices]] = []
        self._add(np.arange(instance.num_tasks, dtype=np.int64))

    def __len__(self) -> int:
        return len(self._whole) + len(self._single)

    def _add(self, members: Indices) -> None:
        entry = (-float(self._load[members].sum()), int(members[0]), members)
        if len(members) > 1:
            heapq.heappush(self._whole, entry)
        else:
            self._single.append(entry)

    @property
    def can_split(self) -> bool:
        """Whether a part has more than one key group."""
        return bool(self._whole)

    @property
    def heaviest(self) -> float:
        """Load of the heaviest part that can still be split; 0 when none can."""
        return -self._whole[0][0] if self._whole else 0.0

    def split_heaviest(self) -> None:
        """Cut the heaviest part with several key groups in two; ties by first key group."""
        members = heapq.heappop(self._whole)[2]
        seed = int(self._rng.integers(2**31))
        weight = self._load[members]
        # METIS wants some weight
        if not weight.any():
            weight = np.ones(len(members))
        for part in balanced_parts(self._instance.adjacency, members, weight, 2, seed):
            self._add(part)

    def all(self) -> list[Indices]:
        """Return every part, by first key group."""
        return [entry[2] for entry in sorted(self._whole + self._single, key=lambda e: e[1])]


def _scheduled(instance: Instance, scheduler: ListScheduler, parts: _Parts) -> Schedule:
    members = parts.all()
    loads = np.array([instance.tasks.load[part].sum(axis=0) for part in members])
    placed = scheduler.place(members, loads)
    node = np.full(instance.num_tasks, -1, dtype=np.int32)
    for part, at in zip(members, placed.tolist(), strict=True):
        node[part] = at
    distance = load_distance_of(instance, node)
    return Schedule(node, np.inf if distance is None else distance, len(members))


def _rank(schedule: Schedule) -> tuple[int, float]:
    return int((schedule.node < 0).sum()), schedule.distance


def _reach(instance: Instance, target: float) -> float:
    """Return a load distance with what may be used of the referee's tolerance."""
    return distance_room(target, instance.due)


def _highest_share(instance: Instance) -> float:
    """Return the largest share of the mean load that a staying node is due."""
    stay = instance.open_nodes
    weight: Floats = instance.nodes.weight[stay]
    return float(weight.max(initial=0.0)) * float(instance.totals[0]) / float(weight.sum())


METHOD = Method(
    name="cola",
    family="rebalancing",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="COLA: split by balanced graph partitioning until a list schedule is balanced",
    source="Khandekar et al. 2009, as in Madsen, Zhou, Cao 2016, sections 2.1 and 5.3",
    needs=("tasks", "nodes", "traffic"),
    forms=LOADS | {Form.DISTANCE, Form.LOCAL_FIRST},
    options=(
        Option(
            "max_load_distance",
            "float",
            None,
            "load distance to reach, units of the first resource; by default 10 where the mean "
            "node load is 10 to 100 (times the same power of ten elsewhere); the instance's own "
            "limit counts too",
            minimum=0.0,
            unit="resource",
        ),
    ),
    promises_feasibility=False,
)
