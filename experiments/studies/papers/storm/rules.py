"""Tables of rules that can be worked out by hand: even scheduling, bounds, units, triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from optim.format.instance import Instance


def rules(reduced: bool) -> pd.DataFrame:
    """One line a random cluster: how even the default is, whether all get workers, M(0), M(1)."""
    import numpy as np
    import pandas as pd

    from heuristics.storm.even import most_executors
    from optim import solve

    lines = []
    for seed in range(50 if reduced else 200):
        rng = np.random.default_rng(seed)
        nodes, slots = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        asked = [int(w) for w in rng.integers(1, 7, int(rng.integers(1, 4)))]
        executors = [int(e) for e in rng.integers(1, 12, len(asked))]
        made = topologies(asked, executors, nodes, slots)
        wanted = sum(min(w, e) for w, e in zip(asked, executors, strict=True))
        result: Any = solve(made, "storm-even")
        line: dict[str, Any] = {"seed": seed, "slots": nodes * slots, "wanted": wanted}
        notes = " ".join(result.notes)
        line["possible"] = result.plan is not None and "free slots for" not in notes
        if line["possible"] and result.plan is not None:
            node, slot = result.plan.node_indices(made), result.plan.slot_indices(made)
            held, across = [], []
            for t in range(len(asked)):
                mine = [
                    i
                    for o in range(made.num_operators)
                    if made.operators.topology[o] == t
                    for i in made.tasks_of(o).tolist()
                ]
                places, count = np.unique(
                    np.stack([node[mine], slot[mine]]), axis=1, return_counts=True
                )
                held.append(int(count.max() - count.min()))
                over = np.bincount(places[0], minlength=nodes)
                across.append(int(over.max() - over.min()))
            line["executors_uneven"] = max(held)
            line["workers_uneven"] = across[0]
        e, w = executors[0], min(asked[0], executors[0])
        line |= {"E": e, "W": w, "M0": most_executors(e, w, 0.0), "M1": most_executors(e, w, 1.0)}
        lines.append(line)
    return pd.DataFrame(lines)


def built(reduced: bool) -> pd.DataFrame:
    """One line a scheduler: two edges, of which the offline one cannot recognise the near-idle."""
    import pandas as pd

    from optim import solve

    lines = []
    for busy in (1.0, 10.0, 100.0):
        edges = [(0, 1, 1.0), (0, 2, busy), (1, 3, 1.0)]
        made = topologies([2], [1] * 4, 2, 1, edges=edges, one=True)
        for name, method in (
            ("default", "storm-even"), ("offline", "storm-offline"), ("online", "storm-online"),
        ):  # fmt: skip
            result: Any = solve(made, method)
            lines.append(
                {"busy_edge": busy, "scheduler": name}
                | {"nodes_traffic": result.evaluation.internode_traffic}
            )
    return pd.DataFrame(lines)


def hertz(reduced: bool) -> pd.DataFrame:
    """One line a seed: utilisation on nodes of other clocks, predicted in Hz and by the referee."""
    import numpy as np
    import pandas as pd

    from optim import Plan, evaluate

    lines = []
    for seed in range(10 if reduced else 30):
        rng = np.random.default_rng(seed)
        clock = rng.choice([1.0, 1.5, 2.0, 3.0], 3) * 1000
        share = rng.uniform(2, 15, 12)  # percent of a 1 GHz node
        made = topologies([3], [12], 3, 1, loads=(share * 10).tolist(), capacity=clock.tolist())
        node = rng.integers(0, 3, 12).astype(np.int32)
        found: Any = evaluate(made, Plan.from_indices(made, node))
        use = np.array([(share[node == n] / (clock[n] / 1000)).sum() for n in range(3)])
        seen = 100 * np.array([found.node_loads[f"n{n}"]["cpu"] for n in range(3)]) / clock
        lines.append(
            {"seed": seed, "largest_error": float(np.abs(use - seen).max())}
            | {"ten_percent_at_1_GHz": 10.0, "at_2_GHz": 10.0 * 1000 / 2000}
        )
    return pd.DataFrame(lines)


def trigger(reduced: bool) -> pd.DataFrame:
    """One line an event: when the run-time loop reschedules on overload, and on less traffic."""
    import numpy as np
    import pandas as pd

    from streamplace.policies.registry import read_planner

    def chain(rates: Any, at: Any) -> Instance:
        return topologies(
            [4], [1] * 8, 2, 2, rates=rates.tolist(), one=True, at=np.asarray(at).tolist()
        )

    lines: list[dict[str, Any]] = []
    for window in (60, 120, 300):
        planner: Any = read_planner(f"storm-trigger:window={window},interval=0,period=30", 0)
        made = topologies(
            [2], [1] * 4, 2, 2, rates=[5.0, 1.0, 5.0], one=True,
            loads=[6.0, 6.0, 1.0, 1.0], capacity=[10.0, 10.0], at=[0, 0, 1, 1],
        )  # fmt: skip
        memory: Any = {}
        fired = None
        for step in range(1, 20):
            plan = planner.plan(made, memory, 0, 30.0 * step)
            if plan.note.find("overloaded for") >= 0:
                fired = 30 * step
                break
            memory = plan.memory
        lines.append({"what": "overload", "seed": 0, "bound": window, "fired_after": fired})
    start = np.arange(8) % 2
    for gain in (5.0, 20.0, 40.0):
        planner = read_planner(f"storm-trigger:gain={gain},interval=0,alpha=1,delta=1", 0)
        for seed in range(10 if reduced else 30):
            rng = np.random.default_rng(seed)
            rates = rng.uniform(1, 20, 7)
            now = planner.planner.plan(chain(rates, start), {}, 0, 0.0).deployment.node
            made = chain(rates * rng.lognormal(0.0, 0.4, 7), now)
            taken = planner.plan(made, {}, 0, 0.0).deployment.node
            fresh = planner.planner.plan(made, {}, 0, 0.0).deployment.node
            before, after = (crossing(made, node) for node in (now, fresh))
            lines.append(
                {"what": "traffic", "seed": seed, "bound": gain}
                | {"less": 100 * (before - after) / before}
                | {"taken": bool((taken != now).any())}
            )
    planner = read_planner("storm-trigger:gain=10,interval=180,alpha=1,delta=1", 0)
    for seed in range(10 if reduced else 30):
        rng = np.random.default_rng(seed)
        rates = rng.uniform(1, 20, 7)
        fixed: Any = None
        now, memory = start, {}
        sums = np.zeros(2)
        for period in range(40):
            rates = np.clip(rates * rng.lognormal(0.0, 0.25, 7), 0.5, 60)
            if fixed is None:
                fixed = now = planner.planner.plan(chain(rates, start), {}, 0, 0.0).deployment.node
            made = chain(rates, now)
            plan = planner.plan(made, memory, 0, 60.0 * period)
            now, memory = plan.deployment.node, plan.memory
            sums += [crossing(made, fixed), crossing(made, now)]
        lines.append({"what": "drift", "seed": seed, "fixed": sums[0], "adaptive": sums[1]})
    return pd.DataFrame(lines)


def crossing(made: Instance, node: Any) -> float:
    """Return the traffic between nodes."""
    import numpy as np

    place = np.asarray(node, dtype=np.int32)
    return float(made.total_traffic - made.flows.collocated(place, made.num_nodes))


def topologies(
    workers: list[int],
    executors: list[int],
    nodes: int,
    slots: int,
    *,
    rates: list[float] | None = None,
    edges: list[tuple[int, int, float]] | None = None,
    loads: list[float] | None = None,
    capacity: list[float] | None = None,
    at: list[int] | None = None,
    one: bool = False,
) -> Instance:
    """Build topologies of one component each, or one topology that is a chain of components."""
    from optim.format.instance import Instance

    operators = [
        {"id": f"c{i}", "topology": "t0" if one else f"t{i}"} for i in range(len(executors))
    ]
    tasks: list[dict[str, Any]] = []
    for i, count in enumerate(executors):
        for k in range(count):
            load = loads[len(tasks)] if loads else 1.0
            task = {"id": f"c{i}/{k}", "operator": f"c{i}", "load": {"cpu": load}}
            if at:
                task["node"] = f"n{at[len(tasks)]}"
            tasks.append(task)
    return Instance.from_dict(
        {
            "format": "streamplace.instance/1",
            "name": "built",
            "nodes": [
                {
                    "id": f"n{n}",
                    "slots": slots,
                    "capacity": {"cpu": capacity[n] if capacity else 1e6},
                }
                for n in range(nodes)
            ],
            "topologies": [{"id": f"t{i}", "workers": w} for i, w in enumerate(workers)],
            "operators": operators,
            "tasks": tasks,
            "streams": [
                {"from": f"c{a}", "to": f"c{b}", "rate": rate}
                for a, b, rate in edges or [(i, i + 1, r) for i, r in enumerate(rates or [])]
            ],
        }
    )
