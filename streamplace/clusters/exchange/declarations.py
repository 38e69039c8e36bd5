"""What importers and exporters declare of themselves, take, note, and write alike."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem, raise_any
from optim.plugins import Option, Plugins
from streamplace.present.numbers import listed, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optim.format.instance import Instance
    from optim.format.plan import Plan
    from optim.format.tables import Ints
_SHOWN_FIELDS = 8
_MAX_PROBLEMS = 1000


@dataclass(frozen=True)
class Request:
    """What an importer is asked for: sources, typed options, seconds a web answer may take."""

    sources: tuple[str, ...]
    options: Mapping[str, Any]
    timeout: float


@dataclass(frozen=True)
class Importer:
    """A way from a foreign format to an instance."""

    #: Its name, one line, and what it reads.
    name: str
    summary: str
    sources: str
    options: tuple[Option, ...]  # Typed, with defaults.
    #: Makes the document of an instance; raises `InvalidInput` where a document or field that is
    #: needed is missing, or not what it should be, by path or line.
    read: Callable[[Request, Ledger], dict[str, Any]]
    #: Moves tasks of that document (id of the task to id of the node) with all that hangs on where
    #: they are; ``None`` where that is the node alone.
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
    """A way from a plan to a foreign format."""

    #: Its name and one line.
    name: str
    summary: str
    options: tuple[Option, ...]  # Typed, with defaults.
    #: Gives the texts to write: the ending after the chosen file's stem to its content; the empty
    #: ending is the file itself. Raises `InvalidInput` where the format or the system cannot take
    #: the plan.
    write: Callable[[Instance, Places, Mapping[str, Any], Ledger], dict[str, str]]
    needs_plan: bool = True  # Whether there is anything to write without a plan.
    #: Reads where tasks are out of a file that `write` made; raises `InvalidInput` where it is
    #: none, or is of other tasks and nodes. ``None`` where nothing in the file says it.
    read_back: Callable[[str, Instance], Places] | None = None
    #: How the files are put to use, with ``{0}``, ``{1}``, … for their names; empty for nothing to
    #: say.
    next_step: str = ""
    #: Gives the texts that bring operators to the numbers of tasks of a plan that chooses them, by
    #: operator id; ``None`` where the format says nothing of them.
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

    `readings`: what was inferred and not read; stands in the instance's ``origin`` too.
    `warnings`: what the user should look at.
    `ignored`: unknown field name to the number of times it was met.
    `next_step`: how what was exported is put to use, where that is not as the exporter declares it,
        or is reported though there are warnings.
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
        # a wrong column of a large file would give a problem a row
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.append(Problem(path, value, reason, remedy))

    def check(self) -> None:
        """Stop if there is a problem.

        Raises `InvalidInput`: with all problems so far.
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

    Raises `InvalidInput`: the plan is for another instance, or leaves tasks out.
    """
    from optim.referee import check_belongs

    check_belongs(instance, plan)
    node = plan.node_indices(instance)
    remedy = "a plan that places every task of this instance"
    left_out = [instance.tasks.ids[t] for t in (node < 0).nonzero()[0][:20]]
    raise_any([Problem(f"assignment.{name}", None, "is missing", remedy) for name in left_out])
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


# -- what crossing nodes costs, weights -----------------------------------------------------

COSTS = (
    Option(
        "crossing_cost", "str", "", "units of the first resource that a unit of traffic costs its "
        "sender, and its receiver, when it crosses nodes: 0.02,0.01, or one number for both",
    ),
    Option(
        "rate_driven", "str", "", "resources that grow with the input, by commas; else the first"
    ),
)  # fmt: skip


def add_network(document: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Write crossing costs, and what the rate drives, into the document of an instance.

    `options`: those of `COSTS` that there are; others are not looked at.
    """
    first = document.get("resources", ["cpu"])[0]
    if options.get("crossing_cost"):
        document["crossing_cost"] = {first: _costs(options["crossing_cost"])}
    if options.get("rate_driven"):
        document["rate_driven"] = [name.strip() for name in options["rate_driven"].split(",")]
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


def weigh(
    nodes: Sequence[dict[str, Any]], tasks: Sequence[dict[str, Any]], resource: str, ledger: Ledger
) -> None:
    """Give nodes of unequal capacity a ``weight``, so that an even plan fills them alike.

    Nothing is done where capacities are equal, or one that stays has none: a share of nothing known
    would be a guess. Tasks that load nothing with it are warned of: then nothing can be balanced.

    `nodes`, `tasks`: of a document that is being made.
    `resource`: the balanced one.
    `ledger`: takes the reading.
    """
    if not any(task["load"].get(resource) for task in tasks):
        ledger.warn(f"no task has any {resource}: every placement is as even as any other")
    capacities = [node.get("capacity", {}).get(resource) for node in nodes]
    staying = [
        capacity
        for capacity, node in zip(capacities, nodes, strict=True)
        if not node.get("leaving")
    ]
    # weight = capacity / largest capacity of a node that stays
    if not staying or not all(staying) or min(staying) == max(staying):
        return
    for node, capacity in zip(nodes, capacities, strict=True):
        if capacity:
            node["weight"] = capacity / max(staying)
    ledger.reading(f"an even share of {resource} is one in proportion to a node's capacity")
