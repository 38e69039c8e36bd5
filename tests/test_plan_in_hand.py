"""Whatever happens to a method, it ends in the best checked plan that it had in hand.

A failure is injected where a method calls out: to the clock, to whoever is told of plans, and to
the solvers, in this process or another.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from optim import Instance, all_methods, get_method, solve
from optim.methods.choose import is_suitable
from optim.methods.registry import Request
from optim.referee import Termination, evaluate_indices
from optim.solvers import inprocess
from optim.solvers import solve as linear
from tests.slowly import slowly
from tests.test_units import budgeted, document, linked, slotted

METHODS = [m for m in all_methods() if m.kind != "heuristic" and m.decides == "nodes"]
SECONDS = 1.5
AT_ONCE = {"storm-milp"}
"""Methods that prove the first plan they find, on instances as small as these."""
CASES = (slotted, linked, budgeted, document)
ERRORS = (RuntimeError, KeyboardInterrupt, MemoryError)
FAILURES = [
    each
    for number, method in enumerate(METHODS)
    for kept in (ERRORS[number % 2],)
    for each in ((method, kept), *slowly(*((method, e) for e in ERRORS if e is not kept)))
]
"""Each method with a failure or an interruption, in turn."""


@dataclass
class Fault:
    """Counts the calls of all points and fails at one of them; notes the plans handed over."""

    at: int | None = None
    error: type[BaseException] = RuntimeError
    calls: int = 0
    plans: list[Any] = field(default_factory=list)
    first: int | None = None

    def hit(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error("injected")

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        for owner, name in (
            (Request, "remaining"),
            (Request, "elapsed"),
            (linear, "_ask"),
            (inprocess, "_ask"),
        ):
            patch.setattr(owner, name, self.failing(getattr(owner, name)))
        offer = Request.offer

        def offered(request: Request, node: Any, slot: Any = None) -> None:
            offer(request, node, slot)
            if np.min(node, initial=0) >= 0:
                self.plans.append((np.array(node, np.int32), slot))
                self.first = self.first or self.calls
            self.hit()

        patch.setattr(Request, "offer", offered)

    def failing(self, plain: Any) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.hit()
            return plain(*args, **kwargs)

        return called


def instance_for(method: Any) -> Instance:
    made = (Instance.from_dict(case()) for case in CASES)
    return next(instance for instance in made if is_suitable(method, instance))


@cache
def whole_run(name: str) -> Fault:
    """Solve without a failure, and return what was called."""
    whole = Fault()
    with pytest.MonkeyPatch.context() as patch:
        whole.arm(patch)
        solve(instance_for(get_method(name)), name, time_limit=SECONDS)
    return whole


@pytest.mark.parametrize(
    ("method", "error"), FAILURES, ids=lambda value: getattr(value, "name", None)
)
def test_a_failure_ends_in_the_best_plan(
    method: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = instance_for(method)
    whole = whole_run(method.name)
    if method.name in AT_ONCE and whole.first is None:
        pytest.skip("it ends with the first plan that it finds")
    assert whole.first is not None, "a method hands over each better plan that it finds"
    for at in sorted({whole.first + 1, (whole.first + whole.calls + 1) // 2, whole.calls}):
        fault = Fault(at, error)
        with monkeypatch.context() as patch:
            fault.arm(patch)
            try:
                result = solve(instance, method.name, time_limit=SECONDS)
            except BaseException as raised:
                if not fault.plans:
                    continue
                pytest.fail(f"{method.name} lost its plans at call {at}: {raised!r}")
        if error is KeyboardInterrupt and fault.calls >= at:  # it ends, and says why
            assert result.termination is Termination.INTERRUPTED
            assert fault.calls <= at + 1
        judged = [evaluate_indices(instance, node, slot) for node, slot in fault.plans]
        values = [e.objective(method.objective) for e in judged if e.feasible]
        if not values:
            continue
        assert result.feasible, f"call {at}: {result.notes}"
        best = min(values) if method.sense == "min" else max(values)
        told = result.evaluation.objective(method.objective)
        worse = told - best if method.sense == "min" else best - told
        assert worse <= 1e-6 * max(1.0, abs(best)), f"call {at}: {result.notes}"
