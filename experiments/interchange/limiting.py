"""Limits that are given on the command line, such as a budget of moves, for what is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.rules import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARES = "max_utilisation."


def read_limits(given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return ``limits`` as an instance file has them.

    Parameters
    ----------
    given
        Names and values as texts; ``max_utilisation.RESOURCE`` is a share of a capacity.

    Raises
    ------
    InvalidInput
        Unknown limits, limits given twice, values that are no numbers, all at once. Whether a
        number does is for the instance to say.
    """
    limits: dict[str, Any] = {}
    shares: dict[str, float] = {}
    problems: list[Problem] = []
    for name, text in given:
        path = f"--limit {name}"
        resource = name.removeprefix(SHARES)
        into, key = (shares, resource) if name.startswith(SHARES) else (limits, name)
        if into is limits and name not in NUMBERS:
            remedy = f"one of {', '.join(NUMBERS)}, {SHARES}RESOURCE"
            problems.append(Problem(path, None, "is no limit", remedy))
        elif key in into:
            problems.append(Problem(path, text, "is given twice", "keep one"))
        else:
            try:
                number = float(text)
            except ValueError:
                problems.append(Problem(path, text, "is no number"))
                continue
            into[key] = int(number) if number.is_integer() else number
    if problems:
        raise InvalidInput(problems)
    return limits | ({"max_utilisation": shares} if shares else {})
