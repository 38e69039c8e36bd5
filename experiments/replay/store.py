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
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Required

import numpy as np
from pydantic import AfterValidator, Field, Strict, TypeAdapter

from experiments.documents import Flag, Many, table_type
from experiments.replay.cluster import Cluster
from experiments.replay.deployment import Deployment
from experiments.replay.framework import State
from optim.errors import InvalidInput, Problem, raise_any
from optim.figures.catalogue import BY_NAME
from optim.format.read import Fault, check
from optim.util.files import read_bytes, write_atomic
from optim.util.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


class Column(NamedTuple):
    """A column: name, type in Parquet, and meaning."""

    name: str
    type: str
    meaning: str


def _figure(name: str, meaning: str = "") -> Column:
    """Column of one of the referee's figures."""
    figure = BY_NAME[name]
    kind = "int64" if figure.unit == "count" else "float64"
    return Column(name, kind, meaning or figure.words)


COLUMNS = (
    Column("policy", "string", "as given"),
    Column("period", "int64", "number, from 0"),
    Column("name", "string", "of the period's instance"),
    Column("load_distance_before", "float64", "of what ran, on this period"),
    _figure("load_distance", "now: of what was deployed, on this period"),
    Column("load_distance_next", "float64", "of what was deployed, on the next period"),
    _figure("collocation_factor"),
    Column("collocation_factor_next", "float64", "of what was deployed, on the next period"),
    Column("load_index", "float64", "mean load now over mean load right after start-up"),
    Column("mean_load", "float64", "of a node"),
    Column("total_load", "float64", "of all nodes, serialisation and merging included"),
    _figure("migrations", "key groups that moved"),
    _figure("migration_cost"),
    Column("over_budget", "bool", "whether they cost more than the budget"),
    Column("nodes", "int64", "nodes there are, leaving ones included"),
    Column("leaving", "int64", "marked for removal"),
    Column("added", "int64", "nodes added by the scaling decision"),
    Column("marked", "int64", "nodes marked by it"),
    Column("recalled", "int64", "marked nodes taken back by it"),
    Column("dropped", "int64", "marked and emptied nodes removed at the beginning"),
    Column("planned", "bool", "whether there was a plan; else what ran went on"),
    Column("termination", "string", "of the plan"),
    Column("feasible", "bool", "whether it keeps every limit but those in the note"),
    Column("objective", "float64", "of the method that planned, on loads as before its moves"),
    Column("bound", "float64", "proven, on that objective"),
    Column("note", "string", "limits ignored, or why there was no plan"),
)


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write ``rows.csv`` and ``rows.parquet``, the same bytes for the same rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.StringIO()
    names = [column.name for column in COLUMNS]
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row.get(name)) for name in names} for row in rows)
    write_atomic(path / "rows.csv", buffer.getvalue())
    schema = pa.schema([(column.name, pa.type_for_alias(column.type)) for column in COLUMNS])
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
        "memory": dict(deployment.memory),
        "start_load": state.start_load,
        "changed": state.changed,
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

_KINDS: dict[str, Any] = {column.name: _CELLS[column.type] for column in COLUMNS}
_ROW = table_type("Row", **{n: k if n in _LATER else Required[k] for n, k in _KINDS.items()})
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
