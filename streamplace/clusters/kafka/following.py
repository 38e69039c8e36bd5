"""Another placement as the present state of an imported document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamplace.clusters.kafka.replicas import (
    DEAD,
    LEADER,
    LEADERSHIP,
    REPLICAS,
    ROLE,
    listed_partitions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamplace.clusters.exchange.ledger import Ledger


def follow(
    document: dict[str, Any], moves: Mapping[str, str], options: Mapping[str, Any], ledger: Ledger
) -> None:
    """Move tasks in the document: node, replica list, leader, copies, and where they may go."""
    tasks = document["tasks"]
    dead = {n["id"] for n in document["nodes"] if n.get("labels", {}).get(DEAD)}
    names = [entry["id"] for entry in tasks]
    listed = listed_partitions((entry["labels"] for entry in tasks), names, ledger)
    home = [_number(entry["node"]) for entry in tasks]
    after = [_number(moves.get(entry["id"], entry["node"])) for entry in tasks]
    for partition in listed.values():
        if not any(names[t] in moves for t in partition.tasks):
            continue
        lists = partition.under(home, after)
        if len(set(lists.replicas)) < len(lists.replicas):
            ledger.problem(partition.name, lists.replicas, "lists a broker twice", "move it on")
        for t in partition.tasks:
            entry, node = tasks[t], str(after[t])
            entry["node"] = node
            entry["labels"][REPLICAS] = ",".join(map(str, lists.replicas))
            entry["labels"][LEADER] = str(lists.leader)
            if entry["labels"][ROLE] == LEADERSHIP:
                copies = [b for b in entry["allowed"] if b != node]
            else:
                copies = [str(b) for b in lists.replicas if str(b) not in dead | {node}]
                entry.pop("allowed", None)
            entry["copies"] = copies or [node]


def _number(node: str) -> int:
    """Return a broker's number; -1 for the node of replicas that are still to be made."""
    return int(node) if node.isdecimal() else -1
