"""The adaptation loop on a running system: look, decide, carry out, remember.

A change is written into a journal before it begins and when it has ended. Whatever ends the process
in between, the next one finds it: what runs says whether the change was carried out, was never
begun, or stopped half way, and then it is finished, or else what ran before is put back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.format.document import parse_json
from optim.format.plan import Plan
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Lock, Records
from streamplace.clusters.exchange.sources import export_plan, import_instance
from streamplace.clusters.kafka.admin import is_address
from streamplace.policies.guard import StateFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.policies.guard import Guarded
    from streamplace.policies.policy import Decision

    Ask = Callable[[Guarded, dict[str, Any], Instance, float], Decision]


# -- running systems: look at what runs, and carry a plan out --------------------------------------


@dataclass
class System(ABC):
    """A running system."""

    name = ""

    url: str  # Its address.
    options: Sequence[tuple[str, str]] = ()  # Of the import.
    limits: Sequence[tuple[str, str]] = ()  # What a plan must keep.
    timeout: float = 10.0  # Seconds of an answer.
    wait: float | None = None  # Seconds until all runs as planned; ``None``: 60, of Kafka no limit.
    throttle: int | None = None  # Of Kafka: bytes a second that a broker copies.
    #: Carries plans out: the exported file comes after it. Empty: `carry_out` does.
    command: Sequence[str] = ()
    ledger: Ledger | None = field(default=None, init=False)

    def look(self) -> Instance:
        """Import what runs.

        Raises `InvalidInput`: it cannot be.
        """
        imported = import_instance(
            self.name, [self.url], self.options, limits=self.limits, timeout=self.timeout
        )
        self.ledger = imported.ledger
        return imported.instance

    def place_counts(self, instance: Instance, plan: Plan | None = None) -> Counter[object]:
        """Return what has to be the same for a plan to be what runs: each task and its node."""
        node = instance.tasks.node if plan is None else plan.node_indices(instance)
        pairs = zip(instance.tasks.ids, node.tolist(), strict=True)
        return Counter((task, instance.nodes.ids[n] if n >= 0 else None) for task, n in pairs)

    def apply(self, instance: Instance, plan: Plan) -> str | None:
        """Carry a plan out; return what is not as planned at the end, ``None`` where all is.

        Raises `InvalidInput`: it does not fit the system as it is now; nothing was changed.
        """
        exported = export_plan(self.name, instance, plan)
        with tempfile.TemporaryDirectory(prefix=f"streamplace-{self.name}-") as folder:
            file = exported.save(Path(folder) / f"{self.name}-{plan.sha256[:8]}.json")[0]
            if not self.command:
                return self.carry_out(file)
            try:
                done = subprocess.run([*self.command, str(file)], check=False)
            except OSError as error:
                reason = f"cannot be run: {error}"
                raise InvalidInput(Problem("--apply", self.command[0], reason)) from None
        return f"{self.command[0]} ended with {done.returncode}" if done.returncode else None

    def _wait(self, usual: float) -> float:
        return usual if self.wait is None else self.wait

    @abstractmethod
    def carry_out(self, file: Path) -> str | None:
        """Carry an exported plan out, as `apply`."""

    def check_apply(self) -> None:
        """Refuse to begin where plans cannot be carried out.

        Raises `InvalidInput`: they cannot.
        """
        return


class Flink(System):
    """Flink: quotas are set when task managers start, so that a command of the site's rolls out."""

    name = "flink"

    def place_counts(self, instance: Instance, plan: Plan | None = None) -> Counter[object]:
        """Count each operator's tasks by node: which index runs where is Flink's choice."""
        node = instance.tasks.node if plan is None else plan.node_indices(instance)
        pairs = zip(instance.tasks.operator.tolist(), node.tolist(), strict=True)
        ids, nodes = instance.operators.ids, instance.nodes.ids
        return Counter((ids[o] if o >= 0 else None, nodes[n] if n >= 0 else None) for o, n in pairs)

    def check_apply(self) -> None:
        """Refuse to begin without a command."""
        if not self.command:
            reason = "needs a command: Flink's quotas are set when task managers start"
            remedy = "--apply COMMAND, which gets the sheet's file and rolls it out"
            raise InvalidInput(Problem("--apply", None, reason, remedy))

    def carry_out(self, file: Path) -> str | None:
        """Refuse: see `check_apply`."""
        self.check_apply()
        return None


class Storm(System):
    """Storm: a rebalance brings the placement along."""

    name = "storm"

    def check_apply(self) -> None:
        """Refuse to begin at the UI's address."""
        from streamplace.clusters.storm.nimbus import is_nimbus

        if not self.command and not is_nimbus(self.url):
            remedy = "nimbus://HOST:PORT, or --apply COMMAND, which gets the placement's file"
            raise InvalidInput(
                Problem("URL", self.url, "is not Nimbus: nothing is applied", remedy)
            )

    def carry_out(self, file: Path) -> str | None:
        """Rebalance the topologies, and wait until all executors run as planned."""
        from streamplace.clusters.storm.nimbus import Nimbus
        from streamplace.clusters.storm.submit import load_placement, submit

        with Nimbus(self.url, self.timeout) as nimbus:
            verdict = submit(nimbus, load_placement(str(file)), self._wait(60.0))
        counts = f"{verdict.as_planned} of {verdict.planned} executors run as planned"
        return None if verdict.holds else counts


class Kafka(System):
    """Kafka: a reassignment in steps, by its Admin interface."""

    name = "kafka"

    def check_apply(self) -> None:
        """Refuse to begin with a folder."""
        if not self.command and not is_address(self.url):
            remedy = "HOST:PORT of a broker, or --apply COMMAND, which gets the reassignment's file"
            raise InvalidInput(Problem("URL", self.url, "is no address of a broker", remedy))

    def carry_out(self, file: Path) -> str | None:
        """Move replicas, elect leaders, and wait until all is as planned."""
        from streamplace.clusters.kafka.admin import KafkaAdmin
        from streamplace.clusters.kafka.submit import Settings, load_reassignment, submit

        config = dict(self.options).get("command_config")
        settings = Settings(self.throttle, wait=self._wait(float("inf")))
        with KafkaAdmin(self.url, self.timeout, config) as admin:
            verdict = submit(admin, load_reassignment(str(file)), settings).verdict
        counts = f"{verdict.as_planned} of {verdict.planned} partitions are as planned"
        return None if verdict.holds else counts


SYSTEMS: dict[str, type[System]] = {one.name: one for one in (Flink, Storm, Kafka)}


# -- the loop --------------------------------------------------------------------------------------


_PLANS = ("plan", "before")


@dataclass(frozen=True)
class LookOutcome:
    """What came of a look: the decision, what it was made on, and what was done about it."""

    at: float
    instance: Instance
    decision: Decision
    verdict: str
    applied: bool = False


@dataclass
class Loop:
    """A policy on a running system."""

    #: What runs, and what decides.
    system: System
    policy: Guarded
    text: str  # The policy as ``--policy`` has it: its state is not another's.
    folder: Path  # Of the journal, the state and the lock.
    apply: bool  # Whether plans are carried out.
    ask: Ask  # Asks the policy.
    clock: Callable[[], float] = time.time  # Seconds.

    def __post_init__(self) -> None:
        key = hashlib.sha256(self.text.encode()).hexdigest()[:8]
        self._file = StateFile(self.folder / f"state-{key}.json", self.text)
        self._journal = Journal(self.folder)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other controller from this folder.

        Raises `InvalidInput`: one has it, or the folder cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"cannot be made: {error.strerror}"
            raise InvalidInput(Problem("--state", str(self.folder), reason)) from None
        reason = "is in use by another controller"
        remedy = "end it, or watch another system: one controller decides at a time"
        problem = Problem("--state", str(self.folder), reason, remedy)
        with Lock(self.folder / "lock").alone(problem):
            yield

    def look(self) -> LookOutcome:
        """Look once, decide, and carry out.

        Raises `InvalidInput`: the look failed, or the policy: nothing was decided or changed.
        """
        state = self._state()
        instance = self.system.look()
        self.policy.check(instance)
        now = self.clock()
        decision = self.ask(self.policy, state, instance, now)
        otherwise = state if decision.otherwise is None else decision.otherwise
        if decision.kind(instance) == "keep":
            self._file.save(decision.state)
            return LookOutcome(now, instance, decision, "stays")
        plan = decision.plan_on(instance)
        manual = _for_the_operator(decision)
        if not self.apply:
            self._file.save(otherwise)
            return LookOutcome(now, instance, decision, manual or "not applied (no --apply)")
        if plan is None or manual or not self._moves(instance, plan):
            marks = decision.mark or decision.recall or decision.release
            self._file.save(decision.state if marks and not manual else otherwise)
            return LookOutcome(now, instance, decision, manual or "stays")
        # journal first: a kill from here on leaves a change that `recover` finds
        before = None
        if (instance.tasks.node >= 0).all():
            before = Plan.from_indices(instance, instance.tasks.node)
        change = Begun(now, self.text, plan, before, decision.state)
        self._journal.begin(change)
        try:
            wrong = self.system.apply(instance, plan)
        except StreamplaceError as error:
            wrong = str(error)
        # a change that failed half way cools down too
        self._file.save(decision.state if wrong is None else {**otherwise, "changed": now})
        self._journal.end(change, "applied" if wrong is None else "not as planned")
        verdict = "applied" if wrong is None else f"not as planned: {wrong}"
        return LookOutcome(now, instance, decision, verdict, applied=wrong is None)

    def _state(self) -> dict[str, Any]:
        """Return the policy's state; a cool-down holds whatever policy made the last change."""
        state = self._file.load()
        last, changed = self._journal.last_change(), state.get("changed")
        # the journal is every policy's, the state one's: the later of both counts
        if last is not None and (
            changed is None or (isinstance(changed, int | float) and changed < last)
        ):
            return {**state, "changed": last}
        return state

    def _moves(self, instance: Instance, plan: Plan) -> bool:
        return self.system.place_counts(instance, plan) != self.system.place_counts(instance)

    def recover(self) -> str | None:
        """Find a change that was begun and not ended, and finish or revert it; say what was done.

        Raises `InvalidInput`: the look failed, or the change can be neither finished nor reverted.
        """
        begun = self._journal.open_change()
        if begun is None:
            return None
        instance = self.system.look()
        what = f"the change of {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(begun.at))}"
        plan, before = begun.plan, begun.before
        if not _fits(instance, plan):
            return self._ended(begun, f"{what} names tasks or nodes that no longer exist", "gone")
        if not self._moves(instance, _on(instance, plan)):
            return self._ended(begun, f"{what} was carried out", "applied")
        if before is not None and not self._moves(instance, _on(instance, before)):
            return self._ended(begun, f"{what} was not begun", "not begun")
        if not self.apply:
            return f"{what} is half carried out: with --apply it is finished or reverted"
        errors = []
        # forwards first; the way back only if that is refused
        for target, outcome in ((plan, "finished"), (before, "reverted")):
            if target is None:
                continue
            try:
                wrong = self.system.apply(instance, _on(instance, target))
            except StreamplaceError as error:
                wrong = str(error)
            if wrong is None:
                text = f"{what} was half carried out, and is {outcome}"
                return self._ended(begun, text, outcome)
            errors.append(wrong)
        remedy = "move the tasks by hand, then remove change.json from the folder"
        reason = f"can be neither finished nor reverted: {'; '.join(errors)}"
        raise InvalidInput(Problem(str(self.folder), what, reason, remedy))

    def _ended(self, change: Begun, text: str, outcome: str) -> str:
        if outcome in ("applied", "finished") and change.policy == self.text:
            self._file.save(change.state)
        self._journal.end(change, outcome)
        return text


def _for_the_operator(decision: Decision) -> str:
    """Return what of a decision nobody but the operator can do."""
    parts = []
    if decision.add:
        parts.append(f"start {len(decision.add)} more like {decision.add[0].like}")
    if decision.parallelism:
        targets = ", ".join(f"{name} to {n}" for name, n in decision.parallelism.items())
        parts.append(f"set the parallelism of {targets}")
    return f"yours to do: {', and '.join(parts)}" if parts else ""


def _fits(instance: Instance, plan: Plan) -> bool:
    # tasks must be the same; nodes may have come, but none that the plan uses have gone
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
    """A change that was begun."""

    at: float  # When.
    policy: str  # That decided it.
    #: What is to run, and what ran; ``None`` where a task had no node.
    plan: Plan
    before: Plan | None
    state: dict[str, Any]  # What the policy is to be given once the change is carried out.


class Journal:
    """The change that is under way, in a file of its own, and a line for each that has ended.

    The file is there from before a change begins until its line is on the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._records = Records(folder / "journal.jsonl")
        self._change = folder / "change.json"

    def begin(self, change: Begun) -> None:
        """Write that a change begins."""
        before = None if change.before is None else change.before.to_dict()
        content = {**vars(change), "plan": change.plan.to_dict(), "before": before}
        write_atomic(self._change, json.dumps(content, ensure_ascii=False) + "\n")

    def end(self, change: Begun, outcome: str) -> None:
        """Write how it ended."""
        plan = change.plan.sha256[:12]
        self._records.add(
            {"at": change.at, "policy": change.policy, "plan": plan, "outcome": outcome}
        )
        self._change.unlink(missing_ok=True)

    def open_change(self) -> Begun | None:
        """Return the change that has no end.

        Raises `InvalidInput`: the file, or the journal, is damaged.
        """
        if not self._change.exists():
            return None
        remedy = "compare the cluster with the plan, then remove the file"
        try:
            value = parse_json(read_bytes(self._change))
            plans = [None if value[k] is None else Plan.from_dict(value[k]) for k in _PLANS]
            at, state = value["at"], value["state"]
            if plans[0] is None or not isinstance(at, int | float) or not isinstance(state, dict):
                raise TypeError
            change = Begun(float(at), str(value["policy"]), plans[0], plans[1], state)
        except (InvalidInput, KeyError, TypeError):
            reason = "is damaged: the change under way cannot be read"
            raise InvalidInput(Problem(str(self._change), None, reason, remedy)) from None
        if (
            self.last_change(every=True) == change.at
        ):  # its line was written, and then it was killed
            self._change.unlink()
            return None
        return change

    def last_change(self, every: bool = False) -> float | None:
        """Return when the last change began that may have changed anything, or the last of all."""
        for number, line in reversed([*enumerate(self._records.read(), 1)]):
            at = line.get("at") if isinstance(line, dict) else None
            if not isinstance(at, int | float) or "outcome" not in line:
                where = f"{self._records.path}, line {number}"
                raise InvalidInput(Problem(where, None, "is no line of a journal", "remove it"))
            if every or line["outcome"] != "not begun":
                return float(at)
        return None
