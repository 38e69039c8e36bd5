"""The folder of a replay: what was asked, each policy's state after its last period, and rows.

One file a policy holds its rows and its state, replaced as a whole after every period: killed at
any moment, a replay goes on after the last period that was finished.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Required

import numpy as np
from pydantic import AfterValidator, Field, Strict, TypeAdapter

from experiments.documents import Flag, Many, table_type
from experiments.replay.framework import State
from optim.errors import InvalidInput, Problem, raise_any
from optim.format.read import Fault, check
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Store
from streamplace.policies.deployment import Deployment
from streamplace.policies.nodes import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


COLUMNS: Mapping[str, str] = {
    "policy": "string", "period": "int64", "name": "string",
    "load_distance_before": "float64", "load_distance": "float64", "load_distance_next": "float64",
    "collocation_factor": "float64", "collocation_factor_next": "float64",
    "load_index": "float64", "mean_load": "float64", "total_load": "float64",
    "migrations": "int64", "migration_cost": "float64", "over_budget": "bool",
    "nodes": "int64", "leaving": "int64", "added": "int64", "marked": "int64",
    "recalled": "int64", "dropped": "int64",
    "planned": "bool", "termination": "string", "feasible": "bool", "objective": "float64",
    "bound": "float64", "note": "string",
}  # fmt: skip
"""Of rows: name and type in Parquet; docs/replay.md has their meaning."""


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write ``rows.csv`` and ``rows.parquet``, the same bytes for the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row.get(name)) for name in COLUMNS} for row in rows)
    write_atomic(path / "rows.csv", buffer.getvalue())
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
    packed = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), packed)
    write_atomic(path / "rows.parquet", packed.getvalue())


def _cell(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


MARKER = "replay.json"
FORMAT = "streamplace.replay/1"
_STATES = "policies"


@dataclass
class Progressed:
    """How far a policy is: its rows, seconds of planning, and its state (``None`` at the start)."""

    rows: list[dict[str, Any]]
    seconds: list[float]
    state: State | None


class ReplayFolder:
    """A replay's folder: new, empty, or that of the same replay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store(path, "replay", MARKER, FORMAT, parts=(_STATES,), only_question=True)

    @contextlib.contextmanager
    def writing(self, record: Mapping[str, Any]) -> Iterator[None]:
        """Take the folder for a replay, alone, by all that decides on the rows but the policies.

        Raises
        ------
        InvalidInput
            The folder holds another replay, a damaged one, or something else, or is being written.
        """
        with self._store.writing(record):
            self._store.write(record)
            yield

    def load(self, policy: str) -> Progressed:
        """Return how far a policy is.

        Raises
        ------
        InvalidInput
            What is stored is damaged.
        """
        path = self._state_path(policy)
        if not path.is_file():
            return Progressed([], [], None)
        try:
            try:
                content = json.loads(read_bytes(path))
            except (ValueError, RecursionError):
                content = None
            return Progressed(*read_stored(content, policy))
        except InvalidInput as error:
            remedy = "remove it to begin this policy anew, or choose another folder"
            told = [replace(problem, remedy=remedy) for problem in error.problems]
            raise InvalidInput(told, str(path)) from None

    def save(self, policy: str, progressed: Progressed) -> None:
        """Store rows and state of a policy, both or neither."""
        assert progressed.state is not None
        content = {"policy": policy, **vars(progressed), "state": _state_dict(progressed.state)}
        write_atomic(self._state_path(policy), json.dumps(content, ensure_ascii=False))

    def _state_path(self, policy: str) -> Path:
        name = "".join(c if c.isalnum() or c in "-_" else "_" for c in policy)[:60]
        mark = hashlib.sha256(policy.encode()).hexdigest()[:8]
        return self.path / _STATES / f"{name}-{mark}.json.gz"


def _state_dict(state: State) -> dict[str, Any]:
    deployment = state.deployment
    split = not deployment.is_whole
    return {
        "cluster": asdict(state.cluster),
        "places": deployment.places[:, 0].tolist(),
        "second": deployment.places[:, 1].tolist() if split else None,
        "share": deployment.share.tolist() if split else None,
        "merge": None if deployment.merge is None else deployment.merge.tolist(),
        "start_load": state.start_load,
        "remembered": state.memory,
    }


_MOST = (1 << 53) - 1

Whole = Annotated[int, Strict(), Field(ge=-_MOST, le=_MOST)]
Index = Annotated[int, Strict(), Field(ge=0, le=_MOST)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Share = Annotated[Number, Field(ge=0, le=1)]
Text = Annotated[str, Strict()]

_CELLS = {"string": Text, "int64": Whole, "float64": Number | None, "bool": Flag | None}
_LATER = {"collocation_factor_next", "objective", "bound"}
"""Columns that replays of older versions lack."""

_KINDS: dict[str, Any] = {name: _CELLS[kind] for name, kind in COLUMNS.items()}
_ROW = table_type("Row", **{n: k if n in _LATER else Required[k] for n, k in _KINDS.items()})
_CLUSTER = table_type(
    "Cluster",
    ids=Required[Many[Text]],
    base=Required[tuple[Index, ...]],
    leaving=Required[tuple[Flag, ...]],
)
_STATE = table_type(
    "State",
    cluster=Required[Annotated[_CLUSTER, AfterValidator(lambda table: _cluster(table))]],
    places=Required[list[Index]],
    second=list[Index] | None,
    share=list[Share] | None,
    merge=list[Number] | None,
    start_load=Required[Number],
    remembered=Required[dict[str, Any]],
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
    deployment = replace(deployment, merge=None if merge is None else np.array(merge))
    return State(cluster, deployment, table["start_load"], table["remembered"])


def _of_length(name: str, values: Any, length: int) -> list[Problem]:
    if values is None or len(values) == length:
        return []
    return [Problem(name, None, f"holds {len(values)} values, not {length}")]
