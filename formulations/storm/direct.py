"""Storm's problem solved by the linearised form, level by level: bounded when it is stopped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.storm.model import build_workers
from formulations.storm.splits import split_all
from formulations.task_allocation.common import HONOURS, LINEAR_ONLY
from formulations.task_allocation.covers import solve_exactly
from optim.errors import UnsuitableMethod
from optim.figures.measures import imc_gain_of, slot_places
from optim.methods.registry import Outcome
from optim.referee.result import Termination
from optim.rules import kept_by
from optim.rules.dealing import deal
from optim.solvers import solve_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.storm.jobs import StormJobs
    from formulations.storm.model import WorkerModel
    from optim.format.instance import Instance
    from optim.methods.registry import Request
    from optim.solvers import LinearSolution

    Integers = NDArray[np.int64]

_FIRST_SHARE = 0.8
_GIVEN_UP = 1e-7
"""Part of all traffic that the row of the first level leaves to the solver's tolerance."""
_SAME = 1e-9
"""Part of all traffic below which two plans are the same."""
_KEPT = kept_by(HONOURS | LINEAR_ONLY)
"""What a placement must keep exactly; slots are made for it afterwards."""


class Direct:
    """The linearised form of one instance.

    Attributes
    ----------
    outcome
        What came of it, without figures; its trace tells traffic between nodes.
    bound, slot_bound
        Proven upper bounds of the traffic inside nodes and inside slots; ``None`` for none.
    """

    def __init__(
        self,
        instance: Instance,
        jobs: StormJobs,
        request: Request,
        start: tuple[Integers, Integers] | None,
    ) -> None:
        """Begin with (T,) node and slot indices that keep every rule, or with nothing."""
        self.instance, self.jobs, self.request = instance, jobs, request
        self.outcome = Outcome(Termination.TIME_LIMIT)
        self.bound: float | None = None
        self.slot_bound: float | None = None
        if start is not None:
            self._take(*start)

    def solve(self) -> None:
        """Solve both levels.

        Raises
        ------
        UnsuitableMethod
            The model would be too large.
        """
        outcome = self.outcome
        capacity = self.instance.nodes.slot_capacity[self.jobs.slots > 0]
        model = self._build(bool(np.isfinite(capacity).any()), None)
        self._first_level(model)
        proven = outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
        if proven and self.request.options["second_level"]:
            self._second_level()

    def _take(self, node: Any, slot: Any) -> None:
        self.outcome.node, self.outcome.slot = node.astype(np.int64), slot
        self.request.offer(node, slot)

    def _first_level(self, model: WorkerModel) -> None:
        instance, outcome, built = self.instance, self.outcome, self.request.elapsed()
        scale, total = model.placement.scale, instance.total_traffic
        solution = self._ask(model, _FIRST_SHARE)
        outcome.termination = Termination(str(solution.termination))
        outcome.solver, outcome.times["build"] = solution.solver, built + solution.build_seconds
        if self.request.warm_start is not None:
            outcome.warm_start_accepted = solution.warm_start_accepted
        outcome.notes += [solution.message] if solution.message else []
        if solution.bound is not None:
            self.bound = min(solution.bound * scale, total)

        def between(inside: float | None) -> float | None:
            return None if inside is None else total - inside * scale

        outcome.trace = [(s + built, between(v), between(b)) for s, v, b in solution.trace]
        if solution.x is None:
            return
        node, slot = model.read(solution.x, instance.num_tasks)
        if slot is None:
            slot = split_all(instance, self.jobs, node, model.read_workers(solution.x))
        if slot is None:
            slot = deal(instance, node).slot
        if slot is None:
            outcome.notes.append("the solver's plan does not split into slots")
        elif outcome.node is None or imc_gain_of(instance, node) > imc_gain_of(
            instance, outcome.node
        ):
            self._take(node, slot)

    def _second_level(self) -> None:
        """Lower the traffic between slots, that between nodes kept."""
        instance, outcome = self.instance, self.outcome
        if self.request.remaining() == 0.0 or outcome.node is None:
            return
        reached, total = imc_gain_of(instance, outcome.node), instance.total_traffic
        try:
            model = self._build(True, reached - _GIVEN_UP * total)
        except UnsuitableMethod:
            outcome.notes.append("traffic between slots: best effort, the model would be too large")
            return
        solution = self._ask(model)
        if solution.termination != "optimal":
            outcome.notes.append(f"traffic between slots: best effort, {solution.termination}")
        if solution.bound is not None and math.isfinite(solution.bound):
            self.slot_bound = solution.bound * model.placement.scale
        if solution.x is None:
            return
        node, slot = model.read(solution.x, instance.num_tasks)
        same = imc_gain_of(instance, node) >= reached - _SAME * total
        before = interslot_of(instance, outcome.node, outcome.slot)
        more = before - interslot_of(instance, node, slot)
        if same and more > _SAME * total:
            self._take(node, slot)

    def _build(self, with_slots: bool, least_gain: float | None) -> WorkerModel:
        return build_workers(
            self.instance,
            self.jobs,
            with_slots=with_slots,
            whole_products=self.request.solver == "cp-sat",
            most_products=self.request.options["most_products"],
            least_gain=least_gain,
        )

    def _ask(self, model: WorkerModel, share: float = 1.0) -> LinearSolution:
        """Solve a model in a share of the time that is left, from the plan in hand."""
        request, node, slot = self.request, self.outcome.node, self.outcome.slot
        known = node is not None and slot is not None
        start = model.write(self.jobs.job, node, slot) if known else None  # type: ignore[arg-type]

        def solve() -> LinearSolution:
            left = request.remaining()
            return solve_linear(
                model.placement.model,
                request.solver or "highs",
                time_limit=None if left is None else left * share,
                gap=request.gap,
                seed=request.seed,
                threads=request.threads,
                warm_start=start,
            )

        return solve_exactly(self.instance, model.placement, _KEPT, request, solve)[0]


def interslot_of(instance: Instance, node: Any, slot: Any) -> float:
    """Return the traffic between slots."""
    place = slot_places(np.asarray(node), np.asarray(slot, dtype=np.int64))
    _, index = np.unique(place, return_inverse=True)
    return instance.flows.apart(index.astype(np.int32), int(index.max(initial=0)) + 1)
