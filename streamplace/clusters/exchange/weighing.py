"""Unequal nodes: their shares of the balanced load, in proportion to what they have of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streamplace.clusters.exchange.ledger import Ledger


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
