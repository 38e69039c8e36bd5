"""What importers and exporters declare of themselves, take, note, and write alike."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
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

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.document import MAX_NUMBER
from optim.format.read import Fault, check
from optim.options import Option
from optim.plugins import Plugins
from streamplace.present.console import printable
from streamplace.present.numbers import listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
    from streamplace.clusters.exchange.sources import Document
_SHOWN_FIELDS = 8
_MAX_PROBLEMS = 1000
FAR = 0.05
"""Difference of the measured share from the predicted one that is worth a note."""


@dataclass(frozen=True)
class Request:
    """What an importer is asked for: sources, typed options, seconds a web answer may take."""

    sources: tuple[str, ...]
    options: Mapping[str, Any]
    timeout: float


@dataclass(frozen=True)
class Importer:
    """A way from a foreign format to an instance.

    Attributes
    ----------
    name, summary, sources
        Its name, one line, and what it reads.
    options
        Typed, with defaults.
    read
        Makes the document of an instance; raises `InvalidInput` where a document or field that is
        needed is missing, or not what it should be, by path or line.
    follow
        Moves tasks of that document (id of the task to id of the node) with all that hangs on where
        they are; ``None`` where that is the node alone.
    """

    name: str
    summary: str
    sources: str
    options: tuple[Option, ...]
    read: Callable[[Request, Ledger], dict[str, Any]]
    follow: (
        Callable[[dict[str, Any], Mapping[str, str], Mapping[str, Any], Ledger], None] | None
    ) = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace import --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "sources": self.sources,
            "options": [option.to_dict() for option in self.options],
        }


@dataclass(frozen=True)
class Exporter:
    """A way from a plan to a foreign format.

    Attributes
    ----------
    name, summary
        Its name and one line.
    options
        Typed, with defaults.
    write
        Gives the texts to write: the ending after the chosen file's stem to its content; the
        empty ending is the file itself. Raises `InvalidInput` where the format or the system
        cannot take the plan.
    needs_plan
        Whether there is anything to write without a plan.
    read_back
        Reads where tasks are out of a file that `write` made; raises `InvalidInput` where it is
        none, or is of other tasks and nodes. ``None`` where nothing in the file says it.
    rescale
        Gives the texts that bring operators to the numbers of tasks of a plan that chooses them, by
        operator id; ``None`` where the format says nothing of them.
    next_step
        How the files are put to use, with ``{0}``, ``{1}``, … for their names; empty for nothing
        to say.
    """

    name: str
    summary: str
    options: tuple[Option, ...]
    write: Callable[[Instance, Places, Mapping[str, Any], Ledger], dict[str, str]]
    needs_plan: bool = True
    read_back: Callable[[str, Instance], Places] | None = None
    next_step: str = ""
    rescale: Callable[[Instance, Mapping[str, int], Ledger], dict[str, str]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace export --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "needs_plan": self.needs_plan,
            "options": [option.to_dict() for option in self.options],
        }


IMPORTERS: Plugins[Importer] = Plugins(
    group="streamplace.importers", noun="format", where="FORMAT", declared=f"{__name__}:Importer"
)

EXPORTERS: Plugins[Exporter] = Plugins(
    group="streamplace.exporters", noun="format", where="FORMAT", declared=f"{__name__}:Exporter"
)


class Ledger:
    """Collects notes, ignored fields and problems while sources are read.

    Attributes
    ----------
    readings
        What was inferred and not read; stands in the instance's ``origin`` too.
    warnings
        What the user should look at.
    ignored
        Unknown field name to the number of times it was met.
    next_step
        How what was exported is put to use, where that is not as the exporter declares it, or is
        reported though there are warnings.
    """

    def __init__(self) -> None:
        self.readings: list[str] = []
        self.warnings: list[str] = []
        self.ignored: Counter[str] = Counter()
        self.next_step = ""
        self._problems: list[Problem] = []

    def reading(self, text: str) -> None:
        """Note an inference, once."""
        if text not in self.readings:
            self.readings.append(text)

    def warn(self, text: str) -> None:
        """Note something to look at, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def problem(self, path: str, value: object, reason: str, remedy: str = "") -> None:
        """Note a reason why the sources cannot be taken."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(path, value, reason, remedy))

    def check(self) -> None:
        """Stop if there is a problem.

        Raises
        ------
        InvalidInput
            With all problems so far.
        """
        if self._problems:
            raise InvalidInput(self._problems)

    def ignored_text(self) -> str:
        """Return the ignored fields in one line; empty if there are none."""
        if not self.ignored:
            return ""
        ordered = sorted(self.ignored.items(), key=lambda item: (-item[1], item[0]))
        shown = listed([f"{name} ×{number}" for name, number in ordered], _SHOWN_FIELDS)
        return f"ignored {plural(self.ignored.total(), 'unknown field')}: {shown}"


# -- placements ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Places:
    """(T,) node index of each task, and (T,) slot index or ``None`` where slots are not decided."""

    node: Ints
    slot: Ints | None = None


def places_of_plan(instance: Instance, plan: Plan) -> Places:
    """Return where a plan puts the tasks of an instance.

    Raises
    ------
    InvalidInput
        The plan is for another instance, or leaves tasks out.
    """
    problems = []
    told = plan.instance_sha256
    if told not in (None, instance.sha256):
        reason = f"is not the hash of this instance ({instance.sha256[:12]}…)"
        remedy = "export with the instance the plan was made for"
        problems.append(Problem("instance_sha256", told, reason, remedy))
    node = plan.node_indices(instance)
    for name in [instance.tasks.ids[t] for t in (node < 0).nonzero()[0][:20]]:
        place = plan.assignment.get(name)
        problems.append(Problem(f"assignment.{name}", place, "is no node of the instance"))
    for name in sorted(set(plan.assignment) - set(instance.tasks.ids))[:20]:
        problems.append(Problem(f"assignment.{name}", None, "is no task of the instance"))
    raise_any(problems)
    return Places(node, plan.slot_indices(instance))


def moves_to(instance: Instance, places: Places) -> dict[str, str]:
    """Return the new node of each task that is elsewhere than now."""
    moved = ((places.node != instance.tasks.node) & (places.node >= 0)).nonzero()[0].tolist()
    return {instance.tasks.ids[t]: instance.nodes.ids[places.node[t]] for t in moved}


def with_places(instance: Instance, places: Places) -> Instance:
    """Return the instance with these places as its current placement; -1 leaves a task without."""
    from optim.format.instance import Instance

    document = instance.to_dict()
    entries: dict[str, dict[str, Any]] = {e["id"]: dict(e) for e in document.get("tasks", [])}
    for t, name in enumerate(instance.tasks.ids):
        entry = entries.setdefault(name, {"id": name})
        entry.pop("node", None)
        entry.pop("slot", None)
        if places.node[t] >= 0:
            entry["node"] = instance.nodes.ids[places.node[t]]
            if places.slot is not None and places.slot[t] >= 0:
                entry["slot"] = int(places.slot[t])
    return Instance.from_dict({**document, "tasks": list(entries.values())})


# -- whether a cluster runs as planned ------------------------------------------------------------


@dataclass(frozen=True)
class Verdict(ABC):
    """Whether a cluster runs as planned.

    Attributes
    ----------
    planned, as_planned
        How many are planned (subtasks, partitions, executors), and how many of them are so.
    differences
        Named tuples: what the others are.
    """

    planned: int
    as_planned: int
    differences: tuple[Any, ...]

    @property
    def holds(self) -> bool:
        """Whether all is as planned."""
        return not self.differences

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield what is reported, a line each."""

    def text(self) -> str:
        """Return it in lines."""
        return "".join(f"{printable(line)}\n" for line in self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        told = {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}
        rows = [entry._asdict() for entry in self.differences]
        return {"holds": self.holds, **told, "differences": rows}


@dataclass(frozen=True)
class SharedVerdict(Verdict):
    """One with a share of what crosses between nodes: by the plan, and as the system counts it.

    ``None`` where it is not known, `FAR_BECAUSE` what may be why they are far apart.
    """

    predicted_share: float | None = None
    measured_share: float | None = None
    FAR_BECAUSE: ClassVar[str] = ""

    def share_lines(self) -> Iterator[str]:
        """Yield both shares where both are known."""
        predicted, measured = self.predicted_share, self.measured_share
        if predicted is not None and measured is not None:
            far = f" ({self.FAR_BECAUSE})" if abs(predicted - measured) > FAR else ""
            yield f"remote share {measured:.3f} measured, {predicted:.3f} predicted{far}"


# -- what crossing nodes costs, links, weights -----------------------------------------------------

COSTS = (
    Option(
        "crossing_cost", "str", "", "units of the first resource that a unit of traffic costs its "
        "sender, and its receiver, when it crosses nodes: 0.02,0.01, or one number for both",
    ),
    Option(
        "rate_driven", "str", "", "resources that grow with the input, by commas; else the first"
    ),
)  # fmt: skip
LINKS = (
    Option(
        "link_share", "float", 0.0, "capacity of each node's link over all traffic; 0 for no links",
        minimum=0.0,
    ),
    Option(
        "direction", "str", "duplex", "of these links; duplex: two a node, out and in",
        choices=("duplex", "both", "out", "in"),
    ),
)  # fmt: skip


def add_network(document: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write crossing costs, what the rate drives, and links into the document of an instance.

    Parameters
    ----------
    options
        Those of `COSTS` and `LINKS` that there are; others are not looked at.
    """
    first = document.get("resources", ["cpu"])[0]
    if options.get("crossing_cost"):
        document["crossing_cost"] = {first: _costs(options["crossing_cost"])}
    if options.get("rate_driven"):
        document["rate_driven"] = [name.strip() for name in options["rate_driven"].split(",")]
    if options.get("link_share"):
        total = sum(stream["rate"] for stream in document["streams"])
        way = options["direction"]
        document["links"] = [
            {
                "id": f"{side}-{node['id']}",
                "nodes": [node["id"]],
                "capacity": options["link_share"] * total,
                "direction": side,
            }
            for node in document["nodes"]
            for side in (("out", "in") if way == "duplex" else (way,))
        ]
    return document


def _costs(text: str) -> dict[str, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2) or not all(math.isfinite(v) and v >= 0 for v in values):
        reason, remedy = "is no cost of crossing nodes", "one number of at least 0, or two: out,in"
        raise InvalidInput(Problem("crossing_cost", text, reason, remedy))
    return {"out": values[0], "in": values[-1]}


def weigh(nodes: Sequence[dict[str, Any]], resource: str, ledger: Ledger) -> None:
    """Give nodes of unequal capacity a ``weight``, so that an even plan fills them alike.

    Nothing is done where capacities are equal, or one that stays has none: a share of nothing known
    would be a guess.

    Parameters
    ----------
    nodes
        Of a document that is being made.
    resource
        The balanced one.
    ledger
        Takes the reading.
    """
    told = [node.get("capacity", {}).get(resource) for node in nodes]
    known = [own for own, node in zip(told, nodes, strict=True) if not node.get("leaving")]
    if not known or not all(known) or min(known) == max(known):
        return
    for node, own in zip(nodes, told, strict=True):
        if own:
            node["weight"] = own / max(known)
    ledger.reading(f"an even share of {resource} is one in proportion to a node's capacity")


# -- documents of foreign systems as types; figures, with the time they stand for; unique ids ------


T = TypeVar("T")

_MAX_TEXT = 1000
_MAX_NAME = 80
Many = Annotated[tuple[T, ...], BeforeValidator(lambda value: () if value is None else value)]
"""A list that may be null; to be given a default of none."""
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

    Attributes
    ----------
    unused
        Documented fields that the reading has no use for: they are not counted.
    """

    model_config = ConfigDict(extra="allow")
    unused: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _count_unknown(self, info: ValidationInfo) -> Self:
        extra = self.__pydantic_extra__
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

    Parameters
    ----------
    kind
        A `Page`, or a list or dictionary of them.
    path
        Where the document is from: paths of problems begin with it.
    """
    problems: list[Problem] = []
    found = check(_adapter(kind), value, problems, path, context=ledger)
    for problem in problems:
        remedy = "it is needed here" if problem.reason == "is missing" else problem.remedy
        ledger.problem(problem.path, problem.value, problem.reason, remedy)
    return found


def read_pages(
    documents: Iterable[Document],
    kind_of: Callable[[Document, Ledger], Any],
    ledger: Ledger,
    path_of: Callable[[Any, str], str] = lambda kind, name: name,
) -> dict[Any, list[tuple[str, Any]]]:
    """Return the pages of a user's files by kind, each with the name of its file.

    Parameters
    ----------
    kind_of
        Recognises a file by what it holds; ``None`` for what is left out.
    path_of
        With what the paths of problems begin, of a kind and a file.
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
    found = as_number(value)
    return int(found) if found is not None and found.is_integer() else None


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
        found = read(value)
        if found is None:
            raise Fault("is missing" if value is None else f"is not {what}")
        return found

    return PlainValidator(take)


def as_amount(value: Any) -> float | None:
    """Return what a user wrote as a number of at least 0; ``None`` for null."""
    found = as_number(value)
    if found is None and value is not None:
        raise Fault("is no number of at least 0")
    return found


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
    """What was counted, and since when.

    Attributes
    ----------
    amount
        ``None`` where it is not reported, negative or no number.
    seconds
        For how long it was counted: the age of the counter, the window, or the time between two
        readings, whichever is shortest; ``None`` where unknown.
    """

    amount: float | None
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
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    mean = sum(known) / len(known)
    return [mean if rate is None else rate for rate in rates]


def seconds_of(text: object) -> float | None:
    """Return a span such as ``1h 21m 20s``, ``4 minutes`` or ``0:04:00``, or a number, in s."""
    told = text.strip().lower() if isinstance(text, str) else ""
    for found in (pattern.fullmatch(told) for pattern in _SPANS):
        if found and any(found.groups()):
            return sum(unit * int(n or 0) for unit, n in zip(_UNITS, found.groups(), strict=True))
    return as_number(text)


class UniqueNames:
    """Assigns ids: the wanted one, or, where that is taken, one with a number after it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, wanted: str, mark: str = "") -> str:
        """Return an id that nobody has yet: the wanted one, cut to 200 characters, if it is free.

        Parameters
        ----------
        mark
            Tried after the wanted id before numbers are, such as a part of a hash.
        """
        base = wanted[:200].strip() or "unnamed"
        marks = chain([mark[:40]] if mark else [], map(str, count(2)))
        names = chain([base], (f"{base} ({mark})" for mark in marks))
        name = next(name for name in names if name not in self._taken)
        self._taken.add(name)
        return name
