"""METIS: the partition file that gpmetis would write; line i is the part of vertex i."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from streamplace.clusters.exchange.declarations import Exporter
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.placements import Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.format.instance import Instance
    from streamplace.clusters.exchange.ledger import Ledger


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return one line a task, in the instance's order: the index of its node, from 0."""
    return {"": "".join(f"{node}\n" for node in places.node.tolist())}


def read_back(text: str, instance: Instance) -> Places:
    """Read a partition file.

    Raises
    ------
    InvalidInput
        A line is no part, or there are more or fewer than tasks.
    """
    words = text.split()
    if len(words) != instance.num_tasks:
        reason = f"lines are not the {instance.num_tasks} tasks of the instance"
        raise InvalidInput(Problem("partition", len(words), reason))
    problems = [
        Problem(f"line {i + 1}", word[:40], f"is no part from 0 to {instance.num_nodes - 1}")
        for i, word in enumerate(words)
        if not (is_whole(word) and int(word) < instance.num_nodes)
    ]
    if problems:
        raise InvalidInput(problems[:1000])
    return Places(np.array([int(word) for word in words], dtype=np.int32))


EXPORTER = Exporter(
    name="metis",
    summary="a METIS partition file: line i is the number of task i's node",
    options=(),
    write=write,
    read_back=read_back,
)
