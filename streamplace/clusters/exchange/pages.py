"""Documents of foreign systems as types; figures, with the time they stand for; unique ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
    model_validator,
)

from optim.format.document import MAX_NUMBER, Fault, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from optim.errors import Problem
    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.exchange.sources import Document


T = TypeVar("T")

_MAX_TEXT = 1000
_MAX_NAME = 80
Many = Annotated[tuple[T, ...], BeforeValidator(lambda value: () if value is None else value)]
"""A list that may be null; to be given a default of none."""
# texts of Storm and Flink: 2 days 3h 4m 5s, or 2d 3:04:05
_DAYS = r"(?:(\d{1,9})\s*d(?:ays?)?)?[\s,]*"
_SPANS = (
    re.compile(
        _DAYS + r"(?:(\d{1,9})\s*h(?:(?:ou)?rs?)?)?[\s,]*"
        r"(?:(\d{1,9})\s*m(?:in(?:ute)?s?)?)?[\s,]*(?:(\d{1,9})\s*s(?:ec(?:ond)?s?)?)?"
    ),
    re.compile(_DAYS + r"(\d{1,9}):(\d\d):(\d\d)"),
)
_UNITS = (86_400.0, 3_600.0, 60.0, 1.0)


def words(text: str) -> frozenset[str]:
    """Return the words of a text: a list of field names that reads as prose."""
    return frozenset(text.split())


class Page(BaseModel):
    """A JSON object of a foreign system.

    Fields that no documentation knows are counted in the ledger, which is the context of reading.
    """

    model_config = ConfigDict(extra="allow")
    #: Documented fields that the reading has no use for: they are not counted.
    unused: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _count_unknown(self, info: ValidationInfo) -> Self:
        extra = self.__pydantic_extra__
        # most pages have none: their fields are not looped over
        if extra and not self.unused.issuperset(extra):
            ledger: Ledger = info.context  # type: ignore[assignment]
            for name in extra.keys() - self.unused:
                ledger.ignored[name[:_MAX_NAME]] += 1
        return self


def filled(start: Any = None) -> Any:
    """Declare a field that other pages fill: nothing of the page itself is read into it.

    It starts with a value, or with what a function makes.
    """
    first = {"default_factory" if callable(start) else "default": start}
    return Field(validation_alias="(filled)", **first)


def read_page(kind: Any, value: Any, path: str, ledger: Ledger) -> Any:
    """Return a document as its type, or ``None`` with its problems noted in the ledger.

    `kind`: a `Page`, or a list or dictionary of them.
    `path`: where the document is from: paths of problems begin with it.
    """
    problems: list[Problem] = []
    page = check(_adapter(kind), value, problems, path, context=ledger)
    for problem in problems:
        remedy = "it is needed here" if problem.reason == "is missing" else problem.remedy
        ledger.problem(problem.path, problem.value, problem.reason, remedy)
    return page


def read_pages(
    documents: Iterable[Document],
    kind_of: Callable[[Document, Ledger], Any],
    ledger: Ledger,
    path_of: Callable[[Any, str], str] = lambda kind, name: name,
) -> dict[Any, list[tuple[str, Any]]]:
    """Return the pages of a user's files by kind, each with the name of its file.

    `kind_of`: recognises a file by what it holds; ``None`` for what is left out.
    `path_of`: with what the paths of problems begin, of a kind and a file.
    """
    pages: dict[Any, list[tuple[str, Any]]] = {}
    for document in documents:
        kind = kind_of(document, ledger)
        path = path_of(kind, document.name)
        page = None if kind is None else read_page(kind, document.value, path, ledger)
        if page is not None:
            pages.setdefault(kind, []).append((document.name, page))
    return pages


def kind_by_field(
    document: Document, kinds: Mapping[str, Any], expected: str, ledger: Ledger
) -> Any:
    """Return the kind of the first field that a document has; ``None`` if it has none of them."""
    if not isinstance(document.value, dict):
        ledger.problem(document.name, document.value, "is not an object", expected)
        return None
    return next((kind for name, kind in kinds.items() if name in document.value), None)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# -- fields ----------------------------------------------------------------------------------------


def as_number(value: Any) -> float | None:
    """Return a finite number of at least 0, also out of a string; ``None`` for all else."""
    if type(value) is float and 0 <= value <= MAX_NUMBER:  # nearly all are: the rest is slower
        return value
    if isinstance(value, str):
        try:
            value = float(value) if len(value) <= 64 else None
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MAX_NUMBER else None


def _as_percent(value: Any) -> float | None:
    return as_number(value.strip().removesuffix("%") if isinstance(value, str) else value)


def as_whole(value: Any) -> int | None:
    """Return a whole number of at least 0, also out of a string; ``None`` for all else."""
    if type(value) is int and 0 <= value <= MAX_NUMBER:
        return value
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def _as_text(value: Any) -> str | None:
    if not isinstance(value, str | bool) and isinstance(value, int | float):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_TEXT else None


def is_whole(text: str) -> bool:
    """Whether a text is a whole number that `int` takes: 1 to 9 ASCII digits, so no "²"."""
    return text.isascii() and text.isdigit() and len(text) < 10


def needed(read: Callable[[Any], T | None], what: str) -> PlainValidator:
    """Return the check of a field that must be there, read by a function."""

    def take(value: Any) -> T:
        parsed = read(value)
        if parsed is None:
            raise Fault("is missing" if value is None else f"is not {what}")
        return parsed

    return PlainValidator(take)


def as_amount(value: Any) -> float | None:
    """Return what a user wrote as a number of at least 0; ``None`` for null."""
    amount = as_number(value)
    if amount is None and value is not None:
        raise Fault("is no number of at least 0")
    return amount


Amount = Annotated[float | None, PlainValidator(as_amount)]
"""``None`` where it is null or absent; all else must be a number."""
MaybeNumber = Annotated[float | None, PlainValidator(as_number)]
"""``None`` where it is absent, negative, NaN or no number at all."""
MaybeWhole = Annotated[int | None, PlainValidator(as_whole)]
MaybeText = Annotated[str | None, PlainValidator(_as_text)]
"""A text that can be an id, of 1 to 1000 characters, or a number as text; else ``None``."""
Name = Annotated[str, PlainValidator(lambda value: _as_text(value) or "")]
"""Empty where it is none."""
Number = Annotated[float, needed(as_number, "a number of at least 0")]
Percent = Annotated[float, needed(_as_percent, "a percentage of at least 0")]
Whole = Annotated[int, needed(as_whole, "a whole number of at least 0")]
Text = Annotated[str, needed(_as_text, f"a text of 1 to {_MAX_TEXT} characters")]


@dataclass(frozen=True)
class Reading:
    """What was counted, and since when."""

    amount: float | None  # ``None`` where it is not reported, negative or no number.
    #: For how long it was counted: the age of the counter, the window, or the time between two
    #: readings, whichever is shortest; ``None`` where unknown.
    seconds: float | None

    @property
    def rate(self) -> float | None:
        """The amount a second; ``None`` where it is unknown, or counted over no time at all."""
        if self.amount is None or self.seconds is None or self.seconds <= 0:
            return None
        return self.amount / self.seconds

    @classmethod
    def mean(cls, rate: float | None, seconds: float) -> Reading:
        """Return the reading of a rate that a system computed over so many seconds."""
        return cls(None if rate is None else rate * seconds, seconds)


def completed(rates: Sequence[float | None]) -> list[float] | None:
    """Return rates of equals, unknown ones as the mean of the known; ``None`` if all are."""
    reported = [rate for rate in rates if rate is not None]
    if not reported:
        return None
    mean = sum(reported) / len(reported)
    return [mean if rate is None else rate for rate in rates]


def seconds_of(text: object) -> float | None:
    """Return a span such as ``1h 21m 20s``, ``4 minutes`` or ``0:04:00``, or a number, in s."""
    span = text.strip().lower() if isinstance(text, str) else ""
    for match in (pattern.fullmatch(span) for pattern in _SPANS):
        if match and any(match.groups()):
            return sum(unit * int(n or 0) for unit, n in zip(_UNITS, match.groups(), strict=True))
    return as_number(text)


class UniqueNames:
    """Assigns ids: the wanted one, or, where that is taken, one with a number after it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str, mark: str = "") -> str:
        """Return an id that nobody has yet: the wanted one, cut to 200 characters, if it is free.

        `mark`: tried after the wanted id before numbers are, such as a part of a hash.
        """
        base = wanted[:200].strip() or "unnamed"
        # name, name (mark), name (2), name (3), …
        marks = chain([mark[:40]] if mark else [], map(str, count(2)))
        names = chain([base], (f"{base} ({mark})" for mark in marks))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name
