"""Several methods in the time given: the best checked plan, the best bound, and who gave them.

An exact first choice has the larger part of the time, so that what is small is proven at once and
no clock decides between plans. Where it ends without a proof, searches and heuristics of the same
objective follow; they end by themselves. The rest is the exact methods', from the best plan so far.

With several threads the others run in forked processes meanwhile. Each returns its runs, whole or
interrupted, as Ctrl-C would end them. A process that has run what it was given goes on with the
first search from other seeds, until a number of runs gain nothing: this bounds the work. A search
that is asked for by name runs side by side in the same way.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from optim.errors import InvalidInput, SolverError, UnsuitableMethod
from optim.figures.catalogue import find_objective
from optim.methods.choose import Choice, choices
from optim.methods.registry import get_method
from optim.referee import Result, Termination
from optim.util.process import Forked, may_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.methods.registry import Settings
    from optim.util.progress import Progress

PORTFOLIO = "portfolio"  # Asked for as a method is; no method of that name is registered.
SECONDS = 10.0  # Of a portfolio that is given no time limit.
_FIRST = 0.6  # Share of the time that an exact first choice has before others are tried.
_SEARCH = 0.35  # Share of the time that each search has at most.
_DELAY = 0.3
"""Seconds before other processes begin: what is small is proven by then, and they cost nothing."""
_LATE = 3.0  # Seconds that another process may be late, for judging its plans.
_GRACE = 2.0  # Seconds that it has after an interrupt; solvers have 0.8 of them.
_IDLE_RUNS = 8  # Runs of a search from other seeds without any gain before a process ends.
_DONE = (Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE)


class _Run(NamedTuple):
    """A method that was tried, its seconds, and what came out."""

    name: str
    seconds: float
    result: Result


class _Turn(NamedTuple):
    """A method to run, for which share of the time, and what is added to the seed.

    `again`: it ran before, and goes on only if its time was over. `step`: it is run again and
    again, with so much more added to the seed each time; 0 for once.
    """

    choice: Choice
    share: float
    again: bool = False
    seed: int = 0
    step: int = 0


def run_portfolio(
    relaxed: Instance, solve_one: Callable[..., Result], settings: Settings
) -> Result | None:
    """Try the suited methods, and return the best plan with the best bound.

    `relaxed`: the instance without the limits that are ignored.
    `solve_one`: solves by one method: takes a `Choice`, `time_limit`, `warm_start` and `progress`,
        and what else of `Settings` is to change.
    `settings`: only methods that can optimise its objective, by default that of the first choice;
        its time limit, or `SECONDS`, is for all methods together. With more than one of its
        `threads`, so many methods run side by side in processes.
    Returns ``None`` where there is nothing to choose from: one method, or none without repair.
    Raises `SolverError`: a plan of one method beats the proven bound of another.
    """
    limit = SECONDS if settings.time_limit is None else settings.time_limit
    objective = None if settings.objective is None else find_objective(settings.objective).name
    suited = _suited(relaxed, limit, objective, settings.prefer)
    if len(suited) < 2:
        return None
    figure = find_objective(get_method(suited[0].name).aimed_at(objective or "").objective)
    portfolio = _Portfolio(relaxed, solve_one, settings, figure, limit)
    workers = settings.threads or 1
    if workers > 1 and may_fork():
        portfolio.side_by_side(suited, workers)
    else:
        portfolio.in_turn(_order(suited), limit)
    return _result(figure, relaxed, portfolio)


def run_seeds(
    relaxed: Instance,
    solve_one: Callable[..., Result],
    settings: Settings,
    choice: Choice,
    figure: Figure,
) -> Result | None:
    """Run a search side by side from several seeds, as many as threads; return the best plan.

    `settings`: the first process has its seed, and so the plan is no worse than with one thread.
        With a time limit each goes on from other seeds while that gains something.
    `choice`, `figure`: the search, and what it optimises.
    Returns ``None`` where no run came to a result.
    """
    limit = float("inf") if settings.time_limit is None else settings.time_limit
    portfolio = _Portfolio(relaxed, solve_one, settings, figure, limit)
    workers = settings.threads or 1
    step = 0 if settings.time_limit is None else workers
    lanes = [[_Turn(choice, 1.0, seed=i, step=step)] for i in range(workers)]
    portfolio.run_lanes(lanes)
    if _best(figure, relaxed, portfolio.runs) is None:
        return portfolio.runs[-1].result if portfolio.runs else None
    return _result(figure, relaxed, portfolio)


class _Portfolio:
    """The methods tried so far, and the clock that all of them share."""

    def __init__(
        self,
        relaxed: Instance,
        solve_one: Callable[..., Result],
        settings: Settings,
        figure: Figure,
        limit: float,
    ) -> None:
        self.relaxed, self.settings, self.figure, self.limit = relaxed, settings, figure, limit
        self._solve_one = solve_one
        self.began = time.perf_counter()
        self.runs: list[_Run] = []
        self.stopped, self.workers = False, 1
        self._compiled = 0.0  # seconds, in this process

    @property
    def done(self) -> bool:
        """Whether no further run can change the answer."""
        return any(
            run.result.termination in _DONE or _fixed(self.figure, self.relaxed, run)
            for run in self.runs
        )

    def in_turn(self, turns: Sequence[_Turn], until: float) -> None:
        """Run methods one after another, each from the best plan so far, until so many seconds."""
        for turn in self._with_repeats(turns):
            spent = self._spent()
            # judging a plan takes its time after the method has ended: as long as the others' took
            left = (
                until - spent - max((r.result.times.get("check", 0) for r in self.runs), default=0)
            )
            if left <= 0 or self.stopped or self.done:
                break
            if turn.again and _idle(self.runs, turn.choice):
                continue
            try:
                self._run(turn, left, spent)
            except (UnsuitableMethod, InvalidInput):  # some find out only while they run
                continue
            except KeyboardInterrupt:
                self.stopped = True
                if not any(run.result.feasible for run in self.runs):
                    raise

    def _with_repeats(self, turns: Sequence[_Turn]) -> Iterator[_Turn]:
        """Yield the turns, those with a step again from other seeds while they gain something."""
        for turn in turns:
            yield turn
            idle = 0
            while turn.step and idle < _IDLE_RUNS:
                count, before = len(self.runs), _best(self.figure, self.relaxed, self.runs)
                turn = turn._replace(seed=turn.seed + turn.step)
                yield turn
                if len(self.runs) == count:  # it cannot run
                    break
                best = _best(self.figure, self.relaxed, self.runs)
                idle = idle + 1 if best is before else 0

    def _run(self, turn: _Turn, left: float, spent: float) -> None:
        """Run one method, from the best plan so far where it takes one."""
        best, choice = _best(self.figure, self.relaxed, self.runs), turn.choice
        takes = best is not None and get_method(choice.name).takes_warm_start
        repeated = any(run.name == choice.name for run in self.runs)
        changes: dict[str, Any] = (
            {} if not turn.seed else {"seed": (self.settings.seed + turn.seed) % 2**31}
        )
        started = time.perf_counter()
        result = self._solve_one(
            choice,
            time_limit=min(left, turn.share * self.limit) if left < float("inf") else None,
            warm_start=best.result.plan if best is not None and takes else self.settings.warm_start,
            progress=_shifted(self.settings.progress, choice.name, spent),
            chosen=None if turn.step and repeated else self.settings.chosen,
            threads=self.settings.threads,
            **changes,
        )
        self.stopped |= result.termination is Termination.INTERRUPTED
        self._compiled += result.times.get("compile", 0.0)
        self.runs.append(_Run(choice.name, time.perf_counter() - started, result))

    def _spent(self) -> float:
        """Seconds so far, without those of compiling kernels."""
        return time.perf_counter() - self.began - self._compiled

    def side_by_side(self, suited: list[Choice], workers: int) -> None:
        """Run methods in so many processes: this one has the exact methods, where there are some.

        An exact first choice runs here and the others in forked processes; then, from the best plan
        of all, exact methods here and searches from other seeds there. After another first choice
        the exact methods follow here at once.
        What ends here with a proof, or before others begin, depends on no other process.
        """
        exact = get_method(suited[0].name).kind == "exact"
        self.run_lanes(_lanes(suited, workers), _FIRST if exact else 1.0)
        if exact:
            self.run_lanes(_further(suited, workers, self.runs))

    def run_lanes(self, lanes: list[list[_Turn]], share: float = 1.0) -> None:
        """Run each lane in a process with one thread, until a share of the time is over."""
        self.settings, self.workers = replace(self.settings, threads=1), len(lanes)
        self._stage(lanes, share * self.limit)

    def _stage(self, lanes: list[list[_Turn]], until: float) -> None:
        """Run each lane in a process, the first one here; no interrupt loses the others' plans."""
        if self.done or self.stopped or self._spent() >= until:
            return
        others = [Forked(partial(self._lane, lane, until), _DELAY) for lane in lanes[1:] if lane]
        try:
            try:
                self.in_turn(lanes[0], until)
            except KeyboardInterrupt:
                self.stopped = True
            if self.done:
                return
            for other in others if self.stopped else ():
                other.interrupt()
            runs = []
            for other in others:
                runs += self._answer(other, until)
            self.runs[:0] = runs  # the end of what ran here says how the whole ended
            self.stopped |= any(r.result.termination is Termination.INTERRUPTED for r in runs)
        finally:
            for other in others:
                other.end()
        if self.stopped and not any(run.result.feasible for run in self.runs):
            raise KeyboardInterrupt

    def _answer(self, other: Forked[list[_Run]], until: float) -> list[_Run]:
        """Wait for the runs of another process; what is late is interrupted, as by Ctrl-C."""
        runs = None
        try:
            if not self.stopped:
                left = until - self._spent()
                runs = other.answer(None if left == float("inf") else max(0.0, left) + _LATE)
        except KeyboardInterrupt:
            self.stopped = True
        if runs is None:
            other.interrupt()
            runs = other.answer(_GRACE)
        return runs or []

    def _lane(self, turns: list[_Turn], until: float) -> list[_Run]:
        """Run methods in a forked process, silently, and return what came out."""
        self.settings = replace(self.settings, progress=None, chosen=None)
        num_before = len(self.runs)
        with suppress(KeyboardInterrupt):
            self.in_turn(turns, until)
        return self.runs[num_before:]


def _suited(
    relaxed: Instance, limit: float, objective: str | None, prefer: str | None
) -> list[Choice]:
    """Methods that need no repair and have the objective of the first."""
    suited = [choice for choice in choices(relaxed, limit, objective, prefer) if not choice.repair]
    if not suited or get_method(suited[0].name).decides == "threads":
        return []
    aim = get_method(suited[0].name).aimed_at(objective or "").objective
    return [c for c in suited if get_method(c.name).aimed_at(objective or "").objective == aim]


def _parted(suited: list[Choice]) -> tuple[list[Choice], list[Choice]]:
    """Part exact methods from others; none where the first choice is another: all those first."""
    exact = [c for c in suited if get_method(c.name).kind == "exact"]
    return exact, [c for c in suited if c not in exact]


def _order(suited: list[Choice]) -> list[_Turn]:
    """Return the methods in the order in which they run one after another."""
    exact, others = _parted(suited)
    if not others or suited[0] not in exact:
        searches = [_Turn(c, _SEARCH if exact else 1.0) for c in others]
        return searches + [_Turn(c, 1.0) for c in exact]
    return [
        _Turn(suited[0], _FIRST),
        *(_Turn(c, _SEARCH) for c in others),
        *(_Turn(c, 1.0, again=c is suited[0]) for c in exact),
    ]


def _lanes(suited: list[Choice], workers: int) -> list[list[_Turn]]:
    """Return what each process runs first: this one the first choice, the others the rest in turn.

    What a process has run, it follows with the first search from other seeds.
    """
    exact, others = _parted(suited)
    lanes: list[list[_Turn]] = [[] for _ in range(workers)]
    dealt = others
    if suited[0] in exact:
        lanes[0] = [_Turn(suited[0], _FIRST)]
        dealt = others or exact[1:]
    begin = len(lanes[0])
    for i, choice in enumerate(dealt):
        lane = lanes[begin + i % (workers - begin)]
        lane.append(_Turn(choice, _SEARCH if exact else 1.0))
    if suited[0] not in exact:
        lanes[0] += [_Turn(choice, 1.0) for choice in exact]
    return [[*lane, *_restarts(others, i, 2 * workers)] for i, lane in enumerate(lanes)]


def _restarts(others: list[Choice], seed: int, step: int) -> list[_Turn]:
    """Return the first search from other seeds, each a step from the last; not from the first."""
    searches = [c for c in others if get_method(c.name).kind == "search"]
    return [_Turn(c, 1.0, seed=seed or step, step=step) for c in searches[:1]]


def _further(suited: list[Choice], workers: int, runs: list[_Run]) -> list[list[_Turn]]:
    """Return what each process runs after that: here the exact methods, elsewhere a search."""
    exact, others = _parted(suited)
    ran = {run.name for run in runs}
    lanes = [_restarts(others, workers + i, 2 * workers) for i in range(workers)]
    lanes[0] = [*(_Turn(c, 1.0, again=c.name in ran) for c in exact), *lanes[0]]
    return lanes


def _idle(runs: list[_Run], choice: Choice) -> bool:
    """Whether a method ended before its time was over, so that more of it changes nothing."""
    ended = (r.result.termination for r in runs if r.name == choice.name)
    return any(termination is not Termination.TIME_LIMIT for termination in ended)


def _shifted(
    progress: Callable[[Progress], None] | None, name: str, spent: float
) -> Callable[[Progress], None] | None:
    if progress is None:
        return None
    return lambda now: progress(
        replace(now, seconds=now.seconds + spent, phase=f"{name}: {now.phase}")
    )


def _best(figure: Figure, instance: Instance, runs: list[_Run]) -> _Run | None:
    """Return the run with the best feasible plan; of equal ones that with fewest moves."""
    ranked = [
        (_rank(figure, instance, run), i) for i, run in enumerate(runs) if run.result.feasible
    ]
    return runs[min(ranked)[1]] if ranked else None


def _rank(figure: Figure, instance: Instance, run: _Run) -> tuple[float, ...]:
    """Return what is smaller for the better plan, by all levels; differences of rounding are none.

    Unless the figure weighs what is left on leaving nodes, that comes first, as the judge has it.
    """
    left, evaluation = 0, run.result.evaluation
    if not figure.weighs_leaving and run.result.plan is not None:
        node = run.result.plan.node_indices(instance)
        left = int((instance.nodes.leaving[node] & instance.has_open_node).sum())
    values = None if evaluation is None else figure.ranks(evaluation)
    values = (float("inf"),) * len(figure.levels) if values is None else values
    return left, *values, len(run.result.moves)


def _fixed(figure: Figure, instance: Instance, run: _Run) -> bool:
    """Whether a run has a plan and no other can be better."""
    value = _value(run)
    return value is not None and figure.fixed(instance, value, run.result.whole_bound) is not None


def _value(run: _Run) -> float | None:
    objective = run.result.objective
    return objective.value if run.result.feasible and objective is not None else None


def _result(figure: Figure, instance: Instance, portfolio: _Portfolio) -> Result | None:
    """Return the best plan with the best proven bound of all, and what was tried."""
    runs, stopped = portfolio.runs, portfolio.stopped
    seconds = time.perf_counter() - portfolio.began
    best = _best(figure, instance, runs)
    for run in runs:
        if run.result.termination is Termination.INFEASIBLE:
            if best is not None:
                problem = f"{run.name} calls the instance infeasible, but {best.name} has a plan"
                raise SolverError(problem)
            return run.result
    if best is None:
        return runs[-1].result if stopped and runs else None
    result = best.result
    changes: dict[str, Any] = {}
    proof = _bound(figure, best, runs)
    if proof is not None:
        changes = {"bound": proof[0], "bound_of": "problem", "assumes": (), "gap": proof[2]}
    last = runs[-1].result.termination
    if any(_fixed(figure, instance, run) for run in runs):
        changes["termination"] = Termination.HEURISTIC
    elif proof is not None and proof[2] is not None and proof[2] <= figure.optimal_gap:
        changes["termination"] = Termination.OPTIMAL
    elif stopped or last is Termination.INTERRUPTED:
        changes["termination"] = Termination.INTERRUPTED
    elif last is Termination.TIME_LIMIT:
        changes["termination"] = last
    notes = result.notes
    if len(runs) > 1:
        by = f"; the bound is that of {proof[1]}" if proof is not None else ""
        notes = (*notes, _tried(figure, portfolio), f"best plan: {best.name}{by}")
    return replace(result, notes=notes, times={**result.times, "total": seconds}, **changes)


def _bound(figure: Figure, best: _Run, runs: list[_Run]) -> tuple[float, str, float | None] | None:
    """Return the best bound of the problem, whose it is, and the gap of the best plan to it."""
    bounds = [(r.result.bound, r.name) for r in runs if r.result.bound_of == "problem"]
    proven = [(bound, name) for bound, name in bounds if bound is not None]
    value, reference = _value(best), figure.reference_of(best.result.evaluation)
    if not proven or value is None:
        return None
    bound, name = min(proven) if figure.sense == "max" else max(proven)
    if figure.beats_bound(value, bound, reference):
        raise SolverError(
            f"the plan of {best.name} ({figure.name} {value:g}) beats the proven bound of {name} "
            f"({bound:g}): one of the two is wrong"
        )
    return bound, name, figure.gap(value, bound, reference)


def _tried(figure: Figure, portfolio: _Portfolio) -> str:
    outcomes = []
    for name in dict.fromkeys(run.name for run in portfolio.runs):
        runs = [run for run in portfolio.runs if run.name == name]
        best = _best(figure, portfolio.relaxed, runs)
        value = None if best is None else _value(best)
        outcome = "no plan" if value is None else f"{figure.name} {value:.6g}"
        times = "" if len(runs) == 1 else f"{len(runs)} times, "
        outcomes.append(f"{name} {times}{sum(run.seconds for run in runs):.1f} s ({outcome})")
    where = f" in {portfolio.workers} processes" if portfolio.workers > 1 else ""
    return f"tried{where}: " + ", ".join(outcomes)
