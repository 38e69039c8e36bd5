"""Variations: an instance document and a value in, the varied document out.

``load_share``
    Capacities of a resource are multiplied by one factor, so that load takes the given share of
    them; proportions between nodes stay.
``scale_capacity``
    Capacities of a resource are multiplied by the value.
``limit``
    One of the limits is set to the value.
``what_if``
    The changes that the value names are made, as by the options of ``solve``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.rules import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KINDS = ("load_share", "scale_capacity", "limit", "what_if")
LIMITS = NUMBERS

_CAPACITIES = ("capacity", "slot_capacity")


@dataclass(frozen=True)
class Variation:
    """One way to vary an instance.

    Attributes
    ----------
    name, kind
        Of the factor in the matrix; one of `KINDS`.
    resource
        Which one; None for the first of the instance, or where the value names it.
    limit
        Which limit a ``limit`` sets.
    """

    name: str
    kind: str
    resource: str | None = None
    limit: str | None = None

    def apply(self, document: Mapping[str, Any], value: Any) -> dict[str, Any]:
        """Return the varied document; the one given stays as it is.

        Parameters
        ----------
        document
            A valid instance document, as `Instance.to_dict` gives it.
        value
            The share, the factor (or a mapping of resource to factor), the limit, or the changes.

        Raises
        ------
        InvalidInput
            The instance cannot be varied so: the resource is unknown, or a node has no capacity.
        """
        match self.kind:
            case "load_share":
                resource = self._resource(document)
                return scale_capacity(document, {resource: _factor(document, resource, value)})
            case "scale_capacity" if isinstance(value, dict):
                return scale_capacity(document, value)
            case "scale_capacity":
                return scale_capacity(document, {self._resource(document): value})
            case "what_if":
                return _changed(document, value)
            case _:
                return set_limit(document, str(self.limit), value)

    def _resource(self, document: Mapping[str, Any]) -> str:
        return self.resource or str(document["resources"][0])


def apply_all(
    document: Mapping[str, Any], variations: Sequence[tuple[Variation, Any]]
) -> dict[str, Any]:
    """Return the document after several variations, one after another."""
    varied = dict(document)
    for variation, value in variations:
        varied = variation.apply(varied, value)
    return varied


def scale_capacity(document: Mapping[str, Any], factors: Mapping[str, float]) -> dict[str, Any]:
    """Multiply the capacities of resources on all nodes, those of their slots along with them.

    Raises
    ------
    InvalidInput
        The instance has no such resource.
    """
    for resource in factors:
        _check_resource(document, resource)
    nodes = []
    for node in document["nodes"]:
        scaled = dict(node)
        for part in _CAPACITIES:
            if part in node:
                amounts = node[part].items()
                scaled[part] = {r: v * factors[r] if r in factors else v for r, v in amounts}
        nodes.append(scaled)
    return {**document, "nodes": nodes}


def set_limit(document: Mapping[str, Any], name: str, value: float) -> dict[str, Any]:
    """Set one limit, the others stay; counts are whole numbers."""
    amount = int(value) if float(value).is_integer() else value
    return {**document, "limits": {**document.get("limits", {}), name: amount}}


def _changed(document: Mapping[str, Any], case: str) -> dict[str, Any]:
    """Make the changes that are named."""
    from optim.format.changes import altered, read_case
    from optim.format.instance import Instance

    changes = read_case(case)
    return altered(Instance.from_dict(document), changes).to_dict() if changes else dict(document)


def _factor(document: Mapping[str, Any], resource: str, share: float) -> float:
    """Return what capacities must be multiplied by, for load to take `share` of them.

    Load is that of all tasks and the background of the nodes that stay, capacity that of the
    nodes that stay.
    """
    from optim.format.instance import Instance

    _check_resource(document, resource)
    instance = Instance.from_dict(document)
    column = instance.resources.index(resource)
    staying = instance.open_nodes
    capacity = instance.nodes.capacity[staying, column]
    unbounded = np.flatnonzero(~np.isfinite(capacity))
    if unbounded.size:
        node = np.array(instance.nodes.ids, dtype=object)[staying][unbounded[0]]
        reason = f"has no capacity of {resource} on node {node}, so load is no share of it"
        raise InvalidInput(Problem(instance.name, None, reason, "give every node a capacity"))
    load = instance.total_load[column] + instance.nodes.background[staying, column].sum()
    if load <= 0 or capacity.sum() <= 0:
        reason = f"has no load or no capacity of {resource}"
        raise InvalidInput(Problem(instance.name, None, reason, "vary another resource"))
    return float(load / (share * capacity.sum()))


def _check_resource(document: Mapping[str, Any], resource: str) -> None:
    known = document["resources"]
    if resource not in known:
        reason = f"has no resource {resource}"
        remedy = f"its resources: {', '.join(known)}"
        raise InvalidInput(Problem(str(document.get("name", "instance")), None, reason, remedy))
