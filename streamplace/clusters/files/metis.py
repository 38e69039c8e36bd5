"""METIS: graph files in and out, and the partition file that gpmetis would write.

METIS takes whole numbers. Where loads and rates are whole they stand as they are; otherwise each is
scaled so that the largest is `scale`, rounded, and at least 1 for an edge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem
from optim.format.document import INSTANCE_FORMAT, MAX_NUMBER, MAX_TASKS
from optim.options import Option
from streamplace.clusters.exchange.declarations import Exporter, Importer, Request
from streamplace.clusters.exchange.pages import is_whole
from streamplace.clusters.exchange.placements import Places
from streamplace.clusters.exchange.sources import one_file, read_text, stem_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from streamplace.clusters.exchange.declarations import Ledger
_EXACT = 2**31 - 1
_DIGITS = re.compile(r"[+]?\d{1,18}")
OPTIONS = (
    Option("parts", "int", 2, "nodes", minimum=1, maximum=1_000_000),
    Option(
        "imbalance",
        "float",
        0.03,
        "how much more than its even share a node holds; METIS's own default is 0.03",
        minimum=0,
        maximum=1e6,
    ),
)


def write_partition(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return one line a task, in the instance's order: the index of its node, from 0."""
    return {"": "".join(f"{node}\n" for node in places.node.tolist())}


def read_partition(text: str, instance: Instance) -> Places:
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


PARTITION = Exporter(
    name="metis",
    summary="a METIS partition file: line i is the number of task i's node",
    options=(),
    write=write_partition,
    read_back=read_partition,
)


def write_graph(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the graph: sizes where there is state, a weight a resource, undirected edges.

    Raises
    ------
    InvalidInput
        There are more task pairs than are spread out.
    """
    u, v, rate = instance.pairs
    weights = np.column_stack(
        [
            _whole(instance.tasks.load[:, r], f"loads of {name}", options["scale"], ledger)
            for r, name in enumerate(instance.resources)
        ]
    )
    edges = np.maximum(1, _whole(rate, "rates", options["scale"], ledger)) if len(rate) else rate
    state = instance.tasks.state
    sized = bool(len(state)) and not np.isnan(state).any()
    sizes = _whole(state, "states", options["scale"], ledger) if sized else None
    _tell_flat(weights, instance, ledger)
    lines: list[list[str]] = [
        [*([str(int(sizes[t]))] if sizes is not None else []), *map(str, weights[t].tolist())]
        for t in range(instance.num_tasks)
    ]
    for a, b, weight in zip(u.tolist(), v.tolist(), edges.tolist(), strict=True):
        lines[a] += [str(b + 1), str(int(weight))]
        lines[b] += [str(a + 1), str(int(weight))]
    width = f" {weights.shape[1]}" if weights.shape[1] > 1 else ""
    head = f"{instance.num_tasks} {len(u)} {int(sized)}11{width}"
    return {"": "\n".join([head, *(" ".join(line) for line in lines)]) + "\n"}


def _whole(values: Floats, what: str, scale: int, ledger: Ledger) -> Any:
    largest = float(values.max(initial=0.0))
    if largest <= _EXACT and np.array_equal(values, np.round(values)):
        return values.astype(np.int64)
    ledger.reading(f"{what} are scaled so that the largest is {scale}, and rounded")
    return np.round(values * (scale / largest)).astype(np.int64)


def _tell_flat(weights: Any, instance: Instance, ledger: Ledger) -> None:
    for r, name in enumerate(instance.resources):
        if not weights[:, r].any():
            ledger.warn(f"no task has any {name}: its weights are all 0")


GRAPH = Exporter(
    name="metis-graph",
    summary="the instance as a METIS graph file; needs no plan",
    options=(
        Option(
            "scale",
            "int",
            1_000_000,
            "largest number that scaling gives",
            minimum=1,
            maximum=_EXACT,
        ),
    ),
    write=write_graph,
    needs_plan=False,
)


class _Header:
    """First line: vertices, edges, what each vertex line begins with, weights a vertex."""

    def __init__(self, words: list[str], path: str, ledger: Ledger) -> None:
        numbers = [int(w) if _DIGITS.fullmatch(w) else -1 for w in words]
        if not 2 <= len(words) <= 4 or min(numbers) < 0:
            ledger.problem(
                f"{path} line 1", " ".join(words)[:60], "is no header", "n m [format [weights]]"
            )
            ledger.check()
        self.vertices, self.edges = numbers[:2]
        code = words[2] if len(words) > 2 else "0"
        if len(code) > 3 or set(code) - {"0", "1"}:
            ledger.problem(f"{path} line 1", code, "is no format", "three digits of 0 and 1")
            ledger.check()
        self.sizes, weighted, self.edge_weights = (digit == "1" for digit in code.zfill(3))
        self.weights = (numbers[3] if len(words) > 3 else 1) if weighted else 0
        if not 0 < self.vertices <= MAX_TASKS or self.weights > 64:
            ledger.problem(f"{path} line 1", words, f"asks for 1 to {MAX_TASKS} vertices")
        ledger.check()


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of a graph file.

    Raises
    ------
    InvalidInput
        Not a graph file, with the line.
    """
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
    header = _Header(lines[0][1].split(), path.name, ledger)
    while len(lines) - 1 > header.vertices and not lines[-1][1].strip():
        lines.pop()
    if len(lines) - 1 != header.vertices:
        reason = f"vertex lines are not the {header.vertices} of the header"
        ledger.problem(path.name, len(lines) - 1, reason, "one line a vertex, empty ones too")
        ledger.check()
    graph = _Graph(header)
    for vertex, (number, line) in enumerate(lines[1:]):
        graph.read_line(vertex, line.split(), f"{path.name} line {number}", ledger)
        if vertex % 1000 == 0:
            ledger.check()
    ledger.check()
    return _document(path, header, graph, request.options, ledger)


class _Graph:
    def __init__(self, header: _Header) -> None:
        self.header = header
        self.sizes: list[int] = []
        self.weights: list[list[int]] = []
        self.rates: dict[tuple[int, int], int] = {}

    def read_line(self, vertex: int, words: list[str], where: str, ledger: Ledger) -> None:
        """Read a vertex: its size, its weights, then neighbours with or without a weight."""
        if not all(_DIGITS.fullmatch(word) for word in words):
            bad = next(word for word in words if not _DIGITS.fullmatch(word))
            ledger.problem(where, bad[:60], "is no whole number of at least 0")
            return
        numbers = [int(word) for word in words]
        header = self.header
        first = int(header.sizes) + header.weights
        step = 2 if header.edge_weights else 1
        if len(numbers) < first or (len(numbers) - first) % step:
            ledger.problem(where, len(numbers), "numbers do not fit the header's format")
            return
        if header.sizes:
            self.sizes.append(numbers[0])
        self.weights.append(numbers[int(header.sizes) : first] if header.weights else [1])
        for at in range(first, len(numbers), step):
            other = numbers[at] - 1
            if not 0 <= other < header.vertices or other == vertex:
                ledger.problem(where, numbers[at], "is no other vertex", "they count from 1")
                return
            if (vertex, other) in self.rates:
                ledger.problem(where, numbers[at], "stands twice")
                return
            self.rates[vertex, other] = numbers[at + 1] if step == 2 else 1


def _document(
    path: Path, header: _Header, graph: _Graph, options: Any, ledger: Ledger
) -> dict[str, Any]:
    width = max(1, header.weights)
    resources = ["weight", *(f"weight {r + 1}" for r in range(1, width))]
    totals = np.array(graph.weights, dtype=np.float64).sum(axis=0)
    if max(totals.max(), sum(graph.rates.values(), 0)) > MAX_NUMBER:
        ledger.problem(path.name, None, f"has weights above {MAX_NUMBER:g} in all")
        ledger.check()
    parts = options["parts"]
    share = totals / parts * (1 + options["imbalance"])
    heaviest = np.array(graph.weights).max(axis=0)
    capacity = {
        r: max(float(s), float(h)) for r, s, h in zip(resources, share, heaviest, strict=True)
    }
    ledger.reading(
        f"{parts} equal nodes, each for 1/{parts} of the weight and {options['imbalance']:g} more, "
        "and for the heaviest vertex"
    )
    return {
        "format": INSTANCE_FORMAT,
        "name": stem_of(path),
        "units": {"rate": "edge weight"},
        "labels": {"system": "metis"},
        "resources": resources,
        "nodes": [{"id": str(k), "capacity": capacity} for k in range(parts)],
        "tasks": [
            {
                "id": str(v + 1),
                "load": dict(zip(resources, map(float, weights), strict=True)),
                **({"state": float(graph.sizes[v])} if header.sizes else {}),
            }
            for v, weights in enumerate(graph.weights)
        ],
        "traffic": _traffic(header, graph, ledger),
    }


def _traffic(header: _Header, graph: _Graph, ledger: Ledger) -> list[list[Any]]:
    """Return each undirected edge once; the larger weight where the two directions differ."""
    one_way = different = 0
    edges: dict[tuple[int, int], int] = {}
    for (a, b), rate in graph.rates.items():
        key = (min(a, b), max(a, b))
        back = graph.rates.get((b, a))
        one_way += back is None
        different += back is not None and back != rate and a < b
        edges[key] = max(edges.get(key, 0), rate)
    if one_way:
        ledger.warn(f"{one_way} edges stand in one direction only: taken as they are")
    if different:
        ledger.warn(f"{different} edges differ in their two directions: the larger weight counts")
    if len(edges) != header.edges:
        ledger.warn(f"the header tells {header.edges} edges, the file holds {len(edges)}")
    return [[str(a + 1), str(b + 1), float(r)] for (a, b), r in sorted(edges.items()) if r > 0]


IMPORTER = Importer(
    name="metis",
    summary="a METIS graph: vertices with weights, to be cut into equal parts",
    sources="one graph file; a partition file can be given with --placement",
    options=OPTIONS,
    read=read,
)
