"""The functions an expression may call, and the types they take and give.

Types: ``text``, ``whole`` (64 bits), ``number`` (a double) and ``time`` (a moment). Null goes in
and comes out everywhere, but for ``coalesce``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.traces.grammar import Call, ColumnName, ExpressionFault, Literal
from optim.errors import meant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from experiments.traces.grammar import Node

TYPES = ("text", "whole", "number", "time")
_NUMERIC = ("whole", "number")
_PLAIN = ("text", "whole", "number")
_ANY = TYPES


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives.

    Attributes
    ----------
    takes
        Types allowed for each argument; the last one repeats where `repeats`.
    gives
        Type of the result; ``same``: the common type of the arguments.
    means
        One line for the documentation.
    least
        Fewest arguments; as many as `takes` if not given.
    """

    takes: tuple[tuple[str, ...], ...]
    gives: str
    means: str
    repeats: bool = False
    least: int | None = None


def _one(types: tuple[str, ...], gives: str, means: str) -> Signature:
    return Signature((types,), gives, means)


def _part(means: str, gives: str = "whole") -> Signature:
    return _one(("time",), gives, f"{means}, in the job's time zone")


FUNCTIONS: Mapping[str, Signature] = {
    "hash": Signature((_ANY,), "whole", "64-bit xxHash of the values as texts", repeats=True),
    "concat": Signature((_PLAIN,), "text", "the values as texts, one after the other", True),
    "coalesce": Signature((_ANY,), "same", "the first value that is not null", True),
    "least": Signature((_NUMERIC,), "same", "the smallest", True),
    "greatest": Signature((_NUMERIC,), "same", "the largest", True),
    "abs": _one(_NUMERIC, "same", "without its sign"),
    "floor": _one(_NUMERIC, "whole", "rounded down"),
    "ceil": _one(_NUMERIC, "whole", "rounded up"),
    "round": _one(_NUMERIC, "whole", "rounded, halves away from zero"),
    "length": _one(("text",), "whole", "number of characters"),
    "lower": _one(("text",), "text", "in small letters"),
    "upper": _one(("text",), "text", "in capitals"),
    "trim": _one(("text",), "text", "without blanks at its ends"),
    "substring": Signature(
        (("text",), ("whole",), ("whole",)), "text", "from a position (from 1), so many characters"
    ),
    "text": _one(_PLAIN, "text", "as a text"),
    "number": _one(_PLAIN, "number", "as a number; null where it is none"),
    "year": _part("year"),
    "month": _part("month, 1 to 12"),
    "day": _part("day of the month"),
    "dayofyear": _part("day of the year, from 1"),
    "weekday": _part("0 is Monday, 6 Sunday"),
    "week": _part("ISO week, 1 to 53"),
    "hour": _part("hour"),
    "minute": _part("minute"),
    "second": _part("second"),
    "date": _part("date as yyyy-mm-dd", "text"),
    "time": _one(
        ("text", "time"), "time", "a moment from a text; without offset in the events' time zone"
    ),
    "timestamp": Signature(
        (("whole",),) * 6,
        "time",
        "year, month, day, hour, minute, second (the last three may be left out) in the events' "
        "time zone; null where there is no such date",
        least=3,
    ),
    "epoch": _one(_NUMERIC, "time", "a moment from seconds since 1970 UTC"),
    "epoch_ms": _one(_NUMERIC, "time", "a moment from milliseconds since 1970 UTC"),
}
"""Everything an expression may call."""

OPERATORS: Mapping[str, Signature] = {
    "+": Signature((_NUMERIC, _NUMERIC), "same", "sum"),
    "-": Signature((_NUMERIC, _NUMERIC), "same", "difference"),
    "*": Signature((_NUMERIC, _NUMERIC), "same", "product"),
    "/": Signature((_NUMERIC, _NUMERIC), "number", "quotient; null when divided by 0"),
    "%": Signature((_NUMERIC, _NUMERIC), "same", "remainder, never negative; null by 0"),
    "neg": _one(_NUMERIC, "same", "with the other sign"),
}


def type_of(node: Node, columns: Mapping[str, str]) -> str:
    """Return the type of an expression.

    Parameters
    ----------
    node
        From `experiments.traces.grammar.parse`.
    columns
        Types by name.

    Raises
    ------
    ExpressionFault
        An unknown column or function, a wrong number of arguments, or a wrong type.
    """
    if isinstance(node, Literal):
        return {str: "text", int: "whole", float: "number"}[type(node.value)]
    if isinstance(node, ColumnName):
        if node.name not in columns:
            reason = f"there is no column {node.name!r}"
            raise ExpressionFault(node.at, reason, _hint(node, columns))
        return columns[node.name]
    return _type_of_call(node, [type_of(part, columns) for part in node.arguments])


def check_functions(node: Node) -> None:
    """Refuse unknown functions and wrong numbers of arguments, before any column is known.

    Raises
    ------
    ExpressionFault
        There is such a call.
    """
    if isinstance(node, Call):
        _signature(node)
        for part in node.arguments:
            check_functions(part)


def _signature(node: Call) -> Signature:
    signature = OPERATORS.get(node.function) or FUNCTIONS.get(node.function)
    if signature is None:
        remedy = meant(node.function.lower(), FUNCTIONS, "there are")
        raise ExpressionFault(node.at, f"there is no function {node.function!r}", remedy)
    most = len(signature.takes)
    least = most if signature.least is None else signature.least
    count = len(node.arguments)
    if count < least or (count > most and not signature.repeats):
        wanted = f"at least {least}" if signature.repeats else _from_to(least, most)
        raise ExpressionFault(node.at, f"{node.function} takes {wanted} arguments, not {count}")
    return signature


def _from_to(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _type_of_call(node: Call, given: list[str]) -> str:
    signature = _signature(node)
    for number, (part, kind) in enumerate(zip(node.arguments, given, strict=True)):
        allowed = signature.takes[min(number, len(signature.takes) - 1)]
        if kind not in allowed:
            what = f"column {part.name!r}" if isinstance(part, ColumnName) else "a value"
            reason = f"{node.function} takes {' or '.join(allowed)}, and {what} is {kind}"
            remedy = ""
            if isinstance(part, ColumnName) and kind == "text":
                remedy = f'declare its type in columns: {part.name} = "{allowed[0]}"'
            raise ExpressionFault(part.at, reason, remedy)
    if signature.gives != "same":
        return signature.gives
    kinds = set(given)
    if len(kinds) == 1:
        return given[0]
    if kinds == set(_NUMERIC):
        return "number"
    raise ExpressionFault(node.at, f"{node.function} mixes {' and '.join(sorted(kinds))}")


def _hint(node: ColumnName, columns: Mapping[str, str]) -> str:
    return meant(node.name, columns, "there are")
