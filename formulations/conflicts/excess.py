"""The least excess exactly: the model of all rules, those broken today with a raise that is paid.

    min Σ_a weight_a · raise_a,    raise_a ≤ what the current placement has above the limit

over the rule instances a that the current placement breaks (`with_raises`); the others hold. Its
optimum bounds the excess of every plan that is nowhere worse than today. What it undersells (slots,
sets that are to be together) the referee reports: the placement is cut off and the model solved
again, until the bound of those that are left is no less than the best one's excess.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array, hstack, vstack

from formulations.conflicts.decide import aggregate
from formulations.conflicts.model import build, joined
from formulations.conflicts.rule_instances import atoms_of, cells_of
from optim.rules import FORM_OF, LIMITS, RULES, Form, loosened, total_of
from optim.solvers.inprocess import solve_small_milp
from optim.solvers.interface import LinearTermination
from optim.solvers.linear_model import LinearArrays, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from formulations.conflicts.model import RuleModel
    from formulations.conflicts.rule_instances import Atoms
    from optim.format.instance import Instance
    from optim.format.tables import Floats
    from optim.rules.base import Limit

    Ids = NDArray[np.int64]


_CELLS = 20_000  # Tasks × nodes up to which the model is asked.
_MOST, _SHARED = 2_000, 400_000
"""Branch-and-bound nodes of a model; fewer where nodes take longer: tasks × nodes × these."""
_ROUNDS, _STALLED, _PROGRESS = 200, 20, 0.05
"""Placements that are cut off; of these, one after the other without any progress; and what that
is: so much of what is open between the bound and the least excess known.
"""
_SAME = 1e-9
SOLVED = LinearTermination.OPTIMAL


def least_excess(
    instance: Instance,
    loose: Instance,
    weight: Floats,
    seconds: float | None,
    judged: Callable[[NDArray[np.int32]], tuple[float, float]],
    known: float = np.inf,
) -> tuple[NDArray[np.int32] | None, float]:
    """Return nodes of a placement of least excess, and a bound that none falls below.

    `instance`, `loose`: with the limits as they are, and loosened to what is exceeded today.
    `weight`: (R,) what a unit of a resource's excess counts.
    `seconds`: time for it; ``None`` for a number of branch-and-bound nodes alone.
    `judged`: returns the excess of a placement, infinite where it is worse than today anywhere; and
        that if all that may fit the slots does.
    `known`: excess of a placement that is known; a solver that bounds by more, beside numbers that
        it cannot hold, proves nothing.
    """
    ends = None if seconds is None else time.perf_counter() + seconds
    cells = instance.num_tasks * instance.num_nodes
    if cells > _CELLS:
        return None, 0.0
    nodes = min(_MOST, _SHARED // cells)
    # sets over slots may stay as they are, at no cost: the bound is the lower
    atoms = atoms_of(loosened(instance, instance.tasks.node, forms={Form.SLOT_SETS}))
    paid: dict[int, float] = {}
    most: dict[int, float] = {}
    of_rows = {limit.name for rule in RULES if rule.rows for limit in rule.limits}
    for kind, (name, r) in enumerate(atoms.kinds):
        if name not in of_rows:
            continue
        most_of = LIMITS[name].raises(instance, loose)
        for atom in np.flatnonzero(atoms.kind == kind).tolist():
            raised = float(most_of[cells_of(atoms.index[atom], r)])
            if raised > 0:
                paid[atom], most[atom] = _price(instance, weight, LIMITS[name], r), raised
    if not paid:
        return None, 0.0
    rule_model = build(atoms, np.arange(len(atoms)))
    size = max(paid.values()) or 1.0
    paid = {atom: price / size for atom, price in paid.items()}
    whole = {atom for atom in paid if is_whole(atoms.rule_of(atom))}
    arrays, _ = with_raises(rule_model, paid, whole, most)
    best, least, bound, stalled = None, np.inf, 0.0, 0
    unknown = np.inf  # least of what was cut off though it may have less
    presolve = True
    columns = np.arange(instance.num_tasks) * instance.num_nodes
    for _ in range(_ROUNDS):
        limit = None if ends is None else max(ends - time.perf_counter(), 0.1)
        answer = solve_small_milp(
            arrays, time_limit=limit, gap=1e-9, node_limit=nodes, presolve=presolve
        )
        before = bound, least
        if answer.termination is LinearTermination.INFEASIBLE:  # none is left
            bound = np.inf
        elif answer.bound is not None:
            bound = max(bound, size * answer.bound * (1 - 1e-9))
        if answer.x is not None:
            node = rule_model.place(answer.x)
            excess, if_slots_fit = judged(node)
            if if_slots_fit < excess:
                unknown = min(unknown, if_slots_fit)
            if best is None or excess < least:
                best, least = node, excess
        closed = bound - before[0] > _PROGRESS * (before[1] - before[0])
        stalled = 0 if least < before[1] or closed else stalled + 1
        late = stalled == _STALLED or (ends is not None and time.perf_counter() >= ends)
        if presolve and not late and bound >= least * (1 - _SAME):
            bound, presolve = 0.0, False  # what HiGHS' presolve makes of a row is no proof
            continue
        if answer.x is None:
            break
        # a model that was not solved to its end has no better bound without one placement
        if bound >= least * (1 - _SAME) or late or answer.termination is not SOLVED:
            break
        row = Row(tuple((columns + node).tolist()), (1.0,) * len(node), len(node) - 1.0)
        arrays = arrays.with_rows([row])
    proved = min(bound, least, unknown)
    # a placement is known that the solver's claim excludes: it proves nothing
    return (best if least < np.inf else None), proved if proved <= known * (1 + _SAME) else 0.0


def _price(instance: Instance, weight: Floats, limit: Limit, r: int) -> float:
    """Return what a unit of a raise costs; what slots lack is reported in other units: nothing."""
    if FORM_OF[limit.name] is Form.SLOTS:
        return 0.0
    if limit.unit in ("load", "resource"):
        return float(weight[max(r, 0)])
    return 1.0 / (total_of(instance, limit.name) if limit.unit else max(1, instance.num_tasks))


# By how much limits have to be raised: the least, from a model in which they may be.

_WHOLE_CELLS = 4_000  # Tasks × nodes up to which the whole model is asked.
_FAR = 1e9


def is_whole(rule: str) -> bool:
    """Whether limits of a sort are whole numbers."""
    return rule in LIMITS and LIMITS[rule].whole


def least_raise(
    atoms: Atoms, subset: Ids, weight: Mapping[int, float], seconds: float
) -> dict[int, float] | None:
    """Return by how much limits have to be raised at least, so that rule instances can hold.

    `subset`: the rule instances that are to hold.
    `weight`: those whose limit may be raised, and what a unit of that counts; lists of allowed
        nodes and leaving nodes count in tasks that go elsewhere.
    Returns rule instance to the raise of its limit, in the file's units and in whole numbers where
        the limit is one; ``None`` where nothing came out in time. Where the model is that of groups
        of tasks, it may take more.
    """
    instance = atoms.instance
    if instance.num_tasks * instance.num_nodes <= _WHOLE_CELLS:
        rule_model: RuleModel | None = build(atoms.normal, subset)
    else:
        rule_model = aggregate(atoms.normal, subset)
    if rule_model is None:
        return None
    whole = {atom for atom in weight if is_whole(atoms.rule_of(atom))}
    arrays, columns = with_raises(rule_model, weight, whole)
    answer = solve_small_milp(arrays, time_limit=max(seconds, 0.1), gap=1e-4)
    if answer.x is None:
        return None
    raises = dict.fromkeys(weight, 0.0)
    for atom, column in columns:
        raises[atom] += float(answer.x[column])
    return {
        atom: float(round(by)) if atom in whole else by * atoms.unit_of(atom)
        for atom, by in raises.items()
        if by > (0.5 if atom in whole else 1e-7)
    }


def with_raises(
    rule_model: RuleModel,
    weight: Mapping[int, float],
    wholes: set[int],
    most: Mapping[int, float] | None = None,
) -> tuple[LinearArrays, list[tuple[int, int]]]:
    """Return the model with a raise for each of some rule instances, and the columns of these.

    `weight`, `wholes`, `most`: what a unit of a raise costs, which are whole numbers, and how large
        each may be at most.
    """
    arrays = rule_model.model.freeze()
    rows, ids, factor = joined(rule_model.owners)
    may = np.isin(ids, list(weight))
    rows, ids, factor = rows[may], ids[may], factor[may]
    raised = np.unique(ids)
    matrix = csr_array(arrays.matrix)
    first = matrix.shape[1]
    count = len(raised)
    # an excess of a row on either side, no more than its rules' raises allow
    exceeded = np.unique(rows)
    sides = [
        (sign, exceeded[np.isfinite(bound[exceeded])])
        for sign, bound in ((-1.0, arrays.row_upper), (1.0, arrays.row_lower))
    ]
    number = sum(len(some) for _, some in sides)
    excess = np.concatenate([np.full(len(some), sign) for sign, some in sides])
    where = np.concatenate([some for _, some in sides]).astype(np.int64)
    body = csr_array((excess, (where, np.arange(number))), shape=(matrix.shape[0], number))
    none = csr_array((matrix.shape[0], count))
    # excess_k − Σ_a factor_a · raise_a ≤ 0 over the rule instances a of its row
    of_rules = (factor, (rows, np.searchsorted(raised, ids)))
    factors = csr_array(of_rules, shape=(matrix.shape[0], count))
    links = hstack([eye_array(number), -factors[where]])
    whole = vstack([
        hstack([matrix, body, none]), hstack([csr_array((number, first)), links])
    ], format="csr")  # fmt: skip
    upper, cost = arrays.upper.copy(), np.zeros(first)
    raise_columns = _opened(rule_model, weight, upper, cost)
    limits = np.array([(most or {}).get(a, _FAR) for a in raised.tolist()])
    integral = [atom in wholes for atom in raised.tolist()]
    more = LinearArrays(
        "min",
        np.concatenate([cost, np.zeros(number), [weight[a] for a in raised.tolist()]]),
        0.0,
        np.concatenate([arrays.lower, np.zeros(number + count)]),
        np.concatenate([upper, np.full(number, _FAR), limits]),
        np.concatenate(
            [arrays.integrality, np.zeros(number, np.bool_), np.array(integral, np.bool_)]
        ),
        csr_array(whole),
        np.concatenate([arrays.row_lower, np.full(number, -np.inf)]),
        np.concatenate([arrays.row_upper, np.zeros(number)]),
    )
    raise_columns += [(atom, first + number + k) for k, atom in enumerate(raised.tolist())]
    return more, raise_columns


def _opened(
    rule_model: RuleModel, weight: Mapping[int, float], upper: Floats, cost: Floats
) -> list[tuple[int, int]]:
    """Open the columns that masks close, where these may give way; return those that count."""
    columns, ids, counts = joined(rule_model.shut)
    may = np.isin(ids, list(weight))
    shut = np.setdiff1d(columns[may], columns[~may])
    counting = []
    for column, atom, counted in zip(columns, ids, counts, strict=True):
        if atom in weight and np.isin(column, shut):
            upper[column] = rule_model.instance.num_tasks if counted else _FAR
            cost[column] += weight[int(atom)] * counted
            if counted:
                counting.append((int(atom), int(column)))
    return counting


def raised(atoms: Atoms, by: Mapping[int, float]) -> Instance:
    """Return the instance with fields of the file raised by so much.

    Lists of allowed nodes, and sets that are to be together, fall where they give way.
    """
    loose, rules = atoms.instance, np.array([kind.rule for kind in atoms.kinds])
    for limit in LIMITS.values():
        some = [a for a in by if rules[atoms.kind[a]] == limit.name and not atoms.has_no_limit(a)]
        if some:
            sign, value = limit.sign(loose), limit.value(loose)
            more = np.zeros(value.shape, int if limit.whole else float)
            for atom in some:
                r = atoms.kinds[atoms.kind[atom]].resource
                more[cells_of(atoms.index[atom], r)] += by[atom]
            higher = np.maximum(value + sign * more, limit.lowest)
            loose = limit.written(loose, np.where(more > 0, higher, value))
    dropped = [a for a in by if atoms.rule_of(a) not in LIMITS or atoms.has_no_limit(a)]
    if dropped:
        remaining = np.setdiff1d(np.arange(len(atoms)), dropped)
        loose = replace(atoms, instance=loose).keep(remaining.tolist())
    return loose
