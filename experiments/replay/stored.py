"""What a replay stored of a policy, as types: damaged files are told, not gone on from."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Required

import numpy as np
from pydantic import AfterValidator, Field, Strict, TypeAdapter

from experiments.documents import Flag, Many, table_type
from experiments.replay.cluster import Cluster
from experiments.replay.deployment import Deployment
from experiments.replay.framework import State
from experiments.replay.rows import COLUMNS
from optim.errors import Problem, raise_any
from optim.format.read import Fault, check

_MOST = (1 << 53) - 1

Whole = Annotated[int, Strict(), Field(ge=-_MOST, le=_MOST)]
Index = Annotated[int, Strict(), Field(ge=0, le=_MOST)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Share = Annotated[Number, Field(ge=0, le=1)]
Text = Annotated[str, Strict()]

_CELLS: dict[str, Any] = {
    "string": Text,
    "int64": Whole,
    "float64": Number | None,
    "bool": Flag | None,
}
_LATER = {"collocation_factor_next"}
"""Columns that replays of older versions lack."""

_ROW = table_type(
    "Row",
    **{
        column.name: _CELLS[column.type]
        if column.name in _LATER
        else Required[_CELLS[column.type]]
        for column in COLUMNS
    },
)
_CLUSTER = table_type(
    "Cluster",
    ids=Required[Many[Text]],
    base=Required[tuple[Index, ...]],
    leaving=Required[tuple[Flag, ...]],
    added=Required[Index],
)
_STATE = table_type(
    "State",
    cluster=Required[Annotated[_CLUSTER, AfterValidator(lambda table: _cluster(table))]],
    places=Required[list[Index]],
    second=list[Index] | None,
    share=list[Share] | None,
    merge=list[Number] | None,
    memory=dict[str, list[Number]],
    start_load=Required[Number],
    changed=Required[Whole],
)
_STORED: TypeAdapter[dict[str, Any]] = TypeAdapter(
    table_type(
        "Stored",
        policy=Required[Text],
        rows=Required[Many[_ROW]],  # type: ignore[valid-type]
        seconds=Required[list[Number]],
        state=Required[Annotated[_STATE, AfterValidator(lambda table: _state(table))]],
    )
)


def read_stored(content: Any, policy: str) -> tuple[list[dict[str, Any]], list[float], State]:
    """Return rows, seconds of planning and state of a policy.

    Raises
    ------
    InvalidInput
        With everything that is wrong.
    """
    if not isinstance(content, dict) or content.get("policy") != policy:
        raise_any([Problem("$", None, f"is no state of the policy {policy}")])
    problems: list[Problem] = []
    table = check(_STORED, content, problems)
    raise_any(problems)
    assert table is not None
    rows = content["rows"]  # as they are: 5 and 5.0 are not the same text in a file of rows
    problems += [
        Problem(f"rows[{number}]", None, f"is not the row of {policy} for period {number}")
        for number, row in enumerate(rows)
        if (row["policy"], row["period"]) != (policy, number)
    ]
    problems += _of_length("seconds", table["seconds"], len(rows))
    raise_any(problems)
    return rows, table["seconds"], table["state"]


def _cluster(table: dict[str, Any]) -> Cluster:
    ids = table["ids"]
    problems = [p for n in ("base", "leaving") for p in _of_length(n, table[n], len(ids))]
    if len(set(ids)) < len(ids):
        problems.append(Problem("ids", None, "holds a name twice"))
    if problems:
        raise Fault(problems=problems)
    return Cluster(**table)


def _state(table: dict[str, Any]) -> State:
    cluster, places = table["cluster"], table["places"]
    second, share, merge = (table.get(name) for name in ("second", "share", "merge"))
    problems = [
        Problem(f"{name}[{i}]", node, f"is no node: there are {len(cluster)}")
        for name, nodes in (("places", places), ("second", second or ()))
        for i, node in enumerate(nodes)
        if node >= len(cluster)
    ]
    problems += _of_length("merge", merge, len(cluster))
    problems += _of_length("second", second, len(places))
    problems += _of_length("share", share, len(places))
    if (second is None) != (share is None):
        problems.append(Problem("share", None, "goes with second: both, or neither"))
    if problems:
        raise Fault(problems=problems)
    deployment = Deployment.whole(np.array(places, dtype=np.int64))
    if second is not None:
        both = np.column_stack([deployment.node, np.array(second, dtype=np.int64)])
        deployment = Deployment(both, np.array(share))
    deployment = replace(
        deployment,
        merge=None if merge is None else np.array(merge),
        memory=table.get("memory", {}),
    )
    return State(cluster, deployment, table["start_load"], table["changed"])


def _of_length(name: str, values: Any, length: int) -> list[Problem]:
    if values is None or len(values) == length:
        return []
    return [Problem(name, None, f"holds {len(values)} values, not {length}")]
