"""Where key groups are placed: ``[cluster]`` and ``[limits]`` of a job description."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from experiments.documents import TABLE, Derived, Positive, Text
from optim.errors import InvalidInput, Problem
from optim.format.read import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NODES = 100_000


def _written_out(value: Any) -> Any:
    """Take a number for so many equal nodes."""
    if isinstance(value, list) and value:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise Fault("must be a number, or a list of tables")
    if not 1 <= value <= MAX_NODES:
        raise Fault(f"must be from 1 to {MAX_NODES}")
    width = len(str(value - 1))
    return [{"id": f"n{i:0{width}d}"} for i in range(value)]


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """Where key groups are placed.

    Attributes
    ----------
    nodes
        Entries of the instance format; a number stands for so many equal ones.
    capacity
        Of nodes that have none of their own.
    resource
        What loads are measured in.
    load_scale
        Load per unit of cost and second.
    utilisation
        Instead: percent of all capacity that the mean load of the recording is to be.
    placement
        Where key groups are at first.
    links, crossing_cost
        Of the instance format.
    limits
        Of the instance format.
    """

    __pydantic_config__ = TABLE
    nodes: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_written_out)]
    capacity: Positive | None = None
    resource: Text = "cpu"
    load_scale: Positive | None = None
    utilisation: Positive | None = None
    placement: Text = "round-robin"
    links: tuple[dict[str, Any], ...] = ()
    crossing_cost: dict[str, Any] = field(default_factory=dict)
    limits: Derived[dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {} if self.capacity is None else {"capacity": {self.resource: self.capacity}}
        object.__setattr__(self, "nodes", tuple({**given, **entry} for entry in self.nodes))
        if self.utilisation is not None and self.load_scale is not None:
            self._refuse_utilisation("stands beside load_scale", "give one")
        capacities = [node.get("capacity") for node in self.nodes]
        bounded = all(isinstance(c, dict) and self.resource in c for c in capacities)
        if self.utilisation is not None and not bounded:
            self._refuse_utilisation("needs a capacity", "add capacity = 100")

    def _refuse_utilisation(self, reason: str, remedy: str) -> None:
        raise Fault(problems=[Problem("utilisation", self.utilisation, reason, remedy)])

    def document(self) -> dict[str, Any]:
        """Return its part of the document of an instance."""
        return {
            "resources": [self.resource],
            "nodes": [dict(node) for node in self.nodes],
            "links": [dict(link) for link in self.links],
            "crossing_cost": dict(self.crossing_cost),
            "limits": dict(self.limits),
        }

    def problems(self) -> Iterator[Problem]:
        """Let the instance format judge nodes and limits, so that both mean the same there."""
        from optim.format.instance import Instance

        document = {
            "format": "streamplace.instance/1",
            "name": "cluster",
            **self.document(),
            "tasks": [{"id": "t"}],
        }
        try:
            Instance.from_dict(document)
        except InvalidInput as error:
            for problem in error.problems:
                prefix = "" if problem.path.startswith("limits") else "cluster."
                path = f"{prefix}{problem.path}"
                yield Problem(path, problem.value, problem.reason, problem.remedy)
