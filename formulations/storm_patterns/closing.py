"""From the solved master to a proven placement: the columns it may use, in an integer model.

First level: traffic between nodes. The integer model is solved over the columns that lie nearest to
the master's prices; what it finds says how near a column must lie to be of any use, and the model
is solved again with all those. Second level: of the placements that are best so far, the one with
least traffic between slots; its columns carry their numbers of workers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from formulations.storm_patterns.covering import useful
from formulations.storm_patterns.first_plan import FirstPlan
from formulations.storm_patterns.master import Columns, Master
from formulations.storm_patterns.problem import SCALED_TOTAL
from formulations.storm_patterns.splitting import MOST_STEPS, Splitter
from formulations.storm_patterns.states import least_workers
from optim.linear_model import LinearModel
from optim.progress import Progress
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm_patterns.problem import StormProblem
    from optim.registry import Request
    from optim.solvers import LinearSolution

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

FIRST_COLUMNS = 1000
PARTS_ABOVE = 4000
"""Columns that may be of use above which placements are told apart by their empty nodes."""
CUT_ABOVE = 20_000
"""Columns of such a part above which cuts are sought first."""
MOST_COLUMNS = 150_000
SAME = 1e-6
"""Scaled rates that differ by less are the same."""

_CUT_ROUNDS = 12


@dataclass(eq=False)
class Chosen:
    """What the integer models chose: one pattern a node, all classes of nodes in turn.

    Attributes
    ----------
    counts, workers
        (N', C) executors of each class and (N', P) workers on the nodes; ``None`` without a plan.
    node_class
        (N',) class of each node.
    gain, bound
        Traffic inside nodes and its proven upper bound, scaled.
    slot_gain, slot_bound
        The same inside slots; ``None`` where nothing is proven.
    termination
        Of the first level, as the solvers call it.
    parts
        The masters whose placements were looked through.
    """

    termination: str
    bound: float
    counts: Integers | None = None
    workers: Integers | None = None
    node_class: Integers | None = None
    gain: float = 0.0
    slot_bound: float | None = None
    start_accepted: bool | None = None
    solver: str | None = None
    notes: list[str] = field(default_factory=list)
    trace: list[tuple[float, float | None, float | None]] = field(default_factory=list)
    parts: list[Master] = field(default_factory=list)


def close(master: Master, request: Request, start: Columns | None) -> Chosen:
    """Solve the first level.

    Where the columns that may be of use are many, the placements are told apart by how many nodes
    they leave empty: each part has a master of its own, whose bound is nearer.

    Parameters
    ----------
    master
        Solved; cuts may be added to it.
    start
        Columns of a placement that keeps every rule.
    """
    chosen = Chosen("time_limit", master.bound)
    best = _better(master, start, FirstPlan(master).find())
    found = _tell(request, master, chosen, best)
    parts = [master]
    if found is not None and chosen.bound - found > SAME and _needed(master, found) > PARTS_ABOVE:
        parts = _by_empty_nodes(master, found, request)
    open_bounds = {}
    for number, part in enumerate(parts):
        bound, best, stopped = _close_part(part, request, chosen, best)
        open_bounds[number] = bound
        rest = max((p.bound for p in parts[number + 1 :]), default=-np.inf)
        chosen.bound = min(chosen.bound, max(rest, *open_bounds.values()))
        found = _tell(request, master, chosen, best)
        chosen.parts.append(part)
        if stopped not in ("optimal", "infeasible", "gap_reached"):
            chosen.termination = stopped
            break
    else:
        chosen.termination = "infeasible" if best is None else "optimal"
    if best is not None:
        if chosen.start_accepted is None and start is not None:
            chosen.start_accepted = True
        chosen.gain = _gain(master, best)
        chosen.counts = master.counts(best)
        chosen.node_class = best.node_class
        chosen.bound = max(chosen.bound, chosen.gain)
        if chosen.bound - chosen.gain <= SAME:
            chosen.termination = "optimal"
        elif chosen.termination == "optimal":
            chosen.termination = "gap_reached"
    return chosen


def _by_empty_nodes(master: Master, found: float, request: Request) -> list[Master]:
    """Return a solved and tightened master for each number of empty nodes that may do better."""
    nodes = int(master.problem.num_nodes.sum())
    parts = []
    for empty in range(max(0, nodes - int(master.problem.workers.sum())), nodes):
        part = Master(master.problem, master.states)
        part.rows.fix_empty(empty)
        part.run(lambda: request.remaining() == 0.0)
        if part.finished and part.unplaced > SAME:
            continue
        if part.finished and _needed(part, found) > CUT_ABOVE:
            part.cut(_CUT_ROUNDS, lambda: request.remaining() == 0.0)
        if not part.finished or part.bound > found - SAME:
            parts.append(part)
        if request.remaining() == 0.0:
            return [master]
    return sorted(parts, key=lambda part: -part.bound) or [master]


def _close_part(
    master: Master, request: Request, chosen: Chosen, best: Columns | None
) -> tuple[float, Columns | None, str]:
    """Solve one part: its proven bound, the best placement of all so far, and why it stopped."""
    count = FIRST_COLUMNS
    bound = master.bound
    while True:
        found = None if best is None else _gain(master, best)
        if found is not None and bound - found <= SAME:
            return bound, best, "optimal"
        losses = np.sort(np.concatenate(master.losses()))
        gap = float(losses[min(count, len(losses)) - 1]) + SAME
        if found is not None:
            gap = min(gap, max(0.0, master.prices.bound - found) + SAME)
        columns = master.within(gap, MOST_COLUMNS)
        if columns is None:
            chosen.notes.append(
                f"more than {MOST_COLUMNS:,} patterns may be in an optimal placement: the plan is "
                "the best of a part, the bound that of the linear relaxation"
            )
            return bound, best, "iteration_limit"
        columns = useful(master, columns, gap)
        solution = _integer(master, columns, request, best)
        if solution is not None:
            chosen.solver = solution.solver
            stopped = str(solution.termination)
            if solution.x is not None:
                best = _better(master, best, _chosen_columns(columns, solution.x))
            if stopped not in ("optimal", "infeasible", "gap_reached"):
                if solution.message:
                    chosen.notes.append(solution.message)
                return bound, best, stopped
        found = None if best is None else _gain(master, best)
        if found is not None:
            # what uses other columns loses more than the gap
            proven = -np.inf if solution is None else _proven(solution)
            bound = min(bound, max(found, master.prices.bound - gap, proven))
            if _close_enough(request, found, bound):
                return bound, best, "gap_reached"
        if count >= len(losses):
            return (-np.inf if found is None else found), best, "optimal"
        count *= 8


def close_slots(master: Master, request: Request, chosen: Chosen, later: bool) -> None:
    """Give the nodes their workers, by the second level where it can be solved.

    Parameters
    ----------
    chosen
        Of the first level; changed.
    later
        Whether the second level is to be optimised at all.
    """
    problem = master.problem
    assert chosen.counts is not None
    chosen.workers = spread_workers(problem, chosen.counts, chosen.node_class)
    if not later or chosen.termination not in ("optimal", "gap_reached"):
        return
    columns = _of_second_level(chosen)
    if columns is None or request.remaining() == 0.0:
        chosen.notes.append("traffic between slots: best effort, too many patterns to prove it")
        return
    counts, kinds, workers = _with_workers(master, columns)
    splitters = [Splitter(problem, p) for p in range(len(problem.workers))]
    work = sum(s.steps(counts, workers[:, p]) for p, s in enumerate(splitters))
    if len(counts) > MOST_COLUMNS or work > MOST_STEPS:
        chosen.notes.append("traffic between slots: best effort, too many splits to prove it")
        return
    value = np.zeros(len(counts))
    for p, splitter in enumerate(splitters):
        splitter.prepare(counts, workers[:, p])
        value += splitter.gain(counts, workers[:, p])
    keep = np.isfinite(value)
    counts, kinds, workers, value = counts[keep], kinds[keep], workers[keep], value[keep]
    solution = _second_level(master, request, chosen, counts, kinds, workers, value)
    if solution.x is None:
        chosen.notes.append(f"traffic between slots: best effort, {solution.termination}")
        return
    repeat = np.repeat(np.arange(len(counts)), np.round(solution.x).astype(np.int64))
    chosen.counts, chosen.workers = counts[repeat], workers[repeat]
    chosen.node_class = kinds[repeat]
    chosen.slot_bound = solution.bound
    if str(solution.termination) != "optimal":
        chosen.notes.append(f"traffic between slots: stopped by {solution.termination}")


def _of_second_level(chosen: Chosen) -> Columns | None:
    """Return all columns of placements that are as good as the best; ``None`` if too many."""
    keys: set[tuple[int, int]] = set()
    for part in chosen.parts:
        gap = part.prices.bound - chosen.gain + SAME
        near = part.within(gap, MOST_COLUMNS) if gap >= 0 else None
        if gap < 0:
            continue
        if near is None:
            return None
        keys.update(_keys(useful(part, near, gap)))
    table = np.array(sorted(keys), dtype=np.int64).reshape(-1, 2)
    return Columns(table[:, 0], table[:, 1])


def spread_workers(
    problem: StormProblem, counts: Integers, node_class: Integers | None
) -> Integers:
    """(N', P) workers of nodes with these counts: exact for every topology, within the slots."""
    from optim.solvers.inprocess import solve_lp

    held = np.stack([counts[:, problem.job == p].sum(axis=1) for p in range(len(problem.workers))])
    slots = problem.slots[node_class]
    low = least_workers(problem, held.astype(np.int16)).astype(np.float64)
    high = np.minimum(held, slots[None, :]).astype(np.float64)
    jobs, nodes = held.shape
    matrix = np.vstack(
        [np.kron(np.eye(jobs), np.ones(nodes)), np.kron(np.ones(jobs), np.eye(nodes))]
    )
    lower = np.concatenate([problem.workers, np.full(nodes, -np.inf)]).astype(np.float64)
    upper = np.concatenate([problem.workers, slots]).astype(np.float64)
    # a transport problem: its vertices are whole
    answer = solve_lp(np.zeros(jobs * nodes), matrix, lower, upper, low.ravel(), high.ravel())
    if answer.x is None:
        raise ValueError("no whole workers for these counts")
    return np.round(answer.x).astype(np.int64).reshape(jobs, nodes).T


def _second_level(
    master: Master,
    request: Request,
    chosen: Chosen,
    counts: Integers,
    kinds: Integers,
    workers: Integers,
    value: Floats,
) -> LinearSolution:
    """Choose columns with workers: no more traffic between nodes, least between slots."""
    problem = master.problem
    model = LinearModel("storm slots", sense="max")
    _use_variables(model, problem, kinds, value, request)
    on = kinds[None, :] == np.arange(len(problem.nodes))[:, None]
    gain = master.states.gain[master.states.number(counts)]
    equal = np.concatenate([problem.size, problem.num_nodes, problem.workers]).astype(np.float64)
    model.add_matrix_rows("all", np.vstack([counts.T, on, workers.T]), equal, equal)
    model.add_matrix_rows("first level", gain[None, :], [chosen.gain - SAME], [np.inf])
    return _solved(model, request)


def _with_workers(master: Master, columns: Columns) -> tuple[Integers, Integers, Integers]:
    """Return counts, node classes and workers: each column once for every choice of workers."""
    problem = master.problem
    state = master.state_of(columns)
    counts, of_job = master.states.counts(state), master.states.of_job[:, state]
    low = least_workers(problem, of_job).astype(np.int64)
    slots = problem.slots[columns.node_class]
    high = np.minimum(of_job.astype(np.int64), slots)
    most = (high - low).max(axis=1, initial=0)
    parts = []
    for extra in np.ndindex(*(int(m) + 1 for m in most)):
        workers = low + np.array(extra, dtype=np.int64)[:, None]
        valid = np.flatnonzero((workers <= high).all(axis=0) & (workers.sum(axis=0) <= slots))
        parts.append((counts[valid], columns.node_class[valid], workers[:, valid].T))
    table = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return table[0], table[1], table[2]


def _integer(
    master: Master, columns: Columns, request: Request, best: Columns | None
) -> LinearSolution | None:
    """Choose among the columns; ``None`` where there are none."""
    if not len(columns):
        return None
    model = LinearModel("storm nodes", sense="max")
    gain = master.states.gain[master.state_of(columns)]
    _use_variables(model, master.problem, columns.node_class, gain, request)
    lower, upper = master.bounds()
    model.add_matrix_rows("rows", master.matrix(columns), lower, upper)
    start = None
    if best is not None:
        start = np.zeros(len(columns))
        index = {key: i for i, key in enumerate(_keys(columns))}
        for key in _keys(best):
            if key not in index:
                start = None
                break
            start[index[key]] += 1.0
    return _solved(model, request, start)


def _use_variables(
    model: LinearModel, problem: StormProblem, kinds: Integers, value: Floats, request: Request
) -> None:
    most = problem.num_nodes[kinds].astype(np.float64)
    model.add_variables("use", len(kinds), upper=most, integer=True, objective=value)


def _solved(model: LinearModel, request: Request, start: Floats | None = None) -> LinearSolution:
    return solve_linear(
        model,
        request.solver or "highs",
        time_limit=request.remaining(),
        seed=request.seed,
        threads=request.threads,
        warm_start=start,
    )


def _keys(columns: Columns) -> list[tuple[int, int]]:
    return list(zip(columns.node_class.tolist(), columns.position.tolist(), strict=True))


def _chosen_columns(columns: Columns, x: Floats) -> Columns:
    repeat = np.repeat(np.arange(len(columns)), np.round(x).astype(np.int64))
    return Columns(columns.node_class[repeat], columns.position[repeat])


def _better(master: Master, start: Columns | None, other: Columns | None) -> Columns | None:
    """Return the placement with more traffic inside nodes; the start if they tie."""
    if start is None or other is None:
        return other if start is None else start
    return other if _gain(master, other) > _gain(master, start) + SAME else start


def _gain(master: Master, columns: Columns) -> float:
    return float(master.states.gain[master.state_of(columns)].sum())


def _needed(master: Master, found: float) -> int:
    """How many columns may be in something better than what was found."""
    return sum(int((loss <= master.prices.bound - found + SAME).sum()) for loss in master.losses())


def _proven(solution: LinearSolution) -> float:
    """Return the bound that the solver proved for its columns."""
    if str(solution.termination) == "infeasible":
        return -np.inf
    return np.inf if solution.bound is None else solution.bound


def _close_enough(request: Request, found: float, bound: float) -> bool:
    """Whether the gap that was asked for is reached, in traffic between nodes."""
    if request.gap is None:
        return bound - found <= SAME
    between = max(SCALED_TOTAL - found, 1e-300)
    return (bound - found) / between <= request.gap


def _tell(request: Request, master: Master, chosen: Chosen, best: Columns | None) -> float | None:
    """Tell traffic between nodes and its bound; return the scaled traffic inside nodes."""
    scale = master.problem.scale
    found = None if best is None else _gain(master, best)
    incumbent = None if found is None else (SCALED_TOTAL - found) * scale
    moment = (request.elapsed(), incumbent, (SCALED_TOTAL - chosen.bound) * scale)
    chosen.trace.append(moment)
    if request.progress is not None:
        request.progress(Progress(*moment, "patterns"))
    return found
