"""Runs of the tables and figures: none is a sweep.

Solvers get the full model alone and their traces are read at moments; rounds, periods and days
follow one another, each from where the last plan left the key groups; cases are built by hand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.generators import generate
from experiments.generators.rebalancing import JOINT, KeyGroups, build_instance
from experiments.replay.periods import day_periods, load_trace
from experiments.replay.run import Setting, first_state, step
from experiments.studies.papers.albic_real.runs import first_days
from experiments.studies.papers.albic_real.runs import traced as traced_job
from experiments.traces.instances import load_scale
from formulations.rebalancing.balance.model import build_full
from formulations.rebalancing.balance.search import search_balance
from formulations.rebalancing.problem import balance_problem
from optim import solve
from optim.errors import StreamplaceError
from optim.figures.measures import load_distance_of, node_loads
from optim.format.instance import Instance
from optim.format.tables import Floats
from optim.referee import Result
from optim.solvers import solve_linear
from optim.solvers.inprocess import solve_lp
from optim.util.process import processor_seconds
from streamplace.policies.nodes import CostModel
from streamplace.policies.parallelism import ScalingChoice, ScalingDecision, ScalingView
from streamplace.policies.registry import read_policy

Row = dict[str, Any]

HERE = Path(__file__).parent


def placed(instance: Instance, node: NDArray[np.int32]) -> Instance:
    """Return the instance with its tasks on other nodes now."""
    tasks = instance.to_dict()["tasks"]
    ids = instance.nodes.ids
    for task, place in zip(tasks, node.tolist(), strict=True):
        task["node"] = ids[place]
    return instance.replace(tasks=tasks)


def follow(periods: Sequence[Instance], method: str, **options: Any) -> list[Row]:
    """Plan period after period, each from where the last plan left the key groups."""
    # where the key groups are now; loads change from period to period
    node, rows = periods[0].tasks.node, []
    for number, period in enumerate(periods):
        now = placed(period, node)
        # each period has its number as the seed, so that a run repeats
        result = solve(now, method, seed=number, **options)
        if result.plan is None or result.evaluation is None:
            raise StreamplaceError(f"{method} has no plan in period {number} of {period.name}")
        evaluation = result.evaluation
        collocated = 100.0 * (evaluation.collocation_factor or 0.0)
        row: Row = {
            "period": number,
            "distance": evaluation.load_distance,
            "collocated": collocated,
        }
        rows.append({**row, "migrations": evaluation.migrations})
        node = result.plan.node_indices(now)
    return rows


FIRST = "scale-in first"

GAP = 6.0
"""Percent of the mean load within which the balancing after a scale-in need not go on proving."""

GOOD = 10.0  # Load distance that is called good: ALBIC's own maxLD.


def solving(seed: int, nodes: int, moves: int, way: str, limit: float) -> Row:
    """Load distance of Flux, of the search, or of one solver cold with one thread.

    With a solver stands the processor time that it had, building the model included: on a shared
    machine less than its limit (s).
    """
    instance = generate("cluster", nodes=nodes, varies=40.0, max_migrations=moves, seed=seed)
    if way in ("flux", "balance-search"):
        evaluation = solve(instance, way, seed=seed).evaluation
        return {
            "cpu": None,
            "distance": evaluation.load_distance if evaluation else None,
            "limit": limit,
        }
    model = build_full(balance_problem(instance)).model
    began = processor_seconds()
    # a plan within 0.001 points of the bound counts as optimal (chosen)
    solution = solve_linear(model, way, time_limit=limit, abs_gap=1e-3, seed=seed)
    return {"cpu": processor_seconds() - began, "distance": solution.objective, "limit": limit}


def budgets(seed: int, varies: float, moves: int) -> Row:
    """Least load distance found, by budget and by how much the nodes vary."""
    instance = generate("cluster", nodes=20, varies=varies, max_migrations=moves, seed=seed)
    evaluation = solve(instance, "balance-search", seed=seed).evaluation
    assert evaluation is not None
    return {"distance": evaluation.load_distance}


def scale_in(seed: int, overloaded: int, way: str) -> list[Row]:
    """Rounds of a scale-in at three tenths of the paper's size.

    The integrated way is the MILP's model by balance-search, which is as even in a tenth of the
    time; solvers that stop early leave key groups on leaving nodes.
    """
    instance = generate(
        "scale_in", nodes=18, leaving=3, max_migrations=6, overloaded=overloaded, seed=seed
    )
    first = way == FIRST
    options: dict[str, Any] = {"time_limit": 1.0, "gap": GAP} if first else {}
    method = "scale-in-first" if first else "balance-search"
    return run_rounds(instance, method, 20, stop=True, **options)


def periods(seed: int, moves: int, count: int) -> list[Row]:
    """Follow Real Job 1's shape, with synthetic loads, under a budget of moves."""
    rows = _follow_budget(seed, moves, count, rest="outside")
    return [{key: row[key] for key in ("period", "distance", "migrations")} for row in rows]


def overloads(seed: int, moves: int) -> Row:
    """Seconds in which a node is above its capacity, of 2,000 with loads that vary by the second.

    A key group's load in a second is lognormal about its mean (σ 0.5); nodes are used to 75 %.
    """
    instance = generate(
        "cluster", nodes=20, varies=40.0, mean=75.0, max_migrations=moves, seed=seed
    )
    plan = solve(instance, "balance-search", seed=seed).plan
    assert plan is not None
    node = plan.node_indices(instance)
    rng = np.random.default_rng(seed)
    # the mean of a lognormal is exp(μ + σ²/2): with μ = -σ²/2 a key group's mean load stays
    factor = rng.lognormal(-0.125, 0.5, (2_000, instance.num_tasks))
    loads = np.zeros((2_000, instance.num_nodes))
    for at in range(instance.num_nodes):
        loads[:, at] = (factor * instance.tasks.load[:, 0])[:, node == at].sum(axis=1)
    return {
        "distance": load_distance_of(instance, node),
        # points: every node can take 100
        "overload seconds": int(np.count_nonzero(loads > 100.0)),
    }


TIME = "solving time (s)"


def solving_times(
    nodes: int, budgets: list[int], place: int, by: str, seconds: list[float]
) -> list[Row]:
    """Load distances of Figure 2, 3 or 4 at moments of solving, by ``ours`` or ``SOLVER, cold`` or
    ``warm``; `place` is that of the setting: varies 40 and 60 %, each with both budgets.
    """
    varies, budget = tuple(product((40.0, 60.0), budgets))[place]
    instance = generate("cluster", nodes=nodes, varies=varies, max_migrations=budget)
    setting = {"place": place, "setting": f"varies {varies:g} %, {budget} moves"}
    solver, _, start = by.partition(", ")
    rows = (
        traced(instance, solver, start == "warm", seconds)
        if start
        else quick_ways(instance, seconds)
    )
    return [{**row, **setting} for row in rows]


def quick_ways(instance: Instance, seconds: Sequence[float]) -> list[Row]:
    """Flux, which takes no time; balance-search and its proven bound, read at each time."""
    flux = solve(instance, "flux").evaluation
    search = solve(instance, "balance-search", time_limit=seconds[-1])
    # Flux has the same plan at every moment
    levels = [flux.load_distance if flux is not None else None] * len(seconds)
    # a point of a trace is (seconds, value, bound)
    values = _entries_at(search.trace, seconds, 1)
    # the trace ends where the proof does, and has the first level only
    values[-1] = search.objective.value if search.objective else None
    bounds = _entries_at(search.trace, seconds, 2)
    ways = {"Flux": levels, "balance-search": values, "proven bound": bounds}
    return _rows_over_time(ways, seconds)


def _rows_over_time(ways: Mapping[str, list[float | None]], seconds: Sequence[float]) -> list[Row]:
    """Return a row a way and time."""
    return [
        {"way": way, TIME: moment, "distance": value}
        for way, distances in ways.items()
        for moment, value in zip(seconds, distances, strict=True)
    ]


def _entries_at(trace: Sequence[Any], seconds: Sequence[float], place: int) -> list[float | None]:
    """Return the last entry of a trace known at each time."""
    latest = []
    for moment in seconds:
        values = [point[place] for point in trace if point[0] <= moment]
        latest.append(next((value for value in reversed(values) if value is not None), None))
    return latest


def traced(instance: Instance, solver: str, warm: bool, seconds: Sequence[float]) -> list[Row]:
    """Solve the paper's model once and read its trace at each time."""
    problem = balance_problem(instance)
    built = build_full(problem)
    start: Floats | None = None
    if warm:
        node = search_balance(problem)
        start = None if node is None else built.write(node)
    solution = solve_linear(
        built.model, solver, time_limit=seconds[-1], abs_gap=1e-3, warm_start=start
    )
    values = _entries_at(solution.trace, seconds, 1)
    values[-1] = solution.objective if values[-1] is None else values[-1]
    return _rows_over_time({f"{solver}, {'warm' if warm else 'cold'}": values}, seconds)


ROUND, OVERLOADED = "round", "overloaded nodes"
FINISHED = "integrated, drained at the end"


def scale_in_rounds(overloaded: int, way: str, nodes: int, leaving: int, rounds: int) -> list[Row]:
    """Plan rounds until the leaving nodes are empty; no time limits, so that a run repeats."""
    instance = generate(
        "scale_in", nodes=nodes, leaving=leaving, overloaded=overloaded, max_migrations=20
    )
    options: Row = {"gap": GAP} if way == FIRST else {}
    method = "scale-in-first" if way == FIRST else "balance-search"
    rows = run_rounds(instance, method, rounds, finish=way == FINISHED, **options)
    return [{"way": way, OVERLOADED: overloaded, **row} for row in rows]


def run_rounds(
    instance: Instance,
    method: str,
    rounds: int,
    *,
    finish: bool = False,
    stop: bool = False,
    **method_options: Any,
) -> list[Row]:
    """Plan again and again from what the last plan left; loads stay as they are.

    With `finish`, a round that can empty the leaving nodes does so, and balances with what is left.
    With `stop`, a round that finds them empty and the load distance at most ten is the last.
    """
    node, leaving = instance.tasks.node, instance.nodes.leaving
    received = np.zeros(instance.num_nodes)
    rows: list[Row] = []
    moved = 0
    for number in range(rounds + 1):
        now = placed(instance, node)
        left_load = float(node_loads(now, node)[leaving, 0].sum())
        distance = float(load_distance_of(now, node) or 0.0)
        rows.append({ROUND: number, "distance": distance, "left": left_load, "moves": moved})
        if number == rounds or (stop and left_load <= 0 and distance <= GOOD):
            break
        # the budget covers all key groups that are left on leaving nodes
        last = finish and 0 < int(leaving[node].sum()) <= (instance.limits.max_migrations or 0)
        by = "scale-in-first" if last else method
        options: dict[str, Any] = {"gap": GAP} if last else dict(method_options)
        if method == "scale-in-first":
            # scale-in-first evens out what comes onto a node over all rounds, earlier ones included
            dealt = zip(instance.nodes.ids, received.tolist(), strict=True)
            options["received"] = ";".join(f"{name}={load!r}" for name, load in dealt if load > 0)
        plan = solve(now, by, seed=number, **options).plan
        before, node = node, node if plan is None else plan.node_indices(now)
        moving = np.flatnonzero(before != node)
        moved = len(moving)
        off = moving[leaving[before[moving]]]
        np.add.at(received, node[off], instance.tasks.load[off, 0])
    return rows


PERIODS = 13  # The first is where the load distance starts, and is left out of the figures.


def budget_periods(seed: int, budget: int) -> list[Row]:
    """Follow the same periods with each budget, of 300 key groups."""
    name = "unrestricted" if budget == 300 else str(budget)
    return [{**row, "maxMigrations": name, "seed": seed} for row in _follow_budget(seed, budget)]


def _follow_budget(seed: int, budget: int, count: int = PERIODS, **given: Any) -> list[Row]:
    periods = joint_periods(
        seed, count, nodes=20, key_groups=15, operators=2, one_to_one=0.0, varies=20.0,
        max_migrations=budget, **given,
    )  # fmt: skip
    return follow(periods, "balance-search")


LAST = 4  # Rounds of a standstill: figures are means over them.

TARGETS = (10.0, 3.0, 1.0)
"""Load distances asked of both: the paper's maxLD is lost. The first is ALBIC's default."""


ALBIC = {"balance_gap": 5.0}


def periods_of(seed: int, given: Mapping[str, Any], number: int) -> Instance:
    """Return one period of a job in which only one-to-one pairs can be collocated."""
    job = {"varies": 20.0, "max_migrations": 20, "rest": "outside", "period": number, **given}
    return JOINT.make(seed, job)


def climb(seed: int, given: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[list[Row], int]:
    """Follow ALBIC until its collocation has not risen for `LAST` rounds; a row for each, and the
    number of the first period after them.
    """
    node, rows = None, []
    best, since = -1.0, 0
    for number in range(600):
        period = periods_of(seed, given, number)
        now = period if node is None else placed(period, node)
        result = solve(now, "albic", seed=seed + number, **options)
        assert result.plan is not None
        node = result.plan.node_indices(now)
        rows.append(_row(seed, given, number, result, node))
        # 1e-9: a sum of rates in another order is no rise
        climbed = rows[-1]["collocated"] > best + 1e-9
        best, since = max(best, rows[-1]["collocated"]), 0 if climbed else since + 1
        if since >= LAST:
            break
    return rows, len(rows)


def summary(
    seed: int, given: Mapping[str, Any], options: Mapping[str, Any] | None = None
) -> list[Row]:
    """Return one line for ALBIC at its standstill, and one for COLA at each target there."""
    rows, count = climb(seed, given, {**ALBIC, **(options or {})})
    base = {"seed": seed, "nodes": given["nodes"], "one_to_one": given["one_to_one"]}
    name = "ALBIC" if not options else "ALBIC, " + ", ".join(f"{k}={v}" for k, v in options.items())
    lines = [{**base, "policy": name, "target": 10.0, **_standstill_figures(rows)}]
    if options:
        return lines
    for target in TARGETS:
        cola_rows: list[Row] = []
        # COLA plans the periods of ALBIC's standstill: both see the same loads
        for number in range(count - LAST, count):
            period = periods_of(seed, given, number)
            if cola_rows:
                period = placed(period, cola_rows[-1]["node"])
            result = solve(
                period, "cola", seed=seed + number, max_load_distance=target,
                ignore=("max_migrations",),
            )  # fmt: skip
            assert result.plan is not None
            node = result.plan.node_indices(period)
            cola_rows.append({**_row(seed, given, number, result, node), "node": node})
        lines.append({**base, "policy": "COLA", "target": target, **_standstill_figures(cola_rows)})
    return lines


def _row(seed: int, given: Mapping[str, Any], number: int, result: Result, node: Any) -> Row:
    evaluation = result.evaluation
    assert evaluation is not None
    notes = " ".join(result.notes)
    rounds, parts = (re.search(rf"(\d+) {word}", notes) for word in ("rounds", "parts"))
    following = periods_of(seed, given, number + 1)
    source, target = following.flows.source, following.flows.target
    together = int((node[source] == node[target]).sum())
    return {
        # only one-to-one pairs have traffic: of all key groups' pairs, `one_to_one` percent
        "collocated": given["one_to_one"] * (evaluation.collocation_factor or 0.0),
        "distance": evaluation.load_distance,
        "next": load_distance_of(following, node),
        "migrations": evaluation.migrations,
        "recalculations": int(rounds[1]) - 1 if rounds else 0,
        # COLA reports no parts: every pair on one node joins two key groups into one
        "parts": int(parts[1]) if parts else following.num_tasks - together,
    }


def _standstill_figures(rows: list[Row]) -> Row:
    last = rows[-LAST:]

    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in last]))

    return {
        "rounds": len(rows),
        **{key: mean(key) for key in ("collocated", "distance", "next", "migrations", "parts")},
        "worst distance": max(row["distance"] for row in rows),
        "recalculated": sum(row["recalculations"] > 0 for row in rows),
        "most recalculations": max(row["recalculations"] for row in rows),
    }


HOTTEST = 0.9  # Utilisation of a node above which `adds_for_the_hottest` adds one.


DAY = {"nodes": 5, "key_groups": 8, "operators": 4, "periods": 8, "max_migrations": 5}


def adds_for_the_hottest(view: ScalingView) -> ScalingDecision:
    """Add a node where the most used one is above `HOTTEST`; mark none."""
    hot = float((view.load / view.capacity).max()) > HOTTEST
    return ScalingDecision(int(hot and view.since_change > 1))


def joint_periods(seed: int, periods: int, **parameters: Any) -> list[Instance]:
    """Return several periods of one ``joint`` job, from period 0 on."""
    return [JOINT.make(seed, {**parameters, "period": period}) for period in range(periods)]


def scale_outs(seed: int, plan_first: bool) -> Row:
    """Nodes added on a short day, decided on planned loads or on those that run."""
    setting = Setting(day_periods(seed, **DAY, utilisation=80.0), CostModel(0.1, 0.1))
    options: Row = {"scaling": adds_for_the_hottest, "plan_first": plan_first}
    added = _column_sum("added", setting, "balance-search", seed, **options)
    return {"seed": seed, "plan first": plan_first, "added": added}


def node_periods(seed: int, policy: str, serialise: float) -> Row:
    """Nodes summed over a short day under the utilisation rule; a tuple sent costs `serialise`.

    That is load per unit of rate on either side. A unit of rate is handled for 1.
    """
    # a tuple sent costs load at both ends: policies that collocate need fewer nodes
    periods = day_periods(seed, **DAY)
    # load of a unit of rate: a half where it is sent, a half where it is received
    per_rate = serialise * periods[0].totals[0] / periods[0].total_traffic
    setting = Setting(periods, CostModel(per_rate / 2, per_rate / 2))
    scaling = ScalingChoice("utilisation").make()
    total = _column_sum("nodes", setting, policy, seed, scaling=scaling)
    return {"node periods": total}


def _column_sum(column: str, setting: Setting, policy: str, seed: int, **options: Any) -> int:
    """Return the sum of a column over all periods."""
    planner = read_policy(policy, seed, costs=setting.costs, **options)
    state, total = first_state(setting, planner), 0
    for number in range(len(setting.periods)):
        row, state = step(setting, planner, number, state)
        total += int(row[column])
    return total


def scale_ins(limit: float | None = None) -> Row:
    """Nodes marked where one key group makes balance impossible on fewer of them.

    Four nodes used to 30 % on average, so that the utilisation rule would mark some; one key group
    of 60 points, which no plan can share out.
    """
    period = Instance.load(HERE / "large_group.json")
    limits: dict[str, Any] = {} if limit is None else {"max_load_distance": limit}
    rule = ScalingChoice("utilisation", limits).make()
    setting, policy = Setting([period]), read_policy("balance-search", 0, scaling=rule)
    row, _ = step(setting, policy, 0, first_state(setting, policy))
    return {
        "limit": "none" if limit is None else f"{limit:g}",
        "planned distance": row["load_distance"],
        "marked": row["marked"],
    }


def lemmas(seed: int) -> list[Row]:
    """Optima with and without moves onto leaving nodes; seed -1 is the counter-example.

    The least d of the integral model by `balance-milp`, of the divisible one by linear programming;
    and the most load that may stay on leaving nodes at the least d.
    """
    if seed < 0:
        instance = Instance.load(HERE / "leaving_helps.json")
    else:
        size = {"nodes": 4, "key_groups": 3, "leaving": 1, "overloaded": 1, "noise": 60.0}
        instance = generate("scale_in", **size, max_migrations=None, seed=seed)
    return [
        solved(instance, into) | {"into": into}
        for solved in (_integral, _divisible)
        for into in (False, True)
    ]


def _integral(instance: Instance, into: bool) -> Row:
    result = solve(instance, "balance-milp", allow_into_leaving=into, time_limit=10.0)
    assert result.plan is not None
    assert result.evaluation is not None
    node = result.plan.node_indices(instance)
    return {
        "loads": "key groups",
        "distance": result.evaluation.load_distance,
        "left": float(instance.tasks.load[instance.nodes.leaving[node], 0].sum()),
        "proven": str(result.termination) == "optimal",
    }


def _divisible(instance: Instance, into: bool) -> Row:
    """Solve the linear programme over loads y_kn; then find what may stay on leaving nodes."""
    load, leaving = instance.tasks.load[:, 0], instance.nodes.leaving
    tasks, nodes = len(load), instance.num_nodes
    stays = ~leaving
    mean = load.sum() / stays.sum()
    # Σ_k y_kn ≤ mean + d, of nodes that stay ≥ mean - d; Σ_n y_kn = load of k; d is the last column
    on_node, of_task = (
        np.kron(np.ones(tasks), np.eye(nodes)),
        np.kron(np.eye(tasks), np.ones(nodes)),
    )
    d = np.ones((nodes, 1))
    # columns: y_kn by key group, then node
    rows = np.block([[on_node, -d], [on_node[stays], d[stays]], [of_task, np.zeros((tasks, 1))]])
    # bounds of the rows, in their order: above, below, load of each key group
    least, none = np.full(stays.sum(), mean), np.full(nodes, -np.inf)
    low = np.r_[none, least, load]
    high = np.r_[np.full(nodes, mean), np.full(stays.sum(), np.inf), load]
    ceiling = np.full(tasks * nodes + 1, np.inf)
    if not into:
        # y_kn = 0 for every leaving node n but the key group's own
        away = np.arange(nodes) != instance.tasks.node[:, None]
        ceiling[:-1][(away & leaving).ravel()] = 0.0
    floor = np.zeros(tasks * nodes + 1)
    solution = solve_lp(np.r_[floor[:-1], 1.0], rows, low, high, floor, ceiling)
    distance = float(solution.objective or 0.0)
    # second level: d fixed (1e-9 for rounding), the most load Σ y_kn on leaving nodes
    ceiling[-1] = distance + 1e-9
    leaving_load = np.r_[-np.tile(leaving.astype(float), tasks), 0.0]
    remains = solve_lp(leaving_load, rows, low, high, floor, ceiling)
    return {
        "loads": "divisible",
        "distance": distance,
        "left": max(0.0, -float(remains.objective or 0.0)),
        "proven": True,
    }


def weighted(seed: int, weighted: bool) -> Row:
    """Least d of the weighted objective, or of the lexicographic one."""
    instance = generate("cluster", nodes=4, key_groups=5, max_migrations=3, seed=seed)
    result = solve(instance, "balance-milp", weighted=weighted, gap=1e-4, time_limit=20.0)
    assert result.evaluation is not None
    proven = str(result.termination) == "optimal"
    return {"distance": result.evaluation.load_distance, "proven": proven}


def node_weights(seed: int, way: str) -> Row:
    """Seconds of HiGHS on the full model: equal nodes, weights 1 to 4, or a second resource."""
    instance = generate("cluster", nodes=5, key_groups=6, max_migrations=3, seed=seed)
    document = instance.to_dict()
    rng = np.random.default_rng(seed)
    if way == "weights":
        for entry, weight in zip(document["nodes"], rng.integers(1, 5, 5).tolist(), strict=True):
            entry["weight"] = weight
    if way == "memory":
        document["resources"] = ["cpu", "memory"]
        for task in document["tasks"]:
            task["load"]["memory"] = float(rng.integers(5, 16))
        for entry in document["nodes"]:
            entry["capacity"] = {"memory": MEMORY}
    problem = balance_problem(Instance.from_dict(document))
    built = build_full(problem)
    began = time.monotonic()
    solution = solve_linear(built.model, "highs", time_limit=10.0, abs_gap=0.05, seed=seed)
    spent = time.monotonic() - began
    used = None
    # of the fullest node
    if way == "memory" and solution.x is not None:
        node = built.read(solution.x)
        used = float(np.bincount(node, problem.usage[:, -1], problem.num_nodes).max())
    return {
        "seconds": spent,
        "distance": solution.objective,
        "memory used": used,
        "memory": MEMORY if way == "memory" else None,
    }


def joint_model(nodes: int, key_groups: int, seconds: float) -> Row:
    """State and gap of the joint model after a time limit."""
    size = {"nodes": nodes, "key_groups": key_groups, "operators": nodes // 2 * 2 or 2}
    instance = JOINT.make(0, {**size, "one_to_one": 50.0, "max_migrations": None})
    result = solve(instance, "joint-milp", max_load_distance=10.0, time_limit=seconds)
    return {
        "nodes": nodes,
        "key groups": instance.num_tasks,
        "seconds": seconds,
        "state": str(result.termination),
        "value": None if result.evaluation is None else result.evaluation.imc_gain,
        "bound": result.bound if result.objective is not None else None,
        "traffic": instance.total_traffic,
    }


MEMORY = 70.0  # Points of memory of a node, of which key groups take 60 on average.

PATTERNS = ("one to one", "partial merge", "partial, skewed", "partial, even", "full, even")


def patterns(seed: int, pattern: str) -> Row:
    """Collocate two operators of 60 key groups on 6 nodes, by how the first sends to the second."""
    rng = np.random.default_rng([seed, PATTERNS.index(pattern)])
    count, nodes = 60, 6
    chosen: list[tuple[int, int, float]] = []
    partner = rng.permutation(count)
    for sender in range(count):
        if pattern == "one to one":
            shares = {int(partner[sender]): 1.0}
        elif pattern == "partial merge":
            # five senders share a receiver
            shares = {int(partner[sender]) // 5 * 5: 1.0}
        else:
            degree = count if pattern == "full, even" else 4
            receivers = rng.choice(count, degree, replace=False)
            # of four receivers one gets seven tenths, or all the same
            skew = (0.7, 0.1, 0.1, 0.1) if pattern == "partial, skewed" else [1 / degree] * degree
            shares = dict(zip(receivers.tolist(), skew, strict=True))
        chosen += [(sender, count + target, share) for target, share in shares.items()]
    source, target, rate = (np.array(column) for column in zip(*sorted(chosen), strict=True))
    # 120 key groups of 2.5 points on 6 nodes: 50 points a node
    load = 2.5 * (1.0 + rng.uniform(-0.05, 0.05, 2 * count))
    home = np.arange(2 * count) % nodes
    # rates add up to 100, so that the gain is in percent
    groups = KeyGroups(
        load, home, np.repeat([0, 1], count), source, target, rate * (100.0 / rate.sum())
    )
    instance = build_instance(
        pattern, "two operators", groups, [{"id": f"n{i}"} for i in range(nodes)], {}
    )
    result = solve(
        instance, "joint-search", seed=seed, max_load_distance=10.0, bound="counting", steps=500
    )
    assert result.evaluation is not None
    factor = result.evaluation.collocation_factor or 0.0
    return {"collocated": 100.0 * factor}


FOLDER = Path("build/papers/albic-real")
"""That of the figures: what they traced and replayed is not done again."""

OF_JOB = {1: "control", 2: "fig-12", 3: "fig-13", 4: "fig-14"}
PROOF = "balance_gap=5"
"""ALBIC stops proving within 5 points in Real Jobs 3 and 4, where a proof takes long."""

KEPT = {
    "collocation_factor": "collocated", "collocation_factor_next": "collocated next",
    "load_distance": "distance", "load_distance_next": "distance next", "load_index": "load index",
    "mean_load": "mean load", "migrations": "migrations", "migration_cost": "cost",
    "objective": "planned", "bound": "bound",
}  # fmt: skip


def job(job: int, policy: str, days: int, reduced: bool, placement: str | None = None) -> list[Row]:
    """Return the first days of a job's replay, collocation in percent; from another placement where
    one is named.
    """
    name = f"real_job_{job}.toml"
    replay = first_days(folder_of(job, reduced), reduced, name, (policy,), days, placement)
    rows = _replay_table(job, replay)
    records: list[Row] = rows.to_dict("records")  # type: ignore[assignment]
    return records


def folder_of(job: int, reduced: bool) -> Path:
    """Return the folder of a job's figure."""
    folder = FOLDER / (f"{OF_JOB[job]}-reduced" if reduced else OF_JOB[job]) / "rows"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _replay_table(job: int, rows: pd.DataFrame) -> pd.DataFrame:
    # replays of before have no objective
    table = rows.reindex(columns=["policy", "period", *KEPT]).rename(columns=KEPT)
    for column in ("collocated", "collocated next"):
        table[column] = 100.0 * table[column]
    table["policy"] = table["policy"].str.removesuffix(f":{PROOF}")
    table.insert(0, "job", job)
    # five digits are more than claims and figures show, and keep the tables small
    figures = table.select_dtypes("float").columns
    table[figures] = table[figures].map(lambda value: float(f"{value:.5g}"))
    return table


@cache
def first_day(reduced: bool) -> tuple[Instance, float]:
    """Return the first day of Real Job 4, and the load of a tuple."""
    trace = traced_job("real_job_4.toml", folder_of(4, reduced), reduced)
    return load_trace(trace.path, most=1)[0], load_scale(trace)


def cola_starts(seed: int, reduced: bool) -> Row:
    """COLA on the first day of Real Job 4 from a random placement."""
    day, scale = first_day(reduced)
    node = np.random.default_rng(seed).integers(0, day.num_nodes, day.num_tasks)
    setting = Setting([placed(day, node.astype(np.int32))], CostModel(scale, scale))
    policy: Any = read_policy("cola", seed)
    row, _ = step(setting, policy, 0, first_state(setting, policy))
    return {
        "collocated": 100.0 * row["collocation_factor"],
        "distance": row["load_distance"],
        "migrations": row["migrations"],
    }
