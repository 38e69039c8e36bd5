"""What a rule is: one object a limit, from which every list of limits is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.figures.measures import over, slack

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.budget import Budget, NodeCount
    from optim.rules.placement import Placement


@dataclass(frozen=True)
class Violation:
    """A rule that a plan breaks, or a reason why no plan can exist.

    Attributes
    ----------
    rule
        Name of the rule, as ``--ignore`` takes it where it can be dropped.
    where
        The node, task, link, slot or limit; of loads as ``PLACE.RESOURCE``.
    amount
        By how much.
    needed, available
        The two figures whose difference is the amount.
    remark
        Why, or what of it; may be empty.
    """

    rule: str
    where: str
    amount: float
    needed: float
    available: float
    remark: str = ""

    @property
    def place(self) -> str:
        """Where, with the remark in parentheses."""
        return f"{self.where} ({self.remark})" if self.remark else self.where

    def __str__(self) -> str:
        return (
            f"{self.rule} at {self.place}: needs {self.needed:.6g}, has {self.available:.6g} "
            f"({self.amount:.6g} off)"
        )

    @property
    def key(self) -> tuple[str, str]:
        """Rule and place; a remark may be another of another plan."""
        return self.rule, self.where

    def resource(self, resources: Sequence[str]) -> int | None:
        """Return the index of the resource that `where` ends with; ``None`` where it has none."""
        named = [r for r in resources if self.where.endswith(f".{r}")]
        return resources.index(max(named, key=len)) if named else None

    def to_dict(self) -> dict[str, Any]:
        """Return the violation as plain data."""
        return dict(vars(self))


class Form(Enum):
    """How engines see a rule; an engine that knows a form keeps every rule of it."""

    MASK = "where each task may be"
    LEAVING = "nodes that are to be emptied"
    TASK = "what a task can use, wherever it is"
    NODE_CAPACITY = "a linear capacity of each node"
    TASK_COUNT = "most tasks on each node, which a capacity of one each says as well"
    SHARE = "the share of capacities that counts, which capacities say as well"
    NODE_FLOOR = "a least load of each node"
    CROSSING = "loads that what crosses nodes adds to"
    LOCAL_FIRST = "traffic that stays on a node where a receiver is there"
    LOCAL_FIRST_LINKS = "what such traffic adds to links and to loads"
    LINK_CAPACITY = "a capacity for what crosses"
    SLOTS = "an assignment of each node's tasks to its slots"
    SLOT_COUNT = "most tasks in each slot"
    BUDGET = "a budget of moves"
    INFLOW = "a budget of moves onto each node"
    FREE_MOVES = "moves that no budget counts"
    DISTANCE = "a bound on the load distance"
    SETS = "counts of a set of tasks on nodes or racks"
    SLOT_SETS = "counts of a set of tasks in slots"
    RESTARTS = "a budget of slots that hold other tasks than now"
    NODE_COUNT = "a count of nodes that hold tasks of some groups"


LOADS = frozenset({Form.MASK, Form.LEAVING, Form.NODE_CAPACITY})
"""What nearly every engine knows: where tasks may be, and capacities."""
OF_SLOT_ASSIGNMENT = frozenset({Form.SLOT_SETS, Form.RESTARTS})
"""What another assignment of the same tasks to the slots of a node may keep."""
OF_MOVES = frozenset({Form.BUDGET, Form.INFLOW, Form.FREE_MOVES})  # What is of moves.
MEASURED = frozenset({Form.CROSSING, Form.LOCAL_FIRST, Form.LOCAL_FIRST_LINKS})
"""What changes how plans are measured: no repair makes up for an engine that does not know it."""


def _no_items(_: Any) -> tuple[Any, ...]:
    return ()


def _no_value(_: Any) -> None:
    return None


@dataclass(frozen=True)
class Rows:
    """A rule as rows ``value ≤ limit``; the limit of a violated row may be raised to its value."""

    value: Callable[[Placement], Any]  # The values of a placement, one a row.
    #: The limits, of the same shape; ``inf`` where there is none.
    limit: Callable[[Instance], Any]
    #: Returns the instance with new limits in some rows. Takes instance, mask of the rows, limits,
    #: and a placement that is to be feasible afterwards, or ``None``. A rule that has no number to
    #: raise is dropped; with a placement, it is made as narrow as that placement allows.
    loosened: Callable[[Instance, Any, Any, Placement | None], Instance]
    any_limit: bool = False  # Whether any number may be a limit, and excess is value − limit.
    whole: bool = False  # Whether values are whole numbers.


def _whole_share(_: Any) -> float:
    return 1.0


def never(_: Any) -> bool:
    return False


def always(_: Any) -> bool:
    return True


@dataclass(frozen=True)
class Limit:
    """A column of numbers in the file that limit something; each number may be raised."""

    name: str  # Name of the violations of it.
    #: Table of the column: ``nodes``, ``links``, ``topologies``, ``sets``, ``slot_sets``;
    #: ``limits`` for a single number.
    table: str
    value: Callable[[Instance], NDArray[Any]]  # (E,) numbers in the file; (E, R) by resource.
    is_set: Callable[[Instance], Bools]  # Which of them are limits.
    written: Callable[[Instance, Any], Instance]  # Returns the instance with other numbers.
    unset: float = np.inf  # The number that means no limit.
    share: Callable[[Instance], Any] = _whole_share  # The limit is this share of the number.
    #: Which are lower limits (``value ≥ limit``): loosening lowers them, down to `lowest`.
    least: Callable[[Instance], Any] = never

    lowest: float = -np.inf
    whole: bool = False  # Whether the numbers are whole.
    #: ``load`` (of its resource), ``resource`` (the first one), ``rate``, ``state``, or empty.
    unit: str = ""
    #: By how much a loosened instance has higher limits; the difference of the numbers if left out.
    rise: Callable[[Instance, Instance], Any] | None = None

    def sign(self, instance: Instance) -> NDArray[np.int64]:
        """Return 1, and -1 for lower limits, in the shape of the numbers."""
        value = self.value(instance)
        return np.where(np.broadcast_to(self.least(instance), value.shape), -1, 1)

    def raises(self, instance: Instance, loose: Instance) -> Any:
        """Return by how much a loosened instance lets each limit be exceeded, in what counts."""
        if self.rise is not None:
            return self.rise(instance, loose)
        with np.errstate(invalid="ignore"):
            higher = self.sign(instance) * (self.value(loose) - self.value(instance))
        return higher * self.share(instance)


@dataclass(frozen=True)
class Rule:
    """A limit that an instance may set.

    Attributes
    ----------
    name
        As methods declare it, ``--ignore`` takes it and violations carry it.
    field
        Where it stands in a file.
    form
        How engines see it.
    present
        Words that show where an instance sets it; ``None`` where it does not.
    dropped
        The instance without it.
    violations
        What a placement breaks.
    proofs
        Quick proofs that no placement can keep it, by necessary conditions.
    other_violations
        Names of violations beside its own.
    repairable
        Whether repair restores it.
    is_number
        Whether it is one number under ``limits``, which sweeps and importers can set.
    task_key, node_key
        What makes tasks, or nodes, unequal under it where it is present, beside their loads,
        capacities and allowed nodes: (T,) or (T, k), (N,) or (N, k) numbers, or ``None``.
    rows
        The rule as rows that may be loosened; empty for one that a plan has to keep in any case.
    limits
        Its numbers in the file, by sort; empty for one that has none.
    budgets
        Of the form `BUDGET`: the budgets over moves that an instance sets, each with its entry.
    weight_column
        Column of the table of tasks that holds what a budget is of, in the unit of state.
    node_counts
        Of the form `NODE_COUNT`: the counts that an instance sets.
    inflow
        Of the form `INFLOW`: (N,) most tasks that may move onto each node; ``None`` where the
        instance sets none.
    restarts
        Of the form `RESTARTS`: the most slots that an instance lets hold other tasks than now.
    """

    name: str
    field: str
    form: Form
    present: Callable[[Instance], str | None]
    dropped: Callable[[Instance], Instance]
    violations: Callable[[Placement], Iterable[Violation]] = _no_items
    proofs: Callable[[Instance], Iterable[Violation]] = _no_items
    other_violations: tuple[str, ...] = ()
    repairable: bool = False
    is_number: bool = False
    task_key: Callable[[Instance], Any] = _no_value
    node_key: Callable[[Instance], Any] = _no_value
    rows: tuple[Rows, ...] = ()
    limits: tuple[Limit, ...] = ()
    budgets: Callable[[Instance], Iterable[Budget]] = _no_items
    weight_column: str | None = None
    node_counts: Callable[[Instance], Iterable[NodeCount]] = _no_items
    inflow: Callable[[Instance], Ints | None] = _no_value
    restarts: Callable[[Instance], int | None] = _no_value


def current_node_key(instance: Instance) -> Ints:
    """(T,) current node: under a budget of moves, tasks on different nodes are unequal."""
    return instance.tasks.node


def occupied_node_key(instance: Instance) -> NDArray[np.int64]:
    """(N,) a number for each node with a task or a copy of one now; 0 for all other nodes.

    Under a budget of moves, only nodes of key 0 are interchangeable.
    """
    key = np.zeros(instance.num_nodes, dtype=np.int64)
    tasks = instance.tasks
    homes = np.unique(np.concatenate([tasks.node[tasks.node >= 0], tasks.copies_indices]))
    key[homes] = 1 + np.arange(len(homes))
    return key


def labelled(values: Iterable[Hashable]) -> NDArray[np.int64]:
    """Number equal values alike, in order of their first appearance."""
    number_of: dict[Hashable, int] = {}
    return np.array(
        [number_of.setdefault(value, len(number_of)) for value in values], dtype=np.int64
    )


def violation(rule: str, where: str, needed: Any, available: Any, remark: str = "") -> Violation:
    """Write a violation with its figures; the amount is their difference."""
    needed, available = float(needed), float(available)
    return Violation(rule, where, abs(needed - available), needed, available, remark)


def node_violations(
    instance: Instance, rule: str, needed: Floats, available: Floats
) -> Iterator[Violation]:
    """Violations of (N, R) needs above (N, R) amounts."""
    for n, r in np.argwhere(over(needed, available)):
        where = f"{instance.nodes.ids[n]}.{instance.resources[r]}"
        yield violation(rule, where, needed[n, r], available[n, r])


def limit_words(name: str) -> Callable[[Instance], str | None]:
    """Words for a number under ``limits``."""

    def words(instance: Instance) -> str | None:
        value = getattr(instance.limits, name)
        return None if value is None else f"limits.{name} = {value:g}"

    return words


def without_limit(name: str) -> Callable[[Instance], Instance]:
    """Return what drops a number under ``limits``."""
    return lambda instance: instance.with_values("limits", **{name: None})


def limit_rows(limit: Limit, value: Callable[[Placement], Any], *, any_limit: bool = False) -> Rows:
    """Return the rows of the numbers of a limit, given what a placement has in each.

    Least ones are rows of the negative: −value ≤ −limit.
    """

    def most(instance: Instance) -> Floats:
        counted = limit.sign(instance) * (limit.value(instance) * limit.share(instance))
        return np.where(limit.is_set(instance), counted, np.inf)

    def loosened(instance: Instance, mask: Any, value: Any, _: Placement | None) -> Instance:
        raised = np.maximum(limit.sign(instance) * value / limit.share(instance), limit.lowest)
        return limit.written(instance, np.where(mask, raised, limit.value(instance)))

    return Rows(value, most, loosened, any_limit, limit.whole)


def number_limit(name: str, *, unit: str = "", whole: bool = False) -> Limit:
    """Return the limit that is a number under ``limits``."""

    def value(instance: Instance) -> Floats:
        most = getattr(instance.limits, name)
        return np.array([np.inf if most is None else most])

    def written(instance: Instance, values: Any) -> Instance:
        (most,) = values.tolist()
        number = None if most == np.inf else int(most) if whole else float(most)
        return instance.with_values("limits", **{name: number})

    return Limit(
        name, "limits", value, lambda of: np.isfinite(value(of)), written, whole=whole, unit=unit
    )


def number_rule(limit: Limit, form: Form, **more: Any) -> Rule:
    """Return the rule of a number under ``limits``, with further fields of `Rule`."""
    name = limit.name
    words, dropped = limit_words(name), without_limit(name)
    return Rule(
        name, f"limits.{name}", form, words, dropped, is_number=True, limits=(limit,), **more
    )


def column_limit(
    table: str, name: str, is_set: Callable[[Any], Bools], none: float, **kinds: Any
) -> Limit:
    """Return the limit that is a column of a table, given where the table sets it."""

    def written(instance: Instance, values: Any) -> Instance:
        dtype = getattr(getattr(instance, table), name).dtype
        return instance.with_values(table, **{name: values.astype(dtype)})

    def value(instance: Instance) -> NDArray[Any]:
        return np.asarray(getattr(getattr(instance, table), name))

    def binding(instance: Instance) -> Bools:
        return is_set(getattr(instance, table))

    return Limit(name, table, value, binding, written, none, **kinds)


def first_of(
    table: str, words: str, some: Callable[[Any], Any]
) -> Callable[[Instance], str | None]:
    """Words for a column of a table: they name the first entry that sets it."""

    def present(instance: Instance) -> str | None:
        rows = getattr(instance, table)
        rows_set = np.flatnonzero(some(rows))
        return f"{words} (of {rows.ids[rows_set[0]]})" if len(rows_set) else None

    return present


def all_over(table: str, **values: float) -> Callable[[Instance], Instance]:
    """Return what writes one value all over each of some columns of a table."""

    def dropped(instance: Instance) -> Instance:
        rows = getattr(instance, table)
        columns = {name: np.full_like(getattr(rows, name), value) for name, value in values.items()}
        return instance.with_values(table, **columns)

    return dropped


_EPSILON = 2.0**-52


def undecided(needed: Any, available: Any, terms: int) -> Bools:
    """Whether rounding of a sum of so many terms could decide if it exceeds what is available."""
    # |needed - edge| < (terms + 4) · ε · needed: the error of a sum of so many non-negative terms
    edge = np.asarray(available + slack(available))
    off = np.abs(np.where(np.isfinite(edge), needed - edge, np.inf))
    return np.asarray(off < (terms + 4) * _EPSILON * np.asarray(needed))


def total(values: Floats, available: float) -> float:
    """Return a sum, correctly rounded where that decides."""
    plain = float(values.sum())
    return math.fsum(values) if undecided(plain, available, len(values)) else plain


def terms_of(instance: Instance) -> int:
    """Return how many terms the load of a node or link has at most."""
    flows = instance.flows
    of_traffic = len(flows.rate) + len(flows.blocks) + (instance.num_nodes + 2) * len(flows.local)
    return instance.num_tasks + of_traffic + 1


def node_load(placement: Placement, n: int, r: int) -> float:
    """Return what a node has of a resource, correctly rounded."""
    instance = placement.instance
    loads = instance.tasks.load[placement.node == n, r]
    parts = [instance.nodes.background[n : n + 1, r], loads]
    out, into = instance.crossing_cost[:, r]
    if out or into:
        source, target, rate = instance.flows.directed()
        source, target = placement.node[source], placement.node[target]
        apart = (source != target) & (source >= 0) & (target >= 0)
        parts += [out * rate[apart & (source == n)], into * rate[apart & (target == n)]]
        also = instance.flows.local_crossing(placement.node, instance.num_nodes)
        parts.append(np.array([out * also[0][n], into * also[1][n]]))
    return math.fsum(np.concatenate(parts))


def node_loads(placement: Placement, needed: Floats, available: Floats) -> Floats:
    """Return (N, R) loads of a placement, correctly rounded in rows where that decides.

    `needed`, `available`: (N, R) sides of the rows; the loads are one of them.
    """
    rows = np.argwhere(undecided(needed, available, terms_of(placement.instance)))
    if not len(rows):
        return placement.loads
    loads = np.array(placement.loads)
    for n, r in rows.tolist():
        loads[n, r] = node_load(placement, n, r)
    return loads
