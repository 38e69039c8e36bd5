"""What a rule is: one object a limit, from which every list of limits is made."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from optim.rules.violation import Violation
from optim.util.tolerance import over

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.format.tables import Floats, Ints
    from optim.rules.budget import Budget
    from optim.rules.node_count import NodeCount
    from optim.rules.placement import Placement


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
OF_MOVES = frozenset({Form.BUDGET, Form.INFLOW, Form.FREE_MOVES})
"""What is of moves."""
MEASURED = frozenset({Form.CROSSING, Form.LOCAL_FIRST, Form.LOCAL_FIRST_LINKS})
"""What changes how plans are measured: no repair makes up for an engine that does not know it."""


def _nothing(instance: Instance) -> tuple[Any, ...]:
    return ()


def _nobody(instance: Instance) -> None:
    return None


@dataclass(frozen=True)
class Rows:
    """A rule as rows ``value ≤ limit``: a row that is broken now may be loosened to what it is now.

    Attributes
    ----------
    value
        What a placement has in each row, an array.
    limit
        What it may have, of the same shape; ``inf`` where there is no limit.
    loosened
        The instance whose limits are given values in the rows of a mask: of instance, mask, values,
        and a placement that must keep the rule then, or ``None``. Where a rule cannot say "no worse
        than now" by a limit it is dropped, but with a placement made as narrow as that one is.

    plain, whole
        Whether any value may be a limit, and amounts are those of the violations; whether values
        are whole numbers.
    """

    value: Callable[[Placement], Any]
    limit: Callable[[Instance], Any]
    loosened: Callable[[Instance, Any, Any, Placement | None], Instance]
    plain: bool = False
    whole: bool = False


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
    also
        Names of violations beside its own.
    mended
        Whether repair restores it.
    varies
        Whether it is one number under ``limits``, which sweeps and importers can set.
    task_key, node_key
        What makes tasks, or nodes, unequal under it where it is present, beside their loads,
        capacities and allowed nodes: (T,) or (T, k), (N,) or (N, k) numbers, or ``None``.
    rows
        The rule as rows that may be loosened; empty for one that a plan has to keep in any case.
    budget
        The budget over moves that an instance sets by it; ``None`` where it sets none, and for
        rules of other forms.
    column
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
    violations: Callable[[Placement], Iterable[Violation]]
    proofs: Callable[[Instance], Iterable[Violation]] = _nothing
    also: tuple[str, ...] = ()
    mended: bool = False
    varies: bool = False
    task_key: Callable[[Instance], Any] = _nobody
    node_key: Callable[[Instance], Any] = _nobody
    rows: tuple[Rows, ...] = ()
    budget: Callable[[Instance], Budget | None] = _nobody
    column: str | None = None
    node_counts: Callable[[Instance], Iterable[NodeCount]] = _nothing
    inflow: Callable[[Instance], Ints | None] = _nobody
    restarts: Callable[[Instance], int | None] = _nobody


def by_home(instance: Instance) -> Ints:
    """(T,) current node: under a budget of moves, tasks of different homes are unequal."""
    return instance.tasks.node


def known_as_home(instance: Instance) -> NDArray[np.int64]:
    """(N,) under a budget of moves, the current nodes of tasks are unlike all others (0)."""
    key = np.zeros(instance.num_nodes, dtype=np.int64)
    homes = np.unique(instance.tasks.node[instance.tasks.node >= 0])
    key[homes] = 1 + np.arange(len(homes))
    return key


def labelled(values: Iterable[Hashable]) -> NDArray[np.int64]:
    """Number equal values alike, in order of their first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.int64)


def violation(rule: str, where: str, needed: Any, available: Any) -> Violation:
    """Write a violation with its figures; the amount is their difference."""
    needed, available = float(needed), float(available)
    return Violation(rule, where, abs(needed - available), needed, available)


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
    from dataclasses import replace

    def dropped(instance: Instance) -> Instance:
        changes: dict[str, Any] = {name: None}
        return replace(instance, limits=replace(instance.limits, **changes))

    return dropped
