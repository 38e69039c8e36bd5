"""A claim of a paper, and what a stored table says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

Verdict = Literal["same", "in part", "different", "not shown"]
"""Whether the predicate holds, holds for a part that is told, does not, or was not computed."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Finding:
    """What the stored tables say of a claim.

    Attributes
    ----------
    verdict
        Computed from the tables, never typed.
    figure
        Our figure, or figures, as text with units; made of values of the table.
    cause
        Why it is not the same, shown by a computed figure; ``None`` where no cause is shown.
    left_out, left_out_why
        Rows that the figure does not count (infeasible, unproved, base of 0, no plan), and why.
    """

    verdict: Verdict
    figure: str
    cause: str | None = None
    left_out: int = 0
    left_out_why: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")
        if self.left_out and not self.left_out_why:
            raise ValueError(f"{self.left_out} rows are left out without a reason")


def verdict_of(*parts: object) -> Verdict:
    """Return the verdict of a predicate's parts: all hold, some do, or none.

    >>> verdict_of(True, True), verdict_of(True, False), verdict_of(False)
    ('same', 'in part', 'different')
    """
    held = [bool(part) for part in parts]
    return "same" if all(held) else "in part" if any(held) else "different"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper.

    Attributes
    ----------
    id
        As ``CIKM-A1``.
    paper
        The folder in `experiments.studies.papers`.
    starred
        Whether it is one of the ten that matter most in its paper.
    where
        Section of the paper.
    words
        What the paper says, in our words; the half that fails, too.
    setup
        What it is said of; capital letters are set-ups of ``[setups]``.
    predicate
        What is computed, in words.
    tables, judge
        Names of stored tables, and the function that is called with their frames in this order.
        ``None`` where there is no judge.
    not_checkable
        Why this cannot be checked without the authors' cluster or data; empty where it can.
    """

    id: str
    paper: str
    starred: bool
    where: str
    words: str
    setup: str
    predicate: str
    tables: tuple[str, ...] = ()
    judge: Callable[..., Finding] | None = None
    not_checkable: str = ""
