"""Batches of moves: the steps as a file, the systems' files of each batch, and carrying them out.

A journal is whole after any crash.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import ExitCode, InvalidInput, Problem, StreamplaceError, meant
from optim.format.document import parse_json, refuse_other_kind, validate
from optim.plugins import read_options
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Lock, Store
from streamplace.clusters.exchange.declarations import EXPORTERS, Ledger, Places
from streamplace.clusters.kafka import exporter as kafka
from streamplace.clusters.kafka.cluster import FACTOR
from streamplace.clusters.kafka.submit import Settings, load_reassignment, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from formulations.schedule.steps import Steps
    from optim.format.instance import Instance
    from optim.format.tables import Ints
    from streamplace.clusters.kafka.admin import KafkaAdmin
    from streamplace.clusters.kafka.cluster import Key
SYSTEMS = ("flink", "kafka", "moves", "storm")


_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class MoveDocument(BaseModel):
    """A task from one node to another; from ``null`` where it was nowhere."""

    model_config = _STRICT
    task: str = Field(description="its id")
    source: str | None = Field(alias="from", description="its node before; null: nowhere")
    target: str | None = Field(alias="to", description="its node after")


class BlockedDocument(MoveDocument):
    """A move that cannot be made, and what it waits for."""

    rule: str = Field(description="name of the rule that it would break")
    where: str = Field(description="where it would break it")
    needed: float | None = Field(description="what it needs there")
    available: float | None = Field(description="what there is")
    waits_for: list[MoveDocument] = Field(description="moves that would make room")


class StepsDocument(BaseModel):
    """Batches of moves, one after the other."""

    model_config = ConfigDict(**_STRICT, json_schema_serialization_defaults_required=True)
    format: Literal["streamplace.steps/1"] = Field(
        description="what the document is, with its version"
    )
    instance: str = Field(description="name of the instance")
    instance_sha256: str = Field(description="hash of the instance")
    plan_sha256: str = Field(description="hash of the plan")
    found: bool = Field(description="whether there is an order")
    batches: list[list[MoveDocument]] = Field(
        description="moves that run together, one batch after another"
    )
    seconds: list[float | None] = Field(
        description="how long each batch copies state; null where no rate was given"
    )
    parked: list[str] = Field([], description="tasks that are on a third node for a while")
    exchanged: list[list[str]] = Field(
        [], description="tasks whose moves are one step: replicas that take over copies"
    )
    notes: list[str] = Field([], description="remarks")
    back: bool = Field(False, description="whether it is the way back to the present placement")
    proven_no_order_without_parking: bool = Field(
        False, description="whether it is proven that without parking there is no order"
    )
    blocked: list[BlockedDocument] = Field(
        [], description="where there is no order: moves that cannot be made"
    )


STEPS_ADAPTER: TypeAdapter[StepsDocument] = TypeAdapter(StepsDocument)


def steps_text(steps: Steps) -> str:
    """Return the steps as JSON text."""
    return json.dumps(steps.to_dict(), ensure_ascii=False, indent=1) + "\n"


def load_steps(path: str, instance: Instance) -> StepsDocument:
    """Read a file of steps."""
    value = parse_json(read_bytes(path))
    refuse_other_kind(value, "streamplace.steps")
    document = validate(STEPS_ADAPTER, value)
    if not document.found:
        reason, remedy = "says that there is no order of the moves", "ask `steps` for another plan"
        raise InvalidInput(Problem("found", False, reason, remedy))
    if document.instance_sha256 != instance.sha256:
        reason = f"is another instance's; {instance.name!r} has {instance.sha256}"
        raise InvalidInput(Problem("instance_sha256", document.instance_sha256, reason))
    return document


def placements(instance: Instance, document: StepsDocument) -> list[Ints]:
    """Return where tasks are before the first batch, and after each.

    Tasks are where their first move takes them from, all others at home.

    Raises `InvalidInput`: a move takes a task from where it is not, or names what the instance does
        not have.
    """
    tasks = instance.tasks.index
    nodes: dict[str | None, int] = {None: -1}
    nodes.update(instance.nodes.index)
    node = instance.tasks.node.copy()
    ledger = Ledger()
    batches = [
        [(f"batches[{b}][{m}]", move) for m, move in enumerate(batch)]
        for b, batch in enumerate(document.batches)
    ]
    starts: dict[str, str | None] = {}
    for path, move in chain.from_iterable(batches):
        if move.task not in tasks or {move.source, move.target} - nodes.keys():
            ledger.problem(path, move.task, "names a task or node that the instance does not have")
        starts.setdefault(move.task, move.source)
    ledger.check()
    for task, source in starts.items():
        # a way back begins in the middle: not where the instance has its tasks
        node[tasks[task]] = nodes[source]
    states = [node.copy()]
    for batch in batches:
        for path, move in batch:
            if node[tasks[move.task]] != nodes[move.source]:
                ledger.problem(f"{path}.from", move.source, "is not where it is")
            node[tasks[move.task]] = nodes[move.target]
        states.append(node.copy())
    ledger.check()
    return states


def batch_files(
    system: str, instance: Instance, document: StepsDocument, states: list[Ints], ledger: Ledger
) -> list[dict[str, str]]:
    """Return the files of each batch: ending to content, the empty ending for the file itself.

    `states` are what `placements` returns.
    """
    if system == "moves":
        batches = [{"moves": [m.model_dump(by_alias=True) for m in b]} for b in document.batches]
        return [{"": json.dumps(x, ensure_ascii=False, indent=1) + "\n"} for x in batches]
    if system == "flink":  # one step: a job is stopped and started again
        return [_written(system, instance, states[-1], ledger)] if document.batches else []
    if system == "storm":  # the whole placement each time
        return [_written(system, instance, state, ledger) for state in states[1:]]
    pairs = pairwise(states)
    return [reassignment(instance, *pair, ledger, back=document.back) for pair in pairs]


def write_batches(
    folder: Path, system: str, instance: Instance, document: StepsDocument, ledger: Ledger
) -> list[Path]:
    """Write the files of each batch into a folder; return the main one of each."""
    if system not in SYSTEMS:
        raise InvalidInput(Problem("--files", system, "is unknown", meant(system, SYSTEMS)))
    folder.mkdir(parents=True, exist_ok=True)
    states, paths = placements(instance, document), []
    files = batch_files(system, instance, document, states, ledger)
    for number, texts in enumerate(files, 1):
        paths.append((folder / f"batch-{number:04}.json").resolve())
        for ending, text in texts.items():
            write_atomic(paths[-1] if not ending else paths[-1].with_suffix(ending), text)
    return paths


def _written(system: str, instance: Instance, node: Ints, ledger: Ledger) -> dict[str, str]:
    exporter = EXPORTERS.get(system)
    options = read_options(exporter.name, exporter.options, ())
    texts = exporter.write(instance, Places(node), options, ledger)
    ledger.check()
    return texts


def reassignment(
    instance: Instance, before: Ints, after: Ints, ledger: Ledger, *, back: bool = False
) -> dict[str, str]:
    """Return Kafka's reassignment from one placement to another, and what is to be elected.

    Only lists that differ are in it.
    """
    changed = kafka.changes(instance, before, after, ledger, whole=False, back=back)
    ledger.check()
    listed = ((c.partition.key, c.after.replicas) for c in changed if c.is_listed)
    texts, led = {"": kafka.reassignment(listed)}, kafka.elected(changed)
    if led:
        texts[kafka.ELECTION] = kafka.elections(led)
    return texts


def with_lists(instance: Instance, steps: Steps) -> Steps:
    """Return the steps with a note of Kafka's lists that change though no replica moves.

    They are part of the first batch, which holds nothing else where nothing moves.
    """
    if not any(FACTOR in labels for labels in instance.tasks.labels.values()):
        return steps
    home, ledger = instance.tasks.node, Ledger()
    lists = [c for c in kafka.changes(instance, home, home, ledger, whole=False) if c.is_listed]
    if not lists:
        return steps
    count = f"{len(lists):,} partitions change" if len(lists) > 1 else "1 partition changes"
    note = f"{count} the list of replicas without a move: in the batch at the present placement"
    if not steps.batches:
        steps = replace(steps, batches=((),), seconds=(0.0,))
    return replace(steps, notes=(*steps.notes, note))


# -- carrying out ----------------------------------------------------------------------------------

JOURNAL = "journal.json"


class Journal:
    """Batches done, and the one that is under way, in a folder.

    `folder`: made where it is missing; it belongs to one file of steps, of this `sha256`.
    `done`, `running`: number of batches that are made, and whether the next one was begun.
    Raises `InvalidInput`: the folder is of other steps, or its journal cannot be read.
    """

    def __init__(self, folder: Path, sha256: str) -> None:
        self._store = Store(folder, "run", JOURNAL, None, "--folder", "name another --folder")
        self._question = {"steps_sha256": sha256}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._store.refused(f"cannot be made: {error.strerror}") from None
        self.read()

    def read(self) -> None:
        """Take up what the file says."""
        self.done, self.running = 0, False
        if not (self._store.path / JOURNAL).exists():
            return
        self._store.check(self._question)
        content = self._store.read()
        done, running = content.get("done"), content.get("running")
        if type(done) is not int or done < 0 or type(running) is not bool:
            reason = "is no journal: done must be a count, and running true or false"
            remedy = self._store.remedy
            raise InvalidInput(Problem(str(self._store.path / JOURNAL), None, reason, remedy))
        self.done, self.running = done, running

    def begin(self) -> None:
        """Say that the next batch is begun, before it is."""
        self.running = True
        self._write()

    def end(self) -> None:
        """Say that the batch under way is made."""
        self.done, self.running = self.done + 1, False
        self._write()

    def _write(self) -> None:
        self._store.write({**self._question, "done": self.done, "running": self.running})

    @contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[int]:
        """Hold the folder alone; yield the lock's descriptor, which a batch's command inherits.

        So the lock outlives a run that is killed for as long as its command runs, and that batch is
        not begun a second time beside itself.
        """
        # inherited: the system releases it when the last process that has it ends
        lock = Lock(self._store.path, folder=True, inherited=True)
        if not lock.acquire():
            waiting()
            lock.acquire(math.inf)
        try:
            yield lock.fileno()
        finally:
            lock.release()


class BatchFailed(StreamplaceError):
    """A batch did not come to its end; those after it are not begun."""

    exit_code = ExitCode.NO_PLAN


class Executor(Protocol):
    """What makes the moves of one batch."""

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """Make a batch, and return when it is made.

        `number`, `file`: from 1, and the system's file of it.
        `lock`: a descriptor that commands inherit.
        `again`: whether it was begun before, by a run that did not see its end.
        Raises `BatchFailed`: it was not made.
        """


def carry_out(
    executor: Executor, files: Sequence[Path], journal: Journal, say: Callable[[str], None]
) -> None:
    """Make the batches that are not made yet.

    Raises `BatchFailed`: one was not made; the journal stands at it.
    """
    waiting = "waits for a batch, or another run, that is still under way in this folder"
    with journal.locked(lambda: say(waiting)) as lock:
        journal.read()
        if journal.done or journal.running:
            say(f"{journal.done} of {len(files)} batches were made before")
        while journal.done < len(files):
            number, again = journal.done + 1, journal.running
            say(f"batch {number} of {len(files)}{' again' if again else ''}")
            journal.begin()
            try:
                executor.run(number, files[number - 1], lock, again=again)
            except BatchFailed as error:
                raise BatchFailed(f"batch {number}: {error}") from None
            journal.end()


@dataclass(frozen=True)
class Command:
    """A command a batch; a batch that was under way when a run was killed is repeated."""

    #: Words, in which ``{file}`` and ``{batch}`` stand for the batch's file and number; no shell.
    template: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Command:
        """Read a template."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise InvalidInput(Problem("--run", text, f"cannot be read: {error}")) from None
        if not words:
            raise InvalidInput(Problem("--run", text, "holds no command"))
        return cls(words)

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `Executor.run`; the variable ``STREAMPLACE_AGAIN`` is 1 for a repeated batch."""
        words = [
            word.replace("{file}", str(file)).replace("{batch}", str(number))
            for word in self.template
        ]
        environment = {**os.environ, "STREAMPLACE_AGAIN": str(int(again))}
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=2,  # standard output is for answers
                pass_fds=(lock,), env=environment, check=False,
            )  # fmt: skip
        except OSError as error:
            raise BatchFailed(f"{words[0]} cannot be run: {error.strerror}") from None
        if done.returncode:
            raise BatchFailed(f"{words[0]} ended with status {done.returncode}")


@dataclass(frozen=True)
class Kafka:
    """Submits batches to a cluster."""

    admin: KafkaAdmin  # The cluster.
    factors: Mapping[Key, int]  # Partition to the number of replicas before the first batch.
    settings: Settings = field(default_factory=Settings)  # How a batch is carried out.

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `Executor.run`."""
        plan = load_reassignment(str(file))
        for key, replicas in plan.lists.items():
            factor = self.factors.get(key, 1)
            if len(set(replicas)) < max(1, factor):
                raise BatchFailed(f"{key} has {factor} replicas, not {replicas}")
        try:
            outcome = submit(self.admin, plan, self.settings)
        except InvalidInput as error:
            raise BatchFailed(str(error)) from None
        if not outcome.verdict.holds:
            lines = [*outcome.verdict.text().splitlines(), *set(outcome.given_up.values())]
            raise BatchFailed("; ".join(map(str.strip, lines)))
