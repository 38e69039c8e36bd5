"""Instances and results as tables of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optim.errors import expect
from optim.figures.catalogue import FIGURES
from optim.format.instance import Instance
from optim.referee.result import Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from optim.format.plan import Plan


def to_frames(of: Instance | Result, plan: Plan | None = None) -> Mapping[str, pd.DataFrame]:
    """Return an instance, or a result, as tables.

    Parameters
    ----------
    of
        The tables of an instance are taken again by `InstanceBuilder.frame`.
    plan
        Of an instance: adds to the tasks where it puts them, as ``planned``.

    Returns
    -------
    Mapping
        Of an instance: ``nodes`` (id, capacity of each resource, rack), ``tasks`` (id, load of each
        resource, node), and ``traffic`` (from, to, rate).

        Of a result: ``tasks`` (id, node, and slot where the plan has some), ``nodes`` (id, tasks,
        load and utilisation of each resource), ``moves`` (task, from, to, cost), ``figures``
        (figure, value, unit), ``violations``, and ``trace`` (seconds, incumbent, bound); without
        rows where there is no plan.

    Examples
    --------
    >>> from streamplace import Instance, solve, to_frames
    >>> frames = to_frames(solve(Instance.load("examples/hand-8-tasks.json")))
    >>> list(frames), float(frames["figures"].set_index("figure").value["imc_gain"])
    (['tasks', 'nodes', 'moves', 'figures', 'violations', 'trace'], 14.0)
    """
    if isinstance(of, Result):
        return _result_frames(of)
    expect("of", of, Instance, "an Instance, or a Result of solve")
    return _instance_frames(of, plan)


def _instance_frames(instance: Instance, plan: Plan | None) -> Mapping[str, pd.DataFrame]:
    import pandas as pd

    nodes, tasks = instance.nodes, instance.tasks
    racks = [nodes.rack_ids[r] if nodes.rack_ids else None for r in nodes.rack.tolist()]
    capacity = np.where(np.isfinite(nodes.capacity), nodes.capacity, np.nan)
    homes = [nodes.ids[n] if n >= 0 else None for n in tasks.node.tolist()]
    names = instance.resources
    places = pd.DataFrame({"id": nodes.ids, **dict(zip(names, capacity.T, strict=True))})
    placed = pd.DataFrame({"id": tasks.ids, **dict(zip(names, tasks.load.T, strict=True))})
    source, target, rate = instance.flows.directed()
    pairs = {
        "from": [tasks.ids[t] for t in source.tolist()],
        "to": [tasks.ids[t] for t in target.tolist()],
        "rate": rate,
    }
    placed = placed.assign(node=pd.Series(homes, dtype=object))
    if plan is not None:
        planned = [plan.assignment.get(task) for task in tasks.ids]
        placed = placed.assign(planned=pd.Series(planned, dtype=object))
    places = places.assign(rack=pd.Series(racks, dtype=object))
    return {"nodes": places, "tasks": placed, "traffic": pd.DataFrame(pairs)}


def _result_frames(result: Result) -> Mapping[str, pd.DataFrame]:
    import pandas as pd

    found, plan = result.evaluation, result.plan
    tasks: dict[str, Any] = (
        {"id": list(plan.assignment), "node": list(plan.assignment.values())}
        if plan
        else {"id": [], "node": []}
    )
    if plan is not None and plan.slots is not None:
        tasks["slot"] = [plan.slots[task] for task in plan.assignment]
    held = (found and found.node_tasks) or {}
    nodes: dict[str, Any] = {"id": list(held), "tasks": list(held.values())}
    for suffix, table in (
        ("", found and found.node_loads),
        (" utilisation", found and found.utilisation),
    ):
        for resource in dict.fromkeys(r for row in (table or {}).values() for r in row):
            nodes[f"{resource}{suffix}"] = [(table or {}).get(n, {}).get(resource) for n in held]
    single = [figure for figure in FIGURES if figure.single] if found else []
    moves = [move.to_dict() for move in result.moves]
    violations = [violation.to_dict() for violation in found.violations] if found else []
    return {
        "tasks": pd.DataFrame(tasks),
        "nodes": pd.DataFrame(nodes),
        "moves": pd.DataFrame(moves, columns=["task", "from", "to", "cost"]),
        "figures": pd.DataFrame(
            [(figure.name, getattr(found, figure.name), figure.unit) for figure in single],
            columns=["figure", "value", "unit"],
        ),
        "violations": pd.DataFrame(
            violations, columns=["rule", "where", "amount", "needed", "available"]
        ),
        "trace": pd.DataFrame(list(result.trace), columns=["seconds", "incumbent", "bound"]),
    }
