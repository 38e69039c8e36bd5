"""CTAP: Elloumi's files of the constrained task assignment problem.

A file holds the numbers of tasks and processors, execution costs (a row a processor), the upper
triangle of communication costs, the tasks' sizes, the processors' capacities. Sought is the least
execution plus communication cost.

Our instances have no cost of running a task at a place, but traffic says the same: beside each
processor's tasks stands a pinned task without load, its *anchor*, and task i talks to the anchor of
processor p with the rate ``m_i − q_ip``, where ``q_ip`` is its execution cost there and ``m_i`` the
largest of these. Wherever i goes, traffic between nodes is its cost there plus a constant, so that

    internode_traffic = execution + communication + Σ_i ((P − 1) m_i − Σ_p q_ip).

The label ``cost_offset`` holds the constant.

Source: S. Elloumi, the CTAP library (instances ``tass*``).
"""

from __future__ import annotations

from typing import Any

from optim.format.document import INSTANCE_FORMAT
from streamplace.clusters.exchange.declarations import Importer, Ledger, Request
from streamplace.clusters.exchange.pages import as_number
from streamplace.clusters.exchange.sources import one_file, read_text, stem_of

OFFSET = "cost_offset"
_MOST = 100_000


class _Numbers:
    """The file's numbers in order; words after them are remarks."""

    def __init__(self, text: str, path: str, ledger: Ledger) -> None:
        self._words, self._at, self._path, self._ledger = text.split(), 0, path, ledger

    def take(self, count: int, what: str) -> list[float]:
        """Return the next numbers."""
        words = self._words[self._at : self._at + count]
        numbers = [as_number(word) for word in words]
        if len(words) < count or None in numbers:
            at = numbers.index(None) if None in numbers else len(words)
            shown = words[at][:40] if at < len(words) else None
            reason = f"should be a number of at least 0: one of the {what}"
            place = f"{self._path}: number {self._at + at + 1}"
            self._ledger.problem(place, shown, reason, f"{count} {what} are needed")
            self._ledger.check()
        self._at += count
        return [number for number in numbers if number is not None]

    def take_size(self, what: str) -> int:
        """Return the next number as a size."""
        size = self.take(1, what)[0]
        if not size.is_integer() or not 0 < size <= _MOST or size > len(self._words):
            reason = f"is no number of {what} that the file could hold"
            self._ledger.problem(f"{self._path}: number {self._at}", size, reason)
            self._ledger.check()
        return int(size)


def read(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Make the document of an instance out of one file.

    Raises `InvalidInput`: too few numbers, or what is none, with its position.
    """
    path = one_file(request.sources, "ctap")
    numbers = _Numbers(read_text(path), path.name, ledger)
    num_tasks, num_nodes = numbers.take_size("tasks"), numbers.take_size("processors")
    costs = [numbers.take(num_tasks, "execution costs") for _ in range(num_nodes)]
    traffic: list[list[Any]] = []
    for i in range(num_tasks):
        row = numbers.take(num_tasks - 1 - i, "communication costs")
        traffic += [[f"t{i + 1}", f"t{i + 2 + j}", c] for j, c in enumerate(row) if c > 0]
    sizes = numbers.take(num_tasks, "sizes")
    rooms = numbers.take(num_nodes, "capacities")
    anchors, offset = _anchors(costs, num_tasks)
    traffic += anchors
    pinned = sorted({pair[1] for pair in anchors})
    if anchors:
        ledger.reading(
            "execution costs are traffic to a pinned anchor of each processor; traffic between "
            f"nodes is the published cost plus {offset:g}"
        )
    return {
        "format": INSTANCE_FORMAT,
        "name": stem_of(path),
        "units": {"rate": "cost"},
        "labels": {"system": "ctap", OFFSET: f"{offset:.17g}"},
        "resources": ["size"],
        "nodes": [{"id": f"p{k + 1}", "capacity": {"size": c}} for k, c in enumerate(rooms)],
        "tasks": [{"id": f"t{i + 1}", "load": {"size": s}} for i, s in enumerate(sizes)]
        + [{"id": name, "allowed": [name.removeprefix("anchor ")]} for name in pinned],
        "traffic": traffic,
    }


def _anchors(costs: list[list[float]], num_tasks: int) -> tuple[list[list[Any]], float]:
    """Return the traffic to anchors and the constant it adds to the cost."""
    pairs: list[list[Any]] = []
    offset = 0.0
    for i in range(num_tasks):
        task_costs = [row[i] for row in costs]
        # rates m_i - q_ip are never negative, and a pair with rate 0 is left out
        largest = max(task_costs)
        offset += (len(task_costs) - 1) * largest - sum(task_costs)
        pairs += [
            [f"t{i + 1}", f"anchor p{k + 1}", largest - q]
            for k, q in enumerate(task_costs)
            if q < largest
        ]
    return pairs, offset


IMPORTER = Importer(
    name="ctap",
    summary="a constrained task assignment problem of the CTAP library",
    sources="one .dat file",
    options=(),
    read=read,
)
