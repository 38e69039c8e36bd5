"""Storm: a placement file for a custom scheduler, which deals a component's threads to workers.

    {"<topology>": {"<component>": {"conf": "<site>#<port>,<threads>/…", "threads": "<n>"}}}

It names numbers of threads, not executors: which executor of a component goes where is the
scheduler's choice. Reading it back deals them in their order, those that stay first.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.interchange.declaring import Exporter
from experiments.interchange.exporters.storm_slots import (
    Ports,
    component_name,
    decided_slots,
    topology_name,
)
from experiments.interchange.ledger import Ledger
from experiments.interchange.placing import Places
from optim.errors import InvalidInput, Problem
from optim.format.read import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optim.format.instance import Instance

_PART = re.compile(r"(.+)#(\d{1,5}),(\d{1,9})")


def write(
    instance: Instance, places: Places, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, str]:
    """Return the placement JSON.

    Raises
    ------
    InvalidInput
        Executors without a component, a node without enough slots, names that the format cannot
        hold.
    """
    slot = decided_slots(instance, places, ledger)
    ledger.check()
    ports = Ports(instance)
    content: dict[str, dict[str, dict[str, str]]] = {}
    for operator, topology, component in _components(instance, ledger):
        tasks = instance.tasks_of(operator)
        counts: dict[str, int] = {}
        for t in sorted(tasks.tolist(), key=lambda t: (places.node[t], slot[t])):
            where = ports.text(int(places.node[t]), int(slot[t]), ledger)
            counts[where] = counts.get(where, 0) + 1
        content.setdefault(topology, {})[component] = {
            "conf": "/".join(f"{where},{count}" for where, count in counts.items()),
            "threads": str(len(tasks)),
        }
    ledger.check()
    _tell_swaps(instance, Places(places.node, slot), content, ledger)
    return {"": json.dumps(content, ensure_ascii=False, indent=1) + "\n"}


def _components(instance: Instance, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
    """Yield each operator with its topology's and its component's name."""
    without = np.flatnonzero(instance.tasks.operator < 0)
    if len(without):
        name = instance.tasks.ids[without[0]]
        ledger.problem("tasks[].operator", name, "has no component", "give every task an operator")
    for operator in range(instance.num_operators):
        topology = topology_name(instance, operator)
        yield operator, topology, component_name(instance, operator)


def _tell_swaps(
    instance: Instance, places: Places, content: dict[str, Any], ledger: Ledger
) -> None:
    """Say how many executors a scheduler that keeps what can stay would deal elsewhere."""
    back = read_back(json.dumps(content), instance)
    if back.slot is None or places.slot is None:
        return
    other = (back.node != places.node) | (back.slot != places.slot)
    if other.any():
        ledger.warn(
            f"the file holds numbers of threads: {int(other.sum())} of {len(other)} executors may "
            "trade places with others of their component"
        )


def read_back(text: str, instance: Instance) -> Places:
    """Return where executors are under a placement file.

    A component's executors that are in a worker of the file stay there as long as it has threads
    left; the others take what is left, in their order and the file's.

    Raises
    ------
    InvalidInput
        Not a placement, or of workers and components the instance does not have.
    """
    ledger = Ledger()
    value = parse_json(text.encode())
    node, slot = instance.tasks.node.copy(), instance.tasks.slot.copy()
    ports = Ports(instance)
    for operator, topology, component in _components(instance, ledger):
        path = f"{topology}.{component}"
        conf: Any = value
        for key in (topology, component, "conf"):
            conf = conf.get(key) if isinstance(conf, dict) else None
        if not isinstance(conf, str):
            ledger.problem(f"{path}.conf", None, "is missing", "one for each component")
            continue
        room = _room(conf, f"{path}.conf", ports, ledger)
        tasks = instance.tasks_of(operator).tolist()
        if sum(room.values()) != len(tasks):
            reason = f"threads are placed, of {len(tasks)} executors"
            ledger.problem(f"{path}.conf", sum(room.values()), reason)
            continue
        _deal(tasks, room, node, slot)
    ledger.check()
    return Places(node, slot)


def _deal(tasks: list[int], room: dict[tuple[int, int], int], node: Any, slot: Any) -> None:
    left = []
    for t in tasks:
        now = (int(node[t]), int(slot[t]))
        if room.get(now, 0) > 0:
            room[now] -= 1
        else:
            left.append(t)
    free = [place for place, count in room.items() for _ in range(count)]
    for t, (n, s) in zip(left, free, strict=True):
        node[t], slot[t] = n, s


def _room(conf: str, path: str, ports: Ports, ledger: Ledger) -> dict[tuple[int, int], int]:
    room: dict[tuple[int, int], int] = {}
    for part in conf.split("/"):
        found = _PART.fullmatch(part)
        place = ports.place(found[1], int(found[2])) if found else None
        if found is None or place is None:
            ledger.problem(path, part, "is no worker of the instance", "site#port,threads")
            continue
        room[place] = room.get(place, 0) + int(found[3])
        if room[place] > 10_000_000:
            raise InvalidInput(Problem(path, room[place], "threads are too many"))
    return room


EXPORTER = Exporter(
    name="storm",
    summary="placement JSON for a custom scheduler: threads of each component by worker",
    options=(),
    write=write,
    read_back=read_back,
)
