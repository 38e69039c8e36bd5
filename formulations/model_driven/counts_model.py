"""How many items of each class stand in each slot: the plain linear model of `slots-milp`.

It is what remains where the pattern engines end without a proof. For machines v of s_v slots, with
n_cs items of class c in slot s, n_cv on machine v, full bundles f with a slot each, u_s for a slot
in use by others:

    Σ_v n_cv = n_c,   n_cv = Σ_(s on v) n_cs,   Σ_c size_c n_cs ≤ 100 u_s  (CPU and memory),
    Σ_(s on v) u_s + Σ_f n_fv ≤ s_v,   and where cores are pooled:  Σ_c cpu_c n_cv ≤ 100 · cores_v

*Traffic* inside machines, Σ over streams (a, b) of rate · T_av T_bv / (q_a q_b) with T the threads
of a task on a machine and q all of them. One side's item counts are written in binary digits β;
the product of a digit and the other side's threads is z ≤ U β, z ≤ T.

What the tasks of a model-driven job send each other, and how much of it stays on machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.model_driven.items import ROOM, ROUNDING
from formulations.model_driven.performance_model import FULL
from optim.solvers.linear_model import LinearModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.model_driven.items import Items
    from formulations.model_driven.slots import Machines, Slot
    from optim.format.instance import Instance
    from optim.format.tables import Floats

TOTAL = 1000.0
"""All traffic of a job in the unit of everything below: thousandths, whatever the file's unit."""

_DIGITS = 12


def unit_of_traffic(instance: Instance) -> float:
    """Tuples/s that are one thousandth of all traffic."""
    return sum(rate for _, _, rate in _carrying(instance)) / TOTAL


def streams_between(instance: Instance) -> list[tuple[int, int, float]]:
    """(Sender, receiver, thousandths of all traffic) of every stream that carries something.

    Rounded, so that the same job in another unit gives the same numbers to the bit.
    """
    unit = unit_of_traffic(instance)
    return [(a, b, round(rate / unit, _DIGITS)) for a, b, rate in _carrying(instance)]


def _carrying(instance: Instance) -> list[tuple[int, int, float]]:
    rates = instance.operators.tuple_rate
    told = [(s.source, s.target, float(rates[s.source] * s.selectivity)) for s in instance.streams]
    return [stream for stream in told if stream[2] > 0]


def rates_of_pairs(items: Items, instance: Instance) -> Floats:
    """(C, C) symmetric: traffic between one item of each class, both directions together.

    Every thread of the sender sends the same to every thread of the receiver.
    """
    share = items.threads / items.threads_of_tasks(instance.num_operators)[items.operator]
    between = np.zeros((instance.num_operators, instance.num_operators))
    for a, b, rate in streams_between(instance):
        between[a, b] += rate
        between[b, a] += rate
    return between[np.ix_(items.operator, items.operator)] * np.outer(share, share)


def traffic_between(items: Items, machines: Machines, pairs: Floats) -> float:
    """Traffic between machines, given that of pairs."""
    count = items.count.astype(np.float64)
    total = 0.5 * float(count @ pairs @ count)
    for slots in machines:
        held = np.zeros(len(count))
        for slot in slots:
            for c, n in slot.items():
                held[c] += n
        total -= 0.5 * float(held @ pairs @ held)
    return max(0.0, total)


@dataclass(frozen=True, eq=False)
class _Digit:
    """A binary digit of a class's count on a machine, times the threads of another task there."""

    klass: int
    machine: int
    digit: int
    other: int
    column: int


@dataclass(eq=False)
class CountsModel:
    """The model and its columns.

    Attributes
    ----------
    model
        Minimises the traffic between machines, in thousandths of all, where that is asked for.
    count
        (C, V) columns of the items on machines.
    held, used
        (C, S) columns of the items of the classes that share, in every slot; (S,) whether a slot is
        in use by them.
    machine
        (S,) machine of each slot.
    """

    model: LinearModel
    items: Items
    count: NDArray[Any]
    held: NDArray[Any]
    used: NDArray[Any]
    machine: NDArray[Any]
    bits: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)
    products: list[_Digit] = field(default_factory=list)

    def machines(self, x: NDArray[np.float64]) -> Machines:
        """Read the slots of each machine off a solution."""
        count = np.rint(x[self.count]).astype(np.int64)
        held = np.rint(x[self.held]).astype(np.int64)
        shared = np.flatnonzero(~self.items.exclusive)
        found: Machines = []
        for v in range(count.shape[1]):
            slots: list[Slot] = []
            for c in np.flatnonzero(self.items.exclusive).tolist():
                slots += [{c: 1} for _ in range(int(count[c, v]))]
            for s in np.flatnonzero(self.machine == v).tolist():
                here = np.flatnonzero(held[:, s])
                if len(here):
                    slots.append({int(shared[k]): int(held[k, s]) for k in here})
            found.append(slots)
        return found

    def vector(self, machines: Machines) -> NDArray[np.float64]:
        """Write a packing as a full column vector."""
        x = np.zeros(self.model.num_variables)
        shared = {int(c): k for k, c in enumerate(np.flatnonzero(~self.items.exclusive))}
        for v, slots in enumerate(machines):
            empty = iter(np.flatnonzero(self.machine == v).tolist())
            for slot in slots:
                for c, count in slot.items():
                    x[self.count[c, v]] += count
                if any(c in shared for c in slot):
                    s = next(empty)
                    x[self.used[s]] = 1.0
                    for c, count in slot.items():
                        x[self.held[shared[c], s]] = count
        for (c, v), columns in self.bits.items():
            value = round(float(x[self.count[c, v]]))
            x[columns] = [(value >> d) & 1 for d in range(len(columns))]
        for z in self.products:
            of = np.flatnonzero(self.items.operator == z.other)
            threads = x[self.count[of, z.machine]] @ self.items.threads[of]
            x[z.column] = x[self.bits[z.klass, z.machine][z.digit]] * float(threads)
        return x


def build_counts(
    items: Items, sizes: Sequence[int], cores: Sequence[int] | None, *, pooled: bool
) -> CountsModel:
    """Build the model of placing all items on machines, without an objective.

    Parameters
    ----------
    sizes
        Slots of each machine.
    cores
        Of each machine, where they serve all of its slots and are to bind.
    pooled
        Slots are filled by memory alone.
    """
    model = LinearModel("slots-milp counts", sense="min")
    lent = np.asarray(sizes, dtype=np.int64)
    machine = np.repeat(np.arange(len(lent)), lent)
    shared = np.flatnonzero(~items.exclusive)
    most = items.count.astype(float)
    count = model.add_variables(
        "items", (len(most), len(lent)), upper=np.repeat(most[:, None], len(lent), axis=1),
        integer=True, of={"item": np.arange(len(most))[:, None], "machine": np.arange(len(lent))},
    ).indices  # fmt: skip
    held = model.add_variables(
        "held", (len(shared), len(machine)),
        upper=np.repeat(most[shared][:, None], len(machine), axis=1), integer=True,
        of={"item": shared[:, None], "slot": np.arange(len(machine))},
    ).indices  # fmt: skip
    used = model.add_variables("used", len(machine), upper=1.0, integer=True).indices
    made = CountsModel(model, items, count, held, used, machine)
    rows = np.repeat(np.arange(len(most)), len(lent))
    of = {"item": np.arange(len(most))}
    model.add_rows("all_items", most, most, rows, count.ravel(), 1.0, num_rows=len(most), of=of)
    _add_slots(made, lent, items.sizes(pooled=pooled))
    if cores is not None:
        v = np.tile(np.arange(len(lent)), len(most))
        model.add_rows(
            "cores", -np.inf, FULL * np.array(cores, dtype=float) + ROUNDING, v, count.ravel(),
            np.repeat(items.cpu, len(lent)), num_rows=len(lent),
        )  # fmt: skip
    _add_order(made, lent)
    return made


def _add_slots(made: CountsModel, lent: NDArray[Any], size: NDArray[Any]) -> None:
    """Slots hold what stands in them; a machine has so many, some of them for full bundles."""
    model, count, held, used = made.model, made.count, made.held, made.used
    alone = np.flatnonzero(made.items.exclusive)
    shared = np.flatnonzero(~made.items.exclusive)
    machines = np.tile(np.arange(len(lent)), len(alone))
    model.add_rows(
        "slots", -np.inf, lent.astype(float), np.concatenate([made.machine, machines]),
        np.concatenate([used, count[alone].ravel()]), 1.0, num_rows=len(lent),
    )  # fmt: skip
    slots = np.tile(np.arange(len(used)), len(shared))
    names = ("cpu", "memory")[-size.shape[1] :]
    for r in range(size.shape[1]):
        weight = np.repeat(size[shared, r], len(used))
        model.add_rows(
            names[r], -np.inf, 0.0, np.concatenate([slots, np.arange(len(used))]),
            np.concatenate([held.ravel(), used]),
            np.concatenate([weight, np.full(len(used), -ROOM)]), num_rows=len(used),
        )  # fmt: skip
    row = np.arange(len(shared) * len(lent)).reshape(len(shared), len(lent))
    model.add_rows(
        "on_machine", 0.0, 0.0, np.concatenate([row.ravel(), row[:, made.machine].ravel()]),
        np.concatenate([count[shared].ravel(), held.ravel()]),
        np.concatenate([np.ones(row.size), np.full(held.size, -1.0)]), num_rows=row.size,
        of={"item": np.repeat(shared, len(lent)), "machine": np.arange(row.size) % len(lent)},
    )  # fmt: skip
    if len(used) > 1:  # a machine's slots are used in their order
        same = np.flatnonzero(made.machine[1:] == made.machine[:-1])
        rows = np.arange(len(same))
        model.add_rows(
            "in_order", 0.0, np.inf, np.concatenate([rows, rows]),
            np.concatenate([used[same], used[same + 1]]),
            np.concatenate([np.ones(len(same)), -np.ones(len(same))]), num_rows=len(same),
        )  # fmt: skip


def leading_class(items: Items) -> int:
    """Class by which equal machines are ordered: the most numerous one."""
    return int(np.argmax(items.count))


def _add_order(made: CountsModel, lent: NDArray[Any]) -> None:
    """Of equal machines the earlier one holds no fewer items of the leading class."""
    leader = leading_class(made.items)
    pairs = [(a, b) for a, b in pairwise(range(len(lent))) if lent[a] == lent[b]]
    for row, (a, b) in enumerate(pairs):
        made.model.add_rows(
            f"order_{row}", 0.0, np.inf, np.zeros(2, int), made.count[leader, [a, b]],
            [1.0, -1.0], num_rows=1,
        )  # fmt: skip


def add_traffic(made: CountsModel, instance: Instance, *, whole: bool, most: int) -> bool:
    """Minimise the traffic between machines; ``False`` when there would be too many products.

    Parameters
    ----------
    whole
        Declare the products integer, which a solver without continuous variables needs.
    most
        Products beyond which nothing is added.
    """
    items, machines = made.items, made.count.shape[1]
    streams = streams_between(instance)
    if not streams:
        return True
    tasks = instance.num_operators
    of = [np.flatnonzero(items.operator == o) for o in range(tasks)]
    total_threads = items.threads_of_tasks(tasks)
    digits = np.array([int(n).bit_length() for n in items.count])
    needed = machines * sum(
        min(int(digits[of[a]].sum()), int(digits[of[b]].sum())) for a, b, _ in streams
    )
    if needed > most:
        return False
    made.model.set_objective([], [], offset=TOTAL)
    for a, b, rate in streams:
        if digits[of[b]].sum() < digits[of[a]].sum():
            a, b = b, a
        weight = rate / float(total_threads[a]) / float(total_threads[b])
        for v in range(machines):
            _add_products(made, of[a], of[b], b, v, weight, int(total_threads[b]), whole=whole)
    return True


def _add_products(
    made: CountsModel, of_a: Any, of_b: Any, b: int, v: int, weight: float, most: int,
    *, whole: bool,
) -> None:  # fmt: skip
    """Products of the digits of a task's items on machine v with task b's threads there."""
    model, items = made.model, made.items
    cols_b, threads_b = made.count[of_b, v], items.threads[of_b].astype(float)
    for c in of_a.tolist():
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
        made.products += [_Digit(c, v, d, b, int(z[d])) for d in range(len(digits))]


def _digits(made: CountsModel, c: int, v: int) -> NDArray[Any]:
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
