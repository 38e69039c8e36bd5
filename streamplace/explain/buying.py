"""What a little more of a limit that binds would buy: the instance is solved again with it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.conflicts.atoms import atoms_of
from formulations.conflicts.relax import raised

if TYPE_CHECKING:
    from optim.format.instance import Instance
    from optim.referee.result import Result
    from streamplace.explain.binding import Bound
    from streamplace.explain.why import Explanation

_ASKED = 3
_ONE = frozenset({"max_migrations", "max_tasks", "max_inflow"})


def priced(
    instance: Instance, found: Explanation, result: Result, seconds: float
) -> tuple[Bound, ...]:
    """Return the rules that bind, the first few with what a unit more of their limit buys.

    What it buys is the objective of a plan that was found, and judged by the referee, with that
    limit raised, against the plan's; 0 where none better was found, which proves nothing.

    Parameters
    ----------
    result
        Of the plan: solved again is by the same method and seed.
    seconds
        For all of it.
    """
    from optim import solve

    assert found.objective is not None
    assert found.evaluation is not None
    name, told = found.objective.name, list(found.binding)
    value = found.objective.of(found.evaluation.objective(name))
    ends = time.perf_counter() + seconds
    asked = [i for i, bound in enumerate(told) if _unit(instance, bound)][:_ASKED]
    for number, i in enumerate(asked):
        part = (ends - time.perf_counter()) / (len(asked) - number)
        atom, more = _unit(instance, told[i]) or (0, 0.0)
        if value.value is None or result.gap == 0 or part <= 0:
            break
        changed = raised(atoms_of(instance), {atom: more})
        again = solve(changed, result.method, objective=name, time_limit=part, seed=result.seed)
        if again.evaluation is None or not again.evaluation.feasible:
            continue
        assert again.objective is not None
        gain = again.objective.gain_over(value)
        buys = None if gain is None else max(0.0, gain)
        told[i] = replace(told[i], more=more, buys=buys)
    return tuple(told)


def _unit(instance: Instance, bound: Bound) -> tuple[int, float] | None:
    """Return the rule instance of a limit, and by how much it is raised; ``None`` for others.

    That is one of what is counted, and of a sum what the least task needs beyond the room.
    """
    atoms, nodes = atoms_of(instance), instance.nodes.index
    if bound.rule in _ONE or bound.rule == "max_migration_cost":
        some = atoms.of(bound.rule)
        index = nodes.get(bound.where, 0)
        loads = instance.tasks.migration_cost
    elif bound.rule == "capacity":
        node, _, resource = bound.where.rpartition(".")
        r = instance.resources.index(resource)
        some, index, loads = atoms.of(bound.rule, r), nodes[node], instance.tasks.load[:, r]
    else:
        return None
    atom = some[atoms.index[some] == index]
    if not len(atom):
        return None
    least = float(loads[loads > 0].min(initial=np.inf))
    more = 1.0 if bound.rule in _ONE else least - bound.slack
    return (int(atom[0]), more) if np.isfinite(more) and more > 0 else None
