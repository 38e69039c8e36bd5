"""The best placement of a running search, with its trace, its clock and its stopping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optim.figures.measures import imc_gain_of
from optim.methods.registry import Outcome
from optim.referee import Termination, evaluate_indices
from optim.rules import REPAIRABLE
from optim.util.progress import ProgressRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from optim.methods.registry import Request

_PASSES = 50


class Incumbent:
    """Keeps the best feasible placement seen; the only way results leave a search."""

    def __init__(self, instance: Instance, request: Request) -> None:
        self.instance = instance
        self.request = request
        self.node: Ints | None = None
        self.gain = -np.inf
        self.keeps_all = False
        self.partial: Ints | None = None
        self.notes: list[str] = []
        self.times: dict[str, float] = {"compile": 0.0}
        self.interrupted = False
        self.stopped = False
        self.annealed = 0
        self.recorder = ProgressRecorder("max", request.progress, request.started)

    def warm(self, *warm_ups: Callable[[], object]) -> None:
        """Compile kernels, or load them from the cache, off the clock."""
        self.request, seconds = self.request.warmed(*warm_ups)
        self.times["compile"] += seconds
        if self.node is None:
            self.recorder = ProgressRecorder("max", self.request.progress, self.request.started)

    @property
    def out_of_time(self) -> bool:
        """Whether the time limit has passed, or so nearly that the search has stopped for it."""
        return self.stopped or self.request.remaining() == 0.0

    def acceptable(self, node: Ints) -> bool | None:
        """Return whether a placement keeps all rules; ``None`` if it breaks one the search honours.

        Limits the search does not know (links, say) are there when the user lets repair finish the
        plan: a placement that keeps them goes before one that does not.
        """
        broken = {v.rule for v in evaluate_indices(self.instance, node).violations}
        return None if broken & REPAIRABLE else not broken

    def offer(self, node: Ints) -> bool:
        """Take a placement if it may be and is better; return whether it was taken."""
        gain = imc_gain_of(self.instance, node)
        if gain <= self.gain and self.keeps_all:
            return False
        keeps_all = self.acceptable(node)
        if keeps_all is None or (keeps_all, gain) <= (self.keeps_all, self.gain):
            return False
        self.node, self.gain, self.keeps_all = np.array(node, dtype=np.int32), gain, keeps_all
        self.request.offer(self.node)
        self.recorder.note(incumbent=gain, phase="search")
        return True

    def given_starts(self) -> Iterator[Ints]:
        """Yield the warm start and the current placement, feasible or not."""
        if self.request.warm_start is not None:
            yield np.asarray(self.request.warm_start, dtype=np.int32)
        if self.instance.has_current:
            yield self.instance.tasks.node

    def take(self, node: Ints, *, descend: bool = True) -> Ints | None:
        """Repair a start if it needs that, descend from it, offer both; ``None`` if it fails."""
        from optim.kernels.repair import repair

        repaired = repair(self.instance, node)
        if not repaired.restored:
            if self.node is None:
                self.partial, self.notes = repaired.node, repaired.notes
            return None
        self.offer(repaired.node)
        return self.descended(repaired.node) if descend else repaired.node

    def descended(self, node: Ints) -> Ints:
        """Descend from a placement, and offer what is found."""
        from optim.kernels.descent import descend
        from optim.kernels.state import state_of

        state, tasks = state_of(self.instance, node), self.instance.num_tasks
        least_gain = 1e-9 * self.instance.total_traffic / max(1, tasks) + 1e-300
        descend(state, np.arange(tasks), _PASSES, least_gain)
        placement = state.placement()
        self.offer(placement)
        return placement

    def outcome(self) -> Outcome:
        """Return what the search found."""
        self.recorder.finish()
        if self.interrupted:
            stopped = Termination.INTERRUPTED
        elif self.out_of_time:
            stopped = Termination.TIME_LIMIT
        else:
            stopped = Termination.ITERATION_LIMIT
        has_plan = self.node is not None
        node = self.node
        if not has_plan and self.partial is not None and self.partial.min(initial=0) < 0:
            node = self.partial  # to name the tasks that found no place
        return Outcome(
            stopped,
            node,
            claimed=float(self.gain) if has_plan else None,
            notes=self.notes,
            warm_start_accepted=None if self.request.warm_start is None else has_plan,
            trace=self.recorder.trace,
            times=self.times,
        )
