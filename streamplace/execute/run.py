"""Carrying out batches one after the other, with a journal that is whole after any crash."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.exit_codes import ExitCode
from optim.util.store import Lock, Store
from streamplace.clusters.kafka.submit import Settings, load_reassignment, submit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from streamplace.clusters.kafka.admin import KafkaAdmin
    from streamplace.clusters.kafka.cluster import Key


JOURNAL = "journal.json"


class Journal:
    """Batches done, and the one that is under way, in a folder.

    Parameters
    ----------
    folder
        Made where it is missing; it belongs to one file of steps, of this `sha256`.

    Attributes
    ----------
    done, running
        Number of batches that are made, and whether the next one was begun.

    Raises
    ------
    InvalidInput
        The folder is of other steps, or its journal cannot be read.
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
        held = self._store.read()
        done, running = held.get("done"), held.get("running")
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

        Parameters
        ----------
        number, file
            From 1, and the system's file of it.
        lock
            A descriptor that commands inherit.
        again
            Whether it was begun before, by a run that did not see its end.

        Raises
        ------
        BatchFailed
            It was not made.
        """


def carry_out(
    executor: Executor, files: Sequence[Path], journal: Journal, say: Callable[[str], None]
) -> None:
    """Make the batches that are not made yet.

    Raises
    ------
    BatchFailed
        One was not made; the journal stands at it.
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
    """A command a batch; a batch that was under way when a run was killed is repeated.

    Attributes
    ----------
    template
        Words, in which ``{file}`` and ``{batch}`` stand for the batch's file and number; no shell.
    """

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
    """Submits batches to a cluster.

    Attributes
    ----------
    admin
        The cluster.
    factors
        Partition to the number of replicas before the first batch.
    settings
        How a batch is carried out.
    """

    admin: KafkaAdmin
    factors: Mapping[Key, int]
    settings: Settings = field(default_factory=Settings)

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `streamplace.execute.run.Executor.run`."""
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
            told = [*outcome.verdict.text().splitlines(), *set(outcome.given_up.values())]
            raise BatchFailed("; ".join(map(str.strip, told)))
