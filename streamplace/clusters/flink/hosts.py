"""What task managers run on: cores, links and racks of their hosts."""

from __future__ import annotations

import re
from collections import ChainMap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from optim.errors import InvalidInput, Problem, problems_in
from optim.format.read import parse_json, validate
from streamplace.clusters.exchange.sources import read_text
from streamplace.present.numbers import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamplace.clusters.exchange.declarations import Ledger
    from streamplace.clusters.flink.pages import TaskManager

_LINK = re.compile(r"(\d+(?:\.\d*)?) ?([kMGT]?)(bit|b|B)(?:/s|ps)?")
_SCALE = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
_EVERY = "*"
_ROUNDING = 1.01
"""Configured cores may exceed the machine's by rounding before a warning is due."""


class _Host(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    link: str | None = None
    cores: float | None = Field(None, gt=0, le=1e6)
    rack: str | None = Field(None, min_length=1, max_length=1000)


_HOSTS = TypeAdapter(dict[str, _Host])


class Hosts:
    """Hosts of task managers, with what the user says of them (options of the importer).

    Task managers of one host share its link and its cores.
    """

    def __init__(
        self, managers: list[TaskManager], options: Mapping[str, Any], ledger: Ledger
    ) -> None:
        self._ledger = ledger
        self._said = _read_file(options["hosts"]) if options["hosts"] else {}
        self._rate = options["link_rate"]
        self._cores = options["cores"]
        self._on: dict[str, list[TaskManager]] = {}
        for manager in managers:
            self._on.setdefault(manager.host, []).append(manager)
        known = {_EVERY, *self._on, *(m.id for m in managers)}
        for name in sorted(self._said.keys() - known):
            there = listed(sorted(self._on), 5)
            ledger.problem(f"{options['hosts']}: {name}", None, "is no host", f"there is {there}")
        self._over = self._overcommitted()

    def _of(self, manager: TaskManager) -> _Host:
        """Return what is said of a task manager: by its id, its host, or for all."""
        found = [self._said[k] for k in (manager.id, manager.host, _EVERY) if k in self._said]
        told = ChainMap(*(host.model_dump(exclude_none=True) for host in found))
        return _Host.model_construct(**told)

    def cores(self, manager: TaskManager) -> float | None:
        """Return the CPU a task manager has, in cores."""
        own = self._of(manager).cores
        over = self._cores == "auto" and manager.host in self._over
        if own is None and self._cores != "hardware" and not over and manager.configured:
            return manager.configured
        said = self._said.get(manager.id)
        if said is not None and said.cores and manager.id not in self._on:
            return own
        there = self._on[manager.host]
        machine = max((m.machine for m in there if m.machine), default=None)
        whole = machine if own is None else own
        if whole is None:
            return manager.configured
        slots = sum(m.slots for m in there)
        if len(there) > 1:
            self._ledger.reading("cores of a host are divided among its task managers by slots")
        return whole * (manager.slots / slots if slots else 1 / len(there))

    def describe(self, manager: TaskManager) -> dict[str, Any]:
        """Return the labels and the rack of a node."""
        labels = {
            "taskHeapMemory": manager.memory,
            "host": manager.host if manager.host != manager.id else "",
            "cores configured": f"{manager.configured:g}" if manager.configured else "",
            "cores of the machine": f"{manager.machine:g}" if manager.machine else "",
        }
        rack = self._of(manager).rack
        entry: dict[str, Any] = {"labels": {k: v for k, v in labels.items() if v}}
        return entry if rack is None else {**entry, "rack": rack}

    def links(self) -> list[dict[str, Any]]:
        """Return an uplink and a downlink a host, where their rate is known."""
        found = []
        for host, managers in self._on.items():
            said = self._of(managers[0]).link or self._rate
            if not said:
                continue
            capacity = megabytes(said, f"link of {host}")
            ids = [m.id for m in managers]
            for way in ("out", "in"):
                entry = {"id": f"{host} {way}", "nodes": ids, "capacity": capacity}
                found.append({**entry, "direction": way})
        if found:
            self._ledger.reading("a host's link carries its rate each way at the same time")
        if found and len(self._on) == 1:
            self._ledger.warn("all task managers are on one host: nothing crosses its link")
        return found

    def _overcommitted(self) -> set[str]:
        """Return the hosts whose task managers are configured for more than their machine has."""
        found = set()
        for host, managers in self._on.items():
            real = max((m.machine for m in managers if m.machine), default=None)
            told = sum(m.configured or 0.0 for m in managers)
            if real is None or told <= _ROUNDING * real or self._cores == "hardware":
                continue
            found.add(host)
            done = "--option cores=hardware counts those"
            if self._cores == "auto":
                done = "those count, divided by slots (--option cores=configured)"
            self._ledger.warn(
                f"task managers on {host} are configured for {told:g} cores, the machine has "
                f"{real:g}: {done}"
            )
        return found


def megabytes(text: str, path: str = "--option link_rate") -> float:
    """Return the rate of a link in MB/s: ``1Gbit`` is 125, ``40 MB/s`` is 40."""
    found = _LINK.fullmatch(text.strip())
    rate = float(found[1]) * _SCALE[found[2]] if found else 0.0
    if found is None or not 0 < rate <= 1e12:
        raise InvalidInput(Problem(path, text, "is no rate of a link", "such as 1Gbit or 40MB/s"))
    return rate if found[3] == "B" else rate / 8


def _read_file(name: str) -> dict[str, _Host]:
    with problems_in(name):
        found = validate(_HOSTS, parse_json(read_text(Path(name)).encode()))
    for host, said in found.items():
        if said.link:
            megabytes(said.link, f"{name}: {host}.link")
    return found
