"""What crossing nodes costs, links and weights: options and parameters that write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optim.errors import InvalidInput, Problem
from optim.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from streamplace.clusters.exchange.declarations import Ledger


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
