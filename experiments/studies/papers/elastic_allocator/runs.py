"""Runs of the Elastic Allocator's methods: one row a run, with every reading of use and deviation.

Three readings of use, R_util = Σ u / R_total: over the nodes *in use* by a task; over *all* nodes,
where the sum is the same wherever the load stands; and as *served*, over all nodes, where a node
or a link cannot use more than it has.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optim.format.instance import Instance
    from optim.referee.result import Result

WORKLOADS = tuple(range(200, 2001, 100))
PAPER_UNTIL = 1200
"""Workloads of the paper's figures end here, tuples/s."""

SEEDS = 30
UPLINK = 16e6
"""Bytes/s: with Even the busiest uplink is used to 59 to 95 % over the workloads of the paper."""
PROVED = 1e-6


class Entry(NamedTuple):
    """A method as it is compared: label, registered name, objective."""

    label: str
    method: str
    objective: str


FILL = Entry("GMA, fewest nodes", "gma", "used_capacity")
SPREAD = Entry("GMA, CPU deviation", "gma", "cpu_deviation")
BOTH = Entry("GMA, CPU and bandwidth", "gma", "resource_deviation")
EVEN = Entry("Even", "even", "used_capacity")
RANDOM = Entry("Random", "random", "used_capacity")
BEST_FILL = Entry("optimum, fewest nodes", "eoa-milp", "used_capacity")
BEST_SPREAD = Entry("optimum, CPU deviation", "eoa-milp", "cpu_deviation")
METHODS = (FILL, SPREAD, BOTH, EVEN, RANDOM)


def cluster_at(workload: float, seed: int = 0, **changed: float) -> Instance:
    """Return the testbed at a workload; the seed draws what the system takes of each worker."""
    from experiments.generators import generate

    return generate("eoa_testbed", seed=seed, workload=float(workload), **changed)


def run(
    instance: Instance,
    entry: Entry,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    **options: Any,
) -> tuple[dict[str, Any], Result]:
    """Run a method and return its row, and the result."""
    from optim import solve

    began = time.perf_counter()
    result = solve(
        instance,
        entry.method,
        objective=entry.objective,
        seed=seed,
        time_limit=time_limit,
        **options,
    )
    seconds = time.perf_counter() - began
    row: dict[str, Any] = {"method": entry.label, "seconds": seconds}
    row["placed"] = result.plan is not None and not any("best effort" in n for n in result.notes)
    row["kept"] = bool(result.feasible)
    row["proved"] = result.gap is not None and result.gap <= PROVED
    row["infeasible"] = str(result.termination) == "infeasible"
    if result.evaluation is not None:
        row |= figures(instance, result.evaluation)
    return row, result


def figures(instance: Instance, judged: Any) -> dict[str, float]:
    """Return use by each reading, deviation and the highest uses, from an evaluation."""
    nodes = np.array([judged.utilisation[n]["cpu"] for n in instance.nodes.ids])
    found: dict[str, float] = {
        "capacity in use": judged.used_capacity,
        "CPU, in use": judged.used_utilisation,
        "CPU, all": float(nodes.mean()),
        "CPU, served": float(np.minimum(nodes, 1.0).mean()),
        "CPU deviation": judged.cpu_deviation,
        "CPU, highest": float(nodes.max()),
        "traffic": judged.internode_traffic,
    }
    if judged.link_utilisation:
        links = np.array(list(judged.link_utilisation.values()))
        used = np.array([judged.node_tasks[n] > 0 for n in instance.nodes.ids])
        found |= {
            "bandwidth, in use": float(links[: len(used)][used].mean()),
            "bandwidth, all": float(links.mean()),
            "bandwidth, served": float(np.minimum(links, 1.0).mean()),
            "bandwidth deviation": float(np.sqrt(((links - links.mean()) ** 2).sum())),
            "bandwidth, highest": float(links.max()),
            "deviation of both": judged.resource_deviation,
        }
    return found


def without_links(instance: Instance) -> Instance:
    """Return an instance whose links carry anything: what a scheduler that sees CPU only sees."""
    return replace(instance, limits=replace(instance.limits, max_link_utilisation=np.inf))


def nodes_of(instance: Instance, result: Result) -> NDArray[np.int32]:
    """(T,) node of each task in a result's plan."""
    assert result.plan is not None
    index = {n: i for i, n in enumerate(instance.nodes.ids)}
    placed = [index[result.plan.assignment[t]] for t in instance.tasks.ids]
    return np.array(placed, dtype=np.int32)
