"""What a generator declares of itself, and the reading of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optim.errors import InvalidInput, Problem, raise_any
from optim.format.document import MAX_NUMBER, MAX_TASKS
from optim.format.instance import Instance
from optim.format.tables import Floats, TaskTable
from optim.kernels.first_fit import packings
from optim.plugins import Option, read_options
from streamplace.clusters.exchange.declarations import COSTS, add_network

NETWORK = (
    Option(
        "link_share", "float", 0.0, "capacity of each node's link over all traffic; 0 for no links",
        minimum=0.0,
    ),
    Option(
        "direction", "str", "duplex", "of these links; duplex: two a node, out and in",
        choices=("duplex", "both", "out", "in"),
    ),
    *COSTS,
)  # fmt: skip
"""Parameters of kinds whose instances may have links."""


@dataclass(frozen=True)
class Kind:
    """A class of instances."""

    name: str
    summary: str  # In one line.
    parameters: tuple[Option, ...]  # Typed, with defaults and bounds.
    #: Makes an instance from a random generator, a name, and the typed parameters.
    build: Callable[[np.random.Generator, str, Mapping[str, Any]], Instance]
    source: str = ""  # Paper and section, where it is from one.
    #: Whether anything is drawn at random. Where nothing is, a seed other than 0 is refused: it
    #: would give the same instance under another name.
    random: bool = True

    @property
    def options(self) -> tuple[Option, ...]:
        """Its parameters, as listings name them."""
        return self.parameters

    def make(self, seed: int, given: Mapping[str, Any]) -> Instance:
        """Read the parameters and build the instance.

        Raises `InvalidInput`: unknown parameters or values that do not do, all at once.
        """
        problems: list[Problem] = []
        typed: dict[str, Any] = {}
        try:
            typed = read_options(self.name, self.parameters, given, where="{}", noun="parameter")
            reason = f"is above {MAX_NUMBER:g}, more than an instance may hold"
            problems += [
                Problem(name, value, reason, "check the unit")
                for name, value in typed.items()
                if isinstance(value, float) and not abs(value) <= MAX_NUMBER
            ]
        except InvalidInput as error:
            problems += error.problems
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
            problems.append(Problem("seed", seed, "must be a whole number from 0 to 2147483647"))
        elif seed and not self.random:
            reason = (
                f"is of no use: {self.name} draws nothing at random, all seeds give one instance"
            )
            names = ", ".join(option.name for option in self.parameters)
            remedy = f"leave the seed out; what may vary: {names}"
            problems.append(Problem("seed", seed, reason, remedy))
        raise_any(problems)
        changed = [
            f"{o.name}={typed[o.name]}" for o in self.parameters if typed[o.name] != o.default
        ]
        name = "-".join([self.name, *changed, f"s{seed}"])
        return self.build(np.random.default_rng(seed), name, typed)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``streamplace generate --json`` lists."""
        return {
            "name": self.name,
            "summary": self.summary,
            "source": self.source,
            "random": self.random,
            "parameters": [option.to_dict() for option in self.parameters],
        }


def check_tasks(name: str, value: Any, tasks: int) -> None:
    """Refuse more tasks than an instance may hold, before they are made.

    Raises `InvalidInput`: there are.
    """
    if tasks > MAX_TASKS:
        reason = f"gives {tasks:,} tasks, above {MAX_TASKS:,}"
        raise InvalidInput(Problem(name, value, reason, "lower it"))


def numbers(text: str, count: int, name: str, *, whole: bool = False) -> list[float]:
    """Read one number, or a comma-separated list of `count`; one number stands for all.

    Raises `InvalidInput`: not numbers above 0, or another count of them.
    """
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise _bad(name, text, "is not a list of numbers", count) from None
    values *= count if len(values) == 1 else 1
    if len(values) != count:
        raise _bad(name, text, f"has {len(values)} numbers, not {count}", count)
    if not all(np.isfinite(v) and v > 0 for v in values):
        raise _bad(name, text, "must be finite and above 0", count)
    if whole and not all(v.is_integer() for v in values):
        raise _bad(name, text, "must be whole numbers", count)
    return values


def _bad(name: str, text: str, reason: str, count: int) -> InvalidInput:
    return InvalidInput(Problem(name, text, reason, f"one number, or {count} with commas between"))


def instance(name: str, origin: str, **parts: Any) -> Instance:
    """Return the instance of the parts of a document."""
    head = {"format": "streamplace.instance/1", "name": name, "origin": origin}
    return Instance.from_dict({**head, **parts})


def task_table(ids: tuple[str, ...], load: Floats, **columns: Any) -> TaskTable:
    """Return tasks as arrays; columns that are not given are as of tasks that are nowhere yet."""
    count = len(ids)
    none, empty = np.full(count, -1, dtype=np.int32), np.zeros(0, dtype=np.int32)
    plain: dict[str, Any] = {
        "operator": none, "member": np.zeros(count, dtype=np.int32),
        "state": np.full(count, np.nan), "given_cost": np.full(count, np.nan), "node": none,
        "slot": none, "restricted": empty, "allowed_indptr": np.zeros(1, dtype=np.int32),
        "allowed_indices": empty,
    }  # fmt: skip
    return TaskTable(ids=ids, load=load, **(plain | columns))


def fits(drawn: Instance) -> bool:
    """Whether some packing of all tasks keeps the capacities."""
    return any((packed >= 0).all() for packed in packings(drawn))


def equal_nodes(count: int, capacity: float) -> list[dict[str, Any]]:
    """Return the entries of nodes n0, n1, … with equal CPU capacity."""
    return [{"id": f"n{i}", "capacity": {"cpu": capacity}} for i in range(count)]


def job(
    name: str,
    origin: str,
    nodes: list[dict[str, Any]],
    groups: list[tuple[str, int, float]],
    streams: list[tuple[str, str, float]],
    network: Mapping[str, Any] | None = None,
) -> Instance:
    """Build an instance of groups (id, tasks, CPU of all) and full streams (from, to, MB/s).

    `network` holds the parameters `NETWORK`, where a kind has them.
    """
    document: dict[str, Any] = {
        "units": {"cpu": "percent of a core", "rate": "MB/s"},
        "resources": ["cpu"],
        "nodes": nodes,
        "operators": [
            {"id": g, "group": {"tasks": k, "load": {"cpu": load}}} for g, k, load in groups
        ],
        "streams": [{"from": a, "to": b, "rate": rate} for a, b, rate in streams],
    }
    if network and network["link_share"]:
        # a link carries this share of all traffic of the instance
        capacity = network["link_share"] * sum(rate for _, _, rate in streams)
        way = network["direction"]
        document["links"] = [
            {
                "id": f"{side}-{node['id']}",
                "nodes": [node["id"]],
                "capacity": capacity,
                "direction": side,
            }
            for node in nodes
            for side in (("out", "in") if way == "duplex" else (way,))
        ]
    return instance(name, origin, **add_network(document, network or {}))
