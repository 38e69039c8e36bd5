"""Carrying out batches one after the other: each to its end before the next is begun."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from optim.errors import InvalidInput, Problem, StreamplaceError
from optim.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from streamplace.execute.journal import Journal


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
            executor.run(number, files[number - 1], lock, again=again)
            journal.end()


@dataclass(frozen=True)
class Command:
    """A command a batch; a batch that was under way when a run was killed is made again.

    Attributes
    ----------
    template
        Words, in which ``{file}`` and ``{batch}`` stand for the batch's file and number; no shell.
    """

    template: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Command:
        """Read a template.

        Raises
        ------
        InvalidInput
            It is empty, or its quotes do not match.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise InvalidInput(Problem("--run", text, f"cannot be read: {error}")) from None
        if not words:
            raise InvalidInput(Problem("--run", text, "holds no command"))
        return cls(words)

    def run(self, number: int, file: Path, lock: int, *, again: bool) -> None:
        """As `Executor.run`; the variable ``STREAMPLACE_AGAIN`` is 1 for a batch made again."""
        words = [
            word.replace("{file}", str(file)).replace("{batch}", str(number))
            for word in self.template
        ]
        environment = {**os.environ, "STREAMPLACE_AGAIN": str(int(again))}
        status = run_tool(words, lock, env=environment).returncode
        if status:
            raise BatchFailed(f"batch {number}: {words[0]} ended with status {status}")


def run_tool(
    words: Sequence[str], lock: int, *, capture: bool = False, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Raises
    ------
    BatchFailed
        There is no such command.
    """
    try:
        return subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else 2,  # standard output is for answers
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            pass_fds=(lock,),
            env=env,
            check=False,
        )
    except OSError as error:
        raise BatchFailed(f"{words[0]} cannot be run: {error.strerror}") from None
