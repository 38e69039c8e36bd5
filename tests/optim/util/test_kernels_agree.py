"""Every kernel gives the same as plain Python and compiled, on what methods ask of it."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formulations
import heuristics
import optim
from experiments.generators import generate
from formulations.column_generation import driver
from formulations.rebalancing.balance.search import warm_up, warm_up_annealing
from formulations.throughput import scale as scaling
from heuristics import throughput
from heuristics.task_allocation.annealing import anneal
from optim import solve
from optim.errors import StreamplaceError
from optim.format.instance import Instance
from optim.kernels.repair import adopt
from optim.kernels.state import state_of
from optim.util import compiled
from optim.util.compiled import Kernel, seeded

if TYPE_CHECKING:
    from pathlib import Path

_CALLS = 3
"""Calls of a kernel, in a solve, that are made twice."""
_LIMIT = 1.0
_LONG = 400_000
"""Steps that take Python too long."""
_CASES: list[tuple[str, str, str | None]] = [
    ("albic", "community", None), ("balance-milp", "storm_reference", None),
    ("balance-milp", "cluster", None), ("flux", "community", None), ("gma", "eoa", None),
    ("gma", "community", None), ("imc-brute", "eoa", None), ("imc-exact", "eoa", None),
    ("imc-exact", "random_graphs", None), ("imc-milp", "random_graphs", None),
    ("imc-search", "eoa", None), ("joint-search", "drain", None),
    ("plan-search", "drain", "load_distance,migrations"),
    ("slots-milp", "micro_dag", None), ("storm-milp", "drain", None),
    ("storm-milp", "community", None), ("task-level", "community", None),
    ("throughput-exact", "eoa", None), ("throughput-exact", "random_graphs", None),
    ("throughput-search", "eoa", None), ("throughput-search", "eoa", "rate_after_loss"),
    ("throughput-search", "joint", "nodes_used"), ("top-down", "random_graphs", None),
    ("random", "floors", None),
]  # fmt: skip


def _instances(examples: Path) -> dict[str, Instance]:
    made = {
        "cluster": generate("cluster", 1, nodes=3, varies=60.0, shifted=50.0),
        "joint": generate("joint", 1, nodes=3),
        "community": generate("community", 1, tasks=9, nodes=3),
        "eoa": generate("eoa_random", 1, nodes=3, operators=4),
        "storm_reference": generate("storm_reference", 1),
        "random_graphs": generate("random_graphs", 1),
        "micro_dag": generate("micro_dag"),
        "drain": Instance.load(examples / "flink-drain.json"),
    }
    told = made["community"].to_dict()
    for node in told["nodes"]:
        node["min_load"] = {made["community"].resources[0]: 0.5}
    return {**made, "floors": Instance.from_dict(told)}


def _pipe(*capacities: float) -> Instance:
    operators = [
        {"id": name, "group": {"tasks": 1, "load": {"cpu": 2}}, "max_parallelism": 2}
        for name in ("a", "b")
    ]
    return Instance.from_dict({
        "format": "streamplace.instance/1", "name": "pipe", "operators": operators,
        "nodes": [{"id": f"n{c}", "capacity": {"cpu": c}} for c in capacities],
        "streams": [{"from": "a", "to": "b", "rate": 1}],
    })  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Let kernels run both ways; count those that did, and those that differed."""
    counted: Counter[str] = Counter()

    def both(self: Kernel, *args: Any) -> Any:
        if compiled._within.get():
            return self.function(*args)
        name = f"{self.__module__}.{self.__name__}"
        if counted[name] >= _CALLS or self.steps_of(*args) > _LONG:
            return self.compiled(*args)
        counted[name] += 1
        copied = pickle.loads(pickle.dumps(args))
        found = self.plain(*copied), self.compiled(*args)
        if not _same(*found) or not _same(copied, args):
            counted[f"{name} differs"] += 1
        return found[1]

    monkeypatch.setattr(Kernel, "__call__", both)
    return counted


def _kernels() -> set[str]:
    for package in (optim, heuristics, formulations):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    values = [value for module in [*sys.modules.values()] for value in vars(module).values()]
    named = {f"{v.__module__}.{v.__name__}" for v in values if isinstance(v, Kernel)}
    return {name for name in named if name.split(".")[0] in ("optim", "heuristics", "formulations")}


def test_all_kernels(
    compared: Counter[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "thread_load", lambda _: np.inf)  # always less traffic, too
    instances, met = _instances(repository / "examples"), set[str]()
    for method, kind, objective in _CASES:
        with suppress(StreamplaceError):
            solve(instances[kind], method, objective=objective, time_limit=_LIMIT, repair=True)
        met |= {*compared}
        compared.clear()
    state = state_of(instances["community"], np.zeros(9, np.int32))
    anneal(state, np.arange(9), 300, 1.0, 0.1, seeded(1))
    adopt(state_of(instances["community"], np.zeros(9, np.int32)), np.ones(9, np.int64), 1e-9)
    monkeypatch.setattr(scaling, "_STEPS", 2_000)
    for few, capacities in ((10**6, (2,)), (0, (2,)), (0, (2, 3))):  # all; boxes; by annealing
        monkeypatch.setattr(scaling, "_FEW", few)
        monkeypatch.setattr(scaling, "_LEAST_WORK", few)
        scaling.scale(_pipe(*capacities), 0.5)
    for begin in (driver.warm_up, warm_up, warm_up_annealing):
        begin.__wrapped__()  # type: ignore[attr-defined]
    met |= {*compared}
    assert not [name for name in met if name.endswith("differs")]
    assert met == _kernels()
