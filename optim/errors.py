"""One exception root; every error knows its exit code and, where the user can act, the remedy."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SHOWN_VALUE = 60
_SHOWN_PROBLEMS = 20
_SHOWN_NAMES = 40


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input.

    Attributes
    ----------
    path
        Where, in the file's own terms: ``nodes[3].capacity.cpu`` or ``--gap``.
    value
        What stands there, shortened for display; ``None`` when nothing does.
    reason
        Why it cannot be taken.
    remedy
        What to do about it; may be empty.
    """

    path: str
    value: Any
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        shown = "" if self.value is None else f": {shorten(self.value)}"
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.path}{shown} {self.reason}{remedy}"


def shorten(value: Any) -> str:
    """Show a value in at most sixty characters, without building a huge text first."""
    if isinstance(value, list | tuple | dict | set | bytes | bytearray):
        kind = {"list": "list", "dict": "object"}.get(type(value).__name__, type(value).__name__)
        if len(value) > 8:
            return f"<{kind} of {len(value)}>"
    if isinstance(value, str) and len(value) > _SHOWN_VALUE:
        value = value[:_SHOWN_VALUE] + "…"
    # to write a number of a million digits takes seconds, and Python refuses beyond 4,300
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"<integer of {value.bit_length()} bits>"
    text = repr(value)
    return text if len(text) <= _SHOWN_VALUE + 2 else text[:_SHOWN_VALUE] + "…"


def meant(word: str, choices: Iterable[str], otherwise: str = "one of") -> str:
    """Say which name may be meant by an unknown one, or which there are.

    >>> meant("capasity", ["capacity", "links"]), meant("x", ["capacity", "links"])
    ('did you mean capacity?', 'one of capacity, links')
    """
    from difflib import get_close_matches

    names = list(choices)
    close = get_close_matches(word, names, 1)
    if close:
        return f"did you mean {close[0]}?"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{otherwise} {', '.join(names[:_SHOWN_NAMES])}{more}"


def expect(name: str, value: object, kind: type, remedy: str) -> None:
    """Refuse, by `InvalidInput`, an argument that is of another type."""
    if not isinstance(value, kind):
        reason = f"is of type {type(value).__name__}, not {kind.__name__}"
        raise InvalidInput(Problem(name, value, reason, remedy))


class ExitCode(IntEnum):
    """Exit status of ``streamplace``; the same numbers live on every error class."""

    OK = 0  # a feasible, checked plan
    INTERNAL = 1  # internal error, or the referee refused a plan
    USAGE = 2  # usage or invalid input
    INFEASIBLE = 3  # no plan can exist
    NO_PLAN = 4  # no feasible plan: a limit was reached, or a heuristic fell short
    INTERRUPTED = 130


class StreamplaceError(Exception):
    """Root of all errors raised on purpose.

    Attributes
    ----------
    exit_code
        What the command line ends with.
    """

    exit_code: ExitCode = ExitCode.INTERNAL


class InvalidInput(StreamplaceError):
    """Input that cannot be taken; carries every problem found, not only the first.

    Parameters
    ----------
    problems
        What is wrong, in reading order.
    source
        The file or argument all paths are relative to; may be empty.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, problems: Iterable[Problem] | Problem, source: str = "") -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        self.source = source
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [str(problem) for problem in self.problems[:_SHOWN_PROBLEMS]]
        if len(self.problems) > _SHOWN_PROBLEMS:
            lines.append(f"… and {len(self.problems) - _SHOWN_PROBLEMS} more problems")
        if len(lines) == 1:
            return f"{self.source}: {lines[0]}" if self.source else lines[0]
        head = f"{self.source}: " if self.source else ""
        return f"{head}{len(self.problems)} problems\n" + "\n".join(f"  {line}" for line in lines)

    def within(self, source: str) -> InvalidInput:
        """Return the same problems, reported as coming from `source`."""
        return type(self)(self.problems, source)


def first_line(error: object) -> str:
    """Return the first line of what an error says, or its type where it says nothing."""
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), type(error).__name__)


@contextmanager
def problems_in(source: str) -> Iterator[None]:
    """Report problems that are found inside as coming from a source, such as the name of a file."""
    try:
        yield
    except InvalidInput as error:
        raise error.within(source) from None


def raise_any(problems: Sequence[Problem], source: str = "") -> None:
    """Refuse an input with everything that was found wrong with it, if anything was.

    Raises `InvalidInput`: there are problems.
    """
    if problems:
        raise InvalidInput(problems, source)


class UnsuitableMethod(InvalidInput):
    """The method cannot take this instance: a part it needs is missing, or a limit is not
    supported.

    See `InvalidInput`, of which it is a kind.
    """


class SolverUnavailable(InvalidInput):
    """A solver that is unknown, not installed, or cannot take this kind of model."""


class SolverError(StreamplaceError):
    """A solver failed, or its claim does not survive our own check."""


class RefereeRefused(StreamplaceError):
    """A method that promises a feasible plan produced one that the referee refuses."""
