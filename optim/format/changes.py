"""Changed instances of what-if questions: a node more or less, more load or input, a budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, meant
from optim.format.instance import Instance
from optim.plugins import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Document = dict[str, Any]


AS_IT_IS = "as it is"  # A case without changes.


@dataclass(frozen=True)
class Change:
    """One change of an instance."""

    #: As the option of the command line: ``add-node``, ``drop-node``, ``fail-node``,
    #: ``scale-load``, ``scale-rate``, ``budget``.
    name: str
    what: str = ""  # A node or an operator; empty where the change is of the whole.
    amount: float = 1.0  # Number of nodes, factor, or number of moves.

    def __str__(self) -> str:
        value = f"{self.amount:g}"
        if self.name == "add-node":
            more = "" if self.amount == 1 else f" count={value}"
            return f"{self.name} like={self.what}{more}"
        if self.name == "scale-load":
            return f"{self.name} {self.what}={value}"
        return f"{self.name} {self.what or value}"


def read_case(text: str) -> tuple[Change, ...]:
    """Read changes as they are written: ``fail-node n3, scale-rate 2``; ``as it is`` for none.

    Raises `ValueError`: it says no changes; with what is wrong.
    """
    parts = [part.split() for part in text.split(",")]
    return () if text.strip() == AS_IT_IS else tuple(map(_read_change, parts))


def _read_change(words: list[str]) -> Change:
    name, values = (words or [""])[0], words[1:]
    if name not in _CHANGES or not values:
        raise ValueError(f"{' '.join(words)!r} is no change ({', '.join(_CHANGES)}, with a value)")
    what, amount = values[0], "1"
    if name == "add-node":
        arguments = dict(word.partition("=")[::2] for word in values)
        what, amount = arguments.pop("like", ""), arguments.pop("count", "1")
        if arguments or not what:
            raise ValueError(f"{' '.join(words)!r} is not add-node like=NODE [count=N]")
    elif name == "scale-load":
        what, _, amount = " ".join(values).rpartition("=")
    elif name in ("scale-rate", "budget"):
        what, amount = "", values[0]
    else:
        what = " ".join(values)
    try:
        number = number_of(amount) if name.startswith("scale") else float(amount)
    except ValueError:
        number = -1.0
    whole = name in ("add-node", "budget")
    if not 0 <= number < np.inf or (whole and number % 1) or (number == 0 and name != "budget"):
        raise ValueError(f"{amount!r} of {' '.join(words)!r} is no number that it can be")
    return Change(name, what, number)


def altered(instance: Instance, changes: Iterable[Change]) -> Instance:
    """Return the instance with changes made, one after the other.

    A node like another takes its place in links of racks and in lists of allowed nodes, too. A
    dropped node has to be emptied: it leaves, and no task may be there. A failed one is gone, its
    tasks are nowhere, and bringing them up elsewhere is no migration. Loads grow in the resources
    that are driven by the input (`Instance.rate_driven`).

    Raises `InvalidInput`: a node or operator that does not exist, or nothing is left.
    """
    for change in changes:
        document = instance.to_dict()
        _CHANGES[change.name](instance, document, change)
        instance = Instance.from_dict(document)
    return instance


def _checked_name(instance: Instance, change: Change, ids: Iterable[str]) -> str:
    names = list(ids)
    if change.what not in names:
        reason = f"is not in {instance.name!r}"
        remedy = meant(change.what, names, "there are")
        raise InvalidInput(Problem(f"--{change.name}", change.what, reason, remedy))
    return change.what


def _add_node(instance: Instance, document: Document, change: Change) -> None:
    like = _checked_name(instance, change, instance.nodes.ids)
    add_nodes(document, like, new_names(instance, like, int(change.amount)))


def new_names(instance: Instance, like: str, count: int) -> list[str]:
    """Return ids of so many nodes that are added like one."""
    taken = set(instance.nodes.ids)
    numbers = range(1, len(taken) + count + 1)
    return [name for k in numbers if (name := f"{like}-new{k}") not in taken][:count]


def add_nodes(document: Document, like: str, added: list[str]) -> None:
    """Add nodes to a document of an instance, each like a node that is there."""
    template = next(node for node in document["nodes"] if node["id"] == like)
    fields = {key: value for key, value in template.items() if key not in ("background", "leaving")}
    document["nodes"] += [{**fields, "id": name} for name in added]
    for link in list(document.get("links", [])):
        if link["nodes"] == [like]:
            document["links"] += [
                {**link, "id": f"{link['id']} of {name}", "nodes": [name], "background": 0.0}
                for name in added
            ]
        elif like in link["nodes"]:
            link["nodes"] = [*link["nodes"], *added]
    for holder, _ in _holders(document):
        if like in holder.get("allowed", ()):
            holder["allowed"] += added


def _holders(document: Document) -> Iterator[tuple[Document, str]]:
    """Yield all that may have a list of allowed nodes, tasks and groups, and what they are of."""
    yield from ((task, task["id"]) for task in document.get("tasks", []))
    for operator in document.get("operators", []):
        if "group" in operator:
            yield operator["group"], operator["id"]


def _removed_and_rest(instance: Instance, change: Change) -> tuple[str, list[str]]:
    """Return the node that a change takes, and those that are left."""
    removed = _checked_name(instance, change, instance.nodes.ids)
    rest = [name for name in instance.nodes.ids if name != removed]
    if not rest:
        raise InvalidInput(
            Problem(f"--{change.name}", removed, "is the only node", "add one: --add-node")
        )
    return removed, rest


def _drop_node(instance: Instance, document: Document, change: Change) -> None:
    removed, rest = _removed_and_rest(instance, change)
    for node in document["nodes"]:
        if node["id"] == removed:
            node["leaving"] = True
    groups = np.flatnonzero(instance.operators.group_tasks >= 0).tolist()
    members = {instance.tasks.ids[t] for o in groups for t in instance.tasks_of(o)}
    for holder, name in _holders(document):
        # a member without a list of its own has its group's, which a new one would override
        inherits = "tasks" not in holder and name in members
        if "allowed" in holder or not inherits:
            holder["allowed"] = _without(holder.get("allowed", rest), removed, name, change)


def _without(places: list[str], removed: str, where: str, change: Change) -> list[str]:
    left = [name for name in places if name != removed]
    if not left:
        reason = f"is the only node that {where} may use"
        raise InvalidInput(Problem(f"--{change.name}", removed, reason, "allow it another node"))
    return left


def _fail_node(instance: Instance, document: Document, change: Change) -> None:
    removed, _ = _removed_and_rest(instance, change)
    document["nodes"] = [node for node in document["nodes"] if node["id"] != removed]
    for link in document.get("links", []):
        link["nodes"] = [name for name in link["nodes"] if name != removed]
    document["links"] = [link for link in document.get("links", []) if link["nodes"]]
    for task in document.get("tasks", []):
        if task.get("node") == removed:
            task.pop("node")
            task.pop("slot", None)
        if "copies" in task:
            task["copies"] = [name for name in task["copies"] if name != removed]
    for holder, name in _holders(document):
        if "allowed" in holder:
            holder["allowed"] = _without(holder["allowed"], removed, name, change)


def _scale_load(instance: Instance, document: Document, change: Change) -> None:
    name = _checked_name(instance, change, instance.operators.ids)
    driven, number = [instance.resources[r] for r in instance.rate_driven], instance.operators.index
    for operator in document["operators"]:
        if operator["id"] == name:
            _times(operator.get("group", {}).get("load", {}), driven, change.amount)
            # derived load is of the first resource: cpu_per_tuple × tuple rate
            _times(operator, ["cpu_per_tuple"] if 0 in instance.rate_driven else [], change.amount)
    members = {instance.tasks.ids[t] for t in instance.tasks_of(number[name])}
    for task in document.get("tasks", []):
        if task["id"] in members:
            _times(task.get("load", {}), driven, change.amount)


def _scale_rate(instance: Instance, document: Document, change: Change) -> None:
    driven, factor = [instance.resources[r] for r in instance.rate_driven], change.amount
    for operator in document.get("operators", []):
        _times(operator.get("group", {}).get("load", {}), driven, factor)
    for task in document.get("tasks", []):
        _times(task.get("load", {}), driven, factor)
    for stream in document.get("streams", []):
        _times(stream, ["rate"], factor)
    document["traffic"] = [[u, v, rate * factor] for u, v, rate in document.get("traffic", [])]
    _times(document, ["input_rate"], factor)


def _times(values: Document, names: Iterable[str], factor: float) -> None:
    for name in names:
        if values.get(name) is not None:
            values[name] = values[name] * factor


def _budget(instance: Instance, document: Document, change: Change) -> None:
    document["limits"] = {**document.get("limits", {}), "max_migrations": int(change.amount)}


_CHANGES: dict[str, Callable[[Instance, Document, Change], None]] = {
    "add-node": _add_node,
    "drop-node": _drop_node,
    "fail-node": _fail_node,
    "scale-load": _scale_load,
    "scale-rate": _scale_rate,
    "budget": _budget,
}


def carried(before: Instance, after: Instance, node: Any) -> Any:
    """Return (T,) nodes of a placement in an altered instance; -1 where its node is gone."""
    places = np.array([after.nodes.index.get(name, -1) for name in before.nodes.ids], np.int32)
    return np.where(node >= 0, places[node], -1).astype(np.int32)


def held(instance: Instance, node: Any) -> Instance:
    """Return the instance whose tasks stand where a placement has them, and may be nowhere else.

    Tasks that it places nowhere are as before.
    """
    tasks, placed = instance.tasks, np.asarray(node) >= 0
    rows = [
        np.array([node[t]]) if placed[t] else np.flatnonzero(instance.allowed_mask(t))
        for t in range(instance.num_tasks)
    ]
    there = np.where(placed, node, tasks.node).astype(np.int32)
    return instance.with_allowed(range(instance.num_tasks), rows).with_values("tasks", node=there)
