"""Constraints that a topology's configuration sets, as rules of an instance.

=====================================  ==========================================================
``topology.ras.constraints``           component to ``maxNodeCoLocationCnt`` (at most so many of
                                       its executors on a node) and ``incompatibleComponents``
                                       (no worker has executors of both); before 2.0 a list of
                                       pairs of components
``topology.spread.components``         components of which a node has one executor at most, where
                                       the other key says nothing of that
``isolation.scheduler.machines``       topology to the number of machines that it has for itself
=====================================  ==========================================================

As Storm's ``ConstraintSolverConfig`` reads them: what names no component, or is no number from 1,
is warned of and left out. Storm keeps them with the scheduler that knows them; a plan keeps them in
any case.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from streamplace.clusters.exchange.pages import as_whole
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.storm.pages import Topology

CONSTRAINTS, SPREAD = "topology.ras.constraints", "topology.spread.components"
MACHINES = "isolation.scheduler.machines"
STRATEGY, SCHEDULER = "topology.scheduler.strategy", "storm.scheduler"
_COUNT, _INCOMPATIBLE = "maxNodeCoLocationCnt", "incompatibleComponents"
MOST_SETS = 2_000
"""Pairs of executors that may not share a place, at most: each is a set of its own."""


def machines_of(topology: Topology, ledger: Ledger) -> int | None:
    """Return the number of nodes that a topology is to have for itself."""
    told = topology.configuration.get(MACHINES)
    if not isinstance(told, dict) or topology.name not in told:
        return None
    machines = _count(told[topology.name], f"{MACHINES}.{topology.name}", topology, ledger)
    if machines is not None:
        ledger.reading(
            f"{topology.name} has up to {machines} nodes for itself ({MACHINES}"
            f"{_unless(topology, SCHEDULER, 'IsolationScheduler')})"
        )
    return machines


def sets_of(topology: Topology, prefix: str, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Yield the sets that a topology's constraints are.

    Parameters
    ----------
    prefix
        Of its operators.
    """
    most, apart = _read(topology, ledger)
    for name, count in most.items():
        yield {
            "id": f"{topology.name}: {name} on a node",
            "operator": prefix + name,
            "rule": "apart",
            "at_most": count,
        }
    told = [f"{name} at most {count} on a node" for name, count in most.items()]
    for one, other in sorted(apart):
        told.append(f"{one} and {other} in no worker together")
        yield from _incompatible(topology, one, other, prefix, ledger)
    if told:
        ledger.reading(
            f"{topology.name}: constraints are sets: {listed(told, 5)}"
            f"{_unless(topology, STRATEGY, 'ConstraintSolverStrategy')}"
        )


def _incompatible(
    topology: Topology, one: str, other: str, prefix: str, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    """Yield sets that keep executors of two components out of one worker, of one if it is both."""
    name = f"{topology.name}: {one} and {other} in a worker"
    if one == other:
        yield {"id": name, "operator": prefix + one, "rule": "apart", "over": "slot"}
        return
    ends = (
        [prefix + part + executor.name for executor in topology.components[part].executors]
        for part in (one, other)
    )
    pairs = list(product(*ends))
    if len(pairs) > MOST_SETS:
        ledger.warn(
            f"{topology.name}: {one} and {other} are not to share a worker, which is not counted: "
            f"{len(pairs):,} pairs of executors are more than {MOST_SETS:,}"
        )
        return
    for pair in pairs:
        yield {"id": f"{name}: {' '.join(pair)}", "tasks": list(pair), "rule": "apart",
               "over": "slot"}  # fmt: skip


def _read(topology: Topology, ledger: Ledger) -> tuple[dict[str, int], set[tuple[str, str]]]:
    """Return most executors of components on a node, and the pairs that share no worker."""
    most: dict[str, int] = {}
    apart: set[tuple[str, str]] = set()
    known = topology.components

    def is_part(name: Any, where: str) -> bool:
        if isinstance(name, str) and name in known:
            return True
        ledger.warn(f"{topology.name}: {where}: {name!r} is no component with executors: left out")
        return False

    told = topology.configuration.get(CONSTRAINTS)
    pairs: list[tuple[Any, Any]] = []
    if isinstance(told, list):
        for pair in told:
            if isinstance(pair, list) and len(pair) > 1:
                pairs.append((pair[0], pair[1]))
            else:
                ledger.warn(f"{topology.name}: {CONSTRAINTS}: {pair!r} is no pair: left out")
    elif isinstance(told, dict):
        for name, constraints in told.items():
            if not is_part(name, CONSTRAINTS):
                continue
            for kind, value in (constraints if isinstance(constraints, dict) else {}).items():
                where = f"{CONSTRAINTS}.{name}.{kind}"
                if kind == _COUNT:
                    count = _count(value, where, topology, ledger)
                    most |= {} if count is None else {name: count}
                elif kind == _INCOMPATIBLE and isinstance(value, list | str):
                    others = [value] if isinstance(value, str) else value
                    pairs += [(name, other) for other in others]
                else:
                    ledger.warn(f"{topology.name}: {where} is not known to Storm: left out")
            if not isinstance(constraints, dict):
                ledger.warn(f"{topology.name}: {CONSTRAINTS}.{name} is no object: left out")
    elif told is not None:
        ledger.warn(f"{topology.name}: {CONSTRAINTS} is neither list nor object: left out")
    for one, other in pairs:
        if is_part(one, CONSTRAINTS) and is_part(other, CONSTRAINTS):
            apart.add((min(one, other), max(one, other)))
    spread = topology.configuration.get(SPREAD)
    for name in spread if isinstance(spread, list) else ():
        if is_part(name, SPREAD):
            most.setdefault(name, 1)
    if spread is not None and not isinstance(spread, list):
        ledger.warn(f"{topology.name}: {SPREAD} is no list: left out")
    return most, apart


def _count(value: Any, where: str, topology: Topology, ledger: Ledger) -> int | None:
    """Return a whole number from 1; ``None``, with a warning, for anything else."""
    count = None if isinstance(value, bool) else as_whole(value)
    if count is None or count < 1:
        ledger.warn(f"{topology.name}: {where}: {value!r} is no number from 1: left out")
        return None
    return count


def _unless(topology: Topology, key: str, wanted: str) -> str:
    """Say that the scheduler which runs does not keep them, where it is known to be another."""
    told = topology.configuration.get(key)
    if not isinstance(told, str) or told.rpartition(".")[2] == wanted:
        return ""
    return f"; {key} is {told.rpartition('.')[2]}, which does not keep them: plans do"
