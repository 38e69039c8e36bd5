"""The linear models of `slots-milp`.

*Fewest slots*, with λ_p slots that hold the maximal pattern p of the classes that share slots:

    min Σ_p λ_p   s.t.  Σ_p a_pc λ_p ≥ n_c

*Machines*, for given machines v of s_v slots; n_cv items of class c on machine v, full bundles f
with a slot each:

    Σ_v n_cv = n_c,   n_cv ≤ Σ_p a_pc λ_vp,   Σ_p λ_vp + Σ_f n_fv ≤ s_v,
    and where cores are pooled:  Σ_c cpu_c n_cv ≤ 100 · cores_v

*Traffic* inside machines, Σ over streams (a, b) of rate · T_av T_bv / (q_a q_b) with T the threads
of a task on a machine and q all of them. One side's item counts are written in binary digits β;
the product of a digit and the other side's threads is z ≤ U β, z ≤ T.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.slots_items import ROUNDING
from optim.linear_model import LinearModel
from optim.performance import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.slots_items import Items
    from formulations.slots_packing import Machines
    from optim.instance import Instance
    from optim.performance import Counts
    from optim.plan import AcquiredNode


def fewest_slots(items: Items, patterns: Counts, shared: Counts) -> LinearModel:
    """Build the model of the fewest slots; its columns are the patterns."""
    model = LinearModel("slots-milp fewest", sense="min")
    most = int(items.count[shared].sum())
    times = model.add_variables(
        "slots with pattern", len(patterns), upper=float(most), integer=True, objective=1.0
    ).indices
    at, c = np.nonzero(patterns)
    model.add_rows(
        "items", items.count[shared].astype(float), np.inf, c, times[at],
        patterns[at, c].astype(float), num_rows=len(shared),
    )  # fmt: skip
    return model


@dataclass(frozen=True, eq=False)
class _Digit:
    """A binary digit of one class's count on one machine, times the threads of another task."""

    klass: int
    machine: int
    digit: int
    other: int
    column: int
    weight: float


@dataclass(eq=False)
class MachineModel:
    """The model of the machines and its columns.

    Attributes
    ----------
    model
        Minimises the traffic between machines, in scaled units, where that is asked for.
    items, patterns, shared
        What is packed; the classes that share slots.
    count, times
        (C, V) and (P, V) columns of n and λ.
    scale
        Rate unit per unit of the objective.
    """

    model: LinearModel
    items: Items
    patterns: Counts
    shared: Counts
    count: NDArray[Any]
    times: NDArray[Any]
    scale: float = 1.0
    bits: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)
    products: list[_Digit] = field(default_factory=list)

    def machines(self, x: NDArray[np.float64]) -> Machines:
        """Read the slots of each machine off a solution."""
        count = np.rint(x[self.count]).astype(np.int64)
        times = np.rint(x[self.times]).astype(np.int64)
        found: Machines = []
        for v in range(count.shape[1]):
            left = count[:, v].copy()
            slots: list[dict[int, int]] = []
            for c in np.flatnonzero(self.items.exclusive).tolist():
                slots += [{c: 1} for _ in range(int(left[c]))]
            for p in np.flatnonzero(times[:, v] > 0).tolist():
                for _ in range(int(times[p, v])):
                    slot = {}
                    for k, c in enumerate(self.shared.tolist()):
                        take = min(int(self.patterns[p, k]), int(left[c]))
                        if take:
                            slot[c] = take
                            left[c] -= take
                    if slot:
                        slots.append(slot)
            found.append(slots)
        return found

    def vector(self, machines: Machines) -> NDArray[np.float64]:
        """Write a packing as a full column vector; every slot lies within some pattern."""
        x = np.zeros(self.model.num_variables)
        for v, slots in enumerate(machines):
            for slot in slots:
                for c, count in slot.items():
                    x[self.count[c, v]] += count
                if any(not self.items.exclusive[c] for c in slot):
                    held = np.array([slot.get(c, 0) for c in self.shared.tolist()])
                    p = int(np.flatnonzero((self.patterns >= held).all(axis=1))[0])
                    x[self.times[p, v]] += 1
        for (c, v), columns in self.bits.items():
            value = round(float(x[self.count[c, v]]))
            x[columns] = [(value >> d) & 1 for d in range(len(columns))]
        for product in self.products:
            bit = x[self.bits[product.klass, product.machine][product.digit]]
            x[product.column] = bit * self._threads(x, product.other, product.machine)
        return x

    def _threads(self, x: NDArray[np.float64], operator: int, machine: int) -> float:
        of = np.flatnonzero(self.items.operator == operator)
        return float((x[self.count[of, machine]] * self.items.threads[of]).sum())


def build_machines(
    items: Items,
    patterns: Counts,
    shared: Counts,
    nodes: Sequence[AcquiredNode],
    cores: Sequence[int] | None,
) -> MachineModel:
    """Build the model of placing all items on given machines, without an objective.

    Parameters
    ----------
    cores
        Of each machine, where they serve all of its slots; ``None`` where patterns bind the CPU.
    """
    model = LinearModel("slots-milp machines", sense="min")
    sizes = np.array([node.slots for node in nodes], dtype=np.float64)
    classes, machines = len(items.count), len(nodes)
    most = np.repeat(items.count.astype(float)[:, None], machines, axis=1)
    alone = items.exclusive
    most[alone] = np.minimum(most[alone], sizes)
    count = model.add_variables("items", most.shape, upper=most, integer=True).indices
    times = model.add_variables(
        "pattern", (len(patterns), machines), upper=np.tile(sizes, (len(patterns), 1)),
        integer=True,
    ).indices  # fmt: skip
    made = MachineModel(model, items, patterns, shared, count, times)
    rows = np.repeat(np.arange(classes), machines)
    model.add_rows(
        "all items", items.count.astype(float), items.count.astype(float), rows, count.ravel(), 1.0,
        num_rows=classes,
    )  # fmt: skip
    _add_room(made, sizes)
    if cores is not None:
        v = np.tile(np.arange(machines), classes)
        model.add_rows(
            "cores", -np.inf, FULL * np.array(cores, dtype=float) + ROUNDING, v, count.ravel(),
            np.repeat(items.cpu, machines), num_rows=machines,
        )  # fmt: skip
    _add_machine_order(made, sizes)
    return made


def _add_room(made: MachineModel, sizes: NDArray[np.float64]) -> None:
    """Slots of a machine hold its items: by patterns, or one full bundle each."""
    model, count, times = made.model, made.count, made.times
    machines = len(sizes)
    alone = np.flatnonzero(made.items.exclusive)
    v = np.concatenate([np.tile(np.arange(machines), len(times) + len(alone))])
    cols = np.concatenate([times.ravel(), count[alone].ravel()])
    model.add_rows("slots", -np.inf, sizes, v, cols, 1.0, num_rows=machines)
    shared = made.shared
    row = np.arange(len(shared) * machines).reshape(len(shared), machines)
    p, k = np.nonzero(made.patterns)
    rows = np.concatenate([row.ravel(), row[k].ravel()])
    cols = np.concatenate([count[shared].ravel(), times[p].ravel()])
    values = np.concatenate(
        [np.ones(row.size), np.repeat(-made.patterns[p, k].astype(float), machines)]
    )
    model.add_rows("held", -np.inf, 0.0, rows, cols, values, num_rows=row.size)


def _add_machine_order(made: MachineModel, sizes: NDArray[np.float64]) -> None:
    """Of equal machines the earlier one holds no fewer items of the most numerous class."""
    leader = int(np.argmax(made.items.count))
    pairs = [(a, b) for a, b in pairwise(range(len(sizes))) if sizes[a] == sizes[b]]
    for row, (a, b) in enumerate(pairs):
        made.model.add_rows(
            f"order {row}", 0.0, np.inf, np.zeros(2, int), made.count[leader, [a, b]],
            [1.0, -1.0], num_rows=1,
        )  # fmt: skip


def add_traffic(
    made: MachineModel, instance: Instance, total_threads: Counts, *, whole: bool, most: int
) -> bool:
    """Minimise the traffic between machines; ``False`` when there would be too many products.

    Parameters
    ----------
    total_threads
        (O,) threads of each task.
    whole
        Declare the products integer, which a solver without continuous variables needs.
    most
        Products beyond which nothing is added.
    """
    items, machines = made.items, made.count.shape[1]
    rates = instance.operators.tuple_rate
    streams = [
        (s.source, s.target, float(rates[s.source] * s.selectivity)) for s in instance.streams
    ]
    streams = [s for s in streams if s[2] > 0]
    total = sum(s[2] for s in streams)
    if not streams:
        return True
    of = [np.flatnonzero(items.operator == o) for o in range(len(total_threads))]
    digits = np.array([int(n).bit_length() for n in items.count])
    needed = machines * sum(min(int(digits[of[a]].sum()), int(digits[of[b]].sum()))
                            for a, b, _ in streams)  # fmt: skip
    if needed > most:
        return False
    made.scale = total / 1000.0
    made.model.set_objective([], [], offset=1000.0)
    for a, b, rate in streams:
        if digits[of[b]].sum() < digits[of[a]].sum():
            a, b = b, a
        weight = rate / made.scale / float(total_threads[a]) / float(total_threads[b])
        for v in range(machines):
            _add_products(made, of, a, b, v, weight, int(total_threads[b]), whole=whole)
    return True


def _add_products(
    made: MachineModel, of: list[Any], a: int, b: int, v: int, weight: float, most: int,
    *, whole: bool,
) -> None:  # fmt: skip
    """Products of the digits of task a's items on machine v with task b's threads there."""
    model, items = made.model, made.items
    cols_b, threads_b = made.count[of[b], v], items.threads[of[b]].astype(float)
    for c in of[a].tolist():
        digits = _digits(made, c, v)
        power = 2.0 ** np.arange(len(digits))
        gain = weight * power * float(items.threads[c])
        z = model.add_variables(
            f"z {c} {b} {v}", len(digits), upper=float(most), integer=whole, objective=-gain
        ).indices
        rows = np.arange(len(digits))
        model.add_rows(
            f"with digit {c} {b} {v}", -np.inf, 0.0, np.concatenate([rows, rows]),
            np.concatenate([z, digits]),
            np.concatenate([np.ones(len(z)), np.full(len(z), -float(most))]), num_rows=len(z),
        )  # fmt: skip
        model.add_rows(
            f"with threads {c} {b} {v}", -np.inf, 0.0,
            np.concatenate([rows, np.repeat(rows, len(cols_b))]),
            np.concatenate([z, np.tile(cols_b, len(z))]),
            np.concatenate([np.ones(len(z)), -np.tile(threads_b, len(z))]), num_rows=len(z),
        )  # fmt: skip
        made.products += [_Digit(c, v, d, b, int(z[d]), float(gain[d])) for d in range(len(digits))]


def _digits(made: MachineModel, c: int, v: int) -> NDArray[Any]:
    """Columns of the binary digits of n_cv, made on first use."""
    if (c, v) not in made.bits:
        length = int(made.items.count[c]).bit_length()
        columns = made.model.add_variables(
            f"digit {c} {v}", length, upper=1.0, integer=True
        ).indices
        made.model.add_rows(
            f"digits {c} {v}", 0.0, 0.0, np.zeros(length + 1, int),
            np.append(columns, made.count[c, v]), np.append(2.0 ** np.arange(length), -1.0),
            num_rows=1,
        )  # fmt: skip
        made.bits[c, v] = columns
    return made.bits[c, v]
