"""The adaptation loop on a running system: look, decide, carry out, remember.

A change is written into a journal before it begins and when it has ended. Whatever ends the process
in between, the next one finds it: what runs says whether the change was carried out, was never
begun, or stopped half way, and then it is finished, or else what ran before is put back.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.format.plan import Plan
from optim.util.store import Lock, Records
from streamplace.policies.state_file import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from optim.format.instance import Instance
    from streamplace.execute.systems import System
    from streamplace.policies.guard import Guarded
    from streamplace.policies.policy import Decision

    Ask = Callable[[Guarded, dict[str, Any], Instance, float], Decision]


@dataclass(frozen=True)
class Told:
    """What came of a look: the decision, what it was made on, and what was done about it."""

    at: float
    instance: Instance
    decision: Decision
    verdict: str
    applied: bool = False


@dataclass
class Loop:
    """A policy on a running system.

    Attributes
    ----------
    system, policy
        What runs, and what decides.
    text
        The policy as ``--policy`` has it: its state is not another's.
    folder
        Of the journal, the state and the lock.
    apply
        Whether plans are carried out.
    ask
        Asks the policy.
    clock
        Seconds.
    """

    system: System
    policy: Guarded
    text: str
    folder: Path
    apply: bool
    ask: Ask
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        key = hashlib.sha256(self.text.encode()).hexdigest()[:8]
        self._file = StateFile(self.folder / f"state-{key}.json", self.text)
        self._journal = Journal(self.folder / "journal.jsonl")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other controller from this folder.

        Raises
        ------
        InvalidInput
            One has it, or the folder cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"cannot be made: {error.strerror}"
            raise InvalidInput(Problem("--state", str(self.folder), reason)) from None
        lock = Lock(self.folder / "lock")
        if not lock.acquire():
            remedy = "end it, or watch another system: one controller decides at a time"
            reason = "is another controller's"
            raise InvalidInput(Problem("--state", str(self.folder), reason, remedy))
        try:
            yield
        finally:
            lock.release()

    def look(self) -> Told:
        """Look once, decide, and carry out.

        Raises
        ------
        InvalidInput
            The look failed, or the policy: nothing was decided or changed.
        """
        state = self._state()
        instance = self.system.look()
        self.policy.check(instance)
        now = self.clock()
        decision = self.ask(self.policy, state, instance, now)
        otherwise = state if decision.otherwise is None else decision.otherwise
        if decision.kind(instance) == "keep":
            self._file.save(decision.state)
            return Told(now, instance, decision, "stays")
        plan = decision.plan_on(instance)
        yours = _for_the_operator(decision)
        if not self.apply:
            self._file.save(otherwise)
            return Told(now, instance, decision, yours or "not applied (no --apply)")
        if plan is None or yours or not self._moves(instance, plan):
            told = decision.mark or decision.recall or decision.release
            self._file.save(decision.state if told and not yours else otherwise)
            return Told(now, instance, decision, yours or "stays")
        before = Plan.from_indices(instance, instance.tasks.node) if _is_placed(instance) else None
        self._journal.begin(now, plan, before, decision.state)
        try:
            wrong = self.system.apply(instance, plan)
        except StreamplaceError as error:
            wrong = str(error)
        self._journal.end(self.clock(), "applied" if wrong is None else "not as planned")
        self._file.save(decision.state if wrong is None else {**otherwise, "changed": now})
        verdict = "applied" if wrong is None else f"not as planned: {wrong}"
        return Told(now, instance, decision, verdict, applied=wrong is None)

    def _state(self) -> dict[str, Any]:
        """Return the policy's state; a cool-down holds whatever policy made the last change."""
        state = self._file.load()
        last, own = self._journal.last_change(), state.get("changed")
        if last is not None and (own is None or (isinstance(own, int | float) and own < last)):
            return {**state, "changed": last}
        return state

    def _moves(self, instance: Instance, plan: Plan) -> bool:
        return self.system.place_counts(instance, plan) != self.system.place_counts(instance)

    def recover(self) -> str | None:
        """Find a change that was begun and not ended, and finish or revert it; say what was done.

        Raises
        ------
        InvalidInput
            The look failed, or the change can be neither finished nor reverted.
        """
        begun = self._journal.open_change()
        if begun is None:
            return None
        instance = self.system.look()
        what = f"the change of {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(begun.at))}"
        plan, before = begun.plan, begun.before
        if not _fits(instance, plan):
            return self._ended(f"{what} is of tasks or nodes that are gone", "gone")
        if not self._moves(instance, _on(instance, plan)):
            self._file.save(begun.state)
            return self._ended(f"{what} was carried out", "applied")
        if before is not None and not self._moves(instance, _on(instance, before)):
            return self._ended(f"{what} was not begun", "not begun")
        if not self.apply:
            return f"{what} is half carried out: with --apply it is finished or reverted"
        errors = []
        for wanted, outcome in ((plan, "finished"), (before, "reverted")):
            if wanted is None:
                continue
            try:
                wrong = self.system.apply(instance, _on(instance, wanted))
            except StreamplaceError as error:
                wrong = str(error)
            if wrong is None:
                if outcome == "finished":
                    self._file.save(begun.state)
                return self._ended(f"{what} was half carried out, and is {outcome}", outcome)
            errors.append(wrong)
        remedy = "put it right by hand, and remove the folder's journal.jsonl"
        reason = f"can be neither finished nor reverted: {'; '.join(errors)}"
        raise InvalidInput(Problem(str(self.folder), what, reason, remedy))

    def _ended(self, told: str, outcome: str) -> str:
        self._journal.end(self.clock(), outcome)
        return told


def _for_the_operator(decision: Decision) -> str:
    """Return what of a decision nobody but the operator can do."""
    parts = []
    if decision.add:
        parts.append(f"start {len(decision.add)} more like {decision.add[0].like}")
    if decision.parallelism:
        told = ", ".join(f"{name} to {n}" for name, n in decision.parallelism.items())
        parts.append(f"set the parallelism of {told}")
    return f"yours to do: {', and '.join(parts)}" if parts else ""


def _is_placed(instance: Instance) -> bool:
    return bool((instance.tasks.node >= 0).all())


def _fits(instance: Instance, plan: Plan) -> bool:
    nodes = {*plan.assignment.values()}
    return {*plan.assignment} == {*instance.tasks.ids} and nodes <= {*instance.nodes.ids}


def _on(instance: Instance, plan: Plan) -> Plan:
    """Return a plan of before for the instance of now: the same tasks and nodes."""
    if not _fits(instance, plan):
        return plan
    index = {name: n for n, name in enumerate(instance.nodes.ids)}
    node = np.array([index[plan.assignment[task]] for task in instance.tasks.ids], np.int32)
    slot = None
    if plan.slots is not None:
        slot = np.array([plan.slots[task] for task in instance.tasks.ids], np.int32)
    return Plan.from_indices(instance, node, slot, plan.method, plan.versions)


@dataclass(frozen=True)
class Begun:
    """A change that a journal has begun."""

    at: float
    plan: Plan
    before: Plan | None
    state: dict[str, Any]


class Journal:
    """Changes that were begun, and how they ended, a line each, each on the disk at once."""

    def __init__(self, path: Path) -> None:
        self._records = Records(path)

    def begin(self, at: float, plan: Plan, before: Plan | None, state: dict[str, Any]) -> None:
        """Write that a change begins."""
        old = None if before is None else before.to_dict()
        self._records.add({"at": at, "begin": plan.to_dict(), "before": old, "state": state})

    def end(self, at: float, outcome: str) -> None:
        """Write how it ended."""
        self._records.add({"at": at, "end": outcome})

    def _lines(self) -> list[dict[str, Any]]:
        lines = self._records.read()
        for number, line in enumerate(lines, 1):
            valid = isinstance(line, dict) and isinstance(line.get("at"), int | float)
            if not valid or not ({"begin", "end"} & line.keys()):
                where = f"{self._records.path}, line {number}"
                raise InvalidInput(Problem(where, None, "is no line of a journal", "remove it"))
        return lines

    def open_change(self) -> Begun | None:
        """Return the change that has no end."""
        lines = self._lines()
        if not lines or "begin" not in lines[-1]:
            return None
        last = lines[-1]
        before = None if last.get("before") is None else Plan.from_dict(last["before"])
        return Begun(last["at"], Plan.from_dict(last["begin"]), before, last.get("state") or {})

    def last_change(self) -> float | None:
        """Return when the last change began that changed anything."""
        lines = self._lines()
        for start, end in zip(lines[-2::-1], lines[:0:-1], strict=True):
            if "begin" in start and end.get("end") != "not begun":
                return float(start["at"])
        return None
