"""`albic`: load balance with collocation on top of the MILP, one pair of key groups a round.

Pairs that send to one another more than the average are worth collocating. Those that are together
stay so: they move as indivisible units, split where a unit would be too heavy or too costly to
move. Of those apart the one with most traffic is pinned to one node. Then the MILP balances the
units; where that fails the load balance asked for, units are split finer, down to single key
groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.rebalancing.balance.milp import METHOD as BALANCE_MILP
from formulations.rebalancing.balance.milp import PUBLISHED, solve_balance
from formulations.rebalancing.balance.model import Settings
from formulations.rebalancing.balance.search import best_start, prepare_balance, warm_up
from formulations.rebalancing.bound import impossible
from formulations.rebalancing.problem import balance_problem, note_infeasible
from heuristics.rebalancing.albic_sets import (
    PartLimits,
    Pins,
    Units,
    beneficial_pairs,
    choose_pins,
    merge_pairs,
    split_sets,
)
from optim.errors import SolverError
from optim.figures.measures import imc_gain_of
from optim.kernels.place_rules import distance_room
from optim.methods.reduce import shuffled_evenly
from optim.methods.registry import Method, Option, Outcome
from optim.referee import Termination
from optim.rules.base import Form

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from formulations.rebalancing.problem import BalanceProblem, Ints
    from heuristics.rebalancing.albic_sets import DirectedPairs
    from optim.format.instance import Instance
    from optim.methods.reduce import Scale
    from optim.methods.registry import Request

GAP = 1.0  # Load distance within which the MILP need not go on proving, on the scale of methods.


class UnitSolver:
    """Solves the balance MILP over units, within the time of a request.

    `request`: back end, time limit, seed, threads and the option ``balance_gap``.
    `build_seconds`: spent on building models so far.
    `notes`: what a reader of the result should know.
    `name`: name and version of the back end that ran last; ``None`` while none was needed.
    `stopped`, `interrupted`: whether time is up or the user interrupted: no further round; whether
        it was the user.
    `proven_infeasible`: whether the last model was shown to have no solution.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self.build_seconds = 0.0
        self.notes: list[str] = []
        self.name: str | None = None
        self.stopped = False
        self.interrupted = False
        self.proven_infeasible = False

    def solve(self, units: Units, pins: Pins) -> Ints | None:
        """Return the balanced placement of the key groups, pinned pairs on their nodes.

        Where the pins leave no solution, they are dropped for this round, and that is noted.

        Returns
        -------
        ndarray or None
            (T,) node indices; ``None`` when there is none. Interrupted before there was one:
            staying.

        Raises
        ------
        SolverError
            A plan breaks a limit of the single key groups.
        """
        node_of_unit = self._solved(units, pins.node_of)
        # step 3 pins by traffic alone: the pins may be what leaves no solution
        if node_of_unit is None and pins.node_of and not self.stopped:
            self.notes.append("the pinned pairs left no solution and were let go")
            pins.pairs.clear()
            node_of_unit = self._solved(units, {})
        if node_of_unit is None:
            home = units.problem.home
            if self.interrupted and units.problem.is_feasible(home):
                pins.pairs.clear()
                return home
            return None
        placement = units.spread(node_of_unit)
        if not units.problem.is_feasible(placement):
            raise SolverError(f"{self.name}: its plan of units breaks a limit of their key groups")
        return placement

    def _solved(self, units: Units, pins: Mapping[int, int]) -> Ints | None:
        """Search, bound, and let the MILP close what is left of the gap."""
        request, problem = self._request, units.merged(pins)
        gap = request.options["balance_gap"]
        settings = Settings.of(
            request,
            gap=GAP if gap is None else float(gap),
            offer=lambda placement: request.offer(units.spread(placement).astype(np.int32)),
        )
        prepared = prepare_balance(problem, settings)
        starts = [*prepared.starts, problem.home]
        if prepared.interrupted:
            self.interrupted = self.stopped = True
            return best_start(problem, starts)
        answer = solve_balance(problem, settings, starts, prepared.bound)
        self.build_seconds += answer.build_seconds
        self.name = answer.solver or self.name
        self.notes += [note for note in answer.notes if note not in self.notes]
        ended = {level.termination for level in answer.levels}
        self.interrupted |= "interrupted" in ended
        self.stopped |= self.interrupted or request.remaining() == 0.0
        self.proven_infeasible = answer.placement is None and "infeasible" in ended
        return answer.placement


POINTS = 10.0
"""maxLD by default, on the scale of methods: percent points where the mean load is some tens."""

PART_LOAD_STEP = 5.0
"""What maxPL is lowered by while maxLD is not met, in percent of a node's capacity."""

UNBOUNDED = 100.0
"""What a node without a capacity is taken to hold, on the same scale: loads are its percents."""


@dataclass(frozen=True)
class Round:
    """One round of steps 2 to 4: what was tried, and what came out."""

    part_load: float  # maxPL in percent of a node's capacity.
    num_units: int  # Indivisible units of more than one key group.
    pairs: tuple[tuple[int, int], ...]  # Pinned pairs.
    #: (T,) of the key groups; ``None`` when the MILP has no solution, or none was found in time.
    placement: Ints | None
    distance: float  # Its load distance.
    proven_infeasible: bool  # Whether the MILP was shown to have none.


def run(instance: Instance, request: Request) -> Outcome:
    """Run ALBIC for one period; the method's entry point.

    Raises `UnsuitableMethod`: a task that stands on a staying node may be on leaving ones only.
    Raises `SolverError`: a solver's claim does not survive our own count.
    """
    request, compiled = request.warmed(warm_up)
    solver = UnitSolver(request)
    problem = balance_problem(instance, "albic")
    if impossible(instance, problem):
        return Outcome(Termination.INFEASIBLE)
    rounds = plan_rounds(instance, problem, solver, request.options, request.seed)
    best = min(
        (r for r in rounds if r.placement is not None), key=lambda r: r.distance, default=None
    )
    # the last round is taken where it meets maxLD, though one before may be more even
    accepted = max_distance_of(instance, request.options)
    if rounds[-1].placement is not None and rounds[-1].distance <= accepted:
        best = rounds[-1]
    build = solver.build_seconds
    times = {"compile": compiled, "build": build, "solve": request.elapsed() - build}
    if best is None or best.placement is None:
        proven = rounds[-1].proven_infeasible and rounds[-1].part_load == 0
        termination = Termination.INFEASIBLE if proven else Termination.HEURISTIC
        termination = Termination.INTERRUPTED if solver.interrupted else termination
        notes = [note_infeasible(problem)] if proven else []
        return Outcome(termination, notes=[*notes, *solver.notes], times=times)
    node = best.placement.astype(np.int32)
    return Outcome(
        Termination.INTERRUPTED if solver.interrupted else Termination.HEURISTIC,
        node=node,
        claimed=imc_gain_of(instance, node),
        notes=[
            *_notes_of_rounds(instance, problem, rounds, best, accepted, request.scale),
            *solver.notes,
        ],
        times=times,
        solver=solver.name,
        rank=lambda node, evaluation: (evaluation.load_distance or 0.0,),
    )


def plan_rounds(
    instance: Instance,
    problem: BalanceProblem,
    solver: UnitSolver,
    options: Mapping[str, Any],
    seed: int,
) -> list[Round]:
    """Run steps 1 to 4 and return every round; the last one ended it."""
    rng = np.random.default_rng(seed)
    pairs = beneficial_pairs(instance, float(options["score_factor"]))
    # step 1 has scored the pairs; step 2 joins those that are together, step 3 pins one apart
    together = problem.home[pairs.source] == problem.home[pairs.target]
    # a key group that may not stay takes no other along
    free = ~(problem.must_move[pairs.source] | problem.must_move[pairs.target])
    sets = merge_pairs(pairs.where(together & free), problem.num_tasks)
    apart = pairs.where(~together)
    accepted = max_distance_of(instance, options)
    rounds: list[Round] = []
    part_load = float(options["max_part_load"])
    # steps 2 to 4, with maxPL lowered until the load distance is met
    while True:
        rounds.append(_round(instance, problem, sets, apart, solver, part_load, options, rng))
        last = rounds[-1]
        target_met = last.placement is not None and last.distance <= accepted
        if target_met or part_load <= 0 or solver.stopped:
            return rounds
        part_load = max(0.0, part_load - PART_LOAD_STEP)


def max_distance_of(instance: Instance, options: Mapping[str, Any]) -> float:
    """Return maxLD in units of the first resource, the instance's own limit included."""
    option = options["max_load_distance"]
    limit = POINTS if option is None else float(option)
    own_limit = instance.limits.max_load_distance
    limit = limit if own_limit is None else min(limit, own_limit)
    return distance_room(limit, instance.due)


def _round(
    instance: Instance,
    problem: BalanceProblem,
    sets: list[np.ndarray[Any, Any]],
    apart: DirectedPairs,
    solver: UnitSolver,
    part_load: float,
    options: Mapping[str, Any],
    rng: np.random.Generator,
) -> Round:
    """Split, pin, solve; at maxPL = 0 the pure MILP over single key groups."""
    parts: list[np.ndarray[Any, Any]] = []
    if part_load > 0:
        limits = PartLimits.of(problem, part_load / 100.0 * node_capacity(instance))
        parts = split_sets(instance, sets, limits, rng)
    units, pins = Units.of(problem, parts), Pins()
    if part_load > 0:
        pins = choose_pins(units, apart, int(options["pairs_per_round"]), rng)
    answer = solver.solve(units, pins)
    distance = np.inf if answer is None else problem.levels(answer).distance
    return Round(
        part_load,
        int((units.size > 1).sum()),
        tuple(pins.pairs),
        answer,
        float(distance),
        solver.proven_infeasible,
    )


def node_capacity(instance: Instance) -> float:
    """Return what a staying node holds of the balanced resource on average, maxPL's hundred."""
    capacity = instance.nodes.capacity[instance.open_nodes, 0]
    return float(capacity.mean()) if np.isfinite(capacity).all() else UNBOUNDED


def mean_node_load(problem: BalanceProblem) -> float:
    """Return the load of the balanced resource, background included, by number of staying nodes."""
    return float((problem.load.sum() + problem.background.sum()) / len(problem.staying))


def _notes_of_rounds(
    instance: Instance,
    problem: BalanceProblem,
    rounds: list[Round],
    best: Round,
    accepted: float,
    scale: Scale,
) -> list[str]:
    """Say what the rounds did and how maxPL and maxLD were read."""
    mean = mean_node_load(problem)
    ids = instance.tasks.ids
    pinned = ", ".join(f"{ids[a]} with {ids[b]}" for a, b in best.pairs[:5]) or "no pair"
    share = f" ({100 * accepted / mean:.3g} % of the mean node load)" if mean > 0 else ""
    unit = scale.of("resource")
    notes = [
        f"maxPL {best.part_load:g} % of a node's capacity: {best.num_units} units of several key "
        f"groups; {pinned} pinned; {len(rounds)} rounds",
        f"maxLD {accepted * unit:.6g}{share}: load distance {best.distance * unit:.6g}",
    ]
    if best.distance > accepted:
        notes.append("maxLD is not met even by single key groups")
    return notes


METHOD = Method(
    name="albic",
    family="rebalancing",
    kind="heuristic",
    objective="imc_gain",
    run=shuffled_evenly(run),
    summary="ALBIC: collocated key groups move together, one more pair a round, MILP for balance",
    source="Madsen, Zhou, Cao 2016, section 4.3.2, steps 1 to 4",
    needs=("tasks", "nodes", "traffic"),
    forms=PUBLISHED | {Form.LOCAL_FIRST},
    options=(
        Option(
            "score_factor",
            "float",
            1.5,
            "sF: a pair counts when it carries more than sF times the sender's average",
            minimum=0.0,
        ),
        Option(
            "max_load_distance",
            "float",
            None,
            "maxLD in units of the first resource; by default 10 where the mean node load is 10 "
            "to 100 (times the same power of ten elsewhere); the instance's own limit counts too",
            minimum=0.0,
            unit="resource",
        ),
        Option(
            "max_part_load",
            "float",
            25.0,
            "maxPL to begin with: most load of a unit, in percent of a node's capacity (of 100 "
            "where nodes have none and the mean node load is 10 to 100)",
            minimum=0.0,
        ),
        Option("pairs_per_round", "int", 1, "pairs to pin; the paper pins one", minimum=0),
        Option(
            "balance_gap",
            "float",
            None,
            "load distance within which the MILP need not go on proving; by default a tenth of "
            "maxLD's default",
            minimum=0.0,
            unit="resource",
        ),
    ),
    solvers=BALANCE_MILP.solvers,
    default_solver=BALANCE_MILP.default_solver,
    promises_feasibility=True,
)
