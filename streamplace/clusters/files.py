"""Formats of files that belong to no system: METIS's graphs and partitions, CSV, plain moves.

METIS takes whole numbers. Where loads and rates are whole they stand as they are; otherwise each is
scaled so that the largest is `scale`, rounded, and at least 1 for an edge.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.document import INSTANCE_FORMAT, MAX_NUMBER, MAX_TASKS
from optim.plugins import Option
from optim.rules.capacity import refuse_local_first
from streamplace.clusters.exchange.declarations import Exporter, Importer, Ledger, Places, Request
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.sources import csv_rows, one_file, read_text, stem_of
from streamplace.present.numbers import plural
from streamplace.present.table import from_cell, to_cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from optim.format.instance import Instance
    from optim.format.tables import Floats

_EXACT = 2**31 - 1
_DIGITS = re.compile(r"[+]?\d{1,18}")
OPTIONS = (
    Option("parts", "int", 2, "nodes", minimum=1, maximum=1_000_000),
    Option(
        "imbalance", "float", 0.03, "how much more than its even share a node holds; METIS's own "
        "default is 0.03", minimum=0, maximum=1e6,
    ),
)  # fmt: skip


def read_partition(text: str, instance: Instance) -> Places:
    """As `Exporter.read_back`, of a partition file."""
    words = text.split()
    if len(words) != instance.num_tasks:
        reason = f"lines are not the {instance.num_tasks} tasks of the instance"
        raise InvalidInput(Problem("partition", len(words), reason))
    problems = [
        Problem(f"line {i + 1}", word[:40], f"is no part from 0 to {instance.num_nodes - 1}")
        for i, word in enumerate(words)
        if not (is_whole(word) and int(word) < instance.num_nodes)
    ]
    raise_any(problems[:1000])
    return Places(np.array([int(word) for word in words], dtype=np.int32))


PARTITION = Exporter(
    name="metis",
    summary="a METIS partition file: line i is the number of task i's node",
    options=(),
    write=lambda _, places, *__: {"": "".join(f"{node}\n" for node in places.node.tolist())},
    read_back=read_partition,
)


def write_graph(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: sizes where there is state, a weight a resource, undirected edges."""
    refuse_local_first(instance, "a graph has edges between pairs of tasks")
    u, v, rate = instance.pairs
    weights = np.column_stack(
        [
            _whole(instance.tasks.load[:, r], f"loads of {name}", options["scale"], ledger)
            for r, name in enumerate(instance.resources)
        ]
    )
    # METIS takes no edge of weight 0
    edges = np.maximum(1, _whole(rate, "rates", options["scale"], ledger)) if len(rate) else rate
    state = instance.tasks.state
    sized = bool(len(state)) and not np.isnan(state).any()
    sizes = _whole(state, "states", options["scale"], ledger) if sized else None
    for r, name in enumerate(instance.resources):
        if not weights[:, r].any():
            ledger.warn(f"no task has any {name}: its weights are all 0")
    columns = weights if sizes is None else np.column_stack([sizes, weights])
    lines = [[str(number) for number in row] for row in columns.tolist()]
    for a, b, weight in zip(u.tolist(), v.tolist(), edges.tolist(), strict=True):
        lines[a] += [str(b + 1), str(int(weight))]
        lines[b] += [str(a + 1), str(int(weight))]
    width = f" {weights.shape[1]}" if weights.shape[1] > 1 else ""
    # header: n m fmt ncon, of fmt the digits sizes, vertex weights, edge weights
    head = f"{instance.num_tasks} {len(u)} {int(sized)}11{width}"
    return {"": "\n".join([head, *(" ".join(line) for line in lines)]) + "\n"}


def _whole(values: Floats, what: str, scale: int, ledger: Ledger) -> Any:
    largest = float(values.max(initial=0.0))
    if largest <= _EXACT and np.array_equal(values, np.round(values)):
        return values.astype(np.int64)
    ledger.reading(f"{what} are scaled so that the largest is {scale}, and rounded")
    return np.round(values * (scale / largest)).astype(np.int64)


GRAPH = Exporter(
    name="metis-graph",
    summary="the instance as a METIS graph file; needs no plan",
    options=(
        Option("scale", "int", 1_000_000, "the largest scaled number", minimum=1, maximum=_EXACT),
    ),
    write=write_graph,
    needs_plan=False,
)


class _Header(NamedTuple):
    """The first line: how many vertices and edges, and what the line of a vertex holds."""

    vertices: int
    edges: int
    sizes: bool
    weights: int
    edge_weights: bool


def _header(words: list[str], path: str, ledger: Ledger) -> _Header:
    numbers = [int(w) if _DIGITS.fullmatch(w) else -1 for w in words]
    code = words[2] if len(words) > 2 else "0"
    if not 2 <= len(words) <= 4 or min(numbers) < 0:
        ledger.problem(path, " ".join(words)[:60], "is no header", "n m [format [weights]]")
    elif len(code) > 3 or set(code) - {"0", "1"}:
        ledger.problem(path, code, "is no format", "three digits of 0 and 1")
    ledger.check()
    sizes, weighted, edge_weights = (digit == "1" for digit in code.zfill(3))
    weights = (numbers[3] if len(words) > 3 else 1) if weighted else 0
    if not 0 < numbers[0] <= MAX_TASKS or weights > 64:
        ledger.problem(path, words, f"asks for 1 to {MAX_TASKS} vertices")
    ledger.check()
    return _Header(numbers[0], numbers[1], sizes, weights, edge_weights)


@dataclass
class _Graph:
    header: _Header
    sizes: list[int] = field(default_factory=list)
    weights: list[list[int]] = field(default_factory=list)
    rates: dict[tuple[int, int], int] = field(default_factory=dict)

    def read_line(self, vertex: int, words: list[str], where: str, ledger: Ledger) -> None:
        """Read a vertex: its size, its weights, then neighbours with or without a weight."""
        bad = next((word for word in words if not _DIGITS.fullmatch(word)), None)
        if bad is not None:
            ledger.problem(where, bad[:60], "is no whole number of at least 0")
            return
        numbers = [int(word) for word in words]
        header = self.header
        first = int(header.sizes) + header.weights
        step = 2 if header.edge_weights else 1
        if len(numbers) < first or (len(numbers) - first) % step:
            ledger.problem(where, len(numbers), "numbers do not fit the header's format")
            return
        self.sizes += numbers[: int(header.sizes)]
        self.weights.append(numbers[int(header.sizes) : first] or [1])
        for at in range(first, len(numbers), step):
            other = numbers[at] - 1
            if not 0 <= other < header.vertices or other == vertex:
                ledger.problem(where, numbers[at], "is no other vertex", "they count from 1")
                return
            if (vertex, other) in self.rates:
                ledger.problem(where, numbers[at], "stands twice")
                return
            self.rates[vertex, other] = numbers[at + 1] if step == 2 else 1


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """As `Importer.read`, of a graph file."""
    path = one_file(request.sources, "metis")
    lines = [
        (number, line)
        for number, line in enumerate(read_text(path).splitlines(), 1)
        if not line.lstrip().startswith("%")
    ]
    while len(lines) > 1 and not lines[0][1].strip():
        lines.pop(0)
    if not lines:
        ledger.problem(str(path), None, "is empty", "expected a METIS graph")
        ledger.check()
    header = _header(lines[0][1].split(), f"{path.name} line 1", ledger)
    # an empty line is a vertex without neighbours, but for those that end the file
    while len(lines) - 1 > header.vertices and not lines[-1][1].strip():
        lines.pop()
    if len(lines) - 1 != header.vertices:
        reason = f"vertex lines are not the {header.vertices} of the header"
        ledger.problem(path.name, len(lines) - 1, reason, "one line a vertex, empty ones too")
        ledger.check()
    graph = _Graph(header)
    for vertex, (number, line) in enumerate(lines[1:]):
        graph.read_line(vertex, line.split(), f"{path.name} line {number}", ledger)
        # problems of a wrong file are reported early, before millions of lines
        if vertex % 1000 == 0:
            ledger.check()
    ledger.check()
    return _document(path, graph, request.options, ledger)


def _document(path: Path, graph: _Graph, options: Any, ledger: Ledger) -> dict[str, Any]:
    weights = np.array(graph.weights, dtype=np.float64)
    resources = ["weight", *(f"weight {r + 1}" for r in range(1, weights.shape[1]))]
    totals = weights.sum(axis=0)
    if max(totals.max(), sum(graph.rates.values())) > MAX_NUMBER:
        ledger.problem(path.name, None, f"has weights above {MAX_NUMBER:g} in all")
        ledger.check()
    parts = options["parts"]
    # METIS: a part holds at most (1 + imbalance) · total / parts of each weight
    share = totals / parts * (1 + options["imbalance"])
    capacity = dict(zip(resources, np.maximum(share, weights.max(axis=0)).tolist(), strict=True))
    ledger.reading(
        f"{parts} equal nodes, each for 1/{parts} of the weight and {options['imbalance']:g} more, "
        "and for the heaviest vertex"
    )
    loads = [dict(zip(resources, row, strict=True)) for row in weights.tolist()]
    tasks: list[dict[str, Any]] = [{"id": str(v + 1), "load": x} for v, x in enumerate(loads)]
    for task, size in zip(tasks, graph.sizes, strict=False):
        task["state"] = float(size)
    return {
        "format": INSTANCE_FORMAT,
        "name": stem_of(path),
        "units": {"rate": "edge weight"},
        "labels": {"system": "metis"},
        "resources": resources,
        "nodes": [{"id": str(k), "capacity": capacity} for k in range(parts)],
        "tasks": tasks,
        "traffic": _traffic(graph, ledger),
    }


def _traffic(graph: _Graph, ledger: Ledger) -> list[list[Any]]:
    """Return each undirected edge once; the larger weight where the two directions differ."""
    one_way = different = 0
    edges: dict[tuple[int, int], int] = {}
    for (a, b), rate in graph.rates.items():
        key = (min(a, b), max(a, b))
        reverse = graph.rates.get((b, a))
        one_way += reverse is None
        different += reverse is not None and reverse != rate and a < b
        edges[key] = max(edges.get(key, 0), rate)
    if one_way:
        ledger.warn(f"{one_way} edges stand in one direction only: taken as they are")
    if different:
        ledger.warn(f"{different} edges differ in their two directions: the larger weight counts")
    if len(edges) != graph.header.edges:
        ledger.warn(f"the header says {graph.header.edges} edges, the file holds {len(edges)}")
    return [[str(a + 1), str(b + 1), float(r)] for (a, b), r in sorted(edges.items()) if r > 0]


IMPORTER = Importer(
    name="metis",
    summary="a METIS graph: vertices with weights, to be cut into equal parts",
    sources="one graph file; a partition file can be given with --placement",
    options=OPTIONS,
    read=read,
)


# CSV: every task with its place, only the moves, and placements read out of such tables.

TABLE = ("task", "operator", "node", "slot", "current_node", "moves")
MOVED = ("task", "from", "to", "cost")


def places_of_table(text: str, instance: Instance, column: str, *, whole: bool) -> Places:
    """Return the places a table names.

    `column`: the one that holds the node.
    `whole`: whether every task must be named; otherwise tasks that are not stay where they are.
    Raises `InvalidInput`: columns are missing, a row names what the instance does not have, tasks
        are left out, or the text is no table.
    """
    rows = csv_rows(text)
    _, headings = next(rows, (1, []))
    if missing := [name for name in ("task", column) if name not in headings]:
        raise InvalidInput(Problem("line 1", ",".join(headings)[:60], f"lacks {missing}"))
    node = instance.tasks.node.copy()
    slot = instance.tasks.slot.copy()
    with_slots = "slot" in headings
    seen = np.zeros(instance.num_tasks, dtype=np.bool_)
    problems: list[Problem] = []
    for number, values in rows:
        line = f"line {number}"
        row = dict(zip(headings, values, strict=False))
        task = _index_of(row.get("task", ""), instance.tasks.index)
        place = _index_of(row.get(column, ""), instance.nodes.index)
        slot_text = row.get("slot", "").strip()
        if task < 0 or seen[max(0, task)]:
            reason = "is no task of the instance" if task < 0 else "stands twice"
            problems.append(Problem(line, row.get("task"), reason))
        elif place < 0:
            problems.append(Problem(line, row.get(column), "is no node of the instance"))
        elif slot_text and not is_whole(slot_text):
            problems.append(
                Problem(line, slot_text[:40], "is no slot", "a whole number, or nothing")
            )
        else:
            # without a slot column, or with an empty cell, none is decided
            seen[task], node[task] = True, place
            slot[task] = int(slot_text) if slot_text else -1
        if len(problems) > 1000:
            break
    if whole and not seen.all() and not problems:
        name = instance.tasks.ids[int(np.flatnonzero(~seen)[0])]
        reason = f"and {int((~seen).sum()) - 1} more tasks are not in the table"
        problems.append(Problem("table", name, reason, "use moves for a part"))
    raise_any(problems)
    return Places(node, slot if with_slots and (slot >= 0).any() else None)


def _index_of(cell: str, index: Mapping[str, int]) -> int:
    """Return the number of what a cell names, with the apostrophe of `to_cell` or without."""
    return index.get(from_cell(cell), index.get(cell, -1))


def _written(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, str]:
    """Return a table as CSV: its texts so that no spreadsheet takes them for formulas."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(heads)
    table.writerows([to_cell(x) if isinstance(x, str) else x for x in row] for row in rows)
    return {"": text.getvalue()}


def write_table(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: one row a task in the instance's order."""
    # -1 is none: the last of the names
    tasks = instance.tasks
    nodes, operators = ((*ids, "") for ids in (instance.nodes.ids, instance.operators.ids))
    slots = np.full(len(tasks.ids), -1) if places.slot is None else places.slot
    columns = (x.tolist() for x in (tasks.operator, places.node, slots, tasks.node))
    rows = [
        (
            name,
            operators[operator],
            nodes[planned],
            slot if slot >= 0 else "",
            nodes[current],
            "" if current < 0 else "yes" if current != planned else "no",
        )
        for name, operator, planned, slot, current in zip(tasks.ids, *columns, strict=True)
    ]
    return _written(TABLE, rows)


read_table = partial(places_of_table, column="node", whole=True)
CSV = Exporter(
    name="csv",
    summary="all tasks with node and slot, and where they are now, as CSV",
    options=(),
    write=write_table,
    read_back=read_table,
)


def write_moves(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """As `Exporter.write`: moves in the instance's order; ``from`` is empty where it is unknown."""
    nodes, tasks = (*instance.nodes.ids, ""), instance.tasks
    rows = [
        (tasks.ids[t], nodes[tasks.node[t]], nodes[places.node[t]], f"{cost:.10g}")
        for t, cost in enumerate(tasks.migration_cost.tolist())
        if places.node[t] != tasks.node[t]
    ]
    if places.slot is not None:
        same = (places.node == tasks.node) & (places.slot != tasks.slot) & (tasks.slot >= 0)
        if same.any():
            change = plural(int(same.sum()), "task")
            ledger.warn(f"not listed, for they change their slot only: {change}")
    return _written(MOVED, rows)


read_moves = partial(places_of_table, column="to", whole=False)
MOVES = Exporter(
    name="moves",
    summary="only the tasks that move: task, from, to, cost, as CSV",
    options=(),
    write=write_moves,
    read_back=read_moves,
)
