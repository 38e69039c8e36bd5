"""Which methods suit an instance, and which of them `solve` runs when none is named.

A method suits when the instance has what it needs, it keeps the limits that are set, and it has the
objective. Candidates stand in an order by what the instance holds; those that keep all its limits
come before those that need repair. Where one ends without a plan, the next is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from optim.errors import InvalidInput, Problem, UnsuitableMethod
from optim.figures.catalogue import find_objective
from optim.figures.load import LOAD_DISTANCE, carrying
from optim.format.traffic import find_cycle
from optim.methods.reduce import lowered, slots_count_tasks
from optim.methods.registry import NEEDS, get_method, method_names
from optim.rules import SLOTS, budgets, limits_set, rules_of, without_limits
from optim.rules.base import MEASURED
from optim.rules.capacity import LOCAL_FIRST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from optim.figures.figure import Figure
    from optim.format.instance import Instance
    from optim.format.tables import Bools
    from optim.methods.registry import Method


def _none(there: object) -> str | None:
    return None if there else "the instance has none"


def _first(ids: Sequence[str], without: Bools) -> str | None:
    """Name the first of some that has none."""
    return f"{ids[int(without.argmax())]} has none" if without.any() else None


def _cycle(instance: Instance) -> str | None:
    edges = [(s.source, s.target) for s in instance.streams]
    cycle = find_cycle(instance.num_operators, edges)
    names = [instance.operators.ids[o] for o in cycle]
    return f"{' → '.join([*names, names[0]])} is a cycle" if cycle else None


def _without_operator(instance: Instance) -> str | None:
    return _first(instance.tasks.ids, instance.tasks.operator < 0)


def _without_topology(instance: Instance) -> str | None:
    operators = instance.operators
    return _without_operator(instance) or _first(operators.ids, operators.topology < 0)


def _bounded_rate(instance: Instance) -> str | None:
    """Without, some placement carries any input: there is no greatest rate."""
    if np.isfinite(instance.thread_rates).any():
        return None
    driven = list(instance.rate_driven)
    loaded = [r for r in driven if instance.total_load[r] > 0]
    bounded = np.isfinite(instance.nodes.capacity[:, loaded])
    if bounded.all(axis=0).any():
        return None
    names = ", ".join(instance.resources[r] for r in loaded or driven)
    if not loaded:
        return f"no task has a load of {names}"
    without = int(np.flatnonzero(~bounded.all(axis=1))[0])
    return f"{instance.nodes.ids[without]} has none of {names}"


def _models(instance: Instance) -> str | None:
    for name, model in zip(instance.operators.ids, instance.operators.model, strict=True):
        if model is None:
            return f"{name} has none"
    return None if instance.num_operators else "the instance has no operators"


def _input_rate(instance: Instance) -> str | None:
    if not instance.input_rate:
        return "it is 0" if instance.input_rate == 0 else "the instance has none"
    without = np.flatnonzero(np.isnan(instance.operators.tuple_rate))
    return f"that of {instance.operators.ids[without[0]]} does not" if len(without) else None


def _whole_slots(instance: Instance) -> str | None:
    share = instance.limits.max_utilisation
    for name, value in zip(instance.resources, share.tolist(), strict=True):
        if value != 1:
            return f"{name} has {value:g}"
    return None


_MISSING: dict[str, Callable[[Instance], str | None]] = {
    "tasks": lambda of: _none(of.num_tasks),
    "nodes": lambda of: _none(of.num_nodes),
    "traffic": lambda of: None if of.has_traffic else "no tasks of the instance communicate",
    "current_placement": lambda of: _first(of.tasks.ids, of.tasks.node < 0),
    "dag": _cycle,
    "operators": _without_operator,
    "topologies": _without_topology,
    "slots": lambda of: _first(of.nodes.ids, of.nodes.slots < 0),
    "links": lambda of: _none(of.links.ids),
    "capacity": lambda of: _first(of.nodes.ids, ~np.isfinite(of.nodes.capacity[:, 0])),
    "bounded_rate": _bounded_rate,
    "models": _models,
    "tuple_rates": _input_rate,
    "vm_types": lambda of: _none(of.vm_types),
    "whole_slots": _whole_slots,
}
"""What an instance lacks of a part that methods may need, in words; ``None`` where it has it."""

_ONLY_FOR = {"bounded_rate": ("sustainable_rate", "rate_after_loss")}
"""Objectives for which a part is needed; for any, where there is no entry."""


def check_suitable(method: Method, instance: Instance, *, repair: bool = False) -> None:
    """Refuse a method that lacks what it needs, or would not keep a limit that is set.

    With `repair`, limits that are not honoured pass: the repair finishes the plan, and the referee
    decides. What changes how plans are measured does not. Capacity is never
    asked for: a method that overloads by design says so; of one that knows no capacity and promises
    nothing, the round robins, nor are links and slots.

    Raises `UnsuitableMethod`: with every reason and its remedy.
    """
    problems = list(_unmet_needs(method, instance))
    if not problems:
        problems += _limits_not_honoured(method, lowered(instance, method.honours), repair=repair)
        problems += _uncounted(method, instance)
    if problems:
        raise UnsuitableMethod(problems)


def is_suitable(method: Method, instance: Instance, *, repair: bool = False) -> bool:
    """Whether a method has what it needs, and it or repair keeps every limit that is set."""
    try:
        check_suitable(method, instance, repair=repair)
    except UnsuitableMethod:
        return False
    return True


def _unmet_needs(method: Method, instance: Instance) -> Iterable[Problem]:
    figures = {figure.name for figure in find_objective(method.objective).singles}
    for need in method.needs:
        if need in _ONLY_FOR and not figures.intersection(_ONLY_FOR[need]):
            continue
        missing = _MISSING[need](instance)
        if missing is not None:
            remedy = _REMEDIES.get(need, "see `streamplace methods` for what each method needs")
            yield Problem(method.name, None, f"needs {NEEDS[need]}; {missing}", remedy)


_REMEDIES = {
    "current_placement": "give each task its node, or use a method that places from scratch",
    "bounded_rate": "give each node that capacity, or name other resources in rate_driven",
    "models": "give every operator a model, a list of measured points under models",
    "tuple_rates": "give input_rate above 0, and each stream its selectivity",
    "whole_slots": "scale the models' cpu and memory instead, or --ignore max_utilisation",
    "vm_types": "list the machines that may be acquired: id, slots, price",
}


def _limits_not_honoured(method: Method, instance: Instance, *, repair: bool) -> Iterable[Problem]:
    overloads = "capacity" not in method.honours and not method.promises_feasibility
    passed = {"capacity", "links", "slots"} if overloads else {"capacity"}
    measured = rules_of(MEASURED)
    for name, words in limits_set(instance).items():
        by_repair = name not in measured
        if name not in method.honours and name not in passed and not (repair and by_repair):
            remedy = f"--ignore {name} drops the limit"
            if by_repair:
                remedy = f"--repair lets repair finish the plan, {remedy}"
            yield Problem(method.name, None, f"does not keep {words}", remedy)


def _uncounted(method: Method, instance: Instance) -> Iterable[Problem]:
    """Figures of the objective that do not say that `local_first` streams are counted in them."""
    words = LOCAL_FIRST.present(instance)
    for figure in find_objective(method.objective).singles if words is not None else ():
        if not figure.local_first:
            reason = f"does not count {words} in {figure.name}"
            remedy = "use another --objective, or --ignore local_first: these streams are full then"
            yield Problem(method.name, None, reason, remedy)


def aim(
    method: Method, objective: str | None, options: Mapping[str, Any]
) -> tuple[Method, dict[str, Any]]:
    """Return the method with what it is to optimise for its objective, and its options.

    `objective`: name of a figure; ``None`` for the method's own. A choice of an option
        ``objective`` that the method has itself goes there.
    Raises `InvalidInput`: there is no such objective, or the method does not optimise it.
    """
    if objective is None:
        return method, dict(options)
    if any(o.name == "objective" and objective in o.choices for o in method.options):
        return method, {**options, "objective": objective}
    figure = find_objective(objective)
    if not method.optimises(figure.name):
        raise InvalidInput(Problem("--objective", objective, *_not_for(method, figure)))
    return method.aimed_at(figure.name), dict(options)


def _not_for(method: Method, objective: Figure) -> tuple[str, str]:
    """Return why an objective is nothing for a method, and what to do."""
    verb = "maximise" if objective.sense == "max" else "minimise"
    reason = f"is not supported by {method.name}, which does not {verb} {objective.name}"
    unable = [one for one in objective.singles if not method.optimises(one.name)]
    if unable and method.combines:
        reasons = (method.why_not.get(one.name) for one in unable)
        unsupported = [
            f"{one.name} ({cause})" if cause else one.name
            for one, cause in zip(unable, reasons, strict=True)
        ]
        reason = f"is not supported by {method.name}, which takes no {', no '.join(unsupported)}"
    remedy = f"its objectives: {', '.join(method.objectives)}"
    if method.combines:
        remedy += ", weighted sums of these and lists of levels"
    others = [name for name in method_names() if get_method(name).optimises(objective.name)]
    if others:
        remedy = f"use --method {' or '.join(others)}; {remedy}"
    return reason, remedy


# cut-offs by size are chosen from timings on the examples and the open benchmark: below them a
# method proves its plan within seconds
_EXACT_TASKS = 400
_EXACT_UNLIKE = 12
_EXACT_MOVES = 60_000
_MODELLED = 100_000
"""Moves a second of the time limit beyond which a model is not even made in time."""
_EXACT_LINKS = 40
_EXACT_EXECUTORS = 22
_EXACT_PRODUCTS = 20_000
_EXACT_PLACES, _TIMELY_PLACES = 50, 400
"""Tasks × nodes up to which any linear objective is proven first: always, and with a time limit."""
_EVERY_ASSIGNMENT = 8
_OF_RATE = ("sustainable_rate", "rate_after_loss", "migrations", "nodes_used")
_PLAIN = frozenset({"capacity", "slots", "max_tasks_per_slot"})
"""Limits that an even spread is likely to keep."""


class Choice(NamedTuple):
    """A method, why it was taken, and whether repair has to finish its plan."""

    name: str
    why: str
    repair: bool


def asked_of(instance: Instance, ignore: Iterable[str], target_rate: float | None) -> Instance:
    """Return what is solved: without some limits, and as much room as a rate to carry leaves."""
    relaxed = without_limits(instance, ignore)
    return relaxed if target_rate is None else carrying(relaxed, target_rate)


def choose_method(
    instance: Instance,
    time_limit: float | None = None,
    objective: str | None = None,
) -> Choice:
    """Choose a method for an instance: the first of `choices`."""
    return next(choices(instance, time_limit, objective))


def choices(
    instance: Instance,
    time_limit: float | None = None,
    objective: str | None = None,
    prefer: str | None = None,
) -> Iterator[Choice]:
    """Yield the methods for an instance, each once, the one to take first.

    `instance`: without the limits that are to be ignored.
    `time_limit`: seconds; with one, exact methods are taken for larger instances too.
    `objective`: only methods that can optimise it.
    `prefer`: a method that comes before the others, if it suits.
    Raises `UnsuitableMethod`: what would be taken cannot do it; with its reasons.
    Raises `InvalidInput`: nothing registered suits what the instance holds.
    """
    objective = None if objective is None else find_objective(objective).name
    installed, taken = set(method_names()), set()
    candidates = [
        (name, reason)
        for name, reason in _candidates(instance, time_limit, objective)
        if name in installed
    ]
    if prefer is not None:
        same = [one for one in candidates if one[0] == prefer]
        candidates[:0] = same[:1] or [(prefer, "as before the change")]
    refused: list[Problem] = []
    # all that keep every limit come before those whose plans need repair
    for repair in (False, True):
        for name, reason in candidates:
            method = get_method(name)
            if objective is not None and not method.optimises(objective):
                continue
            if method.name in taken or (repair and method.decides == "threads"):
                continue  # plans of threads hold no tasks to mend
            try:
                aimed = method if objective is None else method.aimed_at(objective)
                check_suitable(aimed, instance, repair=repair)
            except UnsuitableMethod as error:
                refused += error.problems
                continue
            taken.add(method.name)
            yield Choice(
                method.name, f"{reason}; repair finishes its plan" if repair else reason, repair
            )
    if taken:
        return
    if refused:
        raise UnsuitableMethod(refused[:1])
    remedy = "name one with --method"
    if objective is not None:
        remedy = f"none of those for {objective} suits it; see `streamplace methods`"
    raise InvalidInput(Problem("instance", instance.name, "suits no method", remedy))


def takes_long(name: str, instance: Instance, time_limit: float | None) -> bool:
    """Whether a method may go on for hours, where another has ended without a plan."""
    large = instance.num_tasks * instance.num_nodes > _EXACT_PRODUCTS
    return large and time_limit is None and get_method(name).kind == "exact"


def _candidates(
    instance: Instance, time_limit: float | None, objective: str | None
) -> Iterator[tuple[str, str]]:
    """Methods for an instance: those made for what it holds, then what may keep its limits."""
    if instance.num_tasks == 0 and instance.models:
        yield "mba+sam", "operators have performance models and the plan makes the threads"
        return
    yield from _throughput(instance, objective)
    budget = bool(budgets(instance))
    leaving = bool(instance.nodes.leaving.any())
    some, loaded = bool((instance.tasks.node >= 0).any()), not LOAD_DISTANCE.fixed(instance)
    # without traffic, or with moves that are counted, the balance of loads is what there is to do
    silent = not instance.has_traffic
    if (some and (budget or leaving or silent)) or (silent and loaded):
        yield from _rebalancing(instance, time_limit)
    if budget and instance.has_traffic and objective == "imc_gain":
        yield from _joint(instance, "traffic within a budget of moves")
    slotted = SLOTS.present(instance) is not None and not slots_count_tasks(instance)
    if LOCAL_FIRST.present(instance) is not None:
        # its second level, between slots, is proved of few executors, and ends at the limit of time
        if slotted and time_limit is not None and instance.num_tasks <= _EXACT_EXECUTORS:
            yield "storm-milp", "executors in slots, traffic that follows the placement"
        if instance.num_tasks * instance.num_nodes <= _EXACT_PRODUCTS:
            yield "plan-milp", "traffic that follows the placement"
        yield "plan-search", "traffic that follows the placement"
    if instance.has_traffic:
        if _links_bind(instance):
            small = instance.num_tasks <= _EXACT_LINKS
            yield "eoa-milp" if small else "gma", "traffic over links with a capacity"
            yield "gma", "traffic over links with a capacity"
        if slotted:
            small = instance.num_tasks <= _EXACT_EXECUTORS
            yield "storm-milp" if small else "storm-online", "executors in slots"
            yield "storm-online", "executors in slots"
        yield from _allocation(instance)
    if not _PLAIN.issuperset(limits_set(instance)):
        if instance.num_tasks * instance.num_nodes <= _EXACT_PRODUCTS:
            yield "imc-milp", "limits that only a full model keeps"
        if instance.num_tasks <= _EVERY_ASSIGNMENT:
            yield "imc-brute", "limits that only the referee knows, and few assignments"
    which = "no method for its traffic suits" if instance.has_traffic else "no traffic"
    yield "storm-even", f"{which}: spread evenly"
    for name in ("imc-milp", "eoa-milp", "storm-milp", "storm-online", "imc-search"):
        yield name, "it keeps every limit that is set"
    yield from _rebalancing(instance, time_limit)
    places = instance.num_tasks * instance.num_nodes
    if objective is not None and places <= (_TIMELY_PLACES if time_limit else _EXACT_PLACES):
        yield "plan-milp", "a linear objective, few enough tasks to prove"
    if instance.num_tasks <= _EXACT_UNLIKE:  # it counts them, and refuses where there are too many
        yield "imc-brute", "few assignments"
    if objective is not None:
        yield "plan-search", "it takes any objective and keeps every limit"
        if places <= _EXACT_PRODUCTS:
            yield "plan-milp", "a linear objective"


def _throughput(instance: Instance, objective: str | None) -> Iterator[tuple[str, str]]:
    """Methods for the rate, where traffic between nodes costs what grows with it, and no more.

    Where one of their own objectives is asked for, for that.
    """
    costs = np.isfinite(instance.links.capacity).any() or instance.crossing_cost.any()
    other = SLOTS.present(instance) is not None or bool(budgets(instance))
    other |= instance.limits.max_load_distance is not None
    reason = "traffic between nodes has a price: the greatest input that a placement carries"
    if objective in _OF_RATE:
        reason = "as asked"
    elif not costs or other or not instance.has_traffic:
        return
    if instance.num_tasks <= _EXACT_TASKS and _few_groups(instance):
        yield "throughput-exact", reason
    if instance.num_tasks <= _EXACT_UNLIKE:
        yield "throughput-milp", reason
    yield "throughput-search", reason


def _rebalancing(instance: Instance, time_limit: float | None) -> Iterator[tuple[str, str]]:
    moves = instance.num_tasks * instance.num_nodes
    large = moves > _EXACT_MOVES
    some = bool((instance.tasks.node >= 0).any())
    placed = "a current placement, " if some else ""
    if instance.has_traffic and instance.limits.max_load_distance is not None:
        yield from _joint(instance, f"{placed}traffic and a bound on load distance")
    reason = "a current placement to rebalance" if some else "loads to balance over the nodes"
    if large and (time_limit is None or moves > _MODELLED * time_limit):
        yield "balance-search", f"{reason}, large"
    yield "balance-milp", reason
    yield "balance-search", reason


def _joint(instance: Instance, reason: str) -> Iterator[tuple[str, str]]:
    large = instance.num_tasks * instance.num_nodes > _EXACT_MOVES
    yield "joint-search" if large else "joint-milp", reason
    yield "joint-search", reason


def _allocation(instance: Instance) -> Iterator[tuple[str, str]]:
    if instance.num_tasks <= _EXACT_TASKS and _few_groups(instance):
        yield "imc-exact", "groups of equal tasks with traffic, small enough to prove"
    if instance.num_tasks <= _EXACT_UNLIKE:
        yield "imc-exact", "tasks with traffic, few enough to prove"
        yield "imc-milp", "tasks with traffic, few enough to prove"
    yield "imc-search", "tasks with traffic"
    if instance.num_tasks * instance.num_nodes <= _EXACT_PRODUCTS:
        yield "imc-milp", "tasks with traffic, and limits that only a full model keeps"
    yield "partition", "tasks with traffic"


def _links_bind(instance: Instance) -> bool:
    """Whether links have a capacity, on nodes whose first resource has one too."""
    links, nodes = instance.links.capacity, instance.nodes.capacity[:, 0]
    return bool(np.isfinite(links).any()) and bool(np.isfinite(nodes).all())


def _few_groups(instance: Instance) -> bool:
    return 0 < instance.num_operators <= 16 and bool((instance.tasks.operator >= 0).all())
