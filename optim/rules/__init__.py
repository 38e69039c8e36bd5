"""The rules that a plan must satisfy: a module a form, and functions over all rules.

Every list of limits in the product is made from `RULES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import InvalidInput, Problem, meant
from optim.figures.load import REASONS
from optim.figures.measures import TOLERANCE, over, slack
from optim.rules.base import OF_SLOT_ASSIGNMENT, Form, Rule, Violation
from optim.rules.budget import (
    EXCLUSIVE_NODES,
    MAX_INFLOW,
    MAX_MIGRATION_COST,
    MAX_MIGRATION_STATE,
    MAX_MIGRATIONS,
    MAX_NODES_USED,
    copies_rule,
    moving_at_most,
    using_at_most,
)
from optim.rules.capacity import (
    CAPACITY,
    CROSSING_COST,
    LINKS,
    LOCAL_FIRST,
    LOCAL_FIRST_LINKS,
    MAX_LOAD,
    MAX_LOAD_DISTANCE,
    MAX_TASKS,
    MAX_UTILISATION,
    MIN_LOAD,
)
from optim.rules.placement import Placement
from optim.rules.sets import ALLOWED, LEAVING, SETS, SLOT_SETS
from optim.rules.slots import MAX_TASKS_PER_SLOT, MAX_WORKERS_RESTARTED, SLOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from optim.format.instance import Instance
    from optim.format.tables import Bools, Floats, Ints
    from optim.rules.budget import Budget, NodeCount

__all__ = [
    "RULES",
    "RULE_NAMES",
    "SLOT_RULES",
    "Form",
    "Rule",
    "broken",
    "hopeless",
    "is_feasible",
    "limits_set",
    "moving_at_most",
    "node_counts",
    "undecided",
    "using_at_most",
    "without_limits",
]


def counts_moves(instance: Instance) -> bool:
    """Whether it matters to any rule which tasks move."""
    return any(rule.present(instance) is not None for rule in MOVE_RULES)


COPIES = copies_rule(counts_moves)
RULES: tuple[Rule, ...] = (
    MAX_MIGRATIONS,
    MAX_MIGRATION_COST,
    MAX_MIGRATION_STATE,
    MAX_LOAD_DISTANCE,
    MAX_TASKS_PER_SLOT,
    MAX_NODES_USED,
    MAX_WORKERS_RESTARTED,
    MAX_INFLOW,
    MAX_UTILISATION,
    MAX_LOAD,
    CAPACITY,
    MIN_LOAD,
    MAX_TASKS,
    ALLOWED,
    LEAVING,
    COPIES,
    SETS,
    LINKS,
    SLOTS,
    SLOT_SETS,
    EXCLUSIVE_NODES,
    CROSSING_COST,
    LOCAL_FIRST,
    LOCAL_FIRST_LINKS,
)
BUDGETS = tuple(rule for rule in RULES if rule.form is Form.BUDGET)
"""Budgets over moves."""
MOVE_RULES = tuple(rule for rule in RULES if rule.form in (Form.BUDGET, Form.INFLOW))
"""Rules for which it matters whether a task moves."""
RULE_NAMES = tuple(rule.name for rule in RULES)
"""What methods may honour, and ``--ignore`` and `without_limits` drop."""
BUDGET_NAMES = tuple(rule.name for rule in BUDGETS)
NUMBER_RULES = tuple(rule.name for rule in RULES if rule.is_number)
"""Those that are one number under ``limits``."""
LIMITS = {limit.name: limit for rule in RULES for limit in rule.limits}
"""Numbers of the file that may be raised, by the name of what breaks them."""
FORM_OF = {name: rule.form for rule in RULES for name in (rule.name, *rule.other_violations)}
"""The form of the rule of each violation."""
REPAIRABLE = frozenset({"placed"} | {rule.name for rule in RULES if rule.repairable})
"""Rules that repair restores."""
_ALWAYS = frozenset({"placed"})
_IN_SLOTS = OF_SLOT_ASSIGNMENT | {Form.SLOTS, Form.SLOT_COUNT}
SLOT_RULES = tuple(rule for rule in RULES if rule.form in _IN_SLOTS)
"""Rules of how tasks share slots."""


def broken(placement: Placement, elsewhere: Bools | None = None) -> list[Violation]:
    """Return every violation of a placement; none means feasible.

    `elsewhere`: (T,) tasks that may be nowhere; none if left out.
    """
    ids = placement.instance.tasks.ids
    nowhere: list[int] = [] if placement.complete else np.flatnonzero(placement.node < 0).tolist()
    unplaced = nowhere if elsewhere is None else [t for t in nowhere if not elsewhere[t]]
    violations = [Violation("placed", ids[t], 1.0, 1.0, 0.0) for t in unplaced]
    for rule in RULES:
        violations += rule.violations(placement)
    return violations


def undecided(placement: Placement, violation: Violation) -> bool:
    """Return whether a violation is not known to be one: of slots, within the work limit."""
    of_slots = placement.slot is None and FORM_OF.get(violation.rule) in _IN_SLOTS
    return of_slots and not placement.slot_assignment.proven


def is_feasible(placement: Placement, rules: Iterable[Rule] = RULES) -> bool | None:
    """Return whether a placement keeps rules; ``None`` where that is not known (`undecided`)."""
    violations = (violation for rule in rules for violation in rule.violations(placement))
    if not placement.complete:
        return False
    first = next(violations, None)
    if first is None:
        return True
    return None if all(undecided(placement, v) for v in (first, *violations)) else False


def hopeless(instance: Instance) -> list[Violation]:
    """Return reasons why no plan can exist; an empty list says nothing either way.

    Each is a necessary condition that the rules imply, so what is found is a proof.
    """
    if instance.num_tasks == 0 or instance.num_nodes == 0:
        return []
    return [reason for rule in RULES for reason in rule.proofs(instance)]


def limits_set(instance: Instance) -> dict[str, str]:
    """Return the limits an instance sets, each with the words that show it."""
    words_of = ((rule.name, rule.present(instance)) for rule in RULES)
    return {name: words for name, words in words_of if words is not None}


def budgets(instance: Instance) -> list[Budget]:
    """Return the budgets over moves that an instance sets."""
    return [budget for rule in BUDGETS for budget in rule.budgets(instance)]


def used_up(placement: Placement, task: int) -> str | None:
    """Name a budget of which not enough is left for a task to migrate."""
    for budget in budgets(placement.instance):
        if over(budget.weight[placement.migrated].sum() + budget.weight[task], budget.limit):
            return f"{budget.name} {budget.limit:g} used up"
    return None


REASONS.append(used_up)


def inflow_limits(instance: Instance) -> Ints | None:
    """(N,) most tasks that may move onto each node; ``None`` where none is set."""
    limits = [rule.inflow(instance) for rule in RULES]
    set_ones = [most for most in limits if most is not None]
    return np.min(set_ones, axis=0) if set_ones else None


def most_restarts(instance: Instance) -> int | None:
    """Return how many slots may hold other tasks than now; ``None`` for any number."""
    limits = [rule.restarts(instance) for rule in RULES]
    return min((most for most in limits if most is not None), default=None)


def reassigned_rules(instance: Instance) -> list[Rule]:
    """Return the rules set that another assignment to the slots of a node may keep."""
    some = (rule for rule in RULES if rule.form in OF_SLOT_ASSIGNMENT)
    return [rule for rule in some if rule.present(instance) is not None]


def node_counts(instance: Instance) -> list[NodeCount]:
    """Return the bounds on numbers of nodes that an instance sets."""
    return [count for rule in RULES for count in rule.node_counts(instance)]


def fewest_nodes(instance: Instance) -> NodeCount | None:
    """Return the least bound on how many nodes all tasks use; ``None`` where none is set."""
    counts = (count for count in node_counts(instance) if count.of_all)
    return min(counts, key=lambda count: count.limit, default=None)


def rules_of(forms: Iterable[Form]) -> frozenset[str]:
    """Names of the rules that an engine keeps which knows these forms."""
    chosen = frozenset(forms)
    return frozenset(rule.name for rule in RULES if rule.form in chosen)


def kept_by(honours: Iterable[str]) -> frozenset[str]:
    """Names of all violations that a method which honours these rules must not have."""
    chosen = frozenset(honours)
    also = {name for rule in RULES if rule.name in chosen for name in rule.other_violations}
    return _ALWAYS | chosen | also


def task_keys(instance: Instance) -> Floats:
    """(T, k) numbers in which tasks must be alike to be equal under all rules that are set."""
    return _keys(instance, [rule.task_key for rule in RULES], instance.num_tasks)


def node_keys(instance: Instance) -> Floats:
    """(N, k) the same for nodes."""
    return _keys(instance, [rule.node_key for rule in RULES], instance.num_nodes)


def _keys(instance: Instance, hooks: Sequence[Callable[[Instance], Any]], rows: int) -> Floats:
    present = (rule.present(instance) is not None for rule in RULES)
    keys = [hook(instance) for hook, some in zip(hooks, present, strict=True) if some]
    columns = [np.asarray(key, dtype=np.float64) for key in keys if key is not None]
    return np.column_stack([np.zeros((rows, 0)), *columns])


def without_limits(instance: Instance, names: Iterable[str]) -> Instance:
    """Return the instance without the named limits; the same one when there are none.

    `names`: of `RULE_NAMES`; a text is one name.
    Raises `InvalidInput`: a name is not one of `RULE_NAMES`.
    """
    names = (names,) if isinstance(names, str) else tuple(names)
    unknown = [name for name in names if name not in RULE_NAMES]
    if unknown:
        raise InvalidInput(
            [Problem("--ignore", n, "is no limit", meant(n, RULE_NAMES)) for n in unknown]
        )
    for rule in RULES:
        if rule.name in names:
            instance = rule.dropped(instance)
    return instance


# By how much a placement exceeds limits, and limits loosened to what is exceeded today.
#
# The excess is the sum over what a plan breaks of the amount, as a share of all there is of that:
# of the load of a resource, of the traffic, of the tasks, of the cost of moving them. So it has
# no unit, and what a row weighs depends on no plan.

ROWS = tuple(rows for rule in RULES for rows in rule.rows)
"""What may be loosened, in the order in which it is."""
RULE_OF = tuple(rule.name for rule in RULES for _ in rule.rows)  # The rule of each.
_SAME = 1e-7  # Relative difference of two amounts that is none.
_OPEN = 5.0  # Tolerances of a row by which two amounts above its limit may differ and be the same.
_OF_LOAD = ("capacity", "min_load", "slot_capacity", "max_load")


def total_of(instance: Instance, rule: str, resource: int = 0) -> float:
    """Return all there is of what a rule bounds: what an amount is a share of; never 0."""
    if rule in _OF_LOAD or rule == "max_load_distance":
        total = float(instance.totals[resource])
    elif rule == "links":
        total = instance.total_traffic + float(instance.links.background.sum())
    else:
        spent = (budget for budget in budgets(instance) if budget.name == rule)
        total = max((float(b.weight.sum()) for b in spent), default=float(instance.num_tasks))
    return total if total > 0 else 1.0


def excess_of(instance: Instance, violations: Iterable[Violation]) -> float:
    """Return the excess of a placement from what it breaks."""
    return float(
        sum(v.amount / total_of(instance, v.rule, _resource(instance, v)) for v in violations)
    )


def rounding_of(instance: Instance, violations: Iterable[Violation]) -> float:
    """Return the difference of two excesses that is none, from the rows broken.

    The tolerances of these rows, with what proofs leave open beside them.
    """
    return float(
        sum(
            _OPEN
            * slack(max(abs(v.needed), abs(v.available)))
            / total_of(instance, v.rule, _resource(instance, v))
            for v in violations
        )
    )


def _resource(instance: Instance, violation: Violation) -> int:
    """Return the resource of which a violation is; the first for those that are of none."""
    return (violation.resource(instance.resources) or 0) if violation.rule in _OF_LOAD else 0


def worsened(now: Iterable[Violation], then: Iterable[Violation]) -> list[Violation]:
    """Return what a plan breaks that holds now, or is violated less."""
    before = {v.key: v.amount for v in now}
    return [v for v in then if v.amount > before.get(v.key, 0.0) * (1 + _SAME)]


def loosened(
    instance: Instance,
    node: Ints,
    binding: Instance | None = None,
    *,
    narrow: bool = False,
    forms: Iterable[Form] = tuple(Form),
) -> Instance:
    """Return the instance with the limits that a placement exceeds raised to what it has.

    Every plan that is nowhere worse than the placement keeps the rules of what is returned, and
    nearly nothing else does: `worsened` reports.

    `node`: (T,) nodes; -1 for a task without one.
    `binding`: the instance with only the limits that are none for the objective; itself if left
        out.
    `narrow`: keep together what is together in the placement, of sets to be together that it
        breaks; else these are dropped.
    `forms`: of the rules whose limits are raised.
    """
    binding = instance if binding is None else binding
    # one after the other: each is measured on what those before have loosened
    for rows in (rows for rule in RULES if rule.form in forms for rows in rule.rows):
        placement = Placement(binding, node)
        value, limit = np.asarray(rows.value(placement)), np.asarray(rows.limit(binding))
        broken = np.asarray(over(value, limit))
        if not rows.whole:  # what is there now is not at the edge of what methods may use
            value = value + TOLERANCE * np.abs(np.where(np.isfinite(value), value, 0.0))
        if broken.any():
            together = placement if narrow else None
            binding, instance = (
                rows.loosened(i, broken, value, together) for i in (binding, instance)
            )
    return instance
