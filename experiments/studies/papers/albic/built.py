"""Small built cases for what the paper proves or says in passing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.replay.run import Setting
    from experiments.studies.papers.albic.runs import Row
    from optim.format.instance import Instance
    from streamplace.policies.scaling import ScalingDecision, ScalingView

HOTTEST = 0.9
"""Utilisation of a node above which `adds_for_the_hottest` adds one."""


DAY = {"nodes": 5, "key_groups": 8, "operators": 4, "periods": 8, "max_migrations": 5}


def adds_for_the_hottest(view: ScalingView) -> ScalingDecision:
    """Add a node where the most used one is above `HOTTEST`; mark none."""
    from streamplace.policies.scaling import ScalingDecision

    hot = float((view.load / view.capacity).max()) > HOTTEST
    return ScalingDecision(int(hot and view.since_change > 1))


def joint_periods(seed: int, periods: int, **parameters: Any) -> list[Instance]:
    """Return several periods of one ``joint`` job, from period 0 on.

    Parameters
    ----------
    seed, periods
        Of the job; how many.
    **parameters
        Of the kind ``joint``, `period` excepted.

    Raises
    ------
    InvalidInput
        Unknown parameters, or values that do not do.
    """
    from experiments.generators.rebalancing import JOINT

    return [JOINT.make(seed, {**parameters, "period": period}) for period in range(periods)]


def scale_outs(seed: int, plan_first: bool) -> Row:
    """Nodes added on a short day, decided on planned loads or on those that run."""
    from experiments.replay.periods import day_periods
    from experiments.replay.run import Setting
    from streamplace.policies.deployment import CostModel

    setting = Setting(day_periods(seed, **DAY, utilisation=80.0), CostModel(0.1, 0.1))
    given: Row = {"scaling": adds_for_the_hottest, "plan_first": plan_first}
    added = _summed("added", setting, "balance-search", seed, **given)
    return {"seed": seed, "plan first": plan_first, "added": added}


def node_periods(seed: int, policy: str, serialise: float) -> Row:
    """Nodes summed over a short day under the utilisation rule; a tuple sent costs `serialise`.

    That is load per unit of rate on either side. A unit of rate is handled for 1.
    """
    from experiments.replay.periods import day_periods
    from experiments.replay.run import Setting
    from streamplace.policies.deployment import CostModel
    from streamplace.policies.scaling import ScalingChoice

    made = day_periods(seed, **DAY)
    per_rate = serialise * made[0].totals[0] / made[0].total_traffic
    setting = Setting(made, CostModel(per_rate / 2, per_rate / 2))
    scaling = ScalingChoice("utilisation").make()
    total = _summed("nodes", setting, policy, seed, scaling=scaling)
    return {"node periods": total}


def _summed(column: str, setting: Setting, policy: str, seed: int, **given: Any) -> int:
    """Return the sum of a column over all periods."""
    from experiments.replay.run import first_state, step
    from streamplace.policies.registry import read_policy

    planner = read_policy(policy, seed, costs=setting.costs, **given)
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
    from experiments.replay.run import Setting, first_state, step
    from optim.format.instance import Instance
    from streamplace.policies.registry import read_policy
    from streamplace.policies.scaling import ScalingChoice

    loads = [60.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0]
    period = Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "one large key group",
            "resources": ["cpu"],
            "nodes": [{"id": f"n{i}", "capacity": {"cpu": 100}} for i in range(4)],
            "tasks": [
                {"id": f"k{i}", "load": {"cpu": load}, "node": f"n{min(i, 3)}"}
                for i, load in enumerate(loads)
            ],
        }
    )
    given: dict[str, Any] = {} if limit is None else {"max_load_distance": limit}
    rule = ScalingChoice("utilisation", given).make()
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
    made = _counter_example() if seed < 0 else _leaving_case(seed)
    rows = [_integral(made, into) | {"into": into} for into in (False, True)]
    rows += [_divisible(made, into) | {"into": into} for into in (False, True)]
    return rows


def _leaving_case(seed: int) -> Instance:
    from experiments.generators import generate

    return generate(
        "scale_in", nodes=4, key_groups=3, leaving=1, overloaded=1, noise=60.0,
        max_migrations=None, seed=seed,
    )  # fmt: skip


def _counter_example() -> Instance:
    from optim.format.instance import Instance

    where = [("n0", 6), ("n0", 6), ("n1", 7), ("n2", 7)]
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "a leaving node helps",
            "resources": ["cpu"],
            "nodes": [
                *({"id": f"n{i}"} for i in range(3)), {"id": "n3", "leaving": True},
            ],
            "tasks": [
                {"id": f"k{i}", "load": {"cpu": load}, "node": node}
                for i, (node, load) in enumerate(where)
            ],
        }
    )  # fmt: skip


def _integral(made: Instance, into: bool) -> Row:
    from optim import solve

    result = solve(made, "balance-milp", allow_into_leaving=into, time_limit=10.0)
    assert result.plan is not None
    assert result.evaluation is not None
    node = result.plan.node_indices(made)
    leaving = made.nodes.leaving
    moved = leaving[node] & ~leaving[made.tasks.node]
    return {
        "loads": "key groups",
        "distance": result.evaluation.load_distance,
        "moved onto leaving": int(moved.sum()),
        "left": float(made.tasks.load[leaving[node], 0].sum()),
        "proven": str(result.termination) == "optimal",
    }


def _divisible(made: Instance, into: bool) -> Row:
    """Solve the linear programme over loads y_kn; then find what may stay on leaving nodes."""
    import numpy as np

    from optim.solvers.inprocess import solve_lp

    load, leaving = made.tasks.load[:, 0], made.nodes.leaving
    tasks, nodes = len(load), made.num_nodes
    stays = ~leaving
    mean = load.sum() / stays.sum()
    # Σ_k y_kn ≤ mean + d, of nodes that stay ≥ mean - d; Σ_n y_kn = load of k; d is the last column
    on_node, of_task = (
        np.kron(np.ones(tasks), np.eye(nodes)),
        np.kron(np.eye(tasks), np.ones(nodes)),
    )
    d = np.ones((nodes, 1))
    rows = np.block([[on_node, -d], [on_node[stays], d[stays]], [of_task, np.zeros((tasks, 1))]])
    least, none = np.full(stays.sum(), mean), np.full(nodes, -np.inf)
    low = np.r_[none, least, load]
    high = np.r_[np.full(nodes, mean), np.full(stays.sum(), np.inf), load]
    ceiling = np.full(tasks * nodes + 1, np.inf)
    if not into:
        away = np.arange(nodes) != made.tasks.node[:, None]
        ceiling[:-1][(away & leaving).ravel()] = 0.0
    floor = np.zeros(tasks * nodes + 1)
    found = solve_lp(np.r_[floor[:-1], 1.0], rows, low, high, floor, ceiling)
    distance = float(found.objective or 0.0)
    ceiling[-1] = distance + 1e-9
    left = np.r_[-np.tile(leaving.astype(float), tasks), 0.0]
    remains = solve_lp(left, rows, low, high, floor, ceiling)
    return {
        "loads": "divisible",
        "distance": distance,
        "moved onto leaving": 0,
        "left": max(0.0, -float(remains.objective or 0.0)),
        "proven": True,
    }


def weighted(seed: int, weighted: bool) -> Row:
    """Least d of the weighted objective, or of the lexicographic one."""
    from experiments.generators import generate
    from optim import solve

    made = generate("cluster", nodes=4, key_groups=5, max_migrations=3, seed=seed)
    result = solve(made, "balance-milp", weighted=weighted, gap=1e-4, time_limit=20.0)
    assert result.evaluation is not None
    proven = str(result.termination) == "optimal"
    return {"distance": result.evaluation.load_distance, "proven": proven}


def node_weights(seed: int, way: str) -> Row:
    """Seconds of HiGHS on the full model: equal nodes, weights 1 to 4, or a second resource."""
    import numpy as np

    from experiments.generators import generate
    from formulations.rebalancing.balance.model import build_full
    from formulations.rebalancing.problem import balance_problem
    from optim.solvers import solve_linear

    made = generate("cluster", nodes=5, key_groups=6, max_migrations=3, seed=seed)
    document = made.to_dict()
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
    from optim.format.instance import Instance

    problem = balance_problem(Instance.from_dict(document))
    built = build_full(problem)
    began = time.monotonic()
    found = solve_linear(built.model, "highs", time_limit=10.0, abs_gap=0.05, seed=seed)
    spent = time.monotonic() - began
    used = None
    if way == "memory" and found.x is not None:
        node = built.read(found.x)
        used = float(np.bincount(node, problem.usage[:, -1], problem.num_nodes).max())
    return {
        "seconds": spent,
        "distance": found.objective,
        "memory used": used,
        "memory": MEMORY if way == "memory" else None,
    }


def joint_model(nodes: int, key_groups: int, seconds: float) -> Row:
    """State and gap of the joint model after a time limit."""
    from experiments.generators.rebalancing import JOINT
    from optim import solve

    given = {"nodes": nodes, "key_groups": key_groups, "operators": nodes // 2 * 2 or 2}
    made = JOINT.make(0, {**given, "one_to_one": 50.0, "max_migrations": None})
    result = solve(made, "joint-milp", max_load_distance=10.0, time_limit=seconds)
    return {
        "nodes": nodes,
        "key groups": made.num_tasks,
        "seconds": seconds,
        "state": str(result.termination),
        "value": None if result.evaluation is None else result.evaluation.imc_gain,
        "bound": result.bound if result.objective is not None else None,
        "traffic": made.total_traffic,
    }


MEMORY = 70.0
"""Points of memory of a node, of which key groups take 60 on average."""

PATTERNS = ("one to one", "partial merge", "partial, skewed", "partial, even", "full, even")


def patterns(seed: int, pattern: str) -> Row:
    """Collocate two operators of 60 key groups on 6 nodes, by how the first sends to the second."""
    import numpy as np

    from experiments.generators.rebalancing import KeyGroups, build_instance
    from optim import solve

    rng = np.random.default_rng([seed, PATTERNS.index(pattern)])
    count, nodes = 60, 6
    chosen: list[tuple[int, int, float]] = []
    partner = rng.permutation(count)
    for sender in range(count):
        if pattern == "one to one":
            shares = {int(partner[sender]): 1.0}
        elif pattern == "partial merge":
            shares = {int(partner[sender]) // 5 * 5: 1.0}
        else:
            degree = count if pattern == "full, even" else 4
            receivers = rng.choice(count, degree, replace=False)
            skew = (0.7, 0.1, 0.1, 0.1) if pattern == "partial, skewed" else [1 / degree] * degree
            shares = dict(zip(receivers.tolist(), skew, strict=True))
        chosen += [(sender, count + target, share) for target, share in shares.items()]
    source, target, rate = (np.array(column) for column in zip(*sorted(chosen), strict=True))
    load = 2.5 * (1.0 + rng.uniform(-0.05, 0.05, 2 * count))
    home = np.arange(2 * count) % nodes
    groups = KeyGroups(
        load, home, np.repeat([0, 1], count), source, target, rate * (100.0 / rate.sum())
    )
    made = build_instance(
        pattern, "two operators", groups, [{"id": f"n{i}"} for i in range(nodes)], {}
    )
    found = solve(
        made, "joint-search", seed=seed, max_load_distance=10.0, bound="counting", steps=500
    )
    assert found.evaluation is not None
    factor = found.evaluation.collocation_factor or 0.0
    return {"collocated": 100.0 * factor}
