"""Every way to place items on machines, for small cases: the judge of `slots-milp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.model_driven.allocate import acquire, cores_of

if TYPE_CHECKING:
    from formulations.model_driven.slots import Items
    from optim import Instance

FULL = 100 + 1e-7


class _Search:
    """Item after item, in every open slot and in the first empty one of unlike machines."""

    def __init__(self, instance: Instance, items: Items, slots: int, *, pooled: bool) -> None:
        nodes = acquire(instance, slots)
        cores = cores_of(instance, nodes)
        self.items, self.pooled, self.instance = items, pooled, instance
        self.kind = [(node.slots, c) for node, c in zip(nodes, cores, strict=True)]
        self.free = [[[FULL, FULL] for _ in range(node.slots)] for node in nodes]
        self.held = [[0] * node.slots for node in nodes]
        self.cpu = [FULL * c for c in cores]
        self.threads = np.zeros((len(nodes), instance.num_operators))
        order = np.lexsort((-np.maximum(items.cpu, items.memory), ~items.exclusive))
        self.every = np.repeat(order, items.count[order]).tolist()
        self.best: float | None = None

    def traffic(self) -> float:
        rates = self.instance.operators.tuple_rate
        total = self.threads.sum(axis=0)
        crossing = 0.0
        for s in self.instance.streams:
            inside = float(self.threads[:, s.source] @ self.threads[:, s.target])
            share = inside / total[s.source] / total[s.target]
            crossing += float(rates[s.source] * s.selectivity) * (1 - share)
        return crossing

    def place(self, i: int, least: tuple[int, int]) -> None:
        if i == len(self.every):
            traffic = self.traffic()
            self.best = traffic if self.best is None else min(self.best, traffic)
            return
        c = self.every[i]
        equal = i > 0 and self.every[i - 1] == c
        empty_machines = set()
        for v, held in enumerate(self.held):
            if not any(held):
                if self.kind[v] in empty_machines:
                    continue
                empty_machines.add(self.kind[v])
            for s in range(len(held)):
                if (not equal or (v, s) >= least) and self.fits(c, v, s):
                    self.put(c, v, s, 1)
                    self.place(i + 1, (v, s))
                    self.put(c, v, s, -1)
                if not held[s]:
                    break  # the other empty slots of the machine are the same

    def fits(self, c: int, v: int, s: int) -> bool:
        items, free = self.items, self.free[v][s]
        if items.exclusive[c]:
            return not self.held[v][s] and (not self.pooled or self.cpu[v] >= items.cpu[c])
        if self.pooled:
            return bool(free[1] >= items.memory[c] and self.cpu[v] >= items.cpu[c])
        return bool(free[0] >= items.cpu[c] and free[1] >= items.memory[c])

    def put(self, c: int, v: int, s: int, sign: int) -> None:
        items = self.items
        whole = FULL if items.exclusive[c] else 0.0
        self.free[v][s][0] -= sign * (whole or items.cpu[c])
        self.free[v][s][1] -= sign * (whole or items.memory[c])
        self.cpu[v] -= sign * items.cpu[c]
        self.held[v][s] += sign
        self.threads[v, items.operator[c]] += sign * items.threads[c]


def fewest_and_least(instance: Instance, items: Items, *, pooled: bool) -> tuple[int, float]:
    """Fewest slots that hold all items, and the least traffic on the machines of that many."""
    slots = 1
    while True:
        search = _Search(instance, items, slots, pooled=pooled)
        search.place(0, (0, 0))
        if search.best is not None:
            return slots, search.best
        slots += 1
