"""Instances written in Python: a builder over the format's own fields, and tables in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from optim.errors import InvalidInput, Problem, meant, raise_any
from optim.format.document import NodeDocument, StreamDocument, TaskDocument
from optim.format.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


_AMOUNTS = ("capacity", "load", "max_load", "min_load", "background", "slot_capacity")
"""Fields that hold a figure a resource; a plain number is the first resource's."""


class InstanceBuilder:
    """Gathers the parts of an instance; each method returns the builder, `build` the instance.

    Fields are those of the format (``docs/format.md``); amounts may be a number, of the first
    resource, or a mapping by resource. Nothing is checked before `build`, which reports all
    problems at once.

    Parameters
    ----------
    name
        Of the instance.
    resources
        Names; the first is the balanced one.
    **fields
        Further fields of the document, such as ``units`` or ``input_rate``.

    Examples
    --------
    >>> from streamplace import InstanceBuilder, solve
    >>> instance = (
    ...     InstanceBuilder("words", resources=["cpu"])
    ...     .node("n1", capacity=100)
    ...     .node("n2", capacity=100)
    ...     .operator("split", tasks=2, load=60)
    ...     .operator("count", tasks=2, load=80)
    ...     .stream("split", "count", rate=12)
    ...     .build()
    ... )
    >>> solve(instance).evaluation.imc_gain
    6.0
    """

    def __init__(self, name: str, *, resources: Sequence[str] = ("cpu",), **fields: Any) -> None:
        self._resources = list(resources)
        self._document: dict[str, Any] = {
            "format": "streamplace.instance/1",
            "name": name,
            "resources": self._resources,
            **fields,
        }

    def node(self, id: str, **fields: Any) -> InstanceBuilder:
        """Add a node: ``capacity``, ``rack``, ``slots``, ``leaving``, …"""
        return self._add("nodes", {"id": id, **fields})

    def operator(
        self, id: str, *, tasks: int | None = None, load: Any = None, state: Any = None,
        **fields: Any,
    ) -> InstanceBuilder:  # fmt: skip
        """Add an operator; with `tasks` a group of equal tasks that share `load` and `state`.

        ``max_load`` is what each one of its tasks can use.
        """
        group = {"tasks": tasks, "load": self._amounts(load), "state": state}
        if tasks is not None:
            fields["group"] = {key: value for key, value in group.items() if value is not None}
        return self._add("operators", {"id": id, **fields})

    def task(self, id: str, **fields: Any) -> InstanceBuilder:
        """Add a task, or say more of a group's: ``load``, ``node``, ``state``, ``allowed``, …"""
        return self._add("tasks", {"id": id, **fields})

    def stream(self, source: str, target: str, **fields: Any) -> InstanceBuilder:
        """Add a stream between operators: ``rate`` or ``selectivity``, ``pattern``, …"""
        return self._add("streams", {"from": source, "to": target, **fields})

    def traffic(self, source: str, target: str, rate: float) -> InstanceBuilder:
        """Add traffic from one task to another."""
        return self._add("traffic", [source, target, rate])

    def link(
        self, id: str, nodes: Sequence[str], capacity: float, **fields: Any
    ) -> InstanceBuilder:
        """Add a link that what leaves or enters its nodes shares."""
        return self._add("links", {"id": id, "nodes": [*nodes], "capacity": capacity, **fields})

    def together(self, id: str, **members: Any) -> InstanceBuilder:
        """Add a set, by ``tasks`` or ``operator``, that is to be on one node."""
        return self._add("sets", {"id": id, "rule": "together", **members})

    def apart(self, id: str, **members: Any) -> InstanceBuilder:
        """Add a set of which at most ``at_most`` (1) may be on a node, or rack (``over``)."""
        return self._add("sets", {"id": id, "rule": "apart", **members})

    def limits(self, **limits: Any) -> InstanceBuilder:
        """Set limits: ``max_migrations``, ``max_load_distance``, …"""
        self._document.setdefault("limits", {}).update(limits)
        return self

    def frame(self, part: str, table: pd.DataFrame) -> InstanceBuilder:
        """Add a row each of a table.

        Parameters
        ----------
        part
            ``nodes``, ``tasks``, ``streams`` or ``traffic``.
        table
            Columns are fields. Of nodes a resource's name is its capacity, of tasks its load;
            traffic has ``from``, ``to``, ``rate``. Cells without a value are left out.

        Raises
        ------
        InvalidInput
            There is no such part, or columns are missing, unknown or there twice.
        """
        _check_columns(part, list(map(str, table.columns)), self._resources)
        amount = "capacity" if part == "nodes" else "load"
        for record in table.to_dict("records"):
            row = {str(k): _plain(v) for k, v in record.items() if not _missing(v)}
            if part == "traffic":
                self._add(part, [row.get(key) for key in ("from", "to", "rate")])
                continue
            amounts = {name: row.pop(name) for name in self._resources if name in row}
            self._add(part, {**row, amount: amounts} if amounts else row)
        return self

    def build(self) -> Instance:
        """Return the instance.

        Raises
        ------
        InvalidInput
            With every problem by path.
        """
        return Instance.from_dict(self._document)

    def _add(self, part: str, entry: Any) -> InstanceBuilder:
        # the capacity of a link is a plain number in the format, too
        if isinstance(entry, dict) and part != "links":
            entry = {k: self._amounts(v) if k in _AMOUNTS else v for k, v in entry.items()}
        self._document.setdefault(part, []).append(entry)
        return self

    def _amounts(self, value: Any) -> Any:
        plain = isinstance(value, int | float | np.number)
        return {self._resources[0]: value} if plain and self._resources else value


_COLUMNS: dict[str, tuple[type[Any], tuple[str, ...]]] = {
    "nodes": (NodeDocument, ("id",)),
    "tasks": (TaskDocument, ("id",)),
    "streams": (StreamDocument, ("from", "to")),
    "traffic": (tuple, ("from", "to", "rate")),
}
"""Of each part that takes a table: the type of a row, and the columns that it needs."""


def _check_columns(part: str, columns: list[str], resources: Sequence[str]) -> None:
    """Refuse a table whose columns are not those of its part, naming each."""
    if part not in _COLUMNS:
        reason, parts = "holds no rows of a table", "nodes, tasks, streams or traffic"
        raise InvalidInput(Problem("part", part, reason, parts))
    kind, needed = _COLUMNS[part]
    fields = list(needed)
    if kind is not tuple:
        fields = list(TypeAdapter(kind).json_schema(by_alias=True)["properties"])
    allowed = [*fields, *(resources if part in ("nodes", "tasks") else ())]
    remedy = f"columns: {', '.join(allowed)}"
    problems = [
        Problem(f"{part} column {name}", None, "is missing from the table", remedy)
        for name in needed
        if name not in columns
    ]
    for name in dict.fromkeys(columns):
        if columns.count(name) > 1:
            reason = f"stands {columns.count(name)} times in the table"
            problems.append(Problem(f"{part} column {name}", None, reason, "keep one"))
        if name not in allowed:
            near = meant(name, allowed, "columns:")
            reason = f"is no field of {part}, nor a resource"
            problems.append(Problem(f"{part} column {name}", None, reason, near))
    raise_any(problems)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
