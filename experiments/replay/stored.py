"""Read and check what a replay stored of a policy: damaged files are told, not gone on from."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.replay.cluster import Cluster
from experiments.replay.deployment import Deployment
from experiments.replay.framework import State
from experiments.replay.rows import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable


def read_rows(content: Any, policy: str) -> tuple[list[dict[str, Any]], list[float]]:
    """Return rows and seconds of a policy.

    Raises
    ------
    ValueError
        With what is wrong.
    """
    if not isinstance(content, dict) or content.get("policy") != policy:
        raise ValueError(f"is no state of the policy {policy}")
    rows, seconds = content.get("rows"), content.get("seconds")
    if not isinstance(rows, list) or not rows:
        raise ValueError("has no rows")
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or row.get("policy") != policy or row.get("period") != number:
            raise ValueError(f"has no row of {policy} for period {number}")
        for column in COLUMNS:
            if column.name not in row or not _TYPES[column.type](row[column.name]):
                raise ValueError(f"has a row without {column.name} for period {number}")
    return rows, _list(seconds, "seconds", _is_number, len(rows))


def read_state(value: Any) -> State:
    """Return a state.

    Raises
    ------
    ValueError
        With what is wrong.
    """
    value = _table(value, "state")
    cluster = _cluster(_table(value.get("cluster"), "cluster"))
    nodes = len(cluster)

    def is_node(number: Any) -> bool:
        return _is_whole(number) and 0 <= number < nodes

    first = _list(value.get("places"), "places", is_node)
    deployment = Deployment.whole(np.array(first, dtype=np.int64))
    if value.get("second") is not None:
        second = _list(value["second"], "second", is_node, len(first))
        share = _list(value.get("share"), "share", _is_share, len(first))
        places = np.column_stack([deployment.node, np.array(second, dtype=np.int64)])
        deployment = Deployment(places, np.array(share))
    if value.get("merge") is not None:
        merge = np.array(_list(value["merge"], "merge", _is_number, nodes))
        deployment = Deployment(deployment.places, deployment.share, merge)
    memory = _table(value.get("memory", {}), "memory")
    for name in memory:
        _list(memory[name], f"memory.{name}", _is_number)
    if not _is_number(value.get("start_load")) or not _is_whole(value.get("changed")):
        raise ValueError("has no start_load or no changed")
    deployment = replace(deployment, memory=memory)
    return State(cluster, deployment, value["start_load"], value["changed"])


def _cluster(value: dict[str, Any]) -> Cluster:
    ids = _list(value.get("ids"), "cluster.ids", lambda v: isinstance(v, str))
    _list(value.get("base"), "cluster.base", lambda v: _is_whole(v) and v >= 0, len(ids))
    _list(value.get("leaving"), "cluster.leaving", lambda v: isinstance(v, bool), len(ids))
    if not ids or len(set(ids)) < len(ids) or not _is_whole(value.get("added")):
        raise ValueError("has no cluster")
    return Cluster.from_dict(value)


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"has no {name}")
    return value


def _list(
    value: Any, name: str, fits: Callable[[Any], bool], length: int | None = None
) -> list[Any]:
    whole = isinstance(value, list) and (length is None or len(value) == length)
    if not whole or not all(fits(item) for item in value):
        raise ValueError(f"has no {name}, or a wrong one")
    return list(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "int64": _is_whole,
    "float64": lambda value: value is None or _is_number(value),
    "bool": lambda value: value is None or isinstance(value, bool),
}
